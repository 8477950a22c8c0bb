"""Outputs that write Delta tables: each version exactly once, also after a kill or beside another run."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from substrait_agg.changes import Delivery, parse_output
from substrait_agg.changes.outputs.outputs import check_outputs, reached
from substrait_agg.changes.records import Record
from substrait_agg.commit.documents.change_metadata import ChangesOrigin
from substrait_agg.errors import RunFailed, StateRefused, UsageError

Row = tuple[int | None, str | None]
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])
CHANGES = pa.schema([*SCHEMA, ("__version", pa.int64()), ("__weight", pa.int64())])


@dataclass
class ChangingView:
    """A checkpoint whose versions change rows at random.

    Attributes:
        keyed: whether the first column is a key.
        states: rows of each version.
        run: tells the versions of one history from those of another one.
    """

    rng: random.Random
    keyed: bool = True
    states: list[Counter[Row]] = field(default_factory=list)
    run: str = "a"

    def commit(self, *, empty: bool = False) -> None:
        """Commit a version."""
        rows = Counter(self.states[-1]) if self.states else Counter[Row]()
        for _ in range(0 if empty else self.rng.randrange(4)):
            key = self.rng.choice([None, *range(6)])
            if self.keyed:
                rows = Counter({row: n for row, n in rows.items() if row[0] != key})
            if self.rng.random() < 0.7:
                rows[key, self.rng.choice(["a", "it's", None])] += 1
            elif rows:
                rows[self.rng.choice(sorted(rows, key=str))] -= 1
        self.states.append(Counter({row: n for row, n in rows.items() if n > 0}))

    @property
    def version(self) -> int:
        return len(self.states) - 1

    def versions(self) -> list[int]:
        return list(range(len(self.states)))

    def changes(self, since: int | None = None, until: int | None = None) -> Any:
        first = 0 if since is None else since + 1
        parts = [self._changes(v) for v in range(first, (until or 0) + 1)]
        committed = {v: f"{self.run}{v}" for v in self.versions()}
        origin = ChangesOrigin((0,) if self.keyed else None, "plan", committed)
        rows = pa.concat_tables([CHANGES.empty_table(), *parts])
        return rows.replace_schema_metadata(origin.metadata())

    def _changes(self, version: int) -> pa.Table:
        old = self.states[version - 1] if version else Counter[Row]()
        new = self.states[version]
        rows = [(*row, version, -n) for row, n in (old - new).items()]
        rows += [(*row, version, n) for row, n in (new - old).items()]
        return pa.Table.from_pylist(
            [dict(zip(CHANGES.names, r, strict=True)) for r in rows], CHANGES
        )

    def late(self, since: int | None = None, until: int | None = None) -> Any:
        return {}

    def evolutions(self) -> list[Any]:
        return []

    def retractions(self, version: int) -> Any:
        raise NotImplementedError

    def to_arrow(self, version: int | None = None) -> Any:
        raise NotImplementedError


def rows_in(path: Path, version: int | None = None) -> Counter[Row]:
    """Return the rows of a table, or the sum of the changes in it."""
    rows = pa.table(pa.RecordBatchReader.from_stream(DeltaTable(path, version=version).scan()))
    weights = (
        rows.column("__weight").to_pylist() if "__weight" in rows.column_names else [1] * len(rows)
    )
    sums: Counter[Row] = Counter()
    for key, value, weight in zip(
        *(rows.column(n).to_pylist() for n in SCHEMA.names), weights, strict=True
    ):
        sums[key, value] += weight
    return Counter({row: n for row, n in sums.items() if n})


def deliver(folder: Path, view: ChangingView, output: str) -> None:
    """Run once: deliver all versions that the output does not have."""
    delivery = Delivery([output], checkpoint=folder / "checkpoint")
    delivery.deliver(view)
    delivery.close()


@contextmanager
def killed_before_the_record() -> Iterator[None]:
    """Fail where the record of a delivered version would be written."""

    def fail(_self: Record, version: int | None, size: int = 0) -> None:
        raise KeyboardInterrupt

    with patch.object(Record, "write", fail), pytest.raises(KeyboardInterrupt):
        yield


def labels(path: Path) -> list[int]:
    """Return the versions that the transactions of a table name, ascending."""
    entries = DeltaTable(path).history()
    found = [int(e["substrait-agg.version"]) for e in entries if "substrait-agg.version" in e]
    return found[::-1]


@pytest.mark.parametrize("mode", ["changes", "view"])
@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_the_table_has_every_version_once(
    tmp_path: Path, mode: str, *, keyed: bool, seed: int
) -> None:
    """Versions with changes, one transaction each; some runs are killed before they note a version."""
    rng = random.Random(f"{mode} {keyed} {seed}")
    view, table = ChangingView(rng, keyed), tmp_path / "table"
    output = f"delta={table}?mode={mode}"
    for _ in range(25):
        view.commit()
        if rng.random() < 0.3:
            delivery = Delivery([output], checkpoint=tmp_path / "checkpoint")
            with killed_before_the_record():
                delivery.deliver(view)
        if rng.random() < 0.7:
            deliver(tmp_path, view, output)
            assert rows_in(table) == view.states[-1]
    deliver(tmp_path, view, output)
    numbers = labels(table)
    changed = [v for v in view.versions() if not v or view.states[v] != view.states[v - 1]]
    assert numbers == changed
    for transaction, version in enumerate(numbers, 1):  # version 0 of the table has no rows
        assert rows_in(table, transaction) == view.states[version]


def test_versions_without_changes_write_nothing(tmp_path: Path) -> None:
    view = ChangingView(random.Random(1))
    for _ in range(3):
        view.commit(empty=True)
    deliver(tmp_path, view, f"delta={tmp_path / 't'}")
    assert labels(tmp_path / "t") == [0]
    spec = parse_output(f"delta={tmp_path / 't'}")
    assert reached(spec, tmp_path / "checkpoint", lambda target: pytest.fail(str(target)))[1] == 2


@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("mode", ["changes", "view"])
def test_two_writers_of_one_version(
    tmp_path: Path, mode: str, *, keyed: bool, exists: bool
) -> None:
    """One of them writes it, and the other one is told; its next attempt finds the version."""
    view, output = ChangingView(random.Random(3), keyed), f"delta={tmp_path / 't'}?mode={mode}"
    if exists:
        view.commit()
        deliver(tmp_path, view, output)
    view.states.append(Counter({(1, "one"): 1}))
    one, two = (Delivery([output], checkpoint=tmp_path / "checkpoint") for _ in range(2))
    sink = one.cursors[0].sink
    write = sink._write  # type: ignore[attr-defined]

    def write_second(*arguments: Any) -> None:
        two.deliver(view)
        write(*arguments)

    with patch.object(sink, "_write", write_second), pytest.raises(RunFailed) as refused:
        one.deliver(view)
    assert refused.value.code == "OUTPUT_VERSION_CONFLICT"
    one.deliver(view)
    assert labels(tmp_path / "t") == view.versions()
    assert rows_in(tmp_path / "t") == view.states[-1]


@pytest.mark.parametrize("mode", ["changes", "view"])
def test_many_writers_of_the_first_version(tmp_path: Path, mode: str) -> None:
    """The table is created once, and the version is written once."""
    view, output = ChangingView(random.Random(7)), f"delta={tmp_path / 't'}?mode={mode}"
    view.states = [Counter({(1, "a"): 1, (None, "b"): 1})]
    barrier = threading.Barrier(4)

    changes = view.changes(until=0)

    def run(delivery: Delivery) -> None:
        barrier.wait(30)
        with suppress(RunFailed):
            delivery.cursors[0].sink.deliver(changes, 0)

    runs = [Delivery([output], checkpoint=tmp_path / "checkpoint") for _ in range(4)]
    with patch.object(Record, "write"), ThreadPoolExecutor(4) as pool:
        for run_ in [pool.submit(run, delivery) for delivery in runs]:
            run_.result(60)
    deliver(tmp_path, view, output)
    assert labels(tmp_path / "t") == [0]
    assert rows_in(tmp_path / "t") == view.states[0]


def test_a_rolled_back_version_is_not_taken_for_the_new_one(tmp_path: Path) -> None:
    view, output = ChangingView(random.Random(4)), f"delta={tmp_path / 't'}"
    view.states = [Counter({(1, "a"): 1}), Counter({(1, "b"): 1})]
    delivery = Delivery([output], checkpoint=tmp_path / "checkpoint")
    delivery.cursors[0].catch_up(view, stopping=lambda: True)
    with killed_before_the_record():
        delivery.deliver(view)
    view.states[1], view.run = Counter({(1, "c"): 1}), "b"
    with pytest.raises(StateRefused) as refused:
        deliver(tmp_path, view, output)
    assert refused.value.code == "OUTPUT_AHEAD"


def test_rows_of_others_are_kept(tmp_path: Path) -> None:
    """A table with rows of someone else is refused; an empty one may have settings of its own."""
    view, table = ChangingView(random.Random(5)), tmp_path / "t"
    view.states = [Counter({(1, "a"): 1})]
    write_deltalake(
        table, SCHEMA.empty_table(), configuration={"delta.enableChangeDataFeed": "true"}
    )
    deliver(tmp_path, view, f"delta={table}?mode=view")
    assert rows_in(table) == view.states[0]
    with pytest.raises(UsageError) as refused:
        check_outputs([f"delta={table}"], tmp_path / "another")
    assert refused.value.code == "OUTPUT_EXISTS"
    (tmp_path / "file").write_text("x")
    for place, code in (("file", "OUTPUT_NOT_A_FOLDER"), (".", "OUTPUT_EXISTS")):
        with pytest.raises(UsageError) as refused:
            check_outputs([f"delta={tmp_path / place}"], tmp_path.parent / "another")
        assert refused.value.code == code


def test_two_checkpoints_and_views_may_follow_each_other(tmp_path: Path) -> None:
    """The versions of a table belong to one checkpoint and view."""
    view = ChangingView(random.Random(6))
    view.states = [Counter({(1, "a"): 1})]
    deliver(tmp_path, view, f"delta={tmp_path / 't'}")
    with pytest.raises(UsageError) as refused:
        Delivery([f"delta={tmp_path / 't'}"], checkpoint=tmp_path / "checkpoint", view="other")
    assert refused.value.code == "OUTPUT_EXISTS"


def test_types_that_delta_does_not_have_are_refused(tmp_path: Path) -> None:
    sink = Delivery([f"delta={tmp_path / 't'}"], checkpoint=tmp_path / "checkpoint").cursors[0].sink
    for type_ in (pa.time64("ns"), pa.duration("us"), pa.list_(pa.timestamp("ns"))):
        schema = pa.schema([("x", type_), ("__version", pa.int64()), ("__weight", pa.int64())])
        with pytest.raises(UsageError) as refused:
            sink.deliver(schema.empty_table(), 0)
        assert refused.value.code == "OUTPUT_TYPE_REFUSED"


@pytest.mark.parametrize(
    "text", ["delta", "delta=", "delta=-", "delta=t?mode=all", "delta=t?x=geheim"]
)
def test_what_is_no_target_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_output(text)
    assert refused.value.code == "OPTION_INVALID"
    assert "geheim" not in refused.value.message


def test_passwords_are_not_shown() -> None:
    spec = parse_output("totals=delta=s3://key:geheim@bucket/t?mode=view")
    assert spec.view == "totals"
    assert "geheim" not in f"{spec} {spec!r}"
