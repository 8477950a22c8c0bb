"""Traverse and rewrite bound expressions and relations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from substrait_agg.bind.bound import (
    BoundAggregate,
    BoundFetch,
    BoundFilter,
    BoundJoin,
    BoundLambda,
    BoundNestedValue,
    BoundProject,
    BoundRead,
    BoundRelation,
    BoundRows,
    BoundSetOperation,
    BoundUnion,
    Call,
    Column,
    Conditional,
    Constant,
    Conversion,
    Expr,
    InList,
    LambdaParameter,
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


def larger_than(expression: Expr, limit: int) -> bool:
    """Return whether an expression has more than `limit` parts when written out.

    The function takes at most `limit` steps.
    """
    waiting, seen = [expression], 0
    while waiting:
        seen += 1
        if seen > limit:
            return True
        waiting.extend(parts(waiting.pop()))
    return False


def columns_in(expression: Expr) -> Iterator[Column]:
    """Yield the columns that an expression reads, once per reference."""
    if isinstance(expression, Column):
        yield expression
    for part in parts(expression):
        yield from columns_in(part)


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


def inputs_of(relation: BoundRelation) -> tuple[BoundRelation, ...]:
    """Return the relations that a relation reads."""
    match relation:
        case BoundRead() | BoundRows():
            return ()
        case BoundUnion() | BoundSetOperation():
            return relation.inputs
        case BoundJoin(left=left, right=right):
            return (left, right)
        case BoundFilter() | BoundProject() | BoundAggregate() | BoundFetch():
            return (relation.input,)


def with_inputs(relation: BoundRelation, inputs: tuple[BoundRelation, ...]) -> BoundRelation:
    """Return a relation that reads other inputs with the same columns."""
    match relation:
        case BoundRead() | BoundRows():
            return relation
        case BoundUnion() | BoundSetOperation():
            return replace(relation, inputs=inputs)
        case BoundJoin():
            return replace(relation, left=inputs[0], right=inputs[1])
        case BoundFilter() | BoundProject() | BoundAggregate() | BoundFetch():
            return replace(relation, input=inputs[0])


def table_reads(root: BoundRelation) -> Iterator[BoundRead]:
    """Yield all reads of tables below a relation, in the order of the plan."""
    waiting = [root]
    while waiting:
        relation = waiting.pop()
        if isinstance(relation, BoundRead):
            yield relation
        waiting.extend(reversed(inputs_of(relation)))


StatefulRelation = BoundAggregate | BoundSetOperation
"""Relations that become operators with state."""


def selected_columns(root: BoundRelation) -> tuple[StatefulRelation, tuple[int, ...]] | None:
    """Return the top stateful relation and its selected columns.

    Return None if rows are computed above the last stateful relation (a filter, an expression or a
    union), or if there is none. The view then stores rows of its own.
    """
    wanted: tuple[int, ...] = tuple(range(len(root.types)))
    while isinstance(root, BoundProject):
        picked = [root.expressions[o] for o in wanted]
        plain = [e.ordinal for e in picked if isinstance(e, Column)]
        if len(plain) < len(picked):
            return None
        wanted, root = tuple(plain), root.input
    return (root, wanted) if isinstance(root, StatefulRelation) else None


def index_columns(root: BoundRelation) -> frozenset[int]:
    """Return the columns that pass on the index of the grouping set unchanged."""
    if isinstance(root, BoundAggregate):
        return frozenset({len(root.types) - 1} if root.sets else ())
    if isinstance(root, BoundFilter | BoundFetch):
        return index_columns(root.input)
    if isinstance(root, BoundProject):
        below = index_columns(root.input)
        picked = enumerate(root.expressions)
        return frozenset(i for i, e in picked if isinstance(e, Column) and e.ordinal in below)
    return frozenset()


def call_durations(values: Sequence[Expr]) -> tuple[int, ...]:
    """Return the durations of a bound window call in microseconds.

    They follow the time among its arguments.
    """
    return durations_of(tuple(v.value for v in values[1:] if isinstance(v, Constant)))
