"""membrane check, policy explain and spectest: what runs no program for its result."""

import json
import subprocess
import sys
import unittest

from command_testing import ADD, BINARY, COMMAND, CommandTest, ROOT, SECONDS


class Check(CommandTest):
    BAD = '(func (export "run") (result i32) (i32.ad (i32.const 1)))'

    def test_nothing_wrong(self):
        self.assertEqual(self.membrane("check", self.file("a.wat", ADD)).stdout, "a.wat: no errors\n")
        self.assertEqual(self.membrane("check", self.file("f.wasm", BINARY)).stdout, "f.wasm: no errors\n")
        self.assertEqual(self.membrane("check", "-", stdin=ADD).stdout, "standard input: no errors\n")
        self.assertEqual(json.loads(self.membrane("check", "a.wat", "--json").stdout),
                         {"file": "a.wat", "ok": True, "diagnostics": []})

    def test_it_is_the_same_in_a_worker_and_in_the_process(self):
        programs = {"a.wat": ADD, "bad.wat": self.BAD, "f.wasm": BINARY, "cut.wasm": BINARY[:-3], "empty.wat": "",
                    "deep.wat": "(" * 100_000, "a.py": "x = 1\n", "bad.py": "x = (1\n", "bad.js": "let x = ;"}
        for name, text in programs.items():
            self.file(name, text)
            for flags in ((), ("--json",)) + ((("--expand",),) if name.endswith((".wat", ".wasm")) else ()):
                with self.subTest(name=name, flags=flags):
                    done = [subprocess.run([COMMAND, "check", name, *flags, *where], cwd=self.folder, capture_output=True,
                                           env=self.environment, timeout=SECONDS, check=False)
                            for where in ((), ("--in-process",))]
                    self.assertEqual(*[(each.returncode, each.stdout, each.stderr) for each in done])

    def test_a_finding_has_place_line_caret_and_hint(self):
        text = self.membrane("check", self.file("bad.wat", self.BAD), code=2).stdout
        self.assertTrue(text.startswith("bad.wat:1:36: error[unknown-instruction]: "), text)
        self.assertIn("| " + self.BAD + "\n", text)
        self.assertIn("^^^^^^\n", text)
        self.assertIn("hint: Did you mean i32.add?", text)

    def test_json_findings_have_stable_fields(self):
        found = json.loads(self.membrane("check", self.file("bad.wat", self.BAD), "--json", code=2).stdout)
        self.assertEqual((found["file"], found["ok"]), ("bad.wat", False))
        self.assertEqual(list(found["diagnostics"][0]), ["code", "message", "line", "column", "offset", "end_offset",
                                                         "function", "expected", "found", "hint"])
        self.assertEqual((found["diagnostics"][0]["line"], found["diagnostics"][0]["offset"]), (1, 35))

    def test_a_file_that_is_not_a_program_is_reported(self):
        elf = self.file("program", b"\x7fELF\x02\x01\x01\x00\x9b")
        for name, cause in ((elf, "an ELF program, neither a WebAssembly binary nor WAT"),
                            (self.file("bytes", bytes(range(256))), "neither a WebAssembly binary nor WAT"),
                            (self.file("empty.wat", ""), "the program is empty"),
                            (self.file("blank.wat", " \n\n"), "the program is empty")):
            self.assertIn(cause, self.membrane("check", name, code=2).stdout)
            done = self.membrane("run", name, code=2)
            self.assertIn(cause, done.stderr)
            self.assertIn("hint: ", done.stderr)

    def test_a_capability_that_does_not_exist_is_found(self):
        program = '(func (export "run") (drop (call $http.gett! (string "x"))))'
        self.assertIn("http.get", self.membrane("check", self.file("p.wat", program), code=2).stdout)

    def test_a_broken_binary_has_its_offset(self):
        text = self.membrane("check", self.file("cut.wasm", BINARY[:-3]), code=2).stdout
        self.assertRegex(text, r"^cut\.wasm: offset \d+: error\[[a-z-]+\]: ")

    def test_the_expansion_is_plain_and_runs_the_same(self):
        program = self.file("p.wat", '(func (export "run") (result i32) (set $x 40) (i32.add $x 2))')
        plain = self.membrane("check", program, "--expand").stdout
        self.assertIn("local.set", plain)
        self.assertIn("i32.const 40", plain)
        self.assertEqual(self.membrane("run", self.file("plain.wat", plain)).stdout, "42\n")
        self.assertEqual(self.membrane("check", "plain.wat", "--expand").stdout, plain)
        self.assertEqual(json.loads(self.membrane("check", program, "--expand", "--json").stdout)["expanded"], plain)

    def test_a_binary_expands_to_text_that_runs_the_same(self):
        text = self.membrane("check", self.file("f.wasm", BINARY), "--expand").stdout
        self.assertEqual(self.membrane("run", self.file("f.wat", text), "--invoke", "f").stdout, "42\n")

    def test_a_missing_file(self):
        self.assert_refused(self.membrane("check", "gone.wat", code=2), "gone.wat", "path")

    def test_every_program_of_the_catalog_passes(self):
        for program in sorted((ROOT / "catalog").glob("*.wat")):
            self.membrane("check", program)


