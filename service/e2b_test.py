#!/usr/bin/env python3
"""E2B's interface (docs/e2b.md): every row of its table with E2B's own clients, each downloaded from its
registry by npm or pip; and requests that none of their clients sends.

    MEMBRANE_COMMAND=build/release/membrane service/e2b_test.py

Clients that cannot be downloaded are skipped, and the skip says why.
"""

import json
import os
import platform
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from service_testing import COMMAND, SANITIZED, SECONDS, ServiceTest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tools" / "tests"))
sys.path.insert(0, str(HERE.parent / "cli"))
import brought  # noqa: E402
from linux_testing import make_image  # noqa: E402

PAGE = HERE.parent / "docs" / "e2b.md"
NPM_PACKAGES = ["e2b@2.51.0", "@e2b/code-interpreter@2.8.0"]
PIP_PACKAGES = ["e2b==2.63.0", "e2b-code-interpreter==2.11.5"]
ONLY_IN_PYTHON = {"AsyncSandbox"}
STATES = {"yes", "partly", "error"}


def rows_of_page(heading="What works"):
    """{what: state} of the table below a heading: | `a`, `b` | yes | … |"""
    rows = {}
    for line in PAGE.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0].splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) == 3 and cells[0].startswith("`"):
            rows[cells[0].replace("`", "")] = cells[1]
    return rows


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False, **options)


class Clients(ServiceTest):
    FLAGS = ("--log-level", "warning")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.directory = Path(tempfile.mkdtemp(prefix="membrane-e2b-"))
        if not cls.service.has_template("python") or not cls.service.has_template("javascript"):
            raise unittest.SkipTest("the languages are not installed here")

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        shutil.rmtree(cls.directory, ignore_errors=True)

    def check(self, command, rows, **options):
        environment = {**os.environ, "E2B_API_URL": self.service.url, "E2B_SANDBOX_URL": self.service.url,
                       "E2B_API_KEY": self.service.token}
        done = run(*command, env=environment, **options)
        self.assertEqual(done.returncode, 0, done.stderr[-4000:])
        results = json.loads(done.stdout.splitlines()[-1])
        for row, problem in results.items():
            with self.subTest(row=row):
                self.assertIsNone(problem)
        self.assertEqual(set(results), set(rows), "what is checked is what the page lists")
        self.assertNotRegex(self.service.log_text(), r'"status":50[0347]')

    def test_python(self):
        try:
            python = brought.virtual_environment(*PIP_PACKAGES)
        except brought.NotBrought as why:
            self.skipTest(f"E2B's clients: {why}")
        self.check([str(python), str(HERE / "e2b_client.py")], rows_of_page())

    def test_javascript(self):
        try:
            (self.directory / "node_modules").symlink_to(brought.node_modules(*NPM_PACKAGES))
        except brought.NotBrought as why:
            self.skipTest(f"E2B's clients: {why}")
        program = shutil.copy(HERE / "e2b_client.mjs", self.directory)
        self.check(["node", program], set(rows_of_page()) - ONLY_IN_PYTHON, cwd=self.directory)

    def test_the_table_has_only_these_states(self):
        self.assertLessEqual(set(rows_of_page().values()), STATES)


@unittest.skipIf(SANITIZED, "a sanitizer makes calls that the kernel process of Linux programs may not make")
@unittest.skipUnless(platform.machine() == "x86_64", "the linux kind runs on x86-64")
class LinuxClients(ServiceTest):
    FLAGS = ("--log-level", "warning")
    HEADING = "Linux sandboxes"

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        os.environ["MEMBRANE_IMAGES"] = f"{folder.name}/images"
        cls.addClassCleanup(os.environ.pop, "MEMBRANE_IMAGES")
        make_image(Path(folder.name) / "host.tar")
        subprocess.run([COMMAND, "image", "import", f"{folder.name}/host.tar", "--tag", "host"], check=True, capture_output=True)
        super().setUpClass()

    def test_python(self):
        try:
            python = brought.virtual_environment(*PIP_PACKAGES)
        except brought.NotBrought as why:
            self.skipTest(f"E2B's clients: {why}")
        environment = {**os.environ, "E2B_API_URL": self.service.url, "E2B_SANDBOX_URL": self.service.url,
                       "E2B_API_KEY": self.service.token}
        done = run(str(python), str(HERE / "e2b_linux_client.py"), "linux:host", env=environment)
        self.assertEqual(done.returncode, 0, done.stderr[-4000:])
        results = json.loads(done.stdout.splitlines()[-1])
        for row, problem in results.items():
            with self.subTest(row=row):
                self.assertIsNone(problem)
        self.assertEqual(set(results), set(rows_of_page(self.HEADING)), "what is checked is what the page lists")
        self.assertNotRegex(self.service.log_text(), r'"status":50[0347]')

    def test_the_table_has_only_these_states(self):
        self.assertLessEqual(set(rows_of_page(self.HEADING).values()), STATES)


