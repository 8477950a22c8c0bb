"""Queries for DataFusion over one small table with a column of every type, and the known
differences.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa

SCHEMA = pa.schema(
    [
        ("id", pa.int64()), ("g", pa.string()), ("a", pa.int8()), ("h", pa.int16()), ("i", pa.int32()),
        ("l", pa.int64()), ("f", pa.float32()), ("x", pa.float64()), ("m", pa.decimal128(15, 2)),
        ("w", pa.decimal128(38, 10)), ("s", pa.string()), ("d", pa.date32()), ("ts", pa.timestamp("us")),
        ("b", pa.bool_()), ("bin", pa.binary()),
    ]
)  # fmt: skip

TEXTS = (
    "", "a", "A", "ab", "PROMO BRUSHED", "promo x", " lead", "trail  ", "%", "_", "a%b", "äöü", "日本語",
    "x\ny", "😊a", "MAIL", "SHIP", "13-345", "back\\slash", "AIR REG", "it's", "\t", "a special if requests",
)  # fmt: skip


def table(seed: int, rows: int, first: int = 0) -> pa.Table:
    """Random rows, a few nulls in every column but `id`, which counts from `first`."""
    rng = random.Random(seed)
    made = [_row(rng, number) for number in range(first, first + rows)]
    return pa.Table.from_pylist(made, schema=SCHEMA)


def _row(rng: random.Random, number: int) -> dict[str, Any]:
    eighth = rng.randint(-40, 40) / 8
    values: dict[str, Any] = {
        "g": rng.choice("xyz"),
        "a": rng.choice([-128, 127, *range(-9, 10)]),
        "h": rng.randint(-100, 100),
        "i": rng.randint(-1000, 1000),
        "l": rng.choice([rng.randint(-(10**5), 10**5), 2**53 + 1, -(2**53) - 1]),
        "f": rng.choice([eighth, round(rng.uniform(-5, 5), 3)]),
        "x": rng.choice([eighth, rng.uniform(-100, 100), 0.0, 2.5, -0.5]),
        "m": Decimal(rng.randint(-500_000, 500_000)).scaleb(-2),
        "w": Decimal(rng.randint(-(10**15), 10**15)).scaleb(-10),
        "s": rng.choice(TEXTS),
        "d": rng.choice(
            [dt.date(1992, 1, 1) + dt.timedelta(rng.randint(0, 2600)), dt.date(1996, 2, 29)]
        ),
        "ts": dt.datetime(1960, 1, 1) + dt.timedelta(microseconds=rng.randint(0, 2 * 10**15)),
        "b": rng.random() < 0.5,
        "bin": bytes([rng.randint(0, 255)]) * rng.randint(0, 3),
    }
    return {"id": number, **{k: None if rng.random() < 0.12 else v for k, v in values.items()}}


EXACT = """
a+h, a+i, i+l, i-l, i*2, i/7, i%7, -7/nullif(i,0), -i, abs(i), l%3, i&3, i|8, i<<2, i>>1, a&h, signum(i)

f+x, f+i, f*f, f/2, x/3, x%3, f%2, x+m, abs(x), -x, -f, signum(x), ceil(x), floor(x), ceil(f), isnan(x)

m+i, m+m, m-w, m*m, w+w, m%7, w%3, m*0.5, m*(1-0.05), m*(1-m)*(1+m), -m, -w, abs(m), abs(w), ceil(m), floor(w)

round(m,1), round(m), round(m,-2), round(w,3), round(x), round(x,2), round(x,-1), round(i,-1), round(f,1)

round(x,a%3), round(m,h%3), regexp_replace(s,'a','zz'), regexp_replace(s,'(.)[bB]','<\\1>'), regexp_replace(s,'x*','-')

cast(m as decimal(10,1)) a1, cast(m as bigint) a2, cast(m as double) a3, cast(m as varchar) a4,
cast(w as decimal(15,2)), cast(x as bigint) a5, cast(x as decimal(20,8)) a6, cast(x as float) a7,
cast(f as double), cast(i as varchar), cast(l as float)

cast(b as int) a1, cast(b as varchar) a2, cast(i as boolean), cast(d as varchar) a6, cast(ts as date),
cast(s as varchar(3)) a3, cast('12' as int), cast('2020-01-31' as date),
cast(cast(m as varchar) as decimal(15,2)), try_cast(s as int) a4, try_cast(i as tinyint) a8,
try_cast(s as double) a5, cast(cast(x as varchar) as double), x::text a7, cast(d as varchar)||'!'

