SELECT id, make_dt_interval(k, id, 1, 2.5), INTERVAL '1 02:03:04.5' DAY TO SECOND AS b, INTERVAL '5' HOUR AS c, INTERVAL '-90' SECOND AS f FROM t;
SELECT k, sum(tn - day), avg(tn - day), min(tn - day), max(tn - day), count(tn - day), count(DISTINCT tn - day), sum(make_dt_interval(id)) FILTER (WHERE ok) FROM t GROUP BY k;
SELECT k, string(sum(y)), string(avg(y)), string(min(y)), string(max(y)), count(y), string(median(y)), string(sum(DISTINCT y)) FROM (SELECT k, make_ym_interval(k, id) AS y FROM t) GROUP BY k;
SELECT k, median(make_dt_interval(id)), percentile(make_dt_interval(id), 0.3), collect_list(make_dt_interval(id)) FROM t GROUP BY k;
SELECT string(make_ym_interval(k)) AS y, make_dt_interval(k) AS d, count(*) FROM t GROUP BY CUBE (make_ym_interval(k), make_dt_interval(k));
SELECT y.a IS NULL, string(l[1]), n FROM (SELECT struct(make_ym_interval(k) AS a) AS y, array(NULL, make_ym_interval(k)) AS l, count(*) AS n FROM t GROUP BY 1, 2);
SELECT string(y) FROM (SELECT DISTINCT make_ym_interval(0, k) AS y FROM t EXCEPT SELECT make_ym_interval(0, k) FROM u WHERE k > 1);
SELECT make_dt_interval(k) AS x FROM t UNION SELECT make_dt_interval(k) FROM u;
SELECT t.id, u.id FROM t LEFT JOIN u ON make_ym_interval(0, t.k) = make_ym_interval(0, u.k);
SELECT t.id, u.id FROM t JOIN u ON make_dt_interval(t.id) BETWEEN make_dt_interval(u.k) AND make_dt_interval(u.k + 1);
SELECT id, day - DATE'2024-01-01' AS d FROM t ORDER BY d DESC, id LIMIT 3;
SELECT id, string(d) FROM (SELECT id, make_ym_interval(0, k) AS d FROM t ORDER BY d, id LIMIT 3);
SELECT id, sum(make_dt_interval(id)) OVER (PARTITION BY k ORDER BY id), avg(make_dt_interval(n)) OVER (PARTITION BY k), lag(make_dt_interval(id)) OVER (ORDER BY id), rank() OVER (ORDER BY make_ym_interval(k)) FROM t WHERE n < 1000;
SELECT id, CAST(h AS STRING), CAST(y AS STRING) FROM (SELECT DISTINCT id, CAST(id || '' AS INTERVAL HOUR) AS h, CAST(id || '' AS INTERVAL YEAR) AS y FROM t);
SELECT id, h + INTERVAL '1' DAY, h * 2, h / 3, -h, abs(h), day + y, tn + h, string(y * 1.5) FROM (SELECT DISTINCT id, day, tn, make_dt_interval(id) AS h, make_ym_interval(id) AS y FROM t);
SELECT id, extract(HOUR FROM h), extract(MONTH FROM y), string(CAST(y AS INTERVAL YEAR)), transform(l, x -> string(x * 2)) FROM (SELECT DISTINCT id, make_dt_interval(id, 5) AS h, make_ym_interval(0, id) AS y, array(make_ym_interval(k)) AS l FROM t);
SELECT id, CASE WHEN k > 1 THEN INTERVAL '1' DAY ELSE INTERVAL '2' HOUR END AS c, string(coalesce(make_ym_interval(k), INTERVAL '1' MONTH)) AS d, greatest(make_dt_interval(k), make_dt_interval(id)) AS g FROM t;
SELECT u.id, v.a, string(v.b) FROM VALUES (INTERVAL '1' DAY, INTERVAL '2' YEAR), (INTERVAL '3' DAY, NULL) AS v(a, b) JOIN u ON make_dt_interval(u.k) = v.a;
SELECT id, string(v) FROM (SELECT id, explode(array(make_ym_interval(k), make_ym_interval(id))) AS v FROM t);
SELECT id, map('x', make_dt_interval(id)) AS m, struct(make_dt_interval(k) AS a) AS s FROM t;
-- refused SQL_NOT_MAINTAINED: no column of a plan is an interval of months, days and microseconds
SELECT id, make_interval(k, id) AS c FROM t;
SELECT id, string(make_interval(k, id)), day + make_interval(0, k) FROM t;
SELECT id, date_trunc('hour', ts) + make_interval(0, 0, 0, 1), ts + make_interval(0, 1, 0, 1, 0, 0, 0.5), array_contains(array(ts + make_interval(1, 2)), ts) FROM t
