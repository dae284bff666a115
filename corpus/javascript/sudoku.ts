type Grid = Uint8Array;

const parse = (text: string): Grid => Uint8Array.from([...text.replace(/[^\d.]/g, '')].map((c) => (c === '.' ? 0 : Number(c))));

function candidates(grid: Grid, index: number): number {
  const row = Math.trunc(index / 9), column = index % 9;
  let used = 0;
  for (let i = 0; i < 9; i++) {
    used |= 1 << grid[row * 9 + i];
    used |= 1 << grid[i * 9 + column];
    used |= 1 << grid[(row - (row % 3) + Math.trunc(i / 3)) * 9 + (column - (column % 3)) + (i % 3)];
  }
  return ~used & 0b1111111110;
}
const bits = (x: number): number => { let n = 0; for (; x; x &= x - 1) n++; return n; };

let steps = 0;
function solve(grid: Grid): boolean {
  steps++;
  let best = -1, mask = 0, fewest = 10;
  for (let i = 0; i < 81; i++) {
    if (grid[i]) continue;
    const c = candidates(grid, i), n = bits(c);
    if (n < fewest) [best, mask, fewest] = [i, c, n];
  }
  if (best < 0) return true;
  for (let digit = 1; digit <= 9; digit++) {
    if (!(mask & (1 << digit))) continue;
    grid[best] = digit;
    if (solve(grid)) return true;
  }
  grid[best] = 0;
  return false;
}

const grid = parse(`
  53. .7. ...   6.. 195 ...   .98 ... .6.
  8.. .6. ..3   4.. 8.3 ..1   7.. .2. ..6
  .6. ... 28.   ... 419 ..5   ... .8. .79`);
console.log(solve(grid), steps);
for (let r = 0; r < 9; r++) console.log([...grid.subarray(r * 9, r * 9 + 9)].join(' '));
const rowsAreFine: boolean = Array.from({ length: 9 }, (_, r) => new Set(grid.slice(r * 9, r * 9 + 9)).size).every((n) => n === 9);
console.log(rowsAreFine ? 'valid' : 'invalid');
