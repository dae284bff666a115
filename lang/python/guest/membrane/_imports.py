"""Modules of others that are changed when they are imported."""

import importlib.machinery
import importlib.util
import sys

_changes = {}  # by module name: called with the module when it has been created


def when_imported(name, change):
    """At once, where it is there already."""
    if name in sys.modules:
        return change(sys.modules[name])
    _changes[name] = change
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)


class _Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        change = _changes.get(name)
        if change is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, change)
        return spec


class _Loader:
    """The module's own loader, but for the change after it."""

    def __init__(self, loader, change):
        self._loader = loader
        self._change = change

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._change(module)


_stand_ins = {}  # by package name: the directory of its replacement


def stand_in(name, directory):
    """The directory is the package where nothing else is."""
    _stand_ins[name] = directory
    if _LastFinder not in sys.meta_path:
        sys.meta_path.append(_LastFinder)


class _LastFinder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        directory = _stand_ins.get(name)
        if directory is None:
            return None
        return importlib.util.spec_from_file_location(name, f"{directory}/__init__.py", submodule_search_locations=[directory])
