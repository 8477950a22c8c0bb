CREATE MATERIALIZED VIEW tier_value AS
SELECT tier, count(*) AS customers, sum(amount) AS amount, max(amount) AS greatest
FROM customer_value
GROUP BY tier;

CREATE MATERIALIZED VIEW broker_report AS
SELECT broker, symbol, sum(quantity) AS quantity, sum(amount) AS amount
FROM positions
GROUP BY broker, symbol
HAVING count(*) > 0;
