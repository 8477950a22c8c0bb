"""Bind joins: their type, keys, condition and columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from substrait_agg.bind.bound import BoundProject, BoundRelation, Call, Expr, JoinKey, JoinKind
from substrait_agg.bind.context import (
    BindContext,
    Bound,
    Opaque,
    Schema,
    columns,
    is_unknown,
    schema_of,
    unknown,
)
from substrait_agg.bind.conversions import unify
from substrait_agg.bind.expressions.binder import bind_condition, bind_expression, constant_in
from substrait_agg.bind.expressions.function_names import check_declared
from substrait_agg.bind.joins.conjunctions import EQUALITIES, conjunction, conjuncts
from substrait_agg.bind.joins.keys import is_comparable, make_join, split_condition
from substrait_agg.bind.joins.marks import can_be_null, is_nullable_key, mark_join
from substrait_agg.bind.joins.null_aware import is_null_aware, null_aware_join
from substrait_agg.bind.rewrite import renumber
from substrait_agg.bind.subqueries.conditions import SplitCondition
from substrait_agg.bind.subqueries.decorrelate import NotDecorrelatedError
from substrait_agg.bind.subqueries.joins import BoundSubquery
from substrait_agg.plan import model

KINDS: dict[str, tuple[JoinKind, bool]] = {
    "inner": ("inner", False), "full": ("full", False),
    "left": ("left", False), "right": ("left", True),
    "left_semi": ("semi", False), "right_semi": ("semi", True),
    "left_anti": ("anti", False), "right_anti": ("anti", True),
    "left_single": ("single", False), "right_single": ("single", True),
    "left_mark": ("mark", False), "right_mark": ("mark", True),
}  # fmt: skip
"""Type of a join in the plan -> the kind of the bound join, and whether its inputs are swapped."""

Schemas = tuple[Schema | None, Schema | None]
"""Column types of the left and the right input; None if they are unknown."""

RESIDUALS_SINCE = 91
"""Minor version of Substrait that separates the residual condition from the post-join filter."""


def bind_join(node: model.JoinRel, left: Bound, right: Bound, context: BindContext) -> Bound:
    """Bind a join whose inputs are bound. The post-join filter is left out.

    Returns:
        The join, below a projection if its inputs are swapped or have values of subqueries; opaque if
        its columns are unknown.
    """
    kind = _kind(node, context)
    schemas = schema_of(left), schema_of(right)
    of_condition: list[BoundSubquery] = []
    keys = _written_keys(node, schemas, context)
    condition = _condition(node, schemas, context.adding(of_condition))
    if isinstance(left, Opaque) or isinstance(right, Opaque) or kind is None:
        return Opaque(node.path)
    if not of_condition:
        return _match(node, kind, (left, right), keys, condition, context)
    paths = node.path, node.path if node.condition is None else node.condition.path
    split = SplitCondition(kind, (len(left.types), len(right.types)), of_condition)
    try:
        split.add(condition)
    except NotDecorrelatedError as error:
        context.report("SUBQUERY_NOT_SUPPORTED", paths[1], place=str(error))
        return Opaque(node.path)
    inputs = split.inputs((left, right), paths, context)
    return split.output(
        _match(node, kind, inputs, keys, split.condition(), context), paths, context
    )


def _match(
    node: model.JoinRel,
    kind: tuple[JoinKind, bool],
    inputs: Sequence[Bound],
    keys: tuple[JoinKey, ...],
    condition: Expr | None,
    context: BindContext,
) -> Bound:
    """Return the join of its inputs, or of the swapped ones."""
    left, right = inputs
    if isinstance(left, Opaque) or isinstance(right, Opaque):
        return Opaque(node.path)
    equalities, residual = split_condition(condition, len(left.types))
    if len(keys) < len(node.keys):
        # A key has a problem, so it is not known what matches.
        residual = conjunction((unknown(), *conjuncts(residual)))
    kind_of_join, swapped = kind
    _check_nulls(node, kind_of_join, (*keys, *equalities), residual, context)
    if swapped:
        return _swap(node, kind_of_join, left, right, (*keys, *equalities), residual, context)
    return _join(node, kind_of_join, left, right, (*keys, *equalities), residual, context)


# --- parts -------------------------------------------------------------------------------------


def _kind(node: model.JoinRel, context: BindContext) -> tuple[JoinKind, bool] | None:
    if node.kind == "unspecified":
        context.report("JOIN_TYPE_MISSING", f"{node.path}.type")
    return KINDS.get(node.kind)


def _condition(node: model.JoinRel, schemas: Schemas, context: BindContext) -> Expr | None:
    """Bind the condition beside the keys; None for a condition that is missing or always true."""
    if node.condition is None:
        if node.form == "join":
            context.report("JOIN_CONDITION_MISSING", node.path)
        return None
    left, right = schemas
    schema = None if left is None or right is None else (*left, *right)
    bound = bind_condition(node.condition, schema, context)
    constant = constant_in(bound)
    if constant is not None and not constant.value:
        value = "null" if constant.value is None else "false"
        context.report(
            "FILTER_CONSTANT", node.condition.path, value=value, effect="no two rows match"
        )
    return bound


def _written_keys(
    node: model.JoinRel, schemas: Schemas, context: BindContext
) -> tuple[JoinKey, ...]:
    """Bind the keys of a hash or merge join."""
    keys = (_written_key(key, schemas, context) for key in node.keys)
    return tuple(key for key in keys if key is not None)


def _written_key(
    key: model.ComparisonKey, schemas: Schemas, context: BindContext
) -> JoinKey | None:
    sides = (
        bind_expression(key.left, schemas[0], context),
        bind_expression(key.right, schemas[1], context),
    )
    _check_comparison(key, context)
    if is_unknown(*sides):
        return None
    common = unify(sides)
    if common is None or not is_comparable(common[0].type):
        context.report("JOIN_KEY_TYPES", key.path, left=sides[0].type, right=sides[1].type)
        return None
    if any(not side.type.same_kind(common[0].type) for side in sides):
        types = f"{sides[0].type}, {sides[1].type}"
        context.report(
            "ARGUMENTS_PROMOTED", key.path, function="equal", types=types, type=common[0].type
        )
    null_safe = EQUALITIES.get(key.comparison)
    return None if null_safe is None else JoinKey(common[0], common[1], null_safe)


def _check_comparison(key: model.ComparisonKey, context: BindContext) -> None:
    """Report a comparison that is not an equality."""
    place = f"{key.path}.comparison"
    if key.comparison == "unspecified":
        context.report("JOIN_COMPARISON_MISSING", f"{place}.simple")
    elif key.comparison == "might_equal":
        context.report("JOIN_COMPARISON_NOT_SUPPORTED", f"{place}.simple", comparison="might equal")
    elif key.function is not None:
        place = f"{place}.custom_function_reference"
        if check_declared(key.function, place, context):
            name = f"by the function {key.function.declared}"
            context.report("JOIN_COMPARISON_NOT_SUPPORTED", place, comparison=name)


def _check_nulls(
    node: model.JoinRel,
    kind: JoinKind,
    keys: tuple[JoinKey, ...],
    residual: Expr | None,
    context: BindContext,
) -> None:
    """Report joins of a producer that writes NOT IN and NOT EXISTS alike.

    A condition that says what a null comparison means is clear.
    """
    if kind not in ("anti", "mark") or not context.profile.plain_anti_joins:
        return
    if is_null_aware(residual):
        return
    nullable = any(map(is_nullable_key, keys))
    rest = conjuncts(residual)
    equals = [part for part in rest if isinstance(part, Call) and part.function == "equal"]
    if nullable or any(map(can_be_null, equals)):
        context.report("JOIN_NOT_IN_UNCLEAR", node.path, producer=context.profile.name, kind=kind)
    elif kind == "mark":
        return
    elif equals or any(not k.null_safe for k in keys):
        context.report("JOIN_NOT_IN_SAME", node.path, producer=context.profile.name)


def _join(
    node: model.JoinRel,
    kind: JoinKind,
    left: BoundRelation,
    right: BoundRelation,
    keys: tuple[JoinKey, ...],
    residual: Expr | None,
    context: BindContext,
) -> BoundRelation:
    """Return the join, with the null marks of a mark join."""
    aware = None if keys else null_aware_join(kind, left, right, residual, node.path)
    if aware is not None:
        return aware
    if kind != "mark" or context.profile.marks_are_required:
        return make_join(kind, left, right, keys, residual, node.path)
    return mark_join(left, right, keys, residual, node.path)


def _swap(
    node: model.JoinRel,
    kind: JoinKind,
    left: BoundRelation,
    right: BoundRelation,
    keys: tuple[JoinKey, ...],
    residual: Expr | None,
    context: BindContext,
) -> BoundRelation:
    """Return a right join as the left join of the swapped inputs, with the columns in order."""
    width, other = len(left.types), len(right.types)
    places = {o: o + other if o < width else o - width for o in range(width + other)}
    turned = tuple(replace(key, left=key.right, right=key.left) for key in keys)
    moved = None if residual is None else renumber(residual, places)
    join = _join(node, kind, right, left, turned, moved, context)
    if kind in ("semi", "anti", "mark"):
        return join
    every = columns(join.types)
    expressions = tuple(every[places[o]] for o in range(width + other))
    types = tuple(e.type for e in expressions)
    return BoundProject(join, expressions, types, node.path)


def check_post_filter(node: model.JoinRel, context: BindContext) -> None:
    """Report a post-join filter of a release that did not say which rows it applies to."""
    old = context.release is not None and context.release < RESIDUALS_SINCE
    if node.post_filter is not None and old and node.kind != "inner":
        context.report("JOIN_FILTER_UNCLEAR", f"{node.path}.post_join_filter")
