"""Rewrites messages for users of this package: the service names parts of its REST interface, and the engine those of C++."""

from __future__ import annotations

import json
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

# Members of requests, and the arguments that set them.
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


_ALLOW = re.compile(r'Policy::allow\(("(?:[^"\\]|\\.)*)"\)(:\.{1,2})?')  # group 2: the end of a grant whose path is a dot
_OF_LIMIT = re.compile(r'Policy::limit\(("\w+"), ("[^"]*")\)')
_FLAG = re.compile(r"--allow ('(?:[^']|'\\'')*'|[^\s')]+)")
_LIMIT_FLAG = re.compile(r"(limits\.\w+), --[\w-]+|(limits\.\w+) \(--[^)]*\)")
_ADD = re.compile(r"(?:Install it|Add it|Else add it): membrane languages add (\S+)(?: module\.wasm| \(docs/languages\.md[^)]*\)\.)?")
_PACKAGES = r'python = (\[[^\]]*\]) under \[packages\] of the policy'
_BY_PERSON = re.compile(r"a program cannot install it: the person who runs it can write " + _PACKAGES)
_BY_FLAG = re.compile(r"run with(?: --with \S+)+, or write " + _PACKAGES)
_SOME_PACKAGES = re.compile(r"(?:run with --with NAME, or|the person who runs it can) name them under \[packages\] of the policy")
_NO_MODEL = re.compile(r'It would be allowed by allow=\["(ai|ask)"\]')
_SCRIPT_OF = re.compile(r"Run it with --lang (\w+), or name the file \.\w+\.")
_OF_SESSION = (
    ("Repeat the option: --with rich --with httpx; in a policy, list them.",
     'List them: policy={"packages": {"python": ["rich", "httpx"]}}.'),
    ("or run a command: membrane run --kind linux.",
     'or use a service\'s Linux sandbox: Sandbox.create(template="linux").'),
    ('Open js, and give cells names that end in .ts: "cell.ts".', 'Open Session("js"), and name its cells so: run(code, name="cell.ts").'),
    ("Give another language its files when it is added: membrane languages add --file.", "Another language has the files that it was added with."),
    ("Give it the files when it is added: membrane languages add --file.", "It has the files that it was added with."),
    ("Give the bytes that keep() made.", "Give what dump() returned."),
    ("Run code that calls one first.", "start() begins a turn that waits when it calls a function that is answered later."),
)  # fmt: skip
_ASKED = {"ai": "model=", "ask": "ask="}
# Messages of the engine that have no hint, and the hint for this package.
_MENDED = (
    ("No model is configured.", "Give the session one: model=, a function of a ModelRequest that returns a text."),
    ("The model embeds no text.", "Give the session one that does: model=Model(complete=…, embed=…)."),
    ("No one is there to answer.", "Give the session someone to ask: ask=, a function of the question and a number of seconds that returns a text."),
    ("without a person's yes, and nobody answered:",
     "Give the session an approver: approve=, a function of an EgressQuestion that returns True or False."),
)  # fmt: skip
_INSTALLED = ("python", "js")


def in_words_of_session(text: str) -> str:
    """Rewrites a message for C++ embedders or users of the command, to name arguments of Session() and functions of this package."""
    for rest, ours in _OF_SESSION:
        text = text.replace(rest, ours)
    text = _ALLOW.sub(lambda found: f'allow=[{found[1]}{found[2] or ""}"]', text)
    text = _FLAG.sub(_allow, text)
    text = _NO_MODEL.sub(lambda found: f"{found[0]}, with {_ASKED[found[1]]}, a function that answers", text)
    text = _OF_LIMIT.sub(r"limits={\1: \2}", text)
    text = _LIMIT_FLAG.sub(lambda found: found[1] or found[2], text)
    text = _ADD.sub(_install, text)
    text = _BY_PERSON.sub(r'a program cannot install it: make the session with policy={"packages": {"python": \1}}', text)
    text = _BY_FLAG.sub(r'make the session with policy={"packages": {"python": \1}}', text)
    text = _SOME_PACKAGES.sub(r'make the session with policy={"packages": {"python": ["NAME"]}}', text)
    return _SCRIPT_OF.sub(r'Run it in Session("\1").', text)


def hint_of_session(message: str) -> str:
    """Returns a hint for an error of the engine that has none, or ""."""
    return next((hint for said, hint in _MENDED if said in message), "")


def hint_of_keys(file: str) -> str:
    """Returns the hint for receipts without a key. file: where the key was looked for."""
    return f"There is none in {file}: Receipts(…, makes_key=True) or the command membrane keys generate makes one there, and key_file= names another file."


def _allow(found: re.Match[str]) -> str:
    word = found[1]
    if word.startswith("'"):
        word = word[1:-1].replace("'\\''", "'")
    end = len(word if word.endswith((":.", ":..")) else word.rstrip(".,;:"))  # a full stop ends the path, or the sentence
    return f"allow=[{json.dumps(word[:end], ensure_ascii=False)}]{word[end:]}"


def _install(found: re.Match[str]) -> str:
    if found[1] in _INSTALLED:
        return f'Install it: python -m membrane install {found[1]}, or membrane.install("{found[1]}").'
    return "python -m membrane install brings python and js."
