"""The plan document: what a checkpoint computes, and its id, written once before its first version."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from substrait_agg.commit.sealed import damaged, seal, unseal
from substrait_agg.commit.shapes import OperatorShape

PLAN = "plan.json"
PLAN_FORMAT = 4


@dataclass(frozen=True, slots=True)
class ViewColumn:
    """A column of the view: the operator's column and the name shown."""

    source: str
    name: str


@dataclass(frozen=True, slots=True)
class ViewSort:
    """A key of the order in which the view is shown."""

    ordinal: int
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class Guarded:
    """Where an operator keeps the rows that wait for their insertion.

    Attributes:
        operator: its id.
        tree: ordinal of its tree of whole rows; -1 where its groups are the rows.
        keys: number of key columns.
        types: Arrow schema of the keys and of the values that it reads of a row, serialised, base64.
    """

    operator: int
    tree: int
    keys: int
    types: str


@dataclass(frozen=True, slots=True)
class Described:
    """An operator, described so that people see what another plan does differently.

    Attributes:
        inputs: what it reads, branch by branch: the table and the steps after it.
        keys: its grouping expressions, and its grouping sets where there are several.
        measures: its measures as text.
        fingerprints: per measure what identifies it: the same in another plan where it computes the same over the same rows.
    """

    inputs: tuple[str, ...]
    keys: tuple[str, ...]
    measures: tuple[str, ...]
    fingerprints: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlanDocument:
    """What a checkpoint computes: written once, before its first version.

    Attributes:
        plan: fingerprint of the plan.
        layout: per operator what its state layout depends on besides the plan: the kind of its weights.
        columns: columns of the view.
        types: Arrow schema of the view, serialised, base64.
        sorts: order in which the view is shown.
        keys: number of key columns of the last operator.
        operators: number of operators.
        early: per operator what becomes of retractions that come before their insertion.
        guarded: the operators that keep such rows aside.
        watermarks: the columns that have a watermark, ``TABLE.COLUMN``.
        forget: what becomes of the rows shown of idle groups; empty where none are forgotten.
        upserts: of each source of upserts its table, key and order.
        shapes: per operator what the columns of its state mean.
        described: the operators, for people.
    """

    plan: str
    layout: tuple[str, ...]
    columns: tuple[ViewColumn, ...]
    types: str
    sorts: tuple[ViewSort, ...]
    keys: int
    operators: int
    early: tuple[str, ...] = ()
    guarded: tuple[Guarded, ...] = ()
    watermarks: tuple[str, ...] = ()
    forget: str = ""
    upserts: tuple[str, ...] = ()
    shapes: tuple[OperatorShape, ...] = ()
    described: tuple[Described, ...] = ()


def new_identity() -> str:
    """An id for a checkpoint: Spark's streaming query has the same one."""
    return str(uuid.uuid4())


def document_bytes(document: PlanDocument, identity: str) -> bytes:
    """The file of a plan document."""
    return seal({"plan": asdict(document)}, format=PLAN_FORMAT, checkpoint=identity)


def parse_document(content: bytes) -> tuple[str, PlanDocument]:
    """The id of the checkpoint, and its plan document.

    Raises:
        StateRefused: STATE_DAMAGED, STATE_FORMAT_UNKNOWN.
    """
    opened = unseal(content, PLAN, format=PLAN_FORMAT)
    try:
        body: dict[str, Any] = dict(opened.body["plan"])
        for name, build in _FIELDS.items():
            body[name] = tuple(build(item) for item in body[name])
        return opened.checkpoint, PlanDocument(**body)
    except (ValueError, TypeError, KeyError) as error:
        raise damaged(PLAN, f"it cannot be read ({error})") from error


def _described(item: dict[str, Any]) -> Described:
    return Described(**{name: tuple(texts) for name, texts in item.items()})


_FIELDS: dict[str, Callable[[Any], Any]] = {
    "layout": str,
    "columns": lambda item: ViewColumn(**item),
    "sorts": lambda item: ViewSort(**item),
    "early": str,
    "guarded": lambda item: Guarded(**item),
    "watermarks": str,
    "upserts": str,
    "shapes": OperatorShape.of,
    "described": _described,
}
"""Attributes that hold several -> how one of them is made of JSON."""
