"""Runs the program `sluice` in place of this process, so that signals and exit codes are its own."""

import os
import sys

from . import program


def main() -> None:
    path = program()
    try:
        os.execv(path, [path, *sys.argv[1:]])
    except OSError as failed:
        print(f"sluice: error: cannot run the program: {failed.strerror}; {path}; install the package sluice-train again",
              file=sys.stderr)
        sys.exit(3)


if __name__ == "__main__":
    main()
