"""Deep trees: plans nest further than Python's default recursion limit lets a walk go."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar

STACK_BYTES = 256 * 1024 * 1024
"""Address space for the stack of a deep walk; pages that are not reached are never made."""

FRAMES = 60_000
"""Recursion limit of a deep walk: the decoder admits 2000 levels, of which none takes 30 frames."""

_LOCK = threading.Lock()

P = ParamSpec("P")
T = TypeVar("T")


class _Outcome(Generic[T]):
    """What a call returned or raised."""

    def __init__(self) -> None:
        self.values: list[T] = []
        self.error: BaseException | None = None


def deep_call(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `function` where it may recurse as deep as a plan can be nested.

    The call runs in a thread of its own, whose stack is large enough; what it raises is raised here.
    The recursion limit is a setting of the whole process, so one deep walk runs at a time.
    """
    outcome: _Outcome[T] = _Outcome()

    def call() -> None:
        try:
            outcome.values.append(function(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001 - handed to the caller, whatever it is
            outcome.error = error

    with _LOCK:
        limit, size = sys.getrecursionlimit(), threading.stack_size(STACK_BYTES)
        sys.setrecursionlimit(max(limit, FRAMES))
        try:
            thread = threading.Thread(target=call, name="deep walk")
            thread.start()
            thread.join()
        finally:
            threading.stack_size(size)
            sys.setrecursionlimit(limit)
    if outcome.error is not None:
        raise outcome.error
    return outcome.values[0]
