"""Decode reads of files: which files they name, in which format, and how their tables are called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain, count

from substrait_agg.plan.decoding.context import DecodeContext
from substrait_agg.plan.files import PlanFile, table_path
from substrait_agg.plan.messages.node import MessageNode

MOST_PARTS = 8
"""Number of parts of a path that a name can have, unless it is the whole path."""

_TEXT_OPTIONS = ("field_delimiter", "quote", "escape", "value_treated_as_null")


def read_files(body: MessageNode, context: DecodeContext) -> tuple[PlanFile, ...]:
    """Return the files of a read."""
    items = body.messages("items")
    if not items:
        context.report_missing(body, "items")
    return tuple(_file(item, context) for item in items)


def _file(item: MessageNode, context: DecodeContext) -> PlanFile:
    kind = item.which("path_type")
    uri = item.text(kind) if kind else ""
    if not uri:
        context.report_missing(item, kind or "path_type")
    format_ = item.which("file_format") or ""
    text = item.message("text") if format_ == "text" else None
    options: list[tuple[str, str]] = []
    if text is not None:
        options = [(name, text.text(name)) for name in _TEXT_OPTIONS if text.has(name)]
        options.append(("header_lines_to_skip", str(text.number("header_lines_to_skip"))))
    return PlanFile(uri, kind == "uri_path_glob", format_, tuple(options))


def paths_of(files: Iterable[PlanFile]) -> tuple[str, ...]:
    """Return the paths of files. They identify the table."""
    return tuple(file.path for file in files)


def file_tables(order: Iterable[MessageNode]) -> dict[tuple[str, ...], str]:
    """Return the names of the tables that a plan reads as files, by the paths of the files.

    A table is called like its file or folder. Tables of files with one name have as much of their
    paths as tells them apart.

    Args:
        order: all messages of the plan.
    """
    places: dict[tuple[str, ...], str] = {}
    place_names: set[str] = set()
    named: set[str] = set()
    for node in order:
        if node.shape.name == "ReadRel.LocalFiles":
            files = tuple(map(_named_file, node.values.get("items", ())))
            paths = paths_of(files)
            if paths not in places:
                numbers = (f"{table_path(files)} {number}" for number in count(2))
                places[paths] = next(
                    path
                    for path in chain((table_path(files), *paths), numbers)
                    if path not in place_names
                )
                place_names.add(places[paths])
        elif node.shape.name == "ReadRel.NamedTable":
            names = node.values.get("names", ())
            named |= {".".join(names), *names[-1:]}
    ends = Counter(end for place in place_names for end in _ends(place))
    return {
        paths: next((e for e in _ends(place) if ends[e] == 1 and e not in named), place)
        for paths, place in places.items()
    }


def _named_file(item: MessageNode) -> PlanFile:
    """Return the file of a message by its path alone, without marking fields as read."""
    return PlanFile(item.values.get(item.which("path_type") or "", ""))


def _ends(path: str) -> Iterator[str]:
    """Yield the ends of a path, the shortest first."""
    parts = path.rsplit("/", MOST_PARTS)
    shown = [part for part in parts[1:] or parts if part]
    for width in range(1, len(shown) + 1):
        yield "/".join(shown[-width:])
