-- Histories of customers, accounts and prospects.

-- An update of batch 1 has only what changes: the rest is that of the row before.
CREATE MATERIALIZED VIEW customer_history AS
WITH event AS (
    SELECT
        1 AS batch_id, TRUE AS whole, customer_id, effective_at, status, tax_id, last_name, first_name,
        middle_initial, gender, tier, dob, address_line1, address_line2, postal_code, city, state_prov, country,
        phone1, phone2, phone3, email1, email2, local_tax_id, national_tax_id
    FROM stg_customer_new
    UNION ALL
    SELECT
        1, FALSE, customer_id, effective_at, status, tax_id, last_name, first_name,
        middle_initial, gender, tier, dob, address_line1, address_line2, postal_code, city, state_prov, country,
        phone1, phone2, phone3, email1, email2, local_tax_id, national_tax_id
    FROM stg_customer_update
    UNION ALL
    SELECT
        1, FALSE, customer_id, effective_at, status, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
        NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM stg_customer_inactive
    UNION ALL
    SELECT
        batch_id, TRUE, customer_id, effective_at, status, tax_id, last_name, first_name,
        middle_initial, gender, tier, dob, address_line1, address_line2, postal_code, city, state_prov, country,
        phone1, phone2, phone3, email1, email2, local_tax_id, national_tax_id
    FROM stg_customer_cdc
),
filled AS (
    SELECT
        batch_id, customer_id, effective_at, status,
        CASE WHEN whole THEN tax_id ELSE last_value(tax_id) IGNORE NULLS OVER w END AS tax_id,
        CASE WHEN whole THEN last_name ELSE last_value(last_name) IGNORE NULLS OVER w END AS last_name,
        CASE WHEN whole THEN first_name ELSE last_value(first_name) IGNORE NULLS OVER w END AS first_name,
        CASE WHEN whole THEN middle_initial ELSE last_value(middle_initial) IGNORE NULLS OVER w END AS middle_initial,
        CASE WHEN whole THEN gender ELSE last_value(gender) IGNORE NULLS OVER w END AS gender,
        CASE WHEN whole THEN tier ELSE last_value(tier) IGNORE NULLS OVER w END AS tier,
        CASE WHEN whole THEN dob ELSE last_value(dob) IGNORE NULLS OVER w END AS dob,
        CASE WHEN whole THEN address_line1 ELSE last_value(address_line1) IGNORE NULLS OVER w END AS address_line1,
        CASE WHEN whole THEN address_line2 ELSE last_value(address_line2) IGNORE NULLS OVER w END AS address_line2,
        CASE WHEN whole THEN postal_code ELSE last_value(postal_code) IGNORE NULLS OVER w END AS postal_code,
        CASE WHEN whole THEN city ELSE last_value(city) IGNORE NULLS OVER w END AS city,
        CASE WHEN whole THEN state_prov ELSE last_value(state_prov) IGNORE NULLS OVER w END AS state_prov,
        CASE WHEN whole THEN country ELSE last_value(country) IGNORE NULLS OVER w END AS country,
        CASE WHEN whole THEN phone1 ELSE last_value(phone1) IGNORE NULLS OVER w END AS phone1,
        CASE WHEN whole THEN phone2 ELSE last_value(phone2) IGNORE NULLS OVER w END AS phone2,
        CASE WHEN whole THEN phone3 ELSE last_value(phone3) IGNORE NULLS OVER w END AS phone3,
        CASE WHEN whole THEN email1 ELSE last_value(email1) IGNORE NULLS OVER w END AS email1,
        CASE WHEN whole THEN email2 ELSE last_value(email2) IGNORE NULLS OVER w END AS email2,
        CASE WHEN whole THEN local_tax_id ELSE last_value(local_tax_id) IGNORE NULLS OVER w END AS local_tax_id,
        CASE WHEN whole THEN national_tax_id ELSE last_value(national_tax_id) IGNORE NULLS OVER w END
            AS national_tax_id,
        lead(effective_at) OVER (PARTITION BY customer_id ORDER BY effective_at) AS next_at
    FROM event
    WINDOW w AS (
        PARTITION BY customer_id ORDER BY effective_at ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    )
)
SELECT
    CAST(customer_id AS STRING) || '@' || CAST(effective_at AS STRING) AS sk_customer_id,
    batch_id, customer_id, status, tax_id, last_name, first_name, middle_initial, gender, tier, dob, address_line1,
    address_line2, postal_code, city, state_prov, country, phone1, phone2, phone3, email1, email2, local_tax_id,
    national_tax_id, effective_at,
    coalesce(next_at, TIMESTAMP '9999-12-31 00:00:00') AS end_at,
    next_at IS NULL AS is_current,
    upper(
        last_name || '|' || first_name || '|' || coalesce(address_line1, '') || '|' || coalesce(address_line2, '')
        || '|' || coalesce(postal_code, '')
    ) AS match_key
