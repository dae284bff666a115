"""matplotlib finds its data beside its own file, and that is in an archive: so it is told that it stands elsewhere, where
the data is unpacked when it is first imported.
"""

import importlib.machinery
import io
import os
import sys

_ROOT = "/usr/local/lib/matplotlib"
_WANTED = ("matplotlibrc", "fonts/ttf/DejaVuSans", "fonts/ttf/LastResort", "stylelib/")  # the rest is fonts of formats and toolbars


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
