"""A plan's content as the message it holds, before anything in it is understood."""

from __future__ import annotations

from substrait_agg.plan.jsonplan import read_json
from substrait_agg.plan.node import Node, Unreadable
from substrait_agg.plan.source import json_text
from substrait_agg.plan.wire import Report, read_wire


def parse_message(content: bytes, report: Report) -> Node:
    """The ``Plan`` message in protobuf or protobuf-JSON; unknown fields and bad values are reported.

    Raises:
        Unreadable: it is neither, or exceeds a limit.
    """
    text = json_text(content)
    return read_wire(content, report) if text is None else read_json(text, report)


def read_message(content: bytes | str) -> Node | None:
    """The ``Plan`` message in protobuf or protobuf-JSON; what cannot be read in it is left out.

    Returns:
        The root of the message, or None where nothing can be read.
    """
    given = content.encode(errors="surrogatepass") if isinstance(content, str) else content
    try:
        return parse_message(given, _unheard)
    except Unreadable:
        return None


def unreadable_at(content: bytes) -> int | None:
    """Where reading a plan has to stop, if it has to and the place is known.

    Returns:
        An offset in characters of the text of a JSON plan, in bytes of any other content.
    """
    try:
        parse_message(content, _unheard)
    except Unreadable as reason:
        return reason.offset
    return None


def _unheard(code: str, path: str, **params: object) -> None:
    """Findings are those of decoding; who reads the message again has them already."""
