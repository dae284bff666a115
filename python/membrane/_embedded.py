"""Sessions in this process: Python, JavaScript and other languages, turn by turn, inside the engine's boundary."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import threading
import time
import weakref
from typing import Any, Callable, ContextManager, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Type, TypeVar, Union

from . import _telemetry
from ._agents import Agents, Approve, Ask, Complete, Flows, Model, Receipts, error_of
from ._check import Cells, Checker, TypeCheck, cells_of_json
from ._errors import MembraneError, NotFoundError
from ._functions import FunctionCall, Functions, Modules, Registry, answer_running, wait_running, whole
from ._hints import hint_of_session, in_words_of_session
from ._options import PolicyLike, check_functions, check_language, check_seconds, only_known, walls_of
from ._sources import Clock, Entropy, Sleep, Zone, words_of
from ._stubs import Stubs, types_of_inputs
from ._types import FileInfo, Result

try:
    from . import _native as _loaded
    from . import _values

    _native: Any = _loaded
except ImportError as error:  # a build without the engine, which is only a client of services
    _native = None
    _why_no_engine = error

_OF_FILES = ("No file or directory of the host is granted.", "Directories of the host are granted at ", "/tmp is the program's own")
_MAGIC = b"MEMBPY1\n"
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
    """Raises errors of the engine as MembraneError."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, _: Any) -> None:
        if error is not None and _native is not None and isinstance(error, _native.Failure):
            raise _raised(error) from None


_translated = _Translated()


def open_language(name: str = "python", *, on_progress: Optional[Callable[[str], None]] = None) -> Any:
    """Opens a language for sessions ahead of the first Session. The first time this takes seconds, since it makes the language's
    warm image; later it takes milliseconds."""
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
                raise ValueError(f"a str as policy is text in TOML; give the path of a file as policy=pathlib.Path({policy!r})")
            made = engine.Policy.parse(policy, "policy.toml")
        elif isinstance(policy, Mapping):
            made = engine.Policy.parse(json.dumps(policy), "policy.json")
        else:
            raise TypeError(f"policy must be a dict, text in TOML, or a pathlib.Path of a file, not {policy!r}")
        if not isinstance(allow, (str, Iterable)):
            raise TypeError(f'allow must be a list of grants, such as ["kv"], not {allow!r}')
        for grant in [allow] if isinstance(allow, str) else allow:
            if not isinstance(grant, str):
                raise TypeError(f'a grant in allow must be a str, such as "kv", not {grant!r}')
            made.allow(whole(grant))
        if limits is not None and not isinstance(limits, Mapping):
            raise TypeError(f'limits must be a dict of names and amounts, such as {{"fuel": 1e9}}, not {limits!r}')
        for name, value in (limits or {}).items():
            made.limit(name, str(value))
    return made


def _place_of(isolated: bool, accepted_missing_walls: Iterable[str]) -> Dict[str, Any]:
    return {"isolated": bool(isolated), "accepted_missing_walls": walls_of(accepted_missing_walls)}


def registry_of(functions: Functions, modules: Optional[Modules], inputs: Optional[Mapping[str, Any]]) -> Registry:
    _engine()
    return Registry(_values, functions, modules, inputs, None)


class Call:
    """A session that waits for calls of the embedder's functions, and the means to answer them.

    name, args, kwargs, named: of the first waiting call. calls: all waiting calls, since a program can make several at once.
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
        """Answers the calls in order, and runs the program to its end or to the next call that waits. With fewer values than calls
        the session keeps waiting for the others. More values raise a ValueError, and change nothing."""
        if len(values) > len(self.calls):
            raise ValueError(f"{len(values)} values for {len(self.calls)} waiting {'call' if len(self.calls) == 1 else 'calls'}: {self!r}")
        return self.session._resume([self.session._registry.value(value, "resume() was given") for value in values])

    def fail(self, error: BaseException) -> Union[Result, Call]:
        """Raises the error, by the name of its class and its text, from the first call in the program. The session keeps waiting for the others."""
        return self.session._resume([self.session._registry.error(error)])

    def abandon(self) -> None:
        """Gives up the turn: the session is as it was before it."""
        self.session.abandon()

    def dump(self) -> bytes:
        """Returns the waiting session as bytes, for membrane.load() in this or another process."""
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
        raise TypeError(f"a path must be a str, such as \"/tmp/a.txt\", or a FileInfo of list(), not {path!r}")
    return whole(path)


def _bytes_of(content: Any, what: str) -> bytes:
    if not isinstance(content, (bytes, bytearray, memoryview)):
        raise TypeError(f"{what} must be {'bytes' if what.startswith('blob') else 'str or bytes'}, not {type(content).__name__}")
    return bytes(content)


class SessionFiles:
    """Files of the session's own tree, by absolute path or by a FileInfo of list()."""

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
        """Lists the files that programs have made or changed."""
        with self._session._use() as native:
            return [FileInfo(path, size) for path, size in native.files]


