"""Provide the public functions that open checkpoints: open_view and open_state."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING

from substrait_agg.arguments import check_types
from substrait_agg.optional_packages import require

if TYPE_CHECKING:
    from substrait_agg.commit import View
    from substrait_agg.commit.log.checkpoint import Checkpoint
    from substrait_agg.tools.state import State
    from substrait_agg.tools.verify.recomputed import EngineQuery, Recompute


@check_types
def open_view(checkpoint: str | Path, name: str | None = None) -> View:
    """Open a view of a checkpoint, to read it or its changes at any version. It needs no Spark.

    Args:
        checkpoint: folder of a checkpoint, or its URL in an object store.
        name: name of the view; None for the only one.

    Returns:
        The view; it reads versions as Arrow tables with the columns and types of the plan.

    Raises:
        StateRefused: NOT_A_CHECKPOINT, STATE_DAMAGED, or STATE_FORMAT_UNKNOWN for a checkpoint of
            another release.
        UsageError: VIEW_UNKNOWN, VIEW_NAME_MISSING.

    Example:
        >>> open_view("/absent")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        substrait_agg.errors.StateRefused: [NOT_A_CHECKPOINT] at /absent: this is not ...
    """
    from substrait_agg.commit import open_view as open_committed

    return open_committed(checkpoint, name)


@check_types
def open_state(checkpoint: str | Path) -> State:
    """Open the state of a checkpoint, to list, show, verify, roll back or configure it.

    It needs no Spark, except for `verify` with `deep` or `against`.

    Args:
        checkpoint: folder of a checkpoint, or its URL in an object store.

    Raises:
        StateRefused: NOT_A_CHECKPOINT.

    Example:
        >>> open_state("/absent")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        substrait_agg.errors.StateRefused: [NOT_A_CHECKPOINT] at /absent: this is not ...
    """
    from substrait_agg.tools.state import open_state as open_kept

    def open_sources(
        store: Checkpoint,
        sources: Mapping[str, str],
        log: IO[bytes] | None,
        query: EngineQuery | None,
    ) -> Recompute:
        """Open the sources of tables to compute views again."""
        require("pyspark", "pandas")
        from substrait_agg.spark.query.recompute import Recomputation

        recomputation = Recomputation(store, sources, log)
        if query is None:
            return recomputation
        from substrait_agg.spark.query.other_engine import OtherEngine

        return OtherEngine(recomputation, query, log)

    return open_kept(checkpoint, open_sources)
