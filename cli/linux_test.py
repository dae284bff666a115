#!/usr/bin/env python3
"""`membrane run --kind linux`: unmodified programs of this machine in a sandbox.

MEMBRANE_COMMAND names the command. The image is made of this machine's own programs (linux_testing.py). MEMBRANE_LINUX_PLATFORM
names the platform of all tests; without it they run on the faster one of this machine, and a few on `kvm` too, where it is there.
"""

import json
import os
import platform
import signal
import subprocess
import sys
import tarfile
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from linux_testing import make_image
from mcp_testing import stateless

MEMBRANE = os.environ.get("MEMBRANE_COMMAND", "build/release/membrane")
HERE = Path(__file__).resolve().parent
ENVIRONMENT = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/root", "LANG": "C", "LC_ALL": "C"}
ENDS_S = 120
PLATFORM = os.environ.get("MEMBRANE_LINUX_PLATFORM", "")


@unittest.skipUnless(platform.machine() == "x86_64", "the linux kind runs on x86-64")
class LinuxTest(unittest.TestCase):
    PLATFORM = PLATFORM

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.environment = {**os.environ, "MEMBRANE_IMAGES": str(cls.folder / "images")}
        cls.has = make_image(cls.folder / "host.tar")
        cls.membrane("image", "import", cls.folder / "host.tar", "--tag", "host", check=True)

    @classmethod
    def membrane(cls, *words, input=None, check=False):
        done = subprocess.run([MEMBRANE, *map(str, words)], env=cls.environment, input=input, capture_output=True,
                              timeout=ENDS_S)
        if check and done.returncode != 0:
            raise AssertionError(done.stderr.decode(errors="replace"))
        return done

    def run_linux(self, *words, options=(), input=None):
        environment = [f"--env={name}={value}" for name, value in ENVIRONMENT.items()]
        return self.membrane("run", "--kind", "linux", "--image", "host", "-q", *self.platform(), *environment, *options, "--",
                             *words, input=input)

    @classmethod
    def platform(cls):
        return ["--platform", cls.PLATFORM] if cls.PLATFORM else []


