"""Write the tables of docs/functions.md: ``python tests/tools/write_functions_page.py``."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from substrait_agg.evaluation.expressions import KERNELS, LAZY
from substrait_agg.functions.listing.catalogue_tables import aggregate_tables, scalar_tables
from substrait_agg.functions.listing.markdown import markdown
from substrait_agg.functions.scalars.catalogue import SCALARS

PAGE = Path(__file__).parents[2] / "docs" / "functions.md"
TABLES = re.compile(r"(<!-- functions: [^\n]* -->\n).*(\n<!-- end of functions -->)", re.DOTALL)
SPARK_ONLY = re.compile(r"(<!-- spark only -->\n).*?(\n<!-- end of spark only -->)", re.DOTALL)


def spark_only() -> str:
    """The functions that have no kernel on Arrow."""
    names = ", ".join(f"`{name}`" for name in SCALARS if name not in {*KERNELS, *LAZY})
    return textwrap.fill(f"{names}.", 120)


def written(page: str) -> str:
    """The page with the tables as they are now."""
    tables = markdown((*aggregate_tables(), *scalar_tables()))
    page = TABLES.sub(lambda marks: f"{marks[1]}\n{tables}\n{marks[2]}", page)
    return SPARK_ONLY.sub(lambda marks: f"{marks[1]}{spark_only()}{marks[2]}", page)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
