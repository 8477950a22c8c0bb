SELECT id, parse_url(url, 'HOST'), parse_url(url, 'PATH'), parse_url(url, 'QUERY'), parse_url(url, 'QUERY', 'q'), parse_url(url, 'PROTOCOL'), parse_url(url, 'REF') FROM e;
SELECT id, url_encode(url), url_decode(url_encode(url)), try_url_decode(url), try_parse_url(num, 'HOST'), parse_url(url, 'USERINFO'), parse_url(url, 'AUTHORITY'), parse_url(url, 'FILE') FROM e WHERE url NOT LIKE 'mailto%';
SELECT parse_url(url, 'HOST') AS host, count(*) FROM e GROUP BY host
