"""Run the command `substrait-agg`, also as ``python -m substrait_agg_cli``.

The command is imported inside `main`, so that Ctrl-C is no traceback while its modules load.
"""

from __future__ import annotations

import signal
import sys


def main() -> None:
    """Run the command line of the process and exit."""
    try:
        from substrait_agg_cli.main import main as command

        command(prog_name="substrait-agg")
    except KeyboardInterrupt:
        sys.stderr.write("error[INTERRUPTED]: stopped by the user\n")
        sys.exit(128 + signal.SIGINT)
    finally:
        # All is written. A signal from here on ends the process without a traceback.
        signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    main()
