#!/usr/bin/env python3
"""Compares isolated sessions with sessions in this process, interleaved: minimum and median of each.

    pip install ./python; python python/bench/isolated.py [ROUNDS]
"""

import statistics
import sys
import time

import membrane

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 200


def acts(isolated):
    def price(item):
        return 350

    open_session = membrane.Session(isolated=isolated, functions={"price": price})
    open_session.run("1 + 2")
    waiting = membrane.Session(isolated=isolated).start("ask(1)").dump()

    def create():
        membrane.Session(isolated=isolated).close()

    def cycle():
        with membrane.Session(isolated=isolated) as session:
            session.run("1 + 2")

    def fork():
        open_session.fork().close()

    return {
        "create, close": create,
        "create, `1 + 2`, close": cycle,
        "a run in an open session": lambda: open_session.run("1 + 2"),
        "the same with a call of the host": lambda: open_session.run("price('tea')"),
        "the same with 100 calls": lambda: open_session.run("for _ in range(100): price('tea')"),
        "fork, close": fork,
        "dump": open_session.dump,
        "load, resume": lambda: membrane.load(waiting, isolated=isolated).resume(2),
    }


def main():
    places = [acts(isolated) for isolated in (False, True)]
    print("| | in this process | isolated |\n| --- | ---: | ---: |")
    for name in places[0]:
        took = ([], [])
        for _ in range(ROUNDS):
            for place, times in zip(places, took):
                begun_at = time.perf_counter()
                place[name]()
                times.append((time.perf_counter() - begun_at) * 1e6)
        words = (f"{min(times):,.0f} µs ({statistics.median(times):,.0f} µs)" for times in took)
        print(f"| {name} | {' | '.join(words)} |", flush=True)


if __name__ == "__main__":
    main()
