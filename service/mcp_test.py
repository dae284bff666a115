#!/usr/bin/env python3
"""POST /mcp of the service (docs/mcp.md): by hand, and with third-party clients that cli/mcp_testing.py
downloads.

    MEMBRANE_COMMAND=build/release/membrane service/mcp_test.py [Class]
"""

import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cli")]
from mcp_testing import TOOLS, OfNode, OfPython, has_language, run_wat, stateless  # noqa: E402
from service_testing import SECONDS, Service, ServiceTest  # noqa: E402

PAGE = (HERE.parent / "docs" / "mcp.md").read_text()
LOOP = '(func (export "main") (loop $again (br $again)))'
PRINTING_LOOP = '(func (export "main") (call $io.print "on") (loop $again (br $again)))'
LONG = {"policy": {"limits": {"fuel": 10**15, "wall": "1h"}}}
ALL_SCOPES = ["sandboxes:read", "sandboxes:write", "exec", "files:read", "files:write"]


def block_of_page(kind, first):
    """The page's block of this kind that begins like this."""
    return re.search(rf"^```{kind}\n({re.escape(first)}.*?)^```", PAGE, re.M | re.S)[1]


def headers_of(message):
    """The headers that revision 2026-07-28 requires."""
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
               "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": message["method"]}
    name = message["params"].get("name") or message["params"].get("uri")
    return {**headers, "Mcp-Name": name} if name else headers


def call_of(tool, number=1, **arguments):
    return stateless(number, "tools/call", name=tool, arguments=arguments)


def with_progress(message):
    message["params"]["_meta"] = {**message["params"]["_meta"], "progressToken": 1}
    return message


class McpTest(ServiceTest):
    FLAGS = ("--log-level", "warning")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if not cls.service.has_template("python") and not cls.service.has_template("javascript"):
            cls.tearDownClass()
            raise unittest.SkipTest("no language with sessions is installed")

    def token(self, *scopes, **wanted):
        made = self.service.request("POST", "/v1/tokens", {"name": "t", "scopes": list(scopes), **wanted})
        self.assertEqual(made.status, 201, made.body)
        return made.json["token"]

    def post(self, message, token=True, headers=None):
        return self.service.request("POST", "/mcp", message, {**headers_of(message), **(headers or {})}, token)

    def ask(self, message, token=True):
        """The answer's result."""
        answer = self.post(message, token)
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json["result"]

    def tool(self, tool, token=True, **arguments):
        return self.ask(call_of(tool, **arguments), token)

    def data(self, tool, token=True, **arguments):
        """The answer of a successful tool."""
        result = self.tool(tool, token, **arguments)
        self.assertFalse(result["isError"], result)
        return result["structuredContent"]

    def problem(self, tool, token=True, **arguments):
        """The text of a tool's error."""
        result = self.tool(tool, token, **arguments)
        self.assertTrue(result["isError"], result)
        return result["content"][0]["text"]

    def open_call(self, message, token=None):
        """A request on a connection that the test closes."""
        connection = socket.create_connection((self.service.host, self.service.port), timeout=SECONDS)
        body = json.dumps(message).encode()
        fields = {**headers_of(message), "Host": "localhost", "Content-Length": len(body),
                  "Authorization": f"Bearer {token or self.service.token}"}
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        connection.sendall(f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body)
        return connection

    def execs(self, sandbox):
        return self.service.request("GET", f"/v1/sandboxes/{sandbox}/execs").json["execs"]

    def wait_for_exec(self, sandbox, state):
        while not [each for each in self.execs(sandbox) if each["state"] == state]:
            continue

    def outcome(self, sandbox):
        """The report of the sandbox's last exec, when it is over."""
        while (last := self.execs(sandbox)[-1])["state"] != "done":
            continue
        return self.service.request("GET", f"/v1/sandboxes/{sandbox}/execs/{last['exec_id']}").json["report"]["outcome"]


