SELECT id, from_csv(line, 'a INT, b STRING, c DOUBLE'), from_csv(line, 'a INT, b STRING, c DOUBLE').b FROM e;
SELECT id, to_csv(struct(id, num)), to_csv(named_struct('a', id, 'b', DATE'2024-01-01'), map('dateFormat', 'dd/MM/yyyy')), schema_of_csv('1,abc') FROM e;
SELECT from_csv(line, 'a INT, b STRING, c STRING', map('mode', 'PERMISSIVE')).a AS a, count(*) FROM e GROUP BY 1;
SELECT id, from_xml('<p><a>1</a></p>', 'a INT').a, xpath_int('<a><b>1</b></a>', 'a/b'), xpath_string('<a><b>x</b></a>', 'a/b'), xpath('<a><b>x</b></a>', 'a/b/text()') FROM e;
SELECT id, to_xml(named_struct('a', id)) FROM e
