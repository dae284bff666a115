"""What a session's programs have beside the policy: who decides what leaves, a model, a person, and receipts of each turn."""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import math
import os
import warnings
from dataclasses import dataclass
from typing import Any, Awaitable, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from ._errors import MembraneError, NotFoundError
from ._functions import Calling, MustStop, registry_running, wait_running, whole
from ._hints import hint_of_keys, in_words_of_session
from ._host_values import with_article
from ._types import FlowRead

_YES, _NO, _NOBODY = range(3)
_MOST_TOKENS = 1 << 63
Said = Tuple[str, str, Any]  # the error's number, or ""; its message; else the value


# -- what leaves


@dataclass(frozen=True)
class FlowReads:
    """What was read, of one kind: the first of it, and how many more there are."""

    first: Sequence[FlowRead] = ()
    more: int = 0

    @classmethod
    def _of(cls, words: Tuple[List[Tuple[int, str, str]], int]) -> FlowReads:
        return cls(tuple(FlowRead(*each) for each in words[0]), words[1])


class Flows:
    """What was read, shared by all sessions that are given it: the model of one conversation carries text from each program to the
    next, so what one has read counts for all. Nothing is ever unread. Threads: any."""

    def __init__(self) -> None:
        from ._embedded import _engine

        self._native = _engine().Flows()

    @property
    def private_reads(self) -> FlowReads:
        """Of private data."""
        return FlowReads._of(self._native.private_reads)

    @property
    def untrusted_reads(self) -> FlowReads:
        """Of text of untrusted origin."""
        return FlowReads._of(self._native.untrusted_reads)

    @property
    def is_closed(self) -> bool:
        """Both kinds were read: nothing leaves without a yes."""
        closed: bool = self._native.is_closed
        return closed

    def __repr__(self) -> str:
        return f"<Flows, {'closed' if self.is_closed else 'open'}>"


@dataclass(frozen=True)
class EgressQuestion:
    """A request that would leave after a program has read both private data and text of untrusted origin.

    function, target: what it is, as "http.request" and "POST https://example.org/upload"; bytes: that it would send; timeout_s: until the turn's time is
    over, after which an answer is a no.
    """

    function: str
    target: str
    bytes: int
    private_reads: FlowReads
    untrusted_reads: FlowReads
    timeout_s: float


Allowed = Optional[bool]
Approve = Callable[[EgressQuestion], Union[Allowed, Awaitable[Allowed]]]


# -- a model and a person


@dataclass(frozen=True)
class ModelRequest:
    """A question to the model. max_tokens: that the answer may have; timeout_s: until nobody waits for it any more."""

    prompt: str
    system: str = ""
    max_tokens: int = 0
    timeout_s: float = math.inf


@dataclass(frozen=True)
class ModelAnswer:
    """What a model says. tokens_in, tokens_out: that were used, which the turn's limit of tokens pays."""

    text: str
    tokens_in: int = 0
    tokens_out: int = 0


Complete = Callable[[ModelRequest], Union[str, ModelAnswer, Awaitable[Union[str, ModelAnswer]]]]
Embed = Callable[[str, float], Union[Sequence[float], Awaitable[Sequence[float]]]]


@dataclass(frozen=True)
class Model:
    """Answers ai.complete and ai.embed. complete: is given a ModelRequest, and gives a text or a ModelAnswer; embed: is given a text and a
    number of seconds, and gives a vector of numbers. Either may be a coroutine. A program gets an error (ENOTSUP) where there is none."""

    complete: Optional[Complete] = None
    embed: Optional[Embed] = None


Ask = Callable[[str, float], Union[str, Awaitable[str]]]


# -- receipts


