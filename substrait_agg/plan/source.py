"""What a plan can be given as, and whether it is protobuf or JSON, told by its content."""

from __future__ import annotations

import codecs
import re
from pathlib import Path
from typing import Any

from substrait_agg.errors import UsageError
from substrait_agg.plan.node import Unreadable

MAX_PLAN_BYTES = 32 * 1024 * 1024
"""Plans larger than this are refused before they are parsed."""

# What may stand before the brace of a JSON plan. A binary plan can start with a line feed (its tag of field 1)
# and a brace (a length), but then never with a quote, a brace or a comment after that.
_JSON = re.compile(rb"(?:\s|//[^\n]*\n|/\*(?s:.*?)\*/)*+\{(?:\s|//[^\n]*\n|/\*(?s:.*?)\*/)*+[\"}]")
_TEXT = re.compile(rb"[\t\n\r\x20-\x7e]{2,64}")


def plan_bytes(source: Any) -> bytes:
    """The content of a plan that is given as bytes, JSON text, a path, or a protobuf message.

    Raises:
        UsageError: it is none of these, or the file cannot be read.
        Unreadable: it is larger than `MAX_PLAN_BYTES`.
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
        message = f"a plan cannot be given as {type(source).__name__}"
        raise UsageError("PLAN_SOURCE", message, help="give bytes, JSON text, a path or a Plan")
    if len(content) > MAX_PLAN_BYTES:
        raise Unreadable("PLAN_TOO_LARGE", limit=f"{MAX_PLAN_BYTES} bytes")
    return content


def file_bytes(path: Path) -> bytes:
    """The content of a file, at most one byte more than `MAX_PLAN_BYTES`: devices and pipes have no end.

    Raises:
        UsageError: it is not there or cannot be read.
    """
    try:
        with path.open("rb") as file:
            return file.read(MAX_PLAN_BYTES + 1)
    except (FileNotFoundError, ValueError):  # a name with a null character is none
        code, message = "FILE_NOT_FOUND", "there is no such file"
    except OSError as error:
        code, message = "FILE_NOT_READABLE", (error.strerror or str(error)).lower()
    raise UsageError(code, message, help="give the path of a plan file", path=str(path))


def json_text(content: bytes) -> str | None:
    """The text of a JSON plan, or None where the content is not text.

    Raises:
        Unreadable: it is text, but not in Unicode.
    """
    for mark, encoding in (
        (codecs.BOM_UTF8, "utf-8-sig"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if content.startswith(mark):
            return _decoded(content, encoding)
    if _JSON.match(content) or (content[:1] in (b"{", b"[", b"/") and _TEXT.match(content)):
        return _decoded(content, "utf-8")
    return None


def _decoded(content: bytes, encoding: str) -> str:
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as problem:
        reason = f"byte {problem.start}: the text is not {encoding.upper()}"
        raise Unreadable("PLAN_UNREADABLE", offset=problem.start, reason=reason) from None
