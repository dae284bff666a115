import { readFileSync } from 'node:fs';
import { basename } from 'node:path';

enum Level { DEBUG, INFO, WARNING, ERROR }
interface Entry { when: Date; level: Level; source: string; message: string; trace: string[] }

function* read(file: string): Generator<Entry> {
  let current: Entry | undefined;
  for (const line of readFileSync(file, { encoding: 'utf8' }).split('\n')) {
    const m = /^(\S+ \S+),(\d{3}) (\w+)\s+\[([^\]]+)\] (.*)$/.exec(line);
    if (m) {
      if (current) yield current;
      current = { when: new Date(`${m[1].replace(' ', 'T')}.${m[2]}Z`), level: Level[m[3] as keyof typeof Level], source: m[4], message: m[5], trace: [] };
    } else if (line.trim() && current) current.trace.push(line);
  }
  if (current) yield current;
}

const file = process.argv[2] ?? 'data/app.log';
const entries = [...read(file)];
console.log(`${basename(file)}: ${entries.length} entries`);
const counts = entries.reduce<Partial<Record<keyof typeof Level, number>>>((acc, e) => {
  const name = Level[e.level] as keyof typeof Level;
  acc[name] = (acc[name] ?? 0) + 1;
  return acc;
}, {});
console.log(counts);

const errors = entries.filter((e) => e.level >= Level.ERROR);
console.log(errors.slice(0, 2).map(({ when, message, trace }) => ({ at: when.toISOString(), message, trace: trace.length })));
const durations = entries.map((e) => e.message.match(/in (\d+) ms/)?.[1]).filter((x): x is string => !!x).map(Number).sort((a, b) => a - b);
const percentile = (p: number) => durations[Math.min(durations.length - 1, Math.ceil((p / 100) * durations.length) - 1)];
console.log(`p50 ${percentile(50)} ms, p90 ${percentile(90)} ms, max ${durations.at(-1)} ms`);
const perMinute = new Map<string, number>();
for (const e of entries) {
  const key = e.when.toISOString().slice(11, 16);
  perMinute.set(key, (perMinute.get(key) ?? 0) + 1);
}
for (const [minute, n] of perMinute) console.log(minute, '*'.repeat(n), n);
