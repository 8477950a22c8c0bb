"""The scenario as a separate process: ``python -m tests.crash.sleeper FOLDER NAME PAUSE`` prints
how it ended.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from substrait_agg.errors import SubstraitAggError
from tests.crash.scenario import World, quick_batches, run
from tests.crash.settings import BATCHES


def main(folder: str, name: str, pause: str) -> None:
    """Run to the end; pauses between batches, so that there is time to stop it."""
    with quick_batches():
        try:
            run(World(Path(folder)), BATCHES, name, lambda _batch: time.sleep(float(pause)))
        except SubstraitAggError as error:
            print(error.code)  # noqa: T201 - the one who waits reads it
        else:
            print("DONE")  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
