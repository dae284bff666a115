"""The names of IPython.display, where older programs look for them."""

from IPython.display import *  # noqa: F403
from IPython.display import __all__  # noqa: F401
