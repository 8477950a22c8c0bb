"""A Python worker loads what its task needs: every module more is loaded again in each of them before the first batch."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
import {module}
print(*sorted(name for name in sys.modules if name.startswith(("substrait", "google", "yaml", "rich", "click"))))
"""
NEVER = (
    "click", "google.protobuf", "rich", "substrait", "substrait_agg.bind.plan.binder",
    "substrait_agg.commit.view.view", "substrait_agg.explanation.explain", "substrait_agg.flow.passes.lower", "substrait_agg.plan.decoding.decoder",
    "substrait_agg.plan.messages.schema", "substrait_agg.spark.query.start", "yaml",
)  # fmt: skip


@pytest.mark.parametrize(
    "module", ["substrait_agg.commit.tasks.task", "substrait_agg.spark.execution.task_runner"]
)
def test_the_modules_of_a_task_are_few(module: str) -> None:
    command = [sys.executable, "-c", PROGRAM.format(module=module)]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert module in loaded
    assert not set(NEVER) & set(loaded)


def test_packages_export_what_they_import_later() -> None:
    """A deferred name is imported on access, without other modules."""
    from substrait_agg import bind, commit, explanation, plan

    for package in (bind, commit, explanation, plan):
        for name in package.__all__:
            assert getattr(package, name) is not None
        with pytest.raises(AttributeError, match="has no attribute 'absent'"):
            package.absent  # noqa: B018
