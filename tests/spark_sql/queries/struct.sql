SELECT id, r.p, r.q, r FROM c;
SELECT id, struct(id, r.p), named_struct('a', id, 'b', r.q), struct(id AS z).z, r = named_struct('p', 1, 'q', 'one') FROM c;
SELECT r, count(*) FROM c GROUP BY r;
SELECT r.q, sum(r.p) FROM c GROUP BY r.q HAVING sum(r.p) > 0;
SELECT DISTINCT r FROM c WHERE r IS NOT NULL;
SELECT max(r), min(r), max(struct(id, w)) FROM c;
SELECT id, array(r, named_struct('p', 0, 'q', 'n')), array(r).p, inline.p FROM c, LATERAL (SELECT r.p AS p) inline;
SELECT id, (id, r.q) = (1, 'one'), r.* FROM c
