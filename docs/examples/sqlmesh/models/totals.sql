MODEL (
  name main.totals,
  kind CUSTOM (
    materialization 'substrait_agg',
    materialization_properties ('raw.matches' = 'parquet:matches')
  ),
  columns (team text, matches bigint, goals bigint)
);

SELECT team, count(*) AS matches, sum(goals) AS goals FROM main.home_goals GROUP BY team
