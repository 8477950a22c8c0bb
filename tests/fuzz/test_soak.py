"""Coverage-guided fuzzing for ten minutes in all: only `make soak` runs it. Atheris has wheels for Linux only."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.fuzz.mutate import samples

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
SECONDS = float(os.environ.get("FUZZ_SECONDS", "600"))
KINDS = ("bytes", "fields")

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris is not installed"),
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_fuzzing_finds_nothing(kind: str, tmp_path: Path) -> None:
    """An input that breaks a property is left in the test's folder, whose name the message has."""
    corpus, found = tmp_path / "corpus", tmp_path / "found"
    found.mkdir()
    with zipfile.ZipFile(FOLDER / "corpus.zip") as kept:
        kept.extractall(corpus)
    for number, content in enumerate(samples()):
        (corpus / f"sample{number}").write_bytes(content)
    options = {
        "max_total_time": int(SECONDS / len(KINDS)), "max_len": 20_000, "timeout": 60,
        "rss_limit_mb": 2_048, "print_final_stats": 1, "verbosity": 0,
    }  # fmt: skip
    command = [sys.executable, "-m", "tests.fuzz.target", kind]
    command += [f"-{name}={value}" for name, value in options.items()]
    ended = subprocess.run(
        [*command, f"-artifact_prefix={found}/", str(corpus)],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'cli'}"},
        capture_output=True, text=True, errors="replace", timeout=SECONDS + 600, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, f"see {found}\n{ended.stderr[-4000:]}"
    assert not list(found.iterdir())
