"""Check a plan with what the sources of its tables say: their column types."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from substrait_agg.problem_kinds import Mode
from substrait_agg.report.checked_plan import Checked, Plan


def check_with_sources(
    plan: Plan, mode: Mode, static: frozenset[str], sources: Mapping[str, Any]
) -> Checked:
    """Check a plan. In lenient mode, take missing column types from the sources.

    Args:
        plan: the plan.
        mode: ``lenient`` or ``strict``.
        static: names of the static tables, in lower case.
        sources: sources by the names of their tables. Those of other tables are ignored, and tables
            without a source keep their problem.

    Raises:
        InputRefused: a source has no types or cannot be opened.
    """
    checked = plan.check(mode, static)
    untyped = any(problem.code == "SCHEMA_TYPES_MISSING" for problem in checked.problems)
    if not (untyped and sources and mode == "lenient") or checked.decoded is None:
        return checked
    from substrait_agg.optional_packages import require

    require("pyspark", "pandas")
    from substrait_agg.bind import untyped_tables
    from substrait_agg.bind.plan.table_sources import has_source
    from substrait_agg.bind.readings import reads_of
    from substrait_agg.spark.inputs.plan_files import with_plan_files
    from substrait_agg.spark.session.session import get_session
    from substrait_agg.spark.sources.source_types import source_schemas

    named = with_plan_files(sources, reads_of(checked.decoded))
    tables = [table for table in untyped_tables(checked.decoded) if has_source(table[0], named)]
    session = partial(get_session, None, None, None, None)
    return plan.check_with(source_schemas(tables, named, session, footers=True), static)
