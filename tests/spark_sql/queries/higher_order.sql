SELECT id, transform(a, v -> v + 1), transform(a, (v, i) -> v * i), filter(a, v -> v > 2), filter(a, (v, i) -> i > 0) FROM c;
SELECT id, exists(a, v -> v = 5), any_match.v, forall(a, v -> v > 0) FROM c, LATERAL (SELECT size(a) AS v) any_match;
SELECT id, aggregate(a, 0, (s, v) -> s + coalesce(v, 0)), aggregate(a, 0, (s, v) -> s + v, s -> s * 2), reduce(a, 1, (s, v) -> s * v) FROM c;
SELECT id, zip_with(a, w, (x, y) -> concat(x, y)), array_sort(a, (x, y) -> CASE WHEN x < y THEN 1 WHEN x > y THEN -1 ELSE 0 END) FROM c WHERE id <> 4;
SELECT id, transform(filter(a, v -> v IS NOT NULL), v -> named_struct('v', v, 'id', id)), transform(array(a, a), z -> size(z)) FROM c;
SELECT id, transform(w, v -> upper(v)), transform(w, v -> coalesce(v, r.q)), transform(a, v -> v + id) FROM c;
SELECT id, transform(a, v -> transform(w, q -> concat(q, v))) FROM c;
SELECT sum(aggregate(a, 0, (s, v) -> s + coalesce(v, 0))) FROM c
