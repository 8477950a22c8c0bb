"""Mistakes in measures: function, arguments, output type, options, phase, invocation, order, filter."""

from __future__ import annotations

from tests.planted.changes import (
    NULL,
    NULLABLE,
    OUTSIDE,
    REQUIRED,
    TEXT,
    TRUTH,
    adding,
    argument,
    at_declaration,
    becoming,
    calling,
    clearing,
    combined,
    copying,
    dropping,
    holding,
    inside,
    quietly,
    repeating,
    replacing,
    setting,
)
from tests.planted.mistake import Mistake
from tests.planted.places import Place, column, declared, first, measure

ARITHMETIC, GENERIC = "functions_arithmetic", "functions_aggregate_generic"


def _filtered(place: Place) -> bool:
    return bool(place.enclosing("AggregateRel.Measure").message.HasField("filter"))


def _plain(place: Place) -> bool:
    """Whether the measure is of columns, with neither filter nor order nor DISTINCT."""
    columns = all(a.value.HasField("selection") for a in place.message.arguments)
    distinct = place.message.invocation == 2
    return columns and not (distinct or place.message.sorts or _filtered(place))


def _of_rows(place: Place) -> bool:
    """Whether the count is of rows: of no argument, or of a constant, as DataFusion writes it."""
    return all(a.value.HasField("literal") for a in place.message.arguments)


SUM, AVG, MIN = (measure(name, holds=_plain) for name in ("sum", "avg", "min"))
ROWS = measure("count", holds=_of_rows)
TEXTS = measure("string_agg", holds=lambda p: bool(p.message.sorts) and p.message.invocation != 2)
MEASURE = first("AggregateRel.Measure")
FILTERED = first("AggregateRel.Measure", lambda p: p.message.HasField("filter"))
PERCENTILE = measure("percentile_cont", "approx_percentile_cont")

FUNCTIONS = (
    Mistake("a measure calls an anchor that nothing declares", "FUNCTION_UNDECLARED", SUM,
            setting(function_reference=OUTSIDE)),
    Mistake("an aggregate function that nobody has", "AGGREGATE_FUNCTION_UNKNOWN", SUM,
            calling(ARITHMETIC, "total:i64")),
    Mistake("an aggregate function that is not maintained", "AGGREGATE_FUNCTION_NOT_SUPPORTED",
            measure("corr"), calling(ARITHMETIC, "regr_slope:fp64_fp64")),
    Mistake("a scalar function as a measure", "FUNCTION_NOT_AGGREGATE", AVG,
            calling(ARITHMETIC, "abs:fp64")),
    Mistake("a window function as a measure", "FUNCTION_NOT_AGGREGATE", ROWS,
            combined(calling(ARITHMETIC, "row_number:"), clearing("arguments"))),
    Mistake("a measure declared with other types than it is called with", "SIGNATURE_DIFFERS", AVG,
            calling(ARITHMETIC, "avg:i64"), ".arguments[0].value"),
    Mistake("a form of the function that is deprecated", "FUNCTION_DEPRECATED", AVG,
            at_declaration(combined(
                holding("options", {"name": "distribution", "preference": ["SAMPLE"]}),
                calling(ARITHMETIC, "variance:fp64")))),
    Mistake("a measure without a function", "FIELD_MISSING", MEASURE, clearing("measure")),
)  # fmt: skip


def _with_word(place: Place) -> None:
    """An enumeration word that no function has, before the other arguments."""
    others = [a.SerializeToString() for a in place.message.arguments]
    place.message.ClearField("arguments")
    place.message.arguments.add(enum="EVERYTHING")
    for content in others:
        place.message.arguments.add().MergeFromString(content)


SPREAD = calling(ARITHMETIC, "std_dev:req_fp64")

