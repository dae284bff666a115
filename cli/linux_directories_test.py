#!/usr/bin/env python3
"""Granted directories of `membrane run --kind linux`: this machine's programs use files of this machine.

MEMBRANE_COMMAND names the command, MEMBRANE_LINUX_PLATFORM the platform (linux_test.py).
"""

import hashlib
import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import linux_test


class Directories(linux_test.LinuxTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.host = Path(folder.name) / "granted"
        self.outside = Path(folder.name) / "outside"
        for each in (self.host / "below", self.outside):
            each.mkdir(parents=True)
        (self.host / "a").write_text("text of a\n")
        (self.host / "below" / "b").write_text("text of b\n")
        (self.outside / "secret").write_text("secret\n")

    def sh(self, script, mode="", grant=None):
        flags = ["--allow", grant] if grant else ["--dir", f"{self.host}:/data{mode}"]
        done = self.run_linux("bash", "-c", script, options=flags)
        return done.stdout.decode() + done.stderr.decode()

    def test_reading(self):
        self.assertEqual(self.sh("cd /data && ls && cat a below/b && stat -c '%s %F' a below && find . | sort", ":ro"),
                         "a\nbelow\ntext of a\ntext of b\n10 regular file\n4096 directory\n.\n./a\n./below\n./below/b\n")

    def test_what_is_read_only_stays(self):
        said = self.sh("cd /data; echo x > a; echo x > new; rm a; mkdir d; mv a b; ln -s a l; touch a; rmdir below; truncate -s 0 a", ":ro")
        self.assertEqual(said.count("Read-only file system"), said.count("\n"), said)
        self.assertGreaterEqual(said.count("\n"), 8, said)
        self.assertEqual(sorted(os.listdir(self.host)), ["a", "below"])
        self.assertEqual((self.host / "a").read_text(), "text of a\n")

    def test_writing(self):
        self.assertEqual(self.sh("""cd /data && echo one > new && echo two >> new && mkdir -p x/y && cp a x/y/copy && mv x/y/copy x/moved &&
                                    rm -r below && cat new x/moved && ls x && mv a /tmp/a && cat /tmp/a; ls"""),
                         "one\ntwo\ntext of a\nmoved\ny\ntext of a\nnew\nx\n")
        self.assertEqual((self.host / "new").read_text(), "one\ntwo\n")
        self.assertEqual(sorted(os.listdir(self.host)), ["new", "x"])

    def test_a_directory_is_renamed_with_what_is_open_in_it(self):
        self.assertEqual(self.sh("""cd /data/below && exec 3>>b && mv ../below ../other && echo more >&3 && cat b && cd /data && rm other/b &&
                                    echo gone >&3 && ls other && mkdir below && ls"""), "text of b\nmore\na\nbelow\nother\n")

    def test_links_lead_nowhere_else(self):
        os.symlink(self.outside / "secret", self.host / "absolute")
        os.symlink("../outside/secret", self.host / "relative")
        os.symlink("../../..", self.host / "up")
        os.symlink("a", self.host / "fine")
        for grant in (f"fs:read:{self.host}:/data", f"fs:write,links:{self.host}:/data"):
            said = self.sh("cd /data; cat absolute relative; cat up/etc/hostname; cat below/../../outside/secret; cat fine; echo x > relative",
                           grant=grant)
            self.assertNotIn("secret\n", said.replace("/secret", ""), said)
            self.assertIn("text of a", said)
        self.assertEqual((self.outside / "secret").read_text(), "secret\n")

    def test_modes_are_the_hosts(self):
        (self.host / "run.sh").write_text("#!/bin/sh\necho ran\n")
        os.chmod(self.host / "run.sh", 0o750)
        os.chmod(self.host / "a", 0o640)
        os.chmod(self.host / "below", 0o700)
        self.assertEqual(self.sh("""cd /data && stat -c %a run.sh a below && ./run.sh; ./a; chmod +x a && stat -c %a a; chmod 777 a && stat -c %a a
                                    umask 077; echo x > made; mkdir dir; stat -c %a made dir; cp -p run.sh copy; chmod 444 made; echo y >> made"""),
                         "750\n640\n700\nran\n751\n755\n600\n700\nbash: line 1: ./a: Permission denied\n")
        modes = {name: (self.host / name).stat().st_mode & 0o7777 for name in ("a", "made", "dir", "copy", "run.sh")}
        self.assertEqual(modes, {"a": 0o755, "made": 0o444, "dir": 0o700, "copy": 0o750, "run.sh": 0o750})
        self.assertEqual((self.host / "made").read_text(), "x\ny\n")

    def test_modes_of_what_is_read_only_stay(self):
        self.assertIn("Read-only file system", self.sh("chmod +x /data/a", ":ro"))
        self.assertFalse((self.host / "a").stat().st_mode & 0o111)

    def test_links_are_links(self):
        os.symlink("below/b", self.host / "inside")
        os.symlink("/etc/os-release", self.host / "absolute")
        os.symlink("nowhere", self.host / "dangling")
        said = self.sh("""cd /data && readlink inside absolute dangling && cat inside && stat -c %F inside && ln -s a made && ln -s ../x out
                          mkdir -p x/y && ln -s ../../a x/y/l && mv x/y/l x/y/m && mv x/y z; ls z; rm -r inside x && ls""")
        self.assertEqual(said.replace("'", ""), "below/b\n/etc/os-release\nnowhere\ntext of b\nsymbolic link\na\nabsolute\nbelow\ndangling\nmade\n"
                         "ln: failed to create symbolic link out: Permission denied\nmv: cannot move x/y to z: Operation not supported\n"
                         "ls: cannot access z: No such file or directory\n")
        self.assertEqual(os.readlink(self.host / "made"), "a")

    def test_git_commits_no_modes_and_no_links_that_stay_as_they_were(self):
        if "git" not in self.has:
            self.skipTest("the image has no git")
        git = ["git", "-C", self.host, "-c", "user.name=a", "-c", "user.email=a@b"]
        (self.host / "run.sh").write_text("#!/bin/sh\n")
        os.chmod(self.host / "run.sh", 0o755)
        os.symlink("a", self.host / "link")
        for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "first"]):
            subprocess.run([*git, *words], check=True)
        said = self.sh("""cd /data && export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b &&
                          git status --short && echo more >> a && git commit -qam fix && git show --summary --stat --format=%s""")
        self.assertEqual(said, "fix\n\n a | 1 +\n 1 file changed, 1 insertion(+)\n")

    def test_links_of_a_grant_with_links(self):
        said = self.sh("cd /data; ln -s below/b made; readlink made; cat made; ln a hard; stat -c %h a; ln -s /etc/passwd out; readlink out",
                       grant=f"fs:write,links:{self.host}:/data")
        self.assertTrue(said.startswith("below/b\ntext of b\n2\n"), said)
        self.assertFalse((self.host / "out").is_symlink(), said)

    def test_a_file_of_many_bytes(self):
        data = os.urandom(1 << 20) * 20 + b"end"
        (self.host / "big").write_bytes(data)
        digest = hashlib.sha256(data).hexdigest()
        self.assertEqual(self.sh("cd /data && sha256sum < big && cp big copy && sha256sum copy | cut -c1-64 && stat -c %s copy"),
                         f"{digest}  -\n{digest}\n{len(data)}\n")
        self.assertEqual((self.host / "copy").read_bytes(), data)

    def test_quotas_hold(self):
        policy = self.folder / "quotas.toml"
        policy.write_text(f'[[fs]]\nguest = "/data"\nhost = "{self.host}"\nmode = "write"\nmax_file = "1 MiB"\nmax_files = 3\n')
        done = self.run_linux("bash", "-c", "cd /data; head -c 2000000 /dev/zero > much; for i in 1 2 3 4 5; do echo $i > f$i; done",
                              options=["--policy", policy])
        self.assertIn(b"File too large", done.stderr)
        self.assertIn(b"quota", done.stderr)
        self.assertLessEqual((self.host / "much").stat().st_size, 1 << 20)
        self.assertLessEqual(len(os.listdir(self.host)), 5)
        done = self.membrane("run", "--kind", "linux", "--image", "host", "--json", *self.platform(), "--policy", policy, "--",
                             "sh", "-c", "for i in 1 2 3 4 5; do echo $i > /data/g$i; done")
        self.assertEqual([each["limit"] for each in json.loads(done.stdout)["limits_reached"]], ["max_files"])

    def test_a_flag_grants_room_for_a_build(self):
        done = self.run_linux("sh", "-c", "cd /data && mkdir d && i=0; while [ $i -lt 1100 ]; do echo > d/$i || exit 1; i=$((i+1)); done; ls d | wc -l; truncate -s 300M big",
                              options=["--dir", f"{self.host}:/data"])
        self.assertEqual((done.stdout, done.returncode), (b"1100\n", 0), done.stderr)

    @unittest.skipUnless(os.path.exists("/usr/bin/python3"), "there is no python3")
    def test_programs_and_mappings(self):
        (self.host / "run.sh").write_text("#!/bin/sh\necho ran $1\n")
        os.chmod(self.host / "run.sh", 0o755)
        (self.host / "module.py").write_text("value = 42\n")
        said = self.sh("""cd /data && ./run.sh x && PYTHONDONTWRITEBYTECODE=1 python3 -c '
import mmap, module
with open("a", "r+b") as file:
    print(module.value, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)[:4], mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)[-2:])
    try: mmap.mmap(file.fileno(), 0)
    except OSError as error: print(error.strerror)
'""")
        self.assertEqual(said, "ran x\n42 b'text' b'a\\n'\nNo such device\n")

    def test_git_works_in_it(self):
        if "git" not in self.has:
            self.skipTest("the image has no git")
        said = self.sh("""cd /data && export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b &&
                          git init -q --template= -b main . && git add a below && git commit -q -m first && git status --short && git log --format=%s""")
        self.assertEqual(said, "first\n")
        self.assertTrue((self.host / ".git" / "HEAD").exists())

    def test_their_use_is_in_report_and_receipt(self):
        environment = {f"XDG_{name}_HOME": str(self.outside / name) for name in ("CONFIG", "STATE", "CACHE")}
        before, type(self).environment = self.environment, {**self.environment, **environment}
        self.addCleanup(setattr, type(self), "environment", before)
        self.membrane("keys", "generate", check=True)
        receipt = self.outside / "run.receipt"
        path = f"--env=PATH={linux_test.ENVIRONMENT['PATH']}"
        done = self.membrane("run", "--kind", "linux", "--image", "host", "--json", *self.platform(), path, "--deterministic", "--seal",
                             receipt, "--dir", f"{self.host}:/data:ro", "--dir", f"{self.outside}:/out", "--dir",
                             f"{self.host}:/unused", "--", "bash", "-c", "cat /data/a; echo x > /out/x; ls /")
        calls = [(call["name"], call["arguments"], call["bytes_in"], call["bytes_out"]) for call in json.loads(done.stdout)["host_calls"]]
        self.assertIn(("directory.read", "/data", 10, 0), calls, done.stdout)
        self.assertIn(("directory.write", "/out", 0, 2), calls)
        self.assertNotIn("/unused", [path for _, path, _, _ in calls])
        self.assertNotIn(("directory.write", "/data"), [call[:2] for call in calls])
        self.assertIn(f"host calls: {len(calls)} (0 denied)".encode(), self.membrane("verify", receipt, check=True).stdout)
        replayed = self.membrane("replay", receipt)
        self.assertEqual((replayed.returncode, b"directories of this machine" in replayed.stderr), (2, True), replayed.stderr)
        policy = self.outside / "read.toml"
        policy.write_text(f'[[fs]]\nhost = "{self.host}"\nguest = "/data"\nmode = "read"\n[[fs]]\nhost = "{self.outside}"\nguest = "/out"\nmode = "read"\n')
        done = self.membrane("policy", "test", policy, self.outside)
        self.assertEqual((done.returncode, b"directory.write /out" in done.stdout), (1, True), done.stdout)

    def test_what_cannot_be_mounted_is_refused(self):
        for flag in (f"{self.host}:/", f"{self.host}:/proc/x", f"{self.host}/nowhere:/data"):
            done = self.run_linux("true", options=["--dir", flag])
            self.assertNotEqual(done.returncode, 0, flag)
            self.assertIn(b"hint", done.stderr, flag)
            self.assertNotIn(b"Invalid argument", done.stderr, flag)


if __name__ == "__main__":
    unittest.main()
