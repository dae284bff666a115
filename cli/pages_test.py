"""What the pages print runs as it is printed: commands in the order in which they stand, programs, policies; and what they
print as the output of these is what comes. On a machine like a reader's: at the default limits, with the files that the
pages speak of, in a world of its own (pages_world.py).

Each fenced block has a kind, and each kind a way to be run. A block or a line that is not run fails the test, unless it
is in one of the tables below with the reason.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import tomllib
import unittest
from pathlib import Path

import pages_world
from command_testing import CALCULATOR

ROOT = Path(__file__).resolve().parent.parent
COMMAND = Path(os.environ.get("MEMBRANE_COMMAND", ROOT / "build" / "release" / "membrane"))
SECONDS = 600
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.M | re.S)
INLINE = re.compile(r"`(membrane [^`]+)`")
PAGES = sorted(str(path.relative_to(ROOT)) for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md", "attacks/*.md",
                                                            "corpus/*.md") for path in ROOT.glob(pattern))

# -- What is not run, and why -----------------------------------------------------------------------

PAGES_NOT_RUN = {
    "docs/capabilities.md": "made from the registry, whose examples sandbox/run/capability_examples_test.cc runs",
}
# Lines of commands, by their beginnings.
LINES_NOT_RUN = {
    r"make (build|demo|test|install|dist)\b": "builds what this test runs; cmake/TestInstall.cmake installs",
    r"make demo-local-model|MEMBRANE_LOCAL_MODEL=": "brings and compiles llama.cpp, for ten minutes",
    r"make (bench|soak)|tools/bench|mkdir data\npython3|python3 -c 'rows|cat > (read|sum)|/usr/bin/time": "measures; writes 800 MB",
    r"make test-languages|tools/run-corpus": "runs the tests of others, for minutes: a stage of tools/test",
    r"cmake --preset": "builds",
    r"make images|membrane (shell|run --kind linux|agent --kind linux|image (import|export|rm|build|prune))\b": "takes an image of Debian: cli/linux_test.py and cli/image_build_test.py",
    r"python3 (-m unittest discover -s attacks|attacks/)": "ctest runs these: attack.*",
    r"examples/languages/(ruby/get|sqlite/build)": "brings sources from the internet",
    r"(\w+=\$\()?membrane (create|execs?|wait|cancel|templates|tokens|cp|info|update|contexts?|fork|pause|resume|reset|snapshots?|approvals|approve|logs|ps|rm)\b":
        "asks a service: service/command_client_test.py runs those of README.md and docs/clients.md",
    r"npx @modelcontextprotocol/inspector": "cli/mcp_test.py runs it",
    r"membrane (diff|patch)\b|git diff --binary": "asks a service: service/linux_test.py runs them",
    r"git -C repo apply": "applies what a model has changed: cli/agent_linux_test.py does so",
    r"membrane audit (show|verify)\b": "reads the log of a service: service/audit_log_test.py makes one",
    r"membrane serve\b": "serves until it is stopped: service/*_test.py start it",
}
# Lines that need what this machine may lack: a program, or a variable that names a module.
LINES_THAT_NEED = {
    r"clang --target=wasm32-wasi": lambda: has_wasi_clang(),
    r"npm |.*--lang js --with ": lambda: shutil.which("npm"),
    r".*\| less": lambda: shutil.which("less"),
    r".*\| man ": lambda: shutil.which("man"),
    r"membrane .*--with |membrane run --policy policy.toml report.py": lambda: has_pip(),
    r"membrane spectest": lambda: os.environ.get("MEMBRANE_TESTSUITE"),
}
# Exit codes other than 0, by page (a pattern) and command.
CODES = {
    ("README.md", "membrane run length.wat"): 2,  # denied, as the page says
    ("README.md", "membrane run length.wat --freeze-after 1000 --snapshot length.snap"): 4,
    ("docs/snapshot-format.md", "membrane run program.wat --freeze-after 1e6 --snapshot program.snap"): 4,
    ("docs/snapshot-format.md", "membrane thaw program.snap --freeze-after 2e6 --snapshot program.snap"): 4,
    ("membrane.1", "membrane keys revoke 0123456789abcdef0123456789abcdef"): 2,  # there is no such key
    ("membrane.1", "membrane run program.wat --freeze-after 1e6 --snapshot program.snap"): 4,
    ("membrane.1", "membrane thaw program.snap --freeze-after 2e6 --snapshot program.snap"): 4,
}
# Blocks that are neither commands nor complete programs, by page and first line.
BLOCKS_NOT_RUN = {
    ("README.md", "  ┌───────────┐           ┌──────────────── the boundary ────────────────┐"): "a drawing",
    ("docs/agent.md", "task ─▶ model ─▶ reply ─┬─ program ─▶ sandbox ─▶ report ─▶ observation ─▶ model …"): "a drawing",
    ("README.md", "from membrane import Sandbox"): "asks a service: service/python_client_test.py runs it",
    ("docs/architecture.md", "        the brain                       the boundary                        the hands"): "a drawing",
    ("docs/architecture.md", "cli/       the command                                             membrane run, check, agent, …"):
        "a list of folders, which tools/check-floors holds",
    ("docs/rooms.md", "host/world/         the local broker, which acts; a run's World"):
        "a list of folders, which tools/check-floors holds",
    ("docs/rooms.md", "wasi/calls/      the functions of preview 1; files for a language without WASI, and for the owner"):
        "a list of folders, which tools/check-floors holds",
    ("docs/rooms.md", "sandbox/receipts/      receipts: format, keys, sealing, replay"):
        "a list of folders, which tools/check-floors holds",
    ("docs/rooms.md", "agent/terminal/  both REPLs' parts: lines, commands, the console, the person"):
        "a list of folders, which tools/check-floors holds",
    ("docs/rooms.md", "engine/testing/      generator, reference interpreter, .wast runner, differential driver     a library of its own"):
        "a list of folders, which tools/check-floors holds",
    ("docs/sandbox-format.md", "header, one page | pages: memory, contents of changed files | state"): "a drawing",
    ("docs/linux.md", 'RUN --mount=type=secret,id=token curl -H "Authorization: Bearer $(cat /run/secrets/token)" …'):
        "a line of a Dockerfile: cli/image_build_test.py builds such ones",
    ("docs/linux.md", "membrane run ──pipes──► kernel process ──shared page, futex──► stub: a guest's memory and threads"): "a drawing",
    ("docs/mcp.md", '$ curl -s -H "Authorization: Bearer $OWNER" http://127.0.0.1:7400/v1/tokens \\'): "asks a service: service/mcp_test.py",
    ("docs/mcp.md", '{ "mcpServers": { "membrane": {'): "a service's URL and a token: service/mcp_test.py",
    ("docs/mcp.md", "import asyncio, os"): "a client of others: service/mcp_test.py runs it",
    ("docs/mcp.md", "import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'"):
        "a client of others: service/mcp_test.py runs it",
    ("docs/receipts.md", "ID=$(membrane create --seal)"): "asks a service: service/command_client_test.py runs it",
    ("docs/receipts.md", '{"membrane_receipt":1}'): "a receipt, shortened: cli/receipts_test.py reads whole ones",
    ("docs/receipts.md", '{"item":"stdout","salt":"0373cfaa11b9ee0cc67488ed899c6426","content":"done\\n"}'):
        "a line of a private part: cli/receipts_test.py reads whole ones",
    ("docs/walls.md", " supervisor (membrane, the service)              worker"): "a drawing",
    ("docs/policy.md", "The trifecta rule closes egress: what was read is private (fs.read of /mail/1 (call 2)) and of "
     "untrusted origin (http.request of GET https://example.org/ (call 1))."):
        "the reason of a refusal: host/gate/flows_test.cc and attacks/flows_attack_test.py read it",
    ("README.md", "import membrane"): "of the Python package: python/tests/package_test.py runs it",
    ("docs/service.md", "$ membrane serve"): "what it prints, shortened: service/rest_test.py asks the same",
    ("docs/service.md", "[server]"): "the service's settings: service/config_test.cc reads them",
    ("docs/service.md", "$ membrane tokens create ci --scope sandboxes:read --scope sandboxes:write --scope exec --ttl 30d --quota sandboxes=10"):
        "asks a service: service/command_client_test.py makes tokens",
    ("docs/service.md", '$ curl -H "Authorization: Bearer $TOKEN" http://127.0.0.1:7400/v1/tokens --json \'{"name":"ci",'):
        "asks a service: service/rest_test.py makes tokens",
    ("docs/sandboxes.md", '{"template": "python", "policy": {"time": {"real": true}}}'):
        "the body of a request: service/lifecycle_test.py sends it",
    ("docs/sandboxes.md", 'PUT /v1/secrets/KEY {"value": "sk-…", "hosts": ["api.example.com"]}'):
        "requests of HTTP: service/lifecycle_test.py makes them",
    ("docs/session-format.md", "std::vector<uint8_t> bytes = *session->keep();"):
        "a part of a program: sandbox/session/kept_session_test.cc does so",
    ("docs/e2b.md", "membrane serve                       # prints its URL and a token"):
        "a service and E2B's variables: service/e2b_test.py sets them",
    ("docs/e2b.md", "from e2b_code_interpreter import Sandbox"): "E2B's client: service/e2b_test.py runs it",
    ("docs/e2b.md", "from e2b import Sandbox"): "E2B's client: service/e2b_test.py runs it",
    ("docs/languages.md", '{"call":"http.get","arguments":["https://example.org/"]}   {"value":"…"} or {"error":{"errno":…,"message":…,"grant":…}}'):
        "requests of a protocol, each with what it means: host/calls/door_test.cc",
}

# -- What the pages speak of ------------------------------------------------------------------------

# A WASI command that hands on its input.
CAT = """(import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
(memory (export "memory") 2)
(func (export "_start")
  (loop $more
    (i32.store (i32.const 0) (i32.const 64)) (i32.store (i32.const 4) (i32.const 65536))
    (drop (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 4)))
    (if (i32.load (i32.const 4))
      (then (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))) (br $more)))))
