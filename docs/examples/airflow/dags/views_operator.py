"""An operator of Airflow that runs substrait-agg, which may be installed in another environment."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from airflow.sdk import BaseOperator


class MaintainViews(BaseOperator):
    """Process the new changes of the sources, and return the version of the views.

    A task that is retried continues where the failed one stopped: a version is committed as a whole or not at all. Two tasks must
    not write the same checkpoint at a time, so the DAG has ``max_active_runs=1``.

    Args:
        sql: a file of SQL, or a folder with several views.
        sources: NAME -> SPEC of each table.
        checkpoint: folder of the checkpoint.
        outputs: outputs besides the checkpoint, such as ``view-parquet=DIR``.
        program: the command.
    """

    template_fields: Sequence[str] = ("sql", "sources", "checkpoint", "outputs")

    def __init__(
        self,
        *,
        sql: str | Path,
        sources: Mapping[str, str],
        checkpoint: str | Path,
        outputs: Sequence[str] = (),
        program: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.sql = str(sql)
        self.sources = dict(sources)
        self.checkpoint = str(checkpoint)
        self.outputs = list(outputs)
        self.program = program or os.environ.get("SUBSTRAIT_AGG", "substrait-agg")
        self._running: subprocess.Popen[bytes] | None = None

    def execute(self, context: Any) -> int:
        """Run the command, with its messages in the log of the task."""
        command = [self.program, "run", "--sql", self.sql, "--checkpoint", self.checkpoint]
        command += [f"--source={name}={spec}" for name, spec in self.sources.items()]
        command += [f"--output={output}" for output in self.outputs or ("none",)]
        with subprocess.Popen(command, stderr=subprocess.PIPE) as self._running:
            for line in self._running.stderr or ():
                self.log.info(line.decode(errors="replace").rstrip())
        if self._running.returncode:
            message = f"substrait-agg ended with status {self._running.returncode}"
            raise RuntimeError(message)
        listed = [self.program, "state", "ls", self.checkpoint, "--limit=1", "--format=json"]
        state = json.loads(subprocess.run(listed, check=True, capture_output=True).stdout)
        version: int = state["versions"][-1]["version"]
        return version

    def on_kill(self) -> None:
        """Stop the run. The versions that it has committed remain."""
        if self._running is not None:
            self._running.terminate()
