const text = require('node:fs').readFileSync('data/story.txt', 'utf8');

function wrap(paragraph, width) {
  const lines = [];
  let line = '';
  for (const word of paragraph.split(/\s+/).filter(Boolean)) {
    if (line && line.length + word.length + 1 > width) {
      lines.push(line);
      line = word;
    } else line += (line && ' ') + word;
  }
  if (line) lines.push(line);
  return lines;
}
const justify = (line, width) => {
  const words = line.split(' ');
  let gaps = words.length - 1, space = width - words.join('').length;
  return words.reduce((out, w, i) => {
    if (i === 0) return w;
    const n = Math.ceil(space / gaps);
    space -= n; gaps--;
    return out + ' '.repeat(n) + w;
  }, '');
};
const [first] = text.split('\n\n');
for (const line of wrap(first, 44)) console.log(`| ${justify(line, 44)} |`);

const title = (s) => s.replace(/\b\w/g, (c) => c.toUpperCase());
console.log(title('the clock of the old station'), 'x'.repeat(3), 'abc'.at(-1), 'abc'.charCodeAt(1), 'a-b-c'.split('-', 2), ' trim '.trim() + '|', ' t'.trimStart());
console.log('straße'.toUpperCase(), 'İ'.toLowerCase().length, [...'👩‍👩‍👧é'].length, 'é'.normalize('NFD').length, 'z'.localeCompare('a'), '\u0041', String.raw`a\nb`);
console.log('abc'.padStart(6, '12'), 'abc'.padEnd(6, '.'), 'abcabc'.lastIndexOf('b'), 'abc'.substring(2, 0), 'abc'.slice(-2), 'abc'.substr(1, 1), 'a,b'.concat('!', 1), 'b' > 'a');
const rot13 = (s) => s.replace(/[a-z]/gi, (c) => String.fromCharCode((c <= 'Z' ? 90 : 122) >= (c = c.charCodeAt(0) + 13) ? c : c - 26));
console.log(rot13('Hello, World!'), rot13(rot13('round trip')));
const csv = (rows) => rows.map((r) => r.map((c) => (/[",\n]/.test(c) ? `"${String(c).replaceAll('"', '""')}"` : c)).join(',')).join('\n');
console.log(csv([['name', 'note'], ['Costa, B.', 'said "hi"'], ['Ben', 5]]));
const slug = (s) => s.normalize('NFKD').replace(/[\u0300-\u036f]/g, '').toLowerCase().replace(/[^a-z0-9]+/g, '-').replace(/^-|-$/g, '');
console.log(slug('Café Élodie: Größe & Ruhm!'), encodeURIComponent('a b&c/é'), encodeURI('http://x/ä b'));
