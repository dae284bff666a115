"""Types of a cell, checked before it runs: by ty, which knows the cells before, the inputs, and stubs of what the host gives.

ty runs as a process of its own with limits, in an empty folder and an empty environment, so that a cell cannot read what is
installed here. It helps programs to be right, and keeps nobody from anything: a cell can silence it.
"""

from __future__ import annotations

import difflib
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from ._errors import MembraneError
from ._functions import Registry
from ._stubs import SESSION, Stubs, types_of_inputs

_PYTHON = "3.15"  # of the language, which ty need not know better
_MOST_HISTORY = 256 << 10  # characters of the cells before
_MOST_OUTPUT = 4 << 20  # bytes that ty says
_MOST_FINDINGS = 20
_MOST_NAMES = 100  # that the session is asked for
_MOST_ASKING_S = 1.0  # for all of them
_MOST_NAME = 64  # characters of one that is compared with others
_MOST_MESSAGE = 400
_MOST_SHOWN = 200  # characters of a line
_MEMORY = 2 << 30
_MISSING = "unresolved-reference"  # what ty calls a name that nobody has defined


@dataclass(frozen=True)
class TypeCheck:
    """How the types of a cell are checked, for Session(type_check=…); True is this with nothing said.

    before_runs: False checks in Session.check() alone. timeout_s: a cell whose types take longer does not run. stubs: more modules
    that programs import, as the texts of their .pyi files. paths: folders with stubs or packages, as a site-packages with numpy:
    cells can learn all that stands there.
    """

    before_runs: bool = True
    timeout_s: float = 10.0
    stubs: Mapping[str, str] = field(default_factory=dict)
    paths: Sequence[Union[str, "os.PathLike[str]"]] = ()


@dataclass(frozen=True)
class _Found:
    line: int
    column: int
    end: int
    rule: str
    message: str


class Cells:
    """The text of a session's cells until now, as far as it says which names there are. Not changed: more cells make another."""

    def __init__(self, texts: Tuple[str, ...] = ()) -> None:
        self.texts = texts

    def with_inputs(self, kinds: Mapping[str, str]) -> Cells:
        """Of the inputs of a turn, by their types as source: they are as what a cell has set, which a later one may set to something else."""
        if not kinds:
            return self
        lines = ["class _MembraneInputs:", "    import datetime, decimal, uuid", "    from typing import Any"]
        lines += [f"    _{number}: {kind}" for number, kind in enumerate(kinds.values())]
        lines += [f"{name} = _MembraneInputs._{number}" for number, name in enumerate(kinds)]
        return self._with("\n".join([*lines, "del _MembraneInputs"]))

    def with_cell(self, code: str, report: Mapping[str, Any], kinds: Mapping[str, str] = MappingProxyType({})) -> Cells:
        """Of a cell that did not run to its end, names that it defined may be there. kinds: of the inputs of its turn."""
        error = report.get("error", {}).get("code")
        if report["outcome"] not in ("ok", "raised", "waiting"):
            return self
        before = self.with_inputs(kinds)
        if error in ("SyntaxError", "IndentationError", "TabError"):
            return before
        text = _lines_of(code)
        if report["outcome"] != "ok" or "exit_code" in report:
            text = "try:\n    pass\n" + "".join(f"    {line}\n" for line in text.split("\n")) + "except BaseException:\n    pass"
        return before._with(text)

    def _with(self, text: str) -> Cells:
        texts = [*self.texts, text]
        while sum(map(len, texts)) > _MOST_HISTORY:
            texts.pop(0)
        return Cells(tuple(texts))


def cells_of_json(value: Any) -> Cells:
    """Of the head of a session's bytes; those who wrote it may have written anything."""
    texts = value if isinstance(value, list) and all(isinstance(each, str) for each in value) else []
    return Cells(tuple(texts) if sum(map(len, texts)) <= _MOST_HISTORY else ())


