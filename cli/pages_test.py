"""The commands that README.md and docs/languages.md print, run as they are printed, in the order in which they stand, on a
machine like a reader's: at the default limits, with the files that the pages speak of.

What a page prints and does not run fails the test: name its exit codes in CODES, or it among what is NOT_RUN.
"""

import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMMAND = Path(os.environ.get("MEMBRANE_COMMAND", ROOT / "build" / "release" / "membrane"))
SECONDS = 600
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.M | re.S)

# Exit codes other than 0. example.org is there for a reader, and may not be for a test: then the program traps.
CODES = {
    "membrane run length.wat": {2},  # denied
    "membrane run length.wat --allow 'http:GET:https://example.org/*' --fuel 1000000": {0, 1},
    "membrane run length.wat --policy policy.toml": {0, 1},
    "membrane run length.wat --freeze-after 1000 --snapshot length.snap": {2, 4},
    "membrane thaw length.snap --policy policy.toml": {0, 1},
}
NOT_RUN = ("make ", "clang ", "export ", "membrane agent ", "tools/", "membrane languages add ", "membrane languages warm ")
# What needs packages: cli/packages_test.py runs that, with an index of its own.
OF_PACKAGES = re.compile(r"--with |report\.py")
# Of docs/languages.md, what is about a module of the reader's.
OF_OWN_MODULES = re.compile(r"calc|sort|names\.txt|languages (extend|list|remove)|--lang data")

FILES = {
    "analyse.py": "import sys, pandas as pd\nprint(pd.read_csv(sys.argv[1]).groupby('name').size().to_dict())\n",
    "data/log.csv": "name,value\na,1\nb,2\na,3\n",
    "chart.py": "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3], [3, 1, 2])\nplt.savefig('chart.png')\n",
    "script.js": "console.log([1, 2, 3].map((x) => x * x))\n",
    "report.js": "console.log(require('small'))\n",
    "node_modules/small/index.js": "module.exports = 42\n",
    "notes.txt": "one\ntwo\n",
    "count.wasm": """(import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
(memory (export "memory") 1) (func (export "_start") (call $exit (i32.const 0)))""",
}


def first_block(page, language):
    return next(text for kind, text in FENCE.findall(page) if kind == language)


def commands(page, prompt):
    """The lines of fenced blocks that are commands, with what continues them; comments after two spaces are left out."""
    for _, text in FENCE.findall(page):
        for line in re.sub(r"\\\n\s*", " ", text).splitlines():
            if line.startswith(prompt):
                yield re.sub(r"\s{2,}#.*", "", line.removeprefix("$ ")).strip()


class Pages(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        for name, text in FILES.items():
            self.put(name, text)
        self.environment = {**os.environ, "PATH": f"{COMMAND.parent}:{os.environ['PATH']}"}
        if self.run_line("membrane run -e 1").returncode != 0:
            self.skipTest("python is not installed (membrane languages add python)")

    def put(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run_line(self, line):
        return subprocess.run(["bash", "-c", line], cwd=self.folder, env=self.environment, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=SECONDS)

    def run_page(self, page, prompt, left_out=None):
        count = 0
        for line in commands(page, prompt):
            if line.startswith(NOT_RUN) or OF_PACKAGES.search(line) or (left_out and left_out.search(line)):
                continue
            with self.subTest(line=line):
                done = self.run_line(line.replace("mkdir data", "mkdir -p data"))
                self.assertIn(done.returncode, CODES.get(line, {0}), f"{line}\n{done.stdout}\n{done.stderr}")
            count += 1
        return count

    def test_the_readme(self):
        page = (ROOT / "README.md").read_text()
        self.put("length.wat", first_block(page, "wat"))
        self.put("policy.toml", first_block(page, "toml"))
        self.assertGreater(self.run_page(page, "$ "), 12)
        self.assertGreater((self.folder / "results/chart.png").stat().st_size, 1000)

    def test_the_page_of_languages(self):
        page = (ROOT / "docs/languages.md").read_text()
        self.assertGreater(self.run_page(page, "membrane ", OF_OWN_MODULES), 4)

    def test_its_programs(self):
        """Each block of Python runs by itself; what it asks of the world is denied, and nothing else goes wrong."""
        page = (ROOT / "docs/languages.md").read_text()
        programs = [text for kind, text in FENCE.findall(page) if kind == "python"]
        self.assertGreater(len(programs), 1)
        for number, text in enumerate(programs):
            with self.subTest(program=text):
                self.put(f"p{number}.py", text)
                done = self.run_line(f"membrane run p{number}.py")
                self.assertIn(done.returncode, {0, 2}, done.stderr)


if __name__ == "__main__":
    unittest.main()
