"""Sessions in this process: Python, JavaScript and other languages, turn by turn, behind the engine's wall."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pathlib
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, Callable, ContextManager, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Type, TypeVar, Union

from . import _telemetry
from ._agents import Agents, Approve, Ask, Complete, Flows, Model, Receipts, error_of
from ._check import Cells, Checker, TypeCheck, cells_of_json
from ._errors import MembraneError, NotFoundError
from ._functions import FunctionCall, Functions, Modules, Registry, answer_running, wait_running, whole
from ._hints import hint_of_session, in_words_of_session
from ._options import LoadOptions, PolicyLike, SessionOptions, check_functions, check_language, check_seconds, only_known, walls_of
from ._sources import Clock, Entropy, Sleep, Zone, words_of
from ._stubs import Stubs, types_of_inputs
from ._types import FileInfo, Result

if TYPE_CHECKING:
    from typing_extensions import Unpack

try:
    from . import _native as _loaded
    from . import _values

    _native: Any = _loaded
except ImportError as error:  # the package without the engine, which is a client of services
    _native = None
    _why_no_engine = error

_OF_FILES = ("No file or directory of the host is granted.", "Of the host, the program can access ", "/tmp is the program's own")
_MAGIC = b"MEMBPY1\n"
_STOPS_AGAIN_S = 0.02
_languages: Dict[str, Any] = {}
_languages_lock = threading.Lock()
S = TypeVar("S", bound="Session")


class SessionOverError(MembraneError):
    """The session was closed, or its lifetime or idle time has passed."""


def _engine() -> Any:
    if _native is None:
        raise MembraneError(
            "this installation of membrane has no engine",
            code="no_engine",
            hint="Install a wheel of this platform, or build one: make python. Sandbox and AsyncSandbox use a service.",
        ) from _why_no_engine
    return _native


def _raised(error: Exception) -> MembraneError:
    code, message, hint, _ = error.args
    kind: Type[MembraneError] = NotFoundError if code in ("not_found", "ENOENT") else MembraneError
    return kind(in_words_of_session(message), code=code, hint=in_words_of_session(hint))


class _Translated:
    """Errors of the engine as MembraneError."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, _: Any) -> None:
        if error is not None and _native is not None and isinstance(error, _native.Failure):
            raise _raised(error) from None


_translated = _Translated()


def open_language(name: str = "python", *, on_progress: Optional[Callable[[str], None]] = None) -> Any:
    """Opens a language for sessions, which the first Session of it does else. The first time this takes seconds, while its warm
    image is made; later it is a matter of milliseconds."""
    engine = _engine()
    check_language("open_language()", name)
    with _languages_lock:
        if name not in _languages:
            with _translated:
                opened = engine.Language.open(name, on_progress)
            _languages[name] = _languages.setdefault(opened.name, opened)
        return _languages[name]


def _policy_of(policy: PolicyLike, allow: Iterable[str], limits: Optional[Mapping[str, Any]]) -> Any:
    engine = _engine()
    with _translated:
        if policy is None:
            made = engine.Policy.for_languages()
        elif isinstance(policy, os.PathLike):
            made = engine.Policy.parse(pathlib.Path(policy).read_text(encoding="utf-8"), os.fspath(policy))
        elif isinstance(policy, str):
            if "\n" not in policy and policy.endswith((".toml", ".json")):
                raise ValueError(f"policy is the text of one in TOML; of a file it is a path: policy=pathlib.Path({policy!r})")
            made = engine.Policy.parse(policy, "policy.toml")
        elif isinstance(policy, Mapping):
            made = engine.Policy.parse(json.dumps(policy), "policy.json")
        else:
            raise TypeError(f"policy is a dict, text in TOML, or a pathlib.Path of a file, not {policy!r}")
        if not isinstance(allow, (str, Iterable)):
            raise TypeError(f'allow is a list of grants, as ["kv"], not {allow!r}')
        for grant in [allow] if isinstance(allow, str) else allow:
            if not isinstance(grant, str):
                raise TypeError(f'allow has texts, as "kv", not {grant!r}')
            made.allow(whole(grant))
        if limits is not None and not isinstance(limits, Mapping):
            raise TypeError(f'limits are a dict of names and amounts, as {{"fuel": 1e9}}, not {limits!r}')
        for name, value in (limits or {}).items():
            made.limit(name, str(value))
    return made


