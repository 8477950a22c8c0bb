"""List the steps of every batch and where they run.

They run on Spark before an operator, in its tasks, and after the last operator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from substrait_agg.explanation.tree import (
    ExplainedInput,
    ExplainedKey,
    ExplainedView,
    Place,
    RunStep,
)
from substrait_agg.flow.graph.nodes import Node

Template = tuple[str, Place, str]

SUMMED: tuple[Template, ...] = (
    ("partial", "spark", "aggregate the batch {by}"),
    ("exchange", "spark", "{exchanged} to the partition of {target}"),
)
"""Spark steps if the state consists of sums."""

ROW_WISE: tuple[Template, ...] = (("exchange", "spark", "rows to the partition of {target}"),)
"""Spark steps otherwise."""

TASKS: tuple[Template, ...] = (
    ("restore", "operator", "read what the touched groups hold"),
    ("guard", "operator", "{guard}"),
    ("merge", "operator", "add the batch to it, exactly{looked_up}"),
    ("emit", "operator", "{emit}"),
    ("save", "operator", "write {saved}; merge some older runs"),
)
"""Steps in the tasks of an operator. A step without text is left out."""

EARLY: dict[str, str] = {
    "carry": "",
    "refuse": "fail the batch where a row is retracted more often than inserted",
    "quarantine": "keep aside rows that are retracted more often than inserted",
}
"""What happens to early retractions; empty if they count at once."""

REPLACE = "retract the row last emitted, insert the new one, where they differ"
BY_POLICY = f"for the groups that the emission policy lets through, by default all: {REPLACE}"


def steps_of(
    node: Node,
    keys: tuple[ExplainedKey, ...],
    inputs: tuple[ExplainedInput, ...],
    *,
    by_policy: bool,
) -> tuple[RunStep, ...]:
    """Return every step from the changes of the inputs to the changes of the operator.

    Args:
        node: the operator.
        keys: its keys.
        inputs: its inputs.
        by_policy: whether the emission policy selects the groups that it emits, as for the groups
            that the view shows.
    """
    words = _words(node, keys, by_policy=by_policy)
    steps = (
        RunStep(name, place, text.format_map(words))
        for name, place, text in (*(ROW_WISE if node.row_wise else SUMMED), *TASKS)
    )
    return (*_prepared(node, inputs), *(step for step in steps if step.what))


def _prepared(node: Node, inputs: tuple[ExplainedInput, ...]) -> Iterator[RunStep]:
    done = list(dict.fromkeys(step.kind for branch in inputs for step in branch.steps))
    then = f", then {' and '.join(done)}" if done else ""
    yield RunStep("scan", "spark", f"the changes of this batch{then}, as listed under input")
    computed = [word for word, made in (("keys", node.keys), ("arguments", node.arguments)) if made]
    if computed:
        filtered = any(m.filter is not None for m in node.measures)
        nulls = "; null where the FILTER of a measure does not hold" if filtered else ""
        yield RunStep("prepare", "spark", f"compute {' and '.join(computed)}{nulls}")
    if node.rows_per_row > 1:
        yield RunStep("expand", "spark", f"every row once per {_multiplied(node)}")
    if len(inputs) > 1:
        yield RunStep("union", "spark", f"the rows of {len(inputs)} inputs")


def _multiplied(node: Node) -> str:
    windows = node.windows_per_row
    hopping = f"window it is in (at most {windows})" if windows > 1 else ""
    if not node.sets:
        return hopping
    sets = f"grouping set (x {len(node.sets)})"
    return f"{sets}, and in those with the hopping window per {hopping}" if hopping else sets


def _words(node: Node, keys: tuple[ExplainedKey, ...], *, by_policy: bool) -> Mapping[str, str]:
    """Return the words for the templates of an operator."""
    named = ", ".join([*(key.name for key in keys), *(["grouping set"] if node.sets else [])])
    # A global aggregate always sums first, and so does one with arbitrary weights, which are split
    # into limbs.
    sums = not named or node.weight == "weighted"
    entries = not all(tree.extremes_only for tree in node.trees)
    return {
        "by": (f"by {named}" if named else "to one group")
        + ("" if sums else ", unless its keys hardly repeat"),
        "exchanged": "partial groups" if sums else "partial groups, or else rows,",
        "target": "their key" if node.key_types else "the one group",
        "guard": EARLY[node.early],
        "looked_up": "; look up the changed values in the trees" if entries else "",
        "saved": "touched groups and changed values as new sorted runs"
        if entries
        else "the touched groups as a new sorted run",
        "emit": _emitted(node, by_policy=by_policy),
    }


def _emitted(node: Node, *, by_policy: bool) -> str:
    return node.describe().emits or (BY_POLICY if by_policy else REPLACE)


def after(view: ExplainedView) -> Iterator[RunStep]:
    """Yield the steps after the last operator: in every batch, and on reading the view."""
    yield RunStep("commit", "driver", "publish all runs and changes as one version")
    yield RunStep("deliver", "driver", "outputs, from committed versions only")
    if view.order:
        yield RunStep("order", "reader", f"the view by {', '.join(o.name for o in view.order)}")
