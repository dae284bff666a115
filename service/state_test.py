"""What the service stores: through restarts, kill -9 at any moment, and damage to its files."""

import http.server
import json
import os
import random
import stat
import tempfile
import threading
import unittest
from http.client import HTTPException
from pathlib import Path

from service_testing import NotStarted, Service, ServiceTest

ADD = '(func (export "run") (result i32) (i32.add (i32.const 2) (i32.const 40)))'
LOOP = '(func (export "run") (loop $again (br $again)))'
ROUNDS = 12
MOST_SECONDS_BEFORE_KILL = 0.2


def started(state, *flags):
    return Service(*flags, state=state)


class Restarts(unittest.TestCase):
    """Services one after another on one state."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.state = directory.name
        self.service = None
        self.addCleanup(self.end)

    def end(self):
        if self.service:
            self.service.stop()
            self.service.log.close()

    def start(self, *flags):
        if self.service:
            self.service.stop()
            self.service.log.close()
        self.service = started(self.state, *flags)
        return self.service

    def refuses_to_start(self, *words):
        with self.assertRaises(NotStarted) as caught:
            started(self.state)
        self.assertIn(caught.exception.code, (2, 3))
        for word in words:
            self.assertIn(word, caught.exception.text)


class State(Restarts):
    def test_owner_token_stays(self):
        token = self.start().token
        mode = os.stat(os.path.join(self.state, "owner.token")).st_mode
        self.assertEqual(stat.S_IMODE(mode), 0o600)
        self.assertEqual(self.start().token, token)

    def test_tokens_stay_until_they_are_removed(self):
        service = self.start()
        made = service.request("POST", "/v1/tokens", {"name": "n", "scopes": ["exec"], "quotas": {"sandboxes": 3}}).json
        gone = service.request("POST", "/v1/tokens", {"name": "gone", "scopes": ["exec"]}).json
        self.assertEqual(service.request("DELETE", f"/v1/tokens/{gone['info']['id']}").status, 204)
        service.kill()
        service = self.start()
        self.assertEqual(service.request("GET", "/v1/usage", token=made["token"]).json["quotas"], {"sandboxes": 3})
        self.assertEqual(service.request("GET", "/v1/usage", token=gone["token"]).status, 401)

    def test_a_sandbox_in_memory_is_lost_and_that_is_reported(self):
        service = self.start()
        lost = service.create("wat")
        ended = service.create("wat")
        self.assertEqual(service.request("DELETE", f"/v1/sandboxes/{ended}").status, 204)
        service.kill()
        service = self.start()
        answer = service.request("GET", f"/v1/sandboxes/{lost}")
        self.assertEqual(answer.status, 404)
        self.assertIn("is lost: its program was in the memory", answer.error["message"])
        self.assertNotIn("lost", service.request("GET", f"/v1/sandboxes/{ended}").error["message"])
        other = service.request("POST", "/v1/tokens", {"name": "n", "scopes": ["sandboxes:read"]}).json["token"]
        self.assertNotIn("lost", service.request("GET", f"/v1/sandboxes/{lost}", token=other).error["message"])

    def test_usage_stays(self):
        service = self.start()
        service.exec(service.create("wat"), ADD)
        used = service.request("GET", "/v1/usage").json
        self.assertEqual(used["execs"], 1)
        self.assertGreater(used["fuel"], 0)
        again = self.start().request("GET", "/v1/usage").json
        if again["day"] == used["day"]:
            self.assertEqual(again, used)

    def test_one_service_for_a_state(self):
        self.start()
        self.refuses_to_start("another service uses", "--state")

    def test_damaged_database(self):
        self.start().stop()
        path = os.path.join(self.state, "state.db")
        size = os.path.getsize(path)
        with open(path, "r+b") as file:
            file.write(os.urandom(size))
        self.refuses_to_start("state.db", "hint:")

    def test_damaged_owner_token(self):
        self.start().stop()
        with open(os.path.join(self.state, "owner.token"), "wb") as file:
            file.write(os.urandom(40))
        self.refuses_to_start("owner.token", "hint:")

    def test_damaged_audit_log(self):
        self.start().stop()
        with open(os.path.join(self.state, "audit.log"), "ab") as file:
            file.write(b"what somebody else wrote\n")
        self.refuses_to_start("audit.log", "membrane audit verify")

    def test_state_that_others_may_write_to(self):
        os.chmod(self.state, 0o777)
        self.refuses_to_start("chmod go-w")

    def test_audit_log_continues_after_a_torn_line(self):
        service = self.start()
        service.exec(service.create("wat"), ADD)
        service.kill()
        path = os.path.join(self.state, "audit.log")
        with open(path, "ab") as file:
            file.write(b'{"number":')
        self.start().stop()
        with open(path) as file:
            events = [json.loads(line)["event"] for line in file]
        self.assertEqual(events, ["service.started", "sandbox.created", "exec.ended", "audit.cut", "service.started"])

    def test_kill_at_any_moment(self):
        """Whatever was answered survives; the state is intact, and nothing else is left in its
        directory."""
        chance = random.Random(int(os.environ.get("MEMBRANE_TEST_SEED", "1")))
        tokens, removed = {}, set()
        for _ in range(ROUNDS):
            service = self.service = started(self.state)
            for token in tokens.values():
                self.assertEqual(service.request("GET", "/v1/usage", token=token).status, 200)
            for token in removed:
                self.assertEqual(service.request("GET", "/v1/usage", token=token).status, 401)
            made, ended = set(), set()
            in_doubt = set()
            killer = threading.Timer(chance.uniform(0, MOST_SECONDS_BEFORE_KILL), service.process.kill)
            killer.start()
            try:
                while True:
                    answer = service.request("POST", "/v1/tokens", {"name": "n", "scopes": ["exec"]}).json
                    tokens[answer["info"]["id"]] = answer["token"]
                    sandbox = service.create("wat")
                    made.add(sandbox)
                    service.exec(sandbox, ADD)
                    if chance.random() < 0.5:
                        in_doubt.add(sandbox)
                        service.request("DELETE", f"/v1/sandboxes/{sandbox}")
                        in_doubt.remove(sandbox)
                        ended.add(sandbox)
                    if chance.random() < 0.3:
                        name = chance.choice(sorted(tokens))
                        token = tokens.pop(name)
                        if service.request("DELETE", f"/v1/tokens/{name}").status == 204:
                            removed.add(token)
            except (OSError, HTTPException):
                pass
            killer.join()
            service.kill()
            service.log.close()
            service = self.service = started(self.state)
            for sandbox in made - in_doubt:
                answer = service.request("GET", f"/v1/sandboxes/{sandbox}")
                self.assertEqual(answer.status, 404)
                self.assertEqual("is lost" in answer.error["message"], sandbox not in ended, sandbox)
            service.kill()
            service.log.close()
            left = set(os.listdir(self.state)) - {"state.db-wal", "state.db-journal"}
            self.assertEqual(left, {"audit.log", "images", "owner.token", "secrets.key", "state.db"})


class Kept(Restarts):
    """What was paused, promised or sealed is there for the next service, however the previous one
    ended."""

    LANGUAGE = "python"

    def start(self, *flags):
        service = super().start(*flags)
        if not service.has_template(self.LANGUAGE):
            self.skipTest(f"the language {self.LANGUAGE} is not installed")
        return service

    def killed(self, *flags):
        """The next service, after this one was killed."""
        self.service.kill()
        return self.start(*flags)

    def result(self, sandbox, code):
        report = self.service.exec(sandbox, code)
        self.assertEqual(report["outcome"], "ok", report)
        return report["result"]

    def done(self, method, path, body=None, status=200, **keywords):
        answer = self.service.request(method, path, body, **keywords)
        self.assertEqual(answer.status, status, answer.body)
        return answer.json if answer.body else None

    def images(self):
        return set(os.listdir(os.path.join(self.state, "images")))

    def test_paused_sandbox(self):
        service = self.start()
        sandbox = service.create(self.LANGUAGE, metadata={"of": "me"}, env={"NAME": "value"}, ttl_s=3000)
        self.result(sandbox, "import os\nx = 41\nopen('/tmp/f', 'w').write('kept')")
        context = self.done("POST", f"/v1/sandboxes/{sandbox}/contexts", {}, 201)["id"]
        service.exec(sandbox, "y = 5", context=context)
        self.done("POST", f"/v1/sandboxes/{sandbox}/pause")
        before = self.done("GET", f"/v1/sandboxes/{sandbox}")
        self.killed()
        after = self.done("GET", f"/v1/sandboxes/{sandbox}")
        self.assertGreater(before.pop("last_used_at"), after.pop("last_used_at"))  # that of before the pause
        self.assertEqual(after, before)
        self.assertEqual(after["state"], "paused")
        self.done("PATCH", f"/v1/sandboxes/{sandbox}", {"labels": ["late"]})
        self.killed()
        self.assertEqual(self.done("GET", f"/v1/sandboxes/{sandbox}")["labels"], ["late"])
        self.done("POST", f"/v1/sandboxes/{sandbox}/resume")
        self.assertEqual(self.result(sandbox, "x + 1, open('/tmp/f').read(), os.environ['NAME']"), "(42, 'kept', 'value')")
        self.assertEqual(self.service.exec(sandbox, "y + 1", context=context)["result"], "6")
        self.assertEqual(self.images(), set())
        self.killed()
        answer = self.service.request("GET", f"/v1/sandboxes/{sandbox}")
        self.assertIn("is lost", answer.error["message"])

    def test_killed_while_it_was_paused(self):
        service = self.start()
        sandbox = service.create(self.LANGUAGE)
        self.done("POST", f"/v1/sandboxes/{sandbox}/pause")
        self.assertEqual(len(self.images()), 1)
        self.done("DELETE", f"/v1/sandboxes/{sandbox}", status=204)
        self.killed()
        answer = self.service.request("GET", f"/v1/sandboxes/{sandbox}")
        self.assertEqual(answer.status, 404)
        self.assertNotIn("lost", answer.error["message"])
        self.assertEqual(self.images(), set())

    def test_narrowed_policy_of_a_paused_sandbox(self):
        service = self.start()
        sandbox = service.create(self.LANGUAGE, policy={"limits": {"wall": "5 s"}})
        self.done("POST", f"/v1/sandboxes/{sandbox}/pause")
        policy = self.done("GET", f"/v1/sandboxes/{sandbox}/policy")
        narrower = {"limits": {**policy["limits"], "wall": "4 s"}}
        self.done("PATCH", f"/v1/sandboxes/{sandbox}/policy", narrower)
        narrow = self.done("GET", f"/v1/sandboxes/{sandbox}/policy")
        self.assertNotEqual(narrow, policy)
        self.killed()
        self.assertEqual(self.done("GET", f"/v1/sandboxes/{sandbox}/policy"), narrow)
        self.done("POST", f"/v1/sandboxes/{sandbox}/resume")
        self.assertEqual(self.result(sandbox, "1 + 1"), "2")

    def test_sandboxes_at_a_graceful_stop(self):
        service = self.start("--drain", "0")
        sandbox = service.create(self.LANGUAGE)
        self.result(sandbox, "x = 41")
        wat = service.create("wat")
        running = service.create(self.LANGUAGE)
        self.result(running, "x = 41")
        path = f"/v1/sandboxes/{running}/exec"
        self.done("POST", path, {"code": "while True: pass", "background": True}, 202)
        self.service.stop()
        self.assertNotIn("sandboxes lost", self.service.log_text())
        self.start()
        self.assertEqual(self.result(running, "x + 1"), "42")
        self.assertEqual(self.done("GET", f"/v1/sandboxes/{sandbox}")["state"], "idle")
        self.assertEqual(self.result(sandbox, "x + 1"), "42")
        self.assertEqual(self.service.exec(wat, ADD)["outcome"], "ok")
        self.assertEqual(self.images(), set())

    def test_snapshots_and_templates(self):
        service = self.start()
        sandbox = service.create(self.LANGUAGE)
        self.result(sandbox, "x = 41")
        snapshot = self.done("POST", f"/v1/sandboxes/{sandbox}/snapshot", status=201)["id"]
        self.done("POST", f"/v1/snapshots/{snapshot}/promote", {"name": "mine"})
        before = self.done("GET", "/v1/snapshots")
        self.killed()
        self.assertEqual(self.done("GET", "/v1/snapshots"), before)
        made = [self.service.create("mine"), self.done("POST", "/v1/sandboxes", {"snapshot": snapshot}, 201)["id"]]
        self.assertEqual([self.result(each, "x + 1") for each in made], ["42", "42"])
        self.done("DELETE", "/v1/templates/mine", status=204)
        self.killed()
        self.assertEqual([each["name"] for each in self.done("GET", "/v1/snapshots")["snapshots"]], [None])
        self.done("DELETE", f"/v1/snapshots/{snapshot}", status=204)
        self.killed()
        self.assertEqual(self.done("GET", "/v1/snapshots")["snapshots"], [])
        self.assertEqual(self.service.request("POST", "/v1/sandboxes", {"template": "mine"}).status, 422)
        self.assertEqual(self.images(), set())

    def test_forks_are_known(self):
        service = self.start()
        sandbox = service.create(self.LANGUAGE)
        forks = self.done("POST", f"/v1/sandboxes/{sandbox}/fork", {"count": 2}, 201)["sandboxes"]
        self.killed()
        for fork in forks:
            self.assertIn("is lost", self.service.request("GET", f"/v1/sandboxes/{fork['id']}").error["message"])

    def test_damaged_image(self):
        service = self.start()
        sandbox = service.create(self.LANGUAGE)
        self.done("POST", f"/v1/sandboxes/{sandbox}/pause")
        (image,) = self.images()
        with open(os.path.join(self.state, "images", image), "r+b") as file:
            file.seek(100)
            file.write(b"damaged")
        answer = self.service.request("POST", f"/v1/sandboxes/{sandbox}/resume")
        self.assertEqual(answer.status, 503)
        self.assertEqual(self.done("GET", f"/v1/sandboxes/{sandbox}")["state"], "paused")

    def test_missing_image(self):
        service = self.start()
        sandbox = service.create(self.LANGUAGE)
        self.done("POST", f"/v1/sandboxes/{sandbox}/pause")
        (image,) = self.images()
        os.remove(os.path.join(self.state, "images", image))
        self.killed()
        answer = self.service.request("GET", f"/v1/sandboxes/{sandbox}")
        self.assertIn("is lost", answer.error["message"])

    def test_answers_of_idempotency_keys(self):
        service = self.start()
        key = {"Idempotency-Key": "one"}
        token = service.request("POST", "/v1/tokens", {"name": "n", "scopes": ["exec"]}, {"Idempotency-Key": "token"}).json
        made = self.done("POST", "/v1/sandboxes", {"template": "wat"}, 201, headers=key)
        self.killed()
        self.assertEqual(self.done("POST", "/v1/sandboxes", {"template": "wat"}, 201, headers=key), made)
        self.assertEqual(self.service.request("POST", "/v1/sandboxes", {"template": "js"}, key).status, 422)
        self.assertEqual(self.done("GET", "/v1/sandboxes")["sandboxes"], [])
        with open(os.path.join(self.state, "state.db"), "rb") as file:
            self.assertNotIn(token["token"].encode(), file.read())

    def test_secrets(self):
        key, other = (os.path.join(self.state, name) for name in ("key", "other"))
        for path, digit in ((key, "1"), (other, "2")):
            with open(path, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
                file.write(digit * 64)
        self.start("--secrets-key", key)
        self.done("PUT", "/v1/secrets/API_KEY", {"value": "a-value-of-a-secret", "hosts": ["api.example.com"]})
        before = self.done("GET", "/v1/secrets")
        self.killed("--secrets-key", key)
        self.assertEqual(self.done("GET", "/v1/secrets"), before)
        self.service.stop()
        for name in ("state.db", "state.db-wal", "audit.log"):
            path = os.path.join(self.state, name)
            if os.path.exists(path):
                with open(path, "rb") as file:
                    self.assertNotIn(b"a-value-of-a-secret", file.read())
        with self.assertRaises(NotStarted) as caught:
            started(self.state, "--secrets-key", other)
        self.assertIn("another key", caught.exception.text)
        self.start()
        self.assertEqual(self.done("GET", "/v1/secrets")["secrets"], [])
        self.assertIn("secret unavailable", self.service.log_text())
        self.start("--secrets-key", key)
        self.done("DELETE", "/v1/secrets/API_KEY", status=204)
        self.killed("--secrets-key", key)
        self.assertEqual(self.done("GET", "/v1/secrets")["secrets"], [])

    def test_secrets_under_the_services_own_key(self):
        secret = {"value": "a-value-of-a-secret", "hosts": ["api.example.com"]}
        own_key = os.path.join(self.state, "secrets.key")
        self.start()
        self.assertEqual(os.stat(own_key).st_mode & 0o777, 0o600)
        self.done("PUT", "/v1/secrets/API_KEY", secret)
        before = self.done("GET", "/v1/secrets")
        self.killed()
        self.assertEqual(self.done("GET", "/v1/secrets"), before)
        self.service.stop()
        os.remove(own_key)
        self.start()
        self.assertEqual(self.done("GET", "/v1/secrets")["secrets"], [])
        log = self.service.log_text()
        self.assertIn("secret unavailable", log)
        self.assertIn("API_KEY", log)
        self.done("PUT", "/v1/secrets/API_KEY", secret)
        self.killed()
        self.assertEqual([each["name"] for each in self.done("GET", "/v1/secrets")["secrets"]], ["API_KEY"])
        self.service.stop()
        with open(own_key, "w") as file:
            file.write("no key\n")
        self.refuses_to_start("secrets.key", "hint:")

    def test_killed_at_any_moment(self):
        """Whatever was answered survives; an unanswered pause, snapshot or resume is done completely, or
        not at all."""
        chance = random.Random(int(os.environ.get("MEMBRANE_TEST_SEED", "1")))
        for _ in range(ROUNDS // 2):
            service = self.start()
            paused, doubtful, snapshots = {}, None, set()
            killer = threading.Timer(chance.uniform(0.1, 0.5), service.process.kill)
            killer.start()
            try:
                for number in range(1000):
                    sandbox = service.create(self.LANGUAGE)
                    service.exec(sandbox, f"x = {number}")
                    doubtful = sandbox, number
                    service.request("POST", f"/v1/sandboxes/{sandbox}/pause")
                    paused[sandbox] = number
                    snapshots.add(service.request("POST", f"/v1/sandboxes/{sandbox}/snapshot").json["id"])
                    doubtful = sandbox, paused.pop(sandbox)
                    service.request("POST", f"/v1/sandboxes/{sandbox}/resume")
                    doubtful = sandbox, number
                    service.request("POST", f"/v1/sandboxes/{sandbox}/fork", {"count": 2})
                    service.request("POST", f"/v1/sandboxes/{sandbox}/pause")
                    paused[sandbox] = number
                    doubtful = None
            except (OSError, HTTPException):
                pass
            killer.join()
            self.killed()
            for sandbox, number in paused.items():
                self.done("POST", f"/v1/sandboxes/{sandbox}/resume")
                self.assertEqual(self.result(sandbox, "x"), str(number))
                self.done("DELETE", f"/v1/sandboxes/{sandbox}", status=204)
            if doubtful and doubtful[0] not in paused:
                answer = self.service.request("POST", f"/v1/sandboxes/{doubtful[0]}/resume")
                if answer.status == 200:
                    self.assertEqual(self.result(doubtful[0], "x"), str(doubtful[1]))
                else:
                    self.assertIn("is lost", answer.error["message"])
            kept = {each["id"] for each in self.done("GET", "/v1/snapshots")["snapshots"]}
            self.assertLessEqual(snapshots, kept)
            for each in self.done("GET", "/v1/sandboxes?limit=1000")["sandboxes"]:
                self.done("DELETE", f"/v1/sandboxes/{each['id']}", status=204)
            for snapshot in kept:
                self.done("DELETE", f"/v1/snapshots/{snapshot}", status=204)
            self.assertEqual(self.images(), set())


class Parked(ServiceTest):
    """Unused sandboxes have no process, and nobody notices."""

    FLAGS = ("--park-after", "1", "--resident", "1")

    def gauge(self, name):
        lines = self.service.request("GET", "/metrics").body.decode().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(name + " "))

    def wait_until_parked(self):
        while self.gauge("membrane_sandboxes_resident") > 0:
            pass

    def test_state_stays(self):
        for language, set_x, get_x in (("python", "x = 41", "x + 1"), ("javascript", "var x = 41", "x + 1")):
            if not self.service.has_template(language):
                self.skipTest(f"the language {language} is not installed")
            sandboxes = [self.service.create(language, metadata={"n": str(n)}) for n in range(4)]
            context = self.service.request("POST", f"/v1/sandboxes/{sandboxes[0]}/contexts", {}).json["id"]
            self.service.exec(sandboxes[0], set_x, context=context)
            for sandbox in sandboxes:
                self.service.exec(sandbox, set_x)
            for _ in range(3):
                self.wait_until_parked()
                self.assertGreater(self.gauge("membrane_parked_bytes"), 0)
                for sandbox in sandboxes:
                    self.assertEqual(self.service.request("GET", f"/v1/sandboxes/{sandbox}").json["state"], "idle")
                    self.assertEqual(self.service.exec(sandbox, get_x)["result"], "42")
                self.assertEqual(self.service.exec(sandboxes[0], get_x, context=context)["result"], "42")
            self.wait_until_parked()
            path = f"/v1/sandboxes/{sandboxes[0]}"
            for act in ("pause", "resume"):
                self.assertEqual(self.service.request("POST", f"{path}/{act}").status, 200)
            self.wait_until_parked()
            self.assertEqual(self.service.request("POST", f"{path}/snapshot").status, 201)
            self.assertEqual(self.service.request("POST", f"{path}/fork", {"count": 1}).status, 201)
            for sandbox in sandboxes:
                self.assertEqual(self.service.request("DELETE", f"/v1/sandboxes/{sandbox}").status, 204)

    def test_much_is_parked_on_the_disk(self):
        if not self.service.has_template("javascript"):
            self.skipTest("the language javascript is not installed")
        small, large = (self.service.create("javascript") for _ in range(2))
        self.service.exec(small, "var x = 41")
        self.service.exec(large, "var x = new Uint8Array(4 << 20).map((_, i) => i * i % 251)")
        for _ in range(2):
            self.wait_until_parked()
            self.assertLess(self.gauge("membrane_parked_bytes"), 1 << 20)
            images = Path(self.service.state, "images")
            self.assertGreater(sum(path.stat().st_size for path in images.rglob("*") if path.is_file()), 4 << 20)
            self.assertEqual(self.service.exec(large, "x.length + x[4]")["result"], str((4 << 20) + 16))
            self.assertEqual(self.service.exec(small, "x + 1")["result"], "42")
        self.assertEqual(self.service.request("DELETE", f"/v1/sandboxes/{large}").status, 204)
        self.wait_until_parked()


class Quotas(ServiceTest):
    def token(self, **quotas):
        spec = {"name": "n", "scopes": ["sandboxes:write", "sandboxes:read", "exec"], "quotas": quotas}
        answer = self.service.request("POST", "/v1/tokens", spec)
        self.assertEqual(answer.status, 201, answer.body)
        return answer.json["token"]

    def create(self, token, **spec):
        return self.service.request("POST", "/v1/sandboxes", {"template": "wat", **spec}, token=token)

    def test_sandboxes(self):
        token = self.token(sandboxes=1)
        first = self.create(token)
        self.assertEqual(first.status, 201)
        self.assertFalse(self.refused(self.create(token), 429, "quota_exceeded")["retryable"])
        path = f"/v1/sandboxes/{first.json['id']}"
        self.assertEqual(self.service.request("DELETE", path, token=token).status, 204)
        self.assertEqual(self.create(token).status, 201)

    def test_memory(self):
        token = self.token(memory_bytes=10 << 20)
        policy = {"limits": {"memory": 6 << 20}}
        self.assertEqual(self.create(token, policy=policy).status, 201)
        error = self.refused(self.create(token, policy=policy), 429, "quota_exceeded")
        self.assertIn("memory", error["hint"])
        self.assertFalse(error["retryable"])

    def test_fuel(self):
        token = self.token(fuel_a_day=1)
        path = f"/v1/sandboxes/{self.create(token).json['id']}/exec"
        self.assertEqual(self.service.request("POST", path, {"code": ADD}, token=token).status, 200)
        answer = self.service.request("POST", path, {"code": ADD}, token=token)
        self.refused(answer, 429, "quota_exceeded")
        self.assertGreater(int(answer.headers["Retry-After"]), 0)
        self.assertLessEqual(int(answer.headers["Retry-After"]), 24 * 3600)

    def test_fuel_bounds_each_exec(self):
        quota = 1_600_000
        token = self.token(fuel_a_day=quota)
        sandbox = self.create(token, policy={"limits": {"fuel": 10**15, "wall": "1h"}}).json["id"]
        ask = lambda: self.service.request("POST", f"/v1/sandboxes/{sandbox}/exec", {"code": LOOP}, token=token)
        for part in (2, 4, 8, 16, 16):
            answer = ask()
            self.assertEqual(answer.status, 200, answer.body)
            self.assertEqual(answer.json["outcome"], "out_of_fuel")
            self.assertLessEqual(answer.json["fuel_used"], quota // part)
            self.assertIn("fuel_a_day", answer.json["error"]["message"])
            self.assertIn("GET /v1/usage", answer.json["error"]["hint"])
        self.refused(ask(), 429, "quota_exceeded")
        self.assertEqual(self.service.request("GET", "/v1/usage", token=token).json["fuel"], quota)

    def test_a_limit_of_the_policy_that_is_smaller_is_named_itself(self):
        token = self.token(fuel_a_day=10**12)
        sandbox = self.create(token, policy={"limits": {"fuel": 1000}}).json["id"]
        report = self.service.request("POST", f"/v1/sandboxes/{sandbox}/exec", {"code": LOOP}, token=token).json
        self.assertEqual(report["outcome"], "out_of_fuel")
        self.assertNotIn("fuel_a_day", json.dumps(report["error"]))

    def test_smallest_of_a_tenants_tokens_counts(self):
        for number in (2, 1):
            spec = {"name": "n", "scopes": ["exec"], "tenant": "shared", "quotas": {"sandboxes": number}}
            token = self.service.request("POST", "/v1/tokens", spec).json["token"]
        self.assertEqual(self.service.request("GET", "/v1/usage", token=token).json["quotas"], {"sandboxes": 1})


class Config(unittest.TestCase):
    def refused(self, text, *words):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write(text)
            file.flush()
            with self.assertRaises(NotStarted) as caught:
                Service("--config", file.name)
        self.assertEqual(caught.exception.code, 2)
        for word in words:
            self.assertIn(word, caught.exception.text)

    def test_wrong_settings(self):
        self.refused("[server]\nprot = 1\n", "line 2", "server.prot", "There is port in [server]")
        self.refused("port = 1\n", "is in no table")
        self.refused("[server]\nport = 70000\n", "line 2", "0 to 65535")
        self.refused('[server]\nport = "one"\n', "server.port is a string", "whole number")
        self.refused('[log]\nlevel = "loud"\n', "log.level")
        self.refused("[server\n", "line 1")

    def test_flags_count_more(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write('[server]\nport = 1\n[quotas]\nsandboxes = 1\n[log]\nlevel = "silent"\n[audit]\nenabled = false\n')
            file.flush()
            service = Service("--config", file.name)  # with --port 0
        try:
            service.create("wat")
            self.assertEqual(service.request("POST", "/v1/sandboxes", {"template": "wat"}).status, 429)
            self.assertEqual(service.log_text(), "")
            self.assertNotIn("audit.log", os.listdir(service.state))
        finally:
            service.stop()


class Measures(ServiceTest):
    def test_metrics(self):
        sandbox = self.service.create("wat")
        self.service.exec(sandbox, ADD)
        self.refused(self.service.request("GET", "/metrics", token=False), 401, "unauthorized")
        answer = self.service.request("GET", "/metrics")
        self.assertEqual(answer.status, 200)
        lines = answer.body.decode().splitlines()
        self.assertIn('membrane_sandboxes{state="idle"} 1', lines)
        self.assertIn('membrane_execs_total{template="wat",outcome="ok"} 1', lines)
        self.assertIn('membrane_create_seconds_count{template="wat"} 1', lines)
        self.assertIn('membrane_exec_seconds_bucket{template="wat",le="+Inf"} 1', lines)
        names = {line.split()[2] for line in lines if line.startswith("# TYPE ")}
        for line in lines:
            if not line.startswith("#"):
                name = line.split("{")[0].split(" ")[0]
                self.assertTrue(names & {name, name.rsplit("_", 1)[0]}, line)
                float(line.rsplit(" ", 1)[1])

    def test_no_secret_in_log_or_audit(self):
        made = self.service.request("POST", "/v1/tokens", {"name": "n", "scopes": ["exec"]}).json
        self.service.exec(self.service.create("wat"), ADD + ";; a-secret-of-the-program")
        with open(os.path.join(self.service.state, "audit.log")) as file:
            text = file.read() + self.service.log_text()
        for secret in (made["token"], self.service.token, "a-secret-of-the-program"):
            self.assertNotIn(secret, text)


class Traces(unittest.TestCase):
    TRACE = "0af7651916cd43dd8448eb211c80319c"

    def test_spans_reach_the_collector(self):
        bodies = []

        class Collector(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector) as collector:
            threading.Thread(target=collector.serve_forever).start()
            service = Service("--traces", f"http://127.0.0.1:{collector.server_port}/v1/traces")
            try:
                given = f"00-{self.TRACE}-b7ad6b7169203331-01"
                answer = service.request("GET", "/health", headers={"traceparent": given})
                service.request("GET", "/v1/sandboxes/sbxaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")
            finally:
                service.stop()  # sends what waits
                service.log.close()
                collector.shutdown()
        version, trace, span, flags = answer.headers["traceparent"].split("-")
        self.assertEqual((version, trace, flags), ("00", self.TRACE, "01"))
        spans = [each for body in bodies for each in body["resourceSpans"][0]["scopeSpans"][0]["spans"]]
        self.assertEqual([each["name"] for each in spans], ["GET /health", "GET /v1/sandboxes/{id}"])
        self.assertEqual(spans[0]["spanId"], span)
        self.assertEqual(spans[0]["parentSpanId"], "b7ad6b7169203331")
        self.assertEqual(len(spans[1]["traceId"]), 32)

    def test_what_a_program_sends_is_a_span_of_its_exec(self):
        bodies, seen = [], []

        class Server(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.answer()

            def do_GET(self):
                seen.append(self.headers["traceparent"])
                self.answer()

            def answer(self):
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
            threading.Thread(target=server.serve_forever).start()
            url = f"http://127.0.0.1:{server.server_port}"
            service = Service("--traces", f"{url}/v1/traces")
            try:
                code = f'(func (export "run") (drop (call $http.get! (string "{url}/of-the-program"))))'
                for carried in (False, True):
                    grant = {"methods": ["GET"], "url": f"{url}/*", "traceparent": carried}
                    sandbox = service.create("wat", policy={"http": [grant]})
                    answer = service.request("POST", f"/v1/sandboxes/{sandbox}/exec", {"code": code},
                                             {"traceparent": f"00-{self.TRACE}-b7ad6b7169203331-01"})
                    self.assertEqual(answer.json["outcome"], "ok", answer.body)
            finally:
                service.stop()
                service.log.close()
                server.shutdown()
        spans = [each for body in bodies for each in body["resourceSpans"][0]["scopeSpans"][0]["spans"]]
        sent = [each for each in spans if each["kind"] == 3]
        execs = {each["spanId"] for each in spans if each["name"].endswith("/exec")}
        self.assertEqual([(each["traceId"], each["name"], each["parentSpanId"] in execs) for each in sent],
                         [(self.TRACE, "GET", True)] * 2)
        self.assertNotIn("of-the-program", json.dumps(sent))
        self.assertEqual(seen, [None, f"00-{self.TRACE}-{sent[1]['spanId']}-01"])


if __name__ == "__main__":
    unittest.main()
