"""Functions and objects of this program, as programs in a session call them."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import copy
import dataclasses
import inspect
import keyword
import sys
import threading
import types
import warnings
from typing import Any, Awaitable, Callable, ClassVar, Coroutine, Dict, Iterable, Iterator, List, Mapping, NoReturn, Optional, Sequence, Tuple, TypeVar, Union, cast

from ._call_json import dumps, dumps_plain, is_plain, loads
from ._errors import MembraneError
from ._host_values import NoForm, to_wire, with_article
from ._telemetry import calling
from ._waits import OwnLoop, wait_here, wait_in_loop

T = TypeVar("T")
VALUE, ERROR, LATER_KIND = 0, 1, 2
Answer = Tuple[int, str, str, str]  # kind, value as JSON, type and message of an error
_MOST_NAME = 100  # characters that are shown of a type's name
STOPPED: Answer = (ERROR, "", "", "the turn was stopped")  # which no program hears
MustStop = Callable[[], bool]  # whether the turn that calls is to end
Inputs = List[Tuple[str, str]]  # names, and values as JSON
WireCall = Tuple[str, str, str, str]  # name, arguments and keywords as JSON, id of the object


class _Later:
    """An answer that comes later: what a function returns, or stands in the place of one. Programs wait until Call.resume() has it."""

    def __repr__(self) -> str:
        return "membrane.LATER"


LATER: NoReturn = cast(NoReturn, _Later())  # so that a function may return it in the place of anything


def is_later(function: Any) -> bool:
    return isinstance(function, _Later)


Function = Union[Callable[..., Any], _Later]
Functions = Union[Mapping[str, Function], Iterable[Callable[..., Any]], None]
Modules = Mapping[str, Union[Functions, types.ModuleType]]


@dataclasses.dataclass(frozen=True)
class FunctionCall:
    """A call that a program makes: what a gate sees before it happens, and what a waiting session waits for.

    name: of a function, "bank.rate" of a module's, "Account.deposit" of an object's. args, kwargs: as the program wrote them.
    """

    name: str
    args: Tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    _function: ClassVar[Optional[Callable[..., Any]]] = None  # of one that has a signature

    @property
    def named(self) -> Mapping[str, Any]:
        """All arguments by the names of the function's parameters, with its defaults, however the program gave them. A TypeError
        where they do not fit, or where the function has no signature that Python knows and the program gave some by place."""
        try:
            signature = None if self._function is None else inspect.signature(self._function)
        except (TypeError, ValueError):
            signature = None
        if signature is None:
            if self.args:
                raise TypeError(f"the signature of {self.name} is not known, so its arguments have no names: use args and kwargs")
            return dict(self.kwargs)
        bound = signature.bind(*self.args, **self.kwargs)
        bound.apply_defaults()
        return bound.arguments

    def __getstate__(self) -> Dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_function"}


def _call(name: str, args: Tuple[Any, ...], kwargs: Mapping[str, Any], function: Function) -> FunctionCall:
    """A call that has the function's signature. Writes the members of the frozen class at once, which takes a third of the time."""
    call = object.__new__(FunctionCall)
    call.__dict__.update(name=name, args=args, kwargs=kwargs, _function=None if isinstance(function, _Later) else function)
    return call


class Object:
    """An object of this program that a session's programs hold a reference to. They can call the methods and read the attributes
    that are listed here, and nothing else. Where a program gives it back, the object itself arrives.

    Put it among the inputs, or return it from a function.
    """

    def __init__(self, value: Any, *, methods: Sequence[str] = (), attributes: Sequence[str] = ()) -> None:
        for name in (*methods, *attributes):
            if name.startswith("_") or not hasattr(value, name):
                raise ValueError(f"{type(value).__name__} has no attribute {name!r} that a program could be given")
        self.value, self.methods, self.attributes = value, tuple(methods), tuple(attributes)

    @property
    def type_name(self) -> str:
        return type(self.value).__name__


