"""The way out: one request as JSON, one answer back.

Where the interpreter has a call of its own for that, it is one call of the host. Else it is /dev/membrane: a request is one
whole write; what is read until the end is its answer. The device is opened for each request, so that nothing of a program
(closing descriptors, forking, being frozen) can put another file in its place.
"""

import base64
import errno
import json
import os

try:
    from _host import call as _call_host
except ImportError:
    _call_host = None

DEVICE = "/dev/membrane"
_PIECE_BYTES = 1 << 20


class Error(OSError):
    """A call that failed: `errno_name` says how ("EBUDGET"), `grant` what would allow it, if that is why."""

    errno_name = "EHOST"
    grant = ""

    def __str__(self):
        return self.strerror or self.errno_name


class PermissionError_(Error, PermissionError):
    """No grant of the policy allows the call. `grant` is what would allow it."""


class NotFoundError(Error, FileNotFoundError, KeyError):
    """The file, key, table or path does not exist."""


class ArgumentError(Error, ValueError):
    """An argument is malformed."""


class TimeoutError_(Error, TimeoutError):
    """The other side did not answer in time."""


class ConnectionError_(Error, ConnectionError):
    """No connection could be made."""


class ExistsError(Error, FileExistsError):
    """The thing exists already."""


class IsDirectoryError(Error, IsADirectoryError):
    """The path names a directory."""


class NotDirectoryError(Error, NotADirectoryError):
    """A part of the path is not a directory."""


# Programs and tracebacks know them by Python's own names.
for _class in (Error, PermissionError_, NotFoundError, ArgumentError, TimeoutError_, ConnectionError_, ExistsError,
               IsDirectoryError, NotDirectoryError):
    _class.__module__ = "membrane"
    _class.__name__ = _class.__qualname__ = _class.__name__.rstrip("_")

# The meaning of a host error name here: the class, and Python's number for it.
_ERRORS = {
    "EACCES": (PermissionError_, "EACCES"),
    "ENOENT": (NotFoundError, "ENOENT"),
    "EQUOTA": (Error, "EDQUOT"),
    "EINVAL": (ArgumentError, "EINVAL"),
    "EBUDGET": (Error, "EDQUOT"),
    "ETIMEDOUT": (TimeoutError_, "ETIMEDOUT"),
    "EHOST": (Error, "EIO"),
    "ENOMEM": (Error, "ENOMEM"),
    "E2BIG": (Error, "E2BIG"),
    "EEXIST": (ExistsError, "EEXIST"),
    "EISDIR": (IsDirectoryError, "EISDIR"),
    "ENOTDIR": (NotDirectoryError, "ENOTDIR"),
    "ENOTSUP": (Error, "ENOTSUP"),
    "ECONNECT": (ConnectionError_, "ECONNREFUSED"),
    "EPROTO": (Error, "EPROTO"),
    "ECANCELED": (Error, "ECANCELED"),
}


def error_of(answer, what=""):
    """The exception that tells of {"errno":…, "message":…, "grant":…}."""
    name = answer.get("errno", "EHOST")
    grant = answer.get("grant", "")
    kind, number = _ERRORS.get(name, (Error, "EIO"))
    message = answer.get("message", "") or name
    text = f"{what}: {message}" if what else message
    text += f" ({name})" if not grant else f" ({name}; {grant} would allow it)"
    error = kind(getattr(errno, number, errno.EIO), text)
    error.errno_name = name
    error.grant = grant
    return error


def exchange(request):
    """The answer to the request; both are bytes. No bytes stand for a value that is null."""
    if _call_host is not None:
        try:
            return _call_host(request)
        except RuntimeError:
            raise MemoryError("there is no room for the host's answer") from None
    try:
        device = os.open(DEVICE, os.O_RDWR)
    except FileNotFoundError:
        raise error_of({"errno": "ENOTSUP", "message": f"there is no {DEVICE}: this is not inside Membrane"}) from None
    try:
        if os.write(device, request) != len(request):
            raise error_of({"errno": "E2BIG", "message": f"a request of {len(request)} bytes is too large"})
        pieces = []
        while piece := os.read(device, _PIECE_BYTES):
            pieces.append(piece)
        return b"".join(pieces)
    finally:
        os.close(device)


# The inner functions of encode() and loads(), made once: each turn uses them.
_scan = json.JSONDecoder().scan_once
_make_encoder = json.encoder.c_make_encoder
_write = _make_encoder and _make_encoder(None, json.JSONEncoder().default, json.encoder.encode_basestring, None, ":", ",",
                                         False, False, True)


def encode_tree(value):
    """As JSON, of what holds nothing that holds it."""
    return "".join(_write(value, 0)) if _write else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def object_of(text):
    """What the host has written as JSON, in bytes."""
    return _scan(text.decode(), 0)[0]


def ask(request, what=""):
    """The object that answers the object, or a request that is JSON already. An answer that is an error is raised."""
    if not isinstance(request, bytes):
        request = encode_tree(request).encode("utf-8", "replace")
    text = exchange(request)
    if not text:
        return {}
    try:
        answer = object_of(text)
    except (ValueError, StopIteration):
        answer = {"error": {"errno": "EHOST", "message": "the answer is not JSON"}}
    if isinstance(answer, dict) and "error" in answer and isinstance(answer["error"], dict) and "errno" in answer["error"]:
        raise error_of(answer["error"], what)
    return answer


def call(name, arguments):
    """The value that a host function gives for arguments that are JSON already."""
    return ask({"call": name, "arguments": arguments}, name).get("value")


def bytes_to_json(data):
    """A text where the bytes are one."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def bytes_of_json(value):
    if isinstance(value, dict):
        return base64.b64decode(value["base64"])
    return value.encode()
