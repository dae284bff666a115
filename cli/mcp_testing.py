"""What tests of MCP share: messages, and other projects' clients, each fetched from its registry by npm or pip.

MEMBRANE_COMMAND names the command, as in cli/command_testing.py. Clients that cannot be downloaded are skipped,
and the skip says why.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT / "tools" / "tests"))
import brought  # noqa: E402

COMMAND = os.environ.get("MEMBRANE_COMMAND", str(ROOT / "build" / "release" / "membrane"))
SECONDS = 600  # a process that needs more hangs

NPM_PACKAGES = ["@modelcontextprotocol/sdk@1.32.2", "@modelcontextprotocol/client@2.4.0",
                "@modelcontextprotocol/inspector@2.12.0", "@modelcontextprotocol/conformance@0.1.16"]
NODE_FOR_CONFORMANCE = "node@22"  # what that suite needs, where this machine's is older
PIP_PACKAGES = ["mcp==2.3.0"]

TOOLS = ["run_code", "create_session", "run_in_session", "fork_session", "close_session", "list_files", "read_file", "write_file",
         "explain_policy", "list_reports", "get_report", "get_receipt"]
# Features of the conformance suite's example server that a server for another purpose lacks.
EXPECTED_FAILURES = {
    "a tool of that server's, by its name": [
        "tools-call-simple-text", "tools-call-image", "tools-call-audio", "tools-call-embedded-resource",
        "tools-call-mixed-content", "tools-call-with-logging", "tools-call-error", "tools-call-with-progress",
        "tools-call-sampling", "tools-call-elicitation", "elicitation-sep1034-defaults", "elicitation-sep1330-enums"],
    "a resource of that server's, by its URI": ["resources-read-text", "resources-read-binary", "resources-templates-read"],
    "prompts, completion and subscriptions, which are not offered": [
        "prompts-list", "prompts-get-simple", "prompts-get-with-args", "prompts-get-embedded-resource", "prompts-get-with-image",
        "completion-complete", "resources-subscribe", "resources-unsubscribe"],
}
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}


def stateless(number, method, **params):
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": {"_meta": META, **params}}


def run_wat(number, body):
    code = f'(func (export "main") {body})'
    return stateless(number, "tools/call", name="run_code", arguments={"language": "wat", "code": code})


def has_language(name):
    return subprocess.run([COMMAND, "run", "--lang", name, "-e", "1"], capture_output=True, timeout=SECONDS,
                          check=False).returncode == 0


class Clients(unittest.TestCase):
    """Clients of others in `folder`. `token` is what they send to a server over HTTP; "" for none."""

    token = ""

    def talk(self, *command, **environment):
        done = subprocess.run([*map(str, command)], cwd=self.folder, capture_output=True, text=True, timeout=SECONDS, check=False,
                              env={**os.environ, "MCP_TOKEN": self.token, **environment})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    @classmethod
    def own_folder(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        return Path(folder.name)

    def check(self, found, revision):
        self.assertEqual(found["errors"], [])
        self.assertIn(found["revision"], (revision, None))  # one client does not say
        self.assertEqual(found["tools"], TOOLS)
        self.assertEqual((found["run"]["outcome"], found["run"]["result"], found["run"]["stdout"]), ("ok", "42", "a\n"))
        self.assertIn("one of python", found["mended"])
        self.assertEqual((found["failed"], found["closed"]), (True, False))
        self.assertEqual((found["forked"], found["file"], found["after"]), ("42", "hi", "40"))
        self.assertEqual(found["templates"], 2)
        self.assertIn("enough", found["aborted"]["message"])
        self.assertEqual(found["unknown"]["code"], -32602)


class OfNode(Clients):
    """Those of npm."""

    @classmethod
    def bring(cls):
        if not has_language("python"):
            raise unittest.SkipTest("python is not installed as a language")
        cls.folder = cls.own_folder()
        try:
            (cls.folder / "node_modules").symlink_to(brought.node_modules(*NPM_PACKAGES))
        except brought.NotBrought as why:
            raise unittest.SkipTest(f"{', '.join(NPM_PACKAGES)}: {why}") from why
        shutil.copy(HERE / "mcp_client.mjs", cls.folder)

    def client(self, generation, era, *target):
        return json.loads(self.talk("node", "mcp_client.mjs", generation, era, *target).splitlines()[-1])

    def inspect(self, *arguments):
        """The inspector's answer; the first arguments name the server."""
        return json.loads(self.talk(self.folder / "node_modules" / ".bin" / "mcp-inspector", "--cli", *arguments))

    def conform(self, url):
        """All scenarios of the conformance suite."""
        node = "node"
        version = self.talk(node, "--version").strip()
        if int(version.lstrip("v").split(".")[0]) < 22:
            node = brought.node_modules(NODE_FOR_CONFORMANCE) / ".bin" / "node"
        baseline = self.own_folder() / "expected-failures.yml"
        names = [name for names in EXPECTED_FAILURES.values() for name in names]
        baseline.write_text("server:\n" + "".join(f"  - {name}\n" for name in names))
        suite = self.folder / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
        out = self.talk(node, suite, "server", "--url", url, "--expected-failures", baseline)
        passed = {line.split()[1].rstrip(":") for line in out.splitlines() if line.startswith("✓")}
        self.assertLessEqual({"server-initialize", "ping", "logging-set-level", "tools-list", "resources-list",
                              "server-sse-multiple-streams", "dns-rebinding-protection"}, passed, out)


class OfPython(Clients):
    """That of PyPI."""

    @classmethod
    def bring(cls):
        if not has_language("python"):
            raise unittest.SkipTest("python is not installed as a language")
        cls.folder = cls.own_folder()
        try:
            cls.python = brought.virtual_environment(*PIP_PACKAGES)
        except brought.NotBrought as why:
            raise unittest.SkipTest(f"{', '.join(PIP_PACKAGES)}: {why}") from why

    def client(self, era, *target):
        return json.loads(self.talk(self.python, HERE / "mcp_client.py", era, *target).splitlines()[-1])