def signature_of(function: Callable[..., Any], *, is_method: bool = False) -> str:
    """As source, with what is no literal as "..."; "" where Python does not know it."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return ""

    def source_of(annotation: Any) -> Any:
        if annotation is inspect.Parameter.empty:
            return annotation
        return _Source(annotation if isinstance(annotation, str) else inspect.formatannotation(annotation))

    parameters = []
    for parameter in signature.parameters.values():
        default = parameter.default
        is_literal = default is None or isinstance(default, (bool, int, float, str, bytes))
        if default is not inspect.Parameter.empty and not is_literal:
            default = _Source("...")
        parameters.append(parameter.replace(default=default, annotation=source_of(parameter.annotation)))
    return str(signature.replace(parameters=parameters, return_annotation=source_of(signature.return_annotation)))


class _Source:
    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _full_name(module: str, name: str) -> str:
    return f"{module}.{name}" if module else name


def _words_of(module: str, name: str, function: Function) -> Tuple[str, str, str, str, bool]:
    if isinstance(function, _Later):
        return (module, name, "", "", False)
    return (module, name, signature_of(function), inspect.getdoc(function) or "", inspect.iscoroutinefunction(function))


def _named(functions: Union[Functions, types.ModuleType], what: str = "functions") -> Dict[str, Function]:
    if functions is None:
        return {}
    if isinstance(functions, types.ModuleType):
        names = getattr(functions, "__all__", [name for name in vars(functions) if not name.startswith("_")])
        return {name: getattr(functions, name) for name in names if inspect.isroutine(getattr(functions, name))}
    if isinstance(functions, Mapping):
        return dict(functions)
    if isinstance(functions, (str, bytes)) or not isinstance(functions, Iterable):
        raise TypeError(f"{what} are a list of functions, or a dict of names and functions, not {functions!r}")
    return {_name_of(each, what): each for each in cast(Iterable[Callable[..., Any]], functions)}


def _name_of(function: Any, what: str) -> str:
    name = getattr(function, "__name__", "")
    if not callable(function):
        raise TypeError(f"{what} has functions, not {function!r}")
    if not isinstance(name, str) or not name.isidentifier():
        raise TypeError(f'{function!r} has no name that a program can call: give a dict of names and functions, as {{"price": …}}')
    return name


def _are_numbers(numbers: Sequence[Any], size: int, most: int) -> bool:
    """So many numbers of objects, from bytes that anybody may have written: each once."""
    return len(numbers) == size == len(set(map(str, numbers))) and all(type(each) is int and 0 < each <= most for each in numbers)


def whole(text: str, subject: str = "") -> str:
    """The text itself. ValueError where it has half of a surrogate pair, which UTF-8 cannot say. subject: "price() returned", of the error."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            half = error.object[error.start : error.end]
            if subject:
                raise ValueError(f"{subject} a value with half of a surrogate pair ({half!r}) in a text, which cannot pass: give that as bytes") from None
            raise ValueError(f"a text with half of a surrogate pair ({half!r}) cannot pass: give it as bytes") from None
    return text


def _called(function: Function, call: FunctionCall) -> Any:
    return LATER if isinstance(function, _Later) else function(*call.args, **call.kwargs)


_NEVER_AWAITABLE = frozenset((type(None), bool, int, float, str, bytes, list, tuple, dict, set))


def _is_awaitable(value: Any) -> bool:
    return type(value) not in _NEVER_AWAITABLE and inspect.isawaitable(value)


def _end(span: Any, answer: Answer) -> None:
    if answer[0] == LATER_KIND:
        span.end(waits=True)
    else:
        span.end()


class WrongGate(TypeError):
    """A gate that returned what it may not: the program gets a TypeError, and the embedder, who has to mend it, a warning, too."""


WrongGate.__name__ = "TypeError"  # by which a program gets it


def _tell(error: BaseException) -> None:
    if isinstance(error, (NoForm, WrongGate)):
        warnings.warn(str(error), RuntimeWarning, stacklevel=2)


