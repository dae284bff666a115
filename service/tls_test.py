"""HTTPS: every interface and client over it, and what is refused. `openssl` makes the certificates;
without it everything is skipped."""

import contextlib
import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from service_testing import COMMAND, SECONDS, Answer, NotStarted, Service

ROOT = Path(__file__).resolve().parent.parent
ADD = '(module (func (export "run") (result i32) (i32.add (i32.const 2) (i32.const 40))))'
HELLO = '(func (export "run") (call $io.println (string "hello")))'
ASK = b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
PYTHON_CLIENT = """
import membrane
try:
    with membrane.Sandbox.create("wat", retries=100) as sandbox:
        print(sandbox.run({code!r}).outcome, [event.text for event in sandbox.stream({hello!r}) if event.kind == "stdout"])
except membrane.UnreachableError as error:
    print(error.code)
"""


def openssl(*words):
    subprocess.run(["openssl", *words], check=True, capture_output=True, timeout=SECONDS)


def make_certificate(folder, name, kind="rsa:2048"):
    """A certificate for 127.0.0.1 that vouches for itself: (certificate, key)."""
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    openssl("req", "-x509", "-newkey", kind, "-nodes", "-days", "2", "-subj", f"/CN={name}", "-addext",
            "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate)
    return certificate, key


def setUpModule():
    global folder, certificate, key, service
    if not shutil.which("openssl"):
        raise unittest.SkipTest("there is no openssl, which makes the certificates")
    folder = Path(tempfile.mkdtemp(prefix="membrane-tls-"))
    unittest.addModuleCleanup(shutil.rmtree, folder, ignore_errors=True)
    certificate, key = make_certificate(folder, "service")
    service = Service("--tls-certificate", certificate, "--tls-key", key)
    unittest.addModuleCleanup(service.log.close)
    unittest.addModuleCleanup(service.stop)


def trusting(*files):
    context = ssl.create_default_context()
    for file in files:
        context.load_verify_locations(file)
    return context


def connected(context):
    return context.wrap_socket(socket.create_connection((service.host, service.port), SECONDS), server_hostname=service.host)


def request(method, path, body=None, headers=None, trusted=None):
    connection = http.client.HTTPSConnection(service.host, service.port, timeout=SECONDS, context=trusting(trusted or certificate))
    with contextlib.closing(connection):
        connection.request(method, path, body and json.dumps(body), {"Authorization": f"Bearer {service.token}",
                                                                      "Content-Type": "application/json", **(headers or {})})
        response = connection.getresponse()
        return Answer(response, response.read())


def command(*words, trusted=None):
    return subprocess.run([COMMAND, *words], capture_output=True, text=True, timeout=SECONDS, check=False,
                          env={**os.environ, "MEMBRANE_URL": service.url, "MEMBRANE_TOKEN": service.token,
                               "SSL_CERT_FILE": str(trusted or certificate)})


class Interfaces(unittest.TestCase):
    def test_rest_and_events(self):
        self.assertTrue(service.url.startswith("https://"))
        made = request("POST", "/v1/sandboxes", {"template": "wat"})
        self.assertEqual(made.status, 201, made.body)
        path = f"/v1/sandboxes/{made.json['id']}"
        self.assertEqual(request("POST", path + "/exec", {"code": ADD}).json["outcome"], "ok")
        stream = request("POST", path + "/exec", {"code": HELLO}, {"Accept": "text/event-stream"})
        self.assertEqual(stream.headers["Content-Type"], "text/event-stream")
        self.assertIn(b'event: stdout\ndata: {"text":"hello\\n"}', stream.body)
        self.assertIn(b"event: report\n", stream.body)
        self.assertEqual(request("DELETE", path).status, 204)

    def test_mcp(self):
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}
        answer = request("POST", "/mcp", hello, {"Accept": "application/json, text/event-stream"})
        self.assertEqual(answer.status, 200, answer.body)
        self.assertIn(b'"serverInfo"', answer.body)

    def test_requests_one_after_another_on_a_connection(self):
        with contextlib.closing(http.client.HTTPSConnection(service.host, service.port, context=trusting(certificate))) as connection:
            for _ in range(3):
                connection.request("GET", "/health")
                self.assertEqual(json.loads(connection.getresponse().read())["status"], "ok")

    def test_command(self):
        made = command("create", "--template", "wat")
        self.assertEqual(made.returncode, 0, made.stderr)
        sandbox = made.stdout.split()[0]
        ran = command("exec", sandbox, "-e", HELLO)
        self.assertIn("hello", ran.stdout, ran.stderr)
        self.assertIn(sandbox, command("ps").stdout)
        self.assertEqual(command("rm", sandbox).returncode, 0)

    def test_command_trusts_no_other(self):
        other, _ = make_certificate(folder, "other-of-the-command")
        done = command("ps", trusted=other)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("is not trusted here", done.stderr)
        self.assertIn("SSL_CERT_FILE", done.stderr)
        self.assertIn("is not trusted here", command("ps", trusted="/nonexistent").stderr)

    def test_python_client(self):
        os.environ["CMAKE_ARGS"] = "-DMEMBRANE_ENGINE=OFF"  # the client is enough
        venv = folder / "venv"
        for words in ([sys.executable, "-m", "venv", venv], [venv / "bin/pip", "install", "-q", ROOT / "python"]):
            done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False)
            if done.returncode != 0:
                self.skipTest(f"pip could not bring what the client needs: {done.stderr[-300:]}")
        other, _ = make_certificate(folder, "other-of-python")
        for trusted, printed in ((certificate, "ok ['hello\\n']\n"), (other, "untrusted\n")):
            done = subprocess.run([venv / "bin/python", "-B", "-c", PYTHON_CLIENT.format(code=ADD, hello=HELLO)],
                                  capture_output=True, text=True, timeout=SECONDS, check=False, cwd=folder,
                                  env={**os.environ, "MEMBRANE_URL": service.url, "MEMBRANE_TOKEN": service.token,
                                       "SSL_CERT_FILE": str(trusted)})
            self.assertEqual(done.stdout, printed, done.stderr)


