"""Define producer profiles: the meaning of what a producer's plans leave out.

The key is ``version.producer``. Each entry follows what the producer itself writes and computes. A
plan of an unknown producer means what the specification says. A habit is something that a producer
is known to leave out or to write differently. The problem that it causes remains a problem; its
message names the producer and the assumed meaning (`BindContext.report`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from substrait_agg.bind.readings import APPENDS, DirectProject, Version, release_of
from substrait_agg.functions.signatures.derive import Derivation


@dataclass(frozen=True, slots=True)
class Habit:
    """The meaning of a producer's plans where they cause a problem.

    Attributes:
        code: code of the problem.
        means: the end of the sentence of the message.
        where: parameter of the message -> pattern that must match it in full; other problems of
            this code are not habits.
    """

    code: str
    means: str
    where: Mapping[str, str] = field(default_factory=dict)

    def explains(self, code: str, params: Mapping[str, object]) -> bool:
        """Return whether a problem is due to this habit."""
        return code == self.code and all(
            re.fullmatch(pattern, str(params.get(name, ""))) for name, pattern in self.where.items()
        )


@dataclass(frozen=True, slots=True)
class Profile:
    """How the plans of a producer are read.

    Attributes:
        name: name of the producer in messages.
        prefixes: prefixes of ``version.producer``, in lower case.
        habits_of: the producer that has the habits, if it differs from `name`.
        before: this entry applies to minor versions of Substrait below this one, if earlier
            releases of the producer have an entry of their own; None: every release.
        derivation: whose rules derive the types that the plan does not declare.
        direct_project: the meaning of a project without output mapping, by the release that the
            plan states.
        habits: what the producer is known to leave out or to write differently; the first match
            counts.
        meanings: function name of the producer -> canonical name, if the specification gives the
            name another meaning.
        like_escape: escape character of a pattern for which the plan sets none.
        grouping_bitmask: an aggregate with grouping sets has the columns distinct keys, bitmask,
            measures (`bind.aggregates.grouping_sets`).
        index_never_counted: column numbers after an aggregate with several grouping sets do not
            count its index.
        keys_by_column: keys of several grouping sets are numbered by their columns in the input,
            unless the plan has an output mapping that differs.
        accepted: codes of what the producer leaves out that are not reported, because this program
            is the producer (`spark.catalyst`).
        marks_are_required: the mark of a mark join is false, not null, where its condition is null.
        plain_anti_joins: NOT IN, which is never true beside a null, is written as the same anti join
            as NOT EXISTS.
        column_typed: the producer declares the result of a test, such as a comparison, with the
            type of the column that it tests, in a filter that it moves into a read.
        defaults: (function name of the producer, option) -> value if the plan does not set the
            option; option and value are in upper case.
        constructors: functions of the producer that return a list or a struct of their arguments ->
            which of both, and the number of arguments per part, of which the last is its value.
        casts_by_field_name: a cast of structs takes each field by its name, which a plan does not have.
        settings: canonical name of an aggregate function -> options that have fixed values in the
            producer's plans.
    """

    name: str
    prefixes: tuple[str, ...] = ()
    habits_of: str = ""
    before: int | None = None
    derivation: Derivation = "standard"
    direct_project: DirectProject = APPENDS
    habits: tuple[Habit, ...] = ()
    meanings: Mapping[str, str] = field(default_factory=dict)
    like_escape: str | None = None
    grouping_bitmask: bool = False
    index_never_counted: bool = False
    keys_by_column: bool = False
    plain_anti_joins: bool = False
    accepted: frozenset[str] = frozenset()
    marks_are_required: bool = False
    column_typed: bool = False
    defaults: Mapping[tuple[str, str], str] = field(default_factory=dict)
    constructors: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    casts_by_field_name: bool = False
    settings: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)

    @property
    def producer(self) -> str:
        """The producer that has the habits."""
        return self.habits_of or self.name

    def note(self, code: str, params: Mapping[str, object]) -> str:
        """Return what the producer means by a plan with the problem `code`.

        The text is empty if the problem is not a habit of the producer.
        """
        return next((h.means for h in self.habits if h.explains(code, params)), "")


STANDARD = Profile("the specification")

_SKIPPING_NULLS = {"least": "least_skip_null", "greatest": "greatest_skip_null"}
"""As in PostgreSQL. In the specification a null among the arguments gives null."""

_AS_POSTGRESQL = {**_SKIPPING_NULLS, "regexp_replace": "regexp_replace_first"}
"""Without a flag, regexp_replace replaces the first match only.

