const text = `Order #1042 from 2024-03-05: 3 x Ink (EUR 9.60), 1 x Pen (EUR 34.50).
Order #1043 from 2024-03-07: 12 x Paper (EUR 14.25).`;

for (const m of text.matchAll(/Order #(?<id>\d+) from (?<date>[\d-]+): (?<rest>.*)\./g)) {
  const items = [...m.groups.rest.matchAll(/(\d+) x (\w+) \(EUR ([\d.]+)\)/g)].map(([, n, name, p]) => ({ n: +n, name, p: +p }));
  console.log(m.groups.id, m.groups.date, items, items.reduce((s, i) => s + i.n * i.p, 0).toFixed(2), m.index);
}
console.log(text.replace(/(\d{4})-(\d\d)-(\d\d)/g, '$3.$2.$1').split('\n')[0]);
console.log('some-kebab-case'.replace(/-(\w)/g, (_, c) => c.toUpperCase()), 'CamelCaseName'.replace(/(?<!^)[A-Z]/g, '_$&').toLowerCase());
console.log('1234567.891'.replace(/\B(?=(\d{3})+(?!\d)\.)/g, ','), 'a1b22c333'.split(/(\d+)/), '2024-05-14'.match(/^(\d+)-(\d+)/));
console.log(/^[\w.+-]+@[\w-]+\.[\w.]+$/.test('ines+news@example.org'), 'aBc'.search(/[A-Z]/), /a.c/s.test('a\nc'), /\u{1F642}/u.test('🙂'));
console.log('naïve Привет 世界 42'.match(/\p{L}+/gu), 'x'.match(/y/), 'tel: +49 30 555'.replaceAll(/\D/g, ''), 'price: €5'.match(/(?<=€)\d/)[0]);
const sticky = /\d+|[-+*/()]|\s+/y;
const tokens = [];
const source = '12 + (3*45)';
for (let m; (m = sticky.exec(source)); ) if (m[0].trim()) tokens.push(m[0]);
console.log(tokens, sticky.lastIndex, new RegExp('a{2,}', 'gi').flags, String(/x\/y/));
const { indices } = /b(c)/d.exec('abcd');
console.log(indices[1], 'John Smith'.replace(/(?<f>\w+) (?<l>\w+)/, '$<l>, $<f>'));
try {
  new RegExp("[");
} catch (e) {
  console.log(e.name);
}
