"""What is set for the next runs of a checkpoint: a small document beside its plan."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from substrait_agg.commit.sealed import damaged, seal, unseal

SETTINGS = "settings.json"
SETTINGS_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a checkpoint.

    Attributes:
        partitions: of the state, for runs that are told no number; None: one per core.
    """

    partitions: int | None = None

    def to_bytes(self, checkpoint: str) -> bytes:
        """As a sealed document."""
        return seal(asdict(self), format=SETTINGS_FORMAT, checkpoint=checkpoint)

    @staticmethod
    def of(content: bytes, checkpoint: str) -> Settings:
        """From `to_bytes`.

        Raises:
            StateRefused: STATE_DAMAGED, STATE_FORMAT_UNKNOWN.
        """
        body = unseal(content, SETTINGS, format=SETTINGS_FORMAT, checkpoint=checkpoint).body
        try:
            number = body["partitions"]
            return Settings(None if number is None else int(number))
        except (ValueError, TypeError, KeyError) as error:
            reason = f"{error}; without it, runs take one partition per core"
            raise damaged(SETTINGS, reason) from error
