"""What the service says is in words of its REST interface; here it becomes those of this client."""

from __future__ import annotations

import re

_PHRASES = (
    ("The list of files says what there is: files.list() of the clients, GET …/files/list.",
     "sandbox.files.list() says what there is."),
    ("GET /v1/templates lists them.", "membrane templates lists them."),
    ("GET /v1/snapshots lists them.", "Snapshots().list() lists them."),
    ("GET /v1/secrets lists their names.", "Secrets().list() lists their names."),
    ("GET …/contexts lists them.", "sandbox.contexts.list() lists them."),
    ("GET …/policy says", "sandbox.policy() says"),
    ("(membrane cp, PUT …/files)", "(sandbox.files.write())"),
    ("(PUT …/files)", "(sandbox.files.write())"),
    ("timeout_ms; timeout of the clients; --timeout of membrane exec.", "timeout=."),
    ('with "context" left out', "without context="),
    ('"open_stdin": true', "open_stdin=True"),
    ('"background": true', "background=True"),
    ('"seal": true', "seal=True"),
)  # fmt: skip

# Members of requests, and the arguments that fill them.
_ARGUMENTS = {
    "ttl_s": "ttl",
    "idle_timeout_s": "idle_timeout",
    "timeout_ms": "timeout",
    **{name: name for name in ("command", "context", "count", "directory", "env", "labels", "metadata", "packages", "seal", "since",
                               "snapshot", "stdin", "template", "terminal")},
}  # fmt: skip
_MEMBER = re.compile(r'"(' + "|".join(_ARGUMENTS) + r')((?:\.\w+|\[\d+\])*)"(: )?')
_LIMIT = re.compile(r'limits\.(\w+) of the sandbox\'s policy(?: \("limits": (\{[^{}]*\})(?:, beside what it grants)?\))?')
_BOUND = re.compile(r'"(ttl_s|idle_timeout_s|timeout_ms)" must be (at most|at least) (\d{1,15})\b')
_APPROVALS = re.compile(r"membrane approvals \S+, or GET …/approvals, lists")
_RESUME = re.compile(r"Resume it: membrane resume \S+, or POST \S+/resume\.")
_TEMPLATE = re.compile(r"DELETE /v1/templates/(\S+?)\.?$")
_SECRET = re.compile(r"PUT /v1/secrets/(\w+)")
_DESCRIPTION = re.compile(r"GET /openapi\.json describes [^.]*\.")
_UNITS_MS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1))


def in_words_of_client(text: str) -> str:
    for rest, ours in _PHRASES:
        text = text.replace(rest, ours)
    text = _APPROVALS.sub("sandbox.approvals.list() lists", text)
    text = _RESUME.sub("Resume it: sandbox.resume().", text)
    text = _TEMPLATE.sub(r'Snapshots().remove_template("\1").', text)
    text = _SECRET.sub(r'Secrets().put("\1", …)', text)
    text = _DESCRIPTION.sub("", text)
    text = _LIMIT.sub(_update, text)
    text = _BOUND.sub(_bound, text)
    return _MEMBER.sub(lambda found: _ARGUMENTS[found[1]] + found[2] + ("=" if found[3] else ""), text)


def _update(found: re.Match[str]) -> str:
    limits = found[2] or f'{{"{found[1]}": …}}'
    return f"limits.{found[1]}: sandbox.update(limits={limits})"


def _bound(found: re.Match[str]) -> str:
    amount_ms = int(found[3]) * (1 if found[1].endswith("_ms") else 1000)
    unit, size = next((unit, size) for unit, size in _UNITS_MS if amount_ms % size == 0)
    return f"{_ARGUMENTS[found[1]]} must be {found[2]} {amount_ms // size}{unit}"


_ALLOW = re.compile(r'Policy::allow\(("(?:[^"\\]|\\.)*")\)')
_OF_LIMIT = re.compile(r'Policy::limit\(("\w+"), ("[^"]*")\)')


def in_words_of_session(text: str) -> str:
    """What the engine says to C++ embedders, as arguments of Session()."""
    text = _ALLOW.sub(r"allow=[\1]", text)
    return _OF_LIMIT.sub(r"limits={\1: \2}", text)
