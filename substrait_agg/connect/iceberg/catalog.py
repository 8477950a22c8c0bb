"""Open a catalogue of Iceberg: one that pyiceberg's own configuration names, or one by its address."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Any

from substrait_agg.errors import InputRefused, UsageError
from substrait_agg.redaction import clean, redacted_place, remember, safe_cause

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

DEFAULT = "default"
OPTIONS = frozenset({"catalog", "uri", "warehouse"})
"""Options that name a catalogue."""


@dataclass(frozen=True, slots=True)
class CatalogAddress:
    """Where a catalogue is.

    Attributes:
        name: its name in the configuration of pyiceberg; a database of catalogues has it as well.
        uri: its address, which replaces the one of the configuration; it may have a password.
        warehouse: the location of new tables, or for a REST catalogue its warehouse.
    """

    name: str = DEFAULT
    uri: str = field(default="", repr=False)
    warehouse: str = field(default="", repr=False)

    @classmethod
    def of(cls, options: Mapping[str, str]) -> CatalogAddress:
        """Return the catalogue that options name, and remember its passwords."""
        addresses = {key: options.get(key, "") for key in ("uri", "warehouse")}
        remember(addresses.items())
        return cls(options.get("catalog") or DEFAULT, **addresses)

    def __str__(self) -> str:
        text = self.name
        if self.uri:
            text += f" at {redacted_place(self.uri)}"
        return text + (f" of {redacted_place(self.warehouse)}" if self.warehouse else "")

    def load(self) -> Catalog:
        """Open the catalogue, which must exist.

        Raises:
            UsageError: SPEC_OPTION_BAD, SOURCE_PACKAGE_MISSING.
            InputRefused: SOURCE_NOT_REACHABLE.
        """
        from pyiceberg.catalog import load_catalog
        from pyiceberg.exceptions import NotInstalledError

        _keep_nulls()
        addresses = {"uri": self.uri, "warehouse": self.warehouse}
        properties = {key: value for key, value in addresses.items() if value}
        properties["init_catalog_tables"] = "false"
        try:
            with self.reach_version():
                return load_catalog(self.name, **properties)
        except NotInstalledError as error:
            message = (
                f"a package for the catalogue {self.name} is not installed: {clean(str(error))}"
            )
            help = "pip install 'pyiceberg[...]' with the extra of the catalogue"
            raise UsageError("SOURCE_PACKAGE_MISSING", message, help=help) from safe_cause(error)
        except ValueError as error:
            message = f"the catalogue {self.name} cannot be opened: {clean(str(error))}"
            help = "configure it for pyiceberg, or give uri= and warehouse="
            raise UsageError("SPEC_OPTION_BAD", message, help=help) from safe_cause(error)

    @contextmanager
    def reach_version(self) -> Iterator[None]:
        """Turn errors of the catalogue itself into SOURCE_NOT_REACHABLE."""
        try:
            yield
        except errors_of_catalogs() as error:
            message = f"the catalogue {self.name} does not answer: {clean(str(error))}"
            help = "start or create the catalogue, or correct its address in the configuration or in uri="
            raise InputRefused("SOURCE_NOT_REACHABLE", message, help=help, path=str(self)) from (
                safe_cause(error)
            )


def _keep_nulls() -> None:
    """Let pyiceberg 0.12 keep null lists and maps of structs, which it reads and writes as empty ones."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyiceberg.io.pyarrow import ArrowProjectionVisitor

    def keep(method: Callable[..., Any]) -> Callable[..., Any]:
        """Return a method that keeps the nulls of its values."""

        @wraps(method)
        def convert(visitor: object, type_: object, values: Any, *parts: object) -> Any:
            """Convert values, and put back their nulls."""
            converted = method(visitor, type_, values, *parts)
            if converted is None or converted.null_count == values.null_count:
                return converted
            offsets = pc.add(converted.offsets, 0)  # a mask needs offsets that are not a slice
            is_map = isinstance(converted, pa.MapArray)
            inner = (converted.keys, converted.items) if is_map else (converted.values,)
            return type(converted).from_arrays(
                offsets, *inner, converted.type, mask=values.is_null()
            )

        return convert

    for name in ("list", "map"):
        method = getattr(ArrowProjectionVisitor, name)
        if not hasattr(method, "__wrapped__"):
            setattr(ArrowProjectionVisitor, name, keep(method))


def errors_of_catalogs() -> tuple[type[Exception], ...]:
    """Return the errors with which the programs of catalogues say that they cannot be used."""
    from pyiceberg.exceptions import RESTError

    # Only a catalogue in a database has loaded this package.
    database = sys.modules.get("sqlalchemy.exc")
    return (OSError, RESTError, *((database.SQLAlchemyError,) if database else ()))


def open_table(address: CatalogAddress, catalog: Catalog, name: str, place: str) -> Table:
    """Open a table at its newest state.

    Raises:
        InputRefused: SOURCE_NOT_FOUND, SOURCE_NOT_REACHABLE.
    """
    from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

    try:
        with address.reach_version():
            return catalog.load_table(name)
    except (NoSuchTableError, NoSuchNamespaceError) as error:
        message = "there is no Iceberg table of this name in the catalogue"
        help = "write iceberg:NAMESPACE.TABLE; the table must exist before the run"
        raise InputRefused("SOURCE_NOT_FOUND", message, help=help, path=place) from (
            safe_cause(error)
        )
