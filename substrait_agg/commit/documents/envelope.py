"""Sealed documents: JSON with its format number, the id of its checkpoint and a checksum."""

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
    """An opened document.

    Attributes:
        body: its content.
        checkpoint: id of the checkpoint that it belongs to.
        crc: its checksum, which identifies it.
        format: format number of `body`.
    """

    body: dict[str, Any]
    checkpoint: str
    crc: int
    format: int


@dataclass(frozen=True, slots=True)
class Sealed:
    """A sealed document: its bytes, and its checksum, which identifies it."""

    content: bytes
    crc: int


def seal(body: Mapping[str, Any], *, format: int, checkpoint: str) -> bytes:
    """Return a sealed document as bytes."""
    return seal_document(body, format=format, checkpoint=checkpoint).content


def seal_document(body: Mapping[str, Any], *, format: int, checkpoint: str) -> Sealed:
    """Return a sealed document."""
    whole = {**body, "format": format, "checkpoint": checkpoint}
    content = _dump(whole)
    crc = zlib.crc32(content)
    # The keys are sorted, so the checksum comes after those that precede it.
    place = len(_dump({key: value for key, value in whole.items() if key < "crc"})) - 1
    return Sealed(content[:place] + f',"crc":{crc}'.encode() + content[place:], crc)


def unseal(
    content: bytes,
    name: str,
    *,
    format: int,
    checkpoint: str | None = None,
    without: str = "",
) -> Opened:
    """Open a document that `seal` wrote.

    Args:
        content: the bytes.
        name: of the file, for messages.
        format: the newest format number that is supported.
        checkpoint: the id that the document must have; None for any.
        without: for a document that may be removed, the consequence of that. The message about
            damage ends with it.

    Raises:
        StateRefused: STATE_DAMAGED, also if the document belongs to another checkpoint.
            STATE_FORMAT_UNKNOWN.
    """
    hint = f"; {without}" if without else ""
    try:
        body = json.loads(content)
        crc = body.pop("crc")
        whole = crc == zlib.crc32(_dump(body))
        number = body.pop("format")
        # The checksum of a newer format may be computed in another way.
        other = number > format or (whole and number != format)
        owner = str(body.pop("checkpoint", ""))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise refuse_damage(name, f"it cannot be read ({error}){hint}") from error
    if other:
        raise unknown_format(name)
    if not whole:
        raise refuse_damage(name, f"its checksum does not match its content{hint}")
    if checkpoint is not None and owner != checkpoint:
        raise refuse_damage(name, f"it belongs to another checkpoint{hint}")
    return Opened(body, owner, crc, number)


def refuse_damage(name: str, reason: str) -> StateRefused:
    """Return the error for a file of a checkpoint with unexpected content."""
    return StateRefused(
        "STATE_DAMAGED",
        f"checkpoint file {name} is damaged: {reason}",
        help="restore the checkpoint folder from a copy, or start a new --checkpoint",
        path=name,
    )


def unreadable(name: str, error: Exception) -> StateRefused:
    """Return the error for a file of a checkpoint that could not be read."""
    return store_failed(name, error) or refuse_damage(name, f"it cannot be read ({error})")


def unknown_format(name: str) -> StateRefused:
    """Return the error for a document of another release."""
    return StateRefused(
        "STATE_FORMAT_UNKNOWN",
        f"checkpoint file {name} was written by a release with another format",
        help="use that release, or start a new --checkpoint",
        path=name,
    )


def _dump(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
