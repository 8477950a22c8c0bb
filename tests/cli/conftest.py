"""Plans and checkpoints for the command line, made without Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.handmade import counting


@pytest.fixture
def good_plan(tmp_path: Path) -> Path:
    """A plan that can be run."""
    path = tmp_path / "good.json"
    path.write_text(json.dumps(counting()))
    return path


@pytest.fixture
def bad_plan(tmp_path: Path) -> Path:
    """A plan with an unknown function."""
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(counting("frobnicate")))
    return path