class Commands(LinuxTest):
    def test_output_and_exit_code(self):
        done = self.run_linux("sh", "-c", "echo out; echo err >&2; exit 7")
        self.assertEqual((done.stdout, done.returncode), (b"out\n", 7))
        self.assertIn(b"err\n", done.stderr)

    def test_input(self):
        text = b"line\n" * 100_000
        self.assertEqual(self.run_linux("cat", input=text).stdout, text)

    def test_a_missing_program(self):
        done = self.run_linux("nosuchprogram")
        self.assertEqual(done.returncode, 127)
        for part in (b"invalid", b"nosuchprogram cannot be started", b"hint: The image has no program of this name"):
            self.assertIn(part, done.stderr)
        for words in (["/etc"], ["/etc/passwd"], ["sh", "-c", "exec /etc/passwd"]):
            self.assertEqual(self.run_linux(*words).returncode, 126, words)

    def test_the_report(self):
        done = self.membrane("run", "--kind", "linux", "--image", "host", "--json", *self.platform(), "--", "sh", "-c", "echo x; exit 3")
        report = json.loads(done.stdout)
        self.assertEqual((report["outcome"], report["exit_code"], report["stdout"]), ("ok", 3, "x\n"))

    def test_a_signal_is_reported(self):
        done = self.membrane("run", "--kind", "linux", "--image", "host", "--json", *self.platform(), "--", "sh", "-c", "kill -SEGV $$")
        report = json.loads(done.stdout)
        self.assertEqual((report["outcome"], report["exit_code"], done.returncode), ("trapped", 139, 139))
        done = self.run_linux("sh", "-c", "kill -KILL $$")
        self.assertEqual(done.returncode, 137)
        self.assertIn(b"ended by signal 9", done.stderr)
        self.assertNotIn(b"ended itself", done.stderr)

    def test_what_cannot_be_granted_is_refused(self):
        done = self.run_linux("true", options=["--allow", "kv"])
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"host functions", done.stderr)

    def test_a_kind_that_nobody_names(self):
        self.membrane("image", "import", self.folder / "host.tar", "--tag", "debian", check=True)
        self.addCleanup(self.membrane, "image", "rm", "debian")
        done = self.membrane("run", "--json", "--", "uname", "-s")
        report = json.loads(done.stdout)
        self.assertEqual(report["stdout"], "Linux\n")
        self.assertIn("no file uname here", report["kind_reason"])
        script = self.folder / "greet"
        script.write_text("#!/bin/sh\necho hello $1\n")
        report = json.loads(self.membrane("run", "--json", script, "you").stdout)
        self.assertEqual(report["stdout"], "hello you\n")
        self.assertIn("a script for a shell", report["kind_reason"])

    def test_an_image_names_the_kind(self):
        report = json.loads(self.membrane("run", "--image", "host", "--json", "-e", "uname -s; echo $1", "x").stdout)
        self.assertEqual((report["stdout"], report["kind_reason"]), ("Linux\nx\n", "--image names one"))
        self.assertEqual(self.membrane("run", "--image", "host", "-q", "--", "/bin/echo", "x").stdout, b"x\n")
        done = self.membrane("run", "--image", "host")
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"the image has none", done.stderr)

    def test_output_comes_as_it_is_printed(self):
        words = [MEMBRANE, "run", "--kind", "linux", "--image", "host", *self.platform(), "--", "sh", "-c", "echo first; read line; echo $line"]
        with subprocess.Popen(words, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            self.assertEqual(process.stdout.readline(), b"first\n")  # before it has ended
            self.assertEqual(process.communicate(b"second\n", timeout=ENDS_S)[0], b"second\n")

    def test_a_directory_is_no_program(self):
        self.membrane("image", "import", self.folder / "host.tar", "--tag", "debian", check=True)
        self.addCleanup(self.membrane, "image", "rm", "debian")
        (self.folder / "uname").mkdir()
        done = subprocess.run([MEMBRANE, "run", "-q", "--", "uname", "-s"], cwd=self.folder, env=self.environment, capture_output=True, timeout=ENDS_S)
        self.assertEqual((done.stdout, done.returncode), (b"Linux\n", 0), done.stderr)

    def test_several_words_in_one(self):
        self.assertIn(b"several words", self.run_linux("ls -la").stderr)

    def test_scripts_of_this_machine(self):
        (self.folder / "n.sh").write_text("echo script $1 $(cat)\n")
        (self.folder / "a.py").write_text("print(1)\n")

        def run(*words, input=None):
            return subprocess.run([MEMBRANE, "run", "--kind", "linux", "--image", "host", "-q", *words], cwd=self.folder, timeout=ENDS_S,
                                  env=self.environment, input=input, capture_output=True)
        self.assertEqual(run("n.sh", "you", input=b"in").stdout, b"script you in\n")
        self.assertEqual(run("-", "you", input=b"echo from $1\n").stdout, b"from you\n")
        for words, hint in ((["a.py"], b"python3 - < a.py; or grant this directory with --dir ."), (["./n.sh"], b"--dir . grants this directory"),
                            (["--dir", ".", "a.py"], b"./a.py")):
            done = run(*words)
            self.assertEqual(done.returncode, 127)
            self.assertIn(hint, done.stderr, words)
        self.assertEqual(run("--dir", ".", "--", "sh", "-c", "pwd; ls *.py").stdout, b"/work\na.py\n")
        self.assertEqual(run("--dir", ".", "--", "sh", "n.sh", "me").stdout, b"script me \n".replace(b" \n", b"\n"))

    def test_a_command_starts_in_the_given_directory(self):
        self.assertEqual(self.run_linux("pwd", options=["--workdir", "/usr"]).stdout, b"/usr\n")
        for directory, cause in (("/nosuch", b"cannot start in /nosuch"), ("relative", b"not absolute")):
            done = self.run_linux("pwd", options=["-w", directory])
            self.assertEqual(done.returncode, 2)
            self.assertIn(cause, done.stderr)

    def test_an_image_without_the_usual_directory(self):
        with tarfile.open(self.folder / "host.tar") as whole, tarfile.open(self.folder / "rootless.tar", "w") as rootless:
            for member in whole:
                if member.name.removeprefix("./").split("/")[0] != "root":
                    rootless.addfile(member, whole.extractfile(member) if member.isreg() else None)
        self.membrane("image", "import", self.folder / "rootless.tar", "--tag", "rootless", check=True)
        self.assertEqual(self.membrane("run", "--image", "rootless", "-q", *self.platform(), "--", "pwd").stdout, b"/\n")

    def test_a_program_of_this_machine_gets_a_hint_where_it_runs(self):
        done = self.membrane("run", "/bin/ls")
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"hint: Programs of Linux run in an image, which has its own: membrane run --kind linux -- ls", done.stderr)

    def test_code_for_the_shell(self):
        self.assertEqual(self.membrane("run", "--kind", "linux", "--image", "host", "-q", "-e", "echo $1", "x").stdout, b"x\n")

    def test_invalid_memory_is_refused(self):
        done = self.run_linux("true", options=["--memory", "0"])
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"--memory 512MiB", done.stderr)

    def test_fuel_is_refused(self):
        done = self.run_linux("true", options=["--fuel", "1000"])
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"counts no instructions", done.stderr)

    def test_a_missing_image(self):
        done = self.membrane("run", "--kind", "linux", "--image", "nosuch", "--", "true")
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"membrane image", done.stderr)

    def test_nothing_of_the_host_is_seen(self):
        done = self.run_linux("sh", "-c", f"ls {HERE} /proc/1/root{HERE} 2>/dev/null; echo $$; id -u")
        self.assertEqual(done.stdout, b"1\n0\n")

    def test_a_working_directory_too_deep_for_a_path_is_named_so(self):
        program = r"""
import ctypes, errno, os
os.chdir("/tmp")
for _ in range(25):
    os.mkdir("d" * 200)
    os.chdir("d" * 200)
libc = ctypes.CDLL(None, use_errno=True)
print(libc.syscall(79, ctypes.create_string_buffer(65536), 65536), errno.errorcode[ctypes.get_errno()])
"""
        self.assertEqual(self.run_linux("python3", "-c", program).stdout, b"-1 ENAMETOOLONG\n")


