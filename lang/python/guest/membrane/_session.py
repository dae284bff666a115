"""The code interpreter: a turn takes a piece of code from the host, runs it, and returns its result.

    turn    {"code":…, "name":"<cell 1>", "mode":"cell"|"script"|"check"|"complete", "arguments":[…], "input":…, "fresh":{"entropy_hex":…},
             "input_waits":true, "declares_calls":true, "input_is_new":true, "packages":"/usr/lib/python-packages", "functions":{…},
             "inputs":{…}, "zone":{"name":"Europe/Berlin", "tzif_base64":…}}
    result  {"outcome":"ok"|"error"|"exit", "value":…, "displays":[…], "error":…, "exit_code":n}

Of both, members that are empty, 0 or null may be missing; a turn's mode is "cell" then.

A cell runs in __main__, where its names stay; a script has a __main__ of its own.
"""

import __future__
import ast
import atexit
import builtins
import contextvars
import importlib.machinery
import inspect
import io
import keyword
import linecache
import os
import sys
import traceback
import types

from membrane import _capabilities, _display, _door, _files, _functions, _hashes, _loop, _matplotlib, _net, _packages, \
    _processes, _random, _threads, _tracebacks, _zone

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_OUR_PACKAGES = tuple(_OURS + package + os.sep for package in ("membrane", "requests"))
_FUTURE_FLAGS = 0
for _feature in __future__.all_feature_names:
    _FUTURE_FLAGS |= getattr(__future__, _feature).compiler_flag
_STATEMENTS = frozenset(("import", "from", "del", "raise", "pass", "assert", "global", "nonlocal", "return", "break",
                         "continue", "type"))  # words that may be in a line without a colon
_MAX_SOURCES = 16 << 20  # characters of cells that tracebacks can quote
_MAX_TRACEBACK = 100_000
_MAX_NAMES = 200  # returned by a completion

# One for each way of reporting an error: similar names, modules, groups, syntax errors.
_FAILURES = ("1 / 0", "nosuch", "(1).nosuch", "import nosuch", "from sys import nosuch", "x = = 1", "{}['nosuch']",
             "int('x')", "try: 1 / 0\nexcept ZeroDivisionError as e: raise ValueError from e",
             "raise ExceptionGroup('two', [ValueError(), KeyError()])", "import re; re.compile('(')")

_warm = False
_begun = False  # a turn has run: seeding from now on is done by the program
_future_flags = 0  # __future__ imports of cells, which apply to later cells
_loop_of_cells = None  # for cells that await
_sources = {}  # name -> length, the oldest first
_sources_total = 0


def warm():
    """Does once, before the first turn, everything that all forks can share."""
    global _warm
    if _warm:
        return
    _warm = True
    _capabilities.modules()
    _hashes.install()
    _net.install()
    _loop.install()
    _threads.install()
    _processes.install()
    _files.install()
    _tracebacks.install()
    _matplotlib.install()
    _random.install()
    _zone.install()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace", line_buffering=True)  # if the turn runs out of fuel
    if "" not in sys.path:
        sys.path.insert(0, "")
    import warnings
    warnings.filterwarnings("ignore", message=".*non-interactive, and thus cannot be shown")
    sys.modules["__main__"].__dict__.setdefault("display", _display.display)
    _be_the_reactors_turn()
    _run_first_turns()
    _packages.remember_what_is_built_in()
    for code in _FAILURES:  # reporting errors imports more than it needs
        _encode_result(_run({"code": code, "name": "<warm>", "input": ""}))
    _forget_first_turns()


def _run_first_turns():
    """Runs typical first turns now, so that not every fork has to make what they need."""
    for code in ("1", "x = 1", "print(end='')"):
        source = _door.encode_tree({"code": code, "name": "<warm>"}).encode()
        for _ in range(20):
            _encode_result(_run(_door.object_of(source)))


def _forget_first_turns():
    global _sources_total
    namespace = sys.modules["__main__"].__dict__
    for name in ("x", "_", "re"):
        namespace.pop(name, None)
    _sources.clear()
    _sources_total = 0
    linecache.cache.clear()


