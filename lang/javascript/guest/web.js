// Globals that Web platforms and servers have: encoders, events, cloning, randomness.
(() => {
  "use strict";
  const shared = globalThis.__membrane;
  const { globals } = shared;

  const bytesOf = (data) => data instanceof ArrayBuffer ? new Uint8Array(data)
    : ArrayBuffer.isView(data) ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
    : (() => { throw new TypeError("bytes are an ArrayBuffer or a view of one"); })();

  // The engine counts from the creation of the image, which may be later than the start of a run's own clock.
  const now = globalThis.performance.now.bind(globalThis.performance);
  let earlier;
  class Performance {
    timeOrigin = 0;
    now() {
      const ms = now();
      earlier ??= Math.min(ms, 0);
      return ms - earlier;
    }
    get [Symbol.toStringTag]() { return "Performance"; }
  }
  const performance = new Performance();

  // The host reads and writes UTF-8; invalid UTF-8 is handled by the decoder below.
  const utf8 = globalThis.__membrane_utf8, text = globalThis.__membrane_text;
  shared.compress = globalThis.__membrane_compress;
  for (const name of ["__membrane_utf8", "__membrane_text", "__membrane_compress"]) delete globalThis[name];
  shared.utf8 = (value) => utf8(value.toWellFormed());
  shared.textOf = (bytes) => text(bytes) ?? new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);

  class TextEncoder {
    get encoding() { return "utf-8"; }
    encode(text = "") { return shared.utf8(String(text)); }
    encodeInto(given, into) {
      const text = String(given), bytes = this.encode(text);
      if (bytes.length <= into.length) {
        into.set(bytes);
        return { read: text.length, written: bytes.length };
      }
      let written = into.length;
      while (written > 0 && (bytes[written] & 0xc0) === 0x80) --written;  // a character is never split
      into.set(bytes.subarray(0, written));
      return { read: shared.textOf(bytes.subarray(0, written)).length, written };
    }
    get [Symbol.toStringTag]() { return "TextEncoder"; }
  }

  // Labels of the Encoding Standard.
  const kLabelsOf = {
    "utf-8": "unicode-1-1-utf-8 unicode11utf8 unicode20utf8 utf-8 utf8 x-unicode20utf8",
    "utf-16le": "csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff utf-16 utf-16le",
    "utf-16be": "unicodefffe utf-16be",
    "windows-1252":
      "ansi_x3.4-1968 ascii cp1252 cp819 csisolatin1 ibm819 iso-8859-1 iso-ir-100 iso8859-1 iso88591 iso_8859-1 " +
      "iso_8859-1:1987 l1 latin1 us-ascii windows-1252 x-cp1252",
  };
  const encodings = { __proto__: null };
  for (const [encoding, labels] of Object.entries(kLabelsOf))
    for (const label of labels.split(" ")) encodings[label] = encoding;
  // What windows-1252 has from 0x80 to 0x9F; the rest is Latin-1's.
  const kOf1252 =
    "\u20ac\u0081\u201a\u0192\u201e\u2026\u2020\u2021\u02c6\u2030\u0160\u2039\u0152\u008d\u017d\u008f" +
    "\u0090\u2018\u2019\u201c\u201d\u2022\u2013\u2014\u02dc\u2122\u0161\u203a\u0153\u009d\u017e\u0178";

  // The length of a sequence with this first byte, and the range of its second byte.
  function sequenceOf(first) {
    if (first >= 0xc2 && first <= 0xdf) return [2, 0x80, 0xbf];
    if (first >= 0xe0 && first <= 0xef) return [3, first === 0xe0 ? 0xa0 : 0x80, first === 0xed ? 0x9f : 0xbf];
    if (first >= 0xf0 && first <= 0xf4) return [4, first === 0xf0 ? 0x90 : 0x80, first === 0xf4 ? 0x8f : 0xbf];
    return [0, 0, 0];
  }

  class TextDecoder {
    #left = new Uint8Array(0);
    #isFirst = true;
    constructor(label = "utf-8", { fatal = false, ignoreBOM = false } = {}) {
      this.encoding = encodings[String(label).trim().toLowerCase()];
      if (this.encoding === undefined) throw new RangeError(`The "${label}" encoding is not supported`);
      Object.assign(this, { fatal: Boolean(fatal), ignoreBOM: Boolean(ignoreBOM) });
    }
    decode(data = new Uint8Array(0), { stream = false } = {}) {
      let bytes = bytesOf(data);
      if (this.#left.length) {
        const joined = new Uint8Array(this.#left.length + bytes.length);
        joined.set(this.#left);
        joined.set(bytes, this.#left.length);
        bytes = joined;
        this.#left = new Uint8Array(0);
      }
      const whole = this.encoding === "utf-8" ? text(bytes) : undefined;
      if (whole !== undefined) {
        const isStart = this.#isFirst && !this.ignoreBOM && whole.charCodeAt(0) === 0xfeff;
        this.#isFirst = !stream || (this.#isFirst && whole === "");
        return isStart ? whole.slice(1) : whole;
      }
      const pieces = [];
      let units = [];
      const put = (unit) => {
        units.push(unit);
        if (units.length === 4096) {
          pieces.push(String.fromCharCode(...units));
          units = [];
        }
      };
      this[this.encoding === "utf-8" ? "_utf8" : this.encoding === "windows-1252" ? "_windows1252" : "_utf16"](bytes, stream, put);
      const made = pieces.join("") + String.fromCharCode(...units);
      const isStart = this.#isFirst && !this.ignoreBOM && made.startsWith("\ufeff");
      this.#isFirst = !stream || (this.#isFirst && made === "");
      return isStart ? made.slice(1) : made;
    }
    _wrong(put) {
      if (this.fatal) throw new TypeError("The encoded data was not valid for encoding " + this.encoding);
      put(0xfffd);
    }
    _utf8(bytes, stream, put) {
      for (let i = 0; i < bytes.length;) {
        const first = bytes[i];
        if (first < 0x80) {
          put(first);
          ++i;
          continue;
        }
        const [length, least, most] = sequenceOf(first);
        let taken = 1;
        let code = first & (0x7f >> length);
        while (taken < length && i + taken < bytes.length) {
          const next = bytes[i + taken];
          if (taken === 1 ? next < least || next > most : (next & 0xc0) !== 0x80) break;
          code = code << 6 | next & 0x3f;
          ++taken;
        }
        if (length && taken < length && i + taken === bytes.length && stream) {
          this.#left = bytes.slice(i);
          return;
        }
        if (!length || taken < length) this._wrong(put);
        else if (code < 0x10000) put(code);
        else {
          put(0xd800 + (code - 0x10000 >> 10));
          put(0xdc00 + (code - 0x10000 & 0x3ff));
        }
        i += taken;
      }
    }
    _utf16(bytes, stream, put) {
      const low = this.encoding === "utf-16le" ? 0 : 1;
      const unitAt = (i) => bytes[i + low] | bytes[i + 1 - low] << 8;
      let i = 0;
      for (; i + 1 < bytes.length; i += 2) {
        const unit = unitAt(i);
        if (unit < 0xd800 || unit > 0xdfff) {
          put(unit);
          continue;
        }
        if (unit < 0xdc00 && i + 3 >= bytes.length) break;  // its second half may follow
        const next = unit < 0xdc00 ? unitAt(i + 2) : 0;
        if (next >= 0xdc00 && next <= 0xdfff) {
          put(unit);
          put(next);
          i += 2;
        } else this._wrong(put);
      }
      if (i < bytes.length) stream ? this.#left = bytes.slice(i) : this._wrong(put);
    }
    _windows1252(bytes, stream, put) {
      for (const byte of bytes) put(byte >= 0x80 && byte <= 0x9f ? kOf1252.charCodeAt(byte - 0x80) : byte);
    }
    get [Symbol.toStringTag]() { return "TextDecoder"; }
  }

  // --- events ---

  class Event {
    constructor(type, { cancelable = false, bubbles = false } = {}) {
      Object.assign(this, { type: String(type), cancelable, bubbles, defaultPrevented: false, target: null, currentTarget: null,
                            timeStamp: performance.now() });
    }
    preventDefault() { if (this.cancelable) this.defaultPrevented = true; }
    stopPropagation() {}
    stopImmediatePropagation() { this._stopped = true; }
  }
  class CustomEvent extends Event {
    constructor(type, options = {}) {
      super(type, options);
      this.detail = options.detail ?? null;
    }
  }

  class EventTarget {
    #listeners = new Map();
    addEventListener(type, listener, options = {}) {
      if (listener === null || listener === undefined) return;
      const once = typeof options === "object" && options !== null && Boolean(options.once);
      const list = this.#listeners.get(type) ?? [];
      if (!list.some((l) => l.listener === listener)) this.#listeners.set(type, [...list, { listener, once }]);
      options?.signal?.addEventListener("abort", () => this.removeEventListener(type, listener));
    }
    removeEventListener(type, listener) {
      this.#listeners.set(type, (this.#listeners.get(type) ?? []).filter((l) => l.listener !== listener));
    }
    dispatchEvent(event) {
      event.target = event.currentTarget = this;
      const own = this[`on${event.type}`];
      if (typeof own === "function") own.call(this, event);
      for (const { listener, once } of this.#listeners.get(event.type) ?? []) {
        if (once) this.removeEventListener(event.type, listener);
        typeof listener === "function" ? listener.call(this, event) : listener.handleEvent(event);
        if (event._stopped) break;
      }
      return !event.defaultPrevented;
    }
  }

  const abortError = () => new DOMException("This operation was aborted", "AbortError");
  class AbortSignal extends EventTarget {
    aborted = false;
    reason = undefined;
    onabort = null;
    static abort(reason = abortError()) {
      const signal = new AbortSignal();
      signal._abort(reason);
      return signal;
    }
    static timeout(ms) {
      const signal = new AbortSignal();
      globalThis.setTimeout(() => signal._abort(new DOMException("The operation was aborted due to timeout", "TimeoutError")), ms);
      return signal;
    }
    static any(signals) {
      const signal = new AbortSignal();
      for (const one of signals) {
        if (one.aborted) signal._abort(one.reason);
        else one.addEventListener("abort", () => signal._abort(one.reason));
      }
      return signal;
    }
    throwIfAborted() { if (this.aborted) throw this.reason; }
    _abort(reason) {
      if (this.aborted) return;
      Object.assign(this, { aborted: true, reason });
      this.dispatchEvent(new Event("abort"));
    }
  }
  class AbortController {
    signal = new AbortSignal();
    abort(reason = abortError()) { this.signal._abort(reason); }
  }

  class MessageEvent extends Event {
    constructor(type, options = {}) {
      super(type, options);
      const { data = null, origin = "", lastEventId = "", source = null, ports = [] } = options;
      Object.assign(this, { data, origin, lastEventId, source, ports });
    }
  }
  // Both ends are in the same thread: a message arrives a little later, as a copy.
  class MessagePort extends EventTarget {
    #other = null;
    static pair() {
      const [a, b] = [new MessagePort(), new MessagePort()];
      a.#other = b;
      b.#other = a;
      return [a, b];
    }
    postMessage(value) {
      const to = this.#other, data = structuredClone(value);
      if (to) globalThis.setImmediate(() => to.dispatchEvent(new MessageEvent("message", { data })));
    }
    on(name, listener) {
      this.addEventListener(name, (event) => listener(event.data));
      return this;
    }
    start() {}
    ref() {}
    unref() {}
    close() {
      if (this.#other) this.#other.#other = null;
      this.#other = null;
    }
  }
  class MessageChannel {
    constructor() { [this.port1, this.port2] = MessagePort.pair(); }
  }

  // --- copies ---

  function structuredClone(value, { transfer = [] } = {}) {
    if (transfer.length) throw new DOMException("Nothing can be transferred: there is nobody else.", "DataCloneError");
    const copies = new Map();
    const copy = (v) => {
      if (typeof v === "function" || typeof v === "symbol")
        throw new DOMException(`${String(v).slice(0, 80)} could not be cloned.`, "DataCloneError");
      if (v === null || typeof v !== "object") return v;
      if (copies.has(v)) return copies.get(v);
      const keep = (made) => (copies.set(v, made), made);
      const kind = Object.prototype.toString.call(v).slice(8, -1);
      if (v instanceof Date) return keep(new Date(v.getTime()));
      if (v instanceof RegExp) return keep(new RegExp(v.source, v.flags));
      if (v instanceof ArrayBuffer) return keep(v.slice(0));
      if (ArrayBuffer.isView(v)) {
        const length = v.length ?? v.byteLength;
        return keep(new globalThis[kind](copy(v.buffer), v.byteOffset, length));
      }
      if (v instanceof Map) {
        const made = keep(new Map());
        for (const [key, inner] of [...v]) made.set(copy(key), copy(inner));
        return made;
      }
      if (v instanceof Set) {
        const made = keep(new Set());
        for (const inner of [...v]) made.add(copy(inner));
        return made;
      }
      if (v instanceof Error) {
        const Kind = { EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError }[v.name] ?? Error;
        const made = keep(Object.create(Kind.prototype));
        for (const name of ["message", "stack", "cause"])
          if (Object.hasOwn(v, name) || (name === "stack" && typeof v.stack === "string")) Object.defineProperty(made, name, { value: copy(v[name]), writable: true, configurable: true });
        return made;
      }
      if (["Number", "String", "Boolean", "BigInt"].includes(kind) && typeof v.valueOf() !== "object") return keep(Object(v.valueOf()));
      if (["WeakMap", "WeakSet", "WeakRef", "Promise", "Generator"].includes(kind))
        throw new DOMException(`#<${kind}> could not be cloned.`, "DataCloneError");
      const made = keep(Array.isArray(v) ? new Array(v.length) : {});
      for (const key of Object.keys(v)) made[key] = copy(v[key]);
      return made;
    };
    return copy(value);
  }

  // --- randomness ---

  const crypto = {
    getRandomValues(array) {
      if (!ArrayBuffer.isView(array) || array instanceof Float32Array || array instanceof Float64Array || array instanceof DataView)
        throw new TypeError("getRandomValues takes an array of integers");
      if (array.byteLength > 65536)
        throw new DOMException(`The requested length ${array.byteLength} is larger than 65536`, "QuotaExceededError");
      bytesOf(array).set(shared.randomBytes(array.byteLength));
      return array;
    },
    randomUUID() {
      const bytes = crypto.getRandomValues(new Uint8Array(16));
      bytes[6] = bytes[6] & 0x0f | 0x40;
      bytes[8] = bytes[8] & 0x3f | 0x80;
      const hex = [...bytes].map((b) => b.toString(16).padStart(2, "0")).join("");
      return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
    },
    get [Symbol.toStringTag]() { return "Crypto"; },
  };

  shared.bytesOf = bytesOf;
  // Additions of Node, created on first use.
  const subtle = () => shared.builtin("crypto").subtle;
  Object.defineProperty(crypto, "subtle", { get: subtle, enumerable: true, configurable: true });

  Object.assign(globals, { AbortController, AbortSignal, CustomEvent, Event, EventTarget, MessageChannel, MessageEvent, MessagePort,
                           TextDecoder, TextEncoder, crypto, performance, structuredClone });
})();
