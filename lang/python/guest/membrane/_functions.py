"""Functions and objects of the embedder, as a program has them: names of its own, modules that it imports, classes.

A call is {"functions":[{"call":"shop.price","arguments":[…],"keywords":{…}}]}, answered by {"answers":[{"value":…} or
{"error":{"type":…,"message":…}}]}, with values as _values.py has them.
"""

import __future__
import ast
import asyncio
import builtins
import inspect
import sys
import types

from membrane import _door, _values

_ours = {}  # global names given to the program, and their values: a replacement by the program stays
_modules = set()
_types = {}  # the classes that represent the host's, by name
_queued = []  # (call, future) of awaited functions


class HostError(RuntimeError):
    """A function of the host has failed, in a way that has no exception here. `type_name` is the host's name for it."""

    type_name = ""


HostError.__module__ = "membrane"


# --- values ---------------------------------------------------------------------------------------------------------


_AS_THEY_ARE = {str, bool, type(None)}  # values that need no conversion, which is most


def _to_wire(value):
    return _values.to_wire(value, _reference_to)


def _of_wire(value):
    return _values.of_wire(value, _object_of)


def _reference_to(value):
    return {"id": value._membrane_id, "type": type(value).__name__} if isinstance(value, _HostObject) else None


def _object_of(reference):
    kind = _types.get(reference["type"])
    if kind is None:
        raise TypeError(f"the host gave an object of the class {reference['type']}, which was not described")
    made = kind.__new__(kind)
    made._membrane_id = reference["id"]
    return made


# --- calls ----------------------------------------------------------------------------------------------------------


def _value_of(answer):
    error = answer.get("error")
    if error is None:
        value = answer["value"]
        return _of_wire(value) if isinstance(value, (dict, list)) else value
    name, message = error.get("type", ""), error.get("message", "")
    kind = getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            raise kind(message)
        except TypeError:  # an exception that takes more than a message
            if kind is TypeError:
                raise
    failure = HostError(f"{name}: {message}" if name else message)
    failure.type_name = name
    raise failure


def _encoded(text):
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"a text with half of a surrogate pair ({error.object[error.start:error.end]!r}) cannot go to the host; as "
                         "bytes it can: text.encode('utf-8', 'surrogatepass')") from None


def _call_of(name, arguments, keywords, of=None):
    call = {"call": name, "arguments": [_to_wire(each) for each in arguments]}
    if keywords:
        call["keywords"] = {key: _to_wire(each) for key, each in keywords.items()}
    if of is not None:
        call["object"] = of
    return call


def call(name, arguments=(), keywords=None, of=None):
    if keywords or of is not None:
        request = _door.encode_tree({"functions": [_call_of(name, arguments, keywords, of)]})
    else:  # the same, but faster
        values = _door.encode_tree([each if type(each) in _AS_THEY_ARE else _to_wire(each) for each in arguments])
        request = f'{{"functions":[{{"call":"{name}","arguments":{values}}}]}}'
    return _value_of(_door.ask(_encoded(request), name)["answers"][0])


async def call_async(name, arguments=(), keywords=None, of=None):
    """Calls that are awaited in one round of the loop are made at once, and answered concurrently."""
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    _queued.append((_encoded(_door.encode_tree(_call_of(name, arguments, keywords, of))), future))
    if len(_queued) == 1:
        loop.call_soon(_send_queued)
    return await future


def _send_queued():
    queued, _queued[:] = list(_queued), []
    try:
        answers = _door.ask(b'{"functions":[' + b",".join(call for call, _ in queued) + b"]}")["answers"]
    except Exception as error:
        for _, future in queued:
            if not future.done():
                future.set_exception(error)
        return
    for (_, future), answer in zip(queued, answers):
        if future.done():
            continue
        try:
            future.set_result(_value_of(answer))
        except Exception as error:
            future.set_exception(error)


# --- the program's view ---------------------------------------------------------------------------------------------


class _Source(str):
    """Shown as it is written, without quotes."""

    __repr__ = str.__str__


def _check_of(text, name):
    """A function that does nothing, with this signature; None for what is none."""
    if not text:
        return None
    namespace = {}
    try:
        code = compile(f"def f{text}: pass", "<signature>", "exec", __future__.annotations.compiler_flag, dont_inherit=True)
        exec(code, {"__builtins__": {}}, namespace)
        check = namespace["f"]
        check.__name__ = check.__qualname__ = name
        return check
    except Exception:
        return None


def _signature_of(check):
    """Of "(item: str, count: int = 1) -> int". Annotations stay text."""
    signature = inspect.signature(check)

    def source_of(annotation):
        return _Source(annotation) if isinstance(annotation, str) else annotation

    parameters = [each.replace(annotation=source_of(each.annotation)) for each in signature.parameters.values()]
    return signature.replace(parameters=parameters, return_annotation=source_of(signature.return_annotation))


