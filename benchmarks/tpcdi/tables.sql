-- The staging area of TPC-DI 1.1.0 (Source Data): a raw table per source file, with Spark's types.
-- A table that more than one batch fills has batch_id: 1 is the historical load, 2 and 3 are the incremental updates.
-- cdc_flag (I or U) and cdc_dsn (a number that grows) are NULL in batch 1, whose files lack them.

-- Reference data and dimensions that batch 1 alone brings.

CREATE TABLE date (
    sk_dateid BIGINT NOT NULL,
    datevalue DATE NOT NULL,
    datedesc STRING NOT NULL,
    calendaryearid INT NOT NULL,
    calendaryeardesc STRING NOT NULL,
    calendarqtrid INT NOT NULL,
    calendarqtrdesc STRING NOT NULL,
    calendarmonthid INT NOT NULL,
    calendarmonthdesc STRING NOT NULL,
    calendarweekid INT NOT NULL,
    calendarweekdesc STRING NOT NULL,
    dayofweeknum INT NOT NULL,
    dayofweekdesc STRING NOT NULL,
    fiscalyearid INT NOT NULL,
    fiscalyeardesc STRING NOT NULL,
    fiscalqtrid INT NOT NULL,
    fiscalqtrdesc STRING NOT NULL,
    holidayflag BOOLEAN NOT NULL
);

-- timevalue is text: hh:mm:ss.
CREATE TABLE time (
    sk_timeid BIGINT NOT NULL,
    timevalue STRING NOT NULL,
    hourid INT NOT NULL,
    hourdesc STRING NOT NULL,
    minuteid INT NOT NULL,
    minutedesc STRING NOT NULL,
    secondid INT NOT NULL,
    seconddesc STRING NOT NULL,
    markethoursflag BOOLEAN NOT NULL,
    officehoursflag BOOLEAN NOT NULL
);

CREATE TABLE industry (
    in_id STRING NOT NULL,
    in_name STRING NOT NULL,
    in_sc_id STRING NOT NULL
);

CREATE TABLE status_type (
    st_id STRING NOT NULL,
    st_name STRING NOT NULL
);

CREATE TABLE tax_rate (
    tx_id STRING NOT NULL,
    tx_name STRING NOT NULL,
    tx_rate DECIMAL(6, 5) NOT NULL
);

CREATE TABLE trade_type (
    tt_id STRING NOT NULL,
    tt_name STRING NOT NULL,
    tt_is_sell INT NOT NULL,
    tt_is_mrkt INT NOT NULL
);

-- Brokers have employeejobcode 314.
CREATE TABLE hr (
    employeeid BIGINT NOT NULL,
    managerid BIGINT NOT NULL,
    employeefirstname STRING NOT NULL,
    employeelastname STRING NOT NULL,
    employeemi STRING,
    employeejobcode INT,
    employeebranch STRING,
    employeeoffice STRING,
    employeephone STRING
);

-- CustomerMgmt.xml, a row per action. NULL is an element that the action does not have: for UPDCUST and UPDACCT a
-- property that stays as it is. Account columns are NULL for UPDCUST and INACT, customer columns but c_id for ADDACCT,
-- UPDACCT, CLOSEACCT and INACT.
CREATE TABLE customer_mgmt (
    action_type STRING NOT NULL,
    action_ts TIMESTAMP NOT NULL,
    c_id BIGINT NOT NULL,
    c_tax_id STRING,
    c_gndr STRING,
    c_tier INT,
    c_dob DATE,
    c_l_name STRING,
    c_f_name STRING,
    c_m_name STRING,
    c_adline1 STRING,
    c_adline2 STRING,
    c_zipcode STRING,
    c_city STRING,
    c_state_prov STRING,
    c_ctry STRING,
    c_prim_email STRING,
    c_alt_email STRING,
    c_ctry_1 STRING,
    c_area_1 STRING,
    c_local_1 STRING,
    c_ext_1 STRING,
    c_ctry_2 STRING,
    c_area_2 STRING,
    c_local_2 STRING,
    c_ext_2 STRING,
    c_ctry_3 STRING,
    c_area_3 STRING,
    c_local_3 STRING,
    c_ext_3 STRING,
    c_lcl_tx_id STRING,
    c_nat_tx_id STRING,
    ca_id BIGINT,
    ca_tax_st INT,
    ca_b_id BIGINT,
    ca_name STRING
);

