#!/usr/bin/env python3
"""The network of `membrane run --kind linux`: this machine's programs use servers on its loopback.

MEMBRANE_COMMAND names the command, MEMBRANE_LINUX_PLATFORM the platform (linux_test.py).
"""

import http.server
import json
import os
import re
import shutil
import ssl
import subprocess
import threading
import unittest
import unittest.mock
from pathlib import Path

import linux_test
from linux_testing import encrypt

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
        if self.path == "/echo":
            text = self.headers.get("X-Key", "none").encode()
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
    def serve(self, is_encrypted=False):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.seen = []
        server.handle_error = lambda *_: None  # of a client that has left
        if is_encrypted:
            encrypt(server, self.folder)
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


def has_debian():
    """Whether this machine has the usual image, whose programs are used as they are."""
    folder = os.environ.get("MEMBRANE_IMAGES")
    return folder is not None and (Path(folder) / "debian.image").exists()


def written_memory(pid):
    """All that a process has in private memory that it may write."""
    pieces = []
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb") as file:
        for line in maps:
            span, rights = line.split()[:2]
            begin, end = (int(each, 16) for each in span.split("-"))
            if rights.startswith("rw-p") and end - begin <= 64 << 20:
                file.seek(begin)
                pieces.append(file.read(end - begin))
    return b"".join(pieces)


@unittest.skipUnless(shutil.which("openssl"), "there is no openssl, which makes the certificates")
class Encrypted(Served):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.certificate = cls.folder / "cert.pem"
        cls.environment |= {"SSL_CERT_FILE": str(cls.certificate), "TEST_KEY": "not-for-programs"}

    def serve_tls(self):
        return self.serve(is_encrypted=True)

    def policy(self, port, *paths, more=""):
        """Grants of GET on these paths, with a secret header."""
        file = self.folder / f"{self.id()}.toml"
        grants = (f'[[http]]\nurl = "https://localhost:{port}{path}"\nmethods = ["GET"]\n'
                  'addresses = ["127.0.0.1"]\nheader = { X-Key = { secret = "TEST_KEY" } }\n' for path in paths)
        file.write_text("".join(grants) + more)
        return ["--policy", file]


class Tunnelled(Encrypted):
    def encrypted(self, script, *allowed, options=()):
        """The server's own certificate is all that the program trusts."""
        certificate = self.certificate.read_bytes()
        return self.python(f"import ssl\ntls = ssl.create_default_context(cadata={certificate.decode()!r})\n"
                           "def tell(url):\n    try:\n        return urllib.request.urlopen(url, context=tls).read()\n"
                           f"    except OSError as error:\n        return str(error)\n{script}", *allowed, options=options)

    def test_a_host_that_is_granted(self):
        server, port = self.serve_tls()
        report = self.encrypted(f"print(tell('https://localhost:{port}/a'))", f"http:localhost:{port}")
        self.assertEqual(report["stdout"], "b'GET /a '\n", report)
        self.assertEqual([(call["name"], call["arguments"], call["errno"]) for call in report["host_calls"]],
                         [("http.connect", f"https://localhost:{port}", "OK")])

    def test_a_narrower_grant_of_the_host_wins(self):
        server, port = self.serve_tls()
        script = f"print(tell('https://localhost:{port}/a'))\nimport os\nprint(os.path.getsize('/etc/passwd') > 0)"
        report = self.encrypted(script, f"http:CONNECT:https://localhost:{port}/*", f"http:GET:https://localhost:{port}/b")
        self.assertIn("CERTIFICATE_VERIFY_FAILED", report["stdout"])
        self.assertEqual(server.seen, [])
        self.assertIn("/sys/membrane/ca.pem", report["host_calls"][0]["reason"])


