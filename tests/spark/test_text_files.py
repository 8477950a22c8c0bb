"""Local CSV and JSON files that Spark would silently read as other rows or values are refused."""

from __future__ import annotations

import gzip
from contextlib import nullcontext
from pathlib import Path

import pytest
from pyspark.sql import types as st

from substrait_agg.errors import InputRefused
from substrait_agg.spark.sources import text_files
from substrait_agg.spark.sources.specs import as_spec
from substrait_agg.spark.sources.text_files import text_check

TEXT = st.StringType()
INNER = st.StructType([st.StructField("Name", TEXT)])
ROW = st.StructType(
    [
        st.StructField("a", TEXT),
        st.StructField("s", INNER),
        st.StructField("l", st.ArrayType(INNER)),
        st.StructField("m", st.MapType(TEXT, INNER)),
    ]
)


def check(folder: Path, spec: str, content: bytes, name: str = "a b.gz") -> None:
    """Check a file with a content; a name that ends in .gz is that of a compressed file."""
    file = folder / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    made = text_check(as_spec(spec.format(folder)), ROW, "t")
    if made is not None:
        made.files([file.as_uri(), (folder / "gone").as_uri(), "s3://bucket/file"])


@pytest.mark.parametrize(
    ("text", "options", "line"),
    [
        ('a\n"p\nq"\n', "", 2),
        ('a,b\nx,"p\nq,z"\n', "", 2),
        ('a,b\n1,2\n"x ""y"" , z","p ""\nq"\n', "", 3),
        ('a\n"p\rq"\n', "", 2),
        ('a\r\n"x"\r\n"p\r\nq"\r\n', "", 3),
        ('a\n"p', "", 2),
        ("a;b\nx;'p\nq'\n", "?sep=;&quote='", 2),
        ('a\tb\nx\t"p\nq"\n', "?sep=\\t", 2),
        ('a,b\nx, "p\nq"\n', "?ignoreLeadingWhiteSpace=true", 2),
        ('a,b\nx, "p\nq"\n', "", None),
        ('a\n"p\nq"\n', "?multiLine=true", None),
        ('a\n"p\nq"\n', "?quote=", None),
        ('a\n"p\nq"\n', "?escape=\\", None),
        ('a\n#"p\nq\n', "?comment=%23", None),
        ('a,b\n5" pipe,x\n"x ""y""",","\n"",""\n,"5"" x"\n', "", None),
        ('a\n"x"y"\n', "", None),
        ("a\nb", "", None),
        ("", "", None),
    ],
)
def test_a_line_break_in_a_quoted_value_is_refused(
    tmp_path: Path, text: str, options: str, line: int | None
) -> None:
    """Spark reads the second part as a row. It reads a quote inside a value without quotes as it is."""
    with pytest.raises(InputRefused) if line else nullcontext() as refused:
        check(tmp_path, "csv:{}" + options, text.encode())
    if refused is not None:
        assert refused.value.code == "ROW_UNREADABLE"
        assert refused.value.message.startswith(f"line {line} of a file of table t ends inside")
        assert "multiLine=true" in str(refused.value.help)


@pytest.mark.parametrize(
    ("text", "options", "line"),
    [
        ('a\r\n"x"\r\n"p\r\nq"\r\n', "", 3),
        ('a\r"p\rq"\r', "", 2),
        ('a,b\r\n"l\nm",2\r\n5" pipe,"x ""y"" \r\n"\r\n', "", 4),
        ('a,b\r\n"p\nq","x,"\r\n"""",","\r\n5" pipe,\r\n,"5"" x"\r\n', "", None),
        ('a\n"p\r\nq"\n', "", None),
        ('a\r\n#"p\r\nq\r\n', "&comment=%23", None),
        ('a\r\n"p\r\nq"\r\n', "&lineSep=%0D%0A", None),
    ],
)
def test_a_line_break_that_would_become_another_is_refused(
    tmp_path: Path, text: str, options: str, line: int | None
) -> None:
    """Spark replaces breaks in quoted values that are as those of the lines by LF."""
    with pytest.raises(InputRefused) if line else nullcontext() as refused:
        check(tmp_path, f"csv:{{}}?multiLine=true{options}", text.encode())
    if refused is not None:
        assert refused.value.code == "ROW_UNREADABLE"
        assert refused.value.message.startswith(f"line {line} of a file of table t ends inside")
        assert "lineSep=%0D" in str(refused.value.help)


@pytest.mark.parametrize("options", ["", "?multiLine=true", "?bad-rows=quarantine"])
def test_bytes_that_are_not_utf8_are_refused(tmp_path: Path, options: str) -> None:
    """Spark replaces them, so that different values become equal."""
    with pytest.raises(InputRefused) as refused:
        check(tmp_path, "csv:{}" + options, b"a\nx\ny\xff\n")
    assert refused.value.code == "TEXT_ENCODING_INVALID"
    assert refused.value.message.startswith("line 3 ")
    assert "encoding=ISO-8859-1" in str(refused.value.help)