# Each clock, read by the vdso between two system calls that read it.
CLOCKS = r"""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.getauxval.restype = ctypes.c_ulong
assert open("/proc/self/maps").read().count("[vdso]") == 1
assert ctypes.string_at(libc.getauxval(33), 4) == b"\x7fELF"
class Time(ctypes.Structure):
    _fields_ = [("s", ctypes.c_long), ("ns", ctypes.c_long)]
def read(function, clock):
    time = Time()
    assert function(clock, ctypes.byref(time)) == 0, clock
    return time.s, time.ns
by_call = lambda clock, time: libc.syscall(228, clock, time)
for _ in range(200):
    for clock in (0, 1, 2, 3, 4, 7):
        before, now, after = read(by_call, clock), read(libc.clock_gettime, clock), read(by_call, clock)
        assert before <= now <= after, (clock, before, now, after)
for clock in (0, 1, 2, 3, 4, 7):
    assert read(libc.clock_getres, clock) == read(lambda *a: libc.syscall(229, *a), clock)
time = Time()
assert libc.clock_gettime(99, ctypes.byref(time)) == -1 and ctypes.get_errno() == 22
assert libc.time(None) in (libc.syscall(201, None) - 1, libc.syscall(201, None))
assert libc.sched_getcpu() == 0
print("ok")
"""


