"""The blocking client.

Threads: several may use one sandbox; the service handles the requests of a sandbox one after another.
"""

from __future__ import annotations

import os
import threading
import time
from types import TracebackType
from typing import Any, Dict, Iterator, List, Literal, Mapping, Optional, Sequence, TypeVar, Union, overload

import httpx

from . import _requests as requests
from ._attempts import Attempts, client_options, no_stream, request_arguments
from ._errors import MembraneError, UnreachableError
from ._events import EventParser, ServerEvent
from ._requests import InContext, Request, Turn
from ._settings import Settings, settings
from ._types import (
    Approval,
    Context,
    Duration,
    Event,
    FileEvent,
    FileInfo,
    Receipt,
    Result,
    SandboxInfo,
    Secret,
    Snapshot,
    TerminalSize,
)
from ._version import VERSION

T = TypeVar("T")


class Connection:
    """A connection to one service, as one caller. Its sockets are kept and reused."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._client = httpx.Client(**client_options(settings, VERSION))

    def send(self, request: Request[T]) -> T:
        attempts = Attempts(self.settings, request.is_gone_fine)
        while True:
            try:
                response = self._client.request(**request_arguments(request))
                wait = attempts.after_answer(response.status_code, response.headers, response.content)
                if wait is None:
                    return requests.decode(request, response.content)
            except httpx.HTTPError as error:
                wait = attempts.after_error(error)
            time.sleep(wait)

    def open(self, request: Request[None], attempts: Attempts) -> httpx.Response:
        """Opens a stream of events, which the caller closes."""
        while True:
            try:
                response = self._client.send(self._client.build_request(**request_arguments(request)), stream=True)
                if not response.is_success:
                    wait = attempts.after_answer(response.status_code, response.headers, response.read())
                elif error := no_stream(response.headers.get("content-type", "")):
                    response.close()
                    raise error
                else:
                    return response
            except httpx.HTTPError as error:
                wait = attempts.after_error(error)
            time.sleep(wait or 0)


_connections: dict[tuple[int, Settings], Connection] = {}
_connections_lock = threading.Lock()


def connection(url: Optional[str], token: Optional[str], timeout: float, retries: int) -> Connection:
    key = (os.getpid(), settings(url, token, timeout, retries))  # a forked process must not share sockets
    with _connections_lock:
        if key not in _connections:
            _connections[key] = Connection(key[1])
        return _connections[key]


class Stream:
    """The events of a running program, as they come. The last one has the result. A stream can be read once.

    If the connection is cut, the stream reconnects and continues where it was. To stop reading a stream of Sandbox.stream(), or to
    leave its `with` block, stops the program.
    """

    def __init__(
        self, connection: Connection, sandbox: str, begin: Request[None], exec_id: str, is_owner: bool
    ) -> None:
        self._connection = connection
        self._sandbox = sandbox
        self._begin = begin
        self._is_owner = is_owner
        self.exec_id = exec_id
        self.result: Optional[Result] = None

    def __iter__(self) -> Iterator[Event]:
        try:
            for server_event in self._server_events():
                event = requests.event_of(server_event)
                if event is None:
                    continue
                self.result = event.result
                yield event
                if event.result:
                    return
        finally:
            self.close()

    def _server_events(self) -> Iterator[ServerEvent]:
        attempts = Attempts(self._connection.settings)
        request, last_id = self._begin, ""
        while True:
            response = self._connection.open(request, attempts)
            self.exec_id = response.headers.get("x-exec-id", self.exec_id)
            parser, cut = EventParser(), None
            try:
                for chunk in response.iter_bytes():
                    for event in parser.feed(chunk):
                        attempts.begin_again()
                        last_id = event.id
                        yield event
            except httpx.HTTPError as error:
                cut = error
            finally:
                response.close()
            wait = attempts.after_error(cut)
            if not self.exec_id:
                raise requests.not_ours("cut, and names no exec")
            time.sleep(wait)
            request = requests.events(self._sandbox, self.exec_id, last_id)

    def write_stdin(self, data: Union[str, bytes], *, eof: bool = False) -> None:
        """Sends input to a program that was started with open_stdin. eof: there is no more input.

        It can be called after the first event, which identifies the program."""
        self._connection.send(requests.write_stdin(self._sandbox, self.exec_id, data, eof))

    def cancel(self) -> None:
        """Stops the program. Its result has the outcome "cancelled"."""
        if self.exec_id and self.result is None:
            self._connection.send(requests.cancel(self._sandbox, self.exec_id))

    def close(self) -> None:
        if not self._is_owner or self.result is not None:
            return
        self._is_owner = False
        try:
            self.cancel()
        except MembraneError:  # the error that ended the reading is more helpful
            pass

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Exec:
    """A program in the background."""

    def __init__(self, connection: Connection, sandbox: str, id: str) -> None:
        self._connection = connection
        self._sandbox = sandbox
        self.id = id

    def __repr__(self) -> str:
        return f"<Exec {self.id} of {self._sandbox}>"

    def stream(self, *, hang_up: bool = False) -> Stream:
        """Returns its events from the first on. To stop reading does not stop the program. hang_up: a command of a Linux sandbox gets
        SIGHUP and the end of its input if the reader leaves before the command ends."""
        begin = requests.events(self._sandbox, self.id, hang_up=hang_up)
        return Stream(self._connection, self._sandbox, begin, self.id, False)

    def wait(self) -> Result:
        return _result_of(self.stream())

    def state(self) -> str:
        """ "queued", "running" or "done"."""
        return self._connection.send(requests.state(self._sandbox, self.id))

    def cancel(self) -> None:
        self._connection.send(requests.cancel(self._sandbox, self.id))

    def write_stdin(self, data: Union[str, bytes], *, eof: bool = False) -> None:
        """Sends input to a program that was started with open_stdin. eof: there is no more input."""
        self._connection.send(requests.write_stdin(self._sandbox, self.id, data, eof))

    def signal(self, number: int) -> None:
        """Sends a signal, such as signal.SIGINT, to a running command of a Linux sandbox."""
        self._connection.send(requests.signal(self._sandbox, self.id, number))

    def resize(self, size: TerminalSize) -> None:
        """Changes the columns and rows of its terminal, if it has one."""
        self._connection.send(requests.resize(self._sandbox, self.id, size))

    def receipt(self) -> Receipt:
        """Returns the receipt of a sealed program that has ended."""
        return _receipt_of(self._connection, self._sandbox, self.id)


def _receipt_of(connection: Connection, sandbox: str, exec_id: str) -> Receipt:
    text = connection.send(requests.receipt(sandbox, exec_id))
    return Receipt(text, connection.send(requests.private_receipt(sandbox, exec_id)))


def _result_of(stream: Stream) -> Result:
    for _ in stream:
        pass
    if stream.result is None:
        raise requests.not_ours("a stream without a result")
    return stream.result


class Files:
    """The files that a sandbox sees, or that a context of it sees. Paths are absolute."""

    def __init__(self, connection: Connection, sandbox: str) -> None:
        self._connection = connection
        self._sandbox = sandbox

    def read(self, path: str, *, context: InContext = None) -> bytes:
        return self._connection.send(requests.read(self._sandbox, path, context))

    def read_text(self, path: str, *, context: InContext = None) -> str:
        return self.read(path, context=context).decode()

    def write(
        self, path: str, data: Union[str, bytes], *, mode: Optional[int] = None, context: InContext = None
    ) -> None:
        """Writes the whole file, and makes missing parent directories. mode: permissions in a Linux sandbox, such as 0o755."""
        self._connection.send(requests.write(self._sandbox, path, data, mode, context))

    def list(self, path: Optional[str] = None, *, context: InContext = None) -> List[FileInfo]:
        """Lists the directory, or without one the files that the sandbox has made or changed."""
        return self._connection.send(requests.list_files(self._sandbox, path, context))

    def stat(self, path: str, *, context: InContext = None) -> FileInfo:
        return self._connection.send(requests.stat(self._sandbox, path, context))

    def move(self, source: str, target: str, *, context: InContext = None) -> None:
        self._connection.send(requests.move(self._sandbox, source, target, context))

    def make_directory(self, path: str, *, context: InContext = None) -> None:
        self._connection.send(requests.make_directory(self._sandbox, path, context))

    def remove(self, path: str, *, recursive: bool = False, context: InContext = None) -> None:
        self._connection.send(requests.remove(self._sandbox, path, recursive, context))

    def read_archive(self, path: str, *, context: InContext = None) -> bytes:
        """Returns the directory's contents as a tar archive; in a Linux sandbox with permissions and symbolic links."""
        return self._connection.send(requests.read_archive(self._sandbox, path, context))

    def write_archive(self, path: str, archive: bytes, *, context: InContext = None) -> None:
        """Unpacks a tar archive, which may be compressed by gzip, into the directory. Existing files are replaced."""
        self._connection.send(requests.write_archive(self._sandbox, path, archive, context))

    def watch(self, path: str, *, context: InContext = None) -> Iterator[FileEvent]:
        """Yields the changes below the directory, until the reader stops."""
        attempts = Attempts(self._connection.settings)
        while True:
            response = self._connection.open(requests.watch(self._sandbox, path, context), attempts)
            parser, cut = EventParser(), None
            try:
                for chunk in response.iter_bytes():
                    for server_event in parser.feed(chunk):
                        attempts.begin_again()
                        if event := requests.file_event_of(server_event):
                            yield event
            except httpx.HTTPError as error:
                cut = error
            finally:
                response.close()
            time.sleep(attempts.after_error(cut))


