"""Format the results of the state commands as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from substrait_agg.escape import printable

if TYPE_CHECKING:
    from substrait_agg.tools.listing import Listing

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def size(count: int) -> str:
    """Format a number of bytes."""
    value, unit = float(count), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{count} B" if not unit else f"{value:.1f} {_UNITS[unit]}"


def instant(micros: int | None) -> str:
    """Format an event time in microseconds."""
    if micros is None:
        return "-"
    try:
        return datetime.fromtimestamp(micros / 1e6, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return str(micros)


def align(heads: Sequence[str], rows: Iterable[Sequence[Any]], numbers: int = 0) -> Iterator[str]:
    """Yield the lines of a table. The last `numbers` columns are aligned to the right."""
    texts = [[printable(str(cell)) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(heads, *texts, strict=True)]
    first = len(heads) - numbers

    def line(cells: Sequence[str]) -> str:
        """Return one row with padded cells."""
        padded = [
            cell.rjust(width) if i >= first else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return " | ".join(padded).rstrip()

    yield line(heads)
    yield "-+-".join("-" * width for width in widths)
    yield from map(line, texts)


def list_lines(listing: Listing) -> Iterator[str]:
    """Yield the lines of ``state ls``."""
    use = "in use" if listing.in_use else "not in use"
    per = "one per core" if listing.partitions is None else listing.partitions
    yield f"{printable(listing.checkpoint)} ({use}; plan {printable(listing.plan[:12])}; partitions of the next runs: {per})"
    parts = (
        f"{name} {listing.files[name]} files {size(listing.bytes[name])}" for name in listing.files
    )
    yield ", ".join(parts)
    yield ""
    yield from _versions(listing)
    yield ""
    if any(view.name for view in listing.views):
        rows = [(view.name, view.operator, ", ".join(view.columns)) for view in listing.views]
        yield from align(("view", "operator", "columns"), rows)
        yield ""
    sums = [
        (v.version, name or "-", checksum)
        for v in listing.versions
        for name, checksum in v.checksums.items()
    ]
    if sums:
        yield from align(("version", "view", "checksum"), sums, 1)
        yield ""
    if listing.positions:
        yield from align(
            ("source", "read up to"), [(p.source, p.position) for p in listing.positions]
        )
        yield ""
    yield from _trees(listing)


def _versions(listing: Listing) -> Iterator[str]:
    heads = (
        "version",
        "committed",
        "watermark",
        "state",
        "files read",
        "rows in",
        "changes",
        "late",
        "bad",
        "written",
        "in all",
    )
    rows = [
        (
            v.version, v.created or "-", instant(v.watermark), "kept" if v.kept else "-",
            v.files, v.rows_in, v.changes, v.late, v.bad, size(v.written), size(v.bytes),
        )
        for v in listing.versions
    ]  # fmt: skip
    yield from align(heads, rows, 6)
    if listing.total > len(listing.versions):
        yield f"({listing.total} versions; --limit shows more)"


def _trees(listing: Listing) -> Iterator[str]:
    heads = ("operator", "kind", "tree", "holds", "files", "runs", "ranges", "rows", "bytes")
    rows = [
        (
            t.operator, t.kind, t.tree, t.what, t.files, t.runs,
            len({(r.low, r.high) for r in t.ranges}), t.rows, size(t.bytes),
        )
        for t in listing.trees
    ]  # fmt: skip
    yield from align(heads, rows, 5)
