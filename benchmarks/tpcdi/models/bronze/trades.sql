-- Trades as their newest rows, the events of trades, and the events of watches.

CREATE MATERIALIZED VIEW stg_trade AS
WITH newest AS (
    SELECT *, row_number() OVER (PARTITION BY t_id ORDER BY batch_id DESC, cdc_dsn DESC NULLS LAST) AS place
    FROM trade
)
SELECT
    t.t_id AS trade_id,
    t.t_dts AS traded_at,
    t.t_st_id AS status_id,
    t.t_tt_id AS type_id,
    t.t_is_cash = 1 AS cash_flag,
    t.t_s_symb AS symbol,
    t.t_qty AS quantity,
    t.t_bid_price AS bid_price,
    t.t_ca_id AS account_id,
    t.t_exec_name AS executed_by,
    t.t_trade_price AS trade_price,
    t.t_chrg AS fee,
    t.t_comm AS commission,
    t.t_tax AS tax
FROM newest t
WHERE t.place = 1;

-- A market order is created when it is submitted, a limit order when it is pending.
CREATE MATERIALIZED VIEW stg_trade_event AS
SELECT
    1 AS batch_id,
    h.th_t_id AS trade_id,
    h.th_dts AS happened_at,
    (h.th_st_id = 'SBMT' AND t.type_id IN ('TMB', 'TMS')) OR h.th_st_id = 'PNDG' AS creates,
    h.th_st_id IN ('CMPT', 'CNCL') AS closes
FROM trade_history h
JOIN stg_trade t ON h.th_t_id = t.trade_id
UNION ALL
SELECT batch_id, t_id, t_dts, cdc_flag = 'I', t_st_id IN ('CMPT', 'CNCL')
FROM trade
WHERE cdc_flag IS NOT NULL;

CREATE MATERIALIZED VIEW stg_watch AS
SELECT batch_id, w_c_id AS customer_id, w_s_symb AS symbol, w_dts AS happened_at, w_action = 'ACTV' AS places
FROM watch_history;
