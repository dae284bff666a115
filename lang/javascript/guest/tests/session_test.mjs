// The prelude: under Node in a context of its own, and in QuickJS where the language is installed (MEMBRANE_LANGUAGES).
import assert from "node:assert";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import util from "node:util";
import vm from "node:vm";
import { compress } from "./compress.mjs";
import { Files, kFiles, kLibraries, kNewerThanNode, kTimeZones, languageFile, ofPromise, source } from "./prelude.mjs";
import { QuickJs } from "./quickjs.mjs";

const f = (name, params, result) => ({ name, params: params.map(([n, type]) => ({ name: n, type })),
                                       result: result ? { name: "value", type: result } : null, summary: `What ${name} does.` });
const kRegistry = { capabilities: [
  { name: "http", summary: "", grant: "", functions: [f("http.get", [["url", "text"]], "bytes")] },
  { name: "kv", summary: "", grant: "", functions: [f("kv.get", [["key", "text"]], "bytes"), f("kv.set", [["key", "text"], ["value", "bytes"]])] },
  { name: "math", summary: "", grant: "", functions: [f("math.sum", [["a", "i32"], ["b", "i64"]], "i64"), f("math.half", [["a", "f64"]], "f64")] },
  { name: "random", summary: "", grant: "", functions: [f("random.bytes", [["count", "i32"]], "bytes")] },
] };

const v8CallSite = (() => {
  const given = Error.prepareStackTrace;
  Error.prepareStackTrace = (error, sites) => sites;
  const [site] = new Error().stack;
  Error.prepareStackTrace = given;
  return Object.getPrototypeOf(site);
})();

// A host: answers from tables, and records what it receives.
class Host {
  turns = [];
  results = [];
  calls = [];
  output = { 1: "", 2: "" };
  written = { 1: Buffer.alloc(0), 2: Buffer.alloc(0) };
  slept = 0;
  answers = { "random.bytes": (count) => ({ base64: Buffer.alloc(count, 7).toString("base64") }) };
  get files() { return this.ownFiles ??= new Files(mkdtempSync(path.join(tmpdir(), "membrane-guest-"))); }
  door(text) {
    const request = JSON.parse(text);
    if (request.files) return JSON.stringify(this.files.answer(request));
    if (request.session === "file") return JSON.stringify(this.files.file(request.path));
    if (request.session === "memory") return '{"value":1048576}';
    if (request.registry) return JSON.stringify(kRegistry);
    if (request.session === "next") return JSON.stringify(this.turns.shift());
    if (request.session === "result") {
      this.results.push(request);
      return '{"value":null}';
    }
    this.calls.push([request.call, ...request.arguments]);
    const answer = this.answers[request.call];
    const value = typeof answer === "function" ? answer(...request.arguments) : answer;
    return JSON.stringify(value?.error ? value : { value });
  }
  write(fd, text) {
    const bytes = Buffer.from(text);
    this.written[fd] = Buffer.concat([this.written[fd], bytes]);
    this.output[fd] += bytes;
  }
  sleep(ms) { this.slept += ms; }
}

// Node as the engine: a function around a cell gives it top-level await.
class NodeEngine {
  constructor(host) {
    this.host = host;
    const origin = host.slept;
    this.context = vm.createContext({ btoa, atob, performance: { now: () => host.slept - origin } });
    vm.runInContext("globalThis.DOMException = class extends Error { constructor(m, name) { super(m); this.name = name; } }", this.context);
    this.context.queueMicrotask = vm.runInContext("(f) => void Promise.resolve().then(f)", this.context);
    this.context.__membrane_utf8 = (text) => vm.runInContext("(b) => new Uint8Array(b)", this.context)([...new TextEncoder().encode(text)]);
    this.context.__membrane_text = (bytes) => {
      try {
        return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(Uint8Array.from(bytes));
      } catch {
        return undefined;
      }
    };
    this.context.__membrane_compress = compress;
    this.context.__membrane_promise = ofPromise;
    this.context.__membrane_evaluate = (code, name) => vm.runInContext(code, this.context, name);
    vm.runInContext(kNewerThanNode, this.context);
    if (kTimeZones) vm.runInContext(readFileSync(kTimeZones, "utf8"), this.context);
    for (const name of ["door", "write", "sleep"]) this.context[`__membrane_${name}`] = (...values) => host[name](...values);
    let value;
    for (const name of kFiles) value = vm.runInContext(source(name), this.context, `membrane:${name}`);
    this.session = value;
  }
  async turn() {
    const turn = this.session.begin();
    if (turn === undefined) return;
    try {
      // Names stay global without a wrapper, so only code that awaits gets one; the last line is its value.
      const isAsync = /\bawait\b/.test(turn.code);
      let promise;
      if (turn.isModule) {  // as far as a script can be one
        const body = turn.code.replace(/\bexport (?:default )?/g, "");
        promise = vm.runInContext(`(async () => { "use strict"; ${body}\n})()`, this.context, turn.name);
      } else if (isAsync) {
        const lines = turn.code.replace(/^var (\{.*\}) = (.*?);?$/gm, "($1 = $2)").replace(/^var /gm, "").split("\n");
        const body = lines.map((line, i) => i === lines.length - 1 && !/^[\w.]+ =|^\s*[})]|; undefined$|^throw/.test(line) ? `return {value: ${line.replace(/;$/, "")}}` : line).join("\n");
        promise = vm.runInContext(`(async () => {${body}\nreturn {};})()`, this.context, turn.name);
      } else {
        const value = vm.runInContext(turn.code, this.context, { filename: turn.name });
        promise = vm.runInContext("(value) => Promise.resolve({value})", this.context)(undefined) && { then: (yes) => Promise.resolve().then(() => yes({ value })) };
      }
      this.session.settle(promise);
    } catch (error) {
      this.session.fail(error);
    }
    do {
      for (let i = 0; i < 3; ++i) await new Promise(setImmediate);
    } while (this.session.step());
  }
}

class QuickJsEngine {
  constructor(host) {
    this.host = host;
    const calls = Object.fromEntries(["door", "write", "sleep"].map((name) => [`__membrane_${name}`, (...v) => host[name](...v)]));
    this.vm = QuickJs.create(languageFile("quickjs.wasm"), calls, { now: () => BigInt(Math.round(host.slept * 1e6)) });
    this.vm.e.qjs_set_max_stack_size(256 * 1024);
    for (const name of [...Object.keys(calls), "__membrane_evaluate", "__membrane_utf8", "__membrane_text", "__membrane_compress", "__membrane_promise"]) this.vm.define(name);
    for (const library of kLibraries) this.check(this.vm.eval(readFileSync(library, "utf8"), `membrane:${library}`));
    let session;
    for (const name of kFiles) session = this.check(this.vm.eval(source(name), `membrane:${name}`));
    this.functions = Object.fromEntries(["begin", "settle", "fail", "rejected", "step", "resolve", "load"].map((name) => [name, this.vm.get(session, name)]));
    this.vm.modules = (name, ...texts) => this.vm.text(this.call(name, ...texts.map((text) => this.vm.string(text))));
    this.vm.runJobs();
  }
  check(value) {
    if (!this.vm.e.qjs_is_exception(value)) return value;
    const thrown = this.vm.thrown();
    throw new Error(`${this.vm.text(thrown)}\n${this.vm.text(this.vm.get(thrown, "stack"))}`);
  }
  call(name, ...values) { return this.check(this.vm.call(this.functions[name], ...values)); }
  turn() {
    const { vm } = this;
    const turn = this.call("begin");
    if (vm.e.qjs_is_undefined(turn)) return;
    const code = vm.text(vm.get(turn, "code")), name = vm.text(vm.get(turn, "name"));
    const promise = vm.e.qjs_get_bool(vm.get(turn, "isModule")) ? vm.eval(code, name, 1) : vm.evalAsync(code, name);
    if (vm.e.qjs_is_exception(promise)) this.call("fail", vm.thrown());
    else this.call("settle", promise);
    do {
      vm.runJobs();
      for (const [of, reason, handled] of vm.rejections.splice(0))
        this.call("rejected", of, reason, handled ? vm.e.qjs_get_true() : vm.e.qjs_get_false());
    } while (vm.e.qjs_get_float64(this.call("step")));
  }
}

const quick = languageFile("quickjs.wasm");
const engines = quick ? { QuickJS: QuickJsEngine } : { Node: NodeEngine };

function session(Engine, given = {}) {
  const host = Object.assign(new Host(), given);
  const engine = new Engine(host);
  return {
    host,
    async run(code, more = {}) {
      host.turns.push({ code, name: "<cell 1>", mode: "cell", arguments: [], ...more });
      await engine.turn();
      return host.results.at(-1);
    },
    async value(code, more) {
      const result = await this.run(code, more);
      assert.equal(result.outcome, "ok", JSON.stringify(result.error));
      return result.value && result.value["text/plain"];
    },
  };
}