class Contexts:
    """The contexts of a sandbox: exec(context=…) runs code in one, and files takes one, too."""

    def __init__(self, connection: Connection, sandbox: str) -> None:
        self._connection = connection
        self._sandbox = sandbox

    def open(self, template: Optional[str] = None) -> Context:
        """Opens a context in the sandbox's language, or in another."""
        return self._connection.send(requests.open_context(self._sandbox, template))

    def list(self) -> List[Context]:
        """Lists the contexts that were opened."""
        return self._connection.send(requests.list_contexts(self._sandbox))

    def remove(self, context: Union[Context, str]) -> None:
        """Closes a context. Its variables and files are lost."""
        self._connection.send(requests.close_context(self._sandbox, context))


class Approvals:
    """The requests of a sandbox's programs that wait for a person's approval. Both methods need a token with the scope approve."""

    def __init__(self, connection: Connection, sandbox: str) -> None:
        self._connection = connection
        self._sandbox = sandbox

    def list(self) -> List[Approval]:
        """Lists the requests that wait now, at most one."""
        return self._connection.send(requests.list_approvals(self._sandbox))

    def decide(self, approval: Union[Approval, str], allow: bool) -> None:
        """Approves or refuses a request. One without a decision before its program's time is up is refused."""
        self._connection.send(requests.decide(self._sandbox, approval, allow))


