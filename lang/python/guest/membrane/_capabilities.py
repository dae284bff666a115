"""The capabilities as modules, made from what the host says of them, so that none can fall behind."""

import importlib.abc
import importlib.machinery
import json
import keyword
import re
import sys
import types

from membrane import _door

_TYPES = {"text": "str", "bytes": "bytes", "i32": "int", "i64": "int", "f64": "float"}
_BITS = {"i32": 32, "i64": 64}
_SPECIAL_NUMBERS = {float("inf"): "inf", float("-inf"): "-inf"}

_modules = {}


def modules():
    """The capabilities by name. The host is asked once."""
    if not _modules:
        for capability in _door.ask({"registry": True})["capabilities"]:
            _modules[capability["name"]] = _module_of(capability)
        for name, module in _modules.items():
            sys.modules[f"membrane.{name}"] = module
    return _modules


# --- values ---------------------------------------------------------------------------------------------------------


def _text_to_json(name, value):
    if not isinstance(value, str):
        raise TypeError(f"{name} is text, so it takes a str, not {type(value).__name__}")
    return value


def _bytes_to_json(name, value):
    if isinstance(value, str):
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _door.bytes_to_json(bytes(value))
    raise TypeError(f"{name} is bytes, so it takes bytes or a str, not {type(value).__name__}")


def _integer_to_json(bits):
    def convert(name, value):
        try:
            number = value.__index__()
        except AttributeError:
            raise TypeError(f"{name} is a number, so it takes an int, not {type(value).__name__}") from None
        if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
            raise OverflowError(f"{name} does not fit into {bits} bits")
        return number

    return convert


def _float_to_json(name, value):
    number = float(value)
    if number != number:
        return {"number": "nan"}
    return {"number": _SPECIAL_NUMBERS[number]} if number in _SPECIAL_NUMBERS else number


_TO_JSON = {
    "text": _text_to_json,
    "bytes": _bytes_to_json,
    "i32": _integer_to_json(32),
    "i64": _integer_to_json(64),
    "f64": _float_to_json,
}


def _of_json(kind, value):
    if kind == "bytes":
        return _door.bytes_of_json(value)
    if kind == "text":
        return value if isinstance(value, str) else _door.bytes_of_json(value).decode(errors="replace")
    if isinstance(value, dict):
        value = value.get("integer") or value["number"]
    return float(value) if kind == "f64" else int(value)


# --- functions ------------------------------------------------------------------------------------------------------


def _identifier(name):
    return name + "_" if keyword.iskeyword(name) else name


def _function_of(function):
    """A function with the signature that the host's has."""
    full_name = function["name"]
    name = _identifier(full_name.partition(".")[2])
    converters = [(p["name"], _TO_JSON[p["type"]]) for p in function["params"]]
    result = function["result"]
    parameters = [_identifier(p["name"]) for p in function["params"]]

    def invoke(*values):
        arguments = [convert(name, value) for (name, convert), value in zip(converters, values)]
        value = _door.call(full_name, arguments)
        return _of_json(result["type"], value) if result else None

    declared = ", ".join(f"{n}: {_TYPES[p['type']]}" for n, p in zip(parameters, function["params"]))
    gives = _TYPES[result["type"]] if result else "None"
    namespace = {"invoke": invoke, "__name__": "membrane." + full_name.partition(".")[0]}
    exec(f"def {name}({declared}) -> {gives}:\n    return invoke({', '.join(parameters)})\n", namespace)
    made = namespace[name]
    made.__doc__ = _doc_of(function)
    return made


def _doc_of(function):
    parts = [function["summary"]]
    if function.get("details"):
        parts.append(function["details"])
    if function.get("failures"):
        parts.append("Raises:\n" + "\n".join(f"    {f['errno']}: {f['when']}" for f in function["failures"]))
    example = _example_of(function.get("example", ""))
    if example:
        parts.append("Example:\n" + "\n".join("    " + line for line in example.splitlines()))
    return "\n\n".join(parts) + "\n"


def _module_of(capability):
    made = types.ModuleType(f"membrane.{capability['name']}")
    grant = capability.get("grant")
    functions = [_function_of(f) for f in capability["functions"]]
    made.__doc__ = f"{capability['summary']}\n\n" + (
        f"Granted by {grant}." if grant else "Always there.")
    made.__all__ = [f.__name__ for f in functions]
    for function in functions:
        setattr(made, function.__name__, function)
    return made


# --- examples -------------------------------------------------------------------------------------------------------

# The registry's examples are in WebAssembly's text format. Those with only calls and names are shown in Python.

_TOKEN = re.compile(r'\s*(?:([()])|("(?:\\.|[^"\\])*")|([^\s()"]+))')


def _forms(text):
    stack, place = [[]], 0
    text = text.strip()
    while place < len(text):
        token = _TOKEN.match(text, place)
        if not token:
            raise ValueError(text)
        place = token.end()
        if token[1] == "(":
            stack.append([])
        elif token[1] == ")":
            form = stack.pop()
            stack[-1].append(form)
        else:
            stack[-1].append(token[2] or token[3])
    (forms,) = stack
    return forms


_ESCAPE = re.compile(r'\\(?:([0-9a-fA-F]{2})|u\{([0-9a-fA-F]+)\}|(.))')
_SIGNS = {"n": "\n", "t": "\t", "r": "\r"}


def _literal(text):
    """A string of WebAssembly's text format as one of Python: a str where it is UTF-8."""
    def byte_of(match):
        pair, point, sign = match.groups()
        return chr(int(pair, 16)) if pair else (chr(int(point, 16)) if point else _SIGNS.get(sign, sign)).encode().decode("latin-1")

    outside = text[1:-1].encode().decode("latin-1")  # one character per byte
    data = _ESCAPE.sub(byte_of, outside).encode("latin-1")
    try:
        return json.dumps(data.decode(), ensure_ascii=False)
    except UnicodeDecodeError:
        return repr(data)


def _expression(form):
    match form:
        case str() if form.startswith("$"):
            return form[1:]
        case ["string", literal]:
            return _literal(literal)
        case ["i32.const" | "i64.const" | "f64.const", number]:
            return number
        case ["local.get", name]:
            return name.lstrip("$")
        case ["drop", inner]:
            return _expression(inner)
        case ["set" | "local.set", name, inner]:
            return f"{name.lstrip('$')} = {_expression(inner)}"
        case ["call", name, *arguments]:
            function = name.strip("$!")
            inner = ", ".join(_expression(a) for a in arguments)
            return f"print({inner})" if function.startswith("io.print") else f"{function}({inner})"
    raise ValueError(form)


def _example_of(text):
    try:
        return "\n".join(_expression(form) for form in _forms(text))
    except ValueError:
        return ""


# --- import membrane.http -------------------------------------------------------------------------------------------


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, fullname, path=None, target=None):
        package, _, name = fullname.rpartition(".")
        if package == "membrane" and not name.startswith("_") and name != "chart" and name in modules():
            return importlib.machinery.ModuleSpec(fullname, self)
        return None

    def create_module(self, spec):
        return modules()[spec.name.rpartition(".")[2]]

    def exec_module(self, module):
        pass


sys.meta_path.append(_Finder())