def _passes(allowed: Any, call: FunctionCall) -> bool:
    """What a gate said: True is True, LATER is False, and all else is an error of the call."""
    if allowed is True or isinstance(allowed, _Later):
        return allowed is True
    if allowed is False or allowed is None:
        raise PermissionError(f"the call of {call.name} was refused")
    raise WrongGate(
        f"the gate returned {with_article(type(allowed).__name__)} for the call of {call.name}, which was refused: a gate returns True, False or "
        "None, which refuse, or membrane.LATER; what it raises is raised in the program"
    )


# The registries of sessions whose turns have called this code, the outermost first.
_callers: contextvars.ContextVar[Tuple["Registry", ...]] = contextvars.ContextVar("membrane_callers", default=())


class Calling:
    """While this thread or task is in a function that a turn of the registry's session called."""

    __slots__ = ("_registry", "_token")

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def __enter__(self) -> None:
        self._token = _callers.set((*_callers.get(), self._registry))

    def __exit__(self, *_: object) -> None:
        _callers.reset(self._token)


_running = threading.local()  # registry: of the session whose turn this thread runs


def registry_running() -> Registry:
    """Of the session whose turn this thread runs."""
    registry: Registry = _running.registry
    return registry


def answer_running(wires: Sequence[WireCall], must_stop: MustStop) -> List[Answer]:
    """What the engine calls, for a session and its forks alike: each turn has its own session's functions and objects."""
    return registry_running().answer(wires, must_stop)


def wait_running(coroutine: Coroutine[Any, Any, T], must_stop: MustStop) -> Optional[T]:
    """The same of Registry.wait()."""
    return registry_running().wait(coroutine, must_stop)


