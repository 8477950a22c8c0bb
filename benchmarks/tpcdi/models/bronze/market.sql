-- Companies, securities and financial statements of FINWIRE, with names in place of codes.

CREATE MATERIALIZED VIEW stg_batch AS
SELECT batch_id, batchdate AS batch_date, CAST(batchdate AS TIMESTAMP) AS effective_at
FROM batch_date;

CREATE MATERIALIZED VIEW stg_company AS
SELECT
    c.pts AS posted_at,
    c.cik AS company_id,
    trim(c.companyname) AS name,
    s.st_name AS status,
    i.in_name AS industry,
    trim(c.sprating) AS sp_rating,
    c.foundingdate AS founding_date,
    trim(c.addrline1) AS address_line1,
    trim(c.addrline2) AS address_line2,
    trim(c.postalcode) AS postal_code,
    trim(c.city) AS city,
    trim(c.stateprovince) AS state_prov,
    trim(c.country) AS country,
    trim(c.ceoname) AS ceo,
    trim(c.description) AS description
FROM finwire_cmp c
LEFT JOIN status_type s ON c.status = s.st_id
LEFT JOIN industry i ON c.industryid = i.in_id;

CREATE MATERIALIZED VIEW stg_security AS
SELECT
    f.pts AS posted_at,
    trim(f.symbol) AS symbol,
    trim(f.issuetype) AS issue,
    s.st_name AS status,
    trim(f.name) AS name,
    trim(f.exid) AS exchange_id,
    f.shout AS shares_outstanding,
    f.firsttradedate AS first_trade,
    f.firsttradeexchg AS first_trade_on_exchange,
    f.dividend,
    trim(f.conameorcik) AS company
FROM finwire_sec f
LEFT JOIN status_type s ON f.status = s.st_id;

CREATE MATERIALIZED VIEW stg_financial AS
SELECT
    pts AS posted_at,
    year AS fi_year,
    quarter AS fi_qtr,
    year * 4 + quarter - 1 AS quarter_number,
    qtrstartdate AS qtr_start_date,
    postingdate AS posting_date,
    revenue,
    earnings AS net_earn,
    eps AS basic_eps,
    dilutedeps AS dilut_eps,
    margin,
    inventory,
    assets,
    liabilities AS liability,
    shout AS out_basic,
    dilutedshout AS out_dilut,
    trim(conameorcik) AS company
FROM finwire_fin;
