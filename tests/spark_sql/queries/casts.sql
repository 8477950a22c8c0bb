SELECT id, CAST(n AS INT), CAST(k AS DOUBLE), CAST(d AS DOUBLE), CAST(k AS DECIMAL(10, 1)), CAST(n AS STRING), CAST(d AS STRING), CAST(ok AS STRING) FROM t WHERE n < 1000;
SELECT id, CAST(d AS INT), CAST(d AS BIGINT), CAST(d AS DECIMAL(12, 1)), CAST(x AS FLOAT), CAST(x AS STRING), CAST(k AS BOOLEAN), CAST(ok AS INT) FROM t;
SELECT id, try_cast(num AS INT), try_cast(num AS DOUBLE), try_cast(num AS DECIMAL(5, 1)), try_cast(num AS BOOLEAN), try_cast(line AS DATE) FROM e;
SELECT id, try_cast(s AS INT), try_cast(x AS INT), try_cast(n AS TINYINT), try_cast(d AS DECIMAL(3, 2)), try_cast(s AS TIMESTAMP) FROM t;
SELECT id, CAST(a AS ARRAY<STRING>), CAST(a AS ARRAY<BIGINT>), CAST(r AS STRUCT<p: BIGINT, q: STRING>), CAST(m AS MAP<STRING, STRING>), CAST(a AS STRING), CAST(r AS STRING), CAST(m AS STRING) FROM c;
SELECT id, tinyint(k), smallint(k), int(k), bigint(k), float(k), double(k), decimal(k), boolean(k), binary(s), date(ts) FROM t;
SELECT id, n::string, '5'::int + id, day::timestamp, '2024-01-01'::date > day, CAST('12:30:00' AS STRING) FROM t;
SELECT id, CAST(raw AS STRING), CAST(num AS BINARY), try_cast(url AS INT) FROM e WHERE id <> 4;
SELECT id, CAST(x AS DECIMAL(10, 3)), CAST(x AS BIGINT), x::int FROM t WHERE x BETWEEN -1000 AND 1000;
SELECT id, k + '1', d + '0.5', s || id, n = '3', day = '2024-02-29', day > '2020-01-01', ts >= '2024-01-01' FROM t;
SELECT id, NULL, CAST(NULL AS INT), CAST(NULL AS DATE), 1Y, 2S, 3L, 1.5BD, 2.5D, 1.5F, 1e3, X'1F', TRUE FROM t;
SELECT id, CAST(f AS DOUBLE), f + 1, f = 1.1, CAST(f AS STRING), CAST(f AS DECIMAL(5, 2)), round(f, 1) FROM (SELECT id, CAST(d AS FLOAT) AS f FROM t WHERE d < 1000);
SELECT id, position(s, s) + CAST(0 AS DECIMAL(10, 2)), if(position(s, s) > 1, d, CAST(1.1 AS DECIMAL(10, 2)) + k), position(s, s) + CAST(0.0000001 AS DECIMAL(30, 10)) * -1.5BD FROM t;
SELECT id, element_at(map(1, CAST(1 AS DECIMAL(12, 4))), k) + d, transform(array(d), x -> x * CAST(3 AS DECIMAL(8, 3))), concat(array(1.5BD, CAST(2 AS DECIMAL(20, 5))), array(d)) FROM t WHERE k = 1