FROM filled;

CREATE MATERIALIZED VIEW account_history AS
WITH event AS (
    SELECT
        1 AS batch_id, TRUE AS whole, account_id, customer_id, effective_at, status, broker_id, account_desc,
        tax_status
    FROM stg_account_new
    UNION ALL
    SELECT 1, FALSE, account_id, customer_id, effective_at, status, broker_id, account_desc, tax_status
    FROM stg_account_update
    UNION ALL
    SELECT 1, FALSE, account_id, customer_id, effective_at, status, NULL, NULL, NULL
    FROM stg_account_close
    UNION ALL
    SELECT batch_id, TRUE, account_id, customer_id, effective_at, status, broker_id, account_desc, tax_status
    FROM stg_account_cdc
),
filled AS (
    SELECT
        batch_id, account_id, customer_id, effective_at, status,
        CASE WHEN whole THEN broker_id ELSE last_value(broker_id) IGNORE NULLS OVER w END AS broker_id,
        CASE WHEN whole THEN account_desc ELSE last_value(account_desc) IGNORE NULLS OVER w END AS account_desc,
        CASE WHEN whole THEN tax_status ELSE last_value(tax_status) IGNORE NULLS OVER w END AS tax_status,
        lead(effective_at) OVER (PARTITION BY account_id ORDER BY effective_at) AS next_at
    FROM event
    WINDOW w AS (
        PARTITION BY account_id ORDER BY effective_at ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    )
)
SELECT
    batch_id, account_id, customer_id, status, broker_id, account_desc, tax_status, effective_at,
    coalesce(next_at, TIMESTAMP '9999-12-31 00:00:00') AS end_at,
    next_at IS NULL AS is_current
FROM filled;

-- Each prospect as it was listed last, with the batch that changed it last.
CREATE MATERIALIZED VIEW prospect_current AS
WITH content AS (
    SELECT
        *,
        last_name || '|' || first_name || '|' || coalesce(middle_initial, '') || '|' || coalesce(gender, '')
        || '|' || coalesce(address_line1, '') || '|' || coalesce(address_line2, '')
        || '|' || coalesce(postal_code, '') || '|' || coalesce(city, '') || '|' || coalesce(state, '')
        || '|' || coalesce(country, '') || '|' || coalesce(phone, '') || '|' || coalesce(CAST(income AS STRING), '')
        || '|' || coalesce(CAST(number_cars AS STRING), '') || '|' || coalesce(CAST(number_children AS STRING), '')
        || '|' || coalesce(marital_status, '') || '|' || coalesce(CAST(age AS STRING), '')
        || '|' || coalesce(CAST(credit_rating AS STRING), '') || '|' || coalesce(own_or_rent_flag, '')
        || '|' || coalesce(employer, '') || '|' || coalesce(CAST(number_credit_cards AS STRING), '')
        || '|' || coalesce(CAST(net_worth AS STRING), '') AS content
    FROM stg_prospect
),
compared AS (
    SELECT *, content IS NOT DISTINCT FROM lag(content) OVER (PARTITION BY agency_id ORDER BY batch_id) AS same
    FROM content
),
placed AS (
    SELECT
        *,
        max(CASE WHEN NOT same THEN batch_id END) OVER (PARTITION BY agency_id) AS changed_batch_id,
        row_number() OVER (PARTITION BY agency_id ORDER BY batch_id DESC) AS place
    FROM compared
)
SELECT
    p.agency_id, p.batch_id AS record_batch_id, p.changed_batch_id AS batch_id, r.batch_date AS record_date,
    u.batch_date AS update_date, p.last_name, p.first_name, p.middle_initial, p.gender, p.address_line1,
    p.address_line2, p.postal_code, p.city, p.state, p.country, p.phone, p.income, p.number_cars, p.number_children,
    p.marital_status, p.age, p.credit_rating, p.own_or_rent_flag, p.employer, p.number_credit_cards, p.net_worth,
    p.marketing_nameplate, p.match_key
FROM placed p
JOIN stg_batch r ON p.batch_id = r.batch_id
JOIN stg_batch u ON p.changed_batch_id = u.batch_id
WHERE p.place = 1;
