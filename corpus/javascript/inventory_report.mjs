import fs from 'fs';
import { inspect } from 'util';

const text = fs.readFileSync('data/inventory.tsv', 'utf8');
const [head, ...lines] = text.trimEnd().split('\n').map((l) => l.split('\t'));
const items = lines.map((cells) => Object.fromEntries(cells.map((c, i) => [head[i], /^[\d.]+$/.test(c) ? +c : c])));

console.table(items.slice(0, 4), ['sku', 'title', 'stock']);
const low = items.filter(({ stock, reorder_at }) => stock <= reorder_at);
console.log(inspect(low, { breakLength: 120, compact: true }));

const value = items.reduce((cents, { stock, price }) => cents + stock * Math.round(price * 100), 0);
console.log(`value: ${(value / 100).toFixed(2)} EUR`);
const byAisle = items.reduce((m, i) => m.set(i.location[0], [...(m.get(i.location[0]) ?? []), i.title]), new Map());
for (const [aisle, titles] of [...byAisle].sort()) console.log(aisle, titles.length, titles.sort().join(', '));
console.assert(byAisle.size > 0, 'never printed');
fs.writeFileSync('low.json', JSON.stringify(low.map(({ sku }) => sku)));
fs.appendFileSync('low.json', '\n');
console.log(fs.readFileSync('low.json', 'utf8').trim(), fs.statSync('low.json').size);
fs.unlinkSync('low.json');
console.log(fs.existsSync('low.json'));
