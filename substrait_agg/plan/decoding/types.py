"""Read ``Type`` messages of every release."""

from __future__ import annotations

from substrait_agg.plan.decoding.context import DecodeContext, each
from substrait_agg.plan.messages.node import MAX_NESTING, MessageNode
from substrait_agg.plan.types import INTEGER_BITS, UNSIGNED, Type

# Field of `Type` -> kind, and the fields with its parameters.
_PARAMETERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "fixed_char": ("fixedchar", ("length",)),
    "varchar": ("varchar", ("length",)),
    "fixed_binary": ("fixedbinary", ("length",)),
    "decimal": ("decimal", ("precision", "scale")),
    "precision_time": ("precision_time", ("precision",)),
    "precision_timestamp": ("precision_timestamp", ("precision",)),
    "precision_timestamp_tz": ("precision_timestamp_tz", ("precision",)),
    "interval_day": ("interval_day", ("precision",)),
    "interval_compound": ("interval_compound", ("precision",)),
}
_MICROSECONDS = 6
# Removed in 0.88; their values are microseconds.
REMOVED_TIMES = {
    "time": "precision_time",
    "timestamp": "precision_timestamp",
    "timestamp_tz": "precision_timestamp_tz",
}
_NESTED = {"struct": ("types",), "list": ("type",), "map": ("key", "value")}
BROKEN = Type("unknown")
"""A type whose problem has been reported; it fits everywhere, so no further problem is reported."""

_MAX_DECIMAL, _MAX_PRECISION = 38, 12
_NULLABILITY = {1: True, 2: False}

# DataFusion's type variations with the same values in another layout (datafusion-substrait,
# ``variation_const.rs``). Unsigned integers, dictionaries and timestamp units are handled
# separately.
_DATAFUSION_SAME_VALUES = ("string", "binary", "list", "date", "decimal", "precision_time", "time")
_DATAFUSION_TIMESTAMP_DIGITS = {0: 0, 1: 3, 2: 6, 3: 9}


def read_type(node: MessageNode, context: DecodeContext) -> Type:
    """Return the type of a ``Type`` message; unsupported ones are ``user_defined`` with a name."""
    kind = node.which("kind")
    if kind == "user_defined_type_reference":
        context.report_removed(node, kind, "0.97")
        return _extension_type(node, kind, True, context)
    body = node.message(kind) if kind else None
    if kind is None or body is None:
        context.report_missing(node, "kind")
        return BROKEN
    levels = node.count_nesting()
    if levels >= MAX_NESTING:
        body.refuse()
        if levels == MAX_NESTING:
            reason = f"has more than {MAX_NESTING} levels"
            context.report("VALUE_INVALID", node.path, field="type", reason=reason)
        return Type("user_defined", name="too deep")
    if kind in REMOVED_TIMES:
        context.report_removed(node, kind, "0.88")
    if kind in ("alias", "func", "unbound"):
        body.refuse()
        return Type("user_defined", name=kind)
    return type_of(kind, body, context)


def type_of(kind: str, body: MessageNode, context: DecodeContext) -> Type:
    """Return the type of a member `kind` of ``Type``, from its own message such as ``Type.I32``."""
    nullable = _nullable(kind, body, context)
    if kind == "user_defined":
        type_ = _extension_type(body, "type_reference", nullable, context)
    elif kind in _NESTED:
        type_ = Type(kind, nullable, children=_children(kind, body, context))
    elif kind in REMOVED_TIMES:
        type_ = Type(REMOVED_TIMES[kind], nullable, (_MICROSECONDS,))
    elif kind in _PARAMETERS:
        type_ = _decode_parameters(kind, body, nullable, context)
    else:
        type_ = Type(kind, nullable)
    return with_variation(type_, kind, body, context)


def _nullable(kind: str, body: MessageNode, context: DecodeContext) -> bool:
    nullable = _NULLABILITY.get(body.number("nullability"))
    if nullable is None:
        context.report("NULLABILITY_MISSING", body.path, type=kind, read="nullable")
        return True
    return nullable


def _children(kind: str, body: MessageNode, context: DecodeContext) -> tuple[Type, ...]:
    if kind == "struct":
        return tuple(each(body, "types"))
    children = []
    for name in _NESTED[kind]:
        child = body.message(name)
        if child is None:
            context.report_missing(body, name)
        children.append(child.result if child is not None else BROKEN)
    return tuple(children)


def _decode_parameters(
    kind: str, body: MessageNode, nullable: bool, context: DecodeContext
) -> Type:
    word, fields = _PARAMETERS[kind]
    params = tuple(body.number(name) for name in fields)
    if kind == "interval_day" and not body.has("precision"):
        params = (_MICROSECONDS,)
    if not valid_parameters(word, params):
        reason = f"cannot have the parameters {', '.join(map(str, params))}"
        context.report("VALUE_INVALID", body.path, field=kind, reason=reason)
        return BROKEN
    return Type(word, nullable, params)


def valid_parameters(kind: str, params: tuple[int, ...]) -> bool:
    """Return whether the parameters of a type are within the limits of the specification.

    >>> valid_parameters("decimal", (38, 10)), valid_parameters("decimal", (39, 10))
    (True, False)
    """
    if kind == "decimal":
        return 1 <= params[0] <= _MAX_DECIMAL and 0 <= params[1] <= params[0]
    if kind in ("fixedchar", "varchar", "fixedbinary"):
        return params[0] >= 0
    return 0 <= params[0] <= _MAX_PRECISION


def _extension_type(node: MessageNode, field: str, nullable: bool, context: DecodeContext) -> Type:
    anchor = node.number(field)
    declared = context.types.get(anchor)
    if declared is None and anchor in context.types:
        return BROKEN
    if declared is None:
        reason = f"is {anchor}, but the plan does not declare a type with this anchor"
        context.report("VALUE_INVALID", node.at(field), field=field, reason=reason)
        return BROKEN
    if declared.urn in ("unsigned_integers", None) and declared.name in UNSIGNED:
        return Type(declared.name, nullable)
    name = f"{declared.urn}:{declared.name}" if declared.urn else declared.name
    return Type("user_defined", nullable, name=name)


def with_variation(type_: Type, kind: str, node: MessageNode, context: DecodeContext) -> Type:
    """Return `made` with the meaning of field ``type_variation_reference`` of `node`."""
    variation = node.number("type_variation_reference")
    meaning = _meant_by_datafusion(type_, kind, variation) if context.datafusion else None
    if meaning is not None:
        context.variation_read(node, variation, kind, str(meaning.as_nullable(False)))
        return meaning
    if variation:
        code = "TYPE_VARIATION" if variation in context.variations else "TYPE_VARIATION_UNDECLARED"
        context.report(code, node.path, variation=variation, type=type_.kind)
    return type_


def _meant_by_datafusion(type_: Type, kind: str, variation: int) -> Type | None:
    if kind in ("timestamp", "timestamp_tz") and variation in _DATAFUSION_TIMESTAMP_DIGITS:
        return Type(type_.kind, type_.nullable, (_DATAFUSION_TIMESTAMP_DIGITS[variation],))
    if variation == 1 and type_.kind in INTEGER_BITS and type_.kind.startswith("i"):
        return Type(f"u{type_.kind[1:]}", type_.nullable)
    if variation == 1 and type_.kind == "map":
        return type_.children[1].as_nullable(type_.nullable)
    return type_ if kind in _DATAFUSION_SAME_VALUES else None
