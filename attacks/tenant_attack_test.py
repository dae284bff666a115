"""Attempts of another tenant of the service: to reach a neighbour's objects by their ids, to do more than
its token allows, and to use more than its quota.

The neighbour has a sandbox of Python or JavaScript with a file, a context, an exec, a snapshot, a template
and a secret; the attacker knows all their ids. To the attacker they must not exist: the answer is that of an
unknown id.
"""

import concurrent.futures
import contextlib
import http.client
import json
import os
import socket
import sys
import unittest
from pathlib import Path

from attack import COMMAND, LANGUAGES, MIB, SANITIZED, resident_bytes
from escapes import add_tries, stopped_by

os.environ.setdefault("MEMBRANE_COMMAND", COMMAND)
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "service"))
from service_testing import SECONDS, Service  # noqa: E402

SECRET = "the-neighbours-secret"
ADD = '(module (func (export "run") (result i32) (i32.add (i32.const 2) (i32.const 40))))'
ALL = ["sandboxes:read", "sandboxes:write", "exec", "files:read", "files:write", "policy:widen", "secrets", "logs"]


class Tenants(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.service = Service("--log-level", "silent", environment={"MEMBRANE_LANGUAGES": str(LANGUAGES)})
        cls.neighbour = cls.make_token("neighbour", ALL)
        cls.attacker = cls.make_token("attacker", ALL)
        cls.language = next(name for name in ("javascript", "wat") if cls.service.has_template(name))
        cls.has_state = cls.language != "wat"
        cls.ids = {"sandbox": cls.as_neighbour("POST", "/v1/sandboxes", {"template": cls.language, "labels": [SECRET]})["id"]}
        base = f"/v1/sandboxes/{cls.ids['sandbox']}"
        code = f"var secret = '{SECRET}'; secret" if cls.has_state else ADD
        cls.ids["exec"] = cls.as_neighbour("POST", f"{base}/exec", {"code": code})["exec_id"]
        cls.ids["context"] = cls.as_neighbour("POST", f"{base}/contexts")["id"]
        cls.ids["snapshot"] = cls.as_neighbour("POST", f"{base}/snapshot")["id"]
        cls.as_neighbour("POST", f"/v1/snapshots/{cls.ids['snapshot']}/promote", {"name": "neighbours"})
        cls.as_neighbour("PUT", "/v1/secrets/KEY", {"value": SECRET, "hosts": ["api.example.org"]})
        if cls.has_state:
            cls.service.request("PUT", f"{base}/files?path=/tmp/secret", SECRET, token=cls.neighbour)
        cls.paused = cls.as_neighbour("POST", "/v1/sandboxes", {"template": "wat"})["id"]
        cls.as_neighbour("POST", f"/v1/sandboxes/{cls.paused}/pause")
        # E2B's part of the service knows the sandbox too.
        cls.service.request("GET", "/health", None, {"E2b-Sandbox-Id": cls.ids["sandbox"]}, token=cls.neighbour)
        cls.own = cls.as_attacker("POST", "/v1/sandboxes", {"template": cls.language}).json["id"]

    @classmethod
    def tearDownClass(cls):
        cls.service.stop()
        cls.service.log.close()

    @classmethod
    def make_token(cls, name, scopes, **more):
        answer = cls.service.request("POST", "/v1/tokens", {"name": name, "scopes": scopes, **more})
        assert answer.status == 201, answer.body
        return answer.json["token"]

    @classmethod
    def as_neighbour(cls, method, path, body=None):
        answer = cls.service.request(method, path, body, token=cls.neighbour)
        assert answer.status < 300, answer.body
        return answer.json if answer.body else None

    @classmethod
    def as_attacker(cls, method, path, body=None, headers=None, token=None):
        for name in ("sandbox", "exec", "context", "snapshot"):
            path = path.replace("{" + name + "}", cls.ids.get(name, ""))
        path = path.replace("{paused}", getattr(cls, "paused", "")).replace("{own}", getattr(cls, "own", ""))
        answer = cls.service.request(method, path, body, headers, token=token or cls.attacker)
        is_gone_for_e2b = answer.status == 502 and b"The sandbox was not found" in answer.body  # as E2B says it
        assert answer.status < 500 or is_gone_for_e2b, answer.body
        return answer

    def tearDown(self):
        found = self.service.request("GET", f"/v1/sandboxes/{self.ids['sandbox']}", token=self.neighbour)
        self.assertEqual((found.status, found.json["state"], found.json["labels"]), (200, "idle", [SECRET]))

    def finds_nothing(self, method, path, body=None, headers=None):
        answer = self.as_attacker(method, path, body, headers)
        self.assertNotIn(SECRET.encode(), answer.body)
        self.assertIn(answer.status, (401, 404, 502), answer.body)
        # It reveals no more than for an object that does not exist.
        nowhere = path
        for name in ("sandbox", "exec", "context", "snapshot", "paused"):
            nowhere = nowhere.replace("{" + name + "}", "sbx" + "a" * 32)
        if headers is None:
            self.assertEqual(self.as_attacker(method, nowhere, body).status, answer.status)

    def sees_nothing(self, method, path):
        """A list that contains nothing of the neighbour's."""
        answer = self.as_attacker(method, path)
        self.assertEqual(answer.status, 200, answer.body)
        for word in (SECRET, "neighbours", *self.ids.values(), self.paused):
            self.assertNotIn(word.encode(), answer.body)

    def is_forbidden(self, scopes, method, path, body=None):
        """With these scopes the attacker may not do that, even to its own tenant's objects."""
        token = self.make_token("narrow", scopes)
        answer = self.as_attacker(method, path, body, token=token)
        self.assertEqual(answer.status, 403, answer.body)

    def grants_nothing(self, policy, *allowed):
        answer = self.as_attacker("POST", "/v1/sandboxes", {"template": "wat", "policy": policy})
        self.assertIn(answer.status, allowed or (403, 422), answer.body)


class Ids(Tenants):
    """By the ids of the neighbour's objects."""


class Rights(Tenants):
    """With scopes and policies."""


S = "/v1/sandboxes/{sandbox}"
add_tries(Ids, [(name, "tenants", *more) for name, *more in [
    ("look_at_a_sandbox", "GET", S),
    ("change_a_sandbox", "PATCH", S, {"labels": ["mine"]}),
    ("change_its_environment", "PATCH", S, {"env": {"A": "b"}}),
    ("end_a_sandbox", "DELETE", S),
    ("run_code_in_a_sandbox", "POST", S + "/exec", {"code": "secret"}),
    ("run_code_in_its_context", "POST", "/v1/sandboxes/{own}/exec", {"code": ADD, "context": "ctxaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}),
    ("list_execs", "GET", S + "/execs"),
    ("read_an_exec", "GET", S + "/execs/{exec}"),
    ("read_an_exec_through_its_own_sandbox", "GET", "/v1/sandboxes/{own}/execs/{exec}"),
    ("hear_the_events_of_an_exec", "GET", S + "/execs/{exec}/events"),
    ("hear_events_through_its_own_sandbox", "GET", "/v1/sandboxes/{own}/execs/{exec}/events"),
    ("cancel_an_exec", "DELETE", S + "/execs/{exec}"),
    ("read_a_file", "GET", S + "/files?path=/tmp/secret"),
    ("write_a_file", "PUT", S + "/files?path=/tmp/secret", b"changed"),
    ("remove_a_file", "DELETE", S + "/files?path=/tmp/secret"),
    ("list_files", "GET", S + "/files/list?path=/tmp"),
    ("stat_a_file", "GET", S + "/files/stat?path=/tmp/secret"),
    ("move_a_file", "POST", S + "/files/move", {"from": "/tmp/secret", "to": "/tmp/other"}),
    ("make_a_directory", "POST", S + "/files/mkdir", {"path": "/tmp/mine"}),
    ("take_all_files", "GET", S + "/files/archive?path=/tmp"),
    ("put_files", "PUT", S + "/files/archive?path=/tmp", bytes(1024)),
    ("watch_files", "GET", S + "/files/watch?path=/tmp"),
    ("pause_a_sandbox", "POST", S + "/pause"),
    ("reset_a_sandbox", "POST", S + "/reset", {"snapshot": "snpnosuch"}),
    ("resume_a_sandbox", "POST", "/v1/sandboxes/{paused}/resume"),
    ("snapshot_a_sandbox", "POST", S + "/snapshot"),
    ("snapshot_a_paused_sandbox", "POST", "/v1/sandboxes/{paused}/snapshot"),
    ("fork_a_sandbox", "POST", S + "/fork", {"count": 1}),
    ("open_a_context", "POST", S + "/contexts"),
    ("list_contexts", "GET", S + "/contexts"),
    ("close_a_context", "DELETE", S + "/contexts/{context}"),
    ("close_a_context_through_its_own_sandbox", "DELETE", "/v1/sandboxes/{own}/contexts/{context}"),
    ("read_a_policy", "GET", S + "/policy"),
    ("change_a_policy", "PATCH", S + "/policy", {"limits": {"fuel": 1}}),
    ("look_at_a_snapshot", "GET", "/v1/snapshots/{snapshot}"),
    ("remove_a_snapshot", "DELETE", "/v1/snapshots/{snapshot}"),
    ("promote_a_snapshot", "POST", "/v1/snapshots/{snapshot}/promote", {"name": "mine"}),
    ("begin_from_a_snapshot", "POST", "/v1/sandboxes", {"snapshot": "SNAPSHOT"}),
    ("remove_a_secret", "DELETE", "/v1/secrets/KEY"),
    ("reach_a_sandbox_by_e2bs_header", "GET", "/files?path=/tmp/secret", None, {"E2b-Sandbox-Id": "SANDBOX"}),
    ("run_code_by_e2bs_header", "POST", "/execute", {"code": "secret"}, {"E2b-Sandbox-Id": "SANDBOX"}),
    ("start_a_process_by_e2bs_header", "POST", "/process.Process/List", {}, {"E2b-Sandbox-Id": "SANDBOX"}),
    ("list_a_directory_by_e2bs_header", "POST", "/filesystem.Filesystem/ListDir", {"path": "/tmp"}, {"E2b-Sandbox-Id": "SANDBOX"}),
    ("open_a_context_by_e2bs_header", "POST", "/contexts", {}, {"E2b-Sandbox-Id": "SANDBOX"}),
    ("guess_an_access_token_of_e2b", "GET", "/files?path=/tmp/secret", None,
     {"E2b-Sandbox-Id": "SANDBOX", "X-Access-Token": "SANDBOX"}),
    ("look_at_a_sandbox_through_e2b", "GET", "/sandboxes/{sandbox}"),
    ("end_a_sandbox_through_e2b", "DELETE", "/sandboxes/{sandbox}"),
    ("connect_to_a_sandbox_through_e2b", "POST", "/sandboxes/{sandbox}/connect", {"timeout": 60}),
    ("pause_a_sandbox_through_e2b", "POST", "/sandboxes/{sandbox}/pause"),
    ("extend_a_sandbox_through_e2b", "POST", "/sandboxes/{sandbox}/timeout", {"timeout": 60}),
]], lambda case, method, path, body=None, headers=None: case.finds_nothing(
    method, path, json.loads(json.dumps(body).replace("SNAPSHOT", case.ids["snapshot"])) if isinstance(body, dict) else body,
    {name: value.replace("SANDBOX", case.ids["sandbox"]) for name, value in headers.items()} if headers else None))

add_tries(Ids, [(name, "tenants", "GET", path) for name, path in [
    ("find_a_sandbox_in_the_list", "/v1/sandboxes"),
    ("find_a_sandbox_by_its_label", "/v1/sandboxes?label=" + SECRET),
    ("find_a_snapshot_in_the_list", "/v1/snapshots"),
    ("find_a_template_in_the_list", "/v1/templates"),
    ("find_a_secret_in_the_list", "/v1/secrets"),
    ("find_a_sandbox_in_e2bs_list", "/v2/sandboxes"),
    ("find_its_usage", "/v1/usage"),
    ("find_a_sandbox_in_the_measures", "/metrics"),
]], Tenants.sees_nothing)

add_tries(Rights, [(name, "tokens", *more) for name, *more in [
    ("make_a_token", ALL, "POST", "/v1/tokens", {"name": "x", "scopes": ["admin"]}),
    ("make_a_token_of_the_neighbour", ALL, "POST", "/v1/tokens", {"name": "x", "scopes": ["exec"], "tenant": "neighbour"}),
    ("list_tokens", ALL, "GET", "/v1/tokens"),
    ("remove_a_token", ALL, "DELETE", "/v1/tokens/tokaaaa"),
    ("make_a_sandbox_with_reading_alone", ["sandboxes:read"], "POST", "/v1/sandboxes", {"template": "wat"}),
    ("run_code_without_the_scope", ["sandboxes:read", "sandboxes:write"], "POST", "/v1/sandboxes/{own}/exec", {"code": ADD}),
    ("write_a_file_with_reading_alone", ["files:read"], "PUT", "/v1/sandboxes/{own}/files?path=/x", b"x"),
    ("read_a_file_with_writing_alone", ["files:write"], "GET", "/v1/sandboxes/{own}/files?path=/x"),
    ("put_a_secret_without_the_scope", ["sandboxes:write"], "PUT", "/v1/secrets/X", {"value": "x", "hosts": ["example.org"]}),
    ("read_the_measures_without_the_scope", ["sandboxes:read"], "GET", "/metrics"),
    ("end_a_sandbox_with_reading_alone", ["sandboxes:read", "exec"], "DELETE", "/v1/sandboxes/{own}"),
    ("fork_with_running_alone", ["exec"], "POST", "/v1/sandboxes/{own}/fork"),
    ("make_a_sandbox_through_e2b_with_reading_alone", ["sandboxes:read"], "POST", "/sandboxes", {"templateID": "base"}),
]], Tenants.is_forbidden)

add_tries(Rights, [(name, "policies", policy) for name, policy in [
    ("grant_itself_a_directory", {"fs": [{"guest": "/x", "host": "/etc", "mode": "read"}]}),
    ("grant_itself_the_services_state", {"fs": [{"guest": "/x", "host": "STATE", "mode": "write"}]}),
    ("grant_itself_a_store_in_a_file", {"kv": {"path": "/tmp/x.db"}}),
    ("grant_itself_a_database", {"sql": [{"name": "x", "path": "/etc/passwd"}]}),
    ("grant_itself_the_machines_loopback", {"http": [{"url": "http://127.0.0.1:7400/*", "methods": ["GET"]}]}),
    ("grant_itself_the_machines_metadata", {"http": [{"url": "http://169.254.169.254/*", "methods": ["GET"]}]}),
    ("grant_itself_private_addresses", {"http": [{"url": "http://example.org/*", "methods": ["GET"], "addresses": ["10.0.0.0/8"]}]}),
    ("grant_itself_loopback_in_another_spelling", {"http": [{"url": "http://[::ffff:127.0.0.1]/*", "methods": ["GET"]}]}),
    ("grant_itself_a_variable_of_the_service", {"http": [{"url": "https://example.org/*", "methods": ["GET"],
                                                         "headers": {"X": {"env": "PATH"}}}]}),
    ("send_the_neighbours_secret", {"http": [{"url": "https://api.example.org/*", "methods": ["GET"],
                                             "headers": {"X": {"secret": "KEY"}}}]}),
    ("have_more_memory_than_there_is", {"limits": {"memory": "5GiB"}}),
    ("run_for_a_year", {"limits": {"wall": "9000h"}}),
]], Tenants.grants_nothing)


class More(Tenants):
    @stopped_by("tenants")
    def test_the_neighbours_template(self):
        answer = self.as_attacker("POST", "/v1/sandboxes", {"template": "neighbours"})
        self.assertEqual(answer.status, 422, answer.body)

    @stopped_by("tenants")
    def test_the_neighbours_context_in_its_own_sandbox(self):
        answer = self.as_attacker("POST", "/v1/sandboxes/{own}/exec", {"code": ADD, "context": self.ids["context"]})
        self.assertEqual(answer.status, 404, answer.body)

    @stopped_by("tenants")
    def test_a_cursor_into_the_neighbours_list(self):
        answer = self.as_attacker("GET", f"/v1/sandboxes?limit=1&cursor={self.ids['sandbox']}")
        self.assertNotIn(SECRET.encode(), answer.body)
        self.assertNotIn(self.paused.encode(), answer.body)

    @stopped_by("tenants")
    def test_a_name_like_the_neighbours_secret(self):
        put = self.as_attacker("PUT", "/v1/secrets/KEY", {"value": "mine-and-nobody-elses", "hosts": ["evil.example.org"]})
        self.assertEqual(put.status, 200, put.body)
        found = self.service.request("GET", "/v1/secrets", token=self.neighbour).json["secrets"]
        self.assertEqual([each["hosts"] for each in found], [["api.example.org"]])
        self.assertEqual(self.as_attacker("DELETE", "/v1/secrets/KEY").status, 204)

    @stopped_by("idempotency")
    def test_the_neighbours_key(self):
        body, key = {"template": "wat", "labels": [SECRET]}, {"Idempotency-Key": "the-same"}
        first = self.service.request("POST", "/v1/sandboxes", body, key, token=self.neighbour)
        second = self.as_attacker("POST", "/v1/sandboxes", body, key)
        self.assertEqual((first.status, second.status), (201, 201))
        self.assertNotEqual(first.json["id"], second.json["id"])

    @stopped_by("idempotency")
    def test_keys_that_press_out_the_neighbours(self):
        body, key = {"template": "wat"}, {"Idempotency-Key": "pressed"}
        first = self.service.request("POST", "/v1/sandboxes", body, key, token=self.neighbour).json["id"]
        flood = http.client.HTTPConnection(self.service.host, self.service.port, timeout=SECONDS)
        self.addCleanup(flood.close)
        for number in range(10_100):
            flood.request("POST", "/v1/sandboxes", '{"template":"none"}',
                          {"Authorization": f"Bearer {self.attacker}", "Idempotency-Key": f"flood-{number}"})
            flood.getresponse().read()
        self.assertEqual(self.service.request("POST", "/v1/sandboxes", body, key, token=self.neighbour).json["id"], first)

    @stopped_by("tokens")
    def test_a_token_that_was_removed(self):
        made = self.service.request("POST", "/v1/tokens", {"name": "gone", "scopes": ALL}).json
        self.assertEqual(self.as_attacker("GET", "/v1/sandboxes", token=made["token"]).status, 200)
        self.assertEqual(self.service.request("DELETE", f"/v1/tokens/{made['info']['id']}").status, 204)
        self.assertEqual(self.as_attacker("GET", "/v1/sandboxes", token=made["token"]).status, 401)

    @stopped_by("tokens")
    def test_an_access_token_of_e2b_beyond_its_key(self):
        made = self.service.request("POST", "/v1/tokens", {"name": "key", "scopes": ALL}).json
        sandbox = self.as_attacker("POST", "/sandboxes", {"templateID": "base"}, {"X-API-Key": made["token"]},
                                   token=made["token"])
        self.assertEqual(sandbox.status, 201, sandbox.body)
        headers = {"E2b-Sandbox-Id": sandbox.json["sandboxID"], "X-Access-Token": sandbox.json["envdAccessToken"]}
        self.assertEqual(self.service.request("GET", "/health", None, headers, token=False).status, 204)
        self.service.request("DELETE", f"/v1/tokens/{made['info']['id']}")
        self.assertEqual(self.service.request("GET", "/health", None, headers, token=False).status, 401)

    @stopped_by("tokens")
    def test_a_scope_that_there_is_not(self):
        for scope in ("*", "root", "admin ", "ADMIN", ""):
            answer = self.service.request("POST", "/v1/tokens", {"name": "x", "scopes": [scope]})
            self.assertIn(answer.status, (400, 422), answer.body)

    @stopped_by("policies")
    def test_widening_without_the_scope(self):
        token = self.make_token("narrow", ["sandboxes:read", "sandboxes:write", "exec"])
        sandbox = self.as_attacker("POST", "/v1/sandboxes", {"template": "wat", "policy": {"limits": {"fuel": 1000}}},
                                   token=token).json["id"]
        for policy in ({"limits": {"fuel": 100_000}},
                       {"limits": {"fuel": 1000}, "http": [{"url": "https://example.org/*", "methods": ["GET"]}]}):
            answer = self.as_attacker("PATCH", f"/v1/sandboxes/{sandbox}/policy", policy, token=token)
            self.assertEqual(answer.status, 403, answer.body)

    @stopped_by("policies")
    def test_widening_by_way_of_a_snapshot(self):
        token = self.make_token("narrow", ["sandboxes:read", "sandboxes:write", "exec"])
        sandbox = self.as_attacker("POST", "/v1/sandboxes", {"template": "wat", "policy": {"limits": {"fuel": 1000}}},
                                   token=token).json["id"]
        snapshot = self.as_attacker("POST", f"/v1/sandboxes/{sandbox}/snapshot", token=token).json["id"]
        wider = {"limits": {"fuel": 100_000}, "http": [{"url": "https://example.org/*", "methods": ["GET"]}]}
        answer = self.as_attacker("POST", "/v1/sandboxes", {"snapshot": snapshot, "policy": wider}, token=token)
        self.assertEqual(answer.status, 403, answer.body)
        fork = self.as_attacker("POST", f"/v1/sandboxes/{sandbox}/fork", token=token).json["sandboxes"][0]["id"]
        answer = self.as_attacker("PATCH", f"/v1/sandboxes/{fork}/policy", wider, token=token)
        self.assertEqual(answer.status, 403, answer.body)


class Quotas(Tenants):
    def tenant(self, **quotas):
        return self.make_token("bounded", ALL, quotas=quotas)

    def is_full(self, answer):
        self.assertEqual((answer.status, answer.error["code"]), (429, "quota_exceeded"), answer.body)

    @stopped_by("quotas")
    def test_sandboxes_by_forks(self):
        token = self.tenant(sandboxes=2)
        sandbox = self.as_attacker("POST", "/v1/sandboxes", {"template": "wat"}, token=token).json["id"]
        self.is_full(self.as_attacker("POST", f"/v1/sandboxes/{sandbox}/fork", {"count": 2}, token=token))
        self.assertEqual(len(self.as_attacker("GET", "/v1/sandboxes", token=token).json["sandboxes"]), 1)

    @stopped_by("quotas")
    def test_sandboxes_by_pausing(self):
        token = self.tenant(sandboxes=1)
        sandbox = self.as_attacker("POST", "/v1/sandboxes", {"template": "wat"}, token=token).json["id"]
        self.as_attacker("POST", f"/v1/sandboxes/{sandbox}/pause", token=token)
        self.is_full(self.as_attacker("POST", "/v1/sandboxes", {"template": "wat"}, token=token))

    @stopped_by("quotas")
    def test_sandboxes_by_snapshots(self):
        token = self.tenant(sandboxes=1)
        sandbox = self.as_attacker("POST", "/v1/sandboxes", {"template": "wat"}, token=token).json["id"]
        snapshot = self.as_attacker("POST", f"/v1/sandboxes/{sandbox}/snapshot", token=token).json["id"]
        self.is_full(self.as_attacker("POST", "/v1/sandboxes", {"snapshot": snapshot}, token=token))

    @stopped_by("quotas")
    def test_sandboxes_by_e2bs_interface(self):
        token = self.tenant(sandboxes=1)
        self.as_attacker("POST", "/v1/sandboxes", {"template": "wat"}, token=token)
        answer = self.as_attacker("POST", "/sandboxes", {"templateID": "base"}, {"X-API-Key": token}, token=token)
        self.assertEqual(answer.status, 429, answer.body)

    @stopped_by("quotas")
    def test_sandboxes_at_once(self):
        token = self.tenant(sandboxes=3)
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(lambda _: self.as_attacker("POST", "/v1/sandboxes", {"template": "wat"}, token=token).status,
                                    range(32)))
        self.assertEqual(answers.count(201), 3, answers)

    @stopped_by("quotas")
    def test_memory_by_a_wider_policy(self):
        token = self.tenant(memory_bytes=100 << 20)
        sandbox = self.as_attacker("POST", "/v1/sandboxes", {"template": "wat", "policy": {"limits": {"memory": "64MiB"}}},
                                   token=token).json["id"]
        self.is_full(self.as_attacker("PATCH", f"/v1/sandboxes/{sandbox}/policy", {"limits": {"memory": "1GiB"}}, token=token))

    @stopped_by("quotas")
    def test_fuel_by_another_sandbox(self):
        token = self.tenant(fuel_a_day=10_000)
        loop = '(module (func (export "run") (loop $again (br $again))))'
        answers = []
        while not answers or answers[-1].status == 200:
            sandbox = self.as_attacker("POST", "/v1/sandboxes", {"template": "wat", "policy": {"limits": {"fuel": 10_000}}},
                                       token=token).json["id"]
            answers.append(self.as_attacker("POST", f"/v1/sandboxes/{sandbox}/exec", {"code": loop}, token=token))
        self.assertEqual({answer.json["outcome"] for answer in answers[:-1]}, {"out_of_fuel"})
        self.assertLessEqual(sum(answer.json["fuel_used"] for answer in answers[:-1]), 10_000)
        self.is_full(answers[-1])

    @stopped_by("quotas")
    def test_a_quota_by_a_second_token(self):
        first = self.make_token("first", ALL, tenant="twice", quotas={"sandboxes": 1})
        second = self.make_token("second", ALL, tenant="twice")
        self.as_attacker("POST", "/v1/sandboxes", {"template": "wat"}, token=first)
        self.is_full(self.as_attacker("POST", "/v1/sandboxes", {"template": "wat"}, token=second))


# Prints twelve megabytes, one page of 64 KiB after another.
PRINTS = """(import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
(memory (export "memory") 2) (data (i32.const 0) "\\10\\00\\00\\00\\00\\00\\01\\00")
(func (export "_start") (local $i i32)
  (memory.fill (i32.const 16) (i32.const 120) (i32.const 65536))
  (loop $again
    (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))
    (br_if $again (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 192)))))"""
LOOP = '(func (export "run") (loop $again (br $again)))'


@unittest.skipIf(SANITIZED, "measures memory, of which a sanitizer takes its own")
class Hoards(Tenants):
    """What a tenant makes the service keep in its own memory, with sandboxes that are each within their
    limits."""

    MOST_GROWTH = 640 * MIB  # 256 MiB are a tenant's; what runs at this moment, and the allocator's pages, come to the rest

    def setUp(self):
        self.before = resident_bytes(self.service.process.pid)
        limits = {"output": "16MiB", "wall": "1h", "fuel": 10**15}
        body = {"template": "wat", "policy": {"limits": limits}}
        self.all = []
        while len(self.all) < 40:
            answer = self.as_attacker("POST", "/v1/sandboxes", body)
            self.assertIn(answer.status, (201, 429), answer.body)  # while requests of the try before it are under way
            if answer.status == 201:
                self.all.append(answer.json["id"])

    def tearDown(self):
        grown = resident_bytes(self.service.process.pid) - self.before
        for sandbox in self.all:
            while self.as_attacker("DELETE", f"/v1/sandboxes/{sandbox}").status == 429:
                pass
        super().tearDown()
        self.assertLess(grown, self.MOST_GROWTH)

    def exec_in(self, sandbox, code, **more):
        return self.as_attacker("POST", f"/v1/sandboxes/{sandbox}/exec", {"code": code, **more})

    @stopped_by("quotas")
    def test_output_that_is_kept(self):
        for sandbox in self.all:
            self.assertEqual(len(self.exec_in(sandbox, PRINTS).json["stdout"]), 12 * MIB)
        kept = [self.as_attacker("GET", f"/v1/sandboxes/{sandbox}/execs").json["execs"] for sandbox in self.all]
        self.assertEqual(kept[0], [])
        self.assertEqual(len(kept[-1]), 1)

    @stopped_by("quotas")
    def test_streams_that_nobody_reads(self):
        exec_id = self.exec_in(self.all[0], PRINTS).json["exec_id"]
        head = (f"GET /v1/sandboxes/{self.all[0]}/execs/{exec_id}/events HTTP/1.1\r\nHost: x\r\n"
                f"Authorization: Bearer {self.attacker}\r\nLast-Event-ID: 100\r\n\r\n").encode()
        with contextlib.ExitStack() as all_of_them:
            for _ in range(100):
                connection = socket.create_connection((self.service.host, self.service.port), SECONDS)
                all_of_them.enter_context(contextlib.closing(connection)).sendall(head)
            self.as_neighbour("GET", "/v1/sandboxes")  # after those before it
            self.assertLess(resident_bytes(self.service.process.pid) - self.before, self.MOST_GROWTH)

    @stopped_by("quotas")
    def test_requests_whose_clients_go(self):
        for sandbox in self.all[:16]:
            self.exec_in(sandbox, LOOP, background=True)
        for sandbox in self.all[:16]:
            for _ in range(62):
                with socket.create_connection((self.service.host, self.service.port), SECONDS) as connection:
                    connection.sendall((f"POST /v1/sandboxes/{sandbox}/exec HTTP/1.1\r\nHost: x\r\nContent-Type: application/json"
                                        f"\r\nAuthorization: Bearer {self.attacker}\r\nContent-Length: 11\r\n\r\n"
                                        '{"code":""}').encode())
        self.as_neighbour("GET", "/v1/sandboxes")

    @stopped_by("quotas")
    def test_code_that_waits(self):
        long = LOOP + " " * (12 * MIB)
        answers = []
        for sandbox in self.all:
            self.exec_in(sandbox, LOOP, background=True)
            answers.append(self.exec_in(sandbox, long, background=True).status)
        self.assertIn(429, answers)
        self.assertEqual(set(answers), {202, 429})
        self.as_neighbour("POST", f"/v1/sandboxes/{self.ids['sandbox']}/exec", {"code": "1" if self.has_state else ADD})


if __name__ == "__main__":
    unittest.main()