def _place_of(isolated: bool, accepted_missing_walls: Iterable[str]) -> Dict[str, Any]:
    return {"isolated": bool(isolated), "accepted_missing_walls": walls_of(accepted_missing_walls)}


def registry_of(functions: Functions, modules: Optional[Modules], inputs: Optional[Mapping[str, Any]]) -> Registry:
    _engine()
    return Registry(_values, functions, modules, inputs, None)


class Call:
    """A session that waits for functions of the host: which ones, and how to go on.

    name, args, kwargs, named: of the first call that waits; calls: of all, where several were made at once.
    """

    def __init__(self, session: Session, calls: Sequence[FunctionCall], so_far: Result) -> None:
        self.session, self.calls, self.so_far = session, tuple(calls), so_far

    @property
    def name(self) -> str:
        return self.calls[0].name

    @property
    def args(self) -> Tuple[Any, ...]:
        return self.calls[0].args

    @property
    def kwargs(self) -> Mapping[str, Any]:
        return self.calls[0].kwargs

    @property
    def named(self) -> Mapping[str, Any]:
        return self.calls[0].named

    def resume(self, *values: Any) -> Union[Result, Call]:
        """Gives the calls their values, in their order; the rest of the program runs, to its end or to the next call that waits.
        Fewer values than calls keep the others waiting; more are a ValueError, and the Call is as before."""
        if len(values) > len(self.calls):
            raise ValueError(f"{len(values)} values for {len(self.calls)} waiting {'call' if len(self.calls) == 1 else 'calls'}: {self!r}")
        return self.session._resume([self.session._registry.value(value, "resume() was given") for value in values])

    def fail(self, error: BaseException) -> Union[Result, Call]:
        """The first call raises the error in the program, by the name of its class and its text; the others keep it waiting."""
        return self.session._resume([self.session._registry.error(error)])

    def abandon(self) -> None:
        """Gives the calls up: the session stands as it did before the turn."""
        self.session.abandon()

    def dump(self) -> bytes:
        """As bytes, for membrane.load() in this or another process."""
        return self.session.dump()

    def __repr__(self) -> str:
        return f"<Call {', '.join(_shown(each) for each in self.calls)}>"


def _shown(call: FunctionCall) -> str:
    words = [repr(each) for each in call.args] + [f"{name}={value!r}" for name, value in call.kwargs.items()]
    return f"{call.name}({', '.join(words)})"


FilePath = Union[str, "os.PathLike[str]", FileInfo]


def _path_of(path: FilePath) -> str:
    if isinstance(path, FileInfo):
        path = path.path
    if isinstance(path, os.PathLike):
        path = os.fspath(path)
    if not isinstance(path, str):
        raise TypeError(f"a path is text, as \"/tmp/a.txt\", or what list() gave, not {path!r}")
    return whole(path)


def _bytes_of(content: Any, what: str) -> bytes:
    if not isinstance(content, (bytes, bytearray, memoryview)):
        raise TypeError(f"{what} is {'bytes' if what.startswith('blob') else 'text or bytes'}, not {type(content).__name__}")
    return bytes(content)


class SessionFiles:
    """Files of the session's own tree, by absolute paths, or by what list() gave."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def read(self, path: FilePath) -> bytes:
        name = _path_of(path)
        with _translated, self._session._use() as native:
            content: bytes = native.read_file(name)
            return content

    def read_text(self, path: FilePath) -> str:
        return self.read(path).decode()

    def write(self, path: FilePath, content: Union[str, bytes, bytearray, memoryview]) -> None:
        name, data = _path_of(path), whole(content).encode() if isinstance(content, str) else _bytes_of(content, "a file's content")
        with _translated, self._session._use() as native:
            native.write_file(name, data)

    def list(self) -> List[FileInfo]:
        """Those that programs have made or changed."""
        with self._session._use() as native:
            return [FileInfo(path, size) for path, size in native.files]


class _Use:
    """One at a time uses the engine's session; a close waits for it. What is asked for by a function that a turn has called would
    wait for itself, and is refused."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def __enter__(self) -> Any:
        session = self._session
        if session._registry.is_calling():
            raise MembraneError(
                "a turn of this session waits for the function that asks for this",
                code="busy",
                hint="Do it after the turn, or use another session.",
            )
        session._lock.acquire()
        if session._native is None:
            session._lock.release()
            raise SessionOverError(session._why_over, code="session_over", hint="Make another Session.")
        return session._native

    def __exit__(self, *_: object) -> None:
        self._session._used_at = time.monotonic()
        self._session._lock.release()