class Tools(McpTest):
    def test_both_eras_are_served(self):
        self.assertEqual(self.ask(stateless(1, "server/discover"))["supportedVersions"], ["2026-07-28"])
        for version in ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"):
            begun = self.service.request(
                "POST", "/mcp", {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
                    "protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}})
            self.assertEqual(begun.json["result"]["protocolVersion"], version)
            name = begun.headers["Mcp-Session-Id"]
            listed = self.service.request("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
                                          {"Mcp-Session-Id": name, "MCP-Protocol-Version": version})
            self.assertGreaterEqual(len(listed.json["result"]["tools"]), 4)
            other = self.service.request("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
                                         {"Mcp-Session-Id": name}, self.token("exec"))
            self.assertEqual(other.status, 404)
            self.assertEqual(self.service.request("DELETE", "/mcp", None, {"Mcp-Session-Id": name}).status, 204)

    def test_a_program_runs_in_a_sandbox_that_is_gone_afterwards(self):
        token = self.token(*ALL_SCOPES)
        ran = self.ask(run_wat(1, '(call $io.print "hello")'), token)["structuredContent"]
        self.assertEqual((ran["outcome"], ran["stdout"]), ("ok", "hello"))
        self.assertEqual(self.service.request("GET", "/v1/sandboxes", token=token).json["sandboxes"], [])
        report = self.data("get_report", token, report=ran["report"])["content"]
        self.assertEqual(report["stdout"], "hello")
        self.assertEqual([each["report"] for each in self.data("list_reports", token)["reports"]], [ran["report"]])
        self.assertIn("there is no report", self.problem("get_report", self.token(*ALL_SCOPES), report=ran["report"]))

    def test_a_program_that_is_sealed_has_a_receipt(self):
        token = self.token(*ALL_SCOPES)
        call = run_wat(1, '(call $io.print "hello")')
        call["params"]["arguments"]["seal"] = True
        ran = self.ask(call, token)["structuredContent"]
        receipt = self.data("get_receipt", token, report=ran["report"], private=True)
        self.assertTrue(receipt["receipt"].startswith('{"membrane_receipt":1}\n'))
        self.assertIn("hello", receipt["private"])
        self.assertNotIn("private", self.data("get_receipt", token, report=ran["report"]))
        self.assertIn("there is no receipt", self.problem("get_receipt", self.token(*ALL_SCOPES), report=ran["report"]))
        plain = self.ask(run_wat(1, "(nop)"), token)["structuredContent"]
        self.assertIn("there is no receipt", self.problem("get_receipt", token, report=plain["report"]))

    def test_a_session_that_is_sealed_has_receipts(self):
        if not has_language("python"):
            self.skipTest("python is not installed as a language")
        session = self.data("create_session", language="python", seal=True)["session"]
        ran = [self.data("run_in_session", session=session, code=code) for code in ("x = 40", "x + 2")]
        turns = [json.loads(self.data("get_receipt", report=each["report"])["receipt"].splitlines()[1])["turn"] for each in ran]
        self.assertEqual(turns, [1, 2])

    def test_what_is_not_granted_is_refused_and_named(self):
        ran = self.tool("run_code", language="wat", code='(func (export "main") (set $text $errno (call $kv.get "a")))')
        self.assertEqual(ran["structuredContent"]["refused"][0]["grant"], "--allow kv")
        self.assertIn("It has no key-value store.", self.data("explain_policy")["explanation"])

    def test_a_session_is_a_sandbox_of_rest(self):
        if not has_language("python"):
            self.skipTest("python is not installed as a language")
        token = self.token(*ALL_SCOPES)
        session = self.data("create_session", token, language="python")["session"]
        seen = self.service.request("GET", f"/v1/sandboxes/{session}", token=token)
        self.assertEqual((seen.status, seen.json["template"]), (200, "python"))
        self.service.request("POST", f"/v1/sandboxes/{session}/exec", {"code": "x = 40"}, token=token)
        ran = self.data("run_in_session", token, session=session, code="open('/tmp/a', 'w').write('hi')\nx + 2")
        self.assertEqual((ran["result"], ran["session"]), ("42", session))
        path = f"/v1/sandboxes/{session}/execs/{ran['report']}"
        self.assertEqual(self.service.request("GET", path, token=token).json["report"]["outcome"], "ok")
        self.assertEqual(self.data("read_file", token, session=session, path="/tmp/a")["content"], "hi")
        self.data("write_file", token, session=session, path="/tmp/b", content="ho")
        read = self.service.request("GET", f"/v1/sandboxes/{session}/files?path=/tmp/b", token=token)
        self.assertEqual(read.body, b"ho")
        listed = [each["path"] for each in self.data("list_files", token, session=session)["files"]]
        self.assertEqual(sorted(listed), ["/tmp/a", "/tmp/b"])
        forks = self.data("fork_session", token, session=session, count=2)["sessions"]
        self.assertEqual([(each["parent"], each["turns"], each["language"]) for each in forks], [(session, 2, "python")] * 2)
        self.assertEqual(self.service.request("DELETE", f"/v1/sandboxes/{forks[0]['session']}", token=token).status, 204)
        self.assertIn("there is no sandbox", self.problem("run_in_session", token, session=forks[0]["session"], code="x"))
        self.data("close_session", token, session=session)
        self.refused(self.service.request("GET", f"/v1/sandboxes/{session}", token=token), 404, "not_found")
        missing = self.problem("run_in_session", token, session=session, code="1")
        self.assertIn(f"The sessions are {forks[1]['session']}.", missing)

    def test_a_session_has_the_policy_that_rest_gave_it(self):
        sandbox = self.service.create("wat", policy={"kv": {}})
        shown = self.data("explain_policy", session=sandbox)
        self.assertNotIn("It has no key-value store.", shown["explanation"])
        self.assertEqual(json.loads(shown["policy"]), self.service.request("GET", f"/v1/sandboxes/{sandbox}/policy").json)
        self.assertIn("there is no sandbox sbx", self.problem("explain_policy", session="sbx"))

    def test_a_sandbox_of_rest_is_a_session(self):
        sandbox = self.service.create("wat")
        ran = self.data("run_in_session", session=sandbox, code='(func (export "main") (call $io.print "a"))')
        self.assertEqual((ran["stdout"], ran["session"]), ("a", sandbox))
        sessions = json.loads(self.ask(stateless(1, "resources/read", uri="membrane://sessions"))["contents"][0]["text"])
        self.assertIn({"session": sandbox, "language": "wat", "turns": 1}, sessions["sessions"])

    def test_typescript_keeps_its_name(self):
        if not has_language("js"):
            self.skipTest("js is not installed")
        session = self.data("create_session", language="typescript")
        self.assertEqual(session["language"], "typescript")
        self.assertEqual(self.data("run_in_session", session=session["session"], code="const a: number = 41; a + 1")["result"], "42")
        (fork,) = self.data("fork_session", session=session["session"])["sessions"]
        self.assertEqual(fork["language"], "typescript")
        self.assertEqual(self.data("run_in_session", session=fork["session"], code="const b: number = a; b")["result"], "41")
        self.assertEqual(self.data("run_code", language="ts", code="const a: number = 1; a")["result"], "1")

    def test_what_is_printed_comes_before_the_answer(self):
        answer = self.post(with_progress(run_wat(1, '(call $io.print "on")')))
        self.assertEqual(answer.headers["Content-Type"], "text/event-stream")
        shown = [json.loads(line[6:]) for line in answer.body.decode().splitlines() if line.startswith("data: ")]
        self.assertIn("on", [each["params"].get("message") for each in shown[:-1]])
        self.assertEqual(shown[-1]["result"]["structuredContent"]["stdout"], "on")


class Access(McpTest):
    def test_without_a_token_nothing_is_served(self):
        message = stateless(1, "tools/list")
        expired = self.token("exec", ttl_s=1)
        while self.service.request("GET", "/v1/usage", token=expired).status != 401:
            continue
        for token, what in ((False, "no token"), ("mbr_" + "a" * 32, "not known"), (expired, "expired")):
            answer = self.post(message, token)
            self.assertIn(what, self.refused(answer, 401, "unauthorized")["message"])
            self.assertEqual(answer.headers["WWW-Authenticate"], "Bearer")
        self.refused(self.service.request("GET", "/mcp", token=False), 401, "unauthorized")

    def test_the_token_and_the_configuration_of_the_page(self):
        if not shutil.which("curl"):
            self.skipTest("there is no curl")
        command = block_of_page("console", "$ curl")[2:].split("\n{")[0].replace("http://127.0.0.1:7400", self.service.url)
        made = subprocess.run(["sh", "-c", command], env={**os.environ, "OWNER": self.service.token}, capture_output=True,
                              timeout=SECONDS, check=True)
        configured = json.loads(block_of_page("json", '{ "mcpServers": { "membrane": {'))["mcpServers"]["membrane"]
        headers = {"Authorization": configured["headers"]["Authorization"].replace("mbr_…", json.loads(made.stdout)["token"])}
        self.assertEqual(configured["url"], "http://127.0.0.1:7400/mcp")
        self.assertEqual(self.post(run_wat(1, "(nop)"), False, headers).json["result"]["structuredContent"]["outcome"], "ok")

    def test_a_token_that_is_removed_ends_a_handshake(self):
        made = self.service.request("POST", "/v1/tokens", {"name": "t", "scopes": ["exec"]}).json
        begun = self.service.request("POST", "/mcp", {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}, token=made["token"])
        self.service.request("DELETE", f"/v1/tokens/{made['info']['id']}")
        ping = self.service.request("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "ping"},
                                    {"Mcp-Session-Id": begun.headers["Mcp-Session-Id"]}, made["token"])
        self.refused(ping, 401, "unauthorized")

    def test_a_scope_that_is_missing_is_named(self):
        session = {"session": "sbx"}
        wants = {"run_code": (["sandboxes:write", "exec"], {"language": "wat", "code": ""}),
                 "create_session": (["sandboxes:write"], {"language": "js"}), "run_in_session": (["exec"], {**session, "code": ""}),
                 "fork_session": (["sandboxes:write"], session), "close_session": (["sandboxes:write"], session),
                 "list_files": (["files:read"], session), "read_file": (["files:read"], {**session, "path": "/a"}),
                 "write_file": (["files:write"], {**session, "path": "/a", "content": ""}), "list_reports": (["exec"], {}),
                 "get_report": (["exec"], {"report": "a"}), "get_receipt": (["exec"], {"report": "a"}), "explain_policy": (["sandboxes:read"], session)}
        offered = [tool["name"] for tool in self.ask(stateless(1, "tools/list"))["tools"]]
        for tool, (scopes, arguments) in wants.items():
            for scope in scopes if tool in offered else []:
                with self.subTest(tool=tool, scope=scope):
                    token = self.token(*[each for each in ALL_SCOPES if each != scope], "logs")
                    self.assertIn(f"the token does not have the scope {scope}\n", self.problem(tool, token, **arguments))
        nothing = self.token("logs")
        self.assertFalse(self.tool("explain_policy", nothing)["isError"])
        names = [each["name"] for each in self.ask(stateless(1, "resources/list"), nothing)["resources"]]
        self.assertEqual(names, ["policy", "sessions"])
        refused = self.post(stateless(1, "resources/read", uri="membrane://sessions"), nothing).json["error"]
        self.assertIn("sandboxes:read", refused["message"])

    def test_the_sandboxes_of_another_tenant_do_not_exist(self):
        sandbox = self.service.create("wat")
        other = self.token(*ALL_SCOPES)
        for tool, arguments in (("run_in_session", {"code": "(func)"}), ("fork_session", {}), ("close_session", {}), ("explain_policy", {}),
                                ("list_files", {}), ("read_file", {"path": "/a"}), ("write_file", {"path": "/a", "content": ""})):
            with self.subTest(tool=tool):
                self.assertIn(f"there is no sandbox {sandbox}", self.problem(tool, other, session=sandbox, **arguments))
        sessions = self.ask(stateless(1, "resources/read", uri="membrane://sessions"), other)["contents"][0]["text"]
        self.assertEqual(json.loads(sessions), {"sessions": []})
        refused = self.post(stateless(1, "resources/read", uri=f"membrane://sessions/{sandbox}/files/a"), other).json["error"]
        self.assertIn("there is no sandbox", refused["message"])
        self.assertEqual(self.service.request("GET", f"/v1/sandboxes/{sandbox}").status, 200)

    def test_pages_and_names_of_others_are_kept_out(self):
        message = stateless(1, "tools/list")
        for headers, status in (({"Origin": "https://evil.example.org"}, 403), ({"Origin": "null"}, 403),
                                ({"Host": "evil.example.org"}, 403), ({"Origin": "http://localhost:3000"}, 200),
                                ({"Host": "127.0.0.1.evil.org"}, 403), ({"Host": "localhost:1"}, 200)):
            with self.subTest(headers=headers):
                self.assertEqual(self.post(message, headers=headers).status, status)

    def test_a_page_that_is_let_in_can_ask_from_a_browser(self):
        page = {"Origin": "http://localhost:6274"}
        asks = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,mcp-method"}
        answer = self.service.request("OPTIONS", "/mcp", None, {**page, **asks}, token=False)
        self.assertEqual((answer.status, answer.headers["Access-Control-Allow-Origin"]), (204, page["Origin"]))
        self.assertIn("Authorization", answer.headers["Access-Control-Allow-Headers"])
        for token in (True, False):
            answer = self.post(stateless(1, "tools/list"), token, page)
            self.assertEqual(answer.headers["Access-Control-Allow-Origin"], page["Origin"])
        answer = self.service.request("OPTIONS", "/mcp", None, {**asks, "Origin": "https://evil.example.org"}, token=False)
        self.assertEqual((answer.status, answer.headers.get("Access-Control-Allow-Origin")), (401, None))

    def test_quotas_are_those_of_the_token(self):
        token = self.token(*ALL_SCOPES, quotas={"sandboxes": 1})
        sandbox = self.service.request("POST", "/v1/sandboxes", {"template": "wat"}, token=token).json["id"]
        self.assertIn("its quota is 1", self.problem("run_code", token, language="wat", code="(func)"))
        self.assertIn("its quota is 1", self.problem("fork_session", token, session=sandbox))


class Messages(McpTest):
    def test_headers_that_do_not_fit(self):
        message = call_of("explain_policy")
        for headers, code in (({"Mcp-Name": "run_code"}, -32020), ({"Mcp-Method": "tools/list"}, -32020),
                              ({"MCP-Protocol-Version": "2025-11-25"}, -32020)):
            answer = self.post(message, headers=headers)
            self.assertEqual((answer.status, answer.json["error"]["code"]), (400, code), headers)
        for headers, status in (({"Content-Type": "text/plain"}, 415), ({"Accept": "text/html"}, 406)):
            self.assertEqual(self.post(message, headers=headers).status, status)
        later = stateless(1, "tools/list")
        later["params"]["_meta"] = {**later["params"]["_meta"], "io.modelcontextprotocol/protocolVersion": "2099-01-01"}
        answer = self.post(later, headers={"MCP-Protocol-Version": "2099-01-01"})
        self.assertEqual((answer.status, answer.json["error"]["code"]), (400, -32022))
        old = self.service.request("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "ping"},
                                   {"Mcp-Session-Id": "none", "MCP-Protocol-Version": "2025-11-25"})
        self.assertEqual(old.status, 404)

    def test_other_methods_do_not_exist(self):
        for method in ("GET", "PUT", "PATCH", "OPTIONS"):
            answer = self.service.request(method, "/mcp", None if method == "GET" else {})
            self.assertEqual((answer.status, answer.headers["Allow"]), (405, "POST, DELETE"))
        self.refused(self.service.request("POST", "/mcp/more", {}), 404, "not_found")

    def test_a_malformed_message(self):
        json_headers = {"Content-Type": "application/json"}
        for body in (b"", b"{", b"\xff", b"[]", b"null", b"[" * 60_000, b'{"jsonrpc":"2.0"}', b"[" * 200_000):
            answer = self.service.request("POST", "/mcp", body, json_headers)
            self.assertEqual(answer.status, 400, (body[:20], answer.body))
            self.assertIn("error", answer.json)
        with socket.create_connection((self.service.host, self.service.port), timeout=SECONDS) as connection:
            connection.sendall(f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.service.token}\r\n"
                               f"Content-Length: {(16 << 20) + 1}\r\n\r\n".encode())
            self.assertTrue(connection.recv(65536).startswith(b"HTTP/1.1 413"))
        answer = self.service.request("POST", "/mcp", {"jsonrpc": "2.0", "method": "notifications/initialized"})
        self.assertEqual((answer.status, answer.body), (202, b""))

    def test_a_request_has_its_id(self):
        answer = self.post(stateless(1, "tools/list"), headers={"X-Request-Id": "mine-1"})
        self.assertEqual(answer.headers["X-Request-Id"], "mine-1")

    def test_long_wrong_arguments_are_mended_by_short_sentences(self):
        wrong = "é" * 10_000
        tools = self.ask(stateless(1, "tools/list"))["tools"]
        for tool in tools:
            properties = tool["inputSchema"]["properties"]
            for name in [*properties, wrong]:
                for value in (wrong, [wrong] * 3, {wrong: wrong}, -10**18, None):
                    if properties.get(name, {}).get("type") == "string" and value == wrong:
                        continue  # it fits
                    with self.subTest(tool=tool["name"], name=name[:10], value=str(value)[:10]):
                        result = self.tool(tool["name"], **{name: value})
                        self.assertTrue(result["isError"] or value is None or not properties, result)
                        self.assertLess(len(result["content"][0]["text"]), 4_000)
        for tool in ("run_in_session", "close_session", "fork_session", "list_files"):
            arguments = {"session": wrong, **({"code": "1"} if tool == "run_in_session" else {})}
            self.assertIn("there is no sandbox", self.problem(tool, **arguments))
        answer = self.post(call_of("é" * 10_000), headers={"Mcp-Name": "x"})
        self.assertEqual(answer.status, 400)
        self.assertNotRegex(self.service.log_text(), r'"status":50[0347]')

    def test_a_message_that_is_long_is_read_all_the_same(self):
        sandbox = self.service.create("wat")
        code = '(func (export "main") (call $io.print "a"))' + ";;" + "x" * (4 << 20)
        self.assertEqual(self.data("run_in_session", session=sandbox, code=code)["stdout"], "a")


class Many(McpTest):
    FLAGS = ("--log-level", "warning", "--threads", "4")

    def long(self, token=True):
        """A sandbox whose programs may take an hour."""
        answer = self.service.request("POST", "/v1/sandboxes", {"template": "wat", **LONG}, token=token)
        self.assertEqual(answer.status, 201, answer.body)
        return answer.json["id"]

    def test_clients_at_once_get_what_is_theirs(self):
        tokens = [self.token(*ALL_SCOPES) for _ in range(4)]

        def client(number):
            texts = []
            for i in range(5):
                program = run_wat(i, f'(call $io.print "{number}-{i}")')
                texts.append(self.ask(program, tokens[number % 4])["structuredContent"]["stdout"])
            return texts

        with ThreadPoolExecutor(16) as pool:
            for number, texts in enumerate(pool.map(client, range(16))):
                self.assertEqual(texts, [f"{number}-{i}" for i in range(5)])
        for token in tokens:
            self.assertEqual(self.service.request("GET", "/v1/sandboxes", token=token).json["sandboxes"], [])

    def test_calls_on_one_session_are_done_one_after_the_other(self):
        sandbox = self.service.create("wat")
        with ThreadPoolExecutor(8) as pool:
            runs = pool.map(lambda i: self.data("run_in_session", session=sandbox,
                                                code=f'(func (export "main") (call $io.print "{i}"))')["stdout"], range(8))
            self.assertEqual(list(runs), [str(i) for i in range(8)])

    def test_a_client_that_goes_ends_its_program(self):
        for message in (call_of("run_in_session", session="", code=LOOP),
                        with_progress(call_of("run_in_session", session="", code=PRINTING_LOOP))):
            sandbox = self.long()
            message["params"]["arguments"]["session"] = sandbox
            connection = self.open_call(message)
            self.wait_for_exec(sandbox, "running")
            connection.close()
            self.assertEqual(self.outcome(sandbox), "cancelled")
            self.assertEqual(self.data("run_in_session", session=sandbox, code='(func (export "main"))')["outcome"], "ok")

    def test_a_client_that_goes_while_its_program_waits_ends_it(self):
        sandbox = self.long()
        first = self.open_call(call_of("run_in_session", session=sandbox, code=LOOP))
        self.wait_for_exec(sandbox, "running")
        second = self.open_call(call_of("run_in_session", session=sandbox, code=LOOP))
        self.wait_for_exec(sandbox, "queued")
        second.close()
        first.close()
        self.assertEqual(self.outcome(sandbox), "cancelled")

    def test_a_cancellation_ends_its_call(self):
        begun = self.service.request("POST", "/mcp", {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}})
        headers = {"Mcp-Session-Id": begun.headers["Mcp-Session-Id"], "MCP-Protocol-Version": "2025-11-25"}
        sandbox = self.long()
        call = {"jsonrpc": "2.0", "id": "c", "method": "tools/call",
                "params": {"name": "run_in_session", "arguments": {"session": sandbox, "code": LOOP}}}
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(self.service.request, "POST", "/mcp", call, headers)
            self.wait_for_exec(sandbox, "running")
            note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "c"}}
            self.assertEqual(self.service.request("POST", "/mcp", note, headers).status, 202)
            self.assertEqual(answer.result().body, b"")
        self.assertEqual(self.outcome(sandbox), "cancelled")

    def test_long_calls_delay_no_others(self):
        token = self.token(*ALL_SCOPES)
        sandbox = self.long(token)
        calls = [self.open_call(call_of("run_in_session", session=sandbox, code=LOOP), token) for _ in range(32)]
        listed = lambda: self.service.request("GET", f"/v1/sandboxes/{sandbox}/execs", token=token).json["execs"]  # noqa: E731
        while len(listed()) < 32:
            continue
        self.refused(self.post(call_of("explain_policy"), token), 429, "too_many_requests")
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
        self.assertEqual(self.service.request("POST", "/mcp", cancelled, token=token).status, 202)
        self.assertEqual(self.service.request("GET", "/health").status, 200)
        self.assertEqual(self.ask(run_wat(1, '(call $io.print "a")'))["structuredContent"]["stdout"], "a")
        for connection in calls:
            connection.close()
        while self.post(call_of("explain_policy"), token).status == 429:
            continue


