"""Regular expressions of the specification (those of ICU) as Java's, which Spark runs."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from substrait_agg.spark.parts import Arguments

_FLAGS = {
    ("CASE_SENSITIVITY", "CASE_INSENSITIVE"): "i",
    ("MULTILINE", "MULTILINE_ENABLED"): "m",
    ("DOTALL", "DOTALL_ENABLED"): "s",
}


def pattern(a: Arguments, ordinal: int = 1) -> Column:
    r"""The pattern in an argument with the call's options; ``\w``, ``\d``, ``\b`` and ``\s`` are those of Unicode, as in ICU."""
    chosen = "".join(f for (name, value), f in _FLAGS.items() if a.option(name) == value)
    return F.concat(F.lit(f"(?U{chosen})"), a[ordinal])


def quoted(column: Column) -> Column:
    """A pattern that matches the text itself."""
    return F.regexp_replace(column, r"([^\p{L}\p{N}\s])", r"\\$1")
