"""Documents of a checkpoint are sealed, belong to one checkpoint and have a known format. Errors name the differences of another plan."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from substrait_agg.commit.documents.json_codec import build, encode
from substrait_agg.commit.documents.plan_document import OperatorText, PlanDocument, ViewColumn
from substrait_agg.commit.evolution.compatibility import differences
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.log.retention import RetentionState
from substrait_agg.commit.log.settings import CheckpointSettings
from substrait_agg.document_fields import DOCUMENT_KEY, DOCUMENT_VALUES
from substrait_agg.errors import StateRefused
from substrait_agg.explanation.tree import NumberColumns, OperatorColumns, TreeColumns

OPERATOR = OperatorText(("table t",), ("k",), ("sum(x) -> i64?", "count(*) -> i64"), ("1", "2"))
DOCUMENT = PlanDocument(
    "f" * 64, ("append_only",), (ViewColumn("k0", "k"), ViewColumn("v0", "s")), "", (), 1, 1,
    watermarks=("t.at",), forget="keep", upserts=("t by k",), operator_texts=(OPERATOR,),
    state_columns=(OperatorColumns("aggregate", ("k",), ("s",), (NumberColumns("x", "int", 2),), (TreeColumns("x", ("x",)),)),),
)  # fmt: skip


def made(folder: Path) -> Checkpoint:
    """A checkpoint with all of its documents."""
    store = Checkpoint(folder)
    store.create(DOCUMENT)
    store.keep(RetentionState(1, 0, 3))
    store.set(CheckpointSettings(8))
    return store


def asks(store: Checkpoint) -> dict[str, Callable[[], Any]]:
    """The readers of each document."""
    return {
        "plan.json": store.document,
        "kept.json": store.retention_state,
        "settings.json": store.settings,
    }


def test_documents_come_back_as_they_were(tmp_path: Path) -> None:
    """Every field of each document survives, also in another process."""
    made(tmp_path)
    again = Checkpoint(tmp_path)
    assert again.document() == DOCUMENT
    assert again.retention_state() == RetentionState(1, 0, 3)
    assert again.settings() == CheckpointSettings(8)
    again.check(DOCUMENT)


@dataclass(frozen=True)
class Renamed:
    """A document with a field whose name differs from its key."""

    parts: Mapping[str, tuple[int, ...]]
    now: str | None = field(default=None, metadata={DOCUMENT_KEY: "before"})


def test_a_renamed_field_keeps_its_key() -> None:
    """In written and in read documents."""
    body = {"parts": {"a": [1, 2]}, "before": "x"}
    document = Renamed({"a": (1, 2)}, "x")
    assert encode(document) == body
    assert build(Renamed, body) == document
    with pytest.raises(ValueError, match="now"):
        build(Renamed, {"parts": {}, "now": "x"})


@dataclass(frozen=True)
class StoredForm:
    """A document that stores the missing ordinal as -1 and a word in another spelling."""

    tree: int | None = field(metadata={DOCUMENT_VALUES: {None: -1}})
    words: tuple[str, ...] = field(metadata={DOCUMENT_VALUES: {"append_only": "one"}})


def test_a_value_keeps_its_stored_form() -> None:
    """In written and in read documents; the in-memory form is not accepted."""
    body = {"tree": -1, "words": ["one", "any"]}
    document = StoredForm(None, ("append_only", "any"))
    assert encode(document) == body
    assert build(StoredForm, body) == document
    assert build(StoredForm, {**body, "tree": 0}).tree == 0
    for wrong in ({"tree": None}, {"words": ["append_only"]}):
        with pytest.raises(ValueError, match="stored form"):
            build(StoredForm, {**body, **wrong})
    for mistyped in ({"tree": "0"}, {"words": "one"}, {"words": [["one"]]}):
        with pytest.raises(TypeError):
            build(StoredForm, {**body, **mistyped})


def test_every_checkpoint_has_an_id_of_its_own(tmp_path: Path) -> None:
    """Also two of the same plan."""
    assert made(tmp_path / "a").identity != made(tmp_path / "b").identity


@pytest.mark.parametrize("name", ["plan.json", "kept.json", "settings.json"])
@pytest.mark.parametrize("format", [0, 99])
def test_a_document_of_another_format_is_refused(tmp_path: Path, name: str, format: int) -> None:
    """An undamaged document of another release is refused with its own code."""
    store = made(tmp_path)
    body = json.loads((tmp_path / name).read_text()) | {"format": format}
    del body["crc"]
    crc = zlib.crc32(json.dumps(body, sort_keys=True, separators=(",", ":")).encode())
    (tmp_path / name).write_text(json.dumps({**body, "crc": crc}))
    with pytest.raises(StateRefused) as refused:
        asks(store)[name]()
    assert refused.value.code == "STATE_FORMAT_UNKNOWN"


@pytest.mark.parametrize("name", ["plan.json", "kept.json", "settings.json"])
def test_any_flipped_byte_of_a_document_is_noticed(tmp_path: Path, name: str) -> None:
    """A changed digit in the retention record would make a sweep delete needed files."""
    made(tmp_path)
    content = (tmp_path / name).read_bytes()
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        (tmp_path / name).write_bytes(bytes(damaged))
        store = Checkpoint(tmp_path)
        asks = {
            "plan.json": store.document,
            "kept.json": store.retention_state,
            "settings.json": store.settings,
        }
        with pytest.raises(StateRefused, match=name):
            asks[name]()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"measures": ("sum(y) -> i64?", "count(*) -> i64"), "fingerprints": ("3", "2")},
         ["measure sum(x) -> i64? is not in the new plan", "measure sum(y) -> i64? is not in the checkpoint"]),
        ({"keys": ("k", "l")}, ["key l is not in the checkpoint"]),
        ({"inputs": ("table u",)}, ["input table t is not in the new plan", "input table u is not in the checkpoint"]),
        ({"measures": ("total(x)", "count(*) -> i64")}, []),
    ],
)  # fmt: skip
def test_what_another_plan_does_differently_is_told(
    change: dict[str, tuple[str, ...]], told: list[str]
) -> None:
    """Differences are reported in the words of explain, and a measure with another wording is the
    same.
    """
    other = replace(DOCUMENT, plan="0" * 64, operator_texts=(replace(OPERATOR, **change),))
    assert differences(DOCUMENT, other) == told


def test_renamed_columns_are_told() -> None:
    """Renamed columns are reported as a difference: the view shows them."""
    other = replace(DOCUMENT, columns=(ViewColumn("k0", "k"), ViewColumn("v0", "total")))
    assert differences(DOCUMENT, other) == ["the columns were k, s and are k, total"]