"""
COUNTS = '(func (export "main") (result i32) (set $i 0) (while (i32.lt_s $i %d) (inc $i)) $i)'
FILES = {
    "analyse.py": "import sys, pandas as pd\nprint(pd.read_csv(sys.argv[1]).groupby('name').size().to_dict())\n",
    "total.py": "import csv, sys\nprint(sum(int(row['value']) for row in csv.DictReader(sys.stdin)))\n",
    "data.csv": "name,value\na,1\nb,2\na,3\n",
    "data.txt": "a line\n",
    "data/log.csv": "name,value\na,1\nb,2\na,3\n",
    "chart.py": "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3], [3, 1, 2])\nplt.savefig('chart.png')\n",
    "script.js": "console.log([1, 2, 3].map((x) => x * x))\n",
    "script.py": "print(1)\n",
    "script.mjs": "import { value } from 'lodash-es'\nconsole.log(value)\n",
    "report.js": "console.log(require('dayjs')())\n",
    "report.py": "import rich, httpx\n",
    "stricter.toml": "[limits]\nhost_calls = 10\n",
    "notes.txt": "one\ntwo\n",
    "names.txt": "b\na\n",
    "count.c": "int main(void) { return 0; }\n",
    "count.wasm": CAT,
    "tool.wasm": CAT,
    "sort.wasm": CAT,
    "calc.wasm": CALCULATOR,
    "program.calc": "20 + 22\n",
    "sqlite3.wasm": CALCULATOR,
    "ruby.wasm": CALCULATOR,
    "driver.rb": "",
    "module.wasm": '(func (export "add") (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1)))',
    "program.wat": COUNTS % 200_000,
}
FILES_OF = {
    "docs/languages.md": {"policy.toml": '[packages]\npython = ["rich", "httpx==0.28.1"]\n'},
    "docs/snapshot-format.md": {"program.wat": COUNTS % 500_000},  # more than 2e6
}
# Of the manual's sections: how often the program's loop turns, at 5 fuel each; and what was done before the examples.
TURNS_OF_PROGRAM = {"DESCRIPTION": 10_000, "membrane thaw": 500_000}
ADDS_CALC = "membrane languages add calc calc.wasm"
NO_KEY = 'rm -rf "$HOME/.config/membrane" run.receipt run.receipt.private receipts'  # with what it signed
A_KEY = f"{NO_KEY}; membrane keys generate"
A_RECEIPT = f"{A_KEY}; membrane run program.wat --seal run.receipt; membrane keys publish > keys.json"
RECEIPTS = f"{A_KEY}; mkdir -p receipts; membrane run program.wat --seal receipts/run.receipt"
BEFORE_EXAMPLES = {
    "DESCRIPTION": f"{A_KEY}; membrane run program.wat --freeze-after 100 --snapshot program.snap",
    "membrane run": A_KEY,
    "membrane keys": NO_KEY,
    "membrane keys generate": NO_KEY,
    "membrane keys rotate": A_KEY,
    "membrane keys revoke": A_KEY,
    "membrane keys publish": A_KEY,
    "membrane verify": A_RECEIPT,
    "membrane replay": A_RECEIPT,
    "membrane policy": RECEIPTS,
    "membrane policy test": RECEIPTS,
    "membrane languages remove": ADDS_CALC,
    "membrane languages warm": ADDS_CALC,
}
# Those of docs/policy.md, by what is said of each.
WRONG_POLICIES = {
    "limits.fule": "[limits]\nfule = 1000\n",
    "http[0].timout": '[[http]]\nmethods = ["GET"]\nurl = "https://example.org/"\ntimout = "1 s"\n',
    "limits.wall": "[limits]\nwall = 10\n",
}
PROGRAMS_ARE_GRANTED = ("--allow 'http:GET,POST:https://example.org/*' --allow kv --allow sql:papers:papers.db "
                        "--allow fs:read:./data")
DISCOVER = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}}}
MODEL = {"MEMBRANE_MODEL": "name", "MEMBRANE_BASE_URL": "http://127.0.0.1:11434/v1"}
BEFORE = '(func (export "run") (set $i 0) (set $n 3) (set $value 7) (set $text "a b") (set $json "[]") (set $line "")\n'


def has_wasi_clang():
    done = subprocess.run(["clang", "--target=wasm32-wasi", "-x", "c", "-", "-o", os.devnull], capture_output=True, text=True,
                          input="int main(void) { return 0; }", check=False) if shutil.which("clang") else None
    return done is not None and done.returncode == 0


def has_pip():
    return subprocess.run(["python3", "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0


def reason_of(table, line):
    return next((reason for pattern, reason in table.items() if re.match(pattern, line)), None)


def commands(text):
    """The commands of a shell's text, one at a time, each with all its lines."""
    command = ""
    for line in text.splitlines():
        command += line + "\n"
        done = subprocess.run(["bash", "-n"], input=command, capture_output=True, text=True, check=False)
        if done.returncode == 0 and not done.stderr and not line.endswith("\\"):
            if command.strip() and not command.lstrip().startswith("#"):
                yield command.strip()
            command = ""
    if command.strip():
        yield command.strip()


