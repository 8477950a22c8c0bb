"""Errors that refuse a checkpoint as a whole."""

from __future__ import annotations

from collections.abc import Sequence

from substrait_agg.errors import StateRefused
from substrait_agg.files.locations import Location


def not_a_checkpoint(folder: Location, reason: str) -> StateRefused:
    """Return the error for a folder that is not a checkpoint."""
    return StateRefused(
        "NOT_A_CHECKPOINT",
        reason,
        help="name the folder given to run --checkpoint, or an empty or new folder to begin one",
        path=str(folder),
    )


def rollback_unfinished(folder: Location) -> StateRefused:
    """Return the error for a checkpoint with an unfinished rollback."""
    return StateRefused(
        "ROLLBACK_UNFINISHED",
        "a rollback was begun and not finished",
        help="run the same state rollback again: it goes on where it was",
        path=str(folder),
    )


def version_unknown(folder: Location, version: int, known: Sequence[int]) -> StateRefused:
    """Return the error for an unknown version. The message names the known ones."""
    span = f"{known[0]} to {known[-1]}" if known else "none yet"
    return StateRefused(
        "VERSION_UNKNOWN",
        f"there is no version {version}; committed versions: {span}",
        help="name one of those",
        path=str(folder),
    )
