"""The `byteway` command."""

from __future__ import annotations

import os
import signal
import sys

from . import _native


def main() -> None:
    """Runs the command line, as the `byteway` program does."""
    # Both are the program's business, not the interpreter's.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    arguments = [os.path.basename(sys.argv[0]) or "byteway", *sys.argv[1:]]
    code = _native.main(arguments)
    # Its threads need no goodbye, and nothing of Python is open.
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    sys.argv[0] = "byteway"
    main()
