#!/usr/bin/env python3
"""The clients as users have them: `membrane` for Python, installed into a fresh virtual environment; for
Node, packed and installed into a fresh directory; and the command. They run against a real service, and
against a server that misbehaves in every way.

    MEMBRANE_COMMAND=build/release/membrane service/clients_test.py

Languages and tools that cannot be downloaded (pip, npm, Python as a template) are skipped, and the skip says
why.
"""

import contextlib
import http.server
import json
import os
import platform
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import textwrap
import threading
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "cli"))
from linux_testing import make_image  # noqa: E402
from service_testing import COMMAND, SANITIZED, SECONDS, Service  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.M | re.S)
REPORT = {"exec_id": "exe1", "outcome": "ok", "result": "42", "stdout": "ab", "stderr": "", "fuel_used": 7}
SANDBOX = {"id": "sbx1", "template": "python", "state": "idle"}


def setUpModule():
    global folder, service
    folder = Path(tempfile.mkdtemp(prefix="membrane-clients-"))
    unittest.addModuleCleanup(shutil.rmtree, folder, ignore_errors=True)
    (folder / "home").mkdir()
    images = {"XDG_STATE_HOME": str(folder / "home"), "MEMBRANE_IMAGES": str(folder / "images")}
    if platform.machine() == "x86_64" and not SANITIZED:
        make_image(folder / "host.tar")
        run([COMMAND, "image", "import", folder / "host.tar", "--tag", "debian"], env={**os.environ, **images}).check_returncode()
    service = Service(environment=images)
    unittest.addModuleCleanup(service.stop)
    if service.has_template("python"):
        service.create("python")  # its image is made now, which may take longer than a client waits


def run(words, **options):
    return subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False, **options)


def environment(url=None, token=None):
    return {**os.environ, "MEMBRANE_URL": url or service.url, "MEMBRANE_TOKEN": token or service.token,
            "XDG_STATE_HOME": str(folder / "none"), "PATH": f"{Path(COMMAND).resolve().parent}:{os.environ['PATH']}"}


def blocks(path, kind):
    return [text for found, text in FENCE.findall((ROOT / path).read_text()) if found == kind]


def brought(test, what, words, **options):
    done = run(words, **options)
    if done.returncode != 0:
        test.skipTest(f"{what} could not be brought: {done.stderr[-500:]}")


