const counter = (() => {
  let n = 0;
  return { next: () => ++n, reset() { n = 0; }, get value() { return n; } };
})();
counter.next();
counter.next();
console.log(counter.value, counter);

const memoize = (f, cache = new Map()) => (n) => cache.has(n) ? cache.get(n) : (cache.set(n, f(n)), cache.get(n));
const fib = memoize((n) => (n < 2 ? BigInt(n) : fib(n - 1) + fib(n - 2)));
console.log(fib(150), typeof fib(3));

const compose = (...fs) => (x) => fs.reduceRight((acc, f) => f(acc), x);
const curry = (f) => function curried(...args) {
  return args.length >= f.length ? f(...args) : (...more) => curried(...args, ...more);
};
const add = curry((a, b, c) => a + b + c);
console.log(compose((x) => x + 1, (x) => x * 2)(5), add(1)(2)(3), add(1, 2)(3));

function debounceLog(label, ...rest) {
  return `${label}:${arguments.length}:${rest}`;
}
console.log(debounceLog('a', 1, 2), debounceLog.length, debounceLog.name, (() => {}).name, debounceLog.bind(null, 'x')());

var functions = [];
for (let i = 0; i < 3; i++) functions.push(() => i);
console.log(functions.map((f) => f()));

const person = {
  name: 'Mei',
  greet() { return `I am ${this.name}`; },
  later() { return [1].map(() => this.name)[0]; },
};
const { greet } = person;
console.log(person.greet(), person.later(), greet.call({ name: 'Otto' }), greet.apply({ name: 'Lena' }));

function once(f) {
  let done = false, result;
  return (...args) => (done ? result : ((done = true), (result = f(...args))));
}
const init = once((x) => { console.log('initialised'); return x; });
console.log(init(1), init(2));
const tag = (strings, ...values) => strings.raw.map((s, i) => s + (values[i] !== undefined ? `<${values[i]}>` : '')).join('');
console.log(tag`a ${1 + 1} b ${'c'}\n`, ((a, b = a * 2, { c = 3 } = {}) => [a, b, c])(1), console.log.name);
console.log(add, class Foo {}, Math.max, Symbol('s'), [function named() {}]);
