"""A property that is computed once per object, without a lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class lazy_property(Generic[T]):  # noqa: N801 - it is used as a decorator
    """Compute a property at its first use, and keep the value in the object.

    `functools.cached_property` of Python 3.11 has one lock for all objects of a class: while one
    thread computes the value of its object, other threads wait even if they ask for that of another
    object. Values here read files, so this takes no lock: two threads may compute a value twice.

    >>> class Circle:
    ...     @lazy_property
    ...     def area(self) -> float:
    ...         print("computed")
    ...         return 3.0
    >>> circle = Circle()
    >>> circle.area + circle.area
    computed
    6.0
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> lazy_property[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> lazy_property[T] | T:
        """Return the value. It hides this descriptor from now on, since it has no setter."""
        if instance is None:
            return self
        value = self._compute(instance)
        instance.__dict__[self._name] = value
        return value
