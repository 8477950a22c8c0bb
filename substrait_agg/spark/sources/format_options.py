"""Options of CSV, JSON and Parquet sources, and the reasons why some options of Spark are refused.

The names are Spark's and are passed on in Spark's spelling. A name that contains a dot, such as
``fs.s3a.endpoint``, is a setting of Hadoop.

Sources: https://spark.apache.org/docs/latest/sql-data-sources-csv.html and the pages of the other
formats beside it;
https://spark.apache.org/docs/latest/streaming/apis-on-dataframes-and-datasets.html ("Input
Sources").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from substrait_agg.spark.sources.files import name_test

OF_FOLDERS = (
    "ignoreCorruptFiles", "ignoreMissingFiles", "latestFirst", "maxBytesPerTrigger", "maxFilesPerTrigger", "pathGlobFilter",
    "recursiveFileLookup",
)  # fmt: skip
"""Options of every file source."""

_NAMES_KEPT = "a run keeps the names of all files that it has read"
OF_SPARK_STREAM: Mapping[str, str] = {
    "cleansource": "a run does not move or delete its input",
    "sourcearchivedir": "a run does not move or delete its input",
    "filenameonly": "files of one name in two folders are two files",
    "maxfileage": "files of any age are read",
    "maxcachedfiles": _NAMES_KEPT,
    "discardcachedinputratio": _NAMES_KEPT,
}
"""Option of Spark's stream of files that is refused, in lower case -> the reason."""

_OF_TEXT = (
    "dateFormat", "enableDateTimeParsingFallback", "encoding", "charset", "lineSep", "locale", "multiLine", "timestampFormat",
    "timestampNTZFormat", "timeFormat", "timeZone",
)  # fmt: skip

OPTIONS: Mapping[str, tuple[str, ...]] = {
    "csv": (
        *OF_FOLDERS, *_OF_TEXT, "charToEscapeQuoteEscaping", "comment", "delimiter", "emptyValue", "escape", "header",
        "ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace", "inputBufferSize", "maxCharsPerColumn", "maxColumns", "nanValue",
        "negativeInf", "nullValue", "positiveInf", "quote", "sep", "unescapedQuoteHandling",
    ),
    "json": (
        *OF_FOLDERS, *_OF_TEXT, "allowBackslashEscapingAnyCharacter", "allowComments", "allowNonNumericNumbers",
        "allowNumericLeadingZeros", "allowSingleQuotes", "allowUnquotedControlChars", "allowUnquotedFieldNames",
    ),
    "parquet": (*OF_FOLDERS, "datetimeRebaseMode", "int96RebaseMode", "mergeSchema"),
    "debezium": (*OF_FOLDERS, "lineSep"),
}  # fmt: skip
"""Format -> its options. ``debezium`` means files of change events, which are read as text."""

OWN = (
    "weight", "op", "cdc", "key", "order", "times", "decimals", "batch-files", "bad-rows", "decimal",
)  # fmt: skip
"""Keys of a SPEC that are not Spark options. Suggestions for misspelled keys include them."""

_TYPES = "the plan gives the types of the columns"
_WRITING = "it is an option for writing files"
_BAD_ROWS = "use bad-rows=fail or bad-rows=quarantine for rows that cannot be read"
_COLUMNS = "columns are matched by name with a header, or by position with header=false"
_NOT_STREAMED = (
    "Spark does not support it for a stream of files; use pathGlobFilter to select files by name"
)

NOT_TAKEN: Mapping[str, str] = {
    **dict.fromkeys(
        ("inferSchema", "samplingRatio", "preferDate", "prefersDecimal", "primitivesAsString", "inferTimestamp",
         "dropFieldIfAllNull", "singleVariantColumn", "explodeEmbeddedArray"),
        _TYPES,
    ),
    **dict.fromkeys(
        ("quoteAll", "escapeQuotes", "compression", "codec", "ignoreNullFields", "pretty", "writeNonAsciiCharacterAsCodePoint",
         "extension", "sortKeys"),
        _WRITING,
    ),
    **dict.fromkeys(("mode", "columnNameOfCorruptRecord"), _BAD_ROWS),
    **dict.fromkeys(("enforceSchema", "columnPruning"), _COLUMNS),
    "useUnsafeRow": "it is internal to Spark",
    **dict.fromkeys(("modifiedBefore", "modifiedAfter"), _NOT_STREAMED),
}  # fmt: skip
"""Refused Spark option -> the reason."""

