const fs = require('fs');
const path = require('path');

function parseCsv(text) {
  const [header, ...lines] = text.trim().split('\n');
  const names = header.split(',');
  return lines.map((line) => {
    const cells = line.split(',');
    return Object.fromEntries(names.map((name, i) => [name, cells[i]]));
  });
}

const file = path.join('data', 'sales.csv');
const rows = parseCsv(fs.readFileSync(file, 'utf8')).map((r) => ({
  ...r,
  units: Number(r.units),
  unit_price: parseFloat(r.unit_price),
}));

console.log(`${path.basename(file)}: ${rows.length} rows`);

const byRegion = rows.reduce((acc, r) => {
  acc[r.region] ??= { orders: 0, units: 0, revenue: 0 };
  acc[r.region].orders += 1;
  acc[r.region].units += r.units;
  acc[r.region].revenue += r.units * r.unit_price;
  return acc;
}, {});

console.table(
  Object.entries(byRegion)
    .sort(([, a], [, b]) => b.revenue - a.revenue)
    .map(([region, v]) => ({ region, ...v, revenue: Number(v.revenue.toFixed(2)) })),
);

const months = new Map();
for (const r of rows) {
  const month = r.date.slice(0, 7);
  months.set(month, (months.get(month) ?? 0) + r.units * r.unit_price);
}
for (const [month, revenue] of [...months].sort()) {
  console.log(month, revenue.toFixed(2).padStart(9), '#'.repeat(Math.round(revenue / 150)));
}

const best = rows.toSorted((a, b) => b.units * b.unit_price - a.units * a.unit_price)[0];
console.log('Largest order:', best);
