"""Run recursive functions on plans that nest deeper than Python's default recursion limit."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import ParamSpec, TypeVar

STACK_BYTES = 256 * 1024 * 1024
"""Stack size of the thread. The system allocates only the pages that are used."""

FRAMES = 60_000
"""Recursion limit: the decoder admits 2000 levels, and each level takes fewer than 30 frames."""

_LOCK = threading.Lock()

P = ParamSpec("P")
T = TypeVar("T")


@cache
def _executor() -> ThreadPoolExecutor:
    """Return the one thread with a large stack; it starts at the first call.

    One thread for each call would need several stacks of address space at once: `join` returns
    before the system has given back the stack of a thread.
    """
    return ThreadPoolExecutor(1, "deep walk")


def _reset() -> None:
    """Start a new thread in a process that was forked, which has none of the threads of its parent."""
    _executor.cache_clear()
    _LOCK.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_reset)


def deep_call(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `function` with a stack that is deep enough for every decoded plan.

    The call runs in a separate thread with a large stack. Exceptions are raised again in the
    caller. The recursion limit belongs to the whole process, so one such call runs at a time.
    """
    with _LOCK:
        limit, size = sys.getrecursionlimit(), threading.stack_size(STACK_BYTES)
        sys.setrecursionlimit(max(limit, FRAMES))
        try:
            return _executor().submit(function, *args, **kwargs).result()
        finally:
            threading.stack_size(size)
            sys.setrecursionlimit(limit)
