"""Plan the expressions of ibis and the plans of DataFusion that a program has as objects."""

from __future__ import annotations

from typing import Any

from substrait_agg.errors import UsageError
from substrait_agg.optional_packages import require
from substrait_agg.report.checked_plan import Plan, as_plan


def plan_of(source: Any) -> Plan:
    """Return the plan of any accepted object, without decoding it.

    Args:
        source: as in `as_plan`; or an ibis expression, or a DataFrame or logical plan of
            DataFusion.

    Raises:
        UsageError: PLAN_SOURCE for an expression over a connected backend, IBIS_MISSING,
            DATAFUSION_MISSING; otherwise as `as_plan`.
        SqlRefused: the SQL text of an ibis expression cannot be planned.
    """
    package = type(source).__module__.partition(".")[0]
    if package == "ibis":
        return _plan_of_ibis(source)
    if package == "datafusion":
        return _plan_of_datafusion(source)
    return as_plan(source)


def _plan_of_ibis(expression: Any) -> Plan:
    """Plan the SQL text that ibis writes for an expression."""
    require("ibis", "pyspark", "pandas")
    import ibis
    import ibis.expr.operations as ops

    if not isinstance(expression, ibis.Expr):
        message = f"a plan cannot be of type {type(expression).__name__}"
        raise UsageError("PLAN_SOURCE", message, help="give an ibis expression")
    table = expression.as_table()
    schemas = {}
    for source in table.op().find(ops.PhysicalTable):
        if not isinstance(source, ops.UnboundTable):
            raise UsageError(
                "PLAN_SOURCE",
                f"the expression reads {getattr(source, 'name', 'a table')} of a connected backend or in memory",
                help="use ibis.table(schema, name=...): the rows come from the sources of the run",
            )
        parts = (source.namespace.catalog, source.namespace.database, source.name)
        schemas[".".join(part for part in parts if part)] = source.schema.to_pyarrow()
    from substrait_agg.api.queries import sql

    _ = ibis.pyspark  # loads the options that the text depends on
    return sql(str(ibis.to_sql(table, dialect="pyspark")), schemas)


def _plan_of_datafusion(source: Any) -> Plan:
    """Serialize a DataFrame or a logical plan. A DataFrame is optimized first."""
    require("datafusion")
    from datafusion import DataFrame, SessionContext
    from datafusion.plan import LogicalPlan
    from datafusion.substrait import Producer

    plan = source.optimized_logical_plan() if isinstance(source, DataFrame) else source
    if not isinstance(plan, LogicalPlan):
        message = f"a plan cannot be of type {type(source).__name__}"
        raise UsageError("PLAN_SOURCE", message, help="give a DataFrame or a LogicalPlan")
    try:
        content = Producer.to_substrait_plan(plan, SessionContext()).encode()
    except Exception as error:
        raise UsageError(
            "PLAN_SOURCE",
            f"DataFusion cannot write the plan as Substrait: {str(error).splitlines()[0]}",
            help="give the DataFrame, whose plan is optimized first, or its SQL text",
        ) from error
    return Plan("", content)
