"""Calls with a deep stack: one stack for all of them, also in a process that was forked."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from pathlib import Path

import pytest

from substrait_agg.bind.deep_stack import deep_call

ROOT = Path(__file__).parents[2]

CALLS = """
import resource
from pathlib import Path
from substrait_agg.bind.deep_stack import STACK_BYTES, deep_call
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
most = used + STACK_BYTES + STACK_BYTES // 2
resource.setrlimit(resource.RLIMIT_AS, (most, most))
print(sum(deep_call(int, "1") for _ in range(2_000)))
"""


def depth(levels: int) -> int:
    """Recurse as deep as asked, through a function in C at each level."""
    return 1 + max(map(depth, [levels - 1])) if levels else 0


def depth_elsewhere(levels: int) -> int:
    """Recurse in the process that a pool forked."""
    return deep_call(depth, levels)


@pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="the size of a process is read as Linux shows it"
)
def test_many_calls_in_the_address_space_of_one_stack() -> None:
    """A call does not need address space while the stack of the call before is still being given back."""
    ended = subprocess.run(
        [sys.executable, "-c", CALLS], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (ended.stdout, ended.stderr) == ("2000\n", "")


def test_deeper_than_the_limit_of_python() -> None:
    """The limit is raised for the call only."""
    before = sys.getrecursionlimit()
    assert deep_call(depth, 20_000) == 20_000
    assert sys.getrecursionlimit() == before


def test_an_error_is_raised_in_the_caller() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        deep_call(int, "none")


@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="processes fork as Unix does"
)
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_process_that_was_forked_has_a_thread_of_its_own() -> None:
    """The thread of the parent does not exist in a forked process; a call there must not wait for it."""
    deep_call(int, "1")
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(depth_elsewhere, (20_000,)).get(timeout=60) == 20_000
