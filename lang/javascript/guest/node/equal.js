// Deep comparison, for node:assert and node:util.
globalThis.__membrane.factories.set("internal/equal", (exports) => {
  "use strict";
  const tag = (value) => Object.prototype.toString.call(value);
  const isBox = (value) =>
    ["[object Number]", "[object String]", "[object Boolean]", "[object BigInt]", "[object Symbol]"].includes(
      tag(value),
    ) && typeof value === "object";
  const enumerable = (object, name) => Object.prototype.propertyIsEnumerable.call(object, name);

  class Comparison {
    constructor(isStrict) {
      this.isStrict = isStrict;
      this.pairs = []; // pairs being compared: when met again, they count as equal
    }
    same(a, b) {
      if (a === b) return a !== 0 || !this.isStrict || Object.is(a, b);
      const areObjects = typeof a === "object" && a !== null && typeof b === "object" && b !== null;
      if (!areObjects) return this.primitives(a, b);
      if (this.isStrict && Object.getPrototypeOf(a) !== Object.getPrototypeOf(b)) return false;
      if (tag(a) !== tag(b) || Array.isArray(a) !== Array.isArray(b)) return false;
      for (const [x, y] of this.pairs) if (x === a && y === b) return true;
      if (this.pairs.length > 2000) throw new RangeError("Maximum call stack size exceeded");
      this.pairs.push([a, b]);
      try {
        return this.objects(a, b);
      } finally {
        this.pairs.pop();
      }
    }
    primitives(a, b) {
      if (this.isStrict) return typeof a === "number" && Number.isNaN(a) && Number.isNaN(b);
      if (a === null || typeof a !== "object") {
        if (b !== null && typeof b === "object") return false;
        // eslint-disable-next-line eqeqeq
        return a == b || (Number.isNaN(a) && Number.isNaN(b));
      }
      return false;
    }
    objects(a, b) {
      if (a instanceof Date) {
        if (!(b instanceof Date) || !Object.is(a.getTime(), b.getTime())) return false;
      } else if (a instanceof RegExp) {
        if (String(a) !== String(b) || a.lastIndex !== b.lastIndex) return false;
      } else if (a instanceof Error) {
        for (const name of ["message", "name", "cause", "errors"]) if (!this.same(a[name], b[name])) return false;
      } else if (ArrayBuffer.isView(a)) {
        if (!this.views(a, b)) return false;
      } else if (a instanceof ArrayBuffer) {
        if (!this.views(new Uint8Array(a), new Uint8Array(b))) return false;
      } else if (a instanceof Set) {
        if (a.size !== b.size || !this.sets(a, b)) return false;
      } else if (a instanceof Map) {
        if (a.size !== b.size || !this.maps(a, b)) return false;
      } else if (isBox(a)) {
        if (!isBox(b) || !Object.is(a.valueOf(), b.valueOf())) return false;
      } else if (a instanceof WeakMap || a instanceof WeakSet || a instanceof Promise) {
        return false;
      }
      return this.properties(a, b);
    }
    views(a, b) {
      if (a.byteLength !== b.byteLength) return false;
      if (a instanceof Float32Array || a instanceof Float64Array) {
        for (let i = 0; i < a.length; ++i) if (this.isStrict ? !Object.is(a[i], b[i]) : a[i] !== b[i]) return false;
        return true;
      }
      const x = new Uint8Array(a.buffer, a.byteOffset, a.byteLength),
        y = new Uint8Array(b.buffer, b.byteOffset, b.byteLength);
      for (let i = 0; i < x.length; ++i) if (x[i] !== y[i]) return false;
      return true;
    }
    sets(a, b) {
      const left = [...b].filter((value) => !a.has(value));
      for (const value of a) {
        if (b.has(value)) continue;
        if (this.isStrict && (value === null || typeof value !== "object")) return false;
        const at = left.findIndex((other) => this.same(value, other));
        if (at < 0) return false;
        left.splice(at, 1);
      }
      return true;
    }
    maps(a, b) {
      const left = [...b].filter(([key]) => !a.has(key));
      for (const [key, value] of a) {
        if (b.has(key)) {
          if (!this.same(value, b.get(key))) return false;
          continue;
        }
        if (this.isStrict && (key === null || typeof key !== "object")) return false;
        const at = left.findIndex(([other, otherValue]) => this.same(key, other) && this.same(value, otherValue));
        if (at < 0) return false;
        left.splice(at, 1);
      }
      return true;
    }
    properties(a, b) {
      const isView = ArrayBuffer.isView(a);
      const keysOf = (object) =>
        isView ? Object.keys(object).filter((key) => !/^(?:0|[1-9]\d*)$/.test(key)) : Object.keys(object);
      const keys = keysOf(a);
      if (Array.isArray(a) && a.length !== b.length) return false;
      if (keys.length !== keysOf(b).length || !keys.every((key) => Object.hasOwn(b, key) && enumerable(b, key)))
        return false;
      if (this.isStrict) {
        const symbols = Object.getOwnPropertySymbols(a).filter((symbol) => enumerable(a, symbol));
        if (symbols.length !== Object.getOwnPropertySymbols(b).filter((symbol) => enumerable(b, symbol)).length)
          return false;
        for (const symbol of symbols) if (!enumerable(b, symbol) || !this.same(a[symbol], b[symbol])) return false;
      }
      return keys.every((key) => this.same(a[key], b[key]));
    }
  }

  // Whether `actual` contains everything in `expected`.
  function isPart(actual, expected) {
    if (expected === null || typeof expected !== "object" || actual === null || typeof actual !== "object")
      return new Comparison(true).same(actual, expected);
    if (expected instanceof Map)
      return (
        actual instanceof Map &&
        [...expected].every(([key, value]) => actual.has(key) && isPart(actual.get(key), value))
      );
    if (expected instanceof Set)
      return actual instanceof Set && [...expected].every((value) => [...actual].some((other) => isPart(other, value)));
    if (tag(actual) !== tag(expected)) return false;
    if (Array.isArray(expected)) {
      let from = 0;
      return expected.every((value) => {
        while (from < actual.length && !isPart(actual[from], value)) ++from;
        return from++ < actual.length;
      });
    }
    const names = Reflect.ownKeys(expected).filter((name) => enumerable(expected, name));
    return names.length === 0 && !["[object Object]"].includes(tag(expected))
      ? new Comparison(true).same(actual, expected)
      : names.every((name) => Object.hasOwn(actual, name) && isPart(actual[name], expected[name]));
  }

  Object.assign(exports, {
    isDeepEqual: (a, b) => new Comparison(false).same(a, b),
    isDeepStrictEqual: (a, b) => new Comparison(true).same(a, b),
    isPart,
  });
});
