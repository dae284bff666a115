import io
import os
import pathlib
import shutil
import stat
import tarfile
import tempfile
import unittest
import unittest.mock
import zipfile

from membrane import _files


def _without_mode(result):
    kind, (fields, named) = result.__reduce__()
    return kind((stat.S_IFMT(fields[0]), *fields[1:]), named)


class _BareEntry:
    def __init__(self, entry):
        self._entry = entry

    def __getattr__(self, name):
        return getattr(self._entry, name)

    def stat(self, *, follow_symlinks=True):
        return _without_mode(self._entry.stat(follow_symlinks=follow_symlinks))


class Modes(unittest.TestCase):
    """Over a system that knows no modes, as WASI is."""

    def setUp(self):
        for name in ("stat", "lstat", "fstat"):
            bare = getattr(os, name)
            self.patch(f"_{name}", lambda *given, bare=bare, **named: _without_mode(bare(*given, **named)))
        scandir = os.scandir
        self.patch("_scandir", lambda path: _Closing(map(_BareEntry, scandir(path))))
        self.addCleanup(_files.install())
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "d").mkdir()
        (self.root / "d" / "f").write_text("text")
        (self.root / "l").symlink_to("d/f")

    def patch(self, name, value):
        patch = unittest.mock.patch.object(_files, name, value)
        patch.start()
        self.addCleanup(patch.stop)

    def test_files_and_directories_have_modes(self):
        self.assertEqual(oct(os.stat(self.root / "d" / "f").st_mode), "0o100644")
        self.assertEqual(os.stat(self.root / "d" / "f").st_uid, 1000)
        self.assertEqual(oct((self.root / "d").stat().st_mode), "0o40755")
        self.assertEqual(oct(os.lstat(self.root / "l").st_mode), "0o120777")
        self.assertEqual(oct((self.root / "l").stat().st_mode), "0o100644")
        with open(self.root / "d" / "f") as file:
            self.assertEqual(oct(os.fstat(file.fileno()).st_mode), "0o100644")
            self.assertEqual(os.fstat(file.fileno()).st_mtime_ns, os.stat(self.root / "d" / "f").st_mtime_ns)
        with self.assertRaises(FileNotFoundError):
            os.stat(self.root / "nothing")

    def test_entries_of_a_directory_have_them_too(self):
        with os.scandir(self.root) as entries:
            found = {entry.name: entry for entry in entries}
        self.assertEqual({name: oct(entry.stat(follow_symlinks=False).st_mode) for name, entry in found.items()},
                         {"d": "0o40755", "l": "0o120777"})
        self.assertIsInstance(found["d"], os.DirEntry)
        self.assertIs(os.DirEntry[str].__origin__, os.DirEntry)
        self.assertEqual((found["d"].is_dir(), found["l"].is_file(), os.fspath(found["d"])), (True, True, str(self.root / "d")))
        self.assertEqual(sorted(names for _, _, names in os.walk(self.root)), [["f"], ["l"]])
        self.assertEqual(sorted(self.root.rglob("f")), [self.root / "d" / "f"])

    def test_archives_can_be_read_where_they_are_unpacked(self):
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            archive.add(self.root / "d", "d")
        packed.seek(0)
        with tarfile.open(fileobj=packed) as archive:
            self.assertEqual([(m.name, oct(m.mode)) for m in archive], [("d", "0o755"), ("d/f", "0o644")])
        made = shutil.make_archive(self.root / "made", "zip", self.root / "d")
        with zipfile.ZipFile(made) as archive:
            self.assertEqual(oct(archive.getinfo("f").external_attr >> 16), "0o100644")

    def test_trees_are_copied_and_removed(self):
        shutil.copytree(self.root / "d", self.root / "copy")
        shutil.rmtree(self.root / "copy")
        self.assertFalse((self.root / "copy").exists())


class _Closing:
    def __init__(self, entries):
        self._entries = entries

    def __next__(self):
        return next(self._entries)

    def close(self):
        pass


class Users(unittest.TestCase):
    def test_a_user_and_a_mask_exist_where_the_system_has_none(self):
        names = ("umask", "getuid", "geteuid", "getgid", "getegid")
        before = {name: getattr(os, name) for name in names}
        for name in names:
            delattr(os, name)
        try:
            self.addCleanup(_files.install())
            self.assertEqual((os.getuid(), os.geteuid(), os.getgid(), os.getegid()), (1000, 1000, 1000, 1000))
            self.assertEqual((os.umask(0o077), os.umask(0o022)), (0o022, 0o077))
        finally:
            for name, function in before.items():
                setattr(os, name, function)


if __name__ == "__main__":
    unittest.main()
