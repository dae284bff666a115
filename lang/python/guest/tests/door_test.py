import errno
import importlib
import os
import subprocess
import sys
import unittest

from tests.fake_door import DoorTest, real_registry

import membrane
from membrane import _capabilities, _door


class Device(unittest.TestCase):
    """The device itself: a request is one write, an answer all that is read."""

    def exchange(self, pieces, written=None):
        calls = []
        real = os.open, os.write, os.read, os.close
        os.open = lambda path, flags: calls.append(("open", path)) or 7
        os.write = lambda fd, data: calls.append(("write", data)) or (len(data) if written is None else written)
        os.read = lambda fd, size: pieces.pop(0)
        os.close = lambda fd: calls.append(("close", fd))
        try:
            return _door.exchange(b"{}"), calls
        finally:
            os.open, os.write, os.read, os.close = real
            self.calls = calls

    def test_pieces_are_put_together(self):
        answer, calls = self.exchange([b"ab", b"c", b""])
        self.assertEqual(answer, b"abc")
        self.assertEqual(calls, [("open", "/dev/membrane"), ("write", b"{}"), ("close", 7)])

    def test_a_request_that_is_not_taken_whole_fails_and_closes(self):
        with self.assertRaises(membrane.Error):
            self.exchange([b""], written=1)
        self.assertEqual(self.calls[-1], ("close", 7))


class Errors(DoorTest):
    def failing(self, name, **more):
        self.answers["kv.get"] = self.fails(name, **more)
        from membrane import kv
        with self.assertRaises(membrane.Error) as caught:
            kv.get("k")
        return caught.exception

    def test_each_has_the_class_that_programs_expect(self):
        for name, kinds in {
            "EACCES": [PermissionError], "ENOENT": [FileNotFoundError, KeyError], "ETIMEDOUT": [TimeoutError],
            "EINVAL": [ValueError], "EBUDGET": [membrane.Error], "EQUOTA": [OSError], "ECONNECT": [ConnectionError],
            "EEXIST": [FileExistsError], "EISDIR": [IsADirectoryError], "ENOTDIR": [NotADirectoryError],
            "ESOMETHINGNEW": [OSError],
        }.items():
            error = self.failing(name)
            for kind in kinds:
                self.assertIsInstance(error, kind)
            self.assertEqual(error.errno_name, name)

    def test_a_denial_names_the_grant(self):
        error = self.failing("EACCES", message="no grant allows k", grant="--allow kv")
        self.assertEqual(str(error), "kv.get: no grant allows k (EACCES; --allow kv would allow it)")
        self.assertEqual(error.grant, "--allow kv")
        self.assertEqual(error.errno, errno.EACCES)
        self.assertEqual(type(error).__name__, "PermissionError")

    def test_an_answer_that_is_not_json_is_an_error(self):
        _door.exchange = lambda request: b"\xff"
        with self.assertRaises(membrane.Error):
            _door.ask({"call": "kv.get", "arguments": []})


class Modules(DoorTest):
    def test_the_registry_is_asked_once(self):
        from membrane import http, kv
        import membrane.http
        self.assertIs(membrane.http, http)
        self.assertIs(membrane.kv, kv)
        self.assertEqual([r for r in self.requests if "registry" in r], [{"registry": True}])

    def test_what_is_missing_is_absent(self):
        with self.assertRaises(ImportError):
            from membrane import nothing
        with self.assertRaises(ModuleNotFoundError):
            importlib.import_module("membrane.nothing")
        with self.assertRaises(AttributeError):
            membrane._private

    def test_values_go_and_come_by_their_declared_types(self):
        from membrane import http, kv, math
        self.answers.update({"http.get": "é", "kv.set": None, "kv.get": {"base64": "/wA="},
                             "math.sum": {"integer": "9007199254740993"}, "math.half": {"number": "nan"}})
        self.assertEqual(http.get("u"), "é".encode())
        self.assertIsNone(kv.set("k", b"\xff\x00"))
        kv.set("k", "é")
        kv.set(key="k", value=bytearray(b"x"))
        self.assertEqual(kv.get("k"), b"\xff\x00")
        self.assertEqual(math.sum(1, True), 9007199254740993)
        self.assertNotEqual(math.half(float("inf")), 0)
        self.assertEqual(self.calls[1:4], [("kv.set", ["k", {"base64": "/wA="}]), ("kv.set", ["k", "é"]),
                                           ("kv.set", ["k", "x"])])
        self.assertEqual(self.calls[-1], ("math.half", [{"number": "inf"}]))

    def test_what_does_not_fit_is_refused_before_it_goes(self):
        from membrane import http, kv, math
        for wrong in (lambda: http.get(b"u"), lambda: http.get(), lambda: http.get("a", "b"),
                      lambda: kv.set("k", 1), lambda: math.sum(1.5, 2), lambda: math.sum("1", 2)):
            self.assertRaises(TypeError, wrong)
        self.assertRaises(OverflowError, lambda: math.sum(1 << 31, 0))
        self.assertEqual(self.calls, [])

    def test_help_reads_well(self):
        import inspect
        import pydoc
        from membrane import http, math
        self.assertEqual(str(inspect.signature(http.get)), "(url: str) -> bytes")
        self.assertEqual(str(inspect.signature(math.half)), "(from_: float) -> float")
        text = pydoc.render_doc(http, renderer=pydoc.plaintext)
        for part in ("Requests.", "Granted by --allow http.", "get(url: str) -> bytes", "EACCES: no grant",
                     'print(http.get("https://example.org/"))'):
            self.assertIn(part, text)
        self.assertEqual(_capabilities._example_of(r'(drop (call $f! (string "a\"\c3\a9\n") (i32.const 5)))'), r'f("a\"é\n", 5)')
        self.assertEqual(_capabilities._example_of(r'(call $f (string "\ff"))'), r"f(b'\xff')")
        self.assertNotIn("Example", math.loop.__doc__, "what Python cannot say is not shown")


