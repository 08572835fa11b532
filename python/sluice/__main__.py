"""The program `sluice`: takes the place of this process, so that signals and exit codes are its own."""

import os
import sys

from . import program


def main():
    path = program()
    os.execv(path, [path, *sys.argv[1:]])


if __name__ == "__main__":
    main()
