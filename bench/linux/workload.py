"""What tools/bench-linux measures, as a program of the guest: one round, as JSON: what, and seconds (or microseconds of a call).

Standard input is an archive of zlib's source, or nothing; files are made in /tmp. With the argument `few` only what is quick on
a slow platform is done.
"""

import json
import os
import subprocess
import sys
import time

QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
IS_WHOLE = "few" not in sys.argv
ARCHIVE = sys.stdin.buffer.read()
times: dict[str, float] = {}


def best(count, act):
    """The least time of `count` runs."""
    least = float("inf")
    for _ in range(count):
        start = time.perf_counter()
        act()
        least = min(least, time.perf_counter() - start)
    return least


def calls(function, count=4000):
    def all_of_them():
        for _ in range(count):
            function()
    return best(3, all_of_them) / count


def compute():
    total = 0
    for i in range(1_500_000):
        total += i * i % 7
    return total


def run(*words, **options):
    return lambda: subprocess.run(words, check=True, **QUIET, **options)


times["CPU-bound python3"] = best(3, compute)
null = os.open("/dev/null", os.O_RDONLY)
times["getppid, from python3"] = calls(os.getppid)
times["clock_gettime, from python3"] = calls(time.time)
times["lseek, from python3"] = calls(lambda: os.lseek(null, 0, 0))
times["read of nothing, from python3"] = calls(lambda: os.read(null, 1))
times["/bin/true"] = best(6, run("/bin/true"))
times["python3 -I -S -c 'print(2+2)'"] = best(6, run("python3", "-I", "-S", "-c", "print(2+2)"))
times["sh: a pipeline of three"] = best(4, run("sh", "-c", "echo a | tr a b | cat"))

os.makedirs("/tmp/c", exist_ok=True)
os.chdir("/tmp/c")
for i in range(4):
    body = "".join(f"int f{i}_{j}(int a) {{ char b[64]; snprintf(b, 64, \"%d\", a + {j}); return (int)strlen(b) * a; }}\n"
                   for j in range(40))
    with open(f"f{i}.c", "w") as file:
        file.write("#include <stdio.h>\n#include <string.h>\n" + body)
with open("main.c", "w") as file:
    file.write("int f0_0(int);\nint main(void) { return f0_0(1) != 1; }\n")
with open("Makefile", "w") as file:
    file.write("p: main.o f0.o f1.o f2.o f3.o\n\tgcc -o p $^\n%.o: %.c\n\tgcc -O2 -c $< -o $@\n")


def make(jobs):
    def act():
        subprocess.run(["sh", "-c", "rm -f *.o p"], check=True)
        subprocess.run(["make", "-s", f"-j{jobs}"], check=True, **QUIET)
    return act


times["make of five C files, gcc -O2"] = best(1, make(1))
if not IS_WHOLE:
    print(json.dumps(times))
    sys.exit()
times["the same, make -j2"] = best(1, make(2))

if ARCHIVE:
    os.makedirs("/tmp/z", exist_ok=True)
    os.chdir("/tmp/z")
    subprocess.run(["tar", "-xj", "--no-same-owner", "--strip-components=1"], input=ARCHIVE, check=True)
    times["build of zlib: configure, make"] = best(1, run("sh", "-c", "./configure && make"))

os.makedirs("/tmp/r", exist_ok=True)
os.chdir("/tmp/r")
for i in range(250):
    os.makedirs(f"d{i % 10}", exist_ok=True)
    with open(f"d{i % 10}/f{i}", "wb") as file:
        file.write(os.urandom(40_000))
git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]
environment = {**os.environ, "HOME": "/tmp", "GIT_CONFIG_NOSYSTEM": "1"}
for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "all"]):
    subprocess.run([*git, *words], check=True, env=environment, **QUIET)
subprocess.run(["rm", "-rf", "/tmp/clone"], check=True)
times["git clone of 10 MB"] = best(1, run(*git, "clone", "-q", "--no-local", "/tmp/r", "/tmp/clone", env=environment))
print(json.dumps(times))
