"""The service's answers when it cannot serve a request now: 503 and 429, with an honest Retry-After."""

import contextlib
import http.client
import json
import os
import resource
import signal
import socket
import tempfile
import unittest

from service_testing import SECONDS, Answer, Service, ServiceTest, children

ADD = '(module (func (export "run") (result i32) (i32.add (i32.const 2) (i32.const 40))))'
LOOP = '(module (func (export "run") (loop $again (br $again))))'
LONG = {"policy": {"limits": {"fuel": 10**15, "wall": "1h"}}}
MOST_CONNECTIONS = 1000  # docs/service.md
MOST_WAITING = 64
MOST_QUEUED = 1000
MOST_QUEUED_OF_TENANT = 750


class Begun:
    """A request whose head the service has accepted: it waits for the body."""

    def __init__(self, service, method, path, body):
        self.body = json.dumps(body).encode()
        self.socket = socket.create_connection((service.host, service.port), SECONDS)
        self.socket.sendall(f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {service.token}\r\n"
                            f"Content-Type: application/json\r\nContent-Length: {len(self.body)}\r\n"
                            "Expect: 100-continue\r\n\r\n".encode())
        said = b""
        while not said.endswith(b"\r\n\r\n"):
            said += self.socket.recv(1)
        assert b" 100 " in said, said

    def end(self):
        self.socket.sendall(self.body)
        response = http.client.HTTPResponse(self.socket)
        response.begin()
        with contextlib.closing(self.socket):
            return Answer(response, response.read())


def background(service, sandbox, code):
    return service.request("POST", f"/v1/sandboxes/{sandbox}/exec", {"code": code, "background": True})


def until_it_runs(service, sandbox, exec_id):
    path = f"/v1/sandboxes/{sandbox}/execs/{exec_id}"
    while service.request("GET", path).json["state"] == "queued":
        pass


class Draining(ServiceTest):
    FLAGS = ("--drain", "600", "--park-after", "0")

    def test_what_is_new_is_refused_and_what_runs_ends(self):
        service = self.service
        sandbox = service.create("wat", **LONG)
        running = background(service, sandbox, LOOP).json["exec_id"]
        until_it_runs(service, sandbox, running)
        events = http.client.HTTPConnection(service.host, service.port, timeout=SECONDS)
        self.addCleanup(events.close)
        events.request("GET", f"/v1/sandboxes/{sandbox}/execs/{running}/events", headers={"Authorization": f"Bearer {service.token}"})
        stream = events.getresponse()
        begun = [Begun(service, "POST", "/v1/sandboxes", {"template": "wat"}),
                 Begun(service, "POST", f"/v1/sandboxes/{sandbox}/exec", {"code": ADD})]
        narrowing = Begun(service, "PATCH", f"/v1/sandboxes/{sandbox}/policy", {})
        service.process.send_signal(signal.SIGTERM)
        service.wait_for_event("draining")
        with self.assertRaises(ConnectionRefusedError):
            service.request("GET", "/health")
        for each in begun:
            answer = each.end()
            self.refused(answer, 503, "shutting_down")
            self.assertGreater(int(answer.headers["Retry-After"]), 0)
            self.assertEqual(answer.headers["Connection"], "close")
        self.assertEqual(narrowing.end().status, 200)  # it stops what runs
        self.assertIn(b'"outcome":"cancelled"', stream.read())
        self.assertEqual(service.stop(), 0)