class Settings(unittest.TestCase):
    def test_other_hosts_and_origins_are_let_in_by_the_settings(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as config:
            config.write('[mcp]\nhosts = ["sandbox.example.org"]\norigins = ["https://chat.example.org"]\n')
            config.flush()
            service = Service("--config", config.name)
            self.addCleanup(service.log.close)
            self.addCleanup(service.stop)
            message = stateless(1, "tools/list")
            for headers, status in (({"Host": "sandbox.example.org"}, 200), ({"Host": "other.example.org"}, 403),
                                    ({"Origin": "https://chat.example.org"}, 200), ({"Origin": "http://chat.example.org"}, 403)):
                answer = service.request("POST", "/mcp", message, {**headers_of(message), **headers})
                self.assertEqual(answer.status, status, headers)

    def test_the_service_ends_while_a_call_runs(self):
        service = Service("--drain", "0")
        self.addCleanup(service.log.close)
        sandbox = service.create("wat", **LONG)
        message = call_of("run_in_session", session=sandbox, code=LOOP)
        body = json.dumps(message)
        connection = http.client.HTTPConnection(service.host, service.port, timeout=SECONDS)
        connection.request("POST", "/mcp", body, {**headers_of(message), "Authorization": f"Bearer {service.token}"})
        while not [each for each in service.request("GET", f"/v1/sandboxes/{sandbox}/execs").json["execs"]
                   if each["state"] == "running"]:
            continue
        self.assertEqual(service.stop(), 0)
        connection.close()


class WithToken:
    """A proxy for a client that can send no token: on loopback, it adds the token to each request."""

    def __init__(self, service):
        self.service = service
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}/mcp"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return  # it was closed
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        head = b""
        while b"\r\n\r\n" not in head:
            if not (got := client.recv(65536)):
                return client.close()
            head += got
        line, rest = head.split(b"\r\n", 1)
        fields, body = rest.split(b"\r\n\r\n", 1)
        kept = [field for field in fields.split(b"\r\n") if not field.lower().startswith(b"connection:")]
        kept += [b"Connection: close", f"Authorization: Bearer {self.service.token}".encode()]
        server = socket.create_connection((self.service.host, self.service.port))
        server.sendall(b"\r\n".join([line, *kept]) + b"\r\n\r\n" + body)
        threading.Thread(target=self.pump, args=(client, server), daemon=True).start()
        self.pump(server, client)
        server.close()
        client.close()

    @staticmethod
    def pump(source, sink):
        try:
            while got := source.recv(65536):
                sink.sendall(got)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            return  # one of both has gone

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


