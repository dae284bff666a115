#!/usr/bin/env python3
"""C programs that read their input to the end, as languages (membrane languages add --frame eof), compared
with the same sources compiled for this machine.

    MEMBRANE_COMMAND=build/release/membrane cli/filter_language_test.py

Skipped without a clang for WebAssembly (packages clang-19, lld-19, wasi-libc, libclang-rt-19-dev-wasm32).
"""

import json
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMMAND = os.environ.get("MEMBRANE_COMMAND", str(ROOT / "build" / "release" / "membrane"))
# A clang without the linker of its own version cannot make programs.
CLANG = next(filter(None, (shutil.which("clang" + version) for version in ("-19", "")
                           if shutil.which("wasm-ld" + version))), None)

WC = r"""
#include <ctype.h>
#include <stdio.h>
int main(void) {
  long bytes = 0, lines = 0, words = 0;
  int in_word = 0;
  for (int c; (c = getchar()) != EOF; ++bytes) {
    lines += c == '\n';
    if (isspace(c)) in_word = 0;
    else if (!in_word) ++words, in_word = 1;
  }
  printf("%ld %ld %ld\n", lines, words, bytes);
  return 0;
}
"""

SORT = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int sign = 1;
static int compare(const void* a, const void* b) { return sign * strcmp(*(char* const*)a, *(char* const*)b); }
int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "-r") == 0) sign = -1;
  char** lines = NULL;
  size_t count = 0, room = 0;
  char* line = NULL;
  while (getline(&line, &room, stdin) > 0) {
    lines = realloc(lines, (count + 1) * sizeof *lines);
    lines[count++] = line;
    line = NULL, room = 0;
  }
  qsort(lines, count, sizeof *lines, compare);
  for (size_t i = 0; i < count; ++i) fputs(lines[i], stdout);
  return 0;
}
"""

# As grep: the pattern is an argument, and the code says whether it was found.
GREP = r"""
#include <stdio.h>
#include <string.h>
int main(int argc, char** argv) {
  if (argc < 2) return fputs("grep: no pattern\n", stderr), 2;
  char line[4096];
  int found = 0;
  while (fgets(line, sizeof line, stdin))
    if (strstr(line, argv[1])) fputs(line, stdout), found = 1;
  return found ? 0 : 1;
}
"""

# It does not read: it says something on both streams, and exits.
BYE = r"""
#include <stdio.h>
#include <stdlib.h>
int main(void) {
  printf("to stdout");
  fprintf(stderr, "to stderr\n");
  exit(42);
}
"""

# Keeps a diary in a file: what is read is added, and all of it is shown.
DIARY = r"""
#include <stdio.h>
int main(void) {
  char text[4096];
  size_t got = fread(text, 1, sizeof text, stdin);
  FILE* diary = fopen("/diary.txt", "a+");
  if (!diary) return 1;
  fwrite(text, 1, got, diary);
  rewind(diary);
  while ((got = fread(text, 1, sizeof text, diary)) > 0) fwrite(text, 1, got, stdout);
  return fclose(diary) != 0;
}
"""

TEXT = "".join(f"{(i * 7919) % 1000} line {i}\twith words\n" for i in range(500)) + "no newline at the end"


def has_clang():
    if CLANG is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "x.c")
        source.write_text("#include <stdio.h>\nint main(void) { return 0; }\n")
        return subprocess.run([CLANG, "--target=wasm32-wasi", str(source), "-o", folder + "/x.wasm"],
                              capture_output=True).returncode == 0


@unittest.skipUnless(has_clang(), "there is no clang for wasm32-wasi with its library")
class FilterLanguages(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("MEMBRANE_")}
        self.environment.update(MEMBRANE_LANGUAGES=str(self.folder / "languages"),
                                XDG_CACHE_HOME=str(self.folder / "cache"))
        (self.folder / "text").write_text(TEXT)

    def membrane(self, *arguments, stdin=""):
        return subprocess.run([COMMAND, *map(str, arguments)], input=stdin.encode(), capture_output=True,
                              cwd=self.folder, env=self.environment, timeout=300)

    def add(self, name, source, *options):
        """Compiles it for WebAssembly, as a language, and for this machine; returns the native program."""
        path = self.folder / f"{name}.c"
        path.write_text(source)
        module, native = self.folder / f"{name}.wasm", self.folder / f"{name}.native"
        subprocess.run([CLANG, "--target=wasm32-wasi", "-O1", path, "-o", module], check=True, capture_output=True)
        subprocess.run([shutil.which("cc") or CLANG, "-O1", path, "-o", native], check=True, capture_output=True)
        done = self.membrane("languages", "add", name, module, "--frame", "eof", *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return native

    def assert_same(self, name, native, text, *arguments):
        self.folder.joinpath("input").write_text(text)
        expected = subprocess.run([native, *arguments], input=text.encode(), capture_output=True)
        report = self.report(name, text, *arguments)
        self.assertEqual(report["stdout"].encode(), expected.stdout, report)
        self.assertEqual(report.get("exit_code", 0), expected.returncode, report)
        self.assertEqual(report["outcome"], "ok")

    def report(self, name, text, *arguments):
        self.folder.joinpath("input").write_text(text)
        done = self.membrane("run", "--json", "--lang", name, "input", *arguments)
        try:
            return json.loads(done.stdout)
        except json.JSONDecodeError:
            self.fail(f"{done}")

    def test_wc_counts_what_it_is_given_to_the_byte(self):
        native = self.add("wc", WC)
        for text in ("", "a", "two words\n", TEXT):
            self.assert_same("wc", native, text)

    def test_sort_has_its_lines_and_its_arguments(self):
        native = self.add("sort", SORT)
        for arguments in ((), ("-r",), ()):
            self.assert_same("sort", native, TEXT, *arguments)

    def test_grep_says_by_its_code_whether_it_found_something(self):
        native = self.add("grep", GREP)
        self.assert_same("grep", native, TEXT, "line 7")
        self.assert_same("grep", native, TEXT, "nowhere")
        self.assert_same("grep", native, TEXT)

    def test_one_that_does_not_read_has_its_output_and_its_code(self):
        native = self.add("bye", BYE)
        self.assert_same("bye", native, "whatever")
        self.assertEqual(self.report("bye", "")["stderr"], "to stderr\n")
        done = self.membrane("run", "--lang", "bye", "-e", "x")
        self.assertEqual(done.stdout, b"to stdout")
        self.assertIn(b"to stderr", done.stderr)
        self.assertNotEqual(done.returncode, 0)

    def test_files_stay_between_the_entries_of_a_session_and_go_with_a_step_back(self):
        self.add("diary", DIARY)
        done = self.membrane("repl", "--lang", "diary", stdin="one\n\n:fork\ntwo\n\n:back\nthree\n\n")
        lines = [line for line in done.stdout.decode().splitlines() if line in ("one", "two", "three")]
        self.assertEqual(lines, ["one", "one", "two", "one", "three"], done)

    def test_by_another_frame_it_is_refused_with_what_to_do(self):
        self.add("bye", BYE)
        self.membrane("languages", "remove", "bye")
        self.membrane("languages", "add", "bye", "bye.wasm")
        done = self.membrane("run", "--lang", "bye", "-e", "x")
        self.assertEqual(done.returncode, 2, done)
        self.assertIn(b"--frame eof", done.stderr)

    def test_what_ends_the_code_is_written_after_it(self):
        native = self.add("wc", WC, "--end", "\n")
        self.assertEqual(self.report("wc", "a b")["stdout"], "1 2 4\n")
        self.assertTrue(native.exists())


if __name__ == "__main__":
    unittest.main()
