"""Sealed documents: JSON that says its format and which checkpoint it belongs to, under a checksum of all of it."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from substrait_agg.errors import StateRefused
from substrait_agg.state.storage import store_failed


@dataclass(frozen=True, slots=True)
class Opened:
    """A document that was opened.

    Attributes:
        body: its content.
        checkpoint: the checkpoint that it was written for.
        crc: its checksum, which tells it from every other document.
        format: number of the form that `body` has.
    """

    body: dict[str, Any]
    checkpoint: str
    crc: int
    format: int


def seal(body: Mapping[str, Any], *, format: int, checkpoint: str) -> bytes:
    """A document as bytes.

    Args:
        body: its content, JSON values.
        format: number of the form that `body` has.
        checkpoint: id of the checkpoint that it belongs to.
    """
    whole = {**body, "format": format, "checkpoint": checkpoint}
    return _dump({**whole, "crc": zlib.crc32(_dump(whole))})


def unseal(
    content: bytes,
    name: str,
    *,
    format: int,
    checkpoint: str | None = None,
    without: str = "",
    also: int | None = None,
) -> Opened:
    """What `seal` was given.

    Args:
        content: the bytes.
        name: of the file, for messages.
        format: the one that is known here.
        checkpoint: the id that the document must have; None for any.
        without: of a document that may be removed, what comes of that; for the message that it is damaged.
        also: an older format that is known as well.

    Raises:
        StateRefused: STATE_DAMAGED (also where it belongs to another checkpoint), STATE_FORMAT_UNKNOWN.
    """
    hint = f"; {without}" if without else ""
    try:
        body = json.loads(content)
        crc = body.pop("crc")
        whole = crc == zlib.crc32(_dump(body))
        found = body.pop("format")
        # How a newer format is checksummed is not known here.
        other = found > format or (whole and found not in (format, also))
        owner = str(body.pop("checkpoint", ""))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise damaged(name, f"it cannot be read ({error}){hint}") from error
    if other:
        raise unknown_format(name)
    if not whole:
        raise damaged(name, f"its checksum does not match its content{hint}")
    if checkpoint is not None and owner != checkpoint:
        raise damaged(name, f"it belongs to another checkpoint{hint}")
    return Opened(body, owner, crc, found)


def damaged(name: str, reason: str) -> StateRefused:
    """The error for a file of a checkpoint that is not what was written."""
    return StateRefused(
        "STATE_DAMAGED",
        f"checkpoint file {name} is damaged: {reason}",
        help="restore the checkpoint folder from a copy, or start again with a new --checkpoint",
        path=name,
    )


def unreadable(name: str, error: Exception) -> StateRefused:
    """The error for a file of a checkpoint that could not be read."""
    return store_failed(name, error) or damaged(name, f"it cannot be read ({error})")


def unknown_format(name: str) -> StateRefused:
    """The error for a document of another release."""
    return StateRefused(
        "STATE_FORMAT_UNKNOWN",
        f"checkpoint file {name} was written by a release with another format",
        help="use that release, or start again with a new --checkpoint",
        path=name,
    )


def _dump(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
