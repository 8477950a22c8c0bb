"""Plans of a few hundred bytes to a few megabytes that would exhaust time or memory without limits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from substrait_agg.plan.messages.schema import schema
from tests.fuzz.messages import varint

Bomb = Callable[[], bytes]
URN = "extension:io.substrait:functions_arithmetic"


def message(name: str, /, **fields: Any) -> bytes:
    """A message from its fields: bytes are messages (or packed numbers), lists are repeated."""
    shape, out = schema().messages[name], bytearray()
    for key, value in fields.items():
        number = shape.by_json_name[key.rstrip("_")].number
        for one in value if isinstance(value, list) else [value]:
            raw = one.encode() if isinstance(one, str) else one
            if isinstance(raw, bytes):
                out += varint(number << 3 | 2) + varint(len(raw)) + raw
            else:
                out += varint(number << 3) + varint(int(raw))
    return bytes(out)


def packed(numbers: Iterable[int]) -> bytes:
    return b"".join(map(varint, numbers))


I64 = message("Type", i64=message("Type.I64", nullability=1))
BOOL = message("Type", bool=message("Type.Boolean", nullability=1))
STRING = message("Type", string=message("Type.String", nullability=1))


def column(ordinal: int) -> bytes:
    field = message("Expression.ReferenceSegment.StructField", field=ordinal)
    segment = message("Expression.ReferenceSegment", struct_field=field)
    body = message("Expression.FieldReference", direct_reference=segment, root_reference=b"")
    return message("Expression", selection=body)


def number(value: int) -> bytes:
    return message("Expression", literal=message("Expression.Literal", i64=value))


def call(anchor: int, *arguments: bytes, type_: bytes = I64) -> bytes:
    held = [message("FunctionArgument", value=a) for a in arguments]
    body = message(
        "Expression.ScalarFunction", function_reference=anchor, arguments=held, output_type=type_
    )
    return message("Expression", scalar_function=body)


def read(types: Sequence[bytes], names: Sequence[str] | None = None) -> bytes:
    named = message("NamedStruct", names=list(names or [f"c{i}" for i in range(len(types))]),
                    struct=message("Type.Struct", types=list(types), nullability=2))  # fmt: skip
    table = message("ReadRel.NamedTable", names="t")
    return message("Rel", read=message("ReadRel", base_schema=named, named_table=table))


def filtered(source: bytes, condition: bytes) -> bytes:
    return message("Rel", filter=message("FilterRel", input=source, condition=condition))


def projected(source: bytes, *made: bytes, emit: Iterable[int] | None = None) -> bytes:
    common = {}
    if emit is not None:
        mapping = message("RelCommon.Emit", output_mapping=packed(emit))
        common["common"] = message("RelCommon", emit=mapping)
    return message(
        "Rel", project=message("ProjectRel", input=source, expressions=list(made), **common)
    )


def united(*sources: bytes) -> bytes:
    return message("Rel", set=message("SetRel", inputs=list(sources), op=6))


def shared_relation(ordinal: int) -> bytes:
    return message("Rel", reference=message("ReferenceRel", subtree_ordinal=ordinal))


def measure(anchor: int, *arguments: bytes, **fields: Any) -> bytes:
    held = [message("FunctionArgument", value=a) for a in arguments]
    body = message("AggregateFunction", function_reference=anchor, arguments=held,
                   output_type=I64, phase=3, invocation=1, **fields)  # fmt: skip
    return message("AggregateRel.Measure", measure=body)


def aggregated(
    source: bytes,
    keys: Sequence[bytes] = (),
    measures: Sequence[bytes] = (),
    sets: Iterable[Iterable[int]] | None = None,
) -> bytes:
    written = [range(len(keys))] if sets is None else sets
    groupings = [
        message("AggregateRel.Grouping", expression_references=packed(refs)) for refs in written
    ]
    body = message("AggregateRel", input=source, grouping_expressions=list(keys),
                   groupings=groupings, measures=list(measures))  # fmt: skip
    return message("Rel", aggregate=body)


def plan(
    *relations: bytes, functions: Sequence[str] = (), columns: int = 1, producer: str = ""
) -> bytes:
    """The last relation is the root; the others are there to be referred to."""
    declared = [
        message("extensions.SimpleExtensionDeclaration", extension_function=message(
            "extensions.SimpleExtensionDeclaration.ExtensionFunction",
            function_anchor=i + 1, name=name, extension_urn_reference=1))
        for i, name in enumerate(functions)
    ]  # fmt: skip
    root = message("RelRoot", input=relations[-1], names=[f"a{i}" for i in range(columns)])
    entries = [message("PlanRel", rel=r) for r in relations[:-1]] + [message("PlanRel", root=root)]
    urn = message("extensions.SimpleExtensionURN", extension_urn_anchor=1, urn=URN)
    return message("Plan", version=message("Version", minor_number=80, producer=producer),
                   extension_urns=urn, extensions=declared, relations=entries)  # fmt: skip


def repeated(base: bytes, times: int, wrap: Callable[[bytes], bytes]) -> bytes:
    for _ in range(times):
        base = wrap(base)
    return base


# --- what is too large in itself ---------------------------------------------------------------


def many_measures() -> bytes:
    return plan(
        aggregated(read([I64]), [], [measure(1, column(0))] * 11_000), functions=["sum:i64"]
    )


def many_columns() -> bytes:
    return plan(read([I64] * 11_000))


def many_grouping_sets() -> bytes:
    keys = [column(0)]
    return plan(aggregated(read([I64]), keys, [], [[0]] * 11_000))


def nested_fields() -> bytes:
    struct = message("Type", struct=message("Type.Struct", types=[I64] * 11_000, nullability=1))
    return plan(read([struct], ["c"] * 11_001))


def many_grouping_bits() -> bytes:
    """DataFusion's bitmask of the keys that a set leaves out has one bit per key."""
    keys = [column(i) for i in range(70)]
    return plan(aggregated(read([I64] * 70), keys, [], [range(70), range(3)]), columns=71,
                producer="datafusion")  # fmt: skip