In the specification it replaces all.
"""

_LISTS_OF_DATAFUSION = {
    "array_element": "list_element",
    "array_has": "list_contains",
    "array_length": "cardinality",
    "array_max": "list_max",
    "array_min": "list_min",
    "get_field": "map_value",
}
"""Functions of lists and maps. `sql.corrections` replaces get_field() of a struct."""

_DECIMALS = {"declared": "decimal.*", "derived": "decimal.*"}
_CALCITE = "as Isthmus declares the type that Calcite gives it"
_NO_NAME = "as substrait-python intends, whose plans do not name their producer"

_DATAFUSION = (
    Habit("FUNCTION_NAME_BARE", "as DataFusion intends"),
    Habit("PHASE_UNSPECIFIED", "as DataFusion intends"),
    Habit("OUTPUT_TYPE_MISSING", "as DataFusion derives it"),
    Habit("RESULT_TYPE_MISSING", "as DataFusion derives it"),
    Habit("GROUPING_INDEX_NOT_COUNTED", "as DataFusion intended before release 43"),
    Habit("GROUPING_INDEX_NOT_NAMED", "as DataFusion intended before release 43"),
)
_STRUCTS_OF_DATAFUSION = Habit(
    "CAST_NOT_SUPPORTED", "as DataFusion takes fields by their names, which the plan does not have",
    {"source": ".*struct.*", "target": ".*struct.*"},
)  # fmt: skip
_DUCKDB = (
    Habit("FUNCTION_NAME_BARE", "as DuckDB intends"),
    Habit("PHASE_UNSPECIFIED", "as DuckDB intends"),
    Habit("SIGNATURE_UNKNOWN", "as DuckDB writes the types of a signature in full"),
    Habit("OUTPUT_TYPE_DIFFERS", "as DuckDB declares the type that it computes with"),
    Habit("RESULT_TYPE_DIFFERS", "as DuckDB declares the type that it computes with"),
    Habit("GROUPING_INDEX_NOT_NAMED", "as DuckDB intends"),
    Habit("GROUPING_INDEX_NOT_COUNTED", "as DuckDB intends"),
    Habit("RESULT_TYPE_OF_COLUMN", "as DuckDB declares for filters that it pushes into a read"),
)
_IBIS = (
    Habit(
        "SIGNATURE_DIFFERS", "which counts rows, as ibis-substrait intends",
        {"name": "count:any", "types": ""},
    ),
    Habit(
        "OUTPUT_TYPE_DIFFERS", "as ibis-substrait declares every count nullable",
        {"name": "count", "declared": r"i64\?"},
    ),
    Habit(
        "OUTPUT_TYPE_DIFFERS", "as ibis-substrait declares every average of integers as fp64",
        {"name": "avg", "declared": "fp64.*", "derived": r"i\d+.*"},
    ),
    Habit(
        "ARGUMENTS_PROMOTED", "as ibis-substrait writes literals in the smallest type that holds them",
        {"types": r".*\bi(8|16|32)\b.*"},
    ),
)  # fmt: skip
_ISTHMUS = (
    Habit("OUTPUT_TYPE_DIFFERS", _CALCITE, _DECIMALS),
    Habit("OUTPUT_TYPE_DIFFERS", _CALCITE, {"name": "sum|avg", "declared": r"i\d+.*"}),
    Habit("RESULT_TYPE_DIFFERS", _CALCITE, _DECIMALS),
    Habit("OUTPUT_NULLABILITY", "although Isthmus declares it required if every group has rows"),
    Habit(
        "ARGUMENTS_PROMOTED", "as Isthmus leaves every decimal in the type that Calcite gives it",
        {"types": ".*decimal.*"},
    ),
    Habit("GROUPING_INDEX_NOT_NAMED", "as Isthmus intends"),
    Habit("GROUPING_INDEX_NOT_COUNTED", "as Isthmus intends"),
    Habit("GROUPING_KEY_ORDER", "as Isthmus intends"),
)  # fmt: skip
_SPARK = (
    Habit(
        "OUTPUT_TYPE_DIFFERS", "as substrait-spark declares the type that Spark gives it", _DECIMALS
    ),
)
_ACERO = (
    Habit("FUNCTION_NAME_BARE", "as Acero intends"),
    Habit("PHASE_UNSPECIFIED", "as Acero intends"),
)
_UNNAMED = (
    Habit("PHASE_UNSPECIFIED", _NO_NAME),
    Habit("GROUPING_INDEX_NOT_NAMED", _NO_NAME),
    Habit(
        "OUTPUT_NULLABILITY", "as it is declared by substrait-python, whose plans do not name their producer",
        {"name": "any_value"},
    ),
)  # fmt: skip
"""A plan of substrait-python looks like one written by hand, so only the messages mention it."""

_OF_DATAFUSION = Profile(
    "DataFusion",
    ("datafusion",),
    derivation="arrow",
    habits=(*_DATAFUSION, _STRUCTS_OF_DATAFUSION),
    meanings={**_AS_POSTGRESQL, **_LISTS_OF_DATAFUSION},
    like_escape="\\",
    grouping_bitmask=True,
    plain_anti_joins=True,
    # DataFusion 42 states 0.55 and writes no output mapping. DataFusion 43 states 0.58 and always
    # writes one.
    direct_project=DirectProject(replaces_until=57, appends_from=56),
    # As in PostgreSQL, concat() skips nulls. The operator || is written as str_concat and does not.
    defaults={("concat", "NULL_HANDLING"): "IGNORE_NULLS"},
    # named_struct() has a name before each value. The names in the result are those of the root.
    constructors={
        "make_array": ("list", 1),
        "struct": ("struct", 1),
        "named_struct": ("struct", 2),
    },
    casts_by_field_name=True,
)

_OF_OLD_DATAFUSION = replace(
    _OF_DATAFUSION, before=58, grouping_bitmask=False, index_never_counted=True
)
"""Since release 43, DataFusion counts a bitmask column after the keys.