class TheRealRegistry(DoorTest):
    registry = real_registry()

    @unittest.skipIf(registry is None, "MEMBRANE_COMMAND is not set")
    def test_every_function_exists_with_its_parameters(self):
        import inspect
        for capability in self.registry["capabilities"]:
            module = getattr(membrane, capability["name"])
            for function in capability["functions"]:
                made = getattr(module, _capabilities._identifier(function["name"].partition(".")[2]))
                self.assertEqual(len(inspect.signature(made).parameters), len(function["params"]))
                self.assertIn(function["summary"], made.__doc__)


@unittest.skipUnless(os.environ.get("MEMBRANE_DOOR"), "MEMBRANE_DOOR is not set")
class TheRealDoor(unittest.TestCase):
    """Against the host's own code, in a process beside."""

    def setUp(self):
        self.door = subprocess.Popen([os.environ["MEMBRANE_DOOR"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.before = _door.exchange
        _door.exchange = self.exchange
        _capabilities._modules.clear()

    def tearDown(self):
        _door.exchange = self.before
        for name in _capabilities._modules:
            sys.modules.pop(f"membrane.{name}", None)
        _capabilities._modules.clear()
        self.door.stdin.close()
        self.assertEqual(self.door.wait(), 0)
        self.door.stdout.close()

    def exchange(self, request):
        self.door.stdin.write(b"%d\n%s" % (len(request), request))
        self.door.stdin.flush()
        return self.door.stdout.read(int(self.door.stdout.readline()))

    def test_values_of_every_type_come_back_whole(self):
        from membrane import json, kv, random, str, time
        for value in (b"", b"\xff\x00", "é\U0001f600\n\"\\".encode(), b"x" * 100_000):
            kv.set("k\u00e9", value)
            self.assertEqual(kv.get("k\u00e9"), value)
        for number in (0, -1, (1 << 63) - 1, -(1 << 63), (1 << 53) + 1):
            self.assertEqual(str.to_i64(str.from_i64(number)), number)
        for number in (0.5, -0.0, 1e300, float("inf"), float("-inf")):
            self.assertEqual(str.to_f64(str.from_f64(number)), number)
        self.assertEqual(str.repeat("ab", 3), b"ababab")
        self.assertEqual(len(random.bytes(9)), 9)
        self.assertEqual(time.format(0), "1970-01-01T00:00:00.000Z")
        self.assertEqual(json.get('{"a":[1]}', "a"), "[1]")

    def test_errors_have_their_classes(self):
        from membrane import http, kv, str
        self.assertRaises(KeyError, kv.get, "nothing")
        with self.assertRaises(PermissionError) as caught:
            http.get("http://elsewhere/")
        self.assertEqual(caught.exception.grant, "--allow http:GET:http://elsewhere/")
        with self.assertRaisesRegex(ValueError, "EINVAL"):
            str.to_i64("x")
        with self.assertRaisesRegex(membrane.Error, "ENOENT"):
            _door.ask({"call": "http.gt", "arguments": []})
        with self.assertRaisesRegex(membrane.Error, "EINVAL"):
            _door.ask({"what": 1})

    def test_requests_reads_pages(self):
        import requests
        answer = requests.get("http://h/")
        self.assertEqual((answer.status_code, answer.text, answer.headers["Content-Type"]), (200, "h\u00e9", "text/plain"))
        answer = requests.post("http://h/bytes", json={"a": 1})
        self.assertEqual((answer.status_code, answer.content, answer.url), (404, b"\xff", "http://h/there"))
        self.assertRaises(PermissionError, requests.get, "http://elsewhere/")

    def test_every_example_runs_as_python(self):
        """What the documentation shows can be compiled, and names what is there."""
        shown = 0
        for name, module in membrane.modules().items():
            for function in module.__all__:
                doc = getattr(module, function).__doc__
                if "Example:" in doc:
                    code = "\n".join(line[4:] for line in doc.partition("Example:\n")[2].splitlines())
                    compile(code, name, "exec")
                    shown += 1
        self.assertGreater(shown, 40)


if __name__ == "__main__":
    unittest.main()