def without_comment(command):
    return re.sub(r"\s{2,}#.*", "", re.sub(r"\\\n\s*", "", command))


def collapsed(text):
    return " ".join(text.split())


def as_pattern(text):
    """What is printed, with "…" for anything."""
    return ".*?".join(re.escape(part) for part in collapsed(text).split("…"))


class Shell:
    """A reader's shell: exported variables and the working directory stay from line to line."""

    def __init__(self, folder, environment):
        self.folder, self.state = folder, folder.parent / "state"
        self.environment = {**environment, "PATH": f"{COMMAND.parent}:{os.environ['PATH']}"}

    def run(self, line, stdin=None):
        script = f"set -o pipefail\n{line}\ncode=$?\nenv -0 > {self.state}\nexit $code"
        done = subprocess.run(["bash", "-c", script], cwd=self.folder, env=self.environment, capture_output=True, text=True,
                              errors="replace", input=stdin or "", timeout=SECONDS, check=False)
        self.environment = dict(each.split("=", 1) for each in self.state.read_text().split("\0") if "=" in each)
        return done


def setUpModule():
    global world
    why = os.environ.get("MEMBRANE_PAGES_ALONE")
    if why:
        raise unittest.SkipTest(why)
    world = pages_world.World()
    unittest.addModuleCleanup(world.end)
    installed = os.environ.get("MEMBRANE_LANGUAGES")
    languages = Path(installed) if installed else Path.home() / ".local/share/membrane/languages"
    for name in ("python", "js"):
        if not (languages / name / "language.json").exists():
            raise unittest.SkipTest(f"{name} is not installed (membrane languages add {name})")
        shutil.copytree(languages / name, world.folder / "languages" / name)
    shutil.copy(world.folder / "languages/python/language.json", world.folder)


