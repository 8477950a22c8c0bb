"""Convert dataclasses to JSON and back.

Each value of a document must have the type that its field declares.
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Hashable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, partial
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from substrait_agg.document_fields import DOCUMENT_KEY, DOCUMENT_OMITTED, DOCUMENT_VALUES

T = TypeVar("T")

LEAST, GREATEST = -(1 << 63), 1 << 64
"""Bounds of integers in documents: 64 bits, signed or unsigned, plus 2^64, the number of hashes."""

_Reader = Callable[[Any], Any]


def encode(value: Any) -> Any:
    """Return the JSON values of a dataclass: an object with a key per field."""
    if is_dataclass(value):
        kind: Any = type(value)
        if (names := _plain_names(kind)) is not None:
            return {name: getattr(value, name) for name in names}
        forms, omitted = _stored_values(kind), _omit(kind)
        return {
            key: encode(
                _map_values(forms[name], getattr(value, name))
                if name in forms
                else getattr(value, name)
            )
            for key, name in _keys(kind).items()
            if getattr(value, name) != omitted.get(name, MISSING)
        }
    if isinstance(value, tuple | list):
        return [encode(item) for item in value]
    if isinstance(value, Mapping):
        return {key: encode(item) for key, item in value.items()}
    return value


@cache
def _plain_names(kind: Any) -> tuple[str, ...] | None:
    """Return the fields of a dataclass of texts and numbers; None if it has other fields or metadata."""
    own = fields(kind)
    types_of = get_type_hints(kind)
    plain = all(types_of[f.name] in (str, int, bool) and not f.metadata for f in own)
    return tuple(f.name for f in own) if plain else None


@cache
def _keys(kind: Any) -> dict[str, str]:
    """Return the attribute name of each document key of a dataclass."""
    return {f.metadata.get(DOCUMENT_KEY, f.name): f.name for f in fields(kind)}


@cache
def _omit(kind: Any) -> dict[str, Any]:
    """Return the default of each field that is left out if it has its default."""
    return {
        f.name: f.default if f.default_factory is MISSING else f.default_factory()
        for f in fields(kind)
        if f.metadata.get(DOCUMENT_OMITTED)
    }


@cache
def _stored_values(kind: Any) -> dict[str, Mapping[Any, Any]]:
    """Return the stored form of values, by the names of the fields that have one."""
    return {
        f.name: f.metadata[DOCUMENT_VALUES] for f in fields(kind) if DOCUMENT_VALUES in f.metadata
    }


def _map_values(forms: Mapping[Any, Any], value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(forms.get(item, item) for item in value)
    return forms.get(value, value)


def to_line(value: Any) -> str:
    """Return a dataclass as one line of JSON, which `from_line` reads."""
    return json.dumps(encode(value))


def from_line(kind: type[T], line: str) -> T:
    """Return the dataclass that `to_line` wrote."""
    return build(kind, json.loads(line))


def build(kind: type[T], body: Any) -> T:
    """Return the dataclass from the JSON object that `encode` returned.

    Args:
        kind: the dataclass. Its fields are int, str, bool, literals, other such dataclasses, tuples
            of one type, mappings by str, or one of these or None.
        body: JSON values, one for every field that is not left out.

    Raises:
        TypeError, ValueError: a value does not have the declared type.
    """
    reader: Callable[[Any], T] = _reader(kind)  # type: ignore[arg-type]
    return reader(body)


@cache
def _reader(kind: Any) -> _Reader:
    origin, arguments = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        class_: Any = kind
        readers = {
            key: (name, _field_reader(class_, name, hints[name]))
            for key, name in _keys(class_).items()
        }
        keys = {name: key for key, name in _keys(class_).items()}
        optional = frozenset(keys[name] for name in _omit(class_))
        return partial(_object, class_, readers, optional)
    if origin is tuple:
        return partial(_tuple, _reader(arguments[0]))
    if origin in (Mapping, dict):
        return partial(_mapping, _reader(arguments[1]))
    if origin is Literal:
        return partial(_word, arguments)
    if origin is types.UnionType:
        (other,) = (a for a in arguments if a is not types.NoneType)
        return partial(_optional, _reader(other))
    return _PLAIN[kind]


def _field_reader(kind: Any, name: str, hint: Any) -> _Reader:
    forms = _stored_values(kind).get(name)
    if forms is None:
        return _reader(hint)
    return partial(_restore, forms, {form: value for value, form in forms.items()}, _reader(hint))


def _restore(
    forms: Mapping[Any, Any], values: Mapping[Any, Any], reader: _Reader, stored: Any
) -> Any:
    def restore(item: Any) -> Any:
        """Return the value of an item; refuse the stored form of another value."""
        if not isinstance(item, Hashable):
            return item
        if item in forms and item not in values:
            message = f"{item!r} is not the stored form of a value"
            raise ValueError(message)
        return values.get(item, item)

    return reader([restore(i) for i in stored] if isinstance(stored, list) else restore(stored))


def _object(
    kind: Callable[..., Any],
    readers: Mapping[str, tuple[str, _Reader]],
    optional: frozenset[str],
    value: Any,
) -> Any:
    _check(value, dict)
    if other := (value.keys() ^ readers.keys()) - (optional - value.keys()):
        message = f"fields are missing or unknown: {', '.join(sorted(other))}"
        raise ValueError(message)
    read = ((readers[key], given) for key, given in value.items())
    return kind(**{name: reader(given) for (name, reader), given in read})


def _tuple(reader: _Reader, value: Any) -> tuple[Any, ...]:
    _check(value, list)
    return tuple(map(reader, value))


def _mapping(reader: _Reader, value: Any) -> dict[str, Any]:
    _check(value, dict)
    return {_text(name): reader(given) for name, given in value.items()}


def _optional(reader: _Reader, value: Any) -> Any:
    return None if value is None else reader(value)


def _word(words: tuple[str, ...], value: Any) -> str:
    if _text(value) not in words:
        message = f"none of {', '.join(words)}"
        raise ValueError(message)
    return str(value)


def _number(value: Any) -> int:
    _check(value, int)
    if not LEAST <= value <= GREATEST:
        raise ValueError("a number is too large")
    return int(value)


def _text(value: Any) -> str:
    _check(value, str)
    value.encode()  # raises ValueError for lone surrogates, which no file can contain
    return str(value)


def _check(value: Any, kind: type) -> None:
    # `isinstance` would accept bool as int.
    if type(value) is not kind:
        message = f"{type(value).__name__} instead of {kind.__name__}"
        raise TypeError(message)


def _truth(value: Any) -> bool:
    _check(value, bool)
    return bool(value)


_PLAIN: Mapping[Any, _Reader] = {int: _number, str: _text, bool: _truth}
