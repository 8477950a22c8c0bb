"""Check the types of arguments of the public Python interface, so that errors name the argument.

`check_types` checks a function by its annotations. `check_objects` checks values that may have many types.
`microseconds` parses a duration.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import wraps
from typing import Any, TypeVar, cast

from substrait_agg.errors import UsageError

Function = TypeVar("Function", bound=Callable[..., Any])
Test = Callable[[object], bool]

_TESTS: Mapping[str, Test] = {
    "None": lambda value: value is None,
    "str": lambda value: isinstance(value, str),
    "bool": lambda value: isinstance(value, int),
    "int": lambda value: hasattr(type(value), "__index__"),
    "Path": lambda value: isinstance(value, os.PathLike),
    "Callable": callable,
    "Mapping": lambda value: isinstance(value, Mapping),
    "Iterable": lambda value: isinstance(value, Iterable) and not isinstance(value, str | bytes),
    "Sequence": lambda value: isinstance(value, Collection) and not isinstance(value, str | bytes),
    "SparkSession": lambda value: hasattr(type(value), "createDataFrame"),
}
"""Name in an annotation -> whether a value has the type. Other names accept every value."""

_ELEMENTS = re.compile(r"\w+\[(?:str, )?str\]")
"""A collection of texts, or a mapping from texts to texts."""

_UNITS = {"ms": 10**3, "s": 10**6, "m": 60 * 10**6, "h": 3600 * 10**6, "d": 86400 * 10**6}
_LONGEST = 10**6 * _UNITS["d"]
"""Longest duration, in microseconds: an instant plus or minus a duration must fit into 64 bits."""

_DURATION = re.compile(r"([0-9]{1,12})\s*(ms|s|m|h|d)")


def check_types(function: Function) -> Function:
    """Check the types of the arguments of each call by the annotations of the function.

    The function then raises OPTION_INVALID for an argument of another type.
    """
    signature = inspect.signature(function)
    annotations = {
        parameter.name: parameter.annotation
        for parameter in signature.parameters.values()
        if parameter.annotation is not parameter.empty
    }

    @wraps(function)
    def check_and_call(*args: Any, **kwargs: Any) -> Any:
        """Check the arguments, then call the function."""
        try:
            values = signature.bind(*args, **kwargs).arguments
        except TypeError:
            return function(*args, **kwargs)  # which raises it with the name of the function
        for name in annotations.keys() & values.keys():
            _check(name, values[name], annotations[name])
        return function(*args, **kwargs)

    return cast("Function", check_and_call)


def _check(name: str, value: object, annotation: str) -> None:
    help = f"{name} must be of type {annotation}"
    outer = annotation
    while "[" in outer:
        outer = re.sub(r"\[[^\[\]]*\]", "", outer)
    tests = [_TESTS.get(name.strip(), _any) for name in outer.split("|")]
    if not any(test(value) for test in tests):
        raise _of_type(name, value, help)
    if not all(isinstance(text, str) for text in _texts(value, annotation)):
        message = f"{name} contains something else than texts"
        raise UsageError("OPTION_INVALID", message, help=help, path=name)


def _any(_value: object) -> bool:
    return True


def _texts(value: object, annotation: str) -> list[object]:
    """Return the elements that the annotation says are texts. An iterator has none: it is not read."""
    of_texts = _ELEMENTS.search(annotation)
    if isinstance(value, Mapping):
        keys = [*value] if of_texts or "[str, Any]" in annotation else []
        return keys + ([*value.values()] if of_texts else [])
    return [*value] if of_texts and isinstance(value, list | tuple | set | frozenset) else []


def check_objects(values: Mapping[str, object], path: str, help: str) -> None:
    """Check that no value is a number, a path or another value of Python that is not a text.

    Args:
        values: what a message calls each value -> the value.
        path: the argument that has the values.
        help: what to give instead.

    Raises:
        UsageError: OPTION_INVALID.
    """
    for name, value in values.items():
        module = type(value).__module__.partition(".")[0]
        if module in ("builtins", "pathlib") and not isinstance(value, str):
            raise _of_type(name, value, help, path)


def _of_type(name: str, value: object, help: str, path: str = "") -> UsageError:
    message = f"{name} is of type {type(value).__name__}"
    return UsageError("OPTION_INVALID", message, help=help, path=path or name)


def microseconds(text: str) -> int | None:
    """Return the microseconds of a duration in ``ms``, ``s``, ``m``, ``h`` or ``d``.

    Returns:
        None if the text is not a duration or exceeds a million days.

    >>> microseconds("1m")
    60000000
    >>> microseconds("1 week") is None
    True
    """
    match = _DURATION.fullmatch(text)
    micros = int(match[1]) * _UNITS[match[2]] if match else None
    return None if micros is None or micros > _LONGEST else micros
