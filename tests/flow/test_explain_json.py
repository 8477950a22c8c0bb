"""The explanation as JSON: its schema is stable and documented, and it has all content of the text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from substrait_agg.explanation import ExplainedPlan
from substrait_agg.explanation.text import plan_json, plan_text
from tests.flow.explained import HOSTILE, PLANS, chain, hostile, minus, samples, union

NUMBER, FLAG, TEXT = int, bool, str
TEXTS = [TEXT]
COLUMN = {"name": TEXT, "type": TEXT, "nullable": FLAG}
RUN_STEP = {"name": TEXT, "place": {"spark", "operator", "driver", "reader"}, "what": TEXT}
MEASURE = {
    "ordinal": NUMBER,
    "name": TEXT,
    "call": TEXT,
    "function": TEXT,
    "type": TEXT,
    "nullable": FLAG,
    "state": {"additive", "shared tree", "own tree", "none"},
    "reads": [{"source": TEXT, "role": TEXT}],
    "options": [{"name": TEXT, "value": TEXT}],
    "filter": (TEXT, None),
    "path": TEXT,
}
ACCUMULATOR = {
    "name": TEXT,
    "kind": {"count", "integer", "decimal", "float", "product", "live", "entries", "met"},
    "what": TEXT,
    "digits": (NUMBER, None),
    "bytes": (NUMBER, None),
    "measures": [NUMBER],
}
TREE = {
    "ordinal": NUMBER,
    "what": TEXT,
    "use": TEXT,
    "measures": [NUMBER],
    "entry_bytes": NUMBER,
    "varies": TEXTS,
    "ends_alone": bool,
    "stored": bool,
    "within": (NUMBER, None),
}
STEP = {"kind": {"filter", "project"}, "expressions": TEXTS, "columns": [COLUMN]}
INPUT = {
    "kind": {"table", "rows", "operator"},
    "table": TEXT,
    "operator": (NUMBER, None),
    "rows": (NUMBER, None),
    "columns": [COLUMN],
    "steps": [STEP],
    "port": (NUMBER, None),
    "static": bool,
}
OPERATOR = {
    "id": NUMBER,
    "kind": {
        "aggregate",
        "distinct rows",
        "join",
        "rows of the view",
        "sessions",
        "set operation",
        "top-k",
    },
    "path": TEXT,
    "keys": [{"name": TEXT, "expression": TEXT, "type": TEXT, "nullable": FLAG}],
    "sets": [{"index": NUMBER, "keys": TEXTS, "always_shown": FLAG}],
    "measures": [MEASURE],
    "state": {
        "group_bytes": NUMBER,
        "varies": TEXTS,
        "accumulators": [ACCUMULATOR],
        "trees": [TREE],
    },
    "output": [COLUMN],
    "inputs": [INPUT],
    "weights": {"inserts only", "weights 1 and -1", "any weight"},
    "early_retraction": {"carry", "refuse", "quarantine"},
    "row_multiple": NUMBER,
    "groups": {"least": NUMBER, "bound": (NUMBER, None), "reason": TEXT},
    "steps": [RUN_STEP],
    "rounded": [{"expression": TEXT, "digits": NUMBER}],
}
ORDER = {
    "column": (NUMBER, None),
    "name": TEXT,
    "direction": {"ascending", "descending"},
    "nulls": {"first", "last"},
}
PLAN = {
    "plan": TEXT,
    "view": {"operator": NUMBER, "columns": [COLUMN], "sources": TEXTS, "order": [ORDER]},
    "operators": [OPERATOR],
    "after": [RUN_STEP],
    "assumed": TEXT,
    "connected": TEXTS,
}
"""A type; in a list what each item is, in a set the words there are, in a tuple the alternatives."""


def fits(value: Any, shape: Any, at: str = "") -> None:
    """Fail where the value has another shape, or its keys another order."""
    if isinstance(shape, dict):
        assert isinstance(value, dict), at
        assert list(value) == list(shape), at
        for key, inner in shape.items():
            fits(value[key], inner, f"{at}.{key}")
    elif isinstance(shape, list):
        assert isinstance(value, list), at
        for i, item in enumerate(value):
            fits(item, shape[0], f"{at}[{i}]")
    elif isinstance(shape, set):
        assert value in shape, at
    elif isinstance(shape, tuple):
        assert value is None or type(value) is shape[0], at
    else:
        assert type(value) is shape, at


def plans() -> Iterator[ExplainedPlan]:
    yield from (plan for _, plan in samples())
    yield from map(hostile, HOSTILE)
    yield union(3)
    yield minus(3)
    yield chain(3)


def test_the_shape_is_the_published_one() -> None:
    for plan in plans():
        text = plan_json(plan)
        fits(json.loads(text), PLAN)
        text.encode()


def test_every_key_is_described() -> None:
    page = (PLANS.parent / "docs" / "formats.md").read_text()
    _, _, described = page.partition("## Explanations")
    described = described.partition("\n## ")[0]
    for key in keys(PLAN):
        assert f"`{key}`" in described, key


def keys(shape: Any) -> Iterator[str]:
    if isinstance(shape, dict):
        for key, inner in shape.items():
            yield key
            yield from keys(inner)
    elif isinstance(shape, list):
        yield from keys(shape[0])


def values(document: Any) -> Iterator[str]:
    if isinstance(document, str):
        yield document
    elif isinstance(document, dict | list):
        for inner in document.values() if isinstance(document, dict) else document:
            yield from values(inner)


PARTS = (
    r"  measure \d+: (?P<call>.+?)(?: AS op\d+\.m\d+)? -> (?P<type>\S+), (?P<state>[a-z ]+)(?:, .*)?",
    r"    FILTER runs on Spark, row by row: (?P<filter>.+)",
    r"  keys: (?P<key>[^,]+)",
    r"  tree \d+: (?P<tree>.+), (?P<use>(?:of measure|shared by|to tell|to find|followed by).*)",
    r"    a\d+ (?P<number>.+), (?:\d+ bytes|as its values need), .*",
    r"      filter (?P<condition>.+)",
    r"    (?:spark|operator) +\w+ +(?P<step>.+)",
    r"  (?:driver|reader) +\w+ +(?P<after>.+)",
    r"    - changes of table (?P<table>[^(]+) \((?P<column>\w+) (?P<column_type>[a-z0-9?]+(?:<[^>]*>)?).*",
    r"  groups: (?:unknown|(?:at most )?\d+), (?P<reason>.+)",
    r"operator \d+: (?P<kind>.+)  at (?P<path>.+)",
)
"""What is picked from the lines of the text form."""


def test_what_the_text_says_is_in_the_json() -> None:
    picked: dict[str, int] = {}
    for name, plan in samples():
        held = set(values(json.loads(plan_json(plan))))
        for line in plan_text(plan).splitlines():
            for part in PARTS:
                found = re.fullmatch(part, line)
                for group, said in (found.groupdict() if found else {}).items():
                    if said == "none (one global group)":
                        continue
                    picked[group] = picked.get(group, 0) + 1
                    assert said in held, (name, line)
    looked_for = {group for part in PARTS for group in re.compile(part).groupindex}
    assert set(picked) == looked_for
    assert min(picked.values()) > 1, picked


@pytest.mark.parametrize("name", ["\ud800", "\x00\x1b[31m", "\u202eabc"], ids=ascii)
def test_names_are_printable(name: str) -> None:
    assert all(text.isprintable() for text in values(json.loads(plan_json(hostile(name)))))