class Session:
    """A program in a language that goes on from turn to turn: names and files stay.

    language: "python", "js", or what people call them, as "javascript". allow, limits, policy: what it may do, as docs/policy.md
    says; nothing without. policy: a dict, text in TOML, or a pathlib.Path of a file in TOML or JSON. functions: of this program, by their names
    among the session's own names; modules: of such, which programs import. Functions may be coroutines, which programs await.
    One that returns membrane.LATER, or is it, is answered later (see start()). inputs: names and their values. gate: sees each FunctionCall before it
    happens, and may be a coroutine. True lets the call pass, False and None refuse it with a PermissionError, LATER makes it wait as one of a function that
    answers later, and the embedder answers in the function's place; all else is an error of the call. What a gate raises is raised in the program: a reason. type_check: True, or a TypeCheck: a cell whose
    types are wrong does not run, and its result says where (findings). on_stdout, on_stderr: hear text as it is printed. idle_timeout_s, lifetime_s: when the session ends by itself.

    In the place of the policy's clock and randomness: clock: "real", when a virtual one begins (a datetime, UTC where it has no
    tzinfo, or seconds since 1970), or a function that gives the time so. timezone: of local time, a name as "Europe/Berlin", an offset
    as "+02:00", a ZoneInfo. sleep: "virtual", which lets the clock move on at once, "real", or a function of seconds, which may be
    a coroutine. entropy: "real", a seed (an int or bytes), or a function of a number of bytes.

    approve: is asked an EgressQuestion before something leaves that needs a yes (egress = "ask" of the policy's [trifecta]): True is a yes, and all else is a no, None where nobody
    is there to ask. flows: what was read, shared with other sessions. model: answers ai.complete, a function of a ModelRequest that gives a text or a ModelAnswer; with ai.embed a Model.
    ask: answers agent.ask, a function of the question and of seconds. These may be coroutines; the policy grants and bounds what they answer. receipts: where each turn is sealed
    (Result.receipt); such a session has no functions, modules, inputs, clock, timezone, sleep or entropy of this program's, no forks, and no start() with calls that wait.

    isolated: in a process of its own, behind walls (docs/walls.md); functions and listeners are called in this one, as without.
    accepted_missing_walls: names of walls ("user_namespace") that it may do without where the machine lacks them; else it is refused.

    Threads: any; turns wait for each other. In a `with` block it is closed at the end.
    """

    _native: Any
    _sources: Dict[str, Any]
    _place: Dict[str, Any]

    @only_known("Session()")
    def __init__(
        self,
        language: str = "python",
        *,
        allow: Iterable[str] = (),
        limits: Optional[Mapping[str, Any]] = None,
        policy: PolicyLike = None,
        functions: Functions = None,
        modules: Optional[Modules] = None,
        inputs: Optional[Mapping[str, Any]] = None,
        gate: Optional[Callable[[FunctionCall], Any]] = None,
        type_check: Union[bool, TypeCheck] = False,
        on_stdout: Optional[Callable[[str], None]] = None,
        on_stderr: Optional[Callable[[str], None]] = None,
        idle_timeout_s: Optional[float] = None,
        lifetime_s: Optional[float] = None,
        clock: Clock = None,
        timezone: Zone = None,
        sleep: Sleep = None,
        entropy: Entropy = None,
        approve: Optional[Approve] = None,
        flows: Optional[Flows] = None,
        model: Union[Model, Complete, None] = None,
        ask: Optional[Ask] = None,
        receipts: Optional[Receipts] = None,
        isolated: bool = False,
        accepted_missing_walls: Iterable[str] = (),
    ) -> None:
        check_language("Session()", language)
        check_functions(gate=gate, on_stdout=on_stdout, on_stderr=on_stderr)
        check_seconds("idle_timeout_s", idle_timeout_s)
        check_seconds("lifetime_s", lifetime_s)
        engine = _engine()
        registry = Registry(_values, functions, modules, inputs, gate)
        registry.agents = Agents(approve, flows, model, ask, receipts)
        opened = open_language(language)
        registry.check_names(opened.name)
        self._begin(opened.name, _policy_of(policy, allow, limits), registry, on_stdout, on_stderr)
        self._place = _place_of(isolated, accepted_missing_walls)
        self._sources = words_of(clock, timezone, sleep, entropy, wait_running)
        with _translated:
            self._native = engine.Session.create(opened, self._policy, self._options())
        self._check_types(type_check)
        self._end_by_time(idle_timeout_s, lifetime_s)

    def _begin(self, language: str, policy: Any, registry: Registry, on_stdout: Any, on_stderr: Any) -> None:
        self.language, self._policy, self._registry = language, policy, registry
        self._on_stdout, self._on_stderr = on_stdout, on_stderr
        self._lock = threading.RLock()
        self._native = None
        self._why_over = "the session is closed"
        self._used_at = time.monotonic()
        self._timer: Optional[threading.Timer] = None
        self.files = SessionFiles(self)
        self._checker: Optional[Checker] = None
        self._cells = self._cells_before = Cells()  # before: the turn that ran last
        self._waits: Optional[Tuple[Sequence[FunctionCall], Result]] = None  # of a Call
        self._place_of_fork: Callable[[], ContextManager[Callable[[Any], Any]]] = lambda: contextlib.nullcontext(lambda made: None)
        self._at_end: List[Callable[[], Any]] = [_telemetry.opened(self, language), registry.leave]
        registry.enter()

    def _check_types(self, how: Union[bool, TypeCheck]) -> None:
        if how is not False:
            self._checker = Checker(how, open_language(self.language).name, self._registry)

    def _options(self) -> Dict[str, Any]:
        registry = self._registry
        return {
            "functions": registry.words,
            "types": registry.types,
            "modules": registry.modules,
            "inputs": registry.inputs,
            "call": None if registry.agents.receipts is not None else answer_running,
            "on_stdout": self._on_stdout,
            "on_stderr": self._on_stderr,
            "sources": self._sources,
            "agents": registry.agents.words(),
            **self._place,
        }

    def _use(self) -> _Use:
        return _Use(self)

    # -- turns

    @only_known("run()")
    def run(
        self,
        code: str,
        *,
        name: str = "",
        script: bool = False,
        arguments: Sequence[str] = (),
        stdin: str = "",
        inputs: Optional[Mapping[str, Any]] = None,
    ) -> Result:
        """Runs a turn to its end. name: for tracebacks; script: a whole program, which leaves no names; arguments: sys.argv.

        inputs: variables by their names, which are set before the code runs, as by an assignment: they take the places of what the program
        has under these names, and stay. A TypeError for a value that cannot pass; a name that is no variable's is an error of the result.
        A script has none."""
        _check_code(code)
        words = _check_words(name, arguments, stdin)
        with self._use() as native:
            given = self._registry.inputs_of(inputs)
            self._registry.waits = False
            return self._turn(
                "run",
                lambda: native.run(code, name, bool(script), False, words, stdin, False, given),
                lambda: self._refused(code, given, is_script=script),
                "" if script else code,
                given,
            )

    @only_known("start()")
    def start(self, code: str, *, name: str = "", inputs: Optional[Mapping[str, Any]] = None) -> Union[Result, Call]:
        """Runs a turn to its end, or to a call that waits: of a function that returns membrane.LATER or is it, or that the code calls and
        nobody has defined. Call.resume() goes on with its value, here or, after dump() and membrane.load(), in another process.
        inputs: as of run()."""
        _check_code(code)
        _check_words(name)
        with self._use() as native:
            given = self._registry.inputs_of(inputs)
            self._registry.waits = True
            return self._end_of(
                self._turn(
                    "start",
                    lambda: native.run(code, name, False, False, [], "", True, given),
                    lambda: self._refused(code, given, calls_may_wait=True),
                    code,
                    given,
                )
            )

    def _resume(self, answers: List[Any]) -> Union[Result, Call]:
        with self._use() as native:
            self._registry.waits = True
            try:
                result = self._turn("resume", lambda: native.resume(answers))
            except BaseException:  # as KeyboardInterrupt, after which the session stands as before the turn
                self._waits = self._waits if native.waits_for else None
                raise
            return self._end_of(result)

    def _end_of(self, result: Result) -> Union[Result, Call]:
        self._note_waiting(result)
        if result.outcome != "waiting":
            return result
        call = self.waiting
        assert call is not None
        return call

    def _note_waiting(self, so_far: Result) -> None:
        """What the session waits for now."""
        wires, self._waits = self._native.waits_for, None
        if wires:
            try:
                self._waits = [self._registry.call_of(each) for each in wires], so_far
            except LookupError as error:
                raise MembraneError(str(error.args[0]), code="unknown_object", hint="Until then, abandon() gives the call up.") from None

    @property
    def waiting(self) -> Optional[Call]:
        """The Call of a session that waits, also of a fork; None of one that does not."""
        return None if self._waits is None else Call(self, *self._waits)

    def _turn(
        self,
        operation: str,
        act: Callable[[], Any],
        refused: Callable[[], Optional[Result]] = lambda: None,
        cell: str = "",
        inputs: Sequence[Tuple[str, str]] = (),
    ) -> Result:
        """A turn, unless its types are wrong. cell: its text, which later cells are checked with, as with its inputs."""

        def turn() -> Result:
            result = refused()
            if result is None:
                if cell or inputs:
                    self._cells_before = self._cells
                with self._registry.running():
                    result = _result_of(act(), self._registry)
                if (cell or inputs) and self._checker is not None:
                    self._cells = self._cells.with_cell(cell, result.report, types_of_inputs(inputs))
            return result

        ended: Result = _telemetry.turn(operation, self.language, turn)
        return ended

    def _refused(
        self, code: str, inputs: Sequence[Tuple[str, str]], *, is_script: bool = False, calls_may_wait: bool = False
    ) -> Optional[Result]:
        """Why a turn does not run; None where it may."""
        checker = self._checker
        if checker is None or not checker.before_runs:
            return None
        if is_script:
            report = checker.check(None, code)
        else:
            cells = self._cells.with_inputs(types_of_inputs(inputs))
            report = checker.check(cells, code, self._native.complete, calls_may_wait=calls_may_wait)
        return None if report is None else Result.of_report(report, in_our_words=in_words_of_session)

    @only_known("check()")
    def check(self, code: str, *, name: str = "", inputs: Optional[Mapping[str, Any]] = None) -> Result:
        """What is wrong with the text, as an error with its places (Result.findings); nothing of it runs. The types are checked
        in a session with type_check. inputs: what run() is to be given, of which nothing is set here."""
        _check_code(code)
        _check_words(name)
        with self._use() as native:
            given = self._registry.inputs_of(inputs, are_given=False)
            with self._registry.running():
                result = _result_of(native.run(code, name, False, True, [], "", False, given))
            if result.ok and self._checker is not None:
                report = self._checker.check(self._cells.with_inputs(types_of_inputs(given)), code, native.complete)
                return result if report is None else Result.of_report(report, in_our_words=in_words_of_session)
            return result

    def stubs(self) -> str:
        """What its programs are given, as the text of Python stubs with docstrings: good in a model's prompt."""
        return (self._checker.stubs() if self._checker is not None else Stubs(self._registry)).text()

    def complete(self, code: str) -> List[str]:
        """The names that the one at the end of the code could become."""
        _check_code(code)
        with self._use() as native:
            return list(native.complete(code))

    def cancel(self) -> None:
        """Stops the turn that runs, from any thread: its outcome is "cancelled". Coroutines of this program that it waits for are cancelled;
        a function that is none comes to its end first."""
        native, checker = self._native, self._checker
        if checker is not None:
            checker.cancel()
        if native is not None:
            native.cancel()

    def _warm(self) -> None:
        """Runs a turn that does nothing, and that nobody hears of."""
        with self._use() as native:
            native.run("", "", False, False, [], "", False, [])

    def abandon(self) -> None:
        """Gives up the turn that waits for a Call: the session stands as it did before it. A MembraneError where none waits."""
        with _translated, self._use() as native:
            native.abandon()
            self._cells, self._waits = self._cells_before, None

    # -- branches and bytes

    def fork(self: S) -> S:
        """A session that goes on from here, for itself; with the same functions and objects."""
        with self._place_of_fork() as count, _translated, self._use() as native:
            made = type(self).__new__(type(self))
            made._begin(self.language, self._policy, self._registry.forked(), self._on_stdout, self._on_stderr)
            made._sources, made._place = self._sources, self._place
            made._native, made._waits = native.fork(), self._waits
            made._cells, made._cells_before = self._cells, self._cells_before
            made._checker = None if self._checker is None else self._checker.for_another(made._registry)
            count(made)
            return made

    def dump(self) -> bytes:
        """All that the session is besides its language, as bytes; also where it waits. Neither the policy nor functions are in it."""
        with _translated, self._use() as native:
            cells = {} if self._checker is None else {"cells": self._cells.texts}
            head = json.dumps({"language": self.language, **cells, "objects": self._registry.objects_told()}).encode()
            content: bytes = native.dump()
            return _MAGIC + len(head).to_bytes(4, "little") + head + content

    # -- its end

    def _end_by_time(self, idle_timeout_s: Optional[float], lifetime_s: Optional[float]) -> None:
        self._idle_timeout_s = idle_timeout_s
        self._ends_at = None if lifetime_s is None else time.monotonic() + lifetime_s
        self._set_timer()

    def _set_timer(self) -> None:
        ends = [at for at in (self._ends_at, self._idle_timeout_s and self._used_at + self._idle_timeout_s) if at]
        if not ends or self._native is None:
            return
        this = weakref.ref(self)

        def look() -> None:
            session = this()
            if session is not None:
                session._end_if_due()

        self._timer = threading.Timer(max(min(ends) - time.monotonic(), 0), look)
        self._timer.daemon = True
        self._timer.start()

    def _end_if_due(self) -> None:
        with self._lock:
            now = time.monotonic()
            if self._ends_at is not None and now >= self._ends_at:
                self._close("the session's lifetime is over")
            elif self._idle_timeout_s is not None and now >= self._used_at + self._idle_timeout_s:
                self._close("nobody has used the session for its idle time")
            else:
                self._set_timer()

    def _close(self, why: str) -> None:
        with self._lock:
            if self._native is not None:
                self._native, self._waits, self._why_over = None, None, why
            at_end, self._at_end = self._at_end, []
        for act in at_end:
            act()
        if self._timer is not None:
            self._timer.cancel()

    def _when_over(self, token: Any, if_garbage: Callable[[Any], Any], if_closed: Callable[[Any], Any]) -> None:
        """Calls one of them with the token when the session is no more: if_garbage at any moment of any thread."""
        gone = weakref.finalize(self, if_garbage, token)
        gone.atexit = False
        with self._lock:
            self._at_end.append(lambda: if_closed(token) if gone.detach() else None)

    def close(self) -> None:
        """Ends it, and gives its memory back. A turn that runs is stopped first."""
        self.cancel()
        self._close("the session is closed")

    def __enter__(self: S) -> S:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Session {self.language}{'' if self._native is not None else ', ' + self._why_over}>"


