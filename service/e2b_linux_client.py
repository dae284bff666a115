"""Tests every row of the table of Linux sandboxes in docs/e2b.md with E2B's own Python client, for
e2b_test.py, which runs it with the template as its argument.

Prints one JSON object: for each row what went wrong, or null.
"""

import os
import sys
import urllib.error
import urllib.request

from e2b import CommandExitException, FileNotFoundException, InvalidArgumentException, PtySize, Sandbox, TimeoutException

from e2b_rows import equal, refused, row, run_rows

TEMPLATE = sys.argv[1]


def failed(call):
    try:
        call()
    except CommandExitException as error:
        return error
    raise AssertionError("it did not fail")


def make(**more):
    return Sandbox.create(TEMPLATE, timeout=120, **more)


@row("Sandbox.create")
def create(sandbox):
    info = sandbox.get_info()
    equal((info.template_id, info.cpu_count, info.memory_mb), (TEMPLATE, 2, 2048))
    with make(envs={"A": "one"}, metadata={"of": "linux"}) as made:
        equal(made.commands.run("echo $A $HOME; uname").stdout, "one /home/user\nLinux\n")
        assert made.sandbox_id in [each.sandbox_id for each in Sandbox.list().next_items()]
    refused(lambda: Sandbox.create("linux:no-such"), "no-such")
    refused(lambda: Sandbox.create("no-such"), TEMPLATE)


@row("pause")
def pause(_):
    with make() as made:
        held = made.commands.run("(sleep 1000 & echo $! > /tmp/pid); echo kept > /tmp/kept").exit_code
        equal(held, 0)
        assert made.pause()
        again = Sandbox.connect(made.sandbox_id)
        equal(again.commands.run("cat /tmp/kept; kill -0 $(cat /tmp/pid) && echo lives").stdout, "kept\nlives\n")


@row("fork")
def fork(_):
    with make() as made:
        made.files.write("a", "1")
        (other,) = made.fork()
        other.files.write("a", "2")
        equal((made.files.read("a"), other.commands.run("cat a").stdout), ("1", "2"))
        other.kill()


@row("create_snapshot")
def create_snapshot(sandbox):
    sandbox.files.write("snap", "shot")
    snapshot = sandbox.create_snapshot()
    with Sandbox.create(snapshot.snapshot_id, timeout=60) as other:
        equal(other.commands.run("cat snap; echo $HOME").stdout, "shot/home/user\n")
    Sandbox.delete_snapshot(snapshot.snapshot_id)


@row("get_metrics")
def get_metrics(sandbox):
    sandbox.files.write("filled", "x" * 200_000)
    handle = sandbox.commands.run("while :; do :; done", background=True)
    sandbox.get_metrics()
    while sandbox.get_metrics()[0].cpu_used_pct == 0:
        pass
    (now,) = sandbox.get_metrics()
    handle.kill()
    assert now.mem_used > 0 and now.disk_used >= 200_000, now
    equal((now.cpu_count, now.mem_total, now.disk_total), (2, 2 << 30, 1 << 30))


@row("run_code")
def run_code(sandbox):
    request = urllib.request.Request(f"{os.environ['E2B_SANDBOX_URL']}/execute", b'{"code": "1"}', {
        "E2b-Sandbox-Id": sandbox.sandbox_id, "X-API-Key": os.environ["E2B_API_KEY"]})
    try:
        urllib.request.urlopen(request)
    except urllib.error.HTTPError as error:
        assert "commands.run()" in error.read().decode()
    else:
        raise AssertionError("code ran")


@row("commands.run")
def run(sandbox):
    done = sandbox.commands.run("echo a | tr a b; echo c >&2; cd /tmp && pwd")
    equal((done.stdout, done.stderr, done.exit_code), ("b\n/tmp\n", "c\n", 0))
    error = failed(lambda: sandbox.commands.run("echo out; exit 4"))
    equal((error.exit_code, error.stdout), (4, "out\n"))
    equal(failed(lambda: sandbox.commands.run("kill -TERM $$")).exit_code, -1)
    equal(sandbox.commands.run("pwd").stdout, "/home/user\n")
    heard = []
    sandbox.commands.run("echo 1; echo 2 >&2", on_stdout=heard.append, on_stderr=heard.append)
    equal(sorted(heard), ["1\n", "2\n"])


@row("commands.run cwd, envs, timeout")
def run_options(sandbox):
    equal(sandbox.commands.run("pwd; echo $B", cwd="/tmp", envs={"B": "b c"}).stdout, "/tmp\nb c\n")
    refused(lambda: sandbox.commands.run("true", cwd="/no/such"), "does not exist", InvalidArgumentException)
    refused(lambda: sandbox.commands.run("sleep 1000", timeout=1), "timeout", TimeoutException)


@row("commands.run user")
def run_user(sandbox):
    sandbox.files.write("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\nother:x:1234:1234::/tmp/other:/bin/sh\n")
    sandbox.files.make_dir("/tmp/other")
    equal(sandbox.commands.run("id -u; pwd; echo $HOME", user="other").stdout, "1234\n/tmp/other\n/tmp/other\n")
    equal(sandbox.commands.run("id -u; echo $HOME", user="root").stdout, "0\n/root\n")
    refused(lambda: sandbox.commands.run("true", user="nobody-here"), "nobody-here", InvalidArgumentException)


