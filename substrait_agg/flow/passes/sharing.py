"""Find equal subqueries of one or several views, so that each is computed once."""

from __future__ import annotations

from collections.abc import Sequence

from substrait_agg.bind.bound import BoundRelation
from substrait_agg.bind.plan.fingerprint import canonical, digest, identity
from substrait_agg.bind.rewrite import inputs_of, with_inputs


def share_equal(roots: Sequence[BoundRelation]) -> tuple[BoundRelation, ...]:
    """Return relations that compute the same rows, in which equal relations are one object.

    Relations are equal if they compute the same rows. The first one's path is used. Lowering makes
    one operator of an object, for all its readers.
    """
    by_key: dict[str, BoundRelation] = {}
    done: dict[int, BoundRelation] = {}
    keys: dict[int, str] = {}

    def share(relation: BoundRelation) -> BoundRelation:
        """Return the one object for a relation, with shared inputs."""
        if id(relation) not in done:
            inputs = tuple(map(share, inputs_of(relation)))
            key = _key(relation, [keys[id(found)] for found in inputs])
            if key not in by_key:
                same = all(a is b for a, b in zip(inputs, inputs_of(relation), strict=True))
                by_key[key] = relation if same else with_inputs(relation, inputs)
                keys[id(by_key[key])] = key
            done[id(relation)] = by_key[key]
        return done[id(relation)]

    return tuple(map(share, roots))


def _key(relation: BoundRelation, inputs: Sequence[str]) -> str:
    """Return what identifies a relation over inputs that have these keys."""
    below = {id(read) for read in inputs_of(relation)}
    own = [
        None
        if id(part) in below or (isinstance(part, tuple) and any(id(p) in below for p in part))
        else canonical(part)
        for part in identity(relation)
    ]
    return digest([own, list(inputs)])
