"""Open the connectors of the sources of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import cast

from substrait_agg.connect.protocol import Connector, TableSource

Connect = Callable[[Mapping[str, TableSource]], Connector]
"""Opens a connector for tables by their names in the plan; all of them are of one group."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of connector.

    Attributes:
        module: has the functions ``connect`` (`Connect`) and ``group``, which returns what the tables of
            one connector have in common: for a database its connection, without a password.
        options: the keys of a SPEC that it takes.
        needs: the key without which a package of Spark reads the source; empty for none.
        prefix: begins further keys, for the client of the source; empty for none.
    """

    module: str
    options: frozenset[str]
    needs: str = ""
    prefix: str = ""

    def takes(self, key: str) -> bool:
        """Return whether a key of a SPEC is one of this kind."""
        return key in self.options or bool(self.prefix and key.startswith(self.prefix))


SPARK_READER = "spark"
"""Value of the key ``reader`` with which Spark's package for a format reads a source."""

KINDS: Mapping[str, Kind] = {
    "clock": Kind("substrait_agg.connect.clock", frozenset({"every", "zone", "at"})),
    "delta": Kind("substrait_agg.connect.delta.source", frozenset({"from", "feed"})),
    "iceberg": Kind(
        "substrait_agg.connect.iceberg.source",
        frozenset({"catalog", "uri", "warehouse", "from"}),
    ),
    "kafka": Kind(
        "substrait_agg.connect.kafka.source",
        frozenset({"columns", "value", "key", "cdc", "startingOffsets"}),
        needs="columns",
        prefix="kafka.",
    ),
    "postgres": Kind(
        "substrait_agg.connect.postgres.source",
        frozenset({"dsn", "service", "slot", "publication", "snapshot"}),
    ),
}
"""Format of a SPEC -> its connector."""


def is_read_here(format_: str, options: Mapping[str, str]) -> bool:
    """Return whether a connector reads a source, and not a package of Spark.

    Args:
        format_: the format of its SPEC.
        options: the keys in lower case, and the values.
    """
    kind = KINDS.get(format_)
    if kind is None or options.get("reader") == SPARK_READER:
        return False
    return not kind.needs or kind.needs in options


def groups(sources: Iterable[tuple[str, TableSource]]) -> dict[str, dict[str, TableSource]]:
    """Return the tables of each connector, by the name of its group.

    Args:
        sources: the format of each table, and the table.
    """
    by_group: dict[str, dict[str, TableSource]] = {}
    for format_, source in sources:
        module = import_module(KINDS[format_].module)
        group = f"{format_}:{module.group(source)}"
        by_group.setdefault(group, {})[source.table] = source
    return by_group


def connect(group: str, tables: Mapping[str, TableSource]) -> Connector:
    """Open the connector of a group.

    Raises:
        InputRefused, UsageError: it cannot be opened; the code says why.
    """
    module = import_module(KINDS[group.partition(":")[0]].module)
    return cast("Connect", module.connect)(tables)
