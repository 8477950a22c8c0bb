"""Compare the plan and the options of a checkpoint with those of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest

from substrait_agg.commit.documents.plan_document import OperatorText, PlanDocument
from substrait_agg.commit.evolution.planner import Evolution
from substrait_agg.errors import StateRefused

SHOWN = 8
"""Number of differences that a message lists."""

_OWN_FOLDER = "use one checkpoint folder per plan"
_OPTIONS = ("KEYS_DIFFER", "STATIC_DIFFERS", "WATERMARK_DIFFERS", "TTL_DIFFERS")
"""Codes of differences that come from the options of a run, not from its plan."""

_NOTHING = OperatorText((), (), (), ())


def check_same(there: PlanDocument, wanted: PlanDocument, folder: str) -> None:
    """Refuse a checkpoint that was made for something else.

    Args:
        there: its plan document.
        wanted: that of the run.
        folder: its folder, for messages.

    Raises:
        StateRefused: PLAN_DIFFERS, KEYS_DIFFER, STATIC_DIFFERS, WEIGHTS_DIFFER,
            EARLY_RETRACTION_DIFFERS, WATERMARK_DIFFERS or TTL_DIFFERS.
    """
    for code, message, help in _findings(there, wanted, _OWN_FOLDER):
        raise StateRefused(code, f"the checkpoint was made {message}", help=help, path=folder)


def check_evolved(
    there: PlanDocument,
    wanted: PlanDocument,
    folder: str,
    found: Evolution | None,
    *,
    reasons: Sequence[str],
    evolve: bool,
) -> Evolution:
    """Refuse another plan unless the user asked for an evolution and it is possible.

    Args:
        there: the document of the current plan.
        wanted: that of the run.
        folder: of the checkpoint, for messages.
        found: the evolution to the new plan; None if it is impossible.
        reasons: why it is impossible.
        evolve: whether the user asked for an evolution.

    Returns:
        The evolution.

    Raises:
        StateRefused: PLAN_DIFFERS, EVOLVE_REFUSED, or as `check_same`.
    """
    if not evolve:
        help = _OWN_FOLDER
        if found is not None:
            help = (
                f"continue with the new plan from the stored state with --evolve, or {_OWN_FOLDER}"
            )
        for code, message, advice in _findings(there, wanted, help):
            raise StateRefused(code, f"the checkpoint was made {message}", help=advice, path=folder)
    same_plan = replace(there, plan=wanted.plan)
    if found is not None:
        # `evolution` has compared these operator by operator.
        same_plan = replace(same_plan, early=wanted.early, layout=wanted.layout)
    for code, message, help in _findings(same_plan, wanted, ""):
        if code in _OPTIONS or found is not None:
            raise StateRefused(code, f"the checkpoint was made {message}", help=help, path=folder)
    if found is None:
        raise StateRefused(
            "EVOLVE_REFUSED",
            f"the checkpoint cannot continue with this plan: {differences_line(reasons)}",
            help=(
                "remove what cannot be computed from the stored state, or start a new --checkpoint, which reads "
                "all input again"
            ),
            path=folder,
        )
    return found


def _findings(
    there: PlanDocument, wanted: PlanDocument, other_plan: str
) -> Iterator[tuple[str, str, str]]:
    """Yield code, message and advice of each difference, the most informative first."""
    if there.plan != wanted.plan:
        said = differences_line(differences(there, wanted))
        names = f"{there.plan[:12]}, not {wanted.plan[:12]}"
        yield (
            "PLAN_DIFFERS",
            f"for another plan ({names})" + (f": {said}" if said else ""),
            other_plan,
        )
    if there.upserts != wanted.upserts:
        yield (
            "KEYS_DIFFER",
            f"for {_keys(there)}, not for {_keys(wanted)}",
            "give the sources the same key= and order= as before, or start a new --checkpoint",
        )
    if there.static != wanted.static:
        yield (
            "STATIC_DIFFERS",
            f"with the static tables {_listed(there.static)}, not {_listed(wanted.static)}",
            (
                "give static=true for the same tables as before, or start a new --checkpoint: rows of a static table "
                "are read once, and rows that were joined with it are not stored"
            ),
        )
    # Closed or evicted groups cannot be restored, and groups without an event time cannot get one.
    for code, option, before, now in (
        ("WATERMARK_DIFFERS", "--watermark", there.watermarks, wanted.watermarks),
        ("TTL_DIFFERS", "--ttl", there.forget, wanted.forget),
    ):
        if before != now:
            yield (
                code,
                f"with {option} of {_listed(before)}, not of {_listed(now)}",
                f"give {option} as before (durations may change), or start a new --checkpoint",
            )
    # The layout depends on the policy. Without retractions, the policy has no effect.
    if there.early != wanted.early and _retracting(there) == _retracting(wanted):
        yield (
            "EARLY_RETRACTION_DIFFERS",
            f"with --early-retraction {_policy(there)}, not {_policy(wanted)}",
            "give the same --early-retraction as before, or start a new --checkpoint",
        )
    if there.layout != wanted.layout:
        yield (
            "WEIGHTS_DIFFER",
            f"for sources with weights {', '.join(there.layout)}, not {', '.join(wanted.layout)}",
            "give the same weight= or op= as before, or start a new --checkpoint",
        )


def differences(there: PlanDocument, wanted: PlanDocument) -> list[str]:
    """Return the differences of another plan, in the words of `explain`.

    The list is empty if the descriptions of both plans are equal.
    """
    found: list[str] = []
    several = max(len(there.operator_texts), len(wanted.operator_texts)) > 1
    pairs = zip_longest(there.operator_texts, wanted.operator_texts, fillvalue=_NOTHING)
    for number, (before, now) in enumerate(pairs):
        where = f" of operator {number}" if several else ""
        for kind, old, new in (
            ("input", before.inputs, now.inputs),
            ("key", before.keys, now.keys),
            ("measure", before.measures, _measures(now, before)),
        ):
            found += _differing_texts(f"{kind}{where}", old, new)
    found += _columns(there, wanted)
    if there.sorts != wanted.sorts:
        found.append("the order of the view differs")
    return found


def _measures(now: OperatorText, before: OperatorText) -> list[str]:
    """Return the measures of a plan as text.

    A measure of the old plan keeps its old text, even if the new plan words it differently.
    """
    known = dict(zip(before.fingerprints, before.measures, strict=True))
    pairs = zip(now.fingerprints, now.measures, strict=True)
    return [known.get(fingerprint, text) for fingerprint, text in pairs]


def _differing_texts(kind: str, before: Iterable[str], now: Iterable[str]) -> list[str]:
    gone, new = Counter(before), Counter(now)
    common = gone & new
    return [
        *(f"{kind} {text} is not in the new plan" for text in (gone - common).elements()),
        *(f"{kind} {text} is not in the checkpoint" for text in (new - common).elements()),
    ]


def _columns(there: PlanDocument, wanted: PlanDocument) -> list[str]:
    before, now = ([c.name for c in document.columns] for document in (there, wanted))
    if before == now:
        return []
    return [f"the columns were {', '.join(before)} and are {', '.join(now)}"]


def differences_line(found: Sequence[str]) -> str:
    """Return differences on one line, at most `SHOWN` of them."""
    more = [f"and {len(found) - SHOWN} more"] if len(found) > SHOWN else []
    return "; ".join([*found[:SHOWN], *more])


def _listed(given: str | tuple[str, ...]) -> str:
    return (given if isinstance(given, str) else ", ".join(given)) or "nothing"


def _retracting(document: PlanDocument) -> tuple[bool, ...]:
    """Return which operators receive retractions."""
    return tuple(kind != "append_only" for kind in document.layout)


def _keys(document: PlanDocument) -> str:
    return f"the keys {'; '.join(document.upserts)}" if document.upserts else "sources without keys"


def _policy(document: PlanDocument) -> str:
    return next((word for word in document.early if word != "carry"), "carry")