class Receipts:
    """A directory of receipts: files that say what ran, what it did and what came of it, under a signature (docs/receipts.md).
    Result.receipt is the file of a turn; beside it is one with `.private` at its end, which is for the owner alone.

    directory: is made where it is not there. key_file: that `membrane keys generate` made, None: the user's own. makes_key: a new key for this user alone, where the
    file is not there. A MembraneError without a key, and where the directory cannot be used. Threads: any.
    """

    def __init__(self, directory: Union[str, "os.PathLike[str]"], *, key_file: Union[str, "os.PathLike[str]", None] = None, makes_key: bool = False) -> None:
        from ._embedded import _engine, _translated

        self.directory = os.path.abspath(os.fspath(directory))
        engine = _engine()
        file = "" if key_file is None else os.fspath(key_file)
        try:
            with _translated:
                self._native = engine.Receipts.open(self.directory, file, bool(makes_key))
        except NotFoundError as error:
            if error.hint == "membrane keys generate":
                error.hint = hint_of_keys(os.path.abspath(file) if file else _own_key_file())
            raise

    @property
    def problem(self) -> Optional[MembraneError]:
        """Why a turn that ran was not sealed: the first of all. Result.unsealed says it of each."""
        return error_of(self._native.problem)

    def __repr__(self) -> str:
        return f"<Receipts {self.directory}>"


def _own_key_file() -> str:
    """Where the engine looks for the user's own key."""
    folder = os.environ.get("XDG_CONFIG_HOME", "")
    return os.path.join(folder if folder.startswith("/") else os.path.expanduser("~/.config"), "membrane", "receipt-keys.json")


def error_of(words: Optional[Tuple[str, str, str, str]]) -> Optional[MembraneError]:
    if words is None:
        return None
    code, message, hint, _ = words
    return MembraneError(in_words_of_session(message), code=code, hint=in_words_of_session(hint))


# -- as the engine is told of them


class Agents:
    """What a session and its forks are given. Threads: any."""

    def __init__(
        self, approve: Optional[Approve], flows: Optional[Flows], model: Union[Model, Complete, None], ask: Optional[Ask], receipts: Optional[Receipts] = None
    ) -> None:
        self.model = model if isinstance(model, Model) else Model(complete=model)
        for name, given in (("approve", approve), ("model", self.model.complete), ("Model.embed", self.model.embed), ("ask", ask)):
            if given is not None and not callable(given):
                raise TypeError(f"{name} is a function{' or a Model' if name == 'model' else ''}, not {given!r}")
        for name, value, kind in (("flows", flows, Flows), ("receipts", receipts, Receipts)):
            if value is not None and not isinstance(value, kind):
                raise TypeError(f"{name} is {with_article(kind.__name__)}, not {value!r}")
        self.approve, self.flows, self.ask, self.receipts = approve, flows, ask, receipts

    def words(self) -> Mapping[str, Any]:
        """The engine holds no function of the embedder's, which may refer to the session: it asks the session whose turn runs."""
        told: Dict[str, Any] = {
            "approve": self.approve and _approve_running,
            "complete": self.model.complete and _complete_running,
            "embed": self.model.embed and _embed_running,
            "ask": self.ask and _ask_running,
        }
        return {**told, "flows": self.flows and self.flows._native, "receipts": self.receipts and self.receipts._native}


class _Stopped(Exception):
    """The turn ended, or the time was up, before there was an answer."""


def _given(function: Callable[..., Any], must_stop: MustStop, *words: Any) -> Any:
    """What the function gives, awaited where it is asynchronous."""
    with Calling(registry_running()):
        given = function(*words)
        if not inspect.isawaitable(given):
            return given
        waited = wait_running(_awaited(given), must_stop)
    if waited is None:
        raise _Stopped
    return waited[0]


async def _awaited(given: Awaitable[Any]) -> Tuple[Any]:
    return (await given,)


def _agents_running() -> Agents:
    agents: Agents = registry_running().agents
    return agents


def _approve_running(
    function: str, target: str, bytes: int, private_reads: Any, untrusted_reads: Any, timeout_s: float, must_stop: MustStop
) -> int:
    approve = _agents_running().approve
    assert approve is not None
    question = EgressQuestion(function, target, bytes, FlowReads._of(private_reads), FlowReads._of(untrusted_reads), timeout_s)
    try:
        allowed = _given(approve, must_stop, question)
    except _Stopped:
        return _NOBODY
    if allowed is None or isinstance(allowed, bool):
        return _NOBODY if allowed is None else _YES if allowed else _NO
    raise TypeError(f"approve returned {with_article(type(allowed).__name__)} for {function}, which was refused: it returns True, False or None (nobody is there)")


