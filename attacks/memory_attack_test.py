"""Tries to make the host use more memory than the sandbox is allowed, or more time than was paid for: what a guest hands
to the host, what it makes the host keep, and what the host makes of it."""

import sqlite3
import unittest

from attack import MIB, Attack

LIMIT = 64 * MIB  # the memory limit where none is given

SHOW = "\nprint(answer[:300].decode(errors='replace'))\n"
ASK = """
import os
device = os.open('/dev/membrane', os.O_RDWR)
def ask(request):
    os.write(device, request)
    return os.read(device, 1 << 20)
"""


class MemoryAttack(Attack):
    def python(self, program, *options):
        """A run in Python, held to its memory limit beside one that does nothing."""
        self.need("python")
        nothing = self.membrane("run", self.file("nothing.py", "pass"), "--wall", "100s")
        done = self.membrane("run", self.file("try.py", program), "--wall", "100s", *options)
        self.assert_memory(done, LIMIT, beside=nothing)
        return done

    def wat(self, body, *options, codes=(0, 1, 2)):
        program = f"(func $main (result i32) (local $errno i32) {body} 0)"
        done = self.membrane("run", self.file("try.wat", program), "--wall", "100s", *options, codes=codes)
        self.assert_memory(done, LIMIT)
        return done

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
        self.wat('(call $json.quote (call $str.repeat "\\01" 9000000)) (local.set $errno) (drop)')

    def test_a_page_of_nothing_but_links(self):
        self.wat('(drop (call $str.html_links (call $str.repeat "<a href=x>y</a>" 1500000)))')

    def test_a_store_in_memory_that_is_filled(self):
        self.wat('(set $value (call $str.repeat "x" 1000000))'
                 '(for $i 0 100 (drop (call $kv.set (call $str.from_i32 $i) $value)))', "--allow", "kv")

    def test_refused_calls_with_long_arguments(self):
        done = self.wat('(set $url (call $str.concat "https://example.org/" (call $str.repeat "x" 100000)))'
                        '(for $i 0 900 (call $http.get $url) (local.set $errno) (drop))', "--json")
        self.assertLess(len(done.stdout + done.stderr), 4 * MIB)


if __name__ == "__main__":
    unittest.main()