-- FINWIRE, a table per record type. pts is the posting time of the record.
CREATE TABLE finwire_cmp (
    pts TIMESTAMP NOT NULL,
    companyname STRING NOT NULL,
    cik BIGINT NOT NULL,
    status STRING NOT NULL,
    industryid STRING NOT NULL,
    sprating STRING NOT NULL,
    foundingdate DATE,
    addrline1 STRING NOT NULL,
    addrline2 STRING,
    postalcode STRING NOT NULL,
    city STRING NOT NULL,
    stateprovince STRING NOT NULL,
    country STRING,
    ceoname STRING NOT NULL,
    description STRING NOT NULL
);

-- conameorcik is a CIK (ten digits, with zeros at the left) or the name of a company.
CREATE TABLE finwire_sec (
    pts TIMESTAMP NOT NULL,
    symbol STRING NOT NULL,
    issuetype STRING NOT NULL,
    status STRING NOT NULL,
    name STRING NOT NULL,
    exid STRING NOT NULL,
    shout BIGINT NOT NULL,
    firsttradedate DATE NOT NULL,
    firsttradeexchg DATE NOT NULL,
    dividend DECIMAL(10, 2) NOT NULL,
    conameorcik STRING NOT NULL
);

CREATE TABLE finwire_fin (
    pts TIMESTAMP NOT NULL,
    year INT NOT NULL,
    quarter INT NOT NULL,
    qtrstartdate DATE NOT NULL,
    postingdate DATE NOT NULL,
    revenue DECIMAL(15, 2) NOT NULL,
    earnings DECIMAL(15, 2) NOT NULL,
    eps DECIMAL(10, 2) NOT NULL,
    dilutedeps DECIMAL(10, 2) NOT NULL,
    margin DECIMAL(10, 2) NOT NULL,
    inventory DECIMAL(15, 2) NOT NULL,
    assets DECIMAL(15, 2) NOT NULL,
    liabilities DECIMAL(15, 2) NOT NULL,
    shout BIGINT NOT NULL,
    dilutedshout BIGINT NOT NULL,
    conameorcik STRING NOT NULL
);

CREATE TABLE trade_history (
    th_t_id BIGINT NOT NULL,
    th_dts TIMESTAMP NOT NULL,
    th_st_id STRING NOT NULL
);

-- Tables of all batches.

CREATE TABLE batch_date (
    batch_id INT NOT NULL,
    batchdate DATE NOT NULL
);

-- Each batch has all prospects of its day.
CREATE TABLE prospect (
    batch_id INT NOT NULL,
    agencyid STRING NOT NULL,
    lastname STRING NOT NULL,
    firstname STRING NOT NULL,
    middleinitial STRING,
    gender STRING,
    addressline1 STRING,
    addressline2 STRING,
    postalcode STRING,
    city STRING NOT NULL,
    state STRING NOT NULL,
    country STRING,
    phone STRING,
    income BIGINT,
    numbercars INT,
    numberchildren INT,
    maritalstatus STRING,
    age INT,
    creditrating INT,
    ownorrentflag STRING,
    employer STRING,
    numbercreditcards INT,
    networth BIGINT
);

