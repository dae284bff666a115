// Readable as an iterable: for await over its chunks, Readable.from(), and array methods.
globalThis.__membrane.factories.set("internal/stream/iterable", (exports, module, load) => {
  "use strict";
  const { coded, wrongType } = load("internal/check");
  const { finished } = load("internal/stream/finished");
  const { Readable } = load("internal/stream/readable");

  // --- for await ---

  // An async generator in all but its cost.
  const kAsyncIterator = Object.getPrototypeOf(Object.getPrototypeOf(async function* () {}).prototype);
  const kGenerator = Object.create(kAsyncIterator, {
    [Symbol.toStringTag]: { value: "AsyncGenerator", configurable: true },
  });
  const over = (value) => Promise.resolve({ value, done: true });
  function valuesOf(stream, destroysOnReturn) {
    const waiting = []; // calls of next()
    let failure,
      stop,
      isOver = false,
      isClosed = false;
    function begin() {
      stream.on("readable", serve);
      if (stream._readableState) stream._readableState.waiting = waiting;
      stop = finished(stream, { writable: false }, (error) => {
        if (error) failure = error;
        isOver = true;
        serve();
      });
    }
    function close(isWhole) {
      if (isClosed) return;
      isClosed = true;
      if (!stop) return;
      stop();
      stream.removeListener("readable", serve);
      if ((!isWhole && destroysOnReturn) || (failure && !stream.destroyed)) stream.destroy();
    }
    function read() {
      return isClosed || stream.destroyed ? null : stream.read();
    }
    function serve() {
      while (waiting.length > 0) {
        const chunk = read();
        if (chunk === null && !isOver && !isClosed) return;
        const { resolve, reject } = waiting.shift();
        if (chunk !== null) {
          resolve(resultOf(chunk));
          continue;
        }
        const fails = failure !== undefined && !isClosed;
        close(!fails);
        if (fails) reject(failure);
        else resolve({ value: undefined, done: true });
      }
    }
    const resultOf = (chunk) =>
      typeof chunk?.then === "function"
        ? Promise.resolve(chunk).then((value) => ({ value, done: false }))
        : { value: chunk, done: false };
    return Object.defineProperties(Object.create(kGenerator), {
      next: {
        value() {
          if (isClosed) return over();
          if (!stop) begin();
          const chunk = waiting.length > 0 ? null : read();
          if (chunk !== null) return Promise.resolve(resultOf(chunk));
          return new Promise((resolve, reject) => {
            waiting.push({ resolve, reject });
            if (isOver) serve();
          });
        },
      },
      return: {
        value(value) {
          close(false);
          serve();
          return over(value);
        },
      },
      throw: {
        value(error) {
          close(false);
          serve();
          return Promise.reject(error);
        },
      },
      stream: { value: stream },
    });
  }
  Object.assign(Readable.prototype, {
    [Symbol.asyncIterator]() {
      return valuesOf(this, true);
    },
    iterator({ destroyOnReturn = true } = {}) {
      return valuesOf(this, destroyOnReturn);
    },
  });

  // --- Readable.from() ---

  Readable.from = function (source, options) {
    if (typeof source === "string" || source instanceof Uint8Array)
      return new Readable({
        objectMode: true,
        ...options,
        read() {
          this.push(source);
          this.push(null);
        },
      });
    const iterator = source?.[Symbol.asyncIterator]?.() ?? source?.[Symbol.iterator]?.();
    if (iterator === undefined) wrongType("iterable", "an instance of Iterable", source);
    // Pulls until the stream is full, or has to wait.
    let isPulling = false;
    const pull = () => {
      try {
        while (isPulling) {
          const next = iterator.next();
          if (typeof next?.then === "function") return void next.then(onNext, fail);
          if (!take(next)) return;
        }
      } catch (error) {
        fail(error);
      }
    };
    // Whether the chunk need not be waited for.
    const take = (next) => {
      const { value, done } = next;
      if (done) isPulling = stream.push(null);
      else if (typeof value?.then === "function") return void value.then(onChunk, fail);
      else give(value);
      return true;
    };
    const give = (chunk) => {
      if (chunk === null) throw coded(TypeError, "ERR_STREAM_NULL_VALUES", "May not write null values to stream");
      isPulling = stream.push(chunk);
      return true;
    };
    const pullAfter = (act) => (value) => {
      try {
        if (act(value)) pull();
      } catch (error) {
        fail(error);
      }
    };
    const fail = (error) => void stream.destroy(error);
    const onNext = pullAfter(take),
      onChunk = pullAfter(give);
    const stream = new Readable({
      objectMode: true,
      highWaterMark: 1,
      ...options,
      read() {
        if (isPulling) return;
        isPulling = this._readableState.pushesUnasked = true;
        pull();
      },
      destroy(error, done) {
        Promise.resolve(iterator.return?.()).then(
          () => done(error),
          (e) => done(e ?? error),
        );
      },
    });
    return stream;
  };

  // --- array methods for the chunks to come ---

  const operators = {
    async *map(source, call) {
      for await (const chunk of source) yield await call(chunk);
    },
    async *filter(source, call) {
      for await (const chunk of source) if (await call(chunk)) yield chunk;
    },
    async *flatMap(source, call) {
      for await (const chunk of source) yield* await call(chunk);
    },
    async *take(source, count) {
      if (count > 0)
        for await (const chunk of source) {
          yield chunk;
          if (--count === 0) return;
        }
    },
    async *drop(source, count) {
      for await (const chunk of source) if (count-- <= 0) yield chunk;
    },
  };
  for (const [name, operate] of Object.entries(operators))
    Readable.prototype[name] = function (...values) {
      return Readable.from(operate(this, ...values));
    };
  Object.assign(Readable.prototype, {
    async toArray() {
      const all = [];
      for await (const chunk of this) all.push(chunk);
      return all;
    },
    async forEach(call) {
      for await (const chunk of this) await call(chunk);
    },
    async some(call) {
      for await (const chunk of this) if (await call(chunk)) return true;
      return false;
    },
    async every(call) {
      for await (const chunk of this) if (!(await call(chunk))) return false;
      return true;
    },
    async find(call) {
      for await (const chunk of this) if (await call(chunk)) return chunk;
      return undefined;
    },
    async reduce(call, ...initial) {
      let [value] = initial,
        isFirst = initial.length === 0;
      for await (const chunk of this) [value, isFirst] = isFirst ? [chunk, false] : [await call(value, chunk), false];
      if (isFirst) throw new TypeError("Reduce of an empty stream requires an initial value");
      return value;
    },
  });
});
