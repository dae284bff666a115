import gc
import http.client
import importlib.util
import sys
import sysconfig
import tempfile
import unittest
import unittest.mock
import warnings
from pathlib import Path

from tests.net_test import NetTest
from tests.session_test import SessionTest

import requests
from membrane import _imports, _libraries, _packages, _processes, _wire

GUEST = Path(__file__).resolve().parent.parent


def module_at(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]
    return module


class Missing(unittest.TestCase):
    """What a turn's error says of packages."""

    def missing(self, code):
        try:
            exec(compile(code, "<cell>", "exec"), {})
        except BaseException as error:
            return _packages.missing(error, code)
        self.fail("nothing was raised")

    def test_the_module_is_the_one_at_the_top(self):
        self.assertEqual(self.missing("import no_such_module_xq.part")["module"], "no_such_module_xq")
        self.assertEqual(self.missing("from no_such_module_xq import part")["module"], "no_such_module_xq")

    def test_a_library_may_have_caught_the_error(self):
        code = "try:\n  import no_such_module_xq\nexcept ImportError as e:\n  raise ImportError('install it') from e"
        self.assertEqual(self.missing(code)["module"], "no_such_module_xq")

    def test_a_part_of_an_installed_module_is_not_a_package(self):
        self.assertIsNone(self.missing("import json.nothing"))
        self.assertIsNone(self.missing("from json import nothing"))
        self.assertIsNone(self.missing("1/0"))
        self.assertIsNone(self.missing("raise ImportError('x')"))

    def test_a_library_that_tried_several_says_the_first(self):
        said = "Unable to find a usable engine; tried using: 'pyarrow', 'fastparquet'.\\nUse pip or conda"
        self.assertEqual(self.missing(f'raise ImportError("{said}")')["module"], "pyarrow")

    def test_a_misspelling_gets_the_nearest(self):
        self.assertIn("statistics", self.missing("import statistcs")["near"])
        self.assertEqual(self.missing("import no_such_module_xq")["near"], [])

    def test_an_installation_has_its_names(self):
        names = ["rich", "httpx==0.28.1"]
        for code in ("!pip install -U rich httpx==0.28.1", "%pip install rich httpx==0.28.1",
                     "pip install rich httpx==0.28.1",
                     "x = ['-m', 'pip', 'install', 'rich',\n 'httpx==0.28.1']\n"
                     "raise OSError('wasi does not support processes.')"):
            self.assertEqual(self.missing(code), {"module": "pip", "near": [], "install": names}, code)

    def test_an_installation_in_another_line_does_not_count(self):
        self.assertIsNone(self.missing("x = 'pip install rich'\ny = ("))
        self.assertIsNone(self.missing("x = 'pip install rich'\n1/0"))

    def test_pythons_advice_for_other_machines_is_left_out(self):
        text = "No module named 'x'. Site initialization is disabled, did you forget to …?"
        self.assertEqual(_packages.without_advice(text), "No module named 'x'")


class Turns(SessionTest):
    def test_a_turn_imports_from_where_the_host_says(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "module_of_a_package.py").write_text("value = 42\n")
            before = list(sys.path)
            self.addCleanup(sys.path.__setitem__, slice(None), before)
            self.addCleanup(sys.modules.pop, "module_of_a_package", None)
            self.assertEqual(self.value("import module_of_a_package as m; m.value", packages=folder), "42")
            self.assertEqual(sys.path[-1], folder)

    def test_an_error_names_the_module(self):
        missing = self.run_turn("import no_such_module_xq")["error"]["missing"]
        self.assertEqual(missing, {"module": "no_such_module_xq", "near": [], "install": []})


class Ssl(unittest.TestCase):
    def setUp(self):
        self.ssl = module_at("ssl_of_the_guest", GUEST / "ssl.py")

    def test_a_context_is_set_up_and_connects_nothing(self):
        context = self.ssl.create_default_context()
        context.load_verify_locations("none.pem")
        context.minimum_version = self.ssl.TLSVersion.TLSv1_3
        self.assertEqual((context.verify_mode, context.check_hostname), (self.ssl.CERT_REQUIRED, True))
        for connect in (context.wrap_socket, context.wrap_bio, self.ssl.MemoryBIO):
            with self.assertRaisesRegex(self.ssl.SSLError, "the host does, for urllib.request, requests, httpx"):
                connect(None)
        with self.assertRaisesRegex(NotImplementedError, "client certificates"):
            context.load_cert_chain("client.pem")

    def test_it_has_the_names_that_libraries_ask_for(self):
        here = module_at("ssl_of_this_machine", Path(sysconfig.get_paths()["stdlib"]) / "ssl.py")
        prefixes = ("ALERT_", "OP_", "AF_", "SO", "PEM_", "HAS_PSK", "HAS_PHA", "HAS_SSL_SENDFILE", "SSL_ERROR_INVALID",
                    "VERIFY_ALLOW", "RAND_pseudo")
        names = {name for name in dir(here) if name[0].isupper() and not name.startswith(prefixes)}
        self.assertEqual(names - set(dir(self.ssl)), {"AlertDescription"})


