"""matplotlib, as it is imported here.

It finds its data beside its own file, and that is in an archive: the data is unpacked when it is first imported, and it
looks there. A figure that a program saves in a file is noted, so that it does not come back a second time, as a display.
"""

import functools
import importlib.machinery
import io
import os
import sys

from membrane import _imports

_ROOT = "/usr/local/lib/matplotlib"
# STIX is for formulas. The rest is fonts for formats, and toolbars.
_WANTED = ("matplotlibrc", "fonts/ttf/DejaVuSans", "fonts/ttf/STIX", "fonts/ttf/LastResort", "stylelib/")


class _Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != "matplotlib":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None or not hasattr(spec.loader, "archive"):
            return spec
        _unpack(spec.loader)
        spec.origin = f"{_ROOT}/__init__.pyc"
        os.environ.setdefault("MPLBACKEND", "agg")
        os.environ.setdefault("MPLCONFIGDIR", f"{_ROOT}/config")
        return spec


def _note_saved(module):
    """Has the backend note which of its figures are saved in files."""
    canvas = module.FigureCanvasAgg
    print_figure = canvas.print_figure

    @functools.wraps(print_figure)
    def print_and_note(self, filename, *arguments, **options):
        printed = print_figure(self, filename, *arguments, **options)
        if isinstance(filename, (str, os.PathLike)):
            self.figure.membrane_saved = True
        return printed

    canvas.print_figure = print_and_note
    module.show = _show


def _show(*_, **__):
    """pyplot.show(): the figures are displayed at the end of the turn, those that were saved, too."""
    pyplot = sys.modules["matplotlib.pyplot"]
    for number in pyplot.get_fignums():
        pyplot.figure(number).membrane_saved = False


def _unpack(loader):
    if os.path.isdir(f"{_ROOT}/mpl-data"):
        return
    import zipfile
    with zipfile.ZipFile(io.BytesIO(loader.get_data(f"{loader.archive}/matplotlib/mpl-data.zip"))) as archive:
        for name in archive.namelist():
            inside = name.removeprefix("mpl-data/")
            if not name.endswith("/") and inside.startswith(_WANTED):
                path = f"{_ROOT}/mpl-data/{inside}"
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "wb") as file:
                    file.write(archive.read(name))
    os.makedirs(f"{_ROOT}/config", exist_ok=True)


def install():
    sys.meta_path.insert(0, _Finder)
    _imports.when_imported("matplotlib.backends.backend_agg", _note_saved)
