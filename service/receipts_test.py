"""Receipts of the service: kept as long as promised, and verified and replayed by the command and by the
verifier that uses nothing of Membrane.

MEMBRANE_COMMAND and MEMBRANE_LANGUAGES as in cli/command_testing.py.
"""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from service_testing import COMMAND, SECONDS, Service, ServiceTest

VERIFIER = Path(__file__).resolve().parent.parent / "tools" / "verify-receipt"
STORES = '(func (export "run") (call $kv.set (string "colour") (string "blue")) (drop) (call $io.println (string "done")))'
ADD = '(func (export "run") (result i32) (i32.const 42))'


def run(*words, code=0):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == code, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


class Saved:
    """Receipts of a service, in files."""

    def __init__(self, test, service):
        folder = tempfile.TemporaryDirectory()
        test.addCleanup(folder.cleanup)
        self.test, self.service, self.folder = test, service, Path(folder.name)

    def keys(self):
        answer = self.service.request("GET", "/v1/keys", token=False)
        self.test.assertEqual(answer.status, 200, answer.body)
        path = self.folder / "keys.json"
        path.write_bytes(answer.body)
        return path

    def save(self, sandbox, exec_id, name=None):
        path = self.folder / f"{name or exec_id}.receipt"
        for ending, file in (("", path), ("/private", Path(f"{path}.private"))):
            answer = self.service.request("GET", f"/v1/sandboxes/{sandbox}/execs/{exec_id}/receipt{ending}")
            self.test.assertEqual((answer.status, answer.headers["Content-Type"]), (200, "application/x-ndjson"), answer.body)
            file.write_bytes(answer.body)
        return path

    def save_all(self, sandbox):
        listed = self.service.request("GET", f"/v1/sandboxes/{sandbox}/receipts")
        self.test.assertEqual(listed.status, 200, listed.body)
        return [self.save(sandbox, each["exec_id"]) for each in listed.json["receipts"]]

    def check(self, path):
        keys = self.keys()
        self.test.assertIn("private part: whole", run(COMMAND, "verify", "--keys", keys, path))
        self.test.assertIn("private part: whole", run(sys.executable, VERIFIER, "--keys", keys, path))
        self.test.assertIn("the same", run(COMMAND, "replay", "--keys", keys, path))


def heads_of(paths):
    return [json.loads(path.read_text().splitlines()[1]) for path in paths]


