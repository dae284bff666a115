"""Tests every row of docs/e2b.md with E2B's own Python clients, for e2b_test.py, which runs it with their
packages installed.

Prints one JSON object: for each row what went wrong, or null.
"""

import asyncio
import sys
import tempfile
import time

from e2b import (AuthenticationException, CommandExitException, FileNotFoundException, InvalidArgumentException,
                 SandboxNotFoundException, SandboxQuery, TimeoutException)
from e2b_code_interpreter import AsyncSandbox, Sandbox

from e2b_rows import equal, refused, row, run_rows


@row("Sandbox.create")
def create(_):
    for template in ("base", "code-interpreter-v1", "python"):
        with Sandbox.create(template, timeout=60, metadata={"a": "b"}) as made:
            equal(made.run_code("1 + 1").text, "2")
            equal(made.get_info().metadata, {"a": "b"})
    refused(lambda: Sandbox.create("no-such-template"), "not found")
    refused(lambda: Sandbox.create(api_key="e2b_0"), "401", AuthenticationException)
    refused(lambda: Sandbox.create(network={"deny_out": ["0.0.0.0/0"]}), "policy")


@row("Sandbox.create envs")
def create_envs(_):
    with Sandbox.create(envs={"A": "one"}, timeout=60) as made:
        equal(made.run_code("import os; os.environ['A']").text, "one")
        equal(made.run_code("os.environ['A'], os.environ['B']", envs={"A": "2", "B": "3"}).text, "('2', '3')")
        equal(made.run_code("os.environ['A'], os.environ.get('B')").text, "('one', None)")
        equal(made.commands.run("python -c 'import os; print(os.environ[\"A\"], os.environ[\"B\"])'", envs={"B": "4"}).stdout,
              "one 4\n")


@row("Sandbox.connect")
def connect(sandbox):
    sandbox.run_code("connected = 5")
    equal(Sandbox.connect(sandbox.sandbox_id).run_code("connected").text, "5")
    refused(lambda: Sandbox.connect("sbx0"), "not found")


@row("Sandbox.list")
def list_sandboxes(sandbox):
    with Sandbox.create(timeout=60, metadata={"of": "a list & more"}) as other:
        pages = Sandbox.list(query=SandboxQuery(metadata={"of": "a list & more"}))
        equal([each.sandbox_id for each in pages.next_items()], [other.sandbox_id])
        pages, found = Sandbox.list(limit=1), []
        while pages.has_next:
            found += [each.sandbox_id for each in pages.next_items()]
        assert {sandbox.sandbox_id, other.sandbox_id} <= set(found), found


@row("get_info")
def get_info(sandbox):
    info = sandbox.get_info()
    equal((info.sandbox_id, info.template_id, info.state.value), (sandbox.sandbox_id, "python", "running"))


@row("set_timeout")
def set_timeout(sandbox):
    before = sandbox.get_info().end_at
    sandbox.set_timeout(1000)
    assert sandbox.get_info().end_at > before


@row("is_running")
def is_running(sandbox):
    assert sandbox.is_running()


@row("kill")
def kill(_):
    made = Sandbox.create(timeout=60)
    assert made.kill()
    assert not made.is_running()
    assert not made.kill()
    refused(made.get_info, "not found", SandboxNotFoundException)
    refused(lambda: made.commands.run("true"), "killed", TimeoutException)
    refused(lambda: made.run_code("1"), "not found", TimeoutException)


@row("pause")
def pause(_):
    with Sandbox.create(timeout=60) as made:
        made.run_code("kept = 41")
        assert made.pause()
        equal(made.get_info().state.value, "paused")
        assert not made.pause()
        equal(Sandbox.connect(made.sandbox_id).run_code("kept + 1").text, "42")
        equal(made.get_info().state.value, "running")


@row("fork")
def fork(_):
    with Sandbox.create(timeout=60) as made:
        made.run_code("x = 1")
        forks = made.fork(count=2)
        for number, each in enumerate(forks):
            each.run_code(f"x += {number + 1}")
        equal([each.run_code("x").text for each in [made, *forks]], ["1", "2", "3"])
        for each in forks:
            each.kill()


