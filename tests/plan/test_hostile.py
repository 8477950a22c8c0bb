"""Damaged real plans and random input: a plan, or `PlanUnreadable`, never anything else."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from substrait_agg.errors import PlanUnreadable
from substrait_agg.plan import DecodedPlan, decode
from substrait_agg.problem_kinds import KINDS
from substrait_agg.problems import Problems
from tests.plan.helpers import SAMPLES

CONTENTS = [path.read_bytes() for path in SAMPLES]
TEXTS = [path.with_suffix(".json").read_bytes() for path in SAMPLES]
DOCUMENTS = [json.loads(text) for text in TEXTS if not text.startswith(b"//")]

QUIET = settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


def survives(content: Any) -> DecodedPlan | None:
    """Decode a plan; every reported problem has a row in the table and can be printed."""
    problems = Problems()
    plan = None
    with contextlib.suppress(PlanUnreadable):
        plan = decode(content, problems)
    assert plan is not None or problems.errors
    for problem in problems.items:
        assert problem.code in KINDS
        json.dumps(problem.as_dict())
    return plan


@QUIET
@given(st.binary(max_size=200))
def test_random_bytes(content: bytes) -> None:
    survives(content)


@QUIET
@given(st.text(max_size=200))
def test_random_text(text: str) -> None:
    survives(text)
    survives("{" + text)


@QUIET
@given(st.sampled_from(CONTENTS + TEXTS), st.data())
def test_truncated_plans(content: bytes, data: st.DataObject) -> None:
    survives(content[: data.draw(st.integers(0, len(content)))])


@QUIET
@given(st.sampled_from(CONTENTS + TEXTS), st.data())
def test_plans_with_other_bytes(content: bytes, data: st.DataObject) -> None:
    damaged = bytearray(content)
    for _ in range(data.draw(st.integers(1, 8))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    survives(bytes(damaged))


@QUIET
@given(st.sampled_from(CONTENTS + TEXTS), st.data())
def test_plans_with_pieces_moved(content: bytes, data: st.DataObject) -> None:
    places = st.integers(0, len(content))
    start, end, target = data.draw(places), data.draw(places), data.draw(places)
    piece = content[min(start, end) : max(start, end)]
    survives(content[:target] + piece + content[target:])
    survives(content[: min(start, end)] + content[max(start, end) :])


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=5),
    # Created each time: an object that is in a document twice could contain itself.
    st.builds(list), st.builds(dict), st.builds(lambda: [{}]), st.builds(lambda: [[]]),
    st.just("NaN"), st.just("\ud800"),
)  # fmt: skip


def spots(document: Any) -> list[tuple[Any, Any]]:
    """Every container of a document with every key or index in it."""
    found, pending = [], [document]
    while pending:
        item = pending.pop()
        keys = list(item) if isinstance(item, dict) else list(range(len(item)))
        for key in keys:
            found.append((item, key))
            if isinstance(item[key], dict | list):
                pending.append(item[key])
    return found


@QUIET
@given(st.sampled_from(range(len(DOCUMENTS))), st.data())
def test_json_plans_with_other_values(which: int, data: st.DataObject) -> None:
    """Structure that is valid JSON but no valid message: every wrong value is reported or read."""
    document = json.loads(json.dumps(DOCUMENTS[which]))
    for _ in range(data.draw(st.integers(1, 4))):
        container, key = data.draw(st.sampled_from(spots(document)))
        action = data.draw(st.sampled_from(["replace", "remove", "move"]))
        if action == "replace":
            container[key] = data.draw(VALUES)
        elif action == "remove":
            del container[key]
        elif isinstance(container, dict):
            other, name = data.draw(st.sampled_from(spots(document)))
            other[name] = json.loads(json.dumps(container[key]))
    survives(json.dumps(document))


@QUIET
@given(st.sampled_from(CONTENTS), st.data())
def test_an_inserted_unknown_field_never_passes_silently(
    content: bytes, data: st.DataObject
) -> None:
    """Appended to the plan message, as a newer release would do."""
    number = data.draw(st.integers(12, 2**29 - 1))
    tag, encoded = number << 3, bytearray()
    while tag > 0x7F:
        encoded.append(tag & 0x7F | 0x80)
        tag >>= 7
    encoded.append(tag)
    problems = Problems()
    decode(content + bytes(encoded) + b"\x01", problems)
    assert ("UNKNOWN_FIELD", str(number)) in [(p.code, p.path) for p in problems.items]
