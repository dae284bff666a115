#!/usr/bin/env python3
"""MCP over standard streams: `membrane mcp` by its pipes, and by the clients of others (mcp_testing.py): the TypeScript SDK,
1.x (a handshake) and 2.x (both eras), the Python SDK, both eras, and @modelcontextprotocol/inspector --cli. The same clients
and the conformance suite talk to POST /mcp in service/mcp_test.py.

    MEMBRANE_COMMAND=build/release/membrane cli/mcp_test.py
"""

import json
import os
import signal
import subprocess
import unittest

from mcp_testing import COMMAND, META, NPM_PACKAGES, ROOT, SECONDS, TOOLS, OfNode, OfPython, has_language, run_wat, stateless


class Pipes(unittest.TestCase):
    """The command, message by message."""

    def served(self, text, *arguments, code=0):
        done = subprocess.run([COMMAND, "mcp", *arguments], input=text, capture_output=True, timeout=SECONDS, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def answers(self, messages, *arguments):
        text = "".join(json.dumps(message) + "\n" for message in messages)
        lines = self.served(text.encode(), *arguments).stdout.decode().splitlines()
        return {message.get("id"): message for message in map(json.loads, lines)}

    def test_what_was_asked_is_answered_before_the_end(self):
        answers = self.answers([stateless(1, "server/discover"), run_wat(2, '(call $io.print "hello")'),
                                stateless("three", "tools/list")])
        self.assertEqual(sorted(map(str, answers)), ["1", "2", "three"])
        self.assertEqual(answers[2]["result"]["structuredContent"]["stdout"], "hello")
        self.assertEqual([tool["name"] for tool in answers["three"]["result"]["tools"]][0], "run_code")

    def test_nothing_is_granted_but_what_the_flags_say(self):
        program = run_wat(1, '(set $text $errno (call $kv.get "a"))')
        refused = self.answers([program])[1]["result"]["structuredContent"]["refused"]
        self.assertEqual(refused[0]["grant"], "--allow kv")
        self.assertNotIn("refused", self.answers([program], "--allow", "kv")[1]["result"]["structuredContent"])
        listed = self.answers([stateless(1, "tools/list")], "--allow", "kv", "--fuel", "12345")[1]["result"]["tools"]
        self.assertIn("12,345 fuel", listed[0]["description"])
        self.assertIn("kv", listed[0]["description"])

    def test_a_wrong_policy_is_refused_before_anything_is_served(self):
        for arguments in (["--allow", "nonsense"], ["--policy", "/none"], ["--dir", "/none/such"], ["--max-sessions", "0"],
                          ["--tier", "none"]):
            done = self.served(b"", *arguments, code=2)
            self.assertEqual(done.stdout, b"")
            self.assertTrue(done.stderr)

    def test_whatever_comes_only_messages_go_out(self):
        garbage = [b"", b"\xff\xfe", b"{", b"[]", b"null", b"[" * 100_000, b"x" * 200_000, b'{"jsonrpc":"2.0"}', b"\0" * 99,
                   b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}', b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]',
                   b'{"jsonrpc":"2.0","id":' + b"9" * 400 + b',"method":"ping"}', b"x" * (17 << 20)]
        done = self.served(b"\n".join(garbage * 3) + b"\n" + json.dumps(stateless(7, "server/discover")).encode())
        messages = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([message["id"] for message in messages if "result" in message], [7])
        self.assertTrue(all(message["jsonrpc"] == "2.0" for message in messages))
        self.assertNotIn(b"\n\n", done.stdout)

    def test_a_signal_ends_what_runs(self):
        call = run_wat(1, '(loop $more (call $io.print "x") (br $more))')
        call["params"]["_meta"] = {**META, "progressToken": 1}
        with subprocess.Popen([COMMAND, "mcp", "--output", "1GiB", "--fuel", "1e15", "--wall", "600s", "--host-calls", "1e15"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
            server.stdin.write(json.dumps(call).encode() + b"\n")
            server.stdin.flush()
            self.assertEqual(json.loads(server.stdout.readline())["method"], "notifications/progress")
            server.send_signal(signal.SIGTERM)
            server.stdout.read()
            self.assertEqual(server.wait(SECONDS), 0)

    def test_many_sessions_at_once_are_bounded(self):
        if not has_language("js"):
            self.skipTest("js is not installed")
        create = [stateless(i, "tools/call", name="create_session", arguments={"language": "js"}) for i in range(6)]
        answers = self.answers(create, "--max-sessions", "2")
        self.assertEqual(sum(not answers[i]["result"]["isError"] for i in range(6)), 2)


class Page(unittest.TestCase):
    def test_it_names_the_versions_that_are_tested(self):
        page = " ".join((ROOT / "docs" / "mcp.md").read_text().split())
        for name, said in (("inspector", "the inspector {}:"), ("conformance", "the conformance suite {},")):
            version = next(package for package in NPM_PACKAGES if f"/{name}@" in package).rpartition("@")[2]
            self.assertIn(said.format(version), page)


class NodeClients(OfNode):
    @classmethod
    def setUpClass(cls):
        cls.bring()

    def test_the_first_sdk(self):
        self.check(self.client("v1", "legacy", COMMAND, "mcp"), "2025-11-25")

    def test_the_second_sdk_with_a_handshake(self):
        self.check(self.client("v2", "legacy", COMMAND, "mcp"), "2025-11-25")

    def test_the_second_sdk_without_one(self):
        self.check(self.client("v2", "2026-07-28", COMMAND, "mcp"), "2026-07-28")

    def inspect_command(self, *arguments):
        # It starts servers with an environment of a few variables.
        languages = os.environ.get("MEMBRANE_LANGUAGES")
        environment = ["-e", f"MEMBRANE_LANGUAGES={languages}"] if languages else []
        return self.inspect(*environment, COMMAND, "mcp", "--method", *arguments)

    def test_the_inspector(self):
        self.assertEqual([tool["name"] for tool in self.inspect_command("tools/list")["tools"]], TOOLS)
        ran = self.inspect_command("tools/call", "--tool-name", "run_code", "--tool-arg", "language=wat",
                           'code=(func (export "main") (result i32) (i32.const 42))')
        self.assertEqual(ran["structuredContent"]["results"], ["42"])
        self.assertEqual(len(self.inspect_command("resources/templates/list")["resourceTemplates"]), 2)
        read = self.inspect_command("resources/read", "--uri", "membrane://policy")
        self.assertIn("under this policy", read["contents"][0]["text"])


class PythonClients(OfPython):
    @classmethod
    def setUpClass(cls):
        cls.bring()

    def test_with_a_handshake(self):
        self.check(self.client("legacy", COMMAND, "mcp"), "2025-11-25")

    def test_without_one(self):
        self.check(self.client("auto", COMMAND, "mcp"), "2026-07-28")


if __name__ == "__main__":
    unittest.main()
