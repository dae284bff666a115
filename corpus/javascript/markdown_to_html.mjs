import fs from 'node:fs';

const escape = (s) => s.replace(/[&<>]/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;' })[c]);
const inline = (s) =>
  escape(s)
    .replace(/`([^`]+)`/g, '<code>$1</code>')
    .replace(/!\[([^\]]*)\]\(([^)]+)\)/g, '<img src="$2" alt="$1">')
    .replace(/\[([^\]]+)\]\((\S+?)(?: "[^"]*")?\)/g, '<a href="$2">$1</a>')
    .replace(/\*\*(.+?)\*\*/g, '<strong>$1</strong>')
    .replace(/\*(.+?)\*/g, '<em>$1</em>');

export function convert(source) {
  const out = [];
  let list = null, code = null, paragraph = [];
  const flush = () => {
    if (paragraph.length) out.push(`<p>${inline(paragraph.join(' '))}</p>`);
    if (list) out.push(`<${list.tag}>${list.items.map((i) => `<li>${inline(i)}</li>`).join('')}</${list.tag}>`);
    paragraph = [];
    list = null;
  };
  for (const line of source.split('\n')) {
    if (line.startsWith('```')) {
      flush();
      if (code) out.push(`<pre>${escape(code.join('\n'))}</pre>`);
      code = code ? null : [];
    } else if (code) code.push(line);
    else if (/^#{1,6} /.test(line)) {
      flush();
      const level = line.indexOf(' ');
      out.push(`<h${level}>${inline(line.slice(level + 1))}</h${level}>`);
    } else if (/^\s*([-*]|\d+\.) /.test(line)) {
      const tag = /^\s*\d/.test(line) ? 'ol' : 'ul';
      if (list?.tag !== tag) flush();
      (list ??= { tag, items: [] }).items.push(line.replace(/^\s*\S+ /, ''));
    } else if (line.startsWith('> ')) {
      flush();
      out.push(`<blockquote>${inline(line.slice(2))}</blockquote>`);
    } else if (line.trim()) paragraph.push(line.trim());
    else flush();
  }
  flush();
  return out.join('\n');
}

console.log(convert(fs.readFileSync('data/notes.md', 'utf8')));