def _said(act: Callable[[], Any]) -> Said:
    try:
        return ("", "", act())
    except _Stopped:
        return ("ETIMEDOUT", "there was no answer in time", None)
    except Exception as error:
        return (_code_of(error), _message_of(error), None)


class _WrongAnswer(TypeError):
    """Of a function that gave what it may not: the program gets an error, and the embedder, who has to mend it, a warning, too."""

    def __init__(self, what: str, given: Any, choices: str, member: str = "") -> None:
        found = f"{with_article(type(given).__name__)}{member and ' with '}{member}"
        super().__init__(f"{what} returned {found}, and gives {choices}")
        try:
            warnings.warn(str(self), RuntimeWarning, stacklevel=2)
        except RuntimeWarning:  # warnings are errors in this program
            pass


def _complete_running(system: str, prompt: str, max_tokens: int, timeout_s: float, must_stop: MustStop) -> Said:
    complete = _agents_running().model.complete
    assert complete is not None

    def act() -> Tuple[str, int, int]:
        answer = _given(complete, must_stop, ModelRequest(prompt, system, max_tokens, timeout_s))
        if isinstance(answer, str):
            return (whole(answer), 0, 0)
        if not isinstance(answer, ModelAnswer):
            raise _WrongAnswer("the model", answer, "a text or a ModelAnswer")
        if not isinstance(answer.text, str):
            raise _WrongAnswer("the model", answer, "a ModelAnswer whose text is one", f"text={answer.text!r:.60}")
        for name in ("tokens_in", "tokens_out"):
            tokens = getattr(answer, name)
            if not isinstance(tokens, int) or not 0 <= tokens < _MOST_TOKENS:
                raise _WrongAnswer("the model", answer, "whole numbers of tokens, from 0 on", f"{name}={tokens!r:.60}")
        return (whole(answer.text), int(answer.tokens_in), int(answer.tokens_out))

    return _said(act)


def _embed_running(text: str, timeout_s: float, must_stop: MustStop) -> Said:
    embed = _agents_running().model.embed
    assert embed is not None

    def act() -> List[float]:
        vector = _given(embed, must_stop, text, timeout_s)
        try:
            numbers = [float(each) for each in vector]
        except (TypeError, ValueError):
            raise _WrongAnswer("embed", vector, "a sequence of numbers") from None
        if not all(abs(each) <= 3.4e38 for each in numbers):  # what JSON and a float of 32 bits have
            raise _WrongAnswer("embed", vector, "finite numbers")
        return numbers

    return _said(act)


def _ask_running(question: str, timeout_s: float, must_stop: MustStop) -> Said:
    ask = _agents_running().ask
    assert ask is not None

    def act() -> str:
        answer = _given(ask, must_stop, question, timeout_s)
        if not isinstance(answer, str):
            raise _WrongAnswer("ask", answer, "a text")
        return whole(answer)

    return _said(act)


def _code_of(error: Exception) -> str:
    """The number that the program's error has; the engine takes those that it does not know for EHOST."""
    if isinstance(error, MembraneError):
        return error.code or "EHOST"
    if isinstance(error, (TimeoutError, asyncio.TimeoutError, concurrent.futures.TimeoutError)):
        return "ETIMEDOUT"
    if isinstance(error, ConnectionError):
        return "ECONNECT"
    return "ENOTSUP" if isinstance(error, NotImplementedError) else "EHOST"


def _message_of(error: Exception) -> str:
    """Of an OSError its reason alone: names of this machine's files are no business of the program's."""
    if isinstance(error, OSError) and (error.filename is not None or error.filename2 is not None):
        message = error.strerror or ""
    else:
        message = error.message if isinstance(error, MembraneError) else str(error)
    return (message or type(error).__name__).encode("utf-8", "backslashreplace").decode()
