'use strict';
const fs = require('node:fs');
const readline = require('node:readline');

const LINE = /^(?<ip>\S+) \S+ \S+ \[(?<time>[^\]]+)\] "(?<method>[A-Z]+) (?<path>\S+) [^"]*" (?<status>\d{3}) (?<size>\d+)/;

async function main() {
  const counts = { status: {}, path: {}, ip: {} };
  let bytes = 0;
  let lines = 0;
  const rl = readline.createInterface({ input: fs.createReadStream('data/access.log'), crlfDelay: Infinity });
  for await (const line of rl) {
    const m = LINE.exec(line);
    if (!m) continue;
    lines++;
    const { ip, path, status, size } = m.groups;
    bytes += Number(size);
    for (const [key, value] of [['status', status], ['path', path.split('?')[0]], ['ip', ip]]) {
      counts[key][value] = (counts[key][value] || 0) + 1;
    }
  }
  console.log(`${lines} requests, ${(bytes / 1024).toFixed(1)} KiB`);
  for (const key of Object.keys(counts)) {
    console.log(`\n${key}`);
    Object.entries(counts[key])
      .sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0]))
      .slice(0, 5)
      .forEach(([value, n]) => console.log(`${String(n).padStart(5)}  ${value}`));
  }
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