class _Use:
    """Lets one caller at a time use the engine's session; a close waits for it. A function that a turn of the session has called
    would wait for itself here, so it is refused."""

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
    """A session in a language: names and files stay from turn to turn.

    language: "python", "js", or another common name, such as "javascript". allow, limits, policy: what programs may do, see
    docs/policy.md; nothing by default. policy: a dict, text in TOML, or a pathlib.Path of a file in TOML or JSON.

    functions: functions of the embedder that become names of the session. modules: modules of such functions, which programs import.
    A function may be a coroutine, which programs await. One that returns membrane.LATER, or is LATER itself, is answered later (see
    start()). inputs: variables by name. gate: is called with each FunctionCall before it happens, and may be a coroutine. True lets the
    call pass, False and None refuse it with a PermissionError, and LATER makes it wait, so that the embedder answers it in place of the
    function. Any other result is an error of the call. What a gate raises is raised in the program, and gives the reason.
    type_check: True or a TypeCheck: a cell whose types are wrong does not run, and its result has the findings.
    on_stdout, on_stderr: are called with output as it is printed. idle_timeout_s, lifetime_s: when the session closes by itself.

    These replace the policy's clock and randomness. clock: "real", the moment at which a virtual clock starts (a datetime, in UTC if it
    has no tzinfo, or seconds since 1970), or a function that returns the time as one of those. timezone: of local time: a name such as
    "Europe/Berlin", an offset such as "+02:00", or a ZoneInfo. sleep: "virtual", which moves the clock on at once, "real", or a function
    of a number of seconds, which may be a coroutine. entropy: "real", a seed (an int or bytes), or a function of a number of bytes.

    approve: is called with an EgressQuestion before a request that needs approval (egress = "ask" in the policy's [trifecta]). True
    approves it, and anything else refuses it; None means that nobody is there to ask. flows: what was read, shared with other sessions.
    model: a function of a ModelRequest that returns a str or a ModelAnswer, for ai.complete; a Model answers ai.embed, too.
    ask: a function of a question and a number of seconds, for agent.ask. Each may be a coroutine; the policy grants and bounds its use.
    receipts: where each turn is sealed (Result.receipt). Such a session cannot have functions, modules, inputs, or a clock, timezone,
    sleep or entropy of the embedder; it cannot be forked, and start() cannot wait for calls.

    isolated: runs the session in a process of its own, behind walls (docs/walls.md). Functions and listeners are still called in this
    process. accepted_missing_walls: names of walls, such as "user_namespace", that the session can do without. If the machine lacks any
    other wall, the session is refused.

    Threads: any; turns wait for each other. A `with` block closes the session at its end.
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
        self._cells = self._cells_before = Cells()  # _cells_before: as before the last turn
        self._waits: Optional[Tuple[Sequence[FunctionCall], Result]] = None  # what makes a Call
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
        """Runs a turn to its end. name: for tracebacks. script: a whole program, which leaves no names. arguments: sys.argv.

        inputs: variables that are assigned before the code runs: they replace what the program has under these names, and stay. A value
        that cannot pass raises a TypeError; a name that cannot be a variable's is an error of the result. A script cannot have inputs."""
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
        """Runs a turn to its end, or to a call that waits: of a function that returns membrane.LATER or is LATER itself, or of a name
        that nothing has defined. Call.resume() continues with the call's value, here or, after dump() and membrane.load(), in another
        process. inputs: as for run()."""
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
            except BaseException:  # such as KeyboardInterrupt, after which the session is as before the turn
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
        """Notes the calls that the session is now waiting for."""
        wires, self._waits = self._native.waits_for, None
        if wires:
            try:
                self._waits = [self._registry.call_of(each) for each in wires], so_far
            except LookupError as error:
                raise MembraneError(str(error.args[0]), code="unknown_object", hint="Until then, abandon() gives up the call.") from None

    @property
    def waiting(self) -> Optional[Call]:
        """The Call that the session waits for, also in a fork; None if it does not wait."""
        return None if self._waits is None else Call(self, *self._waits)

    def _turn(
        self,
        operation: str,
        act: Callable[[], Any],
        refused: Callable[[], Optional[Result]] = lambda: None,
        cell: str = "",
        inputs: Sequence[Tuple[str, str]] = (),
    ) -> Result:
        """Runs a turn, unless its types are wrong. cell: its text, which later cells are checked against, as are its inputs."""

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
        """Returns why a turn must not run, or None if it may."""
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
        """Reports what is wrong with the text, as an error with places (Result.findings), and runs nothing. Types are checked if the
        session has type_check. inputs: those that run() will get; none is set here."""
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
        """Returns what programs are given, as the text of Python stubs with docstrings: useful in a model's prompt."""
        return (self._checker.stubs() if self._checker is not None else Stubs(self._registry)).text()

    def complete(self, code: str) -> List[str]:
        """Lists completions of the name at the end of the code."""
        _check_code(code)
        with self._use() as native:
            return list(native.complete(code))

    def cancel(self) -> None:
        """Stops the running turn, from any thread: its outcome is "cancelled". Coroutines of the embedder that it awaits are cancelled;
        any other function of the embedder runs to its end first."""
        native, checker = self._native, self._checker
        if checker is not None:
            checker.cancel()
        if native is not None:
            native.cancel()

    def _warm(self) -> None:
        """Runs an empty turn without listeners or telemetry."""
        with self._use() as native:
            native.run("", "", False, False, [], "", False, [])

    def abandon(self) -> None:
        """Gives up the waiting turn: the session is as it was before it. Raises a MembraneError if no turn waits."""
        with _translated, self._use() as native:
            native.abandon()
            self._cells, self._waits = self._cells_before, None

    # -- branches and bytes

    def fork(self: S) -> S:
        """Returns an independent copy of the session, with the same functions and objects."""
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
        """Returns the session as bytes, without its language, policy and functions. A waiting session can be dumped, too."""
        with _translated, self._use() as native:
            cells = {} if self._checker is None else {"cells": self._cells.texts}
            head = json.dumps({"language": self.language, **cells, "objects": self._registry.described_objects()}).encode()
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
                self._close("the session was not used for its idle time")
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
        """Calls one of them with the token when the session has ended: if_garbage at any moment, on any thread."""
        gone = weakref.finalize(self, if_garbage, token)
        gone.atexit = False
        with self._lock:
            self._at_end.append(lambda: if_closed(token) if gone.detach() else None)

    def close(self) -> None:
        """Closes the session and frees its memory. A running turn is stopped first."""
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
        raise TypeError(f"code must be str, not {type(code).__name__}")
    whole(code)


