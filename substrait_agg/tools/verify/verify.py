"""Verify a whole checkpoint and report all damage.

Of a run, the pages, their order, distinct keys and running sums are checked, vectorised by page. The
trees of a version have to agree with each other and with its counters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from operator import attrgetter

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from substrait_agg.commit.documents.file_names import snapshot_name
from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.commit.documents.plan_document import PLAN, PlanDocument
from substrait_agg.commit.documents.positions import FileList
from substrait_agg.commit.documents.snapshot import ChangeFile, OperatorState, Snapshot
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.log.read_files import read_list
from substrait_agg.commit.log.retention import RetentionState
from substrait_agg.commit.log.sweep import (
    change_files,
    state_files,
    unneeded_changes,
    unneeded_state,
)
from substrait_agg.commit.view.view import View
from substrait_agg.explanation.tree import NumberColumns, OperatorColumns
from substrait_agg.functions.aggregates.accumulators import COUNT_DIGITS, DIGIT_BITS, MET
from substrait_agg.functions.numbers.stored_digits import unpack_digits
from substrait_agg.operator.common.names import GROUP, PENDING, VERSION, WEIGHT, entries_tree
from substrait_agg.required import require
from substrait_agg.state.entries import Entries, TreeLayout
from substrait_agg.state.keys.keys import EncodedKeys, before
from substrait_agg.state.keys.rows import group_rows, row_hashes
from substrait_agg.state.ordered import OrderedTree
from substrait_agg.state.run import HASH_MAX, RunFile, open_pages, open_run
from substrait_agg.state.storage import Storage
from substrait_agg.state.tree import key_columns, tree_of
from substrait_agg.tools.checks.findings import Finding, FindingCollector, Verdict
from substrait_agg.tools.checks.orphan_files import report_orphan_files
from substrait_agg.tools.checks.trees import TreeForm, all_trees, shape_of
from substrait_agg.tools.rollback.sinks import check_records
from substrait_agg.tools.verify.recomputed import Recompute, check_recomputed, flow_of
from substrait_agg.tools.verify.view import check_view


def verify(checkpoint: Checkpoint, recompute: Recompute | None = None) -> Verdict:
    """Verify a checkpoint. A run may be active.

    Args:
        checkpoint: the checkpoint.
        recompute: computes the newest version again, to compare it; None: it is not compared.

    Raises:
        StateRefused: NOT_A_CHECKPOINT. Damage is in the verdict instead.
    """
    for _ in range(3):
        versions = checkpoint.versions()
        verdict = _Verification(checkpoint, recompute).verdict()
        # Deletions and commits of a concurrent run may look like damage. Verify again.
        if verdict.ok or checkpoint.versions() == versions:
            break
    return verdict


class _Verification:
    def __init__(self, checkpoint: Checkpoint, recompute: Recompute | None) -> None:
        self._checkpoint, self._recompute = checkpoint, recompute
        self._found = FindingCollector()
        self._documents: dict[str, PlanDocument | None] = {}
        self._looked_at: set[tuple[str, int, int, int]] = set()
        self._checked: Counter[str] = Counter(versions=0, files=0, rows=0, bytes=0, changes=0)

    def verdict(self) -> Verdict:
        """Check all files and versions; return what was found."""
        findings = self._found
        document = self._document()
        retention = RetentionState()
        with findings.catch("STATE_DAMAGED", "kept.json"):
            retention = self._checkpoint.retention_state()
        with findings.catch("STATE_DAMAGED", "settings.json"):
            self._checkpoint.settings()
        snapshots = self._snapshots(retention)
        self._check_predecessors(snapshots, document)
        for snapshot in snapshots:
            self._change_files(snapshot)
        for snapshot in snapshots:
            if snapshot.version >= retention.state_from:
                self._state(snapshot)
        if snapshots:
            self._whole(document, snapshots)
        else:
            with findings.catch("STATE_DAMAGED", "snapshots"):
                self._checkpoint.check_versions()
        if document is not None:
            check_records(self._checkpoint.folder, findings)
        self._forget_swept(snapshots)
        report_orphan_files(self._checkpoint, findings)
        if snapshots:
            self._leftovers(retention, snapshots[-1].version)
        ordered = sorted(findings, key=_rank)
        return Verdict(str(self._checkpoint.folder), tuple(ordered), dict(self._checked))

    def _forget_swept(self, snapshots: Sequence[Snapshot]) -> None:
        """Ignore files deleted during verification."""
        retention = RetentionState()
        with self._found.catch("STATE_DAMAGED", "kept.json"):
            retention = self._checkpoint.retention_state()
        runs = {s.version: {f"state/{name}" for name in state_files(s)} for s in snapshots}
        needed = {path for v, paths in runs.items() if v >= retention.state_from for path in paths}
        deleted = {path for paths in runs.values() for path in paths} - needed
        for snapshot in snapshots:
            if snapshot.version < retention.changes_from:
                deleted |= {f"changes/{name}" for name in change_files(snapshot)}
        deleted |= {f"snapshots/{snapshot_name(v)}" for v in range(retention.changes_from)}
        self._found.forget(deleted)

    def _document(self) -> PlanDocument | None:
        document: list[PlanDocument | None] = [None]
        with self._found.catch("STATE_DAMAGED", PLAN):
            document.append(self._checkpoint.document())
        return document[-1]

    def _document_of(self, plan: str, path: str) -> PlanDocument | None:
        if plan not in self._documents:
            self._documents[plan] = None
            with self._found.catch("CHAIN_BROKEN", path):
                self._documents[plan] = self._checkpoint.document_of(plan)
        return self._documents[plan]

    def _snapshots(self, retention: RetentionState) -> list[Snapshot]:
        """Return all versions that can be read."""
        versions = self._checkpoint.versions()
        read = []
        for version in versions:
            path = f"snapshots/{snapshot_name(version)}"
            with self._found.catch("STATE_DAMAGED", path):
                read.append(self._checkpoint.snapshot(version))
        self._checked["versions"] = len(read)
        if versions and versions[0] > retention.changes_from:
            self._report_missing(range(retention.changes_from, versions[0]))
        for previous, after in pairwise(versions):
            self._report_missing(range(previous + 1, after))
        return read

    def _report_missing(self, versions: range) -> None:
        for version in versions[:10]:
            message = f"version {version} is missing, but newer versions exist"
            self._found.fault("SNAPSHOT_MISSING", f"snapshots/{snapshot_name(version)}", message)

    def _check_predecessors(
        self, snapshots: Sequence[Snapshot], document: PlanDocument | None
    ) -> None:
        """Check that each version follows its predecessor, with the same plan."""
        for previous, snapshot in zip([None, *snapshots], snapshots, strict=False):
            path = f"snapshots/{snapshot_name(snapshot.version)}"
            of = None if document is None else self._document_of(snapshot.plan, path)
            contradictions = [] if of is None else [*_against_plan(snapshot, of)]
            contradictions += [] if previous is None else _against_previous(snapshot, previous)
            for message in contradictions:
                self._found.fault("CHAIN_BROKEN", path, message)

    def _change_files(self, snapshot: Snapshot) -> None:
        records = {bad.file.name for bad in snapshot.bad}
        for change in snapshot.change_files:
            path = f"changes/{change.name}"
            if self._is_whole(self._checkpoint.changes, change, path):
                with self._found.catch("CHANGES_DAMAGED", path):
                    columns = [VERSION] if change.name in records else [VERSION, WEIGHT]
                    self._change_rows(change, snapshot.version, path, columns)

    def _change_rows(self, change: ChangeFile, version: int, path: str, columns: list[str]) -> None:
        with self._checkpoint.changes.map(change.name) as source:
            table = pq.read_table(source, columns=columns)
        if table.num_rows != change.rows:
            message = f"it has {table.num_rows} rows, but its snapshot states {change.rows}"
            self._found.fault("CHANGES_DAMAGED", path, message)
        if set(table.column(VERSION).unique().to_pylist()) - {version}:
            message = f"it has changes of other versions than {version}"
            self._found.fault("CHANGES_DAMAGED", path, message)

    def _is_whole(
        self, storage: FolderFiles, file: ChangeFile | RunFile | FileList, path: str
    ) -> bool:
        self._checked["files"] += 1
        self._checked["bytes"] += file.bytes
        with self._found.catch("FILE_DAMAGED", path):
            if not storage.exists(file.name):
                self._found.fault(
                    "FILE_MISSING", path, "a version refers to it, but it does not exist"
                )
                return False
            storage.forget(file.name)  # check the file in the store, not its local copy
            if storage.is_whole(file.name, file.bytes, file.crc):
                return True
            size = storage.size(file.name)
            what = (
                f"{size} bytes instead of {file.bytes}"
                if size != file.bytes
                else "another checksum"
            )
            self._found.fault("FILE_DAMAGED", path, f"it has {what}")
        return False

    def _state(self, snapshot: Snapshot) -> None:
        for names in snapshot.positions.lists:
            identity = (names.name, names.rows, names.bytes, names.crc)
            if identity not in self._looked_at:
                self._looked_at.add(identity)
                where = f"state/{names.name}"
                if self._is_whole(self._checkpoint.state, names, where):
                    with self._found.catch("STATE_DAMAGED", where):
                        self._checked["rows"] += read_list(self._checkpoint.state, names).num_rows
        path = f"snapshots/{snapshot_name(snapshot.version)}"
        for tree in all_trees(snapshot):
            check_ranges(tree.runs, path, self._found)
            for run in tree.runs:
                identity = (run.name, run.rows, run.bytes, run.crc)
                if identity in self._looked_at:
                    continue
                self._looked_at.add(identity)
                where = f"state/{run.name}"
                if self._is_whole(self._checkpoint.state, run, where):
                    with self._found.catch("RUN_DAMAGED", where):
                        self._checked["rows"] += check_run(
                            self._checkpoint.state, run, where, self._found, tree.form
                        )

    def _whole(self, document: PlanDocument | None, snapshots: list[Snapshot]) -> None:
        """Run the checks that need several files, if each of these files is undamaged."""
        newest = snapshots[-1]
        needed = {f"state/{name}" for name in state_files(newest)}
        faulty = self._found.faulty
        path = f"snapshots/{snapshot_name(newest.version)}"
        if document is None or needed & faulty or path in faulty:
            return
        with self._found.catch("STATE_DAMAGED", path):
            self._levels(document, newest, path)
        if self._recompute is not None:
            self._compare(self._recompute, newest, path)
        if not any(p.startswith(("changes/", "snapshots/", "state/")) for p in faulty):
            with self._found.catch("STATE_DAMAGED", path):
                self._checked["changes"] = check_view(self._checkpoint, snapshots, self._found)

    def _levels(self, document: PlanDocument, newest: Snapshot, path: str) -> None:
        levels = {"waiting": 0}
        for ordinal, state in enumerate(newest.operators):
            shape = shape_of(document, ordinal)
            levels["waiting"] += check_operator(
                self._checkpoint.state, state, shape, path, self._found
            )
        if document.guarded:
            quarantined = View(self._checkpoint, document.view_schemas[0].name).quarantined(
                newest.version
            )
            levels["quarantined"] = -sum(quarantined.column(WEIGHT).to_pylist())
        check_levels(newest, levels, path, self._found)

    def _compare(self, recompute: Recompute, newest: Snapshot, path: str) -> None:
        """Compare the newest version with the same, computed again."""
        document = self._document_of(newest.plan, path)
        flow = None if document is None else flow_of(document, path, self._found)
        if document is not None and flow is not None:
            with self._found.catch("STATE_DAMAGED", path):
                self._checked["comparisons"] = check_recomputed(
                    self._checkpoint, flow, newest, recompute, self._found
                )

    def _leftovers(self, retention: RetentionState, newest: int) -> None:
        """Report files of failed attempts, and state that the next sweep deletes."""
        everything = RetentionState(retention.state_from, retention.changes_from, -1)
        help = "no action is needed: the next sweep or state vacuum deletes it"
        with self._found.catch("STATE_DAMAGED", "snapshots"):
            for folder, names in (
                ("state", unneeded_state(self._checkpoint, everything, newest)),
                ("changes", unneeded_changes(self._checkpoint, everything, newest)),
            ):
                for name in names:
                    self._found.note(
                        "FILE_LEFT_OVER", f"{folder}/{name}", "no version refers to it", help
                    )


def _against_plan(snapshot: Snapshot, document: PlanDocument) -> Iterator[str]:
    """Yield what a version has otherwise than its plan."""
    if len(snapshot.operators) != document.operators:
        yield f"it has {len(snapshot.operators)} operators, but the plan has {document.operators}"
    if {view.name for view in document.views} != set(snapshot.views):
        yield "its views are not those of the plan"


def _against_previous(after: Snapshot, previous: Snapshot) -> Iterator[str]:
    """Yield why a version cannot follow the previous one."""
    same_plan = (previous.plan, previous.begun) == (after.plan, after.begun)
    if after.begun != after.version and not same_plan:
        yield f"it is of plan {after.plan[:12]}, the version before of {previous.plan[:12]}"
    if after.positions.streams.batch < previous.positions.streams.batch:
        yield "its streams are behind those of the previous one"
    for table, position in previous.positions.files.items():
        now = after.positions.files.get(table)
        if now is not None and now.count < position.count:
            yield f"it has read fewer files of the table {table} than the previous one"
    low, high = previous.watermark, after.watermark
    if low is not None and high is not None and high < low:
        yield "its watermark is lower than the previous one"


def _rank(finding: Finding) -> tuple[bool, str, str]:
    return finding.level != "error", finding.path, finding.code


Int64s = npt.NDArray[np.int64]


def check_operator(
    storage: Storage,
    state: OperatorState,
    shape: OperatorColumns | None,
    path: str,
    findings: FindingCollector,
) -> int:
    """Compare the trees of an operator. Return the number of pending groups.

    Args:
        storage: where the runs are. Each of them is undamaged.
        state: the runs.
        shape: the description of the accumulators, None if it is unknown.
        path: of the snapshot.
        findings: takes the findings.
    """
    for number, place in _tree_counters(shape):
        _check_entries(storage, state, place, number, path, findings)
    ends = (require(n.tree) for n in (() if shape is None else shape.numbers) if n.kind == MET)
    for tree in ends:
        if state[entries_tree(tree)]:
            message = f"tree {tree} has entries, but only its extremes should be stored"
            findings.fault("COUNTS_DIFFER", path, message)
    return _count_waiting(storage, state)


def _count_waiting(storage: Storage, state: OperatorState) -> int:
    """Return the number of pending groups.

    They may be missing in the group tree: a group that was inserted and deleted waits for an empty
    emission.
    """
    if not state[PENDING]:
        return 0
    return sum(part.num_rows for part in tree_of(storage, state[PENDING]).scan(columns=[]))


def _tree_counters(
    shape: OperatorColumns | None,
) -> list[tuple[tuple[int, NumberColumns], tuple[int, int]]]:
    """Return the counters of entries with the position of their digits, and the runs of each."""
    counters: list[tuple[tuple[int, NumberColumns], tuple[int, int]]] = []
    if shape is None:
        return counters
    start = COUNT_DIGITS
    for number in shape.numbers:
        if number.kind in ("live", "entries") and number.tree is not None:
            counters.append(((start, number), shape.runs_of(number.tree)))
        start += number.digits
    return counters


def _check_entries(
    storage: Storage,
    state: OperatorState,
    place: tuple[int, int],
    counter: tuple[int, NumberColumns],
    path: str,
    findings: FindingCollector,
) -> None:
    """Check that every group has as many entries in a tree as its counter says.

    `place` is the tree whose runs have the entries, and the ordinal of their column of weights.
    """
    (tree, column), (start, number) = place, counter
    counted = [_label([], [], [])]
    for part in tree_of(storage, state[GROUP]).scan() if state[GROUP] else ():
        low, high = unpack_digits(part, start + COUNT_DIGITS)[start:]
        totals = low + (high << DIGIT_BITS)
        some = totals != 0
        hashes, collision_ids = (part.column(n).to_numpy()[some] for n in ("hash", "chain"))
        counted.append(_label(hashes, collision_ids, totals[some]))
    labels = [_label([], [], [])]
    runs = state[entries_tree(tree)]
    if runs:
        layout = TreeLayout.of_run(open_run(storage, runs[0]).schema)
        for part in OrderedTree(storage, runs, layout).scan():
            weights = part.column(layout.weights[column]).to_numpy()
            keep = weights > 0 if number.kind == "live" else weights != 0
            hashes, collision_ids = (part.column(n).to_numpy()[keep] for n in ("hash", "chain"))
            labels.append(_label(hashes, collision_ids, -np.ones(len(hashes), np.int64)))
    both = pa.concat_tables([*counted, *labels])
    sums = both.group_by(["hash", "chain"]).aggregate([("count", "sum")])
    wrong = int(np.count_nonzero(sums.column("count_sum").to_numpy()))
    if wrong:
        message = f"{wrong} groups have a number of {number.what} that differs from their counter"
        findings.fault("COUNTS_DIFFER", path, message)


def _label(hashes: object, collision_ids: object, counts: object) -> pa.Table:
    columns = [
        pa.array(hashes, pa.uint64()),
        pa.array(collision_ids, pa.uint16()),
        pa.array(counts, pa.int64()),
    ]
    return pa.table(columns, ["hash", "chain", "count"])


def check_levels(
    snapshot: Snapshot, levels: dict[str, int], path: str, findings: FindingCollector
) -> None:
    """Compare the counters of a version that are totals with its state."""
    for name, level in levels.items():
        counter = snapshot.counters.get(name, level)
        if counter != level:
            message = f"its counter {name} is {counter}, but its state has {level}"
            findings.fault("COUNTS_DIFFER", path, message)


FIRST_COLUMNS: dict[TreeForm, tuple[str, str]] = {
    "groups": ("hash", "dead"),
    "entries": ("hash", "chain"),
    "rows": ("hash", "weight"),
}
"""First columns of a run, by the content of its tree."""


def check_run(
    storage: FolderFiles, file: RunFile, path: str, findings: FindingCollector, form: TreeForm
) -> int:
    """Check a run whose checksum is right. Return its number of rows."""
    reader, _ = open_pages(storage.map(file.name))
    with reader:
        schema = reader.schema
        expected_names = FIRST_COLUMNS[form]
        if tuple(schema.names[:2]) != expected_names:
            message = (
                f"it has the columns {', '.join(schema.names[:4])}, ..., but should have "
                f"{', '.join(expected_names)}, ..."
            )
            findings.fault("RUN_DAMAGED", path, message)
            return 0
        pages = [reader.get_batch(i) for i in range(reader.num_record_batches)]
    rows: int = sum(page.num_rows for page in pages)
    if rows != file.rows:
        message = f"it has {rows} rows, but its snapshot states {file.rows}"
        findings.fault("RUN_METADATA_WRONG", path, message)
    if not all(page.num_rows for page in pages):
        findings.fault("RUN_DAMAGED", path, "it has a page without rows, and so without fences")
        return rows
    for page in pages:
        page.validate(full=True)
    _CHECKS[form](pages, path, findings)
    return rows


def _join(pages: list[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield each page with the last row of the preceding page."""
    for i, page in enumerate(pages):
        last = [pages[i - 1].slice(pages[i - 1].num_rows - 1)] if i else []
        yield pa.Table.from_batches([*last, page]).combine_chunks()