class Receipts(ServiceTest):
    def setUp(self):
        self.saved = Saved(self, self.service)

    def receipt(self, sandbox, exec_id, ending="", token=True):
        return self.service.request("GET", f"/v1/sandboxes/{sandbox}/execs/{exec_id}/receipt{ending}", token=token)

    def test_an_exec_of_wat_is_sealed_when_it_asks(self):
        sandbox = self.service.create("wat", policy={"kv": {}}, env={"A": "b"})
        plain = self.service.exec(sandbox, ADD)
        self.assertNotIn("receipt", plain)
        self.refused(self.receipt(sandbox, plain["exec_id"]), 404, "not_found")
        report = self.service.exec(sandbox, STORES, seal=True)
        path = self.saved.save(sandbox, report["exec_id"])
        self.assertIn('"function":"kv.set","decision":"allowed"', path.read_text())
        self.assertNotIn("blue", path.read_text())
        self.saved.check(path)
        (listed,) = self.service.request("GET", f"/v1/sandboxes/{sandbox}/receipts").json["receipts"]
        self.assertEqual((listed["digest"], listed["turn"]), (report["receipt"], 0))

    def test_a_sandbox_that_seals_seals_all(self):
        sandbox = self.service.create("wat", seal=True)
        self.assertTrue(self.service.request("GET", f"/v1/sandboxes/{sandbox}").json["seal"])
        self.assertTrue(self.service.exec(sandbox, ADD)["receipt"])
        events = self.service.events("POST", f"/v1/sandboxes/{sandbox}/exec", {"code": ADD})
        self.assertTrue(events[-1][1]["receipt"])
        wrong = self.service.exec(sandbox, "(module (fun))")
        self.assertEqual(wrong["outcome"], "invalid")
        self.saved.check(self.saved.save(sandbox, wrong["exec_id"]))

    def test_the_private_part_wants_the_scope_of_execs(self):
        sandbox = self.service.create("wat")
        exec_id = self.service.exec(sandbox, ADD, seal=True)["exec_id"]
        made = self.service.request("POST", "/v1/tokens", {"name": "r", "tenant": "owner", "scopes": ["sandboxes:read"]}).json
        self.assertEqual(self.receipt(sandbox, exec_id, token=made["token"]).status, 200)
        self.refused(self.receipt(sandbox, exec_id, "/private", made["token"]), 403, "forbidden")
        other = self.service.request("POST", "/v1/tokens", {"name": "o", "scopes": ["sandboxes:read", "exec"]}).json["token"]
        for ending in ("", "/private"):
            self.refused(self.receipt(sandbox, exec_id, ending, other), 404, "not_found")
        self.refused(self.service.request("GET", f"/v1/sandboxes/{sandbox}/receipts", token=other), 404, "not_found")

    def test_a_sandbox_without_receipts_has_none(self):
        """A sandbox without receipts and a missing one are distinguished."""
        sandbox = self.service.create("wat")
        answer = self.service.request("GET", f"/v1/sandboxes/{sandbox}/receipts")
        self.assertEqual((answer.status, answer.json), (200, {"receipts": []}))
        other = self.service.request("POST", "/v1/tokens", {"name": "o", "scopes": ["sandboxes:read"]}).json["token"]
        self.refused(self.service.request("GET", f"/v1/sandboxes/{sandbox}/receipts", token=other), 404, "not_found")
        self.assertEqual(self.service.request("DELETE", f"/v1/sandboxes/{sandbox}").status, 204)
        self.refused(self.service.request("GET", f"/v1/sandboxes/{sandbox}/receipts"), 404, "not_found")

    def test_receipts_go_with_their_sandbox(self):
        sandbox = self.service.create("wat", seal=True)
        exec_id = self.service.exec(sandbox, ADD)["exec_id"]
        images = set((Path(self.service.state) / "images").iterdir())
        self.assertEqual(self.service.request("DELETE", f"/v1/sandboxes/{sandbox}").status, 204)
        self.refused(self.receipt(sandbox, exec_id), 404, "not_found")
        self.assertEqual(len(images - set((Path(self.service.state) / "images").iterdir())), 2)

    def test_forks_and_what_begins_as_a_snapshot_do_not_seal(self):
        if not self.service.has_template("python"):
            self.skipTest("python is not installed")
        sandbox = self.service.create("python", seal=True)
        self.service.exec(sandbox, "x = 1")
        (fork,) = self.service.request("POST", f"/v1/sandboxes/{sandbox}/fork", {}).json["sandboxes"]
        self.assertFalse(fork["seal"])
        self.assertNotIn("receipt", self.service.exec(fork["id"], "x"))
        self.refused(self.service.request("POST", f"/v1/sandboxes/{fork['id']}/exec", {"code": "x", "seal": True}), 409, "conflict")
        snapshot = self.service.request("POST", f"/v1/sandboxes/{sandbox}/snapshot").json["id"]
        refused = self.service.request("POST", "/v1/sandboxes", {"snapshot": snapshot, "seal": True})
        self.refused(refused, 422, "unsupported")
        made = self.service.request("POST", "/v1/sandboxes", {"snapshot": snapshot}).json
        self.assertEqual(self.service.exec(made["id"], "x")["result"], "1")
        self.assertTrue(self.service.exec(sandbox, "x")["receipt"])

    def test_the_command_saves_what_a_replay_needs(self):
        if not self.service.has_template("python"):
            self.skipTest("python is not installed")
        remote = ("--url", self.service.url, "--token", self.service.token)
        sandbox = run(COMMAND, "create", "--seal", *remote).strip()
        run(COMMAND, "exec", sandbox, "-e", "x = 40", *remote)
        path = self.saved.folder / "last.receipt"
        self.assertEqual(run(COMMAND, "exec", sandbox, "-e", "x + 2", "--seal", path, *remote), "42\n")
        self.saved.check(path)
        self.assertEqual(Path(f"{path}.private").stat().st_mode & 0o777, 0o600)
        plain = run(COMMAND, "create", *remote).strip()
        run(COMMAND, "exec", plain, "-e", "1", "--seal", path, *remote, code=2)