def many_sort_keys() -> bytes:
    key = message("SortField", expr=column(0), direction=1)
    return plan(message("Rel", sort=message("SortRel", input=read([I64]), sorts=[key] * 11_000)))


# --- what multiplies ---------------------------------------------------------------------------


def columns_doubled() -> bytes:
    relation = read([I64])
    for level in range(20):
        relation = projected(relation, emit=[i for i in range(min(2**level, 12_000)) for _ in "ab"])
    return plan(relation)


def columns_repeated() -> bytes:
    """Every project has all columns of its input and one more."""
    return plan(repeated(read([I64] * 9_000), 400, lambda r: projected(r, number(1))))


def relations_doubled() -> bytes:
    return plan(read([I64]), *(united(shared_relation(i), shared_relation(i)) for i in range(40)))


def aggregates_doubled() -> bytes:
    """A chain of aggregates, each over the union of the one below with itself: few operators, but
    exponentially many messages when written out.
    """
    pairs = (
        aggregated(united(shared_relation(i), shared_relation(i)), [column(0)]) for i in range(40)
    )
    return plan(read([I64]), *pairs)


def branches_times_steps() -> bytes:
    """Each of many branches gets each of many filters."""
    union = united(*[read([I64])] * 3_000)
    condition = call(1, column(0), number(1), type_=BOOL)
    return plan(repeated(union, 100, lambda r: filtered(r, condition)), functions=["lt:any_any"])


def branches_times_columns() -> bytes:
    wide = projected(read([I64]), emit=[0] * 9_000)
    return plan(wide, united(*[shared_relation(0)] * 200), columns=9_000)


def switches_in_switches() -> bytes:
    """A switch compares its match once per case."""
    cases = [
        message("Expression.SwitchExpression.IfValue", if_=message("Expression.Literal", i64=i), then=number(1))
        for i in range(2)
    ]  # fmt: skip

    def wrap(match: bytes) -> bytes:
        body = message("Expression.SwitchExpression", match=match, ifs=cases, else_=number(1))
        return message("Expression", switch_expression=body)

    return plan(projected(read([I64]), repeated(column(0), 300, wrap), emit=[1]))


def constants_repeated() -> bytes:
    return _long_constant(300)


def _long_constant(times: int) -> bytes:
    text = message("Expression", literal=message("Expression.Literal", string="y" * 1_000_000))
    relation = projected(read([I64]), text, emit=[1] * times)
    keys = [column(i) for i in range(times)]
    return plan(aggregated(relation, keys), columns=times)


# --- what is said too often --------------------------------------------------------------------


def many_problems() -> bytes:
    return plan(projected(read([I64]), *[column(i) for i in range(2, 9_000)]))


def deep_problems() -> bytes:
    """Each with a path of thousands of characters."""
    relation = projected(read([I64]), *[column(9)] * 3_000)
    true = message("Expression", literal=message("Expression.Literal", boolean=1))
    return plan(repeated(relation, 200, lambda r: filtered(r, true)))


