#!/usr/bin/env python3
"""The client for Python as users have it, installed into a fresh virtual environment, with a real service and with a server
that misbehaves in every way.

    MEMBRANE_COMMAND=build/release/membrane service/python_client_test.py
"""

import json
import os
import re
import sys
import textwrap
import unittest

from clients_testing import ROOT, Scripted, asking, begin, blocks, environment, install_or_skip, run


def setUpModule():
    global folder, service
    folder, service = begin()


class PythonClient(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        venv = folder / "venv"
        if not venv.exists():
            install_or_skip(cls, "a virtual environment", [sys.executable, "-m", "venv", venv])
            install_or_skip(cls, "mypy", [venv / "bin/pip", "install", "-q", "mypy"])
            os.environ["CMAKE_ARGS"] = "-DMEMBRANE_ENGINE=OFF"  # the client is enough
            install_or_skip(cls, "the package", [venv / "bin/pip", "install", "-q", ROOT / "python"])
        cls.python = str(venv / "bin/python")

    @classmethod
    def skipTest(cls, why):
        raise unittest.SkipTest(why)

    def ran(self, code, **where):
        path = folder / "program.py"
        path.write_text(textwrap.dedent(code))
        return run([self.python, "-B", path], env=environment(**where), cwd=folder)


class Python(PythonClient):
    def check(self, code):
        if not service.has_template("python"):
            self.skipTest("there is no template python")
        done = self.ran("from membrane import *\n" + textwrap.dedent(code))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_the_examples_of_the_readme_run(self):
        if not service.has_template("python"):
            self.skipTest("there is no template python")
        printed = ["2\n 3\n", "0\n1\n2\n2 ", "42\nstopped\n", "hello\n\ndiff --git a/hello.py b/hello.py\n"]
        examples = blocks("python/README.md", "python")
        self.assertEqual(len(examples), len(printed))
        for example, start in zip(examples, printed):
            if '"linux"' in example and not service.has_template("linux"):
                continue
            done = self.ran(example)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(done.stdout.startswith(start), done.stdout)

    def test_the_example_of_the_project_runs(self):
        if not service.has_template("python"):
            self.skipTest("there is no template python")
        (example,) = blocks("README.md", "python")
        done = self.ran(example)
        self.assertEqual((done.returncode, done.stdout), (0, "45\n"), done.stderr)

    def test_it_is_typed(self):
        for number, example in enumerate(blocks("python/README.md", "python")):
            (folder / f"example{number}.py").write_text(example)
            done = run([self.python, "-m", "mypy", "--strict", folder / f"example{number}.py"], cwd=folder)
            self.assertEqual(done.returncode, 0, done.stdout)
        done = run([self.python, "-m", "mypy", "--strict", "-p", "membrane"], cwd=folder)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_the_version_is_that_of_the_project(self):
        version = re.search(r"project\(membrane VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]
        self.assertEqual(self.ran("import membrane; print(membrane.__version__)").stdout.strip(), version)
        self.assertEqual(json.loads((ROOT / "node/package.json").read_text())["version"], version)
        self.assertIn(f"version = '{version}'", (ROOT / "node/src/connection.ts").read_text())

    def test_a_sandbox(self):
        self.check("""
            with Sandbox.create(labels=["a"], metadata={"n": "v"}, ttl="10m") as sandbox:
                result = sandbox.exec("import sys; x = sys.argv; print(input()); 7", stdin="hi\\n", arguments=["b"])
                assert (result.ok, result.text, result.stdout, result.value) == (True, "7", "hi\\n", {"text/plain": "7"}), result
                assert result.fuel_used > 0 and result.report["outcome"] == "ok"
                failed = sandbox.run("1 / 0")
                assert not failed.ok and failed.error.code == "ZeroDivisionError" and failed.error.result is failed
                sandbox.files.write("/tmp/a b", b"\\x00\\xff")
                assert sandbox.files.read("/tmp/a b") == b"\\x00\\xff"
                assert "/tmp/a b" in [file.path for file in sandbox.files.list()]
                assert [each.id for each in Sandbox.list(label="a")] == [sandbox.id]
                assert [each.id for each in Sandbox.list(label="a", metadata={"n": "v"})] == [sandbox.id]
                assert not list(Sandbox.list(label="a", metadata={"n": "w"}))
                assert Sandbox.connect(sandbox.id).info().metadata == {"n": "v"}
                started = sandbox.exec("print(1)", background=True)
                assert started.wait().stdout == "1\\n" and started.state() == "done"
                for event in sandbox.stream("print(1, flush=True)\\nwhile True: pass"):
                    break  # which stops it
                assert sandbox.run("8", timeout=60).text == "8"
                endless = sandbox.exec("while True: pass", background=True)
                endless.cancel()
                assert endless.wait().outcome == "cancelled"
            try:
                sandbox.run("1")
            except NotFoundError as error:
                assert error.request_id and error.hint and error.status == 404 and not error.retryable
            else:
                raise AssertionError
            """)

    def test_input_while_it_runs(self):
        self.check("""
            with Sandbox.create() as sandbox:
                started = sandbox.exec("print('name?', flush=True); print('hi', input()); print(input())", background=True,
                                       open_stdin=True)
                stream = started.stream()
                assert next(iter(stream)).text == "name?\\n"
                started.write_stdin("you\\n")
                started.write_stdin(b"bye", eof=True)
                assert started.wait().stdout == "name?\\nhi you\\nbye\\n"
                try:
                    started.write_stdin("late")
                except InvalidRequestError as error:
                    assert error.status == 409
                else:
                    raise AssertionError
            """)

    def test_a_receipt(self):
        self.check("""
            import json, os, urllib.request
            with Sandbox.create(seal=True) as sandbox:
                sandbox.run("x = 1")
                receipt = sandbox.receipt(sandbox.run("x + 1"))
                assert json.loads(receipt.text.splitlines()[1])["turn"] == 2
                started = sandbox.exec("3", background=True, seal=True)
                started.wait()
                started.receipt().save("saved.receipt")
                assert os.stat("saved.receipt.private").st_mode & 0o777 == 0o600
                assert json.loads(open("saved.receipt").read().splitlines()[1])["turn"] == 3
            with Sandbox.create() as sandbox:
                try:
                    sandbox.exec("1", seal=True)
                except InvalidRequestError as error:
                    assert (error.status, error.code) == (409, "conflict")
                else:
                    raise AssertionError
            async def main():
                async with await AsyncSandbox.create(seal=True) as sandbox:
                    receipt = await sandbox.receipt(await sandbox.run("1"))
                    assert b'"turn":1' in receipt.text and b"1" in receipt.private_text
            import asyncio
            asyncio.run(main())
            """)

    def test_its_own_objects_serve_as_their_ids(self):
        self.check("""
            with Sandbox.create(seal=True) as sandbox:
                context = sandbox.contexts.open()
                assert sandbox.exec("x = 1; x", context=context).text == "1"
                assert sandbox.run("x", context=context).text == "1" and not sandbox.run("x").ok
                assert next(e.text for e in sandbox.stream("print(x)", context=context) if e.text) == "1\\n"
                started = sandbox.exec("2", background=True)
                started.wait()
                assert sandbox.receipt(started).text == started.receipt().text
                made = sandbox.snapshot()
                assert Sandbox.connect(sandbox).id == Sandbox.connect(sandbox.info()).id == sandbox.id
            snapshots = Snapshots()
            assert snapshots.promote(made, "of-objects").name == "of-objects"
            with Sandbox.create(snapshot=made) as sandbox:
                assert sandbox.run("1").text == "1"
            snapshots.remove_template("of-objects")
            snapshots.remove(made)
            assert made.id not in [each.id for each in snapshots.list()]
            secrets = Secrets()
            secrets.remove(secrets.put("OF_OBJECTS", "0123456789", hosts=["api.example.com"]))
            assert "OF_OBJECTS" not in [each.name for each in secrets.list()]
            """)

    def test_files_of_a_context(self):
        self.check("""
            with Sandbox.create() as sandbox:
                files, context = sandbox.files, sandbox.contexts.open()
                files.write("/tmp/a", "one", context=context)
                assert files.read("/tmp/a", context=context) == b"one"
                assert files.read_text("/tmp/a", context=context.id) == "one"
                assert sandbox.run("open('/tmp/a').read()", context=context).text == "'one'"
                try:
                    files.read("/tmp/a")
                except NotFoundError as error:
                    assert context.id in error.hint, error.hint
                else:
                    raise AssertionError
                files.make_directory("/tmp/d", context=context)
                files.move("/tmp/a", "/tmp/d/b", context=context)
                assert files.stat("/tmp/d/b", context=context).size_bytes == 3
                assert [file.path for file in files.list("/tmp/d", context=context)] == ["/tmp/d/b"]
                assert "/tmp/d/b" in [file.path for file in files.list(context=context)]
                files.write_archive("/tmp/e", files.read_archive("/tmp/d", context=context), context=context)
                files.remove("/tmp/d", recursive=True, context=context)
                assert "/tmp/d" not in [file.path for file in files.list("/tmp", context=context)]
                assert files.read("/tmp/e/b", context=context) == b"one"
                assert not files.list()
            """)

    def test_approvals(self):
        with asking() as (url, policy):
            self.check(f"""
                code = "from membrane import http; print(input()); http.request('POST', {url!r}, '', '12345')"
                with Sandbox.create(policy={policy!r}) as sandbox:
                    assert sandbox.approvals.list() == []
                    reported = []
                    for event in sandbox.stream(code, stdin="given"):
                        if event.approval:
                            reported.append(event.approval)
                            if event.approval.state == "waiting":
                                (waiting,) = sandbox.approvals.list()
                                assert waiting == event.approval, (waiting, event)
                                sandbox.approvals.decide(waiting, True)
                    assert event.result.check().text == "b'taken'"
                    assert [each.state for each in reported] == ["waiting", "approved"]
                    assert (reported[0].function, reported[0].target) == ("http.request", "POST {url}"), reported
                    assert reported[0].bytes == len({url!r}) + 5 and reported[0].asked_at, reported
                    assert [read.function for read in reported[0].private_reads] == ["input"]
                    for event in sandbox.stream(code, stdin="given"):
                        if event.approval and event.approval.state == "waiting":
                            sandbox.approvals.decide(event.approval.id, False)
                    assert event.result.outcome == "denied", event.result
                async def main():
                    async with await AsyncSandbox.create(policy={policy!r}) as sandbox:
                        async for event in sandbox.stream(code, stdin="given"):
                            if event.approval and event.approval.state == "waiting":
                                assert await sandbox.approvals.list() == [event.approval]
                                await sandbox.approvals.decide(event.approval, True)
                        assert event.result.ok
                import asyncio
                asyncio.run(main())
                """)

    def test_an_exit_code_is_a_failure(self):
        self.check("""
            with Sandbox.create() as sandbox:
                assert sandbox.run("import sys; sys.exit()").check().exit_code == 0
                ended = sandbox.run("sys.exit(3)")
                assert (ended.outcome, ended.exit_code, ended.ok) == ("ok", 3, False), ended
                try:
                    ended.check()
                except ProgramError as error:
                    assert (error.code, error.result, "exited with code 3" in error.message) == ("exit", ended, True)
                else:
                    raise AssertionError
            """)

    def test_bytes_as_input(self):
        self.check("""
            with Sandbox.create() as sandbox:
                assert sandbox.exec("input()", stdin="né".encode()).text == "'né'"
                for wrong, kind in ((b"a\\xff", ValueError), (7, TypeError)):
                    try:
                        sandbox.exec("input()", stdin=wrong)
                    except kind as error:
                        assert "write_stdin" in str(error) or "bytes, not int" in str(error), error
                    else:
                        raise AssertionError
            """)

    def test_a_wrong_token_is_denied(self):
        done = self.ran("""
            from membrane import *
            try: Sandbox.create()
            except DeniedError as error: print(error.code)
            """, token="mbr_wrong")
        self.assertEqual(done.stdout, "unauthorized\n", done.stderr)

    def test_a_missing_service_is_reported(self):
        done = self.ran("""
            from membrane import *
            try: Sandbox.create(retries=0)
            except UnreachableError as error: print(error.hint, error.retryable, type(error.cause).__name__)
            """, url="http://127.0.0.1:1")
        self.assertEqual(done.stdout, "Start one: membrane serve True ConnectError\n", done.stderr)
        done = self.ran("from membrane import Sandbox\nSandbox.create(retries=0)", url="http://127.0.0.1:1")
        self.assertEqual(done.stderr.count("Traceback"), 1, done.stderr)
        self.assertNotIn("httpx.ConnectError", done.stderr)
        self.assertTrue(done.stderr.endswith("(unreachable)\n  hint: Start one: membrane serve\n"), done.stderr)

    def test_events_are_the_same_at_every_split(self):
        done = self.ran(r"""
            from membrane._events import EventParser
            text = "\ufeffid: 1\r\nevent: é\rdata: a\ndata:b\r\n\r\n: no\n\ndata\n\nid: 2\ndata: lost".encode()
            whole = EventParser().feed(text)
            assert [(e.kind, e.data, e.id) for e in whole] == [("é", "a\nb", "1"), ("message", "", "1")], whole
            for at in range(len(text)):
                parser = EventParser()
                assert parser.feed(text[:at]) + parser.feed(text[at:]) == whole, at
            """)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_lifecycle(self):
        paths = service.request("GET", "/openapi.json").json["paths"]
        if "/v1/sandboxes/{sandbox}/fork" not in paths:
            self.skipTest("the service has no fork")
        self.check("""
            with Sandbox.create() as sandbox:
                sandbox.run("x = 1")
                forks = sandbox.fork(2)
                assert [fork.run("x += 1; x").text for fork in forks] == ["2", "2"]
                assert sandbox.run("x").text == "1"
                for fork in forks: fork.kill()
                sandbox.pause()
                sandbox.resume()
                assert sandbox.run("x").text == "1"
                assert sandbox.snapshot().id
                sandbox.files.write("/tmp/a", "1")
                assert sandbox.files.stat("/tmp/a").size_bytes == 1
                sandbox.files.move("/tmp/a", "/tmp/b")
                assert "/tmp/b" in [file.path for file in sandbox.files.list("/tmp")]
                sandbox.files.remove("/tmp/b")
            """)

    def test_contexts_policies_and_archives(self):
        self.check("""
            import io, tarfile
            with Sandbox.create(policy={"kv": {}, "limits": {"fuel": "1e10"}}) as sandbox:
                context = sandbox.contexts.open()
                assert (context.template, sandbox.contexts.list()) == ("python", [context]) and context.created_at
                sandbox.exec("x = 1", context=context.id)
                assert not sandbox.run("x").ok and sandbox.exec("x", context=context.id).text == "1"
                sandbox.contexts.remove(context)
                assert sandbox.contexts.list() == []
                policy = sandbox.policy()
                sandbox.set_policy(policy)
                assert sandbox.policy() == policy and "kv" in policy, policy
                sandbox.update(limits={"fuel": 12345678})
                raised = sandbox.policy()
                assert raised == {**policy, "limits": {**policy["limits"], "fuel": 12345678}}, raised
                hint = sandbox.run("while True: pass").error.hint
                assert 'raise limits.fuel: sandbox.update(limits={"fuel": 49382712}).' in hint, hint
                info = sandbox.update(limits={"fuel": policy["limits"]["fuel"]}, labels=["l"])
                assert info.labels == ["l"] and sandbox.policy() == policy
                for refused, reported in ((lambda: sandbox.exec("1", context="ctx0"), "hint: sandbox.contexts.list() lists them."),
                                      (lambda: sandbox.update(ttl="90d"), "ttl must be at most 30d")):
                    try:
                        refused()
                    except MembraneError as error:
                        assert reported in str(error), error
                    else:
                        raise AssertionError
                sandbox.set_policy({})
                narrow = sandbox.policy()
                assert "kv" not in narrow and narrow["limits"] == policy["limits"], narrow
                sandbox.files.write("/tmp/d/a", "one")
                archive = sandbox.files.read_archive("/tmp/d")
                with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
                    assert [(each.name, tar.extractfile(each).read()) for each in tar] == [("a", b"one")]
                sandbox.files.write_archive("/tmp/e/f", archive)
                assert sandbox.files.read_text("/tmp/e/f/a") == "one"
                try:
                    sandbox.files.write_archive("/tmp/e", b"no archive" * 100)
                except InvalidRequestError as error:
                    assert error.hint
                else:
                    raise AssertionError
            """)

    def test_snapshots_and_secrets(self):
        self.check("""
            with Sandbox.create() as sandbox:
                sandbox.run("x = 1")
                made = sandbox.snapshot()
                assert (made.sandbox, made.template, made.name) == (sandbox.id, "python", None) and made.size_bytes > 0
            snapshots = Snapshots()
            assert made in snapshots.list()
            assert snapshots.promote(made.id, "of-python").name == "of-python"
            with Sandbox.create("of-python") as sandbox:
                assert sandbox.run("x").text == "1"
            snapshots.remove_template("of-python")
            snapshots.remove(made.id)
            assert made.id not in [each.id for each in snapshots.list()]
            secrets = Secrets()
            put = secrets.put("OF_PYTHON", "0123456789", hosts=["api.example.com"])
            assert (put.name, put.hosts) == ("OF_PYTHON", ("api.example.com",)) and put in secrets.list()
            secrets.remove("OF_PYTHON")
            assert put not in secrets.list()
            try:
                Secrets(token="mbr_wrong").list()
            except DeniedError:
                pass
            else:
                raise AssertionError
            """)

    def test_a_linux_sandbox(self):
        if not service.has_template("linux"):
            self.skipTest("there is no template linux")
        done = self.ran(r"""
            import signal
            from membrane import *
            with Sandbox.create(template="linux") as sandbox:
                assert sandbox.exec(command=["printf", "%s-", "a b", "$HOME"]).stdout == "a b-$HOME-"
                assert sandbox.exec("pwd", directory="/tmp").stdout == "/tmp\n"
                assert sandbox.exec("pwd; echo $1", arguments=["b"]).stdout == "/root\nb\n"
                assert "".join(event.text for event in sandbox.stream(command=["seq", "2"]) if event.text) == "1\n2\n"
                assert sandbox.exec("exit 3").exit_code == 3
                for wrong in ({}, {"code": "a", "command": ["a"]}, {"command": ["a"], "arguments": ["b"]}, {"command": "ls"}):
                    try:
                        sandbox.exec(**wrong)
                    except TypeError:
                        continue
                    raise AssertionError(wrong)
                shell = sandbox.exec("stty size; trap 'stty size; exit 4' WINCH; echo ready; while :; do sleep 0.05; done",
                                     terminal=(91, 20), background=True, open_stdin=True)
                text = ""
                for event in shell.stream(hang_up=True):
                    text += event.text or ""
                    if "ready" in text and "30 100" not in text:
                        shell.resize((100, 30))
                assert text == "20 91\r\nready\r\n30 100\r\n", text
                assert event.result.exit_code == 4
                ended = sandbox.exec("trap 'exit 5' INT; touch /tmp/ready; while :; do sleep 0.05; done", background=True)
                sandbox.exec("until [ -e /tmp/ready ]; do sleep 0.05; done")
                ended.signal(signal.SIGINT)
                assert ended.wait().exit_code == 5
                sandbox.files.write("/root/tree/run", "#!/bin/sh\necho ran\n", mode=0o755)
                sandbox.exec("ln -s run link; chmod 700 .", directory="/root/tree")
                sandbox.files.write_archive("/root/copy", sandbox.files.read_archive("/root/tree"))
                assert sandbox.exec("./link; stat -c %a run", directory="/root/copy").stdout == "ran\n755\n"
                assert [(each.name, each.mode, each.target) for each in sandbox.files.list("/root/copy")] == [
                    ("link", 0o777, "run"), ("run", 0o755, None)]
                sandbox.files.write("/root/repo/text", "one\n")
                sandbox.files.write("/root/repo/.git/config", "its own\n")
                snapshot = sandbox.snapshot()
                assert sandbox.diff(since=snapshot) == b""
                sandbox.exec("echo two >> text; printf '\\377' > other; echo x > .git/config", directory="/root/repo")
                patch = sandbox.diff(directory="/root/repo", since=snapshot)
                assert patch.startswith(b"diff --git a/other b/other\n"), patch
                assert b"+two\n" in sandbox.diff(directory="/root/repo") and b"+one\n" in sandbox.diff()
                with Sandbox.create(snapshot=snapshot) as other:
                    assert other.patch(patch, directory="/root/repo") == 2
                    assert other.files.read("/root/repo/other") == b"\xff"
                    try:
                        other.patch("--- a/no\n+++ b/no\n@@ -1 +1 @@\n-a\n+b\n")
                    except InvalidRequestError as error:
                        assert "line 3 of the patch" in error.message or "no" in error.message
                    other.pause()
                    other.resume()
                Snapshots().remove(snapshot)
        """)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_linux_sandbox_on_asyncio(self):
        if not service.has_template("linux"):
            self.skipTest("there is no template linux")
        done = self.ran(r"""
            import asyncio, signal
            from membrane import *
            async def main():
                async with await AsyncSandbox.create(template="linux") as sandbox:
                    assert (await sandbox.exec(command=["pwd"], directory="/tmp")).stdout == "/tmp\n"
                    text = ""
                    async for event in sandbox.stream(command=["stty", "size"], terminal=(91, 20)):
                        text += event.text or ""
                    assert text == "20 91\r\n", text
                    ended = await sandbox.exec(command=["sleep", "1000"], background=True)
                    while await ended.state() != "running":
                        pass
                    await ended.cancel()
                    assert (await ended.wait()).outcome == "cancelled"
                    waits = await sandbox.exec("trap 'exit 5' USR1; echo ready; while :; do sleep 0.05; done", background=True, terminal=(80, 24))
                    async for event in waits.stream():
                        if "ready" in (event.text or ""):
                            await waits.resize((100, 30))
                            await waits.signal(signal.SIGUSR1)
                    assert event.result.exit_code == 5
                    before = await sandbox.snapshot()
                    await sandbox.files.write("/root/a", "one\n")
                    patch = await sandbox.diff(since=before, directory="/root")
                    assert patch.startswith(b"diff --git a/a b/a\n")
                    await sandbox.files.remove("/root/a")
                    assert await sandbox.patch(patch, directory="/root") == 1
                    assert await sandbox.files.read_text("/root/a") == "one\n"
                    await AsyncSnapshots().remove(before)
            asyncio.run(main())
        """)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_hints_are_in_words_of_the_client(self):
        if not service.has_template("linux"):
            self.skipTest("there is no template linux")
        done = self.ran(r"""
            from membrane import *
            with Sandbox.create(template="linux") as sandbox:
                sandbox.pause()
                for what in (lambda: sandbox.exec("1"), lambda: sandbox.diff(since="snp_none"), lambda: Sandbox.create(template="nonsense")):
                    try:
                        what()
                    except MembraneError as error:
                        print(error.hint)
                    sandbox.resume() if sandbox.info().state == "paused" else None
            with Sandbox.create(template="linux", policy={"limits": {"wall": "100ms"}}) as sandbox:
                print(sandbox.exec(command=["sleep", "1000"]).error.hint)
        """)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "Resume it: sandbox.resume().\nSnapshots().list() lists them.\nmembrane templates lists them.\n"
                                      "Make it do less, or raise limits.wall: sandbox.update(limits={\"wall\": \"200ms\"}).\n")

    def test_all_of_that_on_asyncio(self):
        self.check("""
            import asyncio
            async def main():
                async with await AsyncSandbox.create() as sandbox:
                    context = await sandbox.contexts.open()
                    assert await sandbox.contexts.list() == [context]
                    await sandbox.contexts.remove(context.id)
                    await sandbox.set_policy(await sandbox.policy())
                    await sandbox.update(limits={"fuel": 12345678})
                    assert (await sandbox.policy())["limits"]["fuel"] == 12345678
                    await sandbox.files.write("/tmp/d/a", "one")
                    await sandbox.files.write_archive("/tmp/e", await sandbox.files.read_archive("/tmp/d"))
                    assert await sandbox.files.read_text("/tmp/e/a") == "one"
                    made = await sandbox.snapshot()
                snapshots, secrets = AsyncSnapshots(), AsyncSecrets()
                assert made in await snapshots.list()
                assert (await snapshots.promote(made.id, "of-asyncio")).name == "of-asyncio"
                await snapshots.remove_template("of-asyncio")
                await snapshots.remove(made.id)
                put = await secrets.put("OF_ASYNCIO", "0123456789", hosts=["*.example.com"])
                assert put in await secrets.list()
                await secrets.remove(put.name)
                assert put not in await secrets.list()
            asyncio.run(main())
            """)


FAILS = """
    try:
        {create}
    except MembraneError as error:
        print(type(error).__name__, error.code, error.request_id, error.status)
"""


class PythonOnHostileServer(Scripted, PythonClient):
    PROGRAMS = {
        "create": "print(Sandbox.create().id)",
        "fails": textwrap.dedent(FAILS.format(create="Sandbox.create()")),
        "slow": textwrap.dedent(FAILS.format(create="Sandbox.create(timeout=3)")),
        "stream": "for e in Sandbox.create().stream(''): print(e.text or e.result.text)",
        "bytes": "for e in Sandbox.create().stream(''):\n  if e.data: print(e.data.hex())\nprint(e.result.stdout_bytes.hex(), e.result.stderr_bytes.hex())",
        "kill": "Sandbox.create().kill()",
        "busy": "try: Sandbox.create()\nexcept BusyError as e: print(round(e.retry_after_s))",
        "ends": "with Sandbox.create(): pass\nprint('ended')",
        "fails_itself": "try:\n  with Sandbox.create(): raise KeyError('own')\nexcept KeyError as error: print(error.args[0])",
        "is_not_ended": "try:\n  with Sandbox.create(): pass\nexcept MembraneError as error: print(type(error).__name__)",
    }

    def ask(self, server, code):
        return self.ran("from membrane import *\n" + code, url=server.url)


class AsyncPythonOnHostileServer(Scripted, PythonClient):
    PROGRAMS = {
        "create": "print((await AsyncSandbox.create()).id)",
        "fails": textwrap.dedent(FAILS.format(create="await AsyncSandbox.create()")),
        "slow": textwrap.dedent(FAILS.format(create="await AsyncSandbox.create(timeout=3)")),
        "stream": "async for e in (await AsyncSandbox.create()).stream(''): print(e.text or e.result.text)",
        "bytes": "async for e in (await AsyncSandbox.create()).stream(''):\n  if e.data: print(e.data.hex())\nprint(e.result.stdout_bytes.hex(), e.result.stderr_bytes.hex())",
        "kill": "await (await AsyncSandbox.create()).kill()",
        "busy": "try: await AsyncSandbox.create()\nexcept BusyError as e: print(round(e.retry_after_s))",
        "ends": "async with await AsyncSandbox.create(): pass\nprint('ended')",
        "fails_itself": "try:\n  async with await AsyncSandbox.create(): raise KeyError('own')\nexcept KeyError as error: print(error.args[0])",
        "is_not_ended": "try:\n  async with await AsyncSandbox.create(): pass\nexcept MembraneError as error: print(type(error).__name__)",
    }

    def ask(self, server, code):
        return self.ran("import asyncio\nfrom membrane import *\nasync def main():\n" + textwrap.indent(code, "    ") +
                        "\nasyncio.run(main())\n", url=server.url)


if __name__ == "__main__":
    unittest.main()
