"""Choose, for every batch, which operators it computes again."""

from __future__ import annotations

from dataclasses import dataclass

from substrait_agg.flow.graph.nodes import Flow, Node
from substrait_agg.refresh.checks import RunConditions, not_recomputable
from substrait_agg.refresh.cost_model import (
    RATIO,
    RATIO_OF_ROWS,
    CostHistory,
    Estimate,
    InputSize,
    LostFile,
)
from substrait_agg.refresh.ownership import operators_with
from substrait_agg.refresh.policies import RefreshPolicies

NOTHING: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Choice:
    """How a batch is computed.

    Attributes:
        operators: the operators that are computed again; the others are maintained by changes.
        reason: why, in a clause.
        measured: what its cost says: whether it is that of a full batch, and of how many bytes.
        estimate: the estimated costs that were compared.
    """

    operators: frozenset[int] = NOTHING
    reason: str = ""
    measured: tuple[tuple[bool, int], ...] = ()
    estimate: Estimate | None = None


class RefreshChooser:
    """Chooses by the policies of the views and by the cost of past batches.

    Args:
        flow: the flow.
        policies: the policy of each view; they have passed `check_policies`.
        conditions: what the run has besides.
        driver_bytes: bytes of input up to which the driver computes a batch; None if it does not matter.
    """

    def __init__(
        self,
        flow: Flow,
        policies: RefreshPolicies,
        conditions: RunConditions,
        driver_bytes: int | None = None,
    ) -> None:
        self._driver_bytes = driver_bytes
        self._full = operators_with(flow, policies, "full")
        self._auto = operators_with(flow, policies, "auto")
        self._obstacle = ""
        stores_rows = any(_stores_rows(flow.operators[o]) for o in self._auto)
        self._ratio = RATIO_OF_ROWS if stores_rows else RATIO
        self._all_full = len(self._full) == len(flow.operators)
        both = self._full | self._auto
        obstacle = next(not_recomputable(flow, both, conditions), None) if self._auto else None
        if obstacle is not None:
            self._obstacle = obstacle.reason

    @property
    def active(self) -> bool:
        """Return whether there is anything to choose, or a reason to give."""
        return bool(self._full or self._auto)

    def choose(
        self, history: CostHistory, size: InputSize | None, lost: LostFile | None = None
    ) -> Choice:
        """Choose for a batch.

        Args:
            history: the costs of past batches.
            size: the sizes of the input; None if they are not known.
            lost: a file of the input whose rows cannot be read again; None if all can.
        """
        if not self._auto:
            sizes = ((True, size.whole),) if size is not None and self._all_full else ()
            return Choice(self._full, "full: the policy is full", sizes)
        if self._obstacle:
            return Choice(self._full, f"incremental: {self._obstacle}")
        if size is None:
            reason = (
                "the input cannot be read again" if lost is None else f"{lost.uri} {lost.change}"
            )
            return Choice(self._full, f"incremental: {reason}")
        incremental, full = ((False, size.batch),), ((True, size.whole),)
        if size.batch >= size.whole:
            # Nothing is stored yet, so the cost is that of computing again.
            return Choice(self._full, "incremental: the batch has all input so far", full)
        estimate = CostHistory(history.costs, self._ratio, self._driver_bytes).estimate(size)
        if estimate is None:
            return Choice(self._full, "incremental: no batch has been measured yet", incremental)
        times = f"{estimate.incremental / 1e6:.2f} s incremental, {estimate.full / 1e6:.2f} s full"
        if estimate.full < estimate.incremental:
            return Choice(self._full | self._auto, f"full: estimated {times}", full, estimate)
        return Choice(self._full, f"incremental: estimated {times}", incremental, estimate)


def _stores_rows(node: Node) -> bool:
    """Return whether an operator stores rows, as joins do, or values of groups, as `median` does."""
    return node.groups is None or not all(tree.extremes_only for tree in node.groups.trees)