class Checker:
    """Checks cells for sessions of one registry. Threads: one at a time checks; any cancels."""

    def __init__(self, how: Union[bool, TypeCheck], language: str, registry: Registry) -> None:
        if language != "python":
            raise MembraneError(f"types are checked in Python, and not in {language}", code="invalid_argument",
                                hint="Leave type_check out.")  # fmt: skip
        self._how = how if isinstance(how, TypeCheck) else TypeCheck()
        for module in self._how.stubs:
            if not all(part.isidentifier() for part in module.split(".")):
                raise MembraneError(f"{module!r} is no name of a module", code="invalid_argument", hint="Write it as pkg.module.")
        self._ty = _find_ty()
        self._registry = registry
        self._input_types = types_of_inputs(registry.inputs)
        self._lock = threading.Lock()
        self._process: Optional["subprocess.Popen[bytes]"] = None
        self._is_checking = self._is_cancelled = False

    @property
    def before_runs(self) -> bool:
        return self._how.before_runs

    def for_another(self, registry: Registry) -> Checker:
        """The same for a fork of its session, which has a registry of its own."""
        made = Checker.__new__(Checker)
        made.__dict__.update(self.__dict__, _registry=registry, _lock=threading.Lock(), _process=None)
        return made

    def stubs(self) -> Stubs:
        return Stubs(self._registry, self._input_types)

    def cancel(self) -> None:
        """Ends a check that runs."""
        with self._lock:
            self._is_cancelled = self._is_checking
            if self._process is not None:
                self._process.kill()

    def check(
        self,
        cells: Optional[Cells],
        code: str,
        names_like: Callable[[str], Sequence[str]] = lambda _: (),
        *,
        calls_may_wait: bool = False,
    ) -> Optional[Dict[str, Any]]:
        """A report that says why the code should not run; None where nothing is wrong. cells: those before, None for a script,
        which sees nothing of them; names_like: names of the session that begin with a text; calls_may_wait: functions that nobody
        has defined are no mistake."""
        with self._lock:
            self._is_checking, self._is_cancelled = True, False
        try:
            return self._checked(cells, code, names_like, calls_may_wait)
        finally:
            with self._lock:
                self._is_checking = False

    def _checked(
        self, cells: Optional[Cells], code: str, names_like: Callable[[str], Sequence[str]], calls_may_wait: bool
    ) -> Optional[Dict[str, Any]]:
        stubs, before = self.stubs(), _lines_of("\n".join(cells.texts)) if cells is not None else ""
        code = _lines_of(code)
        with tempfile.TemporaryDirectory(prefix="membrane-") as folder:
            modules = {module: stubs.file(module, of_script=cells is None) for module in stubs.files}
            self._write(Path(folder), {**modules, **self._how.stubs}, before, code)
            said, why = self._run(folder)
        if why is not None:
            return why
        first = before.count("\n") + 1 if before else 0
        found = _findings_of(said, first, code.count("\n") + 1)
        if found is None:
            return _report("type_check_failed", "the type checker did not end as it should",
                           "Write the cell in a simpler way, or look which ty is installed: pip install ty")  # fmt: skip
        return self._judged(found, code.split("\n"), stubs, names_like, calls_may_wait)

    def _write(self, folder: Path, modules: Mapping[str, str], before: str, code: str) -> None:
        for module, text in modules.items():
            path = folder.joinpath(*module.split("."))
            is_package = any(other.startswith(module + ".") for other in modules)
            path = path / "__init__.pyi" if is_package else path.with_name(path.name + ".pyi")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", errors="replace")
        ours = sorted({module.partition(".")[0] for module in modules} - {SESSION})
        patterns = ["**"] + [f"!{module}{tail}" for module in ours for tail in ("", ".**")]
        environment = folder / ".empty"
        (environment / "lib" / f"python{_PYTHON}" / "site-packages").mkdir(parents=True)
        (environment / "pyvenv.cfg").write_text(f"home = {environment}\nversion = {_PYTHON}\n")
        (folder / "ty.toml").write_text(
            f'[environment]\npython-version = "{_PYTHON}"\npython-platform = "wasi"\npython = ".empty"\n'
            f"extra-paths = {json.dumps([os.path.abspath(each) for each in self._how.paths])}\n"
            f"[analysis]\nallowed-unresolved-imports = {json.dumps(patterns)}\n"
        )
        cells = [_cell(text) for text in ([before, code] if before else [code])]
        notebook = {"cells": cells, "metadata": {"language_info": {"name": "python"}}, "nbformat": 4, "nbformat_minor": 5}
        (folder / "cells.ipynb").write_text(json.dumps(notebook))

    def _run(self, folder: str) -> Tuple[bytes, Optional[Dict[str, Any]]]:
        """What ty says; and a report where it was ended."""
        words = [self._ty, "check", "--output-format", "sarif", "--exit-zero", "cells.ipynb"]
        environment = {"HOME": folder, "XDG_CONFIG_HOME": folder, "PATH": os.defpath, "TY_MAX_PARALLELISM": "1", "NO_COLOR": "1"}
        with self._lock:
            if self._is_cancelled:
                return b"", _cancelled()
            self._process = process = subprocess.Popen(
                words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        _limit(process.pid, self._how.timeout_s)
        late = threading.Event()


        def end_it() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(self._how.timeout_s, end_it)
        timer.daemon = True
        timer.start()
        try:
            assert process.stdout is not None
            said = process.stdout.read(_MOST_OUTPUT)
            process.stdout.close()
            process.wait()
        finally:
            timer.cancel()
            with self._lock:
                process.kill()
                process.wait()
                self._process, is_cancelled = None, self._is_cancelled
        if is_cancelled:
            return b"", _cancelled()
        if late.is_set():
            return b"", _report("type_check_timed_out", f"the types of the cell were not checked in {self._how.timeout_s:g} s",
                                "Write the cell in a simpler way, or give more time: TypeCheck(timeout_s=…)")  # fmt: skip
        return said, None

    def _judged(
        self, found: List[_Found], lines: List[str], stubs: Stubs, names_like: Callable[[str], Sequence[str]], calls_may_wait: bool
    ) -> Optional[Dict[str, Any]]:
        if any(each.rule == "invalid-syntax" for each in found):
            return None  # which the language itself says best
        errors, shown = [], []
        names = _Names(names_like, lambda: self._is_cancelled)
        for each in found:
            if self._is_cancelled:
                return _cancelled()
            missing = re.search(r"`(\w+)`", each.message) if each.rule == _MISSING else None
            if missing is not None:
                is_called = lines[each.line - 1][each.end - 1 :].lstrip().startswith("(")
                if (is_called and calls_may_wait) or missing[1] in names:
                    continue
            hint = names.hint(missing[1]) if missing is not None else _hint_of(each, stubs)
            place = {"line": each.line, "column": 1 + len(lines[each.line - 1][: each.column - 1].encode())}
            errors.append({"code": "type_check", "message": each.message, "rule": each.rule, "hint": hint, "place": place})
            shown.append(_shown(each, lines[each.line - 1], hint))
            if len(errors) == _MOST_FINDINGS:
                break
        if not errors:
            return None
        report = _report("", "", "")
        report["error"] = {**errors[0], "traceback": "\n".join(shown)}
        if errors[1:]:
            report["more_errors"] = errors[1:]
        return report


def _cell(text: str) -> Dict[str, Any]:
    """Of a notebook, in which ty takes `await` outside of functions."""
    return {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": text}


def _find_ty() -> str:
    try:
        return str(importlib.import_module("ty").find_ty_bin())
    except (ImportError, AttributeError, OSError):
        found = shutil.which("ty")
    if found is None:
        raise MembraneError("type_check needs ty, which is not installed", code="not_installed",
                            hint="pip install ty")  # fmt: skip
    return found


def _limit(pid: int, timeout_s: float) -> None:
    if sys.platform != "linux":
        return
    import resource

    seconds = int(timeout_s) + 1
    try:
        resource.prlimit(pid, resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        resource.prlimit(pid, resource.RLIMIT_CPU, (seconds, seconds))
        for kind in (resource.RLIMIT_FSIZE, resource.RLIMIT_CORE):
            resource.prlimit(pid, kind, (0, 0))
    except (ProcessLookupError, PermissionError, ValueError):
        pass  # it has ended, or this process has less already


def _lines_of(text: str) -> str:
    """With ends of lines as ty counts them, none at the end, and nothing that JSON or UTF-8 does not carry."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n")
    return text.encode("utf-8", "replace").decode()


def _findings_of(said: bytes, first_line: int, lines: int) -> Optional[List[_Found]]:
    """Errors in so many lines past the first ones, counted from there; None where this is not what ty says."""
    found = []
    try:
        for each in json.loads(said)["runs"][0]["results"]:
            place = each["locations"][0]["physicalLocation"] if each["locations"] else {}
            if each["ruleId"] in ("panic", "io"):
                return None
            if each["level"] != "error" or not str(place["artifactLocation"]["uri"]).endswith("/cells.ipynb"):
                continue
            region = place["region"]
            if first_line < region["startLine"] <= first_line + lines:
                end = region["endColumn"] if region["endLine"] == region["startLine"] else region["startColumn"]
                found.append(_Found(region["startLine"] - first_line, region["startColumn"], end, str(each["ruleId"]),
                                    str(each["message"]["text"])[:_MOST_MESSAGE]))  # fmt: skip
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        return None
    return found


class _Names:
    """Those that the session has, as far as they are asked for."""

    def __init__(self, like: Callable[[str], Sequence[str]], is_over: Callable[[], bool]) -> None:
        self._like = like
        self._is_over = is_over
        self._left_s = _MOST_ASKING_S
        self._known: Dict[str, bool] = {}

    def _asked(self, start: str) -> Sequence[str]:
        """A session that answers late is asked no more."""
        if self._left_s <= 0 or self._is_over():
            return ()
        begun_at = time.monotonic()
        try:
            return self._like(start)
        finally:
            self._left_s -= time.monotonic() - begun_at

    def __contains__(self, name: str) -> bool:
        """A cell that asks for too many is believed."""
        if name not in self._known:
            is_believed = len(self._known) >= _MOST_NAMES or self._left_s <= 0
            self._known[name] = is_believed or name in self._asked(name)
        return self._known[name]

    def hint(self, name: str) -> str:
        if len(name) > _MOST_NAME:
            return "Define it first, or import it."
        near = difflib.get_close_matches(name, [each for each in self._asked(name[:1]) if len(each) <= _MOST_NAME], 3)
        return f"Did you mean {' or '.join(near)}?" if near else "Define it first, or import it."


def _hint_of(found: _Found, stubs: Stubs) -> str:
    words = re.findall(r"`([\w.]+)`", found.message)
    for word in words:
        if word in stubs.signatures:
            return f"It is {stubs.signatures[word]}"
    for word in words:
        if word in stubs.members:
            return f"{word} has {', '.join(stubs.members[word]) or 'nothing'}."
    return f"Where this is right as it stands, end the line with  # ty: ignore[{found.rule}]"


def _shown(found: _Found, text: str, hint: str) -> str:
    shown = f"line {found.line}: {found.message} [{found.rule}]"
    if found.column <= len(text) <= _MOST_SHOWN:
        shown += f"\n    {text}\n    {' ' * (found.column - 1)}^"
    return f"{shown}\n  hint: {hint}"


def _cancelled() -> Dict[str, Any]:
    return _report("cancelled", "the turn was cancelled", "", outcome="cancelled")


def _report(code: str, message: str, hint: str, *, outcome: str = "invalid") -> Dict[str, Any]:
    return {"outcome": outcome, "error": {"code": code, "message": message, "hint": hint}, "fuel_used": 0, "host_calls": []}
