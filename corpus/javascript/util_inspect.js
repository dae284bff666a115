const util = require('util');

console.log(util.inspect({ a: { b: { c: { d: 1 } } }, list: Array.from({ length: 120 }, (_, i) => i) }, { depth: 1 }));
console.log(util.inspect({ a: { b: { c: { d: 1 } } } }, false, null), util.inspect('it\'s'), util.inspect([[], {}, [[]]], { compact: false }));
console.log(util.format('%s is %d years, %i, %f, %j, %o %%', 'Mei', 9, 9.7, '1.50', { a: 1 }, [1]), util.format('no args', 1, { x: 2 }));
console.log('%s has %d', 'tail', 3, 'more', { x: 1 });
console.log({ undefined: undefined, null: null, f() {}, g: () => 1, s: Symbol('x'), [Symbol('key')]: 1, get y() { return 1; }, set y(v) {}, date: new Date(0), re: /a/g, err: new RangeError('no').message });
console.log([1.0, -0, 'a\nb', "it's", `"both" 'kinds'`, true, 10n], new Map([['k', { v: [1] }]]), new Set(['a']), [undefined, , 3]);
console.log({ 'key with space': 1, valid_id: 2, 3: 4 }, Object.create(null), new (class Foo { x = 1; })(), Object.create({ inherited: 1 }), new Proxy({ p: 1 }, {}));
console.log('a long array of words', ['alpha', 'beta', 'gamma', 'delta', 'epsilon', 'zeta', 'eta', 'theta', 'iota', 'kappa', 'lambda', 'mu']);
console.log({ name: 'a rather long property value that fills the line', other: 'another long value so that it wraps', n: { deep: { deeper: { deepest: 1 } } } });
console.log(util.isDeepStrictEqual({ a: [1, { b: 2 }] }, { a: [1, { b: 2 }] }), util.types.isDate(new Date()), util.inspect(new Error('boom')).split('\n')[0]);
class Money { constructor(v) { this.v = v; } [util.inspect.custom]() { return `Money<${this.v}>`; } }
console.log(new Money(5), [new Money(1)], { m: new Money(2) });
const sleep = util.promisify((ms, cb) => setTimeout(() => cb(null, 'slept ' + ms), ms));
sleep(3).then(console.log);
console.group('group');
console.log('indented\ntwice');
console.groupEnd();
console.log('%c styled', 'color: red');
console.table([{ a: 1, b: 'x' }, { a: 2, c: true }]);
console.table([[1, 2], [3, 4]]);
console.dir({ a: { b: { c: {} } } }, { depth: 0 });
console.log(new Array(5), [1, , , 4], new Array(3).fill(), process.version.startsWith('v'), [function () {}, class A {}, class B extends Array {}]);
console.log(Promise.resolve(4), new WeakSet(), globalThis === global, new Int8Array(3), new ArrayBuffer(2), [new Date(NaN)]);
console.log([['a', 1], ['b', 2]], { a: [{ b: 1 }, { c: [{}] }] }, 'end', null, undefined);
