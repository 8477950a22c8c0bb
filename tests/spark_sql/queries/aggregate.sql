SELECT count(*), count(1), count(n), count(DISTINCT n), count(DISTINCT k, n), count(k, n) FROM t;
SELECT k, sum(n), sum(d), avg(n), avg(d), min(n), max(d), min(s), max(s), min(day), max(ts), max(tn), min(ok) FROM t GROUP BY k;
SELECT k, sum(x), avg(x), min(x), max(x) FROM t GROUP BY k;
-- last digit: the sums of squares are exact
SELECT k, stddev(n), stddev_samp(d), stddev_pop(n), variance(n), var_samp(d), var_pop(n) FROM t GROUP BY k;
-- last digit: the sums of products are exact
SELECT corr(n, k), covar_pop(n, k), covar_samp(n, k) FROM t WHERE n < 1000;
-- last digit: the sums of powers are exact
SELECT k, skewness(n), kurtosis(n), skewness(d), kurtosis(DISTINCT d), skewness(id) FILTER (WHERE id > 2) FROM t WHERE n < 1000 GROUP BY k;
SELECT k, any(ok), some(ok), every(ok), bool_and(ok), bool_or(ok), count_if(n > 3) FROM t GROUP BY k;
SELECT bit_and(n), bit_or(n), bit_xor(n), bit_and(k) FROM t;
SELECT k, sort_array(collect_list(n)), sort_array(collect_set(n)), sort_array(array_agg(id)), size(collect_list(s)) FROM t GROUP BY k;
SELECT k, listagg(s, ',') WITHIN GROUP (ORDER BY s, id), string_agg(s, '|') WITHIN GROUP (ORDER BY id DESC), listagg(DISTINCT s) WITHIN GROUP (ORDER BY s) FROM t GROUP BY k;
SELECT max_by(s, id), min_by(s, id), max_by(id, n * 100 + id), min_by(day, id) FROM t;
SELECT k, percentile(n, 0.5), median(n), percentile_cont(0.25) WITHIN GROUP (ORDER BY n), percentile_disc(0.5) WITHIN GROUP (ORDER BY n) FROM t GROUP BY k;
SELECT percentile(n, array(0.25, 0.75)), percentile_disc(array(0.5, 0.2)) WITHIN GROUP (ORDER BY d), percentile_cont(array(0.5, 0.2)) WITHIN GROUP (ORDER BY id DESC), percentile_cont(0.25) WITHIN GROUP (ORDER BY n DESC), percentile_disc(0.5) WITHIN GROUP (ORDER BY n DESC) FROM t;
SELECT approx_count_distinct(k), approx_percentile(n, 0.5), percentile_approx(n, array(0.5, 0.9)) FROM t;
SELECT mode(k) FROM t WHERE k = 3;
SELECT k, mode() WITHIN GROUP (ORDER BY s) FROM t WHERE n = 10 GROUP BY k;
SELECT k, first(k), last(k), any_value(k), first(k, true), last_value(k), first_value(k) FROM t GROUP BY k;
SELECT k, sum(n) FILTER (WHERE ok), count(*) FILTER (WHERE n > 3), avg(d) FILTER (WHERE d > 0), count(DISTINCT n) FILTER (WHERE ok) FROM t GROUP BY k;
SELECT sum(DISTINCT n), avg(DISTINCT k), max(DISTINCT n), count(DISTINCT s), sum(DISTINCT d) FROM t;
SELECT k, try_sum(n), try_avg(n), try_sum(d), try_avg(d), try_sum(x), try_sum(n) FILTER (WHERE ok), try_sum(DISTINCT id) FROM t GROUP BY k;
SELECT try_sum(9223372036854775807L - 20 + id), try_sum(CAST(repeat('9', 38) AS DECIMAL(38, 0)) - 20 + id), CAST(try_sum(INTERVAL '100000000' DAY) AS STRING), CAST(try_sum(INTERVAL '5' MONTH) AS STRING), CAST(try_avg(INTERVAL '100000000' DAY) AS STRING), CAST(try_avg(id * INTERVAL '1' DAY) AS STRING) FROM t;
-- last digit: the sums of products are exact
SELECT regr_count(n, k), regr_slope(n, k), regr_intercept(n, k), regr_r2(n, k), regr_avgx(n, k), regr_avgy(n, k), regr_sxx(n, k), regr_syy(n, k), regr_sxy(n, k), regr_r2(k, n), regr_slope(k, k + n - n) FROM t WHERE n < 1000;
-- last digit: the sums of products are exact
SELECT k, regr_slope(n, id), regr_intercept(n, id), regr_r2(n, id), regr_sxx(n, id), regr_sxy(n, id) FROM t WHERE n < 1000 GROUP BY k;
-- refused SQL_NOT_MAINTAINED: its value depends on the order of the rows
SELECT histogram_numeric(k, 2) IS NULL FROM t;
SELECT k, hex(count_min_sketch(n, 0.1D, 0.9D, 1)), count_min_sketch(s, 0.3D, 0.99D, -5), count_min_sketch(id, 0.01D, 0.95D, 7) FILTER (WHERE ok) FROM t GROUP BY k;
SELECT count_min_sketch(raw, 0.1D, 0.9D, 11), hex(bitmap_or_agg(raw)), hex(bitmap_and_agg(raw)), bitmap_and_agg(raw) FILTER (WHERE id < 0) FROM e;
SELECT k, hex(bitmap_construct_agg(bitmap_bit_position(n * 7))), bitmap_count(bitmap_construct_agg(32768 - id)) FROM t WHERE n < 1000 GROUP BY k;
SELECT sort_array(collect_union(a)), sort_array(collect_union(a) RESPECT NULLS) FROM c;
SELECT k, sort_array(array_agg(n) RESPECT NULLS), sort_array(collect_set(n) RESPECT NULLS) FROM t GROUP BY k;
SELECT product.p FROM (SELECT sum(id) * 2 AS p FROM t) product;
SELECT k, max(struct(n, s)), min(array(n)), max(n) - min(n), sum(n) + count(*), sum(n * 2) FROM t GROUP BY k;
SELECT max(a), min(w), count(DISTINCT a), count(r) FROM c;
SELECT grouping(k), count(*) FROM t GROUP BY ROLLUP (k);
SELECT k, max_by(s, id, 2), min_by(id, id, 3), max_by(id, -id, 2) FILTER (WHERE n > 3), max_by(struct(s, n), id, 2) FROM t GROUP BY k;
-- refused SQL_NOT_MAINTAINED: hll_sketch_agg
SELECT hll_sketch_estimate(hll_sketch_agg(k)), bitmap_count(bitmap_construct_agg(bitmap_bit_position(k))) FROM t;
SELECT sum(k), avg(k), sum(CAST(k AS SMALLINT)), sum(CAST(d AS FLOAT)) FROM t;
SELECT sum(CAST(NULL AS INT)), max(NULL), count(NULL) FROM t;
SELECT k, max(id) AS m FROM t GROUP BY k HAVING count(*) > 1 AND max(id) > 2 ORDER BY m DESC LIMIT 2;
SELECT any_value(s) IS NULL, bool_and(s IS NULL), max(length(s)) FROM t WHERE s LIKE 'a%';
SELECT k, listagg(raw, X'2C') WITHIN GROUP (ORDER BY raw), string_agg(raw) WITHIN GROUP (ORDER BY id DESC, raw), listagg(DISTINCT raw, X'') WITHIN GROUP (ORDER BY raw DESC), listagg(raw, NULL) WITHIN GROUP (ORDER BY raw), listagg(raw, X'00FF') WITHIN GROUP (ORDER BY id, raw) FILTER (WHERE id > 2) FROM (SELECT id % 2 AS k, raw, id FROM e) GROUP BY k;
SELECT k, percentile(n, 0.5, id), percentile(d, array(0.1, 0.75, 1.0), abs(k)), percentile(x, 0.33, id - id), percentile(id, 0.9, 3), percentile(d, 0.7, if(ok, 2, NULL)) FROM t GROUP BY k;
SELECT percentile(n, 0.5, id) FILTER (WHERE ok), percentile(DISTINCT id, 0.25, k), percentile(x, 0.4, id), percentile(n, 0.0, CAST(id AS SMALLINT)), percentile(make_dt_interval(id), 0.3, k), string(percentile(make_ym_interval(k, id), array(0.25, 0.5), id)) FROM t;
SELECT id, percentile(n, 0.5, id) OVER (PARTITION BY k), percentile(n, 0.25, id) OVER (ORDER BY id, n ROWS 2 PRECEDING) FROM t WHERE id NOT IN (1, 7);
SELECT k, percentile(x * 0.1, array(0.1, 0.35, 0.77), id), percentile(d, 0.313, id), percentile(n, 0.123, id * id) FROM t GROUP BY k
