const text = require('fs').readFileSync('data/story.txt', 'utf8');

const counts = new Map();
for (const [word] of text.toLowerCase().matchAll(/[a-z']+/g)) counts.set(word, (counts.get(word) ?? 0) + 1);
console.log(counts.size, 'different words');
const top = [...counts].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1)).slice(0, 6);
console.log(new Map(top));

const long = new Set([...counts.keys()].filter((w) => w.length > 8));
const rare = new Set([...counts].filter(([, n]) => n === 1).map(([w]) => w));
const both = new Set([...long].filter((w) => rare.has(w)));
console.log(long.size, rare.size, both.size, [...both].sort().slice(0, 3));

class DefaultMap extends Map {
  constructor(make, entries) {
    super(entries);
    this.make = make;
  }
  get(key) {
    if (!this.has(key)) this.set(key, this.make());
    return super.get(key);
  }
}
const byLetter = new DefaultMap(() => []);
for (const w of both) byLetter.get(w[0]).push(w);
console.log([...byLetter.keys()].sort().join(''));
console.log(new Set([1, 'a', { x: 1 }, [2]]), new Map([[{ k: 1 }, 'object key'], ['s', new Map([[1, 2]])]]));

const cache = new WeakMap();
const key = {};
cache.set(key, 42);
console.log(cache.get(key), cache.has({}), new Set('mississippi').size, new Map(Object.entries({ a: 1 })).get('a'));
const m = new Map([['x', 1]]);
m.forEach((v, k) => console.log(k, v));
m.delete('x');
console.log(m.size, m);