@row("create_snapshot")
def create_snapshot(_):
    with Sandbox.create(timeout=60) as made:
        made.run_code("x = 7")
        snapshot = made.create_snapshot()
        with Sandbox.create(snapshot.snapshot_id, timeout=60) as other:
            equal(other.run_code("x").text, "7")
        assert Sandbox.delete_snapshot(snapshot.snapshot_id)


@row("list_snapshots")
def list_snapshots(sandbox):
    named, other = sandbox.create_snapshot(name="listed"), sandbox.create_snapshot()

    def listed(**query):
        return {each.snapshot_id for each in Sandbox.list_snapshots(**query).next_items()}
    assert {named.snapshot_id, other.snapshot_id} <= listed()
    equal([listed(name=name) for name in ("listed", other.snapshot_id, "no-such")],
          [{named.snapshot_id}, {other.snapshot_id}, set()])
    for each in (named, other):
        Sandbox.delete_snapshot(each.snapshot_id)


@row("delete_snapshot")
def delete_snapshot(_):
    assert not Sandbox.delete_snapshot("snp0")


@row("get_metrics")
def get_metrics(sandbox):
    refused(sandbox.get_metrics, "docs/e2b.md")


@row("update_network")
def update_network(sandbox):
    refused(lambda: sandbox.update_network({"deny_out": ["0.0.0.0/0"]}), "docs/e2b.md")


@row("download_url")
def download_url(sandbox):
    import urllib.error
    import urllib.request
    try:
        urllib.request.urlopen(sandbox.download_url("/home/user/a.txt"))
    except urllib.error.HTTPError as error:
        equal(error.code, 400)
        assert "names no sandbox" in error.read().decode()
    else:
        raise AssertionError("the file was given")


@row("upload_url")
def upload_url(sandbox):
    assert sandbox.upload_url("/home/user/a.txt")


@row("run_code")
def run_code(sandbox):
    run = sandbox.run_code("import sys\nprint('é')\nprint('b', file=sys.stderr)\n'r' + 'esult'")
    equal((run.text, run.logs.stdout, run.logs.stderr, run.error), ("result", ["é\n"], ["b\n"], None))
    shown = sandbox.run_code("class Both:\n def _repr_png_(self): return b'png'\n def _repr_html_(self): return '<b>'\n"
                             " def _repr_latex_(self): return '$x$'\ndisplay(Both())\nBoth()").results
    equal([(each.png, each.html, each.latex, each.is_main_result) for each in shown],
          [("cG5n", "<b>", "$x$", False), ("cG5n", "<b>", "$x$", True)])
    failed = sandbox.run_code("def f():\n  raise ValueError('no')\nf()").error
    equal((failed.name, failed.value), ("ValueError", "no"))
    assert "line 2, in f" in failed.traceback
    equal(sandbox.run_code("import sys; sys.exit(3)").error.name, "SystemExit")
    counts = [sandbox.run_code("1").execution_count for _ in range(2)]
    equal(counts[1], counts[0] + 1)


@row("run_code json and data")
def run_code_forms(sandbox):
    context = sandbox.create_code_context()
    for where in (None, context):
        run = lambda code: sandbox.run_code(code, context=where).results[-1]  # noqa: B023: called at once
        equal([run(code).json for code in ("{'a': [1, None, 2.5]}", "[]", "(1, 2)", "[{1}]", "5")],
              [{"a": [1, None, 2.5]}, [], None, None, None])
        equal(run("import numpy\n{'n': numpy.arange(3), 'm': numpy.float64(0.5)}").json, {"n": [0, 1, 2], "m": 0.5})
        table = run("import pandas\npandas.DataFrame({'n': [1, 2], 'x': [0.5, float('nan')], 't': "
                    "[pandas.Timestamp('2020-01-02'), pandas.NaT]})")
        equal(table.data, {"n": [1, 2], "x": [0.5, None], "t": ["2020-01-02T00:00:00", None]})
        assert "data" in table.formats() and "<table" in table.html
        equal(list(table.data), ["n", "x", "t"])
        equal(run("1").data, None)
    sandbox.remove_code_context(context)


@row("run_code of a figure")
def run_code_figure(sandbox):
    drawn = "import matplotlib.pyplot as plt\nfig, axes = plt.subplots()\n_ = axes.plot([1, 2])\n"
    is_png = lambda result: (result.png or "").startswith("iVBOR")
    for code in (drawn, drawn + "plt.show()", drawn + "plt.close(fig)\nfig", drawn + "fig.savefig('/tmp/f.png')\nfig",
                 drawn + "fig", "fig"):
        equal([is_png(result) for result in sandbox.run_code(code).results if result.png], [True])
    equal(sandbox.run_code(drawn + "plt.close(fig)").results, [])


