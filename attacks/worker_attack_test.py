"""Attempts of a worker that runs code of the attacker's choice: against the system, and against its
supervisor.

The worker is cli/hostile_worker_main.cc (MEMBRANE_HOSTILE_WORKER), which raises the walls as every worker
does and then does one thing. Attempts that a wall other than the system call filters stops are made without
these filters, so that the wall is tested alone; and everything is also tried without any wall, where it must
have another result: so the walls are what stops it.
"""

import json
import os
import subprocess
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from attack import MAX_SECONDS, ROOT, SANITIZED
from escapes import add_tries, rows_of, worker_walls

PROGRAM = Path(os.environ.get("MEMBRANE_HOSTILE_WORKER", ROOT / "build" / "release" / "hostile_worker"))
CALLS = rows_of("worker/hostile_calls.def", "TRY")
PEERS = rows_of("worker/hostile_peers.def", "PEER")
PARALLEL = 8        # most peers wait for a deadline
MEMORY_MIB = 96     # what a message can cost a supervisor beside its bytes
# Messages of a machine that itself prevents an attempt, wherever it is made.
FORBIDDEN = {"EPERM", "EACCES", "ENOSYS"}
# What a sanitizer needs is left in place (worker/walls.cc).
NOT_SANITIZED = {"take_a_terabyte_of_memory", "write_on_the_supervisors_output"}


class Calls(unittest.TestCase):
    """System calls inside the walls."""

    @classmethod
    def setUpClass(cls):
        cls.said, cls.bare = {}, {}
        for program in (PROGRAM, PROGRAM.with_name(PROGRAM.name + "_unfiltered")):
            for known, more in ((cls.said, ()), (cls.bare, ("bare",))):
                with tempfile.TemporaryDirectory() as folder:
                    done = subprocess.run([program, "calls", folder, *more], capture_output=True, text=True,
                                          timeout=MAX_SECONDS)
                lines = [json.loads(line) for line in done.stdout.splitlines()]
                assert done.returncode == 0 and lines, done.stderr
                cls.missing = lines[0]["missing"]
                known.update(((each["name"], each["wall"], each["when"]), each["said"]) for each in lines[1:])

    def stands(self, name, wall, when, stop):
        if SANITIZED and (wall == "system_calls" or name in NOT_SANITIZED):
            self.skipTest("a sanitizer makes system calls of its own")
        if wall in self.missing:
            self.skipTest(f"this machine cannot raise the wall {wall}")
        stops = stop.split("|")
        self.assertIn(self.said[name, wall, when], stops)
        without = self.bare[name, wall, when]
        if without not in FORBIDDEN:
            self.assertNotIn(without, stops, "it comes to the same without any wall")


add_tries(Calls, [(f"{name}_{when}_{worker_walls()[wall][0]}", worker_walls()[wall][0], name, worker_walls()[wall][0],
                   when, stop) for name, wall, when, stop in CALLS], Calls.stands)


class Group(unittest.TestCase):
    """Resources that all workers together may not exceed, if there is a control group: tested without any
    other wall."""

    @classmethod
    def setUpClass(cls):
        done = subprocess.run([PROGRAM, "group"], capture_output=True, text=True, timeout=MAX_SECONDS)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        assert done.returncode == 0 and lines, done.stderr
        cls.missing = lines[0]["missing"]
        cls.said = {each["name"]: (each["said"], each["bare"]) for each in lines[1:]}

    def stands(self, name, stop):
        if self.missing:
            self.skipTest(f"this machine has no control group: {self.missing}")
        self.assertEqual(self.said[name], (stop, "nothing"))


add_tries(Group, [(f"{name}_in_a_control_group", "control_group", name, stop)
                  for name, stop in (("eat_memory", "SIGKILL"), ("fork_without_end", "EAGAIN"))], Group.stands)


class Peers(unittest.TestCase):
    """Messages to its supervisor, which lives on, reports what happened, and serves the next worker."""

    @classmethod
    def setUpClass(cls):
        def meet(name):
            with tempfile.TemporaryDirectory() as folder:
                done = subprocess.run([PROGRAM, "peer", name, Path(folder) / "stage"], capture_output=True, text=True,
                                      timeout=MAX_SECONDS)
            return json.loads(done.stdout) if done.returncode == 0 else done
        with ThreadPoolExecutor(PARALLEL) as pool:
            cls.met = dict(zip([row[0] for row in PEERS], pool.map(meet, [row[0] for row in PEERS])))

    def comes_to_nothing(self, name, wall, outcome, says):
        met = self.met[name]
        self.assertIsInstance(met, dict, met)
        self.assertEqual((met["outcome"], met["then"]), (outcome, "ok"), met)
        if not (SANITIZED and name == "crash_in_the_middle"):  # a sanitizer makes an end of it
            self.assertIn(says, met["error"])
        self.assertEqual(met["is_alive"], outcome == "ok", met)
        self.assertEqual(met["descriptors"], 0, met)
        if not SANITIZED:
            self.assertLessEqual(met["memory_mib"], MEMORY_MIB, met)
        self.assertEqual((met["secret"], met["granted"]), ("secret", "granted"), met)
        self.assertFalse(met["has_escaped"] or met["has_codes"], met)
        if wall == "grants":
            self.assertEqual(met["given"], 0, met)
            self.assertGreater(met["refused"] + (name == "names_of_files_that_lead_out"), 0, met)
        if wall == "report":  # it says what happened, whatever the worker says
            happened = {"effect_that_was_not_asked_for": [],
                        "refusal_that_is_told_as_a_success": ["fs.read EACCES /secret"]}
            self.assertEqual(met["calls"], happened.get(name, ["fs.read OK /data/file"]), met)
            self.assertEqual(met["code"], "worker_lost" if "lost" in name else "worker_differs", met)
        if name == "fuel_beyond_all_numbers":
            self.assertEqual(met["fuel_left"], 0, met)
        if name == "host_calls_without_end":
            self.assertEqual((met["given"], met["host_calls_left"]), (1000, 0), met)
        if wall == "messages" and name.startswith("function"):
            self.assertEqual(met["given"], 0, met)
        if name == "functions_without_end":  # no more are called than there are host calls
            self.assertEqual((met["given"], met["host_calls_left"]), (1000, 0), met)
        if name == "directories_without_end":
            self.assertEqual(met["host_calls_left"], 0, met)
        if name == "random_bytes_by_the_gigabyte":
            self.assertEqual(met["given"], 0, met)


add_tries(Peers, [(name, wall, name, wall, outcome, says) for name, wall, outcome, says in PEERS],
          Peers.comes_to_nothing)


if __name__ == "__main__":
    unittest.main()