# What a program computes is its own time, or its children's; what it sleeps is nobody's.
CPU_TIMES = r"""
import os, resource, signal, threading, time
def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end: pass
wall, start = time.monotonic(), time.process_time()
time.sleep(0.3)
assert time.process_time() - start < 0.25, "a sleep is no work"
spin(0.2)
used = time.process_time() - start
assert 0.2 <= used <= time.monotonic() - wall, used
before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
assert before == 0 and os.times().children_user == 0
child = os.fork()
if child == 0:
    spin(0.2)
    os._exit(0)
_, _, usage = os.wait4(child, 0)
assert usage.ru_utime + usage.ru_stime >= 0.19, usage
assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime == usage.ru_utime
assert os.times().children_user >= 0.1
own = time.process_time()
threads = [threading.Thread(target=spin, args=(0.1,)) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert time.process_time() - own >= 0.2
fields = open("/proc/self/stat").read().rsplit(")", 1)[1].split()
assert int(fields[11]) + int(fields[12]) >= 40 and int(fields[13]) >= 10, fields
reported = []
signal.signal(signal.SIGXCPU, lambda *_: reported.append(1))
child = os.fork()
if child == 0:
    resource.setrlimit(resource.RLIMIT_CPU, (1, 2))
    while True:
        if reported: os.write(2, b"reported "); reported.clear()
_, status = os.waitpid(child, 0)
assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, status
print("ok")
"""


class Clocks(LinuxTest):
    def test_cpu_times_and_their_limit(self):
        done = self.run_linux("python3", "-c", CPU_TIMES)
        self.assertEqual((done.stdout, done.stderr), (b"ok\n", b"reported "))

    def test_the_vdso_agrees_with_the_system_calls(self):
        for options in ((), ("--deterministic",)):
            done = self.run_linux("python3", "-c", CLOCKS, options=options)
            self.assertEqual(done.stdout, b"ok\n", done.stderr)


# Reads every clock and source of random numbers, sleeps for longer than a test may last, and lets two programs take turns.
SAME_EACH_TIME = """
date; sleep 5000; date; cat /proc/uptime /proc/sys/kernel/random/uuid; od -An -tx1 -N8 /dev/urandom
python3 -c 'import os, random, time; print(random.random(), os.urandom(4), time.time(), time.monotonic(), id(object()))'
touch new; stat -c %Y.%i new
(for i in 1 2 3 4; do echo a$i; sleep 0.1; done) & for i in 1 2 3 4; do echo b$i; sleep 0.13; done; wait
{ seq 1 20000; } | { head -c 5; echo; cat > /dev/null; }
"""


class Deterministic(LinuxTest):
    def run_it(self, *options):
        done = self.run_linux("bash", "-c", "cd /tmp" + SAME_EACH_TIME, options=["--deterministic", *options])
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        return done.stdout.decode()

    def test_runs_are_the_same(self):
        first = self.run_it()
        self.assertTrue(first.startswith("Sat Jan  1 00:00:01 UTC 2000\nSat Jan  1 01:23:21 UTC 2000\n"), first)
        self.assertEqual(first, self.run_it())

    def test_the_policy_sets_the_clock_and_the_seed(self):
        policy = self.folder / "later.toml"
        policy.write_text('[time]\nstart = "2020-01-01T00:00:00Z"\n[random]\nseed = 7\n')
        other = self.run_it("--policy", str(policy))
        self.assertIn("UTC 2020", other)
        self.assertNotEqual(other.splitlines()[3:5], self.run_it().splitlines()[3:5])

    def test_a_time_stamp_is_that_of_the_clock(self):
        program = self.folder / "stamp"
        text = "#include <x86intrin.h>\n#include <stdio.h>\nint main() { printf(\"%d\\n\", __rdtsc() < 100ull << 32); }"
        subprocess.run(["cc", "-static", "-o", program, "-xc", "-"], input=text.encode(), check=True)
        done = self.run_linux("sh", "-c", "cat > /tmp/stamp; chmod 755 /tmp/stamp; /tmp/stamp",
                              input=program.read_bytes(), options=["--deterministic"])
        self.assertEqual(done.stdout, b"1\n", done.stderr)

    def test_other_programs_always_are(self):
        done = self.membrane("run", "--deterministic", "-e", "1")
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"--kind linux", done.stderr)


