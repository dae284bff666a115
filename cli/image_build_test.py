#!/usr/bin/env python3
"""`membrane image build` and `prune`, and how `membrane run` uses an image's configuration.

MEMBRANE_COMMAND names the command. The image at the bottom is made of this machine's own programs (linux_testing.py).
"""

import hashlib
import http.server
import io
import json
import os
import platform
import subprocess
import sys
import tarfile
import tempfile
import threading
import unittest
from pathlib import Path

from linux_testing import make_image

MEMBRANE = os.environ.get("MEMBRANE_COMMAND", "build/release/membrane")
ENDS_S = 120
PROGRAMS = "grep dd sh bash cat ls echo env id mkdir rm cp mv ln touch chmod stat pwd date head od sort sleep seq wc true false test".split()


@unittest.skipUnless(platform.machine() == "x86_64", "the linux kind runs on x86-64")
class BuildTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        make_image(cls.folder / "host.tar", PROGRAMS)

    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir=self.folder)
        self.addCleanup(folder.cleanup)
        self.store = Path(folder.name) / "images"
        self.context = Path(folder.name) / "context"
        self.context.mkdir()
        self.environment = {**os.environ, "MEMBRANE_IMAGES": str(self.store)}
        self.membrane("image", "import", self.folder / "host.tar", "--tag", "host")

    def membrane(self, *words, code=0, environment=None):
        done = subprocess.run([MEMBRANE, *map(str, words)], env=environment or self.environment, capture_output=True, timeout=ENDS_S,
                              text=True)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def file(self, name, text, mode=0o644):
        path = self.context / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)

    def build(self, dockerfile, *options, name="mine", code=0):
        (self.context / "Dockerfile").write_text(dockerfile)
        done = self.membrane("image", "build", "-t", name, "--json", *options, self.context, code=code)
        return json.loads(done.stdout) | {"messages": done.stderr} if code == 0 else done.stderr + done.stdout

    def run_image(self, *words, name="mine", options=(), code=0):
        return self.membrane("run", "--kind", "linux", "--image", name, "-q", *options, "--", *words, code=code).stdout


