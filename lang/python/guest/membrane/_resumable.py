"""Functions that can wait in the middle, made from the source of those that cannot.

A thread has no stack of its own here. So the function that a thread runs is compiled again as a generator: each call that
may wait, `f(x)`, becomes `(yield from call(f, x))`, and where `f` waits, the generator yields what for. The same is done
for the program's functions that it calls. Nothing else of them changes: names, closures, lines and defaults are those of the
function. What has no source, or calls nothing that may wait, stays as it is.
"""

import ast
import builtins
import contextvars
import functools
import inspect
import linecache
import os
import types

# Blocking library function -> the same as a generator function. Filled by the modules that have them.
waits = {}
# Type of a context manager -> what a `with` does before it enters.
enters = {}

# Names that calls of the program's functions find in their cells.
_CALL, _ENTER, _PLAIN, _ID = "__membrane_call__", "__membrane_enter__", "__membrane_plain__", "__membrane_id__"
_NOT_OF_PROGRAMS = (os.path.dirname(os.path.abspath(__file__)) + os.sep, os.path.dirname(os.path.abspath(os.__file__)) + os.sep)
# Calls that never wait, by name; methods unless of threads, queues or locks.
_PLAIN_NAMES = frozenset(vars(builtins))
_PLAIN_METHODS = frozenset(
    "append extend insert remove clear copy count index sort reverse split rsplit splitlines strip lstrip rstrip format "
    "encode decode upper lower title startswith endswith replace items keys values setdefault add discard "
    "isdigit isalpha zfill ljust rjust task_done appendleft popleft info debug warning error exception critical "
    "currentframe _getframe".split())
_MAX_KEPT = 1_000

_known = {}  # id of a function -> (the function, what makes steps of a call of it)
plain = {}  # id of a function that is called directly -> the function
_made = {}  # id of a code object -> (the code, what was made of it, or None)
_trees = {}  # file name -> (its lines, the tree)


def call(function, /, *arguments, **options):
    """What `yield from` gives the value of: the call's steps, or its value where it takes no steps."""
    inner = function.__func__ if type(function) is types.MethodType else function
    known = _known.get(id(inner)) or _learn(inner)
    maker = known[1]
    if maker is None:
        return _value(function(*arguments, **options))
    if inner is not function:
        return maker(function.__self__, *arguments, **options)
    return maker(*arguments, **options)


def _run_in(context, function, arguments, options):
    """Context.run in steps: each runs in the context, and what other threads do between them does not."""
    steps = context.run(call, function, *arguments, **options)
    advance, given = steps.send, None
    while True:
        try:
            wait = context.run(advance, given)
        except StopIteration as end:
            return end.value
        try:
            advance, given = steps.send, (yield wait)
        except BaseException as error:
            advance, given = steps.throw, error


def _value(value):
    """A generator that gives the value. The call was made before: a StopIteration of it would be a RuntimeError in here."""
    return value
    yield


def _learn(function):
    """(the function, what makes steps of a call of it or None where it is made at once); kept, where that keeps nothing of
    the program's alive but the function."""
    known = function, _maker_of(function)
    if isinstance(function, type) or (type(function) is types.FunctionType and function.__closure__ is None):
        if len(_known) >= _MAX_KEPT:
            _known.clear()
            plain.clear()
        _known[id(function)] = known
        if known[1] is None:
            plain[id(function)] = function
    return known


def _maker_of(function):
    kind = type(function)
    if kind is types.FunctionType:
        return waits.get(function) or _resumable(function)
    if kind is functools.partial:
        return lambda *given, **named: call(function.func, *function.args, *given, **{**function.keywords, **named})
    if kind is types.MethodType:
        return lambda *given, **named: call(function, *given, **named)
    if kind is types.BuiltinMethodType and isinstance(function.__self__, contextvars.Context) and function.__name__ == "run":
        return lambda inner, *given, **named: _run_in(function.__self__, inner, given, named)
    if isinstance(function, type) or type(getattr(kind, "__call__", None)) is not types.FunctionType:
        return None
    return lambda *given, **named: call(kind.__call__, function, *given, **named)


