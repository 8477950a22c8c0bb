"""Commit each batch as one snapshot. The checkpoint is also the materialised view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from substrait_agg.deferred_imports import defer

if TYPE_CHECKING:
    from substrait_agg.commit.log.checkpoint import Checkpoint
    from substrait_agg.commit.view.view import View, open_view

__all__ = ["Checkpoint", "View", "open_view"]

__getattr__ = defer(
    __name__, {"Checkpoint": "log.checkpoint", "View": "view.view", "open_view": "view.view"}
)
