SELECT id, m['x'], element_at(m, 'y'), try_element_at(m, 'z'), size(m), cardinality(m), map_contains_key(m, 'x') FROM c;
SELECT id, sort_array(map_keys(m)), sort_array(map_values(m)), array_sort(map_entries(m)) FROM c;
SELECT id, map('k', id), map_from_arrays(array('a', 'b'), array(1, id)), map_from_entries(array(struct('q', id))), str_to_map('a:1,b:2') FROM c;
SELECT id, map_concat(m, map('new', 9)), map_filter(m, (k, v) -> v > 1), transform_values(m, (k, v) -> v + 1), transform_keys(m, (k, v) -> concat(k, '!')) FROM c;
SELECT id, map_zip_with(m, map('x', 10), (k, a, b) -> coalesce(a, 0) + coalesce(b, 0)) FROM c;
SELECT id, m FROM c WHERE m['y'] = 2;
SELECT sum(m['x']), count(m['y']), max(size(m)) FROM c
