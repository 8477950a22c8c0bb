-- When trades and watches begin and end, and the cash of accounts by day.

CREATE MATERIALIZED VIEW trade_times AS
SELECT
    trade_id,
    min(batch_id) AS batch_id,
    min(CASE WHEN creates THEN happened_at END) AS created_at,
    max(CASE WHEN closes THEN happened_at END) AS closed_at
FROM stg_trade_event
GROUP BY trade_id;

CREATE MATERIALIZED VIEW watch_times AS
SELECT
    customer_id,
    symbol,
    min(batch_id) AS batch_id,
    min(CASE WHEN places THEN happened_at END) AS placed_at,
    max(CASE WHEN NOT places THEN happened_at END) AS removed_at
FROM stg_watch
GROUP BY customer_id, symbol;

CREATE MATERIALIZED VIEW cash_daily AS
SELECT
    ct_ca_id AS account_id,
    CAST(ct_dts AS DATE) AS cash_date,
    max(batch_id) AS batch_id,
    sum(ct_amt) AS amount,
    count(*) AS transactions
FROM cash_transaction
GROUP BY ct_ca_id, CAST(ct_dts AS DATE);
