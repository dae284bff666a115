import gzip
import io
import os
import shutil
import tarfile
import tempfile
import zipfile
from pathlib import Path

with tempfile.TemporaryDirectory() as folder:
    folder = Path(folder)
    shutil.copytree("data/project", folder / "copy")
    (folder / "copy" / "src" / "extra.txt").write_text("hello\n" * 100)

    archive = folder / "project.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as z:
        for path in sorted((folder / "copy").rglob("*")):
            if path.is_file():
                z.write(path, path.relative_to(folder))
        z.writestr("made.txt", "in memory")
    with zipfile.ZipFile(archive) as z:
        print(z.testzip(), len(z.namelist()))
        for info in z.infolist():
            print(f"  {info.filename:<28}{info.file_size:>6}", "smaller" if info.compress_size < info.file_size else "")
        print(z.read("made.txt").decode())
        z.extractall(folder / "out")
    print(sorted(p.name for p in (folder / "out").iterdir()))

    with tarfile.open(folder / "p.tar.gz", "w:gz") as t:
        t.add(folder / "copy" / "src", arcname="src")
    with tarfile.open(folder / "p.tar.gz") as t:
        print(sorted(t.getnames()))

    name = shutil.make_archive(str(folder / "all"), "zip", folder / "copy")
    print(os.path.basename(name), zipfile.is_zipfile(name))
    shutil.rmtree(folder / "copy")
    print(sorted(os.listdir(folder)))
    kept = folder
print("gone:", not kept.exists())

raw = b"the level is rising " * 200
packed = gzip.compress(raw, mtime=0)
print(len(packed) < len(raw) // 20, gzip.decompress(packed) == raw)
with gzip.open(io.BytesIO(packed), "rt") as f:
    print(f.read(12))
fd, path = tempfile.mkstemp(suffix=".txt")
os.write(fd, b"x" * 10)
os.close(fd)
print(os.stat(path).st_size, path.endswith(".txt"))
os.remove(path)
