"""The norm of an endless matrix's corner: calls of small functions, generators, division."""

import math


def element(row, column):
    diagonal = row + column
    return 1.0 / (diagonal * (diagonal + 1) // 2 + row + 1)


def times(vector):
    return [sum(element(row, column) * value for column, value in enumerate(vector)) for row in range(len(vector))]


def transposed_times(vector):
    return [sum(element(column, row) * value for column, value in enumerate(vector)) for row in range(len(vector))]


def norm(size, rounds):
    vector = [1.0] * size
    for _ in range(rounds):
        before = vector
        vector = transposed_times(times(vector))
    return math.sqrt(math.sumprod(before, vector) / math.sumprod(before, before)) if hasattr(math, "sumprod") else (
        math.sqrt(sum(a * b for a, b in zip(before, vector)) / sum(a * a for a in before)))


print(f"{norm(260, 6):.9f}")
