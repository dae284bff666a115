function* naturals(from = 1) { while (true) yield from++; }
const take = (n, it) => { const out = []; for (const x of it) { if (out.length >= n) break; out.push(x); } return out; };
function* map(f, it) { for (const x of it) yield f(x); }
function* filter(p, it) { for (const x of it) if (p(x)) yield x; }

console.log(take(5, filter((x) => x % 3 === 0, map((x) => x * x, naturals()))));

function* permutations(list) {
  if (list.length <= 1) { yield list; return; }
  for (let i = 0; i < list.length; i++) {
    for (const rest of permutations([...list.slice(0, i), ...list.slice(i + 1)])) yield [list[i], ...rest];
  }
}
console.log([...permutations('abc')].map((p) => p.join('')));

class Tree {
  constructor(value, left, right) { Object.assign(this, { value, left, right }); }
  *[Symbol.iterator]() {
    if (this.left) yield* this.left;
    yield this.value;
    if (this.right) yield* this.right;
  }
}
console.log([...new Tree(4, new Tree(2, new Tree(1)), new Tree(6))]);

function* accumulator() {
  let total = 0;
  try {
    while (true) total += yield total;
  } catch (e) {
    console.log('caught', e.message);
    yield -1;
  } finally {
    console.log('cleaned up');
  }
}
const acc = accumulator();
acc.next();
console.log(acc.next(5).value, acc.next(7).value, acc.throw(new Error('stop')), acc.return(9), acc.next());

const primes = function* () {
  const composites = new Map();
  for (let n = 2; ; n++) {
    const factors = composites.get(n);
    if (!factors) { yield n; composites.set(n * n, [n]); continue; }
    for (const f of factors) composites.set(n + f, [...(composites.get(n + f) ?? []), f]);
    composites.delete(n);
  }
};
console.log(take(15, primes()), Object.prototype.toString.call(acc), naturals().next());
