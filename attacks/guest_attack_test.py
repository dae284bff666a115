"""Attempts of a hostile guest: programs in Python, JavaScript and WebAssembly, run by `membrane run` with
its defaults and by the service, try to reach the host's files, processes, network and environment, another
guest's data, or more than they were given."""

import json
import os
import sys
import tempfile
import unittest
from pathlib import Path

from attack import COMMAND, MIB, Attack, LANGUAGES, SANITIZED
from escapes import add_tries, stopped_by

os.environ.setdefault("MEMBRANE_COMMAND", COMMAND)
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "service"))
from service_testing import Service  # noqa: E402

SECRET = "a-secret-of-the-host"
FUEL = 2 * 10 ** 9


class Guest(Attack):
    """All share a state directory, where languages keep their warm images. The environment and the host's
    file SECRET_FILE contain a secret."""

    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.TemporaryDirectory()
        cls.secret_file = Path(cls.shared.name) / "secret.txt"
        cls.secret_file.write_text(SECRET)

    @classmethod
    def tearDownClass(cls):
        cls.shared.cleanup()

    def setUp(self):
        super().setUp()
        self.environment["XDG_STATE_HOME"] = self.shared.name
        self.environment["HOST_SECRET"] = SECRET

    def report(self, *arguments):
        done = self.membrane("run", *arguments, "--json")
        self.assertNotIn(SECRET.encode(), done.stdout + done.stderr)
        return json.loads(done.stdout), done

    def cell(self, language, code, *arguments):
        self.need(language)
        code = code.replace("SECRET_FILE", str(self.secret_file)).replace("OTHER_PID", str(os.getpid()))
        return self.report("--lang", language, "-e", code, *arguments)

    def module(self, text, *arguments):
        return self.report(self.file("x.wat", text), *arguments)


def fuel_for(outcomes):
    """An endless loop gets less than the default, which takes many seconds."""
    return ("--fuel", str(FUEL)) if outcomes[:1] == ("out_of_fuel",) else ()


def value_of(report):
    return report.get("value", {}).get("text/plain", report.get("result", ""))


# -- Python --------------------------------------------------------------------------------------------------------

class Python(Guest):
    def comes_to(self, code, *outcomes, says=None):
        """Each of these attempts prints "stopped" when it failed, or ends with one of the outcomes."""
        report, _ = self.cell("python", code, *fuel_for(outcomes))
        if outcomes:
            self.assertIn(report["outcome"], outcomes, report)
        else:
            self.assertEqual((report["outcome"], value_of(report)), ("ok", "'stopped'"), report)

    @stopped_by("report")
    def test_hide_a_call_and_its_fuel(self):
        code = ("import json, membrane, membrane._session as s\n"
                "try: membrane.http.get('http://169.254.169.254/')\nexcept Exception: pass\n"
                "forged = json.dumps({'session': 'result', 'outcome': 'ok', 'host_calls': [], 'fuel_used': 1}).encode()\n"
                "s._encode_result = lambda result: forged\n")
        report, _ = self.cell("python", code)
        self.assertTrue([call for call in report["host_calls"] if call["name"].startswith("http") and call["decision"] == "denied"], report)
        self.assertGreater(report["fuel_used"], 1000)


def refused(statement, errors="Exception"):
    """A program that reports whether the statement was refused."""
    return (f"try:\n  got = {statement}\n  said = f'got {{got!r}}'\n"
            f"except ({errors}) as error:\n  said = 'stopped'\nsaid")


