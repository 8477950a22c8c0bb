"""Python reads this at its start where the folder is on its path: strikes at the n-th operation on a file.

Variables of the environment: ``KILL_ROLE`` (driver or worker), ``KILL_AT`` (ordinal of the operation in a process),
``KILL_VICTIMS``, ``KILL_MARK`` (a file that is made when it strikes, so that it does so once).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast


def _role() -> str:
    return "worker" if any("pyspark.daemon" in word for word in sys.orig_argv) else "driver"


def _install(at: int, victims: str, mark: Path) -> None:
    from substrait_agg.files import filesystem
    from tests.kills.process_killer import Victims, strike

    seen = 0

    def counted(name: str) -> Callable[..., Any]:
        method = getattr(filesystem.FileSystem, name)

        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal seen
            seen += 1
            if seen == at:
                try:
                    mark.touch(exist_ok=False)
                except FileExistsError:
                    return method(*arguments, **options)
                mark.write_text(str(strike(os.getsid(0), cast("Victims", victims))))
            return method(*arguments, **options)

        return call

    names = [name for name in vars(filesystem.FileSystem) if not name.startswith("_")]
    filesystem._DISK = type(
        "Counting", (filesystem.FileSystem,), {name: counted(name) for name in names}
    )()


if os.environ.get("KILL_ROLE") == _role():
    _install(int(os.environ["KILL_AT"]), os.environ["KILL_VICTIMS"], Path(os.environ["KILL_MARK"]))
