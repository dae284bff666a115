#!/usr/bin/env node
const fs = require('fs');
const { parseArgs } = require('util');

const { values, positionals } = parseArgs({
  args: process.argv.slice(2),
  options: {
    sort: { type: 'string', short: 's', default: 'name' },
    reverse: { type: 'boolean', short: 'r' },
    limit: { type: 'string', short: 'n' },
  },
  allowPositionals: true,
});
console.log({ ...values }, positionals);

const rows = positionals.map((file) => {
  const text = fs.readFileSync(file, 'utf8');
  return { name: file.split('/').pop(), lines: text.split('\n').length - 1, words: text.split(/\s+/).filter(Boolean).length, bytes: Buffer.byteLength(text) };
});
const key = values.sort;
rows.sort((a, b) => (typeof a[key] === 'number' ? a[key] - b[key] : a[key] < b[key] ? -1 : 1));
if (values.reverse) rows.reverse();
for (const r of rows.slice(0, values.limit ?? Infinity)) {
  process.stdout.write(`${String(r.lines).padStart(6)}${String(r.words).padStart(7)}${String(r.bytes).padStart(8)} ${r.name}\n`);
}
process.exitCode = 0;
