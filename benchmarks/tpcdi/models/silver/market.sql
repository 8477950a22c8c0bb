-- Histories of companies and securities, earnings, and the year before each day of the market.

CREATE MATERIALIZED VIEW company_history AS
SELECT
    CAST(company_id AS STRING) || '@' || CAST(posted_at AS STRING) AS sk_company_id,
    company_id, name, status, industry,
    CASE
        WHEN sp_rating IN (
            'AAA', 'AA+', 'AA', 'AA-', 'A+', 'A', 'A-', 'BBB+', 'BBB', 'BBB-', 'BB+', 'BB', 'BB-', 'B+', 'B', 'B-',
            'CCC+', 'CCC', 'CCC-', 'CC', 'C', 'D'
        ) THEN sp_rating
    END AS sp_rating,
    sp_rating AS given_rating,
    founding_date, address_line1, address_line2, postal_code, city, state_prov, country, ceo, description,
    posted_at AS effective_at,
    lead(posted_at, 1, TIMESTAMP '9999-12-31 00:00:00') OVER w AS end_at,
    lead(posted_at) OVER w IS NULL AS is_current
FROM stg_company
WINDOW w AS (PARTITION BY company_id ORDER BY posted_at);

-- A record of FINWIRE refers to a company by its number of ten digits, or by its name.
CREATE MATERIALIZED VIEW company_reference AS
SELECT
    substring(CAST(company_id + 10000000000 AS STRING), 2, 10) AS company,
    sk_company_id, company_id, effective_at, end_at
FROM company_history
UNION ALL
SELECT name, sk_company_id, company_id, effective_at, end_at
FROM company_history;

CREATE MATERIALIZED VIEW security_history AS
SELECT
    s.symbol || '@' || CAST(s.posted_at AS STRING) AS sk_security_id,
    s.symbol, s.issue, s.status, s.name, s.exchange_id, r.sk_company_id, r.company_id, s.shares_outstanding,
    s.first_trade, s.first_trade_on_exchange, s.dividend, s.posted_at AS effective_at,
    lead(s.posted_at, 1, TIMESTAMP '9999-12-31 00:00:00') OVER w AS end_at,
    lead(s.posted_at) OVER w IS NULL AS is_current
FROM stg_security s
LEFT JOIN company_reference r
    ON s.company = r.company AND s.posted_at >= r.effective_at AND s.posted_at < r.end_at
WINDOW w AS (PARTITION BY s.symbol ORDER BY s.posted_at, r.company_id);

-- The earnings per share of four quarters together, by the number of the last one.
CREATE MATERIALIZED VIEW company_earnings AS
WITH newest AS (
    SELECT
        r.company_id, f.quarter_number, f.basic_eps,
        row_number() OVER (PARTITION BY r.company_id, f.quarter_number ORDER BY f.posted_at DESC) AS place
    FROM stg_financial f
    JOIN company_reference r
        ON f.company = r.company AND f.posted_at >= r.effective_at AND f.posted_at < r.end_at
)
SELECT
    company_id,
    quarter_number,
    sum(basic_eps) OVER (
        PARTITION BY company_id ORDER BY quarter_number RANGE BETWEEN 3 PRECEDING AND CURRENT ROW
    ) AS eps
FROM newest
WHERE place = 1;

-- A price and its day in one number: the greatest, or least, price has the first of its days.
CREATE MATERIALIZED VIEW market_year AS
WITH quote AS (
    SELECT
        batch_id, dm_s_symb AS symbol, dm_date AS market_date, dm_close AS close_price, dm_high AS day_high,
        dm_low AS day_low, dm_vol AS volume,
        year(dm_date) * 10000 + month(dm_date) * 100 + day(dm_date) AS sk_date_id,
        CAST(dm_high * 100 AS BIGINT) * 100000000 AS high_units,
        CAST(dm_low * 100 AS BIGINT) * 100000000 AS low_units
    FROM daily_market
)
SELECT
    batch_id, symbol, market_date, sk_date_id, close_price, day_high, day_low, volume,
    max(day_high) OVER w AS high,
    99999999 - max(high_units + 99999999 - sk_date_id) OVER w % 100000000 AS sk_high_date,
    min(day_low) OVER w AS low,
    min(low_units + sk_date_id) OVER w % 100000000 AS sk_low_date
FROM quote
WINDOW w AS (PARTITION BY symbol ORDER BY market_date RANGE BETWEEN INTERVAL '364' DAY PRECEDING AND CURRENT ROW);
