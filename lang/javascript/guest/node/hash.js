// Digests in plain JavaScript: MD5 (RFC 1321), SHA-1, SHA-256 and SHA-512 with their shorter forms (FIPS 180-4).
globalThis.__membrane.factories.set("internal/hash", (exports) => {
  "use strict";

  const rotate = (x, by) => x << by | x >>> 32 - by;

  // The first 32 or 64 bits of the fraction of a prime's root, as the constants of SHA-2 are made.
  function primes(count) {
    const found = [];
    for (let n = 2; found.length < count; ++n) if (found.every((p) => n % p !== 0)) found.push(n);
    return found;
  }
  function rootFraction(prime, degree) {
    const wanted = BigInt(prime) << BigInt(64 * degree);
    let low = 0n, high = 1n << 72n;
    while (low < high) {
      const middle = (low + high + 1n) >> 1n;
      if (middle ** BigInt(degree) <= wanted) low = middle;
      else high = middle - 1n;
    }
    return low & 0xffffffffffffffffn;
  }
  const words = (values) => Int32Array.from(values.flatMap((v) => [Number(v >> 32n) | 0, Number(v & 0xffffffffn) | 0]));
  const kRounds = words(primes(80).map((p) => rootFraction(p, 3)));
  const kRounds256 = kRounds.filter((_, i) => i % 2 === 0).slice(0, 64);
  const kSines = Int32Array.from({ length: 64 }, (_, i) => Math.floor(Math.abs(Math.sin(i + 1)) * 2 ** 32) | 0);
  const kTurns = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

  function md5(h, w) {
    let [a, b, c, d] = h;
    for (let i = 0; i < 64; ++i) {
      const kind = i >> 4;
      let f, at;
      if (kind === 0) [f, at] = [b & c | ~b & d, i];
      else if (kind === 1) [f, at] = [d & b | ~d & c, (5 * i + 1) & 15];
      else if (kind === 2) [f, at] = [b ^ c ^ d, (3 * i + 5) & 15];
      else [f, at] = [c ^ (b | ~d), (7 * i) & 15];
      const sum = a + f + kSines[i] + w[at] | 0;
      a = d;
      d = c;
      c = b;
      b = b + rotate(sum, kTurns[kind][i & 3]) | 0;
    }
    h[0] = h[0] + a | 0;
    h[1] = h[1] + b | 0;
    h[2] = h[2] + c | 0;
    h[3] = h[3] + d | 0;
  }
  function sha1(h, w) {
    for (let i = 16; i < 80; ++i) w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    let a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];
    for (let i = 0; i < 80; ++i) {
      const f = i < 20 ? (b & c | ~b & d) + 0x5a827999 : i < 40 ? (b ^ c ^ d) + 0x6ed9eba1
        : i < 60 ? (b & c | b & d | c & d) + 0x8f1bbcdc : (b ^ c ^ d) + 0xca62c1d6;
      const sum = rotate(a, 5) + f + e + w[i] | 0;
      e = d;
      d = c;
      c = rotate(b, 30);
      b = a;
      a = sum;
    }
    h[0] = h[0] + a | 0;
    h[1] = h[1] + b | 0;
    h[2] = h[2] + c | 0;
    h[3] = h[3] + d | 0;
    h[4] = h[4] + e | 0;
  }
  function sha256(h, w) {
    for (let i = 16; i < 64; ++i) {
      const x = w[i - 15], y = w[i - 2];
      w[i] = w[i - 16] + (rotate(x, 25) ^ rotate(x, 14) ^ x >>> 3) + w[i - 7] + (rotate(y, 15) ^ rotate(y, 13) ^ y >>> 10) | 0;
    }
    let a = h[0], b = h[1], c = h[2], d = h[3], e = h[4], f = h[5], g = h[6], k = h[7];
    for (let i = 0; i < 64; ++i) {
      const t = k + (rotate(e, 26) ^ rotate(e, 21) ^ rotate(e, 7)) + (e & f ^ ~e & g) + kRounds256[i] + w[i] | 0;
      const u = (rotate(a, 30) ^ rotate(a, 19) ^ rotate(a, 10)) + (a & b ^ a & c ^ b & c) | 0;
      k = g;
      g = f;
      f = e;
      e = d + t | 0;
      d = c;
      c = b;
      b = a;
      a = t + u | 0;
    }
    h[0] = h[0] + a | 0;
    h[1] = h[1] + b | 0;
    h[2] = h[2] + c | 0;
    h[3] = h[3] + d | 0;
    h[4] = h[4] + e | 0;
    h[5] = h[5] + f | 0;
    h[6] = h[6] + g | 0;
    h[7] = h[7] + k | 0;
  }

  // Of 64 bits, as pairs of words: high, low.
  const sigma = (h, l, a, b, c, isShift) => [
    (h >>> a | l << 32 - a) ^ (b < 32 ? h >>> b | l << 32 - b : l >>> b - 32 | h << 64 - b) ^ (isShift ? h >>> c : c < 32 ? h >>> c | l << 32 - c : l >>> c - 32 | h << 64 - c),
    (l >>> a | h << 32 - a) ^ (b < 32 ? l >>> b | h << 32 - b : h >>> b - 32 | l << 64 - b) ^ (isShift ? l >>> c | h << 32 - c : c < 32 ? l >>> c | h << 32 - c : h >>> c - 32 | l << 64 - c)];
  function sha512(h, w) {
    for (let i = 32; i < 160; i += 2) {
      const [xh, xl] = sigma(w[i - 30], w[i - 29], 1, 8, 7, true), [yh, yl] = sigma(w[i - 4], w[i - 3], 19, 61, 6, true);
      const low = (xl >>> 0) + (yl >>> 0) + (w[i - 31] >>> 0) + (w[i - 13] >>> 0);
      w[i + 1] = low | 0;
      w[i] = w[i - 32] + w[i - 14] + xh + yh + Math.floor(low / 2 ** 32) | 0;
    }
    const v = Int32Array.from(h);
    for (let i = 0; i < 160; i += 2) {
      const [eh, el] = sigma(v[8], v[9], 14, 18, 41, false), [ah, al] = sigma(v[0], v[1], 28, 34, 39, false);
      const tl = (v[15] >>> 0) + (el >>> 0) + ((v[9] & v[11] ^ ~v[9] & v[13]) >>> 0) + (kRounds[i + 1] >>> 0) + (w[i + 1] >>> 0);
      const th = v[14] + eh + (v[8] & v[10] ^ ~v[8] & v[12]) + kRounds[i] + w[i] + Math.floor(tl / 2 ** 32) | 0;
      const ul = (al >>> 0) + ((v[1] & v[3] ^ v[1] & v[5] ^ v[3] & v[5]) >>> 0);
      const uh = ah + (v[0] & v[2] ^ v[0] & v[4] ^ v[2] & v[4]) + Math.floor(ul / 2 ** 32) | 0;
      const dl = (v[7] >>> 0) + (tl >>> 0), nl = (tl >>> 0) + (ul >>> 0);
      const dh = v[6] + th + Math.floor(dl / 2 ** 32) | 0;
      v.copyWithin(2, 0, 14);
      v[9] = dl | 0;
      v[8] = dh;
      v[1] = nl | 0;
      v[0] = th + uh + Math.floor(nl / 2 ** 32) | 0;
    }
    for (let i = 0; i < 16; i += 2) {
      const low = (h[i + 1] >>> 0) + (v[i + 1] >>> 0);
      h[i] = h[i] + v[i] + Math.floor(low / 2 ** 32) | 0;
      h[i + 1] = low | 0;
    }
  }

  const kSha512 = words(primes(8).map((p) => rootFraction(p, 2))), kSha384 = words(primes(16).slice(8).map((p) => rootFraction(p, 2)));
  const kSha256 = kSha512.filter((_, i) => i % 2 === 0), kSha224 = kSha384.filter((_, i) => i % 2 === 1);
  const kMd5 = [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476];
  const kKinds = {
    md5: { start: kMd5, block: 64, size: 16, words: 16, step: md5, isLittle: true },
    sha1: { start: [...kMd5, 0xc3d2e1f0], block: 64, size: 20, words: 80, step: sha1 },
    sha224: { start: kSha224, block: 64, size: 28, words: 64, step: sha256 }, sha256: { start: kSha256, block: 64, size: 32, words: 64, step: sha256 },
    sha384: { start: kSha384, block: 128, size: 48, words: 160, step: sha512 }, sha512: { start: kSha512, block: 128, size: 64, words: 160, step: sha512 },
  };

  class Digest {
    constructor(name) {
      this.kind = kKinds[name];
      this.state = Int32Array.from(this.kind.start, (word) => word | 0);
      this.left = new Uint8Array(this.kind.block);
      this.view = new DataView(this.left.buffer);
      this.w = new Int32Array(this.kind.words);
      this.count = 0;
    }
    update(bytes) {
      const { block } = this.kind;
      let at = 0, filled = this.count % block;
      this.count += bytes.length;
      while (at < bytes.length) {
        const part = bytes.subarray(at, at + block - filled);
        this.left.set(part, filled);
        at += part.length;
        filled += part.length;
        if (filled === block) {
          this.step();
          filled = 0;
        }
      }
      return this;
    }
    step() {
      const { block, isLittle, step } = this.kind;
      for (let i = 0; i < block / 4; ++i) this.w[i] = this.view.getInt32(4 * i, Boolean(isLittle));
      step(this.state, this.w);
    }
    copy() {
      const made = Object.assign(Object.create(Digest.prototype), this);
      made.state = this.state.slice();
      made.left = this.left.slice();
      made.view = new DataView(made.left.buffer);
      made.w = new Int32Array(this.kind.words);
      return made;
    }
    digest() {
      const { block, size, isLittle } = this.kind;
      const filled = this.count % block, lengthBytes = block / 8, bits = this.count * 8;
      const padding = new Uint8Array((filled < block - lengthBytes ? block : 2 * block) - filled);
      padding[0] = 0x80;
      const view = new DataView(padding.buffer), end = padding.length;
      const high = Math.floor(bits / 2 ** 32), low = bits >>> 0;
      view.setUint32(isLittle ? end - 8 : end - 4, low, Boolean(isLittle));
      view.setUint32(isLittle ? end - 4 : end - 8, high, Boolean(isLittle));
      this.update(padding);
      const out = new Uint8Array(this.state.length * 4), to = new DataView(out.buffer);
      this.state.forEach((word, i) => to.setInt32(4 * i, word, Boolean(isLittle)));
      return out.slice(0, size);
    }
  }

  // With a key (RFC 2104): the two beginnings are kept, so that each message costs no more than itself.
  class Hmac {
    constructor(name, key) {
      const { block } = kKinds[name];
      const short = key.length > block ? new Digest(name).update(key).digest() : key;
      const pad = (value) => Uint8Array.from({ length: block }, (_, i) => (short[i] ?? 0) ^ value);
      this.inner = new Digest(name).update(pad(0x36));
      this.outer = new Digest(name).update(pad(0x5c));
    }
    update(bytes) {
      this.inner.update(bytes);
      return this;
    }
    copy() {
      return Object.assign(Object.create(Hmac.prototype), { inner: this.inner.copy(), outer: this.outer.copy() });
    }
    digest() { return this.outer.copy().update(this.inner.digest()).digest(); }
  }

  // RFC 8018.
  function pbkdf2(name, password, salt, iterations, length) {
    const keyed = new Hmac(name, password), { size } = kKinds[name];
    const out = new Uint8Array(length);
    for (let at = 0, number = 1; at < length; at += size, ++number) {
      let u = keyed.copy().update(salt).update(Uint8Array.of(number >>> 24, number >>> 16, number >>> 8, number)).digest();
      const block = u.slice();
      for (let i = 1; i < iterations; ++i) {
        u = keyed.copy().update(u).digest();
        for (let k = 0; k < size; ++k) block[k] ^= u[k];
      }
      out.set(block.subarray(0, Math.min(size, length - at)), at);
    }
    return out;
  }
  // RFC 5869.
  function hkdf(name, key, salt, info, length) {
    const { size } = kKinds[name];
    const secret = new Hmac(name, salt.length ? salt : new Uint8Array(size)).update(key).digest();
    const out = new Uint8Array(length);
    let last = new Uint8Array(0);
    for (let at = 0, number = 1; at < length; at += size, ++number) {
      last = new Hmac(name, secret).update(last).update(info).update(Uint8Array.of(number)).digest();
      out.set(last.subarray(0, Math.min(size, length - at)), at);
    }
    return out;
  }
  Object.assign(exports, { Digest, Hmac, pbkdf2, hkdf, names: Object.keys(kKinds), sizeOf: (name) => kKinds[name].size });
});