def _check_code(code: str) -> None:
    if not isinstance(code, str):
        raise TypeError(f"code is text, not {type(code).__name__}")
    whole(code)


def _check_words(name: str, arguments: Sequence[str] = (), stdin: str = "") -> List[str]:
    """The arguments."""
    words = list(arguments) if not isinstance(arguments, (str, bytes)) else [arguments]
    if isinstance(arguments, (str, bytes)) or not all(isinstance(each, str) for each in words):
        raise TypeError(f"arguments are a list of texts, not {arguments!r}")
    for what, text in (("name", name), ("stdin", stdin)):
        if not isinstance(text, str):
            raise TypeError(f"{what} is text, not {type(text).__name__}")
    for text in (name, stdin, *words):
        whole(text)
    return words


def _result_of(outcome: Any, registry: Optional[Registry] = None) -> Result:
    report = json.loads(outcome.to_json())
    why = report.get("error") or {}
    if registry is not None and why.get("hint", "").startswith(_OF_FILES) and registry.is_own_error(why["message"]):
        why["hint"] = ""  # which the engine takes for an error of the session's files
    for each in (report.get("error"), *report.get("more_errors", ())):
        _say_in_our_words(each or {}, ("message", "hint", "traceback"))
        if each and not each.get("hint"):
            each["hint"] = hint_of_session(each["message"])
    for call in report.get("host_calls", ()):
        _say_in_our_words(call, ("grant", "reason"))
    receipt = pathlib.Path(outcome.receipt) if outcome.receipt else None
    return Result.of_report(report, in_our_words=in_words_of_session, receipt=receipt, unsealed=error_of(outcome.unsealed))


