"""The client whose answers are awaited, on asyncio.

One sandbox may be used from several tasks of a loop; the service does what a sandbox is asked one after the other.
"""

from __future__ import annotations

import asyncio
import weakref
from types import TracebackType
from typing import (
    Any,
    Dict,
    AsyncGenerator,
    AsyncIterator,
    List,
    Literal,
    Mapping,
    Optional,
    Sequence,
    TypeVar,
    Union,
    overload,
)

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


class AsyncConnection:
    """To one service, as one caller; its sockets are kept and used again."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._client = httpx.AsyncClient(**client_options(settings, VERSION))

    async def send(self, request: Request[T]) -> T:
        attempts = Attempts(self.settings, request.is_gone_fine)
        while True:
            try:
                response = await self._client.request(**request_arguments(request))
                wait = attempts.after_answer(response.status_code, response.headers, response.content)
                if wait is None:
                    return requests.decode(request, response.content)
            except httpx.HTTPError as error:
                wait = attempts.after_error(error)
            await asyncio.sleep(wait)

    async def open(self, request: Request[None], attempts: Attempts) -> httpx.Response:
        """A stream of events; the caller closes it."""
        while True:
            try:
                response = await self._client.send(
                    self._client.build_request(**request_arguments(request)), stream=True
                )
                if not response.is_success:
                    wait = attempts.after_answer(response.status_code, response.headers, await response.aread())
                elif error := no_stream(response.headers.get("content-type", "")):
                    await response.aclose()
                    raise error
                else:
                    return response
            except httpx.HTTPError as error:
                wait = attempts.after_error(error)
            await asyncio.sleep(wait or 0)


_connections: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Settings, AsyncConnection]]
_connections = weakref.WeakKeyDictionary()  # sockets are of one loop


def connection(url: Optional[str], token: Optional[str], timeout: float, retries: int) -> AsyncConnection:
    key = settings(url, token, timeout, retries)
    of_loop = _connections.setdefault(asyncio.get_running_loop(), {})
    if key not in of_loop:
        of_loop[key] = AsyncConnection(key)
    return of_loop[key]


class AsyncStream:
    """The events of a program that runs, as they come; the last has the result. It can be read once.

    A cut connection is made again, and goes on where it was. Who stops reading a stream of AsyncSandbox.stream() stops the
    program; leaving a `with` block of it does, too.
    """

    def __init__(
        self, connection: AsyncConnection, sandbox: str, begin: Request[None], exec_id: str, is_owner: bool
    ) -> None:
        self._connection = connection
        self._sandbox = sandbox
        self._begin = begin
        self._is_owner = is_owner
        self.exec_id = exec_id
        self.result: Optional[Result] = None

    async def __aiter__(self) -> AsyncIterator[Event]:
        server_events = self._server_events()
        try:
            async for server_event in server_events:
                event = requests.event_of(server_event)
                if event is None:
                    continue
                self.result = event.result
                yield event
                if event.result:
                    return
        finally:
            await server_events.aclose()
            await self.close()

    async def _server_events(self) -> AsyncGenerator[ServerEvent, None]:
        attempts = Attempts(self._connection.settings)
        request, last_id = self._begin, ""
        while True:
            response = await self._connection.open(request, attempts)
            self.exec_id = response.headers.get("x-exec-id", self.exec_id)
            parser, cut = EventParser(), None
            try:
                async for chunk in response.aiter_bytes():
                    for event in parser.feed(chunk):
                        attempts.begin_again()
                        last_id = event.id
                        yield event
            except httpx.HTTPError as error:
                cut = error
            finally:
                await response.aclose()
            wait = attempts.after_error(cut)
            if not self.exec_id:
                raise requests.not_ours("cut, and names no exec")
            await asyncio.sleep(wait)
            request = requests.events(self._sandbox, self.exec_id, last_id)

    async def write_stdin(self, data: Union[str, bytes], *, eof: bool = False) -> None:
        """More of its input, when it was begun with open_stdin; eof: the last. The program reads it as it comes.

        Once the first event has come: the program is known then."""
        await self._connection.send(requests.write_stdin(self._sandbox, self.exec_id, data, eof))

    async def cancel(self) -> None:
        """Stops the program; its result has the outcome "cancelled"."""
        if self.exec_id and self.result is None:
            await self._connection.send(requests.cancel(self._sandbox, self.exec_id))

    async def close(self) -> None:
        if not self._is_owner or self.result is not None:
            return
        self._is_owner = False
        try:
            await self.cancel()
        except MembraneError:  # what ends the reading says more
            pass

    async def __aenter__(self) -> AsyncStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class AsyncExec:
    """A program that runs in the background."""

    def __init__(self, connection: AsyncConnection, sandbox: str, id: str) -> None:
        self._connection = connection
        self._sandbox = sandbox
        self.id = id

    def __repr__(self) -> str:
        return f"<AsyncExec {self.id} of {self._sandbox}>"

    def stream(self, *, hang_up: bool = False) -> AsyncStream:
        """Its events from the first; leaving them does not stop it. With hang_up a command of a Linux sandbox gets SIGHUP, and the
        end of its input, when the reader goes away before its end."""
        begin = requests.events(self._sandbox, self.id, hang_up=hang_up)
        return AsyncStream(self._connection, self._sandbox, begin, self.id, False)

    async def wait(self) -> Result:
        return await _result_of(self.stream())

    async def state(self) -> str:
        """ "queued", "running" or "done"."""
        return await self._connection.send(requests.state(self._sandbox, self.id))

    async def cancel(self) -> None:
        await self._connection.send(requests.cancel(self._sandbox, self.id))

    async def write_stdin(self, data: Union[str, bytes], *, eof: bool = False) -> None:
        """More of its input, when it was begun with open_stdin; eof: the last. The program reads it as it comes."""
        await self._connection.send(requests.write_stdin(self._sandbox, self.id, data, eof))

    async def signal(self, number: int) -> None:
        """To a command of a Linux sandbox that runs, as signal.SIGINT."""
        await self._connection.send(requests.signal(self._sandbox, self.id, number))

    async def resize(self, size: TerminalSize) -> None:
        """Of one that has a terminal: its columns and rows from now on."""
        await self._connection.send(requests.resize(self._sandbox, self.id, size))

    async def receipt(self) -> Receipt:
        """Of one that was sealed, when it is over."""
        return await _receipt_of(self._connection, self._sandbox, self.id)


async def _receipt_of(connection: AsyncConnection, sandbox: str, exec_id: str) -> Receipt:
    text = await connection.send(requests.receipt(sandbox, exec_id))
    return Receipt(text, await connection.send(requests.private_receipt(sandbox, exec_id)))


async def _result_of(stream: AsyncStream) -> Result:
    async for _ in stream:
        pass
    if stream.result is None:
        raise requests.not_ours("a stream without a result")
    return stream.result


class AsyncFiles:
    """The files that a sandbox sees; with a context, those that it sees. Paths are absolute."""

    def __init__(self, connection: AsyncConnection, sandbox: str) -> None:
        self._connection = connection
        self._sandbox = sandbox

    async def read(self, path: str, *, context: InContext = None) -> bytes:
        return await self._connection.send(requests.read(self._sandbox, path, context))

    async def read_text(self, path: str, *, context: InContext = None) -> str:
        return (await self.read(path, context=context)).decode()

    async def write(
        self, path: str, data: Union[str, bytes], *, mode: Optional[int] = None, context: InContext = None
    ) -> None:
        """The whole file; directories above it are made. mode: its permissions in a Linux sandbox, as 0o755."""
        await self._connection.send(requests.write(self._sandbox, path, data, mode, context))

    async def list(self, path: Optional[str] = None, *, context: InContext = None) -> List[FileInfo]:
        """What is in the directory; without one, the files that the sandbox has made or changed."""
        return await self._connection.send(requests.list_files(self._sandbox, path, context))

    async def stat(self, path: str, *, context: InContext = None) -> FileInfo:
        return await self._connection.send(requests.stat(self._sandbox, path, context))

    async def move(self, source: str, target: str, *, context: InContext = None) -> None:
        await self._connection.send(requests.move(self._sandbox, source, target, context))

    async def make_directory(self, path: str, *, context: InContext = None) -> None:
        await self._connection.send(requests.make_directory(self._sandbox, path, context))

    async def remove(self, path: str, *, recursive: bool = False, context: InContext = None) -> None:
        await self._connection.send(requests.remove(self._sandbox, path, recursive, context))

    async def read_archive(self, path: str, *, context: InContext = None) -> bytes:
        """What is below the directory, as a tar archive; of a Linux sandbox with permissions and symbolic links."""
        return await self._connection.send(requests.read_archive(self._sandbox, path, context))

    async def write_archive(self, path: str, archive: bytes, *, context: InContext = None) -> None:
        """Unpacks a tar archive, also one compressed by gzip, into the directory; files that are there are replaced."""
        await self._connection.send(requests.write_archive(self._sandbox, path, archive, context))

    async def watch(self, path: str, *, context: InContext = None) -> AsyncIterator[FileEvent]:
        """What changes below the directory, until the reader stops."""
        attempts = Attempts(self._connection.settings)
        while True:
            response = await self._connection.open(requests.watch(self._sandbox, path, context), attempts)
            parser, cut = EventParser(), None
            try:
                async for chunk in response.aiter_bytes():
                    for server_event in parser.feed(chunk):
                        attempts.begin_again()
                        if event := requests.file_event_of(server_event):
                            yield event
            except httpx.HTTPError as error:
                cut = error
            finally:
                await response.aclose()
            await asyncio.sleep(attempts.after_error(cut))


class AsyncContexts:
    """The contexts of a sandbox: exec(context=…) runs code in one, and files has its files."""

    def __init__(self, connection: AsyncConnection, sandbox: str) -> None:
        self._connection = connection
        self._sandbox = sandbox

    async def open(self, template: Optional[str] = None) -> Context:
        """One of the sandbox's language, or of another."""
        return await self._connection.send(requests.open_context(self._sandbox, template))

    async def list(self) -> List[Context]:
        """Those that were opened."""
        return await self._connection.send(requests.list_contexts(self._sandbox))

    async def remove(self, context: Union[Context, str]) -> None:
        """Closes one; its variables and files are gone."""
        await self._connection.send(requests.close_context(self._sandbox, context))