def reset_languages():
    """Python and JavaScript alone, as they came."""
    for place in (world.folder / "languages").iterdir():
        if place.name not in ("python", "js"):
            shutil.rmtree(place)
    shutil.copy(world.folder / "language.json", world.folder / "languages/python")


class PagesTest(unittest.TestCase):
    def setUp(self):
        self.page = ""
        reset_languages()
        shutil.rmtree(Path(world.environment["HOME"]) / ".config/membrane", ignore_errors=True)
        folder = world.folder / "work" / "here"
        shutil.rmtree(folder.parent, ignore_errors=True)
        folder.mkdir(parents=True)
        self.shell = Shell(folder, world.environment)
        for name, text in FILES.items():
            self.put(name, text)
        self.put("policy.toml", (ROOT / "examples/policies/web-research.toml").read_text())
        with_database(folder / "papers.db")
        if suite := os.environ.get("MEMBRANE_TESTSUITE"):
            (folder.parent / "wasm-testsuite").symlink_to(Path(suite).resolve())

    def put(self, name, text):
        path = self.shell.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run_line(self, line, code=0, stdin=None):
        done = self.shell.run(line, stdin)
        self.assertEqual(done.returncode, code, f"{line}\n{done.stdout}\n{done.stderr}")
        return done

    def run_command(self, command):
        """One that a page prints; returns what it printed on standard output, None when it is not run."""
        if reason_of(LINES_NOT_RUN, command):
            return None
        needed = reason_of(LINES_THAT_NEED, command)
        if needed and not needed():
            print(f"not run, for what it needs is not here: {command}")
            return None
        if command.startswith("make "):
            command = f"cd {ROOT} && {command}"
        with self.subTest(command=command):
            return self.run_line(command, CODES.get((self.page, without_comment(command)), 0)).stdout
        return None


