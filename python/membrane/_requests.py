"""The requests of the service's API as data, and the meaning of their answers: shared by the blocking and the asyncio client."""

from __future__ import annotations

import base64
import json
import ssl
import uuid
from dataclasses import dataclass, field
from typing import Any, Callable, Generic, Mapping, Optional, Protocol, Sequence, TypeVar, Union
from urllib.parse import quote, urlencode

import httpx

from ._errors import BusyError, MembraneError, UnreachableError, error_of_status
from ._events import ServerEvent
from ._settings import seconds_of
from ._types import (
    Approval,
    Context,
    Duration,
    Event,
    FileEvent,
    FileInfo,
    Result,
    SandboxInfo,
    Secret,
    Snapshot,
    TerminalSize,
    forms_of,
    milliseconds,
    seconds,
)

T = TypeVar("T")
RETRIED_STATUSES = (429, 503)
EVENTS = "text/event-stream"
JSON = "application/json"


@dataclass(frozen=True)
class Request(Generic[T]):
    """`decode` turns the answer's body into what the caller gets."""

    method: str
    path: str
    decode: Callable[[bytes], T]
    body: Optional[bytes] = None
    headers: Mapping[str, str] = field(default_factory=dict)
    is_gone_fine: bool = False  # a 404 after a retry means that the first attempt succeeded


