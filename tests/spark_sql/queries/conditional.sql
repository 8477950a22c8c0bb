SELECT id, CASE WHEN n > 5 THEN 'big' WHEN n > 0 THEN 'small' END, CASE k WHEN 1 THEN 'a' WHEN 2 THEN 'b' ELSE s END FROM t;
SELECT id, if(ok, n, k), ifnull(n, -1), nvl(s, '?'), nvl2(n, 'set', 'unset'), nullif(k, 1), nullifzero(n), zeroifnull(n) FROM t;
SELECT id, coalesce(n, k, 0), coalesce(d, x), greatest(day, DATE'2020-01-01'), least(s, 'm'), decode(k, 1, 'one', 2, 'two', 'many') FROM t;
SELECT id FROM t WHERE CASE WHEN ok THEN n > 5 ELSE k = 1 END;
SELECT id, ok AND n > 3, ok OR n > 3, NOT ok, ok IS TRUE, ok IS NOT FALSE, ok IS UNKNOWN, ok <=> NULL, n IS DISTINCT FROM k, n IS NOT DISTINCT FROM k FROM t;
SELECT id, equal_null(n, k), CASE WHEN x = 'NaN' THEN 'nan' WHEN x = 0 THEN 'zero' END, boolean(id % 2), ok::int FROM t;
SELECT sum(CASE WHEN ok THEN n ELSE 0 END), count(CASE WHEN n > 3 THEN 1 END), count_if(ok), max(if(ok, day, NULL)) FROM t;
SELECT id, n IN (3, NULL), n NOT IN (3, 5), (k, id) IN ((1, 1), (2, 3)) FROM t