ARGUMENTS = (
    Mistake("the sum of two columns", "ARGUMENT_COUNT", SUM,
            quietly("", repeating("arguments")), ".arguments"),
    Mistake("the sum of nothing", "ARGUMENT_COUNT", SUM, clearing("arguments"), ".arguments"),
    Mistake("the average of a text", "FUNCTION_ARGUMENTS", AVG,
            holding("arguments", argument(**TEXT)), ".arguments[0].value"),
    Mistake("the minimum of a column that the input does not have", "FIELD_OUT_OF_RANGE", MIN,
            inside("arguments[0].value", becoming(**column(OUTSIDE)))),
    Mistake("an argument that says nothing", "FIELD_MISSING", MIN, inside("arguments[0]", becoming())),
    Mistake("an argument expression that says nothing", "FIELD_MISSING", MIN,
            inside("arguments[0].value", becoming())),
    Mistake("a word that the function does not have", "ENUM_ARGUMENT_INVALID", AVG,
            combined(SPREAD, quietly("", _with_word)), ".arguments[0].enum"),
    Mistake("a column in place of a word", "FUNCTION_ARGUMENTS", AVG,
            combined(SPREAD, quietly("", repeating("arguments"))), ".arguments[0].value"),
    Mistake("a type in place of a value", "FUNCTION_ARGUMENTS", MIN,
            quietly("arguments[0]", becoming(type={"i64": NULLABLE})), ".arguments[0].type"),
    Mistake("a separator that is not a constant", "CONSTANT_ARGUMENT_INVALID", TEXTS,
            quietly("", copying("arguments[1]", "arguments[0]")), ".arguments[1].value"),
)  # fmt: skip

WIDE = {"precision": 40, "scale": 2, **NULLABLE}

OUTPUT = (
    Mistake("a measure without an output type", "OUTPUT_TYPE_MISSING", SUM, clearing("output_type"),
            ".output_type", producers=("substrait-python",)),
    Mistake("an average of doubles declared as single floats", "RESULT_TYPE_LOSSY", AVG,
            replacing("output_type", fp32=NULLABLE), ".output_type"),
    Mistake("an average declared as text", "OUTPUT_TYPE_NOT_SUPPORTED", AVG,
            replacing("output_type", string=NULLABLE), ".output_type"),
    Mistake("a minimum declared as never null", "OUTPUT_NULLABILITY", MIN,
            replacing("output_type", i32=REQUIRED), ".output_type"),
    Mistake("an output type that does not say whether it is nullable", "NULLABILITY_MISSING", MIN,
            replacing("output_type", i32={}), ".output_type.i32"),
    Mistake("an output type without a kind", "FIELD_MISSING", MIN, replacing("output_type"),
            ".output_type"),
    Mistake("a decimal of 40 digits as output type", "VALUE_INVALID", measure("sum", holds=_filtered),
            replacing("output_type", decimal=WIDE), ".output_type.decimal"),
)  # fmt: skip


def _overflow(*preferences: str) -> dict[str, object]:
    return {"name": "overflow", "preference": preferences}


OPTIONS = (
    Mistake("an option that the function does not have", "OPTION_UNKNOWN", AVG,
            holding("options", {"name": "speed", "preference": ["HIGH"]}), ".options[0].name"),
    Mistake("an option of which no preference is known", "OPTION_VALUE_NOT_SUPPORTED", SUM,
            holding("options", _overflow("WRAP", "MODULO")), ".options[0].preference"),
    Mistake("an option without a preference", "OPTION_NO_PREFERENCE", SUM,
            holding("options", _overflow()), ".options[0].preference"),
    Mistake("an option that is set twice, to different values", "FIELD_CONFLICT", SUM,
            holding("options", _overflow("ERROR"), _overflow("SATURATE")), ".options[1]"),
)  # fmt: skip

PHASE_AND_INVOCATION = (
    Mistake("a partial result that its type rounds", "PHASE_NOT_SUPPORTED", AVG, setting(phase=1), ".phase"),
    Mistake("partial results made of values", "FUNCTION_ARGUMENTS", AVG, setting(phase=2), ".arguments[0].value"),
    Mistake("a result of partial results made of values", "FUNCTION_ARGUMENTS", AVG, setting(phase=4),
            ".arguments[0].value"),
    Mistake("a partial result of distinct values", "DISTINCT_NOT_SUPPORTED", SUM,
            combined(setting(phase=1), setting(invocation=2)), ".invocation"),
    Mistake("a partial result of a function that has none", "PHASE_NOT_DECOMPOSABLE", TEXTS,
            setting(phase=1), ".phase"),
    Mistake("a phase that no release has", "VALUE_INVALID", SUM, setting(phase=9), ".phase"),
    Mistake("an invocation that no release has", "VALUE_INVALID", SUM, setting(invocation=7), ".invocation"),
    Mistake("the minimum of distinct values", "DISTINCT_NO_EFFECT", MIN, setting(invocation=2), ".invocation"),
    Mistake("the count of distinct rows, over no column", "DISTINCT_NOT_SUPPORTED", ROWS,
            combined(calling(GENERIC, "count:"), clearing("arguments"), setting(invocation=2)),
            ".invocation"),
    Mistake("the most frequent of distinct values", "DISTINCT_NOT_SUPPORTED", AVG,
            combined(calling(ARITHMETIC, "mode:fp64"), setting(invocation=2)), ".invocation"),
    Mistake("texts without a separator", "ARGUMENT_ASSUMED", TEXTS,
            quietly("", dropping("arguments")), ".arguments", producers=("DataFusion",)),
    Mistake("texts without the separator of their signature", "ARGUMENT_ASSUMED", TEXTS,
            quietly("", dropping("arguments")), ".arguments",
            also=(("SIGNATURE_DIFFERS", ".arguments"),),
            because="the declared signature has the argument that is left out", producers=("substrait-python",)),
    Mistake("distinct texts in the order of something else", "DISTINCT_ORDER_OUTSIDE", TEXTS,
            setting(invocation=2), ".sorts[0].expr"),
)  # fmt: skip