class Sandbox:
    """A sandbox of the service. Its variables and files stay from run to run, until it is killed or its time is up.

    A `with` block kills it at its end. If the service cannot be reached then, that is not an error: the sandbox ends when its time is up.
    """

    def __init__(self, connection: Connection, info: SandboxInfo) -> None:
        self._connection = connection
        self._info = info
        self.files = Files(connection, info.id)
        self.contexts = Contexts(connection, info.id)
        self.approvals = Approvals(connection, info.id)

    @classmethod
    def create(
        cls,
        template: Optional[str] = None,
        *,
        snapshot: Union[Snapshot, str, None] = None,
        policy: Optional[Mapping[str, Any]] = None,
        ttl: Optional[Duration] = None,
        idle_timeout: Optional[Duration] = None,
        metadata: Optional[Mapping[str, str]] = None,
        labels: Optional[Sequence[str]] = None,
        env: Optional[Mapping[str, str]] = None,
        packages: Optional[Sequence[str]] = None,
        seal: bool = False,
        url: Optional[str] = None,
        token: Optional[str] = None,
        timeout: float = 60.0,
        retries: int = 3,
    ) -> Sandbox:
        """Makes a sandbox from a template such as "python" (the default), "javascript", "wat" or "linux", or from a snapshot.

        policy: what it may do, as a policy file in JSON; nothing by default. seal: makes a receipt of every exec.
        url, token: of the service; by default MEMBRANE_URL and MEMBRANE_TOKEN, or the service of this machine. timeout: the seconds
        within which the service must send something; a program may run longer. retries: of requests that failed on the way or were
        refused temporarily.
        """
        at = connection(url, token, timeout, retries)
        spec = requests.create(template, snapshot, policy, ttl, idle_timeout, metadata, labels, env, packages, seal)
        return cls(at, at.send(spec))

    @classmethod
    def connect(
        cls,
        id: Union[Sandbox, SandboxInfo, str],
        *,
        url: Optional[str] = None,
        token: Optional[str] = None,
        timeout: float = 60.0,
        retries: int = 3,
    ) -> Sandbox:
        """Connects to an existing sandbox."""
        at = connection(url, token, timeout, retries)
        return cls(at, at.send(requests.get(id)))

    @classmethod
    def list(
        cls,
        *,
        state: Optional[str] = None,
        label: Optional[str] = None,
        metadata: Optional[Mapping[str, str]] = None,
        url: Optional[str] = None,
        token: Optional[str] = None,
        timeout: float = 60.0,
        retries: int = 3,
    ) -> Iterator[Sandbox]:
        """Yields the token's sandboxes, oldest first, page by page. metadata: only those that have all of it."""
        at = connection(url, token, timeout, retries)
        cursor: Optional[str] = None
        while True:
            page = at.send(requests.list_page(state, label, metadata, cursor))
            for info in page.sandboxes:
                yield cls(at, info)
            cursor = page.next_cursor
            if cursor is None:
                return

    @property
    def id(self) -> str:
        return self._info.id

    @property
    def template(self) -> str:
        return self._info.template

    def info(self) -> SandboxInfo:
        """Returns the sandbox's current state."""
        self._info = self._connection.send(requests.get(self.id))
        return self._info

    def update(
        self,
        *,
        ttl: Optional[Duration] = None,
        idle_timeout: Optional[Duration] = None,
        metadata: Optional[Mapping[str, str]] = None,
        labels: Optional[Sequence[str]] = None,
        limits: Optional[Mapping[str, Any]] = None,
    ) -> SandboxInfo:
        """Changes what is given. ttl counts from now; an idle_timeout of 0 means none.

        limits: of its policy, such as {"fuel": 10**10, "memory": "1 GiB"}. Other limits and grants stay. Running programs are stopped. To
        raise a limit, the token needs the scope policy:widen."""
        change = requests.change_of(ttl, idle_timeout, metadata, labels)
        if limits is not None:
            self.set_policy(requests.with_limits(self.policy(), limits))
        if change or limits is None:
            self._info = self._connection.send(requests.update(self.id, change))
        return self._info

    def policy(self) -> Dict[str, Any]:
        """Returns what the sandbox may do, with every limit, as a policy file in JSON."""
        return self._connection.send(requests.policy(self.id))

    def set_policy(self, policy: Mapping[str, Any]) -> None:
        """Replaces what the sandbox may do: grants that are not named are removed, and limits that are not named stay. update(limits=…)
        keeps the grants. Running programs are stopped.

        To allow more than before, the token needs the scope policy:widen."""
        self._info = self._connection.send(requests.set_policy(self.id, policy))

    def run(self, code: str, *, timeout: Optional[Duration] = None, context: InContext = None) -> Result:
        """Runs code. A program that fails is a result, too: its `error` says why, and check() raises that."""
        return self.exec(code, timeout=timeout, context=context)

    @overload
    def exec(
        self,
        code: Optional[str] = ...,
        *,
        command: Optional[Sequence[str]] = ...,
        directory: Optional[str] = ...,
        arguments: Sequence[str] = ...,
        stdin: Union[str, bytes, None] = ...,
        timeout: Optional[Duration] = ...,
        env: Optional[Mapping[str, str]] = ...,
        context: InContext = ...,
        seal: bool = ...,
        terminal: Optional[TerminalSize] = ...,
        background: Literal[False] = ...,
    ) -> Result: ...
    @overload
    def exec(
        self,
        code: Optional[str] = ...,
        *,
        command: Optional[Sequence[str]] = ...,
        directory: Optional[str] = ...,
        arguments: Sequence[str] = ...,
        stdin: Union[str, bytes, None] = ...,
        timeout: Optional[Duration] = ...,
        env: Optional[Mapping[str, str]] = ...,
        context: InContext = ...,
        seal: bool = ...,
        terminal: Optional[TerminalSize] = ...,
        open_stdin: bool = ...,
        background: Literal[True],
    ) -> Exec: ...
    def exec(
        self,
        code: Optional[str] = None,
        *,
        command: Optional[Sequence[str]] = None,
        directory: Optional[str] = None,
        arguments: Sequence[str] = (),
        stdin: Union[str, bytes, None] = None,
        timeout: Optional[Duration] = None,
        env: Optional[Mapping[str, str]] = None,
        context: InContext = None,
        seal: bool = False,
        terminal: Optional[TerminalSize] = None,
        open_stdin: bool = False,
        background: bool = False,
    ) -> Union[Result, Exec]:
        """Runs code, with all options. stdin: text, or bytes of UTF-8. With open_stdin, in the background, Exec.write_stdin() sends
        input, which may be any bytes.

        In a Linux sandbox code is a script for its shell. command=["git", "status"] instead is a program, by name or path, with its
        arguments. directory: where it starts. terminal=(80, 24): its standard streams are a terminal of so many columns and rows, and
        everything that it prints is output."""
        turn = Turn(code, env, context, stdin, arguments, timeout, seal, open_stdin, command, directory, terminal)
        if background:
            return Exec(self._connection, self.id, self._connection.send(requests.start(self.id, turn)))
        return _result_of(self._stream(turn))

    def stream(
        self,
        code: Optional[str] = None,
        *,
        command: Optional[Sequence[str]] = None,
        directory: Optional[str] = None,
        arguments: Sequence[str] = (),
        stdin: Union[str, bytes, None] = None,
        timeout: Optional[Duration] = None,
        env: Optional[Mapping[str, str]] = None,
        context: InContext = None,
        seal: bool = False,
        terminal: Optional[TerminalSize] = None,
        open_stdin: bool = False,
    ) -> Stream:
        """Runs code or a command when it is iterated over, and yields what it prints and shows as it comes."""
        turn = Turn(code, env, context, stdin, arguments, timeout, seal, open_stdin, command, directory, terminal)
        return self._stream(turn)

    def _stream(self, turn: Turn) -> Stream:
        return Stream(self._connection, self.id, requests.stream(self.id, turn), "", True)

    def receipt(self, exec: Union[Result, Exec, str]) -> Receipt:
        """Returns the receipt of a sealed exec."""
        exec_id = exec.exec_id if isinstance(exec, Result) else requests.id_of(exec)
        return _receipt_of(self._connection, self.id, exec_id)

    def diff(self, *, directory: Optional[str] = None, since: Union[Snapshot, str, None] = None) -> bytes:
        """Returns the changes of a Linux sandbox since its image, or since a snapshot, as a git patch. directory: only what is below it,
        with paths relative to it."""
        return self._connection.send(requests.diff(self.id, directory, since))

    def patch(self, patch: Union[str, bytes], *, directory: Optional[str] = None) -> int:
        """Applies a git patch to the files of a Linux sandbox, either all of it or nothing, and returns how many files it changed.
        directory: what its paths are relative to."""
        return self._connection.send(requests.patch(self.id, patch, directory))

    def fork(self, count: int = 1) -> List[Sandbox]:
        """Returns `count` independent copies of the sandbox."""
        return [Sandbox(self._connection, info) for info in self._connection.send(requests.fork(self.id, count))]

    def pause(self) -> None:
        """Moves the sandbox to disk. resume(), or the next use, brings it back."""
        self._info = self._connection.send(requests.pause(self.id))

    def resume(self) -> None:
        self._info = self._connection.send(requests.resume(self.id))

    def reset(self, snapshot: Union[Snapshot, str]) -> None:
        """Returns to a snapshot of the same template. The current state is lost."""
        self._info = self._connection.send(requests.reset(self.id, requests.id_of(snapshot)))

    def snapshot(self) -> Snapshot:
        """Keeps the current state. The sandbox continues."""
        return self._connection.send(requests.snapshot(self.id))

    def kill(self) -> None:
        """Ends the sandbox, and stops what runs in it."""
        self._connection.send(requests.kill(self.id))

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], where: Optional[TracebackType]
    ) -> None:
        try:
            self.kill()
        except UnreachableError:  # it ends when its time is up
            pass
        except MembraneError as failure:
            if kind is None and failure.status != 404:  # its time may be up; and another error is more helpful
                raise

    def __repr__(self) -> str:
        return f"<Sandbox {self.id} of {self.template}>"