add_tries(Python, [
    ("read_a_file_of_the_host", "grants", refused("open('SECRET_FILE').read()", "OSError")),
    ("read_the_users_of_the_host", "grants", refused("open('/etc/passwd').read()", "OSError")),
    ("climb_out_by_dots", "grants", refused("open('../../../../../../../..' + 'SECRET_FILE').read()", "OSError")),
    ("climb_out_by_a_link", "grants",
     "import os\ntry:\n  os.symlink('SECRET_FILE', '/tmp/link')\n  said = 'got ' + open('/tmp/link').read()\n"
     "except OSError:\n  said = 'stopped'\nsaid"),
    ("read_the_environment_of_the_process", "grants", refused("open('/proc/self/environ').read()", "OSError")),
    ("read_the_memory_of_the_process", "grants", refused("open('/proc/self/mem', 'rb').read(1)", "OSError")),
    ("read_devices", "grants", refused("[open(p, 'rb').read(1) for p in ('/dev/mem', '/dev/kmsg', '/dev/sda')]", "OSError")),
    ("list_the_root_of_the_host", "grants",
     "import os\n'stopped' if not {'boot', 'etc', 'proc', 'root', 'sys'} & set(os.listdir('/')) else os.listdir('/')"),
    ("read_descriptors_by_number", "grants",
     "import os\nfound = []\nfor fd in range(0, 64):\n  try:\n    if os.read(fd, 1): found.append(fd)\n"
     "  except OSError: pass\n'stopped' if not found else found"),
    ("read_a_file_through_the_capability", "grants", "import membrane\n" + refused("membrane.fs.read('SECRET_FILE')")),
    ("fetch_metadata_of_the_cloud", "grants", "import membrane\n" + refused("membrane.http.get('http://169.254.169.254/')")),
    ("fetch_a_server_of_the_host", "grants", "import membrane\n" + refused("membrane.http.get('http://127.0.0.1:22/')")),
    ("query_a_database_of_the_host", "grants", "import membrane\n" + refused("membrane.sql.query('/etc/passwd', 'select 1')")),
    ("ask_a_model", "grants", "import membrane\n" + refused("membrane.ai.complete('the secrets, please')")),
    ("read_variables_of_the_host", "language",
     "import os\n'stopped' if 'HOST_SECRET' not in os.environ and not os.environ.get('HOME', '').startswith('/root') else 'got'"),
    ("open_a_socket", "language", "import socket\n" + refused("socket.create_connection(('127.0.0.1', 22), 1)")),
    ("listen_on_a_port", "language", "import socket\n" + refused("socket.create_server(('127.0.0.1', 0))")),
    ("start_a_shell", "language", "import subprocess\n" + refused("subprocess.run(['/bin/sh', '-c', 'id'])")),
    ("run_a_command", "language", "import os\n" + refused("os.system('id')")),
    ("fork_itself", "language", "import os\n" + refused("os.fork()")),
    ("signal_a_process", "language", "import os\n" + refused("os.kill(OTHER_PID, 9)")),
    ("execute_a_program", "language", "import os\n" + refused("os.execv('/bin/true', ['true'])")),
    ("load_the_c_library", "language", refused("__import__('ctypes').CDLL(None).getpid()")),
    ("map_a_file", "language", refused("__import__('mmap').mmap(3, 4096)")),
    ("become_another_user", "language", "import os\n" + refused("os.setuid(0)")),
    ("load_an_extension_of_the_host", "language",
     "import importlib.machinery as m, importlib.util as u\nl = m.ExtensionFileLoader('x', 'SECRET_FILE') "
     "if hasattr(m, 'ExtensionFileLoader') else None\n" + refused("u.module_from_spec(u.spec_from_loader('x', l))")),
    ("learn_the_hosts_time", "determinism", "import time\n'stopped' if time.time() < 1_700_000_000 or "
     "time.time() == 0 or abs(time.perf_counter()) < 3600 else time.time()"),
], Python.comes_to)


add_tries(Python, [
    ("loop_without_end", "budgets", "while True: pass", "out_of_fuel"),
    ("loop_without_end_when_it_leaves", "budgets",
     "import atexit\natexit.register(lambda: [None for _ in iter(int, 1)])\nwhile True: pass", "out_of_fuel"),
    ("catch_the_end_of_its_fuel", "budgets",
     "while True:\n  try:\n    while True: pass\n  except BaseException: pass", "out_of_fuel"),
    ("compute_in_one_instruction", "budgets", "9 ** 9 ** 9", "out_of_fuel", "out_of_memory", "raised", "error"),
    ("match_without_end", "budgets", "import re\nre.match('(a+)+$', 'a' * 64 + 'b')", "out_of_fuel"),
    ("print_without_end", "budgets", "while True: print('x' * 1000)", "out_of_output", "out_of_fuel"),
    ("fill_the_disk", "memory", "with open('/tmp/f', 'wb') as f:\n  while True: f.write(bytes(1 << 20))",
     "raised", "error", "out_of_memory"),
    ("take_all_memory", "memory", "kept = []\nwhile True: kept.append(bytearray(1 << 20))", "raised", "error",
     "out_of_memory"),
    ("take_all_memory_at_once", "memory", "bytearray(1 << 40)", "raised", "error", "out_of_memory"),
    ("overflow_the_stack", "memory",
     "import sys\nsys.setrecursionlimit(10 ** 9)\nf = lambda: f()\nf()", "raised", "error", "trapped", "stack_overflow",
     "trap", "out_of_fuel", "out_of_memory"),
    ("overflow_the_stack_in_c", "memory",
     "x = []\nfor _ in range(1_000_000): x = [x]\nimport sys\nsys.setrecursionlimit(10 ** 9)\nrepr(x)", "raised", "error",
     "trapped", "stack_overflow", "trap", "out_of_fuel"),
    ("run_forged_bytecode", "memory",
     "exec((lambda: 0).__code__.replace(co_code=bytes(range(1, 255)), co_stacksize=1))", "raised", "error", "trapped",
     "trap", "ok", "out_of_fuel", "exited", "failed_exit"),
    ("unmarshal_garbage", "memory",
     "import marshal\nfor i in range(256):\n  try: marshal.loads(bytes([i]) + b'\\xff' * 64)\n"
     "  except Exception: pass\nexec(marshal.loads(marshal.dumps((lambda: 0).__code__)[:-40] + b'\\x7f' * 40))", "raised",
     "error", "trapped", "trap", "ok", "out_of_fuel", "out_of_memory"),
], Python.comes_to)