class Sessions(unittest.TestCase):
    """A session whose receipts form one chain, whatever happens to it between its turns."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.service = self.start()
        if not self.service.has_template("python"):
            self.skipTest("python is not installed")

    def start(self):
        service = Service("--park-after", "50", state=self.folder.name)
        self.addCleanup(service.log.close)
        self.addCleanup(service.stop)
        return service

    def ask(self, method, path, body=None, status=200):
        answer = self.service.request(method, path, body)
        self.assertEqual(answer.status, status, answer.body)
        return answer

    def test_the_chain_continues(self):
        sandbox = self.service.create("python", seal=True, env={"WHO": "me"}, policy={"random": {"real": True}})
        path = f"/v1/sandboxes/{sandbox}"
        self.service.exec(sandbox, "import os, random\nseen = [os.environ['WHO']]")
        self.ask("PUT", path + "/files?path=/tmp/in.txt", b"given", 204)
        self.ask("POST", path + "/files/mkdir", {"path": "/tmp/d"})
        self.ask("POST", path + "/files/move", {"from": "/tmp/in.txt", "to": "/tmp/d/in.txt"})
        self.service.exec(sandbox, "seen.append(open('/tmp/d/in.txt').read() + os.environ['ONCE'])\nos.urandom(4)", env={"ONCE": "!"})
        self.ask("POST", path + "/pause")
        self.ask("POST", path + "/resume")
        self.service.exec(sandbox, "seen.append(os.environ.get('ONCE'))\nseen")
        self.ask("PATCH", path, {"env": {"WHO": "you"}})
        self.ask("PATCH", path + "/policy", {"limits": {"fuel": 10**9}})
        self.service.exec(sandbox, "seen.append(os.environ['WHO'])\nopen('/tmp/out', 'w').write('x')")
        while "membrane_sandboxes_resident 0\n" not in self.service.request("GET", "/metrics").body.decode():
            continue  # until it is parked
        self.service.exec(sandbox, "1 / 0")
        self.ask("PUT", path + "/files?path=/tmp/late", b"kept with what it is part of", 204)
        self.service.stop()
        self.service = self.start()
        last = self.service.exec(sandbox, "import sys\nprint(open('/tmp/late').read(), file=sys.stderr)\nseen")
        self.assertEqual(last["result"], "['me', 'given!', None, 'you']")
        saved = Saved(self, self.service)
        paths = saved.save_all(sandbox)
        heads = heads_of(paths)
        self.assertEqual([head["turn"] for head in heads], [1, 2, 3, 4, 5, 6])
        self.assertEqual(len({head["session"] for head in heads}), 1)
        digests = [each["digest"] for each in self.service.request("GET", path + "/receipts").json["receipts"]]
        self.assertEqual([head["previous"] for head in heads], ["", *digests[:-1]])
        saved.check(paths[-1])

    def test_contexts_have_chains_of_their_own(self):
        sandbox = self.service.create("python", seal=True)
        context = self.ask("POST", f"/v1/sandboxes/{sandbox}/contexts", {}, 201).json["id"]
        self.service.exec(sandbox, "x = 1")
        self.service.exec(sandbox, "x = 2", context=context)
        self.service.exec(sandbox, "x", context=context)
        saved = Saved(self, self.service)
        paths = saved.save_all(sandbox)
        self.assertEqual([head["turn"] for head in heads_of(paths)], [1, 1, 2])
        saved.check(paths[-1])

    def test_receipts_outlive_a_crash(self):
        sandbox = self.service.create("python", seal=True)
        exec_id = self.service.exec(sandbox, "print(6 * 7)")["exec_id"]
        self.service.kill()
        self.service = self.start()
        answer = self.service.request("GET", f"/v1/sandboxes/{sandbox}")
        self.assertIn("is lost", answer.error["message"])
        saved = Saved(self, self.service)
        saved.check(saved.save(sandbox, exec_id))


class Keys(ServiceTest):
    def test_keys_are_rotated_and_revoked(self):
        saved = Saved(self, self.service)
        sandbox = self.service.create("wat", seal=True)
        before = saved.save(sandbox, self.service.exec(sandbox, ADD)["exec_id"])
        rotated = self.service.request("POST", "/v1/keys/rotate")
        self.assertEqual(rotated.status, 201, rotated.body)
        after = saved.save(sandbox, self.service.exec(sandbox, ADD)["exec_id"])
        key = rotated.json["key"]
        keys = json.loads(saved.keys().read_text())["keys"]
        self.assertEqual([each["id"] for each in keys][1:], [key])
        self.assertIn("retired", keys[0])
        self.assertNotIn("private", json.dumps(keys))
        for path in (before, after):
            saved.check(path)
        self.assertEqual(self.service.request("DELETE", f"/v1/keys/{key}").status, 204)
        run(COMMAND, "verify", "--keys", saved.keys(), after, code=1)
        refused = self.service.request("POST", f"/v1/sandboxes/{sandbox}/exec", {"code": ADD})
        self.refused(refused, 409, "conflict")  # none signs any more
        self.assertEqual(self.service.request("POST", "/v1/keys/rotate").status, 201)
        self.assertTrue(self.service.exec(sandbox, ADD)["receipt"])
        self.refused(self.service.request("DELETE", "/v1/keys/none"), 404, "not_found")

    def test_rotate_is_not_a_key(self):
        for method in ("OPTIONS", "DELETE"):
            answer = self.service.request(method, "/v1/keys/rotate")
            self.refused(answer, 405, "method_not_allowed")
            self.assertEqual(answer.headers["Allow"], "POST")

    def test_only_the_owner_changes_keys(self):
        token = self.service.request("POST", "/v1/tokens", {"name": "t", "scopes": ["exec", "sandboxes:write"]}).json["token"]
        self.refused(self.service.request("POST", "/v1/keys/rotate", token=token), 403, "forbidden")
        self.refused(self.service.request("DELETE", "/v1/keys/a", token=token), 403, "forbidden")
        file = Path(self.service.state) / "receipt-keys.json"
        self.service.request("GET", "/v1/keys", token=False)
        self.assertEqual(file.stat().st_mode & 0o077, 0)


if __name__ == "__main__":
    unittest.main()
