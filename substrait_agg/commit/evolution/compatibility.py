"""Compare the plan and the options of a checkpoint with those of a run."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from substrait_agg.commit.documents.flow_document import differing_parts
from substrait_agg.commit.documents.plan_document import OperatorText, PlanDocument
from substrait_agg.commit.evolution.planner import Evolution
from substrait_agg.errors import StateRefused

SHOWN = 8
"""Number of differences that a message lists."""

_OWN_FOLDER = "use one checkpoint folder per plan"
_OPTIONS = ("KEYS_DIFFER", "STATIC_DIFFERS", "WATERMARK_DIFFERS", "TTL_DIFFERS")
"""Codes of differences that come from the options of a run, not from its plan."""

_KIND = re.compile(r"operator \d+ (?:kind )?was ")
"""A difference in the kind of an operator, which descriptions for users do not have."""

_NOTHING = OperatorText((), (), (), ())


def check_same(stored: PlanDocument, document: PlanDocument, folder: str) -> None:
    """Refuse a checkpoint that was made for something else.

    Raises:
        StateRefused: PLAN_DIFFERS, KEYS_DIFFER, STATIC_DIFFERS, WEIGHTS_DIFFER,
            EARLY_RETRACTION_DIFFERS, WATERMARK_DIFFERS or TTL_DIFFERS.
    """
    for code, message, help in _findings(stored, document, _OWN_FOLDER):
        raise StateRefused(code, f"the checkpoint was made {message}", help=help, path=folder)


def check_evolved(
    stored: PlanDocument,
    document: PlanDocument,
    folder: str,
    evolution: Evolution | None,
    *,
    reasons: Sequence[str],
    evolve: bool,
) -> Evolution:
    """Refuse another plan unless the user asked for an evolution and it is possible.

    Returns:
        The evolution.

    Raises:
        StateRefused: PLAN_DIFFERS, EVOLVE_REFUSED, or as `check_same`.
    """
    if not evolve:
        help = _OWN_FOLDER
        if evolution is not None:
            help = (
                f"continue with the new plan from the stored state with --evolve, or {_OWN_FOLDER}"
            )
        for code, message, advice in _findings(stored, document, help):
            raise StateRefused(code, f"the checkpoint was made {message}", help=advice, path=folder)
    same_plan = replace(stored, plan=document.plan)
    if evolution is not None:
        # `evolution` has compared these operator by operator.
        same_plan = replace(same_plan, early=document.early, layout=document.layout)
    for code, message, help in _findings(same_plan, document, ""):
        if code in _OPTIONS or evolution is not None:
            raise StateRefused(code, f"the checkpoint was made {message}", help=help, path=folder)
    if evolution is None:
        raise StateRefused(
            "EVOLVE_REFUSED",
            f"the checkpoint cannot continue with this plan: {differences_line(reasons)}",
            help=(
                "remove what cannot be computed from the stored state, or start a new --checkpoint, which reads "
                "all input again"
            ),
            path=folder,
        )
    return evolution


def _findings(
    stored: PlanDocument, document: PlanDocument, other_plan: str
) -> Iterator[tuple[str, str, str]]:
    """Yield code, message and advice of each difference, the most informative first."""
    if stored.plan != document.plan:
        lines = differences_line(differences(stored, document))
        names = f"{stored.plan[:12]}, not {document.plan[:12]}"
        lines = (
            lines or "both compute the same; they declare other columns or types of their tables"
        )
        message = f"for another plan ({names}): {lines}"
        yield "PLAN_DIFFERS", message, other_plan
    for rule in _RULES:
        if rule.differs(stored, document):
            message = rule.message.format(*map(rule.text, (stored, document)))
            yield rule.code, message, f"{rule.advice}, or start a new --checkpoint{rule.reason}"


@dataclass(frozen=True, slots=True)
class _Rule:
    """A property of a checkpoint that a run has to share.

    Attributes:
        code: code of the error.
        differs: compares the documents of the checkpoint and of the run.
        message: message of the error, with the texts of both.
        advice: what the user can do besides starting a new checkpoint.
        reason: why a new checkpoint is needed, if it is not obvious.
    """

    code: str
    differs: Callable[[PlanDocument, PlanDocument], bool]
    message: str
    text: Callable[[PlanDocument], str]
    advice: str
    reason: str = ""


def _compare_by(value: Callable[[PlanDocument], object]) -> Callable[..., bool]:
    return lambda there, document: value(there) != value(document)


def _other_policy(stored: PlanDocument, document: PlanDocument) -> bool:
    """Compare the policies for early retractions.

    The layout depends on the policy. Without retractions, the policy has no effect.
    """
    return stored.early != document.early and _find_retracting(stored) == _find_retracting(document)


def differences(stored: PlanDocument, document: PlanDocument) -> list[str]:
    """Return the differences of another plan, in the words of `explain`.

    If the descriptions of both plans are equal, the differences are in the words of the flow. The
    list is empty if the flows are equal too, or are not known.
    """
    lines: list[str] = []
    several = max(len(stored.operator_texts), len(document.operator_texts)) > 1
    pairs = zip_longest(stored.operator_texts, document.operator_texts, fillvalue=_NOTHING)
    for number, (before, now) in enumerate(pairs):
        where = f" of operator {number}" if several else ""
        for kind, old, new in (
            ("input", before.inputs, now.inputs),
            ("key", before.keys, now.keys),
            ("measure", before.measures, _measures(now, before)),
        ):
            lines += _differing_texts(f"{kind}{where}", old, new)
    lines += _columns(stored, document)
    if (stored.sorts, stored.hidden) != (document.sorts, document.hidden):
        lines.append("the order of the view differs")
    parts = differing_parts(stored.flow, document.flow)
    return [*filter(_KIND.match, parts), *lines] if lines else parts


def _measures(now: OperatorText, before: OperatorText) -> list[str]:
    """Return the measures of a plan as text.

    A measure of the old plan keeps its old text, even if the new plan words it differently.
    """
    text_by_fingerprint = dict(zip(before.fingerprints, before.measures, strict=True))
    pairs = zip(now.fingerprints, now.measures, strict=True)
    return [text_by_fingerprint.get(fingerprint, text) for fingerprint, text in pairs]


def _differing_texts(kind: str, before: Iterable[str], now: Iterable[str]) -> list[str]:
    counts_before, new = Counter(before), Counter(now)
    common = counts_before & new
    return [
        *(f"{kind} {text} is not in the new plan" for text in (counts_before - common).elements()),
        *(f"{kind} {text} is not in the checkpoint" for text in (new - common).elements()),
    ]


def _columns(stored: PlanDocument, new_document: PlanDocument) -> list[str]:
    before, now = ([c.name for c in document.columns] for document in (stored, new_document))
    if before == now:
        return []
    return [f"the columns were {', '.join(before)} and are {', '.join(now)}"]


def differences_line(lines: Sequence[str]) -> str:
    """Return differences on one line, at most `SHOWN` of them."""
    more = [f"and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
    return "; ".join([*lines[:SHOWN], *more])


def _list_names(names: str | tuple[str, ...]) -> str:
    return (names if isinstance(names, str) else ", ".join(names)) or "nothing"


def _find_retracting(document: PlanDocument) -> tuple[bool, ...]:
    """Return which operators receive retractions."""
    return tuple(kind != "append_only" for kind in document.layout)


def _keys(document: PlanDocument) -> str:
    return f"the keys {'; '.join(document.upserts)}" if document.upserts else "sources without keys"


def _policy(document: PlanDocument) -> str:
    return next((word for word in document.early if word != "carry"), "carry")


_DURATIONS = "as before (durations may change)"
_RULES = (
    _Rule(
        "KEYS_DIFFER", _compare_by(lambda d: d.upserts),
        "for {}, not for {}", _keys,
        "give the sources the same key= and order= as before",
    ),
    _Rule(
        "STATIC_DIFFERS", _compare_by(lambda d: d.static),
        "with the static tables {}, not {}", lambda d: _list_names(d.static),
        "give static=true for the same tables as before",
        ": rows of a static table are read once, and rows that were joined with it are not stored",
    ),
    # Closed or evicted groups cannot be restored, and groups without an event time cannot get one.
    _Rule(
        "WATERMARK_DIFFERS", _compare_by(lambda d: d.watermarks),
        "with --watermark of {}, not of {}", lambda d: _list_names(d.watermarks),
        f"give --watermark {_DURATIONS}",
    ),
    _Rule(
        "TTL_DIFFERS", _compare_by(lambda d: d.forget),
        "with --ttl of {}, not of {}", lambda d: _list_names(d.forget),
        f"give --ttl {_DURATIONS}",
    ),
    _Rule(
        "EARLY_RETRACTION_DIFFERS", _other_policy,
        "with --early-retraction {}, not {}", _policy,
        "give the same --early-retraction as before",
    ),
    _Rule(
        "WEIGHTS_DIFFER", _compare_by(lambda d: d.layout),
        "for sources with weights {}, not {}", lambda d: ", ".join(d.layout),
        "give the same weight= or op= as before",
    ),
)  # fmt: skip
"""The properties that a run has to share with its checkpoint, the most informative first."""