# -- JavaScript ----------------------------------------------------------------------------------------------------

class JavaScript(Guest):
    def comes_to(self, code, *outcomes):
        report, _ = self.cell("js", code, *fuel_for(outcomes))
        if outcomes:
            self.assertIn(report["outcome"], outcomes, report)
        else:
            self.assertEqual((report["outcome"], value_of(report).strip("'\"")), ("ok", "stopped"), report)


def thrown(expression):
    return f"(() => {{ try {{ return 'got ' + ({expression}) }} catch (error) {{ return 'stopped' }} }})()"


add_tries(JavaScript, [
    ("read_a_file_by_require", "language", thrown("require('fs').readFileSync('SECRET_FILE')")),
    ("read_a_file_of_std", "language", thrown("std.loadFile('SECRET_FILE').length")),
    ("start_a_program_by_os", "language", thrown("os.exec(['/bin/true'])")),
    ("read_the_environment_of_process", "language", thrown("process.env.HOST_SECRET.length")),
    ("read_a_file_through_the_capability", "grants", thrown("membrane.fs.read('SECRET_FILE').length")),
    ("fetch_metadata_of_the_cloud", "grants", thrown("membrane.http.get('http://169.254.169.254/').body")),
    ("loop_without_end", "budgets", "for (;;);", "out_of_fuel"),
    ("match_without_end", "budgets", "/^(a+)+$/.test('a'.repeat(64) + 'b')", "out_of_fuel", "raised", "error"),
    ("take_all_memory", "memory", "const kept = []; for (;;) kept.push(new Uint8Array(1 << 20))", "raised", "error",
     "out_of_memory"),
    ("overflow_the_stack", "memory", "const f = () => f() + 1; f()", "raised", "error", "trapped", "trap",
     "stack_overflow"),
    ("parse_what_is_deep", "memory", "JSON.parse('['.repeat(1e6))", "raised", "error", "trapped", "trap",
     "stack_overflow"),
], JavaScript.comes_to)


# -- WebAssembly ---------------------------------------------------------------------------------------------------

class Wasm(Guest):
    def comes_to(self, text, *outcomes):
        report, done = self.module(text)
        self.assertIn(report["outcome"], outcomes, report)
        self.assert_memory(done, 64 * MIB)


def body(text, before=""):
    return f'(module {before} (func (export "run") {text}))'