def _be_the_reactors_turn():
    """From now on the interpreter's export `turn` calls turn(), where it was given a source to compile and run. It holds on to
    the function that it calls, so it is the function's code that changes."""
    reactor = sys.modules.get("_reactor")
    if reactor is None:
        return

    def take(source, environ):
        return __membrane_turn__(source)

    builtins.__membrane_turn__ = turn
    reactor.turn.__code__ = take.__code__


def import_modules(names):
    """Imports what a warm image is to have; whether all of it was there. Collections then leave that alone: a fork copies what is
    looked at."""
    import gc
    import importlib
    for name in names:
        try:
            importlib.import_module(name)
        except Exception as error:
            print(f"{name} cannot be imported: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            return False
    main = sys.modules["__main__"].__dict__
    main.pop("membrane", None)
    gc.collect()
    _run_first_turns()  # a collection has dropped the caches that make them fast
    _forget_first_turns()
    gc.freeze()
    return True


def turn(source):
    """Runs the turn that the source describes, or makes the imports that it lists."""
    request = _door.object_of(source)
    if "imports" in request:
        return 0 if import_modules(request["imports"]) else 1
    if "fresh" in request:
        reseed(request["fresh"])
    if "packages" in request:
        _packages.use(request["packages"])
    if "zone" in request:
        _zone.use(request["zone"])
    if "functions" in request:
        _functions.define(request["functions"])
    result = _run(request)
    try:
        _door.ask(_encode_result(result))
    except _door.Error as error:  # too large, for example: the outcome must get through
        result["displays"] = []
        result["value"] = {"text/plain": f"<the result could not be given: {error}>"}
        _door.ask(_encode_result(result))
    return 0


def _encode_result(result):
    described = {"session": "result"}
    for name, value in result.items():
        if value:
            described[name] = value
    return _door.encode_tree(described).encode("utf-8", "replace")


def reseed(fresh):
    """Puts fresh entropy into what stands for entropy: this memory was copied since it drew from the host."""
    global _begun
    if not _begun:
        _random.forget()
        _begun = True
    _random.reseed(bytes.fromhex(fresh["entropy_hex"]))
    if "tempfile" in sys.modules:
        sys.modules["tempfile"]._name_sequence = None
    if "uuid" in sys.modules:
        sys.modules["uuid"]._node = None
        sys.modules["uuid"]._last_timestamp = None


# --- one turn -------------------------------------------------------------------------------------------------------


def _run(request):
    name = request.get("name") or "<cell>"
    code = request["code"]
    mode = request.get("mode")
    if mode == "check":
        return _check(code, name)
    if mode == "complete":
        return _complete(code)
    if "inputs" in request:
        try:
            _functions.assign(request["inputs"])
        except BaseException as error:  # of a value that is none here
            return {"outcome": "error", "value": None, "displays": [], "error": _error_of(error, code), "exit_code": 1}
    if "declares_calls" in request:
        _functions.declare_called_names(code)
    _remember(name, code)
    if "import" in code:
        _forget_directories()
    script = mode == "script"
    is_named = script or name[0] != "<"
    arguments = [name if is_named else "-c", *request.get("arguments", ())]
    result = {"outcome": "ok", "value": None, "displays": [], "error": None, "exit_code": 0}
    _display._shown.clear()
    text = _Waiting if "input_waits" in request else request.get("input", "")
    if "input_is_new" in request:
        _drop_waiting_input()
    with _Surroundings(arguments, text, script):
        try:
            if script:
                value = _run_script(code, name)
            else:
                with _CellsOwn():
                    value = _run_cell(code, name)
            if value is not None:
                result["value"] = _display.bundle_of(value)
        except SystemExit as end:
            result.update(outcome="exit", exit_code=_exit_code(end))
        except BaseException as error:
            result.update(outcome="error", error=_error_of(error, code), exit_code=1)
        try:
            result["displays"] = _display.take_displays()
        except BaseException as error:  # drawing a figure may end the program, too
            result.update(outcome="error", error=_error_of(error, code), exit_code=1)
        _flush()
    return result


def _check(code, name):
    """Compiles a script, and runs nothing of it. The column is in bytes, from 1."""
    import warnings
    result = {"outcome": "ok", "value": None, "displays": [], "error": None, "exit_code": 0}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(code, name, "exec", dont_inherit=True)
    except BaseException as error:  # also a text that nests too deeply for the compiler
        message = error.msg if isinstance(error, SyntaxError) else str(error)
        described = {"type": type(error).__qualname__, "message": _display.cut(message or ""), "traceback": ""}
        if isinstance(error, SyntaxError) and error.lineno:
            line = (code.splitlines() or [""])[min(error.lineno, len(code.splitlines()) or 1) - 1]
            described["line"] = error.lineno
            described["column"] = len(line[:max((error.offset or 1) - 1, 0)].encode("utf-8", "replace")) + 1
        result.update(outcome="error", error=described, exit_code=1)
    return result


def _complete(code):
    """The names that the one at the end of the code could become, one a line."""
    result = {"outcome": "ok", "value": None, "displays": [], "error": None, "exit_code": 0}
    try:
        result["value"] = {"text/plain": "\n".join(_names_for(code))}
    except BaseException:  # exceptions of a program's own attributes: there are no names to return
        pass
    return result


def _names_for(code):
    start = len(code)
    while start and (code[start - 1] in "._" or code[start - 1].isalnum()):
        start -= 1
    *owners, begun = code[start:].split(".")
    if not owners and not begun or not all(owner.isidentifier() for owner in owners):
        return []
    names = sys.modules["__main__"].__dict__
    if owners:
        value = names[owners[0]] if owners[0] in names else getattr(builtins, owners[0])
        for owner in owners[1:]:
            value = getattr(value, owner)
        names = dir(value)
    else:
        names = {*names, *dir(builtins), *keyword.kwlist}
    return sorted(name for name in names if type(name) is str and name.isidentifier() and name.startswith(begun)
                  and (begun.startswith("_") or not name.startswith("_")))[:_MAX_NAMES]


_no_input = io.TextIOWrapper(io.BytesIO(), "utf-8")


def _open_input():
    """Over what the host reads when it is asked to."""
    return open(0, encoding="utf-8", errors="surrogateescape", closefd=False)


_waiting_input = _open_input()  # it is in the warm image


class _Waiting:
    """In the place of a text: there is an input, and it is read when the program asks."""


def _drop_waiting_input():
    """What was read ahead of an input that was another turn's goes."""
    global _waiting_input
    _waiting_input = _open_input()


def _input_that_waits():
    global _waiting_input
    if _waiting_input.closed:
        _waiting_input = _open_input()
    return _waiting_input


class _Surroundings:
    """sys.argv, sys.stdin and sys.path[0] as the code is to find them, and as before when it is over."""

    def __init__(self, arguments, text, script):
        self._arguments, self._text, self._script = arguments, text, script

    def __enter__(self):
        self._before = sys.stdin, sys.argv
        sys.argv = self._arguments
        if self._text is _Waiting:
            sys.stdin = _input_that_waits()
        elif self._text or _no_input.closed:
            sys.stdin = io.TextIOWrapper(io.BytesIO(self._text.encode("utf-8", "surrogatepass")), "utf-8",
                                         errors="surrogateescape")
        elif self._text is not None:
            sys.stdin = _no_input
        if self._script:
            self._path = list(sys.path)
            self._hook = getattr(sys, "excepthook", sys.__excepthook__)
            folder = os.path.dirname(self._arguments[0])
            sys.path[:] = [folder, *(entry for entry in sys.path if entry != "")]

    def __exit__(self, *_):
        sys.stdin, sys.argv = self._before
        if self._script:
            sys.path[:] = self._path
            sys.excepthook = self._hook


def _run_script(code, name):
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=name, __builtins__=builtins)
    before = sys.modules["__main__"]
    sys.modules["__main__"] = module
    try:
        with _AtExit(module.__dict__), _ThreadsOfScript():
            with _Hook():
                exec(compile(code, name, "exec", dont_inherit=True), module.__dict__)
    finally:
        sys.modules["__main__"] = before