class Instructions(BuildTest):
    def test_run_copy_and_what_they_leave(self):
        self.file("hello.txt", "hello\n", 0o640)
        built = self.build("FROM host\nRUN echo made > /made && \\\n    # a comment\n    mkdir /d\nCOPY hello.txt /d/\n"
                           "RUN [\"sh\", \"-c\", \"cat /d/hello.txt /made > /both\"]\n")
        self.assertEqual((built["carried_out"], built["cached"]), (3, 0))
        self.assertEqual(self.run_image("cat", "/both"), "hello\nmade\n")
        self.assertEqual(self.run_image("stat", "-c", "%a %u %g", "/d/hello.txt"), "640 0 0\n")

    def test_the_configuration_is_what_run_begins_with(self):
        self.build("FROM host\nENV A=1 B=\"two words\"\nWORKDIR /srv/here\nUSER nobody\nENTRYPOINT [\"sh\", \"-c\"]\n"
                   "CMD [\"echo $A $B; pwd; id -u\"]\nLABEL a=b\nEXPOSE 80 53/udp\n")
        self.assertEqual(self.run_image(), "1 two words\n/srv/here\n65534\n")
        self.assertEqual(self.run_image("echo other"), "other\n")
        done = self.membrane("run", "--kind", "linux", "--image", "mine", "-q", "-e", "echo script")
        self.assertEqual(done.stdout, "script\n")

    def test_a_command_without_an_entrypoint(self):
        self.build("FROM host\nCMD echo from the shell\n")
        self.assertEqual(self.run_image(), "from the shell\n")
        self.assertEqual(self.run_image("echo", "given"), "given\n")

    def test_an_unknown_user(self):
        self.build("FROM host\nUSER nosuch\n")
        done = self.membrane("run", "--kind", "linux", "--image", "mine", "--", "true", code=2)
        self.assertIn("nosuch", done.stderr)

    def test_arguments_and_variables(self):
        dockerfile = "ARG BASE=nosuch\nFROM $BASE\nARG V=1\nARG W\nENV C=${V}x\nRUN echo $V $W $C > /v\n"
        self.build(dockerfile, "--build-arg", "BASE=host", "--build-arg", "W=w")
        self.assertEqual(self.run_image("cat", "/v"), "1 w 1x\n")
        built = self.build(dockerfile, "--build-arg", "BASE=host", "--build-arg", "V=2", "--build-arg", "NONE=1")
        self.assertEqual(self.run_image("cat", "/v"), "2 2x\n")
        self.assertIn("NONE", built["messages"])

    def test_stages(self):
        self.build("FROM host AS made\nRUN mkdir /out && echo built > /out/a && ln -s a /out/link && chmod 700 /out/a\n"
                   "FROM scratch\nCOPY --from=made /out/ /bin-of/\nCOPY --from=0 /out/link /plain\n"
                   "FROM host\nCOPY --from=1 / /all/\nCOPY --from=host /etc/passwd /theirs\n")
        self.assertEqual(self.run_image("sh", "-c", "cat /all/bin-of/link /all/plain; stat -c %a /all/bin-of/a; head -c 4 /theirs"),
                         "built\nbuilt\n700\nroot")
        self.build("FROM host AS first\nRUN echo 1 > /1\nFROM first AS second\nRUN echo 2 > /2\n", "--target", "first")
        self.run_image("test", "!", "-e", "/2")
        self.build("FROM host AS first\nRUN echo 1 > /1\nFROM first\nRUN echo 2 > /2\n")
        self.assertEqual(self.run_image("cat", "/1", "/2"), "1\n2\n")

    def test_stages_that_are_not_needed_are_left_out(self):
        dockerfile = ("FROM host AS base\nRUN echo 1 > /1\nFROM base AS tests\nARG UNUSED\nRUN exit 1\nFROM nosuch AS other\n"
                      "FROM host AS data\nRUN echo 2 > /2\nFROM base AS app\nCOPY --chown=7 --from=data /2 /\nFROM tests\n")
        built = self.build(dockerfile, "--target", "app", "--build-arg", "UNUSED=1")
        self.assertEqual(built["carried_out"], 3)
        self.assertEqual(self.run_image("cat", "/1", "/2"), "1\n2\n")
        self.assertIn("step 6/6: COPY --chown=7 --from=data /2 /\n", built["messages"])
        self.assertNotIn("UNUSED", built["messages"])
        self.assertIn("line 5", self.build(dockerfile, code=2))
        self.build("FROM host AS a\nRUN echo a > /x\nFROM host AS b\nARG FROM=a\nCOPY --from=$FROM /x /\n")
        self.assertEqual(self.run_image("cat", "/x"), "a\n")

    def test_the_list_names_digest_and_time(self):
        built = self.build("FROM host\n")
        image = next(each for each in json.loads(self.membrane("image", "ls", "--json").stdout)["images"] if each["name"] == "mine")
        self.assertEqual(image["digest"], built["digest"])
        line = next(each for each in self.membrane("image", "ls").stdout.splitlines() if each.startswith("mine "))
        self.assertIn(image["digest"][:19], line)
        self.assertIn(image["made_at"], line)
        self.assertIn(f"  {-(-image['size_bytes'] // 2**20)} MiB  ", line)
        doctor = subprocess.run([MEMBRANE, "doctor"], capture_output=True, text=True, env=self.environment, timeout=60).stdout
        self.assertRegex(doctor, rf"image mine +{-(-image['size_bytes'] // 2**20)} MiB\n")
        self.assertIn("Did you mean mine?", self.membrane("image", "rm", "mien", code=2).stderr)

    def test_patterns_and_what_is_ignored(self):
        for name in ("a.txt", "b.txt", "c.md", "sub/deep.txt", ".git/config", "build/out", "build/keep"):
            self.file(name, name)
        self.file(".dockerignore", "# not these\n.git\nbuild/*\n!build/keep\n**/*.md\nDockerfile\n.dockerignore\n")
        self.build("FROM host\nCOPY *.txt /texts/\nCOPY . /all\n")
        self.assertEqual(self.run_image("ls", "/texts").split(), ["a.txt", "b.txt"])
        listed = self.run_image("sh", "-c", "cd /all; for f in * */* .[a-z]*; do test -f $f && echo $f; done; true").split()
        self.assertEqual(sorted(listed), ["a.txt", "b.txt", "build/keep", "sub/deep.txt"])

    def test_owners_and_modes(self):
        self.file("f", "x")
        self.build("FROM host\nCOPY --chown=nobody:nogroup --chmod=751 f /a/f\nCOPY --chown=7:8 f /g\n")
        self.assertEqual(self.run_image("stat", "-c", "%u %g %a", "/a/f", "/g"), "65534 65534 751\n7 8 644\n")

    def test_add_unpacks_archives(self):
        with tarfile.open(self.context / "files.tar.gz", "w:gz") as tar:
            info = tarfile.TarInfo("in/side")
            info.size, info.mode = 4, 0o755
            tar.addfile(info, io.BytesIO(b"deep"))
        self.file("plain", "text")
        self.build("FROM host\nADD files.tar.gz plain /opt/\nCOPY files.tar.gz /opt/\n")
        self.assertEqual(self.run_image("cat", "/opt/in/side", "/opt/plain"), "deeptext")
        self.run_image("test", "-f", "/opt/files.tar.gz")

    def add_sparse(self, size):
        with tarfile.open(self.context / "sparse.tar", "w", format=tarfile.PAX_FORMAT) as tar:
            info = tarfile.TarInfo("hole")
            info.pax_headers = {"GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.name": "hole",
                                "GNU.sparse.size": str(size), "GNU.sparse.numblocks": "1", "GNU.sparse.map": f"{size},0"}
            tar.addfile(info)

    def test_holes_take_no_room(self):
        self.add_sparse(100 << 20)
        self.build("FROM host AS made\nADD sparse.tar /\nRUN echo > /big; echo 3 | dd of=/big bs=1M seek=3000 2>&1\n"
                   "FROM host\nCOPY --from=made /big /hole /\nRUN echo > /rest\n", "--disk", "200MiB")
        self.assertEqual(self.run_image("stat", "-c", "%s", "/big", "/hole"), f"{(3000 << 20) + 2}\n{100 << 20}\n")

    def test_archives_and_files_past_the_limits(self):
        self.add_sparse(5 << 30)
        self.assertIn("disk", self.build("FROM scratch\nADD sparse.tar /\n", code=2))
        self.assertIn("GiB", self.build("FROM host\nRUN echo | dd of=/big bs=1M seek=60000000\n", code=2))

    def test_here_documents(self):
        self.build("FROM host\nARG V=5\nRUN <<EOF\necho one > /one\necho $V >> /one\nEOF\n"
                   "COPY <<first <<'second' /docs/\nvalue \"$V\"\nfirst\nas is $V\nsecond\n")
        self.assertEqual(self.run_image("cat", "/one", "/docs/first", "/docs/second"), "one\n5\nvalue \"5\"\nas is $V\n")

    def test_another_shell(self):
        self.build("FROM host\nSHELL [\"/bin/bash\", \"-ec\"]\nRUN [[ a == a ]] && echo bash > /s\n")
        self.assertEqual(self.run_image("cat", "/s"), "bash\n")

    def test_a_link_as_a_source_stays_in_the_directory(self):
        (self.folder / "secret").write_text("secret")
        self.addCleanup((self.folder / "secret").unlink)
        self.file("real", "real")
        (self.context / "inside").symlink_to("real")
        (self.context / "outside").symlink_to(self.folder / "secret")
        (self.context / "up").symlink_to("..")
        self.build("FROM host\nCOPY inside /inside\n")
        self.assertEqual(self.run_image("cat", "/inside"), "real")
        self.assertIn("line 2", self.build("FROM host\nCOPY outside /x\n", code=2))
        self.assertIn("line 2", self.build("FROM host\nCOPY up/images /x\n", code=2))
        self.assertIn("leads out", self.build("FROM host\nCOPY ../images /x\n", code=2))


