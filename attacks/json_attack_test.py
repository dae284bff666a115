"""Attempts against everything that parses JSON: values that nest deeper than a stack, count more than a
memory, or repeat more often than time allows, through every entry point."""

import json
import sqlite3
import unittest

from attack import Attack

DEPTH = 80_000

# Ends a turn with a forged result, bypassing the driver.
FORGED = """
import os
device = os.open('/dev/membrane', os.O_RDWR)
os.write(device, b'{"session":"result","outcome":"ok",' + %s + b'}')
answer = os.read(device, 300)
print(answer.decode())
"""

# Sends a request to the host, and prints the beginning of the answer.
ASKED = """
import os
device = os.open('/dev/membrane', os.O_RDWR)
os.write(device, %s)
print(os.read(device, 300).decode())
"""


class JsonAttack(Attack):
    def python(self, program, *options, **arguments):
        self.need("python")
        return self.membrane("run", self.file("try.py", program), "--wall", "60s", *options, **arguments)

    def errno_of(self, call, *options):
        """The errno that a call in WAT returns, with $deep as a text of opening brackets."""
        program = f"""(func $main (result i32) (local $errno i32) (local $deep i32) (local $deeper i32)
          (set $deep (call $str.repeat "[" {DEPTH}))
          (set $deeper (call $str.repeat "{{\\"a\\":" {DEPTH}))
          {call} (local.set $errno) (drop)
          (call $io.print_i32 $errno) 0)"""
        done = self.membrane("run", self.file("try.wat", program), *options)
        return done.stdout.decode().split()[0] if done.stdout.split() else str(done)

    def refused(self, done, errno=b"EINVAL"):
        self.assertIn(errno, done.stdout + done.stderr, str(done))

    # -- the device of a session ----------------------------------------------------------------------------------

    def test_a_forged_result_of_nested_arrays(self):
        self.refused(self.python(FORGED % f"""b'"value":{{"text/plain":' + b'['*{DEPTH} + b']'*{DEPTH} + b'}}'"""))

    def test_a_forged_result_of_nested_objects(self):
        self.refused(self.python(FORGED % f"""b'"value":' + b'{{"a":'*{DEPTH} + b'1' + b'}}'*{DEPTH}"""))

    def test_a_forged_error_that_nests(self):
        self.refused(self.python(FORGED % f"""b'"error":' + b'[{{"a":'*{DEPTH} + b'1' + b'}}]'*{DEPTH}"""))

    def test_forged_displays_that_nest_as_deep_as_a_reader_lets_them(self):
        self.python(FORGED % """b'"displays":[' + b'['*190 + b']'*190 + b']'""")

    def test_a_forged_display_of_a_hundred_thousand_kinds(self):
        done = self.python(FORGED % """b'"value":{' + b','.join(b'"a/%d":1' % i for i in range(100000)) + b'}'""", "--json")
        self.assert_cpu(done, 30)

    def test_a_call_with_nested_arguments(self):
        self.refused(self.python(ASKED % f"""b'{{"call":"str.length","arguments":' + b'['*{DEPTH}"""))

    def test_a_request_that_never_ends(self):
        self.refused(self.python(ASKED % """b'{"call":"' + b'a' * 1000000"""))

    def test_a_name_of_a_million_letters_that_is_to_be_corrected(self):
        done = self.python(ASKED % """b'{"call":"http.' + b'get' * 300000 + b'","arguments":[]}'""")
        self.refused(done, b"ENOENT")
        self.assert_cpu(done, 15)

    # -- functions that take JSON -----------------------------------------------------------------------------------

    def test_a_document_of_nested_arrays(self):
        self.assertEqual(self.errno_of('(call $json.length $deep "")'), "4")

    def test_a_document_of_nested_objects(self):
        self.assertEqual(self.errno_of('(call $json.get $deeper "")'), "4")

    def test_a_deep_value_that_is_put_at_the_end_of_a_deep_path(self):
        path = ".".join("a" * 150)
        value = r'(call $str.concat (call $str.repeat "[" 150) (call $str.repeat "]" 150))'
        self.assertEqual(self.errno_of(f'(call $json.set "{{}}" "{path}" {value})'), "4")

    def test_a_path_of_many_steps(self):
        self.assertEqual(self.errno_of('(call $json.set "{}" (call $str.repeat ".a" 100000) "1")'), "4")

    def test_a_list_to_join_that_nests(self):
        self.assertEqual(self.errno_of('(call $str.join $deep ",")'), "4")

    def test_headers_that_nest(self):
        self.assertEqual(self.errno_of('(call $http.request "GET" "https://example.org/" $deep "")', "--allow",
                                       "http:GET:https://example.org/*"), "4")

    def test_parameters_of_a_query_that_nest(self):
        sqlite3.connect(self.folder / "a.db").execute("CREATE TABLE t (x)").connection.commit()
        self.assertEqual(self.errno_of('(call $sql.query "a" "SELECT ?1" $deep)', "--allow", "sql:a:a.db"), "4")

    # -- files ----------------------------------------------------------------------------------------------------

    def refused_file(self, *command):
        self.membrane(*command, codes=(1, 2))

    def test_a_policy_of_nested_objects(self):
        policy = self.file("p.json", '{"http":' + "[" * DEPTH + "]" * DEPTH + "}")
        self.refused_file("policy", "explain", policy)

    def test_a_policy_in_toml_of_nested_arrays(self):
        policy = self.file("p.toml", "http = " + "[" * DEPTH + "]" * DEPTH)
        self.refused_file("policy", "explain", policy)

    def test_a_policy_in_toml_of_nested_tables(self):
        policy = self.file("p.toml", "a = " + "{a=" * DEPTH + "1" + "}" * DEPTH)
        self.refused_file("policy", "explain", policy)

    def test_a_policy_in_toml_with_a_key_of_many_dots(self):
        policy = self.file("p.toml", ".".join("a" * 400_000) + " = 1")
        self.refused_file("policy", "explain", policy)

    def test_a_policy_in_toml_with_the_header_of_a_table_of_many_dots(self):
        policy = self.file("p.toml", "[" + ".".join("a" * 400_000) + "]")
        self.refused_file("policy", "explain", policy)

    def test_a_journal_whose_results_nest(self):
        line = '{"sequence":1,"function":"kv.get","arguments_sha256":"","decision":"allowed","errno":0,"reason":"",' \
               '"grant":"","result":' + "[" * DEPTH + "]" * DEPTH + ',"latency_us":1,"chain":""}\n'
        self.file("run.journal", '{"membrane_journal":1}\n' + line)
        self.refused_file("run", "-e", "(func $main)", "--lang", "wat", "--replay", "run.journal")

    def test_a_recording_whose_tool_calls_nest(self):
        arguments = "[" * DEPTH + "]" * DEPTH
        self.file("deep.jsonl", '{"content":"","tool_calls":[{"name":"run_program","arguments":{"source":' + arguments + "}}]}\n")
        self.file("text.jsonl", json.dumps({"content": "", "tool_calls": [
            {"name": "run_program", "arguments": '{"source":' + arguments + "}"}]}) + "\n")
        self.refused_file("agent", "--language", "wat", "--replay", "deep.jsonl", "a task")
        self.refused_file("agent", "--language", "wat", "--replay", "text.jsonl", "a task")


if __name__ == "__main__":
    unittest.main()
