-- The tables that other tables refer to, which batch 1 alone fills.

CREATE MATERIALIZED VIEW dim_date AS
SELECT
    sk_dateid AS sk_date_id, datevalue AS date_value, datedesc AS date_desc, calendaryearid AS calendar_year_id,
    calendaryeardesc AS calendar_year_desc, calendarqtrid AS calendar_qtr_id, calendarqtrdesc AS calendar_qtr_desc,
    calendarmonthid AS calendar_month_id, calendarmonthdesc AS calendar_month_desc,
    calendarweekid AS calendar_week_id, calendarweekdesc AS calendar_week_desc, dayofweeknum AS day_of_week_num,
    dayofweekdesc AS day_of_week_desc, fiscalyearid AS fiscal_year_id, fiscalyeardesc AS fiscal_year_desc,
    fiscalqtrid AS fiscal_qtr_id, fiscalqtrdesc AS fiscal_qtr_desc, holidayflag AS holiday_flag
FROM date;

CREATE MATERIALIZED VIEW dim_time AS
SELECT
    sk_timeid AS sk_time_id, timevalue AS time_value, hourid AS hour_id, hourdesc AS hour_desc,
    minuteid AS minute_id, minutedesc AS minute_desc, secondid AS second_id, seconddesc AS second_desc,
    markethoursflag AS market_hours_flag, officehoursflag AS office_hours_flag
FROM time;

CREATE MATERIALIZED VIEW dim_industry AS
SELECT in_id, in_name, in_sc_id FROM industry;

CREATE MATERIALIZED VIEW dim_status_type AS
SELECT st_id, st_name FROM status_type;

CREATE MATERIALIZED VIEW dim_tax_rate AS
SELECT tx_id, tx_name, tx_rate FROM tax_rate;

CREATE MATERIALIZED VIEW dim_trade_type AS
SELECT tt_id, tt_name, tt_is_sell = 1 AS tt_is_sell, tt_is_mrkt = 1 AS tt_is_mrkt FROM trade_type;
