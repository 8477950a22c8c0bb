"""Run recursive functions on plans that nest deeper than Python's default recursion limit."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar

STACK_BYTES = 256 * 1024 * 1024
"""Stack size of the thread. The system allocates only the pages that are used."""

FRAMES = 60_000
"""Recursion limit: the decoder admits 2000 levels, and each level takes fewer than 30 frames."""

_LOCK = threading.Lock()

P = ParamSpec("P")
T = TypeVar("T")


class _Outcome(Generic[T]):
    """The result of a call, or the exception that it raised."""

    def __init__(self) -> None:
        self.values: list[T] = []
        self.error: BaseException | None = None


def deep_call(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `function` with a stack that is deep enough for every decoded plan.

    The call runs in a separate thread with a large stack. Exceptions are raised again in the
    caller. The recursion limit belongs to the whole process, so one such call runs at a time.
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