class Upstream(http.server.BaseHTTPRequestHandler):
    """A target for programs: it accepts what is posted."""

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"taken")

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def asking():
    """A server, and a policy by which a program that has read input may post to it when a person
    approves."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Upstream) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/"
        yield url, {"trifecta": {"egress": "ask", "input_private": True, "input_untrusted": True}, "limits": {"wall": "1h"},
                    "http": [{"methods": ["POST"], "url": url + "*"}]}
        server.shutdown()


# -- A server that does all that can go wrong -----------------------------------------------------------------------

def event(number, kind, data):
    return f"id: {number}\nevent: {kind}\ndata: {json.dumps(data)}\n\n".encode()


class Hostile(http.server.ThreadingHTTPServer):
    """Answers each request with the next step of `script`, and records the requests in `asked`."""

    daemon_threads = True

    def __init__(self, *script):
        super().__init__(("127.0.0.1", 0), HostileHandler)
        self.script, self.asked = list(script), []
        self.released = threading.Event()  # ends what is held
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.released.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, *_):
        pass


class HostileHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.asked.append((self.command, self.path, dict(self.headers), body))
        step, *arguments = self.server.script.pop(0)
        self.close_connection = True
        getattr(self, step)(*arguments)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

    def reset(self):
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.wfile = open(os.devnull, "wb")

    def say(self, status, json_body, **headers):
        body = json.dumps(json_body).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, status, code, retryable, **headers):
        error = {"code": code, "message": "not now", "hint": "wait", "request_id": "req7", "retryable": retryable}
        self.say(status, {"error": error}, **headers)

    def stream(self, *pieces):
        """A stream of that many bytes, which then ends without its report, as if it were cut."""
        self.send_response(200)
        for name, value in (("Content-Type", "text/event-stream"), ("X-Exec-Id", "exe1"), ("Connection", "close")):
            self.send_header(name, value)
        self.end_headers()
        for piece in pieces:
            self.wfile.write(piece)
            self.wfile.flush()

    def hold(self):
        self.server.released.wait(SECONDS)

    def log_message(self, *_):
        pass


CUT_AND_READ_ON = (
    ("say", 201, SANDBOX),
    ("stream", event(0, "stdout", {"text": "a"}), b"id: 1\nevent: stdout\ndata: {\"te"),
    ("reset",),
    ("stream", b": nothing yet\n\n", event(1, "stdout", {"text": "b"}), event(2, "report", REPORT)),
)


class Scripted:
    """What each client must do with a server's steps: `ask(server, code)` runs a program of the client
    against it, and returns its output."""

    def program(self, name):
        raise NotImplementedError

    def asked_of(self, name, *script):
        with Hostile(*script) as server:
            done = self.ask(server, self.PROGRAMS[name])
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(server.script, [], "not all was asked")
            return done.stdout.split(), server.asked

    def test_a_reset_connection_is_tried_again_with_the_same_key(self):
        out, asked = self.asked_of("create", ("reset",), ("reset",), ("say", 201, SANDBOX))
        self.assertEqual(out, ["sbx1"])
        keys = {headers["Idempotency-Key"].lower() for _, _, headers, _ in asked}
        self.assertEqual((len(asked), len(keys)), (3, 1))

    def test_503_and_429_are_tried_again_after_what_they_ask(self):
        out, _ = self.asked_of("create", ("refuse", 503, "overloaded", True), ("refuse", 429, "too_many_requests", True),
                               ("say", 201, SANDBOX))
        self.assertEqual(out, ["sbx1"])

    def test_retry_after_counts(self):
        with Hostile() as server:
            server.script = [("say_later",), ("say", 201, SANDBOX)]
            HostileHandler.say_later = lambda self: self.refuse(503, "overloaded", True, Retry_After="0")
            self.assertEqual(self.ask(server, self.PROGRAMS["create"]).stdout.split(), ["sbx1"])

    def test_a_wait_that_is_too_long_is_not_waited(self):
        with Hostile() as server:
            HostileHandler.say_never = lambda self: self.refuse(503, "overloaded", True, Retry_After="86400")
            server.script = [("say_never",)]
            self.assertEqual(self.ask(server, self.PROGRAMS["fails"]).stdout.split(), ["BusyError", "overloaded", "req7", "503"])

    def test_what_waiting_does_not_mend_is_not_tried_again(self):
        out, asked = self.asked_of("fails", ("refuse", 429, "quota_exceeded", False))
        self.assertEqual((out, len(asked)), (["BusyError", "quota_exceeded", "req7", "429"], 1))

    def test_an_error_says_when_it_can_succeed(self):
        with Hostile() as server:
            HostileHandler.say_much_later = lambda self: self.refuse(429, "quota_exceeded", True, Retry_After="86400")
            server.script = [("say_much_later",)]
            self.assertEqual(self.ask(server, self.PROGRAMS["busy"]).stdout.split(), ["86400"])

    def test_tries_end(self):
        out, asked = self.asked_of("fails", *[("reset",)] * 4)
        self.assertEqual(out[:2], ["UnreachableError", "unreachable"])
        self.assertEqual(len(asked), 4)

    def test_a_slow_answer_is_an_error(self):
        out, asked = self.asked_of("slow", ("hold",))
        self.assertEqual(out[:2], ["UnreachableError", "timed_out"])
        self.assertEqual(len(asked), 1)

    def test_other_errors_are_not_tried_again(self):
        for status, kind in ((401, "DeniedError"), (404, "NotFoundError"), (422, "InvalidRequestError"), (500, "MembraneError")):
            out, asked = self.asked_of("fails", ("refuse", status, "code", False))
            self.assertEqual((out, len(asked)), ([kind, "code", "req7", str(status)], 1))

    def test_another_server_is_recognised(self):
        out, _ = self.asked_of("fails", ("say", 200, ["something", "else"]))
        self.assertIn("bad_answer", out)

    def test_a_cut_stream_is_read_on(self):
        out, asked = self.asked_of("stream", *CUT_AND_READ_ON)
        self.assertEqual(out, ["a", "b", "42"])
        self.assertEqual([path for _, path, _, _ in asked][2:], ["/v1/sandboxes/sbx1/execs/exe1/events?after=0"] * 2)

    def test_output_that_is_not_text_has_its_bytes(self):
        report = {**REPORT, "stdout": "a\ufffd", "stdout_base64": "Yf8=", "stderr": "\u00e9"}
        out, _ = self.asked_of("bytes", ("say", 201, SANDBOX), ("stream", event(0, "stdout", {"text": "a\ufffd", "base64": "Yf8="}),
                                                               event(1, "stderr", {"text": "\u00e9"}), event(2, "report", report)))
        self.assertEqual(out, ["61ff", "c3a9", "61ff", "c3a9"])

    def test_a_removal_whose_answer_was_lost_is_done(self):
        self.asked_of("kill", ("say", 201, SANDBOX), ("reset",), ("refuse", 404, "not_found", False))

    def test_a_block_ends_in_its_own_way_when_the_service_is_gone(self):
        for name, reported in (("ends", "ended"), ("fails_itself", "own")):
            out, asked = self.asked_of(name, ("say", 201, SANDBOX), *[("reset",)] * 4)
            self.assertEqual((out, asked[-1][0]), ([reported], "DELETE"))

    def test_a_block_reports_that_its_sandbox_was_not_ended(self):
        out, _ = self.asked_of("is_not_ended", ("say", 201, SANDBOX), ("refuse", 403, "forbidden", False))
        self.assertEqual(out, ["DeniedError"])


# -- Python ---------------------------------------------------------------------------------------------------------

class PythonClient(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        venv = folder / "venv"
        if not venv.exists():
            brought(cls, "a virtual environment", [sys.executable, "-m", "venv", venv])
            brought(cls, "mypy", [venv / "bin/pip", "install", "-q", "mypy"])
            os.environ["CMAKE_ARGS"] = "-DMEMBRANE_ENGINE=OFF"  # the client is enough
            brought(cls, "the package", [venv / "bin/pip", "install", "-q", ROOT / "python"])
        cls.python = str(venv / "bin/python")

    @classmethod
    def skipTest(cls, why):
        raise unittest.SkipTest(why)

    def ran(self, code, **where):
        path = folder / "program.py"
        path.write_text(textwrap.dedent(code))
        return run([self.python, "-B", path], env=environment(**where), cwd=folder)


class Python(PythonClient):
    def check(self, code):
        if not service.has_template("python"):
            self.skipTest("there is no template python")
        done = self.ran("from membrane import *\n" + textwrap.dedent(code))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_the_examples_of_the_readme_run(self):
        if not service.has_template("python"):
            self.skipTest("there is no template python")
        printed = ["2\n 3\n", "0\n1\n2\n2 ", "42\nstopped\n", "hello\n\ndiff --git a/hello.py b/hello.py\n"]
        examples = blocks("python/README.md", "python")
        self.assertEqual(len(examples), len(printed))
        for example, start in zip(examples, printed):
            if '"linux"' in example and not service.has_template("linux"):
                continue
            done = self.ran(example)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(done.stdout.startswith(start), done.stdout)

    def test_the_example_of_the_project_runs(self):
        if not service.has_template("python"):
            self.skipTest("there is no template python")
        (example,) = blocks("README.md", "python")
        done = self.ran(example)
        self.assertEqual((done.returncode, done.stdout), (0, "45\n"), done.stderr)

    def test_it_is_typed(self):
        for number, example in enumerate(blocks("python/README.md", "python")):
            (folder / f"example{number}.py").write_text(example)
            done = run([self.python, "-m", "mypy", "--strict", folder / f"example{number}.py"], cwd=folder)
            self.assertEqual(done.returncode, 0, done.stdout)
        done = run([self.python, "-m", "mypy", "--strict", "-p", "membrane"], cwd=folder)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_the_version_is_that_of_the_project(self):
        version = re.search(r"project\(membrane VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]
        self.assertEqual(self.ran("import membrane; print(membrane.__version__)").stdout.strip(), version)
        self.assertEqual(json.loads((ROOT / "node/package.json").read_text())["version"], version)
        self.assertIn(f"version = '{version}'", (ROOT / "node/src/connection.ts").read_text())

    def test_a_sandbox(self):
        self.check("""
            with Sandbox.create(labels=["a"], metadata={"n": "v"}, ttl="10m") as sandbox:
                result = sandbox.exec("import sys; x = sys.argv; print(input()); 7", stdin="hi\\n", arguments=["b"])
                assert (result.ok, result.text, result.stdout, result.value) == (True, "7", "hi\\n", {"text/plain": "7"}), result
                assert result.fuel_used > 0 and result.report["outcome"] == "ok"
                failed = sandbox.run("1 / 0")
                assert not failed.ok and failed.error.code == "ZeroDivisionError" and failed.error.result is failed
                sandbox.files.write("/tmp/a b", b"\\x00\\xff")
                assert sandbox.files.read("/tmp/a b") == b"\\x00\\xff"
                assert "/tmp/a b" in [file.path for file in sandbox.files.list()]
                assert [each.id for each in Sandbox.list(label="a")] == [sandbox.id]
                assert [each.id for each in Sandbox.list(label="a", metadata={"n": "v"})] == [sandbox.id]
                assert not list(Sandbox.list(label="a", metadata={"n": "w"}))
                assert Sandbox.connect(sandbox.id).info().metadata == {"n": "v"}
                started = sandbox.exec("print(1)", background=True)
                assert started.wait().stdout == "1\\n" and started.state() == "done"
                for event in sandbox.stream("print(1, flush=True)\\nwhile True: pass"):
                    break  # which stops it
                assert sandbox.run("8", timeout=60).text == "8"
                endless = sandbox.exec("while True: pass", background=True)
                endless.cancel()
                assert endless.wait().outcome == "cancelled"
            try:
                sandbox.run("1")
            except NotFoundError as error:
                assert error.request_id and error.hint and error.status == 404 and not error.retryable
            else:
                raise AssertionError
            """)

    def test_input_while_it_runs(self):
        self.check("""
            with Sandbox.create() as sandbox:
                started = sandbox.exec("print('name?', flush=True); print('hi', input()); print(input())", background=True,
                                       open_stdin=True)
                stream = started.stream()
                assert next(iter(stream)).text == "name?\\n"
                started.write_stdin("you\\n")
                started.write_stdin(b"bye", eof=True)
                assert started.wait().stdout == "name?\\nhi you\\nbye\\n"
                try:
                    started.write_stdin("late")
                except InvalidRequestError as error:
                    assert error.status == 409
                else:
                    raise AssertionError
            """)

    def test_a_receipt(self):
        self.check("""
            import json, os, urllib.request
            with Sandbox.create(seal=True) as sandbox:
                sandbox.run("x = 1")
                receipt = sandbox.receipt(sandbox.run("x + 1"))
                assert json.loads(receipt.text.splitlines()[1])["turn"] == 2
                started = sandbox.exec("3", background=True, seal=True)
                started.wait()
                started.receipt().save("saved.receipt")
                assert os.stat("saved.receipt.private").st_mode & 0o777 == 0o600
                assert json.loads(open("saved.receipt").read().splitlines()[1])["turn"] == 3
            with Sandbox.create() as sandbox:
                try:
                    sandbox.exec("1", seal=True)
                except InvalidRequestError as error:
                    assert (error.status, error.code) == (409, "conflict")
                else:
                    raise AssertionError
            async def main():
                async with await AsyncSandbox.create(seal=True) as sandbox:
                    receipt = await sandbox.receipt(await sandbox.run("1"))
                    assert b'"turn":1' in receipt.text and b"1" in receipt.private_text
            import asyncio
            asyncio.run(main())
            """)

    def test_its_own_objects_serve_as_their_ids(self):
        self.check("""
            with Sandbox.create(seal=True) as sandbox:
                context = sandbox.contexts.open()
                assert sandbox.exec("x = 1; x", context=context).text == "1"
                assert sandbox.run("x", context=context).text == "1" and not sandbox.run("x").ok
                assert next(e.text for e in sandbox.stream("print(x)", context=context) if e.text) == "1\\n"
                started = sandbox.exec("2", background=True)
                started.wait()
                assert sandbox.receipt(started).text == started.receipt().text
                made = sandbox.snapshot()
                assert Sandbox.connect(sandbox).id == Sandbox.connect(sandbox.info()).id == sandbox.id
            snapshots = Snapshots()
            assert snapshots.promote(made, "of-objects").name == "of-objects"
            with Sandbox.create(snapshot=made) as sandbox:
                assert sandbox.run("1").text == "1"
            snapshots.remove_template("of-objects")
            snapshots.remove(made)
            assert made.id not in [each.id for each in snapshots.list()]
            secrets = Secrets()
            secrets.remove(secrets.put("OF_OBJECTS", "0123456789", hosts=["api.example.com"]))
            assert "OF_OBJECTS" not in [each.name for each in secrets.list()]
            """)

    def test_files_of_a_context(self):
        self.check("""
            with Sandbox.create() as sandbox:
                files, context = sandbox.files, sandbox.contexts.open()
                files.write("/tmp/a", "one", context=context)
                assert files.read("/tmp/a", context=context) == b"one"
                assert files.read_text("/tmp/a", context=context.id) == "one"
                assert sandbox.run("open('/tmp/a').read()", context=context).text == "'one'"
                try:
                    files.read("/tmp/a")
                except NotFoundError as error:
                    assert context.id in error.hint, error.hint
                else:
                    raise AssertionError
                files.make_directory("/tmp/d", context=context)
                files.move("/tmp/a", "/tmp/d/b", context=context)
                assert files.stat("/tmp/d/b", context=context).size_bytes == 3
                assert [file.path for file in files.list("/tmp/d", context=context)] == ["/tmp/d/b"]
                assert "/tmp/d/b" in [file.path for file in files.list(context=context)]
                files.write_archive("/tmp/e", files.read_archive("/tmp/d", context=context), context=context)
                files.remove("/tmp/d", recursive=True, context=context)
                assert "/tmp/d" not in [file.path for file in files.list("/tmp", context=context)]
                assert files.read("/tmp/e/b", context=context) == b"one"
                assert not files.list()
            """)

    def test_approvals(self):
        with asking() as (url, policy):
            self.check(f"""
                code = "from membrane import http; print(input()); http.request('POST', {url!r}, '', '12345')"
                with Sandbox.create(policy={policy!r}) as sandbox:
                    assert sandbox.approvals.list() == []
                    reported = []
                    for event in sandbox.stream(code, stdin="given"):
                        if event.approval:
                            reported.append(event.approval)
                            if event.approval.state == "waiting":
                                (waiting,) = sandbox.approvals.list()
                                assert waiting == event.approval, (waiting, event)
                                sandbox.approvals.decide(waiting, True)
                    assert event.result.check().text == "b'taken'"
                    assert [each.state for each in reported] == ["waiting", "approved"]
                    assert (reported[0].function, reported[0].target) == ("http.request", "POST {url}"), reported
                    assert reported[0].bytes == len({url!r}) + 5 and reported[0].asked_at, reported
                    assert [read.function for read in reported[0].private_reads] == ["input"]
                    for event in sandbox.stream(code, stdin="given"):
                        if event.approval and event.approval.state == "waiting":
                            sandbox.approvals.decide(event.approval.id, False)
                    assert event.result.outcome == "denied", event.result
                async def main():
                    async with await AsyncSandbox.create(policy={policy!r}) as sandbox:
                        async for event in sandbox.stream(code, stdin="given"):
                            if event.approval and event.approval.state == "waiting":
                                assert await sandbox.approvals.list() == [event.approval]
                                await sandbox.approvals.decide(event.approval, True)
                        assert event.result.ok
                import asyncio
                asyncio.run(main())
                """)

    def test_an_exit_code_is_a_failure(self):
        self.check("""
            with Sandbox.create() as sandbox:
                assert sandbox.run("import sys; sys.exit()").check().exit_code == 0
                ended = sandbox.run("sys.exit(3)")
                assert (ended.outcome, ended.exit_code, ended.ok) == ("ok", 3, False), ended
                try:
                    ended.check()
                except ProgramError as error:
                    assert (error.code, error.result, "exited with code 3" in error.message) == ("exit", ended, True)
                else:
                    raise AssertionError
            """)

    def test_bytes_as_input(self):
        self.check("""
            with Sandbox.create() as sandbox:
                assert sandbox.exec("input()", stdin="né".encode()).text == "'né'"
                for wrong, kind in ((b"a\\xff", ValueError), (7, TypeError)):
                    try:
                        sandbox.exec("input()", stdin=wrong)
                    except kind as error:
                        assert "write_stdin" in str(error) or "bytes, not int" in str(error), error
                    else:
                        raise AssertionError
            """)

    def test_a_wrong_token_is_denied(self):
        done = self.ran("""
            from membrane import *
            try: Sandbox.create()
            except DeniedError as error: print(error.code)
            """, token="mbr_wrong")
        self.assertEqual(done.stdout, "unauthorized\n", done.stderr)

    def test_a_missing_service_is_reported(self):
        done = self.ran("""
            from membrane import *
            try: Sandbox.create(retries=0)
            except UnreachableError as error: print(error.hint, error.retryable, type(error.cause).__name__)
            """, url="http://127.0.0.1:1")
        self.assertEqual(done.stdout, "Start one: membrane serve True ConnectError\n", done.stderr)

    def test_events_are_the_same_at_every_split(self):
        done = self.ran(r"""
            from membrane._events import EventParser
            text = "\ufeffid: 1\r\nevent: é\rdata: a\ndata:b\r\n\r\n: no\n\ndata\n\nid: 2\ndata: lost".encode()
            whole = EventParser().feed(text)
            assert [(e.kind, e.data, e.id) for e in whole] == [("é", "a\nb", "1"), ("message", "", "1")], whole
            for at in range(len(text)):
                parser = EventParser()
                assert parser.feed(text[:at]) + parser.feed(text[at:]) == whole, at
            """)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_lifecycle(self):
        paths = service.request("GET", "/openapi.json").json["paths"]
        if "/v1/sandboxes/{sandbox}/fork" not in paths:
            self.skipTest("the service has no fork")
        self.check("""
            with Sandbox.create() as sandbox:
                sandbox.run("x = 1")
                forks = sandbox.fork(2)
                assert [fork.run("x += 1; x").text for fork in forks] == ["2", "2"]
                assert sandbox.run("x").text == "1"
                for fork in forks: fork.kill()
                sandbox.pause()
                sandbox.resume()
                assert sandbox.run("x").text == "1"
                assert sandbox.snapshot().id
                sandbox.files.write("/tmp/a", "1")
                assert sandbox.files.stat("/tmp/a").size_bytes == 1
                sandbox.files.move("/tmp/a", "/tmp/b")
                assert "/tmp/b" in [file.path for file in sandbox.files.list("/tmp")]
                sandbox.files.remove("/tmp/b")
            """)


    def test_contexts_policies_and_archives(self):
        self.check("""
            import io, tarfile
            with Sandbox.create(policy={"kv": {}, "limits": {"fuel": "1e10"}}) as sandbox:
                context = sandbox.contexts.open()
                assert (context.template, sandbox.contexts.list()) == ("python", [context]) and context.created_at
                sandbox.exec("x = 1", context=context.id)
                assert not sandbox.run("x").ok and sandbox.exec("x", context=context.id).text == "1"
                sandbox.contexts.remove(context)
                assert sandbox.contexts.list() == []
                policy = sandbox.policy()
                sandbox.set_policy(policy)
                assert sandbox.policy() == policy and "kv" in policy, policy
                sandbox.update(limits={"fuel": 12345678})
                raised = sandbox.policy()
                assert raised == {**policy, "limits": {**policy["limits"], "fuel": 12345678}}, raised
                hint = sandbox.run("while True: pass").error.hint
                assert 'raise limits.fuel: sandbox.update(limits={"fuel": 49382712}).' in hint, hint
                info = sandbox.update(limits={"fuel": policy["limits"]["fuel"]}, labels=["l"])
                assert info.labels == ["l"] and sandbox.policy() == policy
                for refused, reported in ((lambda: sandbox.exec("1", context="ctx0"), "hint: sandbox.contexts.list() lists them."),
                                      (lambda: sandbox.update(ttl="90d"), "ttl must be at most 30d")):
                    try:
                        refused()
                    except MembraneError as error:
                        assert reported in str(error), error
                    else:
                        raise AssertionError
                sandbox.set_policy({})
                narrow = sandbox.policy()
                assert "kv" not in narrow and narrow["limits"] == policy["limits"], narrow
                sandbox.files.write("/tmp/d/a", "one")
                archive = sandbox.files.read_archive("/tmp/d")
                with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
                    assert [(each.name, tar.extractfile(each).read()) for each in tar] == [("a", b"one")]
                sandbox.files.write_archive("/tmp/e/f", archive)
                assert sandbox.files.read_text("/tmp/e/f/a") == "one"
                try:
                    sandbox.files.write_archive("/tmp/e", b"no archive" * 100)
                except InvalidRequestError as error:
                    assert error.hint
                else:
                    raise AssertionError
            """)

    def test_snapshots_and_secrets(self):
        self.check("""
            with Sandbox.create() as sandbox:
                sandbox.run("x = 1")
                made = sandbox.snapshot()
                assert (made.sandbox, made.template, made.name) == (sandbox.id, "python", None) and made.size_bytes > 0
            snapshots = Snapshots()
            assert made in snapshots.list()
            assert snapshots.promote(made.id, "of-python").name == "of-python"
            with Sandbox.create("of-python") as sandbox:
                assert sandbox.run("x").text == "1"
            snapshots.remove_template("of-python")
            snapshots.remove(made.id)
            assert made.id not in [each.id for each in snapshots.list()]
            secrets = Secrets()
            put = secrets.put("OF_PYTHON", "0123456789", hosts=["api.example.com"])
            assert (put.name, put.hosts) == ("OF_PYTHON", ("api.example.com",)) and put in secrets.list()
            secrets.remove("OF_PYTHON")
            assert put not in secrets.list()
            try:
                Secrets(token="mbr_wrong").list()
            except DeniedError:
                pass
            else:
                raise AssertionError
            """)

    def test_a_linux_sandbox(self):
        if not service.has_template("linux"):
            self.skipTest("there is no template linux")
        done = self.ran(r"""
            import signal
            from membrane import *
            with Sandbox.create(template="linux") as sandbox:
                assert sandbox.exec(command=["printf", "%s-", "a b", "$HOME"]).stdout == "a b-$HOME-"
                assert sandbox.exec("pwd", directory="/tmp").stdout == "/tmp\n"
                assert sandbox.exec("pwd; echo $1", arguments=["b"]).stdout == "/root\nb\n"
                assert "".join(event.text for event in sandbox.stream(command=["seq", "2"]) if event.text) == "1\n2\n"
                assert sandbox.exec("exit 3").exit_code == 3
                for wrong in ({}, {"code": "a", "command": ["a"]}, {"command": ["a"], "arguments": ["b"]}, {"command": "ls"}):
                    try:
                        sandbox.exec(**wrong)
                    except TypeError:
                        continue
                    raise AssertionError(wrong)
                shell = sandbox.exec("stty size; trap 'stty size; exit 4' WINCH; echo ready; while :; do sleep 0.05; done",
                                     terminal=(91, 20), background=True, open_stdin=True)
                text = ""
                for event in shell.stream(hang_up=True):
                    text += event.text or ""
                    if "ready" in text and "30 100" not in text:
                        shell.resize((100, 30))
                assert text == "20 91\r\nready\r\n30 100\r\n", text
                assert event.result.exit_code == 4
                ended = sandbox.exec("trap 'exit 5' INT; touch /tmp/ready; while :; do sleep 0.05; done", background=True)
                sandbox.exec("until [ -e /tmp/ready ]; do sleep 0.05; done")
                ended.signal(signal.SIGINT)
                assert ended.wait().exit_code == 5
                sandbox.files.write("/root/tree/run", "#!/bin/sh\necho ran\n", mode=0o755)
                sandbox.exec("ln -s run link; chmod 700 .", directory="/root/tree")
                sandbox.files.write_archive("/root/copy", sandbox.files.read_archive("/root/tree"))
                assert sandbox.exec("./link; stat -c %a run", directory="/root/copy").stdout == "ran\n755\n"
                assert [(each.name, each.mode, each.target) for each in sandbox.files.list("/root/copy")] == [
                    ("link", 0o777, "run"), ("run", 0o755, None)]
                sandbox.files.write("/root/repo/text", "one\n")
                sandbox.files.write("/root/repo/.git/config", "its own\n")
                snapshot = sandbox.snapshot()
                assert sandbox.diff(since=snapshot) == b""
                sandbox.exec("echo two >> text; printf '\\377' > other; echo x > .git/config", directory="/root/repo")
                patch = sandbox.diff(directory="/root/repo", since=snapshot)
                assert patch.startswith(b"diff --git a/other b/other\n"), patch
                assert b"+two\n" in sandbox.diff(directory="/root/repo") and b"+one\n" in sandbox.diff()
                with Sandbox.create(snapshot=snapshot) as other:
                    assert other.patch(patch, directory="/root/repo") == 2
                    assert other.files.read("/root/repo/other") == b"\xff"
                    try:
                        other.patch("--- a/no\n+++ b/no\n@@ -1 +1 @@\n-a\n+b\n")
                    except InvalidRequestError as error:
                        assert "line 3 of the patch" in error.message or "no" in error.message
                    other.pause()
                    other.resume()
                Snapshots().remove(snapshot)
        """)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_linux_sandbox_on_asyncio(self):
        if not service.has_template("linux"):
            self.skipTest("there is no template linux")
        done = self.ran(r"""
            import asyncio, signal
            from membrane import *
            async def main():
                async with await AsyncSandbox.create(template="linux") as sandbox:
                    assert (await sandbox.exec(command=["pwd"], directory="/tmp")).stdout == "/tmp\n"
                    text = ""
                    async for event in sandbox.stream(command=["stty", "size"], terminal=(91, 20)):
                        text += event.text or ""
                    assert text == "20 91\r\n", text
                    ended = await sandbox.exec(command=["sleep", "1000"], background=True)
                    while await ended.state() != "running":
                        pass
                    await ended.cancel()
                    assert (await ended.wait()).outcome == "cancelled"
                    waits = await sandbox.exec("trap 'exit 5' USR1; echo ready; while :; do sleep 0.05; done", background=True, terminal=(80, 24))
                    async for event in waits.stream():
                        if "ready" in (event.text or ""):
                            await waits.resize((100, 30))
                            await waits.signal(signal.SIGUSR1)
                    assert event.result.exit_code == 5
                    before = await sandbox.snapshot()
                    await sandbox.files.write("/root/a", "one\n")
                    patch = await sandbox.diff(since=before, directory="/root")
                    assert patch.startswith(b"diff --git a/a b/a\n")
                    await sandbox.files.remove("/root/a")
                    assert await sandbox.patch(patch, directory="/root") == 1
                    assert await sandbox.files.read_text("/root/a") == "one\n"
                    await AsyncSnapshots().remove(before)
            asyncio.run(main())
        """)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_hints_are_in_words_of_the_client(self):
        if not service.has_template("linux"):
            self.skipTest("there is no template linux")
        done = self.ran(r"""
            from membrane import *
            with Sandbox.create(template="linux") as sandbox:
                sandbox.pause()
                for what in (lambda: sandbox.exec("1"), lambda: sandbox.diff(since="snp_none"), lambda: Sandbox.create(template="nonsense")):
                    try:
                        what()
                    except MembraneError as error:
                        print(error.hint)
                    sandbox.resume() if sandbox.info().state == "paused" else None
            with Sandbox.create(template="linux", policy={"limits": {"wall": "100ms"}}) as sandbox:
                print(sandbox.exec(command=["sleep", "1000"]).error.hint)
        """)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "Resume it: sandbox.resume().\nSnapshots().list() lists them.\nmembrane templates lists them.\n"
                                      "Make it do less, or raise limits.wall: sandbox.update(limits={\"wall\": \"200ms\"}).\n")

    def test_all_of_that_on_asyncio(self):
        self.check("""
            import asyncio
            async def main():
                async with await AsyncSandbox.create() as sandbox:
                    context = await sandbox.contexts.open()
                    assert await sandbox.contexts.list() == [context]
                    await sandbox.contexts.remove(context.id)
                    await sandbox.set_policy(await sandbox.policy())
                    await sandbox.update(limits={"fuel": 12345678})
                    assert (await sandbox.policy())["limits"]["fuel"] == 12345678
                    await sandbox.files.write("/tmp/d/a", "one")
                    await sandbox.files.write_archive("/tmp/e", await sandbox.files.read_archive("/tmp/d"))
                    assert await sandbox.files.read_text("/tmp/e/a") == "one"
                    made = await sandbox.snapshot()
                snapshots, secrets = AsyncSnapshots(), AsyncSecrets()
                assert made in await snapshots.list()
                assert (await snapshots.promote(made.id, "of-asyncio")).name == "of-asyncio"
                await snapshots.remove_template("of-asyncio")
                await snapshots.remove(made.id)
                put = await secrets.put("OF_ASYNCIO", "0123456789", hosts=["*.example.com"])
                assert put in await secrets.list()
                await secrets.remove(put.name)
                assert put not in await secrets.list()
            asyncio.run(main())
            """)


FAILS = """
    try:
        {create}
    except MembraneError as error:
        print(type(error).__name__, error.code, error.request_id, error.status)
