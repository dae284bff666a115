// node:crypto: digests, keyed digests, keys from passwords, randomness. Ciphers and signatures are not available.
globalThis.__membrane.factories.set("crypto", (exports, module, load) => {
  "use strict";
  const { Buffer } = load("buffer");
  const { checkFunction, checkInteger, checkString, coded, outOfRange, wrongType } = load("internal/check");
  const { Digest, Hmac, pbkdf2: derive, hkdf: expand, names, sizeOf } = load("internal/hash");
  const shared = load("internal/shared");
  const { Transform } = load("stream");

  const kAliases = {
    "rsa-md5": "md5",
    "rsa-sha1": "sha1",
    "rsa-sha256": "sha256",
    "rsa-sha384": "sha384",
    "rsa-sha512": "sha512",
    "sha-1": "sha1",
    "sha-224": "sha224",
    "sha-256": "sha256",
    "sha-384": "sha384",
    "sha-512": "sha512",
  };
  function known(name, what) {
    checkString(name, what);
    const lower = name.toLowerCase(),
      found = kAliases[lower] ?? lower;
    if (names.includes(found)) return found;
    throw coded(
      Error,
      "ERR_CRYPTO_INVALID_DIGEST",
      `Digest method not supported: ${name}; there are ${names.join(", ")}`,
    );
  }
  function bytesOf(data, name, encoding) {
    if (typeof data === "string") return Buffer.from(data, encoding === "buffer" ? "utf8" : encoding);
    if (data instanceof ArrayBuffer) return new Uint8Array(data);
    if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    return wrongType(name, "of type string or an instance of Buffer, TypedArray, or DataView", data);
  }
  const shown = (bytes, encoding) => {
    const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
    return encoding === undefined || encoding === "buffer" || encoding === null ? buffer : buffer.toString(encoding);
  };

  // What Hash and Hmac share; each is also a stream.
  class Summing extends Transform {
    constructor(sum, options) {
      super(options);
      Object.defineProperty(this, "_sum", { value: sum, writable: true, enumerable: false });
    }
    update(data, encoding) {
      if (this._sum === null) throw coded(Error, "ERR_CRYPTO_HASH_FINALIZED", "Digest already called");
      this._sum.update(bytesOf(data, "data", encoding));
      return this;
    }
    digest(encoding) {
      if (this._sum === null) throw coded(Error, "ERR_CRYPTO_HASH_FINALIZED", "Digest already called");
      const bytes = this._sum.digest();
      this._sum = null;
      return shown(bytes, encoding);
    }
    _transform(chunk, encoding, done) {
      this.update(chunk, encoding);
      done();
    }
    _flush(done) {
      this.push(this.digest());
      done();
    }
  }
  class Hash extends Summing {
    constructor(name, options) {
      super(typeof name === "string" ? new Digest(known(name, "algorithm")) : name, options);
    }
    copy() {
      if (this._sum === null) throw coded(Error, "ERR_CRYPTO_HASH_FINALIZED", "Digest already called");
      return new Hash(this._sum.copy());
    }
  }
  class HmacOf extends Summing {
    constructor(name, key, options) {
      super(new Hmac(known(name, "hmac"), key instanceof KeyObject ? key.export() : bytesOf(key, "key")), options);
    }
  }
  Object.defineProperty(HmacOf, "name", { value: "Hmac" });
  class KeyObject {
    #bytes;
    constructor(bytes) {
      this.#bytes = bytes;
      this.type = "secret";
    }
    export() {
      return Buffer.from(this.#bytes);
    }
    get symmetricKeySize() {
      return this.#bytes.length;
    }
  }

  // --- randomness ---

  const kMost = 0x7fffffff;
  const later = (call, act) => {
    checkFunction(call, "callback");
    let value,
      failure = null;
    try {
      value = act();
    } catch (error) {
      failure = error;
    }
    globalThis.setImmediate(() => (failure ? call(failure) : call(null, value)));
  };
  function drawBytes(count) {
    const pieces = [];
    for (let left = count; left > 0; left -= 65536) pieces.push(shared.randomBytes(Math.min(left, 65536)));
    return Buffer.concat(pieces);
  }
  function randomBytes(size, call) {
    checkInteger(size, "size", 0, kMost);
    return call === undefined ? drawBytes(size) : later(call, () => drawBytes(size));
  }
  function randomFillSync(buffer, offset = 0, size = (buffer.byteLength ?? buffer.length) - offset) {
    const bytes =
      buffer instanceof ArrayBuffer
        ? new Uint8Array(buffer)
        : new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength);
    bytes.set(drawBytes(size), offset);
    return buffer;
  }
  // All values are equally likely: draws beyond the last whole multiple are repeated.
  function drawInteger(least, most) {
    const range = most - least;
    if (!Number.isSafeInteger(least)) wrongType("min", "a safe integer", least);
    if (!Number.isSafeInteger(most)) wrongType("max", "a safe integer", most);
    if (range <= 0) outOfRange("max", `greater than the value of "min" (${least})`, most);
    if (range > 2 ** 48 - 1) outOfRange("max - min", `<= ${2 ** 48 - 1}`, range);
    const limit = 2 ** 48 - (2 ** 48 % range);
    for (;;) {
      const drawn = drawBytes(6).readUIntBE(0, 6);
      if (drawn < limit) return least + (drawn % range);
    }
  }
  function randomInt(least, most, call) {
    if (most === undefined || typeof most === "function") [least, most, call] = [0, least, most];
    return call === undefined ? drawInteger(least, most) : later(call, () => drawInteger(least, most));
  }

  // --- keys from passwords ---

  function pbkdf2Sync(password, salt, iterations, length, digest) {
    const secret = bytesOf(password, "password"),
      salted = bytesOf(salt, "salt");
    checkInteger(iterations, "iterations", 1, kMost);
    checkInteger(length, "keylen", 0, kMost);
    return shown(derive(known(digest, "digest"), secret, salted, iterations, length));
  }
  function hkdfSync(digest, key, salt, info, length) {
    const name = known(digest, "digest");
    checkInteger(length, "length", 0, 255 * sizeOf(name));
    return expand(
      name,
      key instanceof KeyObject ? key.export() : bytesOf(key, "ikm"),
      bytesOf(salt, "salt"),
      bytesOf(info, "info"),
      length,
    ).buffer;
  }
  function timingSafeEqual(a, b) {
    const x = bytesOf(a, "buf1"),
      y = bytesOf(b, "buf2");
    if (typeof a === "string") wrongType("buf1", "an instance of ArrayBuffer, Buffer, TypedArray, or DataView", a);
    if (x.length !== y.length)
      throw coded(RangeError, "ERR_CRYPTO_TIMING_SAFE_EQUAL_LENGTH", "Input buffers must have the same byte length");
    let differs = 0;
    for (let i = 0; i < x.length; ++i) differs |= x[i] ^ y[i];
    return differs === 0;
  }

  // --- the Web's ---

  const nameOf = (algorithm) => `${typeof algorithm === "string" ? algorithm : algorithm?.name}`;
  const noAlgorithm = (name) =>
    new DOMException(
      `Unrecognized algorithm name: ${name}; there are SHA-1, SHA-256, SHA-384, SHA-512 and HMAC with them`,
      "NotSupportedError",
    );
  function webDigest(algorithm) {
    const name = nameOf(algorithm).toUpperCase();
    if (!/^SHA-(?:1|256|384|512)$/.test(name)) throw noAlgorithm(nameOf(algorithm));
    return name.toLowerCase().replace("-", "");
  }
  class CryptoKey {
    #bytes;
    constructor(bytes, fields) {
      this.#bytes = bytes;
      Object.assign(this, fields);
    }
    static bytesOf(key) {
      return key.#bytes;
    }
  }
  const subtle = {
    async digest(algorithm, data) {
      return new Digest(webDigest(algorithm)).update(bytesOf(data, "data")).digest().buffer;
    },
    async importKey(format, data, algorithm, extractable, usages) {
      if (nameOf(algorithm).toUpperCase() !== "HMAC" || format !== "raw")
        throw noAlgorithm(`${nameOf(algorithm)} (${format})`);
      return new CryptoKey(Uint8Array.from(bytesOf(data, "keyData")), {
        type: "secret",
        extractable,
        usages,
        algorithm: { name: "HMAC", hash: { name: nameOf(algorithm.hash).toUpperCase() } },
      });
    },
    async sign(algorithm, key, data) {
      return new Hmac(webDigest(key.algorithm.hash), CryptoKey.bytesOf(key)).update(bytesOf(data, "data")).digest()
        .buffer;
    },
    async verify(algorithm, key, signature, data) {
      const made = new Uint8Array(await subtle.sign(algorithm, key, data)),
        given = bytesOf(signature, "signature");
      return made.length === given.length && timingSafeEqual(made, given);
    },
  };
  const kInsteadOf = {
    generateKey: "import 32 random bytes (crypto.getRandomValues) as a key for HMAC by importKey()",
    exportKey: "keep the bytes that were given to importKey()",
    deriveBits: "use pbkdf2Sync() or hkdfSync() of node:crypto",
    deriveKey: "use pbkdf2Sync() or hkdfSync() of node:crypto, and importKey() for HMAC",
  };
  for (const name of ["encrypt", "decrypt", "generateKey", "exportKey", "deriveBits", "deriveKey", "wrapKey", "unwrapKey"])
    subtle[name] = async () => {
      const why = kInsteadOf[name] ?? "there are no ciphers";
      throw new DOMException(`crypto.subtle.${name}() is not available: ${why}`, "NotSupportedError");
    };
  const { getRandomValues, randomUUID } = shared.globals.crypto;
  const webcrypto = shared.globals.crypto;

  const crypto = {
    Hash,
    Hmac: HmacOf,
    KeyObject,
    webcrypto,
    subtle,
    getRandomValues,
    createHash: (name, options) => new Hash(`${name}`, options),
    createHmac: (name, key, options) => new HmacOf(name, key, options),
    createSecretKey: (key, encoding) => new KeyObject(Uint8Array.from(bytesOf(key, "key", encoding))),
    hash: (name, data, encoding = "hex") => new Hash(name).update(data).digest(encoding),
    getHashes: () => [...names],
    getCiphers: () => [],
    getCurves: () => [],
    randomBytes,
    randomFillSync,
    randomInt,
    randomUUID: () => randomUUID(),
    randomFill: (buffer, ...rest) => later(rest.pop(), () => randomFillSync(buffer, ...rest)),
    pseudoRandomBytes: randomBytes,
    pbkdf2Sync,
    hkdfSync,
    timingSafeEqual,
    pbkdf2(...values) {
      const call = values.pop();
      later(call, () => pbkdf2Sync(...values));
    },
    hkdf(...values) {
      const call = values.pop();
      later(call, () => hkdfSync(...values));
    },
  };
  for (const name of [
    "createCipheriv",
    "createDecipheriv",
    "createSign",
    "createVerify",
    "sign",
    "verify",
    "generateKeyPair",
    "generateKeyPairSync",
    "generateKeySync",
    "createPrivateKey",
    "createPublicKey",
    "publicEncrypt",
    "privateDecrypt",
    "scrypt",
    "scryptSync",
    "createECDH",
    "createDiffieHellman",
    "diffieHellman",
  ])
    crypto[name] = () => {
      throw coded(
        Error,
        "ERR_FEATURE_UNAVAILABLE_ON_PLATFORM",
        `crypto.${name}() is not available: node:crypto has digests, HMAC, pbkdf2, hkdf and randomness`,
      );
    };
  exports.subtle = subtle;
  module.exports = crypto;
});