def _function_of(spec, full_name, is_method=False):
    check = _check_of(spec.get("signature", ""), spec["name"])

    def split(values, keywords):
        of = values[0]._membrane_id if is_method else None
        values = values[1:] if is_method else values
        if check is not None:
            check(*values, **keywords)  # a wrong call fails here, without a host call
        return values, keywords, of

    if spec.get("is_async"):
        async def made(*values, **keywords):
            values, keywords, of = split(values, keywords)
            return await call_async(full_name, values, keywords, of)
    elif is_method or check is None:
        def made(*values, **keywords):
            values, keywords, of = split(values, keywords)
            return call(full_name, values, keywords, of)
    else:  # the same, but faster
        def made(*values, **keywords):
            check(*values, **keywords)
            return call(full_name, values, keywords)
    made.__name__ = spec["name"]
    made.__qualname__ = full_name if is_method else spec["name"]
    made.__module__ = spec.get("module") or "__main__"
    made.__doc__ = spec.get("doc") or None
    if check is not None:
        signature = _signature_of(check)
        own = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)] if is_method else []
        made.__signature__ = signature.replace(parameters=[*own, *signature.parameters.values()])
    return made


class _HostObject:
    """Stands for an object of the host, which never comes in here."""

    __slots__ = ("_membrane_id",)

    def __init__(self, *_, **__):
        raise TypeError(f"a {type(self).__name__} is the host's: it cannot be made here")

    def __repr__(self):
        return f"<{type(self).__name__} of the host>"

    def __eq__(self, other):
        return type(other) is type(self) and other._membrane_id == self._membrane_id

    def __hash__(self):
        return hash((type(self).__name__, self._membrane_id))

    def __reduce__(self):
        return _object_of, ({"id": self._membrane_id, "type": type(self).__name__},)


def _type_of(spec):
    name = spec["name"]
    members = {"__slots__": (), "__doc__": spec.get("doc") or None, "__module__": spec.get("module") or "__main__"}
    for method in spec.get("methods", ()):
        members[method["name"]] = _function_of(method, f"{name}.{method['name']}", is_method=True)
    for attribute in spec.get("attributes", ()):
        members[attribute] = property(
            lambda self, attribute=attribute: call(f"{name}.{attribute}", (), None, self._membrane_id))
    return type(name, (_HostObject,), members)


def _put(name, value):
    """Into the program's own names, unless it has put something of its own there."""
    names = sys.modules["__main__"].__dict__
    if name not in names or name in _ours and names[name] is _ours[name]:
        names[name] = _ours[name] = value


def assign(inputs):
    """The input variables of a turn, in the place of what the program has under their names: all of them, or none."""
    made = {name: _of_wire(value) for name, value in inputs.items()}
    sys.modules["__main__"].__dict__.update(made)


def _module_named(name):
    if name not in _modules:
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__all__ = []
        _modules.add(name)
    return sys.modules[name]


def define(description):
    """All that the host has described: again in each copy of the memory, and with what has changed since."""
    for spec in description.get("modules", ()):
        _module_named(spec["name"]).__doc__ = spec.get("doc") or None
    for spec in description.get("types", ()):
        _types[spec["name"]] = _type_of(spec)
        if spec.get("module"):
            _add(spec["module"], spec["name"], _types[spec["name"]])
    for spec in description.get("functions", ()):
        module = spec.get("module", "")
        full_name = f"{module}.{spec['name']}" if module else spec["name"]
        if module:
            _add(module, spec["name"], _function_of(spec, full_name))
        else:
            _put(spec["name"], _function_of(spec, full_name))
    for name, value in description.get("values", {}).items():
        _put(name, _of_wire(value))


def _add(module, name, value):
    made = _module_named(module)
    setattr(made, name, value)
    if name not in made.__all__:
        made.__all__.append(name)


_AWAITING = {"create_task", "ensure_future", "gather", "run", "shield", "timeout", "wait", "wait_for"}  # of asyncio


def _awaited_names(tree):
    """Of functions whose calls are awaited: where they stand, or by asyncio."""
    awaited = [each.value for each in ast.walk(tree) if isinstance(each, ast.Await)]
    for each in ast.walk(tree):
        if isinstance(each, ast.Call) and getattr(each.func, "attr", getattr(each.func, "id", "")) in _AWAITING:
            for argument in each.args:
                argument = argument.value if isinstance(argument, ast.Starred) else argument
                if isinstance(argument, (ast.GeneratorExp, ast.ListComp, ast.SetComp)):
                    argument = argument.elt
                awaited += argument.elts if isinstance(argument, (ast.List, ast.Tuple, ast.Set)) else [argument]
    return {each.func.id for each in awaited if isinstance(each, ast.Call) and isinstance(each.func, ast.Name)}


def declare_called_names(code):
    """What the code calls by a name that is nobody's is a function of the host, which may know it."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return  # the cell reports it
    awaited = _awaited_names(tree)
    bound = {each.id for each in ast.walk(tree) if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load)}
    bound |= {each.name for each in ast.walk(tree) if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))}
    bound |= {each.arg for each in ast.walk(tree) if isinstance(each, ast.arg)}
    bound |= {(each.asname or each.name).partition(".")[0] for each in ast.walk(tree) if isinstance(each, ast.alias)}
    names = sys.modules["__main__"].__dict__
    for each in ast.walk(tree):
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Name):
            name = each.func.id
            if name not in bound and name not in names and not hasattr(builtins, name):
                _put(name, _function_of({"name": name, "is_async": name in awaited}, name))
