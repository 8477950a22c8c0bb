SELECT * FROM VALUES (1, 'a'), (2, NULL) AS v(i, z) JOIN t ON v.i = t.id;
SELECT t.id, v.col1 FROM t, (VALUES (1), (2)) v WHERE t.k = v.col1;
SELECT r.id, t.s FROM range(1, 5) r JOIN t ON t.id = r.id;
SELECT id FROM t WHERE id IN (SELECT * FROM VALUES (1), (6), (NULL));
SELECT t.id, v.* FROM t JOIN (VALUES (1, DATE'2024-01-01', 1.50, array(1, 2), TIMESTAMP'2024-01-01 00:00:00')) v(i, dy, de, ar, tm) ON t.k = v.i;
SELECT 1 AS one, 'x' AS x, id FROM t;
SELECT count(*) FROM range(5), t;
SELECT v.i + 1, t.id FROM (VALUES (1 + 1), (length('abc'))) v(i) JOIN t ON t.k = v.i
