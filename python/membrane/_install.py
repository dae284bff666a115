"""Installs languages for sessions, from the registries of pip and npm, into the user's data directory, and checks the SHA-256 of each file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Callable, List, Optional

from ._embedded import open_language
from ._errors import MembraneError

# The project's tools/get-languages, which the wheel has beside this file.
_SCRIPT = Path(__file__).with_name("_get_languages.py")


def install(*languages: str, directory: Optional[str] = None, on_progress: Optional[Callable[[str], None]] = None) -> None:
    """Installs "python" and "js", or only those that are named, unless they are already installed and whole. Then makes their warm images,
    which takes a minute or two the first time. `directory`: used instead of $MEMBRANE_LANGUAGES or the user's data directory."""
    if not _SCRIPT.exists():
        raise MembraneError("this installation of membrane has no engine, so no languages", code="no_engine", hint="Install a wheel.")
    tell = on_progress or (lambda step: None)
    words = [sys.executable, str(_SCRIPT), *languages]
    if directory is not None:
        words += ["--directory", directory]
        os.environ["MEMBRANE_LANGUAGES"] = directory
    said: List[str] = []
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            said.append(line.strip().removeprefix("get-languages: "))
            tell(said[-1])
    if process.returncode != 0:
        raise MembraneError(
            said[-1] if said else "the languages could not be installed",
            code="unavailable",
            hint="Python is fetched by pip, and JavaScript by npm: both must reach their registry.",
        )
    for language in languages or ("python", "js"):
        open_language(language, on_progress=on_progress)