@row("commands.run background")
def run_background(sandbox):
    first, second = (sandbox.commands.run(f"cat; echo {number}", background=True, stdin=True) for number in (1, 2))
    for handle, text in ((second, "2\n"), (first, "1\n")):  # they run beside each other
        sandbox.commands.close_stdin(handle.pid)
        equal(handle.wait().stdout, text)


@row("commands.send_stdin, close_stdin")
def send_stdin(sandbox):
    handle = sandbox.commands.run("cat", stdin=True, background=True)
    sandbox.commands.send_stdin(handle.pid, "one\n")
    sandbox.commands.send_stdin(handle.pid, "two\n")
    sandbox.commands.close_stdin(handle.pid)
    equal(handle.wait().stdout, "one\ntwo\n")
    equal(sandbox.commands.run("cat").stdout, "")


@row("commands.list, connect, kill")
def list_commands(sandbox):
    handle = sandbox.commands.run("echo $$; exec sleep 1000", background=True)
    equal([(each.pid, each.args[-1]) for each in sandbox.commands.list()], [(handle.pid, "echo $$; exec sleep 1000")])
    sandbox.commands.run(f"kill -0 {handle.pid}")  # it is the process's own
    connected = sandbox.commands.connect(handle.pid)
    assert sandbox.commands.kill(handle.pid)
    for each in (handle, connected):
        error = failed(each.wait)
        equal((error.exit_code, error.stdout), (-1, f"{handle.pid}\n"))
    assert not sandbox.commands.kill(handle.pid)
    equal(sandbox.commands.list(), [])


@row("pty.create, send_stdin, resize, kill")
def pty(sandbox):
    handle = sandbox.pty.create(PtySize(rows=30, cols=90), envs={"PS1": "> "}, cwd="/tmp")
    shown, is_asked = b"", False
    for _, _, chunk in handle:
        shown += chunk
        # Before its prompt, Readline reads the size and sets it again, and so might undo ours.
        if not is_asked and b"> " in shown:
            is_asked = True
            sandbox.pty.resize(handle.pid, PtySize(rows=31, cols=91))
            sandbox.pty.send_stdin(handle.pid, b"tty; stty size; pwd; exit 3\n")
    equal(failed(handle.wait).exit_code, 3)
    assert b"/dev/pts/" in shown and b"31 91\r\n/tmp\r\n" in shown, shown
    other = sandbox.pty.create(PtySize(rows=1, cols=1))
    assert sandbox.pty.kill(other.pid)
    equal(failed(other.wait).exit_code, -1)
    plain = sandbox.commands.run("sleep 1000", background=True)
    refused(lambda: sandbox.pty.resize(plain.pid, PtySize(rows=1, cols=1)), "no terminal", Exception)
    plain.kill()


@row("files")
def files(sandbox):
    sandbox.files.write("d/e.txt", "text")
    equal((sandbox.files.read("d/e.txt"), sandbox.commands.run("cat ~/d/e.txt").stdout), ("text", "text"))
    equal(bytes(sandbox.files.read("d/e.txt", format="bytes")), b"text")
    equal([sandbox.files.make_dir("d/f"), sandbox.files.make_dir("d/f")], [True, False])
    sandbox.commands.run("chmod 750 d/e.txt; chown 7:8 d/e.txt; ln -s e.txt d/link")
    found = {each.name: each for each in sandbox.files.list("d")}
    equal(set(found), {"e.txt", "f", "link"})
    entry = found["e.txt"]
    equal((entry.size, entry.mode, entry.permissions, entry.owner, entry.group), (4, 0o750, "-rwxr-x---", "7", "8"))
    equal((found["f"].type.value, found["f"].owner, found["link"].symlink_target), ("dir", "root", "e.txt"))
    sandbox.files.write("d/e.txt", "other")
    equal(sandbox.files.get_info("d/e.txt").mode, 0o750)
    equal(sandbox.files.rename("d/e.txt", "d/g.txt").path, "/home/user/d/g.txt")
    equal([sandbox.files.exists(path) for path in ("d/e.txt", "d/g.txt", "/etc/passwd")], [False, True, True])
    sandbox.files.remove("d")
    assert not sandbox.files.exists("d")
    refused(lambda: sandbox.files.read("no-such"), "no-such", FileNotFoundException)
    refused(lambda: sandbox.files.write("u", "", user="other"), "chown")


@row("files.watch_dir")
def watch_dir(sandbox):
    sandbox.files.make_dir("w")
    handle = sandbox.files.watch_dir("w")
    sandbox.files.write("w/a", "1")
    process = sandbox.commands.run("read line; echo 2 > w/b; echo made; sleep 1000", background=True, stdin=True)
    process.send_stdin("\n")
    next(iter(process))
    equal({(each.name, each.type.value) for each in handle.get_new_events()} & {("a", "create"), ("b", "create")},
          {("a", "create"), ("b", "create")})
    process.kill()
    handle.stop()


@row("git")
def git(sandbox):
    # By commands.run: what git says is git's.
    refused(lambda: sandbox.git.status("/no-such-repository"), "", Exception)


@row("get_host")
def get_host(sandbox):
    request = urllib.request.Request(f"{os.environ['E2B_SANDBOX_URL']}/", headers={
        "E2b-Sandbox-Id": sandbox.sandbox_id, "X-API-Key": os.environ["E2B_API_KEY"]})
    try:
        urllib.request.urlopen(request)
    except urllib.error.HTTPError as error:
        assert "reached from outside" in error.read().decode()
    else:
        raise AssertionError("a port answered")


with make() as sandbox:
    run_rows(sandbox, sys.argv[2:])
