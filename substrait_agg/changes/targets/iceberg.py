"""Parse the target of an output ``iceberg=NAMESPACE.TABLE[?key=value&...]``."""

from __future__ import annotations

from dataclasses import dataclass

from substrait_agg.changes.targets.options import bad_target, parse_options
from substrait_agg.connect.iceberg.catalog import OPTIONS, CatalogAddress

KIND = "iceberg"


@dataclass(frozen=True, slots=True)
class IcebergTarget:
    """An Iceberg table that an output writes.

    Attributes:
        table: its name, with its namespace.
        catalog: the catalogue that has it.
    """

    table: str
    catalog: CatalogAddress

    def __str__(self) -> str:
        return f"{self.table} in {self.catalog}"


def parse_iceberg(text: str) -> IcebergTarget:
    """Parse ``NAMESPACE.TABLE[?catalog=NAME&uri=URI&warehouse=LOCATION]``.

    >>> str(parse_iceberg("shop.totals?catalog=prod"))
    'shop.totals in prod'

    Raises:
        UsageError: OPTION_INVALID; messages do not quote values.
    """
    table, _, query = text.partition("?")
    if not all(table.split(".")) or "." not in table:
        help = "write iceberg=NAMESPACE.TABLE"
        raise bad_target("it needs the name of a table with its namespace", help, KIND)
    options = dict(parse_options(query, KIND))
    for key in options.keys() - OPTIONS:
        raise bad_target(f"option {key} is not known", f"use {', '.join(sorted(OPTIONS))}", KIND)
    return IcebergTarget(table, CatalogAddress.of(options))