class Wires(NetTest):
    def setUp(self):
        before = {kind: kind.connect for kind in (http.client.HTTPConnection, http.client.HTTPSConnection)}
        super().setUp()
        for kind, connect in before.items():
            self.addCleanup(setattr, kind, "connect", connect)
        _wire.install()

    def test_a_connection_of_http_client_asks_the_capability(self):
        self.serve(201, "made", {"x-kind": "test", "transfer-encoding": "chunked"})
        connection = http.client.HTTPSConnection("h", 8443)
        connection.request("PUT", "/a?b=c", b"\xff\x00", {"X-Key": "v"})
        answer = connection.getresponse()
        self.assertEqual((answer.status, answer.reason, answer.read()), (201, "Created", b"made"))
        self.assertEqual((answer.getheader("x-kind"), answer.getheader("transfer-encoding")), ("test", None))
        method, url, sent, data = self.asked[0]
        self.assertEqual((method, url, sent["x-key"], data), ("PUT", "https://h:8443/a?b=c", "v", b"\xff\x00"))
        connection.request("GET", "/next")  # the same object connects once more
        self.assertEqual(connection.getresponse().read(), b"made")

    def test_a_body_in_pieces_is_put_together(self):
        self.serve()
        connection = http.client.HTTPConnection("h")
        connection.request("POST", "/", iter([b"ab", b"", b"cd"]), {"Transfer-Encoding": "chunked"},
                           encode_chunked=True)
        connection.getresponse()
        self.assertEqual(self.asked[0][3], b"abcd")

    def test_an_answer_without_a_body_has_its_length(self):
        self.serve(headers={"content-length": "7"})
        connection = http.client.HTTPConnection("h")
        connection.request("HEAD", "/")
        answer = connection.getresponse()
        self.assertEqual((answer.getheader("content-length"), answer.read()), ("7", b""))

    def test_a_refusal_is_the_capabilitys_and_is_reported_once(self):
        self.deny()
        shown = []
        with unittest.mock.patch.object(sys, "unraisablehook", shown.append):
            for kind in (http.client.HTTPConnection, http.client.HTTPSConnection):
                connection = kind("h")
                connection.request("GET", "/")
                with self.assertRaisesRegex(PermissionError, "no grant allows it"):
                    connection.getresponse()
            gc.collect()
        self.assertEqual(shown, [])

    def test_its_connections_need_no_sockets(self):
        self.addCleanup(_processes.install())
        self.serve(200, "plain")
        connection = http.client.HTTPConnection("h")
        connection.request("GET", "/")
        self.assertEqual(connection.getresponse().read(), b"plain")

    def test_a_proxy_is_refused(self):
        connection = http.client.HTTPSConnection("proxy")
        connection.set_tunnel("h")
        with self.assertRaisesRegex(NotImplementedError, "proxy"):
            connection.request("GET", "/")


def offer(test, package, files):
    """Makes a package of these files importable during the test, and changed as the real one is."""
    folder = tempfile.TemporaryDirectory()
    test.addCleanup(folder.cleanup)
    for path, text in files.items():
        place = Path(folder.name) / package / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    sys.path.insert(0, folder.name)
    test.addCleanup(sys.path.remove, folder.name)
    forget(package)
    test.addCleanup(forget, package)
    _libraries.install()
    test.addCleanup(sys.meta_path.remove, _imports._Finder)


def forget(package):
    for name in list(sys.modules):
        if name.partition(".")[0] == package:
            del sys.modules[name]


