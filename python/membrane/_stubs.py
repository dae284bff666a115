"""What a session's programs are given, as the text of .pyi stubs: for type checkers, and for a model's prompt."""

from __future__ import annotations

import ast
import builtins
import dataclasses
import inspect
import json
import keyword
import typing
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from ._functions import Function, Functions, Modules, Object, Registry, is_later

SESSION = "__builtins__"  # the stub of the names that a session has without an import
_MODULES = ("collections.abc", "datetime", "decimal", "typing", "uuid")
_HEAD = f"import {', '.join(_MODULES)}\nfrom typing import *\n"
_KNOWN = frozenset(dir(builtins)) | frozenset(typing.__all__) | {name.partition(".")[0] for name in _MODULES}
_MOST_ITEMS, _MOST_DEPTH, _MOST_KINDS = 100, 4, 4


class Stubs:
    """Of a registry as it stands; its object types may become more while programs run.

    files: text by the module's name, SESSION for the session's own names. signatures: the line of each function and method, members:
    the names in each module and type; both by the names that a type checker writes.
    """

    def __init__(self, registry: Registry, input_types: Optional[Mapping[str, str]] = None) -> None:
        self.signatures: Dict[str, str] = {}
        self.members: Dict[str, List[str]] = {}
        self._classes = {type(each.value): each.type_name for each in registry.objects}
        if input_types is None:
            input_types = types_of_inputs(registry.inputs)
        names: Dict[str, Dict[str, Function]] = {module: {} for module, _ in registry.modules}
        for module, name, function in registry.functions:
            names.setdefault(module, {})[name] = function
        self._records: List[type] = []  # classes that are dicts in a program, as signatures name them
        self._names = {*self._classes.values(), *names.get("", {}), *input_types}  # of the session, which none of these may take
        types = self._types(registry.objects)
        functions = self._functions("", names.pop("", {}))
        modules = {module: self._functions(module, names[module]) for module, _ in registry.modules}
        self._types_alone = types + self._texts_of_records()
        session = self._types_alone + functions
        session += [f"{name}: {kind}\n" for name, kind in input_types.items()]
        self.files = {SESSION: "\n".join(session)}
        for module, doc in registry.modules:
            if all(map(_is_name, module.split("."))):
                said = [_doc(doc, "") + "\n"] if doc else []
                self.files[module] = "\n".join(said + modules[module])

    def file(self, module: str, *, of_script: bool = False) -> str:
        """A whole .pyi file. of_script: as a script sees it, which has none of the session's names."""
        return _HEAD + ("\n".join(self._types_alone) if of_script and module == SESSION else self.files[module])

    def text(self) -> str:
        """All of them, one after another."""
        parts = [self.files[SESSION]] if self.files[SESSION] else []
        parts += [f"# module {module}\n\n{text}" for module, text in self.files.items() if module != SESSION]
        return "\n".join(parts)

    def _functions(self, module: str, functions: Mapping[str, Function]) -> List[str]:
        if module:
            self.members[module] = list(functions)
        return [self._function(name, name, function, "") for name, function in functions.items() if _is_name(name)]

    def _function(self, known_as: str, name: str, function: Function, indent: str) -> str:
        if is_later(function):
            line, doc = f"def {name}(*args: Any, **kwargs: Any) -> Any:", ""
        else:
            callable_ = typing.cast(Callable[..., Any], function)
            prefix = "async def" if inspect.iscoroutinefunction(callable_) else "def"
            line = f"{prefix} {name}{self._signature(callable_, in_class=bool(indent))}:"
            doc = inspect.getdoc(callable_) or ""
        self.signatures[known_as] = line[:-1].replace("(self, ", "(").replace("(self)", "()")
        return f"{indent}{line}\n{_doc(doc, indent + '    ')}\n" if doc else f"{indent}{line} ...\n"

    def _signature(self, function: Callable[..., Any], *, in_class: bool) -> str:
        own = "self" if in_class else ""
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):
            return f"({own + ', ' if own else ''}*args: Any, **kwargs: Any) -> Any"
        hints = _hints_of(function)
        words: List[str] = [own] if own else []
        kinds = inspect.Parameter
        named_only = slash_due = False
        for name, each in signature.parameters.items():
            if slash_due and each.kind is not kinds.POSITIONAL_ONLY:
                words.append("/")
            slash_due = each.kind is kinds.POSITIONAL_ONLY
            if each.kind is kinds.KEYWORD_ONLY and not named_only:
                words.append("*")
            named_only = named_only or each.kind in (kinds.KEYWORD_ONLY, kinds.VAR_POSITIONAL)
            stars = "*" if each.kind is kinds.VAR_POSITIONAL else "**" if each.kind is kinds.VAR_KEYWORD else ""
            kind = self._annotation(hints.get(name, each.annotation))
            words.append(f"{stars}{name}: {kind}{_default(each.default)}")
        if slash_due:
            words.append("/")
        return f"({', '.join(words)}) -> {self._annotation(hints.get('return', signature.return_annotation))}"

    def _annotation(self, annotation: Any) -> str:
        """As source; Any for what a program does not have, or gets as something else."""
        if annotation is inspect.Signature.empty:
            return "Any"
        if annotation is type(None):
            return "None"
        text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
        self._note_records(annotation)
        for kind, name in self._classes.items():
            text = text.replace(f"{kind.__module__}.{kind.__qualname__}", name)
        try:
            nodes = list(ast.walk(ast.parse(text, mode="eval")))
        except (SyntaxError, ValueError):
            return "Any"
        roots = {each.id for each in nodes if isinstance(each, ast.Name)}
        return text if roots <= _KNOWN | set(self._classes.values()) else "Any"

    def _note_records(self, annotation: Any) -> None:
        left, looked = [annotation], 0
        while left and looked < _MOST_ITEMS:
            looked += 1
            each = left.pop()
            left += typing.get_args(each)
            if _is_record(each) and each not in self._classes and each.__name__ not in self._names | _KNOWN:
                self._classes[each] = each.__name__
                self._names.add(each.__name__)
                self._records.append(each)

    def _texts_of_records(self) -> List[str]:
        """A record's fields may name others, which are noted meanwhile."""
        texts: List[str] = []
        while len(texts) < len(self._records):
            kind = self._records[len(texts)]
            hints = _hints_of(kind)
            optional = getattr(kind, "__optional_keys__", ())
            fields = [each.name for each in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else list(kind.__annotations__)
            doc = inspect.getdoc(kind) if kind.__doc__ and not kind.__doc__.startswith(kind.__name__ + "(") else ""
            lines = [_doc(doc, "    ")] if doc else []
            for name in fields:
                said = self._annotation(hints.get(name, inspect.Signature.empty))
                lines.append(f"    {name}: {f'NotRequired[{said}]' if name in optional else said}")
            texts.append(f"class {kind.__name__}(TypedDict):\n" + "\n".join(lines or ["    ..."]) + "\n")
        return texts

    def _types(self, objects: Sequence[Object]) -> List[str]:
        made: Dict[str, str] = {}
        for each in objects:
            if each.type_name not in made:
                made[each.type_name] = self._type(each)
        return list(made.values())

    def _type(self, of: Object) -> str:
        name, kind = of.type_name, type(of.value)
        hints = _hints_of(kind)
        self.members[name] = [*of.attributes, *of.methods]
        body = [_doc(inspect.getdoc(kind) or "", "    ") + "\n"] if kind.__doc__ else []
        for attribute in of.attributes:
            annotation = hints.get(attribute, _annotation_of(of.value, attribute))
            body.append(f"    @property\n    def {attribute}(self) -> {self._annotation(annotation)}: ...\n")
        body += [self._function(f"{name}.{each}", each, getattr(of.value, each), "    ") for each in of.methods]
        return f"class {name}:\n{''.join(body) or '    ...' + chr(10)}"


def _is_record(kind: Any) -> bool:
    """A dataclass or TypedDict, which a program has as a dict. One whose class is written otherwise than by a name is not."""
    if not isinstance(kind, type) or typing.get_args(kind) or not _is_name(kind.__name__):
        return False
    if dataclasses.is_dataclass(kind):
        return True
    return issubclass(kind, dict) and hasattr(kind, "__total__") and all(map(_is_name, kind.__annotations__))


def _is_name(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name)


def _hints_of(of: Any) -> Dict[str, Any]:
    try:
        return typing.get_type_hints(of)
    except Exception:  # names of its module that are only there for type checkers
        return {}


def _annotation_of(value: Any, attribute: str) -> Any:
    """Of an attribute that its class does not annotate. Runs no code of the object's."""
    static = inspect.getattr_static(value, attribute, None)
    getter = getattr(static, "fget", None) or getattr(static, "func", None)  # a property; a cached one
    if getter is not None:
        return _hints_of(getter).get("return", inspect.Signature.empty)
    return inspect.Signature.empty if static is None or hasattr(type(static), "__get__") else type(static)


def _default(value: Any) -> str:
    if value is inspect.Parameter.empty:
        return ""
    return f" = {value!r}" if value is None or type(value) in (bool, int, float, str, bytes) else " = ..."


def _doc(text: str, indent: str) -> str:
    said = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    if said.endswith('"'):
        said += " "
    lines = [indent + line if line else line for line in f'"""{said}"""'.split("\n")]
    return "\n".join(lines)


# -- inputs


def types_of_inputs(inputs: Iterable[Tuple[str, str]]) -> Dict[str, str]:
    """The type of each input, as source; of those that have names of variables."""
    return {name: _type_of_wire(json.loads(text), 0) for name, text in inputs if _is_name(name)}


def _type_of_wire(value: Any, depth: int) -> str:
    if value is None or isinstance(value, (bool, int, float, str)):
        return "None" if value is None else type(value).__name__
    if depth == _MOST_DEPTH:
        return "Any"
    if isinstance(value, list):
        return f"list[{_union(value, depth)}]"
    if len(value) == 1 and next(iter(value)).startswith("$"):
        ((form, content),) = value.items()
        return _type_of_form(form, content, depth)
    return f"dict[str, {_union(value.values(), depth)}]"


def _type_of_form(form: str, content: Any, depth: int) -> str:
    if form == "$tuple":
        kinds = [_type_of_wire(each, depth + 1) for each in content[: _MOST_KINDS + 1]]
        return f"tuple[{', '.join(kinds) or '()'}]" if len(kinds) <= _MOST_KINDS else "tuple[Any, ...]"
    if form == "$set":
        return f"set[{_union(content, depth)}]"
    if form == "$map":
        return f"dict[{_union([key for key, _ in content], depth)}, {_union([each for _, each in content], depth)}]"
    if form == "$time":
        return "datetime.datetime" if "T" in content else "datetime.time" if ":" in content else "datetime.date"
    if form == "$object":
        return str(content["type"])
    kinds_of_library = {"$bytes": "bytes", "$integer": "int", "$number": "float", "$seconds": "datetime.timedelta",
                        "$decimal": "decimal.Decimal", "$uuid": "uuid.UUID"}  # fmt: skip
    return kinds_of_library.get(form, "Any")


def _union(values: Iterable[Any], depth: int) -> str:
    kinds: Dict[str, None] = {}
    for number, each in enumerate(values):
        if number == _MOST_ITEMS:
            break
        kinds[_type_of_wire(each, depth + 1)] = None
    return " | ".join(kinds) if 0 < len(kinds) <= _MOST_KINDS and "Any" not in kinds else "Any"


def stubs(
    *, functions: Functions = None, modules: Optional[Modules] = None, inputs: Optional[Mapping[str, Any]] = None
) -> str:
    """What a Session of these gives its programs, as the text of Python stubs with docstrings: good in a model's prompt. The
    same as Session.stubs(), before there is one."""
    from ._embedded import registry_of

    return Stubs(registry_of(functions, modules, inputs)).text()


