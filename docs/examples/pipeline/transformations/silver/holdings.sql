CREATE OR REPLACE MATERIALIZED VIEW holdings AS
SELECT account_id, symbol, sum(quantity) AS quantity, count(*) AS trades
FROM trades_clean
GROUP BY account_id, symbol;

CREATE MATERIALIZED VIEW last_prices (symbol, price, days) AS
SELECT symbol, max(price), count(DISTINCT trade_date)
FROM trades_clean
GROUP BY symbol;