def can_be_suspended(function):
    """False for a function of Python whose source is not there, or is of the standard library: what it waits in holds what
    stands below it. Other callables are no matter: they do not wait, or stand in `waits`."""
    while type(function) is functools.partial:
        function = function.func
    function = getattr(function, "__func__", function)
    if type(function) is not types.FunctionType or function in waits:
        return True
    code = function.__code__
    return not code.co_filename.startswith(_NOT_OF_PROGRAMS) and _find(code) is not None


def enter(manager):
    """Waits until the context manager can be entered without waiting; gives it."""
    wait = enters.get(type(manager))
    if wait is not None:
        yield from wait(manager)
    return manager


# --- making -----------------------------------------------------------------------------------------------------------


def _resumable(function):
    code = function.__code__
    kept = _made.get(id(code))
    if kept is None:
        kept = code, _compile(function)
        if len(_made) >= _MAX_KEPT:
            _made.clear()
        _made[id(code)] = kept
    made = kept[1]
    if made is None:
        return None
    cells = dict(zip(code.co_freevars, function.__closure__ or ()))
    cells.update((name, types.CellType(value)) for name, value in ((_CALL, call), (_ENTER, enter), (_PLAIN, plain), (_ID, id)))
    try:
        closure = tuple(cells[name] for name in made.co_freevars)
    except KeyError:
        return None
    again = types.FunctionType(made, function.__globals__, function.__name__, function.__defaults__, closure)
    again.__kwdefaults__ = function.__kwdefaults__
    return again


def _compile(function):
    """The code of the generator function; None where there is no source, or nothing in it may wait."""
    code = function.__code__
    if code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        return None
    if code.co_filename.startswith(_NOT_OF_PROGRAMS):
        return None
    found = _find(code)
    if found is None:
        return None
    try:
        return _changed(code, *found)
    except (SyntaxError, ValueError, RecursionError):  # it is too deep, or a `yield` is not allowed there
        return None


def _changed(code, node, class_name):
    changer = _Changer()
    if isinstance(node, ast.Lambda):
        body = [ast.Return(changer.visit(node.body))]
    else:
        body = [changer.visit(statement) for statement in node.body]
    if not changer.changed:
        return None
    body = [*changer.functions, *body]
    again = ast.FunctionDef(name="resumable", args=_bare(node.args), body=body, decorator_list=[], returns=None,
                            type_comment=None, type_params=[])
    whole = _surrounded(again, code.co_freevars, class_name)
    ast.copy_location(again, node)
    ast.fix_missing_locations(whole)
    compiled = compile(whole, code.co_filename, "exec", dont_inherit=True, flags=code.co_flags & _future_flags())
    made = _code_named(compiled, "resumable")
    return made.replace(co_name=code.co_name, co_qualname=code.co_qualname)


@functools.cache
def _future_flags():
    import __future__
    flags = 0
    for name in __future__.all_feature_names:
        flags |= getattr(__future__, name).compiler_flag
    return flags


def _surrounded(function, free_names, class_name):
    """Inside of a function that has the free names, so that they are free in it; and of its class, for `__private` names."""
    names = dict.fromkeys((_CALL, _ENTER, _PLAIN, _ID, *free_names))
    arguments = ast.arguments(posonlyargs=[], args=[ast.arg(arg=name) for name in names], kwonlyargs=[], kw_defaults=[],
                              defaults=[], vararg=None, kwarg=None)
    outer = ast.FunctionDef(name="outer", args=arguments, body=[function], decorator_list=[], returns=None,
                            type_comment=None, type_params=[])
    if class_name:
        outer = ast.ClassDef(name=class_name, bases=[], keywords=[], body=[outer], decorator_list=[], type_params=[])
    return ast.Module(body=[outer], type_ignores=[])