class AsyncApprovals:
    """The requests of a sandbox's programs that wait for a person's yes. Both want a token with the scope approve."""

    def __init__(self, connection: AsyncConnection, sandbox: str) -> None:
        self._connection = connection
        self._sandbox = sandbox

    async def list(self) -> List[Approval]:
        """What waits now: one at most."""
        return await self._connection.send(requests.list_approvals(self._sandbox))

    async def decide(self, approval: Union[Approval, str], allow: bool) -> None:
        """Lets it go, or refuses it. What nobody decides in the time of its program is refused."""
        await self._connection.send(requests.decide(self._sandbox, approval, allow))


class AsyncSandbox:
    """One sandbox: variables, files and all stay from run to run, until it is killed or its time is over.

    In a `with` block it is killed at the end. A service that cannot be reached then is no error: what it has left ends when
    its time is over.
    """

    def __init__(self, connection: AsyncConnection, info: SandboxInfo) -> None:
        self._connection = connection
        self._info = info
        self.files = AsyncFiles(connection, info.id)
        self.contexts = AsyncContexts(connection, info.id)
        self.approvals = AsyncApprovals(connection, info.id)

    @classmethod
    async def create(
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
    ) -> AsyncSandbox:
        """Makes one, of "python", "javascript", "wat" or another template; "python" without one. Or one that goes on from a
        snapshot.

        policy: what it may do, as a policy file in JSON; nothing without one. seal: make a receipt of every exec.
        url, token: of the service, else MEMBRANE_URL and MEMBRANE_TOKEN, else that of this machine. timeout: the seconds
        in which the service must say something; a program may run longer. retries: of what failed by the way or was
        refused for now.
        """
        at = connection(url, token, timeout, retries)
        spec = requests.create(template, snapshot, policy, ttl, idle_timeout, metadata, labels, env, packages, seal)
        return cls(at, await at.send(spec))

    @classmethod
    async def connect(
        cls,
        id: Union[AsyncSandbox, SandboxInfo, str],
        *,
        url: Optional[str] = None,
        token: Optional[str] = None,
        timeout: float = 60.0,
        retries: int = 3,
    ) -> AsyncSandbox:
        """One that exists."""
        at = connection(url, token, timeout, retries)
        return cls(at, await at.send(requests.get(id)))

    @classmethod
    async def list(
        cls,
        *,
        state: Optional[str] = None,
        label: Optional[str] = None,
        metadata: Optional[Mapping[str, str]] = None,
        url: Optional[str] = None,
        token: Optional[str] = None,
        timeout: float = 60.0,
        retries: int = 3,
    ) -> AsyncIterator[AsyncSandbox]:
        """The token's sandboxes, oldest first, fetched page by page; only those with all of this metadata, where it is given."""
        at = connection(url, token, timeout, retries)
        cursor: Optional[str] = None
        while True:
            page = await at.send(requests.list_page(state, label, metadata, cursor))
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

    async def info(self) -> SandboxInfo:
        """As it stands now."""
        self._info = await self._connection.send(requests.get(self.id))
        return self._info

    async def update(
        self,
        *,
        ttl: Optional[Duration] = None,
        idle_timeout: Optional[Duration] = None,
        metadata: Optional[Mapping[str, str]] = None,
        labels: Optional[Sequence[str]] = None,
        limits: Optional[Mapping[str, Any]] = None,
    ) -> SandboxInfo:
        """Changes what is given; ttl counts from now, an idle_timeout of 0 is none.

        limits: of its policy, as {"fuel": 10**10, "memory": "1 GiB"}; its other limits and its grants stay. What runs is
        stopped, and more than it has needs a token with the scope policy:widen."""
        change = requests.change_of(ttl, idle_timeout, metadata, labels)
        if limits is not None:
            await self.set_policy(requests.with_limits(await self.policy(), limits))
        if change or limits is None:
            self._info = await self._connection.send(requests.update(self.id, change))
        return self._info

    async def policy(self) -> Dict[str, Any]:
        """What it may do, with every limit: as a policy file in JSON."""
        return await self._connection.send(requests.policy(self.id))

    async def set_policy(self, policy: Mapping[str, Any]) -> None:
        """What it may do from now on, in the place of what it may do now: grants that are not named are gone, limits that
        are not named stay. update(limits=…) keeps the grants. What runs is stopped.

        More than it has needs a token with the scope policy:widen."""
        self._info = await self._connection.send(requests.set_policy(self.id, policy))

    async def run(self, code: str, *, timeout: Optional[Duration] = None, context: InContext = None) -> Result:
        """Runs code. A program that fails is a result like another: its `error` says why, check() raises it."""
        return await self.exec(code, timeout=timeout, context=context)

    @overload
    async def exec(
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
    async def exec(
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
    ) -> AsyncExec: ...
    async def exec(
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
    ) -> Union[Result, AsyncExec]:
        """Runs code, with all that can be said of how. stdin: text, or bytes that are UTF-8. With open_stdin, in the background,
        AsyncExec.write_stdin() gives it input, which may be any bytes.

        In a Linux sandbox code is a script for its shell; command=["git", "status"] in its place is a program, by name or path, and
        its arguments; directory: where it begins; terminal=(80, 24): its standard streams are a terminal of so many columns and
        rows, and all that it prints is output."""
        turn = Turn(code, env, context, stdin, arguments, timeout, seal, open_stdin, command, directory, terminal)
        if background:
            return AsyncExec(self._connection, self.id, await self._connection.send(requests.start(self.id, turn)))
        return await _result_of(self._stream(turn))

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
    ) -> AsyncStream:
        """Runs code, or a command, when it is iterated over, and gives what it prints and shows as it comes."""
        turn = Turn(code, env, context, stdin, arguments, timeout, seal, open_stdin, command, directory, terminal)
        return self._stream(turn)

    def _stream(self, turn: Turn) -> AsyncStream:
        return AsyncStream(self._connection, self.id, requests.stream(self.id, turn), "", True)

    async def receipt(self, exec: Union[Result, AsyncExec, str]) -> Receipt:
        """Of an exec that was sealed."""
        exec_id = exec.exec_id if isinstance(exec, Result) else requests.id_of(exec)
        return await _receipt_of(self._connection, self.id, exec_id)

    async def diff(self, *, directory: Optional[str] = None, since: Union[Snapshot, str, None] = None) -> bytes:
        """What a Linux sandbox has changed since its image, or since a snapshot, as a git patch. directory: only what is below it,
        by paths from there."""
        return await self._connection.send(requests.diff(self.id, directory, since))

    async def patch(self, patch: Union[str, bytes], *, directory: Optional[str] = None) -> int:
        """Applies a git patch to the files of a Linux sandbox, all of it or nothing; gives how many files it changed. directory: where
        its paths begin."""
        return await self._connection.send(requests.patch(self.id, patch, directory))

    async def fork(self, count: int = 1) -> List[AsyncSandbox]:
        """So many that go on from where this one stands, each for itself."""
        return [
            AsyncSandbox(self._connection, info) for info in await self._connection.send(requests.fork(self.id, count))
        ]

    async def pause(self) -> None:
        """Puts it to disk, as it is; resume(), or the next use, has it back."""
        self._info = await self._connection.send(requests.pause(self.id))

    async def resume(self) -> None:
        self._info = await self._connection.send(requests.resume(self.id))

    async def reset(self, snapshot: Union[Snapshot, str]) -> None:
        """Goes on from a snapshot of the same template; what it was since is gone."""
        self._info = await self._connection.send(requests.reset(self.id, requests.id_of(snapshot)))

    async def snapshot(self) -> Snapshot:
        """Keeps it as it stands now; it goes on."""
        return await self._connection.send(requests.snapshot(self.id))

    async def kill(self) -> None:
        """Ends it; what it runs is stopped."""
        await self._connection.send(requests.kill(self.id))

    async def __aenter__(self) -> AsyncSandbox:
        return self

    async def __aexit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], where: Optional[TracebackType]
    ) -> None:
        try:
            await self.kill()
        except UnreachableError:  # it ends when its time is over
            pass
        except MembraneError as failure:
            if kind is None and failure.status != 404:  # its time may be over; and another error says more
                raise

    def __repr__(self) -> str:
        return f"<AsyncSandbox {self.id} of {self.template}>"