"""


class PythonOnHostileServer(Scripted, PythonClient):
    PROGRAMS = {
        "create": "print(Sandbox.create().id)",
        "fails": textwrap.dedent(FAILS.format(create="Sandbox.create()")),
        "slow": textwrap.dedent(FAILS.format(create="Sandbox.create(timeout=3)")),
        "stream": "for e in Sandbox.create().stream(''): print(e.text or e.result.text)",
        "bytes": "for e in Sandbox.create().stream(''):\n  if e.data: print(e.data.hex())\nprint(e.result.stdout_bytes.hex(), e.result.stderr_bytes.hex())",
        "kill": "Sandbox.create().kill()",
        "busy": "try: Sandbox.create()\nexcept BusyError as e: print(round(e.retry_after_s))",
        "ends": "with Sandbox.create(): pass\nprint('ended')",
        "fails_itself": "try:\n  with Sandbox.create(): raise KeyError('own')\nexcept KeyError as error: print(error.args[0])",
        "is_not_ended": "try:\n  with Sandbox.create(): pass\nexcept MembraneError as error: print(type(error).__name__)",
    }

    def ask(self, server, code):
        return self.ran("from membrane import *\n" + code, url=server.url)


class AsyncPythonOnHostileServer(Scripted, PythonClient):
    PROGRAMS = {
        "create": "print((await AsyncSandbox.create()).id)",
        "fails": textwrap.dedent(FAILS.format(create="await AsyncSandbox.create()")),
        "slow": textwrap.dedent(FAILS.format(create="await AsyncSandbox.create(timeout=3)")),
        "stream": "async for e in (await AsyncSandbox.create()).stream(''): print(e.text or e.result.text)",
        "bytes": "async for e in (await AsyncSandbox.create()).stream(''):\n  if e.data: print(e.data.hex())\nprint(e.result.stdout_bytes.hex(), e.result.stderr_bytes.hex())",
        "kill": "await (await AsyncSandbox.create()).kill()",
        "busy": "try: await AsyncSandbox.create()\nexcept BusyError as e: print(round(e.retry_after_s))",
        "ends": "async with await AsyncSandbox.create(): pass\nprint('ended')",
        "fails_itself": "try:\n  async with await AsyncSandbox.create(): raise KeyError('own')\nexcept KeyError as error: print(error.args[0])",
        "is_not_ended": "try:\n  async with await AsyncSandbox.create(): pass\nexcept MembraneError as error: print(type(error).__name__)",
    }

    def ask(self, server, code):
        return self.ran("import asyncio\nfrom membrane import *\nasync def main():\n" + textwrap.indent(code, "    ") +
                        "\nasyncio.run(main())\n", url=server.url)


# -- Node -----------------------------------------------------------------------------------------------------------

class NodeClient(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.app = folder / "app"
        if cls.app.exists():
            return
        if not shutil.which("npm"):
            raise unittest.SkipTest("npm is not installed")
        source = folder / "node"
        shutil.copytree(ROOT / "node", source, ignore=shutil.ignore_patterns("node_modules", "dist"))
        cls.app.mkdir()
        (cls.app / "package.json").write_text('{"type": "module", "private": true}')
        brought(cls, "the package", ["npm", "install", "--silent", "--no-audit", "--no-fund", source], cwd=cls.app)

    @classmethod
    def skipTest(cls, why):
        raise unittest.SkipTest(why)

    def ran(self, code, **where):
        path = self.app / "program.mjs"
        path.write_text(textwrap.dedent(code))
        return run(["node", path], env=environment(**where), cwd=self.app)


class Node(NodeClient):
    def test_the_examples_of_the_readme_run(self):
        if not service.has_template("python"):
            self.skipTest("there is no template python")
        examples = blocks("node/README.md", "javascript")
        starts = ["2\n 3\n", "0\n1\n2\n2 ", "hello\n\ndiff --git a/hello.py b/hello.py\n"]
        all_printed = ""
        for example, printed in zip(examples, starts, strict=True):
            if "'linux'" in example and not service.has_template("linux"):
                continue
            done = self.ran(example)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(done.stdout.startswith(printed), done.stdout)
            all_printed += done.stdout
        self.assertIn("ZeroDivisionError division by zero\nTimeoutError\n", all_printed)

    def test_it_is_typed_and_alone(self):
        self.assertEqual([path.name for path in (self.app / "node_modules").glob("[!.]*")], ["membrane"])
        text = "\n".join(example for example in blocks("node/README.md", "javascript")[:1])
        (self.app / "typed.ts").write_text(text + "\nexport const id: string = sandbox.id\nawait using other = await Sandbox.create()\n")
        done = run([folder / "node/node_modules/.bin/tsc", "--strict", "--noEmit", "--target", "es2022", "--module", "nodenext",
                    "--lib", "es2022,dom,esnext.disposable", "--typeRoots", folder / "node/node_modules/@types",
                    "--exactOptionalPropertyTypes", "typed.ts"], cwd=self.app)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_a_sandbox(self):
        if not service.has_template("python"):
            self.skipTest("there is no template python")
        done = self.ran(r"""
            import assert from 'node:assert/strict'
            import { Sandbox, NotFoundError } from 'membrane'
            const sandbox = await Sandbox.create({ labels: ['n'], ttl: '10m', metadata: { n: 'v' } })
            const result = await sandbox.exec('print(input()); 7', { stdin: 'hi\n', arguments: ['b'] })
            assert.deepEqual([result.ok, result.text, result.stdout, result.value], [true, '7', 'hi\n', { 'text/plain': '7' }])
            await sandbox.files.write('/tmp/a b', new Uint8Array([0, 255]))
            assert.deepEqual(await sandbox.files.read('/tmp/a b'), new Uint8Array([0, 255]))
            const ids = []
            for await (const each of Sandbox.list({ label: 'n' })) ids.push(each.id)
            assert.deepEqual(ids, [sandbox.id])
            for await (const each of Sandbox.list({ label: 'n', metadata: { n: 'w' } })) assert.fail(each.id)
            for await (const each of Sandbox.list({ label: 'n', metadata: { n: 'v' } })) assert.equal(each.id, sandbox.id)
            assert.deepEqual((await (await Sandbox.connect(sandbox.id)).info()).metadata, { n: 'v' })
            const controller = new AbortController()
            const why = new Error('enough')
            await assert.rejects(async () => {
              for await (const event of sandbox.stream('print(1, flush=True)\nwhile True: pass', { signal: controller.signal }))
                controller.abort(why)
            }, why)
            assert.equal((await sandbox.run('8')).text, '8')
            const endless = await sandbox.exec('while True: pass', { background: true })
            await endless.cancel()
            assert.equal((await endless.wait()).outcome, 'cancelled')
            const reads = await sandbox.exec('print(input() + input())', { background: true, openStdin: true })
            await reads.writeStdin('a\nb\n', { eof: true })
            assert.equal((await reads.wait()).stdout, 'ab\n')
            const sealed = await Sandbox.create({ seal: true })
            const receipt = await sealed.receipt(await sealed.run('6 * 7'))
            assert.match(new TextDecoder().decode(receipt.text), /"kind":"turn"/)
            assert.match(new TextDecoder().decode(receipt.privateText), /6 \* 7/)
            const background = await sealed.exec('1', { background: true })
            await background.wait()
            assert.match(new TextDecoder().decode((await background.receipt()).text), /"turn":2/)
            await sealed.kill()
            await sandbox.kill()
            await assert.rejects(sandbox.run('1'), (error) => error instanceof NotFoundError && error.requestId !== '' && error.hint !== '')
            """)
        self.assertEqual(done.returncode, 0, done.stderr)


    def test_a_linux_sandbox(self):
        if not service.has_template("linux"):
            self.skipTest("there is no template linux")
        done = self.ran(r"""
            import assert from 'node:assert/strict'
            import { InvalidRequestError, Sandbox, Snapshots } from 'membrane'
            const sandbox = await Sandbox.create({ template: 'linux' })
            assert.equal((await sandbox.exec({ command: ['printf', '%s-', 'a b', '$HOME'] })).stdout, 'a b-$HOME-')
            assert.equal((await sandbox.exec('pwd', { directory: '/tmp' })).stdout, '/tmp\n')
            assert.equal((await sandbox.exec({ command: ['exit'] }).catch((error) => error)).ok, false)
            await assert.rejects(sandbox.exec({ command: ['a'], arguments: ['b'] }), TypeError)
            await assert.rejects(sandbox.exec('a', { command: ['a'] }), TypeError)
            let text = ''
            for await (const event of sandbox.stream({ command: ['stty', 'size'], terminal: { columns: 91, rows: 20 } }))
              text += event.text ?? ''
            assert.equal(text, '20 91\r\n')
            const waits = await sandbox.exec("trap 'exit 5' USR1; echo ready; while :; do sleep 0.05; done", {
              background: true,
              terminal: { columns: 80, rows: 24 },
            })
            let result
            for await (const event of waits.stream({ hangUp: true })) {
              if (event.kind === 'result') result = event.result
              if (!event.text?.includes('ready')) continue
              await waits.resize({ columns: 100, rows: 30 })
              await waits.signal(10)
            }
            assert.equal(result.exitCode, 5)
            await sandbox.files.write('/root/repo/text', 'one\n')
            const since = await sandbox.snapshot()
            await sandbox.exec({ command: ['sh', '-c', 'echo two >> text'], directory: '/root/repo' })
            const patch = await sandbox.diff({ directory: '/root/repo', since })
            assert.match(new TextDecoder().decode(patch), /^diff --git a\/text b\/text\n/)
            const other = await Sandbox.create({ snapshot: since })
            assert.equal(await other.patch(patch, { directory: '/root/repo' }), 1)
            assert.equal(await other.files.readText('/root/repo/text'), 'one\ntwo\n')
            await assert.rejects(other.patch('no patch'), InvalidRequestError)
            await other.kill()
            await sandbox.pause()
            await assert.rejects(sandbox.exec('1'), (error) => error.hint === 'Resume it: sandbox.resume().')
            await new Snapshots().remove(since)
            await sandbox.kill()
            """)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_contexts_policies_archives_snapshots_and_secrets(self):
        if not service.has_template("python"):
            self.skipTest("there is no template python")
        done = self.ran(r"""
            import assert from 'node:assert/strict'
            import { Sandbox, Secrets, Snapshots, DeniedError } from 'membrane'
            const sandbox = await Sandbox.create({ policy: { kv: {} } })
            const context = await sandbox.contexts.open()
            assert.deepEqual(await sandbox.contexts.list(), [context])
            assert.equal(context.template, 'python')
            await sandbox.exec('x = 1', { context: context.id })
            assert.equal((await sandbox.exec('x', { context: context.id })).text, '1')
            assert.equal((await sandbox.run('x')).ok, false)
            await sandbox.contexts.remove(context)
            assert.deepEqual(await sandbox.contexts.list(), [])
            const policy = await sandbox.policy()
            await sandbox.setPolicy(policy)
            assert.deepEqual(await sandbox.policy(), policy)
            await sandbox.update({ limits: { fuel: 12345678 } })
            const raised = await sandbox.policy()
            assert.deepEqual([raised.kv, raised.limits.fuel], [policy.kv, 12345678])
            assert.deepEqual({ ...raised.limits, fuel: policy.limits.fuel }, policy.limits)
            const ran = await sandbox.run('while True: pass')
            assert.match(ran.error.hint, /raise limits\.fuel: sandbox\.update\(\{ limits: \{"fuel": 49382712\} \}\)/)
            await sandbox.update({ limits: { fuel: policy.limits.fuel }, labels: ['l'] })
            assert.deepEqual([await sandbox.policy(), (await sandbox.info()).labels], [policy, ['l']])
            await assert.rejects(sandbox.exec('1', { context: 'ctx0' }), { hint: 'sandbox.contexts.list() lists them.' })
            await assert.rejects(sandbox.update({ ttl: '90d' }), { message: /^ttl must be at most 30d/ })
            await sandbox.setPolicy({})
            assert.deepEqual((await sandbox.policy()).limits, policy.limits)
            assert.notDeepEqual(await sandbox.policy(), policy)
            await sandbox.files.write('/tmp/d/a', 'one')
            await sandbox.files.writeArchive('/tmp/e', await sandbox.files.readArchive('/tmp/d'))
            assert.equal(await sandbox.files.readText('/tmp/e/a'), 'one')
            const made = await sandbox.snapshot()
            assert.deepEqual([made.sandbox, made.name, made.sizeBytes > 0], [sandbox.id, undefined, true])
            const snapshots = new Snapshots()
            assert.deepEqual((await snapshots.list()).filter((each) => each.id === made.id), [made])
            assert.equal((await snapshots.promote(made.id, 'of-node')).name, 'of-node')
            await snapshots.removeTemplate('of-node')
            await snapshots.remove(made.id)
            assert.ok(!(await snapshots.list()).some((each) => each.id === made.id))
            const secrets = new Secrets()
            const put = await secrets.put('OF_NODE', '0123456789', { hosts: ['api.example.com'] })
            assert.deepEqual((await secrets.list()).filter((each) => each.name === 'OF_NODE'), [put])
            await secrets.remove('OF_NODE')
            assert.ok(!(await secrets.list()).some((each) => each.name === 'OF_NODE'))
            await assert.rejects(new Secrets({ token: 'mbr_wrong' }).list(), DeniedError)
            await sandbox.kill()
            """)
        self.assertEqual(done.returncode, 0, done.stderr)


    def test_unknown_options_are_refused_and_a_sandbox_shows_its_id(self):
        self.node(r"""
            const unknown = (name) => ({ name: 'TypeError', message: new RegExp(`has no option "${name}"; it has `) })
            await assert.rejects(Sandbox.create({ templat: 'python' }), unknown('templat'))
            await assert.rejects(Sandbox.connect('sbx1', { tokn: '' }), unknown('tokn'))
            assert.throws(() => new Snapshots({ signal: AbortSignal.timeout(1) }), unknown('signal'))
            const sandbox = await Sandbox.create()
            await assert.rejects(sandbox.run('1', { stdin: '' }), unknown('stdin'))
            await assert.rejects(sandbox.exec('1', { contxt: '' }), unknown('contxt'))
            await assert.rejects(sandbox.update({ idle_timeout: 3 }), unknown('idle_timeout'))
            assert.throws(() => sandbox.stream('1', { background: true }), unknown('background'))
            const { inspect } = await import('node:util')
            assert.equal(inspect(sandbox), `Sandbox { id: '${sandbox.id}', template: 'python' }`)
            const exec = await sandbox.exec('1', { background: true })
            assert.equal(inspect(exec), `Exec { id: '${exec.id}', sandbox: '${sandbox.id}' }`)
            await sandbox.kill()
            """)

    def node(self, code):
        if not service.has_template("python"):
            self.skipTest("there is no template python")
        done = self.ran("import assert from 'node:assert/strict'\nimport * as membrane from 'membrane'\n"
                        "const { Sandbox, Snapshots, Secrets, ProgramError } = membrane\n" + textwrap.dedent(code))
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_its_own_objects_serve_as_their_ids(self):
        self.node(r"""
            const sandbox = await Sandbox.create({ seal: true })
            const context = await sandbox.contexts.open()
            assert.equal((await sandbox.exec('x = 1; x', { context })).text, '1')
            assert.equal((await sandbox.run('x', { context })).text, '1')
            assert.equal((await sandbox.run('x')).ok, false)
            const started = await sandbox.exec('2', { background: true })
            await started.wait()
            assert.deepEqual(await sandbox.receipt(started), await started.receipt())
            const made = await sandbox.snapshot()
            assert.equal((await Sandbox.connect(sandbox)).id, sandbox.id)
            await sandbox.kill()
            const snapshots = new Snapshots()
            assert.equal((await snapshots.promote(made, 'of-node-objects')).name, 'of-node-objects')
            const again = await Sandbox.create({ snapshot: made })
            assert.equal((await again.run('1')).text, '1')
            await again.kill()
            await snapshots.removeTemplate('of-node-objects')
            await snapshots.remove(made)
            assert.ok(!(await snapshots.list()).some((each) => each.id === made.id))
            const secrets = new Secrets()
            await secrets.remove(await secrets.put('OF_NODE_OBJECTS', '0123456789', { hosts: ['api.example.com'] }))
            assert.ok(!(await secrets.list()).some((each) => each.name === 'OF_NODE_OBJECTS'))
            """)

    def test_files_of_a_context(self):
        self.node(r"""
            const sandbox = await Sandbox.create()
            const { files } = sandbox
            const context = await sandbox.contexts.open()
            await files.write('/tmp/a', 'one', { context })
            assert.equal(await files.readText('/tmp/a', { context: context.id }), 'one')
            await assert.rejects(files.read('/tmp/a'), (error) => error.hint.includes(context.id))
            await files.makeDirectory('/tmp/d', { context })
            await files.move('/tmp/a', '/tmp/d/b', { context })
            assert.equal((await files.stat('/tmp/d/b', { context })).sizeBytes, 3)
            assert.deepEqual((await files.list('/tmp/d', { context })).map((file) => file.path), ['/tmp/d/b'])
            await files.writeArchive('/tmp/e', await files.readArchive('/tmp/d', { context }), { context })
            await files.remove('/tmp/d', { recursive: true, context })
            assert.equal(await files.readText('/tmp/e/b', { context }), 'one')
            assert.deepEqual(await files.list(), [])
            await sandbox.kill()
            """)

    def test_approvals(self):
        with asking() as (url, policy):
            self.node(f"const [url, policy] = [{json.dumps(url)}, {json.dumps(policy)}]" + r"""
            const code = `from membrane import http; print(input()); http.request('POST', '${url}', '', '12345')`
            const sandbox = await Sandbox.create({ policy })
            assert.deepEqual(await sandbox.approvals.list(), [])
            const reported = []
            let result
            for await (const event of sandbox.stream(code, { stdin: 'given' })) {
              if (event.kind === 'result') result = event.result
              if (event.kind !== 'approval') continue
              reported.push(event.approval)
              if (event.approval.state !== 'waiting') continue
              assert.deepEqual(await sandbox.approvals.list(), [event.approval])
              await sandbox.approvals.decide(event.approval, true)
            }
            assert.equal(result.check().text, "b'taken'")
            assert.deepEqual(reported.map((each) => each.state), ['waiting', 'approved'])
            assert.deepEqual([reported[0].target, reported[0].bytes], [`POST ${url}`, url.length + 5])
            assert.equal(reported[0].privateReads[0].function, 'input')
            await sandbox.kill()
            """)

    def test_an_exit_code_is_a_failure_and_bytes_are_input(self):
        self.node(r"""
            const sandbox = await Sandbox.create()
            assert.equal((await sandbox.run('import sys; sys.exit()')).check().exitCode, 0)
            const ended = await sandbox.run('sys.exit(3)')
            assert.deepEqual([ended.outcome, ended.exitCode, ended.ok], ['ok', 3, false])
            assert.throws(() => ended.check(), (error) => error instanceof ProgramError && error.code === 'exit' && error.result === ended)
            assert.equal((await sandbox.exec('input()', { stdin: Buffer.from('né') })).text, "'né'")
            await assert.rejects(sandbox.exec('', { stdin: new Uint8Array([97, 255]) }), /not UTF-8/)
            await assert.rejects(sandbox.exec('', { stdin: 7 }), TypeError)
            await sandbox.kill()
            """)


NODE_FAILS = """
    try {{
      await Sandbox.create({options})
    }} catch (error) {{
      console.log(error.name, error.code, error.requestId, String(error.status))
    }}
