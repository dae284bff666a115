"""A small Markdown converter: headings, lists, quotes, code, inline marks."""
import html
import re


def inline(text):
    text = html.escape(text, quote=False)
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", text)
    text = re.sub(r"!\[([^\]]*)\]\(([^)]+)\)", r'<img src="\2" alt="\1">', text)
    text = re.sub(r"\[([^\]]+)\]\((\S+?)(?:\s+\"[^\"]*\")?\)", r'<a href="\2">\1</a>', text)
    text = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", text)
    return re.sub(r"\*(.+?)\*", r"<em>\1</em>", text)


def convert(source):
    out, paragraph, items, code = [], [], [], None

    def flush():
        if paragraph:
            out.append(f"<p>{inline(' '.join(paragraph))}</p>")
            paragraph.clear()
        if items:
            out.append("<ul>" + "".join(f"<li>{inline(i)}</li>" for i in items) + "</ul>")
            items.clear()

    for line in source.splitlines():
        if line.startswith("```"):
            flush()
            if code is None:
                code = []
            else:
                out.append("<pre>" + html.escape("\n".join(code)) + "</pre>")
                code = None
        elif code is not None:
            code.append(line)
        elif m := re.match(r"(#+) (.*)", line):
            flush()
            out.append(f"<h{len(m[1])}>{inline(m[2])}</h{len(m[1])}>")
        elif m := re.match(r"\s*[-*] (.*)", line):
            items.append(m[1])
        elif line.startswith("> "):
            flush()
            out.append(f"<blockquote>{inline(line[2:])}</blockquote>")
        elif line.strip():
            paragraph.append(line.strip())
        else:
            flush()
    flush()
    return "\n".join(out)


with open("data/notes.md") as f:
    print(convert(f.read()))