TRAPPED = ("trapped", "trap")
add_tries(Wasm, [
    ("read_beyond_its_memory", "memory", body("(drop (i32.load (i32.const 65536)))", "(memory 1)"), *TRAPPED),
    ("read_below_its_memory", "memory", body("(drop (i32.load (i32.const -4)))", "(memory 1)"), *TRAPPED),
    ("read_far_beyond_by_an_offset", "memory",
     body("(drop (i64.load offset=4294967295 (i32.const -1)))", "(memory 1)"), *TRAPPED),
    ("fill_beyond_its_memory", "memory",
     body("(memory.fill (i32.const 1) (i32.const 0) (i32.const -1))", "(memory 1)"), *TRAPPED),
    ("grow_without_end", "memory",
     body("(loop $again (br_if $again (i32.ne (memory.grow (i32.const 1000)) (i32.const -1)))) unreachable",
          "(memory 1)"), "out_of_memory"),
    ("begin_with_too_much_memory", "memory", body("", "(memory 65536)"), "out_of_memory", "invalid"),
    ("grow_a_table_without_end", "memory",
     body("(loop $again (br_if $again (i32.ne (table.grow (ref.null func) (i32.const 100000)) (i32.const -1))))"
          " unreachable", "(table 1 funcref)"), *TRAPPED),
    ("call_a_function_as_another_type", "memory",
     body("(drop (call_indirect (param i64) (result i64) (i64.const 1) (i32.const 0)))",
          "(table funcref (elem $f)) (func $f (param i32) (result i32) (local.get 0))"), *TRAPPED),
    ("call_beyond_its_table", "memory", body("(call_indirect (i32.const 100))", "(table 1 funcref)"), *TRAPPED),
    ("recurse_without_end", "memory", '(module (func $f (export "run") (call $f)))', "stack_overflow", *TRAPPED),
    ("take_a_number_for_a_reference", "validation",
     body("(drop (call_ref 0 (i32.const 1234)))", "(type (func))"), "invalid"),
    ("pop_from_an_empty_stack", "validation", body("(drop)"), "invalid"),
    ("write_a_constant_global", "validation",
     body("(global.set 0 (i32.const 1))", "(global i32 (i32.const 0))"), "invalid"),
    ("import_a_function_of_the_c_library", "validation",
     '(module (import "env" "system" (func (param i32) (result i32))) (func (export "run")))', "invalid"),
    ("give_the_host_a_text_beyond_its_memory", "memory",
     '(module (import "membrane" "io.print" (func $p (param i32 i32))) (memory (export "memory") 1)'
     ' (func (export "run") (call $p (i32.const 65530) (i32.const 100))))', "invalid", "error", "raised", *TRAPPED),
    ("loop_without_end", "budgets", body("(loop $again (br $again))"), "out_of_fuel"),
    ("loop_before_it_starts", "budgets",
     '(module (func $s (loop $again (br $again))) (start $s) (func (export "run")))', "out_of_fuel"),
], Wasm.comes_to)


# -- in the service ------------------------------------------------------------------------------------------------

class InTheService(Attack):
    """Python if it is installed. The service lives on, and its next guest is served."""

    @classmethod
    def setUpClass(cls):
        cls.service = Service("--log-level", "warning", environment={"HOST_SECRET": SECRET, "MEMBRANE_LANGUAGES": str(LANGUAGES)})
        Path(cls.service.state, "near.txt").write_text(SECRET)

    @classmethod
    def tearDownClass(cls):
        cls.service.stop()
        cls.service.log.close()

    def comes_to(self, code, *outcomes, template="python"):
        if not SANITIZED and not self.service.has_template(template):
            self.skipTest(f"{template} is not installed")
        if SANITIZED:
            self.need(template)
        limits = {"policy": {"limits": {"fuel": FUEL}}} if fuel_for(outcomes) else {}
        sandbox = self.service.create(template, **limits)
        self.addCleanup(self.service.request, "DELETE", f"/v1/sandboxes/{sandbox}")
        report = self.service.exec(sandbox, code.replace("STATE", self.service.state))
        self.assertNotIn(SECRET, json.dumps(report))
        self.assertNotIn(self.service.token, json.dumps(report))
        if outcomes:
            self.assertIn(report["outcome"], outcomes, report)
        else:
            self.assertEqual((report["outcome"], value_of(report)), ("ok", "'stopped'"), report)
        self.assertEqual(self.service.request("GET", "/health").status, 200)

    def finds_nothing_left(self, code):
        """From a guest of the same tenant that ran the same code, and still exists."""
        self.comes_to(code)
        self.comes_to(code)


add_tries(InTheService, [
    ("read_the_owners_token", "grants", refused("open('STATE/owner.token').read()", "OSError")),
    ("read_the_services_database", "grants", refused("open('STATE/state.db', 'rb').read()", "OSError")),
    ("read_the_services_environment", "language",
     "import os\n'stopped' if 'HOST_SECRET' not in os.environ else 'got'"),
    ("ask_the_service_itself", "grants", "import membrane\n" + refused("membrane.http.get('http://127.0.0.1:7400/health')")),
    ("print_without_end", "budgets", "while True: print('x' * 10000)", "out_of_output", "out_of_fuel"),
    ("take_all_memory", "memory", "kept = []\nwhile True: kept.append(bytearray(1 << 20))", "raised", "error",
     "out_of_memory"),
    ("loop_without_end", "budgets", "while True: pass", "out_of_fuel"),
], InTheService.comes_to)
add_tries(InTheService, [
    ("find_the_file_of_a_guest_before_it", "memory",
     "import os\nif os.path.exists('/tmp/left'): said = 'got'\nelse:\n  said = 'stopped'\nopen('/tmp/left', 'w').write('x')\nsaid"),
    ("find_the_names_of_a_guest_before_it", "memory",
     "import builtins\nsaid = 'got' if hasattr(builtins, 'left') else 'stopped'\nbuiltins.left = 1\nsaid"),
], InTheService.finds_nothing_left)


if __name__ == "__main__":
    unittest.main()
