CREATE MATERIALIZED VIEW dim_customers
COMMENT 'One row per customer'
AS SELECT customer_id, initcap(name) AS name, upper(country) AS country,
  CASE tier WHEN 1 THEN 'gold' WHEN 2 THEN 'silver' ELSE 'bronze' END AS tier
FROM customers;

CREATE TEMPORARY VIEW open_accounts AS
SELECT account_id, customer_id, broker FROM accounts WHERE status <> 'CLOSED';
