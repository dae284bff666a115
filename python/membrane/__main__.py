"""python -m membrane install [LANGUAGE…]: installs languages for sessions."""

import argparse
import sys

from . import MembraneError, install


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m membrane", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    installing = commands.add_parser("install", help="install languages for sessions")
    installing.add_argument("language", nargs="*", help="python, js; both if none is named")
    installing.add_argument("--directory", help="install here instead of in the user's data directory")
    arguments = parser.parse_args()
    try:
        install(*arguments.language, directory=arguments.directory, on_progress=lambda step: print(step, file=sys.stderr))
    except MembraneError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
