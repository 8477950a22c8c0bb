SELECT * FROM (SELECT k, ok, n FROM t) PIVOT (sum(n) FOR ok IN (true, false));
SELECT * FROM (SELECT k, s, n FROM t) PIVOT (sum(n) AS total, count(*) AS c FOR s IN ('apple' AS a, 'banana' AS b));
-- open: PIVOT
SELECT * FROM (SELECT k, ok, day, n FROM t) PIVOT (max(n) FOR (k, ok) IN ((1, true) AS a, (2, false) AS b));
SELECT * FROM (SELECT id, k, n FROM t) UNPIVOT (v FOR name IN (k, n));
SELECT * FROM (SELECT id, k, n FROM t) UNPIVOT INCLUDE NULLS (v FOR name IN (k AS a, n AS b));
SELECT * FROM (SELECT id, k, CAST(n AS INT) AS n FROM t WHERE n < 1000) UNPIVOT ((p, q) FOR pair IN ((k, n) AS kn, (n, k) AS nk))
