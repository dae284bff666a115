// The console's output, compared with Node's for the same values.
import assert from "node:assert";
import { Console } from "node:console";
import { readFileSync } from "node:fs";
import { Writable } from "node:stream";
import { test } from "node:test";
import util from "node:util";
import vm from "node:vm";
import { ofPromise } from "./prelude.mjs";

globalThis.__membrane_promise = ofPromise;
vm.runInThisContext(readFileSync(new URL("../inspect.js", import.meta.url), "utf8"), "membrane:inspect");
const { inspect, format, table } = globalThis.__membrane;

class Foo { constructor() { this.a = 1; } }
class Bar extends Foo { get x() { return 1; } }
class Items extends Array {}
const circle = { a: 1 };
circle.self = circle;
const bare = Object.create(null);
bare.a = 1;
const numbers = (count, of = (i) => i) => Array.from({ length: count }, (_, i) => of(i));

const kValues = [
  1, -0, "a'b", "a\nb", `a'"b`, null, undefined, true, 10n, Symbol("x"), [], {}, [1, 2, 3], [1, , 3], [undefined, null],
  { a: 1, "b-c": 2, [Symbol("s")]: 3 }, new Foo(), new Bar(), Foo, Bar, function f() {}, () => {}, async () => {}, function* g() {},
  new Map([["a", { b: 1 }], [1, 2]]), new Set([1, "a"]), new Date(0), new Date(NaN), /a\/b/gi, circle, [circle], bare,
  new Uint8Array(3), new Float64Array([1.5, 2]), new ArrayBuffer(3), { a: { b: { c: { d: 1 } } } }, [[[[1]]]],
  numbers(120), numbers(30, (i) => i * 37), numbers(30, (i) => "item" + i), numbers(8, (i) => ({ i })), numbers(101, () => "ab"),
  new Number(3), new String("abc"), Object(1n), new Boolean(false),
  { get a() { return 1; }, set a(v) {}, get b() { return 1; }, set c(v) {} }, { f() {}, g: class {} }, [new Foo()], new WeakMap(),
  new Items(3).fill(1), { a: "x".repeat(100), b: 1 }, { a: "x".repeat(70) }, Array(5), [, "a"], Object.assign([1, 2], { x: 1 }),
  Object.assign(() => {}, { x: 1 }), new Map(), new Set(), { a: [], b: {}, c: new Map() }, [1.5, -2, 3.25, 100, 2000, 3e10, 7],
  { name: "Ada", age: 36, tags: ["a", "b"], address: { city: "London", geo: { lat: 51.5, lon: -0.1 } } },
  [{ id: 1, name: "Alpha", value: 10.5 }, { id: 2, name: "Beta", value: 20.25 }, { id: 3, name: "Gamma", value: 30 }],
  Math, JSON, Reflect, (function () { return arguments; })(1, 2), "x".repeat(20), ["a".repeat(30), "b".repeat(30), "c".repeat(30)],
  new (class extends Map {})([[1, 2]]), { a: 1n, b: Symbol.iterator, c: null, d: undefined, e: [[]] }, [["a", 1], ["b", 2]],
  Object.fromEntries(numbers(30, (i) => ["key" + i, i])), [true, false, true, false, true, false, true, false],
  { valid_id: 1, $x: 2, "1a": 3, "": 4 }, [-1, -22, 333, 4, 5, 6, 7, 8, 9, 10], new Uint8Array(200), "\u0000\u001b é 漢",
  [["x", "y"], [["z"]]],
];

test("values are shown as Node shows them", () => {
  for (const value of kValues) assert.equal(inspect(value), util.inspect(value));
  for (const depth of [0, 1, null]) assert.equal(inspect(kValues, { depth }).length > 0, true);
  assert.equal(inspect({ a: { b: {} } }, { depth: 0 }), util.inspect({ a: { b: {} } }, { depth: 0 }));
});

test("what is empty is shown at any depth, and what is not by its class", () => {
  const more = [new Uint8Array(0), new ArrayBuffer(0), Object.create(null), new Items(), (function () { return arguments; })(),
                { [Symbol.toStringTag]: "Tag" }, Promise.resolve(), new (class extends Set {})()];
  for (const value of [...kValues, ...more])
    for (const deep of [{ a: { b: { c: value } } }, [[[value]]], new Map([[1, { a: [value] }]])]) assert.equal(inspect(deep), util.inspect(deep));
  for (const value of [[], {}, new Map(), [[]], { a: {} }])
    for (const depth of [-1, 0]) assert.equal(inspect(value, { depth }), util.inspect(value, { depth }));
});

test("formats are Node's", () => {
  const cases = [["%s %d %i %f %j %O %% %c.", "a", 1.5, "42.9", "1.5", { a: 1 }, { b: 2 }, "css", "rest", { c: 3 }], ["%s", { a: { b: 1 } }],
                 ["%s", [1, [2]]], ["%s", null, undefined], ["%d", "x"], ["100%", 1], ["%%"], ["%s"], [{ a: 1 }, "b"], ["a", "b", 1],
                 [], [""], ["", ""], [0, -0, NaN, 1e21, -1.5, "b", true, null, undefined, 1n, "%s", Symbol("x")], [1, "%d", 2], ["a\nb", [1]]];
  for (const values of cases) assert.equal(format(...values), util.format(...values));
});

test("tables are Node's", () => {
  const cases = [[[1, 2]], [[{ a: 1, b: "x" }, { a: 2, c: true }]], [{ x: { a: 1 }, y: { a: 2 } }], [[[1, 2], [3, 4]]], [new Map([["a", 1]])],
                 [new Set([1])], [[{ a: 1, b: 2 }], ["b"]], [5], [[{ a: { b: 1 } }, 3]]];
  for (const values of cases) {
    let expected = "";
    new Console(new Writable({ write(text, encoding, done) { expected += text; done(); } })).table(...values);
    // Older versions center their cells.
    const bare = (text) => text.replace(/ *│ */g, "│");
    assert.equal(bare(table(...values) + "\n"), bare(expected));
  }
});

test("errors are shown with what caused them", () => {
  const shown = inspect(Object.assign(new TypeError("no", { cause: new Error("why") }), { code: 5 }));
  for (const part of [/^TypeError: no\n/, /\[cause\]: Error: why/, /code: 5/]) assert.match(shown, part);
  assert.match(inspect({ error: new Error("x") }), /^\{\n  error: Error: x\n/);
});
