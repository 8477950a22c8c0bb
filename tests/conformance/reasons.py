"""Cases that do not pass, each with the reason; a reason that is not needed any more fails a test."""

from __future__ import annotations

from tests.conformance.cases import Case
from tests.conformance.outcomes import Outcome

_SATURATE = "the product is 130, above the range of i8, so the end that it saturates to is 127"
_SHIFT = "the value written is the number shifted by 16 bits; by the 8 bits of the call it is 77309411328"
_NAN_OPTION = (
    "the option asks for NaN; the value written is null, which no value of the option gives"
)
_WITHIN_SECOND = (
    "functions_datetime.yaml: milliseconds since the last full second, microseconds since the last full millisecond;"
    " the value written counts from the last full minute"
)
_SUNDAY = (
    "functions_datetime.yaml: weeks go from Monday (first) to Sunday (seventh day), or from Sunday (first) on;"
    " 2016-12-25 was a Sunday, and the value written has it the other way round"
)
_BASE = (
    "functions_logarithmic.yaml: the number comes first, the base second, which DataFusion writes too;"
    " the value written has them the other way round"
)
_ALL = (
    "functions_string.yaml: occurrence 0, which holds where none is written, replaces all matches;"
    " the value written has the first one replaced"
)
_SQUARES_70 = "the mean is 0 and the squares of the 6 numbers add up to 70: the variance of the sample is 70 / 5 = 14"
_SQUARES_12 = "the squares of the 5 distances from the mean 3.3 add up to 12.1: the variance of the sample is 12.1 / 4 = 3.025"
_SQUARES_6250 = (
    "the squares of the 5 distances from the mean 50 add up to 6250: the variance is 6250 / 5 = 1250, of the sample"
    " 6250 / 4 = 1562.5"
)

