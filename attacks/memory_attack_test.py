"""Attempts to make the host use more memory than the sandbox is allowed, or more time than was paid for:
what a guest passes to the host, what it makes the host keep, and what the host derives from it."""

import sqlite3
import unittest

from attack import MIB, Attack

LIMIT = 64 * MIB  # the memory limit where none is given, but in a language
SMALL = ("--memory", "64MiB", "--wall", "100s")

SHOW = "\nprint(answer[:300].decode(errors='replace'))\n"
ASK = """
import os
device = os.open('/dev/membrane', os.O_RDWR)
def ask(request):
    os.write(device, request)
    return os.read(device, 1 << 20)
"""


FILL = """
full = []
try:
    while True: full.append(b'x' * (1 << 20))
except MemoryError: pass
"""


class MemoryAttack(Attack):
    def python(self, program, *options):
        """A run in Python, held to its memory limit relative to one that does nothing."""
        self.need("python")
        for _ in range(2):  # the first may have to make the warm image
            nothing = self.membrane("run", self.file("nothing.py", "pass"), *SMALL, *options)
        done = self.membrane("run", self.file("try.py", program), *SMALL, *options)
        self.assert_memory(done, LIMIT, beside=nothing)
        return done

    def wat(self, body, *options, codes=(0, 1, 2)):
        program = f"(func $main (result i32) (local $errno i32) {body} 0)"
        done = self.membrane("run", self.file("try.wat", program), "--wall", "100s", *options, codes=codes)
        self.assert_memory(done, LIMIT)
        return done

    def module(self, text, *options, limit=LIMIT, command=("run",), codes=(0, 1, 2)):
        """A whole module, held to its memory limit."""
        file = self.file("try.wat", text) if command == ("run",) else text
        done = self.membrane(*command, file, "--wall", "100s", "--fuel", "1e11", *options, codes=codes)
        self.assert_memory(done, limit)
        return done

    def directory(self, files, name_bytes=240):
        """The name of a directory with that many empty files."""
        (self.folder / "data").mkdir()
        for i in range(files):
            (self.folder / "data" / str(i).zfill(name_bytes)).touch()
        return "data"

    # -- the device ----------------------------------------------------------------------------------------------------

    def test_thirty_megabytes_of_zeros_as_arguments(self):
        done = self.python(ASK + "answer = ask(b'{\"call\":\"str.length\",\"arguments\":[' + b'0,' * 15_000_000 + b'0]}')" + SHOW)
        self.assert_cpu(done, 10)

    def test_thirty_megabytes_of_zeros_under_a_wall_of_two_seconds(self):
        self.need("python")
        self.membrane("run", self.file("nothing.py", "pass"), "--wall", "100s")
        done = self.membrane("run", self.file("try.py", ASK + "ask(b'{\"session\":\"result\",\"a\":[' + b'0,' * 15_000_000 + b'0]}')"),
                             "--wall", "2s")
        self.assert_cpu(done, 8)

    def test_a_result_of_a_million_empty_objects(self):
        self.python(ASK + "answer = ask(b'{\"session\":\"result\",\"value\":[' + b'{},' * 1_000_000 + b'{}]}')" + SHOW)

    def test_a_result_of_one_long_text(self):
        self.python(ASK + "answer = ask(b'{\"session\":\"result\",\"value\":{\"text/plain\":\"' + b'x' * 20_000_000 + b'\"}}')" + SHOW)

    def test_a_file_with_a_name_of_twenty_megabytes(self):
        done = self.python(ASK + "answer = ask(b'{\"session\":\"file\",\"path\":\"/' + b'x' * 20_000_000 + b'\"}')" + SHOW)
        self.assertIn(b"E2BIG", done.stdout)

    def test_an_answer_that_grows_when_it_is_written_as_json(self):
        self.python(ASK + "answer = ask(b'{\"call\":\"str.repeat\",\"arguments\":[\"\\\\u0001\",60000000]}')" + SHOW)

    def test_answers_that_nobody_reads(self):
        self.python("""
import os
for _ in range(60):
    try: os.write(os.open('/dev/membrane', os.O_RDWR), b'{"call":"str.repeat","arguments":["x",2000000]}')
    except OSError as error: print(error); break
""")

    def test_answers_that_were_read_on_many_devices(self):
        self.python("""
import os
for _ in range(40):
    device = os.open('/dev/membrane', os.O_RDWR)
    os.write(device, b'{"call":"str.repeat","arguments":["x",6000000]}')
    while os.read(device, 1 << 20): pass
""")

    def test_files_in_memory_beside_a_full_memory(self):
        self.python("""
try:
    with open('/tmp/a', 'wb') as file:
        for _ in range(64): file.write(bytes(1 << 20))
except OSError as error: print(error)
kept = []
try:
    while True: kept.append(bytearray(1 << 20))
except MemoryError: print(len(kept))
""")

    def test_ten_thousand_files_with_long_names(self):
        self.python("""
import os
try:
    for i in range(10_000): open('/tmp/' + str(i).zfill(250), 'w').close()
except OSError as error: print(error)
""")

    def test_a_result_that_is_kept_beside_a_full_memory(self):
        self.python(ASK + """
ask(b'{"session":"result","outcome":"ok","value":[' + b'{},' * 580_000 + b'{}]}')
""" + FILL + "os._exit(0)")

    def test_listings_of_many_open_directories(self):
        self.python("import os\nfor i in range(9_000): open('/tmp/' + str(i).zfill(240), 'w').close()\n" + FILL + """
del full[-2:]
kept = []
try:
    for _ in range(200):
        kept.append(os.scandir('/tmp'))
        next(kept[-1])
except (OSError, MemoryError) as error: print(type(error).__name__)
""")

    def test_listings_of_many_open_directories_of_the_host_beside_a_full_memory(self):
        data = self.directory(9_000)
        self.python("import os" + FILL + """
del full[-2:]
kept = []
try:
    for _ in range(200):
        kept.append(os.scandir('/data'))
        next(kept[-1])
except (OSError, MemoryError) as error: print(type(error).__name__)
""", "--dir", f"{data}:/data:ro")

    def test_records_of_calls_with_long_paths(self):
        (self.folder / "data").mkdir()
        done = self.python("""
import os
path = '/data/' + '/'.join(['y' * 60] * 60)
for _ in range(10_000):
    try: os.stat(path)
    except OSError: pass
""" + FILL, "--dir", "data:/data:ro", "--host-calls", "1000000", "--fuel", "1e11", "--json")
        self.assertLess(len(done.stdout), 8 * MIB)

    # -- journals -------------------------------------------------------------------------------------------------------

    def large_file(self):
        (self.folder / "data").mkdir()
        with open(self.folder / "data" / "large", "wb") as file:  # in pieces: what this process has counts for its children
            for _ in range(16): file.write(bytes(range(256)) * (MIB // 256))

    READS_IN_PIECES = """
for _ in range(4):
    with open('/data/large', 'rb') as file:
        while file.read(1 << 20): pass
"""

    def test_a_journal_of_much_that_was_read(self):
        self.large_file()
        self.python(self.READS_IN_PIECES, "--dir", "data:/data:ro", "--journal", "run.journal")
        self.assertGreater((self.folder / "run.journal").stat().st_size, 60 * MIB)

    def test_a_replay_of_much_that_was_read(self):
        self.large_file()
        self.python(self.READS_IN_PIECES, "--dir", "data:/data:ro", "--journal", "run.journal")
        done = self.python(self.READS_IN_PIECES, "--dir", "data:/data:ro", "--replay", "run.journal")
        self.assertEqual(done.code, 0, str(done))

    def test_a_journal_of_whole_files_beside_a_full_memory(self):
        self.large_file()
        self.wat("(drop (memory.grow (i32.const 700)))"
                 "(memory.fill (i32.const 65536) (i32.const 1) (i32.const 45000000))"
                 '(call $fs.read "/data/large") (local.set $errno) (drop)',
                 "--allow", "fs:read:data:/data", "--journal", "run.journal")

    def test_a_journal_that_takes_longer_than_the_run_may(self):
        self.large_file()
        self.need("python")
        grants = ("--dir", "data:/data:ro", "--journal", "run.journal", "--memory", "64MiB")
        for _ in range(2):  # the first may have to make the warm image
            nothing = self.membrane("run", self.file("nothing.py", "pass"), "--wall", "100s", *grants)
        program = "while True:" + self.READS_IN_PIECES.replace("\n", "\n  ")
        done = self.membrane("run", self.file("try.py", program), "--wall", "3s", "--bytes-in", "1TiB", "--fuel", "1e15",
                             "--host-calls", "1000000000", *grants)
        self.assertIn(b"timed_out", done.stderr)
        self.assert_cpu(done, 8)
        self.assert_memory(done, LIMIT, beside=nothing)

    def test_a_replay_of_a_journal_that_takes_longer_to_read_than_the_run_may(self):
        with open(self.folder / "run.journal", "wb") as file:  # in pieces: what this process has counts for its children
            file.write(b'{"membrane_journal":1}\n{"sequence":1,"function":"')
            for _ in range(200): file.write(b"k" * MIB)
            file.write(b'"}\n')
        done = self.membrane("run", "-e", "(func $main)", "--lang", "wat", "--replay", "run.journal", "--wall", "1ms")
        self.assertIn(b"takes longer", done.stderr)
        self.assert_cpu(done, 2)

    # -- exceptions -----------------------------------------------------------------------------------------------------

    def keep_exceptions(self, count, parameters, values):
        self.module(f"""(module (tag $e {parameters}) (memory 1)
          (func (export "run") (local $n i32) (local $last exnref)
            (local.set $n (i32.const {count}))
            (loop $again
              (block $h (result exnref) (try_table (catch_all_ref $h) (throw $e {values})) (unreachable))
              (local.set $last)
              (local.set $n (i32.sub (local.get $n) (i32.const 1)))
              (br_if $again (local.get $n)))
            (loop $grow (br_if $grow (i32.ne (memory.grow (i32.const 1)) (i32.const -1))))
            (memory.fill (i32.const 0) (i32.const 1) (i32.mul (memory.size) (i32.const 65536)))))""")

    def test_many_kept_exceptions_beside_a_full_memory(self):
        self.keep_exceptions(1_390_000, "(param i64)", "(i64.const 1)")

    def test_many_kept_exceptions_that_carry_nothing(self):
        self.keep_exceptions(2_090_000, "", "")

    def test_few_kept_exceptions_that_carry_much(self):
        count = 16_700 // 4
        self.keep_exceptions(count, "(param " + "i64 " * 1_000 + ")", "(i64.const 1) " * 1_000)

    # -- snapshots ------------------------------------------------------------------------------------------------------

    def test_a_snapshot_with_large_sparse_files_that_is_thawed_under_a_smaller_limit(self):
        size = 60 * MIB
        text = f"""(module
          (import "wasi_snapshot_preview1" "path_open"
            (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
          (import "wasi_snapshot_preview1" "fd_allocate" (func $allocate (param i32 i64 i64) (result i32)))
          (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
          (memory (export "memory") 17)
          (data (i32.const 0) "tmp/a")
          (func (export "_start") (local $i i32)
            (drop (call $open (i32.const 3) (i32.const 0) (i32.const 0) (i32.const 5) (i32.const 1)
                              (i64.const 0x1FFFFFFF) (i64.const 0) (i32.const 0) (i32.const 16)))
            (if (call $allocate (i32.load (i32.const 16)) (i64.const 0) (i64.const {size})) (then (unreachable)))
            (loop (local.set $i (i32.add (local.get $i) (i32.const 1)))
                  (br_if 0 (i32.lt_u (local.get $i) (i32.const 1000000))))
            (i32.store (i32.const 20) (i32.const 65536))
            (i32.store (i32.const 24) (i32.const {MIB}))
            (local.set $i (i32.const {size // MIB}))
            (loop (drop (call $write (i32.load (i32.const 16)) (i32.const 20) (i32.const 1) (i32.const 28)))
                  (local.set $i (i32.sub (local.get $i) (i32.const 1)))
                  (br_if 0 (local.get $i)))))"""
        self.module(text, "--freeze-after", "1000000", "--snapshot", "try.snap", codes=(4,))
        small = 4 * MIB
        self.module("try.snap", "--memory", "4MiB", limit=small, command=("thaw",))

    # -- host functions ---------------------------------------------------------------------------------------------

    def test_parameters_of_a_query_by_the_million(self):
        sqlite3.connect(self.folder / "a.db").execute("CREATE TABLE t (x)").connection.commit()
        self.wat('(call $sql.query "a" "SELECT 1" (call $str.concat (call $str.repeat "[0" 1) (call $str.repeat ",0" 7000000)))'
                 "(local.set $errno) (drop) (call $io.print_i32 $errno)", "--allow", "sql:a:a.db")

    def test_headers_of_a_request_by_the_million(self):
        self.wat('(call $http.request "GET" "https://example.org/" (call $str.repeat "[0," 7000000) "")'
                 "(local.set $errno) (drop) (call $io.print_i32 $errno)", "--allow", "http:GET:https://example.org/*")

    def test_a_document_of_millions_of_values(self):
        self.wat('(call $json.length (call $str.concat (call $str.repeat "[0,[],{}," 1) (call $str.repeat "[],{}," 2000000)) "")'
                 "(local.set $errno) (drop) (call $io.print_i32 $errno)")

    def test_a_text_that_is_cut_into_millions(self):
        self.wat('(drop (call $str.split (call $str.repeat "," 900000) ","))')

    def test_a_text_that_is_repeated_and_replaced(self):
        self.wat('(drop (call $str.replace (call $str.repeat "a" 1000000) "a" (call $str.repeat "b" 60)))')

    def test_a_text_of_control_characters_that_is_quoted(self):
        self.wat('(drop (call $json.quote (call $str.repeat "\\01" 9000000)))')

    def test_a_document_of_many_values_before_the_memory_is_filled(self):
        self.wat('(call $json.length (call $str.concat (call $str.repeat "[0" 1) (call $str.concat (call $str.repeat ",{}" 450000) "]")) "")'
                 "(local.set $errno) (drop) (call $io.print_i32 $errno)"
                 "(loop $grow (br_if $grow (i32.ne (memory.grow (i32.const 1)) (i32.const -1))))"
                 "(memory.fill (i32.const 65536) (i32.const 1) (i32.sub (i32.mul (memory.size) (i32.const 65536)) (i32.const 65536)))")

    def test_a_page_of_nothing_but_links(self):
        self.wat('(drop (call $str.html_links (call $str.repeat "<a href=x>y</a>" 1500000)))')

    def test_a_store_in_memory_that_is_filled(self):
        self.wat('(set $value (call $str.repeat "x" 1000000))'
                 '(for $i 0 100 (drop (call $kv.set (call $str.from_i32 $i) $value)))', "--allow", "kv")

    def test_a_query_that_sorts_beside_all_else_that_the_host_keeps(self):
        sqlite3.connect(self.folder / "a.db").execute("CREATE TABLE t (x)").connection.commit()
        self.python("""
from membrane import kv, sql
with open('/tmp/a', 'wb') as file:
    for _ in range(6): file.write(b'y' * 1_000_000)
for i in range(8): kv.set(str(i), 'z' * 1_000_000)
""" + FILL + """
del full[-2:]
for rows in 3_000, 6_000, 12_000:
    try: sql.query('a', 'WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < ?1) '
                        'SELECT sum(length(x)) FROM (SELECT n || hex(zeroblob(500)) AS x FROM c ORDER BY x LIMIT ?1)', f'[{rows}]')
    except Exception as error: print(error)
""", "--allow", "kv", "--allow", "sql:a:a.db", "--fuel", "1e11")

    def test_refused_calls_with_long_arguments(self):
        done = self.wat('(set $url (call $str.concat "https://example.org/" (call $str.repeat "x" 100000)))'
                        '(for $i 0 900 (call $http.get $url) (local.set $errno) (drop))', "--json")
        self.assertLess(len(done.stdout + done.stderr), 4 * MIB)


if __name__ == "__main__":
    unittest.main()