i=l, i<x, i<m, m<w, x=m, f=x, f<0.1, s='a', s<'b', s>=' ', s<>'MAIL', d<date '1995-01-01', b=true, x<>0,
bin=X'00', ts>timestamp '1980-01-01 00:00:00', d<=date '1998-12-01' - interval '90' day,
extract(year from ts)=1970

b and x>0, b or x>0, not b, b is true, b is not true, b is false, b is not false, b is unknown,
b is not unknown, x is null, x is not null, i is distinct from a, i is not distinct from a,
s is distinct from null, (i>0)=b

i between a and h, i not between 1 and 100, d between date '1994-01-01' and date '1995-01-01',
i in (1,2,3,5,7), a in (1,2,null), a not in (1,null), s in ('a','ab','MAIL'), s not in ('a','ab'),
m in (1,2,3.5), x in (0,2.5)

case when i>0 then 'pos' when i<0 then 'neg' end, case when i>0 then i else m end,
case a when 1 then 'one' else s end, case when s like 'PROMO%' then m*(1-0.1) else 0 end,
case when x>0 then 1 else null end, case when b then x else 0 end

coalesce(i,0), coalesce(i,l,0), coalesce(m,0), coalesce(s,g,'?'), nullif(i,0), nullif(s,'a'), nvl(i,5),
nvl2(i,1,2), greatest(i,l), greatest(i,a,null), least(x,f), least(s,g), least(m,w,0)

s like 'PROMO%', s like '%a%', s like '_', s like 'a\\%b', s like '%\\\\%', s like 'back\\slash', s like '%\\',
s not like '%special%requests%', s ilike 'promo%', s ilike 'ÄÖ%', s like '%\n%', s like g||'%',
starts_with(s,'a'), ends_with(s,'b'), contains(s,'a')

strpos(s,'a'), substring(s from 1 for 2), substring(s from 2), substring(s,0,2), substring(s,-1,3),
substr(s,i), left(s,2), left(s,-1), left(s,a), right(s,2), right(s,-1), right(s,a), upper(s), lower(s),
initcap(s), reverse(s), char_length(s)

trim(s), ltrim(s), rtrim(s), btrim(s,'ab '), ltrim(s,'a '), rtrim(s,' b'), lpad(s,5), lpad(s,5,'xy'),
rpad(s,2), replace(s,'a','zz'), repeat(s,2), repeat(s,-1), octet_length(s), bit_length(s), s||'-'||g, s||i,
concat(s,'x',g), chr(65)

extract(year from d), extract(month from d), extract(day from d), extract(quarter from d),
extract(week from d), extract(doy from d), extract(dow from d), extract(isodow from d), extract(hour from ts),
extract(minute from ts), extract(second from ts), extract(millisecond from ts), extract(microsecond from ts),
extract(week from ts)

date_trunc('year',ts), date_trunc('quarter',ts), date_trunc('month',ts), date_trunc('week',ts),
date_trunc('day',ts), date_trunc('hour',ts), date_trunc('second',ts), date_trunc('millisecond',ts),
ts::date - interval '1' day

d+interval '1' month, d+interval '1' year, d-interval '3' month, d+interval '3' day,
d+interval '1 month 1 day', ts+interval '1 hour', ts-interval '1 month', ts+interval '1 month 2 days 3 hours',
ts+interval '1.5 seconds', d+5
""".strip().split("\n\n")
"""Lists of expressions whose values are DataFusion's exactly."""

CLOSE = (
    # Java's and C's mathematical functions differ in the last bit.
    "sqrt(abs(x)), exp(x/50), ln(x), ln(abs(i)), log10(x), log2(x), log10(m), power(x,2), pow(2,a/8), power(abs(x),0.5)",
    "sin(x), cos(x), tan(x), asin(x/100), acos(x/100), atan(x), atan2(x,100), sinh(x/50), cosh(x/50), tanh(x), radians(x)",
    "log(2,x), log(10,abs(x)), log(3.5,abs(i)+1), log(abs(x)+2,abs(x)+1)",
    # DataFusion cuts quotients of decimals, here they are rounded.
    "m/3, m/nullif(m,0), m/nullif(w,0), w/nullif(m,0)",
)
"""Lists of expressions whose values are DataFusion's but for the last digit."""

