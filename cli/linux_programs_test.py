#!/usr/bin/env python3
"""`membrane run --kind linux` with other people's programs: what an agent does with a computer.

MEMBRANE_COMMAND names the command; the image is `debian` of the usual store (make images). Sources and binaries of others come from
their registries (linux_sources.py). Where an image or a program cannot be had, its tests say so and are skipped. MEMBRANE_LINUX_PLATFORM
names the platform of all tests; without it a few run on `kvm` too, where it is there. MEMBRANE_LINUX_LONG=1 adds what takes minutes.
"""

import io
import os
import platform
import re
import subprocess
import tarfile
import unittest
from pathlib import Path

import linux_sources
from linux_shell_test import Terminal

MEMBRANE = os.environ.get("MEMBRANE_COMMAND", "build/release/membrane")
PLATFORM = os.environ.get("MEMBRANE_LINUX_PLATFORM", "")
IMAGE = os.environ.get("MEMBRANE_LINUX_IMAGE", "debian")
ENVIRONMENT = ["PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME=/root", "LANG=C.UTF-8", "USER=root"]
ENDS_S = 900


def has_image() -> bool:
    try:
        done = subprocess.run([MEMBRANE, "image", "ls"], capture_output=True, text=True, timeout=60)
    except OSError:
        return False
    return any(IMAGE in line.split() for line in done.stdout.splitlines())


def pack(**files) -> bytes:
    """A tarball; a file is its text, its bytes, or a path of this machine."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content in files.items():
            content = content.read_bytes() if isinstance(content, Path) else content
            content = content.encode() if isinstance(content, str) else content
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o755
            tar.addfile(info, io.BytesIO(content))
    return packed.getvalue()


@unittest.skipUnless(platform.machine() == "x86_64", "the linux kind runs on x86-64")
@unittest.skipUnless(has_image(), f"no image {IMAGE}: make images")
class ProgramsTest(unittest.TestCase):
    PLATFORM = PLATFORM

    def run_script(self, script, files=None, options=(), exit_code=0):
        """A script of bash in /tmp/programs, where the files are; what it prints, both streams together."""
        words = [MEMBRANE, "run", "--kind", "linux", "--image", IMAGE, "-q", "--wall", f"{ENDS_S}s", *options,
                 *(["--platform", self.PLATFORM] if self.PLATFORM else []), *[f"--env={each}" for each in ENVIRONMENT], "--",
                 "bash", "-euc", "mkdir -p /tmp/programs && cd /tmp/programs && tar -x && exec 2>&1\n" + script]
        done = subprocess.run(words, input=pack(**(files or {})), capture_output=True, timeout=ENDS_S)
        output = done.stdout.decode(errors="replace")
        self.assertEqual(done.returncode, exit_code, output[-4000:] + done.stderr.decode(errors="replace")[-2000:])
        return output

    def source(self, package):
        found = linux_sources.debian_source(package)
        if found is None:
            self.skipTest(f"Debian's source package {package} cannot be had here")
        return found


class Debian(ProgramsTest):
    def test_packages_and_users_are_as_when_installed(self):
        output = self.run_script(r"""
dpkg --audit; dpkg --verify; dpkg -L libc6 | grep /libc.so.6
mkdir -p own/DEBIAN own/opt; echo in the package > own/opt/own; chmod -R go-w own
printf 'Package: own\nVersion: 1\nArchitecture: all\nMaintainer: A <a@b.c>\nDescription: own\n' > own/DEBIAN/control
dpkg-deb --build own own.deb; apt-get install -qq --yes ./own.deb; cat /opt/own; dpkg --purge own
useradd -m someone; chfn -f Name someone; su someone -c 'id -un; cd; pwd'; getent shadow someone | cut -d: -f1
ls /usr/lib/python3/dist-packages/pandas/__pycache__/__init__.*.pyc /usr/lib/python3.*/__pycache__/os.*.pyc
""")
        for line in ("/lib/x86_64-linux-gnu/libc.so.6", "in the package", "someone", "/home/someone"):
            self.assertIn(line + "\n", output)
        for word in ("warning", "missing", "error"):
            self.assertNotIn(word, output.lower())


class Git(ProgramsTest):
    SCRIPT = r"""
