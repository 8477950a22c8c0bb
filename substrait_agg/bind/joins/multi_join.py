"""Read nested inner joins as one join of many inputs, and write it as a chain of keyed joins."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from substrait_agg.bind.bound import (
    BoundFilter,
    BoundJoin,
    BoundProject,
    BoundRelation,
    Expr,
    JoinKey,
)
from substrait_agg.bind.context import columns
from substrait_agg.bind.joins.conjunctions import (
    EQUALITIES,
    conjunction,
    conjuncts,
    disjunction,
    disjuncts,
    equality_of,
    factor_out,
)
from substrait_agg.bind.joins.failing import can_fail
from substrait_agg.bind.joins.keys import as_condition, is_comparable, make_join
from substrait_agg.bind.joins.ranges import is_range
from substrait_agg.bind.joins.single_rows import has_one_row
from substrait_agg.bind.rewrite import columns_in, larger_than, renumber, rewrite, shift_columns

MAX_INPUTS = 64
"""Largest number of inputs that a side of a join brings into a multi-way join.

A side with more stays one input.
"""

MAX_PARTS = 500
"""Largest number of parts of an expression that is moved above a join."""

Exprs = tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class _Span:
    """A join of the plan: its path, and the inputs on its left and its right."""

    path: str
    first: int
    middle: int
    last: int

    def separates(self, left: set[int], right: set[int]) -> bool:
        """Return whether inputs of both sets are on different sides of the join."""
        one, other = set(range(self.first, self.middle)), set(range(self.middle, self.last))
        return bool((left & one and right & other) or (left & other and right & one))


@dataclass(slots=True)
class MultiJoin:
    """An inner join of many inputs. Expressions refer to the columns of all inputs in order.

    Attributes:
        inputs: the joined relations as the plan has them.
        starts: the first column of each input.
        conditions: conditions that rows have to meet and that cannot fail.
        late: conditions that can fail, in the order of the plan; they are tested last.
        spans: the joins of the plan, inner ones first.
        sizes: identity of a relation -> number of inputs that it brings.
    """

    inputs: list[BoundRelation] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    conditions: list[Expr] = field(default_factory=list)
    late: list[Expr] = field(default_factory=list)
    spans: list[_Span] = field(default_factory=list)
    sizes: dict[int, int] = field(default_factory=dict)

    @property
    def width(self) -> int:
        """Number of columns of all inputs."""
        return self.starts[-1] + len(self.inputs[-1].types) if self.inputs else 0

    def input_of(self, ordinal: int) -> int:
        """Return the input that has a column."""
        return bisect_right(self.starts, ordinal) - 1

    def inputs_of(self, expression: Expr) -> set[int]:
        """Return the inputs whose columns an expression reads."""
        return {self.input_of(c.ordinal) for c in columns_in(expression)}

    def require(self, conditions: Iterable[Expr]) -> None:
        """Add conditions that rows have to meet."""
        for condition in conditions:
            (self.late if can_fail(condition) else self.conditions).append(condition)

    # --- reading -------------------------------------------------------------------------------

    def absorb(self, relation: BoundRelation) -> Exprs:
        """Add a relation, and return its columns over the columns of all inputs."""
        match relation:
            case BoundFilter(input=source, condition=condition) if is_multi_join(source):
                outputs = self.absorb(source)
                self.require(substitute(part, outputs) for part in factor_out(condition))
                return outputs
            case BoundProject(input=source, expressions=expressions) if is_multi_join(source):
                return self._absorb_project(relation, source, expressions)
            case BoundJoin(kind="inner"):
                return self._absorb_join(relation)
            case _:
                return self._add(relation)

    def _absorb_project(
        self, relation: BoundRelation, source: BoundRelation, expressions: Exprs
    ) -> Exprs:
        mark = self._mark()
        outputs = self.absorb(source)
        rewritten = tuple(substitute(e, outputs) for e in expressions)
        if any(map(is_large, rewritten)):
            self._reset(mark)
            return self._add(relation)
        return rewritten

    def _absorb_join(self, join: BoundJoin) -> Exprs:
        first = len(self.inputs)
        left = self._absorb_side(join.left, [key.left for key in join.keys])
        middle = len(self.inputs)
        right = self._absorb_side(join.right, [key.right for key in join.keys])
        self.spans.append(_Span(join.path, first, middle, len(self.inputs)))
        for key in join.keys:
            sides = substitute(key.left, left), substitute(key.right, right)
            # A key that can fail stays a key: it is computed for the rows that the plan says.
            self.conditions.append(as_condition(key, *sides))
        outputs = (*left, *right)
        self.require(substitute(part, outputs) for part in factor_out(join.residual))
        return outputs

    def _absorb_side(self, relation: BoundRelation, keys: list[Expr]) -> Exprs:
        """Add an input of a join.

        If a key of the join can fail, its input stays one relation. Otherwise the key would be
        computed for rows that another join removes.
        """
        if self._size(relation) > MAX_INPUTS:
            return self._add(relation)
        mark = self._mark()
        outputs = self.absorb(relation)
        several = len(self.inputs) > mark[0] + 1
        if several and any(can_fail(substitute(key, outputs)) for key in keys):
            self._reset(mark)
            return self._add(relation)
        return outputs

    def _size(self, relation: BoundRelation) -> int:
        """Return the number of inputs that a relation brings."""
        if id(relation) not in self.sizes:
            match relation:
                case BoundFilter(input=source) | BoundProject(input=source):
                    size = self._size(source)
                case BoundJoin(kind="inner"):
                    size = self._size(relation.left) + self._size(relation.right)
                case _:
                    size = 1
            self.sizes[id(relation)] = size
        return self.sizes[id(relation)]

    def _add(self, relation: BoundRelation) -> Exprs:
        start = self.width
        self.inputs.append(relation)
        self.starts.append(start)
        return tuple(shift_columns(column, start) for column in columns(relation.types))

    def _mark(self) -> tuple[int, int, int, int]:
        return len(self.inputs), len(self.conditions), len(self.late), len(self.spans)

    def _reset(self, mark: tuple[int, int, int, int]) -> None:
        inputs, conditions, late, spans = mark
        del self.inputs[inputs:], self.starts[inputs:], self.conditions[conditions:]
        del self.late[late:], self.spans[spans:]

    # --- writing -------------------------------------------------------------------------------

    def write(self, outputs: Exprs, place: Place, path: str) -> BoundRelation:
        """Return the join as a chain of keyed joins, below its other conditions and a projection.

        Args:
            outputs: the columns of the result.
            place: returns an input with conditions on its columns, in normal form.
            path: path of the projection and of the conditions.
        """
        own, links, rest = self._sorted_conditions()
        inputs = [
            place(source, tuple(shift_columns(c, -start) for c in own.get(at, ())))
            for at, (source, start) in enumerate(zip(self.inputs, self.starts, strict=True))
        ]
        chains = [*self._chains(inputs, links)]
        chains, rest = self._link_chains(chains, rest)
        chains, late = self._link_chains(chains, tuple(self.late))
        read = {at for output in outputs for at in self.inputs_of(output)}
        chain, rest, late = self._join_by_ranges(chains, rest, late, read)
        relation = chain.relation
        for condition in (conjunction(rest), *late):
            if condition is not None:
                moved = renumber(condition, chain.places)
                relation = BoundFilter(relation, moved, relation.types, path)
        return as_projected(relation, tuple(renumber(e, chain.places) for e in outputs), path)

    def _sorted_conditions(self) -> tuple[dict[int, list[Expr]], list[_Link], Exprs]:
        """Sort conditions into those of one input, links of two inputs, and others."""
        own: dict[int, list[Expr]] = {}
        links: list[_Link] = []
        rest: list[Expr] = []
        for condition in dict.fromkeys(self.conditions):
            inputs = self.inputs_of(condition)
            link = self._link(condition)
            if link is not None:
                links.append(link)
            elif len(inputs) == 1 and not can_fail(condition):
                own.setdefault(inputs.pop(), []).append(condition)
            else:
                rest.append(condition)
                for at, implied in self._iter_implied(condition):
                    own.setdefault(at, []).append(implied)
        return own, links, tuple(rest)

    def _iter_implied(self, condition: Expr) -> Iterator[tuple[int, Expr]]:
        """Yield the conditions on single inputs that follow from an OR over several inputs.

        ``(a AND b) OR (c AND d)`` implies ``a OR c``, which removes rows of the input that ``a``
        and ``c`` read before they are joined.
        """
        branches = [conjuncts(branch) for branch in disjuncts(condition)]
        if len(branches) < 2 or can_fail(condition):
            return
        for at in sorted(self.inputs_of(condition)):
            parts = [[p for p in branch if self.inputs_of(p) == {at}] for branch in branches]
            alternatives = [conjunction(branch) for branch in parts]
            implied = disjunction(a for a in alternatives if a is not None)
            if implied is None or None in alternatives:
                continue
            if not _is_filtered(self.inputs[at], shift_columns(implied, -self.starts[at])):
                yield at, implied

    def _link(self, condition: Expr) -> _Link | None:
        """Return the equality of two inputs that a condition is, or None."""
        link = self._equality(condition)
        single = link is not None and len(link.inputs[0]) == len(link.inputs[1]) == 1
        return link if single else None

    def _equality(self, condition: Expr) -> _Link | None:
        """Return the equality of disjoint sets of inputs that a condition is, or None."""
        equality = equality_of(condition)
        if equality is None:
            return None
        left, right = equality.arguments
        if not (left.type.same_kind(right.type) and is_comparable(left.type)):
            return None
        inputs = self.inputs_of(left), self.inputs_of(right)
        if not all(inputs) or inputs[0] & inputs[1]:
            return None
        return _Link((left, right), inputs, EQUALITIES[equality.function])

    def _chains(self, inputs: list[BoundRelation], links: list[_Link]) -> Iterator[_Chain]:
        """Join the inputs that links connect, each time the first connected one of the plan."""
        waiting = list(range(len(inputs)))
        while waiting:
            chain = self._single(waiting.pop(0), inputs)
            while True:
                following = next((i for i in waiting if chain.links_to({i}, links)), None)
                if following is None:
                    break
                waiting.remove(following)
                other = self._single(following, inputs)
                keys = chain.links_to(other.inputs, links)
                chain = chain.with_chain(other, keys, self._path_between(chain, other))
            yield chain

    def _single(self, at: int, inputs: list[BoundRelation]) -> _Chain:
        width = len(inputs[at].types)
        return _Chain(inputs[at], {at}, {self.starts[at] + i: i for i in range(width)})

    def _link_chains(self, chains: list[_Chain], conditions: Exprs) -> tuple[list[_Chain], Exprs]:
        """Join chains that equalities connect; return them and the conditions that are not keys."""
        rest = list(conditions)
        linked = True
        while linked and len(chains) > 1:
            linked = False
            for condition in rest:
                link = self._equality(condition)
                pair = None if link is None else _find_chains(chains, link)
                if link is None or pair is None:
                    continue
                one, other = pair
                path = self._path_between(one, other)
                chains[chains.index(one)] = one.with_chain(other, [link], path)
                chains.remove(other)
                rest.remove(condition)
                linked = True
                break
        return chains, tuple(rest)

    def _join_by_ranges(
        self, chains: list[_Chain], rest: Exprs, late: Exprs, read: set[int]
    ) -> tuple[_Chain, Exprs, Exprs]:
        """Join chains that no equality connects, those first that a range connects.

        A single row that only a range reads filters the rows of the other chain. So only the rows
        change between its old and its new value.

        Args:
            chains: the chains.
            rest: conditions that cannot fail.
            late: conditions that can fail.
            read: the inputs that the output reads.

        Returns:
            The chain, and the conditions that its joins do not test.
        """
        chain, waiting = chains[0], chains[1:]
        while waiting:
            ranges = [self._ranges(chain, other, (*rest, *late), read) for other in waiting]
            at = next((i for i, parts in enumerate(ranges) if parts), 0)
            other, own = waiting.pop(at), ranges[at]
            path = self._path_between(chain, other)
            if own and has_one_row(other.relation):
                chain = chain.filter_by(other, own, path)
            else:
                chain = chain.with_chain(other, (), path, own)
            rest = tuple(part for part in rest if part not in own)
            late = tuple(part for part in late if part not in own)
        return chain, rest, late

    def _ranges(self, one: _Chain, other: _Chain, conditions: Exprs, read: set[int]) -> Exprs:
        """Return the conditions by which rows of two chains can find each other.

        Of a single row these are all conditions that read it, or none.
        """
        if has_one_row(one.relation):
            return ()
        places, width = one.places_with(other), len(one.relation.types)
        parts = tuple(
            part
            for part in conditions
            if self.inputs_of(part) <= one.inputs | other.inputs
            and is_range(renumber(part, places), width)
        )
        if has_one_row(other.relation):
            used = [part for part in conditions if self.inputs_of(part) & other.inputs]
            return () if read & other.inputs or any(p not in parts for p in used) else parts
        return parts

    def _path_between(self, one: _Chain, other: _Chain) -> str:
        """Return the path of the innermost join of the plan that separates two chains."""
        between = (span for span in self.spans if span.separates(one.inputs, other.inputs))
        return min(between, key=lambda span: span.last - span.first).path


Place = Callable[[BoundRelation, Exprs], BoundRelation]


@dataclass(frozen=True, slots=True)
class _Link:
    """An equality of two expressions that read disjoint sets of inputs."""

    sides: tuple[Expr, Expr]
    inputs: tuple[set[int], set[int]]
    null_safe: bool

    def across(self, left: set[int], right: set[int]) -> tuple[Expr, Expr] | None:
        """Return the sides that read the left and the right inputs only, or None."""
        one, other = self.inputs
        if one <= left and other <= right:
            return self.sides
        return self.sides[::-1] if one <= right and other <= left else None


@dataclass(frozen=True, slots=True, eq=False)
class _Chain:
    """Joined inputs. `places` maps columns of the multi-way join to columns of the relation."""

    relation: BoundRelation
    inputs: set[int]
    places: dict[int, int]

    def links_to(self, inputs: set[int], links: list[_Link]) -> list[_Link]:
        """Return the links between this chain and other inputs."""
        return [link for link in links if link.across(self.inputs, inputs) is not None]

    def places_with(self, other: _Chain) -> dict[int, int]:
        """Return the places of columns in the join of both chains."""
        width = len(self.relation.types)
        return {**self.places, **{column: place + width for column, place in other.places.items()}}

    def filter_by(self, other: _Chain, conditions: Exprs, path: str) -> _Chain:
        """Return the rows for which a row of another chain meets the conditions."""
        places = self.places_with(other)
        residual = conjunction(renumber(part, places) for part in conditions)
        relation = make_join("semi", self.relation, other.relation, (), residual, path)
        return _Chain(relation, self.inputs | other.inputs, self.places)

    def with_chain(
        self, other: _Chain, links: Sequence[_Link], path: str, conditions: Exprs = ()
    ) -> _Chain:
        """Return the join of both chains on the links and further conditions."""
        places = self.places_with(other)
        pairs = [(link.across(self.inputs, other.inputs), link.null_safe) for link in links]
        keys = tuple(
            JoinKey(renumber(sides[0], self.places), renumber(sides[1], other.places), null_safe)
            for sides, null_safe in pairs
            if sides is not None
        )
        residual = conjunction(renumber(part, places) for part in conditions)
        relation = make_join("inner", self.relation, other.relation, keys, residual, path)
        return _Chain(relation, self.inputs | other.inputs, places)


def _find_chains(chains: list[_Chain], link: _Link) -> tuple[_Chain, _Chain] | None:
    pairs = (
        (one, other)
        for at, one in enumerate(chains)
        for other in chains[at + 1 :]
        if link.across(one.inputs, other.inputs) is not None
    )
    return next(pairs, None)


def _is_filtered(relation: BoundRelation, condition: Expr) -> bool:
    """Return whether filters of a relation already test a condition on its columns."""
    while isinstance(relation, BoundFilter | BoundProject):
        if isinstance(relation, BoundFilter):
            tested = [_alternatives(part) for part in conjuncts(relation.condition)]
            if _alternatives(condition) in tested:
                return True
        else:
            condition = substitute(condition, relation.expressions)
            if is_large(condition):
                return False
        relation = relation.input
    return False


def _alternatives(condition: Expr) -> frozenset[frozenset[Expr]]:
    """Return the alternatives of a condition, each as a set of parts, without their order."""
    return frozenset(frozenset(conjuncts(branch)) for branch in disjuncts(condition))


def is_multi_join(relation: BoundRelation) -> bool:
    """Return whether a relation is an inner join below filters and projections."""
    while isinstance(relation, BoundFilter | BoundProject):
        relation = relation.input
    return isinstance(relation, BoundJoin) and relation.kind == "inner"


def substitute(expression: Expr, outputs: Exprs) -> Expr:
    """Replace every column by the expression that computes it."""
    return rewrite(expression, lambda column: outputs[column.ordinal])


def is_large(expression: Expr) -> bool:
    """Return whether an expression has more than `MAX_PARTS` parts.

    Nested projections can double an expression each time they are substituted.
    """
    return larger_than(expression, MAX_PARTS)


def as_projected(relation: BoundRelation, outputs: Exprs, path: str) -> BoundRelation:
    """Return a relation with the columns `outputs`, without a projection if it has them already."""
    if outputs == columns(relation.types):
        return relation
    return BoundProject(relation, outputs, tuple(e.type for e in outputs), path)