"""


NODE_BLOCK = """
const dispose = Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')
try {{
  const sandbox = await Sandbox.create()
  try {{ {body} }} finally {{ await sandbox[dispose]() }}
}} catch (error) {{ {caught} }}
"""


class NodeOnHostileServer(Scripted, NodeClient):
    PROGRAMS = {
        "create": "console.log((await Sandbox.create()).id)",
        "fails": NODE_FAILS.format(options=""),
        "slow": NODE_FAILS.format(options="{ timeout: 3 }"),
        "stream": "for await (const e of (await Sandbox.create()).stream('')) console.log(e.text ?? e.result.text)",
        "bytes": "const hex = (bytes) => Buffer.from(bytes).toString('hex')\n"
                 "for await (const e of (await Sandbox.create()).stream(''))\n"
                 "  console.log(e.result ? `${hex(e.result.stdoutBytes)} ${hex(e.result.stderrBytes)}` : hex(e.data))",
        "kill": "await (await Sandbox.create()).kill()",
        "busy": "try { await Sandbox.create() } catch (error) { console.log(error.retryAfterS) }",
        "ends": NODE_BLOCK.format(body="", caught="") + "console.log('ended')",
        "fails_itself": NODE_BLOCK.format(body="throw new Error('own')", caught="console.log(error.message)"),
        "is_not_ended": NODE_BLOCK.format(body="", caught="console.log(error.name)"),
    }

    def ask(self, server, code):
        return self.ran("import { Sandbox } from 'membrane'\n" + code, url=server.url)


# -- The command ----------------------------------------------------------------------------------------------------

class Command(unittest.TestCase):
    def command(self, *words, code=0, stdin="", **where):
        done = run([str(Path(COMMAND).resolve()), *words], env=environment(**where), cwd=folder, input=stdin)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def wat(self, body):
        return f'(func (export "main") {body})'

    def test_the_commands_of_the_page_run(self):
        if not service.has_template("python"):
            self.skipTest("there is no template python")
        (folder / "data.csv").write_text("a,b\n")
        (folder / "src").mkdir()
        (folder / "src/one").write_text("1")
        paths = service.request("GET", "/openapi.json").json["paths"]
        (text,) = blocks("docs/clients.md", "sh")
        lines = [line for line in text.splitlines() if not (
            (found := re.match(r"membrane (fork|pause|resume)", line))
            and f"/v1/sandboxes/{{sandbox}}/{found[1]}" not in paths)]
        done = run(["bash", "-e", "-c", "\n".join(lines)], env=environment(), cwd=folder)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("40\n42\n", done.stdout)
        self.assertEqual((folder / "copy.csv").read_text(), "a,b\n")
        self.assertEqual((folder / "copy/one").read_text(), "1")

    def test_the_commands_of_the_readme_run(self):
        if not service.has_template("python"):
            self.skipTest("there is no template python")
        (text,) = [text for text in blocks("README.md", "sh") if "membrane create" in text]
        done = run(["bash", "-e", "-c", text], env=environment(), cwd=folder)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("7\n", done.stdout)

    def test_the_commands_of_the_page_of_receipts_run(self):
        if not service.has_template("python"):
            self.skipTest("there is no template python")
        (text,) = [text for text in blocks("docs/receipts.md", "sh") if "membrane create" in text]
        done = run(["bash", "-e", "-c", text.replace("http://127.0.0.1:7400", service.url)], env=environment(), cwd=folder)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("verified", done.stdout)
        self.assertIn("the same", done.stdout)

    def test_exec_ends_as_run_does(self):
        sandbox = self.command("create", "--template", "wat", "--label", "l").stdout.strip()
        self.assertEqual(self.command("exec", sandbox, "-e", self.wat("(nop)"), "--json").stdout[:1], "{")
        trapped = self.command("exec", sandbox, "-e", self.wat("unreachable"), code=1)
        self.assertIn("trapped: ", trapped.stderr)
        self.assertIn(sandbox, self.command("ps", "--label", "l").stdout)
        listed = json.loads(self.command("ps", "--json", "--label", "l").stdout)["sandboxes"]
        self.assertEqual([each["id"] for each in listed], [sandbox])
        (folder / "program.wat").write_text(self.wat("(nop)"))
        self.command("exec", sandbox, "program.wat")
        self.command("exec", sandbox, "-", stdin=self.wat("(nop)"))
        for options in [], ["-d"]:
            missing = self.command("exec", *options, sandbox, "gone.wat", code=2).stderr
            self.assertIn("there is no file with code called gone.wat here, and a sandbox of the template wat runs no commands", missing)
            self.assertIn("Check the path", missing)
        self.command("logs", sandbox)
        self.assertEqual(self.command("rm", sandbox).stdout, f"{sandbox}\n")
        self.assertIn("there is no sandbox", self.command("rm", sandbox, code=2).stderr)

    def test_the_time_of_an_exec_that_waits_has_not_begun(self):
        sandbox = self.command("create", "--template", "wat", "--wall", "1h", "--fuel", "1e18").stdout.strip()
        first = self.command("exec", "-d", sandbox, "-e", self.wat("(loop (br 0))")).stdout.strip()
        second = self.command("exec", "-d", sandbox, "--timeout", "1ms", "-e", self.wat("(loop (br 0))")).stdout.strip()
        states = {line.split()[0]: line.split()[1] for line in self.command("execs", sandbox).stdout.splitlines()[1:]}
        self.assertEqual(states[second], "queued", states)
        self.command("cancel", sandbox, first)
        self.assertEqual(self.command("wait", sandbox, second, code=1).stdout, "timed_out\n")

    def test_what_follows_the_file_is_the_programs(self):
        if not service.has_template("python"):
            self.skipTest("there is no template python")
        sandbox = self.command("create").stdout.strip()
        (folder / "program.py").write_text("import sys; print(sys.argv[1:])")
        for words, given in ((["program.py", "-x", "--depth", "3"], ["-x", "--depth", "3"]),
                             (["program.py", "--", "--json", "-e"], ["--json", "-e"]),
                             (["-e", "import sys; print(sys.argv[1:])", "-x"], ["-x"])):
            self.assertEqual(self.command("exec", sandbox, *words).stdout, f"{given}\n")

    def test_no_file_of_the_machine_is_offered(self):
        for command in "create", "update":
            reported = self.command(command, "--help").stdout
            self.assertIn("--allow", reported)
            for grant in "fs:", "sql:":
                self.assertNotIn(grant, reported)

    def test_an_existing_receipt_is_not_replaced(self):
        home = folder / "sealing"
        home.mkdir(exist_ok=True)
        sandbox = self.command("create", "--template", "wat", "--seal").stdout.strip()
        words = ["exec", sandbox, "-e", self.wat("(nop)"), "--seal", str(home / "a.receipt")]
        self.command(*words)
        before = (home / "a.receipt").read_bytes()
        self.assertIn("--force", self.command(*words, code=2).stderr)
        self.assertEqual((home / "a.receipt").read_bytes(), before)
        self.command(*words, "--force")
        self.assertNotEqual((home / "a.receipt").read_bytes(), before)

    def test_input_is_passed_on_as_it_comes(self):
        if not service.has_template("python"):
            self.skipTest("there is no template python")
        sandbox = self.command("create").stdout.strip()
        with subprocess.Popen([str(Path(COMMAND).resolve()), "exec", "-i", sandbox, "-e", "print('name?', flush=True)\nprint('hi', input())"],
                              env=environment(), cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            self.assertEqual(process.stdout.readline(), "name?\n")
            process.stdin.write("you\n")
            process.stdin.flush()
            self.assertEqual(process.stdout.readline(), "hi you\n")
            self.assertEqual(process.wait(SECONDS), 0)
        piped = self.command("exec", "-i", sandbox, "-e", "import sys; len(sys.stdin.read())", stdin="x" * 3_000_000)
        self.assertEqual(piped.stdout, "3000000\n")

    def test_a_policy_goes_along(self):
        sandbox = self.command("create", "--template", "wat", "--fuel", "1000").stdout.strip()
        endless = self.command("exec", sandbox, "-e", self.wat("(loop $l (br $l))"), code=1)
        self.assertIn("out_of_fuel", endless.stderr)
        self.assertIn(f"limits.fuel: membrane update {sandbox} --fuel 4000", endless.stderr)
        self.command("update", sandbox, "--fuel", "4000")

    def test_execs_have_names(self):
        sandbox = self.command("create", "--template", "wat", "--wall", "1h", "--fuel", "1e18").stdout.strip()
        prints = self.wat('(call $io.print (string "said"))')
        first = self.command("exec", "-d", sandbox, "-e", prints).stdout.strip()
        self.assertEqual(self.command("wait", sandbox, first).stdout, "ok\n")
        second = self.command("exec", "--detach", sandbox, "-e", self.wat("unreachable")).stdout.strip()
        self.assertEqual(self.command("wait", sandbox, second, code=1).stdout, "trapped\n")
        self.assertEqual(self.command("logs", sandbox, "--exec", first).stdout, "said")
        failed = self.command("logs", "-f", sandbox, "--exec", second)
        self.assertEqual((failed.stdout, "trapped" in failed.stderr), ("", True))
        self.assertEqual(json.loads(self.command("wait", sandbox, first, "--json").stdout)["exec_id"], first)
        endless = self.command("exec", "-d", sandbox, "-e", self.wat("(loop $l (br $l))")).stdout.strip()
        self.assertIn("still runs", self.command("logs", sandbox, "--exec", endless).stderr)
        self.assertEqual(self.command("cancel", sandbox, endless).stdout, endless + "\n")
        self.assertEqual(self.command("wait", sandbox, endless, code=1).stdout, "cancelled\n")
        self.assertIn(f"the exec {endless} is over: cancelled", self.command("cancel", sandbox, endless, code=2).stderr)
        head, *rows = [row.split() for row in self.command("execs", sandbox).stdout.splitlines()]
        self.assertEqual(head, ["EXEC", "STATE", "OUTCOME", "CREATED"])
        self.assertEqual([row[:3] for row in rows],
                         [[first, "done", "ok"], [second, "done", "trapped"], [endless, "done", "cancelled"]])
        for words in (["wait"], ["cancel"]):
            self.assertIn("has no exec exe0", self.command(*words, sandbox, "exe0", code=2).stderr)
        self.assertIn("has no exec exe0", self.command("logs", sandbox, "--exec", "exe0", code=2).stderr)

    def test_durations_have_units(self):
        sandbox = self.command("create", "--template", "wat", "--ttl", "1h30m").stdout.strip()
        self.command("update", sandbox, "--ttl", "1d", "--idle-timeout", "90s")
        self.command("exec", sandbox, "--timeout", "10m", "-e", self.wat("nop"))
        for wrong in "5", "5 weeks":
            refused = self.command("update", sandbox, "--ttl", wrong, code=2).stderr
            self.assertIn("hint: Write it with its unit, as 500ms, 30s, 10m, 1h, 2d", refused)

    def test_a_template_and_a_snapshot_exclude_each_other(self):
        refused = self.command("create", "--template", "wat", "--snapshot", "snp1", code=2).stderr
        self.assertIn("--template and --snapshot exclude each other", refused)

    def test_a_misspelt_template_is_refused_with_the_nearest(self):
        sandbox = self.command("create", "--template", "wat").stdout.strip()
        snapshot = self.command("snapshot", sandbox).stdout.strip()
        self.command("snapshots", "promote", snapshot, "analysis")
        self.assertIn("analysis", self.command("templates").stdout)
        refused = self.command("create", "--template", "anaylsis", code=2).stderr
        self.assertIn("there is no template anaylsis", refused)
        self.assertIn("Did you mean analysis? membrane templates lists them.", refused)
        self.command("templates", "rm", "analysis")
        self.command("snapshots", "rm", snapshot)

    def test_hints_are_in_words_of_the_command(self):
        sandbox = self.command("create", "--template", "wat", "--fuel", "1e6").stdout.strip()
        for words, hint in ((["exec", sandbox, "-e", self.wat('(drop (call $kv.get! (string "k")))')],
                             f"It would be allowed by --allow kv: membrane update {sandbox} takes it"),
                            (["exec", sandbox, "--context", "ctx0", "-e", ""], f"membrane contexts {sandbox} lists them."),
                            (["create", "--snapshot", "snp0"], "membrane snapshots lists them."),
                            (["cp", f"{sandbox}:/tmp/none", "-"], ""),
                            (["update", sandbox, "--ttl", "90d"], "--ttl must be at most 30d"),
                            (["exec", sandbox, "-e", self.wat("(loop (br 0))")],
                             f"raise limits.fuel: membrane update {sandbox} --fuel 4000000."),
                            (["approve", sandbox, "apr0"], f"membrane approvals {sandbox} lists what waits")):
            with self.subTest(words=words):
                done = run([str(Path(COMMAND).resolve()), *words], env=environment(), cwd=folder)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(hint, done.stderr)
                self.assertNotRegex(done.stderr, "GET |POST |PUT |PATCH |\"[a-z_]+\"")

    def test_approvals_say_how_much_would_leave(self):
        if not service.has_template("python"):
            self.skipTest("there is no template python")
        with asking() as (url, policy):
            (folder / "asking.json").write_text(json.dumps(policy))
            sandbox = self.command("create", "--policy", "asking.json").stdout.strip()
            (folder / "given").write_text("given")
            code = f"from membrane import http; print(input()); http.request('POST', {url!r}, '', '12345')"
            words = [str(Path(COMMAND).resolve()), "exec", sandbox, "--input", "given", "-e", code]
            with subprocess.Popen(words, env=environment(), cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
                line = process.stderr.readline()
                reported = f"http.request POST {url}, {len(url) + 5} bytes\n"
                self.assertRegex(line, f"^approval apr_\\S+ waiting: {re.escape(reported)}$")
                approval = line.split()[1]
                self.assertIn(f"membrane approve {sandbox} {approval} approves it", process.stderr.readline())
                shown = self.command("approvals", sandbox).stdout
                self.assertEqual(shown.splitlines()[0] + "\n", f"{approval}  {reported}")
                self.assertIn("  private: input\n", shown)
                self.command("approve", sandbox, approval)
                self.assertEqual(process.stdout.read(), "given\nb'taken'\n")
                self.assertEqual(process.wait(SECONDS), 0)

    def test_the_limit_of_forks_is_the_services(self):
        most = service.request("GET", "/openapi.json").json["components"]["schemas"]["ForkSpec"]["properties"]["count"]["maximum"]
        self.assertIn(str(most), self.command("fork", "--help").stdout)
        reported = self.command("fork", "sbx1", "-n", str(most + 1), code=2).stderr
        self.assertIn(f"-n {most + 1} ", reported)
        self.assertIn(str(most), reported.replace(str(most + 1), ""))
        self.assertNotIn("--count", reported)

    def test_code_has_the_name_of_its_file(self):
        if not service.has_template("python"):
            self.skipTest("there is no template python")
        sandbox = self.command("create").stdout.strip()
        (folder / "named.py").write_text("import sys\nprint(sys.argv)\n1 / 0\n")
        done = self.command("exec", sandbox, "named.py", "a", code=1)
        self.assertEqual(done.stdout, "['named.py', 'a']\n")
        self.assertIn('File "named.py", line 3', done.stderr)
        self.assertEqual(self.command("exec", sandbox, "-e", "sys.argv", "b").stdout, "['-c', 'b']\n")

    def test_variables_of_one_exec(self):
        if not service.has_template("python"):
            self.skipTest("there is no template python")
        sandbox = self.command("create", "--env", "A=1").stdout.strip()
        reported = "import os; print(os.environ.get('A'), os.environ.get('B'))"
        self.assertEqual(self.command("exec", sandbox, "--env", "B=a=b", "--env", "A=2", "-e", reported).stdout, "2 a=b\n")
        self.assertEqual(self.command("exec", sandbox, "-e", reported).stdout, "1 None\n")
        self.assertIn("NAME=VALUE", self.command("exec", sandbox, "--env", "B", "-e", "", code=2).stderr)

    def test_contexts(self):
        if not service.has_template("python"):
            self.skipTest("there is no template python")
        sandbox = self.command("create").stdout.strip()
        contexts = [self.command("context", sandbox).stdout.strip() for _ in range(2)]
        self.command("exec", sandbox, "--context", contexts[0], "-e", "x = 1; open('/tmp/a', 'w').write('one')")
        self.command("exec", sandbox, "--context", contexts[1], "-e", "x", code=1)
        self.assertEqual(self.command("exec", sandbox, "--context", contexts[0], "-e", "x").stdout, "1\n")
        self.assertEqual(self.command("cp", f"{sandbox}:/tmp/a", "-", "--context", contexts[0]).stdout, "one")
        self.command("cp", f"{sandbox}:/tmp/a", "-", code=2)
        rows = self.command("contexts", sandbox).stdout.splitlines()
        self.assertEqual(rows[0].split(), ["ID", "TEMPLATE", "CREATED"])
        self.assertEqual([row.split()[:2] for row in rows[1:]], [[each, "python"] for each in contexts])
        self.assertEqual(self.command("contexts", "rm", sandbox, *contexts).stdout.split(), contexts)
        self.assertEqual(json.loads(self.command("contexts", sandbox, "--json").stdout), {"contexts": []})
        self.assertIn(contexts[0], self.command("contexts", "rm", sandbox, contexts[0], code=2).stderr)
        self.assertIn("membrane contexts ID", self.command("contexts", code=2).stderr)

    def test_snapshots(self):
        sandbox = self.command("create", "--template", "wat").stdout.strip()
        snapshot = self.command("snapshot", sandbox).stdout.strip()
        self.assertEqual(self.command("snapshots", "promote", snapshot, "of-the-test").stdout, "of-the-test\n")
        head, *rows = [row.split() for row in self.command("snapshots").stdout.splitlines()]
        self.assertEqual(head, ["ID", "SANDBOX", "TEMPLATE", "NAME", "CREATED", "BYTES"])
        (row,) = [row for row in rows if row[0] == snapshot]
        self.assertEqual(row[1:4], [sandbox, "wat", "of-the-test"])
        listed = json.loads(self.command("snapshots", "--json").stdout)["snapshots"]
        self.assertIn((snapshot, int(row[5])), [(each["id"], each["size_bytes"]) for each in listed])
        self.command("create", "--template", "of-the-test")
        self.assertIn("letters", self.command("snapshots", "promote", snapshot, "UP", code=2).stderr)
        refused = self.command("snapshots", "rm", snapshot, code=2).stderr
        self.assertIn("the template of-the-test is made of the snapshot", refused)
        self.assertIn("membrane templates rm of-the-test", refused)
        self.assertEqual(self.command("templates", "rm", "of-the-test").stdout, "of-the-test\n")
        gone = self.command("snapshots", "rm", "snp-none", snapshot, code=2)
        self.assertEqual(gone.stdout, f"{snapshot}\n")
        self.assertNotIn(snapshot, self.command("snapshots").stdout)

    def test_tokens(self):
        made = self.command("tokens", "create", "of-the-test", "--scope", "sandboxes:read", "--scope", "exec", "--ttl", "1h",
                            "--tenant", "of-tokens", "--quota", "fuel_a_day=1e12", "--quota", "memory_bytes=1 MiB")
        token = made.stdout.strip()
        self.assertTrue(token.startswith("mbr_"), token)
        listed = json.loads(self.command("tokens", "--json").stdout)["tokens"]
        (info,) = [each for each in listed if each["name"] == "of-the-test"]
        self.assertEqual((info["tenant"], sorted(info["scopes"])), ("of-tokens", ["exec", "sandboxes:read"]))
        self.assertEqual(info["quotas"], {"fuel_a_day": 10**12, "memory_bytes": 1 << 20})
        self.assertIsNotNone(info["expires_at"])
        table = self.command("tokens").stdout
        self.assertIn("of-the-test", table)
        self.assertNotIn(token, table)
        self.command("ps", "--token", token)
        refused = self.command("create", "--template", "wat", "--token", token, code=2).stderr
        self.assertIn("scope sandboxes:write", refused)
        self.assertIn("membrane tokens create", refused)
        self.assertIn("scope admin", self.command("tokens", "--token", token, code=2).stderr)
        self.assertEqual(self.command("tokens", "rm", info["id"]).stdout, info["id"] + "\n")
        self.command("ps", "--token", token, code=2)
        self.assertIn("--quota", self.command("tokens", "create", "n", "--scope", "exec", "--quota", "x", code=2).stderr)
        self.command("tokens", "create", "n", "--scope", "everything", code=2)
        self.assertIn("--scope", self.command("tokens", "create", "n", code=2).stderr)
        with_all = json.loads(self.command("tokens", "create", "n", "--scope", "exec", "--json").stdout)
        self.command("tokens", "rm", with_all["info"]["id"])

    def test_a_sandbox_is_changed(self):
        sandbox = self.command("create", "--template", "wat", "--allow", "kv", "--label", "before", "--fuel", "1e7").stdout.strip()
        before = json.loads(self.command("info", sandbox).stdout)
        ends = self.command("update", sandbox, "--ttl", "3h", "--label", "after", "--metadata", "a=b").stdout
        self.assertGreater(ends, before["expires_at"])
        self.assertIn(sandbox, self.command("ps", "--metadata", "a=b", "--label", "after").stdout)
        self.assertNotIn(sandbox, self.command("ps", "--metadata", "a=c").stdout)
        now = json.loads(self.command("info", sandbox).stdout)
        self.assertEqual((now["labels"], now["metadata"], now["expires_at"] + "\n"), (["after"], {"a": "b"}, ends))
        policy = self.command("info", sandbox, "--policy").stdout
        (folder / "same.json").write_text(policy)
        self.assertEqual(self.command("update", sandbox, "--policy", "same.json").stdout, ends)
        self.assertEqual(self.command("info", sandbox, "--policy").stdout, policy)
        self.assertEqual(json.loads(self.command("update", sandbox, "--fuel", "1000", "--json").stdout)["id"], sandbox)
        less = json.loads(self.command("info", sandbox, "--policy").stdout)
        self.assertEqual(less, {**json.loads(policy), "limits": {**json.loads(policy)["limits"], "fuel": less["limits"]["fuel"]}})
        self.assertIn("out_of_fuel", self.command("exec", sandbox, "-e", self.wat("(loop $l (br $l))"), code=1).stderr)
        (folder / "nothing.toml").write_text("[limits]\nwall = \"1 s\"\n")
        self.command("update", sandbox, "--policy", "nothing.toml")
        narrow = json.loads(self.command("info", sandbox, "--policy").stdout)
        self.assertNotIn("kv", narrow)
        self.assertEqual(narrow["limits"]["fuel"], less["limits"]["fuel"])  # which the file does not name
        self.assertIn("nothing to change", self.command("update", sandbox, code=2).stderr)
        self.assertIn("membrane cp", self.command("update", sandbox, "--allow", "fs:read:.", code=2).stderr)

    def test_a_token_that_may_not_widen_narrows(self):
        token = service.request("POST", "/v1/tokens", {"name": "n", "scopes": ["sandboxes:read", "sandboxes:write", "exec"]})
        token = token.json["token"]
        sandbox = self.command("create", "--template", "wat", "--fuel", "1e6", token=token).stdout.strip()
        self.command("update", sandbox, "--fuel", "1e5", token=token)
        self.assertIn("grants more", self.command("update", sandbox, "--fuel", "1e6", token=token, code=2).stderr)
        self.assertIn("grants more", self.command("update", sandbox, "--allow", "kv", token=token, code=2).stderr)

    # -- directories

    def tree(self, name):
        top = folder / name
        (top / "a/deep er").mkdir(parents=True)
        (top / "empty").mkdir()
        (top / "one.txt").write_text("one")
        (top / "a/deep er/é").write_bytes(b"\x00\xff")
        return top

    def files_of(self, top):
        return {str(path.relative_to(top)): None if path.is_dir() else path.read_bytes() for path in top.rglob("*")}

    def test_a_directory_goes_there_and_back(self):
        if not service.has_template("python"):
            self.skipTest("there is no template python")
        sandbox, top = self.command("create").stdout.strip(), self.tree("tree")
        (folder / "secret").write_text("no")
        (top / "link").symlink_to(folder / "secret")
        os.mkfifo(top / "fifo")
        refused = self.command("cp", "tree", f"{sandbox}:/tmp/", code=2).stderr
        self.assertIn("tree is a directory", refused)
        self.assertIn("cp -r", refused)
        said = self.command("cp", "-r", "tree", f"{sandbox}:/tmp/copied").stderr
        self.assertEqual(sorted(line.split()[1] for line in said.splitlines()), ["tree/fifo", "tree/link"])
        self.command("cp", "-r", "tree", f"{sandbox}:/tmp/")  # keeps its name
        refused = self.command("cp", f"{sandbox}:/tmp/tree", "back", code=2).stderr
        self.assertIn("cp -r", refused)
        (top / "link").unlink()
        (top / "fifo").unlink()
        self.command("cp", "-r", f"{sandbox}:/tmp/copied", "back")
        self.assertEqual(self.files_of(folder / "back"), self.files_of(top))
        self.command("cp", "-r", f"{sandbox}:/tmp/../tmp/tree/", "back")  # a directory keeps the name of what comes
        self.assertEqual(self.files_of(folder / "back/tree"), self.files_of(top))
        self.command("cp", "-r", f"{sandbox}:/tmp/tree/one.txt", "one.txt")
        self.assertEqual((folder / "one.txt").read_text(), "one")
        self.command("cp", "-r", f"{sandbox}:/tmp/nothing", "back", code=2)

    def copied(self, target, *paths, code=2):
        files = [{"path": path, "type": kind, "size_bytes": 1} for path, kind in paths]
        script = [("say", 200, {"path": "/d", "type": "directory"}), ("say", 200, {"files": files})]
        with Hostile(*script, *[("say", 200, "x")] * len(paths)) as server:
            return self.command("cp", "-r", "sbx1:/d", target, url=server.url, code=code).stderr

    def test_no_name_leads_out_of_the_directory(self):
        for path in ("/d/../out", "/d/a/../../out", "/out", "/dd/out", "/d/", "/d", "/d//out", "/d/./out", "out", "/d/a\0b",
                     "../out", ""):
            with self.subTest(path=path):
                said = self.copied("into", ("/d/fine", "file"), (path, "file"))
                self.assertIn("is not below /d", said)
                self.assertFalse((folder / "into").exists())

    def test_links_of_the_target_are_not_followed(self):
        outside, into = folder / "outside", folder / "linked"
        outside.mkdir()
        (outside / "file").write_text("kept")
        (into / "d").mkdir(parents=True)
        (into / "d/out").symlink_to(outside)
        (into / "d/file").symlink_to(outside / "file")
        os.link(outside / "file", into / "d/hard")
        for path, kind in (("/d/out/new", "file"), ("/d/out/new", "directory"), ("/d/file", "file"), ("/d/hard", "file"),
                           ("/d/out", "directory")):
            with self.subTest(path=path, kind=kind):
                self.assertIn("cannot be written", self.copied("linked", (path, kind)))
        (into / "d").rename(into / "moved")
        (into / "d").symlink_to(outside)
        self.assertIn("cannot be written", self.copied("linked", ("/d/new", "file")))
        self.assertEqual(self.files_of(outside), {"file": b"kept"})
        self.assertIn("is skipped", self.copied("kinds", ("/d/l", "symlink"), ("/d/f", "file"), code=0))
        self.assertEqual(self.files_of(folder / "kinds"), {"f": b'"x"'})

    def test_answers_of_another_form_do_no_harm(self):
        for words, code in ((("snapshots",), 0), (("contexts", "sbx1"), 0), (("ps",), 0), (("fork", "sbx1"), 0), (("info", "sbx1"), 0),
                            (("update", "sbx1", "--ttl", "1h"), 0), (("update", "sbx1", "--fuel", "1"), 2),
                            (("cp", "-r", "sbx1:/d", "odd"), 0)):
            for answer in ([], 7, {"snapshots": [1, {}, {"size_bytes": "x", "id": 7}], "contexts": 7, "sandboxes": [[]]}):
                with self.subTest(words=words, answer=answer), Hostile(("say", 200, answer), ("say", 200, answer)) as server:
                    self.command(*words, url=server.url, code=code)

    def test_a_directory_has_bounds(self):
        many = [(f"/d/{i}", "directory") for i in range(10_001)]
        self.assertIn("more than 10000", self.copied("many", *many))
        self.assertFalse((folder / "many").exists())

    def test_a_missing_service_is_reported(self):
        done = self.command("ps", url="http://127.0.0.1:1", code=2)
        self.assertIn("no service answers at http://127.0.0.1:1", done.stderr)
        self.assertIn("hint: Start one: membrane serve", done.stderr)

    def test_wrong_words_are_reported(self):
        self.assertIn("MEMBRANE_TOKEN", self.command("ps", token="mbr_wrong", code=2).stderr)
        self.assertIn("NAME=VALUE", self.command("create", "--metadata", "x", code=2).stderr)
        self.assertIn("-e CODE", self.command("exec", "x", code=2).stderr)
        self.assertIn("ID:/tmp", self.command("cp", "a", "b", code=2).stderr)
        self.assertIn("is not the URL", self.command("ps", "--url", "x:y", code=2).stderr)

    def test_refusals_and_cuts_are_tried_again(self):
        with Hostile(("reset",), ("refuse", 503, "overloaded", True), ("say", 201, SANDBOX)) as server:
            self.assertEqual(self.command("create", url=server.url).stdout, "sbx1\n")
            self.assertEqual(len({headers["Idempotency-Key"] for _, _, headers, _ in server.asked}), 1)

    def test_a_cut_stream_is_read_on(self):
        with Hostile(*CUT_AND_READ_ON[1:]) as server:
            self.assertEqual(self.command("exec", "sbx1", "-e", "x", url=server.url).stdout, "ab\n42\n")

    def test_the_token_of_this_machine_is_read_and_goes_to_no_other(self):
        home = folder / "own/membrane/service"
        home.mkdir(parents=True)
        (home / "owner.token").write_text(service.token + "\n")
        where = {**environment(), "XDG_STATE_HOME": str(folder / "own")}
        del where["MEMBRANE_TOKEN"]
        done = run([str(Path(COMMAND).resolve()), "ps"], env=where)
        self.assertEqual(done.returncode, 0, done.stderr)
        with Hostile(("say", 200, {"sandboxes": [], "next_cursor": None})) as server:
            elsewhere = server.url.replace("127.0.0.1", "elsewhere.example")  # by a proxy, which is the server
            proxied = {**where, "http_proxy": server.url, "MEMBRANE_URL": elsewhere, "no_proxy": ""}
            done = run([str(Path(COMMAND).resolve()), "ps"], env=proxied)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotIn("Authorization", server.asked[0][2])


if __name__ == "__main__":
    unittest.main()
