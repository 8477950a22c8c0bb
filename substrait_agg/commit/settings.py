"""What is set for the next runs of a checkpoint: a small document beside its plan."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from substrait_agg.commit.snapshot import damaged

SETTINGS = "settings.json"


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a checkpoint.

    Attributes:
        partitions: of the state, for runs that are told no number; None: one per core.
    """

    partitions: int | None = None

    def to_bytes(self) -> bytes:
        """As JSON."""
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def of(content: bytes) -> Settings:
        """From `to_bytes`.

        Raises:
            StateRefused: STATE_DAMAGED.
        """
        try:
            number = json.loads(content)["partitions"]
            return Settings(None if number is None else int(number))
        except (ValueError, TypeError, KeyError) as error:
            reason = f"{error}; without it, runs take one partition per core"
            raise damaged(SETTINGS, reason) from error
