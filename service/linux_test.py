#!/usr/bin/env python3
"""A service's Linux sandboxes, used through the command: created, given commands and files, ended.

MEMBRANE_COMMAND names the command. The image is made of this machine's own programs (cli/linux_testing.py).
"""

import base64
import http.server
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "cli"))
from linux_testing import Terminal, encrypt, make_image  # noqa: E402
from mcp_testing import stateless  # noqa: E402
from service_testing import SANITIZED, Service  # noqa: E402

MEMBRANE = os.environ.get("MEMBRANE_COMMAND", "build/release/membrane")


@unittest.skipIf(SANITIZED, "a sanitizer makes calls that the kernel process of Linux programs may not make")
@unittest.skipUnless(platform.machine() == "x86_64", "the linux kind runs on x86-64")
class WithImage(unittest.TestCase):
    """An image store that contains `host`."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        os.environ["MEMBRANE_IMAGES"] = str(cls.folder / "images")
        make_image(cls.folder / "host.tar")
        subprocess.run([MEMBRANE, "image", "import", cls.folder / "host.tar", "--tag", "host"], check=True, capture_output=True)


class LinuxSandboxes(WithImage):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.service = Service()
        cls.addClassCleanup(cls.service.stop)

    def membrane(self, *words, code=0, input=None):
        done = subprocess.run([MEMBRANE, *map(str, words)], input=input, capture_output=True, timeout=120,
                              env={**os.environ, "MEMBRANE_URL": self.service.url, "MEMBRANE_TOKEN": self.service.token})
        self.assertEqual(done.returncode, code, done.stderr.decode(errors="replace"))
        return done.stdout

    def create(self):
        sandbox = self.membrane("create", "--template", "linux:host").decode().strip()
        self.addCleanup(self.membrane, "rm", sandbox)
        return sandbox

    def test_scripts_and_commands(self):
        sandbox = self.create()
        self.assertEqual(self.membrane("exec", sandbox, "-e", "echo one > /tmp/x; pwd"), b"/root\n")
        self.assertEqual(self.membrane("exec", sandbox, "cat", "/tmp/x"), b"one\n")
        self.membrane("exec", sandbox, "-e", "exit 3", code=3)

    def test_exit_codes_are_those_of_shells(self):
        sandbox = self.create()
        self.assertEqual(self.membrane("exec", sandbox, "--", "/bin/echo", "x"), b"x\n")  # the sandbox's, though one is here, too
        for words, code in ((["nosuch"], 127), (["/etc"], 126), (["sh", "-c", "kill -TERM $$"], 143)):
            self.membrane("exec", sandbox, "--", *words, code=code)
            shell = self.shell(sandbox, "--", *words)
            self.assertEqual(shell.end(), code, shell.seen)
            if code < 128:
                self.assertIn("hint", shell.seen)

    def test_a_command_starts_in_the_given_directory(self):
        sandbox = self.create()
        self.assertEqual(self.membrane("exec", sandbox, "--workdir", "/usr", "--", "pwd"), b"/usr\n")
        self.membrane("exec", sandbox, "--workdir", "/nosuch", "--", "pwd", code=2)

    def test_limits_that_are_not_named_are_those_of_linux(self):
        sandbox = self.membrane("create", "--template", "linux:host", "--tasks", "100").decode().strip()
        self.addCleanup(self.membrane, "rm", sandbox)
        policy = json.loads(self.membrane("info", sandbox, "--policy"))
        self.assertEqual({name: policy["limits"][name] for name in ("wall", "memory", "output", "disk", "tasks")},
                         {"wall": "10 min", "memory": "2 GiB", "output": "16 MiB", "disk": "1 GiB", "tasks": 100})
        self.assertNotIn("fuel", policy["limits"])
        self.assertNotIn("time", policy)
        said = self.folder / "said.json"
        said.write_text(json.dumps({**policy, "limits": {**policy["limits"], "tasks": 50}}))
        self.membrane("update", sandbox, "--policy", said)
        self.assertEqual(json.loads(self.membrane("info", sandbox, "--policy"))["limits"]["tasks"], 50)

    def test_copies_keep_what_is_executable_and_links(self):
        sandbox = self.create()
        tree = self.folder / "tree"
        (tree / "bin").mkdir(parents=True)
        (tree / "bin" / "run.sh").write_text("#!/bin/sh\necho ran\n")
        (tree / "bin" / "run.sh").chmod(0o755)
        (tree / "plain").write_text("text")
        (tree / "link").symlink_to("bin/run.sh")
        (tree / "absolute").symlink_to("/etc/passwd")
        for _ in range(2):
            self.membrane("cp", "-r", tree, f"{sandbox}:/root/")
        self.assertEqual(self.membrane("exec", sandbox, "-e", "cd /root/tree && ./link && stat -c %a bin/run.sh plain && readlink link absolute"),
                         b"ran\n755\n644\nbin/run.sh\n/etc/passwd\n")
        self.membrane("exec", sandbox, "-e", "cd /root/tree && chmod +x plain && chmod -x bin/run.sh && ln -s ../../up bin/up && ln -s ../plain bin/down")
        for _ in range(2):
            self.membrane("cp", "-r", f"{sandbox}:/root/tree", self.folder / "tree-back")
        back = self.folder / "tree-back"
        if (back / "tree").exists():
            back = back / "tree"
        self.assertEqual(sorted(str(each.relative_to(back)) for each in back.rglob("*")), ["bin", "bin/down", "bin/run.sh", "link", "plain"])
        self.assertEqual((os.readlink(back / "link"), os.readlink(back / "bin" / "down")), ("bin/run.sh", "../plain"))
        self.assertEqual([bool((back / name).stat().st_mode & 0o100) for name in ("plain", "bin/run.sh")], [True, False])
        self.membrane("cp", tree / "bin" / "run.sh", f"{sandbox}:/tmp/")
        self.assertEqual(self.membrane("exec", sandbox, "--", "/tmp/run.sh"), b"ran\n")
        self.membrane("cp", f"{sandbox}:/tmp/run.sh", self.folder / "one.sh")
        self.assertTrue(os.access(self.folder / "one.sh", os.X_OK))

    def test_output_is_exact(self):
        sandbox = self.create()
        every = bytes(range(256)) * 3 + "\u00e9\u20ac".encode()
        self.membrane("cp", "-", f"{sandbox}:/tmp/bytes", input=every)
        script = "cat /tmp/bytes; cat /tmp/bytes >&2"
        self.assertEqual(self.membrane("exec", sandbox, "--", "cat", "/tmp/bytes"), every)
        path = f"/v1/sandboxes/{sandbox}/exec"
        report = self.service.request("POST", path, {"code": script}).json
        self.assertEqual([base64.b64decode(report[name + "_base64"]) for name in ("stdout", "stderr")], [every, every])
        self.assertIn("\ufffd", report["stdout"])
        self.assertNotIn("stdout_base64", self.service.request("POST", path, {"code": "echo \u00e9"}).json)
        shown = json.loads(self.membrane("exec", sandbox, "--json", "-e", script))
        self.assertEqual((shown["stdout"], base64.b64decode(shown["stdout_base64"])), (report["stdout"], every))

        begun = self.service.request("POST", path, {"code": script + "; echo text", "background": True}).json["exec_id"]
        self.membrane("wait", sandbox, begun)
        events = [json.loads(line[6:]) for line in self.service.request(
            "GET", f"/v1/sandboxes/{sandbox}/execs/{begun}/events").body.decode().splitlines() if line.startswith("data: ")]
        printed = b"".join(base64.b64decode(each["base64"]) if "base64" in each else each["text"].encode()
                           for each in events[:-1])
        self.assertEqual(sorted(printed), sorted(every * 2 + b"text\n"))
        self.assertEqual(base64.b64decode(events[-1]["stdout_base64"]), every + b"text\n")

    def test_output_may_be_long(self):
        sandbox = self.create()
        for flags in ((), ("--json",)):
            self.membrane("exec", sandbox, *flags, "-e", "yes | head -c 12000000; exit 7", code=7)
        exec_id = json.loads(self.service.request("GET", f"/v1/sandboxes/{sandbox}/execs").body)["execs"][0]["exec_id"]
        self.membrane("wait", sandbox, exec_id, code=7)
        self.assertEqual(len(self.membrane("logs", sandbox, "--exec", exec_id)), 12_000_000)
        whole = self.service.request("GET", f"/v1/sandboxes/{sandbox}/execs/{exec_id}").json
        self.assertEqual((len(whole["report"]["stdout"]), whole["state"]), (12_000_000, "done"))
        self.assertEqual(self.membrane("exec", sandbox, "--", "head", "-c", "4000000", "/dev/zero"), bytes(4_000_000))

    # -- terminals

    def shell(self, *words):
        environment = {**os.environ, "MEMBRANE_URL": self.service.url, "MEMBRANE_TOKEN": self.service.token, "TERM": "vt100"}
        terminal = Terminal([MEMBRANE, "shell", *words], environment)
        self.addCleanup(terminal.close)
        return terminal

    def test_commands_are_stopped_by_a_reset(self):
        sandbox = self.create()
        snapshot = self.membrane("snapshot", sandbox).decode().strip()
        path = f"/v1/sandboxes/{sandbox}/exec"
        for seal in (False, True):
            begun = self.service.request("POST", path, {"code": "echo x > /tmp/x; sleep 1000", "background": True, "seal": seal}).json["exec_id"]
            self.membrane("exec", sandbox, "-e", "until [ -e /tmp/x ]; do sleep 0.01; done")
            self.membrane("reset", sandbox, snapshot)
            shown = self.service.request("GET", f"{path}s/{begun}").json
            self.assertEqual((shown["state"], shown["report"]["outcome"]), ("done", "cancelled"))
            self.assertEqual(self.membrane("exec", sandbox, "-e", "ls /tmp"), b"")

    def test_a_shell_in_a_sandbox(self):
        sandbox = self.create()
        shell = self.shell(sandbox, "--env", "PS1=ready> ", "--", "bash", "--norc", "-i")
        shell.expect("ready> ")
        shell.type("tty; echo $TERM; stty size\n")
        shell.expect("/dev/pts/\\d+\r\nvt100\r\n24 80\r\n")
        shell.expect("ready> ")
        shell.type("trap 'stty size' WINCH\n")
        shell.expect("ready> ")
        shell.resize(40, 100)
        os.kill(shell.process.pid, signal.SIGWINCH)
        shell.expect("40 100")
        shell.type("sh -c 'echo begun; exec sleep 1000'\n")
        shell.expect("\nbegun\r\n")  # before that, bash may still be the one whom an interrupt reaches
        shell.type("\x03")
        shell.expect("ready> ")
        shell.type("exit 7\n")
        self.assertEqual(shell.end(), 7)

    def test_a_client_that_goes_away_hangs_up(self):
        sandbox = self.create()
        shell = self.shell(sandbox, "--", "sh", "-c", "trap 'echo gone > /tmp/hup; exit' HUP; echo begun; while :; do sleep 0.05; done")
        shell.expect("begun")
        shell.process.kill()
        shell.process.wait()
        waits = "i=0; while ! [ -e /tmp/hup ] && [ $i -lt 600 ]; do i=$((i+1)); sleep 0.05; done; cat /tmp/hup"
        self.assertEqual(self.membrane("exec", sandbox, "-e", waits), b"gone\n")

    def test_a_signal_reaches_a_command(self):
        sandbox = self.create()
        begun = self.service.request("POST", f"/v1/sandboxes/{sandbox}/exec", {
            "code": "trap 'echo heard; exit 4' USR1; touch /tmp/ready; while :; do sleep 0.05; done", "background": True}).json
        self.membrane("exec", sandbox, "-e", "until [ -e /tmp/ready ]; do sleep 0.05; done")
        exec_path = f"/v1/sandboxes/{sandbox}/execs/{begun['exec_id']}"
        self.assertEqual(self.service.request("POST", exec_path + "/signal", {"signal": 10}).status, 204)
        self.membrane("wait", sandbox, begun["exec_id"], code=4)
        self.assertEqual(self.service.request("POST", exec_path + "/signal", {"signal": 10}).status, 409)
        self.assertEqual(self.service.request("POST", exec_path + "/signal", {"signal": 65}).status, 422)
        self.assertEqual(self.service.request("POST", exec_path + "/terminal", {"columns": 0, "rows": 1}).status, 422)

    def test_limits_of_a_sandbox_are_held_and_others_refused(self):
        sandbox = self.membrane("create", "--template", "linux:host", "--tasks", "6", "--disk", "4MiB").decode().strip()
        self.addCleanup(self.membrane, "rm", sandbox)
        report = self.service.request("POST", f"/v1/sandboxes/{sandbox}/exec",
                                  {"code": "dd if=/dev/zero of=/tmp/f bs=1M; for i in 1 2 3 4 5 6 7 8; do sleep 100 & done; exit 0",
                                        "timeout_ms": 5000}).json
        self.assertEqual([each["limit"] for each in report["limits_reached"] if each["limit"] != "wall"], ["tasks", "disk"], report)
        for template, limit in (("linux:host", "--fuel=1000"), ("linux:host", "--stack=1MiB"), ("wat", "--tasks=5")):
            done = subprocess.run([MEMBRANE, "create", "--template", template, limit], capture_output=True, timeout=120,
                                  env={**os.environ, "MEMBRANE_URL": self.service.url, "MEMBRANE_TOKEN": self.service.token})
            self.assertEqual(done.returncode, 2, done.stderr)

    def test_a_disk_counts_in_the_quota_of_memory(self):
        token = self.service.request("POST", "/v1/tokens", {
            "name": "t", "tenant": "of disks", "scopes": ["sandboxes:read", "sandboxes:write"],
            "quotas": {"memory_bytes": 200 << 20}}).json["token"]

        def create(disk):
            spec = {"template": "linux:host", "policy": {"limits": {"memory": 64 << 20, "disk": disk << 20}}}
            return self.service.request("POST", "/v1/sandboxes", spec, token=token)

        made = create(64)
        self.assertEqual(made.status, 201, made.json)
        self.assertEqual(create(64).status, 429)
        self.assertEqual(create(8).status, 201)

    def test_an_exec_has_a_receipt(self):
        sandbox = self.create()
        receipt = self.folder / "exec.receipt"
        self.membrane("exec", sandbox, "--seal", receipt, "-e", "echo sealed; exit 3", code=3)
        keys = self.folder / "keys.json"
        keys.write_bytes(self.service.request("GET", "/v1/keys").body)
        self.membrane("verify", receipt, "--keys", keys)
        self.assertIn("sealed", Path(f"{receipt}.private").read_text())
        done = subprocess.run([MEMBRANE, "replay", receipt, "--keys", keys], capture_output=True, timeout=120)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"real clock", done.stderr)

    # -- MCP

    def tool(self, name, **arguments):
        message = stateless(1, "tools/call", name=name, arguments=arguments)
        answer = self.service.request("POST", "/mcp", message, headers={
            "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/call", "Mcp-Name": name})
        self.assertEqual(answer.status, 200, answer.body)
        text = answer.body.decode()
        data = [line[5:] for line in text.splitlines() if line.startswith("data:")][-1] if not text.startswith("{") else text
        result = json.loads(data)["result"]
        self.assertFalse(result.get("isError"), result)
        return result["structuredContent"]

    def test_sessions_of_mcp(self):
        ran = self.tool("run_code", language="linux:host", code="uname -s")
        self.assertEqual(ran["stdout"], "Linux\n", ran)
        session = self.tool("create_session", language="linux:host")["session"]
        self.tool("run_in_session", session=session, code="mkdir -p /shared; echo one > /shared/a")
        self.tool("write_file", session=session, path="/shared/b", content="two\n")
        fork = self.tool("fork_session", session=session)["sessions"][0]["session"]
        self.tool("run_in_session", session=fork, code="echo three > /shared/a")
        self.assertEqual(self.tool("read_file", session=fork, path="/shared/a")["content"], "three\n")
        self.assertEqual(self.tool("run_in_session", session=session, code="cat /shared/a /shared/b")["stdout"], "one\ntwo\n")
        self.tool("close_session", session=fork)
        self.tool("close_session", session=session)

    def test_files_come_and_go(self):
        sandbox = self.create()
        (self.folder / "data").write_bytes(bytes(range(256)) * 1000)
        self.membrane("cp", self.folder / "data", f"{sandbox}:/tmp/data")
        self.assertEqual(self.membrane("exec", sandbox, "wc", "-c", "/tmp/data"), b"256000 /tmp/data\n")
        self.membrane("cp", f"{sandbox}:/tmp/data", self.folder / "back")
        self.assertEqual((self.folder / "back").read_bytes(), (self.folder / "data").read_bytes())

    def test_patches_of_what_has_changed(self):
        one, two = self.create(), self.create()
        self.assertEqual(self.membrane("diff", one), b"")
        self.membrane("exec", one, "-e", "mkdir /root/r; cd /root/r; seq 20 > text; printf '\\0\\1' > binary; ln -s text link; echo more >> /etc/hosts")
        patch = self.membrane("diff", one)
        self.assertIn(b"diff --git a/etc/hosts b/etc/hosts\n", patch)
        self.assertEqual(self.membrane("patch", two, "-", input=patch), b"4 files changed\n")
        self.assertEqual(self.membrane("diff", two), patch)
        self.assertEqual(self.membrane("exec", two, "tail", "-1", "/root/r/link"), b"20\n")
        below = self.membrane("diff", one, "--directory", "/root/r")
        self.assertIn(b"diff --git a/text b/text\n", below)
        self.assertNotIn(b"hosts", below)
        self.membrane("patch", self.create(), "-", "--directory", "/tmp/x", input=below)

    # What the documentation recommends for a repository: copy it in, change it there, and take the changes
    # out.
    def test_a_patch_since_a_snapshot_is_taken_by_the_repository(self):
        repo = self.folder / "repo"
        (repo / "sub").mkdir(parents=True)
        (repo / "sub" / "text").write_text("one\n")
        (repo / "other").write_text("other\n")
        for words in (["init", "-q", "."], ["add", "."], ["commit", "-q", "-m", "First"]):
            subprocess.run(["git", "-c", "user.name=Ann", "-c", "user.email=ann@example.org", *words], cwd=repo, check=True, capture_output=True)
        sandbox = self.create()
        self.membrane("cp", "-r", repo, f"{sandbox}:/root/repo")
        snapshot = self.membrane("snapshot", sandbox).decode().strip()
        self.addCleanup(self.membrane, "snapshots", "rm", snapshot)
        self.assertEqual(self.membrane("diff", sandbox, "--since", snapshot), b"")
        self.membrane("exec", sandbox, "-e", "cd /root/repo; echo two >> sub/text; rm other; echo x > new; echo y > .git/mine; echo z > /tmp/z")
        patch = self.membrane("diff", sandbox, "--since", snapshot, "--directory", "/root/repo")
        subprocess.run(["git", "apply", "-"], cwd=repo, input=patch, check=True)
        shown = subprocess.run(["git", "status", "--short"], cwd=repo, check=True, capture_output=True).stdout
        self.assertEqual(shown, b" D other\n M sub/text\n?? new\n")
        self.assertIn(b"diff --git a/tmp/z b/tmp/z\n", self.membrane("diff", sandbox, "--since", snapshot))
        self.membrane("pause", sandbox)
        self.membrane("resume", sandbox)
        self.assertEqual(self.membrane("diff", sandbox, "--since", snapshot, "--directory", "/root/repo"), patch)

    def test_a_patch_since_a_snapshot_of_another_image_is_refused(self):
        sandbox = self.create()
        self.membrane("diff", sandbox, "--since", "snp_none", code=2)
        other = self.membrane("create", "--template", "wat").decode().strip()
        self.addCleanup(self.membrane, "rm", other)
        (self.folder / "Dockerfile").write_text("FROM host\nENV A=b\n")
        subprocess.run([MEMBRANE, "image", "build", "-q", "-t", "another", self.folder], check=True, capture_output=True)
        image = self.membrane("create", "--template", "linux:another").decode().strip()
        self.addCleanup(self.membrane, "rm", image)
        for of in (other, image):
            snapshot = self.membrane("snapshot", of).decode().strip()
            self.addCleanup(self.membrane, "snapshots", "rm", snapshot)
            answer = self.service.request("GET", f"/v1/sandboxes/{sandbox}/patch?since={snapshot}")
            self.assertEqual(answer.status, 409, answer.json)

    def test_commands_are_whom_the_image_says(self):
        (self.folder / "Dockerfile").write_text("FROM host\nENV A=b\nWORKDIR /work\nUSER nobody\n")
        subprocess.run([MEMBRANE, "image", "build", "-q", "-t", "theirs", self.folder], check=True, capture_output=True)
        sandbox = self.membrane("create", "--template", "linux:theirs").decode().strip()
        self.addCleanup(self.membrane, "rm", sandbox)
        self.assertEqual(self.membrane("exec", sandbox, "-e", "id -u; echo $A; pwd"), b"65534\nb\n/work\n")

    def test_a_bad_patch_changes_nothing(self):
        sandbox = self.create()
        bad = (b"--- a/etc/hosts\n+++ b/etc/hosts\n@@ -1 +1 @@\n-127.0.0.1 localhost\n+gone\n"
               b"--- a/etc/passwd\n+++ b/etc/passwd\n@@ -1 +1 @@\n-nobody\n+here\n")
        shown = subprocess.run([MEMBRANE, "patch", sandbox, "-"], input=bad, capture_output=True, timeout=60,
                              env={**os.environ, "MEMBRANE_URL": self.service.url, "MEMBRANE_TOKEN": self.service.token})
        self.assertEqual(shown.returncode, 2, shown.stderr)
        self.assertIn(b"etc/passwd, line 8 of the patch", shown.stderr)
        self.assertEqual(self.membrane("diff", sandbox), b"")

    def test_only_linux_sandboxes_have_patches(self):
        other = self.membrane("create", "--template", "wat").decode().strip()
        self.addCleanup(self.membrane, "rm", other)
        self.membrane("diff", other, code=2)

    def test_sandboxes_are_apart(self):
        one, two = self.create(), self.create()
        self.membrane("exec", one, "-e", "echo secret > /tmp/secret")
        self.membrane("exec", two, "cat", "/tmp/secret", code=1)

    def test_processes_continue_between_execs(self):
        sandbox = self.create()
        self.membrane("exec", sandbox, "-e", "mkfifo /tmp/pipe; cat /tmp/pipe > /tmp/got 2> /dev/null &")
        self.assertEqual(self.membrane("exec", sandbox, "-e", "echo there > /tmp/pipe; while ! [ -s /tmp/got ]; do sleep 0.01; done; cat /tmp/got"),
                         b"there\n")

    # -- keeping

    # Answers each line that arrives on one FIFO on another, with a counter.
    COUNTING = """mkfifo /tmp/ask /tmp/answer
        (n=0; exec 3<>/tmp/ask; while read line <&3; do n=$((n+1)); echo "$n $line" > /tmp/answer; done) > /dev/null 2>&1 &"""

    def ask(self, sandbox, line):
        return self.membrane("exec", sandbox, "-e", f"echo {line} > /tmp/ask; cat /tmp/answer").decode()

    def test_processes_continue_in_forks(self):
        sandbox = self.create()
        self.membrane("exec", sandbox, "-e", self.COUNTING)
        self.assertEqual(self.ask(sandbox, "a"), "1 a\n")
        forks = self.membrane("fork", sandbox, "-n", "2").decode().split()
        for fork in forks:
            self.addCleanup(self.membrane, "rm", fork)
        self.assertEqual(self.ask(forks[0], "b"), "2 b\n")
        self.assertEqual(self.ask(forks[0], "c"), "3 c\n")
        self.assertEqual(self.ask(forks[1], "d"), "2 d\n")
        self.assertEqual(self.ask(sandbox, "e"), "2 e\n")

    def test_processes_continue_after_a_pause(self):
        sandbox = self.create()
        self.membrane("exec", sandbox, "-e", self.COUNTING)
        self.assertEqual(self.ask(sandbox, "a"), "1 a\n")
        self.membrane("pause", sandbox)
        self.membrane("resume", sandbox)
        self.assertEqual(self.ask(sandbox, "b"), "2 b\n")

    def test_a_sandbox_outlives_its_image(self):
        context = self.folder / "context"
        context.mkdir()
        (context / "Dockerfile").write_text("FROM host\nENV FROM_IMAGE=yes\n")
        self.membrane("image", "build", "-t", "gone", context)
        sandbox = self.membrane("create", "--template", "linux:gone").decode().strip()
        self.addCleanup(self.membrane, "rm", sandbox)
        self.membrane("exec", sandbox, "-e", "echo kept > /tmp/x")
        self.membrane("pause", sandbox)
        self.membrane("image", "rm", "gone")
        self.membrane("resume", sandbox)
        self.assertEqual(self.membrane("exec", sandbox, "-e", "cat /tmp/x; echo $FROM_IMAGE"), b"kept\nyes\n")

    def test_a_snapshot_has_its_processes(self):
        sandbox = self.create()
        self.membrane("exec", sandbox, "-e", self.COUNTING)
        self.assertEqual(self.ask(sandbox, "a"), "1 a\n")
        snapshot = self.membrane("snapshot", sandbox).decode().strip()
        self.assertEqual(self.ask(sandbox, "b"), "2 b\n")
        self.membrane("reset", sandbox, snapshot)
        self.assertEqual(self.ask(sandbox, "b"), "2 b\n")
        made = self.membrane("create", "--snapshot", snapshot).decode().strip()
        self.addCleanup(self.membrane, "rm", made)
        self.assertEqual(self.ask(made, "c"), "2 c\n")

    def test_what_it_cannot_do_is_refused(self):
        sandbox = self.create()
        refused = subprocess.run([MEMBRANE, "create", "--template", "linux:host", "--allow", "kv"],
                                 capture_output=True, timeout=60,
                                 env={**os.environ, "MEMBRANE_URL": self.service.url, "MEMBRANE_TOKEN": self.service.token})
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn(b"host functions", refused.stderr)
        self.assertTrue(sandbox)


class Served(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.seen.append((self.path, self.headers.get("X-Key")))
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_):
        pass


@unittest.skipUnless(shutil.which("openssl"), "there is no openssl, which makes the certificates")
class EncryptedRequests(WithImage):
    """Programs that trust the sandbox's certificates, before and after it is saved."""

    # Reads the certificates once, and then requests what each line names.
    ASKING = """mkfifo /tmp/ask /tmp/answer; mkdir -p /etc/ssl/certs; echo mine > /etc/ssl/certs/ca-certificates.crt; cat > /tmp/asking.py <<'END'
import ssl, urllib.request
held = open('/etc/ssl/certs/ca-certificates.crt')
tls = ssl.create_default_context()
ask = open('/tmp/ask', 'r+b', buffering=0)
while True:
    line = b''
    while not line.endswith(b'\\n'):
        line += ask.read(1)
    try:
        if b'/held' in line:
            held.seek(0)
            answer = held.read()
        else:
            answer = urllib.request.urlopen(line.decode().strip(), context=tls).read().decode()
    except OSError as error:
        answer = str(error)
    open('/tmp/answer', 'w').write(answer)
END
(python3 /tmp/asking.py > /dev/null 2>&1 < /dev/null &)"""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Served)
        cls.certificate = encrypt(cls.server, cls.folder)
        thread = threading.Thread(target=cls.server.serve_forever)
        thread.start()
        cls.addClassCleanup(cls.server.server_close)
        cls.addClassCleanup(thread.join)
        cls.addClassCleanup(cls.server.shutdown)
        cls.url = f"https://localhost:{cls.server.server_address[1]}"
        cls.state = cls.folder / "state"
        cls.begin_service()

    @classmethod
    def begin_service(cls):
        cls.service = Service(environment={"SSL_CERT_FILE": str(cls.certificate)}, state=str(cls.state))
        cls.addClassCleanup(cls.service.stop)

    def setUp(self):
        self.server.seen = []
        put = self.service.request("PUT", "/v1/secrets/API_KEY", {"value": "not-for-programs", "hosts": ["localhost"]})
        self.assertLess(put.status, 300, put.body)

    def policy(self, path="/a/*"):
        return {"http": [{"url": self.url + path, "methods": ["GET"], "addresses": ["127.0.0.1"],
                          "header": {"X-Key": {"secret": "API_KEY"}}}]}

    def post(self, path, body=None, method="POST"):
        answer = self.service.request(method, f"/v1/sandboxes/{path}", body if body is not None else {})
        self.assertLess(answer.status, 300, answer.body)
        return answer.json

    def create(self, policy=None):
        sandbox = self.service.create("linux:host", policy=policy or self.policy())
        self.addCleanup(lambda: self.service.request("DELETE", f"/v1/sandboxes/{sandbox}"))
        return sandbox

    def ask(self, sandbox, path):
        report = self.service.exec(sandbox, f"echo {self.url}{path} > /tmp/ask; cat /tmp/answer")
        self.assertNotIn("not-for-programs", json.dumps(report))
        return report["stdout"]

    def test_a_request_gets_the_secret(self):
        sandbox = self.create()
        script = f"python3 -c \"import urllib.request; print(urllib.request.urlopen('{self.url}/a/x').read())\""
        report = self.service.exec(sandbox, script)
        self.assertEqual(report["stdout"], "b'hello'\n", report)
        self.assertEqual(self.server.seen, [("/a/x", "not-for-programs")])
        self.assertEqual([(call["name"], call["errno"]) for call in report["host_calls"]], [("http.request", "OK")])

    def test_programs_continue_in_forks_and_after_a_pause(self):
        sandbox = self.create()
        self.service.exec(sandbox, self.ASKING)
        self.assertEqual(self.ask(sandbox, "/a/1"), "hello")
        forks = [each["id"] for each in self.post(f"{sandbox}/fork", {"count": 2})["sandboxes"]]
        for fork in forks:
            self.addCleanup(lambda fork=fork: self.service.request("DELETE", f"/v1/sandboxes/{fork}"))
            self.assertEqual(self.ask(fork, "/a/2"), "hello")
            self.assertRegex(self.ask(fork, "/held"), "^mine\n-----BEGIN CERTIFICATE-----\n")
        for each in sandbox, forks[0]:
            self.post(f"{each}/pause")
            self.post(f"{each}/resume")
            self.assertEqual(self.ask(each, "/a/3"), "hello")
            self.assertIn("403", self.ask(each, "/b"))
        self.assertEqual({key for _, key in self.server.seen}, {"not-for-programs"})

    def test_a_snapshot_has_the_authority_of_its_sandbox(self):
        sandbox = self.create()
        self.service.exec(sandbox, self.ASKING)
        snapshot = self.post(f"{sandbox}/snapshot")["id"]
        other = self.service.request("POST", "/v1/sandboxes", {"snapshot": snapshot}).json["id"]
        self.addCleanup(lambda: self.service.request("DELETE", f"/v1/sandboxes/{other}"))
        self.assertEqual(self.ask(other, "/a/4"), "hello")

    def test_another_policy_holds_at_once(self):
        sandbox = self.create({"http": []})
        self.assertEqual(self.service.exec(sandbox, "cat /sys/membrane/ca.pem")["stdout"], "")
        self.post(f"{sandbox}/policy", self.policy(), method="PATCH")
        self.service.exec(sandbox, "until grep -q BEGIN /sys/membrane/ca.pem; do :; done")  # its kernel hears of it soon
        self.service.exec(sandbox, self.ASKING)
        self.assertEqual(self.ask(sandbox, "/a/5"), "hello")
        self.post(f"{sandbox}/policy", self.policy("/b/*"), method="PATCH")
        self.assertIn("403", self.ask(sandbox, "/a/5"))

    def test_a_service_that_starts_again_has_another_authority(self):
        sandbox = self.create()
        before = self.service.exec(sandbox, "cat /sys/membrane/ca.pem")["stdout"]
        self.post(f"{sandbox}/pause")
        self.service.stop()
        self.assertNotIn(before.splitlines()[5].encode(), b"".join(each.read_bytes() for each in self.state.rglob("*") if each.is_file()))
        type(self).begin_service()
        self.post(f"{sandbox}/resume")
        script = f"python3 -c \"import urllib.request; print(urllib.request.urlopen('{self.url}/a/x').read())\"; cat /sys/membrane/ca.pem"
        hello, after = self.service.exec(sandbox, script)["stdout"].split("\n", 1)
        self.assertEqual(hello, "b'hello'")
        self.assertNotEqual(after, before)


if __name__ == "__main__":
    unittest.main()
