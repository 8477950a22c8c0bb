"""The plan document: what a checkpoint computes.

The first plan document is written once, before the first version, and has the id of the checkpoint.
Each plan that the checkpoint continues with has a document of its own.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass, field, replace
from functools import lru_cache

from substrait_agg.commit.documents.envelope import refuse_damage, seal, unreadable, unseal
from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.commit.documents.json_codec import build, encode
from substrait_agg.commit.documents.state_schema import InputSchema, OperatorSchema
from substrait_agg.document_fields import (
    DOCUMENT_KEY,
    DOCUMENT_OMITTED,
    DOCUMENT_VALUES,
    OPTIONAL_ORDINAL,
)
from substrait_agg.explanation.tree import OperatorColumns
from substrait_agg.functions.aggregates.accumulators import STORED_WEIGHT_KINDS, WeightKind

PLAN = "plan.json"
PLAN_FORMAT = 6
PARSED_DOCUMENTS = 8
"""Documents that stay parsed, by content: each reader of a checkpoint needs the same one."""
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")
PLANS = re.compile(rf"plan-{_FINGERPRINT.pattern}\.json")
"""Names of the documents of plans that a checkpoint continued with."""


@dataclass(frozen=True, slots=True)
class ViewColumn:
    """A column of the view."""

    source: str
    name: str


@dataclass(frozen=True, slots=True)
class ViewSort:
    """A sort key of the view."""

    ordinal: int
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class ViewSchema:
    """A view of a checkpoint.

    Attributes:
        name: its name; empty for the only view of a checkpoint of one plan.
        operator: id of the operator whose rows it has.
        columns: its columns.
        types: Arrow schema of the view, serialised, base64.
        sorts: sort order of the view.
        keys: number of key columns of the operator.
        positions: the position of each column in change files that have all columns of the
            operator, because others read them; empty if they have the columns of the view.
        hidden: the operator's columns that only the sort order reads. Sort keys number them after
            `columns`.
        repeats: whether a row may be there several times, so that nothing identifies it.
    """

    name: str
    operator: int
    columns: tuple[ViewColumn, ...]
    types: str
    sorts: tuple[ViewSort, ...]
    keys: int
    positions: tuple[int, ...] = field(default=(), metadata={DOCUMENT_OMITTED: True})
    hidden: tuple[str, ...] = field(default=(), metadata={DOCUMENT_OMITTED: True})
    repeats: bool = field(default=False, metadata={DOCUMENT_OMITTED: True})

    @property
    def key_places(self) -> tuple[int, ...] | None:
        """Return the ordinals of the columns that identify a row; None if it does not show all."""
        place = {c.source: i for i, c in reversed(tuple(enumerate(self.columns)))}
        keys = [place.get(f"k{i}") for i in range(self.keys)]
        return None if None in keys else tuple(k for k in keys if k is not None)


@dataclass(frozen=True, slots=True)
class EarlyRetractionSchema:
    """Where an operator keeps the rows that wait for their insertion.

    Attributes:
        operator: id of the operator.
        tree: ordinal of its tree of whole rows; None if its groups are the rows.
        keys: number of key columns.
        types: Arrow schema of the keys and of the values that it reads of a row, serialised,
            base64.
        ports: number of its input ports; with several ports and without a tree, the group tree has
            a count per port after the total weight.
    """

    operator: int
    tree: int | None = field(metadata=OPTIONAL_ORDINAL)
    keys: int
    types: str
    ports: int = 1


@dataclass(frozen=True, slots=True)
class OperatorText:
    """A description of an operator, to show users the differences to another plan.

    Attributes:
        inputs: per branch of its input, the table and the steps after it.
        keys: its grouping expressions, and its grouping sets if there are several.
        measures: its measures as text.
        fingerprints: per measure its identity. It is the same in another plan that computes the
            same over the same rows.
    """

    inputs: tuple[str, ...]
    keys: tuple[str, ...]
    measures: tuple[str, ...]
    fingerprints: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlanDocument:
    """What a checkpoint computes. It is written once, before the first version of its plan.

    Attributes:
        plan: fingerprint of the plan.
        layout: per operator what its state layout depends on besides the plan: the kind of its
            weights.
        columns: columns of the view.
        types: Arrow schema of the view, serialised, base64.
        sorts: sort order of the view.
        keys: number of key columns of the last operator.
        operators: number of operators.
        early: per operator the treatment of early retractions.
        guarded: the operators that keep early retractions in quarantine.
        watermarks: the columns that have a watermark, ``TABLE.COLUMN``.
        forget: the treatment of the view's rows of idle groups; empty if no groups are evicted as
            idle.
        upserts: of each source of upserts its table, key and order.
        state_columns: per operator the meaning of the columns of its state.
        operator_texts: the operators, for users.
        state_schemas: per operator its state schema, to compare it with that of another plan.
        inputs: the tables, in the order in which the plan reads them.
        static: the tables whose rows are read once, in the first version, by name.
        views: the views by name. Empty for a run of one plan: `columns`, `types`, `sorts`,
            `keys` and `hidden` then describe its view, which has the rows of the last operator. Otherwise these
            are empty.
        flow: the operators and the steps between them, as `flow_document.flow_text` writes them.
            Only `state verify --deep` reads it, to compute the views again.
        hidden: the columns of the last operator that only the sort order of the view reads.
        repeats: whether a row of the view may be there several times.
    """

    plan: str
    layout: tuple[WeightKind, ...] = field(metadata={DOCUMENT_VALUES: STORED_WEIGHT_KINDS})
    columns: tuple[ViewColumn, ...]
    types: str
    sorts: tuple[ViewSort, ...]
    keys: int
    operators: int
    early: tuple[str, ...] = ()
    guarded: tuple[EarlyRetractionSchema, ...] = ()
    watermarks: tuple[str, ...] = ()
    forget: str = ""
    upserts: tuple[str, ...] = ()
    state_columns: tuple[OperatorColumns, ...] = field(
        default=(), metadata={DOCUMENT_KEY: "shapes"}
    )
    operator_texts: tuple[OperatorText, ...] = field(
        default=(), metadata={DOCUMENT_KEY: "described"}
    )
    state_schemas: tuple[OperatorSchema, ...] = field(default=(), metadata={DOCUMENT_KEY: "kept"})
    inputs: tuple[InputSchema, ...] = field(default=(), metadata={DOCUMENT_KEY: "readings"})
    static: tuple[str, ...] = field(default=(), metadata={DOCUMENT_OMITTED: True})
    views: tuple[ViewSchema, ...] = field(default=(), metadata={DOCUMENT_OMITTED: True})
    flow: str = field(default="", metadata={DOCUMENT_OMITTED: True})
    hidden: tuple[str, ...] = field(default=(), metadata={DOCUMENT_OMITTED: True})
    repeats: bool = field(default=False, metadata={DOCUMENT_OMITTED: True})

    @property
    def view_schemas(self) -> tuple[ViewSchema, ...]:
        """Return the views of the checkpoint."""
        if self.views:
            return self.views
        last = self.operators - 1
        return (
            ViewSchema(
                "",
                last,
                self.columns,
                self.types,
                self.sorts,
                self.keys,
                hidden=self.hidden,
                repeats=self.repeats,
            ),
        )

    def view_schema(self, name: str) -> ViewSchema | None:
        """Return a view by its name; None if the plan has no such view."""
        return next((view for view in self.view_schemas if view.name == name), None)

    def shows(self, operator: int) -> bool:
        """Return whether a view has the rows of an operator."""
        return any(view.operator == operator for view in self.view_schemas)

    def check_views(self) -> None:
        """Check that every view has an operator and a unique name.

        Raises:
            ValueError: one has not.
        """
        names = [view.name for view in self.views]
        if len(set(names)) < len(names) or not all(names):
            raise ValueError("two views have the same name, or one has none")
        if any(not 0 <= view.operator < self.operators for view in self.views):
            raise ValueError("a view has an unknown operator")


def new_identity() -> str:
    """Return a new id for a checkpoint."""
    return str(uuid.uuid4())


def document_bytes(document: PlanDocument, identity: str) -> bytes:
    """Return the content of the file of a plan document."""
    return seal({"plan": encode(document)}, format=PLAN_FORMAT, checkpoint=identity)


def document_name(plan: str) -> str:
    """Return the file name of the document of a plan that a checkpoint continued with.

    The first plan has the name `PLAN`.

    Raises:
        StateRefused: STATE_DAMAGED if `plan` is not a fingerprint.
    """
    if not _FINGERPRINT.fullmatch(plan):
        raise refuse_damage(PLAN, f"a version belongs to the unknown plan {plan[:12]!r}")
    return f"plan-{plan}.json"


@lru_cache(maxsize=PARSED_DOCUMENTS)
def parse_document(
    content: bytes, name: str = PLAN, checkpoint: str | None = None
) -> tuple[str, PlanDocument]:
    """Return the id of the checkpoint, and its plan document.

    Args:
        content: the bytes of the file.
        name: of the file, for messages.
        checkpoint: id of the checkpoint that it must belong to; None for any.

    Raises:
        StateRefused: STATE_DAMAGED, STATE_FORMAT_UNKNOWN.
    """
    opened = unseal(content, name, format=PLAN_FORMAT, checkpoint=checkpoint)
    try:
        document = build(PlanDocument, opened.body["plan"])
        for operator in document.state_schemas:
            operator.check()
        document.check_views()
    except (ValueError, TypeError, KeyError) as error:
        raise refuse_damage(name, f"it cannot be read ({error})") from error
    return opened.checkpoint, document


def read_whole(files: FolderFiles, name: str, shown: str) -> bytes:
    """Return the bytes of a file that must exist.

    Raises:
        StateRefused: STATE_DAMAGED.
    """
    try:
        return files.read(name)
    except FileNotFoundError as error:
        raise refuse_damage(shown, "it is missing") from error
    except OSError as error:
        raise unreadable(shown, error) from error


def has_others(root: FolderFiles) -> bool:
    """Return whether there are documents of other plans than the first."""
    return any(PLANS.fullmatch(name) for name in root.names())


def other_document(root: FolderFiles, plan: str, identity: str) -> PlanDocument:
    """Return the document of a plan that is not the first, by its fingerprint.

    Raises:
        StateRefused: STATE_DAMAGED, STATE_FORMAT_UNKNOWN.
    """
    name = document_name(plan)
    _, document = parse_document(read_whole(root, name, name), name, identity)
    if document.plan != plan:
        raise refuse_damage(name, f"it belongs to plan {document.plan[:12]}")
    return document


def publish_document(root: FolderFiles, document: PlanDocument, identity: str) -> None:
    """Write the document of a plan that is not the first, unless it exists.

    Raises:
        OSError, OutcomeUnknown: it could not be written.
    """
    root.publish(document_name(document.plan), document_bytes(document, identity))


def check_same_document(stored: PlanDocument, document: PlanDocument) -> None:
    """Refuse a document of the same plan that describes other state.

    The descriptions for users may differ, and so may paths in the text of the plan, which the flow
    has.

    Raises:
        StateRefused: STATE_DAMAGED.
    """
    same = replace(stored, operator_texts=document.operator_texts, flow=document.flow)
    if same != document:
        raise refuse_damage(
            document_name(document.plan), "it was written by another release or with other options"
        )
