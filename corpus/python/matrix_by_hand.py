from __future__ import annotations

from fractions import Fraction


class Matrix:
    def __init__(self, rows):
        self.rows = [[Fraction(x) for x in row] for row in rows]

    @classmethod
    def identity(cls, n):
        return cls([[int(i == j) for j in range(n)] for i in range(n)])

    @property
    def shape(self):
        return len(self.rows), len(self.rows[0])

    def __matmul__(self, other: Matrix) -> Matrix:
        return Matrix([[sum(a * b for a, b in zip(row, col)) for col in zip(*other.rows)] for row in self.rows])

    def __pow__(self, n: int) -> Matrix:
        result, base = Matrix.identity(self.shape[0]), self
        while n:
            if n & 1:
                result = result @ base
            base = base @ base
            n >>= 1
        return result

    def __eq__(self, other):
        return self.rows == other.rows

    def __str__(self):
        return "\n".join("[" + ", ".join(f"{x}" for x in row) + "]" for row in self.rows)

    def inverse(self) -> Matrix:
        n = self.shape[0]
        work = [row + unit for row, unit in zip([r[:] for r in self.rows], Matrix.identity(n).rows)]
        for i in range(n):
            pivot = next((r for r in range(i, n) if work[r][i]), None)
            if pivot is None:
                raise ZeroDivisionError("the matrix is singular")
            work[i], work[pivot] = work[pivot], work[i]
            work[i] = [x / work[i][i] for x in work[i]]
            for r in range(n):
                if r != i:
                    work[r] = [x - work[r][i] * y for x, y in zip(work[r], work[i])]
        return Matrix([row[n:] for row in work])


a = Matrix([[2, 1, 0], [1, 3, 1], [0, 1, 4]])
print(a.inverse())
print(a @ a.inverse() == Matrix.identity(3))
print("Fibonacci(300) =", (Matrix([[1, 1], [1, 0]]) ** 300).rows[0][1])
try:
    Matrix([[1, 2], [2, 4]]).inverse()
except ZeroDivisionError as e:
    print("error:", e)
