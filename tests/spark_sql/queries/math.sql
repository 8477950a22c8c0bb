SELECT id, n + 1, n - k, n * 2, n / 4, n % 3, -n, +n, abs(n), sign(n), n DIV 2, mod(n, 4), pmod(n, 4), negative(n), positive(n) FROM t;
SELECT id, d + 1, d - 0.5, d * 2, d / 4, d % 3, -d, abs(d), sign(d), ceil(d), floor(d), round(d, 1), bround(d, 1) FROM t;
SELECT id, x + 1, x - 0.5, x * 2, x / 4, x % 3, -x, abs(x), sign(x), ceil(x / 1e290), floor(x / 1e290), rint(x) FROM t WHERE NOT isnan(x) AND x > -1e299;
SELECT id, round(x, 1), round(n, -1), bround(n, -1), round(d), bround(2.5 * k), ceil(d, 1), floor(d, -1) FROM t WHERE n IS NULL OR n < 100000;
-- last digit: Spark uses StrictMath
SELECT id, sqrt(abs(x)), cbrt(n), exp(k), expm1(k), ln(k), log(k), log10(k), log2(k), log1p(k), log(2, k) FROM t;
-- last digit: Spark uses StrictMath
SELECT id, sin(k), cos(k), tan(k), cot(k), sec(k), csc(k), asin(k / 10), acos(k / 10), atan(k), atan2(k, id) FROM t;
-- last digit: Spark uses StrictMath
SELECT id, sinh(k), cosh(k), tanh(k), asinh(k), acosh(k), atanh(k / 10), degrees(k), radians(k), hypot(k, id) FROM t;
SELECT id, power(k, 2), pow(2, k), e(), pi(), factorial(k), greatest(n, k, 4), least(d, x, 1), width_bucket(d, 0, 100, 10) FROM t;
SELECT id, bin(n), conv(n, 10, 16), hex(n), unhex(hex(id)), shiftleft(k, 2), shiftright(n, 1), shiftrightunsigned(n, 1) FROM t;
SELECT id, try_add(n, 9223372036854775807), try_subtract(n, k), try_multiply(n, 9223372036854775807), try_divide(n, k - 1), try_mod(n, k - 1) FROM t;
SELECT id, nanvl(x, 0), isnan(x), isnull(x), isnotnull(x), x = x, x > 1, x <=> double('NaN'), x IN (double('NaN'), 0) FROM t;
SELECT id, d * d, d * 1.234, d / 3, d / d, d * x, d + n, n / 7, d > n, d = 0.010 FROM t WHERE d <> 0;
-- refused SQL_NOT_DETERMINISTIC: uniform is random
SELECT id, uniform(1, 1, 0) IS NULL, typeof(d * d), typeof(n / 2), typeof(d / n), typeof(1.5 + id) FROM t WHERE id > 1000;
SELECT id, n & 6, n | 1, n ^ 3, ~n, bit_count(n), bit_get(n, 1), getbit(n, 0), k << 2, n >> 1, n >>> 1 FROM t;
SELECT id, ceiling(x), floor(d), signum(x), rint(d), ceil(n) FROM t WHERE x BETWEEN -100 AND 100;
SELECT id, CAST(n AS DECIMAL(20, 5)) / CAST(k AS DECIMAL(10, 2)), CAST(d AS DECIMAL(38, 10)) * 2 FROM t;
SELECT sum(n) / count(*), sum(d) * 1.5, max(x) - 1, round(avg(d), 2) FROM t;
SELECT id, d < 12345678901234567890123456789012345.678, 12345678901234567890123456789012345.678 AS c FROM t
