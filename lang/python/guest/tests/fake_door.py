"""A host for the tests: answers requests from tables, and remembers them."""

import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from membrane import _capabilities, _door


def _function(name, params, result=None, **more):
    return {"name": name, "params": [{"name": n, "type": t} for n, t in params],
            "result": {"name": "value", "type": result} if result else None, "summary": f"What {name} does.",
            "details": "", "failures": [], "example": "", **more}


REGISTRY = {"capabilities": [
    {"name": "http", "summary": "Requests.", "grant": "--allow http", "functions": [
        _function("http.get", [("url", "text")], "bytes", failures=[{"errno": "EACCES", "number": 1, "when": "no grant"}],
                  example='(call $io.print (call $http.get! (string "https://example.org/")))'),
        _function("http.exchange", [("method", "text"), ("url", "text"), ("headers", "text"), ("body", "bytes")],
                  "text")]},
    {"name": "kv", "summary": "A store.", "grant": "--allow kv", "functions": [
        _function("kv.get", [("key", "text")], "bytes"),
        _function("kv.set", [("key", "text"), ("value", "bytes")])]},
    {"name": "math", "summary": "Numbers.", "grant": "", "functions": [
        _function("math.sum", [("a", "i32"), ("b", "i64")], "i64"),
        _function("math.half", [("from", "f64")], "f64"),
        _function("math.loop", [], "i32", example="(loop $l (br $l))")]},
]}


def real_registry():
    """What the command says, where there is one."""
    command = os.environ.get("MEMBRANE_COMMAND")
    if not command:
        return None
    return json.loads(subprocess.run([command, "capabilities", "--json"], check=True, capture_output=True).stdout)


class DoorTest(unittest.TestCase):
    """Each test has a door of its own: `self.answers[name]` is a value, or a function of the arguments."""

    registry = REGISTRY

    def setUp(self):
        self.answers = {}
        self.calls = []
        self.requests = []
        self.results = []
        self._before = _door.exchange
        _door.exchange = self._exchange
        _capabilities._modules.clear()

    def tearDown(self):
        _door.exchange = self._before
        for name in _capabilities._modules:
            sys.modules.pop(f"membrane.{name}", None)
        _capabilities._modules.clear()

    def fails(self, errno, message="", grant=""):
        return {"error": {"errno": errno, "message": message, "grant": grant}}

    def _exchange(self, request):
        assert isinstance(request, bytes)
        return json.dumps(self._answer(json.loads(request))).encode()

    def _answer(self, request):
        self.requests.append(request)
        if "registry" in request:
            return self.registry
        if request.get("session") == "result":
            self.results.append(request)
            return {"value": None}
        self.calls.append((request["call"], request["arguments"]))
        answer = self.answers[request["call"]]
        answer = answer(*request["arguments"]) if callable(answer) else answer
        return answer if isinstance(answer, dict) and "error" in answer else {"value": answer}
