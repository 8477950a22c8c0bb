"""What of a query cannot be maintained, with its place in the text of the query."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from typing import Literal as OneOf

if TYPE_CHECKING:
    from substrait_agg.spark.catalyst.analyzed.tree import SparkTree

What = OneOf["relation", "expression", "type", "changing", "function"]


@dataclass
class Refusal(Exception):
    """A part of a query that has no plan.

    Attributes:
        what: ``changing`` for a value that changes although no table does, ``function`` for a
            function that a user wrote in a programming language.
        message: what it is, in the words of the query.
        help: what to write in its place.
        start: offset of its text in the query; -1 if it is not known.
        stop: offset of the last character.
    """

    what: What
    message: str
    help: str
    start: int = -1
    stop: int = -1

    def __str__(self) -> str:
        return self.message

    def at(self, tree: SparkTree) -> Refusal:
        """Return the refusal with the place of a node, if it has none of its own."""
        if self.start >= 0 or tree.start < 0:
            return self
        return replace(self, start=tree.start, stop=tree.stop)
