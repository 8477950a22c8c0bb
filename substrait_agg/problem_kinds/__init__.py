"""Define the table of problems of plans: code, level per mode, message, help and reason.

`kind` defines a row. The other modules list the rows, one module per area.
"""

from __future__ import annotations

from substrait_agg.problem_kinds.aggregates import AGGREGATES
from substrait_agg.problem_kinds.expressions import EXPRESSIONS
from substrait_agg.problem_kinds.joins import JOINS
from substrait_agg.problem_kinds.kind import LEVELS, MODES, Area, Level, Mode, ProblemKind
from substrait_agg.problem_kinds.plans import PLANS
from substrait_agg.problem_kinds.relations import RELATIONS

__all__ = ["KINDS", "LEVELS", "MODES", "Area", "Level", "Mode", "ProblemKind"]

KINDS: dict[str, ProblemKind] = {
    kind.code: kind for kind in (*PLANS, *RELATIONS, *JOINS, *EXPRESSIONS, *AGGREGATES)
}
