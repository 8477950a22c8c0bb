"""Outputs that write Delta tables: what only they have."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from substrait_agg.changes.outputs.outputs import check_outputs
from substrait_agg.errors import UsageError
from tests.changes.lakes import ENDS, SCHEMA, ChangingView, DeltaLake, begin, deliver


def test_what_is_in_the_place_of_the_table(tmp_path: Path) -> None:
    """An empty table may have settings of its own; other files are refused."""
    view, lake = ChangingView(random.Random(5)), DeltaLake(tmp_path, "view")
    view.states = [Counter({(1, "a"): 1})]
    write_deltalake(
        lake.path, SCHEMA.empty_table(), configuration={"delta.enableChangeDataFeed": "true"}
    )
    deliver(lake, view)
    assert lake.rows() == view.states[0]
    (tmp_path / "file").write_text("x")
    for place, code in (("file", "OUTPUT_NOT_A_FOLDER"), (".", "OUTPUT_EXISTS")):
        with pytest.raises(UsageError) as refused:
            check_outputs([f"delta={tmp_path / place}"], tmp_path.parent / "another")
        assert refused.value.code == code


def test_types_that_delta_does_not_have_are_refused(tmp_path: Path) -> None:
    sink = begin(DeltaLake(tmp_path)).cursors[0].sink
    for type_ in (pa.time64("ns"), pa.duration("us"), pa.list_(pa.timestamp("ns"))):
        schema = pa.schema([("x", type_), *ENDS])
        with pytest.raises(UsageError) as refused:
            sink.deliver(schema.empty_table(), 0)
        assert refused.value.code == "OUTPUT_TYPE_REFUSED"
