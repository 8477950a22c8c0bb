"""Mistakes in expressions: calls, literals, references, casts, conditionals, lists."""

from __future__ import annotations

from tests.planted.changes import (
    NULLABLE,
    NUMBER,
    OUTSIDE,
    REQUIRED,
    TEXT,
    TRUTH,
    adding,
    argument,
    becoming,
    calling,
    clearing,
    copying,
    dropping,
    inside,
    literal,
    quietly,
    replacing,
    setting,
)
from tests.planted.mistake import Mistake
from tests.planted.places import call, column, expression, first

COMPARED = call("gt", "lt")
TIMES = call("multiply", holds=lambda p: p.message.scalar_function.output_type.HasField("i64"))
CAST = expression("cast", lambda p: p.message.cast.type.HasField("fp64"))
CASE = expression("if_then")
SWITCH = expression("switch_expression")
LIST = expression("singular_or_list")
DATE = expression("literal", lambda p: p.message.literal.HasField("date"))
MONEY = expression("literal", lambda p: p.message.literal.HasField("decimal"))
REFERENCE = expression("selection", lambda p: ".grouping_expressions[" not in p.path)

CALL, DECLARED = "scalar_function", ".scalar_function.output_type"
FLOAT = argument(**literal(fp64=2.0))
FAST = {"name": "speed", "preference": ["HIGH"]}
WRAPPING = {"name": "overflow", "preference": ["WRAP"]}

CALLS = (
    Mistake("a call of an anchor that nothing declares", "FUNCTION_UNDECLARED", COMPARED,
            quietly(CALL, setting(function_reference=OUTSIDE))),
    Mistake("a scalar function that nobody has", "SCALAR_FUNCTION_UNKNOWN", COMPARED,
            calling("functions_comparison", "resembles:any_any")),
    Mistake("a scalar function of the standard that is refused", "SCALAR_FUNCTION_NOT_SUPPORTED",
            COMPARED, calling("functions_string", "title:str")),
    Mistake("an aggregate function in an expression", "FUNCTION_NOT_SCALAR", COMPARED,
            calling("functions_arithmetic", "corr:fp64_fp64")),
    Mistake("a comparison with a truth value", "FUNCTION_ARGUMENTS", COMPARED,
            quietly(f"{CALL}.arguments[1]", becoming(**argument(**TRUTH)))),
    Mistake("a comparison of one value", "ARGUMENT_COUNT", COMPARED,
            quietly(CALL, dropping("arguments")), ".scalar_function.arguments"),
    Mistake("an argument of a call that says nothing", "FIELD_MISSING", COMPARED,
            inside(f"{CALL}.arguments[1]", becoming())),
    Mistake("an option of a comparison", "OPTION_UNKNOWN", COMPARED,
            inside(CALL, adding("options", **FAST)), ".name"),
    Mistake("an overflow that nobody has", "OPTION_VALUE_NOT_SUPPORTED", TIMES,
            inside(CALL, adding("options", **WRAPPING)), ".preference"),
    Mistake("an option of a call without a preference", "OPTION_NO_PREFERENCE", TIMES,
            inside(CALL, adding("options", name="overflow")), ".preference"),
    Mistake("a call without an output type", "RESULT_TYPE_MISSING", TIMES,
            quietly(CALL, clearing("output_type"))),
    Mistake("a product declared as another type", "RESULT_TYPE_DIFFERS", TIMES,
            quietly(CALL, replacing("output_type", i32=NULLABLE)), DECLARED),
    Mistake("a product declared as never null", "RESULT_NULLABILITY", TIMES,
            quietly(CALL, replacing("output_type", i64=REQUIRED)), DECLARED),
    Mistake("a product declared as a date", "RESULT_TYPE_NOT_SUPPORTED", TIMES,
            quietly(CALL, replacing("output_type", date=NULLABLE)), DECLARED),
    Mistake("arguments of two types", "ARGUMENTS_PROMOTED", TIMES,
            quietly(f"{CALL}.arguments[1]", becoming(**FLOAT)),
            also=(("RESULT_TYPE_LOSSY", DECLARED),),
            because="the product of what they are converted to has another type than is declared",
            producers=("DataFusion",)),
    Mistake("an argument of another type than the declared signature has", "SIGNATURE_DIFFERS", TIMES,
            quietly(f"{CALL}.arguments[1]", becoming(**FLOAT)),
            also=(("ARGUMENTS_PROMOTED", ""), ("RESULT_TYPE_LOSSY", DECLARED)),
            because="they say what is done: both are converted, and their product has another type than is declared",
            producers=("substrait-python",)),
)  # fmt: skip