@row("run_code on_stdout, on_stderr, on_result, on_error")
def run_code_callbacks(sandbox):
    heard = []
    sandbox.run_code("import sys\nprint(1)\nprint(2, file=sys.stderr)\n3",
                     on_stdout=lambda message: heard.append(message.line), on_stderr=lambda message: heard.append(message.line),
                     on_result=lambda result: heard.append(result.text))
    sandbox.run_code("1/0", on_error=lambda error: heard.append(error.name))
    equal(heard, ["1\n", "2\n", "3", "ZeroDivisionError"])


@row("run_code timeout")
def run_code_timeout(sandbox):
    sandbox.run_code("before = 1")
    refused(lambda: sandbox.run_code("while True: pass", timeout=1), "timed out", TimeoutException)
    equal(sandbox.run_code("before").text, "1")
    refused(lambda: sandbox.run_code("import time; time.sleep(600)", timeout=1), "timed out", TimeoutException)
    begun = time.monotonic()
    equal(sandbox.run_code("before").text, "1")
    assert time.monotonic() - begun < 100, "the sleep was not ended"


@row("run_code text of a str")
def run_code_text(sandbox):
    codes = ("'a'", '"it\'s"', "''", "['a']", "'a', 'b'", "display('b')")
    equal([sandbox.run_code(code).text for code in codes], ["a", "it's", "", "['a']", "('a', 'b')", None])
    equal(sandbox.run_code("display('b')").results[0].text, "b")
    equal(sandbox.run_code("'a'", language="js").text, "a")


@row("run_code of a cell that is indented")
def run_code_indented(sandbox):
    equal(sandbox.run_code("\n    x=1\n    x").text, "1")
    equal(sandbox.run_code("\n  if True:\n    y = '''a\n   b\n c'''\n  y").text, r"a\n b\n c")


@row("run_code !pip install, %pip install")
def run_code_install(sandbox):
    run = sandbox.run_code("!pip install pillow numpy\nimport numpy\nint(numpy.ones(3).sum())")
    equal((run.text, run.error), ("3", None))
    equal([line.partition(" (")[0] for line in "".join(run.logs.stdout).splitlines()],
          ["Requirement already satisfied: pillow", "Requirement already satisfied: numpy"])
    equal(sandbox.run_code("%pip install -q 'pandas>=1'\n%matplotlib inline\n5").text, "5")
    error = sandbox.run_code("!pip install no-such-package-of-mine").error
    equal(error.name, "RuntimeError")
    assert "no-such-package-of-mine is not" in error.value and '"packages"' in error.value, error.value
    context = sandbox.create_code_context()
    equal(sandbox.run_code("!pip install numpy\n1", context=context).text, "1")
    sandbox.remove_code_context(context)


@row("run_code !command, %command")
def run_code_commands(sandbox):
    for line in ("!ls", "files = !ls", "%timeit 1", "%%bash\nls", "!pip install a && ls"):
        error = sandbox.run_code(line).error
        assert error.name == "RuntimeError" and "linux kind" in error.value, error.value


@row("the clock")
def clock(sandbox):
    with Sandbox.create(timeout=60) as made:  # its programs have looked at no clock
        made.run_code("_ = open('made', 'w').write('1')")
        made.files.write("written", "2")
        made.files.make_dir("directory")
        for name in ("made", "written", "directory"):
            age = time.time() - made.files.get_info(name).modified_time.timestamp()
            assert abs(age) < 3600, (name, age)
    begun = time.time()
    equal(sandbox.run_code(f"import time; abs(time.time() - {begun}) < 3600").text, "True")
    sandbox.run_code("time.sleep(1)")
    assert time.time() - begun > 0.9


@row("run_code language")
def run_code_language(sandbox):
    equal(sandbox.run_code("[1, 2].map(x => x * 2).join()", language="javascript").text, "2,4")
    equal(sandbox.run_code("let kept = 3", language="js").error, None)
    equal(sandbox.run_code("kept", language="javascript").text, "3")
    equal(sandbox.run_code("const a: string = 'b'; a", language="ts").text, "b")
    equal(sandbox.run_code("interface C { d: number }; a + 'c'", language="typescript").text, "bc")
    refused(lambda: sandbox.run_code("1", language="r"), "linux kind")


