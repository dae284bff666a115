import { readFile, writeFile, mkdir, readdir, stat } from 'node:fs/promises';
import path from 'node:path';

const orders = JSON.parse(await readFile('data/orders.json', 'utf8'));

const total = ({ items, discount, shipping }) =>
  items.reduce((sum, { qty, price }) => sum + qty * price, 0) * (1 - (discount ?? 0) / 100) + shipping.cost;

const summary = {};
for (const order of orders) {
  const group = (summary[order.status] ??= { count: 0, total: 0 });
  group.count++;
  group.total += total(order);
}
for (const [status, { count, total: sum }] of Object.entries(summary).sort()) {
  console.log(`${status.padEnd(10)} ${String(count).padStart(3)} ${sum.toFixed(2).padStart(10)}`);
}

const bySku = new Map();
orders.flatMap((o) => o.items).forEach(({ sku, qty }) => bySku.set(sku, (bySku.get(sku) ?? 0) + qty));
console.log(new Map([...bySku].sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0])).slice(0, 4)));

const out = 'out';
await mkdir(out, { recursive: true });
const lines = ['order_id,total', ...orders.slice(0, 5).map((o) => `${o.order_id},${total(o).toFixed(2)}`)];
await writeFile(path.join(out, 'totals.csv'), lines.join('\n') + '\n');
await writeFile(path.join(out, 'summary.json'), JSON.stringify(summary, (k, v) => (typeof v === 'number' ? Math.round(v * 100) / 100 : v), 2));

for (const name of (await readdir(out)).sort()) {
  const { size } = await stat(path.join(out, name));
  console.log(name, size);
}
console.log(await readFile(path.join(out, 'totals.csv'), 'utf8'));

try {
  await readFile('data/nothing.json');
} catch (error) {
  console.log(error.code, error.message);
}
