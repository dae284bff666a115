"""What the tests of the clients share: a service, a target for programs, and a server that misbehaves in every way, with
what each client must do then.

What cannot be downloaded (pip, npm, Python as a template) is skipped, and the skip says why.
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


def begin():
    """A folder and a service for one module of tests, which end with it. Call it in setUpModule()."""
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
    return folder, service


def run(words, **options):
    return subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False, **options)


def environment(url=None, token=None):
    return {**os.environ, "MEMBRANE_URL": url or service.url, "MEMBRANE_TOKEN": token or service.token,
            "XDG_STATE_HOME": str(folder / "none"), "PATH": f"{Path(COMMAND).resolve().parent}:{os.environ['PATH']}"}


def blocks(path, kind):
    return [text for found, text in FENCE.findall((ROOT / path).read_text()) if found == kind]


def install_or_skip(test, what, words, **options):
    done = run(words, **options)
    if done.returncode != 0:
        test.skipTest(f"{what} could not be installed: {done.stderr[-500:]}")


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
        self.send_header("Connection", "close")  # else a client may ask on it once more, while it is being closed
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
