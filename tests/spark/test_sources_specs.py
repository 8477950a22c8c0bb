"""Source specifications as text: their meaning, refusals, and no leak of passwords."""

from __future__ import annotations

from pathlib import Path

import pytest

from substrait_agg.bind.bound import BoundRead
from substrait_agg.bind.plan.table_sources import check_sources
from substrait_agg.errors import InputRefused, UsageError
from substrait_agg.spark.sources.specs import SourceSpec, parse_spec, weight_kind


@pytest.mark.parametrize(
    ("text", "format_", "location"),
    [
        ("parquet:data/li", "parquet", "data/li"),
        ("data/li.parquet", "parquet", "data/li.parquet"),
        ("data/li.parquet/", "parquet", "data/li.parquet/"),
        ("in/*.JSON.gz", "json", "in/*.JSON.gz"),
        ("s3a://bucket/x.csv", "csv", "s3a://bucket/x.csv"),
        ("json:s3a://bucket/x", "json", "s3a://bucket/x"),
        ("file:/x/y.parquet", "parquet", "file:/x/y.parquet"),
        ("table:db.t", "table", "db.t"),
        ("kafka:topic", "kafka", "topic"),
        ("rate:?rowsPerSecond=5", "rate", ""),
        ("com.example.Format:place", "com.example.Format", "place"),
    ],
)
def test_format_and_location(text: str, format_: str, location: str) -> None:
    """The format is the word before the colon, else the suffix; URL schemes are not formats."""
    spec = parse_spec(text)
    assert (spec.format, spec.location) == (format_, location)


def test_options_are_decoded_and_ours_are_taken_out() -> None:
    """Spark gets its own options only, with percent-encoded characters restored."""
    spec = parse_spec("csv:in/?header=true&sep=%26&batch-files=3&weight=w")
    assert spec == SourceSpec(
        "csv", "in/", (("header", "true"), ("sep", "&")), "weight", "w", batch_files=3
    )


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "SPEC_EMPTY"),
        ("parquet:", "SPEC_EMPTY"),
        ("data/li", "SPEC_FORMAT_MISSING"),
        ("parquet:x?batch-files=0", "SPEC_OPTION_BAD"),
        ("parquet:x?batch-files=many", "SPEC_OPTION_BAD"),
        ("kafka:x?batch-files=1", "SPEC_OPTION_BAD"),
        ("parquet:x?weight", "SPEC_OPTION_BAD"),
        ("parquet:x?weight=", "SPEC_OPTION_BAD"),
        ("parquet:x?a=1&a=2", "SPEC_OPTION_TWICE"),
        ("parquet:x?weight=w&op=o", "SPEC_CHANGE_CONFLICT"),
        ("changes:t?op=o", "SPEC_CHANGE_CONFLICT"),
    ],
)
def test_bad_specs_are_refused_with_a_code(text: str, code: str) -> None:
    """Each mistake has its own code and a remedy."""
    with pytest.raises(UsageError) as raised:
        parse_spec(text)
    assert raised.value.code == code
    assert raised.value.help


@pytest.mark.parametrize(
    ("text", "kind"),
    [("parquet:x", "append_only"), ("parquet:x?op=o", "changelog"), ("parquet:x?weight=w", "weighted"), ("changes:t", "changelog")],
)  # fmt: skip
def test_weight_kind_follows_from_how_rows_say_what_they_do(text: str, kind: str) -> None:
    """Only a weight column can have weights other than 1 and -1."""
    assert weight_kind(text) == kind


SECRET_SPECS = [
    "kafka:t?kafka.sasl.jaas.config=hunter2&a=b",
    "x:place?password=hunter2",
    "x:place?fs.s3a.access.key=hunter2",
    "json:https://me:hunter2@host/x",
    "x:place?myToken=hunter2",
]


@pytest.mark.parametrize("text", SECRET_SPECS)
def test_passwords_are_not_shown(text: str) -> None:
    """No text form of a specification contains a secret, because it goes into logs and snapshots."""
    spec = parse_spec(text)
    assert "hunter2" in spec.location + str(spec.options)
    assert "hunter2" not in spec.redact() + str(spec) + repr(spec)


@pytest.mark.parametrize("text", SECRET_SPECS)
def test_error_messages_do_not_quote_secrets(text: str) -> None:
    """A message about a bad specification quotes it without its options."""
    join = "&" if "?" in text else "?"
    with pytest.raises(UsageError) as raised:
        parse_spec(f"{text}{join}weight=")
    assert "hunter2" not in str(raised.value)


def origin(*table: str) -> BoundRead:
    return BoundRead(table, (), (), "")


def test_sources_are_matched_by_dotted_name_then_last_part_then_case() -> None:
    """The most exact spelling of a table name wins, which distinguishes tables with equal last
    parts.
    """
    origins = [origin("a", "t"), origin("b", "t"), origin("LINEITEM")]
    matched = check_sources({"a.t": 1, "B.T": 2, "lineitem": 3}, origins)
    assert matched == {("a", "t"): 1, ("b", "t"): 2, ("LINEITEM",): 3}


def test_a_table_read_twice_needs_one_source() -> None:
    """Two reads of one table share its source."""
    assert check_sources({"t": 1}, [origin("t"), origin("t")]) == {("t",): 1}


