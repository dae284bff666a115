"""The audit log of a running service: who did what, by which token, and what was refused."""

import hashlib
import json
import os
import subprocess
import tempfile
import unittest

from mcp_test import call_of, headers_of
from service_testing import COMMAND, SECONDS, ServiceTest

ADD = '(func (export "run") (result i32) (i32.add (i32.const 2) (i32.const 40)))'


class AuditLog(ServiceTest):
    def token(self, *scopes, **fields):
        """A token of the owner's tenant, and its id."""
        made = self.service.request("POST", "/v1/tokens", {"name": "agent", "scopes": scopes, "tenant": "owner", **fields}).json
        return made["token"], made["info"]["id"]

    def records(self, event, **fields):
        with open(os.path.join(self.service.state, "audit.log")) as file:
            every = [json.loads(line) for line in file]
        return [each for each in every if each["event"] == event and fields.items() <= each.items()]

    def record(self, event, **fields):
        found = self.records(event, **fields)
        self.assertEqual(len(found), 1, (event, fields, found))
        return found[0]

    def test_execs_name_the_token_and_their_host_calls(self):
        agent, by = self.token("exec")
        sandbox = self.service.create("wat")
        answer = self.service.request("POST", f"/v1/sandboxes/{sandbox}/exec", {"code": ADD}, token=agent)
        self.assertEqual(answer.status, 200, answer.body)
        ended = self.record("exec.ended", sandbox=sandbox)
        self.assertEqual((ended["by"], ended["tenant"], ended["outcome"]), (by, "owner", "ok"))
        self.assertEqual((ended["host_calls"], ended["denied_calls"]), ("0", "0"))
        self.assertEqual(ended["request_id"], answer.headers["X-Request-Id"])
        self.assertEqual(self.record("sandbox.created", sandbox=sandbox)["by"], "owner")

    def test_changed_policies_name_their_grants(self):
        sandbox = self.service.create("wat", policy={"time": {"real": True}})
        self.assertEqual(self.record("sandbox.created", sandbox=sandbox)["grants"], "time")
        widened = {"kv": {}, "http": [{"methods": ["GET"], "url": "https://example.org/*", "header": {"X-Key": "a-plain-value"}}]}
        self.assertEqual(self.service.request("PATCH", f"/v1/sandboxes/{sandbox}/policy", widened).status, 200)
        changed = self.record("policy.changed", sandbox=sandbox)
        self.assertEqual(changed["by"], "owner")
        self.assertEqual(changed["grants"], "http:GET:https://example.org/*, kv")
        self.assertEqual((changed["added"], changed["revoked"]), (changed["grants"], "time"))
        narrow, by = self.token("sandboxes:write")
        answer = self.service.request("PATCH", f"/v1/sandboxes/{sandbox}/policy", {"random": {"real": True}}, token=narrow)
        self.refused(answer, 403, "forbidden")
        refusal = self.record("request.refused", sandbox=sandbox)
        self.assertEqual((refusal["by"], refusal["code"]), (by, "forbidden"))
        self.assertEqual(len(self.records("policy.changed", sandbox=sandbox)), 1)
        with open(os.path.join(self.service.state, "audit.log")) as file:
            self.assertNotIn("a-plain-value", file.read())

    def test_files_from_outside(self):
        if not self.service.has_template("python"):
            self.skipTest("there is no template python")
        sandbox = self.service.create("python")
        files = f"/v1/sandboxes/{sandbox}/files"
        self.assertEqual(self.service.request("PUT", f"{files}?path=/tmp/a", b"seven b").status, 204)
        self.assertEqual(self.service.request("POST", f"{files}/move", {"from": "/tmp/a", "to": "/tmp/b"}).status, 200)
        self.assertEqual(self.service.request("DELETE", f"{files}?path=/tmp/b").status, 204)
        self.assertEqual(self.service.request("GET", f"{files}/list?path=/tmp").status, 200)
        written = self.record("file.written", sandbox=sandbox)
        self.assertEqual((written["path"], written["bytes"], written["by"]), ("/tmp/a", "7", "owner"))
        moved = self.record("file.moved", sandbox=sandbox)
        self.assertEqual((moved["path"], moved["to"]), ("/tmp/a", "/tmp/b"))
        self.assertEqual(self.record("file.removed", sandbox=sandbox)["path"], "/tmp/b")

    def test_a_line_stays_readable_with_a_long_path(self):
        if not self.service.has_template("python"):
            self.skipTest("there is no template python")
        sandbox = self.service.create("python")
        self.service.request("PUT", f"/v1/sandboxes/{sandbox}/files?path=/" + "%01" * 9_000, b"x")
        self.service.request("PUT", f"/v1/sandboxes/{sandbox}/files?path=/%ff", b"x")
        with open(os.path.join(self.service.state, "audit.log")) as file:
            for line in file:
                json.loads(line)
                self.assertLess(len(line), 1 << 16)

    def test_snapshots_forks_and_resets(self):
        agent, by = self.token("sandboxes:write", "sandboxes:read")
        sandbox = self.service.create("wat")
        of = f"/v1/sandboxes/{sandbox}"
        snapshot = self.service.request("POST", f"{of}/snapshot", token=agent).json["id"]
        self.assertEqual(self.service.request("POST", f"{of}/reset", {"snapshot": snapshot}, token=agent).status, 200)
        fork = self.service.request("POST", f"{of}/fork", token=agent).json["sandboxes"][0]["id"]
        new = self.service.request("POST", "/v1/sandboxes", {"snapshot": snapshot}, token=agent).json["id"]
        self.assertEqual(self.service.request("DELETE", f"/v1/snapshots/{snapshot}", token=agent).status, 204)
        self.assertEqual(self.service.request("DELETE", f"/v1/sandboxes/{new}", token=agent).status, 204)
        for event in ("snapshot.taken", "sandbox.reset"):
            self.assertEqual(self.record(event, sandbox=sandbox, snapshot=snapshot)["by"], by)
        self.assertEqual(self.record("sandbox.created", sandbox=fork)["parent"], sandbox)
        self.assertEqual(self.record("sandbox.created", sandbox=new)["snapshot"], snapshot)
        self.assertEqual(self.record("snapshot.removed", snapshot=snapshot)["by"], by)
        self.assertEqual(self.record("sandbox.ended", sandbox=new)["by"], by)

    def test_secrets_are_named_without_values(self):
        put = self.service.request("PUT", "/v1/secrets/SHOP_KEY", {"value": "a-secret-value", "hosts": ["example.org"]})
        self.assertEqual(put.status, 200, put.body)
        self.assertEqual(self.service.request("DELETE", "/v1/secrets/SHOP_KEY").status, 204)
        self.assertEqual(self.record("secret.put", secret="SHOP_KEY")["by"], "owner")
        self.assertEqual(self.record("secret.removed", secret="SHOP_KEY")["by"], "owner")
        with open(os.path.join(self.service.state, "audit.log")) as file:
            self.assertNotIn("a-secret-value", file.read())

    def test_refusals_of_known_tokens_only(self):
        agent, by = self.token("sandboxes:read")
        self.refused(self.service.request("POST", "/v1/sandboxes", {"template": "wat"}, token=agent), 403, "forbidden")
        refusal = self.record("request.refused", by=by)
        self.assertIn("sandboxes:write", refusal["why"])
        before = self.records("request.refused")
        self.refused(self.service.request("GET", "/v1/sandboxes", token="mbr_unknown"), 401, "unauthorized")
        self.refused(self.service.request("GET", "/v1/sandboxes", token=False), 401, "unauthorized")
        self.assertEqual(self.records("request.refused"), before)

    def shown(self, *arguments, code=0):
        """What `membrane audit show` prints, which finds the service's log by itself."""
        with tempfile.TemporaryDirectory() as home:
            os.mkdir(os.path.join(home, "membrane"))
            os.symlink(self.service.state, os.path.join(home, "membrane", "service"))
            done = subprocess.run([COMMAND, "audit", "show", *arguments], capture_output=True, text=True, timeout=SECONDS,
                                  env={**os.environ, "XDG_STATE_HOME": home})
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout.splitlines() if code == 0 else done

    def test_the_log_is_shown_and_filtered(self):
        agent, by = self.token("exec")
        sandbox = self.service.create("wat", policy={"time": {"real": True}})
        self.service.request("POST", f"/v1/sandboxes/{sandbox}/exec", {"code": ADD}, token=agent)
        created, ended = self.shown("--sandbox", sandbox)
        self.assertRegex(created, rf"^20\d\d-\d\d-\d\dT[\d:.]+Z  owner +sandbox\.created +{sandbox} grants=time template=wat ")
        self.assertRegex(ended, rf"Z  {by} +exec\.ended +{sandbox} .*outcome=ok")
        self.assertEqual(self.shown("--by", by), [ended])
        self.assertEqual(self.shown("--event", "exec", "--by", by), [ended])
        self.assertEqual(self.shown("--event", "exe", "--by", by), [])
        self.assertEqual(self.shown("--since", "1h", "--sandbox", sandbox), [created, ended])
        self.assertEqual(self.shown("--since", "2999-01"), [])
        record, = self.shown("--json", "--by", by)
        self.assertEqual(json.loads(record), self.record("exec.ended", sandbox=sandbox))
        self.assertIn("cannot read nowhere", self.shown("nowhere", code=2).stderr)

    def log(self, *records):
        """A file with these records, chained."""
        file = tempfile.NamedTemporaryFile(suffix=".log")
        self.addCleanup(file.close)
        before = "0" * 64
        for number, fields in enumerate(records, 1):
            line = json.dumps({"number": number, **fields, "before": before}, separators=(",", ":")).encode()
            before = hashlib.sha256(line).hexdigest()
            file.write(line + b"\n")
        file.flush()
        return file.name

    def test_records_since_a_time(self):
        times = [f"2026-07-28T{time}Z" for time in ("09:29:59.999", "09:30:00.000", "09:30:30.125")]
        log = self.log(*({"time": time, "event": "service.started"} for time in times))
        for since, shown in (("2026", 3), ("2026-07Z", 3), ("2026-07-28", 3), ("2026-07-29", 0), ("2026-07-28 09:30", 2),
                             ("2026-07-28T09:30Z", 2), ("2026-07-28T09:30:00", 2), ("2026-07-28T09:30:30.125Z", 1), ("2026-07-28 09:30:30.126", 0)):
            self.assertEqual(len(self.shown(log, "--since", since)), shown, since)
        for since in ("soon", "", "2026-7-28", "2026-13-45", "2026-07-28T09:30+02:00", "2026-07-28T25:00", "2026-07-28_09:30", "5", "20260728"):
            refusal = self.shown(log, "--since", since, code=2).stderr
            self.assertIn(f'--since "{since}" is neither a duration nor a time\n', refusal)
            self.assertIn("as 30m, 1h or 7d, or a time in UTC, as 2026-07-28 or", refusal)

    def test_no_value_looks_like_another_field(self):
        values = {"path": "/tmp/a outcome=ok", "to": "", "why": "one\ntwo", "name": "one\\ntwo", "key": 'a"b', "label": "a\u202eb", "plain": "a,b:c/d", "x y": "1"}
        line, = self.shown(self.log({"time": "2026-07-28T09:30:00.000Z", "event": "file.written", **values}))
        self.assertTrue(line.endswith(r' path="/tmp/a outcome=ok" to="" why="one\ntwo" name="one\\ntwo" key="a\"b" label="a\u202eb" plain=a,b:c/d "x y"=1'), line)

    def test_what_cannot_be_read_is_no_empty_log(self):
        for path, cause in ((self.service.state, ": it is a directory\n"), ("/proc/self/mem", ": reading it failed\n")):
            for verb in ("show", "verify"):
                done = subprocess.run([COMMAND, "audit", verb, path], capture_output=True, text=True, timeout=SECONDS)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn(f"cannot read {path}{cause}", done.stderr)
        homeless = {name: value for name, value in os.environ.items() if name not in ("HOME", "XDG_STATE_HOME")}
        done = subprocess.run([COMMAND, "audit", "show"], capture_output=True, text=True, timeout=SECONDS, env=homeless)
        self.assertEqual(done.returncode, 2)
        self.assertIn("this user has no home directory", done.stderr)
        self.assertIn("membrane audit show DIRECTORY/audit.log", done.stderr)

    def test_a_changed_log_is_shown_as_far_as_it_is_intact(self):
        for _ in range(2):
            self.service.create("wat")
        with open(os.path.join(self.service.state, "audit.log")) as file:
            lines = file.readlines()
        with tempfile.NamedTemporaryFile("w", suffix=".log") as copy:
            copy.writelines([lines[0], lines[1].replace('"event":"', '"event":"x'), *lines[2:]])
            copy.flush()
            done = self.shown(copy.name, code=1)
        self.assertEqual(len(done.stdout.splitlines()), 2)
        self.assertIn("line 3 does not follow the line before it", done.stderr)

    def test_refusals_by_a_quota(self):
        made = self.service.request("POST", "/v1/tokens", {"name": "small", "scopes": ["sandboxes:write"], "quotas": {"sandboxes": 1}}).json
        for _ in range(2):
            answer = self.service.request("POST", "/v1/sandboxes", {"template": "wat"}, token=made["token"])
        self.assertEqual(answer.status, 429, answer.body)
        self.assertEqual(self.record("request.refused", by=made["info"]["id"])["code"], "quota_exceeded")

    def test_tokens_that_are_not_there_are_not_removed(self):
        self.refused(self.service.request("DELETE", "/v1/tokens/nope"), 404, "not_found")
        self.assertEqual(self.records("token.removed", token="nope"), [])
        _, made = self.token("exec", "files:read")
        self.assertEqual(self.record("token.made", token=made)["scopes"], "exec, files:read")
        self.assertEqual(self.service.request("DELETE", f"/v1/tokens/{made}").status, 204)
        self.assertEqual(self.record("token.removed", token=made)["by"], "owner")

    def test_mcp_names_the_token(self):
        agent, by = self.token("sandboxes:write", "exec")

        def call(tool, **arguments):
            message = call_of(tool, **arguments)
            answer = self.service.request("POST", "/mcp", message, headers_of(message), token=agent)
            self.assertEqual(answer.status, 200, answer.body)

        call("run_code", language="wat", code=ADD)
        self.assertEqual(len(self.records("exec.ended", by=by)), 1)
        self.assertEqual(len(self.records("sandbox.created", by=by)), 1)
        self.assertEqual(len(self.records("sandbox.ended", by=by)), 1)
        call("list_files", session="sbx1")
        self.assertIn("files:read", self.record("request.refused", by=by)["why"])


if __name__ == "__main__":
    unittest.main()