VALUES = (
    Mistake("a literal that says nothing", "FIELD_MISSING", DATE, inside("literal", becoming())),
    Mistake("a decimal of too few bytes", "VALUE_INVALID", MONEY,
            inside("literal.decimal", setting(value=b"\x01"))),
    Mistake("a literal of a variation that is not declared", "TYPE_VARIATION_UNDECLARED", DATE,
            inside("literal", setting(type_variation_reference=7)),
            producers=("substrait-python",)),  # DataFusion's variations have a meaning
    Mistake("a date written as a text", "TEXT_READ_AS_TIME", DATE,
            inside("literal", becoming(string="2020-01-31"))),
    Mistake("a date written as a text that is no date", "TIME_TEXT_INVALID", DATE,
            inside("literal", becoming(string="31.01.2020"))),
    Mistake("a time finer than microseconds", "TIME_TOO_FINE", DATE,
            inside("literal", becoming(precision_timestamp={"precision": 9, "value": 1})),
            also=(("TIME_DIGITS_NOT_KEPT", ""),),
            because="a literal of nanoseconds is of a type whose digits are not kept, and this one has such digits"),
    Mistake("a reference to a part of a value that has none", "NESTED_STEP_INVALID", REFERENCE,
            quietly("selection.direct_reference.struct_field.child.struct_field", becoming(field=1))),
    Mistake("a reference to an outer query", "SUBQUERY_REFERENCE_INVALID", REFERENCE,
            quietly("selection", replacing("outer_reference", steps_out=1))),
    Mistake("a reference without a target", "EXPRESSION_NOT_SUPPORTED", REFERENCE,
            inside("selection", clearing("direct_reference"))),
    Mistake("a subquery without a relation", "FIELD_MISSING", first("FilterRel"),
            inside("condition.subquery", replacing("scalar")), ".scalar"),
)  # fmt: skip

CONVERSIONS = (
    Mistake("a cast that nothing does", "CAST_NOT_SUPPORTED", CAST,
            quietly("cast.type", becoming(date=NULLABLE))),
    Mistake("a cast to a struct of nothing", "TYPE_NOT_SUPPORTED", CAST,
            quietly("cast.type", becoming(struct=NULLABLE))),
    Mistake("a cast to a type that is not declared", "VALUE_INVALID", CAST,
            inside("cast.type", becoming(user_defined={"type_reference": OUTSIDE, **NULLABLE})),
            ".user_defined.type_reference"),
    Mistake("a cast without a type", "FIELD_MISSING", CAST, inside("cast", clearing("type"))),
    Mistake("a cast of nothing", "FIELD_MISSING", CAST, inside("cast", clearing("input"))),
    Mistake("a failure behaviour that no release has", "VALUE_INVALID", CAST,
            inside("cast", setting(failure_behavior=9)), ".failure_behavior"),
    Mistake("a cast that does not say what happens to other values", "CAST_FAILURE_MISSING", CAST,
            inside("cast", setting(failure_behavior=0))),
    Mistake("a cast to a type without null of a value that may be null", "CAST_NULLABILITY", CAST,
            quietly("cast.type", becoming(fp64=REQUIRED)), ".cast.type"),
    Mistake("a case whose condition is a number", "FILTER_NOT_BOOLEAN", CASE,
            inside("if_then.ifs[0].if", becoming(**column(1)))),
    Mistake("a case of values of two types", "BRANCH_TYPES_DIFFER", CASE,
            inside("if_then.else", becoming(**NUMBER)), ".literal"),
    Mistake("a case without a condition", "FIELD_MISSING", CASE, inside("if_then", clearing("ifs"))),
    Mistake("a clause without a value", "FIELD_MISSING", CASE,
            inside("if_then.ifs[0]", clearing("then")),
            producers=("substrait-python",)),  # in DataFusion's plans it is the operand of the case
    Mistake("a switch with the same case twice", "CASE_REPEATED", SWITCH,
            inside("switch_expression", copying("ifs[1].if", "ifs[0].if")), producers=("substrait-python",)),
    Mistake("a list of values of another type", "BRANCH_TYPES_DIFFER", LIST,
            inside("singular_or_list.options[0]", becoming(**TEXT)), ".literal"),
    Mistake("a list that nothing is looked for in", "FIELD_MISSING", LIST,
            inside("singular_or_list", clearing("value"))),
)  # fmt: skip

EXPRESSIONS = (*CALLS, *VALUES, *CONVERSIONS)
