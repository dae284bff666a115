"""Membrane: what a program may do beyond computing.

    from membrane import http, kv
    page = http.get("https://example.org/")

Each capability is a module: http, kv, fs, sql, ai, … . `help(http)` describes one, and `membrane.modules()` lists all.
A call that no grant allows raises a PermissionError, whose text names the grant.

`display(value)` shows a value beside the result of the cell; `membrane.chart` draws without other libraries.
"""

from membrane._capabilities import modules
from membrane._display import display
from membrane._door import Error
from membrane._functions import HostError

__all__ = ["Error", "HostError", "display", "modules"]


def __getattr__(name):
    if not name.startswith("_"):
        if name == "chart":
            import membrane.chart
            return membrane.chart
        try:
            if name in modules():
                return modules()[name]
        except Error as error:
            raise AttributeError(f"membrane.{name} is not available: {error}") from None
    raise AttributeError(f"module 'membrane' has no attribute {name!r}")


def __dir__():
    try:
        return sorted({*globals(), "chart", *modules()})
    except Error:
        return sorted({*globals(), "chart"})
