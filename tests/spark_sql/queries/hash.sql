SELECT id, hash(s, n), xxhash64(s, n), hash(d, day, ts, x, ok), crc32(s), md5(s), sha(s), sha1(s), sha2(s, 256), sha2(s, 512) FROM t;
SELECT id, hash(a), hash(r), xxhash64(a, r) FROM c;
SELECT id, hex(raw), base64(raw), md5(raw), crc32(raw), length(raw), raw || raw, substring(raw, 1, 2), bitmap_count(raw) FROM e;
SELECT hash(k) % 3 AS bucket, count(*) FROM t GROUP BY 1;
SELECT id, hex(aes_encrypt('text', '0000111122223333', 'ECB')), string(aes_decrypt(aes_encrypt('text', '0000111122223333', 'ECB'), '0000111122223333', 'ECB')), try_aes_decrypt(raw, '0000111122223333') FROM e;
SELECT id, raw = X'616263', raw > X'00', bitmap_bit_position(id), bitmap_bucket_number(id) FROM e;
SELECT raw, count(*) FROM e GROUP BY raw
