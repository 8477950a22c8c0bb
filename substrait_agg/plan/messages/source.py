"""Read the content of a plan from any kind of source, and detect whether it is protobuf or JSON."""

from __future__ import annotations

import codecs
import re
from pathlib import Path
from typing import Any

from substrait_agg.errors import UsageError
from substrait_agg.plan.messages.node import Unreadable

MAX_PLAN_BYTES = 32 * 1024 * 1024
"""Largest size of a plan in bytes; larger plans are refused before they are parsed."""

# Text that may precede the brace of a JSON plan. A binary plan can start with a line feed (its tag
# of field 1) and a brace (a length), but a quote, a brace or a comment never follows.
_JSON = re.compile(rb"(?:\s|//[^\n]*\n|/\*(?s:.*?)\*/)*+\{(?:\s|//[^\n]*\n|/\*(?s:.*?)\*/)*+[\"}]")
_TEXT = re.compile(rb"[\t\n\r\x20-\x7e]{2,64}")


def plan_bytes(source: Any) -> bytes:
    """Return the content of a plan given as bytes, JSON text, a path, or a protobuf message.

    Raises:
        UsageError: the source is of another kind, or the file cannot be read.
        Unreadable: the content is larger than `MAX_PLAN_BYTES`.
    """
    if isinstance(source, Path):
        content = file_bytes(source)
    elif isinstance(source, bytes | bytearray | memoryview):
        content = bytes(source)
    elif isinstance(source, str):
        content = source.encode(errors="surrogatepass")
    elif hasattr(source, "SerializeToString"):
        content = bytes(source.SerializeToString())
    else:
        message = f"a plan cannot be of type {type(source).__name__}"
        help = "give bytes, JSON text, a path or a Plan"
        if type(source).__module__.startswith("pyspark.sql."):
            help = "give sa.from_dataframe(frame), which makes a plan of a DataFrame of Spark"
        raise UsageError("PLAN_SOURCE", message, help=help)
    if len(content) > MAX_PLAN_BYTES:
        raise Unreadable("PLAN_TOO_LARGE", limit=f"{MAX_PLAN_BYTES} bytes")
    return content


def file_bytes(path: Path) -> bytes:
    """Return the content of a file, up to `MAX_PLAN_BYTES` + 1 bytes: devices and pipes may be endless.

    Raises:
        UsageError: the file does not exist or cannot be read.
    """
    try:
        with path.open("rb") as file:
            return file.read(MAX_PLAN_BYTES + 1)
    except (FileNotFoundError, ValueError):  # ValueError: a name with a null character
        code, message = "FILE_NOT_FOUND", "the file does not exist"
    except OSError as error:
        code, message = "FILE_NOT_READABLE", (error.strerror or str(error)).lower()
    raise UsageError(code, message, help="give the path of a plan file", path=str(path))


def json_text(content: bytes) -> str | None:
    """Return the text of a JSON plan, or None if the content is not text.

    Raises:
        Unreadable: the content is text, but not valid Unicode.
    """
    for mark, encoding in (
        (codecs.BOM_UTF8, "utf-8-sig"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if content.startswith(mark):
            return _decode(content, encoding)
    if _JSON.match(content) or (content[:1] in (b"{", b"[", b"/") and _TEXT.match(content)):
        return _decode(content, "utf-8")
    return None


def _decode(content: bytes, encoding: str) -> str:
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as problem:
        reason = f"byte {problem.start}: the text is not {encoding.upper()}"
        raise Unreadable("PLAN_UNREADABLE", offset=problem.start, reason=reason) from None
