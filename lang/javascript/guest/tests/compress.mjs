// The host's compression functions in JavaScript, for tests of the guest's side (base/compress_hash.h).
const rotate = (x, by) => (x << by) | (x >>> (32 - by));

// The first 32 or 64 bits of the fraction of a prime's root, from which the constants of SHA-2 are derived.
function primes(count) {
  const found = [];
  for (let n = 2; found.length < count; ++n) if (found.every((p) => n % p !== 0)) found.push(n);
  return found;
}
function rootFraction(prime, degree) {
  const wanted = BigInt(prime) << BigInt(64 * degree);
  let low = 0n,
    high = 1n << 72n;
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
const kTurns = [
  [7, 12, 17, 22],
  [5, 9, 14, 20],
  [4, 11, 16, 23],
  [6, 10, 15, 21],
];

function md5(h, w) {
  let [a, b, c, d] = h;
  for (let i = 0; i < 64; ++i) {
    const kind = i >> 4;
    let f, at;
    if (kind === 0) [f, at] = [(b & c) | (~b & d), i];
    else if (kind === 1) [f, at] = [(d & b) | (~d & c), (5 * i + 1) & 15];
    else if (kind === 2) [f, at] = [b ^ c ^ d, (3 * i + 5) & 15];
    else [f, at] = [c ^ (b | ~d), (7 * i) & 15];
    const sum = (a + f + kSines[i] + w[at]) | 0;
    a = d;
    d = c;
    c = b;
    b = (b + rotate(sum, kTurns[kind][i & 3])) | 0;
  }
  h[0] = (h[0] + a) | 0;
  h[1] = (h[1] + b) | 0;
  h[2] = (h[2] + c) | 0;
  h[3] = (h[3] + d) | 0;
}
function sha1(h, w) {
  for (let i = 16; i < 80; ++i) w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
  let a = h[0],
    b = h[1],
    c = h[2],
    d = h[3],
    e = h[4];
  for (let i = 0; i < 80; ++i) {
    const f =
      i < 20
        ? ((b & c) | (~b & d)) + 0x5a827999
        : i < 40
          ? (b ^ c ^ d) + 0x6ed9eba1
          : i < 60
            ? ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc
            : (b ^ c ^ d) + 0xca62c1d6;
    const sum = (rotate(a, 5) + f + e + w[i]) | 0;
    e = d;
    d = c;
    c = rotate(b, 30);
    b = a;
    a = sum;
  }
  h[0] = (h[0] + a) | 0;
  h[1] = (h[1] + b) | 0;
  h[2] = (h[2] + c) | 0;
  h[3] = (h[3] + d) | 0;
  h[4] = (h[4] + e) | 0;
}
function sha256(h, w) {
  for (let i = 16; i < 64; ++i) {
    const x = w[i - 15],
      y = w[i - 2];
    w[i] =
      (w[i - 16] +
        (rotate(x, 25) ^ rotate(x, 14) ^ (x >>> 3)) +
        w[i - 7] +
        (rotate(y, 15) ^ rotate(y, 13) ^ (y >>> 10))) |
      0;
  }
  let a = h[0],
    b = h[1],
    c = h[2],
    d = h[3],
    e = h[4],
    f = h[5],
    g = h[6],
    k = h[7];
  for (let i = 0; i < 64; ++i) {
    const t = (k + (rotate(e, 26) ^ rotate(e, 21) ^ rotate(e, 7)) + ((e & f) ^ (~e & g)) + kRounds256[i] + w[i]) | 0;
    const u = ((rotate(a, 30) ^ rotate(a, 19) ^ rotate(a, 10)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    k = g;
    g = f;
    f = e;
    e = (d + t) | 0;
    d = c;
    c = b;
    b = a;
    a = (t + u) | 0;
  }
  h[0] = (h[0] + a) | 0;
  h[1] = (h[1] + b) | 0;
  h[2] = (h[2] + c) | 0;
  h[3] = (h[3] + d) | 0;
  h[4] = (h[4] + e) | 0;
  h[5] = (h[5] + f) | 0;
  h[6] = (h[6] + g) | 0;
  h[7] = (h[7] + k) | 0;
}

// On 64 bits, as pairs of words: high, low.
const sigma = (h, l, a, b, c, isShift) => [
  ((h >>> a) | (l << (32 - a))) ^
    (b < 32 ? (h >>> b) | (l << (32 - b)) : (l >>> (b - 32)) | (h << (64 - b))) ^
    (isShift ? h >>> c : c < 32 ? (h >>> c) | (l << (32 - c)) : (l >>> (c - 32)) | (h << (64 - c))),
  ((l >>> a) | (h << (32 - a))) ^
    (b < 32 ? (l >>> b) | (h << (32 - b)) : (h >>> (b - 32)) | (l << (64 - b))) ^
    (isShift ? (l >>> c) | (h << (32 - c)) : c < 32 ? (l >>> c) | (h << (32 - c)) : (h >>> (c - 32)) | (l << (64 - c))),
];
function sha512(h, w) {
  for (let i = 32; i < 160; i += 2) {
    const [xh, xl] = sigma(w[i - 30], w[i - 29], 1, 8, 7, true),
      [yh, yl] = sigma(w[i - 4], w[i - 3], 19, 61, 6, true);
    const low = (xl >>> 0) + (yl >>> 0) + (w[i - 31] >>> 0) + (w[i - 13] >>> 0);
    w[i + 1] = low | 0;
    w[i] = (w[i - 32] + w[i - 14] + xh + yh + Math.floor(low / 2 ** 32)) | 0;
  }
  const v = Int32Array.from(h);
  for (let i = 0; i < 160; i += 2) {
    const [eh, el] = sigma(v[8], v[9], 14, 18, 41, false),
      [ah, al] = sigma(v[0], v[1], 28, 34, 39, false);
    const tl =
      (v[15] >>> 0) +
      (el >>> 0) +
      (((v[9] & v[11]) ^ (~v[9] & v[13])) >>> 0) +
      (kRounds[i + 1] >>> 0) +
      (w[i + 1] >>> 0);
    const th = (v[14] + eh + ((v[8] & v[10]) ^ (~v[8] & v[12])) + kRounds[i] + w[i] + Math.floor(tl / 2 ** 32)) | 0;
    const ul = (al >>> 0) + (((v[1] & v[3]) ^ (v[1] & v[5]) ^ (v[3] & v[5])) >>> 0);
    const uh = (ah + ((v[0] & v[2]) ^ (v[0] & v[4]) ^ (v[2] & v[4])) + Math.floor(ul / 2 ** 32)) | 0;
    const dl = (v[7] >>> 0) + (tl >>> 0),
      nl = (tl >>> 0) + (ul >>> 0);
    const dh = (v[6] + th + Math.floor(dl / 2 ** 32)) | 0;
    v.copyWithin(2, 0, 14);
    v[9] = dl | 0;
    v[8] = dh;
    v[1] = nl | 0;
    v[0] = (th + uh + Math.floor(nl / 2 ** 32)) | 0;
  }
  for (let i = 0; i < 16; i += 2) {
    const low = (h[i + 1] >>> 0) + (v[i + 1] >>> 0);
    h[i] = (h[i] + v[i] + Math.floor(low / 2 ** 32)) | 0;
    h[i + 1] = low | 0;
  }
}

const kBlocks = [64, 64, 64, 128],
  kWords = [16, 80, 64, 160],
  kSteps = [md5, sha1, sha256, sha512];
export function compress(kind, stateBytes, blocks) {
  const state = new Int32Array(stateBytes.slice().buffer),
    w = new Int32Array(kWords[kind]);
  const view = new DataView(blocks.buffer, blocks.byteOffset, blocks.byteLength);
  for (let at = 0; at + kBlocks[kind] <= blocks.length; at += kBlocks[kind]) {
    for (let i = 0; i < kBlocks[kind] / 4; ++i) w[i] = view.getInt32(at + 4 * i, kind === 0);
    kSteps[kind](state, w);
  }
  return new Uint8Array(state.buffer);
}
