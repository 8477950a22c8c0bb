"""TPC-DI: ``python -m benchmarks.tpcdi generate --scale 3 --out DIR`` writes the raw tables of three batches.

``python -m benchmarks.tpcdi run --data DIR`` keeps the models over them, batch by batch, and compares them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.tpcdi import run
from benchmarks.tpcdi.generate import generate


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.tpcdi", description=__doc__.partition("\n")[0]
    )
    commands = made.add_subparsers(dest="command", required=True)
    data = commands.add_parser("generate", help="write the raw tables as Parquet files")
    data.add_argument("--scale", type=float, default=3, help="scale factor; below 1 for tests")
    data.add_argument("--seed", type=int, default=1, help="the same one gives the same rows")
    data.add_argument("--out", type=Path, required=True, help="folder")
    kept = commands.add_parser("run", help="keep the models over them, batch by batch")
    kept.add_argument("--data", type=Path, required=True, help="folder that generate has written")
    kept.add_argument(
        "--json",
        type=Path,
        help="file that figures are kept in, per scale, and its picture beside it",
    )
    kept.add_argument("--metrics", type=Path, help="file for the metrics of our batches")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the files and show how many rows they have; or run."""
    options = parser().parse_args(arguments)
    if options.command == "run":
        return run.main(options.data, options.json, options.metrics)
    for (batch, name), rows in sorted(generate(options.out, options.scale, options.seed).items()):
        print(f"batch{batch}  {name:18}{rows:>12,}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