class Registry:
    """All that a session's programs may call, by the names that they use. Threads: as its session."""

    def __init__(
        self,
        values: Any,
        functions: Functions,
        modules: Optional[Modules],
        inputs: Optional[Mapping[str, Any]],
        gate: Optional[Callable[[FunctionCall], Any]],
    ) -> None:
        self._values = values  # the module _values
        self._gate = gate
        self.agents: Any = None  # of the session (_agents.Agents)
        self.loop: Optional[asyncio.AbstractEventLoop] = None  # that awaits functions; None: one of their own
        self._own_loop = OwnLoop()
        self.waits = False  # functions without a callable are answered later
        self._callables: Dict[str, Function] = {}
        self._objects: Dict[int, Object] = {}
        self._ids: Dict[int, int] = {}  # by id() of the object, which is kept
        self._types: Dict[str, Tuple[Any, ...]] = {}
        self.words: List[Tuple[str, str, str, str, bool]] = []
        self.modules: List[Tuple[str, str]] = []
        for name, function in _named(functions).items():
            self._add("", name, function)
        if modules is not None and not isinstance(modules, Mapping):
            raise TypeError(f'modules are a dict of names and what is in them, as {{"shop": [price]}}, not {modules!r}')
        for module, content in (modules or {}).items():
            doc = inspect.getdoc(content) if isinstance(content, types.ModuleType) else ""
            self.modules.append((module, doc or ""))
            for name, function in _named(content, f"the functions of the module {module}").items():
                self._add(module, name, function)
        self._last_error = ""  # the text of what a function raised last
        self._last_number = 0  # of an object
        self._elsewhere = 0  # the last of those that the bytes of a session told of
        self._of_inputs: Dict[int, str] = {}  # the numbers and types of Objects among inputs, in the order in which they were given
        self._referred: Dict[int, str] = {}  # of the Objects in the value that becomes JSON
        self._given_inputs = inputs
        self.inputs = self.inputs_of(inputs)

    def check_names(self, language: str) -> None:
        """A MembraneError for a name that is a keyword of Python; a warning of a module in the place of one of Python's own."""
        if language != "python":
            return
        named = [("input", name) for name, _ in self.inputs] + [("module", name) for name, _ in self.modules]
        for kind, name in [*named, *(("function", words[1]) for words in self.words)]:
            if keyword.iskeyword(name):
                raise MembraneError(f"the {kind} {name} has the name of a keyword, which programs in python cannot write", code="invalid_argument",
                                    hint=f"Give it another name, as {name}_.")  # fmt: skip
        for module, _ in self.modules:
            if module in getattr(sys, "stdlib_module_names", sys.builtin_module_names):
                warnings.warn(f"the module {module} hides Python's own of that name from the session's programs and from what they import: "
                              "give it another name", RuntimeWarning, stacklevel=4)  # fmt: skip

    def is_own_error(self, message: str) -> bool:
        """Whether it is what a function of the embedder raised last."""
        return bool(message) and message == self._last_error

    def objects_told(self) -> Dict[str, Any]:
        """For the bytes of a session: how many objects its programs were given, and the types and numbers of those among inputs."""
        return {"count": self._last_number, "inputs": list(self._of_inputs.values()), "numbers": list(self._of_inputs)}

    def take_up(self, told: Any) -> None:
        """What objects_told() gave, before anything is called: gives the Objects among the inputs the numbers that those of the session
        had. A ValueError where the inputs have other objects than the session's inputs and, after them, those of its turns."""
        words = told if isinstance(told, dict) else {}
        count, kinds, numbers = words.get("count"), words.get("inputs"), words.get("numbers")
        if not isinstance(count, int) or not isinstance(kinds, list) or not len(kinds) <= count < 1 << 53:
            return
        if not isinstance(numbers, list) or not _are_numbers(numbers, len(kinds), count):
            numbers = list(range(1, len(kinds) + 1))
        given = list(self._of_inputs.values())
        if given != kinds[: len(given)]:
            raise ValueError(
                f"the inputs have the Objects {', '.join(given)}, and the session's had {', '.join(map(str, kinds)) or 'none'}: "
                "give the same, in the same order: those of Session(), then those of its turns"
            )
        self._objects = dict(zip(numbers, self._objects.values()))
        self._ids = {id(held): number for number, held in self._objects.items()}
        self._of_inputs = dict(zip(numbers, map(str, kinds)))
        self._last_number = self._elsewhere = count
        self.inputs = self.inputs_of(self._given_inputs, are_given=False)  # with those numbers

    def forked(self) -> Registry:
        """That of a fork: what either is given from now on is its own."""
        made = copy.copy(self)
        made._objects, made._ids, made._types = dict(self._objects), dict(self._ids), dict(self._types)
        made._of_inputs = dict(self._of_inputs)
        return made

    def _add(self, module: str, name: str, function: Function) -> None:
        if not isinstance(function, _Later) and not callable(function):
            raise TypeError(f"{name} is a function, or membrane.LATER, not {function!r}")
        self._callables[_full_name(module, name)] = function
        self.words.append(_words_of(module, name, function))

    @property
    def types(self) -> List[Tuple[Any, ...]]:
        return list(self._types.values())

    @property
    def functions(self) -> List[Tuple[str, str, Function]]:
        """Module, name and function of each that is no method."""
        return [(words[0], words[1], self._callables[_full_name(words[0], words[1])]) for words in self.words]

    @property
    def objects(self) -> List[Object]:
        """Those that programs have been given until now."""
        return list(self._objects.values())

    # -- values

    def to_json(self, value: Any, subject: str) -> str:
        """subject: "price() returned", of the error of a value that cannot pass."""
        plain = dumps_plain(value)
        if plain is None:
            plain = dumps(to_wire(value, lambda each: self._values.to_wire(each, self._reference_to), subject))
        return whole(plain, subject)

    def inputs_of(self, inputs: Optional[Mapping[str, Any]], *, are_given: bool = True) -> Inputs:
        """Names, and values as JSON. A TypeError for what cannot pass. are_given: to programs, and not only looked at."""
        if inputs is None:
            return []
        if not isinstance(inputs, Mapping):
            raise TypeError(f"inputs are a dict of names and their values, not {inputs!r}")
        for name in inputs:
            if not isinstance(name, str):
                raise TypeError(f"the name of an input is text, not {name!r}")
        self._referred = {}
        made = [(whole(name), self.to_json(value, f"the input {name} is")) for name, value in inputs.items()]
        if are_given:
            self._of_inputs.update(self._referred)
        return made

    def of_json(self, text: str) -> Any:
        value = loads(text)
        return value if is_plain(text) else self._values.of_wire(value, self._object_of)

    def _reference_to(self, value: Any) -> Optional[Dict[str, Any]]:
        if not isinstance(value, Object):
            return None
        name = value.type_name
        if name not in self._types:
            methods = [_words_of("", each, getattr(value.value, each)) for each in value.methods]
            doc = inspect.getdoc(type(value.value)) or ""
            self._types[name] = (name, "", doc, methods, list(value.attributes))
        number = self._ids.get(id(value))
        if number is None:
            number = self._ids[id(value)] = self._last_number = self._last_number + 1
            self._objects[number] = value
        self._referred[number] = name
        return {"id": number, "type": name}

    def _object_of(self, reference: Mapping[str, Any]) -> Any:
        return self._held(reference["id"], str(reference["type"])).value

    def _held(self, number: int, type_name: str) -> Object:
        held = self._objects.get(number)
        if held is None and 0 < number <= self._elsewhere:
            raise LookupError(
                f"the {type_name[:_MOST_NAME]} that the program holds is an object of the process that the session was dumped in: where it was among "
                "the inputs, of the session or of a turn, load(…, inputs=…) with an Object in its place gives it again; where a function returned it, call the function again"
            )
        if held is None:
            raise LookupError("there is no such object")
        return held

    def call_of(self, wire: WireCall) -> FunctionCall:
        function: Function
        try:
            function = self._function_of(wire)
        except (LookupError, NameError, AttributeError):
            function = LATER
        return self._read(wire, function)

    def _read(self, wire: WireCall, function: Function) -> FunctionCall:
        name, arguments, keywords, _ = wire
        named = {} if keywords == "{}" else loads(keywords)
        if not is_plain(keywords):
            # Member by member: a keyword is no sign of a value that JSON lacks.
            named = {key: self._values.of_wire(each, self._object_of) for key, each in named.items()}
        return _call(name, tuple(self.of_json(arguments)), named, function)

    # -- answers

    def value(self, value: Any, subject: str) -> Answer:
        return (VALUE, self.to_json(value, subject), "", "")

    @staticmethod
    def error(error: BaseException) -> Answer:
        quotes = isinstance(error, KeyError) and len(error.args) == 1  # its text is its argument, shown
        message = str(error.args[0]) if quotes else str(error)
        return (ERROR, "", type(error).__name__, message.encode("utf-8", "backslashreplace").decode())

    def answer(self, wires: Sequence[WireCall], must_stop: MustStop) -> List[Answer]:
        """Of calls that were made at once. What a function raises is raised in the program, by the name of its class and its text, but
        for KeyboardInterrupt, which ends the turn. Coroutines are cancelled when the turn is to end."""
        answers: List[Any] = []
        try:
            for wire in wires:
                answers.append(STOPPED if must_stop() else self._begin(wire))
            awaited = [i for i, each in enumerate(answers) if type(each) is not tuple]
            if awaited:
                for i, answer in zip(awaited, self._await([answers[i] for i in awaited], must_stop)):
                    answers[i] = answer
        except BaseException:
            for each in answers:
                if inspect.iscoroutine(each):
                    each.close()
            raise
        return answers

    def _begin(self, wire: WireCall) -> Any:
        """An answer, or what has one when it is awaited."""
        span = calling(self._known_name(wire))
        try:
            function = self._function_of(wire)
            call = self._read(wire, function)
            with span.current(), Calling(self):
                result = self._gated(call, function)
            if _is_awaitable(result):
                return self._settled(call, result, span)
            answer = self._answer_of(call, result)
        except BaseException as error:  # also SystemExit: the program learns no more of it than of another
            span.end(error)
            if isinstance(error, KeyboardInterrupt):
                raise
            return self._told(error)
        _end(span, answer)
        return answer

    def _told(self, error: BaseException) -> Answer:
        self._last_error = str(error)
        try:
            _tell(error)
        except RuntimeWarning:  # warnings are errors in this program
            pass
        return self.error(error)

    def _answer_of(self, call: FunctionCall, result: Any) -> Answer:
        if not isinstance(result, _Later):
            return self.value(result, f"{call.name}() returned")
        if not self.waits:
            raise RuntimeError(f"{call.name} is answered later: use start(), and not run()")
        return (LATER_KIND, "", "", "")

    def _gated(self, call: FunctionCall, function: Function) -> Any:
        """What the function gives, where the gate lets the call pass: something to await where either is asynchronous."""
        allowed = True if self._gate is None else self._gate(call)
        if _is_awaitable(allowed):
            return self._gated_later(cast(Awaitable[Any], allowed), call, function)
        return _called(function, call) if _passes(allowed, call) else LATER

    async def _gated_later(self, allowed: Awaitable[Any], call: FunctionCall, function: Function) -> Any:
        if not _passes(await allowed, call):
            return LATER
        result = _called(function, call)
        return await result if inspect.isawaitable(result) else result

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """While a turn of its session runs on this thread."""
        outer, _running.registry = getattr(_running, "registry", None), self
        try:
            yield
        finally:
            _running.registry = outer

    def is_calling(self) -> bool:
        """Whether this code was called, directly or not, by a turn of the session."""
        return any(each is self for each in _callers.get())

    async def _settled(self, call: FunctionCall, awaitable: Awaitable[Any], span: Any) -> Answer:
        try:
            with span.current(), Calling(self):
                answer = self._answer_of(call, await awaitable)
        except BaseException as error:
            span.end(error)
            if isinstance(error, (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt)):
                raise
            return self._told(error)
        _end(span, answer)
        return answer

    def _known_name(self, wire: WireCall) -> Optional[str]:
        """The function's name; None where it is no name of the embedder's."""
        name, _, _, number = wire
        if not number:
            return name if name in self._callables else None
        held = self._objects.get(int(number)) if number.isdecimal() and len(number) < 20 else None
        owner, _, member = name.rpartition(".")
        is_known = held is not None and owner == held.type_name and member in (*held.methods, *held.attributes)
        return name if is_known else None

    def _function_of(self, wire: WireCall) -> Function:
        name, _, _, number = wire
        if not number:
            if name not in self._callables:
                if not self.waits:
                    raise NameError(f"there is no function {name}")
                return _Later()
            return self._callables[name]
        type_name, _, member = name.rpartition(".")
        held = self._held(int(number), type_name)
        if type_name != held.type_name:  # the gate is told of this name
            raise AttributeError(f"{name} is no method of a {held.type_name}")
        if member in held.attributes:
            return lambda: getattr(held.value, member)
        if member not in held.methods:
            raise AttributeError(f"{held.type_name} has no method {member}")
        method: Callable[..., Any] = getattr(held.value, member)
        return method

    def wait(self, coroutine: Coroutine[Any, Any, T], must_stop: MustStop) -> Optional[T]:
        """What the coroutine gives; None when the turn is to end."""
        if self.loop is not None:
            return wait_in_loop(coroutine, self.loop, must_stop)
        return wait_here(coroutine, self._own_loop, must_stop)

    def enter(self) -> None:
        """Of a session that uses this; leave() when it is over."""
        self._own_loop.enter()

    def leave(self) -> None:
        self._own_loop.leave()

    def _await(self, awaited: Sequence[Awaitable[Answer]], must_stop: MustStop) -> Sequence[Answer]:
        """What has not answered when the turn is to end is cancelled."""
        answers = self.wait(_gathered(awaited), must_stop)
        return [STOPPED] * len(awaited) if answers is None else answers


async def _gathered(awaited: Sequence[Awaitable[Answer]]) -> Sequence[Answer]:
    return await asyncio.gather(*awaited)
