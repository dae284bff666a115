// Digests: MD5 (RFC 1321), SHA-1, SHA-256 and SHA-512 with their shorter forms (FIPS 180-4). The host takes in whole
// blocks; where a message begins and ends is said here.
globalThis.__membrane.factories.set("internal/hash", (exports, module, load) => {
  "use strict";
  const { compress } = load("internal/shared");

  // The fractions of the square roots of the first primes, then of further ones: for each the higher half, then the lower.
  const kSha512 = [
    0x6a09e667, 0xf3bcc908, 0xbb67ae85, 0x84caa73b, 0x3c6ef372, 0xfe94f82b, 0xa54ff53a, 0x5f1d36f1, 0x510e527f,
    0xade682d1, 0x9b05688c, 0x2b3e6c1f, 0x1f83d9ab, 0xfb41bd6b, 0x5be0cd19, 0x137e2179,
  ];
  const kSha384 = [
    0xcbbb9d5d, 0xc1059ed8, 0x629a292a, 0x367cd507, 0x9159015a, 0x3070dd17, 0x152fecd8, 0xf70e5939, 0x67332667,
    0xffc00b31, 0x8eb44a87, 0x68581511, 0xdb0c2e0d, 0x64f98fa7, 0x47b5481d, 0xbefa4fa4,
  ];
  const kSha256 = kSha512.filter((_, i) => i % 2 === 0),
    kSha224 = kSha384.filter((_, i) => i % 2 === 1);
  const kMd5 = [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476];
  const kKinds = {
    md5: { start: kMd5, block: 64, size: 16, number: 0, isLittle: true },
    sha1: { start: [...kMd5, 0xc3d2e1f0], block: 64, size: 20, number: 1 },
    sha224: { start: kSha224, block: 64, size: 28, number: 2 },
    sha256: { start: kSha256, block: 64, size: 32, number: 2 },
    sha384: { start: kSha384, block: 128, size: 48, number: 3 },
    sha512: { start: kSha512, block: 128, size: 64, number: 3 },
  };

  class Digest {
    constructor(name) {
      this.kind = kKinds[name];
      this.state = new Uint8Array(Int32Array.from(this.kind.start, (word) => word | 0).buffer);
      this.left = new Uint8Array(0); // less than a block
      this.count = 0;
    }
    update(bytes) {
      const { block, number } = this.kind;
      this.count += bytes.length;
      let from = bytes;
      if (this.left.length) {
        const missing = Math.min(block - this.left.length, bytes.length);
        const joined = new Uint8Array(this.left.length + missing);
        joined.set(this.left);
        joined.set(bytes.subarray(0, missing), this.left.length);
        this.left = joined;
        from = bytes.subarray(missing);
        if (joined.length < block) return this;
        this.state = compress(number, this.state, joined);
      }
      const whole = from.length - (from.length % block);
      if (whole > 0) this.state = compress(number, this.state, from.subarray(0, whole));
      this.left = from.slice(whole);
      return this;
    }
    // Changed state is replaced as a whole, so both copies can share it.
    copy() {
      return Object.assign(Object.create(Digest.prototype), this);
    }
    digest() {
      const { block, size, isLittle } = this.kind;
      const filled = this.count % block,
        lengthBytes = block / 8,
        bits = this.count * 8;
      const padding = new Uint8Array((filled < block - lengthBytes ? block : 2 * block) - filled);
      padding[0] = 0x80;
      const view = new DataView(padding.buffer),
        end = padding.length;
      const high = Math.floor(bits / 2 ** 32),
        low = bits >>> 0;
      view.setUint32(isLittle ? end - 8 : end - 4, low, Boolean(isLittle));
      view.setUint32(isLittle ? end - 4 : end - 8, high, Boolean(isLittle));
      this.update(padding);
      const words = new Int32Array(this.state.buffer, this.state.byteOffset, this.state.length / 4);
      const out = new Uint8Array(this.state.length),
        to = new DataView(out.buffer);
      words.forEach((word, i) => to.setInt32(4 * i, word, Boolean(isLittle)));
      return out.slice(0, size);
    }
  }

  // With a key (RFC 2104): both initial states are kept, so that each message costs no more than itself.
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
    digest() {
      return this.outer.copy().update(this.inner.digest()).digest();
    }
  }

  // RFC 8018.
  function pbkdf2(name, password, salt, iterations, length) {
    const keyed = new Hmac(name, password),
      { size } = kKinds[name];
    const out = new Uint8Array(length);
    for (let at = 0, number = 1; at < length; at += size, ++number) {
      let u = keyed
        .copy()
        .update(salt)
        .update(Uint8Array.of(number >>> 24, number >>> 16, number >>> 8, number))
        .digest();
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
  Object.assign(exports, {
    Digest,
    Hmac,
    pbkdf2,
    hkdf,
    names: Object.keys(kKinds),
    sizeOf: (name) => kKinds[name].size,
  });
});