class Decrypted(Encrypted):
    def test_a_request_that_is_granted_gets_the_secret(self):
        server, port = self.serve_tls()
        report = self.python(f"print(get('https://localhost:{port}/a'), get('https://localhost:{port}/echo'))",
                             options=self.policy(port, "/a", "/echo"))
        self.assertEqual(report["stdout"], f"(200, b'GET /a ') (200, b'{'*' * 16}')\n", report)
        self.assertEqual([headers["X-Key"] for _, _, headers, _ in server.seen], ["not-for-programs"] * 2)
        self.assertEqual([(call["name"], call["arguments"], call["errno"]) for call in report["host_calls"]],
                         [("http.request", f"GET, https://localhost:{port}/{path}", "OK") for path in ("a", "echo")])
        self.assertNotIn("not-for-programs", json.dumps(report))

    def test_a_request_that_is_not_is_refused_with_a_fix(self):
        server, port = self.serve_tls()
        report = self.python(f"print(*get('https://localhost:{port}/b'), sep='|')\n"
                             f"print(*get('https://localhost:{port}/a', data=b'x'), sep='|')", options=self.policy(port, "/a"))
        first, second = report["stdout"].splitlines()
        for line, method in ((first, "GET"), (second, "POST")):
            self.assertIn("403|", line)
            self.assertIn(f"to allow it: --allow 'http:{method}:https://localhost:{port}", line)
        self.assertEqual(server.seen, [])
        self.assertEqual([(call["name"], call["errno"]) for call in report["host_calls"]], [("http.request", "EACCES")] * 2)

    def test_a_server_that_is_not_trusted_is_not_asked(self):
        server, port = self.serve_tls()
        with unittest.mock.patch.dict(self.environment):
            del self.environment["SSL_CERT_FILE"]
            report = self.python(f"print(*get('https://localhost:{port}/a'), sep='|')", options=self.policy(port, "/a"))
        self.assertIn("502|", report["stdout"])
        self.assertEqual(server.seen, [])

    def test_another_name_is_refused(self):
        server, port = self.serve_tls()
        report = self.python(f"""
import ssl
tls = ssl.create_default_context()
for name in 'localhost', 'example.org':
    try:
        with socket.create_connection(('localhost', {port})) as there, tls.wrap_socket(there, server_hostname=name) as secured:
            print(secured.version(), secured.getpeercert()['subjectAltName'])
    except OSError as error:
        print(error)""", options=self.policy(port, "/a"))
        first, second = report["stdout"].splitlines()
        self.assertEqual(first, "TLSv1.3 (('DNS', 'localhost'),)", report)
        self.assertIn("access denied", second.lower())
        self.assertEqual([(call["name"], call["errno"]) for call in report["host_calls"]], [("http.connect", "EACCES")])

    def test_programs_find_the_certificates(self):
        _, port = self.serve_tls()
        script = """
import os
own = open('/sys/membrane/ca.pem').read()
print(own.count('BEGIN CERTIFICATE'), open('/sys/membrane/certificates.pem').read() == own)
print(os.environ.get('SSL_CERT_FILE'), os.environ.get('NODE_EXTRA_CA_CERTS'))
os.makedirs('/etc/ssl/certs'); os.makedirs('/opt/certifi')
for path in '/etc/ssl/certs/ca-certificates.crt', '/opt/certifi/cacert.pem', '/opt/cacert.pem':
    open(path, 'w').write('mine')
    print(open(path).read() == 'mine\\n' + own, open(path, 'r+').read() == 'mine', os.stat(path).st_size)
with open('/etc/ssl/certs/ca-certificates.crt', 'rb') as file:
    size = os.fstat(file.fileno()).st_size
    print(size == len(own) + 5, file.seek(-5, 2) == size - 5, file.read())
print(open('/sys/membrane/certificates.pem').read() == 'mine\\n' + own)"""
        report = self.python(script, options=self.policy(port, "/a"))
        self.assertEqual(report["stdout"].splitlines(), [
            "1 True", "/sys/membrane/certificates.pem /sys/membrane/ca.pem", "True True 4", "True True 4", "False True 4",
            "True True b'----\\n'", "True"], report)

    def test_the_kernel_process_has_no_keys_and_no_environment(self):
        _, port = self.serve_tls()
        words = [linux_test.MEMBRANE, "run", "--kind", "linux", "--image", "host", *self.platform(), *self.policy(port, "/a"), "--",
                 "sh", "-c", "cat /sys/membrane/ca.pem; read line"]
        with subprocess.Popen(words, env={**self.environment, "OWNERS_SECRET": "one"}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL) as process:
            self.addCleanup(process.kill)
            certificate = b""
            while b"END CERTIFICATE" not in certificate:
                certificate += process.stdout.readline()
            # What the authority is called stands beside its keys; the kernel process has been told the name in base64 alone.
            name = re.search(rb"Membrane sandbox \d{10}", ssl.PEM_cert_to_DER_cert(certificate.decode())).group()
            children = [int(child) for task in Path(f"/proc/{process.pid}/task").iterdir()
                        for child in (task / "children").read_text().split()]
            has_name = {pid: name in written_memory(pid) for pid in (process.pid, *children)}
            has_secret = [pid for pid in children if b"OWNERS_SECRET" in written_memory(pid) + Path(f"/proc/{pid}/environ").read_bytes()]
            process.communicate(b"\n")
        self.assertTrue(has_name.pop(process.pid))
        self.assertEqual(set(has_name.values()), {False}, has_name)
        self.assertEqual(has_secret, [])

    def test_what_copies_certificates_finds_the_file_that_it_looked_at(self):
        (self.folder / "certifi").mkdir()
        (self.folder / "certifi" / "cacert.pem").write_text("mine\n")
        _, port = self.serve_tls()
        done = self.run_linux("sh", "-c", "mkdir -p /etc/ssl/certs && echo mine > /etc/ssl/certs/ca-certificates.crt && cp -a /etc/ssl/certs /tmp/copy && "
                              "grep -c BEGIN /tmp/copy/ca-certificates.crt /granted/certifi/cacert.pem",
                              options=[*self.policy(port, "/a"), "--dir", f"{self.folder}:/granted"])
        self.assertEqual(done.stdout, b"/tmp/copy/ca-certificates.crt:1\n/granted/certifi/cacert.pem:1\n", done)

    def test_no_certificate_where_none_is_needed(self):
        _, port = self.serve_tls()
        report = self.python("import os\nprint(repr(open('/sys/membrane/ca.pem').read()), 'SSL_CERT_FILE' in os.environ)",
                             f"http:localhost:{port}")
        self.assertEqual(report["stdout"], "'' False\n", report)

    def test_nothing_of_it_is_a_change(self):
        _, port = self.serve_tls()
        patch = self.folder / "changes.patch"
        report = self.python("import os\nos.makedirs('/etc/ssl/certs')\nopen('/etc/ssl/certs/ca-certificates.crt', 'w').write('mine\\n')\n"
                             f"open('/etc/ssl/certs/ca-certificates.crt').read()\nprint(get('https://localhost:{port}/a'))",
                             options=[*self.policy(port, "/a"), "--diff", patch])
        self.assertEqual(report["stdout"], "(200, b'GET /a ')\n", report)
        self.assertIn("+mine\n", patch.read_text())
        self.assertNotIn("CERTIFICATE", patch.read_text())

    @unittest.skipUnless(shutil.which("node"), "there is no node")
    def test_node(self):
        server, port = self.serve_tls()
        script = f"fetch('https://localhost:{port}/a').then(async (answer) => console.log(answer.status, await answer.text()))"
        done = self.membrane("run", "--kind", "linux", "--image", "host", "--json", *self.platform(),
                             *(f"--env={name}={value}" for name, value in linux_test.ENVIRONMENT.items()),
                             *self.policy(port, "/a"), "--", "node", "-e", script)
        report = json.loads(done.stdout)
        self.assertEqual(report["stdout"], "200 GET /a \n", report)
        self.assertEqual(server.seen[0][2]["X-Key"], "not-for-programs")

    def test_a_sealed_run(self):
        _, port = self.serve_tls()
        environment = {f"XDG_{name}_HOME": str(self.folder / name) for name in ("CONFIG", "STATE", "CACHE")}
        with unittest.mock.patch.dict(self.environment, environment):
            self.membrane("keys", "generate", check=True)
            receipt = self.folder / "run.receipt"
            self.python(f"get('https://localhost:{port}/a'); get('https://localhost:{port}/b')",
                        options=[*self.policy(port, "/a"), "--seal", receipt])
            verified = json.loads(self.membrane("verify", receipt, "--json", check=True).stdout)
        self.assertEqual([(item["function"], item["decision"]) for item in verified["items"] if item["item"] == "call"],
                         [("http.request", "allowed"), ("http.request", "denied")])