def _check_groups(pages: list[pa.RecordBatch], path: str, findings: FindingCollector) -> None:
    for rows in _join(pages):
        hashes = rows.column("hash").to_numpy()
        if (hashes[1:] < hashes[:-1]).any():
            findings.fault("RUN_ORDER_WRONG", path, "its rows are not in the order of their hashes")
            return
        if rows.column("dead").null_count:
            findings.fault("RUN_DAMAGED", path, "rows do not state whether their key has a row")
        keys = [rows.column(name).combine_chunks() for name in key_columns(rows.schema)]
        _, first = group_rows(hashes, keys)
        if not first.all():
            findings.fault("KEY_REPEATED", path, f"{int((~first).sum())} keys occur twice")


def _check_entry_order(pages: list[pa.RecordBatch], path: str, findings: FindingCollector) -> None:
    layout = TreeLayout.of_run(pages[0].schema)
    for rows in _join(pages):
        entries = Entries.from_table(rows, layout)
        same, later = _compare_neighbours(entries)
        if not later.all():
            message = "its entries are not in the order of group and key, or one occurs twice"
            findings.fault("RUN_ORDER_WRONG", path, message)
            return
        cum = rows.column("cum").to_numpy()
        with np.errstate(over="ignore"):
            steps = cum[1:] - cum[:-1]
        wrong = same & (steps != entries.weights[1:])
        if wrong.any():
            message = f"the running sum of weights is wrong in {int(wrong.sum())} places"
            findings.fault("RUNNING_SUM_WRONG", path, message)
            return


