"""Places in a plan message, found by their content and named by their paths."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message

STANDARD = "extension:io.substrait:"


@dataclass(frozen=True)
class Place:
    """A message inside a plan.

    Attributes:
        plan: the whole plan.
        path: as problems write it.
        message: what is there; changing it changes the plan.
        above: the place of the message that holds it, None for the plan.
    """

    plan: Any
    path: str
    message: Any
    above: Place | None = None

    @property
    def kind(self) -> str:
        """The full name of the message's type without ``substrait.``."""
        name: str = self.message.DESCRIPTOR.full_name
        return name.removeprefix("substrait.")

    @property
    def top(self) -> Place:
        """The plan itself."""
        return Place(self.plan, "", self.plan)

    @property
    def holder(self) -> Place:
        """The place of the message that contains this one."""
        assert self.above is not None, "nothing holds a plan"
        return self.above

    def inside(self) -> Iterator[Place]:
        """The place itself and all below it, outer ones first."""
        yield self
        for field, value in self.message.ListFields():
            if field.message_type is None:
                continue
            if isinstance(value, Message):
                yield from self.child(field.name).inside()
                continue
            for index in range(len(value)):
                yield from self.child(f"{field.name}[{index}]").inside()

    def child(self, step: str) -> Place:
        """The place at ``field`` or ``field[index]``; the index -1 is the last."""
        name, _, index = step.removesuffix("]").partition("[")
        value = getattr(self.message, name)
        if not index:
            return Place(self.plan, self._at(name), value, self)
        position = int(index) % len(value)
        return Place(self.plan, self._at(f"{name}[{position}]"), value[position], self)

    def down(self, steps: str) -> Place:
        """The place at a path from here, such as ``groupings[0].grouping_expressions[1]``; itself at the empty one."""
        here = self
        for step in filter(None, steps.split(".")):
            here = here.child(step)
        return here

    def enclosing(self, kind: str) -> Place:
        """The nearest place of `kind` that contains this one."""
        here = self
        while here.kind != kind:
            here = here.holder
        return here

    def _at(self, step: str) -> str:
        return f"{self.path}.{step}" if self.path else step


Finder = Callable[[Any], Place | None]
"""From a plan to the place that a mistake is planted at, None where the plan has no such place."""

Condition = Callable[[Place], bool]


def always(_: Place) -> bool:
    """Any place will do."""
    return True


def first(kind: str, holds: Condition = always) -> Finder:
    """Find the first message of type `kind` for which `holds` is true."""

    def find(plan: Any) -> Place | None:
        places = Place(plan, "", plan).inside()
        return next((p for p in places if p.kind == kind and holds(p)), None)

    return find


def relation(field: str, holds: Condition = always) -> Finder:
    """Finds the first relation written in field `field` of a ``Rel``, such as ``filter``."""
    find = first("Rel", lambda p: p.message.HasField(field) and holds(p.child(field)))

    def found(plan: Any) -> Place | None:
        place = find(plan)
        return None if place is None else place.child(field)

    return found


def names_of(plan: Any) -> dict[int, str]:
    """Anchor of every declared function -> its name without the signature."""
    functions = [e.extension_function for e in plan.extensions]
    return {f.function_anchor: f.name.partition(":")[0] for f in functions}


def measure(*names: str, holds: Condition = always) -> Finder:
    """Finds the first measure that calls one of the functions."""
    return first("AggregateFunction", lambda p: called(p) in names and holds(p))


def called(place: Place) -> str:
    """The name of the function that a measure calls."""
    return names_of(place.plan).get(place.message.function_reference, "")


def call(*names: str, holds: Condition = always) -> Finder:
    """Finds the first expression that calls one of the scalar functions."""

    def fits(place: Place) -> bool:
        function = place.message.scalar_function
        return names_of(place.plan).get(function.function_reference) in names and holds(place)

    return expression("scalar_function", fits)


def expression(kind: str, holds: Condition = always) -> Finder:
    """Finds the first expression of a kind, such as ``cast``."""
    return first("Expression", lambda p: p.message.HasField(kind) and holds(p))


def width(place: Place) -> int:
    """How many columns a relation has before its output mapping."""
    body = place.message
    if place.kind == "ReadRel":
        masked = len(body.projection.select.struct_items)
        return masked or len(body.base_schema.struct.types)
    if place.kind == "AggregateRel":
        index = len(body.groupings) > 1
        return len(body.grouping_expressions) + len(body.measures) + index
    child = place.down(f"input.{body.input.WhichOneof('rel_type')}")
    emitted = len(child.message.common.emit.output_mapping)
    own = len(body.expressions) if place.kind == "ProjectRel" else 0
    return (emitted or width(child)) + own


def declared(plan: Any, extension: str, name: str) -> int:
    """Declares one more function, of a standard extension or of one named in full; its anchor."""
    urn = extension if ":" in extension else STANDARD + extension
    anchors = {u.urn: u.extension_urn_anchor for u in plan.extension_urns}
    if urn not in anchors:
        anchors[urn] = 900 + len(anchors)
        plan.extension_urns.add(extension_urn_anchor=anchors[urn], urn=urn)
    anchor = 900 + len(plan.extensions)
    function = plan.extensions.add().extension_function
    function.function_anchor, function.name = anchor, name
    function.extension_urn_reference = anchors[urn]
    return anchor


def column(ordinal: int) -> dict[str, Any]:
    """The fields of an ``Expression`` that refers to a column."""
    reference = {"direct_reference": {"struct_field": {"field": ordinal}}, "root_reference": {}}
    return {"selection": reference}
