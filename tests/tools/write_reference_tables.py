"""Write the generated tables of docs/limits.md and docs/formats.md: ``python tests/tools/write_reference_tables.py``."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from substrait_agg.spark.sources.format_options import OF_FOLDERS, OPTIONS

DOCS = Path(__file__).parents[2] / "docs"
MIB = 1 << 20

LIMITS = (
    ("bytes of a plan, from files, devices, pipes and stdin", "plan.messages.source", "MAX_PLAN_BYTES"),
    ("fields with a value, known or unknown, and fields inside one group", "plan.messages.node", "MAX_VALUES"),
    ("messages inside messages", "plan.messages.node", "MAX_DEPTH"),
    ("types inside types, constants inside constants", "plan.messages.node", "MAX_NESTING"),
    ("total characters of the paths of all messages", "plan.messages.node", "MAX_PATH_TEXT"),
    ("messages after references are expanded", "plan.decoding.decoder", "MAX_IN_PLACE"),
    ("columns of one relation, including the fields of structs; measures, grouping expressions and sort keys of one relation",
     "bind.plan_size", "MAX_COLUMNS"),
    ("grouping sets of one aggregate", "bind.plan_size", "MAX_SETS"),
    ("columns and expression parts of all relations, after all branches of unions are expanded; 64 characters of a constant count as one part",
     "bind.plan_size", "MAX_PLACED"),
    ("bits of the grouping mask in the layout of DataFusion: one per key, and bits that number repeated sets",
     "bind.aggregates.grouping_sets", "MOST_BITS"),
    ("parts of the match value of a `switch`, times its cases", "bind.expressions.binder", "MATCH_PARTS"),
    ("problems; the rest of the plan is not checked", "plan.decoding.context", "MAX_PROBLEMS"),
    ("windows of one row, for hopping windows (`WINDOWS_TOO_MANY`)", "functions.windows", "MOST_WINDOWS"),
    ("event times of a percentile watermark", "operator.common.watermarks", "MOST_EVENTS"),
    ("partitions of a watermark (`by:`, `WATERMARK_PARTITIONS`)", "operator.common.watermarks", "MOST_PARTITIONS"),
)  # fmt: skip
"""What is limited, and the module and the constant that limit it."""

ALIASES = {"sep": "delimiter", "encoding": "charset"}
"""Options of Spark with two names."""


def limits_table() -> str:
    """Return the table of limits with the values that the code has."""
    rows = [
        f"| {what} | {_number(getattr(import_module(f'substrait_agg.{module}'), constant))} "
        f"| `{module.replace('.', '/')}.py` |\n"
        for what, module, constant in LIMITS
    ]
    return "| limited | at most | source |\n|---|---|---|\n" + "".join(rows)


def _number(value: int) -> str:
    return f"{value // MIB} Mi" if value >= MIB and value % MIB == 0 else f"{value:,}"


def options_table() -> str:
    """Return the table of the options of sources, by the formats that have them."""
    shared = set(OF_FOLDERS)
    text = (set(OPTIONS["csv"]) & set(OPTIONS["json"])) - shared
    rows = (
        ("CSV", set(OPTIONS["csv"]) - text - shared),
        ("JSON", set(OPTIONS["json"]) - text - shared),
        ("CSV and JSON", text),
        ("Parquet", set(OPTIONS["parquet"]) - shared),
        ("JSON with `cdc=debezium`", set(OPTIONS["debezium"]) - shared),
        ("all of them", shared),
    )
    return "| format | options |\n|---|---|\n" + "".join(
        f"| {name} | {_options(options)} |\n" for name, options in rows
    )


def _options(names: set[str]) -> str:
    listed = sorted(names - {ALIASES[name] for name in names & set(ALIASES)})
    return ", ".join(
        f"`{name}`" + (f" (`{ALIASES[name]}`)" if name in ALIASES else "") for name in listed
    )


TABLES: dict[str, tuple[str, Callable[[], str]]] = {
    "limits": ("limits.md", limits_table),
    "options": ("formats.md", options_table),
}
"""Name of the marks in a page -> the page, and what is between the marks."""


def written(name: str) -> tuple[str, str]:
    """Return a page as it is, and with its table as it is now."""
    page, table = TABLES[name]
    text = (DOCS / page).read_text(encoding="utf-8")
    made = re.compile(rf"(<!-- {name}: [^\n]* -->\n).*(<!-- end of {name} -->)", re.DOTALL)
    return text, made.sub(lambda marks: f"{marks[1]}\n{table()}\n{marks[2]}", text)


if __name__ == "__main__":
    for name, (page, _) in TABLES.items():
        (DOCS / page).write_text(written(name)[1], encoding="utf-8")
