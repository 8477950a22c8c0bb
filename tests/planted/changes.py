"""Changes of plan messages that several kinds of mistake have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.planted.places import Place, declared, width

NULLABLE = {"nullability": 1}
REQUIRED = {"nullability": 2}
OUTSIDE = 99
"""The number of a column, set or function that no plan has."""

Change = Callable[[Place], "Place | str | None"]
"""Changes the message at a place; returns where that is a problem if it is not at the place itself."""


# --- of the message itself ---------------------------------------------------------------------


def setting(**values: Any) -> Change:
    """Sets scalar fields of the message."""

    def change(place: Place) -> None:
        for name, value in values.items():
            setattr(place.message, name, value)

    return change


def clearing(*names: str) -> Change:
    """Clears fields of the message."""

    def change(place: Place) -> None:
        for name in names:
            place.message.ClearField(name)

    return change


def becoming(**fields: Any) -> Change:
    """Replaces the whole message by one with these fields, or by an empty one."""

    def change(place: Place) -> None:
        place.message.CopyFrom(type(place.message)(**fields))
        place.message.SetInParent()

    return change


# --- of its fields -----------------------------------------------------------------------------


def replacing(field: str, /, **fields: Any) -> Change:
    """Replaces the message in a field by one with these fields, or by an empty one."""

    def change(place: Place) -> None:
        old = getattr(place.message, field)
        old.CopyFrom(type(old)(**fields))
        old.SetInParent()

    return change


def holding(field: str, *items: dict[str, Any]) -> Change:
    """Replace the content of a repeated field by these messages."""

    def change(place: Place) -> None:
        place.message.ClearField(field)
        for item in items:
            getattr(place.message, field).add(**item)

    return change


def adding(field: str, /, **item: Any) -> Change:
    """Appends a message to the repeated field; the problem is at that message."""

    def change(place: Place) -> Place:
        getattr(place.message, field).add(**item)
        return place.child(f"{field}[-1]")

    return change


def repeating(field: str) -> Change:
    """Appends the first message of the repeated field to it once more; the problem is at the new one."""

    def change(place: Place) -> Place:
        first = place.child(f"{field}[0]").message.SerializeToString()
        getattr(place.message, field).add().MergeFromString(first)
        return place.child(f"{field}[-1]")

    return change


def dropping(field: str) -> Change:
    """Takes away the last of the repeated field."""

    def change(place: Place) -> None:
        del getattr(place.message, field)[-1]

    return change


def copying(field: str, source: str) -> Change:
    """Puts a copy of the message at path `source` (from the place) into a field; the problem is there."""

    def change(place: Place) -> Place:
        content = place.down(source).message.SerializeToString()
        target = place.down(field)
        target.message.Clear()
        target.message.MergeFromString(content)
        return target

    return change


def misplacing(ordinal: int) -> Change:
    """In the output mapping of a relation, another column in place of the last one; the problem is there."""

    def change(place: Place) -> str:
        emitted = place.message.common.emit.output_mapping
        kept = list(emitted) or list(range(width(place)))
        emitted[:] = [*kept[:-1], ordinal]
        return f"{place.path}.common.emit.output_mapping[{len(kept) - 1}]"

    return change


# --- of other places ---------------------------------------------------------------------------


def inside(steps: str, then: Change) -> Change:
    """Applies a change at a path from the place, where the problem then is."""

    def change(place: Place) -> Place | str:
        target = place.down(steps)
        return then(target) or target

    return change


def quietly(steps: str, then: Change) -> Change:
    """As `inside`, for a change whose problem is at the place itself."""

    def change(place: Place) -> None:
        then(place.down(steps))

    return change


def combined(*changes: Change) -> Change:
    """Several changes that make up one mistake; the place of the last one counts."""

    def change(place: Place) -> Place | str | None:
        results = [one(place) for one in changes]
        return results[-1]

    return change


def at_fixed_path(path: str, change: Change) -> Change:
    """A change whose problem is at a fixed place of the plan."""

    def apply(place: Place) -> str:
        change(place)
        return path

    return apply


def wrapping(kind: str, **fields: Any) -> Change:
    """Puts a relation of a kind on top of the ``Rel`` at the place; the problem is at the new relation."""

    def change(place: Place) -> Place:
        inner = place.message.SerializeToString()
        place.message.CopyFrom(type(place.message)(**{kind: fields}))
        body = place.child(kind)
        body.message.input.MergeFromString(inner)
        return body

    return change


def joining(kind: str, **fields: Any) -> Change:
    """Joins the ``Rel`` at the place with itself; the problem is at the join."""

    def change(place: Place) -> Place:
        inner = place.message.SerializeToString()
        place.message.CopyFrom(type(place.message)(**{kind: fields}))
        body = place.child(kind)
        for side in (body.message.left, body.message.right):
            side.MergeFromString(inner)
        return body

    return change


def calling(extension: str, name: str) -> Change:
    """Makes a measure or an expression call a function that is declared for it."""

    def change(place: Place) -> None:
        body = place.message
        body = body.scalar_function if place.kind == "Expression" else body
        body.function_reference = declared(place.plan, extension, name)

    return change


def at_declaration(change: Change) -> Change:
    """As `change`, which declares a function, for a problem of that declaration."""

    def apply(place: Place) -> Place:
        change(place)
        return place.top.down("extensions[-1].extension_function")

    return apply


# --- parts of plans ----------------------------------------------------------------------------


def literal(**value: Any) -> dict[str, Any]:
    """The fields of an ``Expression`` that is a literal."""
    return {"literal": value}


def argument(**expression: Any) -> dict[str, Any]:
    """The fields of a ``FunctionArgument`` that is a value."""
    return {"value": expression}


TEXT = literal(string="a")
NUMBER = literal(i64=1)
TRUTH = literal(boolean=True)
NULL = literal(null={"bool": NULLABLE})
