"""Attempts to reach the terminal: escapes, C1 controls, DEL, bidirectional overrides and invisible
characters, through every path to what a person sees. Standard output and standard error are a
pseudo-terminal."""

import json
import os
import pty
import resource
import subprocess
import termios
import threading
import unittest

from attack import COMMAND, HOST_STACK_BYTES, MAX_SECONDS, SANITIZED, Attack

# Title, colour, cursor, C1 in UTF-8, DEL, carriage return, bell, override, isolate, zero width, tag.
EVIL = "\x1b]0;owned\x07\x1b[2J\u009b31m\x7f\r\u202eevil\u2066\u200b\ufeff\U000e0041"
FORBIDDEN = [b"\x1b", b"\x07", b"\x7f", b"\x9b31m", *(c.encode() for c in "\u009b\u202e\u2066\u200b\ufeff\U000e0041")]
# What Membrane itself sends: the progress line, and the terminal's line ends.
OWN = [b"\r\x1b[K", b"\r\n"]


def wat_string(text):
    return '"' + "".join(f"\\{byte:02x}" for byte in text.encode()) + '"'


class TerminalAttack(Attack):
    def on_terminal(self, *arguments, stdin=None, **environment):
        """Everything that the command writes to a terminal. `stdin` is typed there; otherwise the input is
        empty."""
        master, slave = pty.openpty()
        attributes = termios.tcgetattr(slave)
        attributes[3] &= ~termios.ECHO
        termios.tcsetattr(slave, termios.TCSANOW, attributes)

        def limit():
            if not SANITIZED:
                resource.setrlimit(resource.RLIMIT_STACK, (HOST_STACK_BYTES, HOST_STACK_BYTES))

        process = subprocess.Popen([COMMAND, *map(str, arguments)], stdin=subprocess.PIPE, stdout=slave, stderr=slave,
                                   cwd=self.folder, preexec_fn=limit,
                                   env={**self.environment, "NO_COLOR": "1", "TERM": "xterm", **environment})
        os.close(slave)
        watchdog = threading.Timer(MAX_SECONDS, process.kill)
        watchdog.start()
        feeder = threading.Thread(target=lambda: (process.stdin.write(stdin or b""), process.stdin.close()))
        feeder.start()
        seen = b""
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:  # the other side is closed
                break
            if not part:
                break
            seen += part
        feeder.join()
        process.wait()
        watchdog.cancel()
        os.close(master)
        self.assertIn(process.returncode, (0, 1, 2), seen)
        return seen

    def assert_harmless(self, seen, shows=True):
        rest = seen
        for own in OWN:
            rest = rest.replace(own, b"\n")
        for sequence in (*FORBIDDEN, b"\r"):
            self.assertNotIn(sequence, rest, seen)
        if shows:
            self.assertIn(b"evil", seen)  # it was shown, and made harmless

    # -- a program in WAT

    def run_wat(self, code, *arguments):
        return self.on_terminal("run", self.file("x.wat", code), *arguments)

    def test_what_a_program_prints(self):
        self.assert_harmless(self.run_wat(f'(func (export "run") (drop (call $io.print (string {wat_string(EVIL)}))))'
                                          .replace("(drop (call", "(call").replace("))))", ")))")))

    def test_what_a_program_prints_in_pieces(self):
        pieces = "".join(f"(call $io.print (string \"\\{byte:02x}\"))" for byte in EVIL.encode())
        self.assert_harmless(self.run_wat(f'(func (export "run") {pieces})'), shows=False)

    def test_what_a_program_prints_as_an_error(self):
        self.assert_harmless(self.run_wat(f'(func (export "run") (call $io.eprint (string {wat_string(EVIL)})))'),
                             shows=False)

    def test_the_result_of_a_program(self):
        self.assert_harmless(self.run_wat(f'(func (export "run") (call $io.result (string {wat_string(EVIL)})))'))

    def test_the_answer_of_a_program(self):
        self.assert_harmless(self.run_wat(f'(func (export "run") (call $agent.submit (string {wat_string(EVIL)})))'))

    def test_the_argument_of_a_call_that_is_refused(self):
        self.assert_harmless(self.run_wat(f'(func (export "run") (drop (call $kv.get! (string {wat_string(EVIL)}))))'))

    def test_the_name_of_the_function_that_traps(self):
        self.assert_harmless(self.run_wat(f'(module (func ${wat_string(EVIL)} (export "run") unreachable))'))

    def test_the_names_of_exports_that_are_not_the_entry(self):
        self.assert_harmless(self.run_wat(f'(module (func (export {wat_string(EVIL)})))'))

    def test_the_name_of_an_import_that_nobody_provides(self):
        self.assert_harmless(self.run_wat(f'(module (import {wat_string(EVIL)} "f" (func)))'))

    def test_the_same_in_a_json_report(self):
        seen = self.run_wat(f'(func (export "run") (call $io.result (string {wat_string(EVIL)})))', "--json")
        self.assert_harmless(seen)
        self.assertEqual(json.loads(seen)["result"], EVIL)

    # -- findings

    def check(self, text, *arguments):
        return self.on_terminal("check", self.file("x.wat", text), *arguments)

    def test_the_line_that_a_finding_shows(self):
        self.assert_harmless(self.check(f'(module (func (call $nothing) (; {EVIL} ;)))'))

    def test_the_name_that_a_finding_quotes(self):
        self.assert_harmless(self.check(f'(module (func (call $"{wat_string(EVIL)[1:]})))'), shows=False)

    def test_a_finding_as_json(self):
        self.assert_harmless(self.check(f'(module (import {wat_string(EVIL)} "f" (func)))', "--json"))

    def test_a_program_that_is_expanded(self):
        self.assert_harmless(self.check(f'(module (func (set $x 1)) (; {EVIL} ;))', "--expand"))

    def test_the_name_of_the_file(self):
        name = "x\x1b]0;owned\x07\u202eevil.wat"
        self.assert_harmless(self.on_terminal("check", self.file(name, "(module)")))
        self.assert_harmless(self.on_terminal("run", self.file(name, "(module (func")), shows=False)

    def test_a_file_that_is_not_there(self):
        self.assert_harmless(self.on_terminal("run", f"{EVIL}.wat".replace("/", "")))

    # -- other commands

    def test_an_option_that_is_unknown(self):
        self.assert_harmless(self.on_terminal("run", f"--{EVIL}", "x.wat"))
        self.assert_harmless(self.on_terminal(EVIL))

    def test_a_policy_that_is_explained(self):
        policy = json.dumps({"fs": [{"guest": "/data", "host": f"/{EVIL}", "mode": "read"}]})
        self.assert_harmless(self.on_terminal("policy", "explain", self.file("p.json", policy)), shows=False)
        self.assert_harmless(self.on_terminal("policy", "explain", self.file("p.toml", f"# {EVIL}\nevil")), shows=False)

    def test_a_capability_that_there_is_not(self):
        self.assert_harmless(self.on_terminal("capabilities", EVIL))

    def test_a_grant_that_is_none(self):
        self.assert_harmless(self.on_terminal("run", self.file("x.wat", "(module)"), "--allow", EVIL))

    def test_a_script_of_the_test_suite(self):
        script = f'(module (func (export "f")))(assert_return (invoke "f" (i32.const 1)))(; {EVIL} ;)(evil {wat_string(EVIL)})'
        self.assert_harmless(self.on_terminal("spectest", self.file(f"evil\x1b[2J.wast", script)), shows=False)

    def test_a_template_that_is_added(self):
        self.assert_harmless(self.on_terminal("languages", "add", EVIL, "x.wasm"), shows=False)
        self.assert_harmless(self.on_terminal("languages", "remove", EVIL))

    def test_what_a_model_says(self):
        answers = json.dumps({"content": f"ANSWER: {EVIL}"}) + "\n"
        self.assert_harmless(self.on_terminal("agent", "task", "--language", "wat", "--model-file",
                                              self.file("answers.jsonl", answers)))

    def test_what_a_models_program_says(self):
        code = f'(func (export \\"main\\") (call $io.print (string {wat_string(EVIL)})))'.replace('\\"', '"')
        answers = (json.dumps({"content": f"{EVIL}\n```wat\n{code}\n```"}) + "\n" +
                   json.dumps({"content": "ANSWER: done"}) + "\n")
        self.assert_harmless(self.on_terminal("agent", "task", "--language", "wat", "--model-file",
                                              self.file("answers.jsonl", answers)))

    def test_an_answer_file_that_is_damaged(self):
        self.assert_harmless(self.on_terminal("agent", "task", "--language", "wat", "--model-file",
                                              self.file("answers.jsonl", json.dumps({EVIL: 1}) + "\n")))

    # -- languages

    def python(self, code, *arguments):
        self.need("python")
        return self.on_terminal("run", self.file("x.py", code), *arguments)

    def test_what_python_displays(self):
        code = (f"from membrane import display\nclass D:\n  def _repr_mimebundle_(self, **k):\n"
                f"    return {{'text/plain': {EVIL!r}, 'image/' + {EVIL!r}: 'x', {EVIL!r}: 'y'}}\ndisplay(D())\n")
        self.assert_harmless(self.python(code))

    def test_what_python_raises(self):
        self.assert_harmless(self.python(f"raise ValueError({EVIL!r})"))
        self.assert_harmless(self.python(f"raise type({EVIL!r}, (Exception,), {{}})('evil')"))

    def test_the_value_of_a_cell(self):
        self.need("python")
        self.assert_harmless(self.on_terminal(
            "run", "--lang", "python", "-e",
            f"class D:\n  def __repr__(self): return {EVIL!r}\nD()"))

    def test_the_names_of_files_that_python_makes(self):
        self.assert_harmless(self.python(f"open('/tmp/' + {EVIL!r}, 'w').write('x')"))

    def test_what_python_writes_as_bytes(self):
        self.assert_harmless(self.python(f"import sys\nfor b in {EVIL.encode()!r}:\n"
                                         "  sys.stdout.buffer.write(bytes([b])); sys.stdout.flush()\n"
                                         "sys.stdout.buffer.write(b'\\x9b31m\\xff evil')"))

    def test_what_javascript_displays_and_throws(self):
        self.need("js")
        text = json.dumps(EVIL)
        self.assert_harmless(self.on_terminal("run", self.file("x.js", f"console.log({text}); console.error({text})")))
        self.assert_harmless(self.on_terminal("run", self.file("x.js", f"throw new Error({text})")))

    def test_what_the_repl_shows(self):
        self.need("python")
        lines = f"print({EVIL!r})\n:{EVIL}\nopen('/tmp/evil\\x1b[2J', 'w').close()\n:files\nraise ValueError({EVIL!r})\n"
        self.assert_harmless(self.on_terminal("repl", "--lang", "python", stdin=lines.encode()))


if __name__ == "__main__":
    unittest.main()