git config --global user.email a@b.c; git config --global user.name A; git config --global init.defaultBranch main
git init -q one; cd one
printf 'a\nb\nc\n' > f; git add f; git commit -qm first
git checkout -qb side; printf 'a\nB\nc\n' > f; git commit -qam side
git checkout -q main; printf 'a\nb\nc\nd\n' > f; git commit -qam more
git merge -q -m merged side; cat f
git checkout -qb other HEAD~1; echo new > g; git add g; git commit -qm other; git rebase -q main; git log --format=%s
echo dirty >> f; git stash -q; git diff --quiet; git stash pop -q; tail -1 f; git checkout -q f
git checkout -qb conflict main; printf 'X\n' > f; git commit -qam x
git checkout -q main; printf 'Y\n' > f; git commit -qam y; git merge conflict || git status --short; git merge --abort
cd ..; git clone -q one two; git -C two log --oneline | wc -l; git clone -q --bare --no-local one bare.git
cd two; echo pushed > p; git add p; git commit -qm pushed; git push -q ../bare.git HEAD:refs/heads/new; git -C ../bare.git show new:p
git gc -q; git fsck --strict; git bisect start -q; git format-patch -1 --stdout | head -1 | cut -c1-5
"""

    def test_merge_rebase_stash_clone_push(self):
        output = self.run_script(self.SCRIPT)
        for line in ("B", "d", "other", "merged", "dirty", "UU f", "pushed", "From "):
            self.assertIn(line + "\n", output + "\n")


class Python(ProgramsTest):
    def test_venv_and_wheels(self):
        setup = "from setuptools import setup, Extension\nsetup(name='fast', version='1', ext_modules=[Extension('fast', ['fast.c'])])\n"
        fast = """#include <Python.h>
static PyObject* twice(PyObject* self, PyObject* arg) { return PyLong_FromLong(2 * PyLong_AsLong(arg)); }
static PyMethodDef methods[] = {{"twice", twice, METH_O, ""}, {0}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "fast", 0, -1, methods};
PyMODINIT_FUNC PyInit_fast(void) { return PyModule_Create(&module); }
"""
        make_wheel = """import base64, hashlib, sys, zipfile
name, tag, version, *files = sys.argv[1:]
info = f"{name}-{version}.dist-info/"
texts = {file.split("/")[-1]: open(file, "rb").read() for file in files}
texts[info + "METADATA"] = f"Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n".encode()
texts[info + "WHEEL"] = f"Wheel-Version: 1.0\\nRoot-Is-Purelib: {tag.endswith('any')}\\nTag: {tag}\\n".encode()
texts[info + "RECORD"] = "".join(f"{name},,\\n" for name in [*texts, info + "RECORD"]).encode()
with zipfile.ZipFile(f"{name}-{version}-{tag}.whl", "w") as wheel:
    for each, text in texts.items(): wheel.writestr(each, text)
"""
        output = self.run_script("""
python3 -m venv env; . env/bin/activate; python -m pip --version | cut -d' ' -f1
(cd fast; python setup.py -q build_ext --inplace)
python make_wheel.py fast cp311-cp311-linux_x86_64 1 fast/fast*.so; python make_wheel.py pure py3-none-any 2 pure/pure.py
pip -q install --no-index *.whl; ls *.whl; cd /; python -c 'import fast, pure; print(fast.twice(pure.VALUE), pure.__file__)'
pip list 2>/dev/null | grep -c -e fast -e pure; pip -q uninstall -y fast; python -c 'import fast' || echo gone
cd /tmp/programs; pip -q install --no-index --no-build-isolation ./fast 2>/dev/null; python -c 'import fast; print(fast.twice(4))'
""", {"fast/setup.py": setup, "fast/fast.c": fast, "pure/pure.py": "VALUE = 21\n", "make_wheel.py": make_wheel})
        self.assertIn("42 /tmp/programs/env/lib", output)
        self.assertIn("pure-2-py3-none-any.whl", output)
        self.assertRegex(output, r"fast-1-cp\d+-cp\d+-linux_x86_64.whl")
        self.assertTrue(output.endswith("gone\n8\n"), output)

    def test_numpy(self):
        output = self.run_script("python3 numbers_.py", {"numbers_.py": """
