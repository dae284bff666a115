"""Sandboxes beyond their execs: kept, forked, with contexts, files, environments and policies that change.

python3 service/lifecycle_test.py [Class]
"""

import http.client
import http.server
import io
import json
import sys
import tarfile
import threading
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from service_testing import SECONDS, ServiceTest  # noqa: E402

ADD = '(module (func (export "run") (result i32) (i32.add (i32.const 2) (i32.const 40))))'
LOOP = '(module (func (export "run") (loop $again (br $again))))'
LONG = {"limits": {"fuel": 10**15, "wall": "1h"}}


class SandboxTest(ServiceTest):
    def post(self, path, body=None, **more):
        return self.service.request("POST", f"/v1{path}", body, **more)

    def made(self, answer, status=200):
        self.assertEqual(answer.status, status, answer.body)
        return answer.json

    def python(self, **spec):
        if not self.service.has_template("python"):
            self.skipTest("Python is not installed")
        return self.service.create("python", **spec)

    def result(self, sandbox, code, **spec):
        report = self.service.exec(sandbox, code, **spec)
        self.assertEqual(report["outcome"], "ok", report)
        return report.get("result")


class Kept(SandboxTest):
    def test_a_paused_sandbox_continues_where_it_was(self):
        sandbox = self.python()
        self.service.exec(sandbox, "x = 20\nopen('/tmp/f', 'w').write('kept')")
        self.assertEqual(self.made(self.post(f"/sandboxes/{sandbox}/pause"))["state"], "paused")
        self.assertEqual(self.service.request("GET", f"/v1/sandboxes/{sandbox}").json["state"], "paused")
        listed = self.service.request("GET", "/v1/sandboxes?state=paused").json["sandboxes"]
        self.assertIn(sandbox, [each["id"] for each in listed])
        self.refused(self.post(f"/sandboxes/{sandbox}/exec", {"code": "x"}), 409, "conflict")
        self.refused(self.post(f"/sandboxes/{sandbox}/pause"), 409, "conflict")
        self.assertEqual(self.made(self.post(f"/sandboxes/{sandbox}/resume"))["state"], "idle")
        self.assertEqual(self.result(sandbox, "x + 22, open('/tmp/f').read()"), "(42, 'kept')")
        self.refused(self.post(f"/sandboxes/{sandbox}/resume"), 409, "conflict")

    def test_a_paused_sandbox_can_be_ended(self):
        sandbox = self.python()
        self.made(self.post(f"/sandboxes/{sandbox}/pause"))
        self.assertEqual(self.service.request("DELETE", f"/v1/sandboxes/{sandbox}").status, 204)
        self.refused(self.post(f"/sandboxes/{sandbox}/resume"), 404, "not_found")

    def test_a_sandbox_goes_back_to_a_snapshot(self):
        sandbox, other = self.python(), self.python()
        self.service.exec(sandbox, "x = 1")
        snapshot = self.service.request("POST", f"/v1/sandboxes/{sandbox}/snapshot").json["id"]
        self.service.exec(sandbox, "x = 2\nopen('/tmp/later', 'w').close()")
        self.assertEqual(self.made(self.post(f"/sandboxes/{sandbox}/reset", {"snapshot": snapshot}))["id"], sandbox)
        self.assertEqual(self.result(sandbox, "x, __import__('os').path.exists('/tmp/later')"), "(1, False)")
        self.made(self.post(f"/sandboxes/{other}/reset", {"snapshot": snapshot}))
        self.assertEqual(self.result(other, "x"), "1")
        self.refused(self.post(f"/sandboxes/{sandbox}/reset", {"snapshot": "snpnosuch"}), 422, "invalid_value")
        self.refused(self.post(f"/sandboxes/{sandbox}/reset", {}), 422, "invalid_value")
        self.made(self.post(f"/sandboxes/{sandbox}/pause"))
        self.refused(self.post(f"/sandboxes/{sandbox}/reset", {"snapshot": snapshot}), 409, "conflict")

    def test_forks_continue_each_for_itself(self):
        sandbox = self.python(labels=["l"], metadata={"m": "1"})
        self.service.exec(sandbox, "import random\nx = 1")
        forks = self.made(self.post(f"/sandboxes/{sandbox}/fork", {"count": 3}), 201)["sandboxes"]
        self.assertEqual([(each["labels"], each["metadata"]) for each in forks], [(["l"], {"m": "1"})] * 3)
        ids = [each["id"] for each in forks]
        self.assertEqual(len({sandbox, *ids}), 4)
        for number, fork in enumerate(ids):
            self.service.exec(fork, f"x += {number + 1}")
        self.assertEqual([self.result(each, "x") for each in [sandbox, *ids]], ["1", "2", "3", "4"])
        self.assertEqual(len({self.result(each, "random.random()") for each in [sandbox, *ids]}), 4)
        more = self.made(self.post(f"/sandboxes/{sandbox}/fork"), 201)["sandboxes"]
        self.assertEqual(len(more), 1)
        self.refused(self.post(f"/sandboxes/{sandbox}/fork", {"count": 0}), 422, "invalid_value")
        self.refused(self.post("/sandboxes/none/fork"), 404, "not_found")

    def test_what_has_no_state_is_paused_and_forked_too(self):
        sandbox = self.service.create("wat")
        fork = self.made(self.post(f"/sandboxes/{sandbox}/fork"), 201)["sandboxes"][0]["id"]
        self.made(self.post(f"/sandboxes/{fork}/pause"))
        self.made(self.post(f"/sandboxes/{fork}/resume"))
        self.assertEqual(self.service.exec(fork, ADD)["results"][0]["value"], 42)

    def test_snapshots_are_what_new_sandboxes_begin_as(self):
        sandbox = self.python(env={"A": "1"})
        self.service.exec(sandbox, "x = 'then'")
        snapshot = self.made(self.post(f"/sandboxes/{sandbox}/snapshot"), 201)
        self.assertEqual((snapshot["sandbox"], snapshot["template"], snapshot["name"]), (sandbox, "python", None))
        self.assertGreater(snapshot["size_bytes"], 0)
        self.service.exec(sandbox, "x = 'now'")
        new = self.made(self.post("/sandboxes", {"snapshot": snapshot["id"], "env": {"B": "2"}}), 201)["id"]
        self.assertEqual(self.result(new, "import os\nx, os.environ['A'], os.environ['B']"), "('then', '1', '2')")
        path = f"/v1/snapshots/{snapshot['id']}"
        self.assertEqual(self.service.request("GET", path).json, snapshot)
        self.assertIn(snapshot, self.service.request("GET", "/v1/snapshots").json["snapshots"])
        self.assertEqual(self.service.request("DELETE", path).status, 204)
        self.refused(self.service.request("GET", path), 404, "not_found")
        self.refused(self.post("/sandboxes", {"snapshot": snapshot["id"]}), 404, "not_found")
        self.assertEqual(self.result(new, "x"), "'then'")
        self.refused(self.post("/sandboxes", {"snapshot": "a", "template": "python"}), 422, "invalid_value")
        self.refused(self.post("/sandboxes", {}), 422, "invalid_value")

    def test_a_snapshot_of_a_paused_sandbox(self):
        sandbox = self.python()
        self.service.exec(sandbox, "x = 5")
        self.made(self.post(f"/sandboxes/{sandbox}/pause"))
        snapshot = self.made(self.post(f"/sandboxes/{sandbox}/snapshot"), 201)
        self.made(self.post(f"/sandboxes/{sandbox}/resume"))
        self.service.request("DELETE", f"/v1/sandboxes/{sandbox}")
        new = self.made(self.post("/sandboxes", {"snapshot": snapshot["id"]}), 201)["id"]
        self.assertEqual(self.result(new, "x"), "5")

    def test_a_promoted_snapshot_is_a_template(self):
        sandbox = self.python()
        self.service.exec(sandbox, "ready = True")
        snapshot = self.made(self.post(f"/sandboxes/{sandbox}/snapshot"), 201)["id"]
        self.assertEqual(self.made(self.post(f"/snapshots/{snapshot}/promote", {"name": "warm"}))["name"], "warm")
        self.assertTrue(self.service.has_template("warm"))
        self.assertEqual(self.result(self.service.create("warm"), "ready"), "True")
        other = self.made(self.post(f"/sandboxes/{sandbox}/snapshot"), 201)["id"]
        self.refused(self.post(f"/snapshots/{other}/promote", {"name": "warm"}), 409, "conflict")
        self.refused(self.post(f"/snapshots/{other}/promote", {"name": "python"}), 409, "conflict")
        self.refused(self.post(f"/snapshots/{other}/promote", {"name": "A B"}), 422, "invalid_value")

    def test_a_snapshot_stays_while_a_template_is_made_of_it(self):
        snapshot = self.made(self.post(f"/sandboxes/{self.service.create('wat')}/snapshot"), 201)["id"]
        self.made(self.post(f"/snapshots/{snapshot}/promote", {"name": "kept-on"}))
        error = self.refused(self.service.request("DELETE", f"/v1/snapshots/{snapshot}"), 409, "conflict")
        self.assertIn("kept-on", error["message"])
        self.assertIn("DELETE /v1/templates/kept-on", error["hint"])
        self.service.create("kept-on")
        self.assertEqual(self.service.request("DELETE", "/v1/templates/kept-on").status, 204)
        self.refused(self.service.request("DELETE", "/v1/templates/kept-on"), 404, "not_found")
        self.refused(self.service.request("DELETE", "/v1/templates/wat"), 409, "conflict")
        self.assertFalse(self.service.has_template("kept-on"))
        self.assertIsNone(self.service.request("GET", f"/v1/snapshots/{snapshot}").json["name"])
        self.assertEqual(self.service.request("DELETE", f"/v1/snapshots/{snapshot}").status, 204)

    def test_what_a_service_has_not_is_not_granted(self):
        sandbox = self.service.create("wat")
        for policy, word in (({"ai": {}}, "model"), ({"ask": True}, "nobody to ask")):
            for answer in (self.post("/sandboxes", {"template": "wat", "policy": policy}),
                           self.service.request("PATCH", f"/v1/sandboxes/{sandbox}/policy", policy)):
                error = self.refused(answer, 422, "unsupported")
                self.assertIn(word, error["message"])
                self.assertIn("Leave it out", error["hint"])

    def test_an_unknown_template(self):
        error = self.refused(self.post("/sandboxes", {"template": "zzzzzzzz"}), 422, "invalid_value")
        self.assertEqual((error["message"], error["hint"]), ("there is no template zzzzzzzz", "GET /v1/templates lists them."))
        error = self.refused(self.post(f"/sandboxes/{self.python()}/contexts", {"template": "zzzzzzzz"}), 422, "invalid_value")
        self.assertEqual((error["message"], error["hint"]), ("there is no template zzzzzzzz", "GET /v1/templates lists them."))

    def test_snapshots_of_others_are_not_found(self):
        sandbox = self.python()
        snapshot = self.made(self.post(f"/sandboxes/{sandbox}/snapshot"), 201)["id"]
        self.made(self.post(f"/snapshots/{snapshot}/promote", {"name": "mine"}))
        token = self.post("/tokens", {"name": "t", "scopes": ["sandboxes:read", "sandboxes:write"]}).json["token"]
        ask = self.service.request
        self.refused(ask("GET", f"/v1/snapshots/{snapshot}", token=token), 404, "not_found")
        self.refused(ask("DELETE", f"/v1/snapshots/{snapshot}", token=token), 404, "not_found")
        self.refused(ask("POST", f"/v1/snapshots/{snapshot}/promote", {"name": "x"}, token=token), 404, "not_found")
        self.refused(ask("DELETE", "/v1/templates/mine", token=token), 404, "not_found")
        self.refused(ask("POST", "/v1/sandboxes", {"snapshot": snapshot}, token=token), 404, "not_found")
        self.refused(ask("POST", "/v1/sandboxes", {"template": "mine"}, token=token), 422, "invalid_value")
        self.assertEqual(ask("GET", "/v1/snapshots", token=token).json, {"snapshots": []})


