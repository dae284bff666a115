def solve(n):
    solutions = []

    def place(row, columns, diagonal, anti, queens):
        if row == n:
            solutions.append(queens[:])
            return
        for c in range(n):
            if c in columns or row - c in diagonal or row + c in anti:
                continue
            place(row + 1, columns | {c}, diagonal | {row - c}, anti | {row + c}, queens + [c])

    place(0, frozenset(), frozenset(), frozenset(), [])
    return solutions


for n in range(1, 9):
    print(f"{n} queens: {len(solve(n))} solutions")

board = solve(8)[0]
for c in board:
    print(" ".join("Q" if i == c else "." for i in range(8)))