CREATE TABLE trade (
    batch_id INT NOT NULL,
    cdc_flag STRING,
    cdc_dsn BIGINT,
    t_id BIGINT NOT NULL,
    t_dts TIMESTAMP NOT NULL,
    t_st_id STRING NOT NULL,
    t_tt_id STRING NOT NULL,
    t_is_cash INT NOT NULL,
    t_s_symb STRING NOT NULL,
    t_qty INT NOT NULL,
    t_bid_price DECIMAL(8, 2) NOT NULL,
    t_ca_id BIGINT NOT NULL,
    t_exec_name STRING NOT NULL,
    t_trade_price DECIMAL(8, 2),
    t_chrg DECIMAL(10, 2),
    t_comm DECIMAL(10, 2),
    t_tax DECIMAL(10, 2)
);

CREATE TABLE cash_transaction (
    batch_id INT NOT NULL,
    cdc_flag STRING,
    cdc_dsn BIGINT,
    ct_ca_id BIGINT NOT NULL,
    ct_dts TIMESTAMP NOT NULL,
    ct_amt DECIMAL(10, 2) NOT NULL,
    ct_name STRING NOT NULL
);

CREATE TABLE daily_market (
    batch_id INT NOT NULL,
    cdc_flag STRING,
    cdc_dsn BIGINT,
    dm_date DATE NOT NULL,
    dm_s_symb STRING NOT NULL,
    dm_close DECIMAL(8, 2) NOT NULL,
    dm_high DECIMAL(8, 2) NOT NULL,
    dm_low DECIMAL(8, 2) NOT NULL,
    dm_vol BIGINT NOT NULL
);

CREATE TABLE holding_history (
    batch_id INT NOT NULL,
    cdc_flag STRING,
    cdc_dsn BIGINT,
    hh_h_t_id BIGINT NOT NULL,
    hh_t_id BIGINT NOT NULL,
    hh_before_qty INT NOT NULL,
    hh_after_qty INT NOT NULL
);

CREATE TABLE watch_history (
    batch_id INT NOT NULL,
    cdc_flag STRING,
    cdc_dsn BIGINT,
    w_c_id BIGINT NOT NULL,
    w_s_symb STRING NOT NULL,
    w_dts TIMESTAMP NOT NULL,
    w_action STRING NOT NULL
);

-- Tables of batches 2 and 3 alone, for what customer_mgmt is in batch 1: whole rows as they are after the change.

CREATE TABLE customer (
    batch_id INT NOT NULL,
    cdc_flag STRING NOT NULL,
    cdc_dsn BIGINT NOT NULL,
    c_id BIGINT NOT NULL,
    c_tax_id STRING NOT NULL,
    c_st_id STRING NOT NULL,
    c_l_name STRING NOT NULL,
    c_f_name STRING NOT NULL,
    c_m_name STRING,
    c_gndr STRING,
    c_tier INT,
    c_dob DATE NOT NULL,
    c_adline1 STRING NOT NULL,
    c_adline2 STRING,
    c_zipcode STRING NOT NULL,
    c_city STRING NOT NULL,
    c_state_prov STRING NOT NULL,
    c_ctry STRING,
    c_ctry_1 STRING,
    c_area_1 STRING,
    c_local_1 STRING,
    c_ext_1 STRING,
    c_ctry_2 STRING,
    c_area_2 STRING,
    c_local_2 STRING,
    c_ext_2 STRING,
    c_ctry_3 STRING,
    c_area_3 STRING,
    c_local_3 STRING,
    c_ext_3 STRING,
    c_email_1 STRING,
    c_email_2 STRING,
    c_lcl_tx_id STRING NOT NULL,
    c_nat_tx_id STRING NOT NULL
);

CREATE TABLE account (
    batch_id INT NOT NULL,
    cdc_flag STRING NOT NULL,
    cdc_dsn BIGINT NOT NULL,
    ca_id BIGINT NOT NULL,
    ca_b_id BIGINT NOT NULL,
    ca_c_id BIGINT NOT NULL,
    ca_name STRING,
    ca_tax_st INT NOT NULL,
    ca_st_id STRING NOT NULL
);