class Contexts(SandboxTest):
    def tenant(self, name, memory_bytes):
        """A token for a tenant with this quota of memory."""
        token = self.made(self.post("/tokens", {
            "name": "t", "tenant": name, "scopes": ["sandboxes:read", "sandboxes:write", "exec"],
            "quotas": {"memory_bytes": memory_bytes}}), 201)["token"]
        return lambda method, path, body=None: self.service.request(method, "/v1/sandboxes" + path, body, token=token)

    def test_contexts_count_in_the_quota_of_memory(self):
        limit = 256 << 20
        ask = self.tenant("of contexts", 4 * limit)
        sandbox = ask("POST", "", {"template": "python", "policy": {"limits": {"memory": limit}}}).json["id"]
        context = ask("POST", f"/{sandbox}/contexts", {}).json["id"]
        self.assertEqual(ask("POST", f"/{sandbox}/contexts", {}).status, 201)
        self.refused(ask("POST", f"/{sandbox}/fork", {}), 429, "quota_exceeded")
        self.assertEqual(ask("DELETE", f"/{sandbox}/contexts/{context}").status, 204)
        (fork,) = ask("POST", f"/{sandbox}/fork", {}).json["sandboxes"]
        self.refused(ask("POST", f"/{sandbox}/contexts", {}), 429, "quota_exceeded")
        snapshot = ask("POST", f"/{sandbox}/snapshot").json["id"]
        self.assertEqual(ask("DELETE", f"/{fork['id']}").status, 204)
        self.refused(ask("PATCH", f"/{sandbox}/policy", {"limits": {"memory": 3 * limit}}), 403, "forbidden")
        self.assertEqual(ask("PATCH", f"/{sandbox}/policy", {"limits": {"memory": limit // 2}}).status, 200)
        self.assertEqual(ask("POST", "", {"snapshot": snapshot}).status, 201)
        self.assertEqual(ask("POST", f"/{sandbox}/contexts", {}).status, 201)
        self.refused(ask("POST", "", {"snapshot": snapshot}), 429, "quota_exceeded")

    def test_receipts_to_come_count_in_the_quota_of_memory(self):
        limit = 64 << 20
        ask = self.tenant("of receipts", 2 * limit)
        spec = {"template": "wat", "policy": {"limits": {"memory": limit}}}
        sealing = ask("POST", "", {**spec, "seal": True}).json["id"]
        self.refused(ask("POST", "", spec), 429, "quota_exceeded")  # what its next receipt is of counts
        self.assertEqual(ask("DELETE", f"/{sealing}").status, 204)
        plain = [ask("POST", "", spec).json["id"] for _ in range(2)]
        run = {"code": '(func (export "run"))', "seal": True}
        report = ask("POST", f"/{plain[0]}/exec", run).json
        self.assertEqual((report["outcome"], report["error"]["code"]), ("failed", "quota_exceeded"))
        self.assertEqual(ask("DELETE", f"/{plain[1]}").status, 204)
        self.assertIn("receipt", ask("POST", f"/{plain[0]}/exec", run).json)
        self.assertEqual(ask("POST", "", spec).status, 201)  # a run holds it for its time

    def test_a_file_of_another_context_is_named(self):
        sandbox = self.service.create("python")
        context = self.made(self.post(f"/sandboxes/{sandbox}/contexts"), 201)["id"]
        self.service.exec(sandbox, "open('/tmp/only', 'w').write('x')", context=context)
        path = f"/v1/sandboxes/{sandbox}/files?path=/tmp/only"
        error = self.refused(self.service.request("GET", path), 404, "not_found")
        self.assertIn(f'"context": "{context}"', error["hint"])
        self.assertEqual(self.service.request("GET", f"{path}&context={context}").body, b"x")
        error = self.refused(self.service.request("GET", f"/v1/sandboxes/{sandbox}/files?path=/tmp/none"), 404, "not_found")
        self.assertNotIn("context", error["hint"])

    def test_contexts_have_a_state_of_their_own(self):
        sandbox = self.python(env={"A": "1"})
        context = self.made(self.post(f"/sandboxes/{sandbox}/contexts"), 201)
        self.assertEqual(context["template"], "python")
        self.service.exec(sandbox, "x = 1")
        self.service.exec(sandbox, "x = 2", context=context["id"])
        self.assertEqual(self.result(sandbox, "x"), "1")
        self.assertEqual(self.result(sandbox, "import os\nx, os.environ['A']", context=context["id"]), "(2, '1')")
        self.assertEqual(self.service.request("GET", f"/v1/sandboxes/{sandbox}/contexts").json["contexts"], [context])
        fork = self.made(self.post(f"/sandboxes/{sandbox}/fork"), 201)["sandboxes"][0]["id"]
        self.made(self.post(f"/sandboxes/{fork}/pause"))
        self.made(self.post(f"/sandboxes/{fork}/resume"))
        self.assertEqual(self.result(fork, "x", context=context["id"]), "2")
        path = f"/v1/sandboxes/{sandbox}/contexts/{context['id']}"
        self.assertEqual(self.service.request("DELETE", path).status, 204)
        self.refused(self.service.request("DELETE", path), 404, "not_found")
        self.refused(self.post(f"/sandboxes/{sandbox}/exec", {"code": "x", "context": context["id"]}), 404, "not_found")

    def test_of_another_language(self):
        sandbox = self.python()
        if not self.service.has_template("javascript"):
            self.skipTest("JavaScript is not installed")
        context = self.made(self.post(f"/sandboxes/{sandbox}/contexts", {"template": "javascript"}), 201)["id"]
        self.assertEqual(self.result(sandbox, "[1, 2].map((n) => n * 2).join()", context=context), "'2,4'")

    def test_wat_has_none(self):
        self.refused(self.post(f"/sandboxes/{self.service.create('wat')}/contexts"), 422, "unsupported")


class Environments(SandboxTest):
    def test_programs_find_them(self):
        for template, code in (("python", "import os\nos.environ.get('A')"), ("javascript", "process.env.A")):
            if not self.service.has_template(template):
                continue
            with self.subTest(template=template):
                sandbox = self.service.create(template, env={"A": "one \"two\"\n\u00e9", "__proto__": "x"})
                self.assertIn("one", self.result(sandbox, code))
                self.assertIn("other", self.result(sandbox, code, env={"A": "other"}))
                self.assertIn("one", self.result(sandbox, code))
                self.assertIn("three", self.result(sandbox, code, env={"A": "three"}))
                changed = self.service.request("PATCH", f"/v1/sandboxes/{sandbox}", {"env": {"B": "2"}})
                self.made(changed)
                self.assertIn(self.service.exec(sandbox, code).get("result"), (None, "", "undefined", "None"))

    def test_that_cannot_be_set_are_not_there_afterwards(self):
        sandbox = self.python()
        self.result(sandbox, "import os\nput = os.environ.encodevalue\n"
                             "def refuse(value):\n    if value == '3': raise OSError('no room')\n    return put(value)\n"
                             "os.environ.encodevalue = refuse")
        report = self.service.exec(sandbox, "1", env={"V1": "1", "V2": "2", "V3": "3", "V4": "4"})
        self.assertEqual(report["outcome"], "invalid")
        self.assertEqual(report["error"]["message"], "the environment could not be set: OSError: no room")
        self.assertNotIn("fuel", report["error"]["hint"])
        self.assertEqual(self.result(sandbox, "[name for name in os.environ if name.startswith('V')]"), "[]")
        sandbox = self.service.create("python", policy={"limits": {"fuel": 3_000_000}})
        report = self.service.exec(sandbox, "1", env={f"V{i}": "x" * 30 for i in range(250)})
        self.assertIn("larger policy.limits.fuel", report["error"]["hint"])

    def test_invalid_names(self):
        for env in ({"": "x"}, {"A=B": "x"}, {"A\0": "x"}, {"A": "x\0"}):
            self.refused(self.post("/sandboxes", {"template": "wat", "env": env}), 422, "invalid_value")


class Files(SandboxTest):
    def files(self, sandbox, what, **query):
        words = "&".join(f"{name}={value}" for name, value in query.items())
        return self.service.request("GET", f"/v1/sandboxes/{sandbox}/files/{what}?{words}")

    def test_are_made_seen_moved_and_removed(self):
        sandbox = self.python()
        base = f"/sandboxes/{sandbox}/files"
        made = self.made(self.post(f"{base}/mkdir", {"path": "/made/in"}))
        self.assertEqual((made["path"], made["type"]), ("/made/in", "directory"))
        self.assertEqual(self.service.request("PUT", f"/v1{base}?path=/made/in/a.txt", b"abc").status, 204)
        fact = self.made(self.files(sandbox, "stat", path="/made/in/a.txt"))
        self.assertEqual((fact["type"], fact["size_bytes"]), ("file", 3))
        moved = self.made(self.post(f"{base}/move", {"from": "/made/in/a.txt", "to": "/made/b.txt"}))
        self.assertEqual(moved["path"], "/made/b.txt")
        self.assertEqual(self.result(sandbox, "import os\nsorted(os.listdir('/made')), open('/made/b.txt').read()"),
                         "(['b.txt', 'in'], 'abc')")
        names = [each["path"] for each in self.made(self.files(sandbox, "list", path="/made"))["files"]]
        self.assertEqual(names, ["/made/b.txt", "/made/in"])
        self.service.request("PUT", f"/v1{base}?path=/made/in/deep/c", b"")
        names = [each["path"] for each in self.made(self.files(sandbox, "list", path="/made", recursive="true"))["files"]]
        self.assertEqual(names, ["/made/b.txt", "/made/in", "/made/in/deep", "/made/in/deep/c"])
        self.assertIn("/made/b.txt", [each["path"] for each in self.made(self.files(sandbox, "list"))["files"]])
        self.refused(self.service.request("DELETE", f"/v1{base}?path=/made"), 409, "conflict")
        self.assertEqual(self.service.request("DELETE", f"/v1{base}?path=/made&recursive=true").status, 204)
        self.refused(self.files(sandbox, "stat", path="/made"), 404, "not_found")
        self.refused(self.files(sandbox, "stat", path="work"), 422, "invalid_value")
        self.refused(self.files(sandbox, "list", path="/none"), 404, "not_found")
        self.refused(self.service.request("DELETE", f"/v1{base}?path=/"), 422, "invalid_value")
        self.refused(self.service.request("DELETE", f"/v1{base}?path=/dev/null"), 403, "forbidden")

    def test_archives_go_up_and_down(self):
        sandbox = self.python()
        path = f"/v1/sandboxes/{sandbox}/files/archive?path=/in"
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            for name, text in (("a.txt", b"1"), ("d/b.txt", b"22")):
                entry = tarfile.TarInfo(name)
                entry.size = len(text)
                archive.addfile(entry, io.BytesIO(text))
        self.assertEqual(self.service.request("PUT", path, packed.getvalue()).status, 204)
        self.assertEqual(self.result(sandbox, "open('/in/d/b.txt').read()"), "'22'")
        down = self.service.request("GET", path)
        self.assertEqual((down.status, down.headers["Content-Type"]), (200, "application/x-tar"))
        with tarfile.open(fileobj=io.BytesIO(down.body)) as archive:
            self.assertEqual(sorted(archive.getnames()), ["a.txt", "d", "d/b.txt"])
            self.assertEqual(archive.extractfile("d/b.txt").read(), b"22")
        outside = io.BytesIO()
        with tarfile.open(fileobj=outside, mode="w") as archive:
            archive.addfile(tarfile.TarInfo("ok.txt"))
            archive.addfile(tarfile.TarInfo("../out.txt"))
        self.refused(self.service.request("PUT", path, outside.getvalue()), 422, "invalid_value")
        self.refused(self.files(sandbox, "stat", path="/in/ok.txt"), 404, "not_found")
        self.refused(self.service.request("PUT", path, b"no archive at all, but some bytes"), 422, "invalid_value")

    def test_a_watch_reports_what_changed(self):
        sandbox = self.python()
        self.made(self.post(f"/sandboxes/{sandbox}/files/mkdir", {"path": "/w"}))
        connection = http.client.HTTPConnection(self.service.host, self.service.port, timeout=SECONDS)
        connection.request("GET", f"/v1/sandboxes/{sandbox}/files/watch?path=/w", None,
                           {"Authorization": f"Bearer {self.service.token}"})
        stream = connection.getresponse()
        self.assertEqual(stream.status, 200)
        self.assertEqual(stream.readline(), b": watching\n")
        for code in ("open('/w/a', 'w').write('1')", "open('/w/a', 'w').write('22')", "import os\nos.remove('/w/a')"):
            self.service.exec(sandbox, code)
        self.service.request("DELETE", f"/v1/sandboxes/{sandbox}")
        events = []
        for block in stream.read().decode().strip().split("\n\n"):
            fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
            if fields:
                events.append((fields["event"], json.loads(fields["data"])["path"]))
        self.assertEqual(events, [("created", "/w/a"), ("changed", "/w/a"), ("removed", "/w/a")])
        connection.close()


class Clocks(SandboxTest):
    def test_the_real_one_by_policy(self):
        year = "import datetime\nprint(datetime.datetime.now().year)"
        virtual, real = self.python(), self.python(policy={"time": {"real": True}})
        self.assertEqual(self.service.exec(virtual, year)["stdout"], "2000\n")
        self.assertGreaterEqual(int(self.service.exec(real, year)["stdout"]), 2026)


class Policies(SandboxTest):
    KV = {"kv": {}}

    def test_less_is_anybodys_and_more_is_the_owners(self):
        sandbox = self.python(policy={"http": [{"methods": ["GET"], "url": "https://example.org/*"}]})
        token = self.post("/tokens", {"name": "t", "tenant": "owner",
                                      "scopes": ["sandboxes:read", "sandboxes:write", "exec"]}).json["token"]
        path = f"/v1/sandboxes/{sandbox}/policy"
        self.service.exec(sandbox, "x = 1")
        more = {"http": [{"methods": ["GET"], "url": "https://example.org/*"},
                         {"methods": ["GET"], "url": "https://example.com/*"}]}
        self.refused(self.service.request("PATCH", path, more, token=token), 403, "forbidden")
        self.made(self.service.request("PATCH", path, {}, token=token))
        self.assertEqual(self.service.request("GET", path, token=token).json.get("http", []), [])
        self.assertEqual(self.result(sandbox, "x"), "1")
        self.refused(self.service.request("PATCH", path, more, token=token), 403, "forbidden")
        self.made(self.service.request("PATCH", path, more))
        self.assertEqual(len(self.service.request("GET", path).json["http"]), 2)
        self.refused(self.service.request("PATCH", path, {"kv": {"path": "/tmp/x.db"}}), 403, "forbidden")

    def test_what_runs_is_stopped_when_the_policy_narrows(self):
        sandbox = self.service.create("wat", policy=LONG)
        begun = self.post(f"/sandboxes/{sandbox}/exec", {"code": LOOP, "background": True}).json["exec_id"]
        while self.service.request("GET", f"/v1/sandboxes/{sandbox}/execs/{begun}").json["state"] == "queued":
            pass
        self.made(self.service.request("PATCH", f"/v1/sandboxes/{sandbox}/policy", {"limits": {"fuel": 1000}}))
        report = self.service.request("GET", f"/v1/sandboxes/{sandbox}/execs/{begun}").json["report"]
        self.assertEqual(report["outcome"], "cancelled")
        self.assertEqual(self.service.exec(sandbox, LOOP)["outcome"], "out_of_fuel")


class Pages(http.server.BaseHTTPRequestHandler):
    """Private data, text by strangers, and a place to send data to."""
    seen = []

    def do_GET(self):
        Pages.seen.append(self.path)
        self.send_response(200)
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"page")

    def log_message(self, *_):
        pass


class Approvals(SandboxTest):
    """The trifecta rule, and the person who approves a request."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.upstream = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
        cls.base = f"http://127.0.0.1:{cls.upstream.server_port}"
        threading.Thread(target=cls.upstream.serve_forever, daemon=True).start()

    @classmethod
    def tearDownClass(cls):
        cls.upstream.shutdown()
        cls.upstream.server_close()
        super().tearDownClass()

    def setUp(self):
        super().setUp()
        Pages.seen.clear()

    def policy(self, egress="ask", **more):
        def grant(path, **marks):
            return {"methods": ["GET"], "url": f"{self.base}/{path}/*", **marks}
        return {"trifecta": {"egress": egress}, "limits": {"wall": "1h"}, **more,
                "http": [grant("private", private=True, untrusted=False), grant("web"), grant("out", untrusted=False)]}

    def wat(self, *paths):
        gets = "".join(f'(drop (call $http.get (string "{self.base}/{path}"))) (drop)' for path in paths)
        return f'(func (export "run") {gets})'

    def code(self, *paths):
        return "from membrane import http\n" + "".join(
            f"try:\n    http.get('{self.base}/{path}')\nexcept Exception as error:\n    print(error)\n" for path in paths)

    def asked(self, sandbox, code):
        """The exec, when something in it waits; and its events so far."""
        exec_id = self.made(self.post(f"/sandboxes/{sandbox}/exec", {"code": code, "background": True}), 202)["exec_id"]
        connection = http.client.HTTPConnection("127.0.0.1", self.service.port, timeout=SECONDS)
        self.addCleanup(connection.close)
        connection.request("GET", f"/v1/sandboxes/{sandbox}/execs/{exec_id}/events",
                           headers={"Authorization": f"Bearer {self.service.token}"})
        answer = connection.getresponse()
        while (line := answer.readline()) and line != b"event: approval\n":
            self.assertNotEqual(line, b"event: report\n", "nothing waits")
        shown = json.loads(answer.readline().removeprefix(b"data: "))
        self.assertEqual(shown["state"], "waiting")
        return exec_id, shown

    def decide(self, sandbox, approval, allow, **more):
        return self.post(f"/sandboxes/{sandbox}/approvals/{approval}", {"allow": allow}, **more)

    def report(self, sandbox, exec_id):
        return self.service.events("GET", f"/v1/sandboxes/{sandbox}/execs/{exec_id}/events")[-1][1]

    def test_what_leaves_waits_for_a_yes(self):
        sandbox = self.service.create("wat", policy=self.policy())
        self.assertEqual(self.service.request("GET", f"/v1/sandboxes/{sandbox}/approvals").json, {"approvals": []})
        exec_id, shown = self.asked(sandbox, self.wat("web/a", "private/a", "out/a"))
        waiting = self.service.request("GET", f"/v1/sandboxes/{sandbox}/approvals").json["approvals"]
        self.assertEqual([(each["id"], each["exec_id"], each["target"]) for each in waiting],
                         [(shown["id"], exec_id, f"GET {self.base}/out/a")])
        self.assertEqual([read["target"] for read in waiting[0]["private_reads"]], [f"GET {self.base}/private/a"])
        self.assertEqual(Pages.seen, ["/web/a", "/private/a"])
        self.assertEqual(self.decide(sandbox, shown["id"], True).status, 204)
        report = self.report(sandbox, exec_id)
        self.assertEqual((report["outcome"], Pages.seen[2:]), ("ok", ["/out/a"]))
        self.assertEqual(report["flows"]["egress"][0]["decision"], "approved")
        self.refused(self.decide(sandbox, shown["id"], True), 404, "not_found")
        events = self.service.events("GET", f"/v1/sandboxes/{sandbox}/execs/{exec_id}/events")
        self.assertEqual([event["state"] for kind, event in events if kind == "approval"], ["waiting", "approved"])
        metrics = self.service.request("GET", "/metrics").body.decode()
        self.assertIn('membrane_held_back_total{call="http.request",decision="approved"}', metrics)

    def test_a_no_is_a_no(self):
        sandbox = self.service.create("wat", policy=self.policy())
        exec_id, shown = self.asked(sandbox, self.wat("web/a", "private/a", "out/a"))
        self.assertEqual(self.decide(sandbox, shown["id"], False).status, 204)
        report = self.report(sandbox, exec_id)
        self.assertEqual(report["flows"]["egress"][0]["decision"], "refused")
        self.assertEqual(report["host_calls"][2]["errno"], "EACCES")
        self.assertEqual(Pages.seen, ["/web/a", "/private/a"])

    def test_the_token_that_runs_code_cannot_say_yes(self):
        tenant = "approvals"
        runs = self.post("/tokens", {"name": "runs", "tenant": tenant, "scopes": ["sandboxes:write", "exec"]}).json["token"]
        approves = self.post("/tokens", {"name": "approves", "tenant": tenant, "scopes": ["approve"]}).json["token"]
        other = self.post("/tokens", {"name": "other", "scopes": ["approve"]}).json["token"]
        made = self.made(self.post("/sandboxes", {"template": "wat"}, token=runs), 201)["id"]
        path = f"/v1/sandboxes/{made}/approvals"
        self.refused(self.service.request("GET", path, token=runs), 403, "forbidden")
        self.refused(self.decide(made, "apr_x", True, token=runs), 403, "forbidden")
        self.refused(self.service.request("GET", path, token=other), 404, "not_found")
        self.refused(self.decide(made, "apr_x", True, token=approves), 404, "not_found")
        self.assertEqual(self.service.request("GET", path, token=approves).json, {"approvals": []})

    def test_what_is_cancelled_waits_no_more(self):
        sandbox = self.service.create("wat", policy=self.policy())
        exec_id, shown = self.asked(sandbox, self.wat("web/a", "private/a", "out/a"))
        self.assertEqual(self.service.request("DELETE", f"/v1/sandboxes/{sandbox}/execs/{exec_id}").status, 204)
        report = self.report(sandbox, exec_id)
        self.assertEqual(report["flows"]["egress"][0]["decision"], "unanswered")
        self.assertEqual(Pages.seen, ["/web/a", "/private/a"])
        self.refused(self.decide(sandbox, shown["id"], True), 404, "not_found")

    def test_dropping_the_rule_or_a_mark_needs_the_scope_for_more(self):
        token = self.post("/tokens", {"name": "t", "scopes": ["sandboxes:write", "sandboxes:read"]}).json["token"]
        rule = {"trifecta": {"egress": "close"}}
        sandbox = self.made(self.post("/sandboxes", {"template": "wat", "policy": rule}, token=token), 201)["id"]
        path = f"/v1/sandboxes/{sandbox}/policy"
        self.refused(self.service.request("PATCH", path, {}, token=token), 403, "forbidden")
        self.refused(self.service.request("PATCH", path, {"trifecta": {"egress": "ask"}}, token=token), 403, "forbidden")
        self.made(self.service.request("PATCH", path, rule, token=token))

    def closed(self, sandbox, code=None, **more):
        report = self.service.exec(sandbox, code or self.code("out/a"), **more)
        self.assertEqual([each["decision"] for each in report["flows"]["egress"]], ["closed"], report)

    def test_what_was_read_goes_along_wherever_the_sandbox_goes(self):
        sandbox = self.python(policy=self.policy("close"))
        self.service.exec(sandbox, self.code("private/a"))
        fork = self.made(self.post(f"/sandboxes/{sandbox}/fork", {"count": 1}), 201)["sandboxes"][0]["id"]
        snapshot = self.made(self.post(f"/sandboxes/{sandbox}/snapshot"), 201)["id"]
        self.service.exec(sandbox, self.code("web/a"))
        self.closed(sandbox)
        self.made(self.post(f"/sandboxes/{sandbox}/pause"))
        self.made(self.post(f"/sandboxes/{sandbox}/resume"))
        self.closed(sandbox)
        self.made(self.service.request("PATCH", f"/v1/sandboxes/{sandbox}/policy", self.policy("close")))
        self.closed(sandbox)
        restored = self.made(self.post("/sandboxes", {"snapshot": snapshot}), 201)["id"]
        for each in (fork, restored):
            self.closed(each, self.code("web/a", "out/a"))
        self.assertNotIn("/out/a", Pages.seen)

    def test_the_contexts_of_a_sandbox_are_one(self):
        sandbox = self.python(policy=self.policy("close"))
        context = self.made(self.post(f"/sandboxes/{sandbox}/contexts", {}), 201)["id"]
        self.service.exec(sandbox, self.code("private/a"))
        self.service.exec(sandbox, self.code("web/a"), context=context)
        self.closed(sandbox)
        self.closed(sandbox, context=context)

    def test_programs_of_wat_are_one_too(self):
        sandbox = self.service.create("wat", policy=self.policy("close"))
        self.service.exec(sandbox, self.wat("private/a"))
        self.made(self.post(f"/sandboxes/{sandbox}/pause"))
        self.made(self.post(f"/sandboxes/{sandbox}/resume"))
        self.closed(sandbox, self.wat("web/a", "out/a"))


class Versions(SandboxTest):
    def test_a_change_of_what_was_read_before_another_change_is_refused(self):
        sandbox = self.service.create("wat")
        path = f"/v1/sandboxes/{sandbox}"
        tag = self.service.request("GET", path).headers["ETag"]
        self.made(self.service.request("PATCH", path, {"labels": ["a"]}, {"If-Match": tag}))
        self.refused(self.service.request("PATCH", path, {"labels": ["b"]}, {"If-Match": tag}), 412,
                     "precondition_failed")
        self.assertEqual(self.service.request("GET", path).json["labels"], ["a"])


class Once(SandboxTest):
    def test_the_same_key_is_done_once(self):
        spec, key = {"template": "wat", "labels": ["once"]}, {"Idempotency-Key": "key-1"}
        first = self.made(self.post("/sandboxes", spec, headers=key), 201)
        again = self.post("/sandboxes", spec, headers=key)
        self.assertEqual(self.made(again, 201), first)
        self.assertEqual(again.headers["Idempotent-Replayed"], "true")
        self.assertEqual(len(self.service.request("GET", "/v1/sandboxes?label=once").json["sandboxes"]), 1)
        self.refused(self.post("/sandboxes", {"template": "wat"}, headers=key), 422, "invalid_value")
        self.refused(self.post("/sandboxes", spec, headers={"Idempotency-Key": "x" * 256}), 400, "invalid_request")
        token = self.post("/tokens", {"name": "t", "scopes": ["sandboxes:write"]}).json["token"]
        self.assertNotEqual(self.made(self.post("/sandboxes", spec, headers=key, token=token), 201)["id"], first["id"])

    def test_an_exec_is_run_once(self):
        sandbox = self.python()
        key = {"Idempotency-Key": "exec-1"}
        self.service.exec(sandbox, "n = 0")
        reports = [self.made(self.post(f"/sandboxes/{sandbox}/exec", {"code": "n += 1"}, headers=key)) for _ in "ab"]
        self.assertEqual(reports[0], reports[1])
        self.assertEqual(self.result(sandbox, "n"), "1")


class Upstream(http.server.BaseHTTPRequestHandler):
    """Records its requests, and repeats them."""

    seen = []

    def do_GET(self):
        Upstream.seen.append(self.headers["Authorization"])
        body = f"you sent {self.headers['Authorization']}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class SecretsTest(SandboxTest):
    VALUE = "sk-this-is-never-to-be-seen"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.upstream = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
        threading.Thread(target=cls.upstream.serve_forever, daemon=True).start()

    @classmethod
    def tearDownClass(cls):
        cls.upstream.shutdown()
        cls.upstream.server_close()
        super().tearDownClass()

    def put(self, name, hosts, value=VALUE, **more):
        return self.service.request("PUT", f"/v1/secrets/{name}", {"value": value, "hosts": hosts}, **more)

    def policy(self, name="KEY"):
        return {"http": [{"methods": ["GET"], "url": f"http://127.0.0.1:{self.upstream.server_port}/*",
                          "header": {"Authorization": {"prefix": "Bearer ", "secret": name}}}]}

    def test_a_secret_reaches_its_host_and_nothing_else(self):
        put = self.made(self.put("KEY", ["127.0.0.1"]))
        self.assertEqual((put["name"], put["hosts"]), ("KEY", ["127.0.0.1"]))
        sandbox = self.python(policy=self.policy())
        code = ("import os\nfrom membrane import http\n"
                f"answer = http.get('http://127.0.0.1:{self.upstream.server_port}/a')\n"
                "print(answer.text if hasattr(answer, 'text') else answer)\nprint(dict(os.environ))")
        report = self.service.exec(sandbox, code)
        self.assertEqual(report["outcome"], "ok", report)
        self.assertEqual(Upstream.seen[-1], f"Bearer {self.VALUE}")
        snapshot = self.made(self.post(f"/sandboxes/{sandbox}/snapshot"), 201)
        everywhere = [json.dumps(report), json.dumps(snapshot), self.service.log_text(),
                      self.service.request("GET", "/v1/secrets").body.decode(),
                      self.service.request("GET", f"/v1/sandboxes/{sandbox}/policy").body.decode(),
                      self.service.request("GET", f"/v1/sandboxes/{sandbox}").body.decode()]
        for text in everywhere:
            self.assertNotIn(self.VALUE, text)
        self.assertEqual(self.service.request("DELETE", "/v1/secrets/KEY").status, 204)
        seen = len(Upstream.seen)
        self.service.exec(sandbox, code)
        self.assertEqual(len(Upstream.seen), seen)

    def test_secrets_are_for_their_hosts_and_their_tenant(self):
        self.made(self.put("ELSEWHERE", ["api.example.com"]))
        self.refused(self.post("/sandboxes", {"template": "wat", "policy": self.policy("ELSEWHERE")}), 403, "forbidden")
        self.refused(self.post("/sandboxes", {"template": "wat", "policy": self.policy("PATH")}), 422, "invalid_value")
        token = self.post("/tokens", {"name": "t", "scopes": ["secrets", "sandboxes:write"]}).json["token"]
        self.assertEqual(self.service.request("GET", "/v1/secrets", token=token).json, {"secrets": []})
        self.refused(self.post("/sandboxes", {"template": "wat", "policy": self.policy("ELSEWHERE")}, token=token),
                     403, "forbidden")  # an address that is not public is the owner's

    def test_invalid_input(self):
        self.refused(self.put("KEY", []), 422, "invalid_value")
        self.refused(self.put("KEY", ["a.example"], "short"), 422, "invalid_value")
        self.refused(self.put("a-b", ["a.example"]), 422, "invalid_value")
        error = self.refused(self.put("KEY", ["a.example"], self.VALUE + "\n"), 422, "invalid_value")
        self.assertNotIn(self.VALUE, json.dumps(error))
        self.refused(self.service.request("DELETE", "/v1/secrets/NONE"), 404, "not_found")


if __name__ == "__main__":
    unittest.main()
