"""Snapshots that an earlier version wrote are read by this one, in every tier, and the runs end as they would have.

cli/frozen has them, with the reports of the whole runs. A change that moves the version of snapshots
(docs/snapshot-format.md) writes new ones:

    MEMBRANE_COMMAND=build/release/membrane python3 cli/earlier_snapshots_test.py --write
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from frozen_programs import ARGUMENT, PARTS, PROGRAMS, TIERS, facts_of, fuel_of_part  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
COMMAND = os.environ.get("MEMBRANE_COMMAND", str(ROOT / "build" / "release" / "membrane"))
FOLDER = Path(__file__).resolve().parent / "frozen"
REPORTS = FOLDER / "reports.json"


def report(*arguments):
    done = subprocess.run([COMMAND, *map(str, arguments), "--json"], capture_output=True, text=True, timeout=600)
    if not done.stdout:
        raise AssertionError(f"{arguments}\n{done.stderr}")
    return json.loads(done.stdout)


def write():
    FOLDER.mkdir(exist_ok=True)
    reports = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, program in PROGRAMS.items():
            path = Path(folder) / f"{name}.wat"
            path.write_text(program)
            whole = report("run", path, ARGUMENT)
            reports[name] = facts_of(whole)
            for part in range(PARTS + 1):
                tier = TIERS[part % len(TIERS)]
                report("run", path, ARGUMENT, "--tier", tier, "--snapshot", FOLDER / f"{name}.{part}.snap",
                       "--freeze-after", fuel_of_part(whole, part))
    REPORTS.write_text(json.dumps(reports, indent=1) + "\n")


class EarlierSnapshots(unittest.TestCase):
    def test_each_ends_as_its_whole_run(self):
        reports = json.loads(REPORTS.read_text())
        snapshots = sorted(FOLDER.glob("*.snap"))
        self.assertEqual({path.name.split(".")[0] for path in snapshots}, set(PROGRAMS))
        for path in snapshots:
            for tier in TIERS:
                with self.subTest(snapshot=path.name, tier=tier):
                    self.assertEqual(facts_of(report("thaw", path, "--tier", tier)), reports[path.name.split(".")[0]])


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write()
    else:
        unittest.main()
