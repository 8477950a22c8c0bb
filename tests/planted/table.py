"""All kinds of mistakes that are planted."""

from __future__ import annotations

from tests.planted.mistake import Mistake
from tests.planted.mistakes_aggregates import AGGREGATES
from tests.planted.mistakes_expressions import EXPRESSIONS
from tests.planted.mistakes_joins import FETCHES, JOINS
from tests.planted.mistakes_measures import MEASURES
from tests.planted.mistakes_plans import PLANS
from tests.planted.mistakes_relations import RELATIONS
from tests.planted.mistakes_windows import WINDOWS

MISTAKES: tuple[Mistake, ...] = (
    *PLANS, *RELATIONS, *JOINS, *FETCHES, *EXPRESSIONS, *AGGREGATES, *MEASURES, *WINDOWS,
)  # fmt: skip
