"""Producer profiles: what a plan means where its producer leaves something out, keyed on ``version.producer``.

Each entry rests on what the producer writes and computes itself; a plan of an unknown producer means what the
specification says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from substrait_agg.functions.derive import Derivation


@dataclass(frozen=True, slots=True)
class Profile:
    """How the plans of a producer are read.

    Attributes:
        name: shown in messages.
        prefixes: what ``version.producer`` starts with, lower case.
        derivation: whose rules give types that the plan does not declare.
        project_replaces: a project without output mapping gives its expressions alone, not the input's columns too.
        meanings: function as the producer spells it -> canonical name, where that is not what the specification means.
        like_escape: escape character of a pattern for which the plan gives none.
        grouping_bitmask: an aggregate with grouping sets is addressed as distinct keys, bitmask, measures
            (`bind.grouping`).
        defaults: (function as the producer spells it, option) -> value where the plan does not set the option;
            upper-case option and value.
        settings: canonical name of an aggregate function -> options that it has decided in the producer's plans.
    """

    name: str
    prefixes: tuple[str, ...] = ()
    derivation: Derivation = "standard"
    project_replaces: bool = False
    meanings: Mapping[str, str] = field(default_factory=dict)
    like_escape: str | None = None
    grouping_bitmask: bool = False
    defaults: Mapping[tuple[str, str], str] = field(default_factory=dict)
    settings: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)


STANDARD = Profile("the specification")

_SKIPPING_NULLS = {"least": "least_skip_null", "greatest": "greatest_skip_null"}
"""As in PostgreSQL; in the specification a null among the arguments gives null."""

PROFILES: tuple[Profile, ...] = (
    Profile(
        "DataFusion",
        ("datafusion",),
        derivation="arrow",
        meanings=_SKIPPING_NULLS,
        like_escape="\\",
        grouping_bitmask=True,
        # As in PostgreSQL, concat() skips nulls; the operator || is written as str_concat and does not.
        defaults={("concat", "NULL_HANDLING"): "IGNORE_NULLS"},
    ),
    Profile(
        "DuckDB",
        ("duckdb",),
        project_replaces=True,
        meanings=_SKIPPING_NULLS,
        # In DuckDB x / 0 and x % 0 are null.
        defaults={
            ("divide", "ON_DIVISION_BY_ZERO"): "NULL",
            ("modulus", "ON_DOMAIN_ERROR"): "NULL",
            ("mod", "ON_DOMAIN_ERROR"): "NULL",
            # Its min_by passes over rows with a null x.
            ("min_by", "IGNORE_NULLS"): "TRUE",
            ("max_by", "IGNORE_NULLS"): "TRUE",
        },
        settings={"product": (("EMPTY", "NULL"),)},
    ),
)


def profile_of(producer: str) -> Profile:
    """The profile of a producer by its lower-case name, or that of the specification."""
    return next((p for p in PROFILES if producer.startswith(p.prefixes)), STANDARD)