DISPUTED: dict[tuple[str, str], str] = {
    ("arithmetic/multiply", "multiply(-13::i8, -10::i8) [overflow:SATURATE] = -128::i8"): _SATURATE,
    ("arithmetic/shift_left", "shift_left(301989888::i64, 8::i32) = 19791209299968::i64"): _SHIFT,
    ("arithmetic/sqrt", "sqrt(-1::i64) [on_domain_error:NAN] = null::fp64?"): _NAN_OPTION,
    ("arithmetic/sqrt", "sqrt(-9223372036854775800::i64) [on_domain_error:NAN] = null::fp64?"): _NAN_OPTION,
    ("logarithmic/ln", "ln(0.0::fp64) [on_log_zero:NAN] = null::fp64?"): _NAN_OPTION,
    ("logarithmic/log10", "log10(0.0::fp64) [on_log_zero:NAN] = null::fp64?"): _NAN_OPTION,
    ("logarithmic/log2", "log2(0.0::fp64) [on_log_zero:NAN] = null::fp64?"): _NAN_OPTION,
    ("datetime/extract", "extract(SUNDAY_DAY_OF_WEEK::enum, 2016-12-25T13:30:15::pts<6>) = 7::i64"): _SUNDAY,
    ("datetime/extract", "extract(MONDAY_DAY_OF_WEEK::enum, 2016-12-25T13:30:15::pts<6>) = 0::i64"): _SUNDAY,
    ("datetime/extract", "extract(MILLISECOND::enum, 01:02:03.155::pt<6>) = 3155::i64"): _WITHIN_SECOND,
    ("datetime/extract", "extract(MICROSECOND::enum, 01:02:03.45::pt<6>) = 3450000::i64"): _WITHIN_SECOND,
    ("datetime/extract", "extract(MILLISECOND::enum, 2016-12-31T13:30:15::pts<6>) = 15000::i64"): _WITHIN_SECOND,
    ("datetime/extract", "extract(MICROSECOND::enum, 2016-12-31T13:30:15.220000::pts<6>) = 15220000::i64"): _WITHIN_SECOND,
    ("logarithmic/logb", "logb(10::i64, 100000::i64) = 5.0::fp64"): _BASE,
    ("logarithmic/logb", "logb(7::fp64, 1.0::fp64) = 0::fp64"): _BASE,
    ("logarithmic/logb", "logb(2::fp64, 7::fp64) = 2.8073549220576041::fp64"): _BASE,
    ("logarithmic/logb", "logb(2.34::fp64, inf::fp64) = inf::fp64"): _BASE,
    ("logarithmic/logb", "logb(2.0::fp64, 0.0::fp64) [on_log_zero:ERROR] = <!ERROR>"): _BASE,
    ("logarithmic/logb", "logb(2.0::fp64, 0.0::fp64) [on_log_zero:NAN] = null::fp64?"): _BASE,
    ("logarithmic/logb", "logb(2.0::fp64, 0.0::fp64) [on_log_zero:MINUS_INFINITY] = -inf::fp64"): _BASE,
    ("string/regexp_replace", "regexp_replace('a bcdef'::str, '\\S'::str, ','::str, 1::i64, 0::i64) = ', bcdef'::str"): _ALL,
    ("string/regexp_replace", "regexp_replace(' abcdef'::str, '\\w'::str, '1'::str, 1::i64, 0::i64) = ' 1bcdef'::str"): _ALL,
    ("string/regexp_replace", "regexp_replace('a bcdef'::str, '\\S'::str, ','::str) = ', bcdef'::str"): _ALL,
    ("string/regexp_replace", "regexp_replace(' abcdef'::str, '\\w'::str, '1'::str) = ' 1bcdef'::str"): _ALL,
    ("string/regexp_replace", "regexp_replace('abcabcabc'::str, '[bc]'::str, 'dd'::str, 1::i64, 0::i64) = 'addcabcabc'::str"): _ALL,
    ("string/regexp_replace", "regexp_replace('abcabcabc'::str, '[bc]'::str, 'dd'::str) = 'addcabcabc'::str"): _ALL,
    ("arithmetic/std_dev", "((-5.0), (-3.0), (-1.0), (1.0), (3.0), (5.0)) std_dev(SAMPLE::enum, col0::fp32) = 3.8944404::fp32?"): _SQUARES_70,
    ("arithmetic/std_dev", "((-5.0), (-3.0), (-1.0), (1.0), (3.0), (5.0)) std_dev(SAMPLE::enum, col0::fp64) = 3.8944404818493075::fp64?"): _SQUARES_70,
    ("arithmetic/std_dev", "((1.1), (2.2), (3.3), (4.4), (5.5)) std_dev(SAMPLE::enum, col0::fp32) [rounding:TIE_TO_EVEN] = 1.7406897::fp32?"): _SQUARES_12,
    ("arithmetic/std_dev", "((1.1), (2.2), (3.3), (4.4), (5.5)) std_dev(SAMPLE::enum, col0::fp64) [rounding:TRUNCATE] = 1.7406897166664838::fp64?"): _SQUARES_12,
    ("arithmetic/std_dev", "((0.0), (100.0), (50.0), (25.0), (75.0)) std_dev(SAMPLE::enum, col0::fp32) = 41.010193::fp32?"): _SQUARES_6250,
    ("arithmetic/std_dev", "((0.0), (100.0), (50.0), (25.0), (75.0)) std_dev(POPULATION::enum, col0::fp64) = 36.66060555964672::fp64?"): _SQUARES_6250,
    ("arithmetic/variance", "((-5.0), (-3.0), (-1.0), (1.0), (3.0), (5.0)) variance(SAMPLE::enum, col0::fp32) = 15.166667::fp32?"): _SQUARES_70,
    ("arithmetic/variance", "((-5.0), (-3.0), (-1.0), (1.0), (3.0), (5.0)) variance(SAMPLE::enum, col0::fp64) = 15.166666666666666::fp64?"): _SQUARES_70,
    ("arithmetic/variance", "((1.1), (2.2), (3.3), (4.4), (5.5)) variance(SAMPLE::enum, col0::fp32) [rounding:TIE_TO_EVEN] = 3.03::fp32?"): _SQUARES_12,
    ("arithmetic/variance", "((1.1), (2.2), (3.3), (4.4), (5.5)) variance(SAMPLE::enum, col0::fp64) [rounding:TRUNCATE] = 3.0299999999999994::fp64?"): _SQUARES_12,
    ("arithmetic/variance", "((0.0), (100.0), (50.0), (25.0), (75.0)) variance(SAMPLE::enum, col0::fp32) = 1681.25::fp32?"): _SQUARES_6250,
    ("arithmetic/variance", "((0.0), (100.0), (50.0), (25.0), (75.0)) variance(POPULATION::enum, col0::fp64) = 1345.0::fp64?"): _SQUARES_6250,
}  # fmt: skip
"""(file, text of the case) -> why what the file expects is not what its extension file declares."""

REFUSED_AGGREGATES: dict[str, str] = {}
"""File -> why plans with some of its functions are refused."""


def reason_for(case: Case) -> str | None:
    """Why a case need not pass, None where it must."""
    return DISPUTED.get((case.file, case.text))


def complaints(file: str, outcomes: list[Outcome]) -> list[str]:
    """What must be looked at in the outcomes of a file: wrong cases without a reason, and reasons without a case."""
    found = [str(o) for o in outcomes if o.verdict == "wrong" and reason_for(o.case) is None]
    wrong = {o.case.text for o in outcomes if o.verdict == "wrong"}
    listed = [text for name, text in DISPUTED if name == file]
    found += [
        f"listed in reasons.py, but not wrong: {text}" for text in listed if text not in wrong
    ]
    return found


def aggregate_complaints(file: str, outcomes: list[Outcome]) -> list[str]:
    """The same for aggregate functions, which are to be refused for a listed reason only."""
    refused = [o for o in outcomes if o.verdict == "refused"]
    found = complaints(file, outcomes)
    if refused and file not in REFUSED_AGGREGATES:
        found += [str(o) for o in refused]
    if not refused and file in REFUSED_AGGREGATES:
        found.append("its refusal is listed in reasons.py, but no case is refused")
    return found
