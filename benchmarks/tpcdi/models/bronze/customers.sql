-- The actions of CustomerMgmt.xml, each kind in a view of its own, and the rows that later batches bring.

CREATE MATERIALIZED VIEW stg_customer_mgmt AS
SELECT
    action_type,
    action_ts AS effective_at,
    c_id AS customer_id,
    c_tax_id AS tax_id,
    c_l_name AS last_name,
    c_f_name AS first_name,
    c_m_name AS middle_initial,
    CASE
        WHEN upper(c_gndr) IN ('M', 'F') THEN upper(c_gndr)
        WHEN action_type = 'NEW' OR c_gndr IS NOT NULL THEN 'U'
    END AS gender,
    c_tier AS tier,
    c_dob AS dob,
    c_adline1 AS address_line1,
    c_adline2 AS address_line2,
    c_zipcode AS postal_code,
    c_city AS city,
    c_state_prov AS state_prov,
    c_ctry AS country,
    CASE WHEN c_ctry_1 IS NOT NULL AND c_area_1 IS NOT NULL THEN '+' || c_ctry_1 || ' ' ELSE '' END
        || CASE WHEN c_area_1 IS NOT NULL THEN '(' || c_area_1 || ') ' ELSE '' END
        || c_local_1
        || coalesce(c_ext_1, '') AS phone1,
    CASE WHEN c_ctry_2 IS NOT NULL AND c_area_2 IS NOT NULL THEN '+' || c_ctry_2 || ' ' ELSE '' END
        || CASE WHEN c_area_2 IS NOT NULL THEN '(' || c_area_2 || ') ' ELSE '' END
        || c_local_2
        || coalesce(c_ext_2, '') AS phone2,
    CASE WHEN c_ctry_3 IS NOT NULL AND c_area_3 IS NOT NULL THEN '+' || c_ctry_3 || ' ' ELSE '' END
        || CASE WHEN c_area_3 IS NOT NULL THEN '(' || c_area_3 || ') ' ELSE '' END
        || c_local_3
        || coalesce(c_ext_3, '') AS phone3,
    c_prim_email AS email1,
    c_alt_email AS email2,
    c_lcl_tx_id AS local_tax_id,
    c_nat_tx_id AS national_tax_id,
    ca_id AS account_id,
    ca_tax_st AS tax_status,
    ca_b_id AS broker_id,
    ca_name AS account_desc
FROM customer_mgmt;

CREATE MATERIALIZED VIEW stg_customer_new AS
SELECT
    customer_id, effective_at, 'Active' AS status, tax_id, last_name, first_name, middle_initial, gender, tier, dob,
    address_line1, address_line2, postal_code, city, state_prov, country, phone1, phone2, phone3, email1, email2,
    local_tax_id, national_tax_id
FROM stg_customer_mgmt
WHERE action_type = 'NEW';

CREATE MATERIALIZED VIEW stg_customer_update AS
SELECT
    customer_id, effective_at, 'Active' AS status, tax_id, last_name, first_name, middle_initial, gender, tier, dob,
    address_line1, address_line2, postal_code, city, state_prov, country, phone1, phone2, phone3, email1, email2,
    local_tax_id, national_tax_id
FROM stg_customer_mgmt
WHERE action_type = 'UPDCUST';

CREATE MATERIALIZED VIEW stg_customer_inactive AS
SELECT customer_id, effective_at, 'Inactive' AS status
FROM stg_customer_mgmt
WHERE action_type = 'INACT';

CREATE MATERIALIZED VIEW stg_account_new AS
SELECT account_id, customer_id, effective_at, 'Active' AS status, broker_id, account_desc, tax_status
FROM stg_customer_mgmt
WHERE action_type IN ('NEW', 'ADDACCT');

CREATE MATERIALIZED VIEW stg_account_update AS
SELECT account_id, customer_id, effective_at, 'Active' AS status, broker_id, account_desc, tax_status
FROM stg_customer_mgmt
WHERE action_type = 'UPDACCT';

CREATE MATERIALIZED VIEW stg_account_close AS
SELECT account_id, customer_id, effective_at, 'Inactive' AS status
FROM stg_customer_mgmt
WHERE action_type = 'CLOSEACCT';

