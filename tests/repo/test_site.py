"""The documentation site builds, and a broken link stops the build."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import flowchart
import pictures
import pytest
import sequence

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
    pages = {path.stem for path in (tmp_path / "site").rglob("*.html")}
    assert pages >= {"index", "changelog", *(p.stem for p in (ROOT / "docs").rglob("*.md"))}
    html = [path.read_text() for path in (tmp_path / "site").glob("*.html")]
    assert not [text for text in html if re.search(r"<(script|link)[^>]*https?://", text)], (
        "pages need no other site"
    )
    assert not [text for text in html if "language-mermaid" in text], "every chart is drawn"
    commands = (tmp_path / "site" / "command-line.html").read_text()
    assert "--early-retraction" in commands, "the options of run are listed"
    assert "Sentinel" not in commands, "an option without a default shows none"


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


@pytest.mark.usefixtures("spark")
def test_the_pictures_are_on_a_page_and_those_that_the_code_draws() -> None:
    """`make pictures` has been run."""
    pages = "".join(path.read_text() for path in (ROOT / "docs").rglob("*.md"))
    for path, drawn in pictures.pictures():
        assert path.read_text() == drawn, path.name
        assert f"{path.parent.name}/{path.name})" in pages, path.name


def test_a_chart_has_all_its_boxes_and_texts() -> None:
    drawn = flowchart.draw(
        'flowchart TB\n a["one<br/>two"] -- "to b" --> b[("store")]\n subgraph f["frame"]\n'
        " c{{hexagon}} -.- d\n end\n b -->|in| c\n a --> c\n b <--> e"
    )
    texts = re.findall(r"<text[^>]*>([^<]+)<", drawn)
    assert sorted(texts) == sorted(
        ["one", "two", "to b", "store", "frame", "hexagon", "d", "in", "e"]
    )
    assert drawn.count('class="edge') == 5
    assert drawn.count('class="head"') == 5, "a line without heads, and one with two"


def test_boxes_do_not_overlap() -> None:
    lines = ["flowchart LR", *(f" a{i} --> b{i % 3}" for i in range(9)), " b0 --> c", " a1 --> c"]
    drawn = flowchart.draw("\n".join(lines))
    boxes = [
        tuple(map(float, found))
        for found in re.findall(
            r'class="box [^>]*x="([\d.-]+)" y="([\d.-]+)" width="([\d.]+)" height="([\d.]+)"', drawn
        )
    ]
    assert len(boxes) == 13
    for i, (x, y, w, h) in enumerate(boxes):
        for x2, y2, w2, h2 in boxes[:i]:
            assert x >= x2 + w2 or x2 >= x + w or y >= y2 + h2 or y2 >= y + h


@pytest.mark.parametrize(
    ("draw", "text"),
    [
        (flowchart.draw, "flowchart LR\n a ==> b"),
        (flowchart.draw, "flowchart LR\n a --> b\n b --> a"),
        (sequence.draw, "sequenceDiagram\n loop every second"),
    ],
)
def test_a_statement_that_cannot_be_drawn_is_refused(draw: Callable[[str], str], text: str) -> None:
    with pytest.raises(flowchart.NotDrawn):
        draw(text)