@pytest.mark.parametrize("encoding", ["ISO-8859-1", "utf-16"])
def test_text_in_another_encoding_is_not_checked(tmp_path: Path, encoding: str) -> None:
    check(tmp_path, f"csv:{{}}?encoding={encoding}", "a\n\u00e4\n".encode(encoding))


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ('{"a": 1}{"a": 2}\n', "", "line 1 .* of the line"),
        ('{"a": 1}\n{"a": 2}, {"a": 3}\n', "", "line 2 .* of the line"),
        ('{"a": 1}\r\n{"a": 2}\t{"a": 3}\r\n', "", "line 2 .* of the line"),
        ('{"a": 1} x\n', "", "of the line"),
        ('{"a": {}} ["b"]\n', "", "of the line"),
        ('{"a":\n1}\n{"a": 2}\n', "?multiLine=true", "of the file"),
        ('[{"a": 1}]\n[{"a": 2}]\n', "?multiLine=true", "of the file"),
        ('{"a": 1}, {"a": 2}', "?multiLine=true", "of the file"),
        ('{"a": 1}\nx', "?multiLine=true", "of the file"),
        ('\ufeff{"a": "}{"}\n\n[{"a": 2}, {"a": 3}]\n{"a": 4},\nno JSON\n', "", ""),
        ('{"a": [{"b": 1}, {"b": [[1], [2]]}], "c": {}}\n', "", ""),
        ('[{"a":\n1},\n{"a": 2}]\n', "?multiLine=true", ""),
        ("{'a': 1}\n{'a': 2}\n", "?multiLine=true", ""),
        ('{"a": "' + "\u00e4" * 70_000 + '"}\n', "", ""),
        ("", "", ""),
    ],
)
def test_json_values_behind_the_first_are_refused(
    tmp_path: Path, text: str, options: str, message: str
) -> None:
    """Spark leaves them out without an error."""
    with pytest.raises(InputRefused, match=message) if message else nullcontext() as refused:
        check(tmp_path, "json:{}" + options, text.encode())
    assert refused is None or refused.value.code == "SOURCE_UNREADABLE"


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ('{"a": "x"}\n{"A": "y"}\n', ("A", "a")),
        ('{"s": {"name": "x"}}\n', ("name", "Name")),
        ('{"l": [{"Name": "x"}, {"NAME": "y"}]}\n', ("NAME", "Name")),
        ('{"m": {"A": {"Name": "x"}, "b": {"name" : "y"}}}\n', ("name", "Name")),
        ('[{"a": 1}, {"A": 2}]\n', ("A", "a")),
        ('{"a": "x", "A": "y"}\n', None),
        ('{"a": "x", "u": {"A": 1}}\n', None),
        ('{"a": "{\\"A\\": 1}", "b": "A"}\n', None),
        ('{"A": \n', None),
    ],
)
def test_a_key_that_differs_only_in_case_is_refused(
    tmp_path: Path, text: str, pair: tuple[str, str] | None
) -> None:
    """Spark reads null for the column, unless the row has the column's own key too."""
    with pytest.raises(InputRefused) if pair else nullcontext() as refused:
        check(tmp_path, "json:{}", text.encode())
    if refused is not None and pair is not None:
        assert refused.value.code == "ROW_UNREADABLE"
        assert (
            f"has the key {pair[0]}, but the run reads the key {pair[1]}" in refused.value.message
        )


def test_a_column_in_the_name_of_a_folder_has_no_key(tmp_path: Path) -> None:
    check(tmp_path, "json:{}", b'{"A": 1}\n', "a=1/x.json")


@pytest.mark.parametrize("size", [1, 7, 16])
@pytest.mark.parametrize("form", ["csv", "json"])
def test_the_size_of_chunks_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, form: str
) -> None:
    monkeypatch.setattr(text_files, "CHUNK_BYTES", size)
    good, bad = {
        "csv": ('a\r\n"\u00e4x"\r\n', '"y\r\nz"'),
        "json": ('{"a": "\u00e4"}\r\n', '{"A": 1}'),
    }[form]
    lines = good.count("\n")
    check(tmp_path, form + ":{}", (good * 3).encode())
    with pytest.raises(InputRefused, match=f"line {3 * lines + 1} "):
        check(tmp_path, form + ":{}", (good * 3 + bad).encode())


@pytest.mark.parametrize("spec", ["parquet:{}", "json:{}?cdc=debezium", "csv:{}?lineSep=;"])
def test_other_sources_have_no_check(tmp_path: Path, spec: str) -> None:
    assert text_check(as_spec(spec.format(tmp_path)), ROW, "t") is None
