"""Targets that Spark writes to, as text."""

from __future__ import annotations

import pytest

from substrait_agg.changes import parse_output
from substrait_agg.changes.targets.spark import parse_target
from substrait_agg.errors import UsageError


def test_format_location_and_options() -> None:
    target = parse_target("kafka:topic?kafka.bootstrap.servers=a%3A1,b&x=1%262")
    assert (target.format, target.location) == ("kafka", "topic")
    assert target.options == (("kafka.bootstrap.servers", "a:1,b"), ("x", "1&2"))
    assert parse_target("Parquet:s3://bucket/out").location == "s3://bucket/out"
    assert parse_target("com.example.Sink:").format == "com.example.Sink"


def test_passwords_are_not_shown() -> None:
    """The name of an output in messages, metrics and records contains no password."""
    spec = parse_output("spark=jdbc:t?url=jdbc%3Apg%3A//u:geheim@h/db&password=geheim&fetchsize=9")
    shown = f"{spec} {spec!r} {spec.target!r} {spec.target}"
    assert "geheim" not in shown
    assert "password=*****" in shown
    assert "fetchsize=9" in shown


@pytest.mark.parametrize(
    "text", ["", "parquet", "parquet:", "table:", "parquet:out?geheim", "csv:o?a=1&a=2", "/a/path"]
)
def test_what_is_no_target_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_output(f"spark={text}")
    assert refused.value.code == "OPTION_INVALID"
    assert refused.value.help
    assert "geheim" not in refused.value.message


def test_the_place_is_the_same_whatever_the_options() -> None:
    """A changed password does not make another output, which would begin again with the first
    version.
    """
    one, two = parse_target("delta:/t?password=a"), parse_target("delta:/t?password=b")
    assert one.identity == two.identity
