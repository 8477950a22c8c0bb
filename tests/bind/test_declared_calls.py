"""Every supported function of the standard, called exactly as declared, has no problems in any mode.

Result types are not those of this program: the evaluator of type expressions in ``substrait`` derives them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from substrait.derivation_expression import evaluate

from substrait_agg.bind import bind
from substrait_agg.bind.plan.dialect import Support, constant_arguments, support_of
from substrait_agg.functions.signatures.declarations import (
    Signature,
    SignatureArgument,
    scalar_signatures,
    signatures,
)
from substrait_agg.plan import decode
from substrait_agg.problems import Problems

Json = dict[str, Any]

NULLABLE, REQUIRED = "NULLABILITY_NULLABLE", "NULLABILITY_REQUIRED"
UNSIGNED = {"u8": 1, "u16": 2, "u32": 3, "u64": 4}
FIELDS = {"boolean": "bool", "fixedchar": "fixed_char", "fixedbinary": "fixed_binary"}
LENGTH, DIGITS, PRECISION, SCALE = 20, 6, 12, 2
TYPE_WORD = re.compile(r"(?P<word>[\w!]+)(?P<mark>\??)(?:<(?P<inside>.*)>)?")
LITERALS: dict[str, Json] = {
    "string": {"string": ","}, "varchar": {"var_char": {"value": ",", "length": LENGTH}},
}  # fmt: skip
FORMATS = {
    "strftime": "%H:%M", "strptime_date": "%Y-%j", "strptime_time": "%R", "strptime_timestamp": "%F",
}  # fmt: skip
DEPRECATED = "FUNCTION_DEPRECATED"


def parts(text: str) -> tuple[str, bool, list[str]]:
    """Word, nullability and parameters of a type expression."""
    found = TYPE_WORD.fullmatch("".join(text.split()))
    assert found is not None, text
    inside = [part for part in (found["inside"] or "").split(",") if part]
    return found["word"].lower(), bool(found["mark"]), inside


def written(text: str, nullable: bool) -> Json:
    """The type for a type expression, with a value for every parameter; ``any`` becomes i64."""
    word, marked, inside = parts(text)
    body: Json = {"nullability": NULLABLE if nullable or marked else REQUIRED}
    if word.startswith("any"):
        return {"i64": body}
    if word.startswith("u!"):
        return {"user_defined": {"type_reference": UNSIGNED[word[2:]], **body}}
    if word == "list":
        return {"list": {"type": written(inside[0], False), **body}}
    values = dict(zip(named(word), numbers(word, inside), strict=True))
    return {FIELDS.get(word, word): {**body, **values}}


def named(word: str) -> tuple[str, ...]:
    """The fields of a type's message that contain its parameters."""
    if word == "decimal":
        return "precision", "scale"
    if word.startswith("precision_") or word == "interval_day":
        return ("precision",)
    return ("length",) if word in ("varchar", "fixedchar", "fixedbinary") else ()


def numbers(word: str, inside: list[str]) -> list[int]:
    usual = {"decimal": [PRECISION, SCALE], "interval_day": [DIGITS]}
    known = usual.get(word, [DIGITS if word.startswith("precision_") else LENGTH])
    return [int(p) if p.isdigit() else known[i] for i, p in enumerate(inside)]


def result(signature: Signature, nulls: list[bool]) -> Json:
    """The type that the declaration derives, given which arguments are nullable (`nulls`)."""
    text = "".join(signature.returns.split())
    made: Json
    if "integer_parameter" in text:
        # The digits that the last argument says, which is written as 1.
        made = written(signature.returns.split()[-1].replace("precision>", "1>"), False)
    elif "\n" in signature.returns.strip():
        values: dict[str, int] = {}
        for argument in signature.arguments:
            word, _, inside = ("", False, []) if argument.words else parts(argument.type)
            values |= dict(zip(inside, numbers(word, inside), strict=True))
        made = MessageToDict(evaluate(signature.returns, values), preserving_proto_field_name=True)
    else:
        made = written(text, False)
    (body,) = made.values()
    if signature.nullability == "MIRROR":
        body["nullability"] = NULLABLE if any(nulls) else REQUIRED
    return made


def arguments_of(signature: Signature) -> tuple[SignatureArgument, ...]:
    """One argument per declared one, and as many more as have to be there."""
    if signature.variadic is None:
        return signature.arguments
    return signature.arguments[:-1] + signature.arguments[-1:] * max(signature.variadic, 2)


