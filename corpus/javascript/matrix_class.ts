export class Matrix {
  private constructor(private readonly rows: ReadonlyArray<ReadonlyArray<number>>) {}

  static of(...rows: number[][]): Matrix {
    if (rows.some((r) => r.length !== rows[0].length)) throw new RangeError('rows differ in length');
    return new Matrix(rows);
  }
  static identity(n: number): Matrix {
    return new Matrix(Array.from({ length: n }, (_, i) => Array.from({ length: n }, (_, j) => Number(i === j))));
  }

  get size(): `${number}x${number}` {
    return `${this.rows.length}x${this.rows[0].length}`;
  }
  times(other: Matrix | number): Matrix {
    if (typeof other === 'number') return new Matrix(this.rows.map((r) => r.map((x) => x * other)));
    if (this.rows[0].length !== other.rows.length) throw new RangeError(`${this.size} times ${other.size}`);
    return new Matrix(this.rows.map((r) => other.transpose().rows.map((c) => r.reduce((s, x, k) => s + x * c[k], 0))));
  }
  transpose(): Matrix {
    return new Matrix(this.rows[0].map((_, j) => this.rows.map((r) => r[j])));
  }
  power(n: number): Matrix {
    let result = Matrix.identity(this.rows.length), base: Matrix = this;
    for (; n > 0; n >>= 1, base = base.times(base)) if (n & 1) result = result.times(base);
    return result;
  }
  solve(b: number[]): number[] {
    const a = this.rows.map((r, i) => [...r, b[i]]);
    const n = a.length;
    for (let i = 0; i < n; i++) {
      const pivot = a.slice(i).reduce((best, r, k) => (Math.abs(r[i]) > Math.abs(a[best][i]) ? k + i : best), i);
      [a[i], a[pivot]] = [a[pivot], a[i]];
      if (Math.abs(a[i][i]) < 1e-12) throw new Error('singular');
      for (let r = i + 1; r < n; r++) {
        const f = a[r][i] / a[i][i];
        for (let c = i; c <= n; c++) a[r][c] -= f * a[i][c];
      }
    }
    const x = new Array<number>(n).fill(0);
    for (let i = n - 1; i >= 0; i--) x[i] = (a[i][n] - x.reduce((s, v, k) => s + (k > i ? v * a[i][k] : 0), 0)) / a[i][i];
    return x;
  }
  toString(): string {
    return this.rows.map((r) => r.join(' ')).join('\n');
  }
}

const m = Matrix.of([2, 1], [5, 3]);
console.log(`${m}`, m.size);
console.log(String(m.times(m.transpose())), m.times(10));
console.log('F(50) =', String(Matrix.of([1, 1], [1, 0]).power(50)).split(/\s/)[1]);
console.log(Matrix.of([2, 1, -1], [-3, -1, 2], [-2, 1, 2]).solve([8, -11, -3]).map((x) => Number(x.toFixed(9))));
for (const f of [() => m.times(Matrix.of([1, 2, 3])), () => Matrix.of([1], [2, 3]), () => Matrix.of([1, 2], [2, 4]).solve([1, 1])]) {
  try { f(); } catch (e) { console.log(e instanceof RangeError ? 'range' : 'other', (e as Error).message); }
}
