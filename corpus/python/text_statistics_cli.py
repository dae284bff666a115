"""Count lines, words and characters, as wc does."""
import argparse
import sys
from pathlib import Path


def count(text):
    return len(text.splitlines()), len(text.split()), len(text)


def main(argv=None):
    parser = argparse.ArgumentParser(prog="count", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("-s", "--sort", choices=["name", "lines", "words"], default="name")
    parser.add_argument("-r", "--reverse", action="store_true")
    parser.add_argument("--version", action="version", version="%(prog)s 1.0")
    args = parser.parse_args(argv)

    rows = []
    for path in args.files:
        try:
            rows.append((path.name, *count(path.read_text(encoding="utf-8"))))
        except FileNotFoundError:
            print(f"{path}: no such file")
    rows.sort(key=lambda r: r[["name", "lines", "words"].index(args.sort)], reverse=args.reverse)
    for name, lines, words, characters in rows:
        print(f"{lines:>7}{words:>7}{characters:>8} {name}")
    print(f"{sum(r[1] for r in rows):>7}{sum(r[2] for r in rows):>7}{sum(r[3] for r in rows):>8} total")
    return 0


if __name__ == "__main__":
    sys.exit(main())
