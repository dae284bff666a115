#!/usr/bin/env python3
"""The network of `membrane run --kind linux`: programs of this machine against servers on its loopback.

MEMBRANE_COMMAND names the command, MEMBRANE_LINUX_PLATFORM the platform (linux_test.py).
"""

import http.server
import json
import shutil
import ssl
import subprocess
import threading
import unittest

import linux_test

CLIENT = """
import socket, sys, urllib.request, urllib.error
def get(url, **how):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, **how), timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
    except OSError as error:
        return type(error).__name__, str(error)
"""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.seen.append((self.command, self.path, dict(self.headers), body))
        big = self.path.startswith("/big")
        text = b"x" * (32 << 20) if big else f"{self.command} {self.path} ".encode() + body
        self.send_response(302 if self.path == "/old" else 200)
        if self.path == "/old":
            self.send_header("Location", "/new")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    do_GET = do_POST = do_HEAD = answer

    def log_message(self, *_):
        pass


class Served(linux_test.LinuxTest):
    def serve(self, tls=None):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.seen = []
        server.handle_error = lambda *_: None  # of a client that has left
        if tls:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()

        def end():
            server.shutdown()
            thread.join()
            server.server_close()

        self.addCleanup(end)
        return server, server.server_address[1]

    def python(self, script, *allowed, options=(), input=None):
        flags = [word for each in allowed for word in ("--allow", each)]
        done = self.membrane("run", "--kind", "linux", "--image", "host", "--json", *self.platform(),
                             *(f"--env={name}={value}" for name, value in linux_test.ENVIRONMENT.items()), *flags, *options, "--",
                             "python3", "-c", CLIENT + script, input=input)
        self.assertTrue(done.stdout, done.stderr.decode())
        return json.loads(done.stdout)


class Network(Served):
    def test_a_granted_request(self):
        server, port = self.serve()
        report = self.python(f"print(get('http://localhost:{port}/a'), get('http://localhost:{port}/b', data=b'1'))",
                             f"http:localhost:{port}")
        self.assertEqual(report["stdout"], "(200, b'GET /a ') (200, b'POST /b 1')\n", report)
        self.assertEqual([(call["name"], call["decision"], call["bytes_in"]) for call in report["host_calls"]],
                         [("http.request", "allowed", 7), ("http.request", "allowed", 9)])

    def test_an_answer_of_many_bytes(self):
        _, port = self.serve()
        report = self.python(f"print(len(get('http://localhost:{port}/big')[1]))", f"http:localhost:{port}")
        self.assertEqual(report["stdout"], f"{32 << 20}\n", report)

    def test_a_redirect_is_the_programs_to_follow(self):
        server, port = self.serve()
        report = self.python(f"print(get('http://localhost:{port}/old'))", f"http:localhost:{port}")
        self.assertEqual(report["stdout"], "(200, b'GET /new ')\n", report)
        self.assertEqual([path for _, path, _, _ in server.seen], ["/old", "/new"])

    def test_what_is_not_granted_is_refused_with_a_fix(self):
        server, port = self.serve()
        report = self.python(f"print(*get('http://127.0.0.1:{port}/b'), sep='|')", f"http:GET:http://127.0.0.1:{port}/a/*")
        self.assertIn("403|", report["stdout"])
        self.assertIn("to allow it: --allow", report["stdout"])
        self.assertEqual(server.seen, [])
        self.assertEqual(report["host_calls"][0]["errno"], "EACCES")

    def test_nothing_leaves_without_a_grant(self):
        server, port = self.serve()
        report = self.python(f"print(get('http://127.0.0.1:{port}/')[0], get('http://example.org/')[0], get('http://192.0.2.1/')[0])")
        self.assertEqual(report["stdout"], "URLError URLError URLError\n", report)
        self.assertEqual(server.seen, [])
        self.assertEqual([(call["name"], call["arguments"], call["grant"]) for call in report["host_calls"]],
                         [("net.resolve", "example.org", "--allow http:example.org"),
                          ("http.connect", "192.0.2.1:80", "--allow http:192.0.2.1:80")])

    def test_loopback_inside_is_the_sandboxs_own(self):
        _, port = self.serve()
        report = self.python(f"""
s = socket.create_server(('127.0.0.1', {port}))
c = socket.create_connection(('127.0.0.1', {port}))
s.accept()[0].sendall(b'inside')
print(c.recv(10))""", f"http:localhost:{port}")
        self.assertEqual(report["stdout"], "b'inside'\n", report)

    def test_the_limits_of_bytes_hold(self):
        _, port = self.serve()
        report = self.python(f"print(get('http://localhost:{port}/big')[0])", f"http:localhost:{port}", options=["--bytes-in", "1MiB"])
        self.assertNotIn("200", report["stdout"])
        self.assertIn("EBUDGET", [call["errno"] for call in report["host_calls"]])


