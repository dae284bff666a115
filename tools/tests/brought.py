"""Other projects' clients, fetched from their registries once for all tests of a checkout: below build/clients, each under a name
that follows from what it holds. Tests run them and write nothing there.

Any number of tests may ask at the same time: each makes its own copy, and the first to be whole is the one that stays.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

KEPT = Path(__file__).resolve().parents[2] / "build" / "clients"
SECONDS = 600  # a client of a registry that needs more hangs


class NotBrought(Exception):
    """Why something is not available, as a sentence."""


def virtual_environment(*requirements: str) -> Path:
    """The interpreter of a virtual environment with these requirements of pip."""
    def make(folder: Path) -> None:
        ran("pip", [sys.executable, "-m", "venv", folder])
        ran("pip", [folder / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements])

    # Scripts in it name their interpreter by its whole path, so what is moved is run as `python -m NAME`.
    return kept("python", (sys.version, *requirements), make) / "bin" / "python"


def node_modules(*packages: str) -> Path:
    """The node_modules with these packages of npm. A program finds them that has a link of this name beside it."""
    def make(folder: Path) -> None:
        if not shutil.which("npm") or not shutil.which("node"):
            raise NotBrought("there is no npm")
        (folder / "package.json").write_text('{"private": true}')
        ran("npm", ["npm", "install", "--no-audit", "--no-fund", *packages], cwd=folder)

    return kept("node", packages, make) / "node_modules"


def kept(kind: str, words: tuple[str, ...], make: Callable[[Path], None]) -> Path:
    """The folder that `make` fills, which is made when nobody has made it before."""
    KEPT.mkdir(parents=True, exist_ok=True)
    place = KEPT / f"{kind}-{hashlib.sha256(repr(words).encode()).hexdigest()[:16]}"
    if place.is_dir():
        return place
    with tempfile.TemporaryDirectory(dir=KEPT, ignore_cleanup_errors=True) as made:
        folder = Path(made) / "whole"
        folder.mkdir()
        make(folder)
        try:
            folder.rename(place)
        except OSError:
            if not place.is_dir():
                raise
    return place


def ran(what: str, command: list, **options) -> None:
    done = subprocess.run([os.fspath(word) for word in command], capture_output=True, text=True, timeout=SECONDS, check=False,
                          **options)
    if done.returncode != 0:
        raise NotBrought(f"{what} could not bring them: {(done.stdout + done.stderr).strip()[-400:]}")
