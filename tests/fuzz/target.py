"""A coverage-guided fuzz target: ``python -m tests.fuzz.target bytes|fields [libFuzzer options] [corpus folders]``.

``bytes`` changes bytes of plans, ``fields`` changes them field by field and so stays among plans that are well formed on
the wire. Both assert `properties.check`. Needs atheris (Linux).
"""

from __future__ import annotations

import sys
from random import Random

import atheris

with atheris.instrument_imports(include=["substrait_agg"]):
    from substrait_agg.plan.messages.node import Unreadable
    from tests.fuzz import messages, mutate, properties

    # Modules that are imported on first use have to be imported here, as only then their coverage is seen.
    for sample in mutate.samples():
        properties.check(sample)


def one_input(content: bytes) -> None:
    """Assert the properties of every input."""
    properties.check(content)


def by_field(content: bytes, most: int, seed: int) -> bytes:
    """Another plan: one to three fields of this one changed, or one of the samples where this is no plan."""
    random = Random(seed)
    try:
        plan = messages.parsed(content)
    except Unreadable:
        plan = messages.parsed(random.choice(mutate.samples()))
    changed = messages.to_wire(mutate.mutated(plan, random, random.choice((1, 1, 2, 3))))
    return changed if len(changed) <= most else content[:most]


def main(arguments: list[str]) -> None:
    """Fuzz until the options given to libFuzzer say so; does not return."""
    kind, *options = arguments
    custom = {"custom_mutator": by_field} if kind == "fields" else {}
    atheris.Setup([sys.argv[0], *options], one_input, **custom)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])
