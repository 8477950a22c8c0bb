CREATE MATERIALIZED VIEW holdings AS
SELECT account_id, symbol, sum(quantity) AS quantity, count(*) AS trades
FROM trades_clean
GROUP BY account_id, symbol;

CREATE MATERIALIZED VIEW last_prices AS
SELECT symbol, max(price) AS price, count(DISTINCT trade_date) AS days
FROM trades_clean
GROUP BY symbol;
