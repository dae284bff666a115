// node:test: tests run one after the other, and are reported as Node's spec reporter does.
((globalThis) => {
  "use strict";
  const { Error, Object, Promise, Set } = globalThis;
  const shared = globalThis.__membrane;

  shared.factories.set("test", (exports, module, load) => {
    const process = load("process");
    const now = () => globalThis.performance.now();
    const print = (depth, text) => process.stdout.write(`${text.replace(/^(?=.)/gm, "  ".repeat(depth))}\n`);
    const kMarks = { pass: "✔", fail: "✖", todo: "✔", skipped: "﹣", cancelled: "✖" };

    // A test or a suite. `chain`: what its tests wait for, the one before each.
    class Item {
      constructor(parent, isSuite, [first, second, third]) {
        const name = typeof first === "string" ? first : undefined;
        const rest = name === undefined ? [first, second] : [second, third];
        this.run = rest.find((each) => typeof each === "function");
        const options = rest.find((each) => each !== null && typeof each === "object") ?? {};
        Object.assign(this, { parent, isSuite, depth: parent ? parent.depth + 1 : -1, name: name ?? (this.run?.name || "<anonymous>") });
        Object.assign(this, { skip: options.skip, todo: options.todo, timeout: options.timeout, error: undefined });
        Object.assign(this, { hooks: { before: [], after: [], beforeEach: [], afterEach: [] }, failed: 0, notes: [] });
        this.chain = Promise.resolve();
      }
      // Ahead of the first that is inside of it.
      tellHeader() {
        if (this.hasHeader || this.depth < 0) return;
        this.parent.tellHeader();
        this.hasHeader = true;
        print(this.depth, `▶ ${this.name}`);
      }
      get status() {
        if (this.isPending) return "cancelled";
        if (isSet(this.skip)) return "skipped";
        return isSet(this.todo) ? "todo" : this.error === undefined ? "pass" : "fail";
      }
      get line() {
        const said = isSet(this.skip) ? ["SKIP", this.skip] : isSet(this.todo) ? ["TODO", this.todo] : undefined;
        const mark = this.error === undefined ? kMarks[this.status] : kMarks.fail;
        return `${mark} ${this.name} (${this.ms.toFixed(3)}ms)${said ? ` # ${typeof said[1] === "string" ? said[1] : said[0]}` : ""}`;
      }
      get errorText() {
        return shared.inspect(this.error).replace(/^(?=.)/gm, "  ");
      }
      tell() {
        this.parent.tellHeader();
        print(this.depth, this.line);
        if (this.error !== undefined && !this.hasHeader) print(this.depth, `${this.errorText}\n`);
        for (const note of this.notes) print(this.depth, `ℹ ${note}`);
      }
    }
    const isSet = (option) => option !== undefined && option !== false;

    let root, current, began, open, counts, failures, isDue;
    function reset() {
      root = current = new Item(null, true, ["<root>"]);
      [began, failures, open, isDue] = [now(), [], new Set(), false];
      counts = { tests: 0, suites: 0, pass: 0, fail: 0, cancelled: 0, skipped: 0, todo: 0 };
    }
    reset();

    // --- running ---

    async function call(run, item, context) {
      if (run.length < 2) return run(context);
      return new Promise((resolve, reject) => run(context, (error) => (error ? reject(error) : resolve())));
    }
    function inTime(promise, ms) {
      if (ms === undefined || ms === Infinity) return promise;
      let timer;
      const late = new Promise((_, reject) => {
        timer = globalThis.setTimeout(() => reject(new Error(`test timed out after ${ms}ms`)), ms);
      });
      return Promise.race([promise, late]).finally(() => globalThis.clearTimeout(timer));
    }
    const above = (item) => (item ? [...above(item.parent), item] : []);
    async function runHooks(items, kind, context) {
      for (const item of items) for (const hook of item.hooks[kind]) await call(hook, item, context);
    }
    async function begin(item) {
      if (item.hasBegun || !item) return;
      item.hasBegun = true;
      await runHooks([item], "before", contextOf(item));
    }
    async function perform(item) {
      const from = now();
      item.isPending = true;
      open.add(item);
      try {
        if (!isSet(item.skip)) await performBody(item);
      } catch (error) {
        item.error = error ?? new Error(`${error}`);
      }
      if (item.error === undefined && item.failed > 0) item.error = new Error(`${item.failed} subtest${item.failed > 1 ? "s" : ""} failed`);
      item.ms = now() - from;
      item.isPending = false;
      open.delete(item);
      note(item);
    }
    async function performBody(item) {
      const context = contextOf(item);
      if (item.isSuite) {
        await item.body;
        await begin(item);
        item.start();
        await item.chain;
        await runHooks([item], "after", context);
        return;
      }
      const around = above(item.parent);
      for (const each of around) await begin(each);
      await runHooks(around, "beforeEach", context);
      try {
        if (item.run) await inTime(call(item.run, item, context), item.timeout);
        await item.chain;
      } finally {
        await runHooks(around.reverse(), "afterEach", context);
        await runHooks([item], "after", context);
      }
    }
    function note(item) {
      const { status } = item;
      if (item.isSuite) counts.suites += 1;
      else [counts.tests, counts[status]] = [counts.tests + 1, counts[status] + 1];
      if (item.error !== undefined && status !== "todo") {
        process.exitCode = 1;
        item.parent.failed += 1;
        if (!item.isSuite && item.failed === 0) failures.push(item);
      }
      item.tell();
    }
    function finish() {
      isDue = false;
      if (counts.tests + counts.suites === 0 && open.size === 0) return;
      for (const item of [...open].reverse()) {
        Object.assign(item, { error: new Error("the test waits for a promise that nothing can settle"), ms: now() - began });
        note(item);
      }
      for (const [name, count] of Object.entries(counts)) print(0, `ℹ ${name} ${count}`);
      print(0, `ℹ duration_ms ${(now() - began).toFixed(6)}`);
      if (failures.length > 0) print(0, "\n✖ failing tests:\n");
      for (const item of failures) print(0, `${item.line}\n${item.errorText}\n`);
      reset();
    }
    // When nothing is left of those of the program itself; what has begun and cannot end is told when the program ends.
    function due() {
      if (isDue) return;
      isDue = true;
      process.once("exit", finish);
      globalThis.setTimeout(function ended() {
        const { chain } = root;
        chain.then(async () => {
          if (chain !== root.chain) return globalThis.setTimeout(ended, 0);
          await runHooks([root], "after", contextOf(root));
          process.off("exit", finish);
          finish();
        });
      }, 0);
    }

    // --- what programs call ---

    // A test of the program's own begins when its first part has run: hooks may be set after it.
    let ofFirstPart;
    function add(parent, item) {
      const isOfRoot = parent === root;
      if (isOfRoot) due();
      const waits = isOfRoot ? (ofFirstPart ??= new Promise((resolve) => globalThis.setImmediate(resolve))) : parent.started;
      parent.chain = parent.chain.then(() => waits).then(() => perform(item));
      return parent.chain;
    }
    function suiteOf(parent, values) {
      const item = new Item(parent, true, values);
      item.started = new Promise((resolve) => (item.start = resolve));
      const before = current;
      current = item;
      try {
        item.body = isSet(item.skip) ? undefined : item.run?.(contextOf(item));
        item.body?.catch?.(() => {});
      } catch (error) {
        item.body = Promise.reject(error);
        item.body.catch(() => {});
      } finally {
        current = before;
      }
      return add(parent, item);
    }
    const hook = (kind, of) => (run) => void of().hooks[kind].push(run);
    function contextOf(item) {
      const made = ofParent(() => item);
      return {
        name: item.name,
        fullName: above(item).slice(1).map(({ name }) => name).join(" > "),
        test: made.test,
        ...made.hooks,
        skip: (why = true) => void (item.skip = why),
        todo: (why = true) => void (item.todo = why),
        diagnostic: (text) => void item.notes.push(`${text}`),
        assert: load("assert"),
      };
    }
    function ofParent(parent) {
      const variants = (make) => {
        const plain = (...values) => make(values, {});
        for (const option of ["skip", "todo", "only"])
          plain[option] = (name, ...rest) => {
            const given = rest.find((each) => each !== null && typeof each === "object");
            return make([name, { ...given, [option]: true }, rest.find((each) => typeof each === "function")]);
          };
        return plain;
      };
      const test = variants((values) => add(parent(), new Item(parent(), false, values)));
      const suite = variants((values) => suiteOf(parent(), values));
      const hooks = Object.fromEntries(["before", "after", "beforeEach", "afterEach"].map((kind) => [kind, hook(kind, parent)]));
      return { test, suite, hooks };
    }

    const { test, suite, hooks } = ofParent(() => current);
    for (const name of ["mock", "snapshot"])
      Object.defineProperty(test, name, {
        get: () => shared.refuse(`node:test's ${name}`, "write a function that records its calls, and pass it"),
        enumerable: false,
      });
    module.exports = Object.assign(test, hooks, { test, it: test, suite, describe: suite });
  });
})(globalThis);
