"""Sandboxes for programs that a language model writes.

    from membrane import Sandbox

    with Sandbox.create(template="python") as sandbox:
        print(sandbox.run("sum(range(10))").text)

Sandbox waits for each answer; AsyncSandbox has the same methods, awaited. They use a service. Session and AsyncSession are the
same in this process, with functions of this program:

    from membrane import Session

    with Session("python", functions={"price": lambda item: 350}) as session:
        print(session.run("price('tea') * 2").text)
"""

from ._agents import EgressQuestion, FlowReads, Flows, Model, ModelAnswer, ModelRequest, Receipts
from ._async import (
    AsyncApprovals,
    AsyncContexts,
    AsyncExec,
    AsyncFiles,
    AsyncSandbox,
    AsyncSecrets,
    AsyncSnapshots,
    AsyncStream,
)
from ._check import TypeCheck
from ._embedded import Call, Session, SessionFiles, SessionOverError, load, open_language
from ._embedded_async import AsyncCall, AsyncSession
from ._errors import (
    BusyError,
    DeniedError,
    InvalidRequestError,
    MembraneError,
    NotFoundError,
    ProgramError,
    UnreachableError,
)
from ._functions import LATER, FunctionCall, Object
from ._install import install
from ._pool import AsyncPool, Pool
from ._stubs import stubs
from ._sync import Approvals, Contexts, Exec, Files, Sandbox, Secrets, Snapshots, Stream
from ._types import (
    Approval,
    Context,
    Duration,
    Event,
    FileEvent,
    FileInfo,
    Finding,
    FlowRead,
    Forms,
    Receipt,
    Result,
    SandboxInfo,
    Secret,
    Snapshot,
    TerminalSize,
)
from ._version import VERSION

__version__ = VERSION

__all__ = [
    "Approval",
    "Approvals",
    "AsyncCall",
    "AsyncPool",
    "AsyncSession",
    "Call",
    "FunctionCall",
    "LATER",
    "Object",
    "Pool",
    "Session",
    "SessionFiles",
    "SessionOverError",
    "TypeCheck",
    "install",
    "load",
    "open_language",
    "stubs",
    "AsyncApprovals",
    "AsyncContexts",
    "AsyncExec",
    "AsyncFiles",
    "AsyncSandbox",
    "AsyncSecrets",
    "AsyncSnapshots",
    "AsyncStream",
    "BusyError",
    "Context",
    "Contexts",
    "DeniedError",
    "EgressQuestion",
    "FlowReads",
    "Flows",
    "Model",
    "ModelAnswer",
    "ModelRequest",
    "Receipts",
    "Duration",
    "Event",
    "Exec",
    "FileEvent",
    "FileInfo",
    "Files",
    "Finding",
    "FlowRead",
    "Forms",
    "InvalidRequestError",
    "MembraneError",
    "NotFoundError",
    "ProgramError",
    "Receipt",
    "Result",
    "Sandbox",
    "SandboxInfo",
    "Secret",
    "Secrets",
    "Snapshot",
    "Snapshots",
    "Stream",
    "TerminalSize",
    "UnreachableError",
]
