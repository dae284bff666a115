"""The world that the pages speak of, on this machine alone: example.org and api.example.org over https, the example site on
port 8000, a model on port 11434, and registries for pip and npm.

It is a network of its own (unshare), in which names, certificates and ports are as on the pages, so that commands run as
they are printed, without the internet and without a key.
"""

import http.server
import json
import os
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from packages_test import Registry, npm_tarball, wheel

ROOT = Path(__file__).resolve().parent.parent
INSIDE = "MEMBRANE_PAGES_INSIDE"
NAMES = ("example.org", "api.example.org")
ADDRESS = "93.184.215.14"  # a public one, since grants of names are for such; it is this machine's, here
BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
SIOCSIFADDR, SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8916, 0x8913, 0x8914, 1


def enter():
    """Runs this program again in a network of its own. Returns when it is there, or why there can be none."""
    if os.environ.get(INSIDE):
        return None
    for needed in ("unshare", "openssl"):
        if shutil.which(needed) is None:
            return f"{needed} is not installed"
    if not BUNDLE.exists():
        return "ca-certificates is not installed"
    prefix = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "--net", "--mount"]
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode != 0:
        return "this machine lets nobody make a network of one's own (unshare)"
    os.execvpe(prefix[0], [*prefix, sys.executable, "-B", *sys.argv], {**os.environ, INSIDE: "1"})


def set_up_network():
    """Loopback, with ADDRESS besides its own."""
    import fcntl
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        def call(number, name, value):
            return fcntl.ioctl(control, number, struct.pack("16s24s", name, value))
        flags = struct.unpack_from("16xh", call(SIOCGIFFLAGS, b"lo", b""))[0]
        call(SIOCSIFFLAGS, b"lo", struct.pack("h", flags | IFF_UP))
        call(SIOCSIFADDR, b"lo:0", struct.pack("HH4s", socket.AF_INET, 0, socket.inet_aton(ADDRESS)))


def put_over(path, text, folder):
    """What is read at `path` from here on, in this process and its children."""
    other = folder / path.name
    other.write_text(text)
    subprocess.run(["mount", "--bind", other, path], check=True)


class Quiet(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def body(self):
        return self.rfile.read(int(self.headers.get("content-length") or 0))

    def answer(self, body, kind="text/html; charset=utf-8"):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Example(Quiet):
    """example.org: each page is the same; what is posted comes back."""

    def do_GET(self):
        self.answer(b'<h1>Example</h1><p><a href="/one">one</a> <a href="/two">two</a></p>')

    def do_POST(self):
        if self.path.endswith("/chat/completions"):
            return self.model(json.loads(self.body()))
        self.answer(self.body(), "application/json")

    def model(self, asked):
        """A model that looks at the site by one program, and answers."""
        program = 'from membrane import http\nprint(len(http.get("http://127.0.0.1:8000/papers.json")))'
        has_run = any(message["role"] == "assistant" for message in asked["messages"])
        content = "ANSWER: The third." if has_run else f"I look.\n```python\n{program}\n```"
        self.answer(json.dumps({
            "choices": [{"message": {"role": "assistant", "content": content}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 5}}).encode(), "application/json")


def serve(handler, address, port, certificate=None):
    server = http.server.ThreadingHTTPServer((address, port), handler)
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def make_certificate(folder):
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=example.org",
                    "-addext", "subjectAltName=" + ",".join("DNS:" + name for name in NAMES),
                    "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return certificate, key


class World:
    def __init__(self):
        self._folder = tempfile.TemporaryDirectory(dir="/var/tmp")  # warm images are large, and /tmp may be in memory
        self.folder = Path(self._folder.name)
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.lower().startswith(("membrane_", "pip_", "npm_config_", "xdg_", "http", "no_proxy"))}
        home = self.folder / "home"
        home.mkdir()
        self.environment.update(HOME=str(home), MEMBRANE_LANGUAGES=str(self.folder / "languages"))
        (self.folder / "languages").mkdir()
        self._site = None
        if os.environ.get(INSIDE):
            self._make_network()
            self._make_registries()

    def _make_network(self):
        set_up_network()
        put_over(Path("/etc/hosts"), "127.0.0.1 localhost\n" + "".join(f"{ADDRESS} {name}\n" for name in NAMES), self.folder)
        certificate, key = make_certificate(self.folder)
        put_over(BUNDLE, certificate.read_text(), self.folder)
        self._servers = [serve(Example, ADDRESS, 443, (certificate, key)), serve(Example, "127.0.0.1", 11434)]
        self._site = subprocess.Popen(["tools/serve-site", "examples/site", "8000"], cwd=ROOT, stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE)
        self._site.stdout.readline()

    def _make_registries(self):
        index = self.folder / "index"
        index.mkdir()
        wheel(index, "rich", "13.7.1", {"rich/__init__.py": "def print(*values):\n    pass\n"})
        wheel(index, "httpx", "0.28.1", {"httpx/__init__.py": "__version__ = '0.28.1'\n"})
        for name, source in {"dayjs": "module.exports = () => 'today'\n", "lodash-es": "export const value = 42\n"}.items():
            more = {"type": "module"} if source.startswith("export") else {}
            Registry.packages[name] = {"1.0.0": (more, npm_tarball(name, "1.0.0", {"index.js": source}, **more))}
        registry = serve(Registry, "127.0.0.1", 0)
        self._servers.append(registry)
        self.environment.update(
            PIP_NO_INDEX="1", PIP_FIND_LINKS=str(index), PIP_CONFIG_FILE=os.devnull, PIP_DISABLE_PIP_VERSION_CHECK="1",
            npm_config_registry=f"http://127.0.0.1:{registry.server_address[1]}/", npm_config_userconfig=os.devnull,
            npm_config_cache=str(self.folder / "npm"), npm_config_audit="false", npm_config_update_notifier="false")

    def has_network(self):
        return self._site is not None

    def end(self):
        if self._site:
            for server in self._servers:
                server.shutdown()
                server.server_close()
            self._site.communicate(b"")
        self._folder.cleanup()