# The part of httpx that its transports need.
HTTPX = {
    "__init__.py": "from . import _transports\n",
    "_exceptions.py": "class TransportError(Exception):\n"
                      "    def __init__(self, message, *, request=None):\n"
                      "        super().__init__(message)\n"
                      "class ConnectError(TransportError): pass\n"
                      "class ReadTimeout(TransportError): pass\n",
    "_models.py": "class Response:\n"
                  "    def __init__(self, status, headers=None, content=b'', request=None):\n"
                  "        self.status, self.headers, self.content = status, dict(headers or {}), content\n",
    "_transports/__init__.py": "",
    "_transports/base.py": "class BaseTransport: pass\nclass AsyncBaseTransport: pass\n",
    "_transports/default.py": "class HTTPTransport: pass\nclass AsyncHTTPTransport: pass\n",
}


class Httpx(NetTest):
    def setUp(self):
        super().setUp()
        offer(self, "httpx", HTTPX)
        self.default = importlib.import_module("httpx._transports.default")

    class Request:
        def __init__(self, method, url, body=b"", headers=()):
            self.method, self.url, self._body = method, url, body
            self.headers = type("Headers", (), {"raw": list(headers)})

        def read(self):
            return self._body

        async def aread(self):
            return self._body

    def test_a_request_goes_through_the_capability(self):
        self.serve(200, "é", {"x-kind": "test", "content-encoding": "gzip"})
        request = self.Request("POST", "https://h/a#b", b"\xff", [(b"X-Key", b"v")])
        answer = self.default.HTTPTransport().handle_request(request)
        self.assertEqual((answer.status, answer.headers, answer.content), (200, {"x-kind": "test"}, "é".encode()))
        method, url, sent, data = self.asked[0]
        self.assertEqual((method, url, sent, data), ("POST", "https://h/a", {"x-key": "v"}, b"\xff"))

    def test_a_client_that_awaits_has_the_same(self):
        self.serve(200, "here")
        coroutine = self.default.AsyncHTTPTransport().handle_async_request(self.Request("GET", "https://h/a"))
        with self.assertRaises(StopIteration) as end:
            coroutine.send(None)
        self.assertEqual(end.exception.value.content, b"here")

    def test_a_client_decides_whether_it_follows_where_the_host_has_been(self):
        self.serve(200, "there", url="https://h/b")
        transport = self.default.HTTPTransport()
        first = transport.handle_request(self.Request("GET", "https://h/a"))
        self.assertEqual((first.status, first.headers), (303, {"location": "https://h/b"}))
        second = transport.handle_request(self.Request("GET", "https://h/b"))
        self.assertEqual((second.status, second.content, len(self.asked)), (200, b"there", 1))

    def test_a_refusal_is_an_error_of_httpx_and_of_python(self):
        import httpx._exceptions
        for errno, kinds in (("EACCES", (httpx._exceptions.ConnectError, PermissionError)),
                             ("ETIMEDOUT", (httpx._exceptions.ReadTimeout, TimeoutError)),
                             ("ECONNECT", (httpx._exceptions.ConnectError,))):
            self.deny(errno)
            with self.assertRaises(kinds[0]) as raised:
                self.default.HTTPTransport().handle_request(self.Request("GET", "https://h/"))
            for kind in kinds:
                self.assertIsInstance(raised.exception, kind)

    def test_what_the_host_decides_is_refused(self):
        for options in ({"verify": False}, {"cert": "x.pem"}, {"proxy": "http://p"}, {"uds": "/s"}):
            with self.assertRaisesRegex(NotImplementedError, "the host makes the connection"):
                self.default.HTTPTransport(**options)
        self.default.HTTPTransport(verify=object(), retries=3)


