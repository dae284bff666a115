import argparse
import json
import sys
from pathlib import Path

STORE = Path("todo.json")


def load():
    return json.loads(STORE.read_text()) if STORE.exists() else []


def save(items):
    STORE.write_text(json.dumps(items, indent=1))


def add(args):
    items = load()
    items.append({"text": args.text, "priority": args.priority, "done": False})
    save(items)
    print(f"added #{len(items)}: {args.text}")


def done(args):
    items = load()
    if not 1 <= args.number <= len(items):
        print(f"there is no #{args.number}")
        return
    items[args.number - 1]["done"] = True
    save(items)
    print(f"done: {items[args.number - 1]['text']}")


def show(args):
    for n, item in sorted(enumerate(load(), 1), key=lambda p: -p[1]["priority"]):
        if args.all or not item["done"]:
            print(f"{n:>2} [{'x' if item['done'] else ' '}] {'!' * item['priority']:<3} {item['text']}")


def build_parser():
    parser = argparse.ArgumentParser(prog="todo", description="A small to-do list")
    commands = parser.add_subparsers(dest="command", required=True)
    p = commands.add_parser("add", help="add a task")
    p.add_argument("text")
    p.add_argument("-p", "--priority", type=int, choices=range(1, 4), default=1)
    p.set_defaults(run=add)
    p = commands.add_parser("done")
    p.add_argument("number", type=int)
    p.set_defaults(run=done)
    p = commands.add_parser("show")
    p.add_argument("--all", action=argparse.BooleanOptionalAction, default=False)
    p.set_defaults(run=show)
    return parser


parser = build_parser()
script = [sys.argv[1:], ["add", "buy ink", "-p3"], ["add", "call Lena"], ["done", "2"], ["done", "9"], ["show"], ["show", "--all"]]
for argv in script:
    args = parser.parse_args(argv)
    args.run(args)
try:
    parser.parse_args(["add", "x", "--priority", "7"])
except SystemExit as e:
    print("exit code", e.code)
