SELECT id, upper(s), lower(s), initcap(s), length(s), char_length(s), bit_length(s), octet_length(s) FROM t;
SELECT id, trim(s), ltrim(s), rtrim(s), btrim(s, 'ae'), trim(BOTH 'a' FROM s), trim(LEADING ' ' FROM s) FROM t;
SELECT id, lpad(s, 8, '*'), rpad(s, 3, '-'), lpad(s, 4), repeat(s, 2), reverse(s), space(3) FROM t;
SELECT id, substring(s, 2, 3), substr(s, -3), left(s, 2), right(s, 2), substring_index(s, ',', 1) FROM t;
SELECT id, concat(s, '-', id), concat_ws('/', s, k, NULL), s || '!' FROM t;
SELECT id, instr(s, 'a'), locate('p', s, 2), position('n' IN s), find_in_set('b', s) FROM t;
SELECT id, replace(s, 'a', 'o'), translate(s, 'abc', 'xy'), overlay(s PLACING '##' FROM 2 FOR 1) FROM t;
SELECT id, ascii(s), chr(65 + id), hex(s), base64(encode(s, 'UTF-8')), decode(encode(s, 'UTF-16'), 'UTF-16') FROM t;
SELECT id, soundex(s), levenshtein(s, 'apple'), levenshtein(s, 'banana', 3) FROM t;
SELECT id, split(s, '[,; ]'), split(s, 'a', 2), split_part(s, ',', 1), split_part(s, ' ', -2), split_part(s, 'é', 7) FROM t;
SELECT id, startswith(s, 'a'), endswith(s, 'e'), contains(s, 'pp'), s LIKE '%\%%', s ILIKE 'APP%' FROM t;
SELECT id, s LIKE ANY ('a%', '%n%'), s LIKE ALL ('%a%', '%e'), s NOT LIKE ANY ('a%', 'b%') FROM t;
SELECT id, s LIKE '_pple', s LIKE '100/%/_x' ESCAPE '/', s NOT LIKE 'a%' FROM t;
SELECT id, format_string('%05d|%s', id, s), format_number(x, 2), format_number(d, '#,##0.0') FROM t WHERE x IS NOT NULL AND NOT isnan(x) AND x < 1e20 AND x > -1e20;
SELECT id, sentences(s), quote(s), elt(1 + id % 2, s, 'other') FROM t;
SELECT id, mask(s), mask(s, 'U', 'l', 'd', 'o'), luhn_check('4111111111111111'), is_valid_utf8(s), validate_utf8(s) FROM t;
SELECT id, to_binary(hex(s), 'hex'), unhex(hex(s)), unbase64(base64(encode(s, 'UTF-8'))) FROM t;
SELECT id, to_char(d, 'S99999999.99'), to_number('12.50', '99.99'), try_to_number(num, '99.99') FROM t JOIN e USING (id);
SELECT s, count(*) FROM t GROUP BY s HAVING max(length(s)) > 2 OR s IS NULL;
SELECT id, s = 'apple', s <> 'apple', s < 'b', s <=> NULL, s BETWEEN 'a' AND 'c', s IN ('apple', '') FROM t;
SELECT id, string(id), string(d), string(x), string(day), string(ts), string(tn), string(ok) FROM t;
-- refused SQL_NOT_DETERMINISTIC: randstr is random
SELECT id, randstr(0, 1) IS NULL, ucase(s), lcase(s), char(66), len(s), character_length(s) FROM t WHERE id < 0;
SELECT id, printf('%s has %d', s, n), contains(s, NULL), nullif(s, ''), coalesce(s, 'none') FROM t