import numpy as np
a = np.random.default_rng(1).random((300, 300))
q, r = np.linalg.qr(a)
print(np.allclose(q @ r, a), np.allclose(np.fft.ifft(np.fft.fft(a)).real, a))
m = np.memmap("m", dtype="f8", mode="w+", shape=(1000, 1000)); m[:] = 2; m.flush(); print(np.fromfile("m").sum())
"""})
        self.assertEqual(output, "True True\n2000000.0\n")

    SCRIPT = """
import asyncio, multiprocessing, os, sqlite3, subprocess, threading
def square(x): return x * x
async def serve():
    async def echo(reader, writer):
        writer.write((await reader.readline()).upper()); await writer.drain(); writer.close()
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async def ask(text):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(text + b"\\n"); answer = await reader.readline(); writer.close(); return answer
    print(b"".join(await asyncio.gather(*[ask(b"%d x" % i) for i in range(20)])).count(b"X"))
    process = await asyncio.create_subprocess_exec("sh", "-c", "cat; exit 3", stdin=-1, stdout=-1)
    out, _ = await process.communicate(b"piped"); print(out, process.returncode)
if __name__ == "__main__":
    asyncio.run(serve())
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(3) as pool: print(method, sum(pool.map(square, range(100))))
    shared = multiprocessing.shared_memory.SharedMemory(create=True, size=100) if hasattr(multiprocessing, "shared_memory") else None
    base = sqlite3.connect("base.db"); base.execute("pragma journal_mode=wal"); base.execute("create table t(a, b)")
    base.executemany("insert into t values (?, ?)", ((i, str(i)) for i in range(10000))); base.commit()
    def count(): print(sqlite3.connect("base.db").execute("select count(*), sum(a) from t").fetchone())
    other = threading.Thread(target=count); other.start(); other.join()
    print(subprocess.run(["sqlite3", "base.db", "select max(a) from t"], capture_output=True, text=True).stdout)
"""

    def test_asyncio_multiprocessing_sqlite(self):
        output = self.run_script("python3 all.py", {"all.py": self.SCRIPT})
        self.assertEqual(output, "20\nb'piped' 3\nfork 328350\nspawn 328350\nforkserver 328350\n(10000, 49995000)\n9999\n\n")

    def test_unittest_and_pytest(self):
        output = self.run_script("python3 -m pytest -q test_it.py; python3 -m unittest -v test_it", {"test_it.py": """
import unittest
class T(unittest.TestCase):
    def test_a(self): self.assertEqual(1 + 1, 2)
    def test_b(self): self.assertRaises(ZeroDivisionError, lambda: 1 / 0)
"""})
        self.assertIn("2 passed", output)
        self.assertIn("Ran 2 tests", output)


class Node(ProgramsTest):
    def test_a_script_and_npm_test(self):
        package = '{"name": "it", "version": "1.0.0", "scripts": {"test": "node --test test.js", "pretest": "echo before"}}'
        output = self.run_script("node main.js; npm test --silent; npm pack --silent", {
            "package.json": package,
            "main.js": """