class ServedTest:
    """A service of its own for a class of clients, and a tenant of its own for each test."""

    @classmethod
    def setUpClass(cls):
        cls.bring()
        cls.service = Service("--log-level", "warning")
        cls.addClassCleanup(cls.service.log.close)
        cls.addClassCleanup(cls.service.stop)
        cls.url = cls.service.url + "/mcp"
        # A service prepares Python on first use; a client would not wait for a sanitized one.
        cls.service.request("DELETE", "/v1/sandboxes/" + cls.service.request("POST", "/v1/sandboxes", {"template": "python"}).json["id"])

    def setUp(self):
        self.token = self.service.request("POST", "/v1/tokens", {"name": "t", "scopes": ALL_SCOPES}).json["token"]


class NodeClients(ServedTest, OfNode):
    def test_the_first_sdk(self):
        self.check(self.client("v1", "legacy", self.url), "2025-11-25")

    def test_the_second_sdk_with_a_handshake(self):
        self.check(self.client("v2", "legacy", self.url), "2025-11-25")

    def test_the_second_sdk_without_one(self):
        self.check(self.client("v2", "2026-07-28", self.url), "2026-07-28")

    def test_clients_at_once(self):
        with ThreadPoolExecutor(3) as pool:
            for found in pool.map(lambda era: self.client("v2", *era, self.url), [["legacy"], ["2026-07-28"]] * 2):
                self.assertEqual((found["errors"], found["forked"], found["after"]), ([], "42", "40"))

    def test_the_inspector(self):
        def asked(*arguments):
            return self.inspect(self.url, "--header", f"Authorization: Bearer {self.token}", "--method", *arguments)
        self.assertEqual([tool["name"] for tool in asked("tools/list")["tools"]], TOOLS)
        ran = asked("tools/call", "--tool-name", "run_code", "--tool-arg", "language=wat",
                    'code=(func (export "main") (result i32) (i32.const 42))')
        self.assertEqual(ran["structuredContent"]["results"], ["42"])
        self.assertIn("under this policy", asked("resources/read", "--uri", "membrane://policy")["contents"][0]["text"])

    def test_the_example_of_the_page(self):
        program = self.own_folder() / "example.mjs"
        (program.parent / "node_modules").symlink_to(self.folder / "node_modules")
        program.write_text(block_of_page("js", "import { Client"))
        self.assertEqual(self.talk("node", program, MEMBRANE_URL=self.service.url, MEMBRANE_TOKEN=self.token), "42\n")

    def test_conformance(self):
        way = WithToken(self.service)
        self.addCleanup(way.close)
        self.conform(way.url)


class PythonClients(ServedTest, OfPython):
    def test_with_a_handshake(self):
        self.check(self.client("legacy", self.url), "2025-11-25")

    def test_without_one(self):
        self.check(self.client("2026-07-28", self.url), "2026-07-28")
        self.check(self.client("auto", self.url), "2026-07-28")

    def test_the_example_of_the_page(self):
        program = self.folder / "example.py"
        program.write_text(block_of_page("python", "import asyncio"))
        self.assertEqual(self.talk(self.python, program, MEMBRANE_URL=self.service.url, MEMBRANE_TOKEN=self.token), "42\n")


if __name__ == "__main__":
    unittest.main()
