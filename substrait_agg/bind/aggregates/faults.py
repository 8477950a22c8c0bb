"""Find and report the arguments that an aggregate function does not take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal as OneOf

from substrait_agg.bind.aggregates.arguments import fits, within_group
from substrait_agg.bind.aggregates.candidate import MeasureCandidate
from substrait_agg.bind.bound import Argument, value_arguments
from substrait_agg.bind.context import BindContext, is_keyable
from substrait_agg.bind.expressions.calls import (
    arguments_given,
    arguments_needed,
    describe_argument,
)
from substrait_agg.bind.places import argument_place
from substrait_agg.functions.aggregates.row import AggregateFunction, FunctionParameter
from substrait_agg.plan.model import EnumArgument


@dataclass(frozen=True, slots=True)
class Fault:
    """An argument that is not accepted.

    Attributes:
        kind: ``number`` (too many or too few), ``word`` (of an enumeration), or ``type``.
        position: position of the argument; -1 if the number is wrong.
        parameter: the parameter that it was given for; None for a surplus argument.
    """

    kind: OneOf["number", "word", "type"]
    position: int = -1
    parameter: FunctionParameter | None = None


def report_faults(
    candidate: MeasureCandidate, row: AggregateFunction, context: BindContext
) -> None:
    """Report the arguments of a measure that its function does not take."""
    arguments = within_group(row, candidate.arguments, candidate.order.expressions)
    ahead = len(arguments) - len(candidate.arguments)
    for fault in tuple(_faults(row, arguments)) or (Fault("number"),):
        position = fault.position - ahead
        if fault.kind == "number":
            context.report(
                "ARGUMENT_COUNT", f"{candidate.measure.path}.arguments", function=candidate.name,
                needed=_describe_need(row), count=arguments_given(len(candidate.arguments)), takes=row.signature,
            )  # fmt: skip
        elif fault.kind == "word" and fault.parameter is not None:
            _report_word(candidate, position, fault.parameter, context)
        else:
            report_type(candidate, position, row.signature, context)


def report_type(
    candidate: MeasureCandidate, position: int, takes: str, context: BindContext
) -> None:
    """Report an argument whose type is not accepted. -1 is the sort key that gives the value."""
    measure = candidate.measure
    sort_key = f"{measure.path}.sorts[0].expr"
    context.report(
        "FUNCTION_ARGUMENTS", sort_key if position < 0 else argument_place(measure, position),
        function=candidate.name, types=", ".join(map(describe_argument, candidate.arguments)), takes=takes,
    )  # fmt: skip


def report_incomparable(
    candidate: MeasureCandidate, row: AggregateFunction, context: BindContext
) -> None:
    """Report the first argument whose values have no equality, for a measure that stores values."""
    values = value_arguments(candidate.arguments)
    incomparable = next((v for v in values if not is_keyable(v.type)), None)
    position = next((i for i, a in enumerate(candidate.arguments) if a is incomparable), 0)
    report_type(candidate, position, row.signature, context)


def _report_word(
    candidate: MeasureCandidate, position: int, parameter: FunctionParameter, context: BindContext
) -> None:
    argument = candidate.arguments[position]
    word = argument.value if isinstance(argument, EnumArgument) else ""
    context.report(
        "ENUM_ARGUMENT_INVALID", argument_place(candidate.measure, position), function=candidate.name,
        argument=parameter.name, word=repr(word), words=", ".join(parameter.words),
    )  # fmt: skip


def _describe_need(row: AggregateFunction) -> str:
    least = sum(not p.optional for p in row.parameters)
    return arguments_needed(least, len(row.parameters), more=any(p.repeats for p in row.parameters))


def _faults(row: AggregateFunction, arguments: tuple[Argument, ...]) -> Iterator[Fault]:
    """Yield the faults found when matching the arguments with the parameters in order."""
    least = sum(not p.optional for p in row.parameters)
    repeats = any(p.repeats for p in row.parameters)
    if len(arguments) < least or (not repeats and len(arguments) > len(row.parameters)):
        yield Fault("number")
        return
    rest = list(enumerate(arguments))
    passed_over: list[int] = []
    for parameter in row.parameters:
        matched = False
        while rest and (parameter.repeats or not matched):
            fault = _fault(parameter, rest[0][1], rest[0][0])
            if fault is not None and fault.kind == "type" and parameter.optional:
                passed_over.append(fault.position)
                break
            if fault is not None:
                yield fault
            rest.pop(0)
            matched = True
        if not matched and not parameter.optional:
            yield Fault("number")
            return
    if rest:
        # A surplus argument probably belongs to a skipped optional parameter, so the fault is where
        # that parameter was skipped.
        yield Fault("type", passed_over[0] if passed_over else rest[0][0])


def _fault(parameter: FunctionParameter, argument: Argument, position: int) -> Fault | None:
    if fits(parameter, argument):
        return None
    word = isinstance(argument, EnumArgument) and parameter.role == "enum"
    return Fault("word" if word else "type", position, parameter)