def _say_in_our_words(of: Dict[str, Any], members: Sequence[str]) -> None:
    for name in members:
        if of.get(name) and isinstance(of[name], str):
            of[name] = in_words_of_session(of[name])


@only_known("load()")
def load(
    blob: bytes,
    *,
    allow: Iterable[str] = (),
    limits: Optional[Mapping[str, Any]] = None,
    policy: PolicyLike = None,
    functions: Functions = None,
    modules: Optional[Modules] = None,
    inputs: Optional[Mapping[str, Any]] = None,
    gate: Optional[Callable[[FunctionCall], Any]] = None,
    type_check: Union[bool, TypeCheck] = False,
    on_stdout: Optional[Callable[[str], None]] = None,
    on_stderr: Optional[Callable[[str], None]] = None,
    clock: Clock = None,
    timezone: Zone = None,
    sleep: Sleep = None,
    entropy: Entropy = None,
    approve: Optional[Approve] = None,
    flows: Optional[Flows] = None,
    model: Union[Model, Complete, None] = None,
    ask: Optional[Ask] = None,
    isolated: bool = False,
    accepted_missing_walls: Iterable[str] = (),
) -> Any:
    """The session that Session.dump() or Call.dump() gave: a Call where it waits, else a Session. Loaded twice, it is forked.

    inputs: the same as the session's own and, after them, as those of its turns, where an Object is among them: then the references to it
    that the program holds lead to the Objects that are given here, which are told apart by the order in which they were first given. The last
    of them may be left out. The program has its values itself, and is not given them again.
    A reference to an Object that a function returned leads nowhere: calling it is a LookupError in the program.

    Functions that its programs call are given anew, and so are what it may do, its place, clock, time zone, sleep and entropy, and who approves and answers. What
    was read before stays read, also with flows. Keep the bytes where nobody else writes: they can do
    what a program could under this policy.
    """
    check_functions(gate=gate, on_stdout=on_stdout, on_stderr=on_stderr)
    engine = _engine()
    language, head, content = _head_of(blob)
    registry = Registry(_values, functions, modules, inputs, gate)
    registry.agents = Agents(approve, flows, model, ask)
    registry.check_names(language)
    registry.take_up(head.get("objects"))
    session = Session.__new__(Session)
    session._begin(language, _policy_of(policy, allow, limits), registry, on_stdout, on_stderr)
    session._sources = words_of(clock, timezone, sleep, entropy, wait_running)
    session._place = _place_of(isolated, accepted_missing_walls)
    with _translated:
        session._native = engine.Session.load(open_language(language), content, session._policy, session._options())
    session._check_types(type_check)
    session._cells = session._cells_before = cells_of_json(head.get("cells"))
    session._end_by_time(None, None)
    session._note_waiting(Result.of_report({"outcome": "waiting"}, in_our_words=in_words_of_session))
    return session.waiting or session


