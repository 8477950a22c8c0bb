"""convert keeps the meaning of a plan, or refuses to write it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from google.protobuf import any_pb2, wrappers_pb2
from substrait import plan_pb2

import substrait_agg as sa
from substrait_agg_cli.main import main

INTEGER = {"i64": {"nullability": "NULLABILITY_NULLABLE"}}
TABLE = {
    "baseSchema": {
        "names": ["a"],
        "struct": {"types": [INTEGER], "nullability": "NULLABILITY_REQUIRED"},
    },
    "namedTable": {"names": ["t"]},
}
COLUMN = {"selection": {"directReference": {"structField": {"field": 0}}, "rootReference": {}}}
HINT = {"@type": "type.googleapis.com/google.protobuf.StringValue", "value": "x"}


def plan(
    declarations: dict[str, Any], function: dict[str, Any], **aggregate: Any
) -> dict[str, Any]:
    """Return a plan with one measure, by the declarations of its extensions and its function."""
    measure = {
        "functionReference": 1,
        "arguments": [{"value": COLUMN}],
        "outputType": INTEGER,
        "phase": "AGGREGATION_PHASE_INITIAL_TO_RESULT",
    }
    relation = {"input": {"read": TABLE}, "measures": [{"measure": measure}], **aggregate}
    return {
        **declarations,
        "extensions": [{"extensionFunction": {"functionAnchor": 1, **function}}],
        "relations": [{"root": {"input": {"aggregate": relation}, "names": ["n"]}}],
    }


def uris(*texts: str) -> dict[str, Any]:
    return {"extensionUris": [{"extensionUriAnchor": i, "uri": t} for i, t in enumerate(texts)]}


def converted(content: Any, folder: Path, name: str) -> Path:
    source, target = folder / "source", folder / name
    source.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    result = CliRunner().invoke(main, ["convert", str(source), str(target)])
    assert (result.exit_code, result.stderr) == (0, "")
    return target


URNS = {
    "extensionUrns": [{"extensionUrnAnchor": 1, "urn": "extension:io.substrait:functions_boolean"}]
}
FOLDER = "https://github.com/substrait-io/substrait/blob/main/extensions/"
FORMS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a folder": (uris(FOLDER), {"name": "sum:i64"}),
    "a folder, by reference": (
        uris("/x.yaml", FOLDER),
        {"name": "sum", "extensionUriReference": 1},
    ),
    "a default reference": (uris("/functions_arithmetic.yaml"), {"name": "sum:i64"}),
    "the suffix yml": (
        uris("/x.yaml", "/functions_arithmetic.yml?v=1"),
        {"name": "sum:i64", "extensionUriReference": 1},
    ),
    "an anchor of a URN": (
        {**URNS, **uris("/x.yaml", "/functions_arithmetic.yaml")},
        {"name": "sum:i64", "extensionUriReference": 1},
    ),
}


@pytest.mark.parametrize("name", ["out.json", "out.bin"])
@pytest.mark.parametrize("form", FORMS)
def test_a_function_keeps_its_extension(form: str, name: str, tmp_path: Path) -> None:
    content = plan(*FORMS[form])
    before = sa.explain(json.dumps(content))
    assert sa.explain(converted(content, tmp_path, name)) == before


def test_keys_that_a_grouping_set_repeats_stay_columns(tmp_path: Path) -> None:
    one = {"literal": {"i32": 1}}
    relation = {"input": {"read": TABLE}, "groupings": [{"groupingExpressions": [one, one]}]}
    root = {"input": {"aggregate": relation}, "names": ["x", "y"]}
    content = {"relations": [{"root": root}], "version": {"minorNumber": 54}}
    again = sa.load(converted(content, tmp_path, "out.bin"))
    assert again.bind().names == sa.load(json.dumps(content)).bind().names == ("x", "y")


def test_several_roots_are_converted(tmp_path: Path) -> None:
    content = plan(uris("/functions_arithmetic.yaml"), {"name": "sum:i64"})
    content["relations"] *= 2
    again = sa.load(converted(content, tmp_path, "out.bin"))
    assert list(again.views()) == ["root1", "root2"]


def test_hints_are_converted_where_their_content_is_known(tmp_path: Path) -> None:
    hint = {"optimization": [HINT]}
    content = plan(uris("/functions_arithmetic.yaml"), {"name": "sum:i64"}, advancedExtension=hint)
    without = converted(content, tmp_path, "out.bin").read_bytes()
    assert b"StringValue" not in without

    message = plan_pb2.Plan.FromString(without)
    aggregate = message.relations[0].root.input.aggregate
    packed = any_pb2.Any()
    packed.Pack(wrappers_pb2.StringValue(value="x"))
    aggregate.advanced_extension.optimization.append(packed)
    assert HINT["@type"] in converted(message.SerializeToString(), tmp_path, "o.json").read_text()

    packed.type_url = "type.googleapis.com/com.example.Hint"
    aggregate.advanced_extension.optimization[0].CopyFrom(packed)
    unknown = message.SerializeToString()
    again = plan_pb2.Plan.FromString(converted(unknown, tmp_path, "out.bin").read_bytes())
    assert again.relations[0].root.input.aggregate.advanced_extension.optimization == [packed]
    assert refusal(unknown, tmp_path).startswith("error[PLAN_NOT_CONVERTED]: JSON cannot express")


def refusal(content: Any, folder: Path) -> str:
    source, target = folder / "source", folder / "refused.json"
    source.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    result = CliRunner().invoke(main, ["convert", str(source), str(target)])
    assert result.exit_code == 2
    assert not target.exists()
    return result.stderr


FETCH = {"relations": [{"root": {"input": {"fetch": {"input": {"read": TABLE}}}, "names": ["a"]}}]}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"count": "abc"}, "count"),
        ({"count": 1, "countExpr": {"literal": {"i64": 2}}}, "mean something else"),
        ({"advancedExtension": {"enhancement": HINT}}, "cannot be read from JSON"),
    ],
)
def test_what_would_be_lost_is_refused(fields: Any, message: str, tmp_path: Path) -> None:
    content = json.loads(json.dumps(FETCH))
    content["relations"][0]["root"]["input"]["fetch"] |= fields
    text = refusal(content, tmp_path)
    assert text.startswith("error[PLAN_NOT_CONVERTED]")
    assert message in text
