#!/usr/bin/env python3
"""The commands of `membrane` that ask a service, with a real one and with a server that misbehaves in every way.

    MEMBRANE_COMMAND=build/release/membrane service/command_client_test.py
"""

import json
import os
import re
import signal
import subprocess
import unittest
from pathlib import Path

from clients_testing import COMMAND, CUT_AND_READ_ON, SANDBOX, SECONDS, Hostile, asking, begin, blocks, environment, run
from linux_testing import Terminal


def setUpModule():
    global folder, service
    folder, service = begin()


class Command(unittest.TestCase):
    def command(self, *words, code=0, stdin="", **where):
        done = run([str(Path(COMMAND).resolve()), *words], env=environment(**where), cwd=folder, input=stdin)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def wat(self, body):
        return f'(func (export "main") {body})'

    def test_the_commands_of_the_page_run(self):
        if not service.has_template("python"):
            self.skipTest("there is no template python")
        (folder / "data.csv").write_text("a,b\n")
        (folder / "src").mkdir()
        (folder / "src/one").write_text("1")
        paths = service.request("GET", "/openapi.json").json["paths"]
        (text,) = blocks("docs/clients.md", "sh")
        lines = [line for line in text.splitlines() if not (
            (found := re.match(r"membrane (fork|pause|resume)", line))
            and f"/v1/sandboxes/{{sandbox}}/{found[1]}" not in paths)]
        done = run(["bash", "-e", "-c", "\n".join(lines)], env=environment(), cwd=folder)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("40\n42\n", done.stdout)
        self.assertEqual((folder / "copy.csv").read_text(), "a,b\n")
        self.assertEqual((folder / "copy/one").read_text(), "1")

    def test_the_commands_of_the_readme_run(self):
        if not service.has_template("python"):
            self.skipTest("there is no template python")
        (text,) = [text for text in blocks("README.md", "sh") if "membrane create" in text]
        done = run(["bash", "-e", "-c", text], env=environment(), cwd=folder)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("7\n", done.stdout)

    def test_the_commands_of_the_page_of_receipts_run(self):
        if not service.has_template("python"):
            self.skipTest("there is no template python")
        (text,) = [text for text in blocks("docs/receipts.md", "sh") if "membrane create" in text]
        done = run(["bash", "-e", "-c", text.replace("http://127.0.0.1:7400", service.url)], env=environment(), cwd=folder)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("verified", done.stdout)
        self.assertIn("the same", done.stdout)

    def test_exec_ends_as_run_does(self):
        sandbox = self.command("create", "--template", "wat", "--label", "l").stdout.strip()
        self.assertEqual(self.command("exec", sandbox, "-e", self.wat("(nop)"), "--json").stdout[:1], "{")
        trapped = self.command("exec", sandbox, "-e", self.wat("unreachable"), code=1)
        self.assertIn("trapped: ", trapped.stderr)
        self.assertIn(sandbox, self.command("ps", "--label", "l").stdout)
        listed = json.loads(self.command("ps", "--json", "--label", "l").stdout)["sandboxes"]
        self.assertEqual([each["id"] for each in listed], [sandbox])
        (folder / "program.wat").write_text(self.wat("(nop)"))
        self.command("exec", sandbox, "program.wat")
        self.command("exec", sandbox, "-", stdin=self.wat("(nop)"))
        for options in [], ["-d"]:
            missing = self.command("exec", *options, sandbox, "gone.wat", code=2).stderr
            self.assertIn("there is no file with code called gone.wat here, and a sandbox of the template wat runs no commands", missing)
            self.assertIn("Check the path", missing)
        self.command("logs", sandbox)
        self.assertEqual(self.command("rm", sandbox).stdout, f"{sandbox}\n")
        self.assertIn("there is no sandbox", self.command("rm", sandbox, code=2).stderr)

    def test_the_time_of_an_exec_that_waits_has_not_begun(self):
        sandbox = self.command("create", "--template", "wat", "--wall", "1h", "--fuel", "1e18").stdout.strip()
        first = self.command("exec", "-d", sandbox, "-e", self.wat("(loop (br 0))")).stdout.strip()
        second = self.command("exec", "-d", sandbox, "--timeout", "1ms", "-e", self.wat("(loop (br 0))")).stdout.strip()
        states = {line.split()[0]: line.split()[1] for line in self.command("execs", sandbox).stdout.splitlines()[1:]}
        self.assertEqual(states[second], "queued", states)
        self.command("cancel", sandbox, first)
        self.assertEqual(self.command("wait", sandbox, second, code=1).stdout, "timed_out\n")

    def test_what_follows_the_file_is_the_programs(self):
        if not service.has_template("python"):
            self.skipTest("there is no template python")
        sandbox = self.command("create").stdout.strip()
        (folder / "program.py").write_text("import sys; print(sys.argv[1:])")
        for words, given in ((["program.py", "-x", "--depth", "3"], ["-x", "--depth", "3"]),
                             (["program.py", "--", "--json", "-e"], ["--json", "-e"]),
                             (["-e", "import sys; print(sys.argv[1:])", "-x"], ["-x"])):
            self.assertEqual(self.command("exec", sandbox, *words).stdout, f"{given}\n")

    def test_no_file_of_the_machine_is_offered(self):
        for command in "create", "update":
            reported = self.command(command, "--help").stdout
            self.assertIn("--allow", reported)
            for grant in "fs:", "sql:":
                self.assertNotIn(grant, reported)

    def test_an_existing_receipt_is_not_replaced(self):
        home = folder / "sealing"
        home.mkdir(exist_ok=True)
        sandbox = self.command("create", "--template", "wat", "--seal").stdout.strip()
        words = ["exec", sandbox, "-e", self.wat("(nop)"), "--seal", str(home / "a.receipt")]
        self.command(*words)
        before = (home / "a.receipt").read_bytes()
        self.assertIn("--force", self.command(*words, code=2).stderr)
        self.assertEqual((home / "a.receipt").read_bytes(), before)
        self.command(*words, "--force")
        self.assertNotEqual((home / "a.receipt").read_bytes(), before)

    def test_a_picture_is_named(self):
        if not service.has_template("python"):
            self.skipTest("there is no template python")
        sandbox = self.command("create").stdout.strip()
        done = self.command("exec", sandbox, "-e", "class P:\n def _repr_png_(self): return b'hi'\ndisplay(P())\nprint('printed')\n7")
        self.assertEqual(done.stdout, "printed\n7\n")
        self.assertIn("[image/png, 2 bytes, displays[0] of the report]\n", done.stderr)
        self.assertIn(f"membrane cp {sandbox}:/FILE .\n", done.stderr)
        self.assertEqual(self.command("exec", sandbox, "-e", "7").stderr, "")

    def test_input_is_passed_on_as_it_comes(self):
        if not service.has_template("python"):
            self.skipTest("there is no template python")
        sandbox = self.command("create").stdout.strip()
        with subprocess.Popen([str(Path(COMMAND).resolve()), "exec", "-i", sandbox, "-e", "print('name?', flush=True)\nprint('hi', input())"],
                              env=environment(), cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            self.assertEqual(process.stdout.readline(), "name?\n")
            process.stdin.write("you\n")
            process.stdin.flush()
            self.assertEqual(process.stdout.readline(), "hi you\n")
            self.assertEqual(process.wait(SECONDS), 0)
        piped = self.command("exec", "-i", sandbox, "-e", "import sys; len(sys.stdin.read())", stdin="x" * 3_000_000)
        self.assertEqual(piped.stdout, "3000000\n")

    def test_an_interrupt_ends_the_exec_and_a_shells_loop(self):
        sandbox = self.command("create", "--template", "wat").stdout.strip()
        endless = '(func (export "main") (call $io.print (string "begun\\n")) (loop $for_ever (br $for_ever)))'
        with subprocess.Popen([str(Path(COMMAND).resolve()), "exec", sandbox, "-e", endless], env=environment(), cwd=folder,
                              stdout=subprocess.PIPE, text=True) as process:
            self.assertEqual(process.stdout.readline(), "begun\n")
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(SECONDS), -signal.SIGINT)
        (begun,) = json.loads(self.command("execs", sandbox, "--json").stdout)["execs"]
        self.assertEqual(self.command("wait", sandbox, begun["exec_id"], code=1).stdout, "cancelled\n")

    def test_a_policy_goes_along(self):
        sandbox = self.command("create", "--template", "wat", "--fuel", "1000").stdout.strip()
        endless = self.command("exec", sandbox, "-e", self.wat("(loop $l (br $l))"), code=1)
        self.assertIn("out_of_fuel", endless.stderr)
        self.assertIn(f"limits.fuel: membrane update {sandbox} --fuel 4000", endless.stderr)
        self.command("update", sandbox, "--fuel", "4000")

    def test_execs_have_names(self):
        sandbox = self.command("create", "--template", "wat", "--wall", "1h", "--fuel", "1e18").stdout.strip()
        prints = self.wat('(call $io.print (string "said"))')
        first = self.command("exec", "-d", sandbox, "-e", prints).stdout.strip()
        self.assertEqual(self.command("wait", sandbox, first).stdout, "ok\n")
        second = self.command("exec", "--detach", sandbox, "-e", self.wat("unreachable")).stdout.strip()
        self.assertEqual(self.command("wait", sandbox, second, code=1).stdout, "trapped\n")
        self.assertEqual(self.command("logs", sandbox, first).stdout, "said")
        failed = self.command("logs", "-f", sandbox, "--exec", second)
        self.assertEqual((failed.stdout, "trapped" in failed.stderr), ("", True))
        self.assertEqual(json.loads(self.command("wait", sandbox, first, "--json").stdout)["exec_id"], first)
        endless = self.command("exec", "-d", sandbox, "-e", self.wat("(loop $l (br $l))")).stdout.strip()
        self.assertIn("still runs", self.command("logs", sandbox, "--exec", endless).stderr)
        self.assertEqual(self.command("cancel", sandbox, endless).stdout, endless + "\n")
        self.assertEqual(self.command("wait", sandbox, endless, code=1).stdout, "cancelled\n")
        self.assertIn(f"the exec {endless} is over: cancelled", self.command("cancel", sandbox, endless, code=2).stderr)
        head, *rows = [row.split() for row in self.command("execs", sandbox).stdout.splitlines()]
        self.assertEqual(head, ["EXEC", "STATE", "OUTCOME", "CREATED"])
        self.assertEqual([row[:3] for row in rows],
                         [[first, "done", "ok"], [second, "done", "trapped"], [endless, "done", "cancelled"]])
        for words in (["wait"], ["cancel"]):
            self.assertIn("has no exec exe0", self.command(*words, sandbox, "exe0", code=2).stderr)
        self.assertIn("has no exec exe0", self.command("logs", sandbox, "--exec", "exe0", code=2).stderr)

    def test_durations_have_units(self):
        sandbox = self.command("create", "--template", "wat", "--ttl", "1h30m").stdout.strip()
        self.command("update", sandbox, "--ttl", "1d", "--idle-timeout", "90s")
        self.command("exec", sandbox, "--timeout", "10m", "-e", self.wat("nop"))
        for wrong in "5", "5 weeks":
            refused = self.command("update", sandbox, "--ttl", wrong, code=2).stderr
            self.assertIn("hint: Write it with its unit, as 500ms, 30s, 10m, 1h, 2d", refused)

    def test_a_template_and_a_snapshot_exclude_each_other(self):
        refused = self.command("create", "--template", "wat", "--snapshot", "snp1", code=2).stderr
        self.assertIn("--template and --snapshot exclude each other", refused)

    def test_a_misspelt_template_is_refused_with_the_nearest(self):
        sandbox = self.command("create", "--template", "wat").stdout.strip()
        snapshot = self.command("snapshot", sandbox).stdout.strip()
        self.command("snapshots", "promote", snapshot, "analysis")
        self.assertIn("analysis", self.command("templates").stdout)
        refused = self.command("create", "--template", "anaylsis", code=2).stderr
        self.assertIn("there is no template anaylsis", refused)
        self.assertIn("Did you mean analysis? membrane templates lists them.", refused)
        self.command("templates", "rm", "analysis")
        self.command("snapshots", "rm", snapshot)

    def test_hints_are_in_words_of_the_command(self):
        sandbox = self.command("create", "--template", "wat", "--fuel", "1e6").stdout.strip()
        for words, hint in ((["exec", sandbox, "-e", self.wat('(drop (call $kv.get! (string "k")))')],
                             f"It would be allowed by membrane update {sandbox} --allow kv. --allow replaces all grants of the sandbox"),
                            (["exec", sandbox, "--context", "ctx0", "-e", ""], f"membrane contexts {sandbox} lists them."),
                            (["create", "--snapshot", "snp0"], "membrane snapshots lists them."),
                            (["cp", f"{sandbox}:/tmp/none", "-"], ""),
                            (["update", sandbox, "--ttl", "90d"], "--ttl must be at most 30d"),
                            (["exec", sandbox, "-e", self.wat("(loop (br 0))")],
                             f"raise limits.fuel: membrane update {sandbox} --fuel 4000000."),
                            (["approve", sandbox, "apr0"], f"membrane approvals {sandbox} lists what waits")):
            with self.subTest(words=words):
                done = run([str(Path(COMMAND).resolve()), *words], env=environment(), cwd=folder)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(hint, done.stderr)
                self.assertNotRegex(done.stderr, "GET |POST |PUT |PATCH |\"[a-z_]+\"")

    def test_update_names_the_grants_that_it_revokes(self):
        sandbox = self.command("create", "--template", "wat", "--allow", "time", "--allow", "random").stdout.strip()
        self.assertEqual(self.command("update", sandbox, "--allow", "kv", "--allow", "time").stderr, "revoked: random\n")
        self.assertEqual(self.command("update", sandbox, "--fuel", "1e6").stderr, "")
        self.assertEqual(self.command("update", sandbox, "--allow", "kv", "--allow", "time", "--allow", "random").stderr, "")

    def test_a_paused_sandbox_is_resumed_by_the_command(self):
        sandbox = self.command("create", "--template", "wat").stdout.strip()
        self.command("pause", sandbox)
        refused = self.command("exec", sandbox, "-e", self.wat(""), code=2).stderr
        self.assertIn(f"Resume it: membrane resume {sandbox}.\n", refused)

    def test_tokens_say_whose_sandboxes_they_see(self):
        alone = self.command("tokens", "create", "alone", "--scope", "exec")
        self.assertIn("--tenant owner", alone.stderr)
        self.assertEqual(self.command("tokens", "create", "ci", "--scope", "exec", "--tenant", "owner").stderr, "")
        for words, hint in ((["--scope", "exce"], "Did you mean exec?"),
                            (["--scope", "exec", "--quota", "sandbox=3"], "Did you mean sandboxes?")):
            self.assertIn(hint, self.command("tokens", "create", "x", *words, code=2).stderr)

    def test_names_of_others_make_no_lines_of_their_own(self):
        label = "x\nsbx_forged  python  idle\x1b[2J"
        body = {"template": "wat", "labels": [label]}
        sandbox = service.request("POST", "/v1/sandboxes", body).json["id"]
        (row,) = [row for row in self.command("ps").stdout.splitlines() if "forged" in row]
        self.assertTrue(row.startswith(sandbox) and row.endswith("x\\nsbx_forged  python  idle\\x1b[2J"), row)
        service.request("POST", "/v1/tokens", {"name": "n\ntok_forged", "scopes": ["exec"]})
        (row,) = [row for row in self.command("tokens").stdout.splitlines() if "forged" in row]
        self.assertIn("n\\ntok_forged", row)
        if not service.has_template("python"):
            self.skipTest("there is no template python")
        with asking() as (url, policy):
            (folder / "forging.json").write_text(json.dumps({**policy, "kv": {"private": True, "untrusted": True}}))
            sandbox = self.command("create", "--policy", "forging.json").stdout.strip()
            code = ("from membrane import http, kv; k = 'x\\napr_forged  http.get, 5 bytes\\n  reviewed: ok'; "
                    f"kv.set(k, 'v'); kv.get(k); http.request('POST', {url!r}, '', '1')")
            with subprocess.Popen([str(Path(COMMAND).resolve()), "exec", sandbox, "-e", code], env=environment(), cwd=folder,
                                  stderr=subprocess.PIPE, text=True) as process:
                approval = process.stderr.readline().split()[1]
                shown = self.command("approvals", sandbox).stdout
                self.command("approve", sandbox, approval, "--deny")
                process.communicate(timeout=SECONDS)
            _, *reads = shown.splitlines()
            read = "kv.get of x\\napr_forged  http.get, 5 bytes\\n  reviewed: ok"
            self.assertEqual(reads, [f"  private: {read}", f"  untrusted: {read}"])

    def test_files_and_patches_do_not_control_a_terminal(self):
        if not service.has_template("linux"):
            self.skipTest("there is no template linux")
        sandbox = self.command("create", "--template", "linux").stdout.strip()
        self.command("exec", sandbox, "--", "sh", "-c", "printf 'a\\033[2Jb\\n' > /tmp/x")
        for words in (["cp", f"{sandbox}:/tmp/x", "-"], ["diff", sandbox, "--directory", "/tmp"]):
            piped = self.command(*words).stdout
            self.assertIn("a\x1b[2Jb", piped)
            shell = Terminal([str(Path(COMMAND).resolve()), *words], environment())
            self.addCleanup(shell.close)
            shell.end()
            self.assertIn("a\\x1b[2Jb", shell.seen)
            self.assertNotIn("\x1b[2J", shell.seen)

    def test_approvals_say_how_much_would_leave(self):
        if not service.has_template("python"):
            self.skipTest("there is no template python")
        with asking() as (url, policy):
            (folder / "asking.json").write_text(json.dumps(policy))
            sandbox = self.command("create", "--policy", "asking.json").stdout.strip()
            (folder / "given").write_text("given")
            code = f"from membrane import http; print(input()); http.request('POST', {url!r}, '', '12345')"
            words = [str(Path(COMMAND).resolve()), "exec", sandbox, "--input", "given", "-e", code]
            with subprocess.Popen(words, env=environment(), cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
                line = process.stderr.readline()
                reported = f"http.request POST {url}, {len(url) + 5} bytes\n"
                self.assertRegex(line, f"^approval apr_\\S+ waiting: {re.escape(reported)}$")
                approval = line.split()[1]
                self.assertIn(f"membrane approve {sandbox} {approval} approves it", process.stderr.readline())
                shown = self.command("approvals", sandbox).stdout
                self.assertEqual(shown.splitlines()[0] + "\n", f"{approval}  {reported}")
                self.assertIn("  private: input\n", shown)
                self.command("approve", sandbox, approval)
                self.assertEqual(process.stdout.read(), "given\nb'taken'\n")
                self.assertEqual(process.wait(SECONDS), 0)

    def test_the_limit_of_forks_is_the_services(self):
        most = service.request("GET", "/openapi.json").json["components"]["schemas"]["ForkSpec"]["properties"]["count"]["maximum"]
        self.assertIn(str(most), self.command("fork", "--help").stdout)
        reported = self.command("fork", "sbx1", "-n", str(most + 1), code=2).stderr
        self.assertIn(f"-n {most + 1} ", reported)
        self.assertIn(str(most), reported.replace(str(most + 1), ""))
        self.assertNotIn("--count", reported)

    def test_code_has_the_name_of_its_file(self):
        if not service.has_template("python"):
            self.skipTest("there is no template python")
        sandbox = self.command("create").stdout.strip()
        (folder / "named.py").write_text("import sys\nprint(sys.argv)\n1 / 0\n")
        done = self.command("exec", sandbox, "named.py", "a", code=1)
        self.assertEqual(done.stdout, "['named.py', 'a']\n")
        self.assertIn('File "named.py", line 3', done.stderr)
        self.assertEqual(self.command("exec", sandbox, "-e", "sys.argv", "b").stdout, "['-c', 'b']\n")

    def test_variables_of_one_exec(self):
        if not service.has_template("python"):
            self.skipTest("there is no template python")
        sandbox = self.command("create", "--env", "A=1").stdout.strip()
        reported = "import os; print(os.environ.get('A'), os.environ.get('B'))"
        self.assertEqual(self.command("exec", sandbox, "--env", "B=a=b", "--env", "A=2", "-e", reported).stdout, "2 a=b\n")
        self.assertEqual(self.command("exec", sandbox, "-e", reported).stdout, "1 None\n")
        self.assertIn("NAME=VALUE", self.command("exec", sandbox, "--env", "B", "-e", "", code=2).stderr)

    def test_contexts(self):
        if not service.has_template("python"):
            self.skipTest("there is no template python")
        sandbox = self.command("create").stdout.strip()
        contexts = [self.command("context", sandbox).stdout.strip() for _ in range(2)]
        self.command("exec", sandbox, "--context", contexts[0], "-e", "x = 1; open('/tmp/a', 'w').write('one')")
        self.command("exec", sandbox, "--context", contexts[1], "-e", "x", code=1)
        self.assertEqual(self.command("exec", sandbox, "--context", contexts[0], "-e", "x").stdout, "1\n")
        self.assertEqual(self.command("cp", f"{sandbox}:/tmp/a", "-", "--context", contexts[0]).stdout, "one")
        self.command("cp", f"{sandbox}:/tmp/a", "-", code=2)
        rows = self.command("contexts", sandbox).stdout.splitlines()
        self.assertEqual(rows[0].split(), ["ID", "TEMPLATE", "CREATED"])
        self.assertEqual([row.split()[:2] for row in rows[1:]], [[each, "python"] for each in contexts])
        self.assertEqual(self.command("contexts", "rm", sandbox, *contexts).stdout.split(), contexts)
        self.assertEqual(json.loads(self.command("contexts", sandbox, "--json").stdout), {"contexts": []})
        self.assertIn(contexts[0], self.command("contexts", "rm", sandbox, contexts[0], code=2).stderr)
        self.assertIn("membrane contexts ID", self.command("contexts", code=2).stderr)

    def test_snapshots(self):
        sandbox = self.command("create", "--template", "wat").stdout.strip()
        snapshot = self.command("snapshot", sandbox).stdout.strip()
        self.assertEqual(self.command("snapshots", "promote", snapshot, "of-the-test").stdout, "of-the-test\n")
        head, *rows = [row.split() for row in self.command("snapshots").stdout.splitlines()]
        self.assertEqual(head, ["ID", "SANDBOX", "TEMPLATE", "NAME", "CREATED", "BYTES"])
        (row,) = [row for row in rows if row[0] == snapshot]
        self.assertEqual(row[1:4], [sandbox, "wat", "of-the-test"])
        listed = json.loads(self.command("snapshots", "--json").stdout)["snapshots"]
        self.assertIn((snapshot, int(row[5])), [(each["id"], each["size_bytes"]) for each in listed])
        self.command("create", "--template", "of-the-test")
        self.assertIn("letters", self.command("snapshots", "promote", snapshot, "UP", code=2).stderr)
        refused = self.command("snapshots", "rm", snapshot, code=2).stderr
        self.assertIn("the template of-the-test is made of the snapshot", refused)
        self.assertIn("membrane templates rm of-the-test", refused)
        self.assertEqual(self.command("templates", "rm", "of-the-test").stdout, "of-the-test\n")
        gone = self.command("snapshots", "rm", "snp-none", snapshot, code=2)
        self.assertEqual(gone.stdout, f"{snapshot}\n")
        self.assertNotIn(snapshot, self.command("snapshots").stdout)

    def test_tokens(self):
        made = self.command("tokens", "create", "of-the-test", "--scope", "sandboxes:read", "--scope", "exec", "--ttl", "1h",
                            "--tenant", "of-tokens", "--quota", "fuel_a_day=1e12", "--quota", "memory_bytes=1 MiB")
        token = made.stdout.strip()
        self.assertTrue(token.startswith("mbr_"), token)
        listed = json.loads(self.command("tokens", "--json").stdout)["tokens"]
        (info,) = [each for each in listed if each["name"] == "of-the-test"]
        self.assertEqual((info["tenant"], sorted(info["scopes"])), ("of-tokens", ["exec", "sandboxes:read"]))
        self.assertEqual(info["quotas"], {"fuel_a_day": 10**12, "memory_bytes": 1 << 20})
        self.assertIsNotNone(info["expires_at"])
        table = self.command("tokens").stdout
        self.assertIn("of-the-test", table)
        self.assertNotIn(token, table)
        self.command("ps", "--token", token)
        refused = self.command("create", "--template", "wat", "--token", token, code=2).stderr
        self.assertIn("scope sandboxes:write", refused)
        self.assertIn("membrane tokens create", refused)
        self.assertIn("scope admin", self.command("tokens", "--token", token, code=2).stderr)
        self.assertEqual(self.command("tokens", "rm", info["id"]).stdout, info["id"] + "\n")
        self.command("ps", "--token", token, code=2)
        self.assertIn("--quota", self.command("tokens", "create", "n", "--scope", "exec", "--quota", "x", code=2).stderr)
        self.command("tokens", "create", "n", "--scope", "everything", code=2)
        self.assertIn("--scope", self.command("tokens", "create", "n", code=2).stderr)
        with_all = json.loads(self.command("tokens", "create", "n", "--scope", "exec", "--json").stdout)
        self.command("tokens", "rm", with_all["info"]["id"])

    def test_a_sandbox_is_changed(self):
        sandbox = self.command("create", "--template", "wat", "--allow", "kv", "--label", "before", "--fuel", "1e7").stdout.strip()
        before = json.loads(self.command("info", sandbox).stdout)
        ends = self.command("update", sandbox, "--ttl", "3h", "--label", "after", "--metadata", "a=b").stdout
        self.assertGreater(ends, before["expires_at"])
        self.assertIn(sandbox, self.command("ps", "--metadata", "a=b", "--label", "after").stdout)
        self.assertNotIn(sandbox, self.command("ps", "--metadata", "a=c").stdout)
        now = json.loads(self.command("info", sandbox).stdout)
        self.assertEqual((now["labels"], now["metadata"], now["expires_at"] + "\n"), (["after"], {"a": "b"}, ends))
        policy = self.command("info", sandbox, "--policy").stdout
        (folder / "same.json").write_text(policy)
        self.assertEqual(self.command("update", sandbox, "--policy", "same.json").stdout, ends)
        self.assertEqual(self.command("info", sandbox, "--policy").stdout, policy)
        self.assertEqual(json.loads(self.command("update", sandbox, "--fuel", "1000", "--json").stdout)["id"], sandbox)
        less = json.loads(self.command("info", sandbox, "--policy").stdout)
        self.assertEqual(less, {**json.loads(policy), "limits": {**json.loads(policy)["limits"], "fuel": less["limits"]["fuel"]}})
        self.assertIn("out_of_fuel", self.command("exec", sandbox, "-e", self.wat("(loop $l (br $l))"), code=1).stderr)
        (folder / "nothing.toml").write_text("[limits]\nwall = \"1 s\"\n")
        self.command("update", sandbox, "--policy", "nothing.toml")
        narrow = json.loads(self.command("info", sandbox, "--policy").stdout)
        self.assertNotIn("kv", narrow)
        self.assertEqual(narrow["limits"]["fuel"], less["limits"]["fuel"])  # which the file does not name
        self.assertIn("nothing to change", self.command("update", sandbox, code=2).stderr)
        self.assertIn("membrane cp", self.command("update", sandbox, "--allow", "fs:read:.", code=2).stderr)

    def test_a_token_that_may_not_widen_narrows(self):
        token = service.request("POST", "/v1/tokens", {"name": "n", "scopes": ["sandboxes:read", "sandboxes:write", "exec"]})
        token = token.json["token"]
        sandbox = self.command("create", "--template", "wat", "--fuel", "1e6", token=token).stdout.strip()
        self.command("update", sandbox, "--fuel", "1e5", token=token)
        self.assertIn("grants more", self.command("update", sandbox, "--fuel", "1e6", token=token, code=2).stderr)
        self.assertIn("grants more", self.command("update", sandbox, "--allow", "kv", token=token, code=2).stderr)

    # -- directories

    def tree(self, name):
        top = folder / name
        (top / "a/deep er").mkdir(parents=True)
        (top / "empty").mkdir()
        (top / "one.txt").write_text("one")
        (top / "a/deep er/é").write_bytes(b"\x00\xff")
        return top

    def files_of(self, top):
        return {str(path.relative_to(top)): None if path.is_dir() else path.read_bytes() for path in top.rglob("*")}

    def test_a_directory_goes_there_and_back(self):
        if not service.has_template("python"):
            self.skipTest("there is no template python")
        sandbox, top = self.command("create").stdout.strip(), self.tree("tree")
        (folder / "secret").write_text("no")
        (top / "link").symlink_to(folder / "secret")
        os.mkfifo(top / "fifo")
        refused = self.command("cp", "tree", f"{sandbox}:/tmp/", code=2).stderr
        self.assertIn("tree is a directory", refused)
        self.assertIn("cp -r", refused)
        said = self.command("cp", "-r", "tree", f"{sandbox}:/tmp/copied").stderr
        self.assertEqual(sorted(line.split()[1] for line in said.splitlines()), ["tree/fifo", "tree/link"])
        self.command("cp", "-r", "tree", f"{sandbox}:/tmp/")  # keeps its name
        refused = self.command("cp", f"{sandbox}:/tmp/tree", "back", code=2).stderr
        self.assertIn("cp -r", refused)
        (top / "link").unlink()
        (top / "fifo").unlink()
        self.command("cp", "-r", f"{sandbox}:/tmp/copied", "back")
        self.assertEqual(self.files_of(folder / "back"), self.files_of(top))
        self.command("cp", "-r", f"{sandbox}:/tmp/../tmp/tree/", "back")  # a directory keeps the name of what comes
        self.assertEqual(self.files_of(folder / "back/tree"), self.files_of(top))
        self.command("cp", "-r", f"{sandbox}:/tmp/tree/one.txt", "one.txt")
        self.assertEqual((folder / "one.txt").read_text(), "one")
        self.command("cp", "-r", f"{sandbox}:/tmp/nothing", "back", code=2)

    def copied(self, target, *paths, code=2):
        files = [{"path": path, "type": kind, "size_bytes": 1} for path, kind in paths]
        script = [("say", 200, {"path": "/d", "type": "directory"}), ("say", 200, {"files": files})]
        with Hostile(*script, *[("say", 200, "x")] * len(paths)) as server:
            return self.command("cp", "-r", "sbx1:/d", target, url=server.url, code=code).stderr

    def test_no_name_leads_out_of_the_directory(self):
        for path in ("/d/../out", "/d/a/../../out", "/out", "/dd/out", "/d/", "/d", "/d//out", "/d/./out", "out", "/d/a\0b",
                     "../out", ""):
            with self.subTest(path=path):
                said = self.copied("into", ("/d/fine", "file"), (path, "file"))
                self.assertIn("is not below /d", said)
                self.assertFalse((folder / "into").exists())

    def test_links_of_the_target_are_not_followed(self):
        outside, into = folder / "outside", folder / "linked"
        outside.mkdir()
        (outside / "file").write_text("kept")
        (into / "d").mkdir(parents=True)
        (into / "d/out").symlink_to(outside)
        (into / "d/file").symlink_to(outside / "file")
        os.link(outside / "file", into / "d/hard")
        for path, kind in (("/d/out/new", "file"), ("/d/out/new", "directory"), ("/d/file", "file"), ("/d/hard", "file"),
                           ("/d/out", "directory")):
            with self.subTest(path=path, kind=kind):
                self.assertIn("cannot be written", self.copied("linked", (path, kind)))
        (into / "d").rename(into / "moved")
        (into / "d").symlink_to(outside)
        self.assertIn("cannot be written", self.copied("linked", ("/d/new", "file")))
        self.assertEqual(self.files_of(outside), {"file": b"kept"})
        self.assertIn("is skipped", self.copied("kinds", ("/d/l", "symlink"), ("/d/f", "file"), code=0))
        self.assertEqual(self.files_of(folder / "kinds"), {"f": b'"x"'})

    def test_answers_of_another_form_do_no_harm(self):
        for words, code in ((("snapshots",), 0), (("contexts", "sbx1"), 0), (("ps",), 0), (("fork", "sbx1"), 0), (("info", "sbx1"), 0),
                            (("update", "sbx1", "--ttl", "1h"), 0), (("update", "sbx1", "--fuel", "1"), 2),
                            (("cp", "-r", "sbx1:/d", "odd"), 0)):
            for answer in ([], 7, {"snapshots": [1, {}, {"size_bytes": "x", "id": 7}], "contexts": 7, "sandboxes": [[]]}):
                with self.subTest(words=words, answer=answer), Hostile(("say", 200, answer), ("say", 200, answer)) as server:
                    self.command(*words, url=server.url, code=code)

    def test_a_directory_has_bounds(self):
        many = [(f"/d/{i}", "directory") for i in range(10_001)]
        self.assertIn("more than 10000", self.copied("many", *many))
        self.assertFalse((folder / "many").exists())

    def test_a_missing_service_is_reported(self):
        done = self.command("ps", url="http://127.0.0.1:1", code=2)
        self.assertIn("no service answers at http://127.0.0.1:1", done.stderr)
        self.assertIn("hint: Start one: membrane serve", done.stderr)

    def test_wrong_words_are_reported(self):
        self.assertIn("MEMBRANE_TOKEN", self.command("ps", token="mbr_wrong", code=2).stderr)
        self.assertIn("NAME=VALUE", self.command("create", "--metadata", "x", code=2).stderr)
        self.assertIn("-e CODE", self.command("exec", "x", code=2).stderr)
        self.assertIn("ID:/tmp", self.command("cp", "a", "b", code=2).stderr)
        self.assertIn("is not the URL", self.command("ps", "--url", "x:y", code=2).stderr)

    def test_refusals_and_cuts_are_tried_again(self):
        with Hostile(("reset",), ("refuse", 503, "overloaded", True), ("say", 201, SANDBOX)) as server:
            self.assertEqual(self.command("create", url=server.url).stdout, "sbx1\n")
            self.assertEqual(len({headers["Idempotency-Key"] for _, _, headers, _ in server.asked}), 1)

    def test_a_cut_stream_is_read_on(self):
        with Hostile(*CUT_AND_READ_ON[1:]) as server:
            self.assertEqual(self.command("exec", "sbx1", "-e", "x", url=server.url).stdout, "ab\n42\n")

    def test_the_token_of_this_machine_is_read_and_goes_to_no_other(self):
        home = folder / "own/membrane/service"
        home.mkdir(parents=True)
        (home / "owner.token").write_text(service.token + "\n")
        where = {**environment(), "XDG_STATE_HOME": str(folder / "own")}
        del where["MEMBRANE_TOKEN"]
        done = run([str(Path(COMMAND).resolve()), "ps"], env=where)
        self.assertEqual(done.returncode, 0, done.stderr)
        with Hostile(("say", 200, {"sandboxes": [], "next_cursor": None})) as server:
            elsewhere = server.url.replace("127.0.0.1", "elsewhere.example")  # by a proxy, which is the server
            proxied = {**where, "http_proxy": server.url, "MEMBRANE_URL": elsewhere, "no_proxy": ""}
            done = run([str(Path(COMMAND).resolve()), "ps"], env=proxied)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotIn("Authorization", server.asked[0][2])


if __name__ == "__main__":
    unittest.main()
