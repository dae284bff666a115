// Of node:async_hooks what can be had without a hook of the engine's for promises: the stores of a synchronous call, which
// ticks, timers and microtasks that it schedules get, too.
((globalThis) => {
  "use strict";
  const { Map, Promise, Reflect } = globalThis;
  const shared = globalThis.__membrane;

  // The stores of the code that runs now, by their AsyncLocalStorage; undefined outside of any.
  shared.context = undefined;

  function runIn(context, call, self, values) {
    const before = shared.context;
    shared.context = context;
    try {
      return Reflect.apply(call, self, values);
    } finally {
      shared.context = before;
    }
  }
  function bound(call, context = shared.context) {
    return function (...values) {
      return runIn(context, call, this, values);
    };
  }
  // For what runs a callback later.
  shared.withContext = (call) => (shared.context === undefined ? call : bound(call));

  const checkFunction = (call, name) => shared.builtin("internal/check").checkFunction(call, name);
  const isPending = (promise) => promise instanceof Promise && shared.ofPromise(promise) === "pending";
  const kLost =
    "AsyncLocalStorage: a store is not carried across await, so getStore() gives undefined there. " +
    "Pass the value as an argument, or call getStore() before the first await";

  class AsyncLocalStorage {
    #isEnabled = false;
    #pending; // a promise that run() gave
    getStore() {
      if (this.#isEnabled && shared.context?.has(this)) return shared.context.get(this);
      if (isPending(this.#pending)) globalThis.process.emitWarning(kLost);
      return undefined;
    }
    run(store, call, ...values) {
      checkFunction(call, "callback");
      this.#isEnabled = true;
      const result = runIn(new Map(shared.context).set(this, store), call, null, values);
      if (isPending(result)) this.#pending = result;
      return result;
    }
    exit(call, ...values) {
      checkFunction(call, "callback");
      return runIn(shared.context && new Map(shared.context).set(this, undefined), call, null, values);
    }
    enterWith() {
      shared.refuse("AsyncLocalStorage's enterWith", "nothing would end it: use run(store, call)");
    }
    disable() {
      this.#isEnabled = false;
    }
    static bind(call) {
      checkFunction(call, "fn");
      return bound(call);
    }
    static snapshot() {
      const context = shared.context;
      return (call, ...values) => runIn(context, call, null, values);
    }
  }

  let lastId = 1;
  class AsyncResource {
    #context = shared.context;
    #id = ++lastId;
    constructor(type) {
      shared.builtin("internal/check").checkString(type, "type");
    }
    runInAsyncScope(call, self, ...values) {
      return runIn(this.#context, call, self, values);
    }
    emitDestroy() {
      return this;
    }
    asyncId() {
      return this.#id;
    }
    triggerAsyncId() {
      return 1;
    }
    bind(call, self) {
      checkFunction(call, "fn");
      const within = bound(call, this.#context);
      return self === undefined ? within : within.bind(self);
    }
    static bind(call, type, self) {
      return new AsyncResource(type ?? (call?.name || "bound-anonymous-fn")).bind(call, self);
    }
  }

  shared.asyncHooks = { AsyncLocalStorage, AsyncResource };
})(globalThis);
