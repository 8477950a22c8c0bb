MODEL (
  name main.best,
  kind CUSTOM (materialization 'substrait_agg'),
  columns (most bigint)
);

SELECT max(goals) AS most FROM main.totals
