import asyncio
import time


async def fetch(name, delay):
    await asyncio.sleep(delay)
    if name == "bad":
        raise ConnectionError("cannot reach bad")
    return f"page of {name}"


async def producer(queue, n):
    for i in range(n):
        await queue.put(i)
        await asyncio.sleep(0)
    await queue.put(None)


async def consumer(queue):
    total = 0
    while (item := await queue.get()) is not None:
        total += item
        queue.task_done()
    return total


async def ticker(n):
    for i in range(n):
        yield i
        await asyncio.sleep(0.001)


async def main():
    start = time.monotonic()
    pages = await asyncio.gather(*(fetch(n, 0.5) for n in ("a", "bad", "c")), return_exceptions=True)
    print([p if isinstance(p, str) else f"{type(p).__name__}: {p}" for p in pages])
    print("in parallel:", time.monotonic() - start < 1.4)

    queue = asyncio.Queue(maxsize=3)
    _, total = await asyncio.gather(producer(queue, 20), consumer(queue))
    print("total:", total)

    print([i async for i in ticker(4)])
    try:
        await asyncio.wait_for(fetch("slow", 10), timeout=0.02)
    except asyncio.TimeoutError:
        print("timed out")

    semaphore, active, peak = asyncio.Semaphore(2), 0, 0

    async def limited(i):
        nonlocal active, peak
        async with semaphore:
            active += 1
            peak = max(peak, active)
            await asyncio.sleep(0.005)
            active -= 1
        return i * i

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(limited(i)) for i in range(6)]
    print([t.result() for t in tasks], "peak", peak)

    task = asyncio.create_task(asyncio.sleep(100))
    await asyncio.sleep(0)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        print("cancelled")

    event, order = asyncio.Event(), []
    async def waiter(n):
        await event.wait()
        order.append(n)
    waiters = [asyncio.create_task(waiter(n)) for n in range(3)]
    event.set()
    await asyncio.wait(waiters)
    print(order)
    for first in asyncio.as_completed([fetch("x", 0.3), fetch("y", 0.1)]):
        print(await first)
    print(await asyncio.to_thread(sum, range(10)))


asyncio.run(main())
