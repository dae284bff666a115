// Local time by a zone's rules, compared with Node's own, which knows the same zones.
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { test } from "node:test";
import vm from "node:vm";
import { source } from "./prelude.mjs";

const kDatabase = "/usr/share/zoneinfo/";
const kZones = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "America/Sao_Paulo", "Africa/Casablanca",
                "Pacific/Apia", "Europe/Dublin"];
const skip = !existsSync(`${kDatabase}${kZones[0]}`) && "there is no tzdata";

// A context whose own zone is UTC, like the engine's; nothing runs in it while this process uses another zone.
process.env.TZ = "UTC";
function contextIn(zone) {
  const context = vm.createContext({ atob, __membrane: {} });
  for (const name of ["zone.js", "intl/options.js", "intl/zone_names.js"]) vm.runInContext(source(name), context);
  const use = (name) => context.__membrane.useZone(
    name && { name, tzif_base64: readFileSync(kDatabase + name).toString("base64") });
  use(zone);
  return { run: (code) => vm.runInContext(code, context), use };
}
const inZone = (zone, act) => {
  process.env.TZ = zone;
  try {
    return act();
  } finally {
    process.env.TZ = "UTC";
  }
};

const kTell = `(() => {
  const shown = [];
  for (let at = Date.UTC(1971, 0, 1); at < Date.UTC(2060, 0, 1); at += 86_400_000 * 11 + 3_600_000 * 5 + 1_234) {
    const date = new Date(at), utc = [date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate(), date.getUTCHours()];
    const later = new Date(at);
    later.setHours(later.getHours() + 30, 15);
    later.setMonth(later.getMonth() + 1);
    shown.push([at, date.getTimezoneOffset(), date.getFullYear(), date.getMonth(), date.getDate(), date.getDay(), date.getHours(),
               date.getMinutes(), date.getSeconds(), date.getMilliseconds(), String(date).replace(/ \\(.*/, ""), date.toDateString(),
               +new Date(...utc, 30), +new Date(date.toISOString().slice(0, 19)), +new Date(date.toISOString().slice(0, 10)),
               Date.parse(date.toUTCString()), Date.parse(String(date)), +later].join());
  }
  const wrong = new Date(NaN);
  shown.push([wrong.getHours(), wrong.getTimezoneOffset(), String(wrong), +new Date(undefined), +new Date("nonsense"), +new Date(2026, NaN)].join());
  shown.push([Date.length, Date.name, new Date().constructor === Date, new Date() instanceof Date, typeof Date(), +new Date(new Date(5))].join());
  wrong.setFullYear(2026);
  shown.push(+wrong);
  return shown;
})()`;

for (const zone of kZones)
  test(`local time is as Node has it: ${zone}`, { skip }, () => {
    const expected = inZone(zone, () => vm.runInContext(kTell, vm.createContext({})));
    const { run } = contextIn(zone);
    assert.deepEqual([...run(kTell)], [...expected]);
  });

const kEdges = `(() => {
  const shown = [];
  const tell = (call) => { try { shown.push(String(call())) } catch (error) { shown.push(error.name) } };
  for (const ms of [8.64e15, -8.64e15, 8.64e15 - 1, 8.64e15 - 18_000_000, Date.UTC(1700, 6, 1, 12, 30, 15, 77), Date.UTC(1800, 0, 1), Date.UTC(1890, 0, 1),
                    Date.UTC(2024, 0, 1), Date.UTC(2024, 6, 1), Date.UTC(2100, 6, 1)]) {
    const date = new Date(ms);
    for (const name of ["toString", "toDateString", "toTimeString", "getFullYear", "getHours", "getTimezoneOffset", "getDay", "getSeconds"]) tell(() => date[name]());
    tell(() => Date.parse(date.toString()));
    for (const [name, value] of [["setHours", 1], ["setMilliseconds", 0], ["setDate", 12], ["setFullYear", 2024]]) tell(() => new Date(ms)[name](value));
  }
  for (const hour of [0, 1, 5, 30, -4]) tell(() => +new Date(275760, 8, 13, hour));
  for (const value of [new String("2024-07-01T00:00:00"), { [Symbol.toPrimitive]: (hint) => hint === "default" ? "2024-07-01T00:00:00" : 5 },
                       { toString: () => "2024-07-01T00:00:00" }, { valueOf: () => 7 }, new Number(7), new Date(9), [2024, 7, 1], null, true, 5n, Symbol(),
                       { [Symbol.toPrimitive]: () => ({}) }, { [Symbol.toPrimitive]: 5 }, Object.assign(new Date(9), { valueOf: () => 3 })])
    tell(() => +new Date(value));
  return shown;
})()`;
for (const zone of ["Europe/Berlin", "America/New_York", "Asia/Kolkata"])
  test(`the ends of time, and what is no number, are as Node has them: ${zone}`, { skip }, () => {
    const expected = inZone(zone, () => vm.runInContext(kEdges, vm.createContext({})));
    assert.deepEqual([...contextIn(zone).run(kEdges)], [...expected]);
  });

