"""What programs that use requests import of urllib3, where that package is not there: Retry, and the names of warnings."""

from . import exceptions, util
from .util import Retry

__all__ = ["Retry", "disable_warnings", "exceptions", "util"]

stands_in = True  # code that needs more of it needs the package


def disable_warnings(category=exceptions.HTTPWarning):
    import warnings
    warnings.simplefilter("ignore", category)


def __getattr__(name):
    if name.startswith("_"):
        raise AttributeError(f"module 'urllib3' has no attribute {name!r}")
    raise ModuleNotFoundError(f"No module named 'urllib3': of it there are Retry, exceptions and disable_warnings alone, and no {name}",
                              name="urllib3")
