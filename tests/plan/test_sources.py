"""The accepted forms of a plan, and the detection of its encoding."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from substrait.proto import Plan

from substrait_agg.errors import UsageError
from substrait_agg.plan import MAX_PLAN_BYTES
from tests.plan.helpers import (
    I32,
    PLANS,
    length_delimited,
    meaning,
    plan_of,
    read,
    table,
    unreadable,
)

Q6 = PLANS / "tpch/substrait-python/q06.bin"
TEXT = Q6.with_suffix(".json").read_text()


def test_every_kind_of_source_gives_the_same_plan() -> None:
    content = Q6.read_bytes()
    wanted = meaning(read(Q6)[0])
    message = Plan.FromString(content)
    for source in (content, bytearray(content), memoryview(content), message, TEXT, TEXT.encode()):
        assert meaning(read(source)[0]) == wanted


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf" + TEXT.encode(),
        TEXT.encode("utf-16"),
        b"\r\n \t" + TEXT.encode(),
        b'// a comment\n// { "another": 1 }\n\n' + TEXT.encode(),
        b"/* a comment\n over lines */ {  // one more\n" + TEXT.encode().lstrip()[1:],
    ],
    ids=["bom", "utf-16", "blanks", "comments", "inner-comments"],
)
def test_json_is_told_by_content(content: bytes) -> None:
    assert meaning(read(content)[0]) == meaning(read(Q6)[0])


def test_a_binary_plan_that_starts_like_text_is_binary() -> None:
    """The tag of the first field is a line feed and a length can be a brace."""
    urn = b"x" * 121
    plan = Plan()
    plan.relations.add().rel.read.named_table.names.append("t")
    content = length_delimited(1, length_delimited(2, urn)) + plan.SerializeToString()
    assert content.startswith(b"\n{")
    assert read(content)[0].root.path == "relations[0].rel.read"


def test_snake_case_camel_case_and_enum_numbers_are_the_same() -> None:
    camel = json.loads(TEXT)

    def snake(value: object) -> object:
        if isinstance(value, dict):
            return {
                "".join(f"_{c.lower()}" if c.isupper() else c for c in key): snake(inner)
                for key, inner in value.items()
            }
        if isinstance(value, list):
            return [snake(item) for item in value]
        return {"NULLABILITY_NULLABLE": 1, "NULLABILITY_REQUIRED": 2}.get(str(value), value)

    assert meaning(read(snake(camel))[0]) == meaning(read(camel)[0])


def test_a_file_that_is_not_there_is_a_wrong_call() -> None:
    with pytest.raises(UsageError, match="does not exist"):
        read(Path("missing.bin"))
    with pytest.raises(UsageError, match="int"):
        read(7)


def test_size_limit() -> None:
    assert unreadable(b" " * (MAX_PLAN_BYTES + 1)).code == "PLAN_TOO_LARGE"


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"", "no relations"),
        (b"{}", "no relations"),
        (b"[1]", "not a JSON object"),
        (b'{"relations": [}', "line 1, column 16"),
        (b'{\n"relations": [{"a" 1}]}', "line 2"),
        (b'{"relations": [', "ends too early"),
        (b'{"a": 1} x', "text after the plan"),
        (b'{"a": 1, "a": 2}', "written twice"),
        (b'{"a": 1, }', "a key in quotes"),
        (b'{"a": "\\x"}', "escape"),
        (b'{"a": "\xff"}', "not UTF-8"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not a number"),
        (b"{plain words", "a key in quotes"),
        (b"\x1a\x05ab", "bytes expected"),
        (b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "not terminated"),
        (b"\x00\x01", "number 0"),
        (b"\x0f", "wire type 7"),
        (b"PAR1", "byte"),
        (b"SELECT 1", "byte"),
    ],
)
def test_what_is_no_plan_is_refused_with_a_reason(content: bytes, part: str) -> None:
    problem = unreadable(content)
    assert problem.code == "PLAN_UNREADABLE"
    assert part in problem.message


def test_damage_inside_is_named_with_its_place() -> None:
    rel = length_delimited(1, length_delimited(1, b"\x12\x7f"))
    problem = unreadable(length_delimited(3, rel))
    assert problem.path == "relations[0].rel.read"


def test_version_is_asked_for() -> None:
    plan = plan_of(table(I32))
    del plan["version"]
    decoded, found = read(plan)
    assert (decoded.version, decoded.producer) == (None, "")
    assert [p.code for p in found] == ["VERSION_MISSING"]
    _, found = read({**plan, "version": {}})
    assert [p.code for p in found] == ["VERSION_MISSING"]