def _check_words(name: str, arguments: Sequence[str] = (), stdin: str = "") -> List[str]:
    """Checks the texts, and returns the arguments as a list."""
    words = list(arguments) if not isinstance(arguments, (str, bytes)) else [arguments]
    if isinstance(arguments, (str, bytes)) or not all(isinstance(each, str) for each in words):
        raise TypeError(f"arguments must be a list of str, not {arguments!r}")
    for what, text in (("name", name), ("stdin", stdin)):
        if not isinstance(text, str):
            raise TypeError(f"{what} must be str, not {type(text).__name__}")
    for text in (name, stdin, *words):
        whole(text)
    return words


def _result_of(outcome: Any, registry: Optional[Registry] = None) -> Result:
    report = json.loads(outcome.to_json())
    why = report.get("error") or {}
    if registry is not None and why.get("hint", "").startswith(_OF_FILES) and registry.is_own_error(why["message"]):
        why["hint"] = ""  # the engine took it for an error of the session's files
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
    """Loads the bytes of Session.dump() or Call.dump(): a Call if the session waits, otherwise a Session. To load them twice is to fork.

    inputs: needed only if the session was given an Object: the session's own inputs and, after them, those of its turns, in the same
    order. References that the program holds then lead to the Objects in them, in the order in which they were first given; the last
    ones may be left out. The program keeps its other values, and is not given them again.
    A reference to an Object that a function returned is lost: calling it is a LookupError in the program.

    Functions, policy, isolation, clock, time zone, sleep, entropy, and who approves and answers are not in the bytes: give them again.
    What was read before stays read, also with flows. Protect the bytes from other writers: they can do whatever a program could under
    this policy.
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
    damaged = MembraneError("these are not the bytes of a session", code="invalid_input", hint="Give what dump() returned.")
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
