-- Each position with its customer and its value.
CREATE MATERIALIZED VIEW positions
TBLPROPERTIES ('quality' = 'silver')
AS
SELECT h.account_id, a.customer_id, a.broker, h.symbol, h.quantity, h.quantity * p.price AS amount
FROM holdings h
JOIN accounts_active a ON h.account_id = a.account_id
JOIN last_prices p ON h.symbol = p.symbol
WHERE h.quantity <> 0;
