"""Plans as real producers write them pass: no error, and warnings only for what truly deviates from the specification."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from datafusion import SessionContext
from datafusion.substrait import Serde

from substrait_agg import validate
from tests.e2e import queries
from tests.planted.mistake import PRODUCERS
from tests.planted.plans import base_plans

PLANS = Path(__file__).parents[2] / "plans"
SAMPLES = sorted(
    p for folder in ("bench", "samples", "tpch") for p in (PLANS / folder).rglob("*.bin")
)

DATAFUSION: dict[str, str] = {
    "FUNCTION_NAME_BARE": "it declares functions by their names, without an extension and a signature",
    "PHASE_UNSPECIFIED": "it does not set the phase",
    "OUTPUT_TYPE_MISSING": "it does not write the output types of measures",
    "RESULT_TYPE_MISSING": "it does not write the output types of all scalar functions",
    "GROUPING_LAYOUT": "it refers to the columns of an aggregate with grouping sets in a layout of its own",
    "FUNCTION_MEANING": "some of its functions mean something else than the standard's of that name",
    "CASE_IN_FIRST_CLAUSE": "it writes the operand of a CASE as a first clause without a value",
}
DEVIATIONS: dict[str, dict[str, str]] = {
    "DataFusion": DATAFUSION,
    "substrait-python": {
        "PHASE_UNSPECIFIED": "it does not set the phase",
        "GROUPING_INDEX_NOT_NAMED": "it does not name the index of the grouping set at the root",
    },
    "ibis": {
        "SIGNATURE_DIFFERS": "it declares one signature per function name and calls it with other types",
    },
    "Isthmus": {},
}
"""Producer -> code of a warning in lenient mode -> what of its plans deviates from the specification."""

FOLDERS: dict[str, str] = {
    "bench": "DataFusion", "samples/datafusion": "DataFusion", "samples/datafusion-45.2.0": "DataFusion",
    "samples/ibis-substrait": "ibis", "samples/ibm-compliance-tpch": "Isthmus",
    "samples/substrait-python": "substrait-python", "tpch": "DataFusion", "tpch/datafusion-45": "DataFusion",
    "tpch/isthmus": "Isthmus", "tpch/substrait-python": "substrait-python",
}  # fmt: skip
"""Folder of samples -> who wrote them."""

WRITTEN: dict[str, set[str]] = {
    "select sum(m) filter (where x<>x), count(*) filter (where null) from t": {"MEASURE_FILTER_CONSTANT"},
}  # fmt: skip
"""Queries that deserve a warning of their own."""


def _sqls() -> list[str]:
    lists = (f"select {' '.join(e.split())} from t" for e in (*queries.EXACT, *queries.CLOSE))
    return [*lists, *queries.AGGREGATES, *queries.AVERAGES, *queries.EVERY_MEASURE]


def _codes(content: bytes, level: str) -> set[str]:
    return {p.code for p in validate(content).problems if p.level == level}


@pytest.fixture(scope="module")
def queried() -> dict[str, bytes]:
    """SQL -> DataFusion's plan, for every query of the end-to-end tests that can be run."""
    context = SessionContext()
    empty = pa.RecordBatch.from_pylist([], schema=queries.SCHEMA)
    context.register_record_batches("t", [[empty]])
    return {sql: bytes(Serde.serialize_bytes(sql, context)) for sql in _sqls()}


@pytest.fixture(scope="module")
def made(queried: dict[str, bytes]) -> dict[str, list[tuple[str, bytes]]]:
    """Producer -> name and content of its plans: samples, those that mistakes are planted in, and queries."""
    found: dict[str, list[tuple[str, bytes]]] = {producer: [] for producer in DEVIATIONS}
    for path in SAMPLES:
        name = path.relative_to(PLANS).as_posix()
        found[FOLDERS[name.rpartition("/")[0]]].append((name, path.read_bytes()))
    for producer in PRODUCERS:
        found[producer].extend(base_plans()[producer].items())
    found["DataFusion"].extend(queried.items())
    return found


@pytest.mark.parametrize("producer", DEVIATIONS)
def test_untouched_plans_have_no_errors(
    producer: str, made: dict[str, list[tuple[str, bytes]]]
) -> None:
    errors = {name: _codes(content, "error") for name, content in made[producer]}
    assert {name: codes for name, codes in errors.items() if codes} == {}


@pytest.mark.parametrize("producer", DEVIATIONS)
def test_warnings_are_for_true_deviations_only(
    producer: str, made: dict[str, list[tuple[str, bytes]]]
) -> None:
    """Every warning is in the table, and every row of the table occurs."""
    warned: set[str] = set()
    for name, content in made[producer]:
        codes = _codes(content, "warning") - WRITTEN.get(name, set())
        assert codes <= DEVIATIONS[producer].keys(), name
        warned |= codes
    assert warned == DEVIATIONS[producer].keys()
