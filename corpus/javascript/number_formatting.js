const n = 1234567.891;
const group = (x, digits = 2) => {
  const [whole, part] = x.toFixed(digits).split('.');
  return whole.replace(/\B(?=(\d{3})+$)/g, ',') + (part ? '.' + part : '');
};
console.log(group(n), group(-9876543.2, 0), group(12), (0.1 + 0.2).toFixed(2), 0.1 + 0.2);
console.log(n.toFixed(1), n.toExponential(3), n.toPrecision(4), (255).toString(16), (255).toString(2).padStart(12, '0'), parseInt('ff', 16), parseInt('12px'), Number('12px'));
console.log(Number.MAX_SAFE_INTEGER, Number.EPSILON > 0, 2 ** 53 + 1, 9007199254740993n, 1e21, 1e-7, -0, [-0], Object.is(-0, 0));
console.log((1.005).toFixed(2), Math.round(2.5), Math.round(-2.5), Math.trunc(-4.7), Math.sign(-3), Math.hypot(3, 4), Math.cbrt(27), Math.log2(8), Math.clz32(1), Math.fround(5.5));
console.log(7 % -3, -7 % 3, 5 / 0, 0 / 0, 7 >> 1, -7 >>> 28, 5 & 3, 5 ^ 3, ~5, 2 ** -1);
const ordinal = (i) => {
  const rest = i % 100;
  return i + (rest > 10 && rest < 14 ? 'th' : ['th', 'st', 'nd', 'rd'][i % 10] ?? 'th');
};
console.log([0, 1, 11, 22, 103, 112].map(ordinal));
const bytes = (b) => { const i = b && Math.floor(Math.log(b) / Math.log(1024)); return `${+(b / 1024 ** i).toFixed(1)} ${['B', 'KiB', 'MiB', 'GiB'][i]}`; };
console.log([0, 512, 1536, 10485760, 5e9].map(bytes));
const stats = (xs) => {
  const s = [...xs].sort((a, b) => a - b), mean = s.reduce((a, b) => a + b) / s.length;
  return { min: s[0], max: s.at(-1), mean, median: (s[(s.length - 1) >> 1] + s[s.length >> 1]) / 2, sd: Math.sqrt(s.reduce((a, x) => a + (x - mean) ** 2, 0) / (s.length - 1)) };
};
console.log(stats([12, 5, 8, 130, 44, 7, 9]));
console.log(Number.isInteger(5.0), Number.isSafeInteger(2 ** 53), isFinite('12'), (25).toString(36), 0b1010, 0o17, 1_000_000, BigInt(2) ** 100n, BigInt.asUintN(8, 257n), 7n / 2n);
let fact = 1n;
for (let i = 1n; i <= 50n; i++) fact *= i;
console.log(fact, fact.toString().length);