const { Worker, isMainThread, parentPort } = require("worker_threads"), http = require("http"), cp = require("child_process");
if (!isMainThread) parentPort.postMessage(6 * 7);
else {
  new Worker(__filename).on("message", (m) => {
    console.log(m, cp.execSync("echo child").toString().trim());
    const server = http.createServer((q, r) => r.end("served " + q.url)).listen(0, "127.0.0.1", () =>
      http.get({ port: server.address().port, host: "127.0.0.1", path: "/x" }, (r) => r.on("data", (d) => {
        console.log(d.toString()); server.close(); })));
  });
}
""",
            "test.js": "const t = require('node:test'), a = require('assert');\nt('adds', () => a.equal(1 + 1, 2));\n"})
        self.assertIn("42 child\nserved /x\nbefore\n", output)
        self.assertIn("# pass 1", output)
        self.assertIn("it-1.0.0.tgz", output)


class Binaries(ProgramsTest):
    def test_a_go_program_with_threads(self):
        package = linux_sources.npm_package("@esbuild/linux-x64")
        if package is None:
            self.skipTest("npm's @esbuild/linux-x64 cannot be had here")
        output = self.run_script("""
tar xzf esbuild.tgz; file package/bin/esbuild | grep -o 'statically linked'
for i in $(seq 200); do echo "export const a$i = $i;"; done > lib.ts
echo 'import * as lib from "./lib"; const sum: number = Object.values(lib).reduce((a, b) => a + b, 0); console.log(sum);' > main.ts
package/bin/esbuild main.ts --bundle --minify --outfile=out.js; node out.js
""", {"esbuild.tgz": package})
        self.assertIn("statically linked", output)
        self.assertTrue(output.endswith("20100\n"), output)

    def test_a_rust_program_with_threads(self):
        package = linux_sources.wheel("ruff", "musllinux_1_2_x86_64")
        if package is None:
            self.skipTest("PyPI's wheel of ruff for musl cannot be had here")
        output = self.run_script("""
python3 -m zipfile -e ruff.whl .; ruff=$(echo ruff-*.data/scripts/ruff); chmod +x $ruff; file $ruff | grep -o -e 'static[a-z-]* linked'
for i in $(seq 300); do printf 'import os\\nx = 1\\n' > f$i.py; done
$ruff check --no-cache --quiet --statistics . || true; $ruff format --no-cache . | tail -1
""", {"ruff.whl": package})
        self.assertRegex(output, r"static(ally|-pie) linked")
        self.assertRegex(output, r"300\s+F401")

    def test_ripgrep(self):
        output = self.run_script("rg -j4 -c --no-filename 'def ' /usr/lib/python3.11/json | paste -sd+ | bc")
        self.assertGreater(int(output), 20)


class Sources(ProgramsTest):
    def test_zlib_by_configure_and_by_cmake(self):
        archive = self.source("zlib")
        output = self.run_script("""
tar xf zlib; cd zlib-*; ./configure > /dev/null; make -s -j2 > made 2>&1 || { cat made; exit 1; }; make -s test
mkdir -p win32 out; touch win32/zlib1.rc; cd out; cmake -DCMAKE_BUILD_TYPE=Release .. > made 2>&1 && make -s -j2 >> made 2>&1 || { cat made; exit 1; }; ctest
""", {"zlib": archive})
        for kind in ("zlib test OK", "zlib shared test OK", "zlib 64-bit test OK", "100% tests passed"):
            self.assertIn(kind, output)

    def test_lua(self):
        archive = self.source("lua5.4")
        output = self.run_script("""
