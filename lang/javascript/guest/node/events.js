// node:events.
globalThis.__membrane.factories.set("events", (exports, module, load) => {
  "use strict";
  const shared = load("internal/shared");
  const { abortError, checkFunction, coded } = load("internal/check");
  const { inspect } = shared;
  const kCapture = Symbol.for("nodejs.rejection"),
    kMonitor = Symbol("events.errorMonitor");

  const tableOf = (emitter) => {
    if (!Object.hasOwn(emitter, "_events") || emitter._events === undefined) {
      emitter._events = Object.create(null);
      emitter._eventsCount = 0;
    }
    return emitter._events;
  };

  function EventEmitter(options) {
    EventEmitter.init.call(this, options);
  }
  EventEmitter.init = function (options) {
    if (this._events === undefined || this._events === Object.getPrototypeOf(this)._events) {
      this._events = Object.create(null);
      this._eventsCount = 0;
    }
    this._maxListeners ??= undefined;
    if (options?.captureRejections) Object.defineProperty(this, kCaptures, { value: true });
  };
  const kCaptures = Symbol("kCapture");

  function add(emitter, type, listener, isFirst) {
    checkFunction(listener, "listener");
    const table = tableOf(emitter);
    if (table.newListener !== undefined) emitter.emit("newListener", type, listener.listener ?? listener);
    const list = table[type];
    if (list === undefined) {
      table[type] = [listener];
      ++emitter._eventsCount;
    } else {
      table[type] = isFirst ? [listener, ...list] : [...list, listener];
      warnOfMany(emitter, type, table[type]);
    }
    return emitter;
  }
  function warnOfMany(emitter, type, list) {
    const most = emitter.getMaxListeners();
    if (most <= 0 || list.length !== most + 1) return;
    globalThis.process.emitWarning(
      `Possible EventEmitter memory leak detected. ${list.length} ${String(type)} listeners added to ` +
        `${inspect(emitter, { depth: -1 })}. MaxListeners is ${most}. Use emitter.setMaxListeners() to increase limit`,
      "MaxListenersExceededWarning",
    );
  }
  function onceOf(emitter, type, listener) {
    checkFunction(listener, "listener");
    let isDone = false;
    const wrapped = function (...values) {
      if (isDone) return undefined;
      isDone = true;
      emitter.removeListener(type, wrapped);
      return listener.apply(emitter, values);
    };
    wrapped.listener = listener;
    return wrapped;
  }
  function failWith(error) {
    if (error instanceof Error) throw error;
    const shown = typeof error === "string" ? `'${error}'` : inspect(error);
    throw coded(Error, "ERR_UNHANDLED_ERROR", `Unhandled error. (${shown})`, { context: error });
  }

  // emit() of one value, which streams call for each chunk: cheaper with one listener or none.
  function emitOne(emitter, type, value) {
    const list = emitter._events?.[type];
    const isPlain = emitter.emit === EventEmitter.prototype.emit && !emitter[kCaptures];
    if (!isPlain || list?.length > 1) return emitter.emit(type, value);
    if (list === undefined) return false;
    list[0].call(emitter, value);
    return true;
  }

  Object.assign(EventEmitter.prototype, {
    _events: undefined,
    _eventsCount: 0,
    _maxListeners: undefined,
    setMaxListeners(count) {
      if (typeof count !== "number" || count < 0 || Number.isNaN(count))
        load("internal/check").outOfRange("setMaxListeners", "a non-negative number", count);
      this._maxListeners = count;
      return this;
    },
    getMaxListeners() {
      return this._maxListeners ?? EventEmitter.defaultMaxListeners;
    },
    // A list is never changed, but replaced: a listener may add and remove others.
    emit(type, ...values) {
      const table = this._events;
      if (type === "error" && table?.[kMonitor] !== undefined) this.emit(kMonitor, ...values);
      const list = table?.[type];
      if (list === undefined) {
        if (type === "error") failWith(values[0]);
        return false;
      }
      for (let i = 0; i < list.length; ++i) {
        const result = list[i].apply(this, values);
        if (result !== undefined && result !== null && this[kCaptures] && typeof result.then === "function")
          result.then(undefined, (error) =>
            typeof this[kCapture] === "function" ? this[kCapture](error, type, ...values) : this.emit("error", error),
          );
      }
      return true;
    },
    addListener(type, listener) {
      return add(this, type, listener, false);
    },
    on(type, listener) {
      return add(this, type, listener, false);
    },
    prependListener(type, listener) {
      return add(this, type, listener, true);
    },
    once(type, listener) {
      return this.on(type, onceOf(this, type, listener));
    },
    prependOnceListener(type, listener) {
      return this.prependListener(type, onceOf(this, type, listener));
    },
    removeListener(type, listener) {
      checkFunction(listener, "listener");
      const table = tableOf(this),
        list = table[type];
      const at =
        list === undefined ? -1 : list.findLastIndex((each) => each === listener || each.listener === listener);
      if (at < 0) return this;
      if (list.length === 1) {
        delete table[type];
        --this._eventsCount;
      } else {
        table[type] = list.toSpliced(at, 1);
      }
      if (table.removeListener !== undefined) this.emit("removeListener", type, listener);
      return this;
    },
    off(type, listener) {
      return this.removeListener(type, listener);
    },
    removeAllListeners(...types) {
      const table = tableOf(this);
      if (table.removeListener === undefined) {
        if (types.length === 0) {
          this._events = Object.create(null);
          this._eventsCount = 0;
        } else if (table[types[0]] !== undefined) {
          delete table[types[0]];
          --this._eventsCount;
        }
        return this;
      }
      const names = types.length
        ? types
        : [...Reflect.ownKeys(table).filter((name) => name !== "removeListener"), "removeListener"];
      for (const name of names)
        for (const listener of (table[name] ?? []).toReversed()) this.removeListener(name, listener);
      return this;
    },
    listeners(type) {
      return (tableOf(this)[type] ?? []).map((each) => each.listener ?? each);
    },
    rawListeners(type) {
      return [...(tableOf(this)[type] ?? [])];
    },
    listenerCount(type, listener) {
      const list = tableOf(this)[type] ?? [];
      return listener === undefined
        ? list.length
        : list.filter((each) => each === listener || each.listener === listener).length;
    },
    eventNames() {
      return Reflect.ownKeys(tableOf(this));
    },
  });

  const isTarget = (object) => typeof object?.addEventListener === "function" && typeof object.on !== "function";
  const listen = (object, name, listener) =>
    isTarget(object) ? object.addEventListener(name, listener) : object.on(name, listener);
  const unlisten = (object, name, listener) =>
    isTarget(object) ? object.removeEventListener(name, listener) : object.removeListener(name, listener);

  function once(emitter, name, { signal } = {}) {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(abortError(signal));
      const end = () => {
        unlisten(emitter, name, done);
        if (name !== "error" && !isTarget(emitter)) unlisten(emitter, "error", fail);
        signal?.removeEventListener("abort", abort);
      };
      const done = (...values) => {
        end();
        resolve(values);
      };
      const fail = (error) => {
        end();
        reject(error);
      };
      const abort = () => {
        end();
        reject(abortError(signal));
      };
      listen(emitter, name, done);
      if (name !== "error" && !isTarget(emitter)) listen(emitter, "error", fail);
      signal?.addEventListener("abort", abort, { once: true });
    });
  }

  // The values of each event, as an async iterator.
  function on(emitter, name, { signal, close = [] } = {}) {
    const values = [],
      waiting = [];
    let failure = null,
      isOver = false;
    const tell = (...given) =>
      waiting.length ? waiting.shift().resolve({ value: given, done: false }) : values.push(given);
    const fail = (error) => {
      if (waiting.length) waiting.shift().reject(error);
      else failure = error;
      iterator.return();
    };
    const abort = () => fail(abortError(signal));
    const finish = () => iterator.return();
    const iterator = {
      next() {
        if (values.length) return Promise.resolve({ value: values.shift(), done: false });
        if (failure) {
          const error = failure;
          failure = null;
          return Promise.reject(error);
        }
        if (isOver) return Promise.resolve({ value: undefined, done: true });
        return new Promise((resolve, reject) => waiting.push({ resolve, reject }));
      },
      return() {
        unlisten(emitter, name, tell);
        unlisten(emitter, "error", fail);
        for (const each of close) unlisten(emitter, each, finish);
        signal?.removeEventListener("abort", abort);
        isOver = true;
        for (const { resolve } of waiting.splice(0)) resolve({ value: undefined, done: true });
        return Promise.resolve({ value: undefined, done: true });
      },
      throw(error) {
        fail(error);
      },
      [Symbol.asyncIterator]() {
        return this;
      },
    };
    if (signal?.aborted) throw abortError(signal);
    listen(emitter, name, tell);
    if (name !== "error" && !isTarget(emitter)) listen(emitter, "error", fail);
    for (const each of close) listen(emitter, each, finish);
    signal?.addEventListener("abort", abort, { once: true });
    return iterator;
  }

  Object.assign(EventEmitter, {
    EventEmitter,
    once,
    on,
    defaultMaxListeners: 10,
    errorMonitor: kMonitor,
    captureRejectionSymbol: kCapture,
    captureRejections: false,
    usingDomains: false,
    listenerCount: (emitter, type) => emitter.listenerCount(type),
    getEventListeners: (emitter, type) => (isTarget(emitter) ? [] : emitter.listeners(type)),
    getMaxListeners: (emitter) => emitter.getMaxListeners?.() ?? EventEmitter.defaultMaxListeners,
    setMaxListeners(count, ...emitters) {
      if (emitters.length === 0) EventEmitter.defaultMaxListeners = count;
      for (const emitter of emitters) emitter.setMaxListeners?.(count);
    },
    addAbortListener(signal, listener) {
      if (signal.aborted) globalThis.queueMicrotask(() => listener());
      else signal.addEventListener("abort", listener, { once: true });
      return { [Symbol.dispose ?? Symbol("dispose")]: () => signal.removeEventListener("abort", listener) };
    },
    EventEmitterAsyncResource: EventEmitter,
  });
  shared.emitOne = emitOne;
  module.exports = EventEmitter;
});
