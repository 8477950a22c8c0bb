"""Views that other programs read in parts and without copying: the same rows as the table of the version."""

from __future__ import annotations

import pickle
import shutil
from collections import Counter
from itertools import pairwise
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import substrait_agg as sa
from substrait_agg.commit.view import scan as scans
from substrait_agg.commit.view.view import open_view
from substrait_agg.state.run import HASH_MAX
from tests.checkpoint.local_checkpoint import filled
from tests.checkpoint.stored import GOALS, SETTINGS, unpacked
from tests.e2e.rows import Bag, bag


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of 24 versions, of which 15 keep their state, with every measure."""
    return filled(tmp_path_factory.mktemp("whole") / "ckpt", 24).folder


def bag_of(batches: list[pa.RecordBatch], schema: pa.Schema) -> Bag:
    """The rows of batches, all of one schema."""
    assert all(batch.schema == schema for batch in batches)
    return bag(pa.Table.from_batches(batches, schema))


@pytest.mark.parametrize("parts", [None, 1, 3, 64])
def test_the_parts_of_a_version_add_up_to_its_rows(whole: Path, parts: int | None) -> None:
    view = open_view(str(whole))
    for version in (11, 15, 24):
        scan = view.scan(version)
        pieces = [pickle.loads(pickle.dumps(part)) for part in scan.split(parts)]
        assert (pieces[0].low, pieces[-1].high) == (0, HASH_MAX)
        assert all(a.high + 1 == b.low for a, b in pairwise(pieces))
        read = [batch for part in pieces for batch in part.batches()]
        assert bag_of(read, scan.schema) == bag(view.to_arrow(version)), version


@pytest.mark.parametrize("name", [*SETTINGS, GOALS])
def test_every_kind_of_operator_is_scanned(name: str, tmp_path: Path) -> None:
    """Scans return closed groups, repeated rows, sessions and ranks."""
    view = open_view(str(unpacked(name, tmp_path)))
    for version in view.versions()[1:]:
        scan = view.scan(version)
        rows = [batch for part in scan.split(4) for batch in part.batches()]
        assert bag_of(rows, scan.schema) == bag(view.to_arrow(version)), version


@pytest.mark.parametrize(
    ("cores", "least", "most", "parts"),
    [(4, 1.0, 9.0, 1), (4, 0.2, 9.0, 4), (2, 0.2, 9.0, 2), (16, 0.2, 9.0, 8), (2, 0.01, 0.1, 16)],
)
def test_a_scan_has_parts_for_its_rows_and_the_cores(
    whole: Path, cores: int, least: float, most: float, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The least and most rows of a part are given as shares of all rows."""
    scan = open_view(str(whole)).scan()
    monkeypatch.setattr(scans, "PART_ROWS", max(1, round(scan.rows * least)))
    monkeypatch.setattr(scans, "LARGE_PART_ROWS", max(1, round(scan.rows * most)))
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    assert len(scan.split()) == parts


def test_columns_are_chosen_by_name(whole: Path) -> None:
    view = open_view(str(whole))
    last, first = view.names[-1], view.names[0]
    reader = view.to_reader(columns=[last, first])
    assert reader.schema.names == [last, first]
    assert bag(reader.read_all()) == bag(view.to_arrow().select([last, first]))
    with pytest.raises(sa.UsageError, match=r"OPTION_INVALID.*no column 'absent'"):
        view.to_reader(columns=["absent"])


def test_a_scan_without_columns_has_the_number_of_rows(whole: Path) -> None:
    view = open_view(str(whole))
    reader = view.to_reader(columns=[])
    assert reader.schema.names == []
    assert sum(batch.num_rows for batch in reader) == view.to_arrow().num_rows > 0


def test_expired_and_unknown_versions_are_refused(whole: Path, tmp_path: Path) -> None:
    view = open_view(str(whole))
    for read in (view.to_reader, view.to_dataset, view.scan):
        with pytest.raises(sa.StateRefused, match="VERSION_EXPIRED"):
            read(0)
        with pytest.raises(sa.StateRefused, match="VERSION_UNKNOWN"):
            read(99)
    copy = Path(shutil.copytree(whole, tmp_path / "ckpt"))
    reader = open_view(str(copy)).to_reader(11)
    sa.open_state(str(copy)).vacuum(keep=1)
    with pytest.raises(sa.StateRefused, match="VERSION_EXPIRED"):
        reader.read_all()


def test_an_empty_view_has_its_columns(tmp_path: Path) -> None:
    view = open_view(str(filled(tmp_path / "ckpt", 1).folder))
    assert view.scan(0).rows == 0
    assert view.to_reader(0).read_all() == view.to_arrow(0)
    assert view.to_dataset(0).count_rows() == 0


def test_duckdb_and_polars_scan_a_view(tmp_path: Path) -> None:
    view = open_view(str(unpacked(GOALS, tmp_path)))
    rows = view.to_arrow()
    wanted = Counter(zip(*(rows.column(n).to_pylist() for n in ("team", "s")), strict=True))
    dataset = view.to_dataset()
    assert isinstance(dataset, ds.Dataset)
    query = "SELECT team, s FROM {} WHERE s > 2"
    kept = Counter({key: n for key, n in wanted.items() if key[1] is not None and key[1] > 2})
    assert kept
    connection = duckdb.connect()
    connection.register("goals", dataset)
    assert Counter(connection.sql(query.format("goals")).fetchall()) == kept
    assert Counter(duckdb.sql(query.format("view")).fetchall()) == kept  # the object itself
    scanned = pl.scan_pyarrow_dataset(dataset).filter(pl.col("s") > 2)
    assert Counter(scanned.select("team", "s").collect().rows()) == kept
    frame = pl.DataFrame(view)
    assert Counter(frame.filter(pl.col("s") > 2).select("team", "s").rows()) == kept
    assert pa.table(view).num_rows == rows.num_rows
