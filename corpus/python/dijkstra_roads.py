import heapq
from collections import defaultdict, deque

graph = defaultdict(dict)
with open("data/roads.txt") as f:
    for line in f:
        if line.startswith("#"):
            continue
        a, b, km = line.split()
        graph[a][b] = graph[b][a] = int(km)


def dijkstra(start):
    distance, previous, queue = {start: 0}, {}, [(0, start)]
    while queue:
        d, node = heapq.heappop(queue)
        if d > distance[node]:
            continue
        for neighbour, km in sorted(graph[node].items()):
            if d + km < distance.get(neighbour, float("inf")):
                distance[neighbour] = d + km
                previous[neighbour] = node
                heapq.heappush(queue, (d + km, neighbour))
    return distance, previous


def path_to(previous, node):
    path = [node]
    while node in previous:
        node = previous[node]
        path.append(node)
    return path[::-1]


distance, previous = dijkstra("harbour")
for place in sorted(distance, key=lambda p: (distance[p], p)):
    print(f"{place:<8} {distance[place]:>3} km  {' -> '.join(path_to(previous, place))}")
print("unreachable:", sorted(set(graph) - set(distance)) or "none")

# Fewest hops, breadth first
hops, queue = {"harbour": 0}, deque(["harbour"])
while queue:
    node = queue.popleft()
    for n in sorted(graph[node]):
        if n not in hops:
            hops[n] = hops[node] + 1
            queue.append(n)
print("hops:", dict(sorted(hops.items())))

# Minimum spanning tree (Prim)
seen, total, heap = {"harbour"}, 0, [(km, n) for n, km in graph["harbour"].items()]
heapq.heapify(heap)
while heap:
    km, node = heapq.heappop(heap)
    if node in seen:
        continue
    seen.add(node)
    total += km
    for n, k in graph[node].items():
        if n not in seen:
            heapq.heappush(heap, (k, n))
print("spanning tree:", total, "km")
