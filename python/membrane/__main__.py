"""python -m membrane install [LANGUAGE…]: brings languages for sessions."""

import argparse
import sys

from . import MembraneError, install


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m membrane", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    installing = commands.add_parser("install", help="bring languages for sessions")
    installing.add_argument("language", nargs="*", help="python, js; both when none is named")
    installing.add_argument("--directory", help="where to, in the place of the user's data directory")
    arguments = parser.parse_args()
    try:
        install(*arguments.language, directory=arguments.directory, on_progress=lambda step: print(step, file=sys.stderr))
    except MembraneError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
