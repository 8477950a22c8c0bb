"""The examples in docstrings run and print the documented results."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import substrait_agg

PACKAGE = Path(substrait_agg.__file__).parent
FEWEST = 10

PROGRAM = """
import doctest, importlib, sys

sys.modules["pyspark"] = sys.modules["py4j"] = None
attempted = failed = 0
for name in sys.argv[1:]:
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("pyspark", "py4j"):
            raise
        continue
    result = doctest.testmod(module)
    attempted, failed = attempted + result.attempted, failed + result.failed
print(attempted, failed)
"""


def modules_with_examples() -> list[str]:
    return [
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
        for path in sorted(PACKAGE.rglob("*.py"))
        if ">>> " in path.read_text(encoding="utf-8")
    ]


def test_examples_of_modules_quick_batches_are_right() -> None:
    """Doctests pass in a separate process that cannot import Spark, because they have to be quick."""
    command = [sys.executable, "-W", "error", "-c", PROGRAM, *modules_with_examples()]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    report, _, counts = process.stdout.rstrip("\n").rpartition("\n")
    attempted, failed = map(int, counts.split())
    assert not failed, report
    assert attempted >= FEWEST
