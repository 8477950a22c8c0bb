CREATE MATERIALIZED VIEW totals AS
SELECT home AS team, count(*) AS matches, sum(goals) AS goals
FROM matches
WHERE goals IS NOT NULL
GROUP BY home;
