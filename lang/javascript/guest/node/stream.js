// node:stream: Readable, Writable, Duplex, Transform, pipeline and finished.
(() => {
  "use strict";
  const shared = globalThis.__membrane;

  shared.factories.set("stream", (exports, module, load) => {
    const EventEmitter = load("events");
    const { Buffer } = load("buffer");
    const { StringDecoder } = load("string_decoder");
    const { abortError, coded, wrongType } = load("internal/check");
    const isOutput = (to) => to === globalThis.process.stdout || to === globalThis.process.stderr;
    const { emitOne, nextTick: tick } = shared;

    function Stream(options) {
      EventEmitter.call(this, options);
    }
    Object.setPrototypeOf(Stream.prototype, EventEmitter.prototype);
    Object.setPrototypeOf(Stream, EventEmitter);

    let defaultBytes = 65536,
      defaultObjects = 16;
    const limitOf = (options, isObjects, name) =>
      options?.[name] ?? options?.highWaterMark ?? (isObjects ? defaultObjects : defaultBytes);
    const sizeOf = (state, chunk) => (state.objectMode ? 1 : chunk.length);

    // --- ending either side: destroy, errors, close ---

    function destroy(error, call) {
      const { _readableState: reading, _writableState: writing } = this;
      if (this.destroyed) {
        call?.(error);
        return this;
      }
      for (const state of [reading, writing]) if (state) state.destroyed = true;
      const finish = (given) => {
        const failure = given ?? error ?? null;
        for (const state of [reading, writing])
          if (state) Object.assign(state, { errored: state.errored ?? failure, closed: true });
        call?.(failure);
        tick(() => {
          const state = reading ?? writing;
          if (failure && !state.errorEmitted) {
            for (const each of [reading, writing]) if (each) each.errorEmitted = true;
            this.emit("error", failure);
          }
          if (reading?.emitClose !== false && writing?.emitClose !== false) this.emit("close");
        });
      };
      const act = () => {
        try {
          this._destroy(error ?? null, finish);
        } catch (thrown) {
          finish(thrown);
        }
      };
      if ((reading ?? writing).constructing) this.once(kConstructed, act);
      else act();
      return this;
    }
    const kConstructed = Symbol("constructed");
    function construct(stream, states) {
      if (typeof stream._construct !== "function") return;
      for (const state of states) state.constructing = true;
      tick(() => {
        stream._construct((error) => {
          for (const state of states) state.constructing = false;
          if (error) {
            stream.emit(kConstructed);
            stream.destroy(error);
            return;
          }
          stream.emit(kConstructed);
          if (stream._readableState && !stream.destroyed) flow(stream);
          if (stream._writableState) drainQueue(stream);
        });
      });
    }
    const statesOf = (stream) => [stream._readableState, stream._writableState].filter(Boolean);
    function abortBy(signal, stream) {
      if (!signal) return;
      const abort = () => stream.destroy(abortError(signal));
      if (signal.aborted) abort();
      else signal.addEventListener("abort", abort, { once: true });
    }
    const shareMethods = (Class) => {
      Class.prototype.destroy = destroy;
      Class.prototype._destroy = function (error, done) {
        done(error);
      };
      Object.defineProperties(Class.prototype, {
        destroyed: {
          get() {
            return Boolean(this._readableState?.destroyed || this._writableState?.destroyed);
          },
          set(value) {
            for (const state of statesOf(this)) state.destroyed = value;
          },
          configurable: true,
        },
        closed: {
          get() {
            return statesOf(this)[0]?.closed ?? false;
          },
          configurable: true,
        },
        errored: {
          get() {
            return statesOf(this)[0]?.errored ?? null;
          },
          configurable: true,
        },
      });
      if (Symbol.asyncDispose)
        Class.prototype[Symbol.asyncDispose] = function () {
          const closed = new Promise((resolve) => finished(this, () => resolve()));
          this.destroy();
          return closed;
        };
    };

    // --- reading ---

    function readableState(options, isDuplex) {
      const objectMode = Boolean(options?.objectMode || (isDuplex && options?.readableObjectMode));
      return {
        objectMode,
        highWaterMark: limitOf(options, objectMode, isDuplex ? "readableHighWaterMark" : "highWaterMark"),
        buffer: [],
        first: 0, // of the buffer: those before it are taken
        length: 0,
        ended: false,
        endScheduled: false,
        endEmitted: false,
        reading: false,
        flowing: null,
        destroyed: false,
        closed: false,
        errored: null,
        errorEmitted: false,
        constructing: false,
        needReadable: false,
        readableListening: false,
        scheduled: false,
        isFlowing: false,
        isFetching: false, // in _read()
        pushesUnasked: false, // the source pushes more without _read(), as long as there is room
        decoder: options?.encoding ? new StringDecoder(options.encoding) : null,
        encoding: options?.encoding ?? null,
        pipes: [],
        autoDestroy: options?.autoDestroy !== false,
        emitClose: options?.emitClose,
        didRead: false,
        waiting: null,
      };
    }
    function Readable(options) {
      if (!(this instanceof Readable)) return new Readable(options);
      Stream.call(this, options);
      this._readableState = readableState(options, false);
      this.readable = true;
      if (typeof options?.read === "function") this._read = options.read;
      if (typeof options?.destroy === "function") this._destroy = options.destroy;
      if (typeof options?.construct === "function") this._construct = options.construct;
      abortBy(options?.signal, this);
      construct(this, [this._readableState]);
    }
    Object.setPrototypeOf(Readable.prototype, Stream.prototype);
    Object.setPrototypeOf(Readable, Stream);
    shareMethods(Readable);

    function add(stream, given, encoding, isFront) {
      const state = stream._readableState;
      let chunk = given;
      if (chunk === null) {
        if (state.ended) return false;
        state.reading = false;
        state.ended = true;
        const rest = state.decoder?.end();
        if (rest) keep(state, rest, false);
        schedule(stream);
        return false;
      }
      if (!state.objectMode) {
        if (typeof chunk === "string") {
          if (!state.decoder || state.encoding !== (encoding ?? "utf8")) chunk = Buffer.from(chunk, encoding);
        } else if (chunk instanceof Uint8Array) {
          if (!Buffer.isBuffer(chunk)) chunk = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
        } else if (chunk !== undefined) {
          stream.destroy(
            typeErrorOf("chunk", "of type string or an instance of Buffer, TypedArray, or DataView", chunk),
          );
          return false;
        }
        if (chunk !== undefined && state.decoder && !isFront && typeof chunk !== "string")
          chunk = state.decoder.write(chunk);
      }
      state.reading = false;
      if (state.ended && !isFront) {
        stream.destroy(coded(Error, "ERR_STREAM_PUSH_AFTER_EOF", "stream.push() after EOF"));
        return false;
      }
      if (chunk !== undefined && (state.objectMode || chunk.length > 0)) {
        // What comes while nothing waits and nobody asks goes on at once.
        const isAlone = state.flowing && !state.isFlowing && !state.isFetching && state.length === 0 && !isFront;
        if (isAlone && !state.constructing && !state.destroyed) {
          emitOne(stream, "data", chunk);
          if (state.pushesUnasked && state.length === 0 && !state.destroyed) return true;
        } else keep(state, chunk, isFront);
      }
      if (!state.isFetching || !isServed(stream, state)) schedule(stream);
      return !state.ended && (state.length < state.highWaterMark || state.length === 0);
    }
    // Whether nothing but a loop reads the stream, which asks again when it has done its round.
    function isServed(stream, state) {
      return state.waiting?.length === 0 && !state.flowing && stream._events?.readable?.length === 1;
    }
    function keep(state, chunk, isFront) {
      if (isFront) withoutTaken(state).unshift(chunk);
      else state.buffer.push(chunk);
      state.length += sizeOf(state, chunk);
    }
    // The buffer, for those who do more than to take its first chunk.
    function withoutTaken(state) {
      if (state.first > 0) state.buffer.splice(0, state.first);
      state.first = 0;
      return state.buffer;
    }
    const typeErrorOf = (...values) => {
      try {
        return wrongType(...values);
      } catch (error) {
        return error;
      }
    };
    function schedule(stream) {
      const state = stream._readableState;
      if (state.scheduled || (state.isFlowing && state.flowing)) return;
      state.scheduled = true;
      tick(flowNow, stream);
    }
    function flowNow(stream) {
      const state = stream._readableState;
      state.scheduled = false;
      if (!state.destroyed) flow(stream);
    }
    function fetchMore(stream) {
      const state = stream._readableState;
      if (state.reading || state.ended || state.destroyed || state.constructing || state.errored) return;
      state.reading = true;
      state.didRead = true;
      state.isFetching = true;
      try {
        stream._read(state.highWaterMark);
      } catch (error) {
        stream.destroy(error);
      }
      state.isFetching = false;
    }
    // Emits available data and requests more, depending on the stream's mode.
    function flow(stream) {
      const state = stream._readableState;
      if (state.constructing || state.isFlowing) return;
      if (state.flowing) {
        state.isFlowing = true;
        try {
          flowOn(stream, state);
        } finally {
          state.isFlowing = false;
        }
      } else if (state.readableListening) {
        if ((state.length > 0 || state.ended) && !state.endEmitted) stream.emit("readable");
        if (state.length < state.highWaterMark) fetchMore(stream);
      } else if (state.didRead && state.length < state.highWaterMark) {
        fetchMore(stream);
      }
      endIfDone(stream);
    }
    // As long as the source gives what it is asked for at once.
    function flowOn(stream, state) {
      do {
        while (state.flowing && state.length > 0 && !state.destroyed) emitOne(stream, "data", takeFirst(state));
        if (state.flowing && !state.ended && !state.destroyed) fetchMore(stream);
      } while (state.flowing && state.length > 0 && !state.destroyed);
    }
    function takeFirst(state) {
      const { buffer, first } = state;
      const chunk = buffer[first];
      buffer[first] = undefined;
      state.first = first + 1;
      if (state.first === buffer.length) buffer.length = state.first = 0;
      state.length -= sizeOf(state, chunk);
      return chunk;
    }
    function endIfDone(stream) {
      const state = stream._readableState;
      if (
        !state.ended ||
        state.length > 0 ||
        state.endScheduled ||
        state.destroyed ||
        state.errored ||
        !(state.flowing || state.didEndRead || (state.readableListening && state.didEndRead))
      )
        return;
      state.endScheduled = true;
      tick(() => {
        if (state.errored || state.destroyed) return;
        state.endEmitted = true;
        stream.readable = false;
        stream.emit("end");
        const writing = stream._writableState;
        if (writing && stream.allowHalfOpen === false && !writing.ending) stream.end();
        if (state.autoDestroy && (!writing || (writing.finished && writing.autoDestroy))) stream.destroy();
      });
    }

    function joined(state) {
      const buffer = withoutTaken(state);
      return buffer.length === 1 ? buffer[0] : state.decoder ? buffer.join("") : Buffer.concat(buffer);
    }
    Object.assign(Readable.prototype, {
      _read() {
        throw coded(Error, "ERR_METHOD_NOT_IMPLEMENTED", "The _read() method is not implemented");
      },
      push(chunk, encoding) {
        return add(this, chunk, encoding, false);
      },
      unshift(chunk, encoding) {
        return add(this, chunk, encoding, true);
      },
      read(size) {
        const state = this._readableState;
        if (size === 0) {
          flow(this);
          return null;
        }
        if (state.length === 0) {
          if (state.ended) {
            state.didEndRead = true;
            endIfDone(this);
          } else fetchMore(this);
          if (state.length === 0) return null;
        }
        let chunk;
        if (state.objectMode) chunk = takeFirst(state);
        else if (size === undefined || size >= state.length) {
          if (size > state.length && !state.ended) {
            fetchMore(this);
            return null;
          }
          chunk = joined(state);
          state.buffer = [];
          state.length = 0;
        } else {
          const all = joined(state);
          chunk = all.slice(0, size);
          state.buffer = [all.slice(size)];
          state.length -= size;
        }
        if (!state.ended && state.length < state.highWaterMark) fetchMore(this);
        if (state.ended && state.length === 0) {
          state.didEndRead = true;
          endIfDone(this);
        }
        emitOne(this, "data", chunk);
        return chunk;
      },
      on(name, listener) {
        const result = Stream.prototype.on.call(this, name, listener);
        const state = this._readableState;
        if (name === "data") {
          if (state.flowing !== false && !state.readableListening) this.resume();
        } else if (name === "readable") {
          Object.assign(state, { readableListening: true, flowing: false });
          schedule(this);
        }
        return result;
      },
      resume() {
        const state = this._readableState;
        if (!state.flowing) {
          state.flowing = !state.readableListening;
          tick(() => {
            this.emit("resume");
            if (!state.destroyed) flow(this);
          });
        }
        return this;
      },
      pause() {
        const state = this._readableState;
        if (state.flowing !== false) {
          state.flowing = false;
          this.emit("pause");
        }
        return this;
      },
      isPaused() {
        return this._readableState.flowing === false;
      },
      setEncoding(encoding) {
        const state = this._readableState;
        state.decoder = new StringDecoder(encoding);
        state.encoding = state.decoder.encoding;
        const text = withoutTaken(state).map((chunk) => state.decoder.write(chunk)).join("");
        state.buffer = text ? [text] : [];
        state.length = text.length;
        return this;
      },
      pipe(to, { end = true } = {}) {
        const state = this._readableState;
        const onData = (chunk) => {
          if (to.write(chunk) === false) {
            this.pause();
            to.once("drain", onDrain);
          }
        };
        const onDrain = () => {
          if (state.pipes.includes(to)) this.resume();
        };
        const onEnd = () => to.end();
        const onError = () => this.unpipe(to);
        state.pipes.push(to);
        (this[kPiped] ??= new Map()).set(to, { onData, onDrain, onEnd, onError });
        to.on("error", onError);
        to.once("close", onError);
        if (end && !isOutput(to))
          state.endEmitted ? tick(onEnd) : this.once("end", onEnd);
        to.emit("pipe", this);
        this.on("data", onData);
        if (state.flowing === false) this.resume();
        return to;
      },
      unpipe(to) {
        const state = this._readableState;
        for (const each of to === undefined ? [...state.pipes] : [to]) {
          const listeners = this[kPiped]?.get(each);
          if (!listeners) continue;
          this[kPiped].delete(each);
          state.pipes = state.pipes.filter((pipe) => pipe !== each);
          this.removeListener("data", listeners.onData);
          this.removeListener("end", listeners.onEnd);
          each.removeListener("drain", listeners.onDrain);
          each.removeListener("error", listeners.onError);
          each.removeListener("close", listeners.onError);
          each.emit("unpipe", this);
        }
        if (state.pipes.length === 0 && this.listenerCount("data") === 0) this.pause();
        return this;
      },
      wrap(old) {
        old.on("data", (chunk) => {
          if (!this.push(chunk)) old.pause?.();
        });
        old.on("end", () => this.push(null));
        old.on("error", (error) => this.destroy(error));
        this._read = () => old.resume?.();
        return this;
      },
      [Symbol.asyncIterator]() {
        return valuesOf(this, true);
      },
      iterator({ destroyOnReturn = true } = {}) {
        return valuesOf(this, destroyOnReturn);
      },
    });
    const kPiped = Symbol("piped");
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
    Object.defineProperties(
      Readable.prototype,
      Object.fromEntries(
        Object.entries({
          readableFlowing: (s) => s.flowing,
          readableLength: (s) => s.length,
          readableHighWaterMark: (s) => s.highWaterMark,
          readableObjectMode: (s) => s.objectMode,
          readableEnded: (s) => s.endEmitted,
          readableEncoding: (s) => s.encoding,
          readableAborted: (s) => (s.destroyed || s.errored !== null) && !s.endEmitted,
          readableDidRead: (s) => s.didRead,
        }).map(([name, get]) => [
          name,
          {
            get() {
              return get(this._readableState);
            },
            configurable: true,
          },
        ]),
      ),
    );

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

    // Array methods for the chunks to come.
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
      compose(transform) {
        return pipeline(this, Duplex.from(transform), () => {});
      },
    });

    // --- writing ---

    function writableState(options, isDuplex) {
      const objectMode = Boolean(options?.objectMode || (isDuplex && options?.writableObjectMode));
      return {
        objectMode,
        highWaterMark: limitOf(options, objectMode, isDuplex ? "writableHighWaterMark" : "highWaterMark"),
        queue: [],
        length: 0,
        ending: false,
        finished: false,
        writing: false, // _write() has the items, and has not called back
        items: null,
        isCalling: false, // _write()
        isDraining: false,
        pendingCallbacks: 0, // of writes that are done
        lastBatch: null, // of writes that are done; others without callbacks join it
        needDrain: false,
        destroyed: false,
        closed: false,
        errored: null,
        errorEmitted: false,
        constructing: false,
        corked: 0,
        finishing: false,
        decodeStrings: options?.decodeStrings !== false,
        defaultEncoding: options?.defaultEncoding ?? "utf8",
        autoDestroy: options?.autoDestroy !== false,
        emitClose: options?.emitClose,
        endCalls: [],
      };
    }
    function Writable(options) {
      if (!(this instanceof Writable) && !(this instanceof Duplex)) return new Writable(options);
      Stream.call(this, options);
      this._writableState = writableState(options, false);
      takeWritable(this, options);
      if (typeof options?.construct === "function") this._construct = options.construct;
      abortBy(options?.signal, this);
      construct(this, [this._writableState]);
    }
    function takeWritable(stream, options) {
      stream.writable = true;
      if (typeof options?.write === "function") stream._write = options.write;
      if (typeof options?.writev === "function") stream._writev = options.writev;
      if (typeof options?.destroy === "function") stream._destroy = options.destroy;
      if (typeof options?.final === "function") stream._final = options.final;
    }
    Object.setPrototypeOf(Writable.prototype, Stream.prototype);
    Object.setPrototypeOf(Writable, Stream);
    shareMethods(Writable);

    function isHeld(state) {
      return state.writing || state.corked || state.constructing || state.destroyed || state.errored;
    }
    function drainQueue(stream) {
      const state = stream._writableState;
      if (isHeld(state) || state.isDraining) return;
      state.isDraining = true;
      try {
        let at = 0;
        const { queue } = state;
        const isMany = typeof stream._writev === "function" && queue.length > 1;
        if (isMany) {
          state.queue = [];
          writeMany(stream, state, queue);
        } else {
          try {
            while (at < queue.length && !isHeld(state)) writeOne(stream, state, queue[at++]);
          } finally {
            queue.splice(0, at);
          }
        }
      } finally {
        state.isDraining = false;
      }
      if (state.queue.length === 0) finishIfDone(stream);
      else if (!isHeld(state)) drainQueue(stream);
    }
    function writeOne(stream, state, item) {
      state.writing = true;
      state.items = item;
      state.isCalling = true;
      try {
        stream._write(item.chunk, item.encoding, doneOf(stream, state));
      } catch (error) {
        failWrite(stream, state, error);
      }
      state.isCalling = false;
    }
    function writeMany(stream, state, items) {
      state.writing = true;
      state.items = items;
      state.isCalling = true;
      try {
        stream._writev(
          items.map(({ chunk, encoding }) => ({ chunk, encoding })),
          doneOf(stream, state),
        );
      } catch (error) {
        failWrite(stream, state, error);
      }
      state.isCalling = false;
    }
    function failWrite(stream, state, error) {
      state.writing = state.isCalling = false;
      stream.destroy(error);
      throw error;
    }
    // What _write() calls: one function for a stream.
    const doneOf = (stream, state) => (state.done ??= (error) => afterWrite(stream, state, error));
    function afterWrite(stream, state, error) {
      if (!state.writing) {
        stream.destroy(coded(Error, "ERR_MULTIPLE_CALLBACK", "Callback called multiple times"));
        return;
      }
      const { items } = state;
      state.writing = false;
      state.items = null;
      if (error) {
        state.errored ??= error;
        if (state.isCalling) tick(reportError, stream, items, error);
        else reportError(stream, items, error);
        return;
      }
      const isMany = Array.isArray(items);
      if (isMany) for (const { chunk } of items) state.length -= sizeOf(state, chunk);
      else state.length -= state.objectMode ? 1 : items.chunk.length;
      const isLater = state.isCalling;
      ++state.pendingCallbacks;
      if (state.queue.length > 0) drainQueue(stream);
      const call = isMany ? callsOf(items) : items.call;
      const { lastBatch } = state;
      if (!isLater) reportWrites(stream, { call, count: 1 });
      else if (call === undefined && lastBatch !== null && lastBatch.call === undefined) ++lastBatch.count;
      else tick(reportWrites, stream, (state.lastBatch = { call, count: 1 }));
    }
    const callsOf = (items) => (error) => {
      for (const { call } of items) call?.(error);
    };
    function reportError(stream, items, error) {
      const state = stream._writableState;
      for (const { call } of Array.isArray(items) ? items : [items]) call?.(error);
      if (state.autoDestroy) stream.destroy(error);
      else if (!state.errorEmitted) {
        state.errorEmitted = true;
        stream.emit("error", error);
      }
    }
    function reportWrites(stream, batch) {
      const state = stream._writableState;
      if (state.lastBatch === batch) state.lastBatch = null;
      if (state.needDrain && state.length === 0 && !state.ending && !state.destroyed) {
        state.needDrain = false;
        stream.emit("drain");
      }
      state.pendingCallbacks -= batch.count;
      batch.call?.(null);
      if (state.ending) drainQueue(stream);
    }
    function finishIfDone(stream) {
      const state = stream._writableState;
      if (!state.ending || state.finishing || state.length > 0 || state.writing || state.errored) return;
      if (typeof stream._final !== "function" && state.pendingCallbacks > 0) return;
      state.finishing = true;
      const finish = (error) => {
        if (error) {
          for (const call of state.endCalls.splice(0)) call(error);
          return void stream.destroy(error);
        }
        state.finished = true;
        tick(() => {
          for (const call of state.endCalls.splice(0)) call(null);
          stream.emit("finish");
          const reading = stream._readableState;
          if (state.autoDestroy && (!reading || reading.endEmitted)) stream.destroy();
        });
      };
      if (typeof stream._final !== "function") return tick(finish);
      try {
        stream._final(finish);
      } catch (error) {
        finish(error);
      }
    }
    Object.assign(Writable.prototype, {
      _write(chunk, encoding, done) {
        if (this._writev) this._writev([{ chunk, encoding }], done);
        else throw coded(Error, "ERR_METHOD_NOT_IMPLEMENTED", "The _write() method is not implemented");
      },
      write(given, encoding, call) {
        if (typeof encoding === "function") [encoding, call] = [undefined, encoding];
        const state = this._writableState;
        let chunk = given;
        if (chunk === null) throw coded(TypeError, "ERR_STREAM_NULL_VALUES", "May not write null values to stream");
        let name = encoding ?? state.defaultEncoding;
        if (!state.objectMode) {
          if (typeof chunk === "string") {
            if (state.decodeStrings !== false) [chunk, name] = [Buffer.from(chunk, name), "buffer"];
          } else if (chunk instanceof Uint8Array) {
            name = "buffer";
            if (!Buffer.isBuffer(chunk)) chunk = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
          } else wrongType("chunk", "of type string or an instance of Buffer, TypedArray, or DataView", chunk);
        }
        const error = state.ending
          ? coded(Error, "ERR_STREAM_WRITE_AFTER_END", "write after end")
          : state.destroyed
            ? coded(Error, "ERR_STREAM_DESTROYED", "Cannot call write after a stream was destroyed")
            : null;
        if (error) {
          tick(() => call?.(error));
          if (state.ending) failLater(this, error);
          return false;
        }
        state.length += sizeOf(state, chunk);
        const hasRoom = state.length < state.highWaterMark;
        if (!hasRoom) state.needDrain = true;
        const item = { chunk, encoding: name, call };
        if (isHeld(state) || state.isDraining || state.queue.length > 0) state.queue.push(item);
        else writeOne(this, state, item);
        return hasRoom && !state.errored && !state.destroyed;
      },
      end(chunk, encoding, call) {
        if (typeof chunk === "function") [chunk, encoding, call] = [undefined, undefined, chunk];
        else if (typeof encoding === "function") [encoding, call] = [undefined, encoding];
        const state = this._writableState;
        if (chunk !== undefined && chunk !== null) this.write(chunk, encoding);
        state.corked = 0;
        if (call) {
          if (state.finished || state.destroyed)
            tick(() =>
              call(
                state.finished
                  ? coded(Error, "ERR_STREAM_ALREADY_FINISHED", "Cannot call end after a stream was finished")
                  : coded(Error, "ERR_STREAM_DESTROYED", "Cannot call end after a stream was destroyed"),
              ),
            );
          else state.endCalls.push(call);
        }
        if (!state.ending) {
          state.ending = true;
          this.writable = false;
          drainQueue(this);
        }
        return this;
      },
      cork() {
        ++this._writableState.corked;
      },
      uncork() {
        if (this._writableState.corked) --this._writableState.corked;
        drainQueue(this);
      },
      setDefaultEncoding(encoding) {
        this._writableState.defaultEncoding = encoding;
        return this;
      },
    });
    const failLater = (stream, error) => tick(() => stream.destroy(error));
    const writableGetters = Object.fromEntries(
      Object.entries({
        writableLength: (s) => s.length,
        writableHighWaterMark: (s) => s.highWaterMark,
        writableObjectMode: (s) => s.objectMode,
        writableEnded: (s) => s.ending,
        writableFinished: (s) => s.finished,
        writableNeedDrain: (s) => s.needDrain && !s.destroyed && !s.ending,
        writableCorked: (s) => s.corked,
        writableAborted: (s) => (s.destroyed || s.errored !== null) && !s.finished,
      }).map(([name, get]) => [
        name,
        {
          get() {
            return this._writableState && get(this._writableState);
          },
          configurable: true,
        },
      ]),
    );
    Object.defineProperties(Writable.prototype, writableGetters);
    Object.defineProperty(Writable, Symbol.hasInstance, {
      value(object) {
        return (
          Function.prototype[Symbol.hasInstance].call(this, object) || (this === Writable && object instanceof Duplex)
        );
      },
    });

    // --- both ---

    function Duplex(options) {
      if (!(this instanceof Duplex)) return new Duplex(options);
      Stream.call(this, options);
      this._readableState = readableState(options, true);
      this._writableState = writableState(options, true);
      this.readable = true;
      this.allowHalfOpen = options?.allowHalfOpen !== false;
      if (typeof options?.read === "function") this._read = options.read;
      takeWritable(this, options);
      if (options?.readable === false) {
        Object.assign(this._readableState, { ended: true, endScheduled: true, endEmitted: true });
        this.readable = false;
      }
      if (options?.writable === false) {
        Object.assign(this._writableState, { ending: true, finished: true });
        this.writable = false;
      }
      if (typeof options?.construct === "function") this._construct = options.construct;
      abortBy(options?.signal, this);
      construct(this, [this._readableState, this._writableState]);
    }
    Object.setPrototypeOf(Duplex.prototype, Readable.prototype);
    Object.setPrototypeOf(Duplex, Readable);
    for (const name of ["write", "end", "cork", "uncork", "setDefaultEncoding", "_write"])
      Duplex.prototype[name] = Writable.prototype[name];
    Object.defineProperties(Duplex.prototype, writableGetters);
    Duplex.from = (source) => {
      if (source instanceof Duplex) return source;
      if (typeof source === "function") {
        const input = new PassThrough({ objectMode: true }),
          output = Readable.from(source(input));
        return pairOf(output, input);
      }
      if (source?.readable && source?.writable && typeof source.readable === "object")
        return pairOf(source.readable, source.writable);
      return pairOf(Readable.from(source), null);
    };
    function pairOf(output, input) {
      const made = new Duplex({
        objectMode: true,
        writable: input !== null,
        read() {
          output.resume();
        },
        write(chunk, encoding, done) {
          input.write(chunk, encoding) ? done() : input.once("drain", done);
        },
        final(done) {
          input.end(done);
        },
      });
      output.on("data", (chunk) => {
        if (!made.push(chunk)) output.pause();
      });
      output.on("end", () => made.push(null));
      output.on("error", (error) => made.destroy(error));
      return made;
    }

    function Transform(options) {
      if (!(this instanceof Transform)) return new Transform(options);
      Duplex.call(this, options);
      this._readableState.pushesUnasked = true;
      if (typeof options?.transform === "function") this._transform = options.transform;
      if (typeof options?.flush === "function") this._flush = options.flush;
    }
    Object.setPrototypeOf(Transform.prototype, Duplex.prototype);
    Object.setPrototypeOf(Transform, Duplex);
    const kWriting = Symbol("writing"),
      kWaiting = Symbol("waiting"),
      kTransformed = Symbol("transformed");
    // What _transform() calls: one function for a stream.
    const transformedOf = (stream) => (error, value) => {
      const done = stream[kWriting] ?? stream._writableState.done;
      stream[kWriting] = undefined;
      if (error) return done(error);
      if (value !== undefined && value !== null) stream.push(value);
      const state = stream._readableState;
      if (state.ended || state.length < state.highWaterMark) done();
      else stream[kWaiting] = done;
    };
    Object.assign(Transform.prototype, {
      _transform() {
        throw coded(Error, "ERR_METHOD_NOT_IMPLEMENTED", "The _transform() method is not implemented");
      },
      _write(chunk, encoding, done) {
        this[kWriting] = done;
        this._transform(chunk, encoding, (this[kTransformed] ??= transformedOf(this)));
      },
      _final(done) {
        const end = (error, value) => {
          if (error) return done(error);
          if (value !== undefined && value !== null) this.push(value);
          this.push(null);
          return done();
        };
        if (typeof this._flush === "function") this._flush(end);
        else end();
      },
      _read() {
        this._readableState.reading = false;
        const done = this[kWaiting];
        this[kWaiting] = undefined;
        done?.();
      },
    });
    function PassThrough(options) {
      if (!(this instanceof PassThrough)) return new PassThrough(options);
      Transform.call(this, options);
    }
    Object.setPrototypeOf(PassThrough.prototype, Transform.prototype);
    Object.setPrototypeOf(PassThrough, Transform);
    PassThrough.prototype._transform = function (chunk, encoding, done) {
      done(null, chunk);
    };
    for (const Class of [Readable, Writable, Duplex, Transform, PassThrough])
      Object.defineProperty(Class.prototype, "constructor", {
        value: Class,
        writable: true,
        configurable: true,
        enumerable: false,
      });

    // --- the end of a stream, and chains of streams ---

    function finished(stream, options, call) {
      if (typeof options === "function") [options, call] = [{}, options];
      const reading = stream._readableState,
        writing = stream._writableState;
      const wantsRead = options?.readable ?? Boolean(reading),
        wantsWrite = options?.writable ?? Boolean(writing);
      let isSettled = false;
      const settle = (error) => {
        if (isSettled) return;
        isSettled = true;
        stop();
        call.call(stream, error);
      };
      const isDone = () =>
        (!wantsRead || !reading || reading.endEmitted) && (!wantsWrite || !writing || writing.finished);
      const check = () => {
        if (isDone()) settle(undefined);
      };
      const onError = (error) => settle(error);
      const onClose = () => {
        if (reading?.errored || writing?.errored) settle(reading?.errored ?? writing?.errored);
        else settle(isDone() ? undefined : coded(Error, "ERR_STREAM_PREMATURE_CLOSE", "Premature close"));
      };
      const abort = () => settle(abortError(options.signal));
      const pairs = [
        ["end", check],
        ["finish", check],
        ["error", onError],
        ["close", onClose],
      ];
      for (const [name, listener] of pairs) stream.on(name, listener);
      options?.signal?.addEventListener("abort", abort, { once: true });
      const stop = () => {
        for (const [name, listener] of pairs) if (name !== "error" || isSettled) stream.removeListener(name, listener);
      };
      if (stream.closed || (reading ?? writing)?.closed) tick(onClose);
      else if (isDone() && (reading || writing)) tick(check);
      return stop;
    }
    function pipeline(...given) {
      const call = typeof given.at(-1) === "function" ? given.pop() : undefined;
      let stages = given.length === 1 && Array.isArray(given[0]) ? given[0] : given;
      const options =
        stages.at(-1) !== null && typeof stages.at(-1) === "object" && !isStage(stages.at(-1)) ? stages.pop() : {};
      stages = [...stages];
      if (stages.length < 2) throw coded(TypeError, "ERR_MISSING_ARGS", 'The "streams" argument must be specified');
      let current = stages[0],
        result;
      const all = [];
      let isSettled = false;
      const settle = (error, value) => {
        if (isSettled) return;
        isSettled = true;
        if (error) for (const stream of all) if (!stream.destroyed) stream.destroy(error);
        call?.(error ?? undefined, value);
      };
      if (typeof current === "function") current = current();
      if (!(current instanceof Stream)) current = Readable.from(current);
      all.push(current);
      let last = current;
      for (let i = 1; i < stages.length; ++i) {
        const isLast = i === stages.length - 1;
        if (typeof stages[i] === "function") {
          const made = stages[i](last);
          if (isLast && typeof made?.then === "function") {
            result = made;
            break;
          }
          last = Readable.from(made);
        } else {
          last.pipe(stages[i], { end: options.end ?? true });
          last = stages[i];
          if (isOutput(last)) continue; // it stays open
        }
        all.push(last);
      }
      let open = all.length;
      all.forEach((stream, i) => {
        const isLast = i === all.length - 1 && result === undefined && stream === last;
        stream.on("error", () => {});
        finished(
          stream,
          {
            readable: !isLast || (stream._readableState && !stream._writableState),
            writable: i > 0 && Boolean(stream._writableState),
          },
          (error) => {
            if (error) settle(error);
            else if (--open === 0 && result === undefined) settle();
          },
        );
        if (isLast && stream instanceof Readable && !stream._writableState) stream.resume();
      });
      if (options.signal) abortBy(options.signal, { destroy: settle });
      result?.then((value) => settle(undefined, value), settle);
      return last;
    }
    const isStage = (value) =>
      value instanceof Stream ||
      typeof value?.[Symbol.asyncIterator] === "function" ||
      typeof value?.[Symbol.iterator] === "function" ||
      typeof value?.pipe === "function" ||
      typeof value?.write === "function";

    const promises = {
      pipeline: (...stages) =>
        new Promise((resolve, reject) =>
          pipeline(...stages, (error, value) => (error ? reject(error) : resolve(value))),
        ),
      finished: (stream, options) =>
        new Promise((resolve, reject) =>
          finished(stream, options ?? {}, (error) => (error ? reject(error) : resolve())),
        ),
    };
    const { promisify } = load("util");
    pipeline[promisify.custom] = promises.pipeline;
    finished[promisify.custom] = promises.finished;

    // --- conversion from and to Web streams ---

    Readable.fromWeb = (web, options) => Readable.from(web, { objectMode: false, ...options });
    Readable.toWeb = (stream) =>
      new globalThis.ReadableStream({
        start(controller) {
          stream.on("data", (chunk) => {
            controller.enqueue(chunk);
            if (controller.desiredSize <= 0) stream.pause();
          });
          finished(stream, { writable: false }, (error) => (error ? controller.error(error) : controller.close()));
        },
        pull() {
          stream.resume();
        },
        cancel(reason) {
          stream.destroy(reason);
        },
      });
    Writable.fromWeb = (web) => {
      const writer = web.getWriter();
      return new Writable({
        write(chunk, _, done) {
          writer.write(chunk).then(() => done(), done);
        },
        final(done) {
          writer.close().then(() => done(), done);
        },
      });
    };

    Stream.prototype.pipe ??= Readable.prototype.pipe;
    Object.assign(Stream, {
      Stream,
      Readable,
      Writable,
      Duplex,
      Transform,
      PassThrough,
      pipeline,
      finished,
      promises,
      addAbortSignal: (signal, stream) => {
        abortBy(signal, stream);
        return stream;
      },
      getDefaultHighWaterMark: (isObjects) => (isObjects ? defaultObjects : defaultBytes),
      setDefaultHighWaterMark: (isObjects, value) => {
        if (isObjects) defaultObjects = value;
        else defaultBytes = value;
      },
      isReadable: (stream) => Boolean(stream?.readable) && !stream.destroyed,
      isErrored: (stream) => Boolean(stream?.errored),
      isDisturbed: (stream) => Boolean(stream?._readableState?.didRead),
    });
    module.exports = Stream;
  });
  shared.factories.set("stream/promises", (exports, module, load) => {
    module.exports = load("stream").promises;
  });
  shared.factories.set("stream/consumers", (exports, module) => {
    const all = async (stream) => {
      const pieces = [];
      for await (const piece of stream) pieces.push(typeof piece === "string" ? Buffer.from(piece) : piece);
      return Buffer.concat(pieces);
    };
    module.exports = {
      buffer: all,
      text: async (stream) => (await all(stream)).toString(),
      json: async (stream) => JSON.parse((await all(stream)).toString()),
      arrayBuffer: async (stream) => {
        const bytes = await all(stream);
        return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
      },
      blob: async (stream) => new Blob([await all(stream)]),
    };
  });
  shared.factories.set("stream/web", (exports, module) => {
    const names = [
      "ReadableStream",
      "WritableStream",
      "TransformStream",
      "TextDecoderStream",
      "TextEncoderStream",
      "ByteLengthQueuingStrategy",
      "CountQueuingStrategy",
    ];
    module.exports = Object.fromEntries(names.map((name) => [name, globalThis[name]]));
  });
})();