def with_database(path):
    import sqlite3
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE papers (title TEXT, year INTEGER)")
    connection.execute("INSERT INTO papers VALUES ('One', 2024)")
    connection.commit()
    connection.close()


class Blocks(PagesTest):
    """The fenced blocks of each page."""

    def run_page(self, page):
        self.page = page
        for name, text in FILES_OF.get(page, {}).items():
            self.put(name, text)
        text = (ROOT / page).read_text()
        if page == "docs/agent.md":
            self.shell.environment.update(MODEL)
        if page == "README.md" or page.startswith("examples/"):
            (self.shell.folder / "examples").symlink_to(ROOT / "examples")  # the reader is in the sources' directory
        if page.startswith("examples/languages/"):
            self.put_module(page.split("/")[2])
        for block in FENCE.finditer(text):
            self.run_block(block[1], block[2], text[:block.start()])

    def put_module(self, name):
        module = os.environ.get(f"MEMBRANE_{name.upper()}")
        if not module:
            self.skipTest(f"MEMBRANE_{name.upper()} names no module of {name}")
        (self.shell.folder / "build/languages").mkdir(parents=True)
        file = {"ruby": "ruby.wasm", "sqlite": "sqlite3.wasm"}[name]
        (self.shell.folder / "build/languages" / file).symlink_to(Path(module).resolve())
        self.put("script.rb", "puts ARGV.inspect, $stdin.gets\n")
        self.put("query.sql", "select 40 + 2;\n")

    def run_block(self, kind, text, above):
        first = text.split("\n", 1)[0]
        if (self.page, first) in BLOCKS_NOT_RUN:
            return
        with self.subTest(block=first):
            if how := SPECIAL.get((self.page, first)):
                return how(self, text)
            how = KINDS.get(kind)
            self.assertTrue(how, f"{self.page}: this block is not run: say why in cli/pages_test.py, or how\n```{kind}\n{text}")
            saved = re.findall(r"[Ss]ave (?:this|it) as `([^`]+)`", above[-300:])
            if saved:
                return self.put(saved[-1], text)  # what follows runs it
            return how(self, text)

    # -- By the kind of a block ---------------------------------------------------------------------

    def run_commands(self, text):
        for command in commands(text):
            self.run_command(command)

    def run_console(self, text):
        """Commands after "$ ", each with what it prints."""
        printed = None
        for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
            command = next(commands(part))
            printed = part[len(command):].strip()
            out = self.run_command(command)
            if printed and out is not None:
                self.assertRegex(collapsed(out), as_pattern(printed))

    def run_program(self, name, text):
        self.put(name, text)
        return self.run_line(f"membrane run {name} {PROGRAMS_ARE_GRANTED}").stdout

    def explain(self, text):
        self.put("policy.toml", text)
        self.run_line("membrane policy explain policy.toml")

    def is_an_example(self, text):
        """In C and C++: a file of examples/, or a part of one, which cmake/TestInstall.cmake builds, runs and holds to its output."""
        self.assertIn(text, "\n".join(path.read_text() for path in (ROOT / "examples").glob("embed-*/main.*")))

    def is_in_an_example(self, text):
        for path in (ROOT / "examples").glob("embed-*/CMakeLists.txt"):
            for line in text.splitlines():
                self.assertIn(line.replace("my_program", path.parent.name.replace("-", "_")), path.read_text().splitlines())

    # -- Blocks that are parts of a program, or what something prints -------------------------------

    @staticmethod
    def check_inside(before, after=")"):
        """A part of a program, inside of one; of `body…` there is none."""
        def how(self, text):
            self.put("part.wat", before + re.sub(r";;.*", "", text).replace("body…", "(nop)") + after)
            self.run_line("membrane check part.wat")
        return how

    @staticmethod
    def expands(program):
        """What a form becomes: the block has to be in the expansion of the program."""
        def how(self, text):
            self.put("form.wat", program.replace("body…", "(nop)"))
            plain = self.run_line("membrane check form.wat --expand").stdout
            self.assertRegex(collapsed(plain), as_pattern(text.replace("body…", "(nop)")))
        return how

    def lists_links(self, text):
        self.assertEqual(self.run_program("program.wat", text).split()[:2], ["/one", "/two"])

    def costs(self, text):
        """Ten turns of the loop cost ten times its body, and the rest once."""
        program = "\n".join(re.sub(r"\s{2,}(cost|\d.*)$", "", line) for line in text.splitlines())
        self.put("sum.wat", program.replace("(func ", '(func (export "run") ', 1))
        report = json.loads(self.run_line("membrane run sum.wat --invoke run 10 --json").stdout)
        inside, after = text.split("  end\n")
        turn, last = (sum(int(cost) for cost in re.findall(r"\s{2,}(\d) ", part + " ")) for part in
                      (inside, after.replace("\n", " ")))
        self.assertEqual(report["fuel_used"], 10 * turn + last)
        self.assertIn(f"segment 2: {turn},", text)

    def is_the_head_of_a_catalog_program(self, text):
        head = text.split("(module")[0].splitlines()
        self.assertEqual(head, (ROOT / "catalog/add.wat").read_text().splitlines()[:len(head)])

    def are_answers(self, text):
        """The first line acts; each of the others answers."""
        program, *answers = text.splitlines()
        self.assertGreater(len(answers), 1)
        for answer in answers:
            self.put("answers.jsonl", f"{program}\n{answer}\n")
            done = self.run_line("membrane agent 'Which is newest?' --model-file answers.jsonl --language wat --policy policy.toml")
            self.assertIn("It is the third.", done.stdout)

    def configures_clients_of_mcp(self, text):
        """Each server that a client would start by it answers."""
        for servers in (json.loads(text) if text.startswith("{") else tomllib.loads(text)).values():
            for server in servers.values():
                command = shlex.join([server["command"], *server["args"]])
                done = self.run_line(command, stdin=json.dumps(DISCOVER) + "\n")
                self.assertIn("supportedVersions", json.loads(done.stdout)["result"])

    def are_mistakes_of_policies(self, text):
        lines = text.splitlines()
        for said, hint in zip(lines[::2], lines[1::2]):
            with self.subTest(said=said):
                if flag := re.match(r"--allow (\S+): ", said):
                    done = self.run_line(f"membrane policy explain --allow '{flag[1]}'", 2)
                else:
                    self.put("policy.toml", WRONG_POLICIES[said.split(": ")[2].split()[0]])
                    done = self.run_line("membrane policy explain policy.toml", 2)
                self.assertIn(f"{said}\n{hint}\n", done.stderr)

    def is_an_error_of_files(self, text):
        self.put("write.js", "require('fs').writeFileSync('/data/x', '')\n")
        done = self.run_line("membrane run write.js --allow fs:read:./data", 2)
        self.assertRegex(collapsed(done.stderr), as_pattern(text))

    def run_ruby(self, text):
        done = self.run_line(f"membrane run --lang ruby {PROGRAMS_ARE_GRANTED} -e '{text}'")
        self.assertEqual(done.returncode, 0)


