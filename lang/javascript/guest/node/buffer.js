// node:buffer. Strings, hexadecimal and base64 go through the engine; numbers through one DataView of eight bytes.
(() => {
  "use strict";
  const shared = globalThis.__membrane;
  const { globals } = shared;
  const kMaxLength = 0x7fffffff;

  const kEncodings = {
    utf8: "utf8",
    "utf-8": "utf8",
    hex: "hex",
    base64: "base64",
    base64url: "base64url",
    latin1: "latin1",
    binary: "latin1",
    ascii: "ascii",
    ucs2: "utf16le",
    "ucs-2": "utf16le",
    utf16le: "utf16le",
    "utf-16le": "utf16le",
  };
  const encodingOf = (name) =>
    name === undefined || name === null || name === "" ? "utf8" : kEncodings[`${name}`.toLowerCase()];

  // --- strings and bytes ---

  const kPiece = 4096;
  function characters(bytes, mask = 0xff) {
    const pieces = [];
    for (let at = 0; at < bytes.length; at += kPiece) {
      const piece = bytes.subarray(at, at + kPiece);
      pieces.push(
        String.fromCharCode.apply(null, mask === 0xff ? piece : Array.prototype.map.call(piece, (byte) => byte & mask)),
      );
    }
    return pieces.join("");
  }
  function units(bytes) {
    const pieces = [];
    const length = bytes.length & ~1;
    for (let at = 0; at < length; at += 2 * kPiece) {
      const codes = [];
      for (let i = at; i < Math.min(length, at + 2 * kPiece); i += 2) codes.push(bytes[i] | (bytes[i + 1] << 8));
      pieces.push(String.fromCharCode.apply(null, codes));
    }
    return pieces.join("");
  }
  const decoders = {
    utf8: (bytes) => shared.textOf(bytes),
    hex: (bytes) => toHex(bytes),
    latin1: (bytes) => characters(bytes),
    ascii: (bytes) => characters(bytes, 0x7f),
    base64: (bytes) => shared.toBase64(bytes),
    base64url: (bytes) => shared.toBase64(bytes).replace(/[+/=]/g, (c) => ({ "+": "-", "/": "_", "=": "" })[c]),
    utf16le: units,
  };
  const toHex = (bytes) => Uint8Array.prototype.toHex.call(bytes);
  function ofHex(text) {
    const clean = /^(?:[0-9a-fA-F]{2})*/.exec(text)[0];
    return Uint8Array.fromHex(clean);
  }
  // Characters outside the alphabet are skipped, and "=" ends it.
  function ofBase64(text) {
    let clean = text
      .replace(/=[^]*$/, "")
      .replace(/[^A-Za-z0-9+/_-]/g, "")
      .replace(/-/g, "+")
      .replace(/_/g, "/");
    if (clean.length % 4 === 1) clean = clean.slice(0, -1);
    return Uint8Array.fromBase64(clean);
  }
  function ofUnits(text) {
    const bytes = new Uint8Array(text.length * 2);
    for (let i = 0; i < text.length; ++i) {
      const code = text.charCodeAt(i);
      bytes[2 * i] = code;
      bytes[2 * i + 1] = code >> 8;
    }
    return bytes;
  }
  function ofLatin1(text) {
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; ++i) bytes[i] = text.charCodeAt(i);
    return bytes;
  }
  const encoders = {
    utf8: (text) => shared.utf8(text),
    hex: ofHex,
    base64: ofBase64,
    base64url: ofBase64,
    latin1: ofLatin1,
    ascii: ofLatin1,
    utf16le: ofUnits,
  };

  shared.factories.set("buffer", (exports, module, load) => {
    const { checkInteger, checkString, coded, outOfRange, wrongType, wrongValue } = load("internal/check");
    const unknown = (encoding) => {
      throw coded(TypeError, "ERR_UNKNOWN_ENCODING", `Unknown encoding: ${encoding}`);
    };
    const known = (encoding) => encodingOf(encoding) ?? unknown(encoding);

    class FastBuffer extends Uint8Array {}
    const wrap = (bytes) => new FastBuffer(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    function checkSize(size) {
      if (typeof size !== "number") wrongType("size", "of type number", size);
      if (!(size >= 0 && size <= kMaxLength)) outOfRange("size", `>= 0 && <= ${kMaxLength}`, size);
    }

    function Buffer(value, encoding, length) {
      if (typeof value === "number") {
        if (typeof encoding === "string") wrongType("string", "of type string", value);
        return Buffer.alloc(value);
      }
      return Buffer.from(value, encoding, length);
    }
    Buffer.prototype = FastBuffer.prototype;
    Object.setPrototypeOf(Buffer, Uint8Array);
    Object.defineProperty(FastBuffer.prototype, "constructor", {
      value: Buffer,
      writable: true,
      configurable: true,
      enumerable: false,
    });
    Object.defineProperty(Buffer, Symbol.species, { get: () => FastBuffer, configurable: true });

    const isView = (value) => ArrayBuffer.isView(value);
    function fromObject(value) {
      if (value.length !== undefined || value.buffer instanceof ArrayBuffer) {
        if (typeof value.length !== "number") return new FastBuffer(0);
        return wrap(Uint8Array.from({ length: value.length }, (_, i) => value[i]));
      }
      if (value.type === "Buffer" && Array.isArray(value.data)) return wrap(Uint8Array.from(value.data));
      return undefined;
    }
    const isShared = (value) =>
      value instanceof ArrayBuffer || (typeof SharedArrayBuffer === "function" && value instanceof SharedArrayBuffer);

    Object.assign(Buffer, {
      poolSize: 8192,
      from(value, encoding, length) {
        if (typeof value === "string") return wrap(encoders[known(encoding)](value));
        if (value !== null && typeof value === "object") {
          if (isShared(value)) {
            const offset = encoding === undefined ? 0 : Number(encoding) || 0;
            if (offset > value.byteLength)
              throw coded(RangeError, "ERR_BUFFER_OUT_OF_BOUNDS", '"offset" is outside of buffer bounds');
            return new FastBuffer(value, offset, length === undefined ? undefined : Math.max(0, Number(length) || 0));
          }
          if (isView(value) && !(value instanceof DataView)) return wrap(Uint8Array.from(value));
          const plain = value.valueOf?.();
          if (
            plain !== undefined &&
            plain !== null &&
            plain !== value &&
            (typeof plain === "string" || typeof plain === "object")
          )
            return Buffer.from(plain, encoding, length);
          const made = fromObject(value);
          if (made !== undefined) return made;
          if (typeof value[Symbol.toPrimitive] === "function") {
            const primitive = value[Symbol.toPrimitive]("string");
            if (typeof primitive === "string") return Buffer.from(primitive, encoding);
          }
        }
        return wrongType(
          "first argument",
          "of type string or an instance of Buffer, ArrayBuffer, or Array or an Array-like Object",
          value,
        );
      },
      of: (...values) => wrap(Uint8Array.from(values)),
      alloc(size, fill, encoding) {
        checkSize(size);
        const made = new FastBuffer(size);
        return fill !== undefined && fill !== 0 && size > 0 ? made.fill(fill, encoding) : made;
      },
      allocUnsafe: (size) => Buffer.alloc(size),
      allocUnsafeSlow: (size) => Buffer.alloc(size),
      isBuffer: (value) => value instanceof FastBuffer,
      isEncoding: (name) => typeof name === "string" && name !== "" && encodingOf(name) !== undefined,
      byteLength(value, encoding) {
        if (typeof value !== "string") {
          if (isView(value) || isShared(value)) return value.byteLength;
          wrongType("string", "of type string or an instance of Buffer or ArrayBuffer", value);
        }
        switch (encodingOf(encoding) ?? "utf8") {
          case "utf16le":
            return value.length * 2;
          case "hex":
            return value.length >>> 1;
          case "latin1":
          case "ascii":
            return value.length;
          case "base64":
          case "base64url": {
            const bare = value.length - (value.endsWith("==") ? 2 : value.endsWith("=") ? 1 : 0);
            return (bare * 3) >>> 2;
          }
          default:
            return shared.utf8(value).length;
        }
      },
      concat(list, total) {
        if (!Array.isArray(list)) wrongType("list", "an instance of Array", list);
        list.forEach((each, i) => {
          if (!(each instanceof Uint8Array)) wrongType(`list[${i}]`, "an instance of Buffer or Uint8Array", each);
        });
        const length = total === undefined ? list.reduce((sum, each) => sum + each.length, 0) : total;
        checkInteger(length, "length", 0);
        const made = Buffer.alloc(length);
        let at = 0;
        for (const each of list) {
          if (at >= length) break;
          made.set(at + each.length > length ? each.subarray(0, length - at) : each, at);
          at += each.length;
        }
        return made;
      },
      compare(a, b) {
        if (!(a instanceof Uint8Array)) wrongType("buf1", "an instance of Buffer or Uint8Array", a);
        if (!(b instanceof Uint8Array)) wrongType("buf2", "an instance of Buffer or Uint8Array", b);
        const length = Math.min(a.length, b.length);
        for (let i = 0; i < length; ++i) if (a[i] !== b[i]) return a[i] < b[i] ? -1 : 1;
        return Math.sign(a.length - b.length);
      },
      copyBytesFrom(view, offset = 0, length = view.length - offset) {
        const part = view.slice(offset, offset + length);
        return wrap(new Uint8Array(part.buffer, part.byteOffset, part.byteLength));
      },
    });

    // --- numbers ---

    const eight = new Uint8Array(8),
      view = new DataView(eight.buffer);
    function checkOffset(buffer, offset, size) {
      if (typeof offset !== "number") wrongType("offset", "of type number", offset);
      if (Number.isInteger(offset) && offset >= 0 && offset + size <= buffer.length) return;
      if (!Number.isInteger(offset)) outOfRange("offset", "an integer", offset);
      if (buffer.length < size)
        throw coded(RangeError, "ERR_BUFFER_OUT_OF_BOUNDS", "Attempt to access memory outside buffer bounds");
      outOfRange("offset", `>= 0 and <= ${buffer.length - size}`, offset);
    }
    function defineNumber(name, size, isLittle, get, set, check) {
      const methods = {
        read(offset = 0) {
          checkOffset(this, offset, size);
          for (let i = 0; i < size; ++i) eight[i] = this[offset + i];
          return get.call(view, 0, isLittle);
        },
        write(value, offset = 0) {
          const given = check ? check(value) : value;
          checkOffset(this, offset, size);
          set.call(view, 0, given, isLittle);
          for (let i = 0; i < size; ++i) this[offset + i] = eight[i];
          return offset + size;
        },
      };
      for (const kind of ["read", "write"]) {
        for (const alias of new Set([name, name.replace("UInt", "Uint")]))
          Object.defineProperty(Buffer.prototype, kind + alias, {
            value: methods[kind],
            writable: true,
            configurable: true,
            enumerable: false,
          });
      }
    }
    function rangeText(least, most, bits) {
      if (bits <= 32) return `>= ${least} and <= ${most}`;
      const n = typeof least === "bigint" ? "n" : "";
      return least === 0 || least === 0n
        ? `>= 0${n} and < 2${n} ** ${bits}${n}`
        : `>= -(2${n} ** ${bits - 1}${n}) and < 2${n} ** ${bits - 1}${n}`;
    }
    const within = (least, most, bits) => (value) => {
      const number = typeof least === "bigint" ? value : +value;
      if (number > most || number < least) outOfRange("value", rangeText(least, most, bits), value);
      if (typeof least === "bigint" && typeof value !== "bigint")
        throw new TypeError("Cannot mix BigInt and other types, use explicit conversions");
      return number;
    };
    const D = DataView.prototype;
    defineNumber("UInt8", 1, true, D.getUint8, D.setUint8, within(0, 255, 8));
    defineNumber("Int8", 1, true, D.getInt8, D.setInt8, within(-128, 127, 8));
    for (const [end, isLittle] of [
      ["LE", true],
      ["BE", false],
    ]) {
      defineNumber(`UInt16${end}`, 2, isLittle, D.getUint16, D.setUint16, within(0, 0xffff, 16));
      defineNumber(`Int16${end}`, 2, isLittle, D.getInt16, D.setInt16, within(-0x8000, 0x7fff, 16));
      defineNumber(`UInt32${end}`, 4, isLittle, D.getUint32, D.setUint32, within(0, 0xffffffff, 32));
      defineNumber(`Int32${end}`, 4, isLittle, D.getInt32, D.setInt32, within(-0x80000000, 0x7fffffff, 32));
      defineNumber(`BigUInt64${end}`, 8, isLittle, D.getBigUint64, D.setBigUint64, within(0n, 2n ** 64n - 1n, 64));
      defineNumber(
        `BigInt64${end}`,
        8,
        isLittle,
        D.getBigInt64,
        D.setBigInt64,
        within(-(2n ** 63n), 2n ** 63n - 1n, 64),
      );
      defineNumber(`Float${end}`, 4, isLittle, D.getFloat32, D.setFloat32, (value) => +value);
      defineNumber(`Double${end}`, 8, isLittle, D.getFloat64, D.setFloat64, (value) => +value);
    }
    // For one to six bytes.
    function integerMethods(isLittle, isSigned) {
      const at = (offset, length, i) => (isLittle ? offset + length - 1 - i : offset + i);
      const check = (length) => {
        checkInteger(length, "byteLength");
        if (length < 1 || length > 6) outOfRange("byteLength", ">= 1 and <= 6", length);
      };
      return {
        read(offset, length) {
          if (offset === undefined) wrongType("offset", "of type number", offset);
          check(length);
          checkOffset(this, offset, length);
          let value = 0;
          for (let i = 0; i < length; ++i) value = value * 256 + this[at(offset, length, i)];
          const limit = 2 ** (8 * length);
          return isSigned && value >= limit / 2 ? value - limit : value;
        },
        write(given, offset, length) {
          check(length);
          const bits = 8 * length,
            limit = 2 ** bits;
          let value = within(isSigned ? -limit / 2 : 0, isSigned ? limit / 2 - 1 : limit - 1, bits)(given);
          checkOffset(this, offset, length);
          if (value < 0) value += limit;
          for (let i = length - 1; i >= 0; --i) {
            this[at(offset, length, i)] = value % 256;
            value = Math.floor(value / 256);
          }
          return offset + length;
        },
      };
    }
    for (const isLittle of [true, false])
      for (const isSigned of [true, false]) {
        const { read, write } = integerMethods(isLittle, isSigned);
        const end = isLittle ? "LE" : "BE";
        for (const name of isSigned ? ["Int"] : ["UInt", "Uint"]) {
          for (const [kind, method] of [
            ["read", read],
            ["write", write],
          ])
            Object.defineProperty(Buffer.prototype, `${kind}${name}${end}`, {
              value: method,
              writable: true,
              configurable: true,
              enumerable: false,
            });
        }
      }

    // --- the rest ---

    function bytesOfValue(value, encoding) {
      if (typeof value === "string") return encoders[known(encoding)](value);
      if (value instanceof Uint8Array) return value;
      return undefined;
    }
    function search(buffer, value, offset, encoding, isLast) {
      if (typeof offset === "string") [encoding, offset] = [offset, undefined];
      let from = offset === undefined || Number.isNaN(+offset) ? (isLast ? buffer.length : 0) : Math.trunc(+offset);
      if (from < 0) from += buffer.length;
      if (typeof value === "number") {
        return isLast
          ? Uint8Array.prototype.lastIndexOf.call(buffer, value & 0xff, Math.min(from, buffer.length - 1))
          : Uint8Array.prototype.indexOf.call(buffer, value & 0xff, from);
      }
      const wanted = bytesOfValue(value, encoding);
      if (wanted === undefined)
        wrongType("value", "one of type number or string or an instance of Buffer or Uint8Array", value);
      if (from < 0 && isLast) return -1;
      from = Math.max(from, 0);
      if (wanted.length === 0) return isLast ? Math.min(from, buffer.length) : Math.min(from, buffer.length);
      const fits = (at) => wanted.every((byte, i) => buffer[at + i] === byte);
      const last = buffer.length - wanted.length;
      if (isLast) {
        for (let at = Math.min(from, last); at >= 0; --at) if (fits(at)) return at;
      } else {
        for (
          let at = Uint8Array.prototype.indexOf.call(buffer, wanted[0], from);
          at >= 0 && at <= last;
          at = Uint8Array.prototype.indexOf.call(buffer, wanted[0], at + 1)
        )
          if (fits(at)) return at;
      }
      return -1;
    }
    const clamp = (value, least, most, otherwise) => {
      const number = value === undefined ? otherwise : Math.trunc(+value) || 0;
      return Math.min(Math.max(number, least), most);
    };

    const methods = {
      toString(encoding, start, end) {
        if (arguments.length === 0) return decoders.utf8(this);
        const from = clamp(start, 0, this.length, 0),
          to = clamp(end, 0, this.length, this.length);
        const name = known(encoding);
        return to <= from ? "" : decoders[name](this.subarray(from, to));
      },
      toLocaleString(...values) {
        return this.toString(...values);
      },
      toJSON() {
        return { type: "Buffer", data: [...this] };
      },
      equals(other) {
        if (!(other instanceof Uint8Array)) wrongType("otherBuffer", "an instance of Buffer or Uint8Array", other);
        return this === other || (this.length === other.length && Buffer.compare(this, other) === 0);
      },
      compare(target, targetStart = 0, targetEnd = target.length, start = 0, end = this.length) {
        if (!(target instanceof Uint8Array)) wrongType("target", "an instance of Buffer or Uint8Array", target);
        checkInteger(targetStart, "targetStart", 0);
        checkInteger(targetEnd, "targetEnd", 0, target.length);
        checkInteger(start, "sourceStart", 0);
        checkInteger(end, "sourceEnd", 0, this.length);
        if (start >= end) return targetStart >= targetEnd ? 0 : -1;
        if (targetStart >= targetEnd) return 1;
        return Buffer.compare(this.subarray(start, end), target.subarray(targetStart, targetEnd));
      },
      copy(target, at = 0, start = 0, end = this.length) {
        if (!(target instanceof Uint8Array)) wrongType("target", "an instance of Buffer or Uint8Array", target);
        const to = Math.trunc(+at) || 0,
          from = Math.trunc(+start) || 0;
        if (to < 0) outOfRange("targetStart", ">= 0", at);
        if (from < 0 || from > this.length) outOfRange("sourceStart", `>= 0 && <= ${this.length}`, start);
        const stop = Math.trunc(+end) || 0;
        if (stop < 0) outOfRange("sourceEnd", ">= 0", end);
        if (to >= target.length || from >= stop) return 0;
        const part = this.subarray(from, Math.min(stop, this.length, from + target.length - to));
        target.set(part, to);
        return part.length;
      },
      slice(start, end) {
        return this.subarray(start, end);
      },
      subarray(start, end) {
        const part = Uint8Array.prototype.subarray.call(
          new Uint8Array(this.buffer, this.byteOffset, this.length),
          start,
          end,
        );
        return wrap(part);
      },
      write(text, offset, length, encoding) {
        checkString(text, "argument");
        if (typeof offset === "string") [encoding, offset, length] = [offset, 0, undefined];
        else if (typeof length === "string") [encoding, length] = [length, undefined];
        const at = offset ?? 0;
        checkInteger(at, "offset", 0, this.length);
        if (length !== undefined) checkInteger(length, "length", 0, this.length);
        const name = known(encoding);
        const room = Math.min(length ?? this.length - at, this.length - at);
        let bytes = encoders[name](text);
        if (bytes.length > room) {
          let end = room;
          if (name === "utf8") while (end > 0 && (bytes[end] & 0xc0) === 0x80) --end;
          if (name === "utf16le") end &= ~1;
          bytes = bytes.subarray(0, end);
        }
        this.set(bytes, at);
        return bytes.length;
      },
      fill(value, offset, end, encoding) {
        if (typeof offset === "string") [encoding, offset, end] = [offset, undefined, undefined];
        else if (typeof end === "string") [encoding, end] = [end, undefined];
        const from = offset ?? 0,
          to = end ?? this.length;
        checkInteger(from, "offset", 0, this.length);
        checkInteger(to, "end", 0, this.length);
        if (from >= to) return this;
        const bytes = bytesOfValue(value, encoding);
        if (bytes === undefined) return Uint8Array.prototype.fill.call(this, value & 0xff, from, to);
        if (bytes.length === 0) {
          if (typeof value === "string" && value !== "") wrongValue("value", value);
          return Uint8Array.prototype.fill.call(this, 0, from, to);
        }
        for (let i = from; i < to; ++i) this[i] = bytes[(i - from) % bytes.length];
        return this;
      },
      indexOf(value, offset, encoding) {
        return search(this, value, offset, encoding, false);
      },
      lastIndexOf(value, offset, encoding) {
        return search(this, value, offset, encoding, true);
      },
      includes(value, offset, encoding) {
        return search(this, value, offset, encoding, false) >= 0;
      },
      swap16() {
        return swap(this, 2);
      },
      swap32() {
        return swap(this, 4);
      },
      swap64() {
        return swap(this, 8);
      },
      [Symbol.for("nodejs.util.inspect.custom")]() {
        const shown = toHex(this.subarray(0, 50)).replace(/(..)(?!$)/g, "$1 ");
        const rest = this.length - 50;
        const extra = Object.keys(this)
          .filter((key) => !/^\d+$/.test(key))
          .map((key) => `${key}: ${shared.inspect(this[key])}`);
        const left = rest > 0 ? ` ... ${rest} more byte${rest > 1 ? "s" : ""}` : "";
        const more = extra.length ? `${this.length ? ", " : ""}${extra.join(", ")}` : "";
        return `<${this.constructor.name} ${shown}${left}${more}>`;
      },
    };
    function swap(buffer, size) {
      if (buffer.length % size !== 0)
        throw coded(RangeError, "ERR_INVALID_BUFFER_SIZE", `Buffer size must be a multiple of ${8 * size}-bits`);
      for (let at = 0; at < buffer.length; at += size)
        Uint8Array.prototype.reverse.call(new Uint8Array(buffer.buffer, buffer.byteOffset + at, size));
      return buffer;
    }
    for (const name of Reflect.ownKeys(methods))
      Object.defineProperty(Buffer.prototype, name, {
        value: methods[name],
        writable: true,
        configurable: true,
        enumerable: false,
      });
    for (const encoding of ["utf8", "hex", "latin1", "ascii", "base64", "base64url", "ucs2"]) {
      Object.defineProperty(Buffer.prototype, `${encoding}Slice`, {
        value(start, end) {
          return this.toString(encoding, start, end);
        },
        configurable: true,
        writable: true,
      });
      Object.defineProperty(Buffer.prototype, `${encoding}Write`, {
        value(text, offset, length) {
          return this.write(text, offset, length, encoding);
        },
        configurable: true,
        writable: true,
      });
    }
    Object.defineProperty(Buffer.prototype, "parent", {
      get() {
        return this.buffer;
      },
      configurable: true,
    });
    Object.defineProperty(Buffer.prototype, "offset", {
      get() {
        return this.byteOffset;
      },
      configurable: true,
    });

    function transcode(source, from, to) {
      const [a, b] = [encodingOf(from), encodingOf(to)];
      if (!["utf8", "utf16le", "latin1", "ascii"].includes(a) || !["utf8", "utf16le", "latin1", "ascii"].includes(b))
        throw Object.assign(new Error(`Unable to transcode Buffer [U_ILLEGAL_ARGUMENT_ERROR]`), {
          code: "U_ILLEGAL_ARGUMENT_ERROR",
        });
      const text = decoders[a](source),
        most = b === "ascii" ? 0x7f : b === "latin1" ? 0xff : Infinity;
      return Buffer.from(
        most === Infinity ? text : Array.from(text, (c) => (c.codePointAt(0) > most ? "?" : c)).join(""),
        b,
      );
    }
    module.exports = {
      Buffer,
      SlowBuffer: Buffer,
      transcode,
      kMaxLength,
      kStringMaxLength: 0x1fffffe8,
      INSPECT_MAX_BYTES: 50,
      constants: { MAX_LENGTH: kMaxLength, MAX_STRING_LENGTH: 0x1fffffe8 },
      isUtf8: (bytes) => {
        try {
          new globals.TextDecoder("utf-8", { fatal: true }).decode(bytes);
          return true;
        } catch {
          return false;
        }
      },
      isAscii: (bytes) => shared.bytesOf(bytes).every((byte) => byte < 0x80),
      atob: globalThis.atob,
      btoa: globalThis.btoa,
      Blob: globals.Blob,
      File: globals.File,
    };
  });

  shared.factories.set("string_decoder", (exports, module, load) => {
    const { Buffer } = load("buffer");
    const { coded } = load("internal/check");

    // How many bytes at the end begin an incomplete character.
    function openBytes(bytes) {
      for (let back = 1; back <= Math.min(3, bytes.length); ++back) {
        const byte = bytes[bytes.length - back];
        if ((byte & 0xc0) === 0x80) continue;
        const needed = byte >= 0xf0 && byte <= 0xf4 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc2 ? 2 : 1;
        return byte <= 0xf4 && needed > back && isStart(bytes, back) ? back : 0;
      }
      return 0;
    }
    function isStart(bytes, back) {
      if (back < 2) return true;
      const first = bytes[bytes.length - back],
        second = bytes[bytes.length - back + 1];
      return (
        !(first === 0xe0 && second < 0xa0) &&
        !(first === 0xed && second > 0x9f) &&
        !(first === 0xf0 && second < 0x90) &&
        !(first === 0xf4 && second > 0x8f)
      );
    }
    class StringDecoder {
      #left = Buffer.alloc(0);
      constructor(encoding) {
        const name = encodingOf(encoding);
        if (name === undefined) throw coded(TypeError, "ERR_UNKNOWN_ENCODING", `Unknown encoding: ${encoding}`);
        this.encoding = name;
      }
      write(given) {
        if (typeof given === "string") return given;
        const bytes = Buffer.concat([
          this.#left,
          Buffer.from(given.buffer ?? given, given.byteOffset, given.byteLength),
        ]);
        let open = 0;
        if (this.encoding === "utf8") open = openBytes(bytes);
        else if (this.encoding === "utf16le")
          open = (bytes.length % 2) + (bytes.length >= 2 && (bytes[(bytes.length & ~1) - 1] & 0xfc) === 0xd8 ? 2 : 0);
        else if (this.encoding.startsWith("base64")) open = bytes.length % 3;
        this.#left = Buffer.from(bytes.subarray(bytes.length - open));
        return bytes.toString(this.encoding, 0, bytes.length - open);
      }
      end(given) {
        const text = given === undefined ? "" : this.write(given);
        const rest = this.encoding === "utf8" && this.#left.length ? "\ufffd" : this.#left.toString(this.encoding);
        this.#left = Buffer.alloc(0);
        return text + rest;
      }
    }
    module.exports = { StringDecoder };
  });
})();
