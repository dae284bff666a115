"""A service of its own for a test: started on a free port, queried over HTTP, stopped at the end.

MEMBRANE_COMMAND names the command, as in cli/command_testing.py.
"""

import http.client
import json
import os
import signal
import subprocess
import tempfile
import unittest
from urllib.parse import urlsplit

COMMAND = os.environ.get("MEMBRANE_COMMAND", "build/release/membrane")
SANITIZED = os.environ.get("MEMBRANE_SANITIZED") == "1"  # such a build makes system calls of its own
SECONDS = 600  # what takes so long hangs
LOG_LINE_BYTES = 1 << 16


class Answer:
    def __init__(self, response, body):
        self.status, self.headers, self.body = response.status, response.headers, body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        return self.json["error"]


class NotStarted(Exception):
    """The service ended before it listened. `text` is its message."""

    def __init__(self, code, text):
        super().__init__(f"exit code {code}: {text}")
        self.code, self.text = code, text


def name_of(pid):
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read().strip()
    except FileNotFoundError:
        return ""


def children(pid):
    """Except the process that creates kernel processes of Linux sandboxes."""
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children") as file:
            found += [int(child) for child in file.read().split()]
    return [child for child in found if name_of(child) != "membrane-linux"]


class Service:
    """A running service. `token` is its owner's. Its state is in `state`, or else in a directory of its
    own. `under` is a command that runs it and becomes it."""

    def __init__(self, *flags, environment=None, state=None, under=()):
        self.log = tempfile.TemporaryFile(mode="w+")
        self.own_state = None if state else tempfile.TemporaryDirectory()
        self.state = state or self.own_state.name
        if SANITIZED:
            flags = ("--accept-missing-wall", "system_calls", *flags)
        self.process = subprocess.Popen([*under, COMMAND, "serve", "--port", "0", "--state", self.state, *flags], stdout=subprocess.PIPE,
                                        stderr=self.log, text=True, env={**os.environ, **(environment or {})})
        said = dict((self.process.stdout.readline() or "none said").split() for _ in range(2))
        if "url" not in said:
            self.process.stdout.close()
            why = NotStarted(self.process.wait(SECONDS), self.log_text())
            self.log.close()
            if self.own_state:
                self.own_state.cleanup()
            raise why
        self.url, self.token = said["url"], said["token"]
        self.host, self.port = urlsplit(self.url).hostname, urlsplit(self.url).port

    def request(self, method, path, body=None, headers=None, token=True):
        """One request on a connection of its own; a dict or list is sent as JSON."""
        headers = dict(headers or {})
        if token:
            headers.setdefault("Authorization", f"Bearer {self.token if token is True else token}")
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        connection = http.client.HTTPConnection(self.host, self.port, timeout=SECONDS)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return Answer(response, response.read())
        finally:
            connection.close()

    def create(self, template, **spec):
        answer = self.request("POST", "/v1/sandboxes", {"template": template, **spec})
        assert answer.status == 201, answer.body
        return answer.json["id"]

    def exec(self, sandbox, code, **spec):
        answer = self.request("POST", f"/v1/sandboxes/{sandbox}/exec", {"code": code, **spec})
        assert answer.status == 200, answer.body
        return answer.json

    def events(self, method, path, body=None):
        """The server-sent events of an answer, each as (event, data)."""
        answer = self.request(method, path, body, {"Accept": "text/event-stream"})
        assert answer.status == 200, answer.body
        assert answer.headers["Content-Type"] == "text/event-stream", answer.headers
        events = []
        for block in answer.body.decode().split("\n\n"):
            fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
            if fields:
                events.append((fields["event"], json.loads(fields["data"])))
        return events

    def wait_for_event(self, name):
        """Waits until the log has it; returns the entry."""
        while True:
            for line in self.log_text().splitlines():
                if f'"event":"{name}"' in line:
                    return json.loads(line)
            if self.process.poll() is not None:
                raise AssertionError(f"the service has ended without the event {name}: {self.log_text()}")

    def has_template(self, name):
        templates = self.request("GET", "/v1/templates").json["templates"]
        return any(each["name"] == name for each in templates)

    def stop(self):
        """Ends it as an operator does; returns its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.stdout.close()
        code = self.process.wait(SECONDS)
        if self.own_state:
            self.own_state.cleanup()
        return code

    def kill(self):
        """Ends it as a crash does."""
        self.process.kill()
        self.process.stdout.close()
        self.process.wait(SECONDS)

    def log_text(self):
        self.log.seek(0)
        return self.log.read()


class ServiceTest(unittest.TestCase):
    """Cases that share one service."""

    FLAGS = ()

    @classmethod
    def setUpClass(cls):
        cls.service = Service(*cls.FLAGS)

    @classmethod
    def tearDownClass(cls):
        cls.service.stop()
        cls.service.log.close()

    def refused(self, answer, status, code):
        """Checks that the answer is an error in the service's form; returns the error."""
        self.assertEqual(answer.status, status, answer.body)
        error = answer.error
        self.assertEqual(set(error), {"code", "message", "hint", "request_id", "retryable"})
        self.assertEqual(error["code"], code)
        self.assertEqual(error["request_id"], answer.headers["X-Request-Id"])
        self.assertEqual(error["retryable"], "Retry-After" in answer.headers)
        return error
