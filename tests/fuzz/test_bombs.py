"""Plans that could exhaust time or memory are refused with a code, in a process with little of both."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz import bombs

resource = pytest.importorskip("resource", reason="limits of a process are set as Unix does")

ROOT = Path(__file__).parents[2]
MEMORY, SECONDS = 1 << 30, 100
"""Address space and processor time for all of them together; the time is generous, as machines differ."""

PROGRAM = """
import json, sys
import substrait_agg
from substrait_agg.errors import PlanRefused
from tests.fuzz import bombs

MODES = sys.argv[1:]

def outcome(content):
    plan = substrait_agg.Plan("", content)
    found = {}
    for mode in MODES:
        report = substrait_agg.validate(plan, mode)
        found[mode] = sorted({p.code for p in report.problems if p.level == "error"})
        assert len(report.to_json()) < 20_000_000
        try:
            shown = [substrait_agg.explain(plan, form, mode) for form in ("text", "json")]
            found["shown"] = max(map(len, shown))
        except PlanRefused:
            assert found[mode]
    return found

which = {b.__name__: b for b in (*bombs.TOO_LARGE, *bombs.IN_TIME)}
for name in json.load(sys.stdin):
    content = bombs.NO_PLANS[name] if name in bombs.NO_PLANS else which[name]()
    print(json.dumps([name, outcome(content)]), flush=True)
"""


def outcomes(names: list[str], *modes: str) -> dict[str, Any]:
    """Return the output of validate and explain for the named inputs, in a process with limits."""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))

    path = os.pathsep.join((str(ROOT), str(ROOT / "cli")))
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, *modes], input=json.dumps(names), text=True, capture_output=True,
        env={**os.environ, "PYTHONPATH": path}, preexec_fn=limited, check=False,
    )  # fmt: skip
    found = dict(json.loads(line) for line in ended.stdout.splitlines())
    assert ended.returncode == 0, f"after {list(found)[-1:]}: {ended.stderr[-2000:]}"
    assert list(found) == names
    return found


def test_plans_over_a_limit() -> None:
    """Each with the code of its limit; none is explained."""
    found = outcomes([bomb.__name__ for bomb in bombs.TOO_LARGE], "lenient")
    for bomb, code in bombs.TOO_LARGE.items():
        said = found[bomb.__name__]
        assert code in said["lenient"], (bomb.__name__, said)
        assert "shown" not in said


def test_plans_that_no_limit_stops() -> None:
    """They and their output use little memory."""
    found = outcomes([bomb.__name__ for bomb in bombs.IN_TIME], "lenient", "strict")
    assert all(said.get("shown", 0) < 10_000_000 for said in found.values()), found
    assert any("shown" in said for said in found.values())


def test_what_is_no_plan_at_all() -> None:
    found = outcomes(list(bombs.NO_PLANS), "strict")
    assert not [name for name, said in found.items() if not said["strict"]]