class Stops(unittest.TestCase):
    """Services that are stopped while execs run, with and without a client that waits for them."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.state = directory.name

    def start(self, *flags):
        service = Service("--park-after", "0", *flags, state=self.state)
        self.addCleanup(service.log.close)
        self.addCleanup(service.stop)
        return service

    def test_execs_in_the_background_end_first_also_those_that_wait(self):
        service = self.start("--drain", "600")
        if not service.has_template("python"):
            self.skipTest("Python is not installed")
        sandbox = service.create("python")
        path = f"/v1/sandboxes/{sandbox}/exec"
        code = "import sys\ntext = sys.stdin.read()"
        running = service.request("POST", path, {"code": code, "open_stdin": True, "background": True}).json["exec_id"]
        until_it_runs(service, sandbox, running)
        background(service, sandbox, "open('/tmp/f', 'w').write(text)")
        background(service, sandbox, "n = sum(range(300_000))")
        stdin = Begun(service, "POST", f"{path}s/{running}/stdin?eof=true", "go on")
        service.process.send_signal(signal.SIGTERM)
        service.wait_for_event("draining")
        self.assertEqual(stdin.end().status, 204)
        self.assertEqual(service.process.wait(SECONDS), 0)
        service = self.start()
        self.assertEqual(service.exec(sandbox, "open('/tmp/f').read(), n")["result"], "('\"go on\"', 44999850000)")
        error = service.request("GET", f"{path}s/{running}").error
        self.assertIn("since the service was started", error["message"])
        self.assertIn("those from before its start are gone", error["hint"])
        self.assertNotIn("from before its start", service.request("GET", f"{path}s/other").error["hint"])

    def test_who_waits_for_an_exec_that_is_cut_hears_so(self):
        service = self.start("--drain", "0")
        sandbox = service.create("wat", **LONG)
        waiting = http.client.HTTPConnection(service.host, service.port, timeout=SECONDS)
        self.addCleanup(waiting.close)
        headers = {"Authorization": f"Bearer {service.token}", "Content-Type": "application/json"}
        waiting.request("POST", f"/v1/sandboxes/{sandbox}/exec", json.dumps({"code": LOOP}), headers)
        while "running" not in (states := [each["state"] for each in service.request(
                "GET", f"/v1/sandboxes/{sandbox}/execs").json["execs"]]):
            self.assertLess(len(states), 2)
        queued = background(service, sandbox, ADD).json["exec_id"]
        streams = http.client.HTTPConnection(service.host, service.port, timeout=SECONDS)
        self.addCleanup(streams.close)
        streams.request("GET", f"/v1/sandboxes/{sandbox}/execs/{queued}/events", headers=headers)
        events = streams.getresponse()
        service.process.send_signal(signal.SIGTERM)
        report = json.loads(waiting.getresponse().read())
        self.assertEqual(report["outcome"], "cancelled")
        self.assertIn("the service was stopped", report["error"]["message"])
        self.assertIn("the service was stopped", events.read().decode())
        self.assertEqual(service.process.wait(SECONDS), 0)


class Connections(ServiceTest):
    @classmethod
    def setUpClass(cls):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        cls.addClassCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        if hard < 4 * MOST_CONNECTIONS:
            raise unittest.SkipTest(f"a process may have {hard} descriptors here")
        resource.setrlimit(resource.RLIMIT_NOFILE, (4 * MOST_CONNECTIONS, hard))
        super().setUpClass()

    def test_too_many(self):
        def open_one():
            return socket.create_connection((self.service.host, self.service.port), SECONDS)
        with contextlib.ExitStack() as closing:
            for _ in range(MOST_CONNECTIONS - 1):
                closing.enter_context(open_one())
            last = open_one()
            for _ in range(3):
                answer = self.service.request("GET", "/v1/sandboxes")
                self.refused(answer, 503, "overloaded")
                self.assertEqual(answer.headers["Connection"], "close")
            last.close()
            while self.service.request("GET", "/v1/sandboxes").status != 200:
                pass


class Queues(ServiceTest):
    FLAGS = ("--threads", "1", "--sandboxes", "2000", "--park-after", "0")  # parking takes a place in the queue

    def test_sandbox_has_as_much_to_do_as_it_takes(self):
        sandbox = self.service.create("wat", **LONG)
        first = background(self.service, sandbox, LOOP).json["exec_id"]
        until_it_runs(self.service, sandbox, first)
        for _ in range(MOST_WAITING):
            self.assertEqual(background(self.service, sandbox, ADD).status, 202)
        answer = background(self.service, sandbox, ADD)
        self.refused(answer, 429, "too_many_requests")
        self.assertGreater(int(answer.headers["Retry-After"]), 0)
        self.assertEqual(self.service.request("DELETE", f"/v1/sandboxes/{sandbox}/execs/{first}").status, 204)
        while background(self.service, sandbox, ADD).status != 202:
            pass  # as was asked for: later it is taken
        self.assertEqual(self.service.request("DELETE", f"/v1/sandboxes/{sandbox}").status, 204)

    def test_service_has_as_much_to_do_as_it_takes(self):
        """The only thread is busy; the queue is bounded."""
        ask = self.service.request
        other = ask("POST", "/v1/tokens", {"name": "n", "scopes": ["admin"]}).json["token"]
        tokens = [True] * (MOST_QUEUED_OF_TENANT + 1) + [other] * (MOST_QUEUED + 1 - MOST_QUEUED_OF_TENANT)
        sandboxes = [(ask("POST", "/v1/sandboxes", {"template": "wat"}, token=token).json["id"], token) for token in tokens]
        looping = self.service.create("wat", **LONG)
        until_it_runs(self.service, looping, background(self.service, looping, LOOP).json["exec_id"])
        answers = [ask("POST", f"/v1/sandboxes/{sandbox}/exec", {"code": ADD, "background": True}, token=token)
                   for sandbox, token in sandboxes]
        one_too_many = answers.pop(MOST_QUEUED_OF_TENANT)  # there is room for others still
        self.assertEqual({each.status for each in answers[:MOST_QUEUED]}, {202})
        for answer in (one_too_many, answers[MOST_QUEUED], ask("POST", "/v1/sandboxes", {"template": "wat"}, token=other)):
            self.refused(answer, 503, "overloaded")
            self.assertGreater(int(answer.headers["Retry-After"]), 0)
        for sandbox, token in [*sandboxes, (looping, True)]:
            self.assertEqual(ask("DELETE", f"/v1/sandboxes/{sandbox}", token=token).status, 204)
        while (made := ask("POST", "/v1/sandboxes", {"template": "wat"})).status == 503:
            pass  # what waited for those that are gone goes first
        self.assertEqual(self.service.exec(made.json["id"], ADD)["outcome"], "ok")

    def test_sandboxes_of_the_service(self):
        other = Service("--sandboxes", "1")
        self.addCleanup(other.log.close)
        self.addCleanup(other.stop)
        sandbox = other.create("wat")
        answer = other.request("POST", "/v1/sandboxes", {"template": "wat"})
        self.refused(answer, 503, "overloaded")
        self.assertEqual(other.request("DELETE", f"/v1/sandboxes/{sandbox}").status, 204)
        other.create("wat")


class Workers(ServiceTest):
    FLAGS = ("--ready-workers", "0", "--park-after", "0")

    def test_none_is_to_be_had(self):
        """Without the process that creates them, the service says so, and ends so that another can
        start."""
        service = self.service
        kept = service.create("wat")
        (zygote,) = children(service.process.pid)
        os.kill(zygote, signal.SIGKILL)
        sandbox = service.create("wat")
        answer = service.request("POST", f"/v1/sandboxes/{sandbox}/exec", {"code": ADD})
        self.assertEqual((answer.status, answer.json["outcome"]), (200, "failed"))
        self.assertEqual(service.process.wait(SECONDS), 3)
        self.assertIn("the process that makes workers has ended", service.log_text())
        again = Service(state=service.state)
        self.addCleanup(again.log.close)
        self.addCleanup(again.stop)
        for each in (kept, sandbox):
            self.assertEqual(again.exec(each, ADD)["outcome"], "ok")


if __name__ == "__main__":
    unittest.main()
