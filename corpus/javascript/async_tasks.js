const sleep = (ms, value) => new Promise((resolve) => setTimeout(resolve, ms, value));

async function fetchPage(n) {
  await sleep(100 * (4 - n));
  if (n === 2) throw new Error(`page ${n} is gone`);
  return `page ${n}`;
}

async function* countdown(n) {
  while (n > 0) {
    await sleep(1);
    yield n--;
  }
}

async function pool(tasks, limit) {
  const results = [];
  let next = 0, active = 0, peak = 0;
  async function worker() {
    while (next < tasks.length) {
      const i = next++;
      peak = Math.max(peak, ++active);
      results[i] = await tasks[i]();
      active--;
    }
  }
  await Promise.all(Array.from({ length: limit }, worker));
  return { results, peak };
}

async function retry(f, times) {
  for (let attempt = 1; ; attempt++) {
    try {
      return await f(attempt);
    } catch (error) {
      console.log(`attempt ${attempt}: ${error.message}`);
      if (attempt === times) throw error;
      await sleep(2 ** attempt);
    }
  }
}

(async () => {
  const settled = await Promise.allSettled([1, 2, 3].map(fetchPage));
  console.log(settled.map(({ status, value, reason }) => ({ status, value: value ?? reason.message })));
  console.log(await Promise.race([fetchPage(1), fetchPage(3)]), await Promise.any([Promise.reject(1), sleep(5, 'any')]));
  for await (const n of countdown(3)) console.log(n);
  console.log(await pool([3, 1, 2, 1].map((n) => () => sleep(n, n * 10)), 2));
  console.log(await retry(async (n) => { if (n < 3) throw new Error('not yet'); return 'ok'; }, 5));
  try {
    await Promise.race([sleep(1000), new Promise((_, reject) => setTimeout(() => reject(new Error('timeout')), 5))]);
  } catch (e) {
    console.log(e.message);
  } finally {
    console.log('finally');
  }
  const controller = new AbortController();
  controller.signal.addEventListener('abort', () => console.log('aborted'));
  controller.abort();
  process.exit(0);
})();

console.log('1 sync');
setTimeout(() => console.log('5 timeout'), 0);
setImmediate(() => {});
Promise.resolve().then(() => console.log('4 microtask'));
process.nextTick(() => console.log('3 tick'));
queueMicrotask(() => {});
console.log('2 sync end');
