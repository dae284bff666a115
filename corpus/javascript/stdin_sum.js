const lines = require('fs').readFileSync(0, 'utf8').split('\n');
const totals = {};
let skipped = 0;
for (const line of lines) {
  if (!line.trim() || line.startsWith('#')) continue;
  const m = line.match(/^(.*)\s+(-?\d+(?:\.\d+)?)$/);
  if (!m) { skipped++; continue; }
  totals[m[1]] = (totals[m[1]] ?? 0) + Number(m[2]);
}
for (const [name, sum] of Object.entries(totals).sort((a, b) => b[1] - a[1])) console.log(name.padEnd(15) + sum.toFixed(2).padStart(10));
console.log('skipped', skipped);
