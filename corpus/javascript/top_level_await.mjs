import { setTimeout as sleep } from 'node:timers/promises';
import { EventEmitter, once } from 'node:events';
import os from 'node:os';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import path from 'node:path';

const started = performance.now();
const value = await sleep(20, 'slept');
console.log(value, performance.now() - started >= 15);

const emitter = new EventEmitter();
queueMicrotask(() => emitter.emit('ready', 1, 2));
console.log(await once(emitter, 'ready'));

console.log(path.basename(fileURLToPath(import.meta.url)), typeof os.platform(), os.EOL === '\n', process.argv.length >= 2);
const { default: assert } = await import('node:assert/strict');
assert.deepEqual({ a: [1] }, { a: [1] });

const results = await Promise.all([1, 2, 3].map(async (n) => { await sleep(5 - n); return n * n; }));
console.log(results, typeof process.env, typeof process.hrtime.bigint(), process.cwd().startsWith('/'));
export const done = true;
console.log(typeof require === 'undefined', this === undefined);
