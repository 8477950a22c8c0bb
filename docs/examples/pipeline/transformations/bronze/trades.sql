-- The trades as they come in, without those that were cancelled.
CREATE STREAMING TABLE trades_clean
COMMENT 'Trades that were executed'
AS SELECT trade_id, account_id, symbol, quantity, price, status, trade_date
FROM STREAM trades
WHERE status <> 'CNCL';