class PolicyExplain(CommandTest):
    def test_an_empty_policy_grants_nothing(self):
        text = self.membrane("policy", "explain").stdout
        for sentence in ("cannot reach the network", "cannot see any file", "no key-value store", "1,000,000,000",
                         "A Linux sandbox is limited to 2 GiB of memory", "10 min of wall-clock time of a command", "512 processes"):
            self.assertIn(sentence, text)

    def test_what_linux_refuses_is_not_explained_for_it(self):
        for policy, why in (("[kv]\n", "it has no host functions (kv) yet."), ("[ai]\n", "host functions (ai) yet"),
                            ("[limits]\nfuel = 1000\n", "it counts no instructions, so a limit of fuel would not be held")):
            last = self.membrane("policy", "explain", self.file("p.toml", policy)).stdout.splitlines()[-1]
            self.assertTrue(last.startswith("A Linux sandbox refuses this policy: "), last)
            self.assertIn(why, last)
        self.assertIn("A Linux sandbox is limited to", self.membrane("policy", "explain", "--dir", ".").stdout)

    def test_file_and_flags_add_up(self):
        policy = self.file("p.toml", '[limits]\nfuel = 5_000\n[[http]]\nmethods = ["GET"]\nurl = "https://example.org/*"\n')
        text = self.membrane("policy", "explain", policy, "--allow", "fs:read:./data", "--memory", "1MiB").stdout
        for part in ("GET", "https://example.org", "/data", "5,000 instructions", "1 MiB of linear memory"):
            self.assertIn(part, text)
        self.assertEqual(self.membrane("policy", "explain", "--policy", policy).stdout,
                         self.membrane("policy", "explain", policy).stdout)

    def test_json_is_a_policy_again(self):
        text = self.membrane("policy", "explain", "--allow", "kv", "--fuel", "77", "--json").stdout
        self.assertEqual(json.loads(text)["limits"]["fuel"], 77)
        self.assertEqual(self.membrane("policy", "explain", self.file("again.json", text), "--json").stdout, text)

    def test_the_examples_are_policies(self):
        for policy in sorted((ROOT / "examples" / "policies").glob("*.toml")):
            self.assertIn("limited to", self.membrane("policy", "explain", policy).stdout)

    def test_bad_files_are_refused_with_their_line(self):
        self.file("typo.toml", "[limits]\nfule = 3\n")
        self.assert_refused(self.membrane("policy", "explain", "typo.toml", code=2), "line 2", "fuel")
        self.assert_refused(self.membrane("policy", "explain", "gone.toml", code=2), "gone.toml", "path")
        done = self.membrane("policy", "explain", self.file("broken.toml", "[limits\n"), code=2)
        self.assertIn("line 1", done.stderr)

    def test_two_policies_are_refused(self):
        self.assert_refused(self.membrane("policy", "explain", "a.toml", "--policy", "b.toml", code=2), "exclude each other",
                            "--help")


class Spectest(CommandTest):
    GOOD = '(module (func (export "f") (result i32) (i32.const 1)))\n(assert_return (invoke "f") (i32.const 1))\n'

    def test_a_script_that_passes(self):
        text = self.membrane("spectest", self.file("good.wast", self.GOOD)).stdout
        self.assertEqual(text, "ok    good.wast: 2 passed\n2 passed, 0 failed, 0 skipped\n")

    def test_a_script_that_fails_names_its_line(self):
        self.file("bad.wast", self.GOOD + '(assert_return (invoke "f") (i32.const 2))\n')
        text = self.membrane("spectest", "bad.wast", code=1).stdout
        self.assertIn("bad.wast:3: assert_return", text)
        self.assertTrue(text.endswith("2 passed, 1 failed, 0 skipped\n"))

    def test_a_directory_is_all_its_scripts(self):
        self.file("a.wast", self.GOOD)
        self.file("b.wast", self.GOOD)
        self.assertTrue(self.membrane("spectest", ".").stdout.endswith("4 passed, 0 failed, 0 skipped\n"))

    def test_a_missing_resource(self):
        self.assert_refused(self.membrane("spectest", "gone.wast", code=2), "gone.wast", "path")
        (self.folder / "empty").mkdir()
        self.assert_refused(self.membrane("spectest", "empty", code=2), "no .wast", "directory")


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