def _check_rows(pages: list[pa.RecordBatch], path: str, findings: FindingCollector) -> None:
    for rows in _join(pages):
        hashes, weights = rows.column("hash").to_numpy(), rows.column("weight")
        if (hashes[1:] < hashes[:-1]).any():
            findings.fault("RUN_ORDER_WRONG", path, "its rows are not in order of their hash")
            return
        if weights.null_count or not weights.to_numpy().all():
            findings.fault("RUN_DAMAGED", path, "rows of it have no weight")
        columns = [column.combine_chunks() for column in rows.columns[2:]]
        _, first = group_rows(row_hashes(columns, hashes), columns)
        if not first.all():
            findings.fault("KEY_REPEATED", path, f"{int((~first).sum())} rows are in it twice")


_CHECKS: dict[TreeForm, Callable[[list[pa.RecordBatch], str, FindingCollector], None]] = {
    "groups": _check_groups,
    "entries": _check_entry_order,
    "rows": _check_rows,
}
"""The check of the rows of a run, by the content of its tree."""


def _compare_neighbours(entries: Entries) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Compare each row except the first with the preceding row.

    Returns:
        Whether it belongs to the same group, and whether it sorts after the preceding row.
    """
    hashes, collision_ids = entries.hashes, entries.collision_ids
    same = (hashes[1:] == hashes[:-1]) & (collision_ids[1:] == collision_ids[:-1])
    behind = (hashes[1:] > hashes[:-1]) | (
        (hashes[1:] == hashes[:-1]) & (collision_ids[1:] > collision_ids[:-1])
    )
    at = np.flatnonzero(same)
    keys: EncodedKeys = entries.keys
    behind[at] = before(keys, at, keys, at + 1)
    return same, behind


def check_ranges(runs: tuple[RunFile, ...], path: str, findings: FindingCollector) -> None:
    """Check that the live hashes of runs are ranges, and that no run is live twice for one hash."""
    pieces: dict[str, list[RunFile]] = {}
    for run in runs:
        if not 0 <= run.low <= run.high <= HASH_MAX or run.span < 1 or run.rows < 1:
            message = f"{run.name} is live from hash {run.low} to {run.high} with {run.rows} rows over {run.span} hashes"
            findings.fault("RUN_METADATA_WRONG", path, message)
        pieces.setdefault(run.name, []).append(run)
    for name, parts in pieces.items():
        ordered = sorted(parts, key=attrgetter("low"))
        contents = {(part.rows, part.bytes, part.crc) for part in parts}
        if len(contents) > 1:
            findings.fault("RUN_METADATA_WRONG", path, f"{name} is listed with different sizes")
        if any(b.low <= a.high for a, b in pairwise(ordered)):
            findings.fault("RANGES_OVERLAP", path, f"{name} is live twice for the same hashes")