class _Hook:
    """Calls the program's own sys.excepthook, where it has set one, with the error that ends it, as Python does."""

    def __enter__(self):
        pass

    def __exit__(self, kind, error, place):
        if error is not None:
            _call_hook(kind, error, place)


def _call_hook(kind, error, place):
    hook = getattr(sys, "excepthook", None)
    if isinstance(error, SystemExit) or hook is None or hook is sys.__excepthook__:
        return
    while place is not None and place.tb_frame.f_code.co_filename.startswith(_OUR_PACKAGES):
        place = place.tb_next
    try:
        hook(kind, error, place)
    except SystemExit:
        raise
    except BaseException as another:  # as in Python: it is reported, and the first one counts
        print("Error in sys.excepthook:", file=sys.stderr)
        _print_error(another)


def _print_error(error):
    try:
        sys.stderr.write(traceback_of(error))
    except Exception:  # its own text raises, or the program has closed the stream
        pass


class _ThreadsOfScript:
    """Finishes the threads that are left at the end of a script."""

    def __enter__(self):
        pass

    def __exit__(self, kind, error, _):
        try:
            _threads.finish(of_script=True)
        except RuntimeError:  # a deadlock: the way that the script ended says more
            if error is None:
                raise


class _CellsOwn:
    """What is there while a cell runs: the session's loop, for what wants one; at the end the program's own sys.excepthook, for
    an error; and the threads that it started, which come as far as they come by themselves."""

    def __enter__(self):
        _loop.cell_loop = _session_loop

    def __exit__(self, kind, error, place):
        try:
            if error is not None:
                _call_hook(kind, error, place)
        finally:
            _loop.cell_loop = None
            self._finish_threads(error)

    @staticmethod
    def _finish_threads(error):
        if not _threads.are_left():
            return
        try:
            _threads.finish(of_script=False)
        except RuntimeError:  # a deadlock: the way that the cell ended says more
            if error is None:
                raise


