SELECT id FROM t WHERE s COLLATE UTF8_LCASE = 'Apple';
SELECT id, upper(s COLLATE UNICODE), lower(s COLLATE UNICODE_CI), initcap(s COLLATE UTF8_LCASE) FROM t;
SELECT id, contains(s COLLATE UTF8_LCASE, 'APP'), startswith(s COLLATE UNICODE_CI, 'APP'), endswith(s COLLATE de_CI_AI, 'UBER') FROM t;
SELECT id, collation(s), collation(s COLLATE de_CI_AI), collation(s COLLATE unicode_rtrim) FROM t;
SELECT id, s COLLATE UNICODE_CI_RTRIM = 'APPLE  ', s COLLATE UTF8_BINARY_RTRIM = '  pad' FROM t;
SELECT id, s COLLATE de_CI_AI = 'apfel uber', s COLLATE de_AI < 'Banane', s COLLATE UNICODE <=> 'apple' FROM t;
SELECT id, s COLLATE UTF8_LCASE IN ('Banana', 'APPLE', NULL), s COLLATE UNICODE_CI NOT IN ('Banana') FROM t;
SELECT id, s COLLATE UTF8_LCASE LIKE 'AP%', s COLLATE UTF8_LCASE ILIKE '%NAN_', s COLLATE UTF8_LCASE RLIKE 'A' FROM t;
SELECT id, CASE s COLLATE UTF8_LCASE WHEN 'Apple' THEN 'x' WHEN 'BANANA' THEN 'y' ELSE s END FROM t;
SELECT id FROM t WHERE s COLLATE UTF8_LCASE BETWEEN 'APPLE' AND 'Banana';
SELECT id, s COLLATE UNICODE, CAST(s COLLATE UNICODE_CI AS STRING) = 'APPLE', (s COLLATE UNICODE_CI) COLLATE UTF8_BINARY = 'APPLE' FROM t;
SELECT id, replace(s COLLATE UTF8_LCASE, 'AP', '-'), instr(s COLLATE UTF8_LCASE, 'PL'), split_part(s COLLATE UNICODE_CI, 'P', 2) FROM t;
SELECT id, translate(s COLLATE UTF8_LCASE, 'APL', 'xyz'), trim('A' FROM s COLLATE UTF8_LCASE), length(s COLLATE UNICODE_RTRIM) FROM t;
SELECT id, nullif(s COLLATE UTF8_LCASE, 'APPLE'), coalesce(s COLLATE UNICODE_CI, 'none'), s COLLATE UNICODE_CI || '!' FROM t;
SELECT id, greatest(s COLLATE UNICODE, 'b'), least(s COLLATE UNICODE_CI, 'B') FROM t;
SELECT id, array_contains(w, 'A' COLLATE UTF8_LCASE), array_distinct(transform(w, x -> upper(x) COLLATE UTF8_LCASE)) FROM c;
SELECT id, exists(w, x -> x COLLATE UTF8_LCASE = 'B'), named_struct('q', r.q COLLATE UTF8_LCASE).q = 'ONE' FROM c;
SELECT id, hash(s COLLATE UTF8_LCASE), length(concat(s COLLATE UNICODE, 'x')), s COLLATE UTF8_LCASE IS NULL FROM t;
SELECT if(n > 3, s COLLATE UTF8_LCASE, 'none') = 'APPLE' AS a, id FROM t;
SELECT lower(s), count(*), sum(n) FROM t GROUP BY s COLLATE UTF8_LCASE, lower(s);
SELECT lower(name), n FROM (SELECT s COLLATE UTF8_LCASE AS name, count(*) AS n FROM t GROUP BY 1);
SELECT lower(name), count(*), min(id), max(n) FROM (SELECT s COLLATE UNICODE_CI AS name, id, n FROM t) GROUP BY name HAVING count(*) > 1 OR name = 'BANANA';
SELECT rtrim(lower(name)), count(*) FROM (SELECT s COLLATE UNICODE_CI_RTRIM AS name FROM t UNION ALL SELECT concat(upper(s), '  ') COLLATE UNICODE_CI_RTRIM FROM t) GROUP BY name;
SELECT count(DISTINCT s COLLATE UTF8_LCASE), count(DISTINCT s), count(s COLLATE UTF8_LCASE), count(DISTINCT s COLLATE UNICODE_CI, k) FROM t;
SELECT lower(min(s COLLATE UTF8_LCASE)), lower(max(s COLLATE UNICODE_CI)), lower(max(s COLLATE UNICODE_CI) FILTER (WHERE n > 3)) FROM t;
SELECT k, lower(min(s COLLATE UNICODE)), lower(max(s COLLATE de_CI_AI)) FROM t GROUP BY k;
SELECT min_by(id, s COLLATE UNICODE) FROM t WHERE lower(s) <> 'apple';
SELECT k, max_by(n, s COLLATE UNICODE), size(collect_list(s COLLATE UTF8_LCASE)) FROM t WHERE s <> 'apple' GROUP BY k;
SELECT lower(name), k FROM (SELECT DISTINCT s COLLATE UTF8_LCASE AS name, k FROM t);
SELECT lower(name) FROM (SELECT s COLLATE UTF8_LCASE AS name FROM t UNION SELECT upper(name) COLLATE UTF8_LCASE FROM u);
SELECT lower(name) FROM (SELECT s COLLATE UTF8_LCASE AS name FROM t INTERSECT SELECT upper(s) COLLATE UTF8_LCASE FROM t);
SELECT lower(name) FROM (SELECT s COLLATE UTF8_LCASE AS name FROM t EXCEPT SELECT 'BANANA' COLLATE UTF8_LCASE);
-- refused SQL_NOT_MAINTAINED: rows of a collation would have to be counted
SELECT lower(name) FROM (SELECT s COLLATE UTF8_LCASE AS name FROM t EXCEPT ALL SELECT 'BANANA' COLLATE UTF8_LCASE);
-- refused SQL_NOT_MAINTAINED: rows of a collation would have to be counted
SELECT lower(name) FROM (SELECT s COLLATE UTF8_LCASE AS name FROM t INTERSECT ALL SELECT 'BANANA' COLLATE UTF8_LCASE);
SELECT a.id, b.id FROM t AS a JOIN t AS b ON a.s COLLATE UTF8_LCASE = b.s;
SELECT a.id, b.id FROM t AS a, t AS b WHERE a.s COLLATE UNICODE_CI = upper(b.s) AND a.n > 0;
SELECT a.id, b.name FROM (SELECT id, s COLLATE UTF8_LCASE AS s FROM t) AS a LEFT JOIN (SELECT upper(s) COLLATE UTF8_LCASE AS s, k AS name FROM t) AS b ON a.s = b.s;
SELECT a.id, b.id FROM t AS a FULL JOIN u AS b ON a.s COLLATE de_CI_AI <=> b.name;
SELECT a.id, b.id FROM t AS a JOIN u AS b ON a.k = b.k AND a.s COLLATE UNICODE < b.name COLLATE UNICODE;
SELECT id FROM t WHERE s COLLATE UTF8_LCASE IN (SELECT upper(s) FROM t WHERE n > 3);
SELECT id FROM t WHERE s COLLATE UTF8_LCASE NOT IN (SELECT upper(s) FROM t WHERE n > 5);
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE upper(u.name) COLLATE UTF8_LCASE = t.s) OR n > 3;
SELECT id, (SELECT max(b.id) FROM t AS b WHERE b.s COLLATE UTF8_LCASE = a.s) FROM t AS a;
SELECT id, s COLLATE UTF8_LCASE IN (SELECT upper(s) FROM t WHERE n > 5) FROM t WHERE s IS NOT NULL;
SELECT id FROM t ORDER BY s COLLATE UNICODE NULLS LAST, id LIMIT 4;
SELECT id FROM t ORDER BY s COLLATE UNICODE_CI DESC, id LIMIT 3 OFFSET 1;
SELECT id, s FROM t ORDER BY s COLLATE de, id;
SELECT id, row_number() OVER (ORDER BY s COLLATE UNICODE_CI, id), rank() OVER (ORDER BY s COLLATE UTF8_LCASE) FROM t;
SELECT id, count(*) OVER (PARTITION BY s COLLATE UTF8_LCASE), sum(n) OVER (PARTITION BY s COLLATE UNICODE_CI ORDER BY id) FROM t;
SELECT id, lower(max(s COLLATE UTF8_LCASE) OVER (PARTITION BY k)), lag(s COLLATE UTF8_LCASE) OVER (ORDER BY id) = 'APPLE' FROM t;
SELECT lower(name), k, count(*) FROM (SELECT s COLLATE UTF8_LCASE AS name, k FROM t) GROUP BY ROLLUP (name, k);
SELECT lower(name), a, b FROM (SELECT s COLLATE UTF8_LCASE AS name, k, n FROM t) PIVOT (sum(n) FOR k IN (1 AS a, 2 AS b));
-- refused SQL_NOT_MAINTAINED: the keys of a pivot are compared by their bytes
SELECT * FROM (SELECT s COLLATE UTF8_LCASE AS name, k, n FROM t) PIVOT (sum(n) FOR name IN ('APPLE' AS a));
SELECT lower(st.q), count(*) FROM (SELECT struct(s COLLATE UTF8_LCASE AS q, k) AS st FROM t) GROUP BY st;
SELECT count(*) FROM (SELECT transform(w, x -> x COLLATE UTF8_LCASE) AS w FROM c) GROUP BY w;
SELECT id, x FROM (SELECT id, transform(w, x -> x COLLATE UTF8_LCASE) AS w FROM c) LATERAL VIEW explode(w) AS x WHERE x > 'A';
SELECT listagg(s COLLATE UTF8_LCASE, ',' COLLATE UTF8_LCASE) WITHIN GROUP (ORDER BY s COLLATE UTF8_LCASE) FROM t WHERE s <> 'apple';
-- refused SQL_TYPES: Spark has no such set
SELECT collect_set(s COLLATE UTF8_LCASE) FROM t;
-- refused SQL_NOT_MAINTAINED: the values are told apart by their bytes
SELECT mode(s COLLATE UTF8_LCASE) FROM t;
-- refused SQL_NOT_MAINTAINED: the values are told apart by their bytes
SELECT approx_count_distinct(s COLLATE UTF8_LCASE) FROM t;
-- refused SQL_NOT_MAINTAINED: the values are told apart by their bytes
SELECT collect_list(DISTINCT s COLLATE UTF8_LCASE) FROM t;
WITH names AS (SELECT s COLLATE UTF8_LCASE AS name, n FROM t) SELECT lower(first(a.name)), sum(a.n) FROM names AS a JOIN names AS b ON a.name = b.name GROUP BY b.name;
SELECT lower(name), count(DISTINCT other) FROM (SELECT s COLLATE UTF8_LCASE AS name, upper(s) COLLATE UNICODE_CI AS other FROM t) WHERE name = other COLLATE UTF8_LCASE GROUP BY name;
SELECT lower(name), id FROM (SELECT s COLLATE UTF8_LCASE AS name, id, row_number() OVER (PARTITION BY s COLLATE UTF8_LCASE ORDER BY id) AS r FROM t) WHERE r = 1;
SELECT a.id FROM t AS a LEFT ANTI JOIN u AS b ON a.s COLLATE UTF8_LCASE = b.name;
-- refused SQL_NOT_MAINTAINED: the value of a subquery
SELECT id FROM t WHERE (SELECT max(upper(s)) FROM t) COLLATE UTF8_LCASE = s;
-- refused SQL_NOT_MAINTAINED: the value of a subquery
SELECT id FROM t WHERE s COLLATE UTF8_LCASE = (SELECT max(upper(s)) FROM t WHERE s LIKE 'a%');
-- refused SQL_NOT_MAINTAINED: keys of maps are compared by their bytes
SELECT count(*) FROM (SELECT map(s COLLATE UTF8_LCASE, n) AS m FROM t WHERE s IS NOT NULL) GROUP BY m;
SELECT id, map(s COLLATE UTF8_LCASE, n)['APPLE'] FROM t WHERE s IS NOT NULL;
SELECT grouping(name), lower(name), count(*) FROM (SELECT s COLLATE UTF8_LCASE AS name, k FROM t) GROUP BY GROUPING SETS ((name, k), (name));
SELECT lower(name), name = other, count(*) FROM (SELECT s COLLATE UTF8_LCASE AS name, upper(s) COLLATE UTF8_LCASE AS other FROM t) GROUP BY name, other;
SELECT bool_or(s COLLATE UTF8_LCASE = 'APPLE'), count_if(s COLLATE UTF8_LCASE = 'APPLE'), lower(any_value(s COLLATE UTF8_LCASE) FILTER (WHERE id = 8)) FROM t;
SELECT id, percent_rank() OVER (ORDER BY s COLLATE UTF8_LCASE), lower(first(s COLLATE UTF8_LCASE) OVER (PARTITION BY k ORDER BY id)) FROM t;
SELECT id, count(*) OVER (ORDER BY s COLLATE UTF8_LCASE RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) FROM t;
SELECT a.id, b.id FROM t AS a LEFT JOIN (SELECT id, k, s COLLATE UTF8_LCASE AS name FROM t) AS b ON a.k = b.k AND b.name = 'APPLE';
WITH names AS (SELECT id, k, s COLLATE UTF8_LCASE AS name FROM t) SELECT a.id, b.id FROM names AS a JOIN names AS b ON a.k = b.k AND a.name < b.name AND a.name IN ('APPLE', 'BANANA', '');
WITH names AS (SELECT id, k, upper(s) COLLATE UTF8_LCASE AS name FROM t) SELECT a.id, b.id FROM t AS a JOIN names AS b ON a.k = b.k AND contains(b.name, a.s COLLATE UTF8_LCASE);
WITH names AS (SELECT id, s COLLATE UTF8_LCASE AS name FROM t) SELECT id, name = 'APPLE' OR name IS NULL, least(name, 'B') FROM names WHERE name IN ('aPPle', 'banana') OR id IN (SELECT id FROM names WHERE name > 'M')
