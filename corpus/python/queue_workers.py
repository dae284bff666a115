import queue
import threading

tasks, results = queue.Queue(), queue.Queue()


def worker(number):
    while True:
        n = tasks.get()
        if n is None:
            tasks.task_done()
            break
        results.put((n, sum(i for i in range(1, n) if n % i == 0)))
        tasks.task_done()


threads = [threading.Thread(target=worker, args=(i,), daemon=True) for i in range(3)]
for t in threads:
    t.start()
for n in (6, 28, 12, 496, 97, 8128):
    tasks.put(n)
for _ in threads:
    tasks.put(None)
tasks.join()
for t in threads:
    t.join()

for n, total in sorted(results.get() for _ in range(results.qsize())):
    print(n, total, "perfect" if n == total else "")

heap = queue.PriorityQueue()
for priority, name in ((3, "low"), (1, "high"), (2, "middle")):
    heap.put((priority, name))
print([heap.get()[1] for _ in range(3)])
stack = queue.LifoQueue(maxsize=2)
stack.put("a")
stack.put("b")
try:
    stack.put_nowait("c")
except queue.Full:
    print("full:", stack.get(), stack.get())
try:
    stack.get(block=False)
except queue.Empty:
    print("empty")