test("a clock of the program's own stays, and a failed installation is tried again", { skip }, () => {
  const { run, use } = contextIn(null);
  run("const Own = Date; globalThis.Date = class Fake {}");
  use("Europe/Berlin");
  assert.equal(run("Date.name + new Own(0).getHours()"), "Fake1");
  run("globalThis.Date = Own");
  use("Asia/Kolkata");
  assert.equal(run("new Date(2024, 0, 1).toISOString()"), "2023-12-31T18:30:00.000Z");
  const other = contextIn(null);
  other.run("const set = Object.defineProperty; Object.defineProperty = () => { throw new TypeError('no') }");
  assert.throws(() => other.use("Europe/Berlin"), /no/);
  assert.equal(other.run("Object.defineProperty = set; new Date(0).getHours()"), 0);
  other.use("Europe/Berlin");
  assert.equal(other.run("new Date(0).getHours()"), 1);
});

test("without a zone it is UTC again", { skip }, () => {
  const { run, use } = contextIn(kZones[0]);
  use(null);
  assert.deepEqual([...run(kTell)], [...vm.runInContext(kTell, vm.createContext({}))]);
});

test("a zone that is one offset needs no change", () => {
  const head = Buffer.concat([Buffer.from("TZif2"), Buffer.alloc(31), Buffer.from([0, 0, 0, 1, 0, 0, 0, 4])]);
  const block = Buffer.concat([head, Buffer.from([0, 0, 0x1c, 0x20, 0, 0]), Buffer.from("+02\0")]);
  const context = vm.createContext({ atob, __membrane: {} });
  vm.runInContext(source("zone.js"), context);
  const whole = Buffer.concat([block, block, Buffer.from("\n<+02>-02:00\n")]);
  context.__membrane.useZone({ name: "+02:00", tzif_base64: whole.toString("base64") });
  assert.equal(vm.runInContext("String(new Date(0))", context), "Thu Jan 01 1970 02:00:00 GMT+0200 (+02)");
});

test("TZ is a name or a rule, and the embedder's zone holds without it", { skip }, () => {
  const { run, use } = contextIn(kZones[1]);
  const set = (text) => run(`__membrane.useVariable(${JSON.stringify(text)})`);
  const kRule = "EST5EDT,M3.2.0,M11.1.0";
  set(`:${kRule}`);
  const year = `Array.from({ length: 366 }, (_, day) => new Date(Date.UTC(2024, 0, 1 + day, 7, 30)).getHours()).join()`;
  assert.equal(run(year), inZone(kZones[1], () => vm.runInContext(year, vm.createContext({}))));
  for (const wrong of ["nonsense", "XXX25", "XXX-25", "XXX1:60"]) {
    set(wrong);
    assert.equal(run("new Date(0).getTimezoneOffset()"), 0, wrong);
  }
  set("XXX24:59:59");
  assert.equal(run("new Date(0).getTimezoneOffset()"), 1499);
  set(undefined);
  assert.equal(run("new Date(0).getTimezoneOffset()"), 300);
  use(null);
  assert.equal(run("new Date(0).getTimezoneOffset()"), 0);
});