class Snapshots:
    """The snapshots of a token. Sandbox.snapshot() makes them."""

    def __init__(
        self, *, url: Optional[str] = None, token: Optional[str] = None, timeout: float = 60.0, retries: int = 3
    ) -> None:
        self._settings = (url, token, timeout, retries)

    def list(self) -> List[Snapshot]:
        """Oldest first."""
        return connection(*self._settings).send(requests.list_snapshots())

    def remove(self, snapshot: Union[Snapshot, str]) -> None:
        """Removes a snapshot. Sandboxes made from it stay. If it has a name, remove_template() must come first."""
        connection(*self._settings).send(requests.remove_snapshot(snapshot))

    def promote(self, snapshot: Union[Snapshot, str], name: str) -> Snapshot:
        """Names the snapshot, so that Sandbox.create(template=name) makes sandboxes from it."""
        return connection(*self._settings).send(requests.promote_snapshot(snapshot, name))

    def remove_template(self, name: str) -> None:
        """Removes the name. The snapshot stays."""
        connection(*self._settings).send(requests.remove_template(name))


class Secrets:
    """The secrets of a token, for headers that policies name. Values can be written, and never read."""

    def __init__(
        self, *, url: Optional[str] = None, token: Optional[str] = None, timeout: float = 60.0, retries: int = 3
    ) -> None:
        self._settings = (url, token, timeout, retries)

    def put(self, name: str, value: str, *, hosts: Sequence[str]) -> Secret:
        """Stores or replaces a secret. hosts: where it may be sent, such as "api.example.com" or "*.example.com"."""
        return connection(*self._settings).send(requests.put_secret(name, value, hosts))

    def list(self) -> List[Secret]:
        return connection(*self._settings).send(requests.list_secrets())

    def remove(self, secret: Union[Secret, str]) -> None:
        """Removes a secret. From then on no sandbox can send it."""
        connection(*self._settings).send(requests.remove_secret(secret))
