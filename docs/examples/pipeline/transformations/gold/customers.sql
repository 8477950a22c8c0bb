CREATE TEMPORARY VIEW customer_totals AS
SELECT customer_id, sum(amount) AS amount, count(*) AS positions
FROM positions
GROUP BY customer_id;

CREATE MATERIALIZED VIEW customer_value AS
SELECT c.customer_id, c.name, c.tier, t.amount, t.positions
FROM customers c
JOIN customer_totals t ON c.customer_id = t.customer_id;
