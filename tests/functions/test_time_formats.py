"""Formats of strftime and strptime: supported conversions, and refused ones."""

from __future__ import annotations

import pytest

from substrait_agg.functions.scalars.time_formats import (
    FormatError,
    parse_reading,
    parse_writing,
    pieces,
)


@pytest.mark.parametrize("format", ["%Q", "%f", "%Ey", "%-d", "%", "%z", "%Z"])
def test_formats_that_are_not_written(format: str) -> None:
    with pytest.raises(FormatError):
        parse_writing(format, "precision_timestamp")


@pytest.mark.parametrize("format", ["%Y-%m", "%Y-%m-%d %d", "%Y-%j-%d", "%U", "%F %z", "%s"])
def test_formats_that_are_not_read(format: str) -> None:
    with pytest.raises(FormatError):
        parse_reading(format, "date")


def test_pieces_of_a_format() -> None:
    assert [p.conversion or p.text for p in pieces("a%%b%d%t")] == ["a", "%", "b", "d", "\t"]
    with pytest.raises(FormatError):
        pieces("100%")
