SELECT id, year(day), month(day), day(day), quarter(day), dayofweek(day), weekday(day), dayofyear(day), weekofyear(day) FROM t;
SELECT id, year(ts), month(ts), dayofmonth(ts), hour(ts), minute(ts), second(ts), hour(tn), minute(tn), second(tn) FROM t;
SELECT id, extract(YEAROFWEEK FROM day), extract(DOW FROM day), extract(SECOND FROM ts), date_part('doy', tn), datepart('hour', ts) FROM t;
SELECT id, day + 1, day - 30, date_add(day, k), date_sub(day, 2), add_months(day, 1), last_day(day), next_day(day, 'MON') FROM t;
SELECT id, datediff(day, DATE'2024-01-01'), date_diff(day, DATE'2000-02-29'), months_between(day, DATE'2024-01-31'), day - DATE'2024-01-01' > INTERVAL '0' DAY FROM t;
SELECT id, trunc(day, 'MM'), trunc(day, 'YEAR'), trunc(day, 'WEEK'), date_trunc('HOUR', ts), date_trunc('quarter', tn), date_trunc('DAY', day) FROM t;
SELECT id, date_format(ts, 'yyyy-MM-dd'), date_format(tn, 'yyyy-MM-dd HH:mm:ss'), date_format(ts, 'HH.mm'), date_format(day, 'yyyy-MM-dd_ss'), date_format(day, 'yyyy/MM/dd'), date_format(ts, 'HH:mm EEE'), date_format(tn, 'yyyy-DDD'), dayname(day), monthname(day) FROM t;
SELECT id, to_date(string(day)), to_date('2024/01/05', 'yyyy/MM/dd'), to_timestamp('2024-01-05 01:02:03'), try_to_timestamp(s), try_to_date(s) FROM t;
SELECT id, unix_date(day), date_from_unix_date(k), unix_seconds(ts), unix_millis(ts), unix_micros(ts), timestamp_seconds(n), timestamp_millis(n), timestamp_micros(n) FROM t;
SELECT id, unix_timestamp(ts), to_unix_timestamp(day), from_unixtime(n), from_unixtime(n, 'yyyy') FROM t;
SELECT id, make_date(2024, 2, k), make_timestamp(2024, 1, k, 1, 2, 3.5), make_timestamp_ntz(2024, 1, k, 0, 0, 0), try_make_timestamp(2024, 13, k, 0, 0, 0) FROM t;
SELECT id, from_utc_timestamp(ts, 'Europe/Berlin'), to_utc_timestamp(ts, 'America/New_York'), convert_timezone('UTC', 'Asia/Tokyo', tn) FROM t;
SELECT id, ts + INTERVAL 1 DAY, ts - INTERVAL '2' HOUR, tn + INTERVAL '1 02:03:04' DAY TO SECOND, day + INTERVAL 1 MONTH, day - INTERVAL 1 YEAR FROM t;
SELECT id, timestampadd(HOUR, 5, tn), timestampdiff(DAY, tn, TIMESTAMP_NTZ'2024-01-01 00:00:00'), dateadd(MONTH, 1, day) FROM t;
SELECT id, day > DATE'2020-01-01', ts < TIMESTAMP'2024-01-01 00:00:00', tn BETWEEN TIMESTAMP_NTZ'2000-01-01' AND TIMESTAMP_NTZ'2024-12-31', day = tn, ts = day FROM t;
SELECT day, count(*), min(ts), max(tn) FROM t GROUP BY day;
SELECT year(day) AS y, month(ts) AS m, count(*) FROM t GROUP BY ALL;
SELECT id, CAST(day AS TIMESTAMP), CAST(ts AS DATE), CAST(tn AS DATE), CAST(ts AS TIMESTAMP_NTZ), CAST(tn AS TIMESTAMP), CAST(ts AS BIGINT) FROM t;
SELECT id, CAST(ts - TIMESTAMP'2024-01-01 00:00:00' AS STRING), extract(DAY FROM ts - TIMESTAMP'2024-01-01 00:00:00') FROM t;
SELECT id, to_char(day, 'yyyy'), date(string(day)), timestamp(tn), timestampdiff(MONTH, day, DATE'2024-01-01') FROM t;
SELECT window.start, count(*) FROM t GROUP BY window(ts, '1 day');
-- refused SQL_NOT_DETERMINISTIC: the local time
SELECT id, localtimestamp() IS NULL FROM t WHERE day < DATE'2020-01-01' AND id < 0;
SELECT id, to_timestamp_ntz('2024-01-01 00:00:00'), to_timestamp_ltz('2024-01-01'), make_ym_interval(1, k) > INTERVAL '1' YEAR, make_dt_interval(k) > INTERVAL '1' DAY FROM t;
SELECT max(day) - min(day) > INTERVAL '10' DAY, date_add(max(day), 1), datediff(max(day), min(day)) FROM t
