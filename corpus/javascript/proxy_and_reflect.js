const log = [];
const observed = new Proxy({ a: 1 }, {
  get(target, key, receiver) { log.push(`get ${String(key)}`); return Reflect.get(target, key, receiver) ?? `no ${String(key)}`; },
  set(target, key, value) {
    if (typeof value !== 'number') throw new TypeError(`${key} must be a number`);
    log.push(`set ${key}=${value}`);
    target[key] = value;
    return true;
  },
  has: (target, key) => key.startsWith('_') ? false : key in target,
  deleteProperty(target, key) { log.push(`delete ${key}`); return delete target[key]; },
  ownKeys: (target) => Reflect.ownKeys(target).filter((k) => !k.startsWith('_')),
});
observed.b = 2;
observed._hidden = 3;
console.log(observed.a, observed.zzz, 'a' in observed, '_hidden' in observed, Object.keys(observed));
try { observed.c = 'x'; } catch (e) { console.log(e.message); }
delete observed.a;
console.log(log);

const frozen = Object.freeze({ list: [1], n: 1 });
(() => { 'use strict'; try { frozen.n = 2; } catch (e) { console.log(e.name); } })();
frozen.list.push(2);
console.log(frozen, Object.isFrozen(frozen), Object.getOwnPropertyDescriptor(frozen, 'n'));

const o = Object.defineProperty({}, 'secret', { value: 42, enumerable: false });
console.log(o, o.secret, JSON.stringify(o), Object.getOwnPropertyNames(o));
const id = Symbol('id');
const withSymbol = { [id]: 7, x: 1, ...{ y: 2 } };
console.log(withSymbol, withSymbol[id], Symbol.for('app') === Symbol.for('app'), id.description, Object.hasOwn(withSymbol, 'x'));
console.log(Reflect.construct(Date, [0]).getTime(), Reflect.ownKeys({ b: 1, a: 2, 1: 3 }), typeof Reflect.getPrototypeOf([]));
label: for (let i = 0; i < 3; i++) { for (let j = 0; j < 3; j++) { if (j === 1) continue label; if (i === 2) break label; console.log(i, j); } }
const { a: { b: deep = 'default' } = {}, ...others } = { c: 1, d: 2 };
console.log(deep, others, typeof null, typeof undefined, void 0, [] + {}, [1, 2] == '1,2', null ?? 'x', 0 || 'y', '' ?? 'z');
