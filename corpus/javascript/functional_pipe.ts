type Fn<A, B> = (a: A) => B;
function pipe<A, B>(a: A, ab: Fn<A, B>): B;
function pipe<A, B, C>(a: A, ab: Fn<A, B>, bc: Fn<B, C>): C;
function pipe<A, B, C, D>(a: A, ab: Fn<A, B>, bc: Fn<B, C>, cd: Fn<C, D>): D;
function pipe(a: unknown, ...fs: Fn<any, any>[]): unknown {
  return fs.reduce((x, f) => f(x), a);
}

const map = <A, B>(f: Fn<A, B>) => (xs: readonly A[]): B[] => xs.map(f);
const filter = <A>(p: (a: A) => boolean) => (xs: readonly A[]): A[] => xs.filter(p);
const sum = (xs: readonly number[]): number => xs.reduce((a, b) => a + b, 0);

console.log(pipe([1, 2, 3, 4, 5], filter((n) => n % 2 === 1), map((n) => n * n), sum));

const keys = <T extends object>(o: T) => Object.keys(o) as (keyof T)[];
const mapValues = <T extends Record<string, unknown>, U>(o: T, f: (v: T[keyof T], k: keyof T) => U) =>
  Object.fromEntries(keys(o).map((k) => [k, f(o[k], k)])) as { [K in keyof T]: U };
console.log(mapValues({ a: 1, b: 2 }, (v, k) => `${String(k)}${v}`));

type Lens<S, A> = { get: (s: S) => A; set: (a: A, s: S) => S };
const prop = <S, K extends keyof S>(k: K): Lens<S, S[K]> => ({ get: (s) => s[k], set: (a, s) => ({ ...s, [k]: a }) });
const over = <S, A>(l: Lens<S, A>, f: Fn<A, A>, s: S): S => l.set(f(l.get(s)), s);
interface Address { city: string; zip?: string }
interface Person { name: string; address: Address }
const mei: Person = { name: 'Mei', address: { city: 'Osaka' } };
const moved = over(prop<Person, 'address'>('address'), (a) => ({ ...a, city: 'Oslo' }), mei);
console.log(moved, mei.address.city, moved.address?.zip ?? 'no zip');

function overload(x: string): string[];
function overload(x: number): number;
function overload(x: string | number): string[] | number {
  return typeof x === 'string' ? [...x] : x * 2;
}
console.log(overload('ab'), overload(21));
let tuple: [x: number, y: string, ...rest: boolean[]] = [1, 'a', true, false];
const [n, , ...flags] = tuple;
console.log(n, flags, ((this_: void, ...xs: number[]) => xs.length)(undefined, 1, 2));
abstract class Base { abstract readonly id: string; describe(this: Base): string { return `<${this.id}>`; } }
console.log(new (class extends Base { readonly id = 'anon'; })().describe());
export type { Person };
