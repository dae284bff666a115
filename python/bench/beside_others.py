#!/usr/bin/env python3
"""Compares sessions of this package with Monty's, in one process, interleaved: minimum and median of each.

    pip install ./python pydantic-monty; python python/bench/beside_others.py [ROUNDS]
"""

import statistics
import sys
import time

import membrane

try:
    import pydantic_monty
except ImportError:
    pydantic_monty = None

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 200


def membranes():
    def cycle():
        with membrane.Session() as session:
            session.run("1 + 2")

    open_session = membrane.Session(functions={"price": lambda item: 350})
    open_session.run("1 + 2")

    def stop_and_go_on():
        with membrane.Session() as session:
            blob = session.start("ask(1)").dump()
        membrane.load(blob).resume(2)

    return {
        "session, 1 + 2, close": cycle,
        "a run in an open session": lambda: open_session.run("1 + 2"),
        "the same with a call of the host": lambda: open_session.run("price('tea')"),
        "start, dump, load, resume": stop_and_go_on,
    }


def montys(pool):
    def cycle():
        with pool.checkout() as session:
            session.feed_run("1 + 2")

    open_session = pool.checkout().__enter__()

    def stop_and_go_on():
        with pool.checkout() as session:
            blob = session.feed_start("ask(1)").dump()
        with pool.checkout() as session:
            session.load_snapshot(blob).resume({"return_value": 2})

    return {
        "session, 1 + 2, close": cycle,
        "a run in an open session": lambda: open_session.feed_run("1 + 2"),
        "the same with a call of the host": lambda: open_session.feed_run("price('tea')", external_lookup={"price": lambda item: 350}),
        "start, dump, load, resume": stop_and_go_on,
    }


def calls_from_inside(session, count=1000):
    """Microseconds per call, for each of several turns that make `count` calls."""
    session.run(f"def many():\n  for _ in range({count}): price('tea')\nmany()").check()
    taken = []
    for _ in range(20):
        begun = time.perf_counter()
        session.run("many()").check()
        taken.append((time.perf_counter() - begun) / count * 1e6)
    return taken


def main():
    membrane.open_language("python")
    sides = {"membrane": membranes()}
    if pydantic_monty is not None:
        sides["monty"] = montys(pydantic_monty.Monty().__enter__())
    for name in sides["membrane"]:
        taken = {side: [] for side in sides}
        for round_number in range(ROUNDS + 10):
            for side, acts in sides.items():
                begun = time.perf_counter()
                acts[name]()
                if round_number >= 10:
                    taken[side].append((time.perf_counter() - begun) * 1e6)
        print(f"{name:34}" + "".join(f"  {side} {min(us):8.0f} {statistics.median(us):8.0f} µs" for side, us in taken.items()))
    with membrane.Session(functions={"price": lambda item: 350}) as session:
        taken = calls_from_inside(session)
        print(f"{'a call and back, from inside':34}  membrane {min(taken):8.1f} {statistics.median(taken):8.1f} µs")
    with membrane.Session() as session:
        print(f"{'bytes of a call that waits':34}  membrane {len(session.start('ask(1)').dump()):8}")


if __name__ == "__main__":
    main()