Before, it counted keys and measures only.
"""

_OF_SPARK = Profile(
    "this program",
    ("spark plan of substrait-agg",),
    accepted=frozenset(
        {
            "ORDER_MISSING", "OUTPUT_TYPE_DIFFERS", "RESULT_TYPE_DIFFERS", "RESULT_TYPE_LOSSY",
            "SIGNATURE_UNKNOWN",
        }
    ),
    marks_are_required=True,
)  # fmt: skip
"""Plans that this program writes for queries of Spark.

They declare the types that Spark gives decimals, and call functions that only Spark has.
"""

PROFILES: tuple[Profile, ...] = (
    _OF_SPARK,
    _OF_OLD_DATAFUSION,
    _OF_DATAFUSION,
    Profile(
        "DuckDB",
        ("duckdb",),
        # The extension changed in March 2025. It stated 0.53 before and after.
        direct_project=DirectProject(replaces_until=53, appends_from=53),
        index_never_counted=True,
        column_typed=True,
        habits=_DUCKDB,
        meanings=_AS_POSTGRESQL,
        # In DuckDB, x / 0 and x % 0 are null.
        defaults={
            ("divide", "ON_DIVISION_BY_ZERO"): "NULL",
            ("modulus", "ON_DOMAIN_ERROR"): "NULL",
            ("mod", "ON_DOMAIN_ERROR"): "NULL",
            # DuckDB's min_by skips rows with a null x.
            ("min_by", "IGNORE_NULLS"): "TRUE",
            ("max_by", "IGNORE_NULLS"): "TRUE",
        },
        settings={"product": (("EMPTY", "NULL"),)},
    ),
    Profile("ibis-substrait", ("ibis",), habits=_IBIS),
    Profile("Isthmus", ("isthmus",), habits=_ISTHMUS, keys_by_column=True),
    Profile("substrait-spark", ("substrait-spark",), habits=_SPARK),
    Profile("Acero", ("acero",), habits=_ACERO),
)

UNNAMED = Profile("the specification", habits_of="substrait-python", habits=_UNNAMED)
"""Profile of a plan that states its release but not its producer."""


def profile_of(producer: str, version: Version | None = None) -> Profile:
    """Return the profile of a producer and its release, or that of the specification.

    Args:
        producer: ``version.producer`` in lower case, or empty.
        version: the release of Substrait that the plan states; None if it has no ``version``.
    """
    if not producer:
        return UNNAMED if version is not None else STANDARD
    minor = release_of(version)
    fitting = (p for p in PROFILES if producer.startswith(p.prefixes))
    of_release = (
        p for p in fitting if p.before is None or (minor is not None and minor < p.before)
    )
    return next(of_release, STANDARD)