KINDS = {
    "sh": Blocks.run_commands,
    "console": Blocks.run_console,
    "python": lambda self, text: self.run_program("block.py", text),
    "javascript": lambda self, text: self.run_program("block.mjs", text),
    "ruby": Blocks.run_ruby,
    "wat": lambda self, text: self.run_program("block.wat", text),
    "toml": Blocks.explain,
    "json": Blocks.are_answers,
    "c": Blocks.is_an_example,
    "cpp": Blocks.is_an_example,
    "cmake": Blocks.is_in_an_example,
}
# Blocks with a way of their own, by page and first line.
SPECIAL = {
    ("docs/agent.md", ";; name: add"): Blocks.is_the_head_of_a_catalog_program,
    ("docs/fuel.md", "(func (param $n i32) (result i32)      cost"): Blocks.costs,
    ("docs/languages.md", "EROFS: read-only file system, open '/data/x' (… --allow fs:write:… would allow it.)"):
        Blocks.is_an_error_of_files,
    ("docs/mcp.md", "{"): Blocks.configures_clients_of_mcp,
    ("docs/mcp.md", "[mcp_servers.membrane]"): Blocks.configures_clients_of_mcp,
    ("README.md", '{ "mcpServers": { "membrane": { "command": "membrane", "args": ["mcp", "--dir", "./data:/data:ro"] } } }'):
        Blocks.configures_clients_of_mcp,
    ("docs/policy.md", "--allow https://h.org: a grant of URLs begins with http: and the methods."): Blocks.are_mistakes_of_policies,
    ("docs/wat.md", "(func $main (result i32)"): Blocks.lists_links,
    ("docs/wat.md", '(import "http" "get" (func $http.get (param i32) (result i32 i32)))'):
        Blocks.check_inside("", '(func (export "run"))'),
    ("docs/wat.md", "(if (param i32) (result i32) (local.tee $membrane.errno (call $http.get …))"):
        Blocks.expands('(func (export "run")' + "\n" * 5 + ' (set $url "http://x")\n (drop (call $http.get! $url)))'),
    ("docs/wat.md", "(while (i32.lt_s $i 10) body…)       ;; (loop $while.1 (if (i32.lt_s …) (then body… (br $while.1))))"):
        Blocks.check_inside(BEFORE),
    ("docs/wat.md", "(local.set $i (i32.const 0)) (local.set $for.1.to (local.get $n))"):
        Blocks.expands(BEFORE + "(for $i 0 $n body…))"),
    ("docs/wat.md", "(each $line (lines $text) body…)                ;; for each line of the text"):
        Blocks.check_inside(BEFORE),
    ("docs/wat.md", "(local.set $each.1.at (call $list.lines (local.get $text))) (drop (call $list.count (local.get $each.1.at)))"):
        Blocks.expands(BEFORE + "(each $line (lines $text) body…))"),
    ("docs/wat.md", "(set $array (alloc (i32.mul $n 4)))"): Blocks.check_inside(BEFORE),
    ("docs/wat.md", "(set $b (call $builder.new))"): Blocks.check_inside(BEFORE),
}


