"""The plan document: what a checkpoint computes, and its id, written once before its first version; another for each plan that it goes on with."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass, replace

from substrait_agg.commit.documents.envelope import damaged, seal, unreadable, unseal
from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.commit.documents.json_codec import built, encoded
from substrait_agg.commit.documents.state_schema import OperatorColumns, OperatorSchema, TableSchema

PLAN = "plan.json"
PLAN_FORMAT = 6
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")
PLANS = re.compile(rf"plan-{_FINGERPRINT.pattern}\.json")
"""Names of the documents of plans that a checkpoint went on with."""


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
    """What a checkpoint computes: written once, before the first version of its plan.

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
        kept: per operator what its state holds, to compare it with that of another plan.
        readings: the tables, in the order in which a streaming query has them as sources.
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
    shapes: tuple[OperatorColumns, ...] = ()
    described: tuple[Described, ...] = ()
    kept: tuple[OperatorSchema, ...] = ()
    readings: tuple[TableSchema, ...] = ()


def new_identity() -> str:
    """An id for a checkpoint: Spark's streaming query has the same one."""
    return str(uuid.uuid4())


def document_bytes(document: PlanDocument, identity: str) -> bytes:
    """The file of a plan document."""
    return seal({"plan": encoded(document)}, format=PLAN_FORMAT, checkpoint=identity)


def document_name(plan: str) -> str:
    """File name of the document of a plan that a checkpoint went on with; the first plan has `PLAN`.

    Raises:
        StateRefused: STATE_DAMAGED where `plan` is no fingerprint.
    """
    if not _FINGERPRINT.fullmatch(plan):
        raise damaged(PLAN, f"a version is of plan {plan[:12]!r}, which is none")
    return f"plan-{plan}.json"


def parse_document(
    content: bytes, name: str = PLAN, checkpoint: str | None = None
) -> tuple[str, PlanDocument]:
    """The id of the checkpoint, and its plan document.

    Args:
        content: the bytes of the file.
        name: of the file, for messages.
        checkpoint: id of the checkpoint that it must belong to; None for any.

    Raises:
        StateRefused: STATE_DAMAGED, STATE_FORMAT_UNKNOWN.
    """
    opened = unseal(content, name, format=PLAN_FORMAT, checkpoint=checkpoint)
    try:
        document = built(PlanDocument, opened.body["plan"])
        for operator in document.kept:
            operator.check()
    except (ValueError, TypeError, KeyError) as error:
        raise damaged(name, f"it cannot be read ({error})") from error
    return opened.checkpoint, document


def read_whole(files: FolderFiles, name: str, shown: str) -> bytes:
    """The bytes of a file that has to be there.

    Raises:
        StateRefused: STATE_DAMAGED.
    """
    try:
        return files.read(name)
    except FileNotFoundError as error:
        raise damaged(shown, "it is missing") from error
    except OSError as error:
        raise unreadable(shown, error) from error


def has_others(root: FolderFiles) -> bool:
    """Whether there are documents of other plans than the first."""
    return any(PLANS.fullmatch(name) for name in root.names())


def other_document(root: FolderFiles, plan: str, identity: str) -> PlanDocument:
    """The document of a plan that is not the first, by its fingerprint.

    Raises:
        StateRefused: STATE_DAMAGED, STATE_FORMAT_UNKNOWN.
    """
    name = document_name(plan)
    _, found = parse_document(read_whole(root, name, name), name, identity)
    if found.plan != plan:
        raise damaged(name, f"it is that of plan {found.plan[:12]}")
    return found


def publish_document(root: FolderFiles, document: PlanDocument, identity: str) -> None:
    """Write the document of a plan that is not the first, unless it is there.

    Raises:
        OSError, OutcomeUnknown: it could not be written.
    """
    root.publish(document_name(document.plan), document_bytes(document, identity))


def check_same_document(there: PlanDocument, document: PlanDocument) -> None:
    """Refuse a document of the same plan that says something else of the state; how things are worded is no matter.

    Raises:
        StateRefused: STATE_DAMAGED.
    """
    if replace(there, described=document.described) != document:
        raise damaged(
            document_name(document.plan), "it is that of another release or of other options"
        )