class Receipts(Served):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name in ("CONFIG", "STATE", "CACHE"):
            cls.environment |= {f"XDG_{name}_HOME": str(cls.folder / name)}
        cls.membrane("keys", "generate", check=True)

    def trial(self, receipt, *allowed):
        policy = self.folder / "new.toml"
        grants = "".join(f"[[http]]\nurl = \"{url}\"\nmethods = [\"{method}\"]\n" for method, url in allowed)
        policy.write_text(grants)
        done = self.membrane("policy", "test", policy, receipt.parent, "--json")
        return done.returncode, json.loads(done.stdout)

    def test_calls_are_sealed_and_judged(self):
        server, port = self.serve()
        receipt = self.folder / "calls" / "run.receipt"
        receipt.parent.mkdir()
        report = self.python(f"get('http://127.0.0.1:{port}/a'); get('http://127.0.0.1:{port}/b'); get('http://example.org/')",
                             f"http:GET:http://127.0.0.1:{port}/a", options=["--seal", receipt])
        self.assertEqual([call["decision"] for call in report["host_calls"]], ["allowed", "denied", "denied"], report)
        verified = json.loads(self.membrane("verify", receipt, "--json", check=True).stdout)
        self.assertEqual([(item["function"], item["decision"]) for item in verified["items"] if item["item"] == "call"],
                         [("http.request", "allowed"), ("http.request", "denied"), ("net.resolve", "denied")])
        code, row = self.trial(receipt)
        self.assertEqual((code, row["verdict"], row["calls"], row["stopped_at"]["call"]), (1, "stopped", 3, 1), row)
        self.assertEqual([each["call"] for each in row["refused"]], [1, 2, 3])
        self.assertIn(f"GET http://127.0.0.1:{port}/a", row["stopped_at"]["about"])
        code, row = self.trial(receipt, ("GET", f"http://127.0.0.1:{port}/*"))
        self.assertEqual((code, row["verdict"], [each["call"] for each in row["refused"]]), (0, "runs", [3]), row)
        done = self.membrane("replay", receipt)
        self.assertEqual(done.returncode, 2)

    def test_a_policy_that_no_linux_sandbox_has_judges_none(self):
        receipt = self.folder / "other" / "run.receipt"
        receipt.parent.mkdir()
        self.python("", options=["--seal", receipt, "--deterministic"])
        policy = self.folder / "kv.toml"
        policy.write_text("[kv]\n")
        done = self.membrane("policy", "test", policy, receipt.parent)
        self.assertEqual((done.returncode, b"cannot be judged" in done.stdout), (1, True), done.stdout)
        policy.write_text("")
        again = self.membrane("replay", receipt, "--policy", policy)
        self.assertEqual((again.returncode, b"the policy refuses nothing" in again.stdout), (0, True), again.stderr)


@unittest.skipUnless(shutil.which("openssl"), "there is no openssl, which makes the certificates")
class Encrypted(Served):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.key, cls.certificate = cls.folder / "key.pem", cls.folder / "cert.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", str(cls.key), "-out",
                        str(cls.certificate)], check=True, capture_output=True)

    def serve_tls(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        return self.serve(context)

    def encrypted(self, script, *allowed):
        certificate = self.certificate.read_bytes()
        return self.python(f"import ssl\ntls = ssl.create_default_context(cadata={certificate.decode()!r})\n"
                           "def tell(url):\n    try:\n        return urllib.request.urlopen(url, context=tls).read()\n"
                           f"    except OSError as error:\n        return str(error)\n{script}", *allowed)

    def test_a_host_that_is_granted(self):
        server, port = self.serve_tls()
        report = self.encrypted(f"print(tell('https://localhost:{port}/a'))", f"http:localhost:{port}")
        self.assertEqual(report["stdout"], "b'GET /a '\n", report)
        self.assertEqual([(call["name"], call["arguments"], call["errno"]) for call in report["host_calls"]],
                         [("http.connect", f"https://localhost:{port}", "OK")])

    def test_requests_that_are_granted_singly(self):
        server, port = self.serve_tls()
        report = self.encrypted(f"print(tell('https://localhost:{port}/a'))", f"http:GET:https://localhost:{port}/*")
        self.assertIn("access denied", report["stdout"].lower())
        self.assertEqual(server.seen, [])
        self.assertIn("http:CONNECT:https://localhost", report["host_calls"][0]["grant"])


if __name__ == "__main__":
    unittest.main()
