"""Convert the tables of functions to sections of a document, for the terminal and the docs page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from substrait_agg.functions.aggregates.catalogue import AGGREGATES
from substrait_agg.functions.aggregates.row import (
    AggregateFunction,
    Alias,
    FieldHandling,
    FunctionOption,
)
from substrait_agg.functions.aggregates.types import INTERMEDIATE_TEXTS, RESULT_TEXTS
from substrait_agg.functions.listing.catalogue_json import (
    NULLS,
    PARTIAL_PHASES,
    SCALAR_RESULTS,
    phases,
    takes_rows,
)
from substrait_agg.functions.scalars.catalogue import SCALARS
from substrait_agg.functions.scalars.forms import (
    FAMILIES,
    WORDS,
    Overload,
    ScalarFunction,
    parameter_text,
)
from substrait_agg.functions.scalars.refused import REFUSED_PARTS, REFUSED_SCALARS
from substrait_agg.functions.signatures.declarations import signatures


@dataclass(frozen=True, slots=True)
class CatalogueTable:
    """A table with a title. Cells are one line of Markdown. The first column identifies rows.

    Attributes:
        title: title of the section.
        headers: one per column.
        rows: cells, one per column.
        notes: lines below the table, numbered from 1; cells refer to them as ``[1]``.
    """

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Notes:
    """Reasons, numbered in order of first use."""

    texts: list[str] = field(default_factory=list)

    def number(self, text: str) -> str:
        """Return ``[n]`` for a reason."""
        if text not in self.texts:
            self.texts.append(text)
        return f"[{self.texts.index(text) + 1}]"

    def cell(self, part: FieldHandling) -> str:
        """Return the handling of a part of a measure, with the number of the reason."""
        return f"{part.handling} {self.number(part.reason)}" if part.reason else part.handling


def code(text: str) -> str:
    """Format a name as Markdown."""
    return f"`{text}`"


def codes(names: Iterable[str]) -> str:
    """Format names as Markdown, separated by commas."""
    return ", ".join(map(code, names))


# --- aggregate functions ---------------------------------------------------------------------


def aggregate_tables() -> tuple[CatalogueTable, ...]:
    """Return the sections of the aggregate catalogue, in the order of its rows."""
    supported = [row for row in AGGREGATES.values() if row.kind is not None]
    return (
        _measures(supported),
        _names(supported),
        _nulls(supported),
        _options(supported),
        _phases(supported),
        _list_refused(),
        _implementations(),
    )


def _measures(functions: list[AggregateFunction]) -> CatalogueTable:
    notes = _Notes()
    rows = tuple(
        (
            code(row.name), row.signature[1:-1] or "none", RESULT_TEXTS[row.result], row.state,
            _distinct(row, notes), _order(row, notes), notes.cell(row.filter),
        )
        for row in functions
    )  # fmt: skip
    headers = ("function", "arguments", "result", "state", "DISTINCT", "ORDER BY", "FILTER")
    return CatalogueTable("Aggregate functions", headers, rows, tuple(notes.texts))


def _distinct(row: AggregateFunction, notes: _Notes) -> str:
    cell = notes.cell(row.distinct)
    if takes_rows(row) and row.distinct_rows.handling != row.distinct.handling:
        text = (
            f"{row.distinct_rows.handling} where there is no argument: {row.distinct_rows.reason}"
        )
        return f"{cell} {notes.number(text)}"
    return cell


def _order(row: AggregateFunction, notes: _Notes) -> str:
    cell = notes.cell(row.order_by)
    if row.order_on_argument:
        return f"{cell} {notes.number('by the aggregated argument only')}"
    if row.ordered_form:
        return f"{cell} {notes.number('with an order, the function is the one whose name ends in _value')}"
    if row.unordered_form:
        return f"{cell} {notes.number('without an order, the first or last row to arrive counts')}"
    return cell


def _names(functions: list[AggregateFunction]) -> CatalogueTable:
    rows = tuple(
        (code(row.name), declared_by(row), ", ".join(map(alias_text, row.aliases)))
        for row in functions
    )
    return CatalogueTable("Names", ("function", "comes from", "other names"), rows)


def declared_by(row: AggregateFunction) -> str:
    """Return the extensions that declare the function, or the producers that write it."""
    declared = {s.urn for s in signatures() if s.name == row.name}
    extensions = [code(urn) for urn in row.urns if urn in declared]
    return ", ".join((*extensions, *row.producers))


def alias_text(alias: Alias) -> str:
    """Format an alias with its producers and the options that it decides."""
    said = [*alias.producers, *(f"{name} {value}" for name, value in alias.presets)]
    said += ["DISTINCT"] if alias.distinct else []
    return code(alias.name) + (f" ({', '.join(said)})" if said else "")


def _nulls(functions: list[AggregateFunction]) -> CatalogueTable:
    groups: dict[tuple[str, str], list[str]] = {}
    for row in functions:
        groups.setdefault((row.nulls, row.empty), []).append(row.name)
    rows = tuple((nulls, empty, codes(names)) for (nulls, empty), names in groups.items())
    headers = ("null arguments", "no value counts", "functions")
    return CatalogueTable("Nulls, and groups in which no value counts", headers, rows)


def _options(functions: list[AggregateFunction]) -> CatalogueTable:
    notes = _Notes()
    groups: dict[tuple[str, str], list[str]] = {}
    for row in functions:
        for name, option in row.options.items():
            key = code(name), _values(option.values, notes)
            groups.setdefault(key, []).append(code(row.name) + _only(option))
        for parameter in row.parameters:
            if parameter.role == "enum":
                key = f"{code(parameter.name)}, an argument", _values(parameter.words, notes)
                groups.setdefault(key, []).append(code(row.name))
    rows = tuple((name, values, ", ".join(names)) for (name, values), names in groups.items())
    headers = ("option", "values, the default first", "functions")
    return CatalogueTable("Options", headers, rows, tuple(notes.texts))


def _values(values: Mapping[str, FieldHandling], notes: _Notes) -> str:
    return ", ".join(
        code(value) + ("" if part.handling == "honoured" else f" {notes.cell(part)}")
        for value, part in values.items()
    )


def _only(option: FunctionOption) -> str:
    return f" of {', '.join(option.kinds)}" if option.kinds else ""


def _phases(functions: list[AggregateFunction]) -> CatalogueTable:
    notes = _Notes()
    groups: dict[str, list[AggregateFunction]] = {}
    for row in functions:
        groups.setdefault(row.intermediate, []).append(row)
    rows = tuple(
        (
            codes(row.name for row in groups[word]) if word else "all others",
            INTERMEDIATE_TEXTS[word] if word else "none",
            *(notes.cell(phases(groups[word][0])[phase]) for phase in PARTIAL_PHASES),
        )
        for word in sorted(groups, key=lambda word: not word)
    )
    headers = ("functions", "intermediate type", *map(code, PARTIAL_PHASES))
    return CatalogueTable("Phases", headers, rows, tuple(notes.texts))


def _list_refused() -> CatalogueTable:
    groups: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for row in AGGREGATES.values():
        if row.kind is None:
            groups.setdefault((row.producers, row.reason), []).append(row.name)
    rows = tuple(
        (codes(names), ", ".join(producers), reason)
        for (producers, reason), names in groups.items()
    )
    return CatalogueTable("Known and refused", ("functions", "written by", "reason"), rows)


def _implementations() -> CatalogueTable:
    groups: dict[tuple[str, str], list[str]] = {}
    for declaration in signatures():
        arguments = declaration.signature.partition(":")[2] or "no argument"
        marked = f"{code(arguments)} (deprecated)" if declaration.deprecated else code(arguments)
        groups.setdefault((declaration.name, declaration.urn), []).append(marked)
    rows = tuple(
        (code(name), code(urn), ", ".join(arguments))
        for (name, urn), arguments in sorted(groups.items())
    )
    title = f"The standard's {len(signatures())} implementations"
    return CatalogueTable(title, ("function", "extension", "arguments"), rows)


# --- scalar functions ------------------------------------------------------------------------


def scalar_tables() -> tuple[CatalogueTable, ...]:
    """Return the sections of the table of scalar functions, in the order of its rows."""
    rows = tuple(
        (code(row.name), codes(row.aliases), " or ".join(overload_texts(row)))
        for row in SCALARS.values()
    )
    headers = ("function", "other names", "arguments: result")
    overloads = CatalogueTable(f"The {len(SCALARS)} scalar functions", headers, rows)
    return (overloads, _words(), _results(), _scalar_options(), _refused_scalars())


def _refused_scalars() -> CatalogueTable:
    groups: dict[str, list[str]] = {}
    for name, reason in REFUSED_SCALARS.items():
        groups.setdefault(reason, []).append(code(name))
    for (name, part), reason in REFUSED_PARTS.items():
        groups.setdefault(reason, []).append(f"{code(name)} with {code(part)}")
    rows = tuple((", ".join(names), reason) for reason, names in groups.items())
    title = "Scalar functions of the standard that are refused"
    return CatalogueTable(title, ("functions", "reason"), rows)


def _results() -> CatalogueTable:
    groups: dict[str, list[str]] = {}
    for row in SCALARS.values():
        groups.setdefault(row.nulls, []).append(row.name)
    rows = tuple((NULLS[n], codes(names)) for n, names in groups.items() if n != "mirror")
    rest = ((NULLS["mirror"], "all others"),)
    return CatalogueTable(
        "Nullable results of scalar functions", ("result", "functions"), rows + rest
    )


def _scalar_options() -> CatalogueTable:
    groups: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for row in SCALARS.values():
        for key, of in _choices(row).items():
            groups.setdefault(key, []).append(code(row.name) + of)
    rows = tuple(
        (code(name), codes(values), ", ".join(names)) for (name, values), names in groups.items()
    )
    headers = ("option", "values, the default first", "functions")
    return CatalogueTable("Options of scalar functions", headers, rows)


def _words() -> CatalogueTable:
    families = (
        (name, codes(sorted(kinds)) + (" without maps inside" if name == "ordered" else ""))
        for name, kinds in FAMILIES.items()
        if kinds
    )
    words = ((name, codes(sorted(values))) for name, values in WORDS.items())
    rows = tuple((code(name), meaning) for name, meaning in (*families, *words))
    return CatalogueTable("Words of these arguments", ("word", "stands for"), rows)


def overload_texts(row: ScalarFunction) -> tuple[str, ...]:
    """Return the overloads as texts; overloads with the same result share a text."""
    return tuple(f"({arguments}): {result}" for arguments, result in _overloads(row.overloads))


def _overloads(overloads: Iterable[Overload]) -> Iterator[tuple[str, str]]:
    results: dict[str, list[tuple[str, ...]]] = {}
    for overload in overloads:
        parameters = tuple(map(parameter_text, overload.params)) + (
            ("...",) if overload.variadic else ()
        )
        results.setdefault(SCALAR_RESULTS[overload.result], []).append(parameters)
    for result, forms in results.items():
        yield "), (".join(", ".join(form) for form in dict.fromkeys(forms)), result


def option_texts(row: ScalarFunction) -> tuple[str, ...]:
    """Return the options as texts, with first arguments where only some overloads have one."""
    return tuple(
        f"{code(name)}: {' or '.join(values)}{of}" for (name, values), of in _choices(row).items()
    )


def _choices(row: ScalarFunction) -> dict[tuple[str, tuple[str, ...]], str]:
    """Map (option, values) to the first arguments of the overloads that have it.

    The text is empty if all overloads have it.
    """
    overloads: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for overload in row.overloads:
        for name, values in overload.options.items():
            overloads.setdefault((name, values), []).append(parameter_text(overload.params[0]))
    everywhere = len(row.overloads)
    return {
        key: "" if len(firsts) == everywhere else f" ({', '.join(dict.fromkeys(firsts))})"
        for key, firsts in overloads.items()
    }
