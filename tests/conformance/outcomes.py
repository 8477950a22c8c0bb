"""What became of a case, and the comparison of values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any
from typing import Literal as OneOf

from substrait_agg.plan.types import Type
from tests.conformance.cases import Case, Literal

Verdict = OneOf["passes", "refused", "wrong"]

TOLERANCE = {"fp32": 1e-6, "fp64": 4e-16}
"""Relative error of floats beyond which a value is wrong: the files print 7 and about 16 digits."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A case and its outcome; `detail` has the codes of errors, or the unexpected result."""

    case: Case
    verdict: Verdict
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.verdict}: {self.case.text}  [{self.detail}]"


def same(found: Any, wanted: Any, type_: Type) -> bool:
    """Whether two values of one type, as Spark or Arrow hand them over, are the same."""
    if found is None or wanted is None:
        return found is None and wanted is None
    if type_.kind in TOLERANCE:
        return _same_float(float(found), float(wanted), TOLERANCE[type_.kind])
    if type_.kind == "list":
        pairs = zip(found, wanted, strict=False)
        inner = type_.children[0]
        return len(found) == len(wanted) and all(same(a, b, inner) for a, b in pairs)
    return bool(found == wanted)


def _same_float(found: float, wanted: float, tolerance: float) -> bool:
    if math.isnan(found) or math.isnan(wanted):
        return math.isnan(found) and math.isnan(wanted)
    if math.isinf(found) or math.isinf(wanted):
        return found == wanted
    return math.isclose(found, wanted, rel_tol=tolerance, abs_tol=0.0)


def shown(expected: Any) -> str:
    """An expected literal for messages."""
    return str(expected.value) if isinstance(expected, Literal) else str(expected)
