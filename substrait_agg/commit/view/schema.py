"""The views that a plan document describes: their names, their columns, and what a new plan changes."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from substrait_agg.commit.documents.envelope import refuse_damage
from substrait_agg.commit.documents.plan_document import PlanDocument, ViewSchema
from substrait_agg.errors import UsageError
from substrait_agg.operator.common.names import VERSION, WEIGHT

BAD_ROWS = pa.schema(
    [
        *(
            pa.field(name, pa.string())
            for name in ("source", "file", "position", "code", "reason", "row")
        ),
        pa.field(VERSION, pa.int64()),
    ]
)
"""Columns of the records of bad rows."""


def ordinals_of(schema: pa.Schema, columns: Sequence[str]) -> list[int]:
    """Return the ordinals of columns.

    Raises:
        UsageError: OPTION_INVALID.
    """
    unknown = [name for name in columns if len(schema.get_all_field_indices(name)) != 1]
    if unknown:
        raise UsageError(
            "OPTION_INVALID",
            f"the view has no column {unknown[0]!r}, or several",
            help=f"its columns are {', '.join(schema.names)}",
            path="columns",
        )
    return [schema.get_field_index(name) for name in columns]


def view_name(document: PlanDocument, name: str | None) -> str:
    """Return the name of a view as documents and snapshots have it.

    Raises:
        UsageError: VIEW_NAME_MISSING, VIEW_UNKNOWN.
    """
    names = [view.name for view in document.view_schemas]
    if name is not None:
        return named_view(document, name).name
    if len(names) == 1:
        return names[0]
    raise UsageError(
        "VIEW_NAME_MISSING",
        f"the checkpoint has several views: {', '.join(names)}",
        help=f"name one of them, as in --name {names[0]}",
        path="name",
    )


def named_view(document: PlanDocument, name: str) -> ViewSchema:
    """Return a view of a plan document by its name.

    Raises:
        UsageError: VIEW_UNKNOWN.
    """
    schema = document.view_schema(name)
    if schema is not None:
        return schema
    names = ", ".join(view.name for view in document.view_schemas if view.name)
    raise UsageError(
        "VIEW_UNKNOWN",
        f"there is no view {name!r}",
        help=f"use one of: {names}"
        if names
        else "the checkpoint has one view, without a name: leave the name out",
        path="name",
    )


def decode_schema(text: str) -> pa.Schema:
    """Return the columns of a view from their text in a plan document.

    Raises:
        StateRefused: STATE_DAMAGED.
    """
    try:
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
    except (ValueError, pa.ArrowInvalid, OSError) as error:
        raise refuse_damage("plan.json", str(error)) from error


def with_view_types(
    columns: Iterable[pa.Array | pa.ChunkedArray], schema: pa.Schema
) -> list[pa.Array | pa.ChunkedArray]:
    """Return columns with the types of the view, without a copy.

    State and change files name the fields of structs by their positions.
    """
    return [_to_viewed(c, t) for c, t in zip(columns, schema.types, strict=True)]


def _to_viewed(
    column: pa.Array | pa.ChunkedArray, type_: pa.DataType
) -> pa.Array | pa.ChunkedArray:
    if column.type == type_:
        return column
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([chunk.view(type_) for chunk in column.chunks], type_)
    return column.view(type_)


def with_versions(columns: pa.Schema) -> pa.Schema:
    """Return the columns of changes."""
    extra = [pa.field(VERSION, pa.int64()), pa.field(WEIGHT, pa.int64())]
    return pa.schema([*columns, *extra])


@dataclass(frozen=True, slots=True)
class PlanChange:
    """A version that began with another plan.

    Attributes:
        same_columns: the view has the same columns as before.
        same_tables: the plan reads the same columns of the same tables.
    """

    version: int
    same_columns: bool
    same_tables: bool

    @staticmethod
    def of(version: int, before: PlanDocument, now: PlanDocument, view: str = "") -> PlanChange:
        """Compare the documents of both plans, which both have the view."""
        tables = (frozenset(document.inputs) for document in (before, now))
        types = (named_view(document, view).types for document in (before, now))
        return PlanChange(version, next(types) == next(types), next(tables) == next(tables))
