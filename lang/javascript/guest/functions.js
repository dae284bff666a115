// Functions and objects of the embedder, as a program has them: global names, modules that it imports, classes. Calls and values are those of
// lang/python/guest/membrane/_functions.py.
((globalThis) => {
  "use strict";
  // Those of the language, also where a program has put something else under their names.
  const { Array, ArrayBuffer, BigInt, DataView, Date, Error, EvalError, Infinity, Map, NaN, Number, Object, Promise, RangeError } = globalThis;
  const { ReferenceError, Reflect, RegExp, Set, String, SyntaxError, TypeError, URIError, Uint8Array, WeakMap, WeakSet } = globalThis;
  const shared = globalThis.__membrane;
  const { ask, hosts, ofBase64, toBase64 } = shared;
  const bare = (value) => value !== null && typeof value === "object" && !Array.isArray(value) ? Object.setPrototypeOf(value, null) : value;
  const ours = new Map();   // global names given to the program, and their values: a replacement by the program stays
  const types = new Map();  // the classes that represent the host's
  const ids = new WeakMap();
  let queued = [];

  // --- values ---

  const tagged = (name, value) => ({ __proto__: null, [name]: value });
  function toWire(value) {
    switch (typeof value) {
      case "undefined": return null;
      case "string": case "boolean": return value;
      case "number": return numberToWire(value);
      case "bigint": return tagged("$integer", `${value}`);
      case "object": break;
      default: throw new TypeError(`a ${typeof value} cannot be given to the host${typeof value === "function" ? ": call it, and give what it returns" : ""}`);
    }
    if (value === null) return null;
    if (Array.isArray(value)) return value.map(toWire);
    if (value instanceof Uint8Array) return tagged("$bytes", toBase64(value));
    if (value instanceof ArrayBuffer) return tagged("$bytes", toBase64(new Uint8Array(value)));
    if (value instanceof Date) return tagged("$time", value.toISOString());
    if (value instanceof Map) return mapToWire([...value].map(([key, each]) => [toWire(key), toWire(each)]));
    if (value instanceof Set) return tagged("$set", [...value].map(toWire));
    if (ids.has(value)) return tagged("$object", { id: ids.get(value), type: value.constructor.name });
    if (typeof value.then === "function") throw new TypeError("a Promise cannot be given to the host: await it, and give its value");
    for (const kind of kNoValues)
      if (value instanceof kind) throw new TypeError(`a ${kind.name} cannot be given to the host: give text, an array or a plain object`);
    if (typeof value.toJSON === "function") return toWire(value.toJSON());
    const entries = Object.entries(value).filter(([, each]) => each !== undefined && typeof each !== "function");
    if (entries.length === 1 && entries[0][0].startsWith("$"))
      return tagged("$map", entries.map(([key, each]) => [key, toWire(each)]));
    const made = { __proto__: null };
    for (const [key, each] of entries) made[key] = toWire(each);
    return made;
  }

  const kNoValues = [RegExp, WeakMap, WeakSet, DataView];
  // A whole number that the host would read as another one, digit by digit, stays the float that it is.
  function numberToWire(value) {
    if (!Number.isFinite(value)) return tagged("$number", Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf");
    return Number.isSafeInteger(value) || !Number.isInteger(value) ? value : tagged("$number", `${value}`);
  }
  // Alone, an entry whose key begins with $ is an object's: a Map has it twice.
  const isOfObject = (entries) => entries.length === 1 && typeof entries[0][0] === "string" && entries[0][0].startsWith("$");
  const mapToWire = (entries) => tagged("$map", isOfObject(entries) ? [[entries[0][0], null], ...entries] : entries);

  const kNumbers = { __proto__: null, nan: NaN, inf: Infinity, "-inf": -Infinity };
  const kOfWire = {
    __proto__: null,
    $integer: (text) => {
      const whole = BigInt(text), plain = Number(whole);
      return Number.isSafeInteger(plain) ? plain : whole;
    },
    $number: (text) => kNumbers[text] ?? Number(text),
    $tuple: (values) => values.map(ofWire),
    $map: (entries) => {
      const made = entries.map(([key, value]) => [ofWire(key), ofWire(value)]);
      return isOfObject(entries) ? Object.fromEntries(made) : new Map(made);
    },
    $set: (values) => new Set(values.map(ofWire)),
    $bytes: (text) => ofBase64(text),
    $time: (text) => /^\d{4}-\d\d-\d\d/.test(text) ? new Date(text) : text,
    $seconds: (seconds) => seconds,
    $decimal: (text) => text,
    $uuid: (text) => text,
    $object: ({ id, type }) => {
      const kind = types.get(type);
      if (!kind) throw new TypeError(`the host gave an object of the class ${type}, which was not described`);
      const made = Object.create(kind.prototype);
      ids.set(made, id);
      return made;
    },
  };
  function ofWire(value) {
    if (Array.isArray(value)) return value.map(ofWire);
    if (value === null || typeof value !== "object") return value;
    const names = Object.keys(value);
    if (names.length === 1 && kOfWire[names[0]]) return kOfWire[names[0]](value[names[0]]);
    const made = {};
    for (const name of names)
      Object.defineProperty(made, name, { __proto__: null, value: ofWire(value[name]), writable: true, enumerable: true, configurable: true });
    return made;
  }

  // --- calls ---

  const kErrors = { Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError };
  class HostError extends Error {
    constructor(type, message) {
      super(type ? `${type}: ${message}` : message);
      this.name = "HostError";
      this.typeName = type;
    }
  }
  function valueOf(answer) {
    if (!answer.error) return ofWire(answer.value);
    const { type = "", message = "" } = answer.error;
    throw Object.hasOwn(kErrors, type) ? new kErrors[type](message) : new HostError(type, message);
  }
  const callOf = (name, { values, keywords }, of) => ({
    call: name, arguments: values.map(toWire), ...(keywords ? { keywords: wireOf(keywords) } : {}), ...(of === undefined ? {} : { object: of }) });
  // Member by member: a name among keywords is no sign of a value that JSON lacks.
  const wireOf = (keywords) => ({ __proto__: null, ...Object.fromEntries(Object.entries(keywords).map(([name, value]) => [name, toWire(value)])) });
  const call = (name, given, of) => valueOf(bare(ask({ functions: [callOf(name, given, of)] }, name)).answers[0]);

  // Calls made before the program awaits are sent together, and answered concurrently.
  function callLater(name, given, of) {
    const made = callOf(name, given, of);
    return new Promise((resolve, reject) => {
      queued.push({ made, resolve, reject });
      if (queued.length === 1) Promise.resolve().then(sendQueued);
    });
  }
  function sendQueued() {
    const all = queued;
    queued = [];
    let answers;
    try {
      answers = bare(ask({ functions: all.map(({ made }) => made) })).answers;
    } catch (error) {
      for (const { reject } of all) reject(error);
      return;
    }
    all.forEach(({ resolve, reject }, i) => {
      try {
        resolve(valueOf(answers[i]));
      } catch (error) {
        reject(error);
      }
    });
  }

  // --- the program's view ---

  const named = (made, name) => Object.defineProperty(made, "name", { value: name, configurable: true });
  // A call that does not fit the signature fails here, without a host call; of an async function, where it is awaited.
  function functionOf(spec, fullName, isMethod = false) {
    const bind = shared.binderOf(spec.signature ?? "", spec.name);
    const ofThis = (self) => isMethod ? ids.get(self) : undefined;
    const made = spec.is_async ? async function (...values) { return callLater(fullName, bind(values), ofThis(this)); }
      : function (...values) { return call(fullName, bind(values), ofThis(this)); };
    return named(made, spec.name);
  }

  function typeOf(spec) {
    const made = named(class { constructor() { throw new TypeError(`a ${spec.name} is the host's: it cannot be made here`); } }, spec.name);
    for (const method of spec.methods ?? []) {
      const fullName = `${spec.name}.${method.name}`;
      Object.defineProperty(made.prototype, method.name, { value: functionOf(method, fullName, true), writable: true, configurable: true });
    }
    for (const attribute of spec.attributes ?? [])
      Object.defineProperty(made.prototype, attribute, {
        get() { return call(`${spec.name}.${attribute}`, { values: [] }, ids.get(this)); }, configurable: true });
    return made;
  }

  // Unless the program has assigned something of its own.
  function put(name, value) {
    if (Object.hasOwn(globalThis, name) && !(ours.has(name) && ours.get(name) === globalThis[name])) return;
    ours.set(name, value);
    Reflect.defineProperty(globalThis, name, { __proto__: null, value, writable: true, configurable: true, enumerable: true });
  }
  // The input variables of a turn, in the place of what the program has under their names.
  // Without these the language is none, also for the prelude.
  const kOwn = new Set(Object.getOwnPropertyNames(globalThis).filter((name) => /^(?:[A-Z]|globalThis$|undefined$|eval$)/.test(name)));
  shared.assign = (inputs) => {
    for (const name of Object.keys(inputs))
      if (kOwn.has(name)) throw new TypeError(`the input ${name} has the name of a global of JavaScript's own: give it another one, as ${name}_`);
    const made = Object.entries(inputs).map(([name, value]) => [name, ofWire(value)]);
    for (const [name, value] of made)
      if (!Reflect.defineProperty(globalThis, name, { __proto__: null, value, writable: true, configurable: true, enumerable: true }))
        throw new TypeError(`the input ${name} cannot be set: the program has made that name constant`);
  };
  function add(module, name, value) {
    const made = hosts.get(module) ?? { __proto__: null };
    made[name] = value;
    made.default = made;
    hosts.set(module, made);
  }

  shared.defineFunctions = (given) => {
    const description = bare(given);
    for (const spec of description.types ?? []) {
      types.set(spec.name, typeOf(spec));
      if (spec.module) add(spec.module, spec.name, types.get(spec.name));
    }
    for (const spec of description.functions ?? []) {
      if (spec.module) add(spec.module, spec.name, functionOf(spec, `${spec.module}.${spec.name}`));
      else put(spec.name, functionOf(spec, spec.name));
    }
    for (const [name, value] of Object.entries(description.values ?? {})) put(name, ofWire(value));
  };
})(globalThis);
