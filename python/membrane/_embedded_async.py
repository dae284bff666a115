"""Sessions in this process, for asyncio: those of _embedded.py, with their methods awaited."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Callable, List, Mapping, Optional, Sequence, Tuple, Union

from ._embedded import Call, FilePath, Session, load
from ._options import LoadOptions, SessionOptions, only_known
from ._types import FileInfo, Result

if TYPE_CHECKING:
    from typing_extensions import Unpack

_STOPS_AGAIN_S = 0.02


class AsyncSession:
    """A Session for asyncio, with the same methods, awaited. Turns run in threads. Coroutines of the embedder run in this loop, and other
    functions in the thread of their turn. A cancelled task stops its own turn only."""

    _line: Optional[Tuple[asyncio.AbstractEventLoop, asyncio.Lock]] = None  # orders the tasks of the loop that uses the session

    def __init__(self, language: str = "python", **options: Unpack[SessionOptions]) -> None:
        self._made = Session(language, **options)

    @classmethod
    async def load(cls, blob: bytes, **options: Unpack[LoadOptions]) -> Any:
        """Does what membrane.load() does, in a thread: an AsyncCall if the session waits, otherwise an AsyncSession. Functions run in this loop."""
        loaded = await asyncio.to_thread(load, blob, **options)
        if not isinstance(loaded, Call):
            return cls._of(loaded)
        return AsyncCall(cls._of(loaded.session), loaded)

    @classmethod
    def _of(cls, session: Session) -> AsyncSession:
        made = cls.__new__(cls)
        made._made = session
        return made

    @property
    def language(self) -> str:
        return self._made.language

    async def _in_thread(self, act: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self._made._registry.is_calling():
            return await self._acted(act, *args, **kwargs)  # this is refused; the lock would wait for itself
        loop = asyncio.get_running_loop()
        if self._line is None or self._line[0] is not loop:
            self._line = loop, asyncio.Lock()
        async with self._line[1]:
            return await self._acted(act, *args, **kwargs)

    async def _acted(self, act: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self._made._registry.loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(asyncio.to_thread(act, *args, **kwargs))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self._made.cancel()
            while not (await asyncio.wait([task], timeout=_STOPS_AGAIN_S))[0]:
                self._made.cancel()  # the turn may only have begun now
            raise

    @only_known("run()")
    async def run(
        self,
        code: str,
        *,
        name: str = "",
        script: bool = False,
        arguments: Sequence[str] = (),
        stdin: str = "",
        inputs: Optional[Mapping[str, Any]] = None,
    ) -> Result:
        result: Result = await self._in_thread(
            self._made.run, code, name=name, script=script, arguments=arguments, stdin=stdin, inputs=inputs
        )
        return result

    @only_known("start()")
    async def start(self, code: str, *, name: str = "", inputs: Optional[Mapping[str, Any]] = None) -> Union[Result, AsyncCall]:
        return self._end_of(await self._in_thread(self._made.start, code, name=name, inputs=inputs))

    @property
    def waiting(self) -> Optional[AsyncCall]:
        """The call that the session waits for, also in a fork; None if it does not wait."""
        call = self._made.waiting
        return None if call is None else AsyncCall(self, call)

    def _end_of(self, end: Union[Result, Call]) -> Union[Result, AsyncCall]:
        return AsyncCall(self, end) if isinstance(end, Call) else end

    async def fork(self) -> AsyncSession:
        return AsyncSession._of(await self._in_thread(self._made.fork))

    @only_known("check()")
    async def check(self, code: str, *, name: str = "", inputs: Optional[Mapping[str, Any]] = None) -> Result:
        result: Result = await self._in_thread(self._made.check, code, name=name, inputs=inputs)
        return result

    async def complete(self, code: str) -> List[str]:
        names: List[str] = await self._in_thread(self._made.complete, code)
        return names

    def stubs(self) -> str:
        return self._made.stubs()

    async def dump(self) -> bytes:
        blob: bytes = await self._in_thread(self._made.dump)
        return blob

    @property
    def files(self) -> AsyncSessionFiles:
        return AsyncSessionFiles(self)

    def cancel(self) -> None:
        self._made.cancel()

    async def abandon(self) -> None:
        await self._in_thread(self._made.abandon)

    async def close(self) -> None:
        await asyncio.to_thread(self._made.close)

    async def __aenter__(self) -> AsyncSession:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<Async{repr(self._made)[1:]}"


class AsyncSessionFiles:
    """SessionFiles for asyncio. A call waits for the end of a running turn."""

    def __init__(self, session: AsyncSession) -> None:
        self._session, self._made = session, session._made.files

    async def read(self, path: FilePath) -> bytes:
        content: bytes = await self._session._in_thread(self._made.read, path)
        return content

    async def read_text(self, path: FilePath) -> str:
        return (await self.read(path)).decode()

    async def write(self, path: FilePath, content: Union[str, bytes, bytearray, memoryview]) -> None:
        await self._session._in_thread(self._made.write, path, content)

    async def list(self) -> List[FileInfo]:
        files: List[FileInfo] = await self._session._in_thread(self._made.list)
        return files


class AsyncCall:
    """A Call of an AsyncSession."""

    def __init__(self, session: AsyncSession, call: Call) -> None:
        self.session, self._call = session, call
        self.calls, self.name, self.args, self.kwargs = call.calls, call.name, call.args, call.kwargs

    @property
    def named(self) -> Mapping[str, Any]:
        return self._call.named

    async def resume(self, *values: Any) -> Union[Result, AsyncCall]:
        return self.session._end_of(await self.session._in_thread(self._call.resume, *values))

    async def fail(self, error: BaseException) -> Union[Result, AsyncCall]:
        return self.session._end_of(await self.session._in_thread(self._call.fail, error))

    async def abandon(self) -> None:
        await self.session.abandon()

    async def dump(self) -> bytes:
        return await self.session.dump()

    def __repr__(self) -> str:
        return repr(self._call)