def called(support: Support, every: int, options: list[Json]) -> tuple[Json, list[Json]]:
    """A call and the columns that it reads, of which every `every`-th is nullable (0: none)."""
    signature = support.signature
    given: list[Json] = []
    columns: list[Json] = []
    nulls: list[bool] = []
    for place, argument in enumerate(arguments_of(signature)):
        if argument.words:
            given.append({"enum": support.words[argument.name][0].title()})
        elif argument.type.startswith("func"):
            given.append({"value": function_of(argument.type)})
        elif argument.constant or argument.name in constant_arguments(signature):
            word = parts(argument.type)[0]
            literal = LITERALS.get(word, {word: 1})
            if argument.name == "format":
                literal = {"string": FORMATS[signature.name]}
            given.append({"value": {"literal": literal}})
        else:
            type_ = written(argument.type, bool(every) and place % every == 0)
            given.append({"value": column(len(columns))})
            columns.append(type_)
            nulls += [body["nullability"] == NULLABLE for body in type_.values()]
    call = {"arguments": given, "output_type": result(signature, nulls), "options": options}
    return call, columns


def function_of(text: str) -> Json:
    """A lambda of the declared result: its parameter, or a boolean."""
    body: Json = {
        "selection": {
            "direct_reference": {"struct_field": {"field": 0}},
            "lambda_parameter_reference": {},
        }
    }
    if "boolean" in text:
        body = {"literal": {"boolean": True, "nullable": True}}
    parameters = {"types": [{"i64": {"nullability": REQUIRED}}], "nullability": REQUIRED}
    return {"lambda": {"parameters": parameters, "body": body}}


def column(ordinal: int) -> Json:
    segment = {"struct_field": {"field": ordinal}}
    return {"selection": {"direct_reference": segment, "root_reference": {}}}


def plan_of(support: Support, call: Json, columns: list[Json], *, aggregate: bool) -> Json:
    """The call under anchors that are 0, with other unused declarations."""
    signature = support.signature
    struct = {"types": [*columns, {"i64": {"nullability": REQUIRED}}], "nullability": REQUIRED}
    schema = {"names": [f"c{i}" for i in range(len(columns) + 1)], "struct": struct}
    source = {"read": {"base_schema": schema, "named_table": {"names": ["t"]}}}
    if aggregate:
        phase = {
            "phase": "AGGREGATION_PHASE_INITIAL_TO_RESULT",
            "invocation": "AGGREGATION_INVOCATION_ALL",
        }
        sort = {"expr": column(0), "direction": "SORT_DIRECTION_ASC_NULLS_LAST"}
        body = {**call, **phase, "sorts": [sort] if signature.ordered else []}
        measures = [{"measure": body}]
        root: Json = {"aggregate": {"input": source, "groupings": [{}], "measures": measures}}
    else:
        emit = {"emit": {"output_mapping": [len(columns) + 1]}}
        made = [{"scalar_function": call}]
        root = {"project": {"common": emit, "input": source, "expressions": made}}
    types = [
        {"extension_type": {"extension_urn_reference": 5, "type_anchor": anchor, "name": name}}
        for name, anchor in UNSIGNED.items()
    ]
    function = {"extension_function": {"name": signature.signature}}
    return {
        "version": {"minor_number": 85, "producer": "somebody"},
        "extension_urns": [
            {"urn": f"extension:io.substrait:{signature.urn}"},
            {"extension_urn_anchor": 5, "urn": "extension:io.substrait:unsigned_integers"},
        ],
        "extensions": [*types, function],
        "relations": [{"root": {"input": root, "names": ["r"]}}],
    }


def choices(support: Support) -> Iterator[list[Json]]:
    """No option, and each accepted value of each option in another case, after an unsupported preference."""
    yield []
    for name, values in support.options.items():
        for value in values:
            yield [{"name": name.swapcase(), "preference": ["NO_SUCH_VALUE", value.lower()]}]


def cases() -> Iterator[Any]:
    sections = ((signatures(), True), (scalar_signatures(), False))
    for found, aggregate in sections:
        for signature in found:
            yield pytest.param(signature, aggregate, id=f"{signature.urn}-{signature.signature}")


@pytest.mark.parametrize(("signature", "aggregate"), list(cases()))
def test_a_call_as_it_is_declared_has_no_problem(signature: Signature, aggregate: bool) -> None:
    """A plan that follows the specification exactly has no problems."""
    support = support_of(signature, aggregate=aggregate)
    if not support.supported:
        assert support.problems
        return
    calls: list[tuple[int, list[Json]]] = [(1, []), (2, []), *((0, o) for o in choices(support))]
    for every, options in calls:
        call, columns = called(support, every, options)
        found = Problems("strict")
        text = json.dumps(plan_of(support, call, columns, aggregate=aggregate))
        made = bind(decode(text, found), found)
        said = [p for p in found.items if p.level != "info" and p.code != DEPRECATED]
        assert said == [], (every, options)
        assert made is not None