class Limits(LinuxTest):
    def outcome(self, *words, options=()):
        done = self.membrane("run", "--kind", "linux", "--image", "host", "--json", *self.platform(), *options, "--",
                             *words)
        return json.loads(done.stdout)["outcome"]

    def test_a_spinner_ends(self):
        self.assertEqual(self.outcome("sh", "-c", "while :; do :; done", options=["--wall", "1s"]), "timed_out")

    def test_a_sleeper_ends(self):
        self.assertEqual(self.outcome("sleep", "1000", options=["--wall", "1s"]), "timed_out")

    def test_an_interrupt_ends_the_run_and_a_shells_loop(self):
        words = [MEMBRANE, "run", "--kind", "linux", "--image", "host", *self.platform(), "--", "sh", "-c", "echo begun; sleep 1000"]
        with subprocess.Popen(words, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            self.assertEqual(process.stdout.readline(), b"begun\n")
            process.send_signal(signal.SIGINT)
            self.assertIn(b"Ctrl-C stopped", process.communicate(timeout=ENDS_S)[1])
            self.assertEqual(process.returncode, -signal.SIGINT)

    def test_waiting_for_a_writer_of_the_input_ends(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        self.assertEqual(self.outcome("cat", options=["--wall", "1s", "--input", str(pipe)]), "timed_out")

    def test_input_comes_from_a_pipe_whose_writer_comes_late(self):
        pipe = self.folder / "late"
        os.mkfifo(pipe)
        words = [MEMBRANE, "run", "--kind", "linux", "--image", "host", *self.platform(), "--input", pipe, "--", "sh", "-c", "echo begun; cat"]
        with subprocess.Popen(words, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
            self.assertEqual(process.stdout.readline(), b"begun\n")
            pipe.write_text("late\n")
            self.assertEqual(process.communicate(timeout=ENDS_S)[0], b"late\n")

    def test_a_printer_ends(self):
        self.assertEqual(self.outcome("yes", options=["--output", "1MB"]), "out_of_output")

    def test_a_memory_hog_ends(self):
        self.assertEqual(self.outcome("python3", "-I", "-S", "-c", "x = [bytearray(b'x') * 1_000_000 for i in range(1000)]",
                                      options=["--memory", "100MB"]), "out_of_memory")

    def report(self, *words, options=()):
        done = self.membrane("run", "--kind", "linux", "--image", "host", "--json", *self.platform(), *options, "--",
                             *words)
        return json.loads(done.stdout)

    def reached(self, report):
        return [each["limit"] for each in report.get("limits_reached", [])]

    def test_a_fork_bomb_ends(self):
        report = self.report("bash", "-c", ":(){ :|:& };:; sleep 1000", options=["--wall", "3s", "--tasks", "40"])
        self.assertEqual((report["outcome"], sorted(self.reached(report))), ("timed_out", ["tasks", "wall"]))

    def test_processes_and_threads_are_tasks(self):
        count = "for i in 1 2 3 4 5 6 7 8 9; do sleep 100 & done 2>/dev/null; jobs -p | wc -l"
        self.assertEqual(self.report("bash", "-c", count)["stdout"], "9\n")
        report = self.report("bash", "-c", count + "; exit 0", options=["--tasks", "4", "--wall", "5s"])
        self.assertIn("tasks", self.reached(report))

    def test_a_spinner_ends_by_its_cpu_time(self):
        report = self.report("sh", "-c", "while :; do :; done & wait", options=["--cpu", "500ms"])
        self.assertEqual((report["outcome"], report["error"]["code"], self.reached(report)),
                         ("out_of_cpu", "out_of_cpu", ["cpu"]))
        report = self.report("sh", "-c", "sleep 0.7; echo slept", options=["--cpu", "500ms"])
        self.assertEqual((report["outcome"], report["stdout"], self.reached(report)), ("ok", "slept\n", []))

    def test_processes_that_are_over_count_too(self):
        spin = "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done"
        report = self.report("sh", "-c", f"while :; do sh -c '{spin}'; done", options=["--cpu", "600ms", "--wall", "60s"])
        self.assertEqual(report["outcome"], "out_of_cpu")

    def test_the_child_that_had_too_much_is_named(self):
        report = self.report("sh", "-c", "python3 -I -S -c \"x = [bytearray(b'x') * 1_000_000 for i in range(1000)]\"; exit 5",
                             options=["--memory", "100MB"])
        self.assertEqual((report["exit_code"], self.reached(report)), (5, ["memory"]))

    def test_a_disk_filler_ends(self):
        report = self.report("dd", "if=/dev/zero", "of=/tmp/f", "bs=1M", options=["--disk", "8MiB"])
        self.assertEqual((report["exit_code"], self.reached(report)), (1, ["disk"]))
        self.assertIn("No space left", report["stderr"])

    def test_what_is_not_held_is_refused(self):
        for limit in (["--stack", "1MiB"], ["--call-depth", "10"], ["--table-elements", "10"]):
            done = self.run_linux("true", options=limit)
            self.assertEqual(done.returncode, 2, limit)
            self.assertIn(b"would not be held", done.stderr)
        done = self.membrane("run", "--cpu", "1s", "-e", "1")
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"Linux sandboxes", done.stderr + done.stdout)

    def test_a_policy_demands_a_platform(self):
        policy = self.folder / "platform.toml"
        policy.write_text('platform = "trap"\n[limits]\ntasks = 50\ndisk = "16 MiB"\n')
        done = self.membrane("run", "--kind", "linux", "--image", "host", "--json", "--policy", policy, "--", "true")
        self.assertEqual(json.loads(done.stdout)["platform"], "trap")
        done = self.membrane("run", "--kind", "linux", "--image", "host", "--platform", "kvm", "--policy", policy, "--", "true")
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"demands the platform trap", done.stderr)
        done = self.membrane("run", "--policy", policy, "-e", "1")
        self.assertEqual(done.returncode, 2)

    def test_help_lists_for_each_kind_what_it_heeds(self):
        shell = self.membrane("shell", "--help").stdout.decode()
        self.assertIn("--tasks", shell)
        for absent in ("--fuel", "--stack", "--call-depth", "--tokens"):
            self.assertNotIn(absent, shell)
        self.assertIn("Limits of --kind linux", self.membrane("run", "--help").stdout.decode())

    def test_a_disk_filler_gets_enospc(self):
        done = self.run_linux("sh", "-c", "dd if=/dev/zero of=/tmp/f bs=1M count=10000 2>&1 | tail -4; rm /tmp/f; echo ok")
        self.assertIn(b"No space left", done.stdout)
        self.assertTrue(done.stdout.endswith(b"ok\n"))


class Receipts(LinuxTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.environment |= {"XDG_CONFIG_HOME": str(cls.folder / "config"), "XDG_STATE_HOME": str(cls.folder / "state"),
                            "XDG_CACHE_HOME": str(cls.folder / "cache")}
        cls.membrane("keys", "generate", check=True)

    def sealed(self, name, *words, options=(), input=None):
        receipt = self.folder / name
        done = self.run_linux(*words, options=["--seal", receipt, *options], input=input)
        return receipt, done

    def test_a_run_is_sealed_and_verifies(self):
        receipt, done = self.sealed("run.receipt", "sh", "-c", "cat; echo err >&2; exit 3", input=b"given")
        self.assertEqual((done.stdout, done.returncode), (b"given", 3), done.stderr)
        self.membrane("verify", receipt, check=True)
        private = Path(f"{receipt}.private").read_text()
        for part in ("given", "err", "image_sha256"):
            self.assertIn(part, private)
        lines = [json.loads(line) for line in receipt.read_text().splitlines()]
        self.assertEqual(([line["language"] for line in lines if line.get("item") == "template"], lines[-2]["exit_code"]), (["linux"], 3))
        done = self.membrane("replay", receipt)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"--deterministic", done.stderr)

    def test_a_deterministic_one_is_run_again(self):
        script = "date +%s.%N; head -c 8 /dev/urandom | od -An -tx1; cat; sleep 5; echo $RANDOM; exit 4"
        receipt, done = self.sealed("same.receipt", "bash", "-c", script, options=["--deterministic"], input=b"given\n")
        self.assertEqual(done.returncode, 4, done.stderr)
        again = self.membrane("replay", receipt)
        self.assertEqual((again.returncode, again.stderr), (0, b""), again.stdout)
        self.assertIn(b"the same", again.stdout)

    def test_differences_are_reported(self):
        receipt, _ = self.sealed("other.receipt", "echo", "one", options=["--deterministic"])
        private = Path(f"{receipt}.private")
        private.write_text(private.read_text().replace("one", "two"))
        self.assertEqual(self.membrane("replay", receipt).returncode, 2)  # no line of it is the receipt's

    def test_an_image_that_is_not_here(self):
        receipt, _ = self.sealed("image.receipt", "echo", "one", options=["--deterministic"])
        done = subprocess.run([MEMBRANE, "replay", receipt], env={**self.environment, "MEMBRANE_IMAGES": str(self.folder / "none")},
                              capture_output=True, timeout=ENDS_S)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"no image of this machine", done.stderr)

    def test_a_terminal_is_not_sealed(self):
        done = self.membrane("run", "--kind", "linux", "--tty", "--seal", self.folder / "tty.receipt", "--", "true")
        self.assertEqual(done.returncode, 2)


