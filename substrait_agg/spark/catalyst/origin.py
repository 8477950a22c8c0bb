"""The SQL text that a plan comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from substrait_agg.problems import Problem
from substrait_agg.scripts.script import Statement
from substrait_agg.scripts.tokens import place_at, tokens


@dataclass(frozen=True)
class SqlOrigin:
    """The statement that a plan comes from, and the place in its script of each part of the plan.

    Attributes:
        statement: the statement.
        places: path in the plan -> offsets of the first and the last character.
    """

    statement: Statement
    places: Mapping[str, tuple[int, int]]

    def locate(self, problem: Problem) -> Problem:
        """Return a problem with a place in the SQL text, if one is known.

        The path is then that place, and the path in the plan is at the end of the message.
        """
        path = problem.path
        while path and path not in self.places:
            path = path.rpartition(".")[0]
        if not path:
            return problem
        start, stop = self.places[path]
        place = place_at(self.statement.script, start, stop + 1)
        message = f"{problem.message} (at {problem.path} of the plan)"
        path = place.path(self.statement.file)
        return replace(problem, path=path, message=message, excerpt=place.excerpt)

    def mentions(self, table: str) -> bool:
        """Return whether the query has a name that can mean a table."""
        last = table.rpartition(".")[2].lower()
        words = tokens(self.statement.query)
        return any(t.kind in ("word", "quoted") and t.name.lower() == last for t in words)