@row("create_code_context")
def create_code_context(sandbox):
    sandbox.run_code("shared = 1")
    context = sandbox.create_code_context(cwd="/tmp")
    equal(sandbox.run_code("import os; os.getcwd()", context=context).text, "/tmp")
    equal(sandbox.run_code("shared", context=context).error.name, "NameError")
    script = sandbox.create_code_context(language="javascript")
    equal(sandbox.run_code("1 + 1", context=script).text, "2")
    sandbox.remove_code_context(script)
    sandbox.remove_code_context(context)
    refused(lambda: sandbox.create_code_context(language="r"), "linux kind")


@row("list_code_contexts")
def list_code_contexts(sandbox):
    context = sandbox.create_code_context()
    typed = sandbox.create_code_context(language="typescript")
    assert {(context.id, "python"), (typed.id, "typescript")} <= {
        (each.id, each.language) for each in sandbox.list_code_contexts()}
    equal(sandbox.run_code("const e: number = 4; e", context=typed).text, "4")
    for each in (context, typed):
        sandbox.remove_code_context(each)


@row("remove_code_context")
def remove_code_context(sandbox):
    context = sandbox.create_code_context()
    sandbox.remove_code_context(context)
    refused(lambda: sandbox.remove_code_context(context), "")
    refused(lambda: sandbox.run_code("1", context=context), "")


@row("restart_code_context")
def restart_code_context(sandbox):
    context = sandbox.create_code_context()
    sandbox.run_code("y = 1", context=context)
    sandbox.restart_code_context(context)
    equal(sandbox.run_code("y", context=context).error.name, "NameError")
    sandbox.remove_code_context(context)


@row("files.write")
def write(sandbox):
    info = sandbox.files.write("one/text.txt", "text é")
    equal((info.name, info.path), ("text.txt", "/home/user/one/text.txt"))
    equal(sandbox.run_code("open('one/text.txt').read()").text, "text é")
    sandbox.files.write("/tmp/bytes", bytes(range(256)))
    sandbox.files.write("/tmp/octets", b"\x00\xff", use_octet_stream=True)
    with tempfile.TemporaryFile() as file:
        file.write(b"of a file")
        file.seek(0)
        sandbox.files.write("/tmp/streamed", file)
    equal(sandbox.run_code("[len(open(f'/tmp/{name}', 'rb').read()) for name in ('bytes', 'octets', 'streamed')]").text,
          "[256, 2, 9]")
    sandbox.files.write("/tmp/empty", "")
    equal(sandbox.files.read("/tmp/empty"), "")
    refused(lambda: sandbox.files.write("/tmp/m", "", metadata={"a": "b"}), "not supported")
    refused(lambda: sandbox.files.write("/tmp/z", "z", gzip=True), "gzip")


@row("files.write_files")
def write_files(sandbox):
    written = sandbox.files.write_files([{"path": "first", "data": "1"}, {"path": "/tmp/second", "data": b"2"}])
    equal([each.path for each in written], ["/home/user/first", "/tmp/second"])
    equal([sandbox.files.read(each.path) for each in written], ["1", "2"])


@row("files.read")
def read(sandbox):
    sandbox.files.write("r", b"\xc3\xa9")
    equal((sandbox.files.read("r"), bytes(sandbox.files.read("r", format="bytes"))), ("é", b"\xc3\xa9"))
    equal(b"".join(sandbox.files.read("r", format="stream")), b"\xc3\xa9")
    refused(lambda: sandbox.files.read("no/such"), "no/such", FileNotFoundException)


@row("the home directory")
def home_directory(sandbox):
    sandbox.files.write("~/at_home", "here")
    context = sandbox.create_code_context()
    for where in (None, context):
        equal(sandbox.run_code("import os, pathlib\n[os.environ['HOME'], os.path.expanduser('~'), str(pathlib.Path.home()), os.getcwd()]",
                               context=where).results[0].json, ["/home/user"] * 4)
    sandbox.remove_code_context(context)
    equal(sandbox.run_code("open(os.path.expanduser('~/at_home')).read()").text, "here")
    equal(sandbox.run_code("[process.env.HOME, require('os').homedir(), process.cwd()].join()", language="js").text,
          ",".join(["/home/user"] * 3))
    assert "HOME=/home/user" in sandbox.commands.run("env").stdout.splitlines()
    with Sandbox.create(envs={"HOME": "/tmp"}, timeout=60) as made:
        equal(made.run_code("import os; os.path.expanduser('~')").text, "/tmp")


