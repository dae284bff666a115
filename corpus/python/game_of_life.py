from collections import Counter


def step(cells):
    neighbours = Counter((x + dx, y + dy) for x, y in cells for dx in (-1, 0, 1) for dy in (-1, 0, 1) if dx or dy)
    return {cell for cell, n in neighbours.items() if n == 3 or (n == 2 and cell in cells)}


def show(cells, width, height):
    for y in range(height):
        print("".join("#" if (x, y) in cells else "." for x in range(width)))
    print()


glider = {(1, 0), (2, 1), (0, 2), (1, 2), (2, 2)}
for generation in range(5):
    if generation % 2 == 0:
        print("generation", generation)
        show(glider, 8, 6)
    glider = step(glider)

r_pentomino = {(1, 0), (2, 0), (0, 1), (1, 1), (1, 2)}
for n in range(200):
    r_pentomino = step(r_pentomino)
print("R-pentomino after 200 generations:", len(r_pentomino), "cells")
