WITH a AS (SELECT k, sum(n) AS s FROM t GROUP BY k) SELECT * FROM a WHERE s > 3;
WITH a AS (SELECT * FROM t WHERE ok), b AS (SELECT k, count(*) AS c FROM a GROUP BY k) SELECT a.id, b.c FROM a JOIN b ON a.k = b.k;
WITH a(x, y) AS (SELECT id, n FROM t) SELECT x, y FROM a WHERE y IN (SELECT y FROM a WHERE x < 6);
WITH t AS (SELECT id FROM u) SELECT * FROM t;
SELECT * FROM (WITH q AS (SELECT id, k FROM u) SELECT k, max(id) FROM q GROUP BY k);
WITH a AS (WITH b AS (SELECT k FROM t) SELECT DISTINCT k FROM b) SELECT count(*) FROM a;
WITH a AS (SELECT k FROM t) SELECT id FROM u WHERE EXISTS (SELECT 1 FROM a WHERE a.k = u.k);
WITH a AS (SELECT k, n FROM t) SELECT * FROM a UNION ALL SELECT k, -n FROM a;
FROM t |> WHERE n > 3 |> AGGREGATE sum(n) AS s GROUP BY k |> WHERE s > 4;
FROM t |> SELECT id, k |> JOIN u USING (k) |> DROP name |> EXTEND amount * 2 AS twice;
TABLE u;
FROM u SELECT id WHERE k = 2;
-- refused SQL_NOT_MAINTAINED: recursion
WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < 5) SELECT i, id FROM r JOIN t ON r.i = t.k