COMPARISON = ".comparison_function_reference"


def _compared(place: Place) -> None:
    """A declared comparison function in place of the direction."""
    anchor = declared(place.plan, "functions_comparison", "lt:any_any")
    place.message.comparison_function_reference = anchor


ORDER = (
    Mistake("a sum in an order", "ORDER_BY_NO_EFFECT", SUM, adding("sorts", expr=column(0), direction=1)),
    Mistake("texts in no order", "ORDER_MISSING", TEXTS, clearing("sorts")),
    Mistake("a sort without direction", "ORDER_DIRECTION_NOT_SUPPORTED", TEXTS,
            inside("sorts[0]", setting(direction=0)), ".direction"),
    Mistake("a direction that no release has", "VALUE_INVALID", TEXTS,
            inside("sorts[0]", setting(direction=9)), ".direction"),
    Mistake("a sort by a comparison function", "COMPARISON_FUNCTION_NOT_SUPPORTED", TEXTS,
            inside("sorts[0]", _compared), COMPARISON),
    Mistake("a sort by a comparison function that nothing declares", "FUNCTION_UNDECLARED", TEXTS,
            inside("sorts[0]", setting(comparison_function_reference=OUTSIDE)), COMPARISON),
    Mistake("a sort without a key", "FIELD_MISSING", TEXTS, inside("sorts[0]", clearing("expr"))),
    Mistake("a sort key that the input does not have", "FIELD_OUT_OF_RANGE", TEXTS,
            inside("sorts[0].expr", becoming(**column(OUTSIDE)))),
    Mistake("a percentile in the order of another column", "ORDER_NOT_BY_ARGUMENT", PERCENTILE,
            inside("sorts[0].expr", becoming(**column(0))), producers=("DataFusion",)),
)  # fmt: skip


def _twice(place: Place) -> Place:
    """The measure at the place once more, in place of the next one."""
    item = place.enclosing("AggregateRel.Measure")
    index = int(item.path.rpartition("[")[2].removesuffix("]"))
    found = copying(f"measures[{index + 1}]", f"measures[{index}]")(item.holder)
    assert isinstance(found, Place)
    return found


FILTER = (
    Mistake("a measure's filter that is no condition", "MEASURE_FILTER_NOT_BOOLEAN", FILTERED,
            copying("filter", "measure.arguments[0].value")),
    Mistake("a measure's filter that is always true", "MEASURE_FILTER_CONSTANT", FILTERED,
            inside("filter", becoming(**TRUTH))),
    Mistake("a measure's filter that is never true", "MEASURE_FILTER_CONSTANT", FILTERED,
            inside("filter", becoming(**NULL))),
    Mistake("a measure's filter on a column that the input does not have", "FIELD_OUT_OF_RANGE", FILTERED,
            inside("filter", becoming(**column(OUTSIDE)))),
    Mistake("a measure's filter that says nothing", "FIELD_MISSING", FILTERED,
            inside("filter", becoming())),
    Mistake("the same measure twice", "MEASURE_DUPLICATE", AVG, _twice),
)  # fmt: skip

MEASURES = (
    *FUNCTIONS, *ARGUMENTS, *OUTPUT, *OPTIONS, *PHASE_AND_INVOCATION, *ORDER, *FILTER,
)  # fmt: skip
