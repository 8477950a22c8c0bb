SELECT id, get_json_object(j, '$.a'), get_json_object(j, '$.b.c[0]'), get_json_object(j, '$[1]') FROM e;
SELECT id, from_json(j, 'a STRING, d INT'), from_json(j, 'a STRING').a, from_json('[1,2]', 'ARRAY<INT>') FROM e;
SELECT id, to_json(struct(id, num)), to_json(map('a', id)), to_json(array(id, 2)), to_json(named_struct('t', TIMESTAMP'2024-01-01 00:00:00'), map('timestampFormat', 'yyyy')) FROM e;
SELECT id, json_array_length(j), json_object_keys(j), schema_of_json('{"a": 1}'), is_variant_null(parse_json('null')) FROM e WHERE j IS NULL OR j LIKE '{%';
SELECT id, to_json(r), to_json(m), to_json(a) FROM c;
SELECT id, json_tuple(j, 'a', 'b') AS (a, b) FROM e;
SELECT id, variant_get(parse_json('{"a": 5}'), '$.a', 'int'), try_variant_get(try_parse_json(j), '$.a', 'int'), to_json(try_parse_json(j)) FROM e;
SELECT get_json_object(j, '$.a') AS a, count(*) FROM e GROUP BY 1
