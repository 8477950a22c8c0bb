"""A plan as the user gave it, decoded and bound on first use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from substrait_agg.arguments import check_types
from substrait_agg.errors import PlanRefused, PlanUnreadable, checked_choice
from substrait_agg.problem_kinds import MODES, Mode
from substrait_agg.problems import Problem, Problems

if TYPE_CHECKING:
    from substrait_agg.bind.bound import BoundPlan
    from substrait_agg.bind.context import SourceSchemas
    from substrait_agg.plan.model import DecodedPlan

PlanSource = Any
"""A plan in any accepted form: a path (`str` or `Path`), `bytes`, JSON text (`str`), or a protobuf
``Plan`` message."""

ROOT_VIEW = "root"
"""What the names of the views of a plan with several roots begin with."""

_WITH_SOURCES = "with the column types of its sources"


class NamedSource(Protocol):
    """Where a table of a plan comes from, if the plan was made of a DataFrame."""

    @property
    def spec(self) -> str:
        """Return the SPEC of its source; empty if it has none."""
        ...

    @property
    def reason(self) -> str:
        """Return why it has none."""
        ...


class PlanOrigin(Protocol):
    """The text that a plan was made from."""

    def locate(self, problem: Problem) -> Problem:
        """Return a problem of the plan with its place in the text, if one is known."""
        ...

    def mentions(self, table: str) -> bool:
        """Return whether the text has a name that can mean a table."""
        ...


@dataclass(frozen=True)
class Checked:
    """A plan after decoding and binding in one mode.

    Attributes:
        decoded: the decoded plan; None where the content cannot be decoded.
        bound: the plan ready to run; None where it has errors.
        problems: errors and warnings of both stages, in plan order.
    """

    decoded: DecodedPlan | None
    bound: BoundPlan | None
    problems: tuple[Problem, ...]


@dataclass(frozen=True)
class Plan:
    """A plan as it was given. It is decoded and bound on first use.

    Attributes:
        name: the file it came from, or empty.
        content: protobuf or protobuf-JSON as bytes, JSON text, or a protobuf message.
        origin: the text that the plan was made from; None if it was given as a plan.
        refresh: the refresh policy of the view; None for that of the run.
        root: the place of one of several roots, such as ``relations[1]``; empty for the only one.
        sources: name of a table -> where it comes from, for a plan of a DataFrame.
        collations: place of a column whose texts have a collation in Spark -> its type as JSON of Spark.
    """

    name: str
    content: Any
    origin: PlanOrigin | None = field(default=None, repr=False, compare=False)
    refresh: str | None = field(default=None, repr=False, compare=False)
    root: str = ""
    sources: Mapping[str, NamedSource] = field(default_factory=dict, repr=False, compare=False)
    collations: Mapping[int, str] = field(default_factory=dict, repr=False, compare=False)
    _checked: dict[tuple[Mode, object], Checked] = field(
        default_factory=dict, repr=False, compare=False
    )
    _views: dict[str, Plan] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    @check_types
    def from_file(cls, path: str | Path) -> Plan:
        """Read the bytes of a plan file without decoding them.

        Raises:
            UsageError: FILE_NOT_FOUND or FILE_NOT_READABLE.
        """
        from substrait_agg.plan.messages.source import file_bytes

        return cls(str(path), file_bytes(Path(path)))

    def check(self, mode: Mode = "lenient") -> Checked:
        """Decode and bind the plan. Collect the problems of both stages instead of raising them.

        Args:
            mode: ``lenient`` or ``strict``, as in `validate`.

        Raises:
            UsageError: OPTION_INVALID for an unknown mode, PLAN_SOURCE for content of another type.
        """
        from substrait_agg.functions.aggregates.registry import list_registered

        key = (mode, (list_registered()))
        if key not in self._checked:
            self._checked[key] = self._locate(_check(self.content, mode, root=self.root))
        return self._checked[key]

    def check_with(self, source_schemas: SourceSchemas) -> Checked:
        """Check the plan in lenient mode with the types of columns that it reads without types.

        The result is cached for `check_to_run`.

        Args:
            source_schemas: the columns of these tables, by table name.
        """
        checked = self._locate(_check(self.content, "lenient", source_schemas, root=self.root))
        self._checked["lenient", _WITH_SOURCES] = checked
        return checked

    def _locate(self, checked: Checked) -> Checked:
        if self.origin is None:
            return checked
        return replace(checked, problems=tuple(map(self.origin.locate, checked.problems)))

    def check_to_run(self, mode: Mode = "lenient") -> Checked:
        """Return the check that a run uses.

        This is the result of `check_with` where the last run took column types from its sources.
        Otherwise it is that of `check`.

        Args:
            mode: ``lenient`` or ``strict``, as in `validate`.
        """
        typed = self._checked.get(("lenient", _WITH_SOURCES))
        return typed if mode == "lenient" and typed is not None else self.check(mode)

    def bind(self, mode: Mode = "lenient") -> BoundPlan:
        """Return the plan ready to run.

        Args:
            mode: ``lenient`` or ``strict``, as in `validate`.

        Raises:
            PlanRefused: the plan has errors; `problems` lists them with their codes.
        """
        checked = self.check(mode)
        if checked.bound is None:
            raise PlanRefused(checked.problems)
        return checked.bound

    def views(self, mode: Mode = "lenient") -> dict[str, Plan]:
        """Return the plan of each root by the name of its view.

        The roots of a plan with several are the views ``root1``, ``root2`` and so on, in their order.
        The view of a plan with one root has an empty name.

        Args:
            mode: ``lenient`` or ``strict``, as in `validate`.
        """
        decoded = None if self.root else self.check(mode).decoded
        if decoded is None or not decoded.roots:
            return {"": self}
        if not self._views:
            for number, place in enumerate(decoded.roots, 1):
                one = replace(self, root=place, _checked={}, _views={})
                self._views[f"{ROOT_VIEW}{number}"] = one
        return dict(self._views)

    @cached_property
    def decoded(self) -> DecodedPlan:
        """Return the plan as a typed tree without protobuf objects.

        Raises:
            PlanUnreadable: PLAN_UNREADABLE; the content cannot be decoded.
        """
        checked = self.check()
        if checked.decoded is None:
            raise PlanUnreadable(checked.problems)
        return checked.decoded


def _check(
    content: Any,
    mode: Mode,
    source_schemas: SourceSchemas | None = None,
    root: str = "",
) -> Checked:
    from substrait_agg.bind import bind
    from substrait_agg.evaluation.conditions import place_conditions
    from substrait_agg.plan import decode
    from substrait_agg.report.places.order import in_plan_order

    problems = Problems(checked_choice(mode, MODES, "mode"))
    try:
        decoded = decode(content, problems, root)
    except PlanRefused as refusal:
        problems_of_both = tuple(dict.fromkeys((*problems.items, *refusal.problems)))
        return Checked(None, None, in_plan_order(_of_no_plan(content, problems_of_both)))
    bound = bind(decoded, problems, source_schemas)
    if bound is not None:
        bound = replace(bound, root=place_conditions(bound.root, problems))
    return Checked(decoded, None if problems.errors else bound, in_plan_order(problems.items))


def _of_no_plan(content: Any, problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
    """Select the problems to report for content that could not be decoded.

    Bytes that are not a plan give only PLAN_UNREADABLE: fields read before the failure mean
    nothing. JSON has keys, so misspelt keys are reported as well.
    """
    from substrait_agg.plan.messages.source import json_text, plan_bytes

    unreadable = tuple(problem for problem in problems if problem.code == "PLAN_UNREADABLE")
    if len(unreadable) in (0, len(problems)) or json_text(plan_bytes(content)) is not None:
        return problems
    return unreadable


def as_plan(source: PlanSource) -> Plan:
    """Return a plan given in any accepted form, without decoding it.

    Raises:
        UsageError: FILE_NOT_FOUND or FILE_NOT_READABLE for a path.
    """
    if isinstance(source, Plan):
        return source
    if isinstance(source, str) and _is_json(source):
        return Plan("", source)
    if isinstance(source, str | Path):
        return Plan.from_file(source)
    return Plan("", bytes(source) if isinstance(source, bytearray | memoryview) else source)


def _is_json(text: str) -> bool:
    # A path may start with // too, but a plan contains a brace.
    start = text.lstrip("\ufeff \t\r\n")
    return start.startswith(("{", "//", "/*")) and "{" in text
