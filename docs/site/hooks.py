"""Build the parts of the documentation site that are not pages of ``docs/``.

MkDocs calls the ``on_*`` functions. Pages link to source files of the repository. Each linked file or
folder becomes a page below ``source/``, so the site is complete without a code host. The README is the home
page, and the changelog is a page too.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\((?P<target>\.\./[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")
"""A link from a page of ``docs/`` to a file or folder outside of it."""

PAGES_OUTSIDE = {"README.md": "index.md", "CHANGELOG.md": "changelog.md"}
"""Files beside ``docs/`` that the site has as pages."""

LANGUAGES = {".py": "python", ".yaml": "yaml", ".yml": "yaml", ".json": "json", ".toml": "toml"}


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages from beside ``docs/``, and a page for every linked source file and folder."""
    for name, page in PAGES_OUTSIDE.items():
        files.append(File.generated(config, page, content=inside_docs((ROOT / name).read_text())))
    wanted = {path for page in files.documentation_pages() for path in source_links(page)}
    wanted |= {child for path in wanted if path.is_dir() for child in children(path)}
    for path in sorted(wanted):
        files.append(File.generated(config, source_page(path), content=source_text(path)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Replace links to files of the repository by links to their pages of the site."""
    folder = posixpath.dirname(page.file.src_uri) or "."

    def on_site(link: re.Match[str]) -> str:
        path = repository_path(link)
        target = PAGES_OUTSIDE.get(path.relative_to(ROOT).as_posix(), source_page(path))
        return f"]({posixpath.relpath(target, folder)}{link['anchor'] or ''})"

    return LINK.sub(on_site, markdown)


def inside_docs(text: str) -> str:
    """Return the text of a page beside ``docs/`` with its links as from a page in ``docs/``."""
    outside = re.sub(r"\]\((?!https?:|#|docs/)", "](../", text)
    return outside.replace("](docs/", "](")


def repository_path(link: re.Match[str]) -> Path:
    """Return the file or folder that a link of a page of ``docs/`` leads to."""
    return (ROOT / "docs" / link["target"]).resolve()


def source_links(page: File) -> set[Path]:
    """Return the files and folders outside ``docs/`` that a page links to and that need a page."""
    paths = {repository_path(link) for link in LINK.finditer(page.content_string)}
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