TOO_LARGE: dict[Bomb, str] = {
    **dict.fromkeys(
        (many_measures, many_columns, many_grouping_sets, nested_fields, many_grouping_bits, many_sort_keys,
         columns_doubled, columns_repeated, relations_doubled, aggregates_doubled, branches_times_steps,
         constants_repeated, branches_times_columns),
        "PLAN_TOO_LARGE",
    ),
    switches_in_switches: "EXPRESSION_TOO_LARGE",
    many_problems: "TOO_MANY_PROBLEMS",
    deep_problems: "TOO_MANY_PROBLEMS",
}  # fmt: skip
"""Plans over a limit, and the code of the limit."""


# --- what has to be fast, because no limit stops it --------------------------------------------


def text_doubled() -> bytes:
    """Every column is the sum of the one before with itself: written out, 2**60 times the first."""
    wrap = lambda r: projected(r, call(1, column(0), column(0)), emit=[1])  # noqa: E731
    return plan(repeated(read([I64]), 60, wrap), functions=["add:i64_i64"])


def keys_doubled() -> bytes:
    """The same, with an aggregate at each step."""
    wrap = lambda r: aggregated(projected(r, call(1, column(0), column(0)), emit=[1]), [column(0)])  # noqa: E731
    return plan(repeated(read([I64]), 60, wrap), functions=["add:i64_i64"])


def long_names() -> bytes:
    name = "x" * 1_000_000
    return plan(aggregated(read([I64], [name]), [column(0)], [measure(1, column(0))] * 200),
                functions=[f"sum{name}:i64"])  # fmt: skip


def long_constant() -> bytes:
    """A constant that a column is called after, and a column of that one."""
    return _long_constant(1)


def wide_set_of_keys() -> bytes:
    keys = [column(i) for i in range(2_000)]
    return plan(aggregated(read([I64] * 2_000), keys, [], [range(2_000)] * 40), columns=2_001)


def many_measures_within() -> bytes:
    measures = [measure(1, call(2, column(0), number(i))) for i in range(700)]
    return plan(
        aggregated(read([I64]), [], measures), functions=["sum:i64", "add:i64_i64"], columns=700
    )


def pattern() -> bytes:
    text = message("Expression", literal=message("Expression.Literal", string="%a" * 20_000))
    return plan(
        filtered(read([STRING]), call(1, column(0), text, type_=BOOL)), functions=["like:str_str"]
    )


IN_TIME: tuple[Bomb, ...] = (
    text_doubled, keys_doubled, long_names, long_constant, wide_set_of_keys, many_measures_within, pattern,
)  # fmt: skip
"""Plans within all limits, whatever is wrong with them."""


# --- texts and bytes that are no plans ----------------------------------------------------------

NO_PLANS: dict[str, bytes] = {
    "empty": b"",
    "gzip": b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03" + bytes(50),
    "zeros": bytes(400_000),
    "ones": b"\xff" * 400_000,
    "line feeds": b"\n" * 400_000,
    "spaces": b" " * 400_000,
    "open braces": b'{"a":' * 50_000,
    "open brackets": b'{"a":' + b"[" * 50_000,
    "open comments": b"/*" * 2_000_000,
    "comments": b"/**/" * 1_000_000 + b"{",
    "slashes": b"//\n" * 1_000_000,
    "open string": b'{"a":"' + b'\\"' * 2_000_000,
    "many keys": b"{" + b",".join(b'"k%d":1' % i for i in range(20_000)) + b"}",
    "many digits": b'{"relations":' + b"9" * 2_000_000 + b"}",
    "digits in a text": b'{"relations":[{"rel":{"reference":{"subtreeOrdinal":"' + b"1" * 2_000_000 + b'"}}}]}',
    "large exponents": b'{"relations":[{"rel":{"read":{"common":{"emit":{"outputMapping":["1e400", 1e400]}}}}}]}',
    "half a character": b'{"relations":[{"rel":{"read":{"namedTable":{"names":["\\ud800"]}}}}]}',
    "UTF-8 that is none": b'{"relations": "\xff\xfe"}',
    "UTF-16": '{"relations": []}'.encode("utf-16"),
    "half of UTF-16": '{"relations": []}'.encode("utf-16")[:-1],
    "UTF-32": '{"relations": []}'.encode("utf-32"),
    "null characters": b'{"rela\x00tions": "\x00"}',
    "groups": b"\x23" * 100_000 + b"\x24" * 100_000,
    "unclosed groups": b"\x23" * 100_000,
    "endless number": b"\x08" + b"\x80" * 2_000_000,
    "a length beyond the end": b"\x1a\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
    "field number 0": b"\x00\x01",
    "wire type 7": b"\x0f\x01",
    "a message as a number": b"\x18\x01",
    "empty relations": b"\x1a\x00" * 20_000,
    "too many values": b" " * 8_000_000,
    "too many bytes": b" " * (32 * 1024 * 1024 + 1),
}  # fmt: skip
