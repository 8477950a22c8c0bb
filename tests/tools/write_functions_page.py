"""Write the tables of docs/functions.md: ``python tests/tools/write_functions_page.py``."""

from __future__ import annotations

import re
from pathlib import Path

from substrait_agg.functions.listing.catalogue_tables import aggregate_tables, scalar_tables
from substrait_agg.functions.listing.markdown import markdown

PAGE = Path(__file__).parents[2] / "docs" / "functions.md"
TABLES = re.compile(r"(<!-- functions: [^\n]* -->\n).*(\n<!-- end of functions -->)", re.DOTALL)


def written(page: str) -> str:
    """The page with the tables as they are now."""
    tables = markdown((*aggregate_tables(), *scalar_tables()))
    return TABLES.sub(lambda marks: f"{marks[1]}\n{tables}\n{marks[2]}", page)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
