"""Solve a Sudoku by constraint propagation and search."""
PUZZLE = """
53..7....
6..195...
.98....6.
8...6...3
4..8.3..1
7...2...6
.6....28.
...419..5
....8..79
"""
HARD = "8..........36......7..9.2...5...7.......457.....1...3...1....68..85...1..9....4.."

DIGITS = "123456789"
ROWS = "ABCDEFGHI"


def cross(a, b):
    return [x + y for x in a for y in b]


squares = cross(ROWS, DIGITS)
unitlist = (
    [cross(ROWS, c) for c in DIGITS]
    + [cross(r, DIGITS) for r in ROWS]
    + [cross(rs, cs) for rs in ("ABC", "DEF", "GHI") for cs in ("123", "456", "789")]
)
units = {s: [u for u in unitlist if s in u] for s in squares}
peers = {s: set(sum(units[s], [])) - {s} for s in squares}


def assign(values, s, d):
    if all(eliminate(values, s, other) for other in values[s].replace(d, "")):
        return values
    return None


def eliminate(values, s, d):
    if d not in values[s]:
        return values
    values[s] = values[s].replace(d, "")
    if not values[s]:
        return None
    if len(values[s]) == 1 and not all(eliminate(values, p, values[s]) for p in peers[s]):
        return None
    for unit in units[s]:
        places = [q for q in unit if d in values[q]]
        if not places:
            return None
        if len(places) == 1 and not assign(values, places[0], d):
            return None
    return values


def parse(grid):
    values = {s: DIGITS for s in squares}
    for s, c in zip(squares, [c for c in grid if c in DIGITS + ".0"]):
        if c in DIGITS and not assign(values, s, c):
            return None
    return values


def search(values):
    if values is None:
        return None
    if all(len(values[s]) == 1 for s in squares):
        return values
    _, s = min((len(values[s]), s) for s in squares if len(values[s]) > 1)
    for d in values[s]:
        result = search(assign(values.copy(), s, d))
        if result:
            return result
    return None


for puzzle in (PUZZLE, HARD):
    solved = search(parse(puzzle))
    for r in ROWS:
        print(" ".join(solved[r + c] for c in DIGITS))
    print()
