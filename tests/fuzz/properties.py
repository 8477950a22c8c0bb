"""Properties of validate and explain for every input."""

from __future__ import annotations

import json
import re
import zlib
from typing import Any

import substrait_agg
from substrait_agg.api import EXPLAIN_FORMATS
from substrait_agg.errors import PlanRefused
from substrait_agg.plan.messages.jsonplan import read_json
from substrait_agg.plan.messages.node import MessageNode, Unreadable
from substrait_agg.plan.messages.source import json_text
from substrait_agg.plan.messages.wire import read_wire
from substrait_agg.problem_kinds import KINDS, MODES, Mode
from substrait_agg.problems import Problem
from tests.fuzz.messages import from_node, to_json

LEVELS = ("info", "warning", "error")
STEP = re.compile(r"(?P<name>[^.\[\]]+)(?:\[(?P<index>\d+)\])?")
ENCODING = frozenset(
    {"UNKNOWN_FIELD", "FIELD_CONFLICT", "VALUE_INVALID", "PLAN_TOO_LARGE", "PLAN_TOO_DEEP"}
)
"""Codes of what only one of the two encodings can say, or of limits that are counted in the encoding."""

MOST_JSON_DEPTH = 300
"""Python's own JSON writer recurses."""

ASKED_AGAIN = 8
"""One input in so many is validated twice."""

Found = tuple[Problem, ...]


def check(content: bytes) -> bool:
    """Assert all properties of one input; whether it is valid in lenient mode."""
    node, plan = parsed(content), substrait_agg.Plan("", content)
    found = {mode: reported(plan, mode, node) for mode in MODES}
    stricter(found["lenient"], found["strict"])
    for mode in MODES:
        explained(plan, mode, found[mode])
    if node is not None and not ENCODING & {p.code for p in found["strict"]}:
        same_in_json(node, found["strict"])
    return not any(p.level == "error" for p in found["lenient"])


def parsed(content: bytes) -> MessageNode | None:
    """The message that the content is, as far as it can be read."""
    try:
        text = json_text(content)
        report: Any = lambda *_, **__: None  # noqa: E731
        return read_wire(content, report) if text is None else read_json(text, report)
    except Unreadable:
        return None


def reported(plan: substrait_agg.Plan, mode: Mode, node: MessageNode | None) -> Found:
    """The problems in one mode, which are well formed, and the same when they are asked for again."""
    report = substrait_agg.validate(plan, mode)
    if zlib.crc32(plan.content) % ASKED_AGAIN == 0:
        assert report.problems == substrait_agg.validate(plan.content, mode).problems
    document = json.loads(report.to_json())
    assert document["plans"][0]["valid"] is report.ok
    assert len(document["plans"][0]["problems"]) == len(report.problems)
    replaced = any(p.code == "FIELD_CONFLICT" for p in report.problems)
    for problem in report.problems:
        # What stood in a member of a choice is gone once another member replaced it.
        well_formed(problem, mode, None if replaced else node)
    return report.problems


def well_formed(problem: Problem, mode: Mode, node: MessageNode | None) -> None:
    """A code of the table with its level, a filled message, a place that is in the plan."""
    kind = KINDS[problem.code]
    assert problem.level == kind.level(mode), problem
    assert problem.message.strip(), problem
    assert problem.help.strip(), problem
    assert len(problem.message) < 20_000, problem.code
    assert node is None or resolves(node, problem.path), problem


def resolves(node: MessageNode, path: str) -> bool:
    """Whether a path leads to a message or value, or to a field that the last message on the way could have."""
    steps = path.split(".") if path else []
    for at, step in enumerate(steps):
        parts = STEP.fullmatch(step)
        if parts is None or (parts["name"] not in node.shape.by_json_name):
            # A field that the schema does not know: its number, or its JSON key.
            return at == len(steps) - 1 or parts is None
        held = node.values.get(parts["name"])
        if isinstance(held, list):
            if parts["index"] is None:
                return at == len(steps) - 1
            held = held[int(parts["index"])] if int(parts["index"]) < len(held) else None
        if not isinstance(held, MessageNode):
            return at >= len(steps) - 2
        node = held
    return True


def stricter(lenient: Found, strict: Found) -> None:
    """A problem in lenient mode is a problem of at least the same level in strict mode.

    Its code can differ if lenient mode assumes what the producer means.
    """
    if any(p.code == "TOO_MANY_PROBLEMS" for p in strict):
        return
    loudest: dict[str, int] = {}
    for problem in strict:
        loudest[problem.path] = max(LEVELS.index(problem.level), loudest.get(problem.path, 0))
    for problem in lenient:
        assert loudest.get(problem.path, -1) >= LEVELS.index(problem.level), problem


def explained(plan: substrait_agg.Plan, mode: Mode, found: Found) -> None:
    """A plan without errors is explained in every form; one with errors is refused with them."""
    errors = any(p.level == "error" for p in found)
    for form in EXPLAIN_FORMATS:
        try:
            text = substrait_agg.explain(plan, form, mode)
        except PlanRefused as refusal:
            text, refused = "", refusal.problems
        else:
            refused = ()
        assert refused == (found if errors else ())
        assert bool(text.strip()) is not errors
        assert form != "json" or errors or json.loads(text)


def same_in_json(node: MessageNode, found: Found) -> None:
    """The other encoding of the same message has the same problems."""
    if deepest(node) > MOST_JSON_DEPTH:
        return
    other = substrait_agg.validate(to_json(from_node(node)), "strict").problems
    assert other == found, ("JSON differs", set(other) ^ set(found))


def deepest(node: MessageNode) -> int:
    """Levels of messages."""
    depth, level = 0, [node]
    while level:
        depth += 1
        held = [v for n in level for v in n.values.values()]
        level = [
            m
            for v in held
            for m in (v if isinstance(v, list) else [v])
            if isinstance(m, MessageNode)
        ]
    return depth
