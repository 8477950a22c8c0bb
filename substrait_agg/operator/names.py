"""Names of columns that travel with the rows of an operator."""
from __future__ import annotations

WEIGHT = "__weight"
"""The int64 weight column: of inputs (a DataFrame that has it is read as weighted rows) and of changes."""
