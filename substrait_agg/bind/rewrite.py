"""Traverse and rewrite bound expressions and relations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from substrait_agg.bind.bound import (
    BoundAggregate,
    BoundFetch,
    BoundFilter,
    BoundInputs,
    BoundJoin,
    BoundLambda,
    BoundMeasure,
    BoundNestedValue,
    BoundProject,
    BoundRead,
    BoundRecursiveRows,
    BoundRelation,
    BoundRows,
    BoundUnnest,
    BoundWindowValues,
    Call,
    Column,
    Conditional,
    Constant,
    Conversion,
    Expr,
    GroupedRelation,
    InList,
    LambdaParameter,
    MeasureSort,
    NestedPart,
    OuterColumn,
)
from substrait_agg.functions.windows import durations_of


def parts(expression: Expr) -> tuple[Expr, ...]:
    """Return the expressions directly inside an expression."""
    match expression:
        case Call(arguments=arguments):
            return arguments
        case Conversion(input=inner):
            return (inner,)
        case NestedPart(input=inner, step=step):
            return (inner,) if isinstance(step, int) else (inner, step)
        case Conditional(clauses=clauses, otherwise=otherwise):
            return (*(e for clause in clauses for e in clause), otherwise)
        case InList(value=value, options=options):
            return (value, *options)
        case BoundNestedValue(parts=inner_parts):
            return inner_parts
        case BoundLambda(body=body):
            return (body,)
        case LambdaParameter() | Column() | OuterColumn() | Constant():
            return ()


def subexpressions(*expressions: Expr) -> Iterator[Expr]:
    """Yield expressions and all expressions inside them, each before its parts."""
    waiting = list(reversed(expressions))
    while waiting:
        expression = waiting.pop()
        yield expression
        waiting.extend(reversed(parts(expression)))


def larger_than(expression: Expr, limit: int) -> bool:
    """Return whether a written-out expression has over `limit` parts, in at most `limit` steps."""
    return any(True for _ in islice(subexpressions(expression), limit, None))


def columns_in(expression: Expr) -> Iterator[Column]:
    """Yield the columns that an expression reads, once per reference."""
    return (part for part in subexpressions(expression) if isinstance(part, Column))


def rewrite(expression: Expr, column: Callable[[Column], Expr]) -> Expr:
    """Replace every column reference by what `column` returns for it."""
    return rewrite_leaves(expression, lambda e: column(e) if isinstance(e, Column) else e)


def rewrite_leaves(expression: Expr, leaf: Callable[[Expr], Expr]) -> Expr:
    """Replace every expression without parts by what `leaf` returns for it."""
    match expression:
        case Column() | OuterColumn() | Constant() | LambdaParameter():
            return leaf(expression)
        case BoundLambda(body=body):
            return replace(expression, body=rewrite_leaves(body, leaf))
        case Call(arguments=arguments):
            return replace(expression, arguments=tuple(rewrite_leaves(a, leaf) for a in arguments))
        case Conversion(input=inner):
            return replace(expression, input=rewrite_leaves(inner, leaf))
        case NestedPart(input=inner, step=step):
            moved = step if isinstance(step, int) else rewrite_leaves(step, leaf)
            return replace(expression, input=rewrite_leaves(inner, leaf), step=moved)
        case Conditional(clauses=clauses, otherwise=otherwise):
            pairs = tuple((rewrite_leaves(c, leaf), rewrite_leaves(v, leaf)) for c, v in clauses)
            return replace(expression, clauses=pairs, otherwise=rewrite_leaves(otherwise, leaf))
        case InList(value=value, options=options):
            moved_options = tuple(rewrite_leaves(o, leaf) for o in options)
            return replace(expression, value=rewrite_leaves(value, leaf), options=moved_options)
        case BoundNestedValue(parts=inner_parts):
            return replace(expression, parts=tuple(rewrite_leaves(p, leaf) for p in inner_parts))


def renumber(expression: Expr, places: Mapping[int, int]) -> Expr:
    """Move an expression to a row in which column `o` has the ordinal ``places[o]``."""
    return rewrite(expression, lambda c: replace(c, ordinal=places[c.ordinal]))


def shift_columns(expression: Expr, by: int) -> Expr:
    """Return an expression whose columns have ordinals greater by `by`."""
    return rewrite(expression, lambda column: replace(column, ordinal=column.ordinal + by))


def renumber_measure(measure: BoundMeasure, places: Mapping[int, int]) -> BoundMeasure:
    """Move a measure to a row in which column `o` has the ordinal ``places[o]``."""
    return replace(
        measure,
        arguments=tuple(renumber(a, places) for a in measure.arguments),
        filter=None if measure.filter is None else renumber(measure.filter, places),
        order=renumber_sorts(measure.order, places),
    )


def renumber_sorts(
    sorts: Sequence[MeasureSort], places: Mapping[int, int]
) -> tuple[MeasureSort, ...]:
    """Move sort keys to a row in which column `o` has the ordinal ``places[o]``."""
    return tuple(replace(s, expression=renumber(s.expression, places)) for s in sorts)


def inputs_of(relation: BoundRelation) -> tuple[BoundRelation, ...]:
    """Return the relations that a relation reads."""
    match relation:
        case BoundRead() | BoundRows() | BoundRecursiveRows():
            return ()
        case BoundInputs():
            return relation.inputs
        case BoundJoin(left=left, right=right):
            return (left, right)
        case (
            BoundFilter()
            | BoundProject()
            | BoundUnnest()
            | BoundAggregate()
            | BoundFetch()
            | BoundWindowValues()
        ):
            return (relation.input,)


def with_inputs(relation: BoundRelation, inputs: tuple[BoundRelation, ...]) -> BoundRelation:
    """Return a relation that reads other inputs with the same columns."""
    match relation:
        case BoundRead() | BoundRows() | BoundRecursiveRows():
            return relation
        case BoundInputs():
            return replace(relation, inputs=inputs)
        case BoundJoin():
            return replace(relation, left=inputs[0], right=inputs[1])
        case (
            BoundFilter()
            | BoundProject()
            | BoundUnnest()
            | BoundAggregate()
            | BoundFetch()
            | BoundWindowValues()
        ):
            return replace(relation, input=inputs[0])


def expressions_of(relation: BoundRelation) -> Iterator[Expr]:
    """Yield the expressions that a relation computes itself."""
    match relation:
        case BoundFilter(condition=condition):
            yield condition
        case BoundProject(expressions=expressions):
            yield from expressions
        case BoundUnnest(values=values):
            yield values
        case BoundAggregate(keys=keys, measures=measures):
            yield from keys
            yield from (e for m in measures for e in m.expressions)
        case BoundJoin() | BoundWindowValues():
            yield from relation.expressions
        case BoundFetch(sorts=sorts, partitions=partitions):
            yield from partitions
            yield from (s.expression for s in sorts)
        case BoundRows(rows=rows):
            yield from (cell for row in rows for cell in row)
        case BoundRead() | BoundInputs() | BoundRecursiveRows():
            return


def relations_in(root: BoundRelation) -> Iterator[BoundRelation]:
    """Yield a relation and all below it, in plan order; a shared one comes once per reader."""
    waiting = [root]
    while waiting:
        relation = waiting.pop()
        yield relation
        waiting.extend(reversed(inputs_of(relation)))


def table_reads(root: BoundRelation) -> Iterator[BoundRead]:
    """Yield all reads of tables below a relation, in the order of the plan."""
    return (relation for relation in relations_in(root) if isinstance(relation, BoundRead))


def selected_columns(root: BoundRelation) -> tuple[GroupedRelation, tuple[int, ...]] | None:
    """Return the top stateful relation and its selected columns.

    Return None if rows are computed above the last stateful relation (a filter, an expression or a
    union), or if there is none. The view then stores rows of its own.
    """
    ordinals: tuple[int, ...] = tuple(range(len(root.types)))
    while isinstance(root, BoundProject):
        expressions = [root.expressions[o] for o in ordinals]
        plain = [e.ordinal for e in expressions if isinstance(e, Column)]
        if len(plain) < len(expressions):
            return None
        ordinals, root = tuple(plain), root.input
    return (root, ordinals) if isinstance(root, GroupedRelation) else None


def index_columns(root: BoundRelation) -> frozenset[int]:
    """Return the columns that pass on the index of the grouping set unchanged."""
    if isinstance(root, BoundAggregate):
        return frozenset({len(root.types) - 1} if root.sets else ())
    if isinstance(root, BoundFilter | BoundFetch | BoundWindowValues):
        return index_columns(root.input)
    if isinstance(root, BoundProject):
        below = index_columns(root.input)
        expressions = enumerate(root.expressions)
        return frozenset(i for i, e in expressions if isinstance(e, Column) and e.ordinal in below)
    return frozenset()


def call_durations(values: Sequence[Expr]) -> tuple[int, ...]:
    """Return the durations of a bound window call, which follow the time, in microseconds."""
    return durations_of(tuple(v.value for v in values[1:] if isinstance(v, Constant)))
