"""The attempts of one request: which failures are retried, after how long, and which are raised."""

from __future__ import annotations

import ssl
from typing import Any, Optional

import httpx

from ._errors import MembraneError, NotFoundError
from ._requests import RETRIED_STATUSES, Request, error_of_answer, error_of_certificate, error_of_transport, is_untrusted
from ._settings import Settings, wait_before_retry

_RETRIED_ERRORS = (httpx.NetworkError, httpx.RemoteProtocolError, httpx.ConnectTimeout)


class Attempts:
    def __init__(self, settings: Settings, is_gone_fine: bool = False) -> None:
        self._settings = settings
        self._is_gone_fine = is_gone_fine
        self._tries = 0

    def begin_again(self) -> None:
        """Resets the count of attempts, since part of the answer has arrived."""
        self._tries = 0

    def after_error(self, error: Optional[httpx.HTTPError]) -> float:
        """Returns the seconds to wait before the next attempt, or raises the failure. An error of None is an answer that was cut off."""
        self._tries += 1
        cut = httpx.RemoteProtocolError("the answer ended before its end") if error is None else error
        if is_untrusted(cut):
            raise _caused_by(error, error_of_certificate(cut, self._settings.url)) from None
        wait = wait_before_retry(self._tries, None)
        if not isinstance(cut, _RETRIED_ERRORS) or self._tries > self._settings.retries or wait is None:
            raise _caused_by(error, error_of_transport(cut, self._settings.url, self._settings.is_local)) from None
        return wait

    def after_answer(self, status: int, headers: httpx.Headers, body: bytes) -> Optional[float]:
        """Returns the seconds to wait before the next attempt, or None if the answer is good. Raises an error that is not retried."""
        if 200 <= status < 300:
            return None
        self._tries += 1
        error = error_of_answer(status, headers, body)
        if isinstance(error, NotFoundError) and self._is_gone_fine and self._tries > 1:
            return None
        wait = wait_before_retry(self._tries, headers.get("retry-after"))
        if status not in RETRIED_STATUSES or not error.retryable or self._tries > self._settings.retries or wait is None:
            raise error
        return wait


def _caused_by(cause: Optional[httpx.HTTPError], error: MembraneError) -> MembraneError:
    """The tracebacks of httpx, of which there are some for one failure, would hide what to do about it."""
    error._cause = cause
    return error


def client_options(settings: Settings, version: str) -> dict[str, Any]:
    """Options for httpx. Certificates are read only for TLS, since that takes longer than most requests."""
    is_tls = settings.url.startswith("https:")
    headers = {"User-Agent": f"membrane-python/{version}"}
    if settings.token:
        headers["Authorization"] = f"Bearer {settings.token}"
    return {
        "base_url": settings.url,
        "headers": headers,
        "timeout": settings.timeout_s,
        "verify": ssl.create_default_context() if is_tls else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        "trust_env": not settings.is_local,  # no proxy on the way to this machine
        "limits": httpx.Limits(max_connections=1000, max_keepalive_connections=20),
    }


def request_arguments(request: Request[Any]) -> dict[str, Any]:
    return {
        "method": request.method,
        "url": request.path,
        "content": request.body,
        "headers": dict(request.headers),
    }


def no_stream(content_type: str) -> Optional[MembraneError]:
    if content_type.startswith("text/event-stream"):
        return None
    return MembraneError(
        "the answer is not a stream of events",
        code="bad_answer",
        hint="Is it a Membrane service that answers at this URL?",
    )
