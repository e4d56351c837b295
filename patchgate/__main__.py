"""`python -m patchgate`, and the console script: imports the command so that Ctrl-C ends it without
a traceback.
"""

from __future__ import annotations

import signal


def main() -> None:
    """Run the command."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(
            signal.SIGINT, signal.SIG_DFL
        )  # until the command is there, and ends in its own way
    from patchgate.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