class Errors(BuildTest):
    def test_they_name_the_line_and_what_to_do(self):
        for dockerfile, *wanted in [
                ("FROM host\nRUM x\n", "line 2", "Is it RUN?"),
                ("FROM nosuch\n", "line 1", "nosuch", "membrane image"),
                (f"FROM {self.store}/host.image\n", "line 1", "membrane image import"),
                (f"FROM host\nCOPY --from={self.store}/host.image /etc/passwd /\n", "line 2", "membrane image import"),
                ("FROM host\n\nRUN echo messages >&2; exit 3\n", "line 3", "exit code 3", "messages"),
                ("FROM host\nCOPY nosuch /\n", "line 2", "nosuch", ".dockerignore"),
                ("FROM host\nADD https://example.org/x /\n", "line 2", "--allow 'http:GET:https://example.org/*'"),
                ("FROM host\nRUN --mount=type=bind,target=/x true\n", "line 2", "bind"),
                ("FROM --platform=linux/arm64 host\n", "line 1", "arm64"),
                ("FROM host AS a\nCOPY --from=later /x /\nFROM host AS later\nFROM a\n", "line 2", "later"),
                ("FROM host\nFOo=bar x\n", "line 2", "FOo=bar", "is not an instruction"),
                ("FROM host\nCOPY --chmod=9 Dockerfile /\n", "line 2", "octal"),
                ("FROM host\nCOPY Dockerfile Dockerfile /x\n", "line 2", "Add a /"),
                ("FROM host\nCOPY --chown=nosuch Dockerfile /\n", "line 2", "/etc/passwd"),
                ("FROM host\nONBUILD RUN x\n", "line 2", "ONBUILD"),
        ]:
            with self.subTest(dockerfile):
                messages = self.build(dockerfile, code=2)
                for each in wanted:
                    self.assertIn(each, messages)
        self.assertNotIn("mine", self.membrane("image", "ls").stdout)

    def test_limits_are_written_as_everywhere(self):
        self.assertIn("(--wall 1s)", self.build("FROM host\nRUN sleep 5 && while :; do :; done\n", "--wall", "500ms", code=2))
        self.assertIn("raise --disk", self.build("FROM host\nRUN seq 1000000 > /many\n", "--disk", "1MiB", code=2))
        self.file("many", "x" * 2_000_000)
        self.assertIn("raise --disk", self.build("FROM host\nCOPY many /\n", "--disk", "1MiB", "--memory", "512MiB", code=2))
        self.assertIn("memory", self.build("FROM host\n", "--memory", "much", code=2))

    def test_a_quiet_build_reports_what_failed(self):
        (self.context / "Dockerfile").write_text("FROM host\nRUN echo before\nRUN echo messages; exit 3\n")
        messages = self.membrane("image", "build", "-q", "-t", "mine", self.context, code=2).stderr
        self.assertIn("step 3/3", messages)
        self.assertIn("messages\n", messages)
        self.assertNotIn("before\n", messages)

    def test_a_missing_target_and_a_missing_file(self):
        self.assertIn("nosuch", self.build("FROM host\n", "--target", "nosuch", code=2))
        self.assertIn("-f", self.membrane("image", "build", "-t", "mine", self.context / "nosuch", code=2).stderr)