AGGREGATES = (
    "select count(*), count(s), sum(a), sum(l), sum(m), sum(w), avg(i), count(bin) from t",
    "select g, count(*), count(x), sum(i), sum(m), sum(w*w), sum(m*(1-m)), sum(cast(h as decimal(10,2))) from t group by g",
    "select s, b, count(*), sum(h) from t group by s, b",
    "select bin, x, f, count(*) from t group by bin, x, f",
    "select a, d, sum(l), sum(case when b then m else 0 end) from t group by 1, 2",
    "select extract(year from d) y, date_trunc('month', ts) mo, sum(m*(1-m)*(1+m)) from t group by 1, 2",
    "select substring(s,1,1) k, upper(g) u, sum(char_length(s)) from t where s is not null group by 1, 2",
    "select case when i>0 then 'p' else 'n' end, h>0, s like 'a%', count(*) from t group by 1, 2, 3",
    "select m, w, cast(i as decimal(15,2)), count(*) from t group by 1, 2, 3",
    "select g, sum(i) filter (where b), count(*) filter (where x>0), sum(m) filter (where s in ('a','MAIL')) from t group by g",
    "select sum(m) filter (where x<>x), count(*) filter (where null) from t",
    "select sum(m*w) from t where d>=date '1994-01-01' and d<date '1994-01-01'+interval '1' year and i between -50 and 700",
    "select g, count(*), sum(m) from t group by g having sum(i)>0 or count(s)=0",
    "select g, sum(i)*2 p, case when sum(i)>0 then 'up' else 'down' end c, sum(i)-count(*) from t group by g",
    "select count(distinct g) from t",
    "select distinct g, b from t",
    "select distinct upper(s), a>0 from t where i>0",
    "select n, count(*), sum(n) from (select s, count(*) n from t group by s) q group by n",
    "select count(*), sum(v), count(v) from (select g, b, sum(m) v from t where i>500 group by g, b) q",
    "select max_k, count(*) from (select g max_k, a, sum(i) v from t group by g, a having sum(i)>0) q group by max_k",
    "select g, count(*), sum(m) from (select g, m from t where i>0 union all select upper(g), m from t where b) u group by g",
    "select g k, sum(i) v from t group by g union all select s, count(*) from t group by s",
    "select g, count(*) from t where false group by g",
    "select count(*), sum(i), avg(m) from t where false",
    "select g, d - interval '1' month, count(ts) from t group by 1, 2 order by 1 desc, 2",
    "select id, g, i*2, m from t where not (x>0) or s like '%a%' order by id",
)
"""Queries whose rows are DataFusion's exactly."""

AVERAGES = (
    # DataFusion cuts averages of decimals and adds floats in the order in which they come.
    "select g, avg(m), avg(w), avg(m*(1-0.05)), sum(m*(1-0.05)) from t group by g",
    "select avg(m), avg(x), sum(x), sum(f), avg(f), sum(x*f) from t",
    "select s, avg(x), sum(x) filter (where b), avg(m) filter (where i>0) from t group by s",
    "select a>0 k, sum(cast(m as double)), avg(cast(x as decimal(20,8))), avg(cast(i as float)) from t group by 1",
    "select g, avg(v), sum(v) from (select g, s, avg(x) v from t group by g, s) q group by g",
    "select 100.0*sum(case when s like 'PROMO%' then m*(1-0.1) else 0 end)/sum(m*(1-0.1)) from t",
    "select g, count(*) c, avg(v) from (select g, a, sum(m) v from t group by g, a) q group by g having count(*)>3",
)
"""Queries whose numbers are DataFusion's but for the last digits."""

EVERY_MEASURE = tuple(
    " ".join(sql.split())
    for sql in """
select g, min(i), max(i), min(s), max(s), min(m), max(w), min(d), max(ts), min(b), max(bin), max(f), min(x),
count(distinct i), count(distinct s), count(distinct b), approx_distinct(a) from t group by g

select min(x), max(f), sum(distinct a), sum(distinct m), count(distinct x), count(distinct d), max(l) from t

select b, array_agg(i order by id), array_agg(m order by id), string_agg(s, ', ' order by id) from t group by b

select b, array_agg(s order by d desc nulls last, id), string_agg(s, '' order by d desc nulls last, id) from t
group by b

select b, string_agg(distinct g, '' order by g desc), array_agg(distinct g order by g desc) from t group by b

select g, median(i), median(x), median(m), percentile_cont(0.25) within group (order by x), first_value(s
order by id), last_value(i order by d, id), nth_value(x, 2 order by id desc), bit_and(i), bit_or(l),
bit_xor(h), bool_and(b), bool_or(x > 0) from t group by g

select g, stddev(x), stddev_pop(i), var_samp(f), var_pop(x), corr(x, f), covar_samp(x, i), covar_pop(f, h),
avg(distinct x), sum(x), avg(m) from t group by g

select g, max(i) filter (where b), count(distinct s) filter (where x > 0), sum(distinct i) filter (where not
b), array_agg(i order by id) filter (where i > 0), min(ts) filter (where s is null), stddev(x) filter (where
b) from t group by g

select g, b, a > 0, grouping(g), count(*), sum(i), max(s), count(distinct a) from t group by cube(g, b, a >
0)

select g, d, b, count(*), min(id), sum(distinct a) from t group by grouping sets ((g, d), (b), (g), ())

select k, max(c), min(n), array_agg(n order by n), count(distinct c) from (select g, a > 0 k, count(distinct
i) c, max(s) n from t group by g, a > 0) q group by k

select g, b, grouping(g), grouping(b), grouping(b, g), count(*) from t group by rollup(g, b)

select g, count(*), max(s) from t group by grouping sets ((g), (g), ())
""".strip().split("\n\n")
)
"""Queries that together have every measure that DataFusion writes; one row each is right."""

