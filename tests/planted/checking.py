"""How a planted mistake is judged: the problems that a changed plan has and the untouched one has not."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from google.protobuf.json_format import MessageToJson

from substrait_agg import validate
from substrait_agg.problem_kinds import Mode
from substrait_agg.problems import Problem
from tests.planted.messages import new_plan
from tests.planted.mistake import Planted
from tests.planted.places import Place

Found = tuple[str, str]
"""Code and path of a problem."""

OF_TYPES = frozenset(
    {
        "OUTPUT_TYPE_MISSING", "OUTPUT_TYPE_DIFFERS", "OUTPUT_NULLABILITY", "RESULT_TYPE_MISSING",
        "RESULT_TYPE_DIFFERS", "RESULT_NULLABILITY", "ARGUMENTS_PROMOTED", "SIGNATURE_DIFFERS",
        "GROUPING_INDEX_NOT_NAMED", "KEY_TYPE_FLOAT", "BRANCHES_CONVERTED",
    }
)  # fmt: skip
"""Problems that only show where the types of the input are known."""

_RELATION = re.compile(
    r"(?:root|input|inputs\[\d+\]|rel|left|right)\.(?:read|filter|project|aggregate|sort|set|fetch|top_n|cross"
    r"|(?:hash_|merge_|nested_loop_)?join)(?=\.|$)"
)


def parsed(content: bytes) -> Any:
    """The plan as a message that can be changed."""
    plan = new_plan()
    plan.ParseFromString(content)
    return plan


def problems_of(plan: Any, mode: Mode, *, json: bool = False) -> tuple[Problem, ...]:
    """What validation finds in a plan message, given as protobuf or as protobuf-JSON."""
    content = MessageToJson(plan, indent=None) if json else plan.SerializeToString()
    return validate(content, mode).problems


def differences(
    before: tuple[Problem, ...], after: tuple[Problem, ...]
) -> tuple[list[Found], list[Found]]:
    """The problems that are new, in their order, and those that have disappeared."""
    left, gained = Counter(map(_identity, before)), []
    for problem in after:
        if left[_identity(problem)]:
            left[_identity(problem)] -= 1
        else:
            gained.append((problem.code, problem.path))
    gone = [p for p in before if left[_identity(p)]]
    return gained, [(p.code, p.path) for p in gone]


def _identity(problem: Problem) -> Found:
    return problem.code, problem.path


def explained(gone: Found, planted: Planted, plan: Any) -> bool:
    """Whether a problem may vanish because of a mistake that was planted in `plan`.

    It may where the mistake took its place (at the same function or inside it), where nothing in the changed plan
    uses the declaration any more that it is about, and where it is one of types that the mistake makes unknown,
    which are those of its own relation and of the relations above.
    """
    code, path = gone
    if path.startswith("extensions["):
        return path not in _used_declarations(plan)
    for place in (planted.place, *(path for _, path in planted.problems)):
        if _inside(path, _function(place)) or _inside(place, _function(path)):
            return True
        if code in OF_TYPES and _inside(place, relation_of(path)):
            return True
    return False


def _used_declarations(plan: Any) -> set[str]:
    """Paths of the declarations of all functions that are called."""
    used = {
        getattr(place.message, "function_reference", None)
        for place in Place(plan, "", plan).inside()
    }
    return {
        f"extensions[{index}].extension_function"
        for index, declaration in enumerate(plan.extensions)
        if declaration.extension_function.function_anchor in used
    }


def relation_of(path: str) -> str:
    """The path of the relation that contains a place."""
    ends = [match.end() for match in _RELATION.finditer(path)]
    return path[: ends[-1]] if ends else path.removesuffix(".names")


def _function(path: str) -> str:
    """Return the path of the measure that contains a place, else the path itself."""
    found = re.match(r".*\.measures\[\d+\]", path)
    return found[0] if found else path


def _inside(path: str, outer: str) -> bool:
    return path == outer or path.startswith(f"{outer}.")
