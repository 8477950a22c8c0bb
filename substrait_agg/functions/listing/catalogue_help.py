"""Describe one function in full, as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches

from substrait_agg.errors import UsageError
from substrait_agg.functions.aggregates.catalogue import (
    AGGREGATE_NAMES,
    WINDOW_FUNCTIONS,
    find,
)
from substrait_agg.functions.aggregates.row import (
    AggregateFunction,
    Alias,
    FieldHandling,
    FunctionParameter,
)
from substrait_agg.functions.aggregates.types import INTERMEDIATE_TEXTS, RESULT_TEXTS
from substrait_agg.functions.listing.catalogue_json import (
    NULLS,
    phases,
    standard_aggregates,
    standard_scalars,
    takes_rows,
    urn_of,
)
from substrait_agg.functions.listing.catalogue_tables import (
    alias_text,
    declared_by,
    option_texts,
    overload_texts,
)
from substrait_agg.functions.listing.markdown import plain, record
from substrait_agg.functions.scalars.catalogue import SCALAR_NAMES, SCALARS
from substrait_agg.functions.scalars.forms import ScalarFunction
from substrait_agg.functions.scalars.refused import refusal
from substrait_agg.functions.signatures.declarations import Signature

Pairs = Iterator[tuple[str, str]]
Found = tuple[AggregateFunction, Alias] | ScalarFunction


def lookup(name: str) -> Found:
    """Find a function by name or alias.

    Returns:
        An aggregate row with the alias, or a scalar row.

    Raises:
        UsageError: FUNCTION_UNKNOWN, with similar names.
    """
    spelling = name.strip().lower()
    aggregate = find(spelling)
    if aggregate is not None:
        return aggregate
    if spelling in SCALAR_NAMES:
        return SCALARS[SCALAR_NAMES[spelling]]
    if spelling in WINDOW_FUNCTIONS:
        message = f"{name} is a window function, which is supported; only scalar and aggregate functions are described here"
        raise UsageError("FUNCTION_UNKNOWN", message, help="read docs/window-functions.md")
    if refusal(spelling):
        message = f"the scalar function {name} is not supported: {refusal(spelling)}"
        raise UsageError("FUNCTION_UNKNOWN", message, help=_LIST)
    near = get_close_matches(spelling, (*AGGREGATE_NAMES, *SCALAR_NAMES), n=5, cutoff=0.6)
    help = f"did you mean {', '.join(near)}?" if near else _LIST
    raise UsageError("FUNCTION_UNKNOWN", f"there is no function {name}", help=help)


_LIST = "substrait-agg functions lists all functions"


def declarations(function: Found) -> tuple[Signature, ...]:
    """Return the standard's declarations of a function."""
    if isinstance(function, ScalarFunction):
        return standard_scalars(function.name)
    return standard_aggregates(function[0].name)


def function_help(function: Found, refusals: Mapping[tuple[str, str], str], width: int) -> str:
    """Describe a function and its declarations in the standard.

    Args:
        function: the function.
        refusals: (last part of the URN, signature) of declarations that cannot be called -> why.
        width: width of the text in characters.
    """
    scalar = isinstance(function, ScalarFunction)
    pairs = _scalar(function) if isinstance(function, ScalarFunction) else _aggregate(*function)
    declared = declarations(function)
    blocks = [record(((n, plain(v)) for n, v in pairs), width)]
    if declared:
        whose = "STANDARD" if ":" not in declared[0].urn else "DECLARED"
        blocks.append(f"{whose} IMPLEMENTATIONS ({len(declared)})")
        blocks += [
            record(_signature(s, refusals.get((s.urn, s.signature), ""), scalar=scalar), width)
            for s in declared
        ]
    return "\n\n".join(blocks)


# --- aggregate functions ---------------------------------------------------------------------


def _aggregate(row: AggregateFunction, alias: Alias) -> Pairs:
    yield "function", f"{row.name}, an aggregate function"
    if alias.name != row.name:
        yield "asked for", f"{alias_text(alias)}, an alias"
    yield "comes from", declared_by(row)
    if row.kind is None:
        yield "refused", row.reason
        return
    yield "other names", "\n".join(map(alias_text, row.aliases))
    yield "arguments", "\n".join(map(_parameter, row.parameters)) or "none"
    yield "result", RESULT_TEXTS[row.result]
    yield "null arguments", row.nulls
    yield "over no values", row.empty
    yield "state", row.state
    yield "DISTINCT", _describe(row.distinct)
    if takes_rows(row):
        yield "DISTINCT of rows", _describe(row.distinct_rows)
    yield "ORDER BY", _order(row)
    yield "FILTER", _describe(row.filter)
    if row.intermediate:
        yield "state of phases", INTERMEDIATE_TEXTS[row.intermediate]
    yield "phases", _lines(phases(row).items())
    yield from _choices(row)


def _parameter(parameter: FunctionParameter) -> str:
    kinds = ", ".join(parameter.as_float)
    return f"{parameter} ({kinds} as fp64)" if kinds else str(parameter)


def _order(row: AggregateFunction) -> str:
    said = _describe(row.order_by)
    if row.order_on_argument:
        said += ", by the aggregated argument only"
    if row.ordered_form:
        said += f"; it is then {row.ordered_form}"
    if row.unordered_form:
        said += f"; without one it is {row.unordered_form}"
    return said


def _choices(row: AggregateFunction) -> Pairs:
    for name, option in row.options.items():
        of = f" (for {', '.join(option.kinds)})" if option.kinds else ""
        yield f"option {name}", _lines(option.values.items()) + of
    for parameter in row.parameters:
        if parameter.role == "enum":
            yield f"argument {parameter.name}", _lines(parameter.words.items())
    for name, value in row.settings:
        yield f"always {name}", value


def _describe(part: FieldHandling) -> str:
    return f"{part.handling}: {part.reason}" if part.reason else part.handling


def _lines(parts: Iterable[tuple[str, FieldHandling]]) -> str:
    return "\n".join(f"{name} {_describe(part)}" for name, part in parts)


# --- scalar functions and declarations -------------------------------------------------------


def _scalar(row: ScalarFunction) -> Pairs:
    yield "function", f"{row.name}, a scalar function"
    yield "other names", ", ".join(row.aliases)
    yield "overloads", "\n".join(overload_texts(row))
    yield "result", NULLS[row.nulls]
    yield "options", "\n".join(option_texts(row))


def _signature(declaration: Signature, refusal: str, *, scalar: bool) -> Pairs:
    yield declaration.signature, urn_of(declaration.urn)
    yield "  refused", refusal
    for argument in declaration.arguments:
        constant = ", a constant" if argument.constant else ""
        said = " or ".join(argument.words) if argument.words else argument.type
        yield f"  {argument.name or 'argument'}", f"{said}{constant}"
    yield (
        "  returns",
        f"{'; '.join(declaration.returns.split(chr(10)))} ({declaration.nullability})",
    )
    if declaration.variadic is not None:
        yield "  repeats", f"the last argument, at least {declaration.variadic} times"
    if declaration.intermediate:
        yield "  partial", declaration.intermediate
    if not scalar:
        yield "  decomposable", declaration.decomposable
        yield "  ordered", "yes" if declaration.ordered else "no"
    for name, values in declaration.options.items():
        yield f"  {name}", ", ".join(values)
    if declaration.deprecated:
        yield "  deprecated", f"since {declaration.deprecated}"
