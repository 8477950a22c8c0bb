SELECT id, explode(a) FROM c;
SELECT id, explode_outer(a) FROM c;
SELECT id, posexplode(a) AS (p, v) FROM c;
SELECT id, v FROM c LATERAL VIEW explode(a) AS v;
SELECT id, v FROM c LATERAL VIEW OUTER explode(w) AS v;
SELECT id, key, value FROM c LATERAL VIEW explode(m) f;
SELECT v, count(*) FROM c LATERAL VIEW explode(a) AS v GROUP BY v;
SELECT id, inline(array(r, r)) FROM c;
SELECT id, stack(2, id, 'a', id + 1, 'b') AS (i, z) FROM c;
SELECT c.id, x.col FROM c, LATERAL explode(a) AS x;
SELECT id, posexplode_outer(w) FROM c;
SELECT t.id, v.col FROM t JOIN LATERAL explode(array(t.k, t.id)) v;
SELECT * FROM explode(array(1, 2)) AS v(i) JOIN t ON t.k = v.i