class Mcp(LinuxTest):
    def setUp(self):
        self.server = subprocess.Popen([MEMBRANE, "mcp", "--image", "host", "--wall", "20s"], env=self.environment, stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(self.server.wait)
        self.addCleanup(self.server.stdout.close)
        self.addCleanup(self.server.stdin.close)

    def tool(self, name, **arguments):
        self.calls = getattr(self, "calls", 0) + 1
        self.server.stdin.write(json.dumps(stateless(self.calls, "tools/call", name=name, arguments=arguments)) + "\n")
        self.server.stdin.flush()
        while "result" not in (answer := json.loads(self.server.stdout.readline())):
            self.assertNotIn("error", answer)
        return answer["result"]

    def data(self, name, **arguments):
        result = self.tool(name, **arguments)
        self.assertFalse(result.get("isError"), result)
        return result["structuredContent"]

    def test_programs_and_sessions(self):
        self.assertEqual(self.data("run_code", language="linux", code="uname -s; cat", stdin="given")["stdout"], "Linux\ngiven")
        session = self.data("create_session", language="linux")["session"]
        self.data("run_in_session", session=session, code="mkdir /shared; echo one > /shared/a")
        self.data("write_file", session=session, path="/shared/b", content="two\n")
        fork = self.data("fork_session", session=session)["sessions"][0]["session"]
        self.data("run_in_session", session=fork, code="echo three > /shared/a")
        self.assertEqual(self.data("read_file", session=fork, path="/shared/a")["content"], "three\n")
        self.assertEqual(self.data("run_in_session", session=session, code="cat /shared/a /shared/b")["stdout"], "one\ntwo\n")
        self.assertIn("no such file", str(self.tool("read_file", session=session, path="/shared/c")).lower())
        self.data("close_session", session=session)

    def test_a_fork_continues_with_the_processes(self):
        session = self.data("create_session", language="linux")["session"]
        self.data("run_in_session", session=session, code="mkfifo /tmp/p; (read word < /tmp/p; echo $word > /tmp/got) & echo $! > /tmp/id")
        for fork in self.data("fork_session", session=session, count=2)["sessions"]:
            reported = self.data("run_in_session", session=fork["session"],
                             code=f"id=$(cat /tmp/id); kill -0 $id && echo {fork['session']} > /tmp/p; "
                                  "while kill -0 $id 2>&-; do :; done; cat /tmp/got")
            self.assertEqual(reported["stdout"], fork["session"] + "\n")
        self.assertEqual(self.data("run_in_session", session=session, code="kill -0 $(cat /tmp/id) && ls /tmp")["stdout"], "id\np\n")

    def test_a_script_in_a_session_ends_in_its_time(self):
        session = self.data("create_session", language="linux")["session"]
        result = self.tool("run_in_session", session=session, code="echo made > /tmp/a; sleep 100", timeout_ms=300)
        self.assertEqual(result["structuredContent"]["outcome"], "timed_out")
        self.assertEqual(self.data("run_in_session", session=session, code="cat /tmp/a")["stdout"], "made\n")

    def test_a_program_ends_in_its_time_and_is_not_sealed(self):
        result = self.tool("run_code", language="linux", code="sleep 100", timeout_ms=300)
        self.assertEqual(result["structuredContent"]["outcome"], "timed_out")
        self.assertTrue(self.tool("run_code", language="linux", code="true", seal=True)["isError"])


class AsOnTheHost(LinuxTest):
    """Each script gives the same output, exit code and files here and on this machine. A sandbox runs many, one after another."""

    DRIVER = (HERE / "linux_scripts_driver.sh").read_text()
    AT_ONCE = 40
    ONE_OF = 1  # each script; 2: every other one

    @staticmethod
    def input_of(scripts):
        return b"".join(script.encode() + b"\0" for script in scripts)

    @staticmethod
    def reported(output):
        """What the driver tells, by number: exit code, output, files."""
        all = {}
        while output:
            head, _, output = output.partition(b"\n")
            number, code, size, tree = map(int, head.split())
            all[number] = (code, output[:size], output[size:size + tree])
            output = output[size + tree:]
        return all

    def on_host(self, scripts):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(["bash", "-c", self.DRIVER, "driver", folder], env=ENVIRONMENT, capture_output=True,
                                  input=self.input_of(scripts), start_new_session=True, timeout=ENDS_S)
            return self.reported(done.stdout)

    def here(self, scripts):
        done = self.run_linux("bash", "-c", self.DRIVER, "driver", "/tmp/w", input=self.input_of(scripts))
        return self.reported(done.stdout)

    def test_scripts(self):
        lines = (HERE / "linux_scripts.txt").read_text().splitlines()
        scripts = [line.replace("\\n", "\n") if "<<" in line or "\\nif" in line or "\\ntry" in line else line
                   for line in lines if line and not line.startswith("#")]
        scripts = scripts[::self.ONE_OF]
        batches = [scripts[at:at + self.AT_ONCE] for at in range(0, len(scripts), self.AT_ONCE)]
        with ThreadPoolExecutor(2) as pool:
            for batch, host, here in zip(batches, pool.map(self.on_host, batches), pool.map(self.here, batches)):
                for number, script in enumerate(batch, 1):
                    with self.subTest(script=script):
                        self.assertEqual(here.get(number), host.get(number))


class OnKvm(AsOnTheHost):
    """A selection on the platform `kvm`, whose every system call takes long where /dev/kvm is emulated."""

    PLATFORM = "kvm"
    ONE_OF = 12

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        done = cls.membrane("run", "--kind", "linux", "--image", "host", "-q", "--platform", "kvm", "--", "true")
        if b"kvm" in done.stderr and done.returncode != 0:
            raise unittest.SkipTest(done.stderr.decode(errors="replace"))

    def test_the_report_names_it(self):
        done = self.membrane("run", "--kind", "linux", "--image", "host", "--json", "--platform", "kvm", "--", "true")
        self.assertEqual(json.loads(done.stdout)["platform"], "kvm")

    def test_threads_and_processes(self):
        done = self.run_linux("python3", "-c", ON_KVM)
        self.assertEqual((done.stdout, done.returncode), (b"45 9 b'8\\n' -11\n", 0), done.stderr)

    def test_a_compiler(self):
        done = self.run_linux("sh", "-c", "cd /tmp; echo 'int main(){return 3;}' > a.c; gcc a.c && ./a.out")
        if b"not found" in done.stderr or b"cannot execute" in done.stderr:
            self.skipTest("this machine has no compiler")
        self.assertEqual(done.returncode, 3, done.stderr)

    def test_a_spinner_ends(self):
        done = self.run_linux("sh", "-c", "while :; do :; done", options=["--wall", "300ms"])
        self.assertIn(b"timed", done.stderr + done.stdout)


ON_KVM = """
import os, subprocess, threading
seen = []
threads = [threading.Thread(target=seen.append, args=(i,)) for i in range(10)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
child = os.fork()
if child == 0:
    os._exit(9)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
shell = subprocess.run(["sh", "-c", "echo $((2 * 4)) | cat"], capture_output=True).stdout
fault = subprocess.run(["python3", "-S", "-c", "import ctypes; ctypes.string_at(8)"], capture_output=True).returncode
print(sum(seen), code, shell, fault)
"""


if __name__ == "__main__":
    unittest.main(verbosity=2)
