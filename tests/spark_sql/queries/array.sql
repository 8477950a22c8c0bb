SELECT id, size(a), cardinality(a), array_size(a), a[0], try_element_at(a, 1), get(a, 9), array_contains(a, 5), array_position(a, 5) FROM c WHERE size(a) > 0;
SELECT id, sort_array(a), sort_array(a, false), array_sort(a), reverse(a), slice(a, 1, 2), array_distinct(a), array_remove(a, 5) FROM c;
SELECT id, array_min(a), array_max(a), array_append(a, 4), array_prepend(a, 0), array_insert(a, 1, 7), array_compact(a), array_repeat(id, 2) FROM c;
SELECT id, array_union(a, array(1)), array_intersect(a, array(1, 5)), array_except(a, array(5)), arrays_overlap(a, array(3)), a || array(0), concat(a, a) FROM c;
-- refused SQL_NOT_DETERMINISTIC: shuffle is random
SELECT id, array_join(w, '-'), array_join(w, '-', 'none'), flatten(array(a, a)), sequence(1, id), arrays_zip(a, w), shuffle(array(id)) IS NULL FROM c WHERE id < 0;
SELECT id, array_join(w, '-'), array_join(w, '-', 'none'), flatten(array(a, a)), sequence(1, id) FROM c;
SELECT id, arrays_zip(a, w) FROM c;
SELECT id, array(id, 2), size(array()), a = array(3), a IS NULL, array(1, NULL)[1], element_at(array(7, 8), -1) FROM c;
SELECT a, count(*) FROM c GROUP BY a;
SELECT DISTINCT w, size(w) FROM c;
SELECT id, sequence(DATE'2024-01-01', DATE'2024-01-03'), sequence(5, 1, -2) FROM c;
SELECT id, sort_array(w), array_max(w), array_contains(w, 'b'), array_position(w, 'z'), exists(w, v -> v IS NULL) FROM c;
SELECT c1.id, c2.id FROM c c1 JOIN c c2 ON c1.a = c2.a
