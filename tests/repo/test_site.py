"""The documentation site builds, and a broken link stops the build."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def build(project: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Build the site of a project as `make docs` does."""
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(site)],
        cwd=project,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    done = build(ROOT, tmp_path / "site")
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {path.stem for path in (tmp_path / "site").glob("*.html")}
    assert pages >= {"index", "changelog", *(p.stem for p in (ROOT / "docs").glob("*.md"))}
    commands = (tmp_path / "site" / "command-line.html").read_text()
    assert "--early-retraction" in commands, "the options of run are listed"


def test_a_broken_link_stops_the_build(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    shutil.copytree(ROOT / "docs" / "site", docs / "site")
    for name in ("README.md", "CHANGELOG.md"):
        (tmp_path / name).write_text("# Title\n\n[there](docs/nowhere.md)\n")
    settings = (ROOT / "mkdocs.yml").read_text()
    (tmp_path / "mkdocs.yml").write_text(
        re.sub(r"nav:\n.*", "nav: [index.md, changelog.md]", settings, flags=re.S)
    )
    done = build(tmp_path, tmp_path / "site")
    assert done.returncode != 0
    assert "nowhere.md" in done.stdout + done.stderr
