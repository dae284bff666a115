import fnmatch
import os
from collections import Counter
from pathlib import Path

root = "data/project"
total = 0
for folder, folders, files in os.walk(root):
    folders.sort()
    depth = folder[len(root):].count(os.sep)
    print("  " * depth + os.path.basename(folder) + "/")
    for name in sorted(files):
        size = os.path.getsize(os.path.join(folder, name))
        total += size
        print("  " * (depth + 1) + f"{name} ({size} bytes)")
print("total:", total)

project = Path(root)
print(sorted(p.relative_to(project).as_posix() for p in project.rglob("*.py")))
print(Counter(p.suffix for p in project.rglob("*") if p.is_file()))
for path in sorted(project.glob("**/*.py")):
    lines = path.read_text().splitlines()
    todo = [f"{n}: {line.strip()}" for n, line in enumerate(lines, 1) if "TODO" in line]
    print(f"{path.name:<14} {len(lines):>3} lines", *todo)
print(sorted(fnmatch.filter(os.listdir("data"), "*.csv")))
p = Path("data/project/src/../src/main.py")
print(p.stem, p.suffix, p.parent.name, p.exists(), p.is_dir(), p.with_suffix(".txt").name, p.parts[-2:])
print(os.path.normpath(str(p)), os.path.splitext("a/b.tar.gz"), os.path.relpath("data/project/src", "data/project/docs"))
try:
    Path("data/missing.txt").read_text()
except FileNotFoundError as e:
    print(type(e).__name__, e.filename, e.strerror)
