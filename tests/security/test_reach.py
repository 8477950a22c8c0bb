"""Plans cannot access files or addresses: no file is opened and no connection is made for a path in a plan."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import substrait_agg as sa
from substrait_agg.errors import PlanRefused

ROOT = Path(__file__).parents[2]
BAIT = "/bait/of/a/plan"

WATCHED = """
import sys
import substrait_agg
from substrait_agg.report import explained  # what it needs is loaded before anybody watches
plan, bait = open(sys.argv[1]).read(), sys.argv[2]
substrait_agg.validate(open(sys.argv[3]).read())
seen = []
OUTWARD = ("socket.connect", "socket.getaddrinfo", "subprocess.Popen", "os.system", "os.exec", "urllib.Request", "pickle.find_class")
def watch(event, arguments):
    if event in OUTWARD or (event in ("open", "os.listdir", "os.scandir") and bait in str(arguments[0])):
        seen.append((event, str(arguments[:1])))
sys.addaudithook(watch)
report = substrait_agg.validate(plan)
try:
    substrait_agg.explain(plan)
except substrait_agg.PlanRefused:
    pass
print(seen)
"""


def plan(
    read: dict[str, Any], uri: str = "https://example.invalid/functions_arithmetic.yaml"
) -> str:
    """A plan that counts the rows of a read."""
    schema = {
        "names": ["a"],
        "struct": {"types": [{"i64": {}}], "nullability": "NULLABILITY_REQUIRED"},
    }
    count = {
        "functionReference": 1,
        "outputType": {"i64": {"nullability": "NULLABILITY_REQUIRED"}},
        "phase": "AGGREGATION_PHASE_INITIAL_TO_RESULT",
        "arguments": [],
    }
    aggregate = {
        "input": {"read": {"baseSchema": schema, **read}},
        "measures": [{"measure": count}],
    }
    return json.dumps(
        {
            "extensionUris": [{"extensionUriAnchor": 1, "uri": uri}],
            "extensions": [
                {"extensionFunction": {"extensionUriReference": 1, "functionAnchor": 1, "name": "count:"}}
            ],
            "relations": [{"root": {"input": {"aggregate": aggregate}, "names": ["n"]}}],
        }
    )  # fmt: skip


PLANS = {
    "local files": plan(
        {"localFiles": {"items": [{"uriFile": f"file://{BAIT}/x.parquet", "parquet": {}}]}}
    ),
    "a folder": plan({"localFiles": {"items": [{"uriFolder": BAIT, "parquet": {}}]}}),
    "a glob": plan({"localFiles": {"items": [{"uriPathGlob": f"{BAIT}/*", "orc": {}}]}}),
    "iceberg": plan({"icebergTable": {"direct": {"metadataUri": f"file://{BAIT}/metadata.json"}}}),
    "an extension table": plan(
        {"extensionTable": {"detail": {"@type": "type.googleapis.com/google.protobuf.Empty"}}}
    ),
    "a file as URI": plan({"namedTable": {"names": ["t"]}}, uri=f"file://{BAIT}/functions.yaml"),
    "a path as URI": plan({"namedTable": {"names": ["t"]}}, uri=f"../..{BAIT}/functions_arithmetic.yaml"),
    "an address as URI": plan({"namedTable": {"names": ["t"]}}, uri="http://127.0.0.1:9/f.yaml"),
    "a path as table": plan({"namedTable": {"names": [f"{BAIT}/t.parquet"]}}),
    "a query as table": plan({"namedTable": {"names": [f"parquet.`{BAIT}`"]}}),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANS)
def test_checking_a_plan_opens_nothing_and_calls_nobody(name: str, tmp_path: Path) -> None:
    """Audit events show that checking a plan opens no file, process or connection that the plan
    names.
    """
    given, harmless = tmp_path / "plan.json", tmp_path / "harmless.json"
    given.write_text(PLANS[name])
    harmless.write_text(plan({"namedTable": {"names": ["t"]}}))
    command = [sys.executable, "-c", WATCHED, str(given), BAIT, str(harmless)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", ["iceberg", "an extension table"])
def test_reads_that_name_their_own_data_are_refused(name: str) -> None:
    """A plan contains only names of tables; the user who runs the plan defines their locations."""
    with pytest.raises(PlanRefused):
        sa.explain(PLANS[name])


@pytest.mark.parametrize(
    "name", ["local files", "a folder", "a glob", "a path as table", "a query as table"]
)
def test_the_name_of_a_table_is_only_a_name(name: str, tmp_path: Path) -> None:
    """A table without a source of the user is not read, regardless of the meaning of its name in Spark."""
    from substrait_agg.errors import InputRefused

    with pytest.raises(InputRefused) as refused:
        sa.run(PLANS[name], {}, checkpoint=tmp_path / "checkpoint")
    assert refused.value.code == "SOURCE_MISSING"
    assert not (tmp_path / "checkpoint").exists()


def test_nothing_in_the_package_makes_code_of_data() -> None:
    """No pickle, marshal, shelve, eval or exec; YAML (of the package's own files) with the safe loader."""
    words = ("import pickle", "import marshal", "import shelve", "import dill", "cloudpickle", "eval(", "exec(", "yaml.Loader",
             "yaml.unsafe", "allow_pickle", "__import__(", "register_extension_type", "PyExtensionType")  # fmt: skip
    for folder in ("substrait_agg", "cli"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text()
            assert not [w for w in words if w in text.replace("pc.exec(", "")], path
