"""The place of a path of the plan message in the file: lines and columns of JSON, bytes of
protobuf.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from substrait_agg.plan.messages.message import read_message
from substrait_agg.plan.messages.node import MessageNode, preorder
from substrait_agg.report.places.places import Region, locate

PLANS = Path(__file__).parents[2] / "plans"
ALL_JSON = sorted(PLANS.rglob("*.json"))
TEXT = """\
{ // a "comment" with { brackets
  "version": {"minorNumber": 106, "producer": "a \\"quoted\\" {producer}"},
  "relations": [
    /* a comment with "relations": [ { */
    {"root": {
      "names": ["k", "ü", "n"],
      "input": {"aggregate": {
        "measures": [
          {"measure": {"functionReference": 7}},
          {"measure": {"function_reference": 8, "options": [], "arguments": [
            {"value": {"literal": {"i32": -5}}}
          ]}, "filter": null}
        ]}}
    }}
  ]
}
"""
MEASURES = "relations[0].root.input.aggregate.measures"


def text_at(content: bytes, path: str) -> str:
    """Return the text at `path` by offsets; lines and columns must agree."""
    text = content.decode()
    region = locate(content, [path])[path]
    lines = text.split("\n")
    start = sum(len(line) + 1 for line in lines[: region.line - 1]) + region.column - 1
    end = sum(len(line) + 1 for line in lines[: region.end_line - 1]) + region.end_column - 1
    assert (start, end) == (region.start, region.end)
    return text[start:end]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("version.minor_number", "106"),
        ("version.producer", '"a \\"quoted\\" {producer}"'),
        ("relations[0].root.names[1]", '"ü"'),
        ("relations[0].root.names", '["k", "ü", "n"]'),
        (f"{MEASURES}[0]", '{"measure": {"functionReference": 7}}'),
        (f"{MEASURES}[0].measure.function_reference", "7"),
        (f"{MEASURES}[1].measure.function_reference", "8"),
        (f"{MEASURES}[1].measure.options", "[]"),
        (f"{MEASURES}[1].measure.arguments[0].value.literal.i32", "-5"),
        (f"{MEASURES}[1].filter", "null"),
    ],
)
def test_json_values_are_found_by_either_name_of_their_key(path: str, expected: str) -> None:
    assert text_at(TEXT.encode(), path) == expected


def test_what_is_not_written_is_at_the_nearest_message_that_is() -> None:
    region = locate(TEXT.encode(), [f"{MEASURES}[0].measure.phase", f"{MEASURES}[0].measure"])
    assert region[f"{MEASURES}[0].measure.phase"] == region[f"{MEASURES}[0].measure"]
    assert (
        text_at(TEXT.encode(), f"{MEASURES}[0].measure.sorts[3].expr") == '{"functionReference": 7}'
    )
    assert text_at(TEXT.encode(), "relations[0].root.names[9]") == '["k", "ü", "n"]'


def test_what_is_about_the_plan_as_a_whole_has_no_place() -> None:
    for content in (TEXT.encode(), (PLANS / "tpch" / "q01.bin").read_bytes()):
        assert locate(content, ["", "parameter_bindings[0]", "no.such.field"]) == {}


def test_lines_and_columns_count_from_one_and_skip_a_byte_order_mark() -> None:
    plain = '{"version":\n {"minorNumber": 1}}'
    for content in (plain.encode(), b"\xef\xbb\xbf" + plain.encode(), plain.encode("utf-16")):
        region = locate(content, ["version"])["version"]
        assert (region.line, region.column, region.end_line, region.end_column) == (2, 2, 2, 20)
        assert str(region) == "2:2"


@pytest.mark.parametrize("path", ALL_JSON, ids=lambda path: path.stem)
def test_every_value_of_real_json_plans_is_found(path: Path) -> None:
    """The text at a message's place, read on its own, has that message's fields."""
    content = path.read_bytes()
    root = read_message(content)
    assert root is not None
    nodes = preorder(root)[1:]
    places = locate(content, (node.path for node in nodes))
    for node in nodes:
        region = places[node.path]
        keys = json.loads(content.decode()[region.start : region.end])
        assert {node.shape.by_json_name[key].name for key in keys} >= set(node.values)


@pytest.mark.parametrize("name", ["q01.bin", "q06.bin"])
def test_every_message_of_binary_plans_is_found_inside_its_parent(name: str) -> None:
    content = (PLANS / "tpch" / name).read_bytes()
    root = read_message(content)
    assert root is not None
    nodes = preorder(root)[1:]
    places = locate(content, (node.path for node in nodes))
    for node in nodes:
        region = places[node.path]
        assert not region.is_text
        assert node.parent is not None
        if node.parent.parent is not None:
            around = places[node.parent.path]
            assert around.start < region.start < region.end <= around.end


def test_scalars_of_binary_plans_are_found_with_their_tag() -> None:
    plan = b"\x32\x06" + b"\x10\x55\x2a\x02df" + b"\x1a\x04\x12\x02\x12\x00"
    found = locate(plan, ["version.producer", "version.minor_number", "relations[0].root.names[0]"])
    assert plan[found["version.producer"].start : found["version.producer"].end] == b"\x2a\x02df"
    assert found["version.minor_number"] == Region(2, 4)
    assert str(found["version.minor_number"]) == "bytes 2-3"
    assert plan[found["relations[0].root.names[0]"].start :] == b"\x12\x00"


def test_fields_that_no_release_knows_are_found_by_number_or_key() -> None:
    assert locate(b"\x32\x03\xf8\x07\x01", ["version.127"])["version.127"] == Region(2, 5)
    content = b'{"version": {"frobnicate": {"a": [1]}}}'
    assert text_at(content, "version.frobnicate") == '{"a": [1]}'


def test_numbers_that_stand_packed_are_the_field_they_are_in() -> None:
    """Each number of a packed field has the span of the whole field."""
    grouping = b"\x12\x03\x03\x04\x05"
    aggregate = b"\x1a" + bytes([len(grouping)]) + grouping
    rel = b"\x22" + bytes([len(aggregate)]) + aggregate
    entry = b"\x0a" + bytes([len(rel)]) + rel
    plan = b"\x1a" + bytes([len(entry)]) + entry
    path = "relations[0].rel.aggregate.groupings[0].expression_references[2]"
    region = locate(plan, [path])[path]
    assert plan[region.start : region.end] == grouping


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_broken_content_is_answered_without_an_error(data: st.DataObject) -> None:
    """Truncated or damaged content has places as far as it can be parsed."""
    whole = TEXT.encode() if data.draw(st.booleans()) else (PLANS / "tpch" / "q01.bin").read_bytes()
    spoiled = bytearray(whole[: data.draw(st.integers(0, len(whole)))])
    for _ in range(data.draw(st.integers(0, 4)) if spoiled else 0):
        spoiled[data.draw(st.integers(0, len(spoiled) - 1))] = data.draw(st.integers(0, 255))
    paths = [
        "version",
        f"{MEASURES}[1].measure.arguments[0]",
        "relations[0].root.names[2]",
        "",
        "x[y",
    ]
    for region in locate(bytes(spoiled), paths).values():
        assert 0 <= region.start <= region.end <= len(spoiled)


def deep_plan(levels: int) -> tuple[bytes, str]:
    """Filters over filters, and the path of the innermost."""
    text = '{"filter":{"input":' * levels + '{"read":{}}' + "}}" * levels
    path = "relations[0].rel" + ".filter.input" * levels
    return f'{{"relations":[{{"rel":{text}}}]}}'.encode(), path


def test_depth_is_no_problem() -> None:
    content, path = deep_plan(900)
    assert text_at(content, path) == '{"read":{}}'
    assert text_at(content, f"{path}.read.filter") == "{}"


def test_large_plans_take_seconds_and_many_places_no_longer() -> None:
    """Ten thousand places among 60 thousand constants in one pass."""
    constant: dict[str, Any] = {"literal": {"i32": 1, "nullable": True}}
    table = {"expressions": [{"fields": [constant] * 60_000}]}
    plan = {"relations": [{"rel": {"read": {"virtualTable": table}}}]}
    content = json.dumps(plan).encode()
    base = "relations[0].rel.read.virtual_table.expressions[0].fields"
    paths = [f"{base}[{at}].literal.i32" for at in range(0, 60_000, 6)]
    started = time.process_time()
    found = locate(content, paths)
    assert time.process_time() - started < 8
    last = found[paths[-1]]
    assert (len(found), content[last.start : last.end]) == (len(paths), b"1")


def test_reading_a_message_again_takes_nothing_from_it() -> None:
    root = read_message(TEXT.encode())
    assert isinstance(root, MessageNode)
    assert not root.taken
    assert read_message(TEXT) is not None
    assert read_message(b"no plan") is None
    assert read_message("{") is None
