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
;
SELECT id, json_tuple(j, 'a', 'b') AS (a, b) FROM e;
SELECT id, a, v FROM e LATERAL VIEW OUTER json_tuple(j, 'a', 'b') x AS a, v WHERE a IS NOT NULL;
SELECT id, json_tuple(concat('{"a": 1, "a": {"x": [1,  2.50]}, "q''s": "it", "b": null, "b": 3, "*": 4, "n": "[1,  2]", "": 0, "a": ', CAST(id AS STRING), IF(id > 3, '}', '')), 'a', 'b', 'q\'s', '*', 'n', '', 'nope', 'a', s, CAST(NULL AS STRING)) FROM t;
SELECT id, (SELECT max(x) FROM (SELECT explode(c.a) AS x)) FROM c;
SELECT id FROM c WHERE EXISTS (SELECT 1 FROM explode(c.a) AS x(v) WHERE v > 3);
SELECT c.id, x.col, u.name FROM c LEFT JOIN LATERAL explode(a) AS x ON x.col > 2 LEFT JOIN u ON u.k = x.col;
SELECT x.id, y.id FROM c x LEFT JOIN c y ON x.r = y.r AND x.id <> y.id;
SELECT x.id, y.id FROM t x JOIN t y ON x.x <=> y.x;
SELECT x.id, y.id FROM t x FULL JOIN t y ON struct(x.x, x.k) = struct(y.x, y.k);
SELECT t.id, r.id FROM range(100000, -3, -7) r JOIN t ON t.n = r.id;
SELECT id, x FROM (SELECT id, explode_outer(array()) AS x FROM c);
SELECT id, x, y FROM c LATERAL VIEW OUTER explode(a) AS x LATERAL VIEW OUTER posexplode(w) q AS p, y WHERE x > 1 OR x IS NULL;
SELECT k, explode(array(count(*), sum(n))) AS v FROM t GROUP BY k;
SELECT id, v, row_number() OVER (PARTITION BY id ORDER BY v, p) FROM c LATERAL VIEW posexplode(a) q AS p, v;
SELECT id, v FROM c LATERAL VIEW explode(a) AS v ORDER BY v DESC NULLS LAST, id LIMIT 4;
SELECT explode(a) AS v FROM c INTERSECT ALL SELECT k FROM t;
SELECT day, count(*) FROM (SELECT explode(sequence(day, date_add(day, 2))) AS day FROM t) GROUP BY day;
FROM c |> EXTEND explode(a) AS v |> AGGREGATE count(*) GROUP BY v;
SELECT id, inline_outer(CASE WHEN id > 3 THEN array(r) END) FROM c;
SELECT c.id, z.* FROM c, LATERAL inline(arrays_zip(a, w)) z;
-- refused SQL_NOT_MAINTAINED: no column of a plan is a variant
SELECT e.id, v.key, v.value::string FROM e, LATERAL variant_explode(try_parse_json(j)) v