for (const [name, Engine] of Object.entries(engines)) {
  const only = (what, body) => test(`${name}: ${what}`, body);

  only("the last expression is the result, and names stay", async () => {
    const s = session(Engine);
    assert.equal(await s.value("const x = 2\nx + 3"), "5");
    assert.equal(await s.value("_ * 2"), "10");
    assert.equal(await s.value("const x = 4; let y = 1; class A { m() { return x } }\n[1].map(n => n)\nx"), "4");
    assert.equal(await s.value("let y = 7; class A {}\nnew A()"), "A {}");
    assert.equal(await s.value("var q = 1"), null);
    assert.equal(await s.value("function f() { return y }"), null);
    assert.equal(await s.value("f()"), "7");
    assert.equal(await s.value("const {a, b: [c]} = {a: 1, b: [2]}"), null);
    assert.equal(await s.value("({a, c})"), "{ a: 1, c: 2 }");
  });

  only("the target of a WeakRef stays until the jobs are done", async () => {
    const s = session(Engine);
    assert.equal(await s.value("new WeakRef({ a: 1 }).deref()"), "{ a: 1 }");
    assert.equal(await s.value("const r = new WeakRef({ a: 2 }); await null; await (async () => {})()\nr.deref().a"), "2");
    assert.equal(await s.value("[WeakRef.name, WeakRef.length, r instanceof WeakRef, r.constructor === WeakRef, Object.keys(WeakRef.prototype).length, `${r}`]"),
                 "[ 'WeakRef', 1, true, true, 0, '[object WeakRef]' ]");
    assert.equal(await s.value("class Mine extends WeakRef { get a() { return this.deref().a } }\nconst m = new Mine({ a: 3 }); [m.a, m instanceof Mine, `${WeakRef}`.includes('native')]"),
                 "[ 3, true, true ]");
    for (const code of ["WeakRef({})", "new WeakRef(1)", "WeakRef.prototype.deref.call({})", "new r.deref()"])
      assert.equal((await s.run(code)).error.type, "TypeError", code);
    if (Engine !== QuickJsEngine) return;
    assert.equal(await s.value("r.deref()"), null);
    assert.equal(await s.value("const gone = [], f = new FinalizationRegistry((name) => gone.push(name)); f.register(new WeakRef({ b: 1 }).deref(), 'b')\n" +
                               "const before = gone.length; await new Promise((done) => setTimeout(done, 1)); [before, gone]"), "[ 0, [ 'b' ] ]");
  });

  const kOwnUnderscores = ["const _ = [1, 2]", "let _ = [1, 2]", "var _ = [1, 2]", "const [a, _] = [0, [1, 2]]", "const {_} = {_: [1, 2]}",
                          "_ = [1, 2]", "globalThis._ = [1, 2]"];
  only("a program's own _ hides the last value", async () => {
    for (const first of [undefined, "40 + 2"]) {
      for (const code of kOwnUnderscores) {
        const s = session(Engine);
        if (first) assert.equal(await s.value(first), "42");
        await s.value(code);
        assert.equal(await s.value("_.map((n) => n + 1)"), "[ 2, 3 ]", code);
        assert.equal(await s.value("7"), "7");
        assert.equal(await s.value("_"), "[ 1, 2 ]", code);
      }
      for (const [code, kind] of [["function _() {}", "function"], ["class _ {}", "function"],
                                  ['import _ from "node:path"', "object"], ['import * as _ from "node:path"', "object"]]) {
        const s = session(Engine);
        if (first) assert.equal(await s.value(first), "42");
        await s.value(code);
        assert.equal(await s.value("7"), "7");
        assert.equal(await s.value("typeof _"), `'${kind}'`, code);
      }
    }
  });

  if (Engine === QuickJsEngine) {  // Node's vm does not freeze the global object
    only("a session continues after Object.freeze(globalThis)", async () => {
      const s = session(Engine);
      assert.equal(await s.value("Object.freeze(globalThis); 5"), "5");
      assert.equal(await s.value("1 + 1"), "2");
      assert.equal(await s.value("1 + 2"), "3");
      const t = session(Engine);
      assert.equal(await t.value("1 + 1"), "2");
      assert.equal(await t.value("Object.freeze(globalThis); 5"), "5");
      assert.equal(await t.value("_ + 1"), "6");
      assert.equal(await t.value("require('path').sep"), "'/'");
    });

    only("a module that is not there is named, whatever else is imported", async () => {
      const s = session(Engine);
      for (const code of ['import sea from "node:sea"; import assert from "node:assert"; import fs from "node:fs";',
                          'import assert from "node:assert"; import { getAsset } from "node:sea"; import "node:path";']) {
        const { outcome, error } = await s.run(code, { mode: "script", name: "/a.mjs" });
        assert.equal(outcome, "error");
        assert.match(error.message, /^Cannot find module 'node:sea'/);
      }
      const other = await s.run('import { nosuch } from "node:fs"', { mode: "script", name: "/a.mjs" });
      assert.match(other.error.message, /'nosuch' in module 'node:fs'/);
    });

    only("an error's stack has its name and message, and no place of ours", async () => {
      const s = session(Engine);
      await s.value("var e; try { null.x } catch (error) { e = error }");
      assert.equal(await s.value("e.stack.split('\\n').map((line) => line.replace(/:\\d+:\\d+/, ''))", { name: "<cell 2>" }),
                   `[ "TypeError: cannot read property 'x' of null", '    at <cell 1>' ]`);
      assert.equal(await s.value("class Own extends Error { constructor(m) { super(m); this.name = 'Own' } }; new Own('z').stack.split('\\n')[0]"),
                   "'Own: z'");
      assert.equal(await s.value("const o = {name: 'O', message: 'm'}; Error.captureStackTrace(o); o.stack.split('\\n')[0]"), "'O: m'");
      assert.equal(await s.value("[1].map(() => new Error('in').stack)[0].includes('membrane:')"), "false");
      assert.equal(await s.value("require('events'); setTimeout(() => console.log(new Error('late').stack), 1); 0"), "0");
      assert.match(s.host.output[1], /^Error: late\n    at /);
      assert.doesNotMatch(s.host.output[1], /membrane:/);
      assert.equal(await s.value("e.stack = 'own'; e.stack"), "'own'");
      assert.equal(await s.value("Error.prepareStackTrace = (e, places) => places.length; new Error('n').stack > 0"), "true");
    });
    only("call sites have the methods of V8's", async () => {
      const s = session(Engine);
      await s.value("Error.prepareStackTrace = (e, sites) => sites; function f() { return new Error('n').stack[0] } const site = f()");
      const methods = Object.getOwnPropertyNames(v8CallSite).filter((name) => name !== "constructor");
      assert.equal(await s.value(`${JSON.stringify(methods)}.filter((name) => typeof site[name] !== 'function')`), "[]");
      assert.match(await s.value("String(site)", { name: "<cell 2>" }), /^'f \(<cell 1>:1:\d+\)'$/);
      assert.equal(await s.value("[site.isEval(), site.isNative(), site.isToplevel(), site.getTypeName(), site.getEvalOrigin()]"),
                   "[ false, false, true, 'Object', undefined ]");
    });
    only("an error has the place of the call that the program waits for", async () => {
      const s = session(Engine);
      s.host.answers["http.exchange"] = { error: { errno: "EACCES", message: "no grant allows it", grant: "--allow http" } };
      const inner = (call) => `import fs from "fs";\nasync function f() {\n  await ${call};\n}\nawait f();`;
      for (const call of ["fs.promises.readFile('/nothere')", "fetch('http://h/')", "fetch('http://h/', { method: 'POST', body: 'x' })"]) {
        const { error } = await s.run(inner(call), { mode: "script", name: "a.mjs" });
        assert.match(error.traceback, /^a\.mjs:3\n  await /, call);
        assert.match(error.traceback, /\n    at f \(a\.mjs:3:\d+\)\n/, call);
        assert.doesNotMatch(error.traceback, /membrane:/);
      }
    });

    only("an import of what a module does not export fails, with its place and the nearest name", async () => {
      const s = session(Engine);
      const script = (code) => s.run(code, { mode: "script", name: "a.mjs" });
      for (const run of [script, s.run]) {
        const { outcome, error } = await run('import path from "path";\nimport { htp } from "membrane";');
        assert.equal(outcome, "error");
        assert.equal(`${error.type}: ${error.message}`, "SyntaxError: Could not find export 'htp' in module 'membrane'. Did you mean http?");
        assert.match(error.traceback, /^(a\.mjs|<cell 1>):2\nimport \{ htp \} from "membrane";\n\nSyntaxError: Could not/);
      }
      assert.match((await script('import { readfile as r } from "fs";\n1')).error.traceback, /Did you mean readFile\?\n    at a\.mjs:1:10\n/);
      for (const run of [script, s.run])
        for (const [code, message] of [["import { Nothing } from 'node:zlib'", "'node:zlib': the module is not available: programs cannot compress"],
                                       ["import { Nothing } from 'node:crypto'", "'node:crypto': node:crypto has no Nothing in Membrane"]])
          assert.ok((await run(code)).error.message.startsWith(`Could not find export 'Nothing' in module ${message}`), code);
      assert.equal(await s.value("import { V4MAPPED, promises } from 'dns'; import { Agent } from 'http'; [V4MAPPED, typeof promises.Resolver, typeof Agent]"),
                   "[ 8, 'function', 'function' ]");
      assert.match((await s.run("new (require('dns').promises.Resolver)()")).error.message, /Resolver is not available: .*fetch\(\)/);
      assert.equal(await s.value('import { join as j, default as p } from "path";\nj === p.join'), "true");
    });
  }

  if (Engine === QuickJsEngine) {  // V8 names it itself
    only("an error of what is no function names it", async () => {
      const s = session(Engine);
      const sure = [
        ["({}).foo()", "({}).foo is not a function"], ["const a = {}; const b = a.foo(1)", "a.foo is not a function"],
        ["const o = {};\nif (1) {\n  o.x?.['y']; o.zip(\n    1,\n    2,\n  )\n}", "o.zip is not a function"],
        ["const o = {}; o\n  .foo()\n  .bar()", "o.foo is not a function"], ["[1, 2].mapp(x => x * 2).filter(Boolean)", "[1, 2].mapp is not a function"],
        ["Promise.resolve('a(b)').thenn(x => x)", "Promise.resolve(...).thenn is not a function"], ["const x = 1; console.log(`${x()}`)", "x is not a function"],
        ["const t = {}; t.list(); function f() {}", "t.list is not a function"], ["const z = []; z[z.length - 1](1)", "z[z.length - 1] is not a function"],
        ["const o = {}; [1].map((n) => o.twice(n))", "o.twice is not a function"], ["const X = 4; new X(1)", "X is not a constructor"],
        ["const o = {}; new (class { #p = 1; m() { this.#p() } })().m()", "this.#p is not a function"],
        ["const f = null; f()", "f is not a function"],
        // The callee of another's call is not named.
        ["[1].map(5)", "not a function"], ["throw new TypeError('not a function')", "not a function"],
      ];
      for (const [code, message] of sure)
        for (const mode of ["cell", "script"]) {
          const { error } = await s.run(code, { mode, name: mode === "cell" ? "<cell 1>" : "/a.js" });
          assert.equal(error.message, message, `${mode}: ${code}`);
          assert.ok(error.traceback.includes(`TypeError: ${message}\n`), error.traceback);
        }
      // A cell's names are global ones, and can be looked at.
      for (const [code, cell, script] of [["const f = (n) => n; const g = { h: 1 }; f(g.h(1))", "g.h", "g.h or f"], ["const f = 1; const g = { h() {} }; f(g.h(1))", "f", "g.h or f"]]) {
        assert.equal((await s.run(code)).error.message, `${cell} is not a function`);
        assert.equal((await s.run(code, { mode: "script", name: "/a.js" })).error.message, `${script} is not a function`);
      }
    });
  }

  only("an error of a misspelt name suggests the nearest", async () => {
    const s = session(Engine);
    for (const [code, message] of [["consle.log(1)", "consle is not defined. Did you mean console?"],
                                   ["function f() { const total = 1; return totl }\nf()", "totl is not defined. Did you mean total?"],
                                   ["nothinglikethis", "nothinglikethis is not defined"],
                                   ["throw new Error('ReferenceError: WebAssembly is not defined')", "ReferenceError: WebAssembly is not defined: JavaScript programs cannot run WebAssembly: " +
                                    "use a package without it, or run the module itself with membrane run"],
                                   ["new WebSocket('wss://h/')", "WebSocket is not defined: programs have no sockets; fetch() makes HTTP requests (with --allow http:example.org)"], ["xx", "xx is not defined"]]) {
      const { error } = await s.run(code, { mode: "script", name: "a.js" });
      assert.equal(error.message, message);
      assert.ok(error.traceback.includes(`${error.type}: ${message}\n`), error.traceback);
    }
    for (const [code, asked] of [["membrane.htp.get('x')", "membrane.http"], ["membrane.kv.gett('x')", "membrane.kv.get"]])
      assert.ok((await s.run(code)).error.message.endsWith(`. Did you mean ${asked}?`), code);
    assert.doesNotMatch((await s.run("membrane.http.get.x.y")).error.message, /Did you mean/);
    assert.equal(await s.value("try { consle } catch (e) { e.message }"), "'consle is not defined'");
  });

  only("what Intl lacks is refused by name", async () => {
    const s = session(Engine);
    for (const [name, code] of [["DisplayNames", "new Intl.DisplayNames(['en'], {type: 'region'})"], ["Locale", "new Intl.Locale('en-US')"],
                                ["DurationFormat", "new Intl.DurationFormat('en')"]])
      assert.match((await s.run(code)).error.message, new RegExp(`^Intl\\.${name} is not available`));
    assert.equal(await s.value("Intl.DisplayNames.supportedLocalesOf('en')"), "[]");
    // A library that catches the error continues without the zone.
    const probe = (zone) => `(() => { try { return new Intl.DateTimeFormat("en-US", { timeZone: "${zone}" }).format(0) } catch { return null } })()`;
    const seen = [];
    for (const zone of ["America/New_York", "America/New_York", "nonsense"]) seen.push(await s.value(probe(zone)));
    assert.deepEqual(seen, kTimeZones ? ["'12/31/1969'", "'12/31/1969'", "null"] : ["null", "null", "null"]);
    const warning = "(node:1) Warning: The time zone America/New_York is not available: the installed language lacks the time zones. " +
                    'Install it again (membrane languages add js), or give an offset, as "-05:00"\n';
    assert.equal(s.host.output[2], kTimeZones ? "" : warning);
  });

  only("variables of the environment are texts, and TZ is the zone of local time", async () => {
    const s = session(Engine);
    assert.equal(await s.value("process.env.A = 5; process.env.B = undefined; [JSON.stringify(process.env), 'A' in process.env, delete process.env.A, process.env]"),
                 `[ '{"A":"5","B":"undefined"}', true, true, { B: 'undefined' } ]`);
    assert.equal((await s.run("process.env[Symbol.iterator] = 1")).error.type, "TypeError");
    const hour = "new Date(Date.UTC(2026, 6, 4, 12)).getHours()";
    assert.equal(await s.value(`process.env.TZ = 'JST-9'; ${hour}`), "21");
    assert.equal(await s.value(`delete process.env.TZ; ${hour}`), "12");
    if (kTimeZones) assert.equal(await s.value(`Object.assign(process.env, { TZ: 'America/New_York' }); [${hour}, Intl.DateTimeFormat().resolvedOptions().timeZone]`), "[ 8, 'America/New_York' ]");
  });

  only("variables of the environment are data, and do not reach what inherits from them", async () => {
    const s = session(Engine);
    await s.run("process.env.A = 1; const thrown = (f) => { try { f(); return 'none' } catch (e) { return e.code ?? e.name } }");
    const define = (descriptor) => s.value(`thrown(() => Object.defineProperty(process.env, 'A', ${descriptor}))`);
    for (const wrong of ["{ enumerable: false }", "{ value: 2 }", "{ get: () => 2, configurable: true }", "{ configurable: true, writable: true, enumerable: true }"])
      assert.equal(await define(wrong), "'ERR_INVALID_OBJECT_DEFINE_PROPERTY'", wrong);
    assert.equal(await s.value("process.env.A"), "'1'");
    assert.equal(await define("{ value: 2, configurable: true, writable: true, enumerable: true }"), "'none'");
    assert.equal(await s.value("['freeze', 'seal', 'preventExtensions'].map((name) => thrown(() => Object[name](process.env))).join()"), "'TypeError,TypeError,TypeError'");
    assert.equal(await s.value("process.env.A = 3; const c = Object.create(process.env); c.Z = 1; [process.env, Object.keys(c)]"), "[ { A: '3' }, [ 'Z' ] ]");
    assert.equal(await s.value("({ __proto__: process.env }).TZ = 'JST-9'; new Date(0).getHours()"), "0");
  });

  only("await stands at the top", async () => {
    const s = session(Engine);
    assert.equal(await s.value("const v = await new Promise((r) => setTimeout(() => r(6), 5000))\nv + 1"), "7");
    assert.equal(s.host.slept, 5000, "time moved on, nobody waited");
  });

  only("time is counted from no later than the program's beginning", async () => {
    const s = session(Engine, { slept: 5 });
    s.host.slept = 4;  // like a run's own clock, which is unrelated to the time of the image
    assert.equal(await s.value("[performance.now(), process.uptime(), process.hrtime(), process.hrtime.bigint()].join()"), "'0,0,0,0,0'");
    s.host.slept = 6.5;
    assert.equal(await s.value("performance.now()"), "2.5");
  });

  only("errors have their place, without ours", async () => {
    const s = session(Engine);
    await s.run("function f() {\n  null.x\n}");
    const result = await s.run("f()", { name: "<cell 2>" });
    assert.equal(result.outcome, "error");
    assert.equal(result.error.type, "TypeError");
    assert.match(result.error.traceback, /^<cell 1>:2\n  null\.x\n\nTypeError: /);
    assert.match(result.error.traceback, /at .*<cell 2>:1/);
    assert.doesNotMatch(result.error.traceback, /membrane:/);
    const syntax = await s.run("let a = ;");
    assert.equal(syntax.error.type, "SyntaxError");
    assert.equal((await s.run("throw 5")).error.message, "5");
    assert.equal((await s.run("throw null")).error.type, "null");
    assert.equal(await s.value("1 + 1"), "2", "the session goes on");
    assert.equal((await s.run("function g() { return g() + 1 }\ng()")).error.type, name === "QuickJS" ? "RangeError" : "RangeError");
    assert.equal(await s.value("2 + 2"), "4");
  });

  only("a rejection that nobody handles is an error", async () => {
    const s = session(Engine);
    if (name === "QuickJS") assert.equal((await s.run("Promise.reject(new RangeError('lost')); 1")).error.type, "RangeError");
    assert.equal(await s.value("Promise.reject(new Error('x')).catch(() => 3); 4"), "4");
    assert.equal((await s.run("setTimeout(() => { throw new TypeError('late') }, 1); 1")).error.type, "TypeError");
    assert.match((await s.run("await new Promise(() => {})")).error.message, /^the program awaits a promise that nothing can settle any more$/);
  });

  only("timers run in their order, on a clock that moves to them", async () => {
    const s = session(Engine);
    await s.run(`let n = 0
setTimeout(() => console.log('b'), 20); setTimeout((x) => console.log(x), 10, 'a'); setImmediate(() => console.log('now'))
const i = setInterval(() => { console.log('i'); if (++n == 3) clearInterval(i) }, 8)
queueMicrotask(() => console.log('micro')); clearTimeout(setTimeout(() => console.log('never'), 1)); console.log('first')`);
    await s.run("1");
    assert.equal(s.host.output[1], "first\nmicro\nnow\ni\na\ni\nb\n".replace("i\nb", "i\nb"));
    await s.run("setTimeout(() => {}, 10)");
    assert.equal(s.host.output[1].endsWith("i\n"), true, "an interval goes on when time moves in a later cell");
    await s.run("let m = 0; const j = setInterval(() => { if (++m == 4) { clearInterval(j); console.log('done') } }, 1000)",
                { mode: "script", name: "a.js" });
    assert.match(s.host.output[1], /done\n$/, "a script's interval holds it");
  });

  only("the console prints as a server's does", async () => {
    const s = session(Engine);
    await s.run(`console.log("a", {b: [1, "x"]}, null); console.error("e"); console.warn("%s has %d", "x", 5)
console.table([{a: 1}]); console.assert(true); console.assert(false, "no"); console.count(); console.count()
console.group("g"); console.info("in"); console.groupEnd(); console.debug("out"); console.dir({a: {b: {c: {}}}}, {depth: 0})
console.time("t"); console.timeEnd("t"); console.log()`);
    assert.equal(s.host.output[1], "a { b: [ 1, 'x' ] } null\n┌─────────┬───┐\n│ (index) │ a │\n├─────────┼───┤\n│ 0       │ 1 │\n└─────────┴───┘\n" +
      "default: 1\ndefault: 2\ng\n  in\nout\n{ a: [Object] }\nt: 0ms\n\n");
    assert.equal(s.host.output[2], "e\nx has 5\nAssertion failed: no\n");
  });

  only("capabilities are functions, by their declared types", async () => {
    const s = session(Engine);
    Object.assign(s.host.answers, { "http.get": "é", "kv.get": { base64: "/wA=" }, "kv.set": null,
                                    "math.sum": { integer: "9007199254740993" }, "math.half": { number: "-inf" } });
    assert.equal(await s.value("membrane.http.get('u')"), "'é'");
    assert.equal(await s.value("import {kv} from 'membrane'\nkv.get('k')"), "Uint8Array(2) [ 255, 0 ]");
    assert.equal(await s.value("import { set as put, default as all } from \"membrane/kv\";\nput('k', new Uint8Array([255]))"), null);
    assert.equal(await s.value("import * as m from 'membrane'; m.math.sum(1, 2n)"), "9007199254740993n");
    assert.equal(await s.value("const {math} = await import('membrane')\nmath.half(NaN)"), "-Infinity");
    assert.deepEqual(s.host.calls.slice(1), [["http.get", "u"], ["kv.get", "k"], ["kv.set", "k", { base64: "/w==" }],
                                             ["math.sum", 1, { integer: "2" }], ["math.half", { number: "nan" }]]);
    for (const wrong of ["membrane.http.get(5)", "membrane.http.get()", "membrane.math.sum(1.5, 1)", "membrane.kv.set('k', {})"])
      assert.equal((await s.run(wrong)).error.type, "TypeError", wrong);
    assert.match((await s.run("import x from 'left-pad'")).error.message, /Cannot find module 'left-pad'/);
  });

  only("a denial names the grant", async () => {
    const s = session(Engine);
    const denial = { error: { errno: "EACCES", message: "no grant allows it", grant: "--allow http" } };
    Object.assign(s.host.answers, { "http.get": denial, "http.exchange": denial });
    for (const code of ["membrane.http.get('u')", "await fetch('http://h/')"]) {
      const { error } = await s.run(code);
      assert.equal(error.type, "PermissionError");
      assert.match(error.message, /no grant allows it \(EACCES; --allow http would allow it\)/);
    }
    assert.equal(await s.value("try { membrane.http.get('u') } catch (e) { [e.errno, e.grant, e instanceof Error] }"), "[ 'EACCES', '--allow http', true ]");
  });

  only("fetch sends and reads", async () => {
    const s = session(Engine);
    let body = { body: '{"a":[1]}' };
    s.host.answers["http.exchange"] = (method, url) => JSON.stringify({ status: url.endsWith("404") ? 404 : 200, url: url.replace("/old", "/new"), headers: { "content-type": "application/json" }, ...body });
    assert.equal(await s.value("const r = await fetch('http://h/x', {method: 'post', body: JSON.stringify({a: 1}), headers: {'X-A': 'b', Host: 'no'}})\nconst j = await r.json();\n[r.status, r.ok, r.statusText, r.url, r.redirected, r.headers.get('Content-Type'), j, r.bodyUsed]"),
                 "[\n  200,\n  true,\n  'OK',\n  'http://h/x',\n  false,\n  'application/json',\n  { a: [ 1 ] },\n  true\n]");
    const [, method, url, headers, sent] = s.host.calls.at(-1);
    assert.deepEqual([method, url, JSON.parse(headers), Buffer.from(sent.base64, "base64").toString()],
                     ["POST", "http://h/x", { "content-type": "text/plain;charset=UTF-8", "x-a": "b" }, '{"a":1}']);
    body = { body_base64: "iVA=" };
    assert.equal(await s.value("const p = await fetch(new URL('/old', 'http://h'))\nconst bytes = await p.bytes();\n[bytes, p.redirected, p.clone === undefined]"), "[ Uint8Array(2) [ 137, 80 ], true, false ]");
    assert.equal(await s.value("const n = await fetch('http://h/404')\nn.ok"), "false");
    for (const wrong of ["await fetch('nonsense')", "await fetch('http://h/', {body: 'x'})", "await fetch('http://h/', {method: 'POST', body: {}})",
                         "await fetch('http://h/', {headers: {'a b': 'c'}})"])
      assert.equal((await s.run(wrong)).error.type, "TypeError", wrong);
    assert.equal((await s.run("await fetch('http://h/', {signal: AbortSignal.abort()})")).error.type, "AbortError");
  });

  only("fetch reads data: URLs, without a request", async () => {
    const s = session(Engine);
    for (const [url, type, text] of [
      ["data:text/plain,hi", "text/plain", "hi"],
      ["data:,a%20b%25", "text/plain;charset=US-ASCII", "a b%"],
      ["DATA:;base64,aGk", "text/plain;charset=US-ASCII", "hi"],
      ["data:text/HTML;charset=UTF-8 ;base64, aG k=", "text/html;charset=UTF-8", "hi"],
      ["data:TEXT/Plain; Charset=X;q=1,x#f", "text/plain;charset=X;q=1", "x"],
      ["data:bad,x", "text/plain;charset=US-ASCII", "x"],
      ["data:;charset=utf-8,%C3%A9é?q=1", "text/plain;charset=utf-8", "éé?q=1"],
      ["data:image/png;base64,aGk%3D", "image/png", "hi"],
      ["data:text/plain;base64;x=1,aGk", "text/plain;x=1", "aGk"],
    ])
      assert.equal(await s.value(`const r = await fetch(${JSON.stringify(url)}), text = await r.text();\nJSON.stringify([r.status, r.ok, r.type, r.headers.get("content-type"), text])`),
                   `'${JSON.stringify([200, true, "basic", type, text])}'`, url);
    assert.equal(await s.value("const b = await (await fetch(new Request('data:,%ff#x'))).bytes();\nb"), "Uint8Array(1) [ 255 ]");
    for (const wrong of ["data:x", "data:;base64,%%%"]) {
      const { error } = await s.run(`await fetch("${wrong}")`);
      assert.match(`${error.type}: ${error.message}`, /^TypeError: fetch failed: the data: URL/, wrong);
    }
    assert.deepEqual(s.host.calls.filter(([call]) => call.startsWith("http")), []);
  });

  only("requests that are made before the program waits are made at once", async () => {
    const s = session(Engine);
    s.host.answers["http.get_many"] = (text) => JSON.stringify(JSON.parse(text).map(({ method, url, headers, body_base64 }) =>
      url.includes("denied") ? { errno: "EACCES", message: "no grant allows it", grant: "--allow http" }
        : { status: 200, url, headers: {}, body: [method, headers?.["x-a"] ?? "", body_base64 ?? ""].join() }));
    s.host.answers["http.exchange"] = (method, url) => JSON.stringify({ status: 200, url, headers: {}, body: "one" });
    assert.equal(await s.value("const urls = [1, 2, 3].map((n) => 'http://h/' + n)\nconst all = await Promise.all(urls.map((u) => fetch(u, { headers: { 'X-A': 'b' } }).then((r) => r.text())))\nall"),
                 "[ 'GET,b,', 'GET,b,', 'GET,b,' ]");
    assert.deepEqual(JSON.parse(s.host.calls.at(-1)[1]).map(({ url }) => url), ["http://h/1", "http://h/2", "http://h/3"]);
    assert.equal(await s.value("const settled = await Promise.allSettled([fetch('http://denied/'), fetch('nonsense'), fetch('http://h/', { method: 'POST', body: 'x' }).then((r) => r.text())])\nsettled.map((r) => r.value ?? r.reason.name)"),
                 "[ 'PermissionError', 'TypeError', 'POST,,eA==' ]");
    assert.equal(await s.value("const one = await fetch('http://h/'); const text = await one.text();\ntext"), "'one'");
    assert.equal(s.host.calls.at(-1)[0], "http.exchange");
  });

  only("a script has its own names and arguments", async () => {
    const s = session(Engine);
    await s.value("const x = 1");
    const result = await s.run("const x = 5; console.log(process.argv.slice(1).join(), x); await null; export const z = 3; export default x\nx", { mode: "script", name: "a.mjs", arguments: ["-v"] });
    assert.equal(result.outcome, "ok", JSON.stringify(result.error));
    assert.equal(result.value, null);
    assert.equal(s.host.output[1], "a.mjs,-v 5\n");
    assert.equal(await s.value("[x, typeof z]"), "[ 1, 'undefined' ]");
  });

  only("exit is no failure", async () => {
    const s = session(Engine);
    const ended = await s.run("setTimeout(() => console.log('never'), 1); process.exit(3)");
    assert.deepEqual([ended.outcome, ended.exit_code, ended.error], ["exit", 3, null]);
    assert.equal((await s.run("setTimeout(() => process.exit(), 1)")).outcome, "exit");
    assert.equal(s.host.output[1], "");
    assert.equal((await s.run("process.exitCode = 2", { mode: "script", name: "a.js" })).exit_code, 2);
  });

  only("values are shown as all that they can be", async () => {
    const s = session(Engine);
    const { value, displays } = await s.run("display(1, 'a'); ({ _repr_html_() { return '<b>' }, _repr_png_: () => new Uint8Array([137]), [Symbol.for('Jupyter.display')]: () => ({'text/x': 'y'}) })");
    assert.deepEqual([value["text/html"], value["image/png"], value["text/x"]], ["<b>", { base64: "iQ==" }, "y"]);
    assert.deepEqual(displays, [{ "text/plain": "1" }, { "text/plain": "'a'" }]);
    assert.match(await s.value("({ _repr_html_() { throw new Error('no') } })"), /showing it threw Error: no/);
    assert.match(await s.value("Array.from({length: 100}, () => 'x'.repeat(1000))"), /characters left out/);
    assert.match(await s.value("({ get a() { throw 1 } })"), /Getter/);
    assert.equal(await s.value("prompt('name?')", { input: "Ada\nB\n" }), "'Ada'");
  });

  only("a fork draws other numbers", async () => {
    const s = session(Engine);
    const draw = (hex) => s.value("Math.random()", { fresh: { entropy_hex: hex.repeat(16) } });
    const first = await draw("01");
    assert.equal(await draw("01"), first);
    assert.notEqual(await draw("02"), first);
    assert.equal(await s.value("const r = Array.from({length: 1000}, Math.random)\nr.every((n) => n >= 0 && n < 1) && new Set(r).size"), "1000");
    assert.match(await s.value("crypto.randomUUID()"), /^'[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}'$/);
  });

  only("an AsyncLocalStorage has its store in synchronous calls, and what they schedule", async () => {
    const s = session(Engine);
    await s.run("var { AsyncLocalStorage, AsyncResource, createHook } = require('async_hooks'), als = new AsyncLocalStorage()");
    assert.equal(await s.value("als.run(1, (a) => [als.getStore(), a, als.run(2, () => als.getStore()), als.exit(() => als.getStore()), als.getStore()], 8)"),
                 "[ 1, 8, 2, undefined, 1 ]");
    assert.equal(await s.value("try { als.run(1, () => { throw 5 }) } catch (e) { [e, als.getStore()] }"), "[ 5, undefined ]");
    const later = `als.run('s', () => { for (const f of [setTimeout, setImmediate, process.nextTick, queueMicrotask]) f(() => console.log(als.getStore())) })`;
    assert.equal(await s.value(`${later}; typeof als.getStore()`), "'undefined'");
    assert.equal(s.host.output[1], "s\n".repeat(4));
    assert.equal(await s.value(`var [snapshot, bound, resource] = als.run('s', () =>
        [AsyncLocalStorage.snapshot(), AsyncLocalStorage.bind((x) => [x, als.getStore()]), new AsyncResource('R')]);
      [snapshot((x) => [x, als.getStore()], 1), bound(2), resource.runInAsyncScope(function (x) { return [this.t, x, als.getStore()] }, { t: 't' }, 3),
       resource.bind(() => als.getStore())(), als.run(1, () => (als.disable(), als.getStore()))]`),
                 "[ [ 1, 's' ], [ 2, 's' ], [ 't', 3, 's' ], 's', undefined ]");
    assert.match((await s.run("als.enterWith(1)")).error.message, /enterWith is not available: .*run\(store, call\)/);
    assert.match((await s.run("createHook({})")).error.message, /createHook is not available/);
    if (Engine !== QuickJsEngine) return;
    assert.equal(await s.value("await als.run(1, async () => { await null; return [als.getStore(), als.getStore()] })"), "[ undefined, undefined ]");
    assert.match(s.host.output[2], /^\(node:1\) Warning: AsyncLocalStorage: a store is not carried across await, [^\n]*\n$/);
  });

  only("a program of CommonJS has what Node gives it", async () => {
    const s = session(Engine);
    const run = (code, more) => s.run(code, { mode: "script", name: "app/main.js", ...more });
    const put = (name, text) => s.host.files.answer({ files: "write", bytes: { base64: Buffer.from(text).toString("base64") },
      descriptor: s.host.files.answer({ files: "open", path: name, write: true, create: true, truncate: true }).value });
    for (const folder of ["/app", "/app/lib", "/node_modules", "/node_modules/p"]) s.host.files.answer({ files: "make_directory", path: folder });
    put("/app/lib/index.js", "exports.name = __filename; exports.main = require.main === module;");
    put("/app/data.json", '{"n": 7}');
    put("/node_modules/p/package.json", '{"main": "./m"}');
    put("/node_modules/p/m.js", "module.exports = { p: module.parent === undefined, dir: __dirname };");
    const result = await run(`const { name, main } = require('./lib'), fs = require('node:fs');
console.log(name, main, require('./data').n, require('p').dir, __filename, __dirname, this === module.exports, require.main === module);
console.log(fs.readFileSync(__dirname + '/data.json', 'utf8'), require('./lib') === require('./lib/index.js'), Object.keys(require.cache).length);
setTimeout(() => console.log('timeout')); Promise.resolve().then(() => console.log('promise')); process.nextTick(() => console.log('tick'));
process.on('exit', (code) => console.log('exit', code)); console.log('sync'); process.exitCode = 4;`);
    assert.equal(result.outcome, "exit", JSON.stringify(result.error));
    assert.equal(s.host.output[1], "/app/lib/index.js false 7 /node_modules/p /app/main.js /app true true\n" +
      '{"n": 7} true 4\nsync\ntick\npromise\ntimeout\nexit 4\n');
    for (const folder of ["/node_modules/axios", "/node_modules/axios/dist", "/node_modules/axios/dist/browser", "/node_modules/axios/dist/node"])
      s.host.files.answer({ files: "make_directory", path: folder });
    put("/node_modules/axios/package.json", '{"exports": {".": "./dist/node/axios.cjs", "./x": "./dist/node/axios.cjs"}}');
    for (const kind of ["browser", "node"]) put(`/node_modules/axios/dist/${kind}/axios.cjs`, `module.exports = "${kind}"`);
    s.host.output[1] = "";
    assert.equal((await run("console.log(require('axios'), require('axios/x'))")).outcome, "ok");
    assert.equal(s.host.output[1], "browser node\n", "the file that uses fetch()");
    assert.match((await run("require('./none')")).error.message, /Cannot find module '.\/none': there is no \/app\/none/);
    assert.match((await run("require('@a/b/c')")).error.message, /no package in \/app\/node_modules, \/node_modules, .*--with @a\/b/);
    assert.match((await run("require('internal/shared')")).error.message, /Cannot find module/);
    assert.match((await run("require('net').connect(1)")).error.message, /net's connect is not available: .*fetch\(\)/);
    assert.match((await run("require('./lib/../data.json').x.y")).error.message, /undefined/);
  });

  only("node:test runs tests in order, and reports them", async () => {
    const s = session(Engine);
    const run = (code) => s.run(code, { mode: "script", name: "a.js" });
    const report = async (code) => {
      s.host.output[1] = "";
      const { outcome, exit_code } = await run(`const test = require('node:test'), { describe, it } = test; ${code}`);
      const lines = s.host.output[1].replace(/\([\d.]+ms\)/g, "(ms)").split("\n").filter((line) => !/duration_ms/.test(line));
      return [outcome, exit_code, lines.join("\n")];
    };
    const counts = (tests, suites, pass, fail, cancelled, skipped, todo) =>
      Object.entries({ tests, suites, pass, fail, cancelled, skipped, todo }).map(([name, count]) => `ℹ ${name} ${count}`).join("\n");
    const [outcome, code, text] = await report(`
      const order = [];
      test('one', async (t) => { await t.test('inside', () => { order.push(1) }) });
      describe('suite', () => {
        test.before(() => order.push('before')); test.beforeEach(() => order.push('each')); test.after(() => order.push('after'));
        it('two', (t, done) => setTimeout(done, 5)); it.skip('three', () => { order.push('never') }); it('four', { todo: 'soon' }, () => { throw 'no' });
      });
      test('order', () => require('assert').deepEqual(order, [1, 'before', 'each', 'each', 'after']));`);
    assert.deepEqual([outcome, code], ["ok", 0], text);
    assert.equal(text, "▶ one\n  ✔ inside (ms)\n✔ one (ms)\n▶ suite\n  ✔ two (ms)\n  ﹣ three (ms) # SKIP\n  ✖ four (ms) # soon\n    'no'\n\n✔ suite (ms)\n" +
      `✔ order (ms)\n${counts(6, 1, 4, 0, 0, 1, 1)}\n`);
    const [failed, failedCode, shown] = await report("test('bad', () => require('assert').equal(1, 2)); test('hangs', () => new Promise(() => {}));");
    assert.deepEqual([failed, failedCode], ["exit", 1]);
    assert.match(shown, /^✖ bad \(ms\)\n  AssertionError \[ERR_ASSERTION\]: 1 == 2[^]*✖ hangs \(ms\)\n  \[?Error: the test waits for a promise/);
    assert.ok(shown.includes(counts(2, 0, 0, 1, 1, 0, 0)), shown);
    assert.ok(shown.includes("\n✖ failing tests:\n\n✖ bad"), shown);
    assert.match((await run("require('node:test').mock.fn()")).error.message, /mock is not available/);
    assert.match((await run("require('test')")).error.message, /Cannot find module 'test'/);
  });

  only("errors that a program waits for are its own", async () => {
    const s = session(Engine);
    const script = (code) => s.run(code, { mode: "script", name: "a.js" });
    assert.equal((await script("process.on('uncaughtException', (e) => console.log('caught', e.message)); setTimeout(() => { throw new Error('late') })")).outcome, "ok");
    assert.equal(s.host.output[1], "caught late\n");
    if (name === "QuickJS") {
      assert.equal((await script("process.on('unhandledRejection', (r) => console.log('lost', r)); Promise.reject(5)")).outcome, "ok");
      assert.match(s.host.output[1], /lost 5\n$/);
    }
    assert.equal((await script("setTimeout(() => { throw new Error('late') })")).outcome, "error", "what listened is gone with its script");
    const ended = await script("process.on('exit', (c) => console.log('bye', c)); process.exit(2)");
    assert.deepEqual([ended.outcome, ended.exit_code], ["exit", 2]);
    assert.match(s.host.output[1], /bye 2\n$/);
  });

  only("input is read as a stream, by lines, or by prompt()", async () => {
    const s = session(Engine);
    const input = "one\ntwo\nthree";
    await s.run("process.stdin.setEncoding('utf8'); let all = ''; process.stdin.on('data', (d) => all += d).on('end', () => console.log(JSON.stringify(all)))", { mode: "script", name: "a.js", input });
    await s.run("require('fs').readFileSync(0, 'utf8').split('\\n').length", { input });
    await s.run("console.log(prompt(), require('fs').readFileSync('/dev/stdin', 'utf8'), prompt())", { input });
    await s.run("const rl = require('readline').createInterface({ input: process.stdin }); rl.on('line', (l) => console.log('>', l)); rl.on('close', () => console.log('closed'))", { mode: "script", name: "a.js", input });
    assert.equal(s.host.output[1], '"one\\ntwo\\nthree"\none two\nthree null\n> one\n> two\n> three\nclosed\n');
  });

  only("what is written to the output goes byte for byte, in order", async () => {
    const s = session(Engine);
    const written = async (code, fd = 1) => {
      const from = s.host.written[fd].length;
      const { outcome, error } = await s.run(code, { mode: "script", name: "a.js" });
      assert.equal(outcome, "ok", JSON.stringify(error));
      return s.host.written[fd].subarray(from).toString("hex");
    };
    assert.equal(await written("process.stdout.write(Buffer.from([255, 254, 65])); console.log('é'); process.stdout.write(new Uint8Array([0xc3, 1, 200]).subarray(1))"), "fffe41c3a90a01c8");
    assert.equal(await written("process.stderr.write(new Uint16Array([0x80ff]))", 2), "ff80");
    assert.equal(await written("process.stdout.write('ff00', 'hex'); process.stdout.write('\u00e9', 'latin1'); process.stdout.write('\u00e9', 'UTF-8'); process.stdout.write('', 'hex')"), "ff00e9c3a9");
    assert.equal(await written("process.stdout.write('x', () => console.log('y')); process.stdout.end('eg==', 'base64', () => console.log('z'))"), Buffer.from("xzy\nz\n").toString("hex"));
    assert.equal(await written("const { pipeline, Readable } = require('stream'); pipeline(Readable.from([Buffer.from([200]), 'a']), process.stdout, (e) => console.log(e))"),
                 `c861${Buffer.from("undefined\n").toString("hex")}`);
    for (const wrong of ["5", "null", "{}", "new ArrayBuffer(1)"])
      assert.equal((await s.run(`process.stdout.write(${wrong})`)).error.type, "TypeError", wrong);
  });

  only("names are completed", async () => {
    const s = session(Engine);
    await s.run("const data = { alpha: 1, get beta() { throw new Error('no') } }");
    for (const [code, names] of [["1 + dat", "data"], ["data.", "alpha\nbeta\n"], ["data.al", "alpha"], ["data.beta.a", ""],
                                 ["f().a", ""], ["nosuch.a", ""], ["", ""], ["'a'.at", ""]]) {
      const result = await s.run(code, { mode: "complete" });
      assert.ok(result.value["text/plain"].startsWith(names) && (names !== "" || result.value["text/plain"] === ""), code);
    }
  });

  only("bodies are blobs, forms and streams", async () => {
    const s = session(Engine);
    s.host.answers["http.exchange"] = (method, url) => JSON.stringify({ status: 200, url, headers: {}, body: "héllo" });
    const sent = (i = -1) => Buffer.from(s.host.calls.at(i)[4].base64, "base64").toString();
    await s.run("const form = new FormData(); form.append('a', '1'); form.append('f', new Blob(['x'], { type: 'text/plain' }), 'n.txt'); await fetch('http://h/', { method: 'POST', body: form })");
    assert.match(sent(), /^------membrane\w+\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n/);
    assert.match(sent(), /name="f"; filename="n.txt"\r\nContent-Type: text\/plain\r\n\r\nx\r\n------membrane\w+--\r\n$/);
    assert.match(JSON.parse(s.host.calls.at(-1)[3])["content-type"], /^multipart\/form-data; boundary=----membrane/);
    await s.run("await fetch('http://h/', { method: 'POST', body: new Blob(['ab', new Uint8Array([99])]) })");
    assert.equal(sent(), "abc");
    await s.run("await fetch('http://h/', { method: 'POST', body: ReadableStream.from([new Uint8Array([97]), new Uint8Array([98])]), duplex: 'half' })");
    assert.equal(sent(), "ab");
    if (name === "QuickJS") {
      await s.run("const response = await fetch('http://h/'); let text = ''; for await (const piece of response.body.pipeThrough(new TextDecoderStream())) text += piece; console.log(text, response.bodyUsed)");
      assert.equal(s.host.output[1], "héllo true\n");
    }
  });

  if (name === "QuickJS") {
    only("a text is checked, and does not run", async () => {
      const s = session(Engine);
      const check = (code, name = "a.js") => s.run(code, { mode: "check", name });
      for (const [code, file] of [["console.log(1); await 5; return", "a.js"], ["import x from 'none'; export default x", "a.mjs"], ["const n: number = 5", "a.ts"], ["#!/bin/node\nlet a", "a.js"]])
        if (!file.endsWith(".ts") || languageFile("typescript.js")) assert.equal((await check(code, file)).outcome, "ok", code);
      assert.equal(s.host.output[1], "");
      for (const [code, file, line, column] of [["let a = 1;\nlet b = ;", "a.js", 2, 9], ["if (", "a.js", 1, 5], ["import x from\n5", "a.mjs", 2, 1], ["x = {\n  a: 1,,\n}", "a.js", 2, 8]]) {
        const { outcome, error } = await check(code, file);
        assert.deepEqual([outcome, error.type, error.line, error.column], ["error", "SyntaxError", line, column], code);
      }
    });
  }

  if (name === "QuickJS") {
    only("an error of a script's syntax is told in terms of its own text, as a check does", async () => {
      for (const [code, message, line, column] of [
        ["function f() {\n  return 1;\n\nf();", "Unexpected end of input", 4, 5],
        ["const a = () => {\n  if (1) {\n}\n", "Unexpected end of input", 4, 1],
        ["let a = 1;\n}\nlet b = 2;", "Unexpected token '}'", 2, 1],
        ["let a; }", "Unexpected token '}'", 1, 8],
        ["let a = 1;\n});\nconsole.log('out');\n(() => {", "Unexpected token '}'", 2, 1],
        ["if (1)", "Unexpected end of input", 1, 7],
      ]) {
        const s = session(Engine);
        for (const mode of ["script", "check"]) {
          const { outcome, error } = await s.run(code, { mode, name: "a.js" });
          assert.deepEqual([outcome, error?.type, error?.message], ["error", "SyntaxError", message], `${mode} ${code}`);
          assert.match(error.traceback, new RegExp(`at a.js:${line}:${column}\n`), `${mode} ${code}`);
        }
      }
      const s = session(Engine);
      const { error } = await s.run("/* of an assertion */ require('assert').equal(1, 2)", { mode: "script", name: "a.js" });
      assert.match(error.traceback, /\(a.js:1:40\)/);
      for (const good of ["var f = () => 5", "return 5", "x = 1 // end", "'use strict'; if (1) { let a }", "{}", "x = {}\n-->"])
        assert.equal((await s.run(good, { mode: "script", name: "a.js" })).outcome, "ok", good);
    });
  }

  only("nothing of the prelude lies about", async () => {
    const s = session(Engine);
    assert.equal(await s.value("Object.getOwnPropertyNames(globalThis).filter((n) => n.startsWith('__membrane')).sort().join()"),
                 "'__membrane_import,__membrane_import_later,__membrane_main'");
    assert.equal(await s.value("Object.keys(globalThis).includes('console')"), "false");
    // A program that breaks built-in objects does not break the session.
    await s.run("JSON.parse = JSON.stringify = () => { throw new Error('broken') }; Array.prototype.map = null");
    assert.equal(await s.value("20 + 22"), "42");
  });

  only("what a program adds to the built-in prototypes does not reach the host", async () => {
    for (const kind of ["Object", "Array", "String", "Number", "Boolean"]) {
      const s = session(Engine);
      s.host.answers["math.sum"] = 3;
      await s.run(`${kind}.prototype.toJSON = () => "forged"`);
      assert.equal(await s.value("membrane.math.sum(1, 2n)"), "3", kind);
      assert.deepEqual(s.host.calls.at(-1), ["math.sum", 1, { integer: "2" }], kind);
      assert.equal((await s.run("throw new TypeError('whole')")).error.message, "whole", kind);
    }
    // With these two on Object.prototype, node:vm ends the process: it copies descriptors of its contexts' globals.
    const ofDescriptors = name === "Node" ? [] : ["get", "set"];
    for (const property of ["error", "errno", "value", "fresh", "base64", "integer", "enumerable", "mode", "grant", ...ofDescriptors]) {
      const s = session(Engine);
      s.host.answers["math.sum"] = 3;
      await s.run(`Object.prototype[${JSON.stringify(property)}] = "forged"`);
      assert.equal(await s.value("membrane.math.sum(1, 2n)"), "3", property);
      assert.equal((await s.run("membrane.kv.set('k', 'v'); 5")).outcome, "ok", property);
    }
    const s = session(Engine);
    s.host.answers["math.half"] = 2.5;
    await s.run("Object.setPrototypeOf(Array.prototype, { toJSON() { return 'forged'; } }); Object.prototype.toJSON = () => 'forged'");
    assert.equal(await s.value("membrane.math.half(5)"), "2.5");
    assert.deepEqual(s.host.calls.at(-1), ["math.half", 5]);
  });

  if (name === "QuickJS") {
    only("promises are shown with their state", async () => {
      const s = session(Engine);
      for (const [code, shown] of [
        ["[Promise.resolve(42)]", "[ Promise { 42 } ]"], ["[new Promise(() => {})]", "[ Promise { <pending> } ]"],
        ["const r = Promise.reject('no'); r.catch(() => {}); [r]", "[ Promise { <rejected> 'no' } ]"],
        ["({ p: Promise.resolve({ a: [1] }) })", "{ p: Promise { { a: [Array] } } }"],
        ["class Later extends Promise {}; [Later.resolve(1)]", "[ Later [Promise] { 1 } ]"], ["[Object.create(Promise.prototype)]", "[ Promise {} ]"],
      ]) assert.equal(await s.value(code), shown, code);
    });
  }

  only("a text's encoding has the labels of the Encoding Standard", async () => {
    const s = session(Engine);
    for (const [encoding, labels] of Object.entries({
      "windows-1252": ["latin1", "ISO-8859-1", " ascii ", "us-ascii", "windows-1252", "cp1252", "x-cp1252", "l1", "iso_8859-1:1987"],
      "utf-16be": ["utf-16be", "unicodefffe"], "utf-16le": ["utf-16", "utf-16le", "ucs-2"], "utf-8": ["utf-8", "UTF8", "unicode11utf8"] }))
      for (const label of labels) assert.equal(await s.value(`new TextDecoder(${JSON.stringify(label)}).encoding`), `'${encoding}'`, label);
    assert.equal(await s.value("new TextDecoder('latin1').decode(new Uint8Array([0x63, 0x80, 0x81, 0x8e, 0x99, 0x9f, 0xa0, 0xe9]))"),
                 util.inspect("c\u20ac\u0081\u017d\u2122\u0178\u00a0\u00e9"));
    for (const label of ["iso-8859-2", "constructor"])
      assert.equal((await s.run(`new TextDecoder('${label}')`)).error.message, `The "${label}" encoding is not supported`);
  });

  // Compared with Node, where Node has the same.
  only("the Web's things give what Node's give", async () => {
    const s = session(Engine);
    const expressions = [
      ...["http://Example.com:80/a/../b/./c?x=1 2#f g", "https://user:pa%20ss@h:8443/%7Efoo/é?é#é", "http://[::1]:3000/", "http://[2001:DB8:0:0:1:0:0:1]/", "http://192.168.0.257", "http://0x7f.1/",
          "http://1.2.3", "file:///C:/a/../b", "data:text/plain,hi there", "mailto:a@b.c", "javascript:alert(1)", "HTTP:\\\\h\\p", "  http://h  ", "http://h/%2e%2e/a", "http://h:65536", "http://", "nonsense", "http://h?q", "http://h#",
          "ws://h:80/x", "foo://h/a/../b", "foo:/a//b", "http://a b/", "http://h/a|b", "http://h:0/", "http://%41.com/", "http://1e3/", "http://h/?a='b'", "http:h/p"].map((u) => `try { new URL(${JSON.stringify(u)}).href } catch (e) { e.name }`),
      ...["../c", "/d", "?q=1", "#f", "//other/p", "", ".", "x:y", "http:z", "a/./b/..", "\\w"].map((u) => `try { new URL(${JSON.stringify(u)}, "http://u@h:81/a/b?z#y").href } catch (e) { e.name }`),
      "const u1 = new URL('http://h/p?a=1'); u1.searchParams.append('b', 'c d'); u1.port = '81'; u1.hash = 'x'; u1.pathname = '/q r'; u1.host = 'k:9'; [u1.href, u1.origin, u1.host, u1.search]",
      "const sp = new URLSearchParams('a=1&b=2&a=3+%26'); sp.sort(); [sp.toString(), sp.getAll('a'), sp.get('x'), sp.has('b'), [...sp.keys()], sp.size]",
      "new URLSearchParams({x: 'é', y: '1*2'}).toString()", "new URLSearchParams([['a', 'b']])", "new URL('http://h/?a=b')",
      "new TextEncoder().encode('aé漢😀\\ud800')", "new TextDecoder().decode(new Uint8Array([0xef,0xbb,0xbf,97,0xc3,0xa9,0xff,0xe6,0xbc,0xf0,0x9f,0x98,0x80,0xed,0xa0,0x80,0xc0,0xaf]))",
      "new TextDecoder('utf-16le').decode(new Uint8Array([97,0,61,216,0,222]))",
      ...["utf-16le", "utf-16be"].flatMap((label) => {
        const bytes = (...units) => `new Uint8Array([${units.flatMap((u) => label === "utf-16le" ? [u & 255, u >> 8] : [u >> 8, u & 255])}])`;
        const pairs = [0xfeff, 97, 0xd83d, 0xde00, 0xde00, 0xd83d, 98];
        return [`new TextDecoder('${label}').decode(${bytes(...pairs)})`, `new TextDecoder('${label}', {ignoreBOM: true}).decode(${bytes(...pairs)})`,
          `new TextDecoder('${label}').decode(${bytes(97, 0xd800)})`, `new TextDecoder('${label}').decode(new Uint8Array([97, 0, 97]))`,
          `const td = new TextDecoder('${label}'); [0, 1, 2, 3, 4, 5, 6, 7].map((i) => td.decode(${bytes(...pairs)}.slice(i, i + 1), {stream: true}))`,
          `try { new TextDecoder('${label}', {fatal: true}).decode(${bytes(0xdc00)}) } catch (e) { e.name }`];
      }),
      "const bom = new TextDecoder(); [bom.decode(new Uint8Array([0xef]), {stream: true}), bom.decode(new Uint8Array([0xbb, 0xbf, 97]))]",
      "const td = new TextDecoder(); td.decode(new Uint8Array([0xf0, 0x9f]), {stream: true}) + td.decode(new Uint8Array([0x98, 0x80]))",
      "try { new TextDecoder('utf-8', {fatal: true}).decode(new Uint8Array([255])) } catch (e) { e.name }",
      "const o = {d: new Date(0), m: new Map([[1, {a: 2}]]), s: new Set([1]), r: /x/g, u: new Uint8Array([1, 2]), n: null}; o.self = o; structuredClone(o)",
      "try { structuredClone(() => {}) } catch (e) { e.name }",
      "const et = new EventTarget(); const seen = []; et.addEventListener('x', (e) => seen.push(e.type), {once: true}); et.dispatchEvent(new Event('x')); et.dispatchEvent(new Event('x')); seen",
      "const ac = new AbortController(); let hit = 0; ac.signal.addEventListener('abort', () => hit++); ac.abort(); ac.abort(); [hit, ac.signal.aborted, ac.signal.reason.name]",
      "btoa('abc') + atob('YWJj')", "const h = new Headers({B: '2', a: '1'}); h.append('b', '3'); [...h]", "new Headers({a: 'b'})",
      "new Request('http://h/x', {method: 'post', body: 'a'}).method", "Response.json({a: 1}).headers.get('content-type')",
      "await new Response('é').text()", "await new Response(new Uint8Array([1, 2])).arrayBuffer()",
    ];
    for (const expression of expressions) {
      const [setup, last] = [expression.slice(0, expression.lastIndexOf("; ") + 1 || 0), expression];
      let expected;
      const context = { URL, URLSearchParams, TextEncoder, TextDecoder, structuredClone, EventTarget, Event, AbortController, btoa, atob, Headers, Request, Response, Date, Map, Set, Uint8Array };
      const body = expression.startsWith("try") ? expression.replace(/\{ (new URL|new TextDecoder|structuredClone)/, "{ return $1").replace("{ e.name }", "{ return e.name }")
        : `${setup} return ${setup ? last.slice(setup.length) : last}`;
      expected = util.inspect(await new Function(...Object.keys(context), `return (async () => { ${body} })()`)(...Object.values(context)));
      if (name === "Node" && /^await|^try|^const/.test(expression) && /await/.test(expression)) {
        assert.equal(await s.value(expression), expected, expression);
        continue;
      }
      assert.equal(await s.value(expression), expected, expression);
    }
  });

  if (languageFile("typescript.js") && name === "QuickJS") {
    only("TypeScript runs without its types", async () => {
      const s = session(Engine);
      assert.equal(await s.value("interface P { n: number }\nconst p: P = { n: 4 };\nfunction f<T extends P>(x: T): number { return x!.n as number }\nenum E { A, B }\nclass C { constructor(private n: number) {} get(): number { return this.n } }\n[f<P>(p), E.B, new C(9).get()]", { name: "a.ts" }), "[ 4, 1, 9 ]");
      assert.equal((await s.run("const x: = 5", { language: "typescript" })).error.type, "SyntaxError");
      // What would be lost silently.
      for (const code of ["let a = 1;\n  namespace Shapes { export const n = 1 }", "export namespace A.B {\n  function f() {}\n}", "module M { class C {} }"]) {
        const { error } = await s.run(code, { name: "a.ts" });
        assert.match(`${error?.type}: ${error?.message}`, /^SyntaxError: the namespace (Shapes|A.B|M) has values.* an object/, code);
        const { error: checked } = await s.run(code, { name: "a.ts", mode: "check" });
        assert.deepEqual([checked.line, checked.column], code.startsWith("let") ? [2, 3] : [1, code.startsWith("e") ? 8 : 1], code);
      }
      for (const code of ["declare namespace A { const n: number }\n5", "namespace T { export interface P { n: number } export type F = () => void }\n5",
                          "declare module 'x' { export const a: number }\n5", "const namespace = 4, s = 'namespace X { const a = 1 }';\nnamespace + 1", "declare global { var x: number }\n5"])
        assert.equal(await s.value(code, { name: "a.ts", language: "typescript" }), "5", code);
    });
  }
}

// Tests of QuickJS run only if its module is named, in a process of their own.
if (quick && !process.env.MEMBRANE_ONLY_QUICKJS) {
  test("under Node", () => {
    // Node skips a test of a test without a word.
    const { NODE_TEST_CONTEXT, ...environment } = process.env;
    execFileSync(process.execPath, ["--test", fileURLToPath(import.meta.url)],
                 { env: { ...environment, MEMBRANE_LANGUAGES: "" }, stdio: "pipe" });
  });
}