FETCHES = (
    "select id, g, x from t order by x desc nulls last, id limit 7 offset 3",
    "select * from t order by ts nulls first, b desc, bin, s, id limit 9",
    "select id, s from t where i > 0 order by s, id offset 11",
    "select g, sum(i) s, count(*) n from t group by g order by s desc, g limit 2",
    "select g, sum(m), max(q.id) from (select * from t order by w desc, id limit 50) q group by g",
    "select id, m from (select id, m from t order by m desc, id limit 20) q order by id offset 5",
    "select count(*) from (select id from t limit 9) q",
    "select id from t order by id limit 0",
    "select t.id, u.m from t join t u on t.id = u.id + 1 order by u.m desc, t.id limit 6 offset 2",
    "select id from (select id, g from t order by id limit 40) q except select id from t where i > 0",
    "select id, cast(n as bigint) as n from (select id, row_number() over (partition by g order by id desc) as n from t) q where n < 4",
    "select id, cast(rank() over (order by i) as bigint) as r, max(f) over (partition by g) as m from t",
    "(select id from t order by id limit 3) union all (select id from t order by l, id limit 4)",
    "select id, lag(i, 2) over (partition by g order by id) as p, avg(f) over (order by id rows between 3 preceding and 1 following) as a from t",
)
"""Queries with fetches whose rows do not depend on how ties are ordered."""

REFUSED: dict[str, str] = {
    "select regr_slope(x, f) from t": "AGGREGATE_FUNCTION_NOT_SUPPORTED",
    "select levenshtein(s, 'a') from t": "SCALAR_FUNCTION_UNKNOWN",
    "select random() from t": "SCALAR_FUNCTION_UNKNOWN",
    "select cast(d as int) from t": "CAST_NOT_SUPPORTED",
    "select date_part('epoch', ts) from t": "FUNCTION_ARGUMENTS",
    "select d - d from t": "FUNCTION_ARGUMENTS",
    "select interval '1 day' from t": "OUTPUT_TYPE_NOT_KEPT",
    "select null from t": "TYPE_NOT_SUPPORTED",
}
"""SQL -> the code of the first problem."""

FAILING: dict[str, str] = {
    # DataFusion wraps around.
    "select l+9223372036854775807 from t": "BATCH_FAILED",
    "select sum(v) from (values (9223372036854775807), (1)) q(v)": "RESULT_OVERFLOW",
    "select 1/(i-i) from t": "BATCH_FAILED",
    "select cast(s as int) from t": "BATCH_FAILED",
    "select cast(x/0 as decimal(15,2)) from t": "CAST_INVALID",
}
"""SQL -> the code that its first batch fails with."""

Check = Callable[[Any, Any], bool]


def equal(ours: Any, theirs: Any) -> bool:
    """Equality of values, NaN being equal to itself."""
    return bool(ours == theirs or (ours != ours and theirs != theirs))  # noqa: PLR0124


def nearly(ours: Any, theirs: Any) -> bool:
    """Equality except for the last digit of a decimal or the last digits of a float."""
    if isinstance(ours, float) and isinstance(theirs, float):
        return equal(ours, theirs) or abs(ours - theirs) <= 1e-10 * max(abs(ours), abs(theirs), 1.0)
    if isinstance(ours, Decimal) and isinstance(theirs, Decimal):
        step = Decimal(1).scaleb(int(ours.as_tuple().exponent))
        return abs(ours - theirs) <= step
    return equal(ours, theirs)