@row("files.list")
def list_files(sandbox):
    sandbox.files.write("./here/../at_home", "1")
    for path in (".", "./", "", "~", "/home/user/", "here/.."):
        assert "/home/user/at_home" in [each.path for each in sandbox.files.list(path)], path
    equal(sandbox.files.get_info("./x/.././at_home").path, "/home/user/at_home")
    equal(sandbox.files.read("../user/at_home"), "1")
    sandbox.files.write_files([{"path": "l/b/c", "data": "12"}, {"path": "l/a", "data": "1"}])
    equal([(each.name, each.type.value, each.path, each.size) for each in sandbox.files.list("l")],
          [("a", "file", "/home/user/l/a", 1), ("b", "dir", "/home/user/l/b", 0)])
    equal([each.path for each in sandbox.files.list("l", depth=2)],
          ["/home/user/l/a", "/home/user/l/b", "/home/user/l/b/c"])
    refused(lambda: sandbox.files.list("no-such"), "no-such", FileNotFoundException)


@row("files.exists")
def exists(sandbox):
    sandbox.files.write("e", "")
    equal([sandbox.files.exists(path) for path in ("e", "/home/user", "/no", "/tmp/no/such")], [True, True, False, False])


@row("files.get_info")
def file_info(sandbox):
    sandbox.files.write("i", "123")
    info = sandbox.files.get_info("i")
    equal((info.name, info.type.value, info.path, info.size), ("i", "file", "/home/user/i", 3))
    refused(lambda: sandbox.files.get_info("no-such"), "no-such", FileNotFoundException)


@row("files.make_dir")
def make_dir(sandbox):
    equal([sandbox.files.make_dir("m/n"), sandbox.files.make_dir("m/n")], [True, False])
    equal(sandbox.files.get_info("m/n").type.value, "dir")


@row("files.remove")
def remove(sandbox):
    sandbox.files.write("d/e/f", "")
    sandbox.files.remove("d")
    assert not sandbox.files.exists("d")
    sandbox.files.remove("d")
    sandbox.files.remove("no/such")


@row("files.rename")
def rename(sandbox):
    sandbox.files.write("old", "x")
    equal(sandbox.files.rename("old", "new").path, "/home/user/new")
    equal((sandbox.files.read("new"), sandbox.files.exists("old")), ("x", False))


@row("files.watch_dir")
def watch_dir(sandbox):
    sandbox.files.make_dir("w")
    handle = sandbox.files.watch_dir("w")
    sandbox.files.write("w/new", "1")
    sandbox.run_code("open('/home/user/w/other', 'w').write('2')")
    equal({(each.name, each.type.value) for each in handle.get_new_events()} & {("new", "create"), ("other", "create")},
          {("new", "create"), ("other", "create")})
    for write_again in (lambda: sandbox.files.write("w/new", "3"),
                        lambda: sandbox.run_code("import time; time.time(); open('/home/user/w/new', 'w').write('4')")):
        write_again()
        assert ("new", "write") in [(each.name, each.type.value) for each in handle.get_new_events()]
    handle.stop()
    refused(lambda: sandbox.files.watch_dir("no-such"), "no-such", Exception)


@row("commands.run")
def run(sandbox):
    equal(sandbox.commands.run("echo 'a  b' \"c\" d\\ e").stdout, "a  b c d e\n")
    done = sandbox.commands.run("python3 -c 'import sys; print(sys.argv[1:]); print(1, file=sys.stderr)' x 'y z'")
    equal((done.stdout, done.stderr, done.exit_code), ("['x', 'y z']\n", "1\n", 0))
    sandbox.files.write("program.py", "import sys\nprint(__name__, len(sys.argv))\nsys.exit(4)")
    try:
        sandbox.commands.run("python program.py x")
    except CommandExitException as error:
        equal((error.exit_code, error.stdout), (4, "__main__ 2\n"))
    else:
        raise AssertionError("no exit code")
    equal(sandbox.commands.run("cat program.py").stdout[:10], "import sys")
    equal(sandbox.commands.run("pwd").stdout, "/home/user\n")
    equal(sandbox.commands.run("pwd", cwd="/tmp").stdout, "/tmp\n")
    for line in ("true", "env", "python --version"):
        equal(sandbox.commands.run(line).exit_code, 0)
    for line, why in (("git status", "'git'"), ("ls | wc", "a pipe"), ("echo $HOME", "a variable"), ("a; b", "more than one")):
        refused(lambda line=line: sandbox.commands.run(line), why)
        refused(lambda line=line: sandbox.commands.run(line), "linux kind")
    refused(lambda: sandbox.commands.run("python -c 'while True: pass'", timeout=1), "timeout", TimeoutException)