class Cache(BuildTest):
    DOCKERFILE = ("FROM host\nRUN date > /date; head -c 8 /dev/urandom | od > /random; sleep 3; (seq 1000 | sort -r | wc) > /sum\n"
                  "COPY src /src\nRUN cat /src/* > /all; date +%s%N >> /all\nWORKDIR /src\n")

    def test_the_same_input_is_the_same_image(self):
        self.file("src/a", "a")
        first = self.build(self.DOCKERFILE)
        self.assertEqual((first["carried_out"], first["cached"]), (4, 0))
        again = self.build(self.DOCKERFILE)
        self.assertEqual((again["digest"], again["carried_out"], again["cached"]), (first["digest"], 0, 4))
        afresh = self.build(self.DOCKERFILE, "--no-cache", name="other")
        self.assertEqual((afresh["digest"], afresh["carried_out"]), (first["digest"], 4))
        elsewhere = {**self.environment, "MEMBRANE_IMAGES": str(self.store) + "2"}
        self.membrane("image", "import", self.folder / "host.tar", "--tag", "host", environment=elsewhere)
        os.utime(self.context / "src/a", (1, 1))  # times of the context do not count
        done = self.membrane("image", "build", "-t", "x", "--json", self.context, environment=elsewhere)
        self.assertEqual(json.loads(done.stdout)["digest"], first["digest"])

    def test_what_has_changed_is_carried_out_again(self):
        self.file("src/a", "a")
        first = self.build(self.DOCKERFILE)
        self.file("src/a", "b")
        other = self.build(self.DOCKERFILE)
        self.assertEqual((other["carried_out"], other["cached"]), (3, 1))
        self.assertNotEqual(other["digest"], first["digest"])
        self.file("src/a", "a")
        back = self.build(self.DOCKERFILE)
        self.assertEqual((back["carried_out"], back["digest"]), (0, first["digest"]))

    def test_later_layers_have_later_times(self):
        self.build("FROM host\nRUN echo > /a\nRUN echo > /b\nRUN test /b -nt /a\n")

    def test_prune_keeps_what_images_use(self):
        self.file("src/a", "a")
        first = self.build(self.DOCKERFILE)
        self.build("FROM host\nRUN echo gone > /gone\n", name="other")
        self.assertEqual(json.loads(self.membrane("image", "prune", "--json").stdout)["files"], 0)
        self.membrane("image", "rm", "other")
        pruned = json.loads(self.membrane("image", "prune", "--json").stdout)
        self.assertEqual(pruned["files"], 4)  # its layer, its image, what that was for sandboxes, and what it was made by
        self.assertEqual(self.build(self.DOCKERFILE)["carried_out"], 0)
        self.assertEqual(self.run_image("cat", "/src/a"), "a")
        self.membrane("image", "rm", "mine")
        self.membrane("image", "prune")
        self.assertEqual(sorted(os.listdir(self.store / ".layers")), [])
        self.assertEqual(self.build(self.DOCKERFILE)["digest"], first["digest"])

    def test_a_directory_that_others_may_write_is_refused(self):
        self.build("FROM host\nRUN true\n")
        (self.store / ".layers").chmod(0o777)
        self.assertIn("layers of images", self.build("FROM host\nRUN true\n", code=2))


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.seen.append(self.path)
        status, headers, body = self.server.answers.get(self.path, (200, {}, f"{self.path} {len(self.server.seen)}\n".encode()))
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class NetworkTest(BuildTest):
    """A server on this machine's loopback, which programs of the image reach with bash alone."""

    def setUp(self):
        super().setUp()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.seen, self.server.answers = [], {}
        self.server.handle_error = lambda *_: None
        thread = threading.Thread(target=self.server.serve_forever)
        thread.start()

        def end():
            self.server.shutdown()
            thread.join()
            self.server.server_close()

        self.addCleanup(end)
        self.port = self.server.server_address[1]
        self.host = f"127.0.0.1:{self.port}"
        self.granted = ("--allow", f"http:{self.host}")

    def get(self, path, to, host=None):
        address, _, port = (host or self.host).partition(":")
        return (f"exec 3<>/dev/tcp/{address}/{port} && printf 'GET {path} HTTP/1.1\\r\\nHost: {address}:{port}\\r\\nConnection: "
                f"close\\r\\n\\r\\n' >&3 && while read -r line <&3; do last=$line; done && echo \"$last\" > {to}")

    def bash(self, *scripts):
        return "FROM host\nSHELL [\"/bin/bash\", \"-ec\"]\n" + "".join(f"RUN {each}\n" for each in scripts)


