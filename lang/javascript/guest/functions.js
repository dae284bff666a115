// Functions and objects of the embedder, as a program has them: global names, modules that it imports, classes. Calls and values are those of
// lang/python/guest/membrane/_functions.py.
(() => {
  "use strict";
  const shared = globalThis.__membrane;
  const { ask, hosts, ofBase64, toBase64 } = shared;
  const bare = (value) => value !== null && typeof value === "object" && !Array.isArray(value) ? Object.setPrototypeOf(value, null) : value;
  const ours = new Map();   // global names given to the program, and their values: a replacement by the program stays
  const types = new Map();  // the classes that represent the host's
  const ids = new WeakMap();
  let queued = [];
  // One more poll of the engine for interruption: it polls twice per loop iteration, and knows its line at every other poll.
  (() => {})();

  // --- values ---

  const tagged = (name, value) => ({ __proto__: null, [name]: value });
  function toWire(value) {
    switch (typeof value) {
      case "undefined": return null;
      case "string": case "boolean": return value;
      case "number": return Number.isFinite(value) ? value : tagged("$number", Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf");
      case "bigint": return tagged("$integer", `${value}`);
      case "object": break;
      default: throw new TypeError(`a ${typeof value} cannot be given to the host`);
    }
    if (value === null) return null;
    if (Array.isArray(value)) return value.map(toWire);
    if (value instanceof Uint8Array) return tagged("$bytes", toBase64(value));
    if (value instanceof ArrayBuffer) return tagged("$bytes", toBase64(new Uint8Array(value)));
    if (value instanceof Date) return tagged("$time", value.toISOString());
    if (value instanceof Map) return tagged("$map", [...value].map(([key, each]) => [toWire(key), toWire(each)]));
    if (value instanceof Set) return tagged("$set", [...value].map(toWire));
    if (ids.has(value)) return tagged("$object", { id: ids.get(value), type: value.constructor.name });
    if (typeof value.toJSON === "function") return toWire(value.toJSON());
    const entries = Object.entries(value).filter(([, each]) => each !== undefined && typeof each !== "function");
    if (entries.length === 1 && entries[0][0].startsWith("$"))
      return tagged("$map", entries.map(([key, each]) => [key, toWire(each)]));
    const made = { __proto__: null };
    for (const [key, each] of entries) made[key] = toWire(each);
    return made;
  }

  const kOfWire = {
    __proto__: null,
    $integer: (text) => {
      const whole = BigInt(text), plain = Number(whole);
      return Number.isSafeInteger(plain) ? plain : whole;
    },
    $number: (text) => text === "nan" ? NaN : text === "inf" ? Infinity : -Infinity,
    $tuple: (values) => values.map(ofWire),
    $map: (entries) => new Map(entries.map(([key, value]) => [ofWire(key), ofWire(value)])),
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
  const callOf = (name, values, of) => ({ call: name, arguments: values.map(toWire), ...(of === undefined ? {} : { object: of }) });
  const call = (name, values, of) => valueOf(bare(ask({ functions: [callOf(name, values, of)] }, name)).answers[0]);

  // Calls made before the program awaits are sent together, and answered concurrently.
  function callLater(name, values, of) {
    const made = callOf(name, values, of);
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
  const functionOf = (spec, fullName) =>
    named(spec.is_async ? (...values) => callLater(fullName, values) : (...values) => call(fullName, values), spec.name);

  function typeOf(spec) {
    const made = named(class { constructor() { throw new TypeError(`a ${spec.name} is the host's: it cannot be made here`); } }, spec.name);
    for (const method of spec.methods ?? []) {
      const fullName = `${spec.name}.${method.name}`;
      const value = method.is_async ? function (...values) { return callLater(fullName, values, ids.get(this)); }
        : function (...values) { return call(fullName, values, ids.get(this)); };
      Object.defineProperty(made.prototype, method.name, { value: named(value, method.name), writable: true, configurable: true });
    }
    for (const attribute of spec.attributes ?? [])
      Object.defineProperty(made.prototype, attribute, {
        get() { return call(`${spec.name}.${attribute}`, [], ids.get(this)); }, configurable: true });
    return made;
  }

  // Unless the program has assigned something of its own.
  function put(name, value) {
    if (Object.hasOwn(globalThis, name) && !(ours.has(name) && ours.get(name) === globalThis[name])) return;
    ours.set(name, value);
    Reflect.defineProperty(globalThis, name, { __proto__: null, value, writable: true, configurable: true, enumerable: true });
  }
  // The input variables of a turn, in the place of what the program has under their names.
  shared.assign = (inputs) => {
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
})();