tar xf lua; cd lua-*; make -s -j2 linux MYLIBS= > made 2>&1 || make -s -j2 posix > made 2>&1 || { cat made; exit 1; }; src/lua -v
src/lua -e 'local t = {} for i = 1, 1e5 do t[i] = i % 997 end table.sort(t) print(#t, t[1], t[#t], _VERSION)
local c = coroutine.wrap(function() for i = 1, 3 do coroutine.yield(i) end end) print(c(), c(), c())
local f = io.popen("echo piped") print(f:read("a")) print(os.execute("exit 3")) print(os.tmpname():sub(1, 9), os.clock() >= 0)'
echo 'print(string.pack("<i4", 7):byte(1, -1))' > p.lua; src/luac -o p.luac p.lua; src/lua p.luac
""", {"lua": archive})
        self.assertIn("Lua 5.4", output)
        self.assertIn("100000\t0\t996\tLua 5.4\n1\t2\t3\npiped\n\nnil\texit\t3\n/tmp/lua_\ttrue\n7\t0\t0\t0\n", output)

    @unittest.skipUnless(os.environ.get("MEMBRANE_LINUX_LONG"), "takes minutes: MEMBRANE_LINUX_LONG=1")
    def test_busybox_by_its_own_tests(self):
        archive = self.source("busybox")
        output = self.run_script("""
tar xf busybox; cd busybox-*; make -s defconfig > made 2>&1; sed -i 's/CONFIG_TC=y/# CONFIG_TC is not set/' .config
make -s -j2 >> made 2>&1 || { tail -30 made; exit 1; }
cd testsuite; bindir=$PWD/.. SKIP_KNOWN_BUGS=1 ./runtest || true
""", {"busybox": archive})
        failed = re.findall(r"^FAIL: (.*)$", output, re.M)
        passed = len(re.findall(r"^PASS: ", output, re.M))
        print(f"busybox: {passed} passed, {len(failed)} failed: {failed}")
        self.assertGreater(passed, 400)


class Editor(ProgramsTest):
    def edit(self, editor, keys):
        script = f"stty rows 24 cols 80; {editor} /tmp/f; printf 'saved:'; cat /tmp/f"
        words = [MEMBRANE, "run", "--tty", "--kind", "linux", "--image", IMAGE, *[f"--env={each}" for each in ENVIRONMENT],
                 "--env=TERM=vt100", *(["--platform", self.PLATFORM] if self.PLATFORM else []), "--", "sh", "-c", script]
        terminal = Terminal(words, {**os.environ, "TERM": "vt100"})
        self.addCleanup(terminal.close)
        for wanted, typed in keys:
            terminal.expect(wanted)
            terminal.type(typed)
        terminal.expect("saved:hello there")
        self.assertEqual(terminal.end(), 0)

    def test_vim(self):
        self.edit("vim -u NONE", [("/tmp/f", "ihello world\x1b"), ("world", ":s/world/there/\r"), ("there", ":wq\r")])

    def test_nano(self):
        self.edit("nano", [("nano", "hello there"), ("there", "\x0f"), ("Write", "\r"), ("rote", "\x18")])


class Shell(ProgramsTest):
    def test_busybox_and_job_control(self):
        output = self.run_script("""
busybox sh -c 'seq 5 | busybox awk "{ s += \\$1 } END { print s }"; echo abc | busybox rev; busybox ls -1 / | busybox wc -l'
set -m; sleep 100 & jobs -l | grep -c Running; kill %1; wait %1 || echo "ended $?"
trap 'echo trapped' USR1; kill -USR1 $$; cat <<< "here $((6 * 7))"; diff <(seq 3) <(seq 4) || true
""")
        for part in ("15\ncba\n", "\n1\n", "\nended 143\ntrapped\nhere 42\n3a4\n> 4\n"):
            self.assertIn(part, output)


@unittest.skipUnless(os.access("/dev/kvm", os.R_OK | os.W_OK), "no /dev/kvm here")
@unittest.skipIf(PLATFORM, "all tests run on one platform")
class OnKvm(ProgramsTest):
    PLATFORM = "kvm"

    def test_git(self):
        self.assertIn("merged\n", self.run_script(Git.SCRIPT))

    def test_asyncio_multiprocessing_sqlite(self):
        self.assertIn("forkserver 328350\n(10000, 49995000)\n9999\n", self.run_script("python3 all.py", {"all.py": Python.SCRIPT}))


if __name__ == "__main__":
    unittest.main()
