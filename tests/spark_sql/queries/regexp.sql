SELECT id, s RLIKE '^[a-z]+$', s REGEXP 'p{2}', regexp_like(s, '(?i)APPLE'), regexp(s, '\\d+') FROM t;
SELECT id, regexp_replace(s, '[aeiou]', '_'), regexp_replace(s, '(\\w)(\\w)', '$2$1'), regexp_replace(s, 'p', '', 3) FROM t;
SELECT id, regexp_extract(s, '([a-z])([a-z]+)', 2), regexp_extract_all(s, '([a-z])', 1), regexp_extract(s, 'zz') FROM t WHERE s NOT IN ('x');
SELECT id, regexp_count(s, 'a'), regexp_instr(s, '[b-z]'), regexp_substr(s, '[a-z]+') FROM t;
SELECT count(*), sum(regexp_count(s, '\\w')) FROM t WHERE s RLIKE 'a|e';
SELECT id, split(s, '(?<=a)'), regexp_replace(s, '\\s+', ' ') FROM t
