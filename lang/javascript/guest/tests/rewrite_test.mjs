// The rewriting of a cell's text.
import assert from "node:assert";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import vm from "node:vm";

globalThis.__membrane = {};
vm.runInThisContext(readFileSync(new URL("../rewrite.js", import.meta.url), "utf8"), "membrane:rewrite");
const { isModule, rewrite } = globalThis.__membrane;

const kCases = [
  // Declarations stay, and may be repeated.
  ["const a = 1;class B{}class C{}const d=2", "var a = 1;var B = class B{};var C = class C{};var d=2"],
  ["let\nz = 3", "var\nz = 3"],
  ["const { a, b = class {} } = {}\nlet [q] = [1]", "var { a, b = class {} } = {}\nvar [q] = [1]"],
  ["class A extends (class {}) { static x = 1 }\n(1)", "var A = class A extends (class {}) { static x = 1 };\n(1)"],
  ["class A extends f({}) { m() { class B {} } }\nlet x", "var A = class A extends f({}) { m() { class B {} } };\nvar x"],
  ["class D { #p = 1; static { const k = 1 } }", "var D = class D { #p = 1; static { const k = 1 } };"],
  ["const x = {\n a: 1,\n}\nclass É {}", "var x = {\n a: 1,\n}\nvar É = class É {};"],
  ["const x = y => y\nclass L {}", "var x = y => y\nvar L = class L {};"],
  // What is not a declaration of the cell's own is left alone.
  ["for (const x of [1]) { let y = x }", null],
  ["if (1) { const q = 1 } else { class Z {} }", null],
  ["x = class Foo {}", null],
  ["o.const; o?.class; o.import; let_ = 1; x.let = 3", null],
  ["return\nclass N {}", null],
  // Strings, templates and regular expressions are not read as code.
  ["const a = `x${`const ${1}`}z`; const b = /[/`'\"]const /g", "var a = `x${`const ${1}`}z`; var b = /[/`'\"]const /g"],
  ["const b = a / 2 / 3; const c = a++ / 2", "var b = a / 2 / 3; var c = a++ / 2"],
  ["const f = () => ({}) / 2; const g = x => { return /re'/.test(x) }", "var f = () => ({}) / 2; var g = x => { return /re'/.test(x) }"],
  ["const s = 'it\\'s'; // const\n/* let x */ let t", "var s = 'it\\'s'; // const\n/* let x */ var t"],
  ["const n = 1_000n / 2n, m = .5e-3 / 1; let k", "var n = 1_000n / 2n, m = .5e-3 / 1; var k"],
  ["`${`", null], ["'", null], ["/", null], ["}", null], ["import", null], ["import {", null], ["class", null], ["", null],
  // Imports become calls.
  ["import a from 'x'; import b, {c as d} from \"y\";import * as q from 'z'\nimport 'w'",
   "var {default: a} = __membrane_import('x'); var {default: b, c: d} = __membrane_import(\"y\", \"c\");var q = __membrane_import('z');\n__membrane_import('w');"],
  ["import {\n  f,\n  g\n} from 'v' with { type: 'json' };\nf", "var {f, g} = __membrane_import('v', \"f\", \"g\");\n\n\n\nf"],
  ["import a, {b as c} from './x.js'\nimport '/y.js'; import * as q from \"../z.js\"",
   "var {default: a, b: c} = await __membrane_import_later('./x.js', \"b\");\nawait __membrane_import_later('/y.js'); var q = await __membrane_import_later(\"../z.js\");"],
  ["const m = await import('m')", "var m = await __membrane_import_later('m')"],
  ["export const a = 1; export function f() {}\nexport { a, f as g };\nexport default 5",
   "var a = 1; function f() {}\n;;\nvar __membrane_default = 5"],
  ["#!/usr/bin/env node\nlet x", "///usr/bin/env node\nvar x"],
];

test("declarations and imports are made ready, and nothing else is touched", () => {
  for (const [code, expected] of kCases) {
    const made = rewrite(code, false);
    assert.equal(made, expected ?? code);
    assert.equal(made.split("\n").length, code.split("\n").length, "lines stay where they were");
  }
});

test("a script keeps its names to itself", () => {
  const { scriptHead, bodyEnd } = globalThis.__membrane;
  assert.equal(rewrite("#!x\nconst a = 1 // b", true), `${scriptHead}//x\nconst a = 1 // b${bodyEnd}); undefined`);
});

test("any text comes to an end", () => {
  const pieces = ["const ", "class A ", "{", "}", "(", ")", "`", "${", "/", "'", "import ", "from ", "export ", "default ", "\n", "x", ";", "\\", "=>"];
  let seed = 1;
  const next = (count) => (seed = Math.imul(seed, 1103515245) + 12345 >>> 0) % count;
  for (let i = 0; i < 20_000; ++i) {
    const code = Array.from({ length: next(12) }, () => pieces[next(pieces.length)]).join("");
    assert.equal(typeof rewrite(code, false), "string");
  }
});

test("a script is a module by what only modules may have", () => {
  for (const code of ["import a from 'x'", "#!/usr/bin/env node\nimport 'x'", "x = 1\nexport { x }", "export default 1", "await 0; export const a = 1"])
    assert.ok(isModule(code), code);
  for (const code of ["", "import('x')", "import.meta", "'import a from'", "// import a from 'x'", "o.import\no.export", "if (1) { x = `export {}` }",
                      "const x = 1"])
    assert.ok(!isModule(code), code);
});
