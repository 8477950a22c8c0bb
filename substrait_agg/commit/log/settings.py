"""The settings of a checkpoint for its next runs, in a document beside the plan."""

from __future__ import annotations

from dataclasses import dataclass

from substrait_agg.commit.documents.envelope import refuse_damage, seal, unseal
from substrait_agg.commit.documents.json_codec import build, encode
from substrait_agg.commit.hash_ranges import check_partitions
from substrait_agg.errors import UsageError

SETTINGS = "settings.json"
SETTINGS_FORMAT = 1
_WITHOUT = "without it, runs use one partition per core"


@dataclass(frozen=True, slots=True)
class CheckpointSettings:
    """The settings of a checkpoint.

    Attributes:
        partitions: number of state partitions of runs without an explicit number; None: one per
            core.
    """

    partitions: int | None = None

    def to_bytes(self, checkpoint: str) -> bytes:
        """Return the settings as a sealed document."""
        return seal(encode(self), format=SETTINGS_FORMAT, checkpoint=checkpoint)

    @staticmethod
    def of(content: bytes, checkpoint: str | None) -> CheckpointSettings:
        """Read the settings from `to_bytes`.

        If `checkpoint` is None, accept those of any checkpoint.

        Raises:
            StateRefused: STATE_DAMAGED, STATE_FORMAT_UNKNOWN.
        """
        opened = unseal(
            content, SETTINGS, format=SETTINGS_FORMAT, checkpoint=checkpoint, without=_WITHOUT
        )
        try:
            settings = build(CheckpointSettings, opened.body)
            if settings.partitions is not None:
                check_partitions(settings.partitions)
        except (ValueError, TypeError, UsageError) as error:
            raise refuse_damage(SETTINGS, f"it cannot be read ({error}); {_WITHOUT}") from error
        return settings
