"""Types as the test files write them: ``i64?``, ``dec?<38, 2>``, ``list<i32?>``, ``u!u8``, ``func<i32 -> bool?>``."""

from __future__ import annotations

from functools import cache

from substrait_agg.plan.types import Type

_KINDS = {
    "bool": "bool", "boolean": "bool", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64",
    "fp32": "fp32", "fp64": "fp64", "str": "string", "string": "string", "vbin": "binary",
    "binary": "binary", "date": "date", "iyear": "interval_year", "interval_year": "interval_year",
    "uuid": "uuid", "fchar": "fixedchar", "fixedchar": "fixedchar", "vchar": "varchar",
    "varchar": "varchar", "fbin": "fixedbinary", "fixedbinary": "fixedbinary", "dec": "decimal",
    "decimal": "decimal", "pt": "precision_time", "precision_time": "precision_time",
    "pts": "precision_timestamp", "precision_timestamp": "precision_timestamp",
    "ptstz": "precision_timestamp_tz", "precision_timestamp_tz": "precision_timestamp_tz",
    "iday": "interval_day", "interval_day": "interval_day", "icompound": "interval_compound",
    "interval_compound": "interval_compound", "list": "list", "struct": "struct", "map": "map",
    "func": "func",
}  # fmt: skip
_DEFAULT_PARAMS = {"decimal": (38, 0), "interval_day": (6,), "interval_compound": (6,)}
_NESTED = ("list", "struct", "map", "func")


@cache
def type_of(text: str) -> Type:
    """The type of a text; a function type has its result as first child, then its parameters.

    Raises:
        ValueError: the text is no type.
    """
    compact = "".join(text.split()).lower()
    head, _, inner = compact.partition("<")
    nullable = "?" in (head[-1:], compact[-1:] if not inner else "")
    word = head.rstrip("?")
    if word.startswith("u!"):
        return Type(word[2:], nullable)
    if word not in _KINDS:
        message = f"unknown type {text}"
        raise ValueError(message)
    return _parametrised(_KINDS[word], nullable, inner[:-1])


def _parametrised(kind: str, nullable: bool, inner: str) -> Type:
    if kind == "func":
        parameters, _, result = inner.rpartition("->")
        if parameters.startswith("("):
            parameters = parameters[1:-1]
        parts = [result, *_split(parameters)]
        return Type(kind, nullable, children=tuple(map(type_of, parts)))
    if kind in _NESTED:
        return Type(kind, nullable, children=tuple(map(type_of, _split(inner))))
    params = tuple(int(p) for p in _split(inner)) or _DEFAULT_PARAMS.get(kind, ())
    return Type(kind, nullable, params)


def _split(text: str) -> list[str]:
    """Parts between commas that are not inside brackets."""
    parts, depth, start = [], 0, 0
    for at, mark in enumerate(text):
        arrow = mark == ">" and text[at - 1 : at] == "-"
        depth += (mark in "<(") - (mark in ">)" and not arrow)
        if mark == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]] if text else []
