CREATE MATERIALIZED VIEW best AS SELECT max(goals) AS most FROM totals;