class _AtExit:
    """Runs at a script's end what the script itself has registered with atexit; what libraries register stays."""

    def __init__(self, namespace):
        self._namespace, self._calls, self._register = namespace, [], atexit.register

    def __enter__(self):
        atexit.register = self._take

    def _take(self, function, *arguments, **options):
        if sys._getframe(1).f_globals is not self._namespace:
            return self._register(function, *arguments, **options)
        self._calls.append((function, arguments, options))
        return function

    def __exit__(self, *_):
        atexit.register = self._register
        while self._calls:
            function, arguments, options = self._calls.pop()
            try:
                function(*arguments, **options)
            except Exception:  # as in Python: it is reported, and the others run
                print(f"Exception ignored in atexit callback {function!r}:", file=sys.stderr)
                traceback.print_exc()


def _expression_of(code, name):
    """The code of a cell that is one short expression, as many are; None where it takes a closer look."""
    word = code[:12].partition(" ")[0]
    if not word or word[0] in "\t\f@" or word in _STATEMENTS or any(sign in code for sign in "\n=;:"):
        return None
    try:
        return compile(code, name, "eval", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | _future_flags, dont_inherit=True)
    except SyntaxError:
        return None


def _compile_cell(code, name):
    """The code of all but the last expression, and of that."""
    global _future_flags
    expression = _expression_of(code, name)
    if expression is not None:
        return None, expression
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | _future_flags
    tree = compile(code, name, "exec", flags | ast.PyCF_ONLY_AST, dont_inherit=True)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    body = None
    if tree.body or last is None:
        body = compile(tree, name, "exec", flags, dont_inherit=True)
        _future_flags |= body.co_flags & _FUTURE_FLAGS
    if last is not None:
        expression = compile(ast.Expression(last.value), name, "eval", flags | _future_flags, dont_inherit=True)
    return body, expression


def _run_cell(code, name):
    """The value of the last expression; None when the cell ends in something else, or in a semicolon."""
    namespace = sys.modules["__main__"].__dict__
    # Both are compiled before one runs: an error that only the compiler finds must not leave a cell half done.
    parts = _compile_cell(code, name)
    if any(part is not None and part.co_flags & inspect.CO_COROUTINE for part in parts):
        value = _await_all(parts, namespace)
    else:
        value = None
        for part in filter(None, parts):
            value = eval(part, namespace)
    if parts[1] is None or code.rstrip().endswith(";"):
        return None
    if value is not None:
        namespace["_"] = value
    return value


