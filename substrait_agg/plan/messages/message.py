"""Parse a plan's content to messages, before they are decoded."""

from __future__ import annotations

from substrait_agg.plan.messages.jsonplan import read_json
from substrait_agg.plan.messages.node import MessageNode, Unreadable
from substrait_agg.plan.messages.source import json_text
from substrait_agg.plan.messages.wire import Report, read_wire


def parse_message(content: bytes, report: Report) -> MessageNode:
    """Parse a ``Plan`` message from protobuf or protobuf-JSON.

    Report unknown fields and bad values.

    Raises:
        Unreadable: the content is neither, or exceeds a limit.
    """
    text = json_text(content)
    return read_wire(content, report) if text is None else read_json(text, report)


def read_message(content: bytes | str) -> MessageNode | None:
    """Return what can be read of a ``Plan`` message, protobuf or JSON; None if nothing can."""
    encoded = content.encode(errors="surrogatepass") if isinstance(content, str) else content
    try:
        return parse_message(encoded, _ignore)
    except Unreadable:
        return None


def unreadable_at(content: bytes) -> int | None:
    """Return the position at which reading a plan fails; None if it does not fail or is unknown.

    Returns:
        An offset in characters for JSON text, in bytes for any other content.
    """
    try:
        parse_message(content, _ignore)
    except Unreadable as reason:
        return reason.offset
    return None


def _ignore(code: str, path: str, **params: object) -> None:
    """Ignore a problem: decoding reports it."""
