const fs = require('fs');

class PriorityQueue {
  #heap = [];
  push(priority, value) {
    const h = this.#heap;
    let i = h.push([priority, value]) - 1;
    while (i && h[(i - 1) >> 1][0] > h[i][0]) {
      [h[i], h[(i - 1) >> 1]] = [h[(i - 1) >> 1], h[i]];
      i = (i - 1) >> 1;
    }
  }
  pop() {
    const h = this.#heap, top = h[0], last = h.pop();
    if (h.length) {
      h[0] = last;
      for (let i = 0, c; (c = 2 * i + 1) < h.length; i = c) {
        if (c + 1 < h.length && h[c + 1][0] < h[c][0]) c++;
        if (h[i][0] <= h[c][0]) break;
        [h[i], h[c]] = [h[c], h[i]];
      }
    }
    return top;
  }
  get size() { return this.#heap.length; }
}

const graph = {};
for (const line of fs.readFileSync('data/roads.txt', 'utf8').split('\n')) {
  if (!line || line.startsWith('#')) continue;
  const [a, b, km] = line.split(' ');
  (graph[a] ??= {})[b] = +km;
  (graph[b] ??= {})[a] = +km;
}

function dijkstra(start) {
  const distance = { [start]: 0 }, previous = {}, queue = new PriorityQueue();
  queue.push(0, start);
  while (queue.size) {
    const [d, node] = queue.pop();
    if (d > distance[node]) continue;
    for (const [next, km] of Object.entries(graph[node]).sort()) {
      if (d + km < (distance[next] ?? Infinity)) {
        distance[next] = d + km;
        previous[next] = node;
        queue.push(d + km, next);
      }
    }
  }
  return { distance, previous };
}

const { distance, previous } = dijkstra('mill');
for (const [place, km] of Object.entries(distance).sort((a, b) => a[1] - b[1] || a[0].localeCompare(b[0]))) {
  const path = [place];
  while (previous[path[0]]) path.unshift(previous[path[0]]);
  console.log(String(km).padStart(3), path.join(' > '));
}

const multiply = (a, b) => a.map((row) => b[0].map((_, j) => row.reduce((s, x, k) => s + x * b[k][j], 0)));
const transpose = (m) => m[0].map((_, j) => m.map((r) => r[j]));
const det = (m) => (m.length === 1 ? m[0][0] : m[0].reduce((s, x, j) => s + (j % 2 ? -1 : 1) * x * det(m.slice(1).map((r) => r.filter((_, k) => k !== j))), 0));
const m = [[2, 1, 3], [0, -1, 4], [1, 2, 5]];
console.log(multiply(m, transpose(m)), det(m));
