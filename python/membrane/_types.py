"""The types of results and of what a service describes."""

from __future__ import annotations

import base64
import datetime
import os
import pathlib
import re
from dataclasses import dataclass, field
from typing import Any, Callable, Mapping, Optional, Sequence, Tuple, Union

from ._display import bundle_of, repr_of
from ._errors import MembraneError, ProgramError
from ._hints import in_words_of_client

Duration = Union[float, int, str, datetime.timedelta]
"""Seconds, text such as "500ms", "30s", "10m", "1h" or "2d", or a timedelta."""

TerminalSize = Tuple[int, int]
"""Columns and rows."""

Forms = Mapping[str, Union[str, bytes]]
"""One value in several forms, by MIME type: "text/plain", "image/png", …"""

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def milliseconds(duration: Duration) -> int:
    if isinstance(duration, datetime.timedelta):
        return round(duration.total_seconds() * 1000)
    if isinstance(duration, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d)\s*", duration)
        if not found:
            raise ValueError(f'{duration!r} is not a duration; write it as "500ms", "30s", "10m", "1h" or "2d"')
        return round(float(found[1]) * _UNITS_MS[found[2]])
    return round(duration * 1000)


def seconds(duration: Duration) -> int:
    """Returns whole seconds, at least one unless the duration is 0."""
    return -(-milliseconds(duration) // 1000)


def forms_of(json: Mapping[str, Any]) -> dict[str, Union[str, bytes]]:
    return {
        kind: base64.b64decode(part["base64"]) if isinstance(part, Mapping) else str(part)
        for kind, part in json.items()
    }


def _time(text: Optional[str]) -> Optional[datetime.datetime]:
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")) if text else None


@dataclass(frozen=True)
class SandboxInfo:
    """A sandbox at the moment when the service was asked."""

    id: str
    template: str
    state: str
    created_at: Optional[datetime.datetime] = None
    expires_at: Optional[datetime.datetime] = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    labels: Sequence[str] = ()

    @classmethod
    def of_json(cls, json: Mapping[str, Any]) -> SandboxInfo:
        return cls(
            id=json["id"],
            template=json["template"],
            state=json["state"],
            created_at=_time(json.get("created_at")),
            expires_at=_time(json.get("expires_at")),
            metadata=json.get("metadata", {}),
            labels=json.get("labels", ()),
        )


@dataclass(frozen=True)
class FileInfo:
    """A file or directory; `kind` is "file", "directory", "link" or "other". In a Linux sandbox it also has permissions, and the target
    of a symbolic link."""

    path: str
    size_bytes: int = 0
    kind: str = "file"
    mode: Optional[int] = None
    target: Optional[str] = None

    @property
    def name(self) -> str:
        return self.path.rsplit("/", 1)[-1]

    @classmethod
    def of_json(cls, json: Mapping[str, Any]) -> FileInfo:
        mode = json.get("mode")
        return cls(
            path=json["path"],
            size_bytes=json.get("size_bytes") or 0,
            kind=json.get("kind", json.get("type", "file")),
            mode=None if mode is None else int(mode, 8),
            target=json.get("target"),
        )


@dataclass(frozen=True)
class FileEvent:
    """A change of a file in a watched directory."""

    kind: str
    path: str


@dataclass(frozen=True)
class Receipt:
    """A receipt of an exec, sealed by the service, for `membrane verify` and `membrane replay`.

    text can be shown to anyone. private_text has the code, its inputs, the world's answers and the output.
    """

    text: bytes
    private_text: bytes = field(repr=False)

    def save(self, path: Union[str, os.PathLike[str]]) -> None:
        """Writes both texts, the private one to PATH.private, which only the owner can read."""
        name = os.fspath(path)
        with open(os.open(name + ".private", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(self.private_text)
        with open(name, "wb") as file:
            file.write(self.text)


@dataclass(frozen=True)
class Snapshot:
    """The kept state of a sandbox at one moment.

    sandbox: the id of the sandbox that it was made from. name: the template that it was promoted to, or None.
    """

    id: str
    template: str = ""
    sandbox: str = ""
    name: Optional[str] = None
    created_at: Optional[datetime.datetime] = None
    size_bytes: int = 0

    @classmethod
    def of_json(cls, json: Mapping[str, Any]) -> Snapshot:
        return cls(
            id=json["id"],
            template=json.get("template", ""),
            sandbox=json.get("sandbox", ""),
            name=json.get("name"),
            created_at=_time(json.get("created_at")),
            size_bytes=json.get("size_bytes") or 0,
        )


@dataclass(frozen=True)
class Context:
    """One of several sessions in a sandbox, with state and files of its own."""

    id: str
    template: str
    created_at: Optional[datetime.datetime] = None

    @classmethod
    def of_json(cls, json: Mapping[str, Any]) -> Context:
        return cls(json["id"], json["template"], _time(json.get("created_at")))


@dataclass(frozen=True)
class FlowRead:
    """Something that a program has read. call: the number of the request in its session; 0 is its input."""

    call: int
    function: str
    target: str = ""

    @classmethod
    def of_json(cls, json: Mapping[str, Any]) -> FlowRead:
        return cls(json["call"], json["function"], json.get("target", ""))


@dataclass(frozen=True)
class Approval:
    """A program's request that waits for a person's approval, since the trifecta rule of its policy demands it.

    state: "waiting"; in events also the decision: "approved", "refused" or "unanswered". function, target: such as "http.request" and
    "POST https://example.org/". bytes: how many it would send. private_reads, untrusted_reads: what the program had read.
    """

    id: str
    exec_id: str
    state: str
    function: str
    target: str = ""
    bytes: int = 0
    asked_at: Optional[datetime.datetime] = None
    private_reads: Sequence[FlowRead] = ()
    untrusted_reads: Sequence[FlowRead] = ()

    @classmethod
    def of_json(cls, json: Mapping[str, Any]) -> Approval:
        return cls(
            id=json["id"],
            exec_id=json["exec_id"],
            state=json.get("state", "waiting"),
            function=json["function"],
            target=json.get("target", ""),
            bytes=json.get("bytes", 0),
            asked_at=_time(json.get("asked_at")),
            private_reads=tuple(FlowRead.of_json(each) for each in json.get("private_reads", ())),
            untrusted_reads=tuple(FlowRead.of_json(each) for each in json.get("untrusted_reads", ())),
        )


@dataclass(frozen=True)
class Secret:
    """A value that the service sends to these hosts only, in headers that policies name. It cannot be read back."""

    name: str
    hosts: Sequence[str] = ()
    updated_at: Optional[datetime.datetime] = None

    @classmethod
    def of_json(cls, json: Mapping[str, Any]) -> Secret:
        return cls(json["name"], tuple(json.get("hosts", ())), _time(json.get("updated_at")))


@dataclass(frozen=True)
class Finding:
    """A mistake in the text of a program, found before it runs.

    line, column: from 1; the column counts bytes of UTF-8. rule: of the type checker, or the error of the language's own parser.
    hint: how to fix it, may be "".
    """

    line: int
    column: int
    message: str
    rule: str = ""
    hint: str = ""

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}: {self.message} [{self.rule}]"

    @classmethod
    def of_json(cls, json: Mapping[str, Any]) -> Finding:
        place = json["place"]
        return cls(place["line"], place.get("column", 1), json["message"], json.get("rule", json["code"]), json.get("hint", ""))


@dataclass(frozen=True, repr=False)
class Result:
    """The result of a program.

    outcome: "ok", or how it ended otherwise ("raised", "out_of_fuel", "timed_out", "cancelled", "denied", …).
    text: the value of the last expression as text, "" if there is none. value: the same in all its forms.
    error: why it is not ok. fuel_used: exact, and the same on every machine. report: the whole report (docs/report.schema.json).
    In a session with receipts: receipt, the file of this turn, or unsealed, why a turn that ran has none.
    """

    outcome: str
    text: str
    stdout: str
    stderr: str
    value: Optional[Forms]
    displays: Sequence[Forms]
    error: Optional[ProgramError]
    exit_code: Optional[int]
    files: Sequence[FileInfo]
    fuel_used: int
    exec_id: str
    report: Mapping[str, Any] = field(repr=False)
    receipt: Optional[pathlib.Path] = None
    unsealed: Optional[MembraneError] = None

    @property
    def html(self) -> str:
        """The value as HTML, for example a table; "" if it has no such form."""
        return str(self.value["text/html"]) if self.value and "text/html" in self.value else ""

    @property
    def fuel(self) -> int:
        return self.fuel_used

    @property
    def findings(self) -> Sequence[Finding]:
        """Mistakes in the text: from Session.check(), or of a cell that did not run because its types are wrong."""
        errors = [self.report.get("error") or {}, *self.report.get("more_errors", ())]
        return tuple(Finding.of_json(each) for each in errors if "place" in each and "line" in each["place"])

    @property
    def ok(self) -> bool:
        """Whether the program ran to its end, and did not exit with a code other than 0."""
        return self.outcome == "ok" and not self.exit_code

    @property
    def stdout_bytes(self) -> bytes:
        """What the program printed, byte for byte, also if it is not UTF-8."""
        return bytes_of_output(self.report, "stdout")

    @property
    def stderr_bytes(self) -> bytes:
        return bytes_of_output(self.report, "stderr")

    def check(self) -> Result:
        """Returns itself if it is ok, and otherwise raises its error. After sys.exit(3) the error has the code "exit"."""
        if self.ok:
            return self
        raise self.error or ProgramError(
            f"the program ended as {self.outcome}", code=self.outcome, hint="", traceback="", result=self
        )

    def __repr__(self) -> str:
        return repr_of(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Mapping[str, str]:
        """For notebooks. What the program made runs no scripts there, and fetches nothing."""
        return bundle_of(self)

    @classmethod
    def of_report(
        cls,
        report: Mapping[str, Any],
        *,
        in_our_words: Callable[[str], str] = in_words_of_client,
        receipt: Optional[pathlib.Path] = None,
        unsealed: Optional[MembraneError] = None,
    ) -> Result:
        value = report.get("value")
        why = report.get("error")
        error = why and ProgramError(
            why["message"], code=why["code"], hint=in_our_words(why.get("hint", "")),
            traceback=why.get("traceback", ""), result=None,
        )  # fmt: skip
        if exit_code := report.get("exit_code"):
            said = f"the program exited with code {exit_code}"
            error = error or ProgramError(said, code="exit", hint="", traceback="", result=None)
        result = cls(
            outcome=report["outcome"],
            text=report.get("result", ""),
            stdout=report.get("stdout", ""),
            stderr=report.get("stderr", ""),
            value=None if value is None else forms_of(value),
            displays=[forms_of(each) for each in report.get("displays", ())],
            error=error or None,
            exit_code=report.get("exit_code"),
            files=[FileInfo.of_json(each) for each in report.get("files", ())],
            fuel_used=report.get("fuel_used", 0),
            exec_id=report.get("exec_id", ""),
            report=report,
            receipt=receipt,
            unsealed=unsealed,
        )
        if error:
            error.result = result
        return result


def bytes_of_output(report: Mapping[str, Any], name: str) -> bytes:
    exact = report.get(name + "_base64")
    return base64.b64decode(exact) if exact is not None else report.get(name, "").encode()


@dataclass(frozen=True)
class Event:
    """An event of a running program.

    kind: "stdout" or "stderr" (with `text`, and `data`, the same byte for byte), "display" (with `forms`), "approval" (with `approval`: a
    request waits for approval, or no longer waits), "result" (the last, with `result`).
    """

    kind: str
    text: str = ""
    forms: Optional[Forms] = None
    result: Optional[Result] = None
    approval: Optional[Approval] = None
    data: bytes = b""
