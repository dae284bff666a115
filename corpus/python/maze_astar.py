import heapq
import random


def make_maze(width, height, seed):
    rng = random.Random(seed)
    grid = [["#"] * (2 * width + 1) for _ in range(2 * height + 1)]
    stack, seen = [(0, 0)], {(0, 0)}
    grid[1][1] = " "
    while stack:
        x, y = stack[-1]
        options = [(dx, dy) for dx, dy in ((1, 0), (-1, 0), (0, 1), (0, -1))
                   if 0 <= x + dx < width and 0 <= y + dy < height and (x + dx, y + dy) not in seen]
        if not options:
            stack.pop()
            continue
        dx, dy = rng.choice(options)
        grid[2 * y + 1 + dy][2 * x + 1 + dx] = " "
        grid[2 * (y + dy) + 1][2 * (x + dx) + 1] = " "
        seen.add((x + dx, y + dy))
        stack.append((x + dx, y + dy))
    return grid


def a_star(grid, start, goal):
    def h(p):
        return abs(p[0] - goal[0]) + abs(p[1] - goal[1])

    queue, came, cost = [(h(start), start)], {start: None}, {start: 0}
    visited = 0
    while queue:
        _, current = heapq.heappop(queue)
        visited += 1
        if current == goal:
            break
        x, y = current
        for n in ((x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1)):
            if grid[n[1]][n[0]] != "#" and cost[current] + 1 < cost.get(n, 10**9):
                cost[n] = cost[current] + 1
                came[n] = current
                heapq.heappush(queue, (cost[n] + h(n), n))
    path, node = [], goal
    while node:
        path.append(node)
        node = came[node]
    return path[::-1], visited


maze = make_maze(15, 7, seed=5)
path, visited = a_star(maze, (1, 1), (29, 13))
for x, y in path:
    maze[y][x] = "."
print("\n".join("".join(row) for row in maze))
print("steps:", len(path) - 1, "visited:", visited)
