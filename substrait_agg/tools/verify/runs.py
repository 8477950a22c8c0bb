"""Check one run: pages, order, distinct keys, running sums. The checks are vectorised by page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.state.entries import Entries, TreeLayout
from substrait_agg.state.keys.keys import EncodedKeys, before
from substrait_agg.state.keys.rows import group_rows, row_hashes
from substrait_agg.state.run import RunFile, open_pages
from substrait_agg.state.tree import key_columns
from substrait_agg.tools.checks.findings import Findings
from substrait_agg.tools.checks.trees import TreeForm

FIRST_COLUMNS: dict[TreeForm, tuple[str, str]] = {
    "groups": ("hash", "dead"),
    "entries": ("hash", "chain"),
    "rows": ("hash", "weight"),
}
"""First columns of a run, by the content of its tree."""


def check_run(
    storage: FolderFiles, file: RunFile, path: str, found: Findings, form: TreeForm
) -> int:
    """Check a run whose checksum is right. Return its number of rows.

    Args:
        storage: where it is.
        file: as the snapshot names it.
        path: of the run, for findings.
        found: takes the findings.
        form: what its tree contains.
    """
    reader, _ = open_pages(storage.map(file.name))
    with reader:
        schema = reader.schema
        wanted = FIRST_COLUMNS[form]
        if tuple(schema.names[:2]) != wanted:
            message = f"it has the columns {', '.join(schema.names[:4])}, ..., not {', '.join(wanted)}, ..."
            found.fault("RUN_DAMAGED", path, message)
            return 0
        pages = [reader.get_batch(i) for i in range(reader.num_record_batches)]
    rows: int = sum(page.num_rows for page in pages)
    if rows != file.rows:
        message = f"it has {rows} rows, the snapshot says {file.rows}"
        found.fault("RUN_METADATA_WRONG", path, message)
    if not all(page.num_rows for page in pages):
        found.fault("RUN_DAMAGED", path, "a page of it has no rows, so it has no fences")
        return rows
    for page in pages:
        page.validate(full=True)
    _CHECKS[form](pages, path, found)
    return rows


def _joined(pages: list[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield each page with the last row of the preceding page."""
    for i, page in enumerate(pages):
        last = [pages[i - 1].slice(pages[i - 1].num_rows - 1)] if i else []
        yield pa.Table.from_batches([*last, page]).combine_chunks()


def _check_groups(pages: list[pa.RecordBatch], path: str, found: Findings) -> None:
    for rows in _joined(pages):
        hashes = rows.column("hash").to_numpy()
        if (hashes[1:] < hashes[:-1]).any():
            found.fault("RUN_ORDER_WRONG", path, "its rows are not in order of their hash")
            return
        if rows.column("dead").null_count:
            found.fault("RUN_DAMAGED", path, "rows do not say whether their key is there")
        keys = [rows.column(name).combine_chunks() for name in key_columns(rows.schema)]
        _, first = group_rows(hashes, keys)
        if not first.all():
            found.fault("KEY_REPEATED", path, f"{int((~first).sum())} keys are in it twice")


def _check_entries(pages: list[pa.RecordBatch], path: str, found: Findings) -> None:
    layout = TreeLayout.of_run(pages[0].schema)
    for rows in _joined(pages):
        entries = Entries.from_table(rows, layout)
        same, later = _ranked(entries)
        if not later.all():
            message = "its entries are not in order of group and key, or one is in it twice"
            found.fault("RUN_ORDER_WRONG", path, message)
            return
        cum = rows.column("cum").to_numpy()
        with np.errstate(over="ignore"):
            steps = cum[1:] - cum[:-1]
        wrong = same & (steps != entries.weights[1:])
        if wrong.any():
            message = f"the running sum of weights is wrong in {int(wrong.sum())} places"
            found.fault("RUNNING_SUM_WRONG", path, message)
            return


def _check_rows(pages: list[pa.RecordBatch], path: str, found: Findings) -> None:
    for rows in _joined(pages):
        hashes, weights = rows.column("hash").to_numpy(), rows.column("weight")
        if (hashes[1:] < hashes[:-1]).any():
            found.fault("RUN_ORDER_WRONG", path, "its rows are not in order of their hash")
            return
        if weights.null_count or not weights.to_numpy().all():
            found.fault("RUN_DAMAGED", path, "rows of it have no weight")
        columns = [column.combine_chunks() for column in rows.columns[2:]]
        _, first = group_rows(row_hashes(columns, hashes), columns)
        if not first.all():
            found.fault("KEY_REPEATED", path, f"{int((~first).sum())} rows are in it twice")


_CHECKS: dict[TreeForm, Callable[[list[pa.RecordBatch], str, Findings], None]] = {
    "groups": _check_groups,
    "entries": _check_entries,
    "rows": _check_rows,
}
"""The check of the rows of a run, by the content of its tree."""


def _ranked(entries: Entries) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Compare each row except the first with the preceding row.

    Returns:
        Whether it belongs to the same group, and whether it sorts after the preceding row.
    """
    hashes, chains = entries.hashes, entries.collision_ids
    same = (hashes[1:] == hashes[:-1]) & (chains[1:] == chains[:-1])
    behind = (hashes[1:] > hashes[:-1]) | ((hashes[1:] == hashes[:-1]) & (chains[1:] > chains[:-1]))
    at = np.flatnonzero(same)
    keys: EncodedKeys = entries.keys
    behind[at] = before(keys, at, keys, at + 1)
    return same, behind


def check_ranges(runs: tuple[RunFile, ...], path: str, found: Findings, most: int) -> None:
    """Check that the live hashes of runs are ranges, and that no run is live twice for one hash.

    Args:
        runs: of one tree.
        path: of the snapshot.
        found: takes the findings.
        most: the greatest possible hash.
    """
    pieces: dict[str, list[RunFile]] = {}
    for run in runs:
        if not 0 <= run.low <= run.high <= most or run.span < 1 or run.rows < 1:
            message = f"{run.name} is live from hash {run.low} to {run.high} with {run.rows} rows over {run.span} hashes"
            found.fault("RUN_METADATA_WRONG", path, message)
        pieces.setdefault(run.name, []).append(run)
    for name, parts in pieces.items():
        ordered = sorted(parts, key=_low)
        told = {(part.rows, part.bytes, part.crc) for part in parts}
        if len(told) > 1:
            found.fault("RUN_METADATA_WRONG", path, f"{name} is named with different sizes")
        if any(b.low <= a.high for a, b in pairwise(ordered)):
            found.fault("RANGES_OVERLAP", path, f"{name} is live twice for the same hashes")


def _low(run: RunFile) -> Any:
    return run.low
