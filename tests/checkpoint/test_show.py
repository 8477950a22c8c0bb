"""Listing and showing: the shown state of groups equals the input exactly."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

import substrait_agg as sa
from substrait_agg.errors import StateRefused, UsageError
from substrait_agg.operator.common.emission import NONE
from substrait_agg.tools.showing import key_values, match_rows
from tests.checkpoint.local_checkpoint import Made, filled
from tests.operator.measures_build import gone, measure, row


def test_the_list_names_every_version_and_tree(tmp_path: Path) -> None:
    """Input rows, bytes, kept state, and the content of trees."""
    found = sa.open_state(filled(tmp_path / "ckpt", 13).folder).ls(limit=4)
    assert [v.version for v in found.versions] == [10, 11, 12, 13]
    assert found.total == 14
    assert found.state_from == 1
    assert not found.in_use
    assert all(v.kept and v.rows_in and v.bytes for v in found.versions)
    assert [t.tree for t in found.trees] == ["group", "tree0", "tree1", "tree2", "tree3"]
    assert all(t.rows and t.files and t.ranges and t.runs for t in found.trees)
    assert json.dumps(found.to_json())


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of 21 versions, of which 11 keep their state."""
    return filled(tmp_path_factory.mktemp("old") / "ckpt", 21).folder


def test_old_state_is_listed_as_gone(old: Path) -> None:
    """Versions without state are still listed with their changes."""
    found = sa.open_state(old).ls(limit=None)
    kept = {v.version for v in found.versions if v.kept}
    assert kept == set(range(11, 22))
    assert found.files["changes"] >= 21
    assert {v.version for v in found.versions if v.written} >= set(range(1, 22))


def test_totals_are_exact(tmp_path: Path) -> None:
    """Totals of integers, decimals and floats are exact, also if the value is rounded; NaN and infinities are shown."""
    made = Made(
        tmp_path / "ckpt",
        (measure("sum", "long"), measure("avg", "cents"), measure("sum", "double")),
    )
    cent = Decimal("0.01")
    made.batch(
        [
            row(k0=1, long=2**62, cents=cent, double=1e17),
            row(k0=1, long=2**62, cents=cent, double=0.1),
            row(k0=1, long=2**62, cents=cent, double=-1e17),
            row(k0=2, double=float("nan")),
            row(k0=2, double=1.5),
            row(k0=3, double=5e-324),
        ]
    )
    groups = sa.open_state(made.folder).show("group")["group"].to_pylist()
    by_key = {group["#0"]: group for group in groups}
    one, two, three = by_key[1], by_key[2], by_key[3]
    assert one["weight"] == 3
    totals = {name: value for name, value in one.items() if name.startswith("sum of")}
    assert str(3 * 2**62) in totals.values()
    assert "0.03" in totals.values()
    assert str(Decimal(0.1)) in totals.values()  # noqa: RUF032 - what a float holds exactly
    assert "NaN" in {value for name, value in two.items() if name.startswith("sum of")}
    assert "~5e-324" in {value for name, value in three.items() if name.startswith("sum of")}


def test_a_group_is_found_by_its_key(tmp_path: Path) -> None:
    """A key selects the rows of its group in every tree, also at an older version."""
    made = Made(tmp_path / "ckpt")
    first = row(k0=7, long=5, text="a")
    made.batch([first, row(k0=8, long=1)])
    made.batch([*gone(first), row(k0=7, long=6, text="b"), row(k0=7, long=9, text="b")])
    state = sa.open_state(made.folder)
    found = state.show(key={"#0": 7})
    assert found["group"].num_rows == 1
    assert found["group"].column("weight").to_pylist() == [2]
    assert found["tree0"].to_pylist() == [
        {"#0": 7, "#3": 6, "weight": 1},
        {"#0": 7, "#3": 9, "weight": 1},
    ]
    before = state.show(key=[7], version=1)
    assert before["tree0"].to_pylist() == [{"#0": 7, "#3": 5, "weight": 1}]
    assert state.show(key=7)["group"] == found["group"]
    assert state.show(key=99)["group"].num_rows == 0


