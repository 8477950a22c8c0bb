CREATE MATERIALIZED VIEW accounts_active AS
SELECT account_id, customer_id, broker FROM accounts WHERE closed = 0;
