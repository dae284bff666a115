type Constructor<T = {}> = new (...args: any[]) => T;

function Timestamped<B extends Constructor>(Base: B) {
  return class extends Base {
    created = new Date(Date.UTC(2024, 0, 1));
    age(now: Date): number { return (now.getTime() - this.created.getTime()) / 86_400_000; }
  };
}
function Tagged<B extends Constructor<{ name: string }>>(Base: B) {
  return class Tagged extends Base {
    #tags = new Set<string>();
    tag(...tags: string[]): this { tags.forEach((t) => this.#tags.add(t)); return this; }
    get label(): string { return `${this.name} #${[...this.#tags].join(' #')}`; }
  };
}
class Document_ {
  constructor(public name: string, private _size = 0) {}
  get size(): number { return this._size; }
  set size(v: number) { if (v < 0) throw new RangeError('negative size'); this._size = v; }
}
const Note = Tagged(Timestamped(Document_));
const note = new Note('todo', 3).tag('home', 'urgent');
note.size = 10;
console.log(note.label, note.size, note.age(new Date('2024-01-11T12:00:00Z')), note instanceof Document_);
try { note.size = -1; } catch (e) { console.log(String(e)); }

function logged<T extends (...args: any[]) => any>(f: T): (...args: Parameters<T>) => ReturnType<T> {
  return (...args) => {
    const result = f(...args);
    console.log(`${f.name}(${args.map((a) => JSON.stringify(a)).join(', ')}) = ${JSON.stringify(result)}`);
    return result;
  };
}
const add = logged(function add(a: number, b: number) { return a + b; });
add(1, 2);
const memo = new Map<string, unknown>();
function memoized<A extends unknown[], R>(f: (...a: A) => R) {
  return (...a: A): R => {
    const key = JSON.stringify(a);
    if (!memo.has(key)) memo.set(key, f(...a));
    return memo.get(key) as R;
  };
}
let calls = 0;
const slow = memoized((n: number): number => (calls++, n ** 3));
console.log(slow(3), slow(3), slow(4), calls);
interface Window_ { title: string }
interface Window_ { width: number }
const w: Window_ = { title: 'merged', width: 80 };
const dictionary: { [key: string]: number | undefined } = { one: 1 };
console.log(w, dictionary['two']?.toFixed(1), 'one' in dictionary, Object.assign(Object.create({ proto: true }), w).proto);
for (const key in { ...w, extra: 1 }) console.log(key);
