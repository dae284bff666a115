import { createReadStream, createWriteStream, readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { pipeline } from 'node:stream/promises';
import { Readable, Transform } from 'node:stream';

function parseLine(line) {
  const cells = [];
  let cell = '', quoted = false;
  for (let i = 0; i < line.length; i++) {
    const c = line[i];
    if (quoted) {
      if (c === '"' && line[i + 1] === '"') { cell += '"'; i++; }
      else if (c === '"') quoted = false;
      else cell += c;
    } else if (c === '"') quoted = true;
    else if (c === ',') { cells.push(cell); cell = ''; }
    else cell += c;
  }
  return [...cells, cell].map((s) => s.trim());
}

const rows = [];
let header;
for await (const line of createInterface({ input: createReadStream('data/messy.csv', { encoding: 'utf8' }) })) {
  const cells = parseLine(line);
  if (!header) header = cells.map((h) => h.toLowerCase());
  else rows.push(Object.fromEntries(header.map((h, i) => [h, cells[i]])));
}
console.log(header, rows.length);
console.log(rows[1], rows[4].name);

const upper = new Transform({
  objectMode: true,
  transform(row, _, done) { done(null, `${row.name.toUpperCase()};${Number.parseFloat(row.income.replace(/[ ,]/g, '')) || 0}\n`); },
});
await pipeline(Readable.from(rows), upper, createWriteStream('clean.csv'));
console.log(readFileSync('clean.csv', 'utf8'));