def json_of(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError as error:
        raise not_ours("no JSON") from error


def decode(request: Request[T], body: bytes) -> T:
    try:
        return request.decode(body)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise not_ours("not of the form that was expected") from error


def nothing(_: bytes) -> None:
    return None


def not_ours(what: str) -> MembraneError:
    return MembraneError(
        f"the answer is {what}", code="bad_answer", hint="Is it a Membrane service that answers at this URL?"
    )


def request(
    method: str,
    path: str,
    decode: Callable[[bytes], T],
    *,
    json_body: Optional[Mapping[str, Any]] = None,
    bytes_body: Optional[bytes] = None,
    query: Optional[Mapping[str, Any]] = None,
    content_type: str = "application/octet-stream",
    accept: str = JSON,
    is_gone_fine: bool = False,
) -> Request[T]:
    headers = {"Accept": accept}
    body = bytes_body
    if json_body is not None:
        body = json.dumps(json_body).encode()
        headers["Content-Type"] = JSON
    elif body is not None:
        headers["Content-Type"] = content_type
    if method == "POST":
        headers["Idempotency-Key"] = str(uuid.uuid4())
    if query:
        path += "?" + urlencode(query, quote_via=quote)
    return Request(method, path, decode, body, headers, is_gone_fine)


def error_of_answer(status: int, headers: httpx.Headers, body: bytes) -> MembraneError:
    error = _error_of_body(status, headers, body)
    if isinstance(error, BusyError) and "retry-after" in headers:
        error.retry_after_s = seconds_of(headers["retry-after"])
    return error


def _error_of_body(status: int, headers: httpx.Headers, body: bytes) -> MembraneError:
    request_id = headers.get("x-request-id", "")
    try:
        error = json.loads(body)["error"]
        return error_of_status(
            status, error["code"], error["message"], error.get("hint", ""), error.get("request_id", request_id),
            bool(error.get("retryable")),
        )  # fmt: skip
    except (ValueError, KeyError, TypeError):
        return error_of_status(
            status, "bad_answer", f"the service answered with the status {status}",
            "Is it a Membrane service that answers at this URL?", request_id, status in RETRIED_STATUSES,
        )  # fmt: skip


def error_of_transport(error: httpx.HTTPError, url: str, is_local: bool) -> UnreachableError:
    if isinstance(error, httpx.TimeoutException):
        return UnreachableError(
            f"the service at {url} did not answer in time", code="timed_out", hint="Raise timeout.", retryable=True
        )
    what, hint = f"the connection to the service at {url} was cut: {error}", ""
    if isinstance(error, httpx.ConnectError):
        what = f"no service answers at {url}: {error}"
        hint = "Start one: membrane serve" if is_local else "Is MEMBRANE_URL right, and the service running?"
    return UnreachableError(what, code="unreachable", hint=hint, retryable=True)


def is_untrusted(error: BaseException) -> bool:
    """Whether the certificate is not trusted, so that a retry would fail, too."""
    at: Optional[BaseException] = error
    for _ in range(8):
        if at is None or isinstance(at, ssl.SSLCertVerificationError):
            break
        at = at.__cause__ or at.__context__
    return isinstance(at, ssl.SSLCertVerificationError)


def error_of_certificate(error: BaseException, url: str) -> UnreachableError:
    return UnreachableError(
        f"the certificate of {url} is not trusted here: {error}",
        code="untrusted",
        hint="Set SSL_CERT_FILE to a PEM file with the certificates to trust.",
    )


class Identified(Protocol):
    @property
    def id(self) -> str: ...


def id_of(thing: Union[Identified, str]) -> str:
    return thing if isinstance(thing, str) else thing.id


def id_or_none(thing: Union[Identified, str, None]) -> Optional[str]:
    return None if thing is None else id_of(thing)


def without_none(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


# -- sandboxes ------------------------------------------------------------------------------------------------------


def _info(body: bytes) -> SandboxInfo:
    return SandboxInfo.of_json(json_of(body))


def _path(sandbox: str, *rest: str) -> str:
    return "/v1/sandboxes/" + "/".join(quote(each, safe="") for each in (sandbox, *rest))


def create(
    template: Optional[str],
    snapshot: Union[Snapshot, str, None],
    policy: Optional[Mapping[str, Any]],
    ttl: Optional[Duration],
    idle_timeout: Optional[Duration],
    metadata: Optional[Mapping[str, str]],
    labels: Optional[Sequence[str]],
    env: Optional[Mapping[str, str]],
    packages: Optional[Sequence[str]],
    seal: bool,
) -> Request[SandboxInfo]:
    spec = without_none(
        template=template or (None if snapshot else "python"),
        snapshot=id_or_none(snapshot),
        policy=policy,
        ttl_s=None if ttl is None else seconds(ttl),
        idle_timeout_s=None if idle_timeout is None else seconds(idle_timeout),
        metadata=metadata,
        labels=None if labels is None else list(labels),
        env=env,
        packages=None if packages is None else list(packages),
        seal=seal or None,
    )
    return request("POST", "/v1/sandboxes", _info, json_body=spec)


def get(sandbox: Union[Identified, str]) -> Request[SandboxInfo]:
    return request("GET", _path(id_of(sandbox)), _info)


def change_of(
    ttl: Optional[Duration],
    idle_timeout: Optional[Duration],
    metadata: Optional[Mapping[str, str]],
    labels: Optional[Sequence[str]],
) -> dict[str, Any]:
    return without_none(
        ttl_s=None if ttl is None else seconds(ttl),
        idle_timeout_s=None if idle_timeout is None else seconds(idle_timeout),
        metadata=metadata,
        labels=None if labels is None else list(labels),
    )


def update(sandbox: str, change: Mapping[str, Any]) -> Request[SandboxInfo]:
    return request("PATCH", _path(sandbox), _info, json_body=change)


@dataclass(frozen=True)
class Page:
    sandboxes: list[SandboxInfo]
    next_cursor: Optional[str]


def list_page(
    state: Optional[str], label: Optional[str], metadata: Optional[Mapping[str, str]], cursor: Optional[str]
) -> Request[Page]:
    def decode(body: bytes) -> Page:
        json = json_of(body)
        return Page([SandboxInfo.of_json(each) for each in json["sandboxes"]], json["next_cursor"])

    query = without_none(state=state, label=label, cursor=cursor)
    query.update({f"metadata.{name}": value for name, value in (metadata or {}).items()})
    return request("GET", "/v1/sandboxes", decode, query=query)


def kill(sandbox: str) -> Request[None]:
    return request("DELETE", _path(sandbox), nothing, is_gone_fine=True)


def fork(sandbox: str, count: int) -> Request[list[SandboxInfo]]:
    def decode(body: bytes) -> list[SandboxInfo]:
        return [SandboxInfo.of_json(each) for each in json_of(body)["sandboxes"]]

    return request("POST", _path(sandbox, "fork"), decode, json_body={"count": count})


def pause(sandbox: str) -> Request[SandboxInfo]:
    return request("POST", _path(sandbox, "pause"), _info)


def resume(sandbox: str) -> Request[SandboxInfo]:
    return request("POST", _path(sandbox, "resume"), _info)


def reset(sandbox: str, snapshot: str) -> Request[SandboxInfo]:
    return request("POST", _path(sandbox, "reset"), _info, json_body={"snapshot": snapshot})


def snapshot(sandbox: str) -> Request[Snapshot]:
    return request("POST", _path(sandbox, "snapshot"), _snapshot)


def policy(sandbox: str) -> Request[dict[str, Any]]:
    return request("GET", _path(sandbox, "policy"), lambda body: dict(json_of(body)))


def with_limits(policy: Mapping[str, Any], limits: Mapping[str, Any]) -> dict[str, Any]:
    return {**policy, "limits": {**policy.get("limits", {}), **limits}}


def set_policy(sandbox: str, policy: Mapping[str, Any]) -> Request[SandboxInfo]:
    return request("PATCH", _path(sandbox, "policy"), _info, json_body=policy)


# -- contexts -------------------------------------------------------------------------------------------------------


def open_context(sandbox: str, template: Optional[str]) -> Request[Context]:
    spec = without_none(template=template)
    return request("POST", _path(sandbox, "contexts"), lambda body: Context.of_json(json_of(body)), json_body=spec)


def list_contexts(sandbox: str) -> Request[list[Context]]:
    def decode(body: bytes) -> list[Context]:
        return [Context.of_json(each) for each in json_of(body)["contexts"]]

    return request("GET", _path(sandbox, "contexts"), decode)


def close_context(sandbox: str, context: Union[Context, str]) -> Request[None]:
    return request("DELETE", _path(sandbox, "contexts", id_of(context)), nothing, is_gone_fine=True)


# -- approvals ------------------------------------------------------------------------------------------------------


def list_approvals(sandbox: str) -> Request[list[Approval]]:
    def decode(body: bytes) -> list[Approval]:
        return [Approval.of_json(each) for each in json_of(body)["approvals"]]

    return request("GET", _path(sandbox, "approvals"), decode)


def decide(sandbox: str, approval: Union[Approval, str], allow: bool) -> Request[None]:
    return request("POST", _path(sandbox, "approvals", id_of(approval)), nothing, json_body={"allow": bool(allow)})


# -- snapshots and secrets -----------------------------------------------------------------------------------------


def _snapshot(body: bytes) -> Snapshot:
    return Snapshot.of_json(json_of(body))


def list_snapshots() -> Request[list[Snapshot]]:
    def decode(body: bytes) -> list[Snapshot]:
        return [Snapshot.of_json(each) for each in json_of(body)["snapshots"]]

    return request("GET", "/v1/snapshots", decode)


def remove_snapshot(snapshot: Union[Snapshot, str]) -> Request[None]:
    return request("DELETE", "/v1/snapshots/" + quote(id_of(snapshot), safe=""), nothing, is_gone_fine=True)


def promote_snapshot(snapshot: Union[Snapshot, str], name: str) -> Request[Snapshot]:
    path = "/v1/snapshots/" + quote(id_of(snapshot), safe="") + "/promote"
    return request("POST", path, _snapshot, json_body={"name": name})


def remove_template(name: str) -> Request[None]:
    return request("DELETE", "/v1/templates/" + quote(name, safe=""), nothing, is_gone_fine=True)


def put_secret(name: str, value: str, hosts: Sequence[str]) -> Request[Secret]:
    body = {"value": value, "hosts": list(hosts)}
    path = "/v1/secrets/" + quote(name, safe="")
    return request("PUT", path, lambda answer: Secret.of_json(json_of(answer)), json_body=body)


def list_secrets() -> Request[list[Secret]]:
    def decode(body: bytes) -> list[Secret]:
        return [Secret.of_json(each) for each in json_of(body)["secrets"]]

    return request("GET", "/v1/secrets", decode)


def remove_secret(secret: Union[Secret, str]) -> Request[None]:
    name = secret if isinstance(secret, str) else secret.name
    return request("DELETE", "/v1/secrets/" + quote(name, safe=""), nothing, is_gone_fine=True)


# -- execs ----------------------------------------------------------------------------------------------------------


def text_of_stdin(stdin: Union[str, bytes, bytearray, memoryview]) -> str:
    if isinstance(stdin, str):
        return stdin
    if not isinstance(stdin, (bytes, bytearray, memoryview)):
        raise TypeError(f"stdin must be str or bytes, not {type(stdin).__name__}")
    try:
        return bytes(stdin).decode()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"stdin is not UTF-8 ({error.reason} at byte {error.start}): start it with open_stdin=True, and give the input to "
            "write_stdin(), which takes any bytes"
        ) from error


def terminal_json(size: TerminalSize) -> dict[str, int]:
    columns, rows = size
    return {"columns": columns, "rows": rows}


@dataclass(frozen=True)
class Turn:
    code: Optional[str]  # None: there is a command
    env: Optional[Mapping[str, str]] = None
    context: Union[Context, str, None] = None
    stdin: Union[str, bytes, None] = None
    arguments: Sequence[str] = ()
    timeout: Optional[Duration] = None
    seal: bool = False
    open_stdin: bool = False
    command: Optional[Sequence[str]] = None
    directory: Optional[str] = None
    terminal: Optional[TerminalSize] = None

    def __post_init__(self) -> None:
        if (self.code is None) == (self.command is None):
            raise TypeError("give either code or command=")
        if self.command is not None and (self.arguments or isinstance(self.command, str)):
            raise TypeError('command= must be a list of the program and its arguments, such as ["git", "status"]')

    def json(self, **more: Any) -> dict[str, Any]:
        return without_none(
            code=self.code,
            command=None if self.command is None else list(self.command),
            directory=self.directory,
            terminal=None if self.terminal is None else terminal_json(self.terminal),
            env=self.env,
            context=id_or_none(self.context),
            stdin=None if self.stdin is None else text_of_stdin(self.stdin),
            arguments=list(self.arguments) or None,
            timeout_ms=None if self.timeout is None else milliseconds(self.timeout),
            seal=self.seal or None,
            open_stdin=self.open_stdin or None,
            **more,
        )


def stream(sandbox: str, turn: Turn) -> Request[None]:
    return request("POST", _path(sandbox, "exec"), nothing, json_body=turn.json(stream=True), accept=EVENTS)


def start(sandbox: str, turn: Turn) -> Request[str]:
    return request(
        "POST", _path(sandbox, "exec"), lambda body: str(json_of(body)["exec_id"]), json_body=turn.json(background=True)
    )


def events(sandbox: str, exec_id: str, after: str = "", hang_up: bool = False) -> Request[None]:
    query = without_none(after=after or None, hang_up="true" if hang_up else None)
    return request("GET", _path(sandbox, "execs", exec_id, "events"), nothing, query=query, accept=EVENTS)


def cancel(sandbox: str, exec_id: str) -> Request[None]:
    return request("DELETE", _path(sandbox, "execs", exec_id), nothing, is_gone_fine=True)


def state(sandbox: str, exec_id: str) -> Request[str]:
    return request("GET", _path(sandbox, "execs", exec_id), lambda body: str(json_of(body)["state"]))


def write_stdin(sandbox: str, exec_id: str, data: Union[str, bytes], eof: bool) -> Request[None]:
    body = data.encode() if isinstance(data, str) else bytes(data)
    query = {"eof": "true"} if eof else None
    return request("POST", _path(sandbox, "execs", exec_id, "stdin"), nothing, query=query, bytes_body=body)


def signal(sandbox: str, exec_id: str, number: int) -> Request[None]:
    return request("POST", _path(sandbox, "execs", exec_id, "signal"), nothing, json_body={"signal": int(number)})


def resize(sandbox: str, exec_id: str, size: TerminalSize) -> Request[None]:
    return request("POST", _path(sandbox, "execs", exec_id, "terminal"), nothing, json_body=terminal_json(size))


def receipt(sandbox: str, exec_id: str) -> Request[bytes]:
    return request("GET", _path(sandbox, "execs", exec_id, "receipt"), lambda body: body, accept="*/*")


def private_receipt(sandbox: str, exec_id: str) -> Request[bytes]:
    return request("GET", _path(sandbox, "execs", exec_id, "receipt", "private"), lambda body: body, accept="*/*")


def event_of(event: ServerEvent) -> Optional[Event]:
    """Returns None for a kind of event that this version does not know."""
    try:
        return _event_of(event)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise not_ours("not of the form that was expected") from error


def _event_of(event: ServerEvent) -> Optional[Event]:
    if event.kind not in ("stdout", "stderr", "display", "approval", "report", "error"):
        return None
    data = json_of(event.data.encode())
    if event.kind == "report":
        return Event("result", result=Result.of_report(data))
    if event.kind == "display":
        return Event("display", forms=forms_of(data))
    if event.kind == "approval":
        return Event("approval", approval=Approval.of_json(data))
    if event.kind == "error":
        error = data.get("error", data)
        raise error_of_status(
            500, error["code"], error["message"], error.get("hint", ""), error.get("request_id", ""),
            bool(error.get("retryable")),
        )  # fmt: skip
    exact = data.get("base64")
    return Event(event.kind, text=data["text"], data=base64.b64decode(exact) if exact else data["text"].encode())


# -- patches of Linux sandboxes ------------------------------------------------------------------------------------


def diff(sandbox: str, directory: Optional[str], since: Union[Snapshot, str, None]) -> Request[bytes]:
    query = without_none(directory=directory, since=id_or_none(since))
    return request("GET", _path(sandbox, "patch"), lambda body: body, query=query, accept="*/*")


def patch(sandbox: str, patch: Union[str, bytes], directory: Optional[str]) -> Request[int]:
    return request(
        "POST", _path(sandbox, "patch"), lambda body: int(json_of(body)["changed_files"]),
        query=without_none(directory=directory), content_type="text/x-patch",
        bytes_body=patch.encode() if isinstance(patch, str) else bytes(patch),
    )  # fmt: skip


# -- files ----------------------------------------------------------------------------------------------------------


InContext = Union[Context, str, None]


def _at(path: Optional[str], context: InContext, **more: Optional[str]) -> dict[str, Any]:
    return without_none(path=path, context=id_or_none(context), **more)


def read(sandbox: str, path: str, context: InContext) -> Request[bytes]:
    return request("GET", _path(sandbox, "files"), lambda body: body, query=_at(path, context), accept="*/*")


def write(
    sandbox: str, path: str, data: Union[str, bytes], mode: Optional[int], context: InContext
) -> Request[None]:
    body = data.encode() if isinstance(data, str) else bytes(data)
    query = _at(path, context, mode=None if mode is None else f"{mode:04o}")
    return request("PUT", _path(sandbox, "files"), nothing, query=query, bytes_body=body)


def list_files(sandbox: str, path: Optional[str], context: InContext) -> Request[list[FileInfo]]:
    def decode(body: bytes) -> list[FileInfo]:
        return [FileInfo.of_json(each) for each in json_of(body)["files"]]

    return request("GET", _path(sandbox, "files", "list"), decode, query=_at(path, context))


def stat(sandbox: str, path: str, context: InContext) -> Request[FileInfo]:
    where = _path(sandbox, "files", "stat")
    return request("GET", where, lambda body: FileInfo.of_json(json_of(body)), query=_at(path, context))


def move(sandbox: str, source: str, target: str, context: InContext) -> Request[None]:
    spec = {"from": source, "to": target, **_at(None, context)}
    return request("POST", _path(sandbox, "files", "move"), nothing, json_body=spec)


def make_directory(sandbox: str, path: str, context: InContext) -> Request[None]:
    return request("POST", _path(sandbox, "files", "mkdir"), nothing, json_body=_at(path, context))


def remove(sandbox: str, path: str, recursive: bool, context: InContext) -> Request[None]:
    query = _at(path, context, recursive="true" if recursive else None)
    return request("DELETE", _path(sandbox, "files"), nothing, query=query, is_gone_fine=True)


def watch(sandbox: str, path: str, context: InContext) -> Request[None]:
    return request("GET", _path(sandbox, "files", "watch"), nothing, query=_at(path, context), accept=EVENTS)


def read_archive(sandbox: str, path: str, context: InContext) -> Request[bytes]:
    where = _path(sandbox, "files", "archive")
    return request("GET", where, lambda body: body, query=_at(path, context), accept="*/*")


def write_archive(sandbox: str, path: str, archive: bytes, context: InContext) -> Request[None]:
    where, query = _path(sandbox, "files", "archive"), _at(path, context)
    return request("PUT", where, nothing, query=query, bytes_body=bytes(archive), content_type="application/x-tar")


def file_event_of(event: ServerEvent) -> Optional[FileEvent]:
    json = json_of(event.data.encode())
    path = json.get("path") if isinstance(json, dict) else None
    return None if path is None else FileEvent(json.get("kind", json.get("change", event.kind)), path)
