"""The package's exceptions. Each says what was found, how to fix it, and whether a retry can help."""

from __future__ import annotations

from typing import Any, Optional

from ._hints import in_words_of_client


class MembraneError(Exception):
    """The base class of all errors.

    code: stable, for programs. hint: how to fix it, may be "". request_id: the service's, for its log; "" when no service answered.
    retryable: whether the same request can succeed later. status: of HTTP, None when no service answered.
    cause: the exception that caused it, or None. A traceback leaves out one of the connection, which `message` quotes.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str,
        hint: str = "",
        request_id: str = "",
        retryable: bool = False,
        status: Optional[int] = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.hint = hint
        self.request_id = request_id
        self.retryable = retryable
        self.status = status
        self._cause: Optional[BaseException] = None

    @property
    def cause(self) -> Optional[BaseException]:
        return self._cause or self.__cause__

    def __str__(self) -> str:
        text = f"{self.message} ({self.code})"
        if self.hint:
            text += f"\n  hint: {self.hint}"
        if self.request_id:
            text += f"\n  request: {self.request_id}"
        return text


class UnreachableError(MembraneError):
    """No service answered or the connection was cut (code "unreachable"), it did not answer in time ("timed_out"), or its certificate
    is not trusted here ("untrusted")."""


class DeniedError(MembraneError):
    """401 or 403: the token is missing, unknown or expired, or does not allow this."""


class NotFoundError(MembraneError):
    """404: the sandbox, file or other resource does not exist, or no longer exists."""


class InvalidRequestError(MembraneError):
    """Another 4xx: a value is refused, or the request does not fit the state of the resource."""


class BusyError(MembraneError):
    """429 or 503, even after the retries: a quota is used up, or the service is fully loaded.

    retry_after_s: the seconds after which it can succeed, according to the service. None if the service names no time, as for a quota
    that is only freed by ending something; such errors are not retried, and not retryable.
    """

    retry_after_s: Optional[float] = None


class ProgramError(MembraneError):
    """The program failed; raised by Result.check(). `result` has the details."""

    def __init__(self, message: str, *, code: str, hint: str, traceback: str, result: Any) -> None:
        super().__init__(message, code=code, hint=hint)
        self.traceback = traceback
        self.result = result

    def __str__(self) -> str:
        return f"{super().__str__()}\n{self.traceback}" if self.traceback else super().__str__()


def error_of_status(status: int, code: str, message: str, hint: str, request_id: str, retryable: bool) -> MembraneError:
    kind = MembraneError
    if status in (401, 403):
        kind = DeniedError
    elif status == 404:
        kind = NotFoundError
    elif status in (429, 503):
        kind = BusyError
    elif 400 <= status < 500:
        kind = InvalidRequestError
    message, hint = in_words_of_client(message), in_words_of_client(hint)
    return kind(message, code=code, hint=hint, request_id=request_id, retryable=retryable, status=status)
