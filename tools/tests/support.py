"""Loads the tools, which are programs without a suffix, as modules; creates small projects to check."""

import contextlib
import importlib.util
import tempfile
from importlib.machinery import SourceFileLoader
from pathlib import Path

TOOLS = Path(__file__).resolve().parent.parent


def load(name: str):
    loader = SourceFileLoader(name.replace("-", "_") + "_tool", str(TOOLS / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


@contextlib.contextmanager
def project(files: dict[str, str]):
    """A directory with these files, removed afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        yield root
