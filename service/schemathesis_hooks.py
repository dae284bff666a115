"""What schemathesis cannot find out by itself: values that have an effect. schemathesis_test.py runs it
with this module.

A generated invalid value stays invalid, and a valid one stays valid: chains of requests then reach sandboxes
that exist, programs that run, and files that exist. Choices depend only on the value, so a seed determines
everything.
"""

import json
import os
import threading
import uuid
import zlib
from urllib.request import Request, urlopen

import schemathesis

URL, TOKEN = os.environ["MEMBRANE_URL"], os.environ["MEMBRANE_TOKEN"]
TEMPLATES, SANDBOXES = (os.environ[name].split() for name in ("MEMBRANE_TEMPLATES", "MEMBRANE_SANDBOXES"))
PROGRAMS = [
    '(module (func (export "run") (result i32) (i32.add (i32.const 2) (i32.const 40))))',
    '(func (export "run") (call $io.println (string "hello")))',
    '(module (func (export "run") unreachable))',
    "6 * 7",
    "open('/tmp/f', 'w').write('text')",
    "import sys\nprint(sys.stdin.read())\nprint('oh', file=sys.stderr)",
    "1 / 0",
]
PATHS = ["/tmp", "/tmp/f", "/tmp/made", "/tmp/made/g", "/work", "/"]
TTL_S, MOST_FORKS = 600, 2
WATCHED_S = 0.05


def choice(value, options):
    return options[zlib.crc32(json.dumps(value, sort_keys=True, default=str).encode()) % len(options)]


def is_text(value, most, least=1):
    return isinstance(value, str) and least <= len(value) <= most


def is_whole(value, least, most):
    """194.0 is one too, for JSON."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value % 1 == 0 and least <= value <= most


def create(body):
    if is_text(body.get("snapshot"), 100) and choice(["snapshot", body], [True, True, False]):
        del body["snapshot"]
    if is_text(body.get("template", "absent"), 64) and "snapshot" not in body:  # one of the two
        body["template"] = choice(body, TEMPLATES)
    for unlikely, is_right in (("policy", lambda value: isinstance(value, dict)), ("packages", are_packages)):
        if unlikely in body and is_right(body[unlikely]) and choice([unlikely, body], [True, True, True, False]):
            del body[unlikely]  # what a generator writes there is refused each time
    lives(body)


def are_packages(value):
    return isinstance(value, list) and len(value) <= 64 and all(is_text(each, 256) for each in value)


def lives(body):
    """As long as its chain needs, and not much longer."""
    for name in ("ttl_s", "idle_timeout_s"):
        if is_whole(body.get(name), 1, 2592000):
            body[name] = TTL_S


def run(body):
    if isinstance(body.get("code"), str):
        body["code"] = choice(body, [*PROGRAMS, body["code"]])
    if is_text(body.get("context"), 100, 0) and choice(["context", body], [True, True, False]):
        del body["context"]


def fork(body):
    if is_whole(body.get("count"), MOST_FORKS, 256):
        body["count"] = MOST_FORKS


def paths(body):
    for name in ("path", "from", "to"):
        if is_text(body.get(name), 4096):
            body[name] = choice([name, body], [*PATHS, body[name]])
    if is_text(body.get("context"), 100, 0):
        del body["context"]


BODIES = {"createSandbox": create, "updateSandbox": lives, "exec": run, "forkSandbox": fork, "makeDirectory": paths,
          "moveFile": paths}


@schemathesis.serializer("application/x-tar", "text/x-patch")
def tar(context, value):
    return {"data": value}


@schemathesis.hook
def map_body(context, body):
    change = BODIES.get(context.operation.definition.raw["operationId"])
    if change and isinstance(body, dict):
        change(body)
    return body


@schemathesis.hook
def map_path_parameters(context, parameters):
    """Often a sandbox that exists all the time."""
    if parameters and is_text(parameters.get("sandbox"), 1 << 20):
        if context.operation.definition.raw["operationId"] != "killSandbox":
            parameters["sandbox"] = choice(parameters, [*SANDBOXES, parameters["sandbox"]])
    return parameters


@schemathesis.hook
def map_headers(context, headers):
    """No version of a sandbox is guessed."""
    if headers and is_text(headers.get("If-Match"), 1 << 20, 0) and choice(headers, [True, True, True, False]):
        headers["If-Match"] = "*"
    return headers


@schemathesis.hook
def map_query(context, query):
    if isinstance(query, dict) and "/files" in context.operation.path:
        paths(query)
    return query


def ask(method, path, body=None):
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    return urlopen(Request(URL + path, body and json.dumps(body).encode(), headers, method=method))


@schemathesis.hook
def filter_failure(context, failure, case, response):
    """DELETE of an exec cancels it; its output remains. DELETE of a file leaves those at other paths. And
    a sandbox that was just created exists, though a file or a context that the request also names may not."""
    kind = type(failure).__name__
    if kind == "EnsureResourceAvailability":
        return any(str(name) in response.text for name in case.path_parameters.values())
    return kind != "UseAfterFree" or not any(part in case.operation.path for part in ("/execs/", "/files"))


@schemathesis.hook
def before_call(context, case, kwargs):
    """Requests that would end the test: removing or narrowing its own token, and watching a running
    sandbox."""
    operation = case.operation.definition.raw["operationId"]
    key = case.headers.get("Idempotency-Key") if case.headers else None
    if is_text(key, 200) and key.isascii() and key.isprintable() and " " not in key:
        # A key that was used before returns the earlier answer, about a thing that may be gone.
        case.headers["Idempotency-Key"] = f"{key}-{uuid.uuid4()}"
    if operation == "forkSandbox" and isinstance(case.body, dict):
        fork(case.body)  # also of bodies that are at a bound, which are not generated: the quota would be used up
    if operation == "createToken" and isinstance(case.body, dict) and case.body.get("tenant") == "owner":
        case.body["tenant"] = "somebody"
    if operation == "deleteToken" and case.path_parameters.get("token") == "owner":
        case.path_parameters["token"] = "nobody's"
    if operation == "watchFiles" and str(case.path_parameters.get("sandbox")).startswith("sbx"):
        with ask("POST", "/v1/sandboxes", {"template": TEMPLATES[0], "ttl_s": TTL_S}) as answer:
            sandbox = json.load(answer)["id"]
        case.path_parameters["sandbox"] = sandbox
        threading.Timer(WATCHED_S, lambda: ask("DELETE", f"/v1/sandboxes/{sandbox}").close()).start()