@row("commands.run ls")
def run_ls(sandbox):
    sandbox.files.write("ls/a", "")
    equal(sandbox.commands.run("ls ls").stdout, "a\n")


@row("commands.run on_stdout, on_stderr")
def run_callbacks(sandbox):
    heard = []
    sandbox.commands.run("python -c 'import sys; print(1); print(2, file=sys.stderr)'", on_stdout=heard.append,
                         on_stderr=heard.append)
    equal(heard, ["1\n", "2\n"])


@row("commands.run background")
def run_background(sandbox):
    handle = sandbox.commands.run("python -c 'print(5)'", background=True)
    equal(handle.wait().stdout, "5\n")


@row("commands.run stdin")
def run_stdin(sandbox):
    handle = sandbox.commands.run("python -c 'print(input() + input())'", stdin=True, background=True)
    sandbox.commands.send_stdin(handle.pid, "a\nb\n")
    equal(handle.wait().stdout, "ab\n")


@row("commands.list")
def list_commands(sandbox):
    handle = sandbox.commands.run("python -c 'while True: pass'", background=True)
    equal([(each.pid, each.args[-1]) for each in sandbox.commands.list()], [(handle.pid, "python -c 'while True: pass'")])
    handle.kill()


@row("commands.kill")
def kill_command(sandbox):
    handle = sandbox.commands.run("python -c 'while True: pass'", background=True)
    assert sandbox.commands.kill(handle.pid)
    refused(handle.wait, "", CommandExitException)
    assert not sandbox.commands.kill(handle.pid)


@row("commands.connect")
def connect_command(sandbox):
    handle = sandbox.commands.run("python -c 'print(6)'", background=True)
    equal(sandbox.commands.connect(handle.pid).wait().stdout, "6\n")
    refused(lambda: sandbox.commands.connect(999), "no such command", Exception)


@row("commands.send_stdin")
def send_stdin(sandbox):
    handle = sandbox.commands.run("cat", stdin=True, background=True)
    sandbox.commands.send_stdin(handle.pid, "one\n")
    sandbox.commands.send_stdin(handle.pid, "two\n")
    sandbox.commands.close_stdin(handle.pid)
    equal(handle.wait().stdout, "one\ntwo\n")
    over = sandbox.commands.run("true", background=True)
    refused(lambda: sandbox.commands.send_stdin(over.pid, "x"), "takes no input")


@row("commands.close_stdin")
def close_stdin(sandbox):
    handle = sandbox.commands.run("python -c 'import sys; print(len(sys.stdin.read()))'", stdin=True, background=True)
    sandbox.commands.close_stdin(handle.pid)
    equal(handle.wait().stdout, "0\n")


@row("pty.create")
def pty(sandbox):
    from e2b import PtySize
    refused(lambda: sandbox.pty.create(PtySize(rows=1, cols=1)), "linux kind")


@row("git")
def git(sandbox):
    refused(lambda: sandbox.git.status("/home/user"), "linux kind")


@row("AsyncSandbox")
def asynchronous(_):
    async def use():
        made = await AsyncSandbox.create(timeout=60)
        runs = await asyncio.gather(*(made.run_code(f"{number} + 1") for number in range(5)))
        equal([run.text for run in runs], ["1", "2", "3", "4", "5"])
        await made.files.write("a", "b")
        equal(await made.files.read("a"), "b")
        equal((await made.commands.run("echo c")).stdout, "c\n")
        assert await made.kill()
    asyncio.run(use())


with Sandbox.create(timeout=600) as sandbox:
    run_rows(sandbox, sys.argv[1:])
