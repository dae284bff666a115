type Task<T> = () => Promise<T>;

class AsyncQueue {
  private running = 0;
  private waiting: Array<() => void> = [];
  public readonly order: string[] = [];

  constructor(private readonly limit: number) {}

  async run<T>(name: string, task: Task<T>): Promise<T> {
    if (this.running >= this.limit) await new Promise<void>((resolve) => this.waiting.push(resolve));
    this.running++;
    this.order.push(`start ${name}`);
    try {
      return await task();
    } finally {
      this.running--;
      this.order.push(`end ${name}`);
      this.waiting.shift()?.();
    }
  }
}

const sleep = (ms: number): Promise<void> => new Promise((r) => setTimeout(r, ms));

async function* batches<T>(items: Iterable<T>, size: number): AsyncGenerator<T[], void, undefined> {
  let batch: T[] = [];
  for (const item of items) {
    batch.push(item);
    if (batch.length === size) {
      await sleep(1);
      yield batch;
      batch = [];
    }
  }
  if (batch.length) yield batch;
}

async function withTimeout<T>(promise: Promise<T>, ms: number): Promise<T | 'timeout'> {
  let timer: ReturnType<typeof setTimeout>;
  const timeout = new Promise<'timeout'>((resolve) => { timer = setTimeout(() => resolve('timeout'), ms); });
  return Promise.race([promise, timeout]).finally(() => clearTimeout(timer!));
}

async function main(): Promise<void> {
  const queue = new AsyncQueue(2);
  const times: Record<string, number> = { a: 400, b: 100, c: 100, d: 400 };
  const results = await Promise.all(Object.entries(times).map(([name, ms]) => queue.run(name, async () => { await sleep(ms); return name.toUpperCase(); })));
  console.log(results, queue.order);

  for await (const batch of batches(new Set([1, 2, 3, 4, 5]), 2)) console.log(batch);
  console.log(await withTimeout(sleep(500).then(() => 'late'), 10), await withTimeout(Promise.resolve('early'), 50));

  const settled = await Promise.allSettled<number>([Promise.resolve(1), Promise.reject(new Error('no'))]);
  for (const s of settled) console.log(s.status === 'fulfilled' ? s.value : (s.reason as Error).message);
}

main().then(() => console.log('done'), (e: Error) => { console.error(e); process.exit(1); });
