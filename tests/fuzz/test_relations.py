"""Plans of every kind of relation with each field dropped, replaced or added: no change breaks a property."""

from __future__ import annotations

from itertools import islice

import pytest

from substrait_agg.plan.messages.schema import schema
from tests.fuzz.messages import to_wire
from tests.fuzz.properties import check
from tests.fuzz.relations import Change, relation_plans, single_changes

SEEDS = range(3)
EVERY = 211
"""One change in so many is checked outside of the long run."""


def test_every_kind_of_relation_has_a_plan() -> None:
    members = {f.name for f in schema().messages["Rel"].by_number.values() if f.oneof == "rel_type"}
    used = {
        item.name
        for plan in relation_plans().values()
        for message in plan.everything()
        if message.shape.name == "Rel"
        for item, _ in message.fields
    }
    assert members - used == {"detached_rel_ordinal"}


def test_some_changes_of_every_relation() -> None:
    changes = (change for plan in relation_plans().values() for change in single_changes(plan))
    for change in islice(changes, 0, None, EVERY):
        holds(change, 0)


@pytest.mark.soak
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", relation_plans())
def test_every_change_of_a_relation(name: str, seed: int) -> None:
    for change in single_changes(relation_plans()[name]):
        holds(change, seed)


def holds(change: Change, seed: int) -> None:
    """Check the properties, and say which change breaks one."""
    content = to_wire(change.made(seed))
    try:
        check(content)
    except Exception as error:
        error.add_note(f"{change}: {content!r}")
        raise
