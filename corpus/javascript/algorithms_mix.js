// Sieve, gcd, binary search, quicksort, permutations, knapsack, LCS, sudoku check
const sieve = (n) => {
  const flags = new Uint8Array(n + 1).fill(1, 2);
  for (let i = 2; i * i <= n; i++) if (flags[i]) for (let j = i * i; j <= n; j += i) flags[j] = 0;
  return flags.reduce((out, f, i) => (f && out.push(i), out), []);
};
const primes = sieve(200000);
console.log(primes.length, primes.at(-1), primes.slice(0, 10));

const gcd = (a, b) => (b ? gcd(b, a % b) : a);
console.log(gcd(1071, 462), [12, 18, 27].reduce(gcd), (12 * 18) / gcd(12, 18));

function binarySearch(list, target) {
  let low = 0, high = list.length - 1;
  while (low <= high) {
    const mid = (low + high) >>> 1;
    if (list[mid] === target) return mid;
    if (list[mid] < target) low = mid + 1;
    else high = mid - 1;
  }
  return ~low;
}
console.log(binarySearch(primes, 7919), binarySearch(primes, 8000));

function lcg(seed) {
  return () => (seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0) / 2 ** 32;
}
const random = lcg(42);
const data = Array.from({ length: 2000 }, () => Math.floor(random() * 10000));
const quick = ([p, ...rest]) => (p === undefined ? [] : [...quick(rest.filter((x) => x < p)), p, ...quick(rest.filter((x) => x >= p))]);
const sorted = quick(data);
console.log(sorted.slice(0, 5), sorted.slice(-3), sorted.every((x, i) => !i || sorted[i - 1] <= x));

const lcs = (a, b) => {
  const t = Array.from({ length: a.length + 1 }, () => new Array(b.length + 1).fill(0));
  for (let i = 1; i <= a.length; i++) for (let j = 1; j <= b.length; j++) t[i][j] = a[i - 1] === b[j - 1] ? t[i - 1][j - 1] + 1 : Math.max(t[i - 1][j], t[i][j - 1]);
  let out = '';
  for (let i = a.length, j = b.length; i && j; ) {
    if (a[i - 1] === b[j - 1]) { out = a[i - 1] + out; i--; j--; } else if (t[i - 1][j] >= t[i][j - 1]) i--; else j--;
  }
  return out;
};
console.log(lcs('ABCBDAB', 'BDCABA'), lcs('programming', 'gaming'));

const queens = (n, row = 0, cols = 0, d1 = 0, d2 = 0) => {
  if (row === n) return 1;
  let count = 0;
  for (let free = ~(cols | d1 | d2) & ((1 << n) - 1); free; free &= free - 1) {
    const bit = free & -free;
    count += queens(n, row + 1, cols | bit, (d1 | bit) << 1, (d2 | bit) >> 1);
  }
  return count;
};
console.log([4, 6, 8].map((n) => queens(n)));
const hanoi = (n, a, b, c) => (n ? hanoi(n - 1, a, c, b) + 1 + hanoi(n - 1, c, b, a) : 0);
console.log(hanoi(12, 'A', 'B', 'C'), Array.from({ length: 15 }, (_, i) => (i + 1) % 15 ? (i + 1) % 5 ? (i + 1) % 3 ? i + 1 : 'Fizz' : 'Buzz' : 'FizzBuzz').join(' '));
const collatz = (n) => { let s = 0; for (; n !== 1; s++) n = n % 2 ? 3 * n + 1 : n / 2; return s; };
let best = [0, 0];
for (let i = 1; i < 20000; i++) { const s = collatz(i); if (s > best[1]) best = [i, s]; }
console.log(best);
