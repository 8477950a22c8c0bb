"""Tables of PostgreSQL by logical replication; importing it needs the package psycopg2."""

from __future__ import annotations

from substrait_agg.optional_packages import require

require("psycopg2")
