"""Build the parts of the documentation site that are not pages of ``docs/``.

MkDocs calls the ``on_*`` functions. Pages link to source files of the repository. Each linked file or
folder becomes a page below ``source/``, so the site is complete without a code host. The README is the home
page, and the changelog is a page too. Flowcharts and SVG pictures become part of the pages, in the colours
of the theme: no script of another site is loaded.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

import flowchart
import sequence
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\((?P<target>\.\./[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")
"""A link to a file or folder above the page."""

CHART = re.compile(r"^```mermaid\n(.*?)^```$", re.M | re.S)
PICTURE = re.compile(r"^!\[(?P<title>[^\]]*)\]\((?P<file>[^)\s]+\.svg)\)$", re.M)

SHORT = re.compile(r"<code>([^<\n]{1,28})</code>")
WIDTH = re.compile(r'<svg [^>]*width="([0-9.]+)"')

PAGES_OUTSIDE = {"README.md": "index.md", "CHANGELOG.md": "changelog.md"}
"""Files beside ``docs/`` that the site has as pages."""

HEADS = {"index.md": "---\nhide: [navigation]\n---\n"}
"""Settings of these pages for the theme."""

LANGUAGES = {".py": "python", ".yaml": "yaml", ".yml": "yaml", ".json": "json", ".toml": "toml"}


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages from beside ``docs/``, and a page for every linked source file and folder."""
    for name, page in PAGES_OUTSIDE.items():
        text = inside_docs((ROOT / name).read_text())
        files.append(File.generated(config, page, content=HEADS.get(page, "") + text))
    wanted = {path for page in files.documentation_pages() for path in source_links(page)}
    wanted |= {child for path in wanted if path.is_dir() for child in children(path)}
    for path in sorted(wanted):
        files.append(File.generated(config, source_page(path), content=source_text(path)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Replace links to files of the repository by links to their pages of the site, and put in pictures."""
    folder = posixpath.dirname(page.file.src_uri) or "."

    def on_site(link: re.Match[str]) -> str:
        path = repository_path(page.file, link)
        target = PAGES_OUTSIDE.get(path.relative_to(ROOT).as_posix(), source_page(path))
        return f"]({posixpath.relpath(target, folder)}{link['anchor'] or ''})"

    def stored(picture: re.Match[str]) -> str:
        svg = (ROOT / "docs" / folder / picture["file"]).read_text()
        return inline(
            re.sub('aria-label="[^"]*"', f'aria-label="{picture["title"]}"', svg, count=1)
        )

    text = LINK.sub(
        lambda link: on_site(link) if leaves_docs(page.file, link) else link[0], markdown
    )
    text = CHART.sub(lambda chart: inline(drawn(chart[1])), text)
    return PICTURE.sub(stored, text)


def on_page_content(html: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Leave the defaults of options empty that have none, and keep short code on one line."""
    html = html.replace("<code>Sentinel.UNSET</code>", "").replace("Sentinel.UNSET", "")
    return SHORT.sub(r'<code class="short">\1</code>', html)


def drawn(chart: str) -> str:
    """Return a flowchart or a sequence diagram of a page as SVG."""
    if chart.startswith("sequenceDiagram"):
        return sequence.draw(chart)
    return flowchart.draw(chart)


def inline(svg: str) -> str:
    """Return SVG as a part of a page of Markdown, where a blank line would end it.

    On a small screen it becomes smaller by a third at most, and then scrolls, so that its text is readable.
    """
    width = WIDTH.search(svg)
    least = f'<svg style="min-width: {float(width[1]) * 2 / 3:.0f}px" ' if width else "<svg "
    return '<div class="picture">' + " ".join(svg.split()).replace("<svg ", least, 1) + "</div>"


def leaves_docs(page: File, link: re.Match[str]) -> bool:
    """Return whether a link leads to a file outside ``docs/``."""
    return not repository_path(page, link).is_relative_to(ROOT / "docs")


def inside_docs(text: str) -> str:
    """Return the text of a page beside ``docs/`` with its links as from a page in ``docs/``."""
    outside = re.sub(r"\]\((?!https?:|#|docs/)", "](../", text)
    return outside.replace("](docs/", "](")


def repository_path(page: File, link: re.Match[str]) -> Path:
    """Return the file or folder that a link of a page leads to."""
    return (ROOT / "docs" / page.src_uri).parent.joinpath(link["target"]).resolve()


def source_links(page: File) -> set[Path]:
    """Return the files and folders outside ``docs/`` that a page links to and that need a page."""
    links = LINK.finditer(page.content_string)
    paths = {repository_path(page, link) for link in links if leaves_docs(page, link)}
    return {path for path in paths if path.relative_to(ROOT).as_posix() not in PAGES_OUTSIDE}


def children(folder: Path) -> list[Path]:
    """Return the source files of a folder."""
    return sorted(p for p in folder.iterdir() if p.is_file() and p.suffix in {*LANGUAGES, ".md"})


def source_page(path: Path) -> str:
    """Return where the page of a source file or folder is in the site."""
    return f"source/{path.relative_to(ROOT).as_posix()}.md"


def source_text(path: Path) -> str:
    """Return the page of a source file, or of a folder with links to its files."""
    title = f"---\nsearch: {{exclude: true}}\n---\n# {path.relative_to(ROOT).as_posix()}\n\n"
    if path.is_dir():
        return title + "".join(f"- [{p.name}]({path.name}/{p.name}.md)\n" for p in children(path))
    return f"{title}``````{LANGUAGES.get(path.suffix, 'text')}\n{path.read_text()}\n``````\n"
