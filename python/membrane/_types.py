"""What the service's answers are to a program."""

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
"""Seconds; or text as "500ms", "30s", "10m", "1h", "2d"; or a timedelta."""

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
            raise ValueError(f'{duration!r} is no duration; write it as "500ms", "30s", "10m", "1h" or "2d"')
        return round(float(found[1]) * _UNITS_MS[found[2]])
    return round(duration * 1000)


def seconds(duration: Duration) -> int:
    """Whole ones, at least one where the duration is not 0."""
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
    """A sandbox as it stood when the service was asked."""

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
    """A file or directory; `kind` is "file", "directory", "link" or "other". Of a Linux sandbox also its permissions, and where a
    symbolic link leads."""

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
    """A change of a file that is watched."""

    kind: str
    path: str


@dataclass(frozen=True)
class Receipt:
    """What an exec did, sealed by the service: what `membrane verify` and `membrane replay` read.

    text can be shown to anybody; private_text has the code, what it was given, what the world answered, what it put out.
    """

    text: bytes
    private_text: bytes = field(repr=False)

    def save(self, path: Union[str, os.PathLike[str]]) -> None:
        """Writes both: the private one beside the other, as PATH.private, for the owner alone."""
        name = os.fspath(path)
        with open(os.open(name + ".private", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(self.private_text)
        with open(name, "wb") as file:
            file.write(self.text)


@dataclass(frozen=True)
class Snapshot:
    """A sandbox as it stood at one moment, kept.

    sandbox: the id of the one that it was made of; name: that of the template which it was promoted to, None before.
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
    """State and files of their own in a sandbox, beside those that are there from the start."""

    id: str
    template: str
    created_at: Optional[datetime.datetime] = None

    @classmethod
    def of_json(cls, json: Mapping[str, Any]) -> Context:
        return cls(json["id"], json["template"], _time(json.get("created_at")))


@dataclass(frozen=True)
class FlowRead:
    """What a program read before. call: the number of the request in its session; 0: its input."""

    call: int
    function: str
    target: str = ""

    @classmethod
    def of_json(cls, json: Mapping[str, Any]) -> FlowRead:
        return cls(json["call"], json["function"], json.get("target", ""))


@dataclass(frozen=True)
class Approval:
    """A request of a program that waits for a person's yes, as the trifecta rule of its policy asks.

    state: "waiting"; in events also what was decided: "approved", "refused", or "unanswered". function, target: what it is,
    as "http.request" and "POST https://example.org/"; bytes: how many it would send; private_reads, untrusted_reads: what
    the program had read.
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
    """A value that the service keeps for headers that policies name, and sends to these hosts alone. Nobody reads it again."""

    name: str
    hosts: Sequence[str] = ()
    updated_at: Optional[datetime.datetime] = None

    @classmethod
    def of_json(cls, json: Mapping[str, Any]) -> Secret:
        return cls(json["name"], tuple(json.get("hosts", ())), _time(json.get("updated_at")))


@dataclass(frozen=True)
class Finding:
    """What is wrong with the text of a program, before it runs.

    line, column: from 1, the column in bytes of UTF-8; rule: of the type checker, or the error of the language's own parser;
    hint: what would mend it, may be "".
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
    """What came of a program.

    outcome: "ok", or how it ended otherwise ("raised", "out_of_fuel", "timed_out", "cancelled", "denied", …);
    text: the value of the last expression as text, "" without one; value: that in all its forms;
    error: why it is not ok; fuel_used: exact, the same on every machine; report: everything, as the service gives it.
    Of a session with receipts: receipt, the file of this turn's; or unsealed, why it ran and has none.
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
        """The value as HTML, as of a table; "" where it has no such form."""
        return str(self.value["text/html"]) if self.value and "text/html" in self.value else ""

    @property
    def fuel(self) -> int:
        return self.fuel_used

    @property
    def findings(self) -> Sequence[Finding]:
        """Where the text is wrong: of Session.check(), and of a cell that did not run since its types are wrong."""
        errors = [self.report.get("error") or {}, *self.report.get("more_errors", ())]
        return tuple(Finding.of_json(each) for each in errors if "place" in each and "line" in each["place"])

    @property
    def ok(self) -> bool:
        """Whether it ran to its end, and did not end itself with an exit code other than 0."""
        return self.outcome == "ok" and not self.exit_code

    @property
    def stdout_bytes(self) -> bytes:
        """What it printed, byte for byte, also where that is no UTF-8."""
        return bytes_of_output(self.report, "stdout")

    @property
    def stderr_bytes(self) -> bytes:
        return bytes_of_output(self.report, "stderr")

    def check(self) -> Result:
        """Itself when it is ok; else raises its error. One that ended itself by sys.exit(3) has an error with the code "exit"."""
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
            said = f"the program ended itself with exit code {exit_code}"
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
    """A step of a program that runs.

    kind: "stdout" or "stderr" (then `text`, and `data`, the same byte for byte), "display" (then `forms`), "approval" (a request waits for a yes, or waits no
    more; then `approval`), "result" (the last; then `result`).
    """

    kind: str
    text: str = ""
    forms: Optional[Forms] = None
    result: Optional[Result] = None
    approval: Optional[Approval] = None
    data: bytes = b""