def _bare(arguments):
    """The parameters without annotations; defaults only where there are some, since their values are the function's."""
    def bare(argument):
        return argument and ast.copy_location(ast.arg(arg=argument.arg), argument)

    nothing = ast.Constant(value=None)
    return ast.arguments(posonlyargs=[bare(a) for a in arguments.posonlyargs], args=[bare(a) for a in arguments.args],
                         vararg=bare(arguments.vararg), kwonlyargs=[bare(a) for a in arguments.kwonlyargs],
                         kw_defaults=[d and nothing for d in arguments.kw_defaults], kwarg=bare(arguments.kwarg),
                         defaults=[nothing for _ in arguments.defaults])


def _code_named(code, name):
    left = [code]
    while (at := left.pop()).co_name != name:
        left.extend(constant for constant in at.co_consts if isinstance(constant, types.CodeType))
    return at


def _find(code):
    """The function's node, and the name of the class that it stands in."""
    lines = linecache.getlines(code.co_filename)
    if not lines:
        return None
    kept = _trees.get(code.co_filename)
    if kept is None or kept[0] is not lines:
        try:
            tree = compile("".join(lines), code.co_filename, "exec",
                           ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        kept = lines, _functions_of(tree)
        if len(_trees) >= _MAX_KEPT:
            _trees.clear()
        _trees[code.co_filename] = kept
    found = kept[1].get((code.co_firstlineno, code.co_name), ())
    return found[0] if len(found) == 1 else None


def _functions_of(tree):
    """{(first line, name): [(node, class name)]}"""
    functions = {}
    left = [(tree, "")]
    while left:
        node, class_name = left.pop()
        for child in ast.iter_child_nodes(node):
            inside = class_name
            if isinstance(child, ast.ClassDef):
                inside = child.name
            elif isinstance(child, ast.FunctionDef):
                first = min([child.lineno, *(decorator.lineno for decorator in child.decorator_list)])
                functions.setdefault((first, child.name), []).append((child, class_name))
            elif isinstance(child, ast.Lambda):
                functions.setdefault((child.lineno, "<lambda>"), []).append((child, class_name))
            left.append((child, inside))
    return functions


class _Changer(ast.NodeTransformer):
    """Calls become steps, where a `yield` can stand: not in functions, classes and generators inside. A comprehension, in
    which none can stand, becomes a function of its own, one of `functions`, which stand before the rest."""

    def __init__(self):
        self.changed = False
        self.functions = []
        self._items = 0

    def _leave(self, node):
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = visit_ClassDef = visit_GeneratorExp = _leave

    def visit_ListComp(self, node):
        return self._comprehension(node, ast.List(elts=[], ctx=ast.Load()), "append", [node.elt])

    def visit_SetComp(self, node):
        return self._comprehension(node, ast.Set(elts=[ast.Starred(value=ast.Tuple(elts=[], ctx=ast.Load()), ctx=ast.Load())]),
                                   "add", [node.elt])

    def visit_DictComp(self, node):
        if node.value is None:  # {**mapping for …}
            return node
        return self._comprehension(node, ast.Dict(keys=[], values=[]), "__setitem__", [node.key, node.value])

    def _comprehension(self, node, empty, method, parts):
        if any(isinstance(inner, (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)) or getattr(inner, "is_async", 0)
               for inner in ast.walk(node)) or any(isinstance(part, ast.Starred) for part in parts):
            return node
        first = node.generators[0]
        first.iter = self.visit(first.iter)
        inside = _Changer()
        result = ast.Name(id="__membrane_result__", ctx=ast.Load())
        body = ast.Expr(value=ast.Call(func=ast.Attribute(value=result, attr=method, ctx=ast.Load()),
                                       args=[inside.visit(part) for part in parts], keywords=[]))
        for part in reversed(node.generators):
            for test in reversed(part.ifs):
                body = ast.If(test=inside.visit(test), body=[body], orelse=[])
            over = ast.Name(id="__membrane_iterable__", ctx=ast.Load()) if part is first else inside.visit(part.iter)
            body = ast.For(target=part.target, iter=over, body=[body], orelse=[], type_comment=None)
        if not inside.changed:
            return node
        self._items += 1
        name = f"__membrane_comprehension_{self._items}__"
        given = ast.Assign(targets=[ast.Name(id=result.id, ctx=ast.Store())], value=empty, type_comment=None)
        arguments = ast.arguments(posonlyargs=[], args=[ast.arg(arg="__membrane_iterable__")], kwonlyargs=[], kw_defaults=[], defaults=[],
                                  vararg=None, kwarg=None)
        made = ast.FunctionDef(name=name, args=arguments, body=[*inside.functions, given, body, ast.Return(value=result)],
                               decorator_list=[], returns=None, type_comment=None, type_params=[])
        self.functions.append(ast.copy_location(made, node))
        self.changed = True
        called = ast.Call(func=ast.Name(id=name, ctx=ast.Load()), args=[first.iter], keywords=[])
        return ast.copy_location(ast.YieldFrom(value=ast.copy_location(called, node)), node)

    def visit_Call(self, node):
        self.generic_visit(node)
        function = node.func
        if isinstance(function, ast.Name) and function.id in _PLAIN_NAMES:
            return node
        if isinstance(function, ast.Attribute) and (
                function.attr in _PLAIN_METHODS or isinstance(function.value, (ast.Constant, ast.JoinedStr))):
            return node
        steps = self._steps(node, _CALL, [function, *node.args], node.keywords)
        return self._short_way(node, steps) if isinstance(function, ast.Name) else steps

    def _short_way(self, node, steps):
        """`f(x) if id(f) in plain else (yield from call(f, x))`, where `x` has no steps itself."""
        if any(isinstance(inner, ast.YieldFrom) for argument in (*node.args, *node.keywords) for inner in ast.walk(argument)):
            return steps
        name = ast.Call(func=ast.Name(id=_ID, ctx=ast.Load()), args=[node.func], keywords=[])
        test = ast.Compare(left=name, ops=[ast.In()], comparators=[ast.Name(id=_PLAIN, ctx=ast.Load())])
        return ast.copy_location(ast.IfExp(test=test, body=node, orelse=steps), node)

    def visit_With(self, node):
        self.generic_visit(node)
        for item in node.items:
            item.context_expr = self._steps(item.context_expr, _ENTER, [item.context_expr], [])
        return node

    def visit_For(self, node):
        """`for x in iter(q.get, None)` waits in C code. So it becomes `while (item := q.get()) != None`, with a call
        that can be suspended."""
        calls = node.iter
        if not (isinstance(calls, ast.Call) and isinstance(calls.func, ast.Name) and calls.func.id == "iter" and
                len(calls.args) == 2 and not calls.keywords and not isinstance(calls.args[0], ast.Starred)):
            return self.generic_visit(node)
        node = self.generic_visit(node)
        self._items += 1
        name = f"__membrane_item_{self._items}__"
        function, end = node.iter.args
        taken = ast.NamedExpr(target=ast.Name(id=name, ctx=ast.Store()),
                              value=self._steps(node.iter, _CALL, [function], []))
        test = ast.UnaryOp(op=ast.Not(), operand=ast.Compare(left=taken, ops=[ast.Eq()], comparators=[end]))
        given = ast.Assign(targets=[node.target], value=ast.Name(id=name, ctx=ast.Load()), type_comment=None)
        loop = ast.While(test=test, body=[ast.copy_location(given, node), *node.body], orelse=node.orelse)
        return ast.copy_location(loop, node)

    def _steps(self, node, helper, arguments, keywords):
        self.changed = True
        called = ast.Call(func=ast.Name(id=helper, ctx=ast.Load()), args=arguments, keywords=keywords)
        steps = ast.YieldFrom(value=ast.copy_location(called, node))
        return ast.copy_location(steps, node)
