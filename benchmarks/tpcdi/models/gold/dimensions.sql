-- Dimensions. The surrogate key of a row is its key of the business and the time from which it holds.

CREATE MATERIALIZED VIEW dim_broker AS
SELECT
    CAST(b.broker_id AS STRING) AS sk_broker_id, b.broker_id, b.manager_id, b.first_name, b.last_name,
    b.middle_initial, b.branch, b.office, b.phone, TRUE AS is_current, 1 AS batch_id,
    f.first_date AS effective_date, DATE '9999-12-31' AS end_date
FROM stg_broker b
CROSS JOIN (SELECT min(datevalue) AS first_date FROM date) f;

CREATE MATERIALIZED VIEW dim_company AS
SELECT
    sk_company_id, company_id, status, name, industry, sp_rating,
    NOT (startswith(sp_rating, 'A') OR startswith(sp_rating, 'BBB')) AS is_low_grade,
    ceo, address_line1, address_line2, postal_code, city, state_prov, country, description, founding_date,
    is_current, 1 AS batch_id, CAST(effective_at AS DATE) AS effective_date, CAST(end_at AS DATE) AS end_date
FROM company_history;

CREATE MATERIALIZED VIEW dim_security AS
SELECT
    sk_security_id, symbol, issue, status, name, exchange_id, sk_company_id, company_id, shares_outstanding,
    first_trade, first_trade_on_exchange, dividend, is_current, 1 AS batch_id,
    CAST(effective_at AS DATE) AS effective_date, CAST(end_at AS DATE) AS end_date
FROM security_history;

CREATE MATERIALIZED VIEW financial AS
SELECT
    r.sk_company_id, f.fi_year, f.fi_qtr, f.qtr_start_date, f.revenue, f.net_earn, f.basic_eps, f.dilut_eps,
    f.margin, f.inventory, f.assets, f.liability, f.out_basic, f.out_dilut
FROM stg_financial f
JOIN company_reference r
    ON f.company = r.company AND f.posted_at >= r.effective_at AND f.posted_at < r.end_at;

-- Of several prospects that are one customer, the least agency counts.
CREATE MATERIALIZED VIEW dim_customer AS
WITH matched AS (
    SELECT
        match_key, agency_id, credit_rating, net_worth, marketing_nameplate,
        row_number() OVER (PARTITION BY match_key ORDER BY agency_id) AS place
    FROM prospect_current
)
SELECT
    c.sk_customer_id, c.customer_id, c.tax_id, c.status, c.last_name, c.first_name, c.middle_initial, c.gender,
    c.tier, c.dob, c.address_line1, c.address_line2, c.postal_code, c.city, c.state_prov, c.country, c.phone1,
    c.phone2, c.phone3, lower(c.email1) AS email1, lower(c.email2) AS email2,
    n.tx_name AS national_tax_rate_desc, n.tx_rate AS national_tax_rate,
    l.tx_name AS local_tax_rate_desc, l.tx_rate AS local_tax_rate,
    p.agency_id, p.credit_rating, p.net_worth, p.marketing_nameplate,
    c.is_current, c.batch_id, c.effective_at, c.end_at
FROM customer_history c
LEFT JOIN tax_rate n ON c.national_tax_id = n.tx_id
LEFT JOIN tax_rate l ON c.local_tax_id = l.tx_id
LEFT JOIN matched p ON c.match_key = p.match_key AND c.is_current AND p.place = 1;

-- An account has a row for each time in which neither it nor its customer changes. With the customer it is inactive.
CREATE MATERIALIZED VIEW dim_account AS
SELECT
    CAST(a.account_id AS STRING) || '@' || CAST(greatest(a.effective_at, c.effective_at) AS STRING)
        AS sk_account_id,
    a.account_id,
    CAST(b.broker_id AS STRING) AS sk_broker_id,
    c.sk_customer_id,
    CASE WHEN c.status = 'Inactive' THEN c.status ELSE a.status END AS status,
    a.account_desc,
    a.tax_status,
    a.is_current AND c.is_current AS is_current,
    greatest(a.batch_id, c.batch_id) AS batch_id,
    greatest(a.effective_at, c.effective_at) AS effective_at,
    least(a.end_at, c.end_at) AS end_at
FROM account_history a
JOIN customer_history c
    ON a.customer_id = c.customer_id AND a.effective_at < c.end_at AND c.effective_at < a.end_at
LEFT JOIN stg_broker b ON a.broker_id = b.broker_id;

CREATE MATERIALIZED VIEW dim_prospect AS
SELECT
    p.agency_id,
    year(p.record_date) * 10000 + month(p.record_date) * 100 + day(p.record_date) AS sk_record_date_id,
    year(p.update_date) * 10000 + month(p.update_date) * 100 + day(p.update_date) AS sk_update_date_id,
    p.batch_id,
    EXISTS (
        SELECT 1 FROM customer_history c
        WHERE c.match_key = p.match_key AND c.is_current AND c.status = 'Active'
    ) AS is_customer,
    p.last_name, p.first_name, p.middle_initial, p.gender, p.address_line1, p.address_line2, p.postal_code, p.city,
    p.state, p.country, p.phone, p.income, p.number_cars, p.number_children, p.marital_status, p.age,
    p.credit_rating, p.own_or_rent_flag, p.employer, p.number_credit_cards, p.net_worth, p.marketing_nameplate
FROM prospect_current p;

CREATE MATERIALIZED VIEW dim_trade AS
SELECT
    t.trade_id, a.sk_broker_id,
    year(x.created_at) * 10000 + month(x.created_at) * 100 + day(x.created_at) AS sk_create_date_id,
    hour(x.created_at) * 10000 + minute(x.created_at) * 100 + second(x.created_at) AS sk_create_time_id,
    year(x.closed_at) * 10000 + month(x.closed_at) * 100 + day(x.closed_at) AS sk_close_date_id,
    hour(x.closed_at) * 10000 + minute(x.closed_at) * 100 + second(x.closed_at) AS sk_close_time_id,
    s.st_name AS status, y.tt_name AS type, t.cash_flag, e.sk_security_id, e.sk_company_id, t.quantity, t.bid_price,
    a.sk_customer_id, a.sk_account_id, t.executed_by, t.trade_price, t.fee, t.commission, t.tax, x.batch_id
FROM stg_trade t
JOIN trade_times x ON t.trade_id = x.trade_id
JOIN status_type s ON t.status_id = s.st_id
JOIN trade_type y ON t.type_id = y.tt_id
LEFT JOIN dim_account a
    ON t.account_id = a.account_id AND x.created_at >= a.effective_at AND x.created_at < a.end_at
LEFT JOIN security_history e
    ON t.symbol = e.symbol AND x.created_at >= e.effective_at AND x.created_at < e.end_at;
