"""From the parse tree of a test file to its cases."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from antlr4 import CommonTokenStream, InputStream, ParserRuleContext, PredictionMode, TerminalNode
from antlr4.error.ErrorListener import ErrorListener
from substrait_antlr.func_test_case.FuncTestCaseLexer import FuncTestCaseLexer
from substrait_antlr.func_test_case.FuncTestCaseParser import FuncTestCaseParser as Grammar

from substrait_agg.plan.types import Type
from tests.conformance.cases import (
    Argument,
    Call,
    Case,
    ColumnRef,
    Enum,
    Expected,
    Kind,
    Lambda,
    Literal,
    Parameter,
    Table,
    TestFile,
)
from tests.conformance.literal_texts import value_of
from tests.conformance.type_texts import type_of

_OWNER = "extension:io.substrait:"
_UNSIGNED = ("u8", "u16", "u32", "u64")
_KINDS: dict[str, Kind] = {"SCALAR": "scalar", "AGGREGATE": "aggregate", "WINDOW": "window"}


class _Strict(ErrorListener):  # type: ignore[misc]
    """Every syntax error is raised."""

    def syntaxError(self, _r: Any, _s: Any, line: int, column: int, message: str, _e: Any) -> None:  # noqa: N802
        """Called by the parser."""
        text = f"line {line}:{column} {message}"
        raise ValueError(text)


def parse(name: str, text: str) -> TestFile:
    """The cases in the text of a file.

    Raises:
        ValueError: it does not follow the grammar.
    """
    lexer = FuncTestCaseLexer(InputStream(text))
    parser = Grammar(CommonTokenStream(lexer))
    for part in (lexer, parser):
        part.removeErrorListeners()
        part.addErrorListener(_Strict())
    # Enough for these files and twice as fast as the full mode, which the listener above would ask for.
    parser._interp.predictionMode = PredictionMode.SLL
    document = parser.doc()
    header = document.header()
    kind = next(k for word, k in _KINDS.items() if word in header.version().getText().upper())
    urns = [header.include(), *header.dependency()]
    known = tuple(u.ExtensionUrn().getText().removeprefix(_OWNER) for u in urns)
    cases = [
        _case(case, (name, _group(group), known), kind)
        for group in document.testGroup()
        for case in group.getChildren()
        if kind != "window" and not isinstance(case, Grammar.TestGroupDescriptionContext)
    ]
    return TestFile(name, kind, tuple(cases))


def _group(group: Any) -> str:
    described = group.testGroupDescription()
    text = described.getText() if described is not None else ""
    return text.lstrip("# ").partition(":")[0].strip()


def _source(node: ParserRuleContext) -> str:
    stream = node.start.getInputStream()
    return " ".join(stream.getText(node.start.start, node.stop.stop).split())


def _case(node: Any, place: tuple[str, str, tuple[str, ...]], kind: Kind) -> Case:
    call, table = _aggregate(node) if kind == "aggregate" else (_call(node), None)
    options = node.funcOptions()
    chosen = tuple(
        (o.optionName().getText(), o.optionValue().getText())
        for o in (options.funcOption() if options is not None else ())
    )
    file, group, urns = place
    return Case(file, group, _source(node), urns, call, chosen, _expected(node.result()), table)


def _expected(node: Any) -> Expected:
    error = node.substraitError()
    if error is not None:
        return Expected("error" if "ERROR" in error.getText().upper() else "undefined")
    value = _argument(node.argument())
    if isinstance(value, Literal | Call):
        return Expected("value", value)
    message = f"{_source(node)} is no result"
    raise ValueError(message)


def _call(node: Any) -> Call:
    arguments = node.arguments()
    found = () if arguments is None else tuple(map(_argument, arguments.argument()))
    return Call(node.identifier().getText().lower(), found)


def _argument(node: Any) -> Argument:
    child = node.getChild(0)
    if isinstance(child, TerminalNode):
        return Parameter(child.getText())
    if isinstance(child, Grammar.EnumArgContext):
        return Enum(child.Identifier().getText())
    if isinstance(child, Grammar.FuncCallArgContext):
        return _call(child)
    # All others are a literal, two colons, and a type.
    type_ = type_of(child.getChild(2).getText())
    if isinstance(child, Grammar.LambdaArgContext):
        return _lambda(child.literalLambda(), type_)
    return Literal(type_, _value(child.getChild(0), type_))


def _lambda(node: Any, type_: Type) -> Lambda:
    written = node.lambdaParameters().getText()
    names = tuple(re.findall(r"\w+", written))
    return Lambda(type_, names, _call(node.lambdaBody()))


def _value(node: Any, type_: Type) -> Any:
    """The value of a literal of any depth."""
    if isinstance(node, Grammar.CompoundLiteralContext | Grammar.LiteralContext):
        inner = node.getChild(0)
        nested = isinstance(inner, ParserRuleContext) and not isinstance(
            inner, Grammar.NumericLiteralContext
        )
        return _value(inner, type_) if nested else value_of(inner.getText(), type_)
    if isinstance(node, Grammar.LiteralListContext):
        return tuple(_value(item, type_.children[0]) for item in node.compoundLiteral())
    if isinstance(node, Grammar.LiteralStructContext):
        items = node.compoundLiteral()
        if type_.kind in _UNSIGNED:
            return _value(items[0], type_)
        return tuple(_value(i, t) for i, t in zip(items, type_.children, strict=True))
    if isinstance(node, Grammar.LiteralMapContext):
        key, value = type_.children
        return tuple((_value(e.key, key), _value(e.value, value)) for e in node.mapEntry())
    return value_of(node.getText(), type_)


# --- aggregate functions ---------------------------------------------------------------------------


def _aggregate(node: Any) -> tuple[Call, Table]:
    if isinstance(node, Grammar.TestCaseContext):
        return _column_in_arguments(node)
    call = node.aggFuncCall()
    name = call.identifier().getText().lower()
    if isinstance(call, Grammar.SingleArgAggregateFuncCallContext):
        column = call.dataColumn()
        type_ = type_of(column.dataType().getText())
        rows = [(_value(v, type_),) for v in column.columnValues().literal()]
        return Call(name, (ColumnRef(0),)), _table((type_,), rows)
    return _compact(call, name) if hasattr(call, "aggregateFuncArgs") else _verbose(call, name)


def _column_in_arguments(node: Any) -> tuple[Call, Table]:
    """``sum(('1', '2')::u!u8)`` has the form of a scalar case over a literal of a user-defined type."""
    argument = node.arguments().argument(0).userDefinedArg()
    type_ = type_of(argument.userDefinedType().getText())
    rows = [(_value(v, type_),) for v in argument.literalStruct().compoundLiteral()]
    return Call(node.identifier().getText().lower(), (ColumnRef(0),)), _table((type_,), rows)


def _compact(call: Any, name: str) -> tuple[Call, Table]:
    arguments: list[Argument] = []
    types: dict[int, Type] = {}
    given = call.aggregateFuncArgs()
    for item in given.aggregateFuncArg() if given is not None else ():
        column = item.ColumnName()
        if column is None:
            arguments.append(_argument(item.argument()))
        else:
            ordinal = _ordinal(column)
            types[ordinal] = type_of(item.dataType().getText())
            arguments.append(ColumnRef(ordinal))
    ordered = tuple(types[i] for i in range(len(types)))
    return Call(name, tuple(arguments)), _rows(call.tableRows(), ordered)


def _verbose(call: Any, name: str) -> tuple[Call, Table]:
    defined = call.tableData()
    types = tuple(type_of(t.getText()) for t in defined.dataType())
    given = call.qualifiedAggregateFuncArgs()
    arguments: list[Argument] = [
        _argument(item.argument())
        if item.ColumnName() is None
        else ColumnRef(_ordinal(item.ColumnName()))
        for item in (given.qualifiedAggregateFuncArg() if given is not None else ())
    ]
    return Call(name, tuple(arguments)), _rows(defined.tableRows(), types)


def _ordinal(column: TerminalNode) -> int:
    return int(column.getText()[len("col") :])


def _rows(node: Any, types: tuple[Type, ...]) -> Table:
    # `(())` stands for no rows: a row without columns.
    written = [row.literal() for row in node.columnValues()]
    rows = [tuple(_value(v, t) for v, t in zip(row, types, strict=True)) for row in written if row]
    return _table(types, rows)


def _table(types: tuple[Type, ...], rows: Sequence[tuple[Any, ...]]) -> Table:
    nulls = [any(row[i] is None for row in rows) for i in range(len(types))]
    nullable = tuple(t.as_nullable(t.nullable or n) for t, n in zip(types, nulls, strict=True))
    return Table(nullable, tuple(rows))
