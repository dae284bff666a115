"""The service's URL, the caller's token, and how often a request is tried."""

from __future__ import annotations

import email.utils
import ipaddress
import os
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Optional
from urllib.parse import urlsplit

from ._errors import MembraneError

USUAL_URL = "http://127.0.0.1:7400"
MOST_WAIT_S = 30.0  # if a service asks for a longer wait, the request fails


@dataclass(frozen=True)
class Settings:
    url: str
    token: str
    timeout_s: float
    retries: int

    @property
    def is_local(self) -> bool:
        return _is_loopback(self.url)


def settings(url: Optional[str], token: Optional[str], timeout: float, retries: int) -> Settings:
    """Uses the arguments, or MEMBRANE_URL and MEMBRANE_TOKEN, or the service of this machine with the token that it left."""
    url = (url or os.environ.get("MEMBRANE_URL") or USUAL_URL).rstrip("/")
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise MembraneError(f"{url!r} is not the URL of a service", code="invalid_url", hint=f"Write it as {USUAL_URL}.")
    token = token or os.environ.get("MEMBRANE_TOKEN") or (_token_of_this_machine() if _is_loopback(url) else "")
    return Settings(url, token, timeout, retries)


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _token_of_this_machine() -> str:
    state = os.environ.get("XDG_STATE_HOME", "")
    folder = Path(state) if state.startswith("/") else Path.home() / ".local" / "state"
    try:
        return (folder / "membrane" / "service" / "owner.token").read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def wait_before_retry(tries: int, retry_after: Optional[str]) -> Optional[float]:
    """Returns the seconds to wait after this many tries; None if that is too long."""
    wait = min(0.1 * 2.0 ** (tries - 1), 5.0) * random.uniform(0.5, 1.0)
    if retry_after is None:
        return wait
    asked = seconds_of(retry_after)
    if asked is None:
        return wait
    return None if asked > MOST_WAIT_S else max(asked, 0.0)


def seconds_of(retry_after: str) -> Optional[float]:
    text = retry_after.strip()
    if text.isascii() and text.isdigit() and len(text) < 10:
        return float(text)
    try:
        return email.utils.parsedate_to_datetime(text).timestamp() - time.time()
    except (TypeError, ValueError, OverflowError):
        return None
