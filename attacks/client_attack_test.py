"""Attempts of a hostile client of the service: ambiguous requests, bodies that grow when they are read,
silent connections, and values that no client sends.

Every attempt must be answered with 4xx, or handled as what it plainly is; never with 5xx, and never with
silence. After each one the service still answers, and at the end it is no larger than allowed.
"""

import concurrent.futures
import gzip
import io
import json
import os
import re
import socket
import sys
import tarfile
import unittest
import zipfile
from pathlib import Path

from attack import COMMAND, LANGUAGES, MIB, SANITIZED, resident_bytes
from escapes import add_tries, stopped_by

os.environ.setdefault("MEMBRANE_COMMAND", COMMAND)
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "service"))
from service_testing import Service  # noqa: E402

PATIENCE_S = 120       # a service that has not answered by then hangs
MOST_GROWTH = 256 * MIB  # of the service, by all of a class's tries
ADD = '(module (func (export "run") (result i32) (i32.add (i32.const 2) (i32.const 40))))'
PRINTS = '(func (export "run") (while 1 (call $io.print (string "{}"))))'.format("x" * 1000)


class Client(unittest.TestCase):
    FLAGS = ("--log-level", "info")

    @classmethod
    def setUpClass(cls):
        cls.service = Service(*cls.FLAGS, environment={"MEMBRANE_LANGUAGES": str(LANGUAGES)})
        cls.sandbox = cls.service.create("wat")
        cls.service.exec(cls.sandbox, ADD)
        cls.memory_before = cls.memory()

    @classmethod
    def tearDownClass(cls):
        grown = cls.memory() - cls.memory_before
        code = cls.service.stop()
        cls.service.log.close()
        assert code == 0, f"the service ended with {code}"
        assert SANITIZED or grown < MOST_GROWTH, f"the service has grown by {grown / MIB:.0f} MiB"

    @classmethod
    def memory(cls):
        return resident_bytes(cls.service.process.pid)

    def tearDown(self):
        self.assertEqual(self.service.request("GET", "/v1/sandboxes?limit=1").status, 200)

    def connect(self):
        connection = socket.create_connection((self.service.host, self.service.port), PATIENCE_S)
        self.addCleanup(connection.close)
        return connection

    def raw(self, request):
        """The statuses of all answers to these bytes, until the service closes the connection, and the
        answers."""
        request = request.replace(b"TOKEN", self.service.token.encode()).replace(b"SANDBOX", self.sandbox.encode())
        connection = self.connect()
        try:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it has closed already
        answer = b""
        try:
            while piece := connection.recv(1 << 16):
                answer += piece
        except ConnectionResetError:
            pass
        return [int(status) for status in re.findall(rb"HTTP/1\.[01] (\d{3}) [A-Z]", answer)], answer

    def says(self, request, *statuses):
        """The answers have these statuses: each a number, or a list of allowed ones."""
        got, answer = self.raw(request)
        self.assertEqual(len(got), len(statuses), answer[:2000])
        for each, wanted in zip(got, statuses):
            self.assertIn(each, [wanted] if isinstance(wanted, int) else wanted, answer[:2000])
        return answer

    def refuses(self, request, *allowed):
        """One answer, which is 4xx, or the connection is closed without one."""
        got, answer = self.raw(request)
        self.assertLessEqual(len(got), 1, answer[:2000])
        for status in got:
            self.assertIn(status, allowed or range(400, 500), answer[:2000])

    def ask(self, method, path, body=None, headers=None, **more):
        answer = self.service.request(method, path.replace("SANDBOX", self.sandbox), body, headers, **more)
        self.assertLess(answer.status, 500, answer.body[:2000])
        return answer

    def is_refused(self, method, path, body=None, headers=None):
        answer = self.ask(method, path, body, headers)
        self.assertIn(answer.status, range(400, 500), answer.body[:2000])
        self.assertIn("error", answer.json)


def post(body, *headers, path="/v1/sandboxes", length=True):
    lines = [f"POST {path} HTTP/1.1", "Host: x", "Authorization: Bearer TOKEN", *headers]
    if length:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def get(path="/v1/sandboxes", *headers):
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: x", "Authorization: Bearer TOKEN", *headers, "", ""]).encode("latin-1")


SMUGGLED = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
MADE = b'{"template":"wat","labels":["smuggled"]}'


# -- two readings --------------------------------------------------------------------------------------------------

class Smuggling(Client):
    pass


def chunked(*chunks, headers=("Transfer-Encoding: chunked",)):
    return post(b"".join(chunks), *headers, length=False)


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