-- Of the rows of a customer in one batch, the last one counts.
CREATE MATERIALIZED VIEW stg_customer_cdc AS
WITH newest AS (
    SELECT *, row_number() OVER (PARTITION BY c_id, batch_id ORDER BY cdc_dsn DESC) AS place
    FROM customer
)
SELECT
    c.batch_id,
    c.c_id AS customer_id,
    b.effective_at,
    s.st_name AS status,
    c.c_tax_id AS tax_id,
    c.c_l_name AS last_name,
    c.c_f_name AS first_name,
    c.c_m_name AS middle_initial,
    CASE WHEN upper(c.c_gndr) IN ('M', 'F') THEN upper(c.c_gndr) ELSE 'U' END AS gender,
    c.c_tier AS tier,
    c.c_dob AS dob,
    c.c_adline1 AS address_line1,
    c.c_adline2 AS address_line2,
    c.c_zipcode AS postal_code,
    c.c_city AS city,
    c.c_state_prov AS state_prov,
    c.c_ctry AS country,
    CASE WHEN c_ctry_1 IS NOT NULL AND c_area_1 IS NOT NULL THEN '+' || c_ctry_1 || ' ' ELSE '' END
        || CASE WHEN c_area_1 IS NOT NULL THEN '(' || c_area_1 || ') ' ELSE '' END
        || c_local_1
        || coalesce(c_ext_1, '') AS phone1,
    CASE WHEN c_ctry_2 IS NOT NULL AND c_area_2 IS NOT NULL THEN '+' || c_ctry_2 || ' ' ELSE '' END
        || CASE WHEN c_area_2 IS NOT NULL THEN '(' || c_area_2 || ') ' ELSE '' END
        || c_local_2
        || coalesce(c_ext_2, '') AS phone2,
    CASE WHEN c_ctry_3 IS NOT NULL AND c_area_3 IS NOT NULL THEN '+' || c_ctry_3 || ' ' ELSE '' END
        || CASE WHEN c_area_3 IS NOT NULL THEN '(' || c_area_3 || ') ' ELSE '' END
        || c_local_3
        || coalesce(c_ext_3, '') AS phone3,
    c.c_email_1 AS email1,
    c.c_email_2 AS email2,
    c.c_lcl_tx_id AS local_tax_id,
    c.c_nat_tx_id AS national_tax_id
FROM newest c
JOIN stg_batch b ON c.batch_id = b.batch_id
LEFT JOIN status_type s ON c.c_st_id = s.st_id
WHERE c.place = 1;

CREATE MATERIALIZED VIEW stg_account_cdc AS
WITH newest AS (
    SELECT *, row_number() OVER (PARTITION BY ca_id, batch_id ORDER BY cdc_dsn DESC) AS place
    FROM account
)
SELECT
    a.batch_id,
    a.ca_id AS account_id,
    a.ca_c_id AS customer_id,
    b.effective_at,
    s.st_name AS status,
    a.ca_b_id AS broker_id,
    a.ca_name AS account_desc,
    a.ca_tax_st AS tax_status
FROM newest a
JOIN stg_batch b ON a.batch_id = b.batch_id
LEFT JOIN status_type s ON a.ca_st_id = s.st_id
WHERE a.place = 1;

CREATE MATERIALIZED VIEW stg_broker AS
SELECT
    employeeid AS broker_id,
    managerid AS manager_id,
    employeefirstname AS first_name,
    employeelastname AS last_name,
    employeemi AS middle_initial,
    employeebranch AS branch,
    employeeoffice AS office,
    employeephone AS phone
FROM hr
WHERE employeejobcode = 314;

-- match_key is what says that a prospect is a customer.
CREATE MATERIALIZED VIEW stg_prospect AS
SELECT
    batch_id,
    agencyid AS agency_id,
    lastname AS last_name,
    firstname AS first_name,
    middleinitial AS middle_initial,
    CASE WHEN upper(gender) IN ('M', 'F') THEN upper(gender) ELSE 'U' END AS gender,
    addressline1 AS address_line1,
    addressline2 AS address_line2,
    postalcode AS postal_code,
    city,
    state,
    country,
    phone,
    income,
    numbercars AS number_cars,
    numberchildren AS number_children,
    maritalstatus AS marital_status,
    age,
    creditrating AS credit_rating,
    ownorrentflag AS own_or_rent_flag,
    employer,
    numbercreditcards AS number_credit_cards,
    networth AS net_worth,
    upper(
        lastname || '|' || firstname || '|' || coalesce(addressline1, '') || '|' || coalesce(addressline2, '') || '|'
        || coalesce(postalcode, '')
    ) AS match_key,
    nullif(substring(
        CASE WHEN networth > 1000000 OR income > 200000 THEN '+HighValue' ELSE '' END
        || CASE WHEN numberchildren > 3 OR numbercreditcards > 5 THEN '+Expenses' ELSE '' END
        || CASE WHEN age > 45 THEN '+Boomer' ELSE '' END
        || CASE WHEN income < 50000 OR creditrating < 600 OR networth < 100000 THEN '+MoneyAlert' ELSE '' END
        || CASE WHEN numbercars > 3 OR numbercreditcards > 7 THEN '+Spender' ELSE '' END
        || CASE WHEN age < 25 AND networth > 1000000 THEN '+Inherited' ELSE '' END,
        2
    ), '') AS marketing_nameplate
FROM prospect;
