"""Regular expressions of the specification (those of ICU) as Java's, which Spark runs."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from substrait_agg.bind.bound import Constant
from substrait_agg.functions.patterns import ANY_DIFFERENCE
from substrait_agg.spark.parts import Arguments, failure

_FLAGS = {
    ("CASE_SENSITIVITY", "CASE_INSENSITIVE"): "i",
    ("CASE_SENSITIVITY", "CASE_INSENSITIVE_ASCII"): "i",
    ("MULTILINE", "MULTILINE_ENABLED"): "m",
    ("DOTALL", "DOTALL_ENABLED"): "s",
}

_AT_CHARACTER = r"(?![\x{DC00}-\x{DFFF}])"
"""Java finds empty matches between the two halves of a character beyond the basic plane, ICU does not."""


def pattern(a: Arguments, ordinal: int = 1) -> Column:
    r"""The pattern in an argument with the call's options; ``\w``, ``\d``, ``\b`` and ``\s`` are those of Unicode, as in ICU.

    A constant has been checked when the plan was; another pattern that ICU and Java read differently fails the batch.
    """
    chosen = "".join(f for (name, value), f in _FLAGS.items() if a.option(name) == value)
    if a.option("CASE_SENSITIVITY") == "CASE_INSENSITIVE_ASCII":
        # With U alone the case of all letters would be ignored.
        chosen += "-u"
    text = a[ordinal]
    if not isinstance(a.call.arguments[ordinal], Constant):
        what = "a regular expression is not the same in ICU and Java"
        fault = failure("DOMAIN_ERROR", what).cast("string")
        text = F.when(F.rlike(text, F.lit(ANY_DIFFERENCE)), fault).otherwise(text)
    return F.concat(F.lit(f"(?U{chosen}){_AT_CHARACTER}(?:"), text, F.lit(")"))


def quoted(column: Column) -> Column:
    """A pattern that matches the text itself."""
    return F.regexp_replace(column, r"([^\p{L}\p{N}\s])", r"\\$1")


def any_case(column: Column, *, ascii_only: bool = False) -> Column:
    """A pattern that matches the text in upper and lower case."""
    return F.concat(F.lit("(?i:" if ascii_only else "(?iu:"), quoted(column), F.lit(")"))


def literal_replacement(column: Column) -> Column:
    """A replacement of Java that stands for the text itself."""
    return F.regexp_replace(column, r"([\\$])", r"\\$1")