def _head_of(blob: bytes) -> Tuple[str, Dict[str, Any], bytes]:
    blob = _bytes_of(blob, "blob, what dump() returned,")
    damaged = MembraneError("these are no bytes of a session", code="invalid_input", hint="Give what dump() returned.")
    start = len(_MAGIC) + 4
    if not blob.startswith(_MAGIC) or len(blob) < start:
        raise damaged
    end = start + int.from_bytes(blob[len(_MAGIC) : start], "little")
    try:
        head = json.loads(blob[start:end])
        language = head["language"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise damaged from None
    if not isinstance(language, str):
        raise damaged
    return language, head, blob[end:]


class AsyncSession:
    """A Session for asyncio: the same methods, awaited; turns run in threads, and functions that are coroutines in this loop; others in
    the thread of their turn.
    A task that is cancelled stops its turn; one whose turn has not begun stops nobody's."""

    _line: Optional[Tuple[asyncio.AbstractEventLoop, asyncio.Lock]] = None  # of tasks, in the loop that uses the session

    def __init__(self, language: str = "python", **options: Unpack[SessionOptions]) -> None:
        self._made = Session(language, **options)

    @classmethod
    async def load(cls, blob: bytes, **options: Unpack[LoadOptions]) -> Any:
        """As membrane.load(), in a thread: an AsyncCall where the session waits, else an AsyncSession. Functions run in this loop."""
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
            return await self._acted(act, *args, **kwargs)  # which is refused, and would wait for itself here
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
                self._made.cancel()  # a turn that had not begun has not seen it
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
        """The call of a session that waits, also of a fork; None of one that does not."""
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
    """SessionFiles for asyncio: what is asked while a turn runs waits for its end."""

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
