"""List the scalar functions of the standard that are refused, each with the reason.

Together with `catalogue.SCALARS` this table covers every scalar function in the extension files.
`tests/functions/test_standard_scalars.py` compares both with the files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

_GEOMETRY = "Spark has no operations on geometries"

REFUSED_SCALARS: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "point", "make_line", "x_coordinate", "y_coordinate", "num_points", "is_empty", "is_closed",
            "is_simple", "is_ring", "geometry_type", "envelope", "dimension", "is_valid",
            "collection_extract", "flip_coordinates", "remove_repeated_points", "buffer", "centroid",
            "minimum_bounding_circle",
        ),
        _GEOMETRY,
    ),
    "title": (
        "the standard does not define whether the rest of a word becomes lower case, nor how an article at the "
        "beginning is written"
    ),
}  # fmt: skip
"""Lower-case name -> why Spark cannot compute exactly what the standard defines."""

_REPEATED = (
    "local times of a zone can be skipped or repeated, and the standard does not define the multiple for them; "
    "call local_timestamp first"
)

REFUSED_PARTS: Mapping[tuple[str, str], str] = {
    ("round_temporal", "precision_timestamp_tz"): _REPEATED,
    ("round_calendar", "precision_timestamp_tz"): _REPEATED,
    ("extract_boolean", "IS_DST"): (
        "Spark has the offset of a time zone, but not whether it is daylight saving time"
    ),
    **dict.fromkeys(
        [("round_calendar", word) for word in ("CEIL", "ROUND_TIE_DOWN", "ROUND_TIE_UP")],
        "the standard does not define whether the multiples of one origin continue after the next origin",
    ),
}
"""(lower-case name, type kind or word of an argument) -> why such calls are refused."""


def refusal(name: str, parts: Iterable[str] = ()) -> str:
    """Return why a call is refused although the standard declares it; empty if it is not.

    Args:
        name: lower-case name of the function.
        parts: type kinds of the arguments, and words of enumeration arguments in upper case.
    """
    reasons = (REFUSED_PARTS.get((name, part), "") for part in parts)
    return REFUSED_SCALARS.get(name, "") or next(filter(None, reasons), "")
