"""What programs expect of files and users that WASI does not know: modes, an owner, a mask for new files.

Whoever unpacks an archive that was made here wants to read what is in it: a file has the mode 0644, a directory 0755.
"""

import os
import stat
import types

from membrane import _pools

_MODES = {stat.S_IFREG: 0o644, stat.S_IFDIR: 0o755, stat.S_IFLNK: 0o777, stat.S_IFCHR: 0o666}
_USER = 1000  # the owner of files; not 0, since root would try to give files away: tarfile does

_stat, _lstat, _fstat, _scandir = os.stat, os.lstat, os.fstat, os.scandir
_mask = 0o022


def _with_mode(result):
    """The same with what the system does not know; one that has a mode stays as it is."""
    mode = result.st_mode
    if mode & 0o7777:
        return result
    kind, (fields, named) = result.__reduce__()
    return kind((mode | _MODES.get(stat.S_IFMT(mode), 0), *fields[1:4], _USER, _USER, *fields[6:]), named)


def _stat_with_mode(path, *, dir_fd=None, follow_symlinks=True):
    return _with_mode(_stat(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks))


def _lstat_with_mode(path, *, dir_fd=None):
    return _with_mode(_lstat(path, dir_fd=dir_fd))


def _fstat_with_mode(fd):
    return _with_mode(_fstat(fd))


class DirEntry:
    """An entry of a directory, as os.scandir() gives it."""

    __slots__ = ("_entry", "name", "path", "is_dir", "is_file", "is_symlink", "is_junction", "inode")

    def __init__(self, entry):
        self._entry, self.name, self.path = entry, entry.name, entry.path
        self.is_dir, self.is_file, self.is_symlink, self.inode = entry.is_dir, entry.is_file, entry.is_symlink, entry.inode
        self.is_junction = getattr(entry, "is_junction", None)

    def stat(self, *, follow_symlinks=True):
        return _with_mode(self._entry.stat(follow_symlinks=follow_symlinks))

    __class_getitem__ = classmethod(types.GenericAlias)

    def __fspath__(self):
        return self.path

    def __repr__(self):
        return repr(self._entry)


class _Scan:
    """The iterator of a directory."""

    def __init__(self, entries):
        self._entries = entries

    def __iter__(self):
        return self

    def __next__(self):
        return DirEntry(next(self._entries))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._entries.close()

    def close(self):
        self._entries.close()


def _scandir_with_modes(path=None):
    return _Scan(_scandir(path))


def _umask(mask):
    global _mask
    before, _mask = _mask, mask & 0o777
    return before


def _user():
    return _USER


def _replacements():
    """(what has it, its name, what is put there)"""
    for name, bare, ours in (("stat", _stat, _stat_with_mode), ("lstat", _lstat, _lstat_with_mode),
                             ("fstat", _fstat, _fstat_with_mode), ("scandir", _scandir, _scandir_with_modes)):
        ours.__name__ = ours.__qualname__ = name
        ours.__module__, ours.__doc__ = "os", bare.__doc__
        for can in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
            if bare in can:
                can.add(ours)
        yield os, name, ours
    yield os, "DirEntry", DirEntry


def install():
    """Gives a function that takes it back, for tests."""
    DirEntry.__module__ = "os"
    for name, function in (("umask", _umask), ("getuid", _user), ("geteuid", _user), ("getgid", _user), ("getegid", _user)):
        if name not in vars(os):
            setattr(os, name, function)
    return _pools.put_in_place(_replacements())
