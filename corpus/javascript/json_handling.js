const value = {
  date: new Date(Date.UTC(2024, 4, 14, 12, 30)),
  nested: { list: [1, 'two', null, undefined, () => 0], nan: NaN, inf: -Infinity },
  skip: undefined,
  map: new Map([['a', 1]]),
  toBig: 12345678901234567890n.toString(),
  text: 'quote " backslash \\ newline \n ünïcode \u2028',
};
console.log(JSON.stringify(value));
console.log(JSON.stringify(value, ['nested', 'list'], '--'));
console.log(JSON.stringify({ m: new Map([['k', 2]]), s: new Set([1]) }, (k, v) => (v instanceof Map ? Object.fromEntries(v) : v instanceof Set ? [...v] : v), 2));

const parsed = JSON.parse('{"when":"2024-05-14T12:30:00.000Z","n":1e3,"deep":[{"x":[]}]}', (k, v) =>
  typeof v === 'string' && /^\d{4}-\d\d-\d\dT/.test(v) ? new Date(v) : v);
console.log(parsed, parsed.when instanceof Date);

for (const bad of ['{"a":1,}', "{'a':1}", '[1, 2', 'undefined', '']) {
  try {
    JSON.parse(bad);
  } catch (e) {
    console.log(bad, '->', e.name);
  }
}
const loop = { name: 'loop' };
loop.self = loop;
try {
  JSON.stringify(loop);
} catch (e) {
  console.log(e.name, e.message.split('\n')[0]);
}
console.log(loop);
try { JSON.stringify({ n: 1n }); } catch (e) { console.log(e.message); }

const copy = structuredClone({ d: new Date(0), m: new Map([[1, { a: 1 }]]), e: new RangeError('r'), r: /x/g, b: new Uint8Array(2) });
console.log(copy.d.getTime(), copy.m.get(1), copy.e.message, copy.r.flags, copy.b);
const flatten = (o, p = '') => Object.entries(o).flatMap(([k, v]) => v && typeof v === 'object' ? flatten(v, `${p}${k}.`) : [[p + k, v]]);
console.log(Object.fromEntries(flatten({ a: { b: { c: 1 } }, d: [5, { e: 6 }] })));