class Hostile(ServiceTest):
    FLAGS = ("--log-level", "warning")

    def setUp(self):
        made = self.service.request("POST", "/v2/sandboxes", {"templateID": "base"})
        if made.status != 201:
            self.skipTest("the languages are not installed here")
        self.sandbox, self.access = made.json["sandboxID"], made.json["envdAccessToken"]

    def ask(self, method, path, body=None, **headers):
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.service.request(method, path, body, {"E2b-Sandbox-Id": self.sandbox, "X-Access-Token": self.access,
                                                         **headers}, token=False)

    def test_invalid_bodies_are_refused_with_4xx(self):
        bodies = [b"{", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"code": 1}', b'{"code": "1", "env_vars": []}',
                  b'{"code": "1", "context_id": "no"}', b'{"path": 1}', b'{"depth": -1, "path": "/"}',
                  b'{"process": {"pid": 1}}', b'{"process": [], "watcherId": {}}', b'{"timeout": -1}', b'{"timeout": "x"}',
                  b'{"count": 1e30}', b'{"templateID": 3}', b'{"envVars": {"a": 1}}', b'{"language": 5}']
        calls = [("POST", "/execute"), ("POST", "/contexts"), ("POST", "/contexts/no/restart"), ("DELETE", "/contexts/no"),
                 *(("POST", f"/filesystem.Filesystem/{name}") for name in
                   ("Stat", "ListDir", "MakeDir", "Move", "Remove", "GetWatcherEvents", "RemoveWatcher")),
                 *(("POST", f"/process.Process/{name}") for name in ("SendSignal", "SendInput", "CloseStdin", "Update"))]
        for method, path in calls:
            for body in bodies:
                answer = self.ask(method, path, body, Content_Type="application/json")
                with self.subTest(path=path, body=body[:40]):
                    self.assertTrue(answer.status < 500 or answer.status == 501, (answer.status, answer.body))
        for path in ("/v2/sandboxes", f"/sandboxes/{self.sandbox}/timeout", f"/v2/sandboxes/{self.sandbox}/connect",
                     f"/sandboxes/{self.sandbox}/fork", f"/sandboxes/{self.sandbox}/snapshots"):
            for body in bodies[:5] + bodies[12:17]:
                answer = self.service.request("POST", path, body, {"Content-Type": "application/json"})
                with self.subTest(path=path, body=body[:40]):
                    self.assertLess(answer.status, 500, answer.body)

    def test_a_snapshot_takes_the_place_of_no_template(self):
        self.service.exec(self.sandbox, "import builtins; builtins.print = lambda *words: None")
        path = f"/sandboxes/{self.sandbox}/snapshots"
        for name, status in (("python", 409), ("js", 409), ("linux", 409), ("", 422), (" ", 422), ("\x1b[2Jevil", 422),
                             ("../../x", 422), ("a" * 65, 422), ("a" * 900_000, 422)):
            answer = self.service.request("POST", path, {"name": name})
            self.assertEqual(answer.status, status, answer.body[:500])
            self.assertLess(len(answer.body), 1000)
        self.assertEqual(self.service.request("POST", path, {"name": "mine"}).status, 201)
        self.assertEqual(self.service.request("POST", path, {"name": "mine"}).status, 409)
        self.assertEqual(len(self.service.request("GET", "/v1/snapshots").json["snapshots"]), 1)  # nothing of the refused ones
        self.assertEqual(self.service.exec(self.service.create("python"), "print(1 + 1)")["stdout"], "2\n")

    def test_invalid_streams_end_in_an_error(self):
        frame = struct.pack(">BI", 0, 2) + b"{}"
        bodies = [b"", b"\0", b"\0\0\0\0\5{}", frame * 2, b"\1" + frame[1:], b"\2" + frame[1:], frame,
                  struct.pack(">BI", 0, 2) + b"[]", struct.pack(">BI", 0, 0xFFFFFFFF)]
        for path in ("/process.Process/Start", "/process.Process/Connect", "/filesystem.Filesystem/WatchDir"):
            for body in bodies:
                if path.endswith("WatchDir") and body == frame:
                    continue  # that is a right one: the home directory
                answer = self.ask("POST", path, body, Content_Type="application/connect+json")
                with self.subTest(path=path, body=body):
                    self.assertEqual((answer.status, answer.body[0]), (200, 2))
                    self.assertIn("code", json.loads(answer.body[5:])["error"])
            self.assertEqual(self.ask("POST", path, b"{}", Content_Type="text/plain").status, 415)

    def test_invalid_forms_are_refused(self):
        for body in (b"", b"--b", b"--b\r\n\r\nx\r\n--b--", b"--b\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\n\r\n--b--"):
            answer = self.ask("POST", "/files", body, Content_Type="multipart/form-data; boundary=b")
            self.assertEqual(answer.status, 400, answer.body)
        self.assertEqual(self.ask("POST", "/files?path=/a", b"x", Content_Encoding="gzip").status, 415)
        self.assertEqual(self.ask("GET", "/files").status, 400)
        for path in ("/files?path=/../../etc/passwd", "/files?path=/proc/self/maps", "/files?path=/etc/passwd"):
            self.assertIn(self.ask("GET", path).status, (403, 404, 422))

    def test_a_sandbox_is_its_tenants(self):
        other = self.service.request("POST", "/v1/tokens", {"name": "other", "tenant": "other", "scopes": ["admin"]}).json
        for headers in ({"X_Access_Token": "e2b_access_wrong"}, {"X_Access_Token": self.service.token},
                        {"X_Access_Token": other["token"]}, {"X_Access_Token": ""},
                        {"X_Access_Token": "", "X_API_Key": other["token"]}):
            for path in ("/files?path=/tmp/a", "/contexts", "/health"):
                self.assertEqual(self.ask("GET", path, **headers).status, 401, headers)
        self.assertEqual(self.ask("GET", "/health", X_Access_Token="", X_API_Key=self.service.token).status, 204)
        for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/connect"), ("POST", "/pause"), ("POST", "/fork")):
            answer = self.service.request(method, f"/sandboxes/{self.sandbox}{path}", token=other["token"])
            self.assertEqual(answer.status, 404, answer.body)
        self.assertEqual(self.service.request("GET", "/v2/sandboxes", token=other["token"]).json, [])

    def test_access_ends_with_the_key_that_it_was_got_by(self):
        key = self.service.request("POST", "/v1/tokens", {"name": "k", "tenant": "owner", "scopes": ["admin"]}).json
        access = self.service.request("POST", f"/sandboxes/{self.sandbox}/connect", {}, token=key["token"]).json
        self.assertEqual(self.ask("GET", "/health", X_Access_Token=access["envdAccessToken"]).status, 204)
        self.service.request("DELETE", f"/v1/tokens/{key['info']['id']}")
        self.assertEqual(self.ask("GET", "/health", X_Access_Token=access["envdAccessToken"]).status, 401)

    def test_scopes_hold(self):
        key = self.service.request("POST", "/v1/tokens", {"name": "k", "tenant": "owner", "scopes": ["sandboxes:read"]}).json
        ask = lambda method, path: self.service.request(method, path, headers={"E2b-Sandbox-Id": self.sandbox},
                                                        token=key["token"]).status
        self.assertEqual(ask("GET", f"/sandboxes/{self.sandbox}"), 200)
        for method, path in (("DELETE", f"/sandboxes/{self.sandbox}"), ("POST", "/v2/sandboxes"), ("POST", "/execute"),
                             ("GET", "/files?path=/a"), ("POST", "/files?path=/a")):
            self.assertEqual(ask(method, path), 403, path)

    def test_health_without_a_sandbox_is_the_services(self):
        self.assertEqual(self.service.request("GET", "/health", token=False).json["status"], "ok")


if __name__ == "__main__":
    unittest.main()