add_tries(Smuggling, [
    ("a_length_beside_chunks", "http_parser",
     post(b"0\r\n\r\n" + SMUGGLED, "Content-Length: 5", "Transfer-Encoding: chunked", length=False)),
    ("chunks_beside_a_length", "http_parser",
     post(b"0\r\n\r\n" + SMUGGLED, "Transfer-Encoding: chunked", "Content-Length: 5", length=False)),
    ("two_lengths", "http_parser", post(MADE + SMUGGLED, f"Content-Length: {len(MADE)}", "Content-Length: 5", length=False)),
    ("two_lengths_in_one", "http_parser", post(MADE + SMUGGLED, f"Content-Length: {len(MADE)}, 5", length=False)),
    ("a_length_with_a_sign", "http_parser", post(MADE, f"Content-Length: +{len(MADE)}", length=False)),
    ("a_length_below_nothing", "http_parser", post(MADE, "Content-Length: -1", length=False)),
    ("a_length_in_hex", "http_parser", post(MADE, f"Content-Length: 0x{len(MADE):x}", length=False)),
    ("a_length_beyond_all_numbers", "http_parser", post(MADE, "Content-Length: 18446744073709551617", length=False)),
    ("a_length_of_words", "http_parser", post(MADE, "Content-Length: forty", length=False)),
    ("chunks_by_another_name", "http_parser", chunked(chunk(MADE), b"0\r\n\r\n", headers=("Transfer-Encoding: xchunked",))),
    ("chunks_and_no_chunks", "http_parser",
     chunked(chunk(MADE), b"0\r\n\r\n", SMUGGLED, headers=("Transfer-Encoding: chunked, identity",))),
    ("chunks_twice", "http_parser",
     chunked(chunk(MADE), b"0\r\n\r\n", headers=("Transfer-Encoding: chunked", "Transfer-Encoding: gzip"))),
    ("a_space_before_the_colon", "http_parser",
     chunked(chunk(MADE), b"0\r\n\r\n", headers=("Transfer-Encoding : chunked", "Content-Length: 5"))),
    ("chunks_in_http_1_0", "http_parser", chunked(chunk(MADE), b"0\r\n\r\n", SMUGGLED).replace(b"HTTP/1.1", b"HTTP/1.0", 1)),
    ("a_folded_header", "http_parser",
     chunked(chunk(MADE), b"0\r\n\r\n", headers=("X: y\r\n Transfer-Encoding: chunked\r\nTransfer-Encoding:\r\n chunked", "Content-Length: 3"))),
    ("a_vertical_tab_in_the_encoding", "http_parser",
     chunked(chunk(MADE), b"0\r\n\r\n", headers=("Transfer-Encoding: \x0bchunked",))),
    ("lines_that_end_in_a_newline_alone", "http_parser", get().replace(b"\r\n", b"\n")),
    ("a_carriage_return_in_a_value", "http_parser", get("/v1/sandboxes", "X: a\rY: b")),
    ("a_nul_in_a_value", "http_parser", get("/v1/sandboxes", "X: a\0b")),
    ("a_nul_in_the_target", "http_parser", get("/v1/sandboxes\0")),
    ("a_header_without_a_name", "http_parser", get("/v1/sandboxes", ": value")),
    ("a_header_without_a_colon", "http_parser", get("/v1/sandboxes", "value")),
    ("a_space_in_a_headers_name", "http_parser", get("/v1/sandboxes", "X Y: value")),
    ("a_chunk_of_a_negative_size", "http_parser", chunked(b"-5\r\n", MADE, b"\r\n0\r\n\r\n")),
    ("a_chunk_whose_size_has_a_prefix", "http_parser", chunked(b"0x28\r\n", MADE, b"\r\n0\r\n\r\n")),
    ("a_chunk_beyond_all_numbers", "http_parser", chunked(b"FFFFFFFFFFFFFFFFF\r\n", MADE, b"\r\n0\r\n\r\n")),
    ("a_chunk_that_wraps_around", "http_parser", chunked(b"10000000000000028\r\n", MADE, b"\r\n0\r\n\r\n")),
    ("a_chunk_without_a_size", "http_parser", chunked(b"\r\n", MADE, b"\r\n0\r\n\r\n")),
    ("a_chunk_without_its_end", "http_parser", chunked(b"28\r\n", MADE, b"0\r\n\r\n")),
    ("a_chunk_that_ends_in_a_newline_alone", "http_parser", chunked(b"28\n", MADE, b"\n0\n\n")),
    ("a_method_that_there_is_not", "http_parser", get().replace(b"GET", b"G\x01T")),
    ("a_version_that_there_is_not", "http_parser", get().replace(b"HTTP/1.1", b"HTTP/9.9")),
    ("a_request_without_a_version", "http_parser", b"GET /v1/sandboxes\r\n\r\n"),
    ("the_preface_of_http_2", "http_parser", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"),
    ("a_hello_of_tls", "http_parser", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 500),
    ("nothing_but_newlines", "http_parser", b"\r\n" * 10_000),
    ("nothing_but_zeros", "http_parser", bytes(100_000)),
], Client.refuses)

add_tries(Smuggling, [
    ("a_request_in_the_body_of_another", "http_parser", get("/health", f"Content-Length: {len(SMUGGLED)}") +
     SMUGGLED, 400),
    ("an_extension_of_a_chunk", "http_parser", chunked(b"28;a=b\r\n", MADE, b"\r\n0\r\n\r\n"), 201),
    ("a_token_in_a_trailer", "tokens",
     chunked(chunk(MADE), b"0\r\nAuthorization: Bearer TOKEN\r\n\r\n").replace(b"Authorization: Bearer TOKEN\r\nT", b"T", 1), 401),
    ("a_thousand_requests_at_once", "http_limits", get("/health") * 1000, *[200] * 1000),
    ("no_host", "http_parser", get().replace(b"Host: x\r\n", b""), 400),
    ("two_hosts", "http_parser", get("/v1/sandboxes", "Host: y"), 400),
    ("an_upgrade_to_http_2", "http_parser",
     get("/health", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"), 200),
    ("an_upgrade_to_websocket", "http_parser", get("/health", "Connection: Upgrade", "Upgrade: websocket"), 200),
    ("an_expectation_that_nobody_has", "http_parser", post(MADE, "Expect: 200-ok"), [201, 400, 417]),
    ("a_target_with_a_host", "routes", get("http://169.254.169.254/latest/"), 400),
    ("a_tunnel", "routes", get("169.254.169.254:80").replace(b"GET", b"CONNECT"), [400, 404, 405]),
    ("a_target_that_is_a_star", "routes", get("*").replace(b"GET", b"OPTIONS"), [400, 404, 405]),
    ("a_trace", "routes", get().replace(b"GET", b"TRACE"), [400, 404, 405]),
    ("another_method_in_a_header", "routes", get("/v1/sandboxes/SANDBOX", "X-HTTP-Method-Override: DELETE"), 200),
], Client.says)


# -- too much ------------------------------------------------------------------------------------------------------

class Floods(Client):
    FLAGS = ("--log-level", "silent")

    def says_too_much(self, request):
        self.refuses(request)

    @stopped_by("http_limits")
    def test_connections_that_say_half_a_head(self):
        connections = [self.connect() for _ in range(200)]
        for connection in connections:
            connection.sendall(b"GET /v1/sandboxes HTTP/1.1\r\nHost: x\r\nX: ")
        self.assertEqual(self.ask("GET", "/health").status, 200)

    @stopped_by("http_limits")
    def test_connections_that_owe_a_body(self):
        for _ in range(100):
            self.connect().sendall(post(b"", "Content-Length: 100000", length=False)
                                   .replace(b"TOKEN", self.service.token.encode()))
        self.assertEqual(self.ask("GET", "/health").status, 200)

    @stopped_by("http_limits")
    def test_more_connections_than_it_takes(self):
        connections = []
        try:
            for _ in range(1100):
                connections.append(socket.create_connection((self.service.host, self.service.port), PATIENCE_S))
        except OSError:
            pass
        finally:
            for connection in connections:
                connection.close()
        self.assertEqual(self.ask("GET", "/health").status, 200)

    @stopped_by("http_limits")
    def test_events_that_nobody_reads(self):
        before = self.memory()
        body = json.dumps({"code": PRINTS}).encode()
        request = post(body, "Accept: text/event-stream", path=f"/v1/sandboxes/{self.sandbox}/exec")
        for _ in range(30):
            self.connect().sendall(request.replace(b"TOKEN", self.service.token.encode()))
        self.assertEqual(self.ask("GET", "/health").status, 200)
        self.ask("POST", "/v1/sandboxes/SANDBOX/exec", {"code": ADD})  # after those before it
        if not SANITIZED:
            self.assertLess(self.memory() - before, MOST_GROWTH / 2)

    @stopped_by("http_limits")
    def test_answers_that_nobody_reads(self):
        before = self.memory()
        for _ in range(50):
            self.connect().sendall(get("/openapi.json") * 200)
        self.assertEqual(self.ask("GET", "/health").status, 200)
        if not SANITIZED:
            self.assertLess(self.memory() - before, MOST_GROWTH / 2)

    @stopped_by("http_limits")
    def test_an_extension_of_a_chunk_without_end(self):
        self.assert_bounded(chunked(b"28;a="), b"x" * (1 << 20), 200)

    @stopped_by("http_limits")
    def test_trailers_without_end(self):
        self.assert_bounded(chunked(chunk(MADE), b"0\r\n"), b"X: " + b"x" * 1000 + b"\r\n", 200_000)

    @stopped_by("http_limits")
    def test_chunks_without_end(self):
        self.assert_bounded(chunked(), chunk(b" " * (1 << 20)), 200)

    def assert_bounded(self, begin, piece, times):
        """The service stops reading, and has not grown by what was sent."""
        before = self.memory()
        connection = self.connect()
        connection.sendall(begin.replace(b"TOKEN", self.service.token.encode()))
        is_cut_off = False
        try:
            for _ in range(times):
                connection.sendall(piece)
            connection.shutdown(socket.SHUT_WR)
            answer = connection.recv(1 << 16)
            is_cut_off = answer == b"" or b" 4" in answer[:13]
        except OSError:
            is_cut_off = True
        self.assertTrue(is_cut_off)
        if not SANITIZED:
            self.assertLess(self.memory() - before, 64 * MIB)

    @stopped_by("idempotency")
    def test_answers_that_are_kept_for_keys_without_end(self):
        before = self.memory()
        code = {"code": '(func (export "run") (local $i i32) (while (i32.lt_u (local.get $i) (i32.const 500))'
                        f' (call $io.print (string "{"x" * 1000}")) (local.set $i (i32.add (local.get $i) (i32.const 1)))))'}
        for number in range(300):
            self.ask("POST", "/v1/sandboxes/SANDBOX/exec", code, {"Idempotency-Key": f"flood-{number}"})
        if not SANITIZED:
            self.assertLess(self.memory() - before, 96 * MIB)


add_tries(Floods, [
    ("a_header_of_a_megabyte", "http_limits", get("/v1/sandboxes", "X: " + "x" * MIB)),
    ("headers_by_the_thousand", "http_limits", get("/v1/sandboxes", *["X: y"] * 20_000)),
    ("a_target_of_a_megabyte", "http_limits", get("/v1/" + "x" * MIB)),
    ("a_target_of_ten_thousand_bytes", "http_limits", get("/v1/" + "x" * 10_000)),
    ("a_path_of_a_thousand_segments", "http_limits", get("/v1" + "/x" * 1000)),
    ("a_query_of_a_thousand_values", "http_limits", get("/v1/sandboxes?" + "x=y&" * 1000)),
    ("a_cookie_of_a_megabyte", "http_limits", get("/v1/sandboxes", "Cookie: " + "x" * MIB)),
    ("a_method_of_a_megabyte", "http_limits", get().replace(b"GET", b"X" * MIB)),
    ("a_body_of_a_terabyte", "http_limits", post(b"x", "Content-Length: 1099511627776", length=False)),
    ("a_body_that_is_too_large", "http_limits", post(b"x" * MIB, "Content-Length: 80000000", length=False)),
], Floods.says_too_much)


# -- JSON ----------------------------------------------------------------------------------------------------------

class Json(Client):
    def is_refused_as_body(self, body):
        self.refuses(post(body, "Content-Type: application/json"))

    @stopped_by("schema")
    def test_every_type_in_every_place(self):
        """Each member of each body that openapi.json describes, with each type of JSON."""
        document = self.ask("GET", "/openapi.json").json
        values = [None, True, -1, 1e308, 10 ** 30, "", "x" * 10_000, "\u202e\x1b", [], [[]], [None], {}, {"x": {"x": None}}]

        def resolve(schema):
            while "$ref" in schema:
                at = document
                for part in schema["$ref"].split("/")[1:]:
                    at = at[part]
                schema = at
            return schema

        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                content = operation.get("requestBody", {}).get("content", {}) if isinstance(operation, dict) else {}
                if "application/json" not in content:
                    continue
                where = path.replace("{sandbox}", self.sandbox)
                where = re.sub(r"\{\w+\}", "none", where)
                for name in resolve(content["application/json"]["schema"]).get("properties", {}):
                    for value in values:
                        body = {"template": "wat", "code": ADD, name: value} if "sandboxes" in path else {name: value}
                        with self.subTest(method=method, path=path, name=name, value=str(value)[:40]):
                            self.ask(method.upper(), where, body)


add_tries(Json, [
    ("an_array_of_great_depth", "json_reader", b"[" * 1_000_000),
    ("an_object_of_great_depth", "json_reader", b'{"template":' * 500_000),
    ("a_depth_that_is_closed", "json_reader", b'{"template":"wat","metadata":' + b"[" * 5_000 + b"]" * 5_000 + b"}"),
    ("millions_of_values", "json_reader", b'{"template":"wat","labels":[' + b"0," * 3_000_000 + b"0]}"),
    ("a_number_of_a_million_digits", "json_reader", b'{"template":"wat","ttl_s":' + b"9" * 1_000_000 + b"}"),
    ("a_number_beyond_all_numbers", "json_reader", b'{"template":"wat","ttl_s":1e999999}'),
    ("a_number_that_is_none", "json_reader", b'{"template":"wat","ttl_s":NaN}'),
    ("the_same_name_twice", "json_reader", b'{"template":"cobol","template":"wat","template":"cobol"}'),
    ("bytes_that_are_no_utf8", "json_reader", b'{"template":"wat","labels":["\xff\xfe"]}'),
    ("utf8_that_is_too_long", "json_reader", b'{"template":"wat","labels":["\xc0\xaf"]}'),
    ("half_a_surrogate", "json_reader", b'{"template":"wat","labels":["\\ud800"]}'),
    ("text_in_utf16", "json_reader", '{"template":"wat"}'.encode("utf-16")),
    ("a_mark_of_the_byte_order", "json_reader", b'\xff\xfe{"template":"wat"}'),
    ("more_after_the_end", "json_reader", b'{"template":"wat"}{"template":"wat"}'),
    ("nothing", "json_reader", b""),
    ("a_list_in_the_place_of_an_object", "schema", b"[]"),
    ("null_in_the_place_of_an_object", "schema", b"null"),
    ("a_member_that_there_is_not", "schema", b'{"template":"wat","__proto__":{"admin":true}}'),
    ("a_name_of_a_megabyte", "schema", b'{"template":"wat","metadata":{"' + b"x" * MIB + b'":"y"}}'),
    ("a_time_to_live_beyond_all_time", "schema", b'{"template":"wat","ttl_s":9223372036854775807}'),
    ("a_time_to_live_before_now", "schema", b'{"template":"wat","ttl_s":-1}'),
    ("labels_by_the_thousand", "schema", json.dumps({"template": "wat", "labels": ["x"] * 10_000}).encode()),
    ("a_variable_with_an_equals_sign", "schema", b'{"template":"wat","env":{"A=B":"c"}}'),
    ("a_variable_with_a_nul", "schema", b'{"template":"wat","env":{"A":"b\\u0000c"}}'),
    ("memory_beyond_the_machines", "policies", b'{"template":"wat","policy":{"limits":{"memory":"1TiB"}}}'),
], Json.is_refused_as_body)

add_tries(Json, [
    ("a_body_that_says_it_is_compressed", "schema", "POST", "/v1/sandboxes", gzip.compress(bytes(50 * MIB)),
     {"Content-Type": "application/json", "Content-Encoding": "gzip"}),
    ("a_body_of_another_type", "schema", "POST", "/v1/sandboxes", MADE, {"Content-Type": "text/xml"}),
    ("a_form", "schema", "POST", "/v1/sandboxes", b"template=wat", {"Content-Type": "application/x-www-form-urlencoded"}),
    ("a_limit_below_nothing", "schema", "GET", "/v1/sandboxes?limit=-1"),
    ("a_limit_beyond_all_numbers", "schema", "GET", "/v1/sandboxes?limit=99999999999999999999"),
    ("a_state_that_there_is_not", "schema", "GET", "/v1/sandboxes?state=root"),
    ("an_etag_that_is_none", "schema", "PATCH", "/v1/sandboxes/SANDBOX", b"{}",
     {"Content-Type": "application/json", "If-Match": "\"18446744073709551616\""}),
    ("forks_without_end", "schema", "POST", "/v1/sandboxes/SANDBOX/fork", b'{"count":1000000}',
     {"Content-Type": "application/json"}),
    ("an_empty_key", "idempotency", "POST", "/v1/sandboxes", MADE, {"Content-Type": "application/json", "Idempotency-Key": ""}),
    ("a_key_of_ten_thousand_bytes", "idempotency", "POST", "/v1/sandboxes", MADE,
     {"Content-Type": "application/json", "Idempotency-Key": "x" * 10_000}),
], Client.is_refused)


# -- paths and tokens ----------------------------------------------------------------------------------------------

class Doors(Client):
    def leads_nowhere(self, path, *headers):
        """Without a token, or with an invalid one, nothing that needs one is answered."""
        request = "\r\n".join([f"GET {path} HTTP/1.1", "Host: x", *headers, "", ""]).encode("latin-1")
        got, answer = self.raw(request)
        self.assertEqual(len(got), 1, answer[:2000])
        self.assertIn(got[0], (400, 401, 403, 404, 405, 414, 431), answer[:2000])
        self.assertNotIn(self.sandbox.encode(), answer.split(b"\r\n\r\n", 1)[-1])


add_tries(Doors, [(name, "routes", path) for name, path in [
    ("dots_after_what_is_open", "/health/../v1/sandboxes"),
    ("dots_in_escapes", "/health/%2e%2e/v1/sandboxes"),
    ("dots_in_escapes_of_escapes", "/health/%252e%252e/v1/sandboxes"),
    ("dots_in_overlong_utf8", "/health/%c0%ae%c0%ae/v1/sandboxes"),
    ("slashes_in_escapes", "/health%2f..%2fv1%2fsandboxes"),
    ("backslashes", "/health\\..\\v1\\sandboxes"),
    ("two_slashes", "//v1/sandboxes"),
    ("a_slash_at_the_end", "/v1/sandboxes/"),
    ("a_parameter_of_a_path", "/v1/sandboxes;x=y"),
    ("a_nul_in_an_escape", "/v1/sandboxes%00"),
    ("half_an_escape", "/v1/sandboxes%2"),
    ("a_fragment", "/v1/sandboxes#x"),
    ("letters_of_another_case", "/V1/Sandboxes"),
    ("a_path_without_a_slash", "v1/sandboxes"),
    ("files_of_the_machine", "/../../../../etc/passwd"),
    ("the_services_own_state", "/v1/../state.db"),
]], Doors.leads_nowhere)
add_tries(Doors, [(name, "tokens", "/v1/sandboxes", *headers) for name, *headers in [
    ("no_token",),
    ("an_empty_token", "Authorization: Bearer "),
    ("a_token_in_a_cookie", "Cookie: token=TOKEN"),
    ("a_token_as_a_password", "Authorization: Basic TOKEN"),
    ("a_token_with_more_behind_it", "Authorization: Bearer TOKENa"),
    ("a_token_with_a_space_in_it", "Authorization: Bearer mbr_ aaaaaaaa"),
    ("two_tokens_the_first_of_which_is_none", "Authorization: Bearer mbr_x", "Authorization: Bearer TOKEN"),
    ("two_kinds_the_first_of_which_is_none", "Authorization: Bearer mbr_x", "X-API-Key: TOKEN"),
    ("a_token_of_ten_thousand_bytes", "Authorization: Bearer " + "mbr_" + "a" * 10_000),
    ("a_token_of_a_wildcard", "Authorization: Bearer mbr_%"),
    ("a_token_that_injects_sql", "Authorization: Bearer mbr_' OR '1'='1"),
    ("an_internal_address_that_is_claimed", "X-Forwarded-For: 127.0.0.1", "X-Real-IP: 127.0.0.1"),
]], Doors.leads_nowhere)
add_tries(Doors, [("a_token_in_the_query", "tokens", "/v1/sandboxes?token=TOKEN&access_token=TOKEN")], Doors.leads_nowhere)


class Words(Client):
    """A client's text ends up in logs, answers and events."""

    @stopped_by("tokens")
    def test_beginnings_of_the_token(self):
        for length in range(0, len(self.service.token)):
            self.assertEqual(self.ask("GET", "/v1/sandboxes", token=self.service.token[:length] or "x").status, 401)

    @stopped_by("log")
    def test_lines_of_the_log(self):
        words = "\r\nHTTP/1.1 200 OK\r\n\r\n{\"level\":\"error\"}\x1b[2J\u202e"
        self.ask("POST", "/v1/sandboxes", {"template": words, "labels": [words], "metadata": {words: words}})
        for path in ("/v1/sandboxes/%0d%0a%7b%22forged%22%3a1%7d", "/v1/%1b%5b2J", "/%0aforged", "/v1/sandboxes?label=%0d%0a"):
            self.ask("GET", path)
        self.raw(get("/v1/sandboxes", "traceparent: x\ty", "X-Request-Id: a b\"}{"))
        for line in self.service.log_text().splitlines():
            self.assertIsInstance(json.loads(line), dict)
            self.assertNotIn("\x1b", line)

    @stopped_by("log")
    def test_headers_of_the_answer(self):
        for name, value in (("X-Request-Id", "a%0d%0aSet-Cookie: x"), ("traceparent", "00-%0d%0a-x-01"),
                            ("X-Request-Id", "x" * 1000), ("X-Request-Id", "\u00e9")):
            _, answer = self.raw(get("/v1/sandboxes/none", f"{name}: {value}"))
            self.assertNotIn(b"Set-Cookie", answer)
            self.assertNotIn(value.encode("latin-1"), answer)

    @stopped_by("log")
    def test_a_page_of_another_origin(self):
        answer = self.ask("GET", "/v1/sandboxes", None, {"Origin": "https://evil.example", "Host": "evil.example"})
        self.assertFalse([name for name in answer.headers if name.lower().startswith("access-control-")])
        answer = self.ask("OPTIONS", "/v1/sandboxes", None,
                          {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"})
        self.assertFalse([name for name in answer.headers if name.lower().startswith("access-control-")])

    @stopped_by("idempotency")
    def test_a_key_for_two_requests(self):
        key = {"Idempotency-Key": "one-key"}
        first = self.ask("POST", "/v1/sandboxes", {"template": "wat"}, key)
        self.assertEqual(self.ask("POST", "/v1/sandboxes", {"template": "wat", "labels": ["x"]}, key).status, 422)
        self.assertEqual(self.ask("POST", "/v1/sandboxes/SANDBOX/fork", {"count": 1}, key).status, 422)
        self.assertEqual(self.ask("POST", "/v1/sandboxes", {"template": "wat"}, key).json["id"], first.json["id"])

    @stopped_by("idempotency")
    def test_a_key_at_once_from_many(self):
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(lambda _: self.ask("POST", "/v1/sandboxes", {"template": "wat"},
                                                       {"Idempotency-Key": "at-once"}), range(32)))
        self.assertEqual(len({answer.json["id"] for answer in answers if answer.status == 201}), 1)
        self.assertLessEqual({answer.status for answer in answers}, {201, 409})

    @stopped_by("routes")
    def test_values_that_no_id_has(self):
        for identity in ("..", "%2e%2e", "*", "%25", "'%20or%201=1--", "sbx" + "a" * 500, "%F0%9F%92%A9", "-1", "null"):
            for path in ("", "/execs", "/files?path=/x", "/policy", "/contexts"):
                self.assertIn(self.ask("GET", f"/v1/sandboxes/{identity}{path}").status, (400, 404, 414))

    @stopped_by("schema")
    def test_events_from_where_there_are_none(self):
        identity = self.service.exec(self.sandbox, ADD)["exec_id"]
        for after in ("-1", "4294967296", "99999999999999999999", "x", "1e3", "%20"):
            self.assertIn(self.ask("GET", f"/v1/sandboxes/SANDBOX/execs/{identity}/events?after={after}").status, (400, 422))


# -- archives and parts --------------------------------------------------------------------------------------------

def tar(*entries, form=tarfile.PAX_FORMAT):
    """A tar archive of TarInfo objects, or (TarInfo, bytes)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for entry in entries:
            info, data = entry if isinstance(entry, tuple) else (entry, None)
            archive.addfile(info, io.BytesIO(data) if data is not None else None)
    return out.getvalue()


def entry(name, data=None, **fields):
    info = tarfile.TarInfo(name)
    for field, value in fields.items():
        setattr(info, field, value)
    if data is None:
        return info
    info.size = len(data)
    return info, data


def zipped(name):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(name, "x")
    return out.getvalue()


def claiming(size):
    """A file of the tar archive that claims this size, and has no bytes."""
    info = tarfile.TarInfo("x")
    info.size = size
    return info.tobuf(tarfile.GNU_FORMAT)


def long_names(count, of=entry("y"), kind=tarfile.GNUTYPE_LONGNAME):
    """A million bytes of name, or target, for each of so many entries; with of=None, all of them for one."""
    name = entry("././@LongLink", size=1_000_001, type=kind).tobuf(tarfile.GNU_FORMAT)
    file = of.tobuf(tarfile.GNU_FORMAT) if of else b""
    names = (name + (b"%06d" % i + b"n" * 999_994).ljust(1_000_448, b"\0") + file for i in range(count))
    return b"".join(names) + entry("y").tobuf(tarfile.GNU_FORMAT) + bytes(1024)


def many_holes(count):
    """A sparse file whose map has so many entries, all of them empty."""
    return tar(entry("y", (b"%d\n" % count + b"0\n0\n" * count).ljust(-(-(4 * count + 16) // 512) * 512, b"\0"),
                     pax_headers={"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "0",
                                  "GNU.sparse.name": "y"}))


class Archives(Client):
    """Unpacked into a JavaScript sandbox."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.has_files = cls.service.has_template("javascript")
        if cls.has_files:
            cls.sandbox = cls.service.create("javascript")
            cls.memory_before = cls.memory()

    def setUp(self):
        if not self.has_files:
            self.skipTest("javascript is not installed")

    def is_not_unpacked(self, archive):
        archive = archive() if callable(archive) else archive  # some take a second to make
        answer = self.ask("PUT", "/v1/sandboxes/SANDBOX/files/archive?path=/tmp/in", archive)
        self.assertIn(answer.status, range(400, 500), answer.body)
        for path in ("/tmp/escaped", "/escaped", "/tmp/in/x", "/tmp/in/link"):
            self.assertEqual(self.ask("GET", f"/v1/sandboxes/SANDBOX/files?path={path}").status, 404)

    def parts_are_refused(self, body, kind):
        answer = self.ask("POST", "/files?path=/tmp/part", body,
                          {"E2b-Sandbox-Id": self.sandbox, "Content-Type": kind})
        self.assertIn(answer.status, range(400, 500), answer.body)


add_tries(Archives, [
    ("a_name_that_climbs_out", "archive_reader", tar(entry("../escaped", b"x"))),
    ("a_name_that_climbs_out_later", "archive_reader", tar(entry("a/b/../../../escaped", b"x"))),
    ("a_name_from_the_root", "archive_reader", tar(entry("/escaped", b"x"))),
    ("a_symbolic_link", "archive_reader", tar(entry("link", type=tarfile.SYMTYPE, linkname="/etc/passwd"))),
    ("a_hard_link", "archive_reader", tar(entry("link", type=tarfile.LNKTYPE, linkname="../../etc/passwd"))),
    ("a_device", "archive_reader", tar(entry("x", type=tarfile.CHRTYPE, devmajor=1, devminor=1))),
    ("a_pipe", "archive_reader", tar(entry("x", type=tarfile.FIFOTYPE))),
    ("a_size_of_a_terabyte", "archive_reader", claiming(1 << 40)),
    ("a_size_below_nothing", "archive_reader", claiming(0)[:124] + b"\xff" * 12 + claiming(0)[136:]),
    ("a_hole_of_a_terabyte", "archive_reader",
     tar(entry("x", b"y", pax_headers={"GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.map": "1099511627776,1",
                                       "GNU.sparse.size": "1099511627777", "GNU.sparse.name": "x"}))),
    ("a_gigabyte_of_zeros_in_a_megabyte", "archive_reader", lambda: gzip.compress(tar(entry("x", bytes(200 * MIB))), 1)),
    ("a_head_of_a_gigabyte", "archive_reader",
     lambda: gzip.compress(tar(entry("x", b"y", pax_headers={"comment": "z" * 100 * MIB})), 1)),
    ("a_hundred_thousand_files", "archive_reader", lambda: gzip.compress(tar(*[entry(f"{i}") for i in range(100_001)]), 1)),
    ("names_of_a_megabyte", "archive_reader", lambda: gzip.compress(long_names(500), 1)),
    ("hundreds_of_names_for_one_file", "archive_reader", lambda: gzip.compress(long_names(500, None), 1)),
    ("targets_of_a_megabyte", "archive_reader",
     lambda: gzip.compress(long_names(500, entry("y", type=tarfile.SYMTYPE, linkname="n"), tarfile.GNUTYPE_LONGLINK), 1)),
    ("millions_of_holes", "archive_reader", lambda: gzip.compress(many_holes(4_000_000), 1)),
    ("gzip_in_gzip", "archive_reader", gzip.compress(gzip.compress(tar(entry("y", b"x"))))),
    ("a_zip_archive", "archive_reader", zipped("../escaped")),
    ("garbage", "archive_reader", bytes(range(256)) * 100),
    ("gzip_of_garbage", "archive_reader", gzip.compress(b"garbage" * 1000)),
    ("gzip_that_is_cut_off", "archive_reader", gzip.compress(tar(entry("x", os.urandom(100_000))))[:-50_000]),
], Archives.is_not_unpacked)

BOUNDARY = "multipart/form-data; boundary=b"
add_tries(Archives, [
    ("parts_without_an_end", "schema", b"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"x\"\r\n\r\n" + b"x" * MIB, BOUNDARY),
    ("parts_without_a_beginning", "schema", b"x" * MIB, BOUNDARY),
    ("parts_by_the_hundred_thousand", "schema", b"--b\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\nx\r\n" * 100_000 + b"--b--\r\n", BOUNDARY),
    ("parts_without_a_boundary", "schema", b"--b\r\n\r\nx\r\n--b--\r\n", "multipart/form-data"),
    ("a_boundary_of_ten_thousand_bytes", "schema", b"--b--\r\n", "multipart/form-data; boundary=" + "b" * 10_000),
    ("a_part_with_a_head_of_a_megabyte", "schema", b"--b\r\nX: " + b"x" * MIB + b"\r\n\r\nx\r\n--b--\r\n", BOUNDARY),
], Archives.parts_are_refused)


if __name__ == "__main__":
    unittest.main()