class Refused(unittest.TestCase):
    def is_well(self):
        self.assertEqual(request("GET", "/health").json["status"], "ok")

    def test_another_ca(self):
        other, _ = make_certificate(folder, "other")
        with self.assertRaises(ssl.SSLCertVerificationError):
            request("GET", "/health", trusted=other)
        self.is_well()

    def test_plain_http(self):
        with socket.create_connection((service.host, service.port), SECONDS) as plain:
            plain.sendall(ASK)
            answer = b""
            with contextlib.suppress(ConnectionResetError):
                while piece := plain.recv(4096):
                    answer += piece
        self.assertNotIn(b"200 OK", answer)
        self.is_well()

    def test_old_versions(self):
        for version, is_taken in ((ssl.TLSVersion.TLSv1, False), (ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1_2, True),
                                  (ssl.TLSVersion.TLSv1_3, True)):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_verify_locations(certificate)
            context.set_ciphers("ALL:@SECLEVEL=0")
            with self.subTest(version=version.name), contextlib.ExitStack() as closing:
                import warnings
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", DeprecationWarning)
                    context.minimum_version = context.maximum_version = version
                if not is_taken:
                    with self.assertRaises((ssl.SSLError, ConnectionResetError)):
                        closing.enter_context(connected(context))
                    continue
                stream = closing.enter_context(connected(context))
                self.assertEqual(stream.version(), version.name.replace("_", "."))
                stream.sendall(ASK)
                self.assertIn(b"200 OK", stream.recv(4096))

    def test_bytes_that_are_no_tls(self):
        whole = ssl.MemoryBIO()
        client = trusting(certificate).wrap_bio(ssl.MemoryBIO(), whole, server_hostname=service.host)
        with self.assertRaises(ssl.SSLWantReadError):
            client.do_handshake()
        hello = whole.read()
        for bad in (b"\x16\x03\x01" + b"\xff" * 600, hello[:20] + b"\xff" * 40 + hello[60:], b"\x80" * 5000, hello + b"\x00" * 5000):
            with socket.create_connection((service.host, service.port), SECONDS) as stream:
                with contextlib.suppress(OSError):
                    stream.sendall(bad)
                    stream.shutdown(socket.SHUT_WR)
                    while stream.recv(4096):
                        pass
        self.is_well()

    def test_handshakes_that_are_never_done_hold_up_nobody(self):
        with contextlib.ExitStack() as closing:
            halves = [closing.enter_context(socket.create_connection((service.host, service.port), SECONDS)) for _ in range(200)]
            for half in halves[::2]:
                half.sendall(b"\x16\x03\x01\x02")
            self.is_well()
            # Each is cut off after the time that a head has.
            for half in halves:
                with contextlib.suppress(ConnectionResetError):
                    while half.recv(4096):
                        pass
        self.is_well()

    def test_a_connection_that_goes_without_goodbye(self):
        for _ in range(20):
            stream = connected(trusting(certificate))
            stream.sendall(ASK[:20])
            os.close(stream.detach())
        self.is_well()