class Network(NetworkTest):
    def test_a_run_reaches_what_is_granted_and_the_build_reports_it(self):
        built = self.build(self.bash("echo alone > /alone", self.get("/a", "/a")), *self.granted)
        self.assertEqual(self.run_image("cat", "/alone", "/a"), "alone\n/a 1\n")
        self.assertEqual(self.server.seen, ["/a"])
        step, = built["network"]
        self.assertEqual((built["reproducible"], step["line"], step["cached"], step["pinned"]), (False, 4, False, False))
        self.assertTrue(step["instruction"].startswith("RUN exec 3<>"))
        self.assertEqual(step["hosts"], [{"host": self.host, "calls": 1, "refused": 0, "bytes_in": 5, "bytes_out": 0}])
        self.assertIn(f"network: line 4, RUN exec 3<>/dev/tcp", built["messages"])
        self.assertIn("--no-cache repeats them", built["messages"])

    def test_nothing_is_granted_by_default(self):
        messages = self.build("FROM host\nSHELL [\"/bin/bash\", \"-ec\"]\nRUN true < /dev/tcp/192.0.2.1/80\n", code=2)
        self.assertIn("line 3", messages)
        self.assertIn("--allow http:192.0.2.1:80", messages)
        messages = self.build("FROM host\nSHELL [\"/bin/bash\", \"-ec\"]\nRUN true < /dev/tcp/example.org/80\n", *self.granted, code=2)
        self.assertIn("--allow http:example.org", messages)
        self.assertEqual(self.server.seen, [])
        messages = self.build(self.bash("true < /dev/tcp/example.org/80 || true"))["messages"]
        self.assertIn("warning: line 3: the command continued after a refusal", messages)
        self.assertIn("--allow http:example.org", messages)

    def test_a_refused_request_fails_as_in_runs(self):
        options = ("--allow", f"http:GET:http://{self.host}/a/*")
        built = self.build(self.bash(self.get("/b", "/b") + "; grep -q . /b || true"), *options)
        self.assertEqual(self.server.seen, [])
        self.assertEqual([(host["host"], host["refused"]) for host in built["network"][0]["hosts"]], [(self.host, 1)])
        self.assertIn(f"--allow 'http:GET:http://{self.host}/*'", self.build(self.bash(self.get("/b", "/b") + "; exit 3"), *options, code=2))

    def test_a_policy_file_grants_hosts_and_limits(self):
        policy = self.context / "policy.toml"
        policy.write_text(f"[[http]]\nurl = \"http://{self.host}/*\"\nmethods = [\"GET\"]\n[limits]\nhost_calls = 1\n")
        self.build(self.bash(self.get("/a", "/a"), self.get("/b", "/b")), "--policy", policy)  # of each RUN
        self.assertEqual(self.run_image("cat", "/a", "/b"), "/a 1\n/b 2\n")
        for text, wanted in [("[kv]\n", "host functions"), ("[[fs]]\nhost = \".\"\nguest = \"/x\"\nmode = \"read\"\n", "COPY"),
                             ("[limits]\nfuel = 1\n", "fuel")]:
            policy.write_text(text)
            self.assertIn(wanted, self.build("FROM host\n", "--policy", policy, code=2))

    def test_a_step_that_used_the_network_is_cached_by_its_text_and_its_grants(self):
        dockerfile = self.bash(self.get("/a", "/a"), "cat /a > /copy")
        first = self.build(dockerfile, *self.granted)
        again = self.build(dockerfile, *self.granted)
        self.assertEqual((again["digest"], again["cached"], again["carried_out"]), (first["digest"], 2, 0))
        self.assertEqual([(step["line"], step["cached"], step["hosts"]) for step in again["network"]], [(3, True, [])])
        self.assertEqual((again["reproducible"], self.server.seen), (False, ["/a"]))
        afresh = self.build(dockerfile, *self.granted, "--no-cache")
        self.assertEqual((afresh["carried_out"], self.run_image("cat", "/copy"), self.server.seen), (2, "/a 2\n", ["/a"] * 2))
        self.build(dockerfile, *self.granted, "--allow", "http:example.org")
        self.assertEqual(self.run_image("cat", "/copy"), "/a 3\n")
        self.assertIn("line 3", self.build(dockerfile, code=2))  # without a grant nothing is taken from the cache

    def test_what_follows_new_answers_is_repeated(self):
        step = self.get("/a", "/a")
        self.build(self.bash(step), *self.granted)
        layer, = (self.store / ".layers").glob("*.layer")
        dockerfile = self.bash(step, "cat /a > /copy").replace("FROM host", "FROM host AS asked") + "FROM host\nCOPY --from=asked /copy /\n"
        self.build(dockerfile, *self.granted)
        self.assertEqual(self.run_image("cat", "/copy"), "/a 1\n")
        layer.unlink()
        built = self.build(dockerfile, *self.granted)
        self.assertEqual((built["carried_out"], self.run_image("cat", "/copy")), (3, "/a 2\n"))
        again = self.build(dockerfile, *self.granted)
        self.assertEqual((again["digest"], again["cached"]), (built["digest"], 3))

    def test_a_step_that_used_none_is_the_same_whatever_was_granted(self):
        dockerfile = self.bash("date > /date; od -N 8 /dev/urandom > /random; echo $RANDOM > /shell")
        first = self.build(dockerfile)
        granted = self.build(dockerfile, "--allow", "http:example.org")
        self.assertEqual((granted["digest"], granted["cached"], granted["network"]), (first["digest"], 1, []))
        afresh = self.build(dockerfile, "--allow", "http:example.org", "--no-cache")
        self.assertEqual((afresh["digest"], afresh["carried_out"], afresh["reproducible"]), (first["digest"], 1, True))

    def test_a_step_that_did_without_a_refused_host_is_repeated_when_it_is_granted(self):
        host = f"localhost:{self.port}"
        dockerfile = self.bash(self.get("/a", "/a", host) + " || echo none > /a")
        built = self.build(dockerfile)
        self.assertEqual((self.run_image("cat", "/a"), built["network"], built["reproducible"]), ("none\n", [], True))
        self.build(dockerfile, "--allow", f"http:{host}")
        self.assertEqual(self.run_image("cat", "/a"), "/a 1\n")
        named = self.bash("true < /dev/tcp/example.test/80 && echo some > /a || echo none > /a")
        self.assertEqual(self.build(named)["reproducible"], True)
        other = self.build(named, *self.granted)
        self.assertEqual((other["carried_out"], [host["host"] for host in other["network"][0]["hosts"]]), (1, ["example.test"]))

    def test_the_same_answers_give_the_same_image(self):
        self.server.answers["/same"] = (200, {}, b"same\n")
        script = self.get("/same", "/a") + "; mkdir /d; touch /d/now; touch -d 2001-01-01 /d/old; echo $SOURCE_DATE_EPOCH > /epoch"
        first = self.build(self.bash(script, "test /after -nt /d/now || echo > /after; test /after -nt /d/now"), *self.granted)
        afresh = self.build(self.bash(script, "test /after -nt /d/now || echo > /after; test /after -nt /d/now"), *self.granted, "--no-cache")
        self.assertEqual((afresh["digest"], len(self.server.seen)), (first["digest"], 2))
        old, now, epoch = self.run_image("sh", "-c", "stat -c %Y /d/old /d/now; cat /epoch").split()
        self.assertLess(int(old), 1_000_000_000)
        self.assertEqual(now, epoch)

    def test_the_clock_is_this_machines_where_the_network_is_used(self):
        self.build(self.bash(self.get("/a", "/a") + "; date +%s > /date"), *self.granted)
        self.assertLess(abs(int(self.run_image("cat", "/date")) - (self.store / "mine.image").stat().st_mtime), 3600)

    def test_a_run_may_want_no_network(self):
        dockerfile = self.bash("true").replace("RUN true", "RUN --network=none " + self.get("/a", "/a") + " || echo none > /a")
        built = self.build(dockerfile, *self.granted)
        self.assertEqual((self.run_image("cat", "/a"), built["network"], self.server.seen), ("none\n", [], []))
        self.assertIn("line 2", self.build("FROM host\nRUN --network=host true\n", *self.granted, code=2))

    def test_a_quiet_build_names_the_steps_all_the_same(self):
        (self.context / "Dockerfile").write_text(self.bash(self.get("/a", "/a")))
        done = self.membrane("image", "build", "-q", "-t", "mine", *self.granted, self.context)
        self.assertIn(f"network: line 3, RUN", done.stderr)
        self.assertIn(f"{self.host} (5 bytes in, 0 out)", done.stderr)
        self.assertNotIn("step 1", done.stderr)


