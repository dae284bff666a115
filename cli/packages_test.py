#!/usr/bin/env python3
"""Packages for programs, by the command: --with and [packages]. The registries are the test's own: a directory of wheels
that pip is pointed to by its environment, and a small npm registry on loopback.

    MEMBRANE_COMMAND=build/release/membrane MEMBRANE_LANGUAGES=build/languages cli/packages_test.py

Skipped where Python (or JavaScript) is not installed as a language, or there is no pip (or npm).
"""

import base64
import hashlib
import http.server
import io
import json
import os
import shutil
import subprocess
import sysconfig
import tarfile
import tempfile
import threading
import unittest
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMMAND = os.environ.get("MEMBRANE_COMMAND", str(ROOT / "build" / "release" / "membrane"))
SECONDS = 600  # a process that needs more hangs


def runs(*command):
    try:
        return subprocess.run(command, capture_output=True, timeout=SECONDS).returncode == 0
    except OSError:
        return False


class PackagesTest(unittest.TestCase):
    """A folder to work in, a cache of packages of its own, and the warm images of this machine."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.environment = {name: value for name, value in os.environ.items()
                            if name == "MEMBRANE_LANGUAGES"
                            or not name.lower().startswith(("membrane_", "pip_", "npm_config_"))}
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "membrane" / "templates"
        (self.folder / "cache" / "membrane").mkdir(parents=True)
        cache.mkdir(parents=True, exist_ok=True, mode=0o700)
        (self.folder / "cache" / "membrane" / "templates").symlink_to(cache)
        self.environment["XDG_CACHE_HOME"] = str(self.folder / "cache")

    def need_language(self, name):
        done = subprocess.run([COMMAND, "run", "--lang", name, "-e", "1"], env=self.environment, capture_output=True,
                              timeout=SECONDS)
        if done.returncode != 0:
            self.skipTest(f"{name} is not installed")

    def membrane(self, *arguments, code=0, stdin="", **environment):
        done = subprocess.run([COMMAND, *map(str, arguments)], cwd=self.folder, capture_output=True, text=True,
                              input=stdin, env={**self.environment, **environment}, timeout=SECONDS)
        self.assertEqual(done.returncode, code, f"{arguments}\n{done.stdout}\n{done.stderr}")
        return done

    def refused(self, *arguments, **environment):
        """What is said of a request that is not carried out: cause and fix."""
        done = self.membrane("run", *arguments, "-e", "1", code=2, **environment)
        self.assertIn("hint: ", done.stderr)
        self.assertEqual(list((self.folder / "cache" / "membrane" / "packages").glob("*.layer")), [])
        return done.stderr

    def cached(self, ending):
        return sorted((self.folder / "cache" / "membrane" / "packages").glob("*" + ending))


def wheel(folder, name, version, files, needs=(), tag="py3-none-any", record=None, entries=()):
    """Writes one: `files` is {path: text}; `record` changes the lines of RECORD; `entries` are (ZipInfo, bytes) more."""
    base = f"{name.replace('-', '_')}-{version}"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {need}\n" for need in needs)
    files = {**files, f"{base}.dist-info/METADATA": metadata,
             f"{base}.dist-info/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n"}
    lines = {}
    for path, text in files.items():
        data = text if isinstance(text, bytes) else text.encode()
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        lines[path] = f"{path},sha256={digest},{len(data)}\n"
    path = Path(folder) / f"{base}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for place, text in files.items():
            archive.writestr(place, text)
        for info, data in entries:
            archive.writestr(info, data)
        listed = (record or (lambda known: known))(lines)
        archive.writestr(f"{base}.dist-info/RECORD", "".join(listed.values()) + f"{base}.dist-info/RECORD,,\n")
    return path


class PythonPackages(PackagesTest):
    def setUp(self):
        super().setUp()
        self.need_language("python")
        if not runs("python3", "-m", "pip", "--version"):
            self.skipTest("there is no pip")
        self.index = self.folder / "index"
        self.index.mkdir()
        self.environment.update(PIP_NO_INDEX="1", PIP_FIND_LINKS=str(self.index), PIP_CONFIG_FILE=os.devnull,
                                PIP_DISABLE_PIP_VERSION_CHECK="1")

    def run_python(self, package, code):
        return self.membrane("run", "--with", package, "-e", code, "-q", "--fuel", "1e10")

    def offline(self):
        """No pip from here on: what still works needs none."""
        programs = self.folder / "programs"
        programs.mkdir(exist_ok=True)
        self.environment["PATH"] = str(programs)

    def test_a_program_imports_what_is_asked_for_and_what_that_needs(self):
        wheel(self.index, "parcel", "1.2.0", {"parcel/__init__.py": "import stamp\nprice = stamp.value + 2\n",
                                              "parcel/data.txt": "found"}, needs=["stamp>=1", "numpy"])
        wheel(self.index, "stamp", "1.5", {"stamp.py": "value = 40\n"})
        program = ("import parcel, numpy, importlib.metadata as m, pathlib\n"
                   "print(parcel.price, m.version('parcel'), parcel.__file__)\n"
                   "print(pathlib.Path(parcel.__file__).with_name('data.txt').read_text(), parcel.__spec__.cached)\n")
        done = self.run_python("Parcel", program)
        self.assertEqual(done.stdout, "42 1.2.0 /usr/lib/python-packages/parcel/__init__.py\n"
                         "found /usr/lib/python-packages/parcel/__pycache__/__init__.cpython-315.pyc\n")
        self.assertEqual(done.stderr, "membrane: installing packages with pip: Parcel\n")
        self.offline()
        again = self.run_python("parcel", program)
        self.assertEqual((again.stdout, again.stderr), (done.stdout, ""))
        (layer,) = self.cached(".layer")
        self.assertIn(b" parcel/__pycache__/__init__.cpython-315.pyc\n", layer.read_bytes())

    def test_what_is_mounted_can_be_changed_by_nobody(self):
        wheel(self.index, "parcel", "1.0", {"parcel.py": "value = 1\n"})
        change = "open('/usr/lib/python-packages/parcel.py', 'w').write('value = 2')\nimport parcel; parcel.value"
        self.run_python("parcel", change)  # a session may change its own copy
        self.assertEqual(self.run_python("parcel", "import parcel; parcel.value").stdout, "1\n")

    def test_a_session_and_its_forks_have_the_packages(self):
        wheel(self.index, "parcel", "1.0", {"parcel.py": "value = 1\n"})
        entries = ":fork\nimport parcel\nparcel.value\n:back\nimport parcel\nparcel.value + 1\n"
        lines = self.membrane("repl", "--with", "parcel", stdin=entries).stdout.splitlines()
        self.assertEqual([line for line in lines if line.isdigit()], ["1", "2"])

    def test_a_version_is_kept_until_the_request_changes(self):
        wheel(self.index, "parcel", "1.0", {"parcel.py": "value = 1\n"})
        program = ["-e", "import parcel; parcel.value", "-q"]
        self.assertEqual(self.membrane("run", "--with", "parcel", *program).stdout, "1\n")
        wheel(self.index, "parcel", "2.0", {"parcel.py": "value = 2\n"})
        self.assertEqual(self.membrane("run", "--with", "parcel", *program).stdout, "1\n")
        self.assertEqual(self.membrane("run", "--with", "parcel==2.*", *program).stdout, "2\n")
        self.assertEqual(self.membrane("run", "--with", "parcel==1.0", *program).stdout, "1\n")

    def test_the_lock_of_a_policy_is_beside_it_and_applies(self):
        wheel(self.index, "parcel", "1.0", {"parcel.py": "value = 1\n"})
        (self.folder / "policy.toml").write_text('[packages]\npython = ["parcel", "numpy"]\n')
        program = ["run", "--policy", "policy.toml", "-e", "import parcel; parcel.value"]
        done = self.membrane(*program)
        self.assertEqual(done.stdout, "1\n")
        self.assertRegex(done.stderr, r"membrane: numpy [0-9.]+ is built in\n")
        lock = json.loads((self.folder / "policy.toml.lock").read_text())["python"]
        self.assertEqual(lock["asked"], ["numpy", "parcel"])
        self.assertEqual([(each["name"], each["version"]) for each in lock["packages"]], [("parcel", "1.0")])
        self.assertEqual(lock["packages"][0]["sha256"],
                         hashlib.sha256((self.index / lock["packages"][0]["file"]).read_bytes()).hexdigest())
        # Another machine, with a newer version available, and nothing cached.
        wheel(self.index, "parcel", "2.0", {"parcel.py": "value = 2\n"})
        shutil.rmtree(self.folder / "cache" / "membrane" / "packages")
        self.assertEqual(self.membrane(*program, "-q").stdout, "1\n")
        self.offline()
        self.assertEqual(self.membrane(*program, "-q").stdout, "1\n")

    def test_another_file_than_the_lock_names_is_refused(self):
        wheel(self.index, "parcel", "1.0", {"parcel.py": "value = 1\n"})
        (self.folder / "policy.json").write_text('{"packages": {"python": ["parcel"]}}')
        self.membrane("run", "--policy", "policy.json", "-e", "1", "-q")
        shutil.rmtree(self.folder / "cache" / "membrane" / "packages")
        wheel(self.index, "parcel", "1.0", {"parcel.py": "value = 'evil'\n"})
        self.assertIn("hash", self.refused("--policy", "policy.json").lower())

    def test_a_lock_that_was_tampered_with_gives_pip_no_option(self):
        wheel(self.index, "parcel", "1.0", {"parcel.py": "value = 1\n"})
        (self.folder / "policy.toml").write_text('[packages]\npython = ["parcel"]\n')
        self.membrane("run", "--policy", "policy.toml", "-e", "1", "-q")
        shutil.rmtree(self.folder / "cache" / "membrane" / "packages")
        lock = self.folder / "policy.toml.lock"
        whole = lock.read_text()
        for version in ("1.0 --index-url=x", "1.0\\n--pre", "-r x", "*"):
            lock.write_text(whole.replace('"version": "1.0"', f'"version": "{version}"'))
            self.assertIn("lock", self.refused("--policy", "policy.toml"))

    def test_with_adds_to_a_policy_and_keeps_its_versions(self):
        wheel(self.index, "parcel", "1.0", {"parcel.py": "value = 1\n"})
        (self.folder / "policy.toml").write_text('[packages]\npython = ["parcel"]\n')
        self.membrane("run", "--policy", "policy.toml", "-e", "1", "-q")
        lock = (self.folder / "policy.toml.lock").read_text()
        wheel(self.index, "parcel", "2.0", {"parcel.py": "value = 2\n"})
        wheel(self.index, "stamp", "1.0", {"stamp.py": "value = 10\n"})
        done = self.membrane("run", "--policy", "policy.toml", "--with", "stamp", "-e",
                             "import parcel, stamp; parcel.value + stamp.value", "-q")
        self.assertEqual(done.stdout, "11\n")
        self.assertEqual((self.folder / "policy.toml.lock").read_text(), lock)

    def test_markers_are_those_of_the_guest(self):
        wheel(self.index, "stamp", "1.0", {"stamp.py": "value = 1\n"})
        wheel(self.index, "parcel", "1.0", {"parcel.py": ""}, needs=[
            'stamp; python_version >= "3.15" and sys_platform == "wasi" and platform_machine == "wasm32"',
            'of-this-machine; sys_platform != "wasi"', 'older; python_version < "3.15"'])
        self.assertEqual(self.run_python("parcel", "import parcel, stamp; stamp.value").stdout, "1\n")

    def test_what_is_built_in_stays(self):
        wheel(self.index, "numpy", "99.0", {"numpy/__init__.py": "value = 'from outside'\n"})
        wheel(self.index, "requests", "99.0", {"requests/__init__.py": "value = 'from outside'\n"})
        wheel(self.index, "parcel", "1.0", {"parcel.py": "import numpy\n", "json.py": "value = 'shadow'\n"},
              needs=["numpy", "requests"])
        done = self.run_python("parcel", "import parcel, json, requests\n"
                               "print(hasattr(json, 'dumps'), hasattr(requests, 'get'))")
        self.assertEqual(done.stdout, "True True\n")
        self.assertIn("is built in", self.membrane("run", "--with", "numpy", "-e", "1").stderr)
        shutil.rmtree(self.folder / "cache" / "membrane" / "packages")
        self.assertIn("is built in", self.refused("--with", "numpy==99.0"))

    def test_an_older_version_is_named_with_what_the_newest_one_lacks(self):
        wheel(self.index, "parcel", "1.0", {"parcel.py": "value = 1\n"})
        wheel(self.index, "parcel", "2.0", {"parcel.py": "value = 2\n"}, needs=["quick-core==3.1"])
        wheel(self.index, "quick-core", "3.1", {"quick.py": ""}, tag="cp315-cp315-manylinux_2_17_x86_64")
        done = self.membrane("run", "--with", "parcel", "-e", "import parcel; print(parcel.value)")
        self.assertEqual(done.stdout, "1\n")
        self.assertIn("programs get parcel 1.0, an older version: 2.0 needs quick-core==3.1, of which there is "
                      "no pure Python wheel", done.stderr)

    def test_an_older_version_is_named_where_the_newest_one_is_native(self):
        wheel(self.index, "parcel", "1.0", {"parcel.py": "value = 1\n"})
        wheel(self.index, "parcel", "2.0", {"parcel.py": "value = 2\n"}, 
              tag="cp315-cp315-" + sysconfig.get_platform().replace("-", "_"))
        done = self.membrane("run", "--with", "parcel", "-e", "import parcel; print(parcel.value)")
        self.assertEqual(done.stdout, "1\n")
        self.assertIn("programs get parcel 1.0, an older version: of 2.0 there is no pure Python wheel", done.stderr)

    def test_a_version_before_the_first_is_not_taken_for_a_later_one(self):
        wheel(self.index, "parcel", "0.1", {"parcel.py": "value = 1\n"})
        wheel(self.index, "parcel", "1.2", {"parcel.py": "value = 2\n"}, needs=["stamp>=2"])
        wheel(self.index, "stamp", "1.0", {"stamp.py": ""})
        said = self.refused("--with", "parcel")
        self.assertIn("parcel 1.2 needs stamp>=2, of which there is no pure Python wheel", said)
        self.assertIn("Request parcel==0.1 if that one is enough.", said)

    def test_the_newest_version_needs_no_words(self):
        wheel(self.index, "parcel", "1.0", {"parcel.py": "value = 1\n"})
        wheel(self.index, "parcel", "2.0", {"parcel.py": "value = 2\n"})
        self.assertNotIn("older", self.run_python("parcel", "import parcel").stderr)
        self.assertNotIn("older", self.run_python("parcel==1.0", "import parcel").stderr)

    def test_a_package_by_its_address_is_refused(self):
        stamp = wheel(self.folder, "stamp", "1.0", {"stamp.py": "value = 'of this machine'\n"})
        for need in (f"stamp @ {stamp.as_uri()}", f"\n stamp @ {stamp.as_uri()}", f"stamp\n @ {stamp.as_uri()}"):
            with self.subTest(need=need):
                wheel(self.index, "parcel", "1.0", {"parcel.py": ""}, needs=[need])
                self.assertIn("needs a package by URL", self.refused("--with", "parcel"))

    def test_native_code_is_refused_by_name(self):
        self.assertIn("Use pandas, which is built in", self.refused("--with", "polars"))
        wheel(self.index, "quick", "1.0", {"quick.py": ""}, tag="cp315-cp315-manylinux_2_17_x86_64")
        self.assertIn("pure Python wheels", self.refused("--with", "quick"))
        wheel(self.index, "sly", "1.0", {"sly/__init__.py": "", "sly/fast.cpython-315-x86_64-linux-gnu.so": b"\x7fELF"})
        self.assertIn("holds native code (sly/fast", self.refused("--with", "sly"))

    def test_no_code_of_a_package_runs_here(self):
        """A source distribution is not taken, and not built either where pip would."""
        ran = self.folder / "ran"
        setup = f"open({str(ran)!r}, 'w').close()\nfrom setuptools import setup\nsetup(name='evil', version='9')\n"
        archive = self.index / "evil-9.tar.gz"
        with tarfile.open(archive, "w:gz") as tar:
            for name, text in (("setup.py", setup), ("PKG-INFO", "Metadata-Version: 1.0\nName: evil\nVersion: 9\n")):
                info = tarfile.TarInfo(f"evil-9/{name}")
                info.size = len(text)
                tar.addfile(info, io.BytesIO(text.encode()))
        self.refused("--with", "evil")
        wheel(self.index, "parcel", "1.0", {"parcel.py": ""}, needs=[f"evil @ {archive.as_uri()}"])
        self.refused("--with", "parcel")
        self.assertFalse(ran.exists())

    def test_a_module_in_the_working_directory_is_not_run_here(self):
        for name in ("pip", "zipfile", "json", "sitecustomize", "runpy"):
            (self.folder / f"{name}.py").write_text(f"open('ran-{name}', 'w').close()\n")
        wheel(self.index, "parcel", "1.0", {"parcel.py": "value = 1\n"})
        self.membrane("run", "--with", "parcel", "-e", "1", "-q")
        self.assertEqual(list(self.folder.glob("ran-*")), [])

    def test_hostile_wheels_are_refused(self):
        def linked(name, mode):
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            return info, b"/etc/passwd"

        def plain(name, data=b"x"):
            return zipfile.ZipInfo(name), data

        def longer(lines):
            return {**lines, "parcel.py": lines["parcel.py"].replace("sha256=", "sha256=A")}

        elsewhere = self.folder / "elsewhere"
        cases = {
            "leads elsewhere": {"entries": [plain("../../../../elsewhere")]},
            "leads elsewhere: '/": {"entries": [plain(str(elsewhere))]},
            "leads elsewhere: 'a": {"entries": [plain("a/./b")]},
            "a link or a device: 'link'": {"entries": [linked("link", 0o120777)]},
            "a link or a device: 'pipe'": {"entries": [linked("pipe", 0o010666)]},
            "does not have the files listed in its RECORD: 'extra.py'": {"entries": [plain("extra.py")]},
            "does not have the files listed in its RECORD: 'none.py'": {
                "record": lambda lines: {**lines, "none.py": "none.py,sha256=AAAA,1\n"}},
            "has a parcel.py that does not match its RECORD": {"record": longer},
        }
        for said, options in cases.items():
            with self.subTest(said):
                wheel(self.index, "parcel", "1.0", {"parcel.py": "value = 1\n"}, **options)
                self.assertIn(said, self.refused("--with", "parcel"))
        self.assertFalse(elsewhere.exists())
        (self.index / "parcel-1.0-py3-none-any.whl").write_bytes(b"no archive")
        self.assertIn("parcel", self.refused("--with", "parcel"))

    def test_a_wheel_that_swells_is_refused(self):
        bombs = {f"parcel/{number}.bin": bytes(60 << 20) for number in range(9)}
        wheel(self.index, "parcel", "1.0", bombs)
        self.assertIn("too large", self.refused("--with", "parcel"))
        wheel(self.index, "parcel", "1.0", {f"parcel/{number}.py": "" for number in range(50_001)})
        self.assertIn("too many files", self.refused("--with", "parcel"))

    def test_mistakes_are_reported_with_their_fix(self):
        for name, said in (("no-such-package", "pip did not find the packages"), ("./parcel.whl", "it is a path"),
                           ("git+https://example.org/x", "it is a URL"), ("parcel>=1", "with =="),
                           ("parcel[extra]", "extras")):
            self.assertIn(said, self.refused("--with", name))
        self.assertIn("is an option", self.refused("--with=--pre"))
        self.assertIn("requested twice", self.refused("--with", "parcel", "--with", "Parcel==1"))
        self.offline()
        self.assertIn("python3 is not installed", self.refused("--with", "parcel"))

    def test_a_cache_that_others_may_write_to_is_refused(self):
        packages = self.folder / "cache" / "membrane" / "packages"
        packages.mkdir()
        packages.chmod(0o777)
        self.assertIn("chmod go-w", self.refused("--with", "parcel"))

    def test_what_is_damaged_in_the_cache_is_made_again(self):
        wheel(self.index, "parcel", "1.0", {"parcel.py": "value = 1\n"})
        program = ["run", "--with", "parcel", "-e", "import parcel; parcel.value"]
        self.membrane(*program)
        (lock,) = self.cached(".lock")
        lock.write_text("{")
        self.assertEqual(self.membrane(*program).stdout, "1\n")
        self.assertEqual(json.loads(lock.read_text())["python"]["asked"], ["parcel"])
        (layer,) = self.cached(".layer")
        layer.write_bytes(layer.read_bytes()[:-1] + b"?")
        done = self.membrane(*program)
        self.assertEqual(done.stdout, "1\n")
        self.assertIn("is damaged: Membrane builds a new one", done.stderr)

    def test_nothing_is_left_of_the_work(self):
        wheel(self.index, "parcel", "1.0", {"parcel.py": ""})
        self.membrane("run", "--with", "parcel", "-e", "1", "-q")
        self.membrane("run", "--with", "no-such-package", "-e", "1", code=2)
        self.assertEqual(list((self.folder / "cache" / "membrane" / "packages").glob("work-*")), [])

    def test_an_agent_has_the_packages_of_its_policy(self):
        wheel(self.index, "parcel", "1.0", {"parcel.py": "value = 42\n"})
        (self.folder / "policy.toml").write_text('[packages]\npython = ["parcel"]\n')
        replies = ["```python\nimport parcel\nprint(parcel.value)\n```", "```python\nimport stamp\n```", "ANSWER: done"]
        (self.folder / "answers.jsonl").write_text("".join(json.dumps({"content": reply}) + "\n" for reply in replies))
        text = self.membrane("agent", "task", "--model-file", "answers.jsonl", "--language", "python", "--policy",
                             "policy.toml", "--fuel", "1e10").stdout
        self.assertIn("42", text)
        self.assertIn('python = ["stamp"] under [packages] of the policy', text)
        self.assertNotIn("--with", text)

    def test_an_import_that_fails_says_what_would_help(self):
        def hint(code):
            done = self.membrane("run", "--json", "-e", code, "--fuel", "1e10", code=1)
            return json.loads(done.stdout)["error"].get("hint", "")

        self.assertIn("run with --with rich,", hint("import rich.table"))
        self.assertIn("--with python-dotenv", hint("from dotenv import load_dotenv"))
        self.assertEqual(hint("import pandsa"), "Did you mean pandas?")
        self.assertIn("use Pillow", hint("import cv2"))
        self.assertIn("pandas", hint("import polars"))
        self.assertEqual(hint("import numpy.nothing"), "")
        self.assertEqual(hint("1/0"), "")
        for code in ("!pip install -q rich", "%pip install rich", "pip install rich", "pip3 install rich",
                     "import subprocess, sys\nsubprocess.check_call([sys.executable, '-m', 'pip', 'install', 'rich'])",
                     "import os\nos.system('pip install rich')", "# pip install rich\nimport pip"):
            self.assertIn("Packages are not installed from inside: run with --with rich,", hint(code), code)


def npm_tarball(name, version, files, **more):
    """The file of a package of npm, whose manifest has `more` besides."""
    packed = io.BytesIO()
    manifest = json.dumps({"name": name, "version": version, **more})
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for path, text in {"package.json": manifest, **files}.items():
            info = tarfile.TarInfo(f"package/{path}")
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    return packed.getvalue()


def integrity_of(data):
    return "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()


class Registry(http.server.BaseHTTPRequestHandler):
    """A registry of npm: `packages` is {name: {version: (manifest, tarball)}}."""

    packages = {}

    def do_GET(self):
        name, _, tarball = self.path.lstrip("/").replace("%2f", "/").partition("/-/")
        versions = self.packages.get(name)
        if versions is None:
            return self.answer(404, b"{}")
        if tarball:
            return self.answer(200, versions[tarball.removesuffix(".tgz")][1])
        base = f"http://{self.headers['host']}/{name}/-/"
        described = {version: {"name": name, "version": version, **manifest,
                          "dist": {"tarball": f"{base}{version}.tgz", "integrity": integrity_of(data)}}
                for version, (manifest, data) in versions.items()}
        document = {"name": name, "dist-tags": {"latest": list(versions)[-1]}, "versions": described}
        self.answer(200, json.dumps(document).encode())

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class JavaScriptPackages(PackagesTest):
    def setUp(self):
        super().setUp()
        self.need_language("js")
        if not runs("npm", "--version"):
            self.skipTest("there is no npm")
        Registry.packages = {}
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.environment.update(
            npm_config_registry=f"http://127.0.0.1:{server.server_address[1]}/", npm_config_fetch_retries="0",
            npm_config_cache=str(self.folder / "npm"), npm_config_userconfig=str(self.folder / "none"),
            npm_config_globalconfig=str(self.folder / "nothing"), NO_PROXY="127.0.0.1", no_proxy="127.0.0.1")

    @staticmethod
    def publish(name, version, files, **more):
        Registry.packages.setdefault(name, {})[version] = (more, npm_tarball(name, version, files, **more))

    def run_js(self, *arguments, code="", **more):
        return self.membrane("run", "--lang", "js", *arguments, "-e", code, "-q", **more).stdout

    def test_files_are_where_programs_look_for_them(self):
        self.publish("stamp", "1.5.0", {"index.mjs": "export const value = 40;\n"})
        source = 'import { value } from "../stamp/index.mjs";\nexport const price = value + 2;\n'
        self.publish("parcel", "1.2.0", {"index.mjs": source}, dependencies={"stamp": "^1.0.0"})
        program = 'const m = await import("/usr/lib/node_modules/parcel/index.mjs"); m.price'
        self.assertEqual(self.run_js("--with", "parcel", code=program), "42\n")
        self.environment["PATH"] = ""  # no npm from here on
        self.assertEqual(self.run_js("--with", "parcel", code=program), "42\n")

    def test_the_lock_of_a_policy_holds(self):
        self.publish("parcel", "1.0.0", {"index.mjs": "export default 1;\n"})
        (self.folder / "policy.toml").write_text('[packages]\njavascript = ["parcel"]\n')
        program = '(await import("/usr/lib/node_modules/parcel/index.mjs")).default'
        self.assertEqual(self.run_js("--policy", "policy.toml", code=program), "1\n")
        lock = json.loads((self.folder / "policy.toml.lock").read_text())["javascript"]
        self.assertEqual(lock["packages"], [{"name": "parcel", "version": "1.0.0"}])
        self.assertNotIn("resolved", lock["package_lock"]["packages"]["node_modules/parcel"])  # any registry may have it
        self.publish("parcel", "2.0.0", {"index.mjs": "export default 2;\n"})
        shutil.rmtree(self.folder / "cache" / "membrane" / "packages")
        self.assertEqual(self.run_js("--policy", "policy.toml", code=program), "1\n")
        shutil.rmtree(self.folder / "cache" / "membrane" / "packages")
        shutil.rmtree(self.folder / "npm")
        other = npm_tarball("parcel", "1.0.0", {"index.mjs": "export default 'evil';\n"})
        Registry.packages["parcel"]["1.0.0"] = ({}, other)
        self.assertIn("EINTEGRITY", self.refused("--lang", "js", "--policy", "policy.toml"))

    def test_a_lock_leads_nowhere_but_to_the_registry(self):
        self.publish("parcel", "1.0.0", {"index.mjs": "export default 1;\n"})
        (self.folder / "policy.toml").write_text('[packages]\njavascript = ["parcel"]\n')
        self.run_js("--policy", "policy.toml", code="1")
        good = json.loads((self.folder / "policy.toml.lock").read_text())
        secret = self.folder / "secret"
        secret.mkdir()
        (secret / "package.json").write_text('{"name": "parcel", "version": "1.0.0"}')
        digest = good["javascript"]["package_lock"]["packages"]["node_modules/parcel"]["integrity"]
        for wrong in ({"version": f"git+file://{secret}"}, {"version": f"file:{secret}"}, {"inBundle": True}, {"link": True},
                      {"version": f"file:{secret}", "integrity": "shax-eA==", "inBundle": True},
                      {"integrity": "shax-eA=="}, {"integrity": "sha512-eA=="}, {"integrity": digest + " sha512-eA=="},
                      {"hasShrinkwrap": True}, {"name": "../parcel"}, {"dependencies": {"z": f"git+file://{secret}"}},
                      {"dependencies": {"z": "npm:@a/b@https://elsewhere.example/z.tgz"}}):
            with self.subTest(wrong=wrong):
                changed = json.loads(json.dumps(good))
                changed["javascript"]["package_lock"]["packages"]["node_modules/parcel"].update(wrong)
                (self.folder / "policy.toml.lock").write_text(json.dumps(changed))
                shutil.rmtree(self.folder / "cache" / "membrane" / "packages")
                self.assertIn("does not come from the registry", self.refused("--lang", "js", "--policy", "policy.toml"))
        for place in "node_modules/../elsewhere", "node_modules/evil/../../x", "elsewhere", "node_modules/a/node_modules":
            with self.subTest(place=place):
                changed = json.loads(json.dumps(good))
                packages = changed["javascript"]["package_lock"]["packages"]
                packages[place] = packages["node_modules/parcel"]
                (self.folder / "policy.toml.lock").write_text(json.dumps(changed))
                self.assertIn("does not come from the registry", self.refused("--lang", "js", "--policy", "policy.toml"))
        # Another source for it is ignored: the registry is asked.
        good["javascript"]["package_lock"]["packages"]["node_modules/parcel"]["resolved"] = "http://127.0.0.1:9/parcel.tgz"
        (self.folder / "policy.toml.lock").write_text(json.dumps(good))
        self.assertEqual(self.run_js("--policy", "policy.toml", code="1"), "1\n")

    def test_no_script_of_a_package_runs(self):
        ran = self.folder / "ran"
        scripts = {name: f"touch {ran}" for name in ("preinstall", "install", "postinstall", "prepare")}
        self.publish("parcel", "1.0.0", {"index.mjs": "export default 1;\n", "bin.js": ""}, scripts=scripts,
                     bin="bin.js", hasInstallScript=True)
        self.run_js("--with", "parcel", code="1")
        self.assertFalse(ran.exists())
        self.assertEqual(len(self.cached(".layer")), 1)

    def test_what_is_not_of_the_registry_or_is_native_is_refused(self):
        elsewhere = self.folder / "elsewhere"
        elsewhere.mkdir()
        (elsewhere / "package.json").write_text('{"name": "elsewhere", "version": "1.0.0"}')
        self.publish("parcel", "1.0.0", {}, dependencies={"elsewhere": f"file:{elsewhere}"})
        # With npm itself if it can, otherwise from its lock.
        self.assertRegex(self.refused("--lang", "js", "--with", "parcel"), "does not come from the registry|EALLOW")
        self.publish("@a/quick", "1.0.0", {"binding.gyp": "{}"})
        self.assertIn("the package @a/quick is native code", self.refused("--lang", "js", "--with", "@a/quick"))
        self.assertIn("npm did not find the packages", self.refused("--lang", "js", "--with", "no-such-package"))
        self.assertIn("is not a package", self.refused("--lang", "js", "--with", "../elsewhere"))
        self.environment["PATH"] = ""
        self.assertIn("npm, which is not installed", self.refused("--lang", "js", "--with", "parcel"))


if __name__ == "__main__":
    unittest.main()
