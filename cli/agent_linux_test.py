#!/usr/bin/env python3
"""`membrane agent --kind linux`: a scripted model works in a Linux sandbox.

MEMBRANE_COMMAND names the command. The image is made of this machine's own programs (linux_testing.py).
"""

import http.server
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock
from pathlib import Path

from linux_testing import encrypt, make_image

MEMBRANE = os.environ.get("MEMBRANE_COMMAND", "build/release/membrane")
ENDS_S = 120
GIT = ["git", "-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
TEST = "import unittest, sums\nclass Sums(unittest.TestCase):\n    def test_add(self): self.assertEqual(sums.add(2, 2), 4)\n"


@unittest.skipUnless(platform.machine() == "x86_64", "the linux kind runs on x86-64")
class AgentTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.environment = {**os.environ, "MEMBRANE_IMAGES": str(cls.folder / "images"), "XDG_CONFIG_HOME": str(cls.folder / "config"),
                           "XDG_STATE_HOME": str(cls.folder / "state")}
        cls.has = make_image(cls.folder / "host.tar")
        cls.membrane("image", "import", cls.folder / "host.tar", "--tag", "debian", check=True)
        cls.repo = cls.folder / "repo"
        cls.repo.mkdir()
        (cls.repo / "sums.py").write_text("def add(a, b):\n    return a - b\n")
        (cls.repo / "test_sums.py").write_text(TEST)
        for words in (["init", "-q", "."], ["add", "."], ["commit", "-q", "-m", "First"]):
            subprocess.run([*GIT, *words], cwd=cls.repo, check=True, capture_output=True)

    @classmethod
    def membrane(cls, *words, check=False):
        done = subprocess.run([MEMBRANE, *map(str, words)], env=cls.environment, capture_output=True, timeout=ENDS_S)
        if check and done.returncode != 0:
            raise AssertionError(done.stderr.decode(errors="replace"))
        return done

    def server(self):
        """Answers each GET, and records its path and its Authorization in `seen`."""
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.server.seen.append((self.path, self.headers.get("Authorization")))
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"from outside")

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.seen = []
        self.addCleanup(server.server_close)
        return server

    def serve(self, server):
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.shutdown)

    def agent(self, calls, *options):
        """The result, and what the model was shown, when the model makes these calls, one per reply."""
        answers, transcript = self.folder / "answers.jsonl", self.folder / "transcript.jsonl"
        answers.write_text("".join(
            json.dumps({"content": "", "tool_calls": [{"name": name, "arguments": arguments}]}) + "\n" for name, arguments in calls))
        done = self.membrane("agent", "--kind", "linux", "--model-file", answers, "--transcript", transcript, "--json", *options,
                             "the task")
        self.assertNotEqual(done.stdout, b"", done.stderr)
        lines = [json.loads(line) for line in transcript.read_text().splitlines()]
        return json.loads(done.stdout), [line["text"] for line in lines if line["type"] == "observation"]

    def test_finds_the_failing_test_and_mends_it(self):
        result, observations = self.agent(
            [("run_command", {"command": "git clone -q . /root/clone && cd /root/clone && git log --oneline"}),
             ("run_command", {"command": "cd /root/clone && python3 -m unittest 2>&1"}),
             ("search", {"pattern": "def add", "path": "/root/clone"}),
             ("read_file", {"path": "/root/clone/sums.py"}),
             ("edit_file", {"path": "/root/clone/sums.py", "old": "a - b", "new": "a + b"}),
             ("run_command", {"command": "cd /root/clone && python3 -m unittest 2>&1"}),
             ("run_command", {"command": "cd /root/clone && git diff"}),
             ("submit", {"answer": "a + b, not a - b"})],
            "--copy", self.repo)
        self.assertEqual((result["stop"], result["answer"]), ("answered", "a + b, not a - b"), observations)
        self.assertIn("First", observations[0])
        self.assertIn("FAILED", observations[1])
        self.assertIn("exit code 1", observations[1])
        self.assertIn("/root/clone/sums.py:1:def add", observations[2])
        self.assertIn("return a - b", observations[3])
        self.assertIn("at line 2", observations[4])
        self.assertIn("OK", observations[5])
        self.assertIn("+    return a + b", observations[6])
        self.assertIn("time: ", observations[6])
        self.assertEqual((self.repo / "sums.py").read_text(), "def add(a, b):\n    return a - b\n")  # a copy

    def test_what_has_changed_is_shown_and_comes_out(self):
        patch, out = self.folder / "fix.patch", self.folder / "out"
        calls = [("show_diff", {}),
                 ("run_command", {"command": "pwd; mkdir new; echo x > new/program; chmod +x new/program; ln -s program new/link; "
                                             "echo gone > gone; echo y > /tmp/elsewhere; git add -A"}),
                 ("undo", {}),
                 ("edit_file", {"path": "sums.py", "old": "a - b", "new": "a + b"}),
                 ("run_command", {"command": "mkdir new; echo x > new/program; chmod +x new/program; ln -s program new/link; ln -s /etc/passwd out; rm test_sums.py"}),
                 ("show_diff", {}), ("submit", {"answer": "done"})]
        result, observations = self.agent(calls, "--copy", self.repo, "--diff", patch, "--out", out)
        self.assertEqual(result["stop"], "answered")
        self.assertIn("nothing has changed", observations[0])
        self.assertIn("-    return a - b\n+    return a + b\n", observations[5])
        self.assertNotIn("gone", patch.read_text())
        work = self.folder / "work"
        subprocess.run(["git", "clone", "-q", self.repo, work], check=True)
        subprocess.run(["git", "apply", patch], cwd=work, check=True)
        self.assertEqual((work / "sums.py").read_text(), "def add(a, b):\n    return a + b\n")
        self.assertEqual(os.readlink(work / "new/link"), "program")
        self.assertFalse((work / "test_sums.py").exists())
        self.assertEqual(sorted(str(each.relative_to(out)) for each in out.rglob("*") if not each.is_dir()), ["new/link", "new/program", "sums.py"])
        self.assertEqual(os.readlink(out / "new/link"), "program")
        self.assertTrue(os.access(out / "new/program", os.X_OK))
        self.assertFalse(os.access(out / "sums.py", os.X_OK))

    def test_without_one_directory_all_of_the_sandbox_is_meant(self):
        out = self.folder / "all"
        self.agent([("run_command", {"command": "echo a > a; echo b > /tmp/b"}), ("submit", {"answer": "done"})], "--out", out)
        self.assertEqual(((out / "root/a").read_text(), (out / "tmp/b").read_text()), ("a\n", "b\n"))

    def test_what_cannot_be_written_is_reported_before_the_task(self):
        answers = self.folder / "one.jsonl"
        answers.write_text('{"content": "ANSWER: 42"}\n')
        done = self.membrane("agent", "--kind", "linux", "--diff", self.folder / "no/such", "--model-file", answers, "the task")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(b"cannot write", done.stderr)

    def test_commands_begin_in_the_one_directory_that_is_granted(self):
        data = self.folder / "granted"
        data.mkdir()
        _, observations = self.agent([("run_command", {"command": "pwd; echo here > f"}), ("submit", {"answer": "done"})], "--dir", f"{data}:/work")
        self.assertIn("/work\n", observations[0])
        self.assertEqual((data / "f").read_text(), "here\n")

    def test_what_is_undone_is_undone(self):
        result, observations = self.agent([("write_file", {"path": "/root/a", "content": "first\n"}),
                                   ("run_command", {"command": "echo second > /root/a; rm -r /usr/lib/python3*"}),
                                   ("undo", {"steps": 1}),
                                   ("run_command", {"command": "cat /root/a; ls -d /usr/lib/python3*"}),
                                   ("submit", {"answer": "done"})])
        self.assertIn("first\n", observations[3], observations)
        self.assertIn("/usr/lib/python3", observations[3])

    def test_it_has_the_network_and_the_directories_that_are_granted(self):
        server = self.server()
        self.serve(server)
        url = f"http://localhost:{server.server_address[1]}"
        get = ("run_command", {"command": f"python3 -c \"import urllib.request as r; print(r.urlopen('{url}/').read().decode())\""})
        data = self.folder / "data"
        data.mkdir()
        _, observations = self.agent([get, ("run_command", {"command": "echo kept > /data/f; echo gone > /root/g"}), ("undo", {"steps": 1}), get,
                              ("run_command", {"command": "cat /data/f; cat /root/g"}), ("submit", {"answer": "done"})],
                             "--dir", f"{data}:/data", "--allow", f"http:GET:{url}/*")
        self.assertIn("from outside", observations[0], observations)
        self.assertIn("host calls: 2", observations[0])
        self.assertIn("from outside", observations[3])
        self.assertIn("kept", observations[4])
        self.assertNotIn("gone\n", observations[4])

    @unittest.skipUnless(shutil.which("openssl"), "there is no openssl, which makes the certificates")
    def test_it_uses_a_secret_that_it_never_sees(self):
        server = self.server()
        certificate = encrypt(server, self.folder)
        self.serve(server)
        url = f"https://localhost:{server.server_address[1]}"
        policy = self.folder / "secret.toml"
        policy.write_text(f'[[http]]\nurl = "{url}/a"\nmethods = ["GET"]\naddresses = ["127.0.0.1"]\n'
                          'header = { Authorization = { prefix = "Bearer ", secret = "TEST_KEY" } }\n')

        def get(path):
            return ("run_command", {"command": f"python3 -c \"import urllib.request as r; print(r.urlopen('{url}{path}').read().decode())\" 2>&1"})

        with unittest.mock.patch.dict(self.environment, {"SSL_CERT_FILE": str(certificate), "TEST_KEY": "not-for-models"}):
            result, observations = self.agent([get("/a"), ("run_command", {"command": "env; echo more > /root/x"}), ("undo", {"steps": 1}), get("/a"),
                                       get("/b"), ("submit", {"answer": "done"})], "--policy", policy)
        self.assertIn("from outside", observations[0], observations)
        self.assertIn("from outside", observations[3])
        self.assertIn("403", observations[4])
        self.assertEqual(server.seen, [("/a", "Bearer not-for-models")] * 2)
        self.assertNotIn("not-for-models", json.dumps([result, observations]))

    def test_limits_are_reported(self):
        result, observations = self.agent([("run_command", {"command": "sleep 100", "timeout_s": 1}),
                                   ("run_command", {"command": "dd if=/dev/zero of=/root/f bs=1M 2>/dev/null"}),
                                   ("run_command", {"command": "echo still here"}),
                                   ("submit", {"answer": "done"})], "--disk", "8MiB")
        self.assertIn("timed_out", observations[0])
        self.assertIn("timeout_s may be 600 at most", observations[0])
        self.assertIn("limits reached: disk", observations[1])
        self.assertIn("still here", observations[2])

    def test_a_command_that_continues_stays(self):
        _, observations = self.agent([("run_command", {"command": "(sleep 0.2; echo late > /root/late) > /dev/null 2>&1 &"}),
                              ("run_command", {"command": "while ! [ -e /root/late ]; do sleep 0.05; done; cat /root/late"}),
                              ("submit", {"answer": "done"})])
        self.assertIn("late\n", observations[1])

    def test_a_transcript_is_run_again(self):
        calls = [("run_command", {"command": "echo 42"}), ("submit", {"answer": "42"})]
        self.agent(calls)
        done = self.membrane("agent", "--replay", self.folder / "transcript.jsonl")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn(b"replay:", done.stderr)

    def test_a_replay_says_what_it_is_not_given(self):
        self.agent([("run_command", {"command": "ls"}), ("submit", {"answer": "42"})], "--copy", self.repo)
        done = self.membrane("agent", "--replay", self.folder / "transcript.jsonl")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(f"--copy {self.repo} was given in the recording, and is not given now".encode(), done.stderr)
        done = self.membrane("agent", "--replay", self.folder / "transcript.jsonl", "--copy", self.repo)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_receipts_are_of_each_action(self):
        self.membrane("keys", "generate", check=True)
        receipts = self.folder / "receipts"
        self.agent([("run_command", {"command": "echo sealed; exit 3"}), ("write_file", {"path": "a", "content": "x"}),
                    ("submit", {"answer": "42"})], "--seal", receipts)
        names = sorted(path.name for path in receipts.glob("*.receipt"))
        self.assertEqual(len(names), 3, names)
        turns = [json.loads(line) for line in (receipts / names[0]).read_text().splitlines()]
        self.assertEqual([line["language"] for line in turns if line.get("item") == "template"], ["linux"])
        self.assertEqual(turns[-2]["exit_code"], 3)
        for name in names:
            self.assertEqual(self.membrane("verify", receipts / name).returncode, 0)
        done = self.membrane("replay", receipts / names[0])
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"long-lived", done.stderr)

    def test_the_prompt_describes_what_is_available(self):
        prompt = self.membrane("agent", "--kind", "linux", "--copy", self.repo, "--print-prompt", check=True).stdout.decode()
        for part in ("python3", "git", "begin in /root/repo", "no network", "512 processes and threads", "```undo 2"):
            self.assertIn(part, prompt)

    def test_what_the_other_kind_has_is_refused(self):
        for option in (["--language", "python"], ["--task-fuel", "1e9"], ["--fuel", "1e6"], ["--with", "rich"]):
            done = self.membrane("agent", "--kind", "linux", *option, "the task")
            self.assertEqual(done.returncode, 2, option)
        done = self.membrane("agent", "--copy", self.repo, "the task")
        self.assertIn(b"--kind linux", done.stderr)


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    unittest.main()
