"""Check local CSV and JSON files for what Spark would silently read as other rows or values.

Spark ends a row of CSV at a line break in a quoted value, replaces bytes that are not UTF-8, reads
the first of several JSON values in a line, and compares the keys of JSON with regard to case. None
of these is an error of Spark. A check reads a file in chunks of whole lines and searches each chunk
as a whole; it looks at single lines only where the search finds something.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import numpy as np
import pyarrow as pa
from pyspark.sql import types as st

from substrait_agg.errors import InputRefused
from substrait_agg.spark.sources.files import is_local, refuse_archive
from substrait_agg.spark.sources.format_options import csv_separator, with_csv_quotes
from substrait_agg.spark.sources.specs import SourceSpec

CHUNK_BYTES = 8 << 20
_NEWLINE, _QUOTE = ord("\n"), ord('"')
_IS_BLANK = np.isin(np.arange(256), list(b" \t\r\n"))
_LINE_BREAK = re.compile(rb"\r\n?|\n")
_UTF8 = frozenset({"utf-8", "utf8"})
_BEFORE_VALUES = re.compile(rb"(?:\xef\xbb\xbf)?\s*")
_BETWEEN_VALUES = re.compile(rb"[ \t,]*\n\s*")
_BEHIND_VALUES = re.compile(rb"[\s,]*")
_decoder = json.JSONDecoder(strict=False)


@dataclass(frozen=True, slots=True)
class TextCheck:
    """A check of the local files of a source.

    Attributes:
        table: name of the table, for messages.
        chunk: raises if Spark misreads a part of a file; called with its first line number and its
            content, which are whole lines that end in a newline.
        whole: whether a file is one chunk.
        as_written: whether the lines of chunks end as in the file.
    """

    table: str
    chunk: Callable[[_Place, bytes], None]
    whole: bool = False
    as_written: bool = False

    def files(self, uris: Iterable[str]) -> None:
        """Check files. Spark reports files that cannot be read.

        Raises:
            InputRefused: ROW_UNREADABLE, TEXT_ENCODING_INVALID, SOURCE_UNREADABLE.
        """
        for uri in filter(is_local, uris):
            line = 1
            try:
                for chunk in _chunks(unquote(urlsplit(uri).path), whole=self.whole):
                    if line == 1:
                        refuse_archive(chunk, uri, self.table)
                    content = chunk if self.as_written else _with_newlines(chunk)
                    self.chunk(_Place(uri, self.table, line), content)
                    line += content.count(b"\n")
            except (OSError, pa.ArrowException):
                continue


@dataclass(frozen=True, slots=True)
class _Place:
    """A chunk of a file: its URI, the table that it belongs to, and the number of its first line."""

    uri: str
    table: str
    line: int

    def refuse(self, line: int, what: str, help: str, code: str = "ROW_UNREADABLE") -> InputRefused:
        """Return the error for a line of the chunk; the first is 0."""
        message = f"line {self.line + line} of a file of table {self.table} {what}"
        return InputRefused(code, message, help=help, path=self.uri)


def text_check(spec: SourceSpec, schema: st.StructType, table: str) -> TextCheck | None:
    """Return the check of the files of a source; None for a source without one.

    Args:
        spec: the specification.
        schema: the columns that Spark reads.
        table: name of the table, for messages.
    """
    options = {name.lower(): value for name, value in spec.options}
    encoding = options.get("encoding", options.get("charset", "utf-8")).lower()
    if spec.change == "debezium" or encoding not in _UTF8 or "linesep" in options:
        return None
    whole = options.get("multiline", "").lower() == "true"
    if spec.format == "csv":
        marks = _csv_marks(spec)
        unclosed = None if whole or marks is None else marks.unclosed_pattern()

        def csv(place: _Place, content: bytes) -> None:
            """Check the bytes of a CSV file."""
            _check_utf8(place, _with_newlines(content))
            if marks is not None and unclosed is None:
                _check_breaks(place, content, marks)
            elif marks is not None and unclosed is not None:
                _check_quotes(place, content, ord(marks.quote), unclosed)

        return TextCheck(table, csv, whole, as_written=whole)
    if spec.format == "json":
        keys = _keys(schema)

        def json_(place: _Place, content: bytes) -> None:
            """Check the bytes of a JSON file."""
            _check_values(place, content, whole=whole)
            if keys is not None:
                _check_keys(place, content, _in_file(schema, unquote(place.uri)), keys, whole=whole)

        return TextCheck(table, json_, whole)
    return None


def _chunks(path: str, *, whole: bool) -> Iterator[bytes]:
    """Yield a file in chunks of whole lines; every line ends in a newline."""
    with pa.input_stream(path, compression="detect") as stream:
        rest = b""
        while data := stream.read() if whole else stream.read(CHUNK_BYTES):
            data = rest + data
            end = len(data) if whole else data.rfind(b"\n") + 1
            rest = data[end:]
            if end:
                yield data[:end]
        if rest:
            yield rest


def _with_newlines(content: bytes) -> bytes:
    """Return text in which every line ends in a newline, as Spark sees lines."""
    if b"\r" in content:
        content = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return content if content.endswith(b"\n") else content + b"\n"


# --- CSV ----------------------------------------------------------------------------------------


def _check_utf8(place: _Place, content: bytes) -> None:
    try:
        content.decode()
    except UnicodeDecodeError as error:
        raise place.refuse(
            content.count(b"\n", 0, error.start),
            "is not UTF-8: Spark would replace its characters",
            "save the file as UTF-8, or add its encoding to the source, such as encoding=ISO-8859-1",
            "TEXT_ENCODING_INVALID",
        ) from None


@dataclass(frozen=True, slots=True)
class _CsvMarks:
    """Patterns of the marks of CSV: quote, separator, blanks before a quote, begin of a comment."""

    quote: str
    mark: str
    sep: str
    blank: str
    comment: str

    def unclosed_pattern(self) -> re.Pattern[bytes]:
        """Return the pattern of a line that ends in a quoted value."""
        mark, sep, blank = self.mark, self.sep, self.blank
        start = f"(?!{self.comment})" if self.comment else ""
        plain = f"(?!{blank}{mark})(?:(?!{sep}).)*+"
        open_ = f"{blank}{mark}(?:[^{mark}]|{mark}{mark})*+"
        quoted = f"{open_}{mark}(?:(?!{sep}).)*+"
        return re.compile(f"{start}(?:(?:{quoted}|{plain}){sep})*+{open_}".encode())

    def broken(self, end: bytes) -> re.Pattern[bytes]:
        """Return the pattern of a text up to the first line break `end` in a quoted value."""
        mark, sep, blank, stop = self.mark, self.sep, self.blank, re.escape(end.decode())
        comment = f"(?<![^\\r\\n]){self.comment}[^\\r\\n]*+|" if self.comment else ""
        rest = f"(?:(?!{sep})[^\\r\\n])*+"
        open_ = f"{blank}{mark}(?:(?!{stop})[^{mark}]|{mark}{mark})*+"
        value = f"{comment}{open_}{mark}{rest}|(?!{blank}{mark}){rest}"
        between = f"(?:{sep}|\\r\\n|\\r|\\n)"
        return re.compile(f"(?:(?:{value}){between})*+{open_}{stop}".encode())


def _csv_marks(spec: SourceSpec) -> _CsvMarks | None:
    """Return the marks of a source.

    None if quotes are escaped in another way than by doubling them, or if there are none.
    """
    options = {name.lower(): value for name, value in with_csv_quotes(spec.options).items()}
    quote, escape = options.get("quote", '"'), options.get("escape", "")
    separator = csv_separator(spec.options)
    if len(quote) != 1 or quote != escape or not (quote + separator).isascii() or not separator:
        return None
    blank = r"[ \t]*" if options.get("ignoreleadingwhitespace", "").lower() == "true" else ""
    comment = re.escape(options.get("comment", ""))
    return _CsvMarks(quote, re.escape(quote), re.escape(separator), blank, comment)


def _check_breaks(place: _Place, content: bytes, marks: _CsvMarks) -> None:
    """Refuse a line break in a quoted value that Spark replaces by LF.

    Spark replaces line breaks that are the same as the first one of the file.
    """
    first = _LINE_BREAK.search(content)
    if first is None or first[0] == b"\n" or marks.quote.encode() not in content:
        return
    codes = np.frombuffer(content, np.uint8)
    quotes, breaks = np.flatnonzero(codes == ord(marks.quote)), np.flatnonzero(codes == ord("\r"))
    if not (np.searchsorted(quotes, breaks) & 1).any():
        return
    start = marks.broken(first[0]).match(content)
    if start is None:
        return
    name = "CR LF" if first[0] == b"\r\n" else "CR"
    raise place.refuse(
        _with_newlines(content[: start.end()]).count(b"\n") - 1,
        f"ends inside a quoted value with {name}, as the lines of the file do: Spark would read the break as LF",
        "write the lines of the file, or the breaks inside of values, with LF; or add "
        f"lineSep={quote(first[0])} to the source to read such breaks as LF",
    )


def _check_quotes(place: _Place, content: bytes, quote: int, unclosed: re.Pattern[bytes]) -> None:
    """Refuse a line break in a quoted value. A line has an odd number of quotes then."""
    if bytes([quote]) not in content:
        return
    codes = np.frombuffer(content, np.uint8)
    ends = np.flatnonzero(codes == _NEWLINE)
    counts = np.diff(np.searchsorted(np.flatnonzero(codes == quote), ends), prepend=0)
    odd = np.flatnonzero(counts & 1)
    starts = np.concatenate(([0], ends[:-1] + 1))
    for line in odd.tolist():
        if unclosed.fullmatch(content, starts[line], ends[line]):
            raise place.refuse(
                line,
                "ends inside a quoted value: Spark would read the rest of the value as another row",
                "add multiLine=true to the source, or close the quote",
            )


# --- JSON ---------------------------------------------------------------------------------------


def _check_values(place: _Place, content: bytes, *, whole: bool) -> None:
    if not _may_have_more(content, whole=whole):
        return
    for line, text in enumerate([content] if whole else content.split(b"\n")):
        if _has_more(text.decode("utf-8-sig", "ignore")):
            one, remedy = (
                ("the file", "put all values into one list, or write each into one line and remove multiLine")
                if whole
                else ("the line", "write every value into a line of its own")
            )  # fmt: skip
            raise place.refuse(
                line,
                f"has something behind the first JSON value of {one}, and Spark reads only that value",
                remedy,
                "SOURCE_UNREADABLE",
            )


def _may_have_more(content: bytes, *, whole: bool) -> bool:
    """Return False if no line, or the file as a whole, has anything behind its first JSON value.

    Brackets in texts count as brackets, so True may be wrong.
    """
    codes = np.frombuffer(content, np.uint8)
    is_open = (codes == ord("{")) | (codes == ord("["))
    brackets = np.flatnonzero(is_open | (codes == ord("}")) | (codes == ord("]")))
    opens = is_open[brackets]
    depth = np.cumsum(np.where(opens, 1, -1))
    ends = np.flatnonzero(depth == 0)
    if not len(ends) or ends[-1] != len(brackets) - 1 or depth.min() < 0:
        return bool(content.strip())
    followed = brackets[:-1][~opens[:-1] & opens[1:] & (depth[:-1] > 0)]
    if (codes[followed + 1] != ord(",")).any() or (whole and len(ends) > 1):
        return True
    # What is outside of the values: before the first, between two, behind the last.
    starts = np.concatenate(([0], brackets[ends] + 1))
    stops = np.append(brackets[np.concatenate(([0], ends[:-1] + 1))], len(codes))
    patterns = (_BEFORE_VALUES, *[_BETWEEN_VALUES] * (len(ends) - 1), _BEHIND_VALUES)
    is_newline = (stops - starts == 1) & (codes[np.minimum(starts, len(codes) - 1)] == _NEWLINE)
    return not all(
        patterns[i].fullmatch(content, starts[i], stops[i])
        for i in np.flatnonzero(~is_newline).tolist()
    )


def _has_more(text: str) -> bool:
    """Return whether a text has more than one JSON value; False for what is no JSON."""
    text = text.strip()
    try:
        _, end = _decoder.raw_decode(text)
    except (ValueError, RecursionError):
        return False
    return text[end:].strip() not in ("", ",")


def _in_file(schema: st.StructType, uri: str) -> st.StructType:
    """Return the columns that are not in the names of the folders of a file."""
    return st.StructType([f for f in schema.fields if f"/{f.name}=" not in uri])


def _names(type_: st.DataType) -> Iterator[str]:
    """Yield the names of all columns and struct fields of a type."""
    if isinstance(type_, st.StructType):
        for field in type_.fields:
            yield field.name
            yield from _names(field.dataType)
    elif isinstance(type_, st.ArrayType):
        yield from _names(type_.elementType)
    elif isinstance(type_, st.MapType):
        yield from _names(type_.valueType)


def _keys(schema: st.StructType) -> tuple[re.Pattern[bytes], frozenset[bytes]] | None:
    """Return the pattern of keys that are columns but for their case, and the keys that are columns."""
    names = {name for name in _names(schema) if name.lower() != name.upper()}
    keys = frozenset(json.dumps(name, ensure_ascii=False)[1:-1].encode() for name in names)
    pattern = b"|".join(map(re.escape, sorted(keys)))
    return (re.compile(b'"(' + pattern + b')"\\s*:', re.IGNORECASE), keys) if keys else None


def _check_keys(
    place: _Place,
    content: bytes,
    schema: st.StructType,
    keys: tuple[re.Pattern[bytes], frozenset[bytes]],
    *,
    whole: bool,
) -> None:
    names = {key.lower() for key in keys[1]}
    if not any(key.lower() in names for key in _written_keys(content) - keys[1]):
        return
    for line, text in enumerate([content] if whole else content.split(b"\n")):
        if keys[1].issuperset(keys[0].findall(text)):
            continue
        other = _other_case(_parse(text), schema)
        if other is not None:
            raise place.refuse(
                line,
                f"has the key {other[0]}, but the run reads the key {other[1]}: Spark would read null, because it compares "
                "keys with regard to case",
                f"write the key as {other[1]} in all rows; if all rows have {other[0]}, run again",
            )


def _written_keys(content: bytes) -> frozenset[bytes]:
    """Return the different texts in quotes that a colon follows."""
    codes = np.frombuffer(content, np.uint8)
    quotes = np.flatnonzero(codes == _QUOTE)
    behind = quotes + 1
    moving = np.arange(len(quotes))
    while len(moving := moving[_IS_BLANK[codes[behind[moving]]]]):
        behind[moving] += 1
        moving = moving[behind[moving] < len(codes)]
    behind[behind == len(codes)] -= 1
    ends = np.flatnonzero(codes[behind] == ord(":"))
    ends = ends[ends > 0]
    starts, lengths = quotes[ends - 1] + 1, quotes[ends] - quotes[ends - 1] - 1
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    places = np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])
    texts = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(codes[places])]
    )
    return frozenset(texts.unique().to_pylist())


def _parse(text: bytes) -> Any:
    try:
        return _decoder.raw_decode(text.decode("utf-8-sig", "ignore").strip())[0]
    except (ValueError, RecursionError):
        return None


def _other_case(value: Any, type_: st.DataType) -> tuple[str, str] | None:
    """Return a key that differs only in case from a missing field, and that field; None without one."""
    parts: Sequence[tuple[Any, st.DataType]] = ()
    if isinstance(type_, st.StructType) and isinstance(value, dict):
        missing = {f.name.lower(): f.name for f in type_.fields if f.name not in value}
        for key in value:
            if key.lower() in missing:
                return key, missing[key.lower()]
        parts = [(value.get(field.name), field.dataType) for field in type_.fields]
    elif isinstance(value, list):
        element = type_.elementType if isinstance(type_, st.ArrayType) else type_
        parts = [(one, element) for one in value]
    elif isinstance(type_, st.MapType) and isinstance(value, dict):
        parts = [(one, type_.valueType) for one in value.values()]
    pairs = (_other_case(*part) for part in parts)
    return next((pair for pair in pairs if pair is not None), None)