def _await_all(parts, namespace):
    """Runs a cell that awaits as one coroutine: the session's loop runs for all its statements."""
    import asyncio
    ended = []

    async def whole():
        value = None
        try:
            for part in filter(None, parts):
                value = eval(part, namespace)
                if part.co_flags & inspect.CO_COROUTINE:
                    value = await value
        except GeneratorExit:
            raise
        except BaseException as error:  # raised again below: SystemExit, too, belongs to the cell and not to the loop
            ended.append(error)
        return value

    context = contextvars.copy_context()
    loop = _session_loop()
    asyncio.set_event_loop(loop)
    task = loop.create_task(whole(), context=context)
    try:
        value = loop.run_until_complete(task)
    except BaseException:
        if not task.done():
            task.cancel()  # the rest of the cell does not run in a later one
        raise
    finally:
        _take_variables(context)
    if ended:
        raise ended[0]
    return value


def _session_loop():
    """The loop of all cells: what one leaves in it goes on when a later one awaits."""
    global _loop_of_cells
    import asyncio
    if _loop_of_cells is None or _loop_of_cells.is_closed():
        _loop_of_cells = asyncio.new_event_loop()
    return _loop_of_cells


def _take_variables(context):
    """Sets what a cell has set in a context of its own."""
    nothing = object()
    for variable, value in context.items():
        if variable.get(nothing) is not value:
            variable.set(value)


def _forget_directories():
    """Modules may have been written since. Archives are read-only, and reading their directories anew is slow."""
    for finder in sys.path_importer_cache.values():
        if isinstance(finder, importlib.machinery.FileFinder):
            finder.invalidate_caches()


def _exit_code(end):
    """As `python` ends: a text is printed, and means 1; a number is a byte."""
    if end.code is None:
        return 0
    if isinstance(end.code, int):
        return end.code if 0 <= end.code <= 0xFF else 0xFF  # no failure becomes a success
    print(end.code, file=sys.stderr)
    return 1


def _flush():
    streams = sys.__stdout__, sys.__stderr__
    if sys.stdout is not sys.__stdout__ or sys.stderr is not sys.__stderr__:
        streams = sys.stdout, sys.stderr, *streams
    for stream in streams:
        try:
            stream.flush()
        except Exception:  # the program may have closed or replaced it
            pass


# --- errors ---------------------------------------------------------------------------------------------------------


def _remember(name, code):
    """So that tracebacks can quote the lines."""
    global _sources_total
    size = len(code)
    _sources_total += size - _sources.pop(name, 0)
    _sources[name] = size
    linecache.cache[name] = (size, None, code.splitlines(keepends=True), name)
    while _sources_total > _MAX_SOURCES and len(_sources) > 1:
        oldest = next(iter(_sources))
        _sources_total -= _sources.pop(oldest)
        linecache.cache.pop(oldest, None)


def _leave_out_ours(described, seen):
    """Takes our own frames out of an error and of those that led to it."""
    if described is None or id(described) in seen:
        return
    seen.add(id(described))
    described.stack[:] = [frame for frame in described.stack if not frame.filename.startswith(_OUR_PACKAGES)]
    _leave_out_ours(described.__cause__, seen)
    _leave_out_ours(described.__context__, seen)
    for inner in described.exceptions or ():
        _leave_out_ours(inner, seen)


def traceback_of(error):
    """Formats the error as Python does, without our own frames."""
    described = traceback.TracebackException.from_exception(error)
    _leave_out_ours(described, set())
    if isinstance(error, ModuleNotFoundError):
        described._str = _packages.without_advice(described._str)
    return "".join(described.format())


def _error_of(error, code):
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ in ("builtins", "__main__", "membrane") else (
        f"{kind.__module__}.{kind.__qualname__}")
    try:
        message = str(error)
    except BaseException:
        message = "<the error's own text raised another>"
    try:
        text = traceback_of(error)
    except BaseException:  # there is no memory left for it, or the error's repr raises
        text = f"{name}: {message}\n"
    result = {"type": name, "message": _display.cut(message), "traceback": _display.cut(text, _MAX_TRACEBACK)}
    try:
        missing = _packages.missing(error, code)
    except Exception:  # the program's own error counts
        missing = None
    return {**result, "missing": missing} if missing else result
