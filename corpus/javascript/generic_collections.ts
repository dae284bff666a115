class Stack<T> implements Iterable<T> {
  #items: T[] = [];
  push(...items: T[]): this { this.#items.push(...items); return this; }
  pop(): T | undefined { return this.#items.pop(); }
  peek(): T | undefined { return this.#items.at(-1); }
  get size(): number { return this.#items.length; }
  *[Symbol.iterator](): Iterator<T> { for (let i = this.#items.length - 1; i >= 0; i--) yield this.#items[i]; }
}

interface Node_<K, V> { key: K; value: V; left: Node_<K, V> | null; right: Node_<K, V> | null }

class TreeMap<K, V> {
  private root: Node_<K, V> | null = null;
  constructor(private compare: (a: K, b: K) => number = (a, b) => (a < b ? -1 : a > b ? 1 : 0)) {}
  set(key: K, value: V): void {
    const insert = (node: Node_<K, V> | null): Node_<K, V> => {
      if (!node) return { key, value, left: null, right: null };
      const c = this.compare(key, node.key);
      if (c < 0) node.left = insert(node.left);
      else if (c > 0) node.right = insert(node.right);
      else node.value = value;
      return node;
    };
    this.root = insert(this.root);
  }
  get(key: K): V | undefined {
    let node = this.root;
    while (node) {
      const c = this.compare(key, node.key);
      if (c === 0) return node.value;
      node = c < 0 ? node.left : node.right;
    }
    return undefined;
  }
  *entries(node: Node_<K, V> | null = this.root): Generator<[K, V]> {
    if (!node) return;
    yield* this.entries(node.left);
    yield [node.key, node.value];
    yield* this.entries(node.right);
  }
}

class Cache<K extends string, V = number> {
  private readonly map: Map<K, V> = new Map();
  constructor(private readonly capacity: number, private readonly load: (key: K) => V) {}
  get(key: K): V {
    const hit = this.map.get(key);
    if (hit !== undefined) {
      this.map.delete(key);
      this.map.set(key, hit);
      return hit;
    }
    const value = this.load(key);
    this.map.set(key, value);
    if (this.map.size > this.capacity) this.map.delete(this.map.keys().next().value!);
    return value;
  }
  keys(): K[] { return [...this.map.keys()]; }
}

const stack = new Stack<number>().push(1, 2, 3);
console.log(stack.pop(), stack.peek(), stack.size, [...stack]);
const tree = new TreeMap<string, number>();
for (const [i, word] of 'the quick brown fox jumps over the lazy dog'.split(' ').entries()) tree.set(word, i);
console.log([...tree.entries()].map(([k, v]) => `${k}=${v}`).join(' '), tree.get('fox'), tree.get('cat'));
let loads = 0;
const cache = new Cache<string>(2, (key) => { loads++; return key.length; });
for (const key of ['a', 'bb', 'a', 'ccc', 'bb', 'a']) cache.get(key);
console.log(loads, cache.keys());

function pluck<T, K extends keyof T>(items: T[], key: K): T[K][] { return items.map((i) => i[key]); }
type Partial2<T> = { [P in keyof T]?: T[P] };
function merge<A extends object, B extends object>(a: A, b: B): A & B { return { ...a, ...b }; }
const patch: Partial2<{ x: number; y: string }> = { y: 'set' };
console.log(pluck([{ n: 1, s: 'a' }, { n: 2, s: 'b' }], 's'), merge({ x: 1 }, patch));
const identity = <T,>(x: T): T => x;
console.log(identity<string>('generic'), [3, 1, 2].sort((a: number, b: number): number => a - b));
