"""Tiny internal sizes, so that a few rows fill several pages, runs, slices and pieces.

A size says how much is done at once. No result may depend on it.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from random import Random
from types import FunctionType, ModuleType

import pytest

PACKAGE = "substrait_agg"
TINY = (1, 1, 2, 3, 7, 30)
SHARES = (0.1, 0.3, 0.7, 1.0)
"""Shares of the sizes that are tiny in a case: a few, since one tiny size may hide the effect of another, or all."""

LEAST: Mapping[str, Mapping[str, int]] = {
    "state.run": {
        "PAGE_ROWS": 1, "PAGE_BYTES": 1, "PIECE_BYTES": 1, "SCAN_ROWS": 1, "COMPRESSED_ROWS": 0, "COMPRESSED_BYTES": 0,
        "_CACHE_RUNS": 1, "_CACHE_BYTES": 1, "_KNOWN_RUNS": 1,
    },
    "state.ordered": {"SCAN_ROWS": 1, "GROUPS_AT_ONCE": 1, "FIRST_ROWS": 1},
    "state.ordered_run": {"_MANY": 1},
    "state.ranks": {"FEW_ROWS": 1},
    "state.tree": {"OUTDATED_BYTES": 0},
    "state.merging": {"SMALL_WIDTH": 2, "MERGE_WIDTH": 2, "LEAST_BUDGET": 1, "BUDGET_FACTOR": 1},
    "state.weights": {"_SHORT": 1},
    "state.arrangement": {"MATCHES_AT_ONCE": 1},
    "state.keys.row_sizes": {"TAKEN_BYTES": 1},
    "state.keys.variable_keys": {"_HASHED_BYTES": 1},
    "operator.common.spec": {"SLICE_ROWS": 1, "SLICE_BYTES": 1},
    "operator.join.spec": {"PAGE_ROWS": 1},
    "operator.aggregate.values": {"READ_ENTRIES": 1, "LARGE": 1},
    "operator.measures.ranks": {"CHUNK": 1},
    "operator.measures.moments": {"CHUNK": 1},
    "operator.measures.row_partials": {"SMALL_WEIGHT": 1},
    "functions.numbers.stored_digits": {"_ROWS_IN_CACHE": 1},
    "operator.sessionize.step": {"GROWTH": 2},
    "operator.window.step": {"ROWS_AT_ONCE": 1, "NEAREST_ROWS": 1},
    "operator.window.sums": {"BLOCK_ROWS": 1},
    "operator.top_k.window": {"SPARE_ROWS": 0, "FIRST_ROWS": 1},
    "commit.tasks.consolidate": {"PIECE_ROWS": 1, "SLICE_ROWS": 1, "SLICE_BYTES": 1},
    "commit.tasks.spill": {"SPILL_BUCKETS": 2},
    "commit.tasks.difference": {"ROWS_AT_ONCE": 1},
    "commit.tasks.change_writer": {"ROWS_AT_ONCE": 1, "BYTES_AT_ONCE": 1, "KEPT_BYTES": 1, "SAMPLE_ROWS": 1},
    "commit.evolution.task": {"READ_ENTRIES": 1},
    "commit.view.scan": {"PART_ROWS": 1, "LARGE_PART_ROWS": 1, "MOST_PARTS": 1},
    "commit.view.change_files": {"ROWS_FOR_ONE_THREAD": 1},
    "commit.log.reader": {"REMEMBERED_VERSIONS": 1, "_REMEMBERED_BYTES": 1},
    "commit.documents.files": {"_CHUNK": 900},
    "tools.checks.rows": {"ROWS_AT_ONCE": 1},
    "evaluation.hashes": {"_SAMPLE": 1},
    "changes.outputs.sinks": {"PIECE": 1},
    "changes.formats.encode": {"PIECE": 1},
}  # fmt: skip
"""Per module its sizes, with the least value that each may have."""

DEFAULTS = {
    "state.run.PAGE_ROWS": ("page_rows", ("state.run", "operator.common.spec", "operator.upsert.spec")),
    "operator.join.spec.PAGE_ROWS": ("page_rows", ("operator.join.spec",)),
    "operator.common.spec.SLICE_ROWS": (
        "slice_rows", ("operator.common.spec", "operator.join.spec", "operator.upsert.spec"),
    ),
    "operator.common.spec.SLICE_BYTES": (
        "slice_bytes", ("operator.common.spec", "operator.join.spec", "operator.upsert.spec"),
    ),
}  # fmt: skip
"""Sizes that are defaults of parameters: the parameter, and the modules whose classes have it."""

TIERS = ((1, 2, 4), (2,), (3, 9, 27))
PIVOTS = (1, 2, 3)


@contextmanager
def tiny_sizes(random: Random) -> Iterator[dict[str, object]]:
    """Make some of the sizes tiny, and give those by name."""
    with pytest.MonkeyPatch.context() as patched:
        yield dict(_shrink(patched, random))


def _shrink(patched: pytest.MonkeyPatch, random: Random) -> Iterator[tuple[str, object]]:
    share = random.choice(SHARES)
    for name, sizes in LEAST.items():
        module = import_module(f"{PACKAGE}.{name}")
        for size, least in sizes.items():
            value = max(least, random.choice(TINY))
            if random.random() < share:
                _replace(patched, module, size, value)
                yield f"{name}.{size}", value
    if random.random() < share:
        tiers = random.choice(TIERS)
        patched.setattr(import_module(f"{PACKAGE}.state.merging"), "SMALL_TIERS", tiers)
        yield "state.merging.SMALL_TIERS", tiers
    if random.random() < share:
        pivots, ranks = random.choice(PIVOTS), import_module(f"{PACKAGE}.state.ranks")
        patched.setattr(ranks, "PIVOTS", pivots)
        patched.setattr(ranks, "FEW_ROWS_PER_RUN", 2 * (pivots + 1))
        yield "state.ranks.PIVOTS", pivots


def _replace(patched: pytest.MonkeyPatch, module: ModuleType, size: str, value: int) -> None:
    """Set a size in its module, in the modules that import it, and where it is a default."""
    before = getattr(module, size)
    for name, other in list(sys.modules.items()):
        if name.startswith(PACKAGE) and vars(other).get(size) is before:
            patched.setattr(other, size, value)
    parameter, modules = DEFAULTS.get(
        f"{module.__name__.removeprefix(PACKAGE + '.')}.{size}", ("", ())
    )
    for name in modules:
        _replace_default(patched, import_module(f"{PACKAGE}.{name}"), parameter, value)


def _replace_default(
    patched: pytest.MonkeyPatch, module: ModuleType, parameter: str, value: int
) -> None:
    makers = [make for make in map(_maker, vars(module).values()) if make is not None]
    makers = [make for make in makers if parameter in inspect.signature(make).parameters]
    assert makers, f"no class of {module.__name__} takes {parameter}"
    for make in makers:
        parameters = inspect.signature(make).parameters.values()
        names = [p.name for p in parameters if p.default is not p.empty]
        defaults = make.__defaults__ or ()
        pairs = zip(names, defaults, strict=True)
        patched.setattr(
            make, "__defaults__", tuple(value if n == parameter else d for n, d in pairs)
        )


def _maker(member: object) -> FunctionType | None:
    """Give the constructor of a class."""
    made = vars(member).get("__init__") if isinstance(member, type) else None
    return made if isinstance(made, FunctionType) else None