class AsyncSnapshots:
    """The snapshots of a token; Sandbox.snapshot() makes them."""

    def __init__(
        self, *, url: Optional[str] = None, token: Optional[str] = None, timeout: float = 60.0, retries: int = 3
    ) -> None:
        self._settings = (url, token, timeout, retries)

    async def list(self) -> List[Snapshot]:
        """Oldest first."""
        return await connection(*self._settings).send(requests.list_snapshots())

    async def remove(self, snapshot: Union[Snapshot, str]) -> None:
        """Sandboxes that were made of it stay. One with a name is removed once remove_template() took that back."""
        await connection(*self._settings).send(requests.remove_snapshot(snapshot))

    async def promote(self, snapshot: Union[Snapshot, str], name: str) -> Snapshot:
        """Gives it a name, by which Sandbox.create(template=name) makes sandboxes of it."""
        return await connection(*self._settings).send(requests.promote_snapshot(snapshot, name))

    async def remove_template(self, name: str) -> None:
        """Takes the name back; the snapshot stays."""
        await connection(*self._settings).send(requests.remove_template(name))


class AsyncSecrets:
    """The secrets of a token, for headers that policies name. Their values go in and never come out."""

    def __init__(
        self, *, url: Optional[str] = None, token: Optional[str] = None, timeout: float = 60.0, retries: int = 3
    ) -> None:
        self._settings = (url, token, timeout, retries)

    async def put(self, name: str, value: str, *, hosts: Sequence[str]) -> Secret:
        """Keeps one, or replaces it. hosts: where it may be sent, as "api.example.com" or "*.example.com"."""
        return await connection(*self._settings).send(requests.put_secret(name, value, hosts))

    async def list(self) -> List[Secret]:
        return await connection(*self._settings).send(requests.list_secrets())

    async def remove(self, secret: Union[Secret, str]) -> None:
        """No sandbox can send it from then on."""
        await connection(*self._settings).send(requests.remove_secret(secret))