class AddedUrls(NetworkTest):
    def setUp(self):
        super().setUp()
        self.url = f"http://{self.host}"
        self.server.answers |= {"/d/": (200, {}, b"index"), "/d/a%20b.tar?x=1": (200, {}, b"bytes"), "/old": (302, {"Location": "/d/new"}, b"moved"),
                                "/d/new": (200, {}, b"new"), "/away": (302, {"Location": "http://example.org/x"}, b""),
                                "/gone": (404, {}, b"no"), "/loop": (302, {"Location": "/loop"}, b"")}
        self.checksum = "sha256:" + hashlib.sha256(b"new").hexdigest()

    def test_a_url_is_a_file(self):
        built = self.build(f"FROM host\nARG A=d\nADD {self.url}/$A/a%20b.tar?x=1 {self.url}/old /in/\nADD --chmod=644 --chown=7:8 {self.url}/d/new /named\n"
                           f"ADD {self.url}/d/new /tmp\nADD {self.url}/d/ /index\n", *self.granted)
        self.assertEqual(self.run_image("cat", "/in/a b.tar", "/in/old", "/named", "/tmp/new", "/index"), "bytesnewnewnewindex")
        self.assertEqual(self.run_image("stat", "-c", "%a %u %g", "/in/old", "/named"), "600 0 0\n644 7 8\n")
        self.assertEqual([(step["line"], [(host["host"], host["bytes_in"]) for host in step["hosts"]]) for step in built["network"]],
                         [(3, [(self.host, 5)]), (3, [(self.host, 8)]), (4, [(self.host, 3)]), (5, [(self.host, 3)]), (6, [(self.host, 5)])])
        self.assertFalse(built["reproducible"])

    def test_what_is_asked_for_each_time_is_a_layer_by_its_bytes(self):
        dockerfile = f"FROM host\nADD {self.url}/d/new /new\nRUN cat /new > /copy\n"
        first = self.build(dockerfile, *self.granted)
        again = self.build(dockerfile, *self.granted)
        self.assertEqual((again["digest"], again["cached"], len(self.server.seen)), (first["digest"], 2, 2))
        self.server.answers["/d/new"] = (200, {}, b"newer")
        self.assertEqual(self.build(dockerfile, *self.granted)["carried_out"], 2)
        self.assertEqual(self.run_image("cat", "/copy"), "newer")

    def test_one_with_a_checksum_is_the_same_each_time(self):
        dockerfile = f"FROM host\nADD --checksum={self.checksum} {self.url}/d/new /new\n"
        first = self.build(dockerfile, *self.granted)
        self.assertEqual((first["reproducible"], first["network"][0]["pinned"], self.server.seen), (True, True, ["/d/new"]))
        again = self.build(dockerfile)  # nothing is asked, so nothing need be granted
        self.assertEqual((again["digest"], again["cached"], again["network"], len(self.server.seen)), (first["digest"], 1, [], 1))
        self.server.answers["/d/new"] = (200, {}, b"other")
        self.assertIn("has the checksum sha256:" + hashlib.sha256(b"other").hexdigest(),
                      self.build(dockerfile, *self.granted, "--no-cache", code=2))

    def test_what_is_refused(self):
        for line, options, *wanted in [
                (f"ADD {self.url}/d/new /", (), f"--allow 'http:GET:{self.url}/*'"),
                (f"ADD {self.url}/d/new /", ("--allow", f"http:POST:{self.url}/*"), f"--allow 'http:GET:{self.url}/*'"),
                (f"ADD {self.url}/away /", self.granted, "--allow 'http:GET:http://example.org/*'"),
                (f"ADD {self.url}/gone /", self.granted, "404"),
                (f"ADD {self.url}/loop /", self.granted, "redirected more than 10 times"),
                (f"ADD {self.url}/d/ /", self.granted, "not end with a file name"),
                (f"ADD {self.url}/d/ /tmp", self.granted, "not end with a file name"),
                (f"ADD {self.url}/x/%2e%2e%2fetc /", self.granted, "not end with a file name"),
                (f"ADD --checksum=$NONE {self.url}/d/new /", self.granted, "is not a checksum"),
                (f"ADD --checksum=md5:1 {self.url}/d/new /", self.granted, "sha256:"),
                (f"ADD --checksum={self.checksum} Dockerfile /", (), "a single URL"),
                (f"COPY {self.url}/d/new /", self.granted, "ADD"),
                (f"ADD {self.url}/d/new.git /", self.granted, "git clone"),
                ("ADD git@example.org:x.git /", (), "git clone"),
                (f"ADD {self.url}/d/new {self.url}/old /x", self.granted, "Add a /")]:
            with self.subTest(line):
                messages = self.build(f"FROM host\n{line}\n", *options, code=2)
                for each in ("line 2", *wanted):
                    self.assertIn(each, messages)

    def test_the_limits_hold(self):
        self.server.answers["/big"] = (200, {}, b"x" * 3_000_000)
        line = f"FROM host\nADD {self.url}/big /\n"
        self.assertIn("raise --disk", self.build(line, *self.granted, "--disk", "1MiB", code=2))
        self.assertIn("--bytes-in", self.build(line, *self.granted, "--bytes-in", "1MiB", code=2))
        self.build(line, *self.granted, "--disk", "8MiB", "--memory", "64MiB")
        self.assertEqual(self.run_image("stat", "-c", "%s", "/big"), "3000000\n")
        self.assertEqual([each.name for each in (self.store / ".layers").iterdir() if each.name.startswith("new.")], [])


