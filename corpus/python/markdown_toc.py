import re
from pathlib import Path

text = Path("data/notes.md").read_text(encoding="utf-8")

# Take fenced code out first, so that its # comments are no headings
code_blocks = re.findall(r"```(\w*)\n(.*?)```", text, re.S)
body = re.sub(r"```.*?```", "", text, flags=re.S)

print("Contents")
for marks, title in re.findall(r"^(#{1,6})\s+(.+)$", body, re.M):
    anchor = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
    print("  " * (len(marks) - 1) + f"- [{title}](#{anchor})")

tasks = re.findall(r"^(\s*)- \[([ x])\] (.+)$", body, re.M)
done = sum(mark == "x" for _, mark, _ in tasks)
print(f"\nTasks: {done} of {len(tasks)} done")
for indent, mark, name in tasks:
    print(f"{'  ' * (len(indent) // 2)}{'✔' if mark == 'x' else '✘'} {name}")

print("\nLinks")
for bang, label, url in re.findall(r"(!?)\[([^\]]*)\]\(([^)\s]+)[^)]*\)", body):
    print(f"  {'image' if bang else 'link'}: {label} -> {url}")

rows = [[c.strip() for c in line.strip("|").split("|")] for line in re.findall(r"^\|.+\|$", body, re.M)]
header, _, *records = rows
print("\nTable:", [dict(zip(header, r)) for r in records])
print("Code:", [(lang, len(code.splitlines())) for lang, code in code_blocks])
