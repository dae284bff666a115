"""Faults while the service runs: a full disk, workers that are killed or do not answer, clock jumps,
damaged files. What was confirmed is done, other changes are not, and the service continues.

kill -9 of the service in each phase, and damaged files at its start: state_test.py. Simulated power cuts:
durable_files_test.cc. Slow and half-open clients, and workers that break the protocol: attacks/. Clock
changes: ledger_test.cc, sandboxes_test.cc, idempotency_test.cc.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from service_testing import SANITIZED, SECONDS, NotStarted, Service, ServiceTest, children

ADD = '(module (func (export "run") (result i32) (i32.add (i32.const 2) (i32.const 40))))'
LONG = {"policy": {"limits": {"fuel": 10**15, "wall": "1h"}}}
MOST_WAIT_S = SECONDS if SANITIZED else 60  # for a worker that hangs: several times what the service waits
DISK_MIB = 8
MOST_TRIES = 5000  # until a full disk is noticed: there is room in what files have of it already


class Disk:
    """A small file system of its own, in namespaces that outlive the services on it."""

    def __init__(self):
        self.place = tempfile.TemporaryDirectory(prefix="membrane-disk-")
        mount = f'mount -t tmpfs -o size={DISK_MIB}m,mode=700 none "$0" && echo mounted && exec sleep infinity'
        self.holder = subprocess.Popen(["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, self.place.name],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if self.holder.stdout.readline() != "mounted\n":
            why = self.holder.communicate(timeout=SECONDS)[1].strip()
            self.place.cleanup()
            raise unittest.SkipTest(f"no file system can be mounted in namespaces here: {why}")
        self.state = os.path.join(self.place.name, "state")
        self.inside = Path(f"/proc/{self.holder.pid}/root{self.place.name}")  # as it is seen from here
        self.filler = self.inside / "filler"

    def service(self, *flags):
        return Service(*flags, state=self.state, under=["nsenter", "--target", str(self.holder.pid), "--user", "--mount",
                                                        "--preserve-credentials"])

    def fill(self):
        with contextlib.suppress(OSError), open(self.filler, "ab", buffering=0) as file:
            while True:
                file.write(bytes(4096))

    def free(self):
        self.filler.unlink(missing_ok=True)

    def close(self):
        self.holder.kill()
        self.holder.communicate(timeout=SECONDS)
        self.place.cleanup()


class FullDisk(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        for program in ("unshare", "nsenter", "mount"):
            if not shutil.which(program):
                raise unittest.SkipTest(f"there is no {program}")

    def setUp(self):
        self.disk = Disk()
        self.addCleanup(self.disk.close)
        self.service = None

    def start(self, *flags):
        self.service = self.disk.service(*flags)
        self.addCleanup(self.service.log.close)
        self.addCleanup(lambda service=self.service: service.process.poll() is None and service.kill())
        return self.service

    def ask(self, method, path, body=None, **more):
        answer = self.service.request(method, "/v1" + path, body, **more)
        if answer.status >= 500:
            self.assertEqual((answer.status, answer.error["code"], answer.error["retryable"]), (507, "no_space", True), answer.body)
            self.assertGreater(int(answer.headers["Retry-After"]), 0)
        return answer

    def until_full(self, *request):
        """Sends requests until there is no room; returns the answers before that."""
        self.disk.fill()
        answers = []
        for _ in range(MOST_TRIES):
            answer = self.ask(*request)
            if answer.status == 507:
                return answers
            self.assertLess(answer.status, 300, answer.body)
            answers.append(answer)
            self.disk.fill()
        self.fail("the disk is never full")

    def test_first_start(self):
        self.disk.fill()
        with self.assertRaises(NotStarted) as caught:
            self.disk.service()
        self.assertEqual(caught.exception.code, 2, caught.exception.text)
        self.assertIn("hint:", caught.exception.text)
        self.disk.free()
        token = self.start().token
        self.service.kill()
        self.assertEqual(self.start().token, token)

    def test_start_of_what_there_is(self):
        token = self.start().token
        sandbox = self.service.create("wat")
        self.assertEqual(self.service.stop(), 0)
        self.disk.fill()
        try:
            self.start().kill()
        except NotStarted as refused:
            self.assertEqual(refused.code, 2, refused.text)
            self.assertIn("hint:", refused.text)
        self.disk.free()
        self.assertEqual(self.start().token, token)
        self.assertIn(self.ask("GET", f"/sandboxes/{sandbox}").status, (200, 404))  # the one between may have lost it

    def test_tokens(self):
        self.start()
        tokens = [each.json for each in self.until_full("POST", "/tokens", {"name": "n", "scopes": ["exec"]})]
        listed = {each["id"] for each in self.ask("GET", "/tokens").json["tokens"]}
        self.assertLessEqual({each["info"]["id"] for each in tokens}, listed)
        removed = set()
        for each in tokens:
            if self.ask("DELETE", f"/tokens/{each['info']['id']}").status == 204:
                removed.add(each["token"])
        self.service.kill()
        self.disk.free()
        self.start()
        for each in tokens:
            status = self.ask("GET", "/usage", token=each["token"]).status
            self.assertEqual(status, 401 if each["token"] in removed else 200)
        self.assertEqual(self.ask("POST", "/tokens", {"name": "n", "scopes": ["exec"]}).status, 201)

    def test_sandboxes(self):
        self.start()
        there = self.service.create("wat")
        made = [each.json["id"] for each in self.until_full("POST", "/sandboxes", {"template": "wat"})]
        listed = {each["id"] for each in self.ask("GET", "/sandboxes?limit=1000").json["sandboxes"]}
        self.assertEqual(listed, {there, *made})  # none that was refused
        self.assertEqual(self.service.exec(there, ADD)["outcome"], "ok")  # what is there can be used
        changed = self.ask("PATCH", f"/sandboxes/{there}", {"labels": ["x" * 100]}).status
        self.assertIn(changed, (200, 507))
        for sandbox in made[::2]:
            self.assertEqual(self.ask("DELETE", f"/sandboxes/{sandbox}").status, 204)
        self.disk.free()
        self.assertEqual(self.ask("POST", "/sandboxes", {"template": "wat"}).status, 201)
        self.assertEqual(self.ask("PATCH", f"/sandboxes/{there}", {"labels": ["later"]}).status, 200)
        used = self.ask("GET", "/usage").json["execs"]
        self.assertEqual(self.service.stop(), 0)
        self.start()
        for sandbox in made[::2]:  # ended while there was no room to note it
            self.assertNotIn("is lost", self.ask("GET", f"/sandboxes/{sandbox}").error["message"])
        self.assertEqual(self.ask("GET", f"/sandboxes/{there}").json["labels"], ["later"])
        self.assertEqual(self.service.exec(there, ADD)["outcome"], "ok")
        self.assertGreaterEqual(self.ask("GET", "/usage").json["execs"], used)

    def test_idempotency_keys(self):
        """An answer that cannot be stored is still sent, and the operation is not repeated."""
        self.start()
        sandbox = self.service.create("wat")
        self.until_full("POST", "/tokens", {"name": "n", "scopes": ["exec"]})
        key = {"Idempotency-Key": "key-1"}
        first = self.ask("POST", f"/sandboxes/{sandbox}/exec", {"code": ADD}, headers=key)
        self.assertEqual((first.status, first.json["outcome"]), (200, "ok"))
        again = self.ask("POST", f"/sandboxes/{sandbox}/exec", {"code": ADD}, headers=key)
        self.assertIn(again.status, (200, 409))
        self.assertEqual(len(self.ask("GET", f"/sandboxes/{sandbox}/execs").json["execs"]), 1)

    def test_pauses_snapshots_and_forks(self):
        self.start("--park-after", "0")
        if not self.service.has_template("python"):
            self.skipTest("Python is not installed")
        sandbox = self.service.create("python")
        self.assertEqual(self.service.exec(sandbox, "import os\nx = os.urandom(1 << 16) * 8")["outcome"], "ok")
        snapshots = [each.json["id"] for each in self.until_full("POST", f"/sandboxes/{sandbox}/snapshot")]
        self.assertEqual(self.ask("POST", f"/sandboxes/{sandbox}/pause").status, 507)
        self.assertEqual(self.ask("GET", f"/sandboxes/{sandbox}").json["state"], "idle")  # it continues
        self.assertEqual(self.service.exec(sandbox, "len(x)")["result"], str(8 << 16))
        listed = {each["id"] for each in self.ask("GET", "/snapshots").json["snapshots"]}
        self.assertEqual(listed, set(snapshots))
        self.disk.free()
        self.assertEqual(self.ask("POST", f"/sandboxes/{sandbox}/pause").status, 200)
        self.service.kill()
        self.start()
        self.assertEqual(self.ask("POST", f"/sandboxes/{sandbox}/resume").status, 200)
        self.assertEqual(self.service.exec(sandbox, "len(x)")["result"], str(8 << 16))
        for snapshot in snapshots:
            made = self.ask("POST", "/sandboxes", {"snapshot": snapshot})
            self.assertEqual(made.status, 201, made.body)
            self.assertEqual(self.service.exec(made.json["id"], "len(x)")["result"], str(8 << 16))
            self.assertEqual(self.ask("DELETE", f"/snapshots/{snapshot}").status, 204)
        unfinished = [name for name in os.listdir(self.disk.inside / "state" / "images") if "unfinished" in name]
        self.assertEqual(unfinished, [])

    def test_secrets(self):
        key = self.disk.inside / "key"
        key.touch(0o600)
        key.write_text("1" * 64)
        self.start("--secrets-key", os.path.join(self.disk.place.name, "key"))
        secret = {"value": "a-value-of-a-secret" * 100, "hosts": ["api.example.com"]}
        self.disk.fill()
        kept = []
        for number in range(MOST_TRIES):
            answer = self.ask("PUT", f"/secrets/S{number}", secret)
            if answer.status in (507, 429):
                break
            kept.append(f"S{number}")
            self.disk.fill()
        self.assertEqual(sorted(each["name"] for each in self.ask("GET", "/secrets").json["secrets"]), sorted(kept))

    def test_stop(self):
        """A stopped service hands over what it can, reports what is lost, and ends."""
        self.start("--park-after", "0")
        if not self.service.has_template("python"):
            self.skipTest("Python is not installed")
        sandbox = self.service.create("python")
        self.service.exec(sandbox, "import os\nx = os.urandom(1 << 16) * 8")
        self.until_full("POST", f"/sandboxes/{sandbox}/snapshot")
        self.assertEqual(self.service.stop(), 0)
        self.assertIn("sandboxes lost", self.service.log_text())
        self.disk.free()
        self.start()
        self.assertIn("is lost", self.ask("GET", f"/sandboxes/{sandbox}").error["message"])

    def test_audit_log(self):
        """It is intact after the disk was full."""
        self.start()
        self.until_full("POST", "/tokens", {"name": "n", "scopes": ["exec"]})
        self.disk.free()
        self.assertEqual(self.ask("POST", "/tokens", {"name": "n", "scopes": ["exec"]}).status, 201)
        self.assertEqual(self.service.stop(), 0)
        copy = tempfile.NamedTemporaryFile()
        self.addCleanup(copy.close)
        copy.write((self.disk.inside / "state" / "audit.log").read_bytes())
        copy.flush()
        done = subprocess.run([os.environ.get("MEMBRANE_COMMAND", "build/release/membrane"), "audit", "verify", copy.name],
                              capture_output=True, text=True, timeout=SECONDS, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Workers(ServiceTest):
    """The worker of a sandbox dies or hangs: that sandbox is lost and says so, and the others continue."""

    FLAGS = ("--ready-workers", "0", "--park-after", "0")

    def setUp(self):
        if not self.service.has_template("python"):
            self.skipTest("Python is not installed")
        (self.zygote,) = [pid for pid in children(self.service.process.pid) if self.is_zygote(pid)]

    def is_zygote(self, pid):
        cls = type(self)
        if not hasattr(cls, "first"):  # the only one before there is a sandbox
            (cls.first,) = children(self.service.process.pid)
        return pid == cls.first

    def create(self, **spec):
        """A Python sandbox, and the process of its worker."""
        before = self.workers()
        sandbox = self.service.create("python", **spec)
        (worker,) = self.workers() - before
        return sandbox, worker

    def workers(self):
        zygote = type(self).first
        found = set()
        for pid in [*children(self.service.process.pid), *children(zygote)]:
            with open(f"/proc/{pid}/stat") as file:
                if pid != zygote and file.read().rsplit(") ", 1)[1][0] != "Z":
                    found.add(pid)
        return found

    def ask(self, method, path, body=None):
        return self.service.request(method, "/v1/sandboxes/" + path, body)

    def check_lost(self, sandbox):
        report = self.service.exec(sandbox, "1")
        self.assertEqual((report["outcome"], report["error"]["code"]), ("failed", "worker_lost"))
        for method, path, body in (("POST", "pause", None), ("POST", "snapshot", None), ("POST", "fork", None),
                                   ("GET", "files/list", None), ("GET", "files?path=/tmp/x", None), ("PUT", "files?path=/tmp/x", "1"),
                                   ("GET", "files/stat?path=/tmp", None), ("GET", "files/archive?path=/tmp", None),
                                   ("PATCH", "policy", {}), ("PATCH", "", {"env": {"A": "1"}})):
            answer = self.ask(method, f"{sandbox}/{path}".rstrip("/"), body)
            error = self.refused(answer, 409, "conflict")  # not "later": it never comes back
            self.assertIn("the sandbox is lost", error["message"])
        self.assertEqual(self.ask("DELETE", sandbox).status, 204)

    def begin(self, sandbox):
        begun = self.ask("POST", f"{sandbox}/exec", {"code": "while True: pass", "background": True}).json["exec_id"]
        path = f"{sandbox}/execs/{begun}"
        while self.ask("GET", path).json["state"] == "queued":
            pass
        return path

    def report(self, path):
        return self.service.events("GET", f"/v1/sandboxes/{path}/events")[-1][1]

    def test_killed_while_it_rests(self):
        other, _ = self.create()
        self.service.exec(other, "x = 41")
        sandbox, worker = self.create()
        os.kill(worker, signal.SIGKILL)
        self.check_lost(sandbox)
        self.assertEqual(self.service.exec(other, "x + 1")["result"], "42")
        self.assertEqual(self.ask("DELETE", other).status, 204)

    def test_killed_while_it_runs(self):
        sandbox, worker = self.create(**LONG)
        path = self.begin(sandbox)
        os.kill(worker, signal.SIGKILL)
        report = self.report(path)
        self.assertEqual((report["outcome"], report["error"]["code"]), ("failed", "worker_lost"))
        self.check_lost(sandbox)

    def test_first_thing_after_its_end_is_a_file(self):
        for path in ("files/list", "files?path=/tmp/x", "files/stat?path=/tmp"):
            sandbox, worker = self.create()
            os.kill(worker, signal.SIGKILL)
            error = self.refused(self.ask("GET", f"{sandbox}/{path}"), 409, "conflict")
            self.assertIn("the sandbox is lost", error["message"])
            self.assertEqual(self.ask("DELETE", sandbox).status, 204)

    def test_stopped_while_it_runs(self):
        """The service waits for it for a bounded time, and then kills it."""
        sandbox, worker = self.create(**LONG)
        path = self.begin(sandbox)
        os.kill(worker, signal.SIGSTOP)
        self.assertEqual(self.ask("DELETE", path).status, 204)
        self.assertEqual(self.report(path)["outcome"], "cancelled")
        while worker in self.workers():
            pass
        self.check_lost(sandbox)

    def test_stopped_beyond_its_time(self):
        sandbox, worker = self.create(policy={"limits": {"wall": "100 ms"}})
        os.kill(worker, signal.SIGSTOP)
        self.assertEqual(self.service.exec(sandbox, "1")["outcome"], "timed_out")
        while worker in self.workers():
            pass
        self.check_lost(sandbox)

    def test_stopped_and_ended(self):
        sandbox, worker = self.create(**LONG)
        self.begin(sandbox)
        os.kill(worker, signal.SIGSTOP)
        self.assertEqual(self.ask("DELETE", sandbox).status, 204)
        while worker in self.workers():
            pass

    def test_stopped_for_a_moment(self):
        sandbox, worker = self.create(**LONG)
        os.kill(worker, signal.SIGSTOP)
        begun = self.ask("POST", f"{sandbox}/exec", {"code": "6 * 7", "background": True}).json["exec_id"]
        os.kill(worker, signal.SIGCONT)
        self.assertEqual(self.report(f"{sandbox}/execs/{begun}")["result"], "42")
        self.assertEqual(self.ask("DELETE", sandbox).status, 204)


    def test_file_acts_of_one_that_is_stopped(self):
        """They wait for a bounded time. Then that one sandbox is lost, and the others continue."""
        other, _ = self.create()
        self.service.exec(other, "x = 41")
        stopped = []
        for act in (("GET", "files/list", None), ("GET", "files?path=/tmp/x", None), ("PUT", "files?path=/tmp/x", "1" * (1 << 20)),
                    ("GET", "files/stat?path=/tmp", None)):
            sandbox, worker = self.create()
            os.kill(worker, signal.SIGSTOP)
            stopped.append((sandbox, *act))
        with ThreadPoolExecutor(len(stopped)) as threads:
            began = time.monotonic()
            answers = [threads.submit(self.ask, method, f"{sandbox}/{path}", body) for sandbox, method, path, body in stopped]
            self.assertEqual(self.service.exec(other, "x + 1")["result"], "42")
            for answer in answers:
                error = self.refused(answer.result(), 409, "conflict")
                self.assertIn("the sandbox is lost: the worker did not answer in time", error["message"])
            self.assertLess(time.monotonic() - began, MOST_WAIT_S)
        for sandbox, *_ in stopped:
            self.assertEqual(self.ask("DELETE", sandbox).status, 204)


class Ends(unittest.TestCase):
    def test_with_workers_that_hang(self):
        """The service ends in time, whatever its workers do, and what can be saved is saved."""
        state = tempfile.TemporaryDirectory()
        self.addCleanup(state.cleanup)
        service = Service("--drain", "1", "--ready-workers", "0", "--park-after", "0", state=state.name)
        self.addCleanup(service.log.close)
        if not service.has_template("python"):
            service.stop()
            self.skipTest("Python is not installed")
        (zygote,) = children(service.process.pid)
        made = {}
        for name in ("well", "rests", "reads", "runs"):
            before = set(children(zygote))
            made[name] = service.create("python", **LONG)
            service.exec(made[name], "x = 41")
            (worker,) = set(children(zygote)) - before
            if name != "well":
                os.kill(worker, signal.SIGSTOP)
        path = f"/v1/sandboxes/{made['runs']}/exec"
        self.assertEqual(service.request("POST", path, {"code": "x", "background": True}).status, 202)
        with socket.create_connection((service.host, service.port)) as reader:
            reader.sendall(f"GET /v1/sandboxes/{made['reads']}/files/list HTTP/1.1\r\nHost: x\r\n"
                           f"Authorization: Bearer {service.token}\r\n\r\n".encode())
            while service.request("GET", f"/v1/sandboxes/{made['reads']}").json["state"] != "running":
                pass
            began = time.monotonic()
            self.assertEqual(service.stop(), 0)
            self.assertLess(time.monotonic() - began, MOST_WAIT_S)
        service = Service(state=state.name)
        self.addCleanup(service.log.close)
        self.addCleanup(service.stop)
        self.assertEqual(service.exec(made.pop("well"), "x + 1")["result"], "42")
        for sandbox in made.values():
            self.assertIn("is lost", service.request("GET", f"/v1/sandboxes/{sandbox}").error["message"])


class Clocks(unittest.TestCase):
    def test_monotonic_clock_far_from_its_start(self):
        """On a machine that has run for decades, or whose clock jumps, time limits and streams work as
        usual."""
        for offset in ("2000000000", "1"):
            under = ["unshare", "--user", "--map-root-user", "--time", "--monotonic", offset, "--boottime", offset]
            tried = subprocess.run([*under, "true"], capture_output=True, text=True, timeout=SECONDS, check=False)
            if tried.returncode != 0:
                self.skipTest(f"there is no namespace of time here: {tried.stderr.strip()}")
            # --fork would leave the service a child: only children of the process that unshare becomes have
            # the new clock.
            service = Service("--park-after", "1", under=[*under, "--", "sh", "-c", '"$@"; exit $?', "sh"])
            self.addCleanup(service.log.close)
            sandbox = service.create("wat", **LONG)
            self.assertEqual(service.exec(sandbox, ADD)["outcome"], "ok")
            loop = '(module (func (export "run") (loop $again (br $again))))'
            self.assertEqual(service.exec(sandbox, loop, timeout_ms=50)["outcome"], "timed_out")
            self.assertEqual(service.events("POST", f"/v1/sandboxes/{sandbox}/exec", {"code": ADD})[-1][1]["outcome"], "ok")
            (inner,) = children(service.process.pid)
            os.kill(inner, signal.SIGTERM)
            self.assertEqual(service.process.wait(SECONDS), 0)
            service.stop()


class DamagedFiles(unittest.TestCase):
    """Files that are damaged while the service runs; see state_test.py for those that it finds at its
    start."""

    def setUp(self):
        self.service = Service("--park-after", "0")
        self.addCleanup(self.service.log.close)
        self.addCleanup(lambda: self.service.process.poll() is None and self.service.kill())
        if not self.service.has_template("python"):
            self.skipTest("Python is not installed")

    def ask(self, method, path, body=None, status=None):
        answer = self.service.request(method, "/v1" + path, body)
        if status:
            self.assertEqual(answer.status, status, answer.body)
        return answer

    def damage(self, path, at, content):
        with open(path, "r+b") as file:
            file.seek(at)
            file.write(content)

    def test_image_of_a_snapshot(self):
        sandbox = self.service.create("python")
        snapshot = self.ask("POST", f"/sandboxes/{sandbox}/snapshot", status=201).json["id"]
        images = Path(self.service.state) / "images"
        (image,) = images.iterdir()
        whole = image.read_bytes()
        for damaged in (whole[:-1], whole[:100], b"", whole[:1000] + b"\xff" + whole[1001:], whole + b"more"):
            image.write_bytes(damaged)
            answer = self.ask("POST", "/sandboxes", {"snapshot": snapshot}, status=503)
            self.assertIn("damaged", answer.error["message"])
        self.assertEqual(self.ask("GET", "/sandboxes").json["sandboxes"][0]["id"], sandbox)
        image.write_bytes(whole)
        self.ask("POST", "/sandboxes", {"snapshot": snapshot}, status=201)
        image.unlink()
        self.assertIn(self.ask("POST", "/sandboxes", {"snapshot": snapshot}).status, (404, 503))

    def test_owners_token_while_it_runs(self):
        """The token is valid until the service ends; the next start reports the problem."""
        Path(self.service.state, "owner.token").write_bytes(os.urandom(100))
        self.ask("GET", "/sandboxes", status=200)
        self.service.kill()
        with self.assertRaises(NotStarted) as caught:
            Service(state=self.service.state)
        self.assertIn("owner.token", caught.exception.text)

    def test_audit_log_that_is_removed(self):
        os.remove(os.path.join(self.service.state, "audit.log"))
        answer = self.ask("POST", "/tokens", {"name": "n", "scopes": ["exec"]})
        self.assertIn(answer.status, (201, 503))
        self.assertIsNone(self.service.process.poll())


if __name__ == "__main__":
    unittest.main()