class Secrets(BuildTest):
    def setUp(self):
        super().setUp()
        self.secret = self.context.parent / "token"
        self.secret.write_text("tell-nobody")
        self.given = ("--secret", f"id=token,src={self.secret}")

    def test_a_secret_exists_for_its_run_only(self):
        built = self.build("FROM host\nRUN --mount=type=secret,id=token wc -c < /run/secrets/token > /size; stat -c '%a %u' /run/secrets/token > /mode\n"
                           "RUN --mount=type=secret,id=token,env=TOKEN,target=/root/.token test $TOKEN = $(cat /root/.token)\n"
                           "RUN test ! -e /run && test ! -e /root/.token && test -z $TOKEN\n", *self.given)
        self.assertEqual(self.run_image("cat", "/size", "/mode"), "11\n400 0\n")
        self.assertEqual(built["carried_out"], 3)
        for path in self.store.rglob("*"):
            if path.is_file():
                self.assertNotIn(b"tell-nobody", path.read_bytes(), path)
        self.secret.write_text("another one")
        self.assertEqual(self.build((self.context / "Dockerfile").read_text(), *self.given)["cached"], 3)  # as Docker has it

    def test_one_that_is_not_given_is_absent_unless_it_is_required(self):
        built = self.build("FROM host\nRUN --mount=type=secret,id=token test ! -e /run/secrets/token\n")
        self.assertIn("--secret id=token,src=FILE", built["messages"])
        messages = self.build("FROM host\nRUN --mount=type=secret,id=token,required true\n", code=2)
        self.assertIn("line 2", messages)
        self.assertIn("--secret id=token,src=FILE", messages)

    def test_a_secret_that_is_kept_by_its_name_is_refused(self):
        for command in ("mv /run/secrets/token /kept", "ln /run/secrets/token /kept"):
            messages = self.build(f"FROM host\nRUN --mount=type=secret,id=token {command}\n", *self.given, code=2)
            self.assertIn("/run/secrets/token", messages)

    def test_invalid_words(self):
        for mount, wanted in [("type=secret", "id"), ("type=secret,id=x,mode=9", "octal"), ("type=secret,id=x,what=1", "what"),
                              ("type=bind,source=x", "COPY"), ("type=secret,id=token,target=/etc/passwd", "another target")]:
            self.assertIn(wanted, self.build(f"FROM host\nRUN --mount={mount} true\n", *self.given, code=2))
        self.environment["TOKEN"] = "of the caller"
        self.build("FROM host\nRUN --mount=type=secret,id=x grep -x 'of the caller' /run/secrets/x\n", "--secret", "id=x,env=TOKEN")
        for secret, wanted in [("id=x,env=NO_SUCH", "NO_SUCH"), ("src=x", "id=NAME"), ("id=x,what=1", "what"), (f"id=x,src={self.secret}-not", "the secret x")]:
            self.assertIn(wanted, self.build("FROM host\n", "--secret", secret, code=2))


if __name__ == "__main__":
    sys.exit(unittest.main())
