"""Run the command `substrait-agg`, also as ``python -m substrait_agg_cli``.

The command is imported inside `main`, so that Ctrl-C is no traceback while its modules load.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys

_STOPPED = (128 + signal.SIGINT, 128 + signal.SIGTERM)


def main() -> None:
    """Run the command line of the process and exit."""
    try:
        from substrait_agg_cli.main import main as command

        command(prog_name="substrait-agg")
    except KeyboardInterrupt:
        sys.stderr.write("error[INTERRUPTED]: stopped by the user\n")
        _leave(128 + signal.SIGINT)
    except SystemExit as end:
        if end.code in _STOPPED:
            _leave(int(end.code))
        raise
    finally:
        # All is written. A signal from here on ends the process without a traceback.
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _leave(status: int) -> None:
    """End the process without finalizing Python, which crashes while other threads compute a batch."""
    for stop in _STOPPED:
        signal.signal(stop - 128, signal.SIG_DFL)
    atexit._run_exitfuncs()  # noqa: SLF001 - `os._exit` leaves them out
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    main()