@unittest.skipUnless(has_debian(), "MEMBRANE_IMAGES has no image debian")
class DecryptedInDebian(Encrypted):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.environment |= {"MEMBRANE_IMAGES": os.environ["MEMBRANE_IMAGES"]}

    def in_debian(self, script, *options):
        done = self.membrane("run", "--kind", "linux", "--image", "debian", "--json", *self.platform(), *options, "--", "bash", "-c", script)
        self.assertTrue(done.stdout, done.stderr.decode())
        return json.loads(done.stdout)

    def test_clients_as_they_are(self):
        server, port = self.serve_tls()
        url = f"https://localhost:{port}"
        clients = {
            "curl": f"curl -sS {url}/a/curl",
            "python3": f"python3 -c \"import urllib.request; print(urllib.request.urlopen('{url}/a/python3').read())\"",
            "node": f"node -e \"fetch('{url}/a/node').then(async (answer) => console.log(await answer.text()))\"",
            "wget": f"wget -q -O - {url}/a/wget",
            "git": f"git ls-remote {url}/a/git",
            "pip": f"pip download --no-deps --retries 0 -i {url}/a/pip six",
            "apt": f"echo 'deb [trusted=yes] {url}/a/apt ./' > /tmp/apt.list && apt-get -o Dir::Etc::SourceList=/tmp/apt.list "
                   "-o Dir::Etc::SourceParts=/none -o APT::Sandbox::User=root -o Acquire::Retries=0 update",
        }
        for with_variables in (True, False):
            for client, script in clients.items():
                if client == "node" and not with_variables:
                    continue  # it has certificates of its own
                with self.subTest(client=client, with_variables=with_variables):
                    server.seen.clear()
                    report = self.in_debian(script if with_variables else f"unset SSL_CERT_FILE NODE_EXTRA_CA_CERTS; {script}",
                                            *self.policy(port, "/a/*"))
                    self.assertTrue(server.seen, report)
                    for _, path, headers, _ in server.seen:
                        self.assertTrue(path.startswith(f"/a/{client}"), path)
                        self.assertEqual(headers["X-Key"], "not-for-programs")
                    self.assertEqual({call["name"] for call in report["host_calls"]}, {"http.request"}, report)

    def test_a_path_that_is_not_granted(self):
        server, port = self.serve_tls()
        report = self.in_debian(f"curl -sS -w '%{{http_code}}' https://localhost:{port}/b", *self.policy(port, "/a/*"))
        self.assertIn(f"membrane: to allow it: --allow 'http:GET:https://localhost:{port}/*'\n403", report["stdout"])
        self.assertEqual(server.seen, [])

    def test_a_host_that_is_granted_as_a_whole(self):
        server, port = self.serve_tls()
        report = self.in_debian(f"curl -sS --cacert /dev/stdin https://localhost:{port}/a <<'END'\n{self.certificate.read_text()}END\n"
                                f"curl -sS https://localhost:{port}/a 2>&1", "--allow", f"http:localhost:{port}")
        self.assertTrue(report["stdout"].startswith("GET /a "), report)
        self.assertIn("certificate", report["stdout"])  # the second one trusts the image's alone
        self.assertEqual(len(server.seen), 1)

    def test_certificates_that_are_made_anew(self):
        server, port = self.serve_tls()
        report = self.in_debian("update-ca-certificates --fresh > /dev/null 2>&1; rm -f /etc/ssl/certs/ca-certificates.crt; "
                                "update-ca-certificates > /dev/null 2>&1; echo $?; tail -n +1 /etc/ssl/certs/ca-certificates.crt | "
                                f"grep -c BEGIN > /dev/null && curl -sS https://localhost:{port}/a/x", *self.policy(port, "/a/*"))
        self.assertEqual(report["stdout"], "0\nGET /a/x ", report)
        self.assertEqual(len(server.seen), 1)


if __name__ == "__main__":
    unittest.main()