@pytest.mark.parametrize(
    ("names", "tables", "code", "named"),
    [
        ((), (("t",), ("u",)), "SOURCE_MISSING", "t, u"),
        (("t",), (("t",), ("u",)), "SOURCE_MISSING", "u"),
        (("t", "x"), (("t",),), "SOURCE_UNKNOWN", "x"),
        (("t",), (("a", "t"), ("b", "t")), "SOURCE_AMBIGUOUS", "a.t"),
        (("T", "t"), (("tT",), ("Tt",)), "SOURCE_MISSING", "tT"),
        (("TAB", "Tab"), (("tab",),), "SOURCE_AMBIGUOUS", "TAB, Tab"),
    ],
)
def test_missing_unknown_and_ambiguous_sources_are_named(
    names: tuple[str, ...], tables: tuple[tuple[str, ...], ...], code: str, named: str
) -> None:
    """Tables without a source, sources without a table, and names that could mean two are errors."""
    with pytest.raises(InputRefused) as raised:
        check_sources(dict.fromkeys(names, 0), [BoundRead(t, (), (), "") for t in tables])
    assert raised.value.code == code
    assert named in raised.value.message


@pytest.mark.parametrize(
    ("spec", "code", "said"),
    [
        ("csv:in/?seperator=;", "SPEC_OPTION_UNKNOWN", "did you mean sep?"),
        ("json:in/?zzz=1", "SPEC_OPTION_UNKNOWN", "the options are allow"),
        ("csv:in/?batchfiles=1", "SPEC_OPTION_UNKNOWN", "did you mean batch-files?"),
        ("csv:in/?datefromat=d", "SPEC_OPTION_UNKNOWN", "did you mean dateFormat?"),
        ("json:in/?sep=;", "SPEC_OPTION_UNKNOWN", "sep is not an option of json"),
        ("json:in/?cdc=debezium&dateFormat=d", "SPEC_OPTION_UNKNOWN", "change events"),
        ("parquet:in/?mergeschemas=true", "SPEC_OPTION_UNKNOWN", "did you mean mergeSchema?"),
        ("csv:in/?mode=PERMISSIVE", "SPEC_OPTION_BAD", "bad-rows="),
        ("csv:in/?inferSchema=true", "SPEC_OPTION_BAD", "the plan gives the types"),
        ("csv:in/?sep=;&SEP=,", "SPEC_OPTION_BAD", "sep is given twice"),
        ("csv:in/?header=no", "SPEC_OPTION_BAD", "true or false"),
        ("csv:in/?bad-rows=skip", "SPEC_OPTION_BAD", "bad-rows=quarantine"),
    ],
)
def test_options_that_there_are_none_of_are_refused(spec: str, code: str, said: str) -> None:
    """Unknown options are refused with the most similar one or a reason."""
    with pytest.raises(UsageError) as raised:
        parse_spec(spec)
    assert raised.value.code == code
    assert said in f"{raised.value.message}; {raised.value.help}"


def test_options_have_the_names_of_spark() -> None:
    """Hadoop's settings are passed as they are, and other formats keep their own options."""
    options = "nullvalue=NA&DATEFORMAT=d&fs.s3a.Endpoint=x"
    assert parse_spec(f"csv:in/?{options}").options == (
        ("nullValue", "NA"), ("dateFormat", "d"), ("fs.s3a.Endpoint", "x")
    )  # fmt: skip
    assert parse_spec("orc:in/?any=1").options == (("any", "1"),)
    assert parse_spec("kafka:t?startingoffsets=earliest").options == (
        ("startingoffsets", "earliest"),
    )


@pytest.mark.parametrize(
    ("pattern", "zoneless"),
    [("dd.MM.yyyy HH:mm", True), ("yyyy-MM-dd'T'HH:mm:ssXXX", False), ("yyyy-MM-dd'Z'", True)],
)
def test_a_timestamp_format_holds_without_a_zone_too(pattern: str, zoneless: bool) -> None:
    """Unless it has a zone, or the other one is given."""
    spec = parse_spec(f"csv:in/?timestampFormat={pattern}")
    assert (("timestampNTZFormat", pattern) in spec.options) is zoneless
    both = parse_spec(f"csv:in/?timestampFormat={pattern}&timestampNTZFormat=y")
    assert dict(both.options)["timestampNTZFormat"] == "y"


def test_bad_rows_are_part_of_a_spec() -> None:
    """The default is left out of its text."""
    assert parse_spec("csv:in/?bad-rows=fail") == parse_spec("csv:in/")
    spec = parse_spec("csv:in/?bad-rows=quarantine&op=kind")
    assert spec.bad_rows == "quarantine"
    assert parse_spec(str(spec)) == spec


def test_a_folder_without_a_format_says_that_of_its_files(tmp_path: Path) -> None:
    folder = tmp_path / "sales"
    for names, said in (["a.csv", "b.csv.tmp"], f"csv:{folder}"), (["c.json"], "parquet:PATH"):
        folder.mkdir(exist_ok=True)
        for name in names:
            (folder / name).touch()
        with pytest.raises(UsageError) as refused:
            parse_spec(str(folder))
        assert refused.value.code == "SPEC_FORMAT_MISSING"
        assert said in refused.value.help
