CREATE MATERIALIZED VIEW cash_balances AS
SELECT a.customer_id, sum(c.amount) AS balance, count(*) AS movements
FROM fact_cash c JOIN dim_accounts a ON c.account_id = a.account_id
GROUP BY a.customer_id;

CREATE MATERIALIZED VIEW sector_report AS
SELECT sector, sum(worth) AS worth, count(DISTINCT symbol) AS symbols
FROM valued_holdings GROUP BY sector;
