"""Packages that the host has given: where they are imported from, and what to say of those that are not there."""

import os
import re
import sys

_BETWEEN = r"""(?:[ \t]|['",]\s*)+"""  # words of a line, or of a list
_NAME = re.compile(r"[A-Za-z0-9][\w.\-]*(?:==[\w.*+!\-]+)?")
_INSTALLS = re.compile(rf"\bpip3?{_BETWEEN}install\b((?:{_BETWEEN}(?:-[\w\-]+|{_NAME.pattern}))*)")
_MODULE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ENGINES = re.compile(r"tried using: '([A-Za-z_]\w{0,63})'")  # of pandas, where none of several modules is there
_MOST_NAMES = 10


def use(path):
    """Imports from the directory, too, after all that is built in: a package takes the place of nothing."""
    if path not in sys.path:
        sys.path.append(path)
        sys.path_importer_cache.pop(path, None)


def missing(error, code):
    """{"module":…, "near":[…], "install":[…]} of an error that a package would mend, else None.

    `install` is what the code would have had installed, by pip or as its own notebook's command.
    """
    if isinstance(error, SyntaxError):
        code = error.text or ""
    install = _wanted(code) if _is_about_installing(error) else None
    if install is not None:
        return {"module": "pip", "near": [], "install": install}
    name = _module_of(error)
    if name is None:
        return None
    return {"module": name, "near": [] if name in sys.modules else _near(name), "install": []}


def without_advice(text):
    """Python's own advice for a module that is not there is of machines that have a site-packages directory."""
    return text.partition(". Site initialization is disabled")[0]


def _module_of(error):
    """The top-level module that an import did not find, also where a library says so by another ImportError."""
    seen = 0
    while error is not None and isinstance(error, ImportError) and seen < 10:
        name = getattr(error, "name", None)
        if isinstance(error, ModuleNotFoundError) and isinstance(name, str):
            there = sys.modules.get(name.partition(".")[0])
            known = name in sys.stdlib_module_names or there is not None and not getattr(there, "stands_in", False)
            return name.partition(".")[0] if _MODULE.match(name) and len(name) <= 64 and not known else None
        if engines := _ENGINES.search(str(error)[:1000]):
            return engines[1]
        error, seen = error.__cause__ or (None if error.__suppress_context__ else error.__context__), seen + 1
    return None


def _is_about_installing(error):
    if isinstance(error, ModuleNotFoundError):
        return error.name in ("pip", "ensurepip")
    return (isinstance(error, SyntaxError) or isinstance(error, OSError) and any(
                text in str(error) for text in ("no processes here", "does not support processes"))
            or isinstance(error, AttributeError) and error.obj is os)


def _wanted(code):
    names = []
    found = False
    for match in _INSTALLS.finditer(code[:100_000]):
        found = True
        names += filter(_NAME.fullmatch, re.split(_BETWEEN, match[1]))
    if not found:
        return None
    return list(dict.fromkeys(name for name in names if len(name) <= 64))[:_MOST_NAMES]


def _near(name):
    """Modules that are there, and are spelt nearly so: of about the same length, with the same first letter or last."""
    import difflib
    alike = [other for other in _built_in | _top_level(set(sys.path) - _paths)
             if abs(len(other) - len(name)) <= 2 and (other[0] == name[0] or other[-1] == name[-1])]
    return difflib.get_close_matches(name, sorted(alike), 3, 0.8)


_built_in, _paths = frozenset(), frozenset()


def remember_what_is_built_in():
    """Once, before any program: what the archive of the library has does not change."""
    global _built_in, _paths
    _paths = frozenset(filter(None, sys.path))
    _built_in = frozenset(_top_level(_paths)).union(
        name for name in sys.stdlib_module_names if not name.startswith("_"))


def _top_level(entries):
    names = set()
    for entry in filter(None, entries):
        finder = sys.path_importer_cache.get(entry)
        try:
            files = finder._get_files() if hasattr(finder, "_get_files") else os.listdir(entry)
        except (OSError, AttributeError):
            continue
        for file in files:
            top = file.partition("/")[0].partition(".")[0]
            if _MODULE.fullmatch(top) and not top.startswith("_") and not file.endswith(".dist-info"):
                names.add(top)
    return names