class Start(unittest.TestCase):
    """Invalid certificate and key files."""

    def refused(self, certificate_file, key_file, *words):
        flags = [word for name, file in (("--tls-certificate", certificate_file), ("--tls-key", key_file)) if file
                 for word in (name, str(file))]
        with self.assertRaises(NotStarted) as caught:
            Service(*flags).stop()
        self.assertEqual(caught.exception.code, 2, caught.exception.text)
        self.assertIn("hint:", caught.exception.text)
        for word in words:
            self.assertIn(str(word), caught.exception.text)

    def test_absent(self):
        self.refused(folder / "none.pem", key, "cannot use the certificate", folder / "none.pem")
        self.refused(certificate, folder / "none.key", "cannot use the key", folder / "none.key")

    def test_one_of_the_two(self):
        self.refused(certificate, None, "a certificate and its key", "--tls-key")
        self.refused(None, key, "a certificate and its key", "--tls-certificate")

    def test_no_pem(self):
        for number, content in enumerate((b"", b"no certificate\n", os.urandom(2000), certificate.read_bytes()[:300])):
            bad = folder / f"bad{number}.pem"
            bad.write_bytes(content)
            self.refused(bad, key, "cannot use the certificate", bad)
            self.refused(certificate, bad, "cannot use the key", bad)

    def test_the_wrong_way_round(self):
        self.refused(key, certificate, "cannot use the certificate")

    def test_key_of_another_certificate(self):
        _, other = make_certificate(folder, "mismatched")
        self.refused(certificate, other, "cannot use the key", "mismatch")

    def test_key_under_a_pass_phrase(self):
        """It is refused, and nobody is asked at a terminal."""
        locked = folder / "locked.key"
        openssl("rsa", "-aes256", "-passout", "pass:secret", "-in", key, "-out", locked)
        self.refused(certificate, locked, "cannot use the key", "pass phrase")

    def test_directory(self):
        self.refused(folder, key, "cannot use the certificate")

    def test_other_kinds_of_key(self):
        elliptic, of_elliptic = folder / "elliptic.pem", folder / "elliptic.key"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=e",
                "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", of_elliptic, "-out", elliptic)
        other = Service("--tls-certificate", elliptic, "--tls-key", of_elliptic)
        try:
            with contextlib.closing(http.client.HTTPSConnection(other.host, other.port, context=trusting(elliptic))) as connection:
                connection.request("GET", "/health")
                self.assertEqual(connection.getresponse().status, 200)
        finally:
            self.assertEqual(other.stop(), 0)
            other.log.close()


if __name__ == "__main__":
    unittest.main()