_ONE_CHARACTER = ("quote", "escape", "comment", "charToEscapeQuoteEscaping")
_ZONE_LETTERS = frozenset("VzOXxZ")


def spell(options: Mapping[str, str], format_: str) -> dict[str, str]:
    """Return the options with their names in Spark's spelling.

    Raises:
        KeyError: an option is unknown; the argument is its name.
        ValueError: an option is refused, is given twice or has a bad value; the argument says why.
    """
    by_lower = {name.lower(): name for name in OPTIONS[format_]}
    refused = {name.lower(): reason for name, reason in NOT_TAKEN.items()}
    respelled: dict[str, str] = {}
    for option, value in options.items():
        name = option if "." in option else by_lower.get(option.lower())
        if name is None and option.lower() in refused:
            raise ValueError(f"{option} is not supported: {refused[option.lower()]}")
        if name is None:
            raise KeyError(option)
        if name in respelled:
            raise ValueError(f"{name} is given twice")
        if name in _ONE_CHARACTER and len(value) > 1:
            raise ValueError(f"{name}={value} is more than one character")
        if name in ("sep", "delimiter") and not value:
            raise ValueError(f"{name}= is empty")
        if name == "header" and value.lower() not in ("true", "false"):
            raise ValueError(f"header={value} is not true or false")
        if name == "pathGlobFilter":
            name_test(value)
        respelled[name] = value
    return respelled


def nearest(name: str, format_: str) -> str | None:
    """Return the option that is most similar to an unknown name, or None if none is similar."""
    names: Iterable[str] = (*OWN, *OPTIONS[format_])
    by_lower = {n.lower(): n for n in names}
    lower = name.lower()
    close = get_close_matches(lower, by_lower, n=1, cutoff=0.6)
    # Finds `sep` for `separator`, which the similarity above misses.
    starts = [n for n in by_lower if len(n) > 2 and lower.startswith(n)]
    candidates = [*close, *sorted(starts, key=len, reverse=True)]
    return by_lower[candidates[0]] if candidates else None


def with_zoneless_format(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options with ``timestampFormat`` copied to ``timestampNTZFormat``.

    Spark reads timestamps without a time zone by ``timestampNTZFormat`` only. Without the copy, a
    given ``timestampFormat`` would not apply to columns that the plan types without a zone. A
    format that contains a zone is not copied.
    """
    pattern = options.get("timestampFormat", "")
    if not pattern or "timestampNTZFormat" in options or _ZONE_LETTERS & set(_unquote(pattern)):
        return dict(options)
    return {**options, "timestampNTZFormat": pattern}


_TIME_OF_DAY = "H:m[:s[.SSSSSSSSS]]"
_MOMENT = f"yyyy-M-d[ {_TIME_OF_DAY}]['T'{_TIME_OF_DAY}]"
_STRICT = {
    "dateFormat": _MOMENT,
    "timestampNTZFormat": _MOMENT,
    "timestampFormat": f"{_MOMENT}[ ][XXX][X][VV]",
}


def with_strict_times(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a text source with formats for dates and timestamps without one.

    Without a format, Spark reads ``2024`` as January 1, ``10:00`` as a time of the current day, the
    JSON text ``20240105`` as days since 1970, and ignores what follows a date.
    """
    if options.get("enableDateTimeParsingFallback", "").lower() == "true":
        return dict(options)
    return {**_STRICT, **options}


def with_csv_quotes(options: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the options of a CSV source, with quotes as in RFC 4180 unless they say otherwise.

    A quote in a quoted value is written twice. Without these options, Spark takes a backslash as
    the escape, and silently reads values with doubled quotes as they stand, with all their quotes.
    """
    by_name = dict(options)
    lower = {name.lower(): value for name, value in by_name.items()}
    quote = lower.get("quote", '"')
    added = {"unescapedQuoteHandling": "RAISE_ERROR", **({"escape": quote} if quote else {})}
    return {**{n: v for n, v in added.items() if n.lower() not in lower}, **by_name}


def csv_separator(options: Iterable[tuple[str, str]]) -> str:
    """Return the separator of values of a CSV source, with a tab for Spark's escape of it."""
    lower = {name.lower(): value for name, value in options}
    return lower.get("sep", lower.get("delimiter", ",")).replace("\\t", "\t")


def _unquote(pattern: str) -> str:
    """Return a pattern without its parts in single quotes."""
    return "".join(pattern.split("'")[::2])
