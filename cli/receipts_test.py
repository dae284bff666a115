"""Receipts as a person makes, checks and replays them, and the verifier that needs nothing of Membrane.

MEMBRANE_COMMAND and MEMBRANE_LANGUAGES as in command_testing.py.
"""

import http.server
import importlib.machinery
import importlib.util
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMMAND = os.environ.get("MEMBRANE_COMMAND", str(ROOT / "build" / "release" / "membrane"))
VERIFIER = ROOT / "tools" / "verify-receipt"
SECONDS = 600  # a process that needs more hangs

STORES = '(func (export "run") (call $kv.set (string "colour") (string "blue")) (drop) (call $io.println (string "done")))'
CHANCE = '(func (export "run") (result i64 i64) (call $random.i64) (call $time.now_ms!))'


def load_verifier():
    loader = importlib.machinery.SourceFileLoader("verify_receipt", str(VERIFIER))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("verify_receipt", loader))
    loader.exec_module(module)
    return module


verifier = load_verifier()


class Case(unittest.TestCase):
    """A directory of its own, and an environment in which nothing is configured but a key that signs."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith("MEMBRANE_") or name == "MEMBRANE_LANGUAGES"}
        self.environment["XDG_CONFIG_HOME"] = str(self.folder / "config")
        self.environment["XDG_STATE_HOME"] = str(self.folder / "state")
        self.key = self.membrane("keys", "generate").stdout.strip()

    def membrane(self, *arguments, code=0, stdin="", **environment):
        done = subprocess.run([COMMAND, *map(str, arguments)], cwd=self.folder, input=stdin, capture_output=True, text=True,
                              env={**self.environment, **environment}, timeout=SECONDS)
        self.assertEqual(done.returncode, code, f"{arguments}\n{done.stdout}\n{done.stderr}")
        return done

    def publish(self):
        (self.folder / "keys.json").write_text(self.membrane("keys", "publish").stdout)
        return self.folder / "keys.json"

    def seal(self, name, program, *arguments, code=0, **more):
        self.membrane("run", "-e", program, "--seal", name, *arguments, code=code, **more)
        return self.folder / name

    def verdicts(self, *files):
        """What `membrane verify` says of each file, as a list of True and False."""
        done = subprocess.run([COMMAND, "verify", "--json", *map(str, files)], cwd=self.folder, capture_output=True,
                              text=True, env=self.environment, timeout=SECONDS)
        said = [json.loads(line)["verified"] for line in done.stdout.splitlines()]
        self.assertEqual(len(said), len(files), done.stderr)
        self.assertEqual(done.returncode, 0 if all(said) else 1)
        return said

    def independent(self, path, keys):
        """What the verifier in Python says: None, or why it refuses."""
        try:
            verifier.verify(path, keys)
        except verifier.Refused as why:
            return str(why)
        return None

    def has(self, language):
        if not Path(self.environment.get("MEMBRANE_LANGUAGES", "/none"), language).exists():
            self.skipTest(f"{language} is not installed")


class Keys(Case):
    def test_the_private_file_is_the_owners_alone(self):
        path = self.folder / "config/membrane/receipt-keys.json"
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
        path.chmod(0o644)
        done = self.membrane("run", "-e", STORES, "--seal", "a.receipt", code=2)
        self.assertIn("accessible to other users", done.stderr)
        self.assertEqual(done.stdout, "", "nothing runs that cannot be sealed")

    def test_what_was_written_is_said(self):
        done = self.membrane("run", "-e", "(func (export \"run\"))", "--seal", "a.receipt")
        self.assertTrue(done.stderr.endswith("receipt: a.receipt, and a.receipt.private\n"), done.stderr)
        done = self.membrane("run", "-e", "(func (export \"run\"))", "-q", "--seal", "b.receipt")
        self.assertEqual(done.stderr, "")

    def test_without_a_key_nothing_runs(self):
        shutil.rmtree(self.folder / "config")
        done = self.membrane("run", "-e", STORES, "--seal", "a.receipt", code=2)
        self.assertIn("membrane keys generate", done.stderr)
        self.assertEqual(done.stdout, "")

    def test_there_is_one_first_key(self):
        self.assertIn("rotate", self.membrane("keys", "generate", code=2).stderr)

    def test_what_is_published_has_no_private_key(self):
        self.assertNotIn("private", self.membrane("keys", "publish").stdout)
        private = json.loads((self.folder / "config/membrane/receipt-keys.json").read_text())["keys"][0]["private_key"]
        self.assertNotIn(private, self.membrane("keys", "publish").stdout + self.membrane("keys", "list").stdout)

    def test_a_directory_is_its_receipts(self):
        (self.folder / "many").mkdir()
        self.assertIn("has no receipts", self.membrane("verify", "many", code=2).stderr)
        for name in ("many/a.receipt", "many/b.receipt"):
            self.seal(name, STORES, "--allow", "kv")
        said = self.membrane("verify", "many").stdout
        self.assertEqual(said.count("verified"), 2, said)

    def test_what_is_no_receipt_is_said_to_be_none(self):
        receipt = self.seal("a.receipt", STORES, "--allow", "kv")
        said = self.membrane("verify", "a.receipt.private", code=1).stdout
        self.assertTrue(said.startswith("a.receipt.private: not a receipt\n  it is the private part of one\n"), said)
        self.assertIn("membrane verify a.receipt\n", said)
        (self.folder / "job.py").write_text("print(1)\n")
        self.assertIn("job.py: not a receipt\n", self.membrane("verify", "job.py", code=1).stdout)
        changed = self.folder / "a.receipt"
        changed.write_text(changed.read_text().replace("kv.set", "kv.get"))
        self.assertIn("a.receipt: NOT verified\n", self.membrane("verify", "a.receipt", code=1).stdout)
        self.assertIn(". is a directory\n  hint: Name a receipt in it.", self.membrane("replay", ".", code=2).stderr)
        self.assertIn("--head 0000 is no head of a log\n", self.membrane("audit", "verify", "--head", "0000", "job.py", code=2).stderr)

    def test_no_keys_are_said_to_be_none(self):
        shutil.rmtree(self.folder / "config")
        done = self.membrane("keys", "list")
        self.assertEqual((done.stdout, done.stderr), ("", "there are no keys; `membrane keys generate` creates one\n"))

    def test_a_rotated_key_still_verifies_and_a_revoked_one_is_named(self):
        receipt = self.seal("a.receipt", STORES, "--allow", "kv")
        new = self.membrane("keys", "rotate").stdout.strip()
        self.assertNotEqual(new, self.key)
        self.assertEqual([key["state"] for key in json.loads(self.membrane("keys", "list", "--json").stdout)],
                         ["retired", "signs"])
        self.assertIn("retired", self.membrane("verify", receipt).stdout)
        keys = self.publish()
        self.membrane("verify", receipt, "--keys", keys)
        self.assertIsNone(self.independent(receipt, verifier.keys_of(keys)))
        self.membrane("keys", "revoke", self.key)
        self.assertIn(f"{self.key} was revoked", self.membrane("verify", receipt, code=1).stdout)
        self.assertIn(f"{self.key} was revoked", self.independent(receipt, verifier.keys_of(self.publish())))

    def test_a_key_that_is_not_known_is_named(self):
        receipt = self.seal("a.receipt", STORES, "--allow", "kv")
        shutil.rmtree(self.folder / "config")
        self.membrane("keys", "generate")
        self.assertIn(f"the key {self.key}, which is not known", self.membrane("verify", receipt, code=1).stdout)
        self.assertIn(self.key, self.independent(receipt, verifier.keys_of(self.publish())))

    def test_without_keys_nothing_is_verified(self):
        receipt = self.seal("a.receipt", STORES, "--allow", "kv")
        shutil.rmtree(self.folder / "config")
        self.assertIn("--keys", self.membrane("verify", receipt, code=2).stderr)


class Verify(Case):
    def test_good_receipts_verify_by_both(self):
        receipt = self.seal("a.receipt", STORES, "--allow", "kv")
        said = json.loads(self.membrane("verify", receipt, "--json").stdout)
        self.assertEqual((said["verified"], said["kind"], said["outcome"], said["private_part"], said["key"]),
                         (True, "run", "ok", "whole", self.key))
        done = subprocess.run([sys.executable, VERIFIER, "--keys", self.publish(), receipt], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("private part: whole", done.stdout)

    def test_it_verifies_without_its_private_part(self):
        receipt = self.seal("a.receipt", STORES, "--allow", "kv")
        private = Path(f"{receipt}.private")
        lines = private.read_text().split("\n")
        private.write_text("\n".join("" if '"item":"program"' in line else line for line in lines))
        self.assertIn("1 line removed", self.membrane("verify", receipt).stdout)
        self.assertIn("1 line removed", verifier.verify(receipt, verifier.keys_of(self.publish())))
        self.assertIn("no program", self.membrane("replay", receipt, code=2).stderr)
        private.unlink()
        self.assertIn("private part: not here", self.membrane("verify", receipt).stdout)
        self.assertIsNone(self.independent(receipt, verifier.keys_of(self.publish())))
        self.assertIn("private", self.membrane("replay", receipt, code=2).stderr)

    def test_every_changed_byte_is_refused_by_both(self):
        receipt = self.seal("a.receipt", '(func (export "run"))')
        keys = verifier.keys_of(self.publish())
        text, private = receipt.read_bytes(), Path(f"{receipt}.private").read_bytes()
        changed = self.folder / "changed"
        changed.mkdir()
        files = []
        for whole, is_private in ((text, False), (private, True)):
            for at in range(len(whole)):
                other = whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1:]
                path = changed / f"{len(files)}.receipt"
                path.write_bytes(text if is_private else other)
                Path(f"{path}.private").write_bytes(other if is_private else private)
                files.append(path)
        self.assertEqual([file.name for file, said in zip(files, self.verdicts(*files)) if said], [])
        self.assertEqual([file.name for file in files if self.independent(file, keys) is None], [])

    def test_everything_that_is_cut_off_is_refused_by_both(self):
        receipt = self.seal("a.receipt", '(func (export "run"))')
        keys = verifier.keys_of(self.publish())
        text = receipt.read_bytes()
        files = []
        for size in range(0, len(text), 7):
            files.append(self.folder / f"cut{size}.receipt")
            files[-1].write_bytes(text[:size])
        self.assertFalse(any(self.verdicts(*files)))
        self.assertEqual([file.name for file in files if self.independent(file, keys) is None], [])

    def test_another_receipts_private_part_is_refused_by_both(self):
        first, second = (self.seal(name, STORES, "--allow", "kv") for name in ("a.receipt", "b.receipt"))
        shutil.copy(f"{second}.private", f"{first}.private")
        self.assertEqual(self.verdicts(first, second), [False, True])
        self.assertIsNotNone(self.independent(first, verifier.keys_of(self.publish())))

    def test_plain_python_agrees_with_the_package(self):
        receipt = self.seal("a.receipt", STORES, "--allow", "kv")
        keys = verifier.keys_of(self.publish())
        text = receipt.read_bytes()
        is_signed = verifier.is_signed
        verifier.is_signed = verifier.is_signed_plainly
        self.addCleanup(setattr, verifier, "is_signed", is_signed)
        self.assertIsNone(self.independent(receipt, keys))
        for at in [*range(0, len(text) - 200, 61), *range(len(text) - 135, len(text))]:
            receipt.write_bytes(text[:at] + bytes([text[at] ^ 1]) + text[at + 1:])
            self.assertIsNotNone(self.independent(receipt, keys), at)

    def test_a_missing_file_is_wrong_usage(self):
        self.membrane("verify", "none.receipt", code=2)
        self.membrane("verify", code=2)

    def test_the_verifier_is_short(self):
        self.assertLessEqual(len(VERIFIER.read_text().splitlines()), 200)


class Replay(Case):
    def test_the_same_bytes_and_fuel(self):
        for name, program, code in (("chance", CHANCE, 0), ("trap", '(func (export "run") (unreachable))', 1),
                                    ("fuel", '(func (export "run") (loop (br 0)))', 1), ("kv", STORES, 0),
                                    ("invalid", "(func", 2)):
            with self.subTest(name):
                receipt = self.seal(f"{name}.receipt", program, "--allow", "kv", "--allow", "random", "--allow", "time",
                                    "--lang", "wat", "--fuel", "100000", code=code)
                self.assertIn("the same", self.membrane("replay", receipt).stdout)
                self.assertIn("the same", self.membrane("replay", receipt, "--tier", "interpreter").stdout)
                self.assertEqual(self.membrane("replay", receipt, "--json", "--in-process").stdout,
                                 self.membrane("replay", receipt, "--json").stdout)

    def test_input_arguments_and_environment_come_again(self):
        program = """(func (export "run")
          (call $io.println (call $io.input)) (call $io.println (call $io.argument! (i32.const 0))))"""
        (self.folder / "p.wat").write_text(program)
        self.membrane("run", "p.wat", "--seal", "p.receipt", "first", stdin="typed", code=0)
        self.assertIn("the same", self.membrane("replay", "p.receipt").stdout)

    def test_a_run_that_goes_otherwise_names_the_first_difference(self):
        """Signed by its owner over another program: what is in the receipt is not what the program does."""
        receipt = self.seal("a.receipt", STORES, "--allow", "kv")
        other = STORES.replace("blue", "grey")
        self.resign(receipt, lambda line: line.replace(json.dumps(STORES), json.dumps(other)), program=other)
        done = self.membrane("replay", receipt, code=1)
        self.assertIn("call 1 is kv.set(colour, grey), and the journal has kv.set with other arguments", done.stdout)
        said = json.loads(self.membrane("replay", receipt, "--json", code=1).stdout)
        self.assertFalse(said["same"])
        self.assertEqual(len(said["differences"]), 1)

    def test_output_that_differs_is_named(self):
        receipt = self.seal("a.receipt", STORES, "--allow", "kv")
        self.resign(receipt, lambda line: line.replace('"done\\n"', '"dome\\n"'))
        self.assertIn("stdout differs from byte 3", self.membrane("replay", receipt, code=1).stdout)

    def resign(self, receipt, change, program=None):
        """The receipt with its private lines changed, signed again by the key of the test: as a dishonest owner could."""
        try:
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        except ImportError:
            self.skipTest("the package cryptography is not here")
        private = Path(f"{receipt}.private")
        lines = [change(line) for line in private.read_text().split("\n")]
        private.write_text("\n".join(lines))
        header, head, *items, end, _, _ = receipt.read_text().split("\n")
        for number, item in enumerate(items):
            said = json.loads(item)
            said["sealed"] = verifier.sha256(lines[number + 1].encode())
            if program and said["item"] == "program":
                said.update(sha256=verifier.sha256(program.encode()), bytes=str(len(program)))
            items[number] = json.dumps(said, separators=(",", ":"))
        signed = "\n".join([header, head, *items, end]) + "\n"
        seed = json.loads((self.folder / "config/membrane/receipt-keys.json").read_text())["keys"][0]["private_key"]
        key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(seed))
        signature = key.sign(verifier.CONTEXT + verifier.sha256(signed.encode()).encode()).hex()
        receipt.write_text(f'{signed}{{"key":"{self.key}","signature":"{signature}"}}\n')
        self.membrane("verify", receipt)

    def test_what_is_changed_is_not_replayed(self):
        receipt = self.seal("a.receipt", STORES, "--allow", "kv")
        receipt.write_text(receipt.read_text().replace('"fuel":', '"fuel":1'))
        self.assertIn("has been changed", self.membrane("replay", receipt, code=2).stderr)

    def test_a_stricter_policy_says_which_call_it_refuses(self):
        receipt = self.seal("a.receipt", STORES, "--allow", "kv")
        (self.folder / "none.toml").write_text("[limits]\nfuel = 1000000\n")
        (self.folder / "kv.toml").write_text("[kv]\n")
        done = self.membrane("replay", receipt, "--policy", "none.toml", code=1)
        self.assertIn("refused: call 1, kv.set colour: No grant gives the program a key-value store. (would be granted by "
                      "--allow kv)", done.stdout)
        self.assertIn("refuses nothing", self.membrane("replay", receipt, "--policy", "kv.toml").stdout)

    def test_an_existing_receipt_is_not_replaced(self):
        receipt = self.seal("a.receipt", STORES, "--allow", "kv")
        private = self.folder / "a.receipt.private"
        before = receipt.read_bytes(), private.read_bytes()
        for gone in (None, receipt):
            if gone:
                gone.unlink()
            done = self.membrane("run", "-e", STORES, "--seal", "a.receipt", "--allow", "kv", code=2)
            self.assertIn("already exists, and a receipt is not replaced", done.stderr)
            self.assertIn("--force", done.stderr)
            self.assertEqual((done.stdout, private.read_bytes()), ("", before[1]))
            if gone is None:
                self.assertEqual(receipt.read_bytes(), before[0])
        self.seal("a.receipt", STORES, "--allow", "kv", "--force")
        self.assertEqual(self.verdicts(receipt), [True])
        self.assertNotEqual(receipt.read_bytes(), before[0])

    def test_keys_of_others_come_beside_ones_own(self):
        (self.folder / "receipts").mkdir()
        theirs = self.seal("receipts/theirs.receipt", STORES, "--allow", "kv")
        keys = self.publish()
        shutil.rmtree(self.folder / "config")
        self.membrane("keys", "generate")
        self.seal("receipts/own.receipt", STORES, "--allow", "kv")
        self.membrane("verify", theirs, code=1)
        self.membrane("verify", "receipts", "--keys", keys)
        (self.folder / "p.toml").write_text("kv = {}\n")
        self.assertIn("2 ", self.membrane("policy", "test", "p.toml", "receipts", "--keys", keys).stdout)
        shutil.rmtree(self.folder / "config")
        self.membrane("keys", "generate")
        self.membrane("verify", "receipts", "--keys", keys, code=1)
        revoked = json.loads(keys.read_text())
        revoked["keys"][0]["revoked"] = revoked["keys"][0]["retired"] = revoked["keys"][0]["created"]
        (self.folder / "revoked.json").write_text(json.dumps(revoked))
        self.membrane("verify", theirs, "--keys", keys)
        self.membrane("verify", theirs, "--keys", "revoked.json", "--keys", keys, code=1)

    def test_what_cannot_be_sealed_is_refused(self):
        self.membrane("run", "-e", STORES, "--seal", "a.receipt", "--freeze-after", "5", "--snapshot", "s", code=2)
        self.membrane("run", "-e", STORES, "--seal", "a.receipt", "--replay", "j", code=2)
        self.membrane("run", "-e", STORES, "--seal", "none/a.receipt", code=2)
        self.membrane("run", "-e", STORES, "--seal", ".", code=2)

    def test_a_refused_call_is_reported_without_stray_spaces(self):
        self.has("python")
        (self.folder / "data").mkdir()
        (self.folder / "data/in.txt").write_text("a text")
        (self.folder / "none.toml").write_text("")
        receipt = self.seal("a.receipt", "open('/data/in.txt').read()", "--allow", "fs:read:data:/data")
        shown = self.membrane("replay", receipt, "--policy", "none.toml", code=1).stdout
        self.assertIn("fs.open /data/in.txt: No grant allows", shown)

    def test_a_journal_can_be_kept_as_well(self):
        self.seal("a.receipt", STORES, "--allow", "kv", "--journal", "run.journal")
        self.membrane("run", "-e", STORES, "--replay", "run.journal")

    def test_files_of_granted_directories(self):
        (self.folder / "data").mkdir()
        (self.folder / "data/in.txt").write_text("a text")
        program = """(func (export "run") (call $io.println (call $fs.read! (string "/data/in.txt")))
          (call $fs.write! (string "/data/out.txt") (string "made")))"""
        receipt = self.seal("a.receipt", program, "--allow", "fs:write:data:/data")
        shutil.rmtree(self.folder / "data")
        self.assertIn("the same", self.membrane("replay", receipt).stdout)
        (self.folder / "read.toml").write_text('[[fs]]\nguest = "/data"\nhost = "data"\nmode = "read"\n')
        done = self.membrane("replay", receipt, "--policy", "read.toml", code=1)
        self.assertIn("refused: call 2, fs.write /data/out.txt: /data/out.txt is granted for reading only.", done.stdout)


class PolicyTest(Case):
    def test_a_table_of_past_runs(self):
        (self.folder / "receipts").mkdir()
        self.seal("receipts/a.receipt", STORES, "--allow", "kv")
        self.seal("receipts/b.receipt", '(func (export "run"))')
        self.seal("receipts/c.receipt", STORES)  # refused then, too
        (self.folder / "none.toml").write_text("[limits]\nfuel = 1000000\n")
        done = self.membrane("policy", "test", "none.toml", "receipts", code=1)
        lines = done.stdout.splitlines()
        self.assertRegex(lines[0], "^receipt +made at +language +calls +verdict$")
        self.assertRegex(lines[1], r"^a\.receipt .* wasm +1 +stopped at call 1, kv\.set colour: No grant")
        self.assertRegex(lines[2], r"^b\.receipt .* wasm +0 +runs$")
        self.assertRegex(lines[3], r"^c\.receipt .* runs, with the same calls refused$")
        self.assertEqual(lines[4], "3 runs: the policy would have stopped 1")
        rows = [json.loads(line) for line in
                self.membrane("policy", "test", "none.toml", "receipts", "--json", code=1).stdout.splitlines()]
        self.assertEqual([row["verdict"] for row in rows], ["stopped", "runs", "runs"])
        self.assertEqual((rows[0]["stopped_at"]["call"], rows[0]["stopped_at"]["function"]), (1, "kv.set"))
        (self.folder / "kv.toml").write_text("[kv]\n")
        self.membrane("policy", "test", "kv.toml", "receipts")
        one = self.membrane("policy", "test", "none.toml", "receipts/b.receipt").stdout
        self.assertEqual(one.splitlines()[-1], "1 run: the policy would have stopped 0")

    def test_a_program_cannot_forge_a_row(self):
        (self.folder / "receipts").mkdir()
        self.seal("receipts/a.receipt", r'(func (export "run") (drop (call $kv.set (string "a\0ab.receipt  runs") (string ""))))',
                  "--allow", "kv")
        (self.folder / "none.toml").write_text("[limits]\nfuel = 1000000\n")
        for command in (("policy", "test", "none.toml", "receipts"), ("replay", "receipts/a.receipt", "--policy", "none.toml")):
            lines = self.membrane(*command, code=1).stdout.splitlines()
            self.assertFalse([line for line in lines if line.startswith("b.receipt")])

    def test_what_cannot_be_judged_is_reported(self):
        (self.folder / "receipts").mkdir()
        first = self.seal("receipts/a.receipt", STORES, "--allow", "kv")
        second = self.seal("receipts/b.receipt", STORES, "--allow", "kv")
        Path(f"{first}.private").unlink()
        second.write_text(second.read_text().replace("kv.set", "kv.get"))
        (self.folder / "kv.toml").write_text("[kv]\n")
        said = self.membrane("policy", "test", "kv.toml", "receipts", code=1).stdout
        self.assertIn("cannot be judged: its private part, which lists the calls, is not here", said)
        self.assertIn("has been changed", said)
        self.assertIn("2 cannot be judged", said)
        self.membrane("policy", "test", "kv.toml", "config", code=2)
        self.membrane("policy", "test", "none.toml", "receipts", code=2)


class Secrets(Case):
    def test_a_secret_is_in_no_receipt(self):
        class Echo(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                body = f"you sent {self.headers['Authorization']}".encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        url = f"http://127.0.0.1:{server.server_port}"
        (self.folder / "p.toml").write_text(
            f'[[http]]\nmethods = ["GET"]\nurl = "{url}/*"\n[http.header]\n'
            'Authorization = {prefix = "Bearer ", secret = "API_TOKEN"}\nX-Plain = "plain-value-of-a-header"\n')
        program = f'(func (export "run") (call $io.println (call $http.get! (string "{url}/a"))))'
        receipt = self.seal("a.receipt", program, "--policy", "p.toml", API_TOKEN="correct-horse-battery")
        self.assertIn("you sent ", Path(f"{receipt}.private").read_text())
        for path in self.folder.rglob("*"):
            if path.is_file() and path.name != "p.toml":
                for secret in (b"correct-horse-battery", b"plain-value-of-a-header"):
                    self.assertNotIn(secret, path.read_bytes(), path)
        self.assertIn("the same", self.membrane("replay", receipt).stdout)
        (self.folder / "other.toml").write_text(f'[[http]]\nmethods = ["GET"]\nurl = "{url}/b/*"\n')
        done = self.membrane("replay", receipt, "--policy", "other.toml", code=1)
        self.assertIn(f"refused: call 1, http.request GET {url}/a: No grant allows GET {url}/a.", done.stdout)

    def test_the_private_part_is_the_owners_alone(self):
        receipt = self.seal("a.receipt", STORES, "--allow", "kv")
        self.assertEqual(stat.S_IMODE(Path(f"{receipt}.private").stat().st_mode), 0o600)
        for word in ("colour", "blue", "done"):
            self.assertNotIn(word, receipt.read_text())


class Languages(Case):
    def test_a_program_in_python(self):
        self.has("python")
        (self.folder / "p.py").write_text("import random, sys, time\nprint(random.random(), time.time(), sys.argv[1:])\n"
                                          "open('/tmp/made.txt', 'w').write(input())\n")
        self.membrane("run", "p.py", "--seal", "p.receipt", "--allow", "random", "--allow", "time", "first", stdin="typed\n")
        self.assertIn("the same", self.membrane("replay", "p.receipt").stdout)
        self.assertIn("made.txt", Path(self.folder / "p.receipt.private").read_text())
        self.membrane("verify", "p.receipt")

    def test_every_way_to_end(self):
        self.has("python")
        (self.folder / "data").mkdir()
        for name, program, code, *flags in (
                ("fuel", "while True: pass", 1, "--fuel", "1e7"),
                ("wall", "while True: pass", 1, "--wall", "100ms"),
                ("memory", "x = [bytearray(1 << 20) for _ in range(4000)]", 1, "--memory", "64MiB"),
                ("output", "while True: print('x' * 1000)", 1, "--output", "10KiB"),
                ("exit", "import sys; print(1); sys.exit(3)", 3),
                ("error", "1 / 0", 1),
                ("denied", "from membrane import kv; kv.get('k')", 2),
                ("missing", "open('/data/x').read()", 1),
                ("directory", "import os; open('/data/x', 'w').write('x'); print(os.listdir('/data'))", 0, "--dir", "data:/data"),
                ("display", "import pandas as pd; pd.DataFrame({'a': [1]})", 0)):
            with self.subTest(name):
                receipt = self.seal(f"{name}.receipt", program, *flags, code=code)
                self.assertIn("the same", self.membrane("replay", receipt).stdout)

    def test_a_program_in_javascript(self):
        self.has("js")
        receipt = self.seal("a.receipt", "console.log(Math.random(), Date.now())", "--lang", "js", "--allow", "random",
                            "--allow", "time")
        self.assertIn("the same", self.membrane("replay", receipt).stdout)

    def test_turns_of_a_session_are_chained(self):
        self.has("python")
        self.membrane("repl", "--seal", "book", "--allow", "random", stdin="import random\nx = random.random()\n1/0\nx\n:fork\n")
        turns = sorted((self.folder / "book").glob("*.receipt"))
        said = [json.loads(line) for line in self.membrane("verify", "--json", *turns).stdout.splitlines()]
        self.assertEqual([turn["turn"] for turn in said], [1, 2, 3, 4])
        self.assertEqual([turn["outcome"] for turn in said], ["ok", "ok", "raised", "ok"])
        self.assertEqual([turn["previous"] for turn in said[1:]], [turn["digest"] for turn in said[:-1]])
        self.assertEqual(len({turn["session"] for turn in said}), 1)
        self.assertIn("the same", self.membrane("replay", turns[-1]).stdout)
        turns[1].unlink()
        self.assertIn("is not beside it", self.membrane("replay", turns[-1], code=2).stderr)
        self.assertIn("the same", self.membrane("replay", turns[0]).stdout)

    def test_an_agents_task_names_the_receipts_of_its_programs(self):
        self.has("python")
        answers = ["```python\nimport random\nx = random.random()\nprint(x)\n```", "```python\nprint(x * 2)\n```",
                   '```wat\n(func (export "run") (call $io.println (string "hello")))\n```', "ANSWER: four"]
        (self.folder / "answers.jsonl").write_text("".join(json.dumps({"content": text}) + "\n" for text in answers))
        self.membrane("agent", "how many?", "--model-file", "answers.jsonl", "--language", "python,wat", "--seal", "book",
                      "--allow", "random")
        (task,) = (self.folder / "book").glob("task-*.receipt")
        said = json.loads(self.membrane("verify", "--json", task).stdout)
        self.assertEqual((said["kind"], said["outcome"]), ("task", "answered"))
        turns = [item["receipt"] for item in said["items"] if item["item"] == "turn"]
        others = [file for file in sorted((self.folder / "book").glob("*.receipt")) if file != task]
        digests = {json.loads(line)["digest"] for line in self.membrane("verify", "--json", *others).stdout.splitlines()}
        self.assertEqual((len(turns), set(turns)), (3, digests))
        self.assertEqual(self.membrane("replay", task).stdout.count("the same"), 3)
        self.assertIsNone(self.independent(task, verifier.keys_of(self.publish())))
        others[0].unlink()
        self.membrane("replay", task, code=2)


if __name__ == "__main__":
    unittest.main()