class Urllib3(SessionTest):
    def setUp(self):
        super().setUp()
        self.addCleanup(sys.path.__setitem__, slice(None), list(sys.path))
        sys.path[:] = [entry for entry in sys.path if not entry.endswith("-packages")]  # this machine may have it there
        kept = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == "urllib3"}
        self.addCleanup(sys.modules.update, kept)
        for package in ("urllib3", "requests.packages"):
            self.addCleanup(lambda begin=package: [sys.modules.pop(name) for name in list(sys.modules) if name.startswith(begin)])
        self.addCleanup(vars(requests).pop, "packages", None)
        caught = warnings.catch_warnings()
        caught.__enter__()
        self.addCleanup(caught.__exit__, None, None, None)
        _libraries.install()
        for finder in (_imports._Finder, _imports._LastFinder):
            self.addCleanup(sys.meta_path.remove, finder)

    def test_modules_that_come_with_requests_exist(self):
        self.value("import requests\nfrom requests.adapters import HTTPAdapter, Retry\nfrom urllib3.util.retry import Retry as Same")
        self.assertEqual(self.value("Retry is Same, Retry(total=3, backoff_factor=1, status_forcelist=[500]).new(total=2)"),
                         "(True, Retry(total=2, connect=None, read=None, redirect=None, status=None))")
        self.value("s = requests.Session()\ns.mount('https://', HTTPAdapter(max_retries=Retry.from_int(3)))")
        self.value("requests.packages.urllib3.disable_warnings(requests.packages.urllib3.exceptions.InsecureRequestWarning)")
        self.value("import urllib3\nurllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)")
        self.value("from requests.packages.urllib3.util.retry import Retry\nfrom requests.packages.urllib3.exceptions import InsecureRequestWarning")

    def test_unsupported_uses_name_the_package(self):
        for code in ("import urllib3\nurllib3.PoolManager()", "from urllib3 import PoolManager"):
            self.assertEqual(self.run_turn(code)["error"]["missing"], {"module": "urllib3", "near": [], "install": []}, code)
        self.assertEqual(self.value("import urllib3\nhasattr(urllib3, '__path__'), hasattr(urllib3, '__nothing__')"), "(True, False)")

    def test_the_package_itself_is_taken_where_it_is(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "urllib3.py").write_text("whole = True\n")
            self.assertEqual(self.value("import urllib3\nurllib3.whole", packages=folder), "True")


class Pytest(unittest.TestCase):
    def test_it_has_the_options_that_it_needs_before_those_of_the_program(self):
        offer(self, "_pytest", {
            "__init__.py": "",
            "config/__init__.py": "class Config:\n    def parse(self, args, addopts=True):\n        return args, addopts\n"})
        config = importlib.import_module("_pytest.config").Config()
        self.assertEqual(config.parse(["-q", "-s"], addopts=False),
                         (["--capture=sys", "-p", "no:faulthandler", "-q", "-s"], False))


class Pandas(unittest.TestCase):
    def test_int_has_64_bits(self):
        offer(self, "pandas", {"core/dtypes/common.py": "def pandas_dtype(dtype):\n    return ('dtype', dtype)\n"})
        given = importlib.import_module("pandas.core.dtypes.common").pandas_dtype
        self.assertEqual([given(dtype)[1] for dtype in (int, "int", "int32", float, bool)], ["int64", "int64", "int32", float, bool])


PILLOW = {
    "__init__.py": "",
    "Image.py": """
saves, extensions = {}, {}
def _getencoder(mode, name, args, extra=()):
    if name == "zip":
        return "zip"
    raise OSError(f"encoder {name} not available")
def _getdecoder(mode, name, args, extra=()):
    raise OSError(f"decoder {name} not available")
def register_save(name, save):
    saves[name] = save
register_save_all = register_save
def register_extension(name, extension):
    extensions[extension] = name
""",
    "ImageFont.py": "class Deferred:\n    ex = ImportError('x')\ncore = Deferred()\n",
    "WebPImagePlugin.py": "from . import Image\nSUPPORTED = False\n",
    "AvifImagePlugin.py": "from . import Image\nSUPPORTED = True\n"}


class Pillow(unittest.TestCase):
    def setUp(self):
        offer(self, "PIL", PILLOW)
        self.image = importlib.import_module("PIL.Image")

    def test_a_format_that_is_not_built_in_says_what_to_use(self):
        self.assertEqual(self.image._getencoder("RGB", "zip", ()), "zip")
        with self.assertRaisesRegex(OSError, "encoder jpeg not available: Pillow has no JPEG here. Save as PNG"):
            self.image._getencoder("RGB", "jpeg", (), ())
        with self.assertRaisesRegex(OSError, "decoder jpeg not available: Pillow has no JPEG here. Convert the image to PNG"):
            self.image._getdecoder("RGB", "jpeg", ())
        with self.assertRaisesRegex(OSError, "encoder other not available$"):
            self.image._getencoder("RGB", "other", ())

    def test_the_extension_of_a_format_that_is_not_built_in_is_known(self):
        for plugin in ("WebPImagePlugin", "AvifImagePlugin"):
            importlib.import_module(f"PIL.{plugin}")
        self.assertEqual(self.image.extensions, {".webp": "WEBP"})
        with self.assertRaisesRegex(OSError, "encoder webp not available: Pillow has no WebP here. Save as PNG"):
            self.image.saves["WEBP"](None, None, "a.webp")

    def test_fonts_say_what_to_use(self):
        self.assertIn("load_default() without a size", str(importlib.import_module("PIL.ImageFont").core.ex))


if __name__ == "__main__":
    unittest.main()