def add_pages():
    for page in PAGES:
        if page not in PAGES_NOT_RUN:
            name = "test_" + re.sub(r"\W", "_", page)
            setattr(Blocks, name, lambda self, page=page: self.run_page(page))


add_pages()


class Tables(unittest.TestCase):
    """The tables have nothing that no page has."""

    def test_every_row_is_of_a_block(self):
        firsts = {(page, block[1].split("\n", 1)[0]) for page in PAGES
                  for block in FENCE.findall((ROOT / page).read_text())}
        for row in [*BLOCKS_NOT_RUN, *SPECIAL]:
            self.assertIn(row, firsts)

    def test_every_exit_code_is_of_a_line(self):
        for page, line in CODES:
            if page != "membrane.1":
                self.assertTrue(line in (ROOT / page).read_text(), (page, line))


class Words(PagesTest):
    """What the command says of itself, and what the pages name of it in their sentences."""

    def manual(self):
        text = self.run_line("membrane man").stdout
        return re.sub(r"\\(.)", lambda found: {"-": "-", "e": "\\", "&": ""}[found[1]], text)

    def test_every_example_of_the_manual_runs(self):
        self.page = "membrane.1"
        self.shell.environment.update(MODEL)
        sections = re.split(r"^\.SH (.*)\n", self.manual(), flags=re.M)
        count = 0
        for name, text in zip(sections[1::2], sections[2::2]):
            reset_languages()
            words = name if name.startswith("membrane ") else "membrane"
            shown = self.run_line(f"{words} --help").stdout if name != "NAME" else ""
            self.put("program.wat", COUNTS % TURNS_OF_PROGRAM.get(name, 200_000))
            if before := BEFORE_EXAMPLES.get(name):
                self.shell.run(before)
            for example in re.findall(r"^  (\S.*)$", text, re.M):
                self.assertIn(f"  {example}\n", shown)
                self.run_command(example)
                count += 1
        self.assertGreater(count, 40)

    def test_what_sentences_name_exists(self):
        for page in PAGES:
            for code in INLINE.findall((ROOT / page).read_text()):
                with self.subTest(page=page, code=code):
                    self.names_what_exists(code)

    def names_what_exists(self, code):
        words = code.split()[1:]
        if words[0] in ("help", "version"):  # as the options
            return
        path = []
        help_of = self.run_line("membrane --help").stdout
        while words and words[0][0] != "-" and re.search(rf"^  {re.escape(words[0])} ", help_of, re.M):
            path.append(words.pop(0))
            help_of = self.run_line(f"membrane {' '.join(path)} --help").stdout
        self.assertTrue(path or words[0].startswith("-"), code)
        for option in re.findall(r"(?<=\s)--[a-z][a-z-]*", " " + " ".join(words).split(" -- ")[0]):
            self.assertRegex(help_of, rf"{option}\b")


