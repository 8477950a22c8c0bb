SELECT id, (SELECT max(amount) FROM u) FROM t;
SELECT id, (SELECT count(*) FROM u WHERE u.k = t.k) FROM t;
SELECT id, (SELECT max(name) FROM u WHERE u.k = t.k) AS name FROM t;
SELECT id FROM t WHERE n > (SELECT avg(amount) FROM u);
SELECT id FROM t WHERE n >= (SELECT min(amount) FROM u WHERE u.k = t.k);
SELECT id FROM t WHERE k IN (SELECT k FROM u);
SELECT id FROM t WHERE k NOT IN (SELECT k FROM u);
SELECT id FROM t WHERE k NOT IN (SELECT k FROM u WHERE k IS NOT NULL);
SELECT id FROM t WHERE (k, id) IN (SELECT k, id FROM u);
SELECT id FROM t WHERE (k, id) NOT IN (SELECT k, id FROM u);
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k);
SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.amount > 1);
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.amount > 50);
SELECT id, k IN (SELECT k FROM u), EXISTS (SELECT 1 FROM u WHERE u.id = t.id) FROM t;
SELECT id FROM t WHERE k IN (SELECT k FROM u) OR n > 5;
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.id = t.id) OR EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.amount > 3);
SELECT k, sum(n) FROM t GROUP BY k HAVING sum(n) > (SELECT min(amount) FROM u);
SELECT k FROM t GROUP BY k HAVING k IN (SELECT k FROM u);
SELECT id FROM t WHERE k IN (SELECT k FROM u WHERE amount > (SELECT avg(amount) FROM u));
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.id IN (SELECT id FROM c));
SELECT id FROM t WHERE k IN (SELECT k FROM u WHERE u.id < t.id);
SELECT id FROM t WHERE k NOT IN (SELECT k FROM u WHERE u.id = t.id);
SELECT t.id, u.id FROM t JOIN u ON t.k = u.k AND u.amount > (SELECT min(amount) FROM u);
SELECT t.id, u.id FROM t JOIN u ON t.k = u.k AND t.id IN (SELECT id FROM c);
SELECT id, CASE WHEN EXISTS (SELECT 1 FROM u WHERE u.k = t.k) THEN 'yes' ELSE 'no' END FROM t;
SELECT id, n - (SELECT sum(amount) FROM u WHERE u.k = t.k) FROM t WHERE ok;
SELECT id, (SELECT name FROM u WHERE u.id = t.id AND u.id <> 4 LIMIT 1) FROM t;
-- refused JOIN_WITHOUT_KEY: no equality connects the tables
SELECT id, (SELECT count(*) FROM u WHERE u.amount > t.n) FROM t;
SELECT * FROM (SELECT k, sum(n) AS s FROM t GROUP BY k) q WHERE s > (SELECT avg(n) FROM t);
SELECT id FROM t o WHERE n = (SELECT max(n) FROM t i WHERE i.k = o.k);
-- refused JOIN_WITHOUT_KEY: no equality connects the tables
SELECT id FROM t WHERE x IN (SELECT x FROM t WHERE id < 4);
SELECT id FROM t WHERE NOT (k IN (SELECT k FROM u) AND n > 0);
SELECT (SELECT count(*) FROM t), (SELECT max(id) FROM u), (SELECT min(id) FROM c);
SELECT id, (SELECT max(u.amount) FROM u WHERE u.k = t.k AND u.id > 1 HAVING count(*) > 0) FROM t;
SELECT id FROM t WHERE s IN (SELECT upper(name) FROM u) OR s IS NULL;
SELECT u.id, (SELECT sum(t.n) FROM t WHERE t.k = u.k AND t.id IN (SELECT id FROM c)) FROM u
