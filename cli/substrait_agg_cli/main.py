"""Define the entry point of `substrait-agg`."""

from __future__ import annotations

import click

import substrait_agg
from substrait_agg.api.numpy_features import avoid_slow_sorts
from substrait_agg_cli.functions import functions
from substrait_agg_cli.plans import explain
from substrait_agg_cli.problems import problems
from substrait_agg_cli.queries import convert, plan
from substrait_agg_cli.reading import changes, view
from substrait_agg_cli.running import run
from substrait_agg_cli.state import state
from substrait_agg_cli.terminal import Command, debug_option
from substrait_agg_cli.validating import validate

EPILOG = """\b
Examples:
  substrait-agg run --sql totals.sql --source sales=csv:sales/ --checkpoint ckpt
  substrait-agg validate q01.bin
  substrait-agg run q01.bin --source lineitem=parquet:data/lineitem --checkpoint ckpt
  substrait-agg view ckpt
"""


@click.group(
    cls=Command,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(substrait_agg.__version__, prog_name="substrait-agg")
@debug_option
def main() -> None:
    """Maintain the results of SQL queries and Substrait plans on Spark, incrementally and exactly.

    Exit status: 0 success; 1 the plan has errors, or the run failed; 2 wrong usage.
    """
    avoid_slow_sorts()  # before anything imports numpy


for command in (validate, explain, plan, convert, problems, functions, run, view, changes, state):
    main.add_command(command)

if __name__ == "__main__":
    main(prog_name="substrait-agg")
