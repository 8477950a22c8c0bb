"""Refusals of a checkpoint as a whole, in the words of users."""

from __future__ import annotations

from collections.abc import Sequence

from substrait_agg.errors import StateRefused
from substrait_agg.files.locations import Location


def not_a_checkpoint(folder: Location, reason: str) -> StateRefused:
    """The folder is something else."""
    return StateRefused(
        "NOT_A_CHECKPOINT",
        reason,
        help="name the folder given to run --checkpoint, or an empty or new folder to begin one",
        path=str(folder),
    )


def rollback_unfinished(folder: Location) -> StateRefused:
    """It is in the middle of a rollback."""
    return StateRefused(
        "ROLLBACK_UNFINISHED",
        "a rollback was begun and not finished",
        help="run the same state rollback again: it goes on where it was",
        path=str(folder),
    )


def version_unknown(folder: Location, version: int, known: Sequence[int]) -> StateRefused:
    """There is no such version; those that there are."""
    span = f"{known[0]} to {known[-1]}" if known else "none yet"
    return StateRefused(
        "VERSION_UNKNOWN",
        f"there is no version {version}; committed versions: {span}",
        help="name one of those",
        path=str(folder),
    )
