SELECT t.id, u.name FROM t JOIN u ON t.k = u.k;
SELECT t.id, u.name FROM t LEFT JOIN u ON t.k = u.k;
SELECT t.id, u.name FROM t RIGHT JOIN u ON t.k = u.k;
SELECT t.id, u.id, u.name FROM t FULL OUTER JOIN u ON t.k = u.k;
SELECT t.id FROM t LEFT SEMI JOIN u ON t.k = u.k;
SELECT t.id FROM t LEFT ANTI JOIN u ON t.k = u.k;
-- refused JOIN_WITHOUT_KEY: no equality connects the tables
SELECT t.id, u.id FROM t CROSS JOIN u WHERE t.id = 6;
SELECT * FROM t JOIN u USING (id);
SELECT * FROM u NATURAL JOIN (SELECT id, k, s FROM t);
SELECT id, k, name FROM t FULL JOIN u USING (id, k);
SELECT * FROM (SELECT id, k FROM t) NATURAL LEFT JOIN (SELECT k, name FROM u);
SELECT t.id, u.id FROM t JOIN u ON t.k = u.k AND t.n > u.amount;
SELECT t.id, u.id FROM t, u WHERE t.k = u.k AND t.day >= u.since;
SELECT t.id, u.id FROM t JOIN u ON t.k <=> u.k;
-- refused JOIN_WITHOUT_KEY: no equality connects the tables
SELECT t.id, u.id FROM t JOIN u ON t.n > u.amount;
SELECT t.id, u.id FROM t LEFT JOIN u ON t.k = u.k AND u.amount > 1;
SELECT t.id, u.id FROM t LEFT JOIN u ON t.k = u.k AND t.n > 3;
SELECT t.id, u.id FROM t LEFT JOIN u ON t.k = u.k AND t.n > u.amount;
SELECT a.id, b.id FROM t a JOIN t b ON a.k = b.k AND a.id < b.id;
SELECT a.id, b.id, c.id FROM t a JOIN u b ON a.k = b.k JOIN t c ON c.id = b.id;
-- refused JOIN_WITHOUT_KEY: no equality connects the tables
SELECT t.id, u.id FROM t JOIN u ON upper(t.s) = upper(u.name) OR t.id = u.id;
SELECT t.id, u.id FROM t JOIN u ON t.id % 3 = u.id % 3 WHERE t.ok;
SELECT t.k, count(u.id), sum(u.amount) FROM t LEFT JOIN u ON t.k = u.k GROUP BY t.k;
-- refused JOIN_WITHOUT_KEY: no equality connects the tables
SELECT t.id, c.a FROM t JOIN c ON array_contains(c.a, t.k);
SELECT t.id, v.name FROM t LEFT JOIN (SELECT k, max(name) AS name FROM u GROUP BY k) v ON t.k = v.k;
SELECT t.id, u.id FROM t FULL JOIN u ON t.id = u.id WHERE t.id IS NULL OR u.id IS NULL;
SELECT t.id, u.id FROM t JOIN u ON t.day = u.since AND length(t.s) > 0;
SELECT a.id, b.id FROM t a JOIN t b ON a.x = b.x;
SELECT t.id, l.m FROM t, LATERAL (SELECT max(amount) AS m FROM u WHERE u.k = t.k) l;
SELECT t.id, l.* FROM t LEFT JOIN LATERAL (SELECT u.id AS uid, u.name FROM u WHERE u.k = t.k) l;
SELECT t.id, l.y FROM t, LATERAL (SELECT t.n + 1 AS y) l;
SELECT t.id, l.name FROM t, LATERAL (SELECT name FROM u WHERE u.k = t.k ORDER BY u.id LIMIT 1) l;
SELECT /*+ BROADCAST(u) */ t.id FROM t JOIN u ON t.k = u.k AND t.d = u.amount;
SELECT t.id, w.z FROM t JOIN (VALUES (1, 'eins'), (2, 'zwei')) AS w(k, z) ON t.k = w.k;
SELECT t.id, u.id FROM t LEFT JOIN u ON t.k = u.k AND upper(u.name) = 'TWO';
SELECT t.id, u.id FROM t RIGHT JOIN u ON t.k = u.k AND length(t.s) > 3
