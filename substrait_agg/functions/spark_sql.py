"""Define the function of an extension that Spark computes from the text of an expression.

Its first argument is a constant text: an expression of Spark's SQL over the columns ``c0``, ``c1``, ...,
which are the other arguments. Its type is the one that the plan declares. The expression may be any of
Spark's deterministic expressions of one row. A run checks that before it computes it.
"""

from __future__ import annotations

SPARK_URN = "substrait_agg:functions_spark"
"""The URN of the extension in decoded plans, without ``extension:`` in front."""

SPARK_SQL = "spark_sql"
"""Name of the function."""

SPARK_VERSION = "SPARK_VERSION"
"""Option of the function: the release of Spark, such as ``4.3``, that planned the text.

Another release may compute other values, which would not match those that a view has.
"""

UNNEST = "unnest"
"""Name of the function of a list whose elements become rows. Only an expression of a projection can call it."""

RECURSION = "recursion"
"""Name of the function with which a projection makes a recursion of the union that it reads.

Its arguments are constants: the name of the recursion, the greatest level, and how many rows a batch may
change. Its value is the level of the row. The second input of the union reads the table
``system.recursion.NAME``: the rows of the last level.
"""

RECURSION_TABLE = ("system", "recursion")
"""First parts of the name of the table that stands for the rows of the last level."""
