"""Parse the target of an output ``postgres=SCHEMA.TABLE[?key=value&...]``."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import unquote

from substrait_agg.changes.targets.options import bad_target, parse_options
from substrait_agg.redaction import redacted_options

_HELP = "write postgres=SCHEMA.TABLE?service=NAME, or ?dsn=postgresql://USER@HOST/DATABASE"
_OPTIONS = ("service", "dsn", "notify")
MOST_BYTES = 63
"""Bytes of a name in PostgreSQL, which cuts longer ones without a word."""


@dataclass(frozen=True, slots=True)
class PostgresTarget:
    """A table of PostgreSQL and how to connect.

    Attributes:
        schema: name of the schema.
        table: name of the table.
        written: both as written, percent-encoded.
        options: ``service``, ``dsn``, ``notify``. The connection string may contain a password.
    """

    schema: str
    table: str
    written: str
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def arguments(self) -> dict[str, str]:
        """Return how to connect; empty to use the variables ``PG*`` of the environment."""
        return {key: value for key, value in self.options if key in ("service", "dsn")}

    @property
    def channel(self) -> str:
        """Return the channel of notifications; empty for none."""
        return dict(self.options).get("notify", "")

    def __str__(self) -> str:
        options = redacted_options(self.options)
        return self.written + (f"?{options}" if options else "")


def parse_postgres(text: str) -> PostgresTarget:
    """Parse ``SCHEMA.TABLE[?key=value&...]``; names, keys and values are percent-decoded.

    >>> parse_postgres("public.My%2ETable?service=shop").table
    'My.Table'

    Raises:
        UsageError: OPTION_INVALID; messages do not quote values.
    """
    path, _, query = text.partition("?")
    raw_schema, dot, raw_table = path.partition(".")
    schema, table = unquote(raw_schema), unquote(raw_table)
    options = parse_options(query, "postgres")
    option_values = dict(options)
    names = {"schema": schema, "table": table, "channel": option_values.get("notify", "-")}
    if not dot or "." in raw_table:
        raise bad_target("the target is not SCHEMA.TABLE", _HELP, "postgres")
    for what, name in names.items():
        if not name or "\0" in name or len(name.encode()) > MOST_BYTES:
            message = f"the name of the {what} does not have 1 to {MOST_BYTES} bytes"
            raise bad_target(message, _HELP, "postgres")
    for key in option_values:
        if key not in _OPTIONS:
            raise bad_target(f"option {key} is not known", f"use {', '.join(_OPTIONS)}", "postgres")
    if "service" in option_values and "dsn" in option_values:
        raise bad_target("service and dsn are both given", "give one of them", "postgres")
    return PostgresTarget(schema, table, path, options)