def test_a_group_that_waits_says_so(tmp_path: Path) -> None:
    """A pending group shows its rows since the last emission and the row last emitted."""
    made = Made(tmp_path / "ckpt")
    made.batch([row(k0=1, long=1)])
    made.batch([row(k0=1, long=2), row(k0=1, long=3)], emission=NONE)
    found = sa.open_state(made.folder).show(key=1)
    (group,) = found["group"].to_pylist()
    assert group["waiting rows"] == 2
    assert group["weight"] == 3
    assert group["count(*)"] == 1
    assert found["pending"].column("waiting rows").to_pylist() == [2]


def test_entries_come_with_their_groups(tmp_path: Path) -> None:
    """Entries are shown with the keys of their groups, also if groups share a hash."""
    made = filled(tmp_path / "ckpt", 3)
    whole = sa.open_state(made.folder).show("tree0", limit=None)["tree0"]
    assert whole.num_rows > 20
    weights = dict.fromkeys(whole.column("#0").to_pylist(), 0)
    for entry in whole.to_pylist():
        weights[entry["#0"]] += entry["weight"]
    groups = sa.open_state(made.folder).show("group", limit=None)["group"].to_pylist()
    assert weights == {g["#0"]: int(g["count of #3"]) for g in groups if int(g["count of #3"])}
    assert sa.open_state(made.folder).show("tree0", limit=2)["tree0"].num_rows == 2


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"tree": "tree9"}, "TREE_UNKNOWN"),
        ({"operator": 3}, "OPERATOR_UNKNOWN"),
        ({"key": {"other": 1}}, "KEY_INVALID"),
        ({"key": [1, 2]}, "KEY_INVALID"),
        ({"key": "x"}, "KEY_INVALID"),
        ({"version": 99}, "VERSION_UNKNOWN"),
        ({"version": 2}, "VERSION_EXPIRED"),
    ],
)
def test_what_is_not_there_is_refused(old: Path, options: dict[str, object], code: str) -> None:
    """Unknown trees, operators and keys are refused by name."""
    state = sa.open_state(old)
    with pytest.raises((UsageError, StateRefused)) as refused:
        state.show(**options)  # type: ignore[arg-type]
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("type_", "value", "stored"),
    [
        (pa.int64(), 7, 7),
        (pa.string(), "a", "a"),
        (pa.bool_(), True, True),
        (pa.decimal128(10, 2), "1.50", Decimal("1.50")),
        (pa.float64(), "NaN", float("nan")),
        (pa.date32(), "2026-01-31", dt.date(2026, 1, 31)),
        (pa.timestamp("us"), "2026-01-31T01:02:03.5", dt.datetime(2026, 1, 31, 1, 2, 3, 500000)),
        (pa.timestamp("us", "UTC"), "2026-01-31T00:00:00Z", dt.datetime(2026, 1, 31, tzinfo=dt.UTC)),
        (pa.binary(), "YWI=", b"ab"),
        (pa.list_(pa.int64()), [1, 2], [1, 2]),
        (pa.struct([("a", pa.date32())]), {"a": "2026-01-31"}, {"a": dt.date(2026, 1, 31)}),
        (pa.string(), None, None),
    ],
)  # fmt: skip
def test_keys_are_written_as_outputs_write_them(
    type_: pa.DataType, value: object, stored: object
) -> None:
    """Keys of every type, including null, are written as in JSON outputs."""
    column = pa.array([stored, None, stored], type_)
    wanted = key_values({"k": value}, ["k"], [type_])
    assert match_rows([column], wanted, 3).tolist() == [True, value is None, True]


def test_a_negative_limit_is_refused(tmp_path: Path) -> None:
    state = sa.open_state(filled(tmp_path / "ckpt", 1).folder)
    assert state.show(limit=0)["group"].num_rows == 0
    for call in (partial(state.ls, -1), partial(state.ls, 0), partial(state.show, limit=-1)):
        with pytest.raises(UsageError) as refused:
            call()
        assert (refused.value.code, refused.value.path) == ("OPTION_INVALID", "limit")
