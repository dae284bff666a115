"""What programs import of IPython to show things: IPython.display. There is no shell of IPython here."""

from . import display

__all__ = ["display", "get_ipython", "version_info"]

version_info = (9, 0, 0, "")  # the version whose interface this follows
__version__ = "9.0.0"


def get_ipython():
    """None: the program runs in no shell of IPython."""
    return None
