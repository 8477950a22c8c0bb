-- What is wrong with the data, and how many rows each batch brought to each table.

CREATE MATERIALIZED VIEW di_messages AS
SELECT
    c.batch_id, 'DimCustomer' AS message_source, 'Alert' AS message_type, 'Invalid customer tier' AS message_text,
    'C_ID = ' || CAST(c.customer_id AS STRING) || ', C_TIER = ' || coalesce(CAST(c.tier AS STRING), '')
        AS message_data
FROM customer_history c
WHERE c.tier IS NULL OR c.tier NOT IN (1, 2, 3)
UNION ALL
SELECT
    c.batch_id, 'DimCustomer', 'Alert', 'DOB out of range',
    'C_ID = ' || CAST(c.customer_id AS STRING) || ', C_DOB = ' || CAST(c.dob AS STRING)
FROM customer_history c
JOIN stg_batch b ON c.batch_id = b.batch_id
WHERE c.dob > b.batch_date
    OR year(c.dob) * 10000 + month(c.dob) * 100 + day(c.dob) + 1000000
        < year(b.batch_date) * 10000 + month(b.batch_date) * 100 + day(b.batch_date)
UNION ALL
SELECT
    1, 'DimCompany', 'Alert', 'Invalid SPRating',
    'CO_ID = ' || CAST(company_id AS STRING) || ', CO_SP_RATE = ' || given_rating
FROM company_history
WHERE sp_rating IS NULL
UNION ALL
SELECT
    batch_id, 'DimTrade', 'Alert', 'Invalid trade commission',
    'T_ID = ' || CAST(trade_id AS STRING) || ', T_COMM = ' || CAST(commission AS STRING)
FROM dim_trade
WHERE commission > quantity * trade_price
UNION ALL
SELECT
    batch_id, 'DimTrade', 'Alert', 'Invalid trade fee',
    'T_ID = ' || CAST(trade_id AS STRING) || ', T_CHRG = ' || CAST(fee AS STRING)
FROM dim_trade
WHERE fee > quantity * trade_price
UNION ALL
SELECT
    batch_id, 'FactMarketHistory', 'Alert', 'No earnings for company',
    'DM_S_SYMB = ' || symbol || ', DM_DATE = ' || CAST(sk_date_id AS STRING)
FROM fact_market_history
WHERE pe_ratio IS NULL;

CREATE MATERIALIZED VIEW audit AS
SELECT 'DimBroker' AS data_set, batch_id, count(*) AS row_count FROM dim_broker GROUP BY batch_id
UNION ALL
SELECT 'DimCompany', batch_id, count(*) FROM dim_company GROUP BY batch_id
UNION ALL
SELECT 'DimSecurity', batch_id, count(*) FROM dim_security GROUP BY batch_id
UNION ALL
SELECT 'DimCustomer', batch_id, count(*) FROM dim_customer GROUP BY batch_id
UNION ALL
SELECT 'DimAccount', batch_id, count(*) FROM dim_account GROUP BY batch_id
UNION ALL
SELECT 'Prospect', batch_id, count(*) FROM dim_prospect GROUP BY batch_id
UNION ALL
SELECT 'DimTrade', batch_id, count(*) FROM dim_trade GROUP BY batch_id
UNION ALL
SELECT 'FactCashBalances', batch_id, count(*) FROM fact_cash_balances GROUP BY batch_id
UNION ALL
SELECT 'FactHoldings', batch_id, count(*) FROM fact_holdings GROUP BY batch_id
UNION ALL
SELECT 'FactMarketHistory', batch_id, count(*) FROM fact_market_history GROUP BY batch_id
UNION ALL
SELECT 'FactWatches', batch_id, count(*) FROM fact_watches GROUP BY batch_id
UNION ALL
SELECT 'DImessages', batch_id, count(*) FROM di_messages GROUP BY batch_id;
