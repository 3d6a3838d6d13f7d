"""The command `scratchbook`. `scratchbook --help` lists its subcommands, such as `serve` and `chat`."""

from __future__ import annotations

import signal
import sys

from ._scratchbook import run_command


def main() -> None:
    """Run the command with the arguments of this process, and end the process with its exit code."""
    # Python's own handler would wait for this call to return.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    run_command(["scratchbook", *sys.argv[1:]])


if __name__ == "__main__":
    main()