class Examples(PagesTest):
    """What is in examples/."""

    def test_policies(self):
        self.put("data/x.txt", "x")
        self.put("mail/1", "a mail")
        for made in ("out", "drafts"):
            (self.shell.folder / made).mkdir()
        with_database(self.shell.folder / "data/measurements.db")
        programs = {
            "data-analysis.toml": "from membrane import fs, sql\n"
                                  "rows = sql.query('measurements', 'SELECT count(*) FROM papers', '[]')\n"
                                  "open('/out/x', 'w').write(open('/data/x.txt').read() + str(rows))\n",
            "mail-assistant.toml": "open('/drafts/answer', 'w').write(open('/mail/1').read().upper())\n",
            "memo.toml": "from membrane import kv\nkv.set('memo/last', b'1')\nassert kv.get('memo/last') == b'1'\n",
            "nothing.toml": "print(1)\n",
            "web-research.toml": "from membrane import http\nassert b'title' in http.get('http://127.0.0.1:8000/papers.json')\n",
        }
        policies = sorted((ROOT / "examples/policies").glob("*.toml"))
        self.assertEqual([path.name for path in policies], sorted(programs))
        for path in policies:
            with self.subTest(policy=path.name):
                self.run_line(f"membrane policy explain {path}")
                self.put("program.py", programs[path.name])
                self.run_line(f"membrane run program.py --policy {path}")
        self.assertTrue((self.shell.folder / "memo.db").exists())

    def test_the_demo(self):
        if COMMAND.resolve() != ROOT / "build/release/membrane":
            self.skipTest("tools/demo runs build/release/membrane")
        done = self.run_line(f"{ROOT}/tools/demo")
        self.assertIn("the chart: build/demo/papers.png", done.stdout)


if __name__ == "__main__":
    reason = pages_world.enter()
    if reason:
        os.environ["MEMBRANE_PAGES_ALONE"] = reason
    unittest.main()
