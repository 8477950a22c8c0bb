-- Facts.

-- The cash of an account at the end of each day on which it moved.
CREATE MATERIALIZED VIEW fact_cash_balances AS
WITH balance AS (
    SELECT
        account_id, cash_date, batch_id, cash_date + 1 AS next_date,
        sum(amount) OVER (PARTITION BY account_id ORDER BY cash_date) AS cash
    FROM cash_daily
)
SELECT
    a.sk_customer_id, a.sk_account_id,
    year(b.cash_date) * 10000 + month(b.cash_date) * 100 + day(b.cash_date) AS sk_date_id,
    b.cash, b.batch_id
FROM balance b
JOIN dim_account a
    ON b.account_id = a.account_id AND a.effective_at < CAST(b.next_date AS TIMESTAMP)
    AND a.end_at >= CAST(b.next_date AS TIMESTAMP);

CREATE MATERIALIZED VIEW fact_holdings AS
SELECT
    h.hh_h_t_id AS trade_id, h.hh_t_id AS current_trade_id, t.sk_customer_id, t.sk_account_id, t.sk_security_id,
    t.sk_company_id, t.sk_close_date_id AS sk_date_id, t.sk_close_time_id AS sk_time_id,
    t.trade_price AS current_price, h.hh_after_qty AS current_holding, h.batch_id
FROM holding_history h
JOIN dim_trade t ON h.hh_t_id = t.trade_id;

-- The earnings are those of the four quarters before that of the day.
CREATE MATERIALIZED VIEW fact_market_history AS
SELECT
    s.sk_security_id, s.sk_company_id, s.company_id, m.symbol,
    m.sk_date_id,
    CAST(m.close_price AS DOUBLE) / nullif(CAST(e.eps AS DOUBLE), 0) AS pe_ratio,
    CAST(s.dividend AS DOUBLE) / nullif(CAST(m.close_price AS DOUBLE), 0) * 100 AS yield,
    m.high AS fifty_two_week_high,
    m.sk_high_date AS sk_fifty_two_week_high_date,
    m.low AS fifty_two_week_low,
    m.sk_low_date AS sk_fifty_two_week_low_date,
    m.close_price, m.day_high, m.day_low, m.volume, m.batch_id
FROM market_year m
JOIN security_history s
    ON m.symbol = s.symbol AND CAST(m.market_date AS TIMESTAMP) >= s.effective_at
    AND CAST(m.market_date AS TIMESTAMP) < s.end_at
LEFT JOIN company_earnings e
    ON s.company_id = e.company_id
    AND e.quarter_number = year(m.market_date) * 4 + quarter(m.market_date) - 2;

CREATE MATERIALIZED VIEW fact_watches AS
SELECT
    c.sk_customer_id, s.sk_security_id,
    year(w.placed_at) * 10000 + month(w.placed_at) * 100 + day(w.placed_at) AS sk_date_placed,
    year(w.removed_at) * 10000 + month(w.removed_at) * 100 + day(w.removed_at) AS sk_date_removed,
    w.batch_id
FROM watch_times w
JOIN customer_history c
    ON w.customer_id = c.customer_id AND w.placed_at >= c.effective_at AND w.placed_at < c.end_at
JOIN security_history s
    ON w.symbol = s.symbol AND w.placed_at >= s.effective_at AND w.placed_at < s.end_at;
