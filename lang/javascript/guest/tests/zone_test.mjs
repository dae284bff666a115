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
  vm.runInContext(source("zone.js"), context);
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
  set("nonsense");
  assert.equal(run("new Date(0).getTimezoneOffset()"), 0);
  set(undefined);
  assert.equal(run("new Date(0).getTimezoneOffset()"), 300);
  use(null);
  assert.equal(run("new Date(0).getTimezoneOffset()"), 0);
});
