"""Sandboxes for programs that a language model writes.

    from membrane import Sandbox

    with Sandbox.create(template="python") as sandbox:
        print(sandbox.run("sum(range(10))").text)

Sandbox waits for each answer; AsyncSandbox has the same methods, awaited.
"""

from ._async import AsyncExec, AsyncFiles, AsyncSandbox, AsyncStream
from ._errors import (
    BusyError,
    DeniedError,
    InvalidRequestError,
    MembraneError,
    NotFoundError,
    ProgramError,
    UnreachableError,
)
from ._sync import Exec, Files, Sandbox, Stream
from ._types import Duration, Event, FileEvent, FileInfo, Forms, Receipt, Result, SandboxInfo, Snapshot
from ._version import VERSION

__version__ = VERSION

__all__ = [
    "AsyncExec",
    "AsyncFiles",
    "AsyncSandbox",
    "AsyncStream",
    "BusyError",
    "DeniedError",
    "Duration",
    "Event",
    "Exec",
    "FileEvent",
    "FileInfo",
    "Files",
    "Forms",
    "InvalidRequestError",
    "MembraneError",
    "NotFoundError",
    "ProgramError",
    "Receipt",
    "Result",
    "Sandbox",
    "SandboxInfo",
    "Snapshot",
    "Stream",
    "UnreachableError",
]
