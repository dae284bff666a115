// The Web's streams, as far as bodies of fetch() and programs around them need: ReadableStream, WritableStream,
// TransformStream. There are no byte streams with buffers of one's own (BYOB).
(() => {
  "use strict";
  const shared = globalThis.__membrane;
  const { globals } = shared;

  const deferred = () => {
    const made = {};
    made.promise = new Promise((resolve, reject) => Object.assign(made, { resolve, reject }));
    made.promise.catch(() => {});
    return made;
  };
  const sizeBy = (strategy) => (typeof strategy?.size === "function" ? strategy.size : () => 1);
  const illegal = (what) => {
    throw new TypeError(`Illegal invocation: ${what}`);
  };
  const reasonOf = (stream) => stream._error;

  class ReadableStreamDefaultController {
    constructor(stream) {
      this._stream = stream;
    }
    get desiredSize() {
      const { _stream: stream } = this;
      return stream._state === "errored" ? null : stream._state === "closed" ? 0 : stream._most - stream._size;
    }
    enqueue(chunk) {
      const stream = this._stream;
      if (stream._state !== "readable" || stream._isClosing)
        throw new TypeError("Invalid state: Controller is already closed");
      if (stream._requests.length) stream._requests.shift().resolve({ value: chunk, done: false });
      else {
        const size = stream._sizeOf(chunk);
        stream._queue.push({ chunk, size });
        stream._size += size;
      }
      stream._pull();
    }
    close() {
      const stream = this._stream;
      if (stream._state !== "readable" || stream._isClosing)
        throw new TypeError("Invalid state: Controller is already closed");
      stream._isClosing = true;
      if (stream._queue.length === 0) stream._close();
    }
    error(reason) {
      this._stream._fail(reason);
    }
  }

  class ReadableStream {
    constructor(source = {}, strategy = {}) {
      if (source?.type === "bytes") strategy = { highWaterMark: 0, ...strategy };
      Object.defineProperties(
        this,
        Object.fromEntries(
          Object.entries({
            _source: source ?? {},
            _state: "readable",
            _queue: [],
            _size: 0,
            _most: strategy.highWaterMark ?? 1,
            _sizeOf: sizeBy(strategy),
            _requests: [],
            _reader: null,
            _error: undefined,
            _isClosing: false,
            _isPulling: false,
            _pullsAgain: false,
            _isStarted: false,
            _closed: deferred(),
            _disturbed: false,
          }).map(([name, value]) => [name, { value, writable: true, enumerable: false }]),
        ),
      );
      Object.defineProperty(this, "_controller", {
        value: new ReadableStreamDefaultController(this),
        enumerable: false,
      });
      const started = source?.start?.(this._controller);
      Promise.resolve(started).then(
        () => {
          this._isStarted = true;
          this._pull();
        },
        (reason) => this._fail(reason),
      );
    }
    static from(source) {
      const iterator = source[Symbol.asyncIterator]?.() ?? source[Symbol.iterator]();
      return new ReadableStream(
        {
          async pull(controller) {
            const { value, done } = await iterator.next();
            if (done) controller.close();
            else controller.enqueue(await value);
          },
          cancel: (reason) => iterator.return?.(reason),
        },
        { highWaterMark: 0 },
      );
    }
    get locked() {
      return this._reader !== null;
    }
    _pull() {
      if (!this._isStarted || this._state !== "readable" || this._isClosing) return;
      if (this._requests.length === 0 && this._most - this._size <= 0) return;
      if (this._isPulling) {
        this._pullsAgain = true;
        return;
      }
      if (typeof this._source.pull !== "function") return;
      this._isPulling = true;
      Promise.resolve()
        .then(() => this._source.pull(this._controller))
        .then(
          () => {
            this._isPulling = false;
            if (this._pullsAgain) {
              this._pullsAgain = false;
              this._pull();
            }
          },
          (reason) => this._fail(reason),
        );
    }
    _close() {
      this._state = "closed";
      for (const request of this._requests.splice(0)) request.resolve({ value: undefined, done: true });
      this._closed.resolve();
    }
    _fail(reason) {
      if (this._state !== "readable") return;
      Object.assign(this, { _state: "errored", _error: reason, _queue: [], _size: 0 });
      for (const request of this._requests.splice(0)) request.reject(reason);
      this._closed.reject(reason);
    }
    _read() {
      this._disturbed = true;
      if (this._queue.length) {
        const { chunk, size } = this._queue.shift();
        this._size -= size;
        if (this._isClosing && this._queue.length === 0) this._close();
        else this._pull();
        return Promise.resolve({ value: chunk, done: false });
      }
      if (this._state === "closed") return Promise.resolve({ value: undefined, done: true });
      if (this._state === "errored") return Promise.reject(reasonOf(this));
      const request = deferred();
      this._requests.push(request);
      this._pull();
      return request.promise;
    }
    async _cancel(reason) {
      this._disturbed = true;
      if (this._state === "errored") throw reasonOf(this);
      if (this._state === "closed") return;
      this._queue = [];
      this._close();
      await this._source.cancel?.(reason);
    }
    cancel(reason) {
      return this.locked
        ? Promise.reject(new TypeError("Invalid state: ReadableStream is locked"))
        : this._cancel(reason);
    }
    getReader({ mode } = {}) {
      if (mode === "byob") throw new TypeError("there are no readers into one's own buffers: use getReader()");
      return new ReadableStreamDefaultReader(this);
    }
    async pipeTo(to, { preventClose = false, preventAbort = false, preventCancel = false, signal } = {}) {
      const reader = this.getReader(),
        writer = to.getWriter();
      try {
        for (;;) {
          signal?.throwIfAborted();
          await writer.ready;
          let piece;
          try {
            piece = await reader.read();
          } catch (error) {
            if (!preventAbort) await writer.abort(error);
            throw error;
          }
          if (piece.done) break;
          try {
            await writer.write(piece.value);
          } catch (error) {
            if (!preventCancel) await reader.cancel(error);
            throw error;
          }
        }
        if (!preventClose) await writer.close();
      } finally {
        reader.releaseLock();
        writer.releaseLock();
      }
    }
    pipeThrough(pair, options) {
      this.pipeTo(pair.writable, options).catch(() => {});
      return pair.readable;
    }
    tee() {
      const reader = this.getReader(),
        branches = [];
      let cancelled = 0;
      const pull = async () => {
        const { value, done } = await reader.read().catch((error) => {
          for (const controller of branches) controller.error(error);
          return { done: null };
        });
        if (done === null) return;
        for (const controller of branches) {
          if (controller._stream._state !== "readable") continue;
          if (done) controller.close();
          else controller.enqueue(value);
        }
      };
      const branch = () =>
        new ReadableStream(
          {
            start(controller) {
              branches.push(controller);
            },
            pull,
            cancel: (reason) => (++cancelled === 2 ? reader.cancel(reason) : undefined),
          },
          { highWaterMark: 0 },
        );
      return [branch(), branch()];
    }
    async *values({ preventCancel = false } = {}) {
      const reader = this.getReader();
      let isWhole = false;
      try {
        for (;;) {
          const { value, done } = await reader.read();
          if (done) {
            isWhole = true;
            return;
          }
          yield value;
        }
      } finally {
        if (!isWhole && !preventCancel) await this._cancel().catch(() => {});
        reader.releaseLock();
      }
    }
    [Symbol.asyncIterator](options) {
      return this.values(options);
    }
    get [Symbol.toStringTag]() {
      return "ReadableStream";
    }
    [Symbol.for("nodejs.util.inspect.custom")](depth, options, inspect) {
      return `ReadableStream ${inspect({ locked: this.locked, state: this._state, supportsBYOB: false })}`;
    }
  }

  class ReadableStreamDefaultReader {
    #stream;
    constructor(stream) {
      if (stream.locked) throw new TypeError("Invalid state: ReadableStream is locked");
      this.#stream = stream;
      stream._reader = this;
      this.closed = stream._closed.promise;
    }
    read() {
      return this.#stream
        ? this.#stream._read()
        : Promise.reject(new TypeError("Invalid state: The reader is not attached to a stream"));
    }
    cancel(reason) {
      return this.#stream
        ? this.#stream._cancel(reason)
        : Promise.reject(new TypeError("Invalid state: The reader is not attached to a stream"));
    }
    releaseLock() {
      if (!this.#stream) return;
      this.#stream._reader = null;
      this.#stream = undefined;
    }
  }

  // --- writing ---

  class WritableStream {
    constructor(sink = {}, strategy = {}) {
      const controller = { error: (reason) => this._fail(reason), signal: new globals.AbortController().signal };
      Object.defineProperties(
        this,
        Object.fromEntries(
          Object.entries({
            _sink: sink ?? {},
            _state: "writable",
            _writer: null,
            _error: undefined,
            _size: 0,
            _most: strategy.highWaterMark ?? 1,
            _sizeOf: sizeBy(strategy),
            _last: Promise.resolve(),
            _closed: deferred(),
            _ready: deferred(),
            _controller: controller,
            _isClosing: false,
          }).map(([name, value]) => [name, { value, writable: true, enumerable: false }]),
        ),
      );
      this._ready.resolve();
      this._last = Promise.resolve(sink?.start?.(controller));
      this._last.catch((reason) => this._fail(reason));
    }
    get locked() {
      return this._writer !== null;
    }
    _fail(reason) {
      if (this._state !== "writable") return;
      Object.assign(this, { _state: "errored", _error: reason });
      this._ready.reject(reason);
      this._closed.reject(reason);
    }
    _write(chunk) {
      if (this._state !== "writable")
        return Promise.reject(
          this._state === "errored" ? reasonOf(this) : new TypeError("Invalid state: WritableStream is closed"),
        );
      if (this._isClosing) return Promise.reject(new TypeError("Invalid state: WritableStream is closed"));
      const size = this._sizeOf(chunk);
      this._size += size;
      if (this._size >= this._most) this._ready = deferred();
      const done = this._last
        .then(() => {
          if (this._state === "errored") throw reasonOf(this);
          return this._sink.write?.(chunk, this._controller);
        })
        .then(
          () => {
            this._size -= size;
            if (this._size < this._most) this._ready.resolve();
          },
          (reason) => {
            this._fail(reason);
            throw reason;
          },
        );
      this._last = done.catch(() => {});
      return done;
    }
    _close() {
      if (this._state !== "writable" || this._isClosing)
        return Promise.reject(
          this._state === "errored" ? reasonOf(this) : new TypeError("Invalid state: WritableStream is closed"),
        );
      this._isClosing = true;
      return this._last
        .then(() => {
          if (this._state === "errored") throw reasonOf(this);
          return this._sink.close?.();
        })
        .then(
          () => {
            this._state = "closed";
            this._closed.resolve();
          },
          (reason) => {
            this._fail(reason);
            throw reason;
          },
        );
    }
    async _abort(reason) {
      if (this._state !== "writable") return;
      this._fail(reason);
      await this._sink.abort?.(reason);
    }
    abort(reason) {
      return this.locked
        ? Promise.reject(new TypeError("Invalid state: WritableStream is locked"))
        : this._abort(reason);
    }
    close() {
      return this.locked ? Promise.reject(new TypeError("Invalid state: WritableStream is locked")) : this._close();
    }
    getWriter() {
      return new WritableStreamDefaultWriter(this);
    }
    get [Symbol.toStringTag]() {
      return "WritableStream";
    }
  }
  class WritableStreamDefaultWriter {
    #stream;
    constructor(stream) {
      if (stream.locked) throw new TypeError("Invalid state: WritableStream is locked");
      this.#stream = stream;
      stream._writer = this;
    }
    get #of() {
      return this.#stream ?? illegal("the writer was released");
    }
    get closed() {
      return this.#of._closed.promise;
    }
    get ready() {
      return this.#of._ready.promise;
    }
    get desiredSize() {
      return this.#of._state === "errored" ? null : this.#of._state === "closed" ? 0 : this.#of._most - this.#of._size;
    }
    write(chunk) {
      return this.#of._write(chunk);
    }
    close() {
      return this.#of._close();
    }
    abort(reason) {
      return this.#of._abort(reason);
    }
    releaseLock() {
      if (!this.#stream) return;
      this.#stream._writer = null;
      this.#stream = undefined;
    }
  }

  class TransformStream {
    constructor(transformer = {}, writableStrategy = {}, readableStrategy = {}) {
      let output;
      const controller = {
        enqueue: (chunk) => output.enqueue(chunk),
        error: (reason) => {
          output.error(reason);
          this.writable._fail(reason);
        },
        terminate: () => output.close(),
        get desiredSize() {
          return output.desiredSize;
        },
      };
      let wake = deferred();
      wake.resolve();
      this.readable = new ReadableStream(
        {
          start(given) {
            output = given;
          },
          pull: () => wake.resolve(),
          cancel: (reason) => this.writable._fail(reason),
        },
        { highWaterMark: 0, ...readableStrategy },
      );
      this.writable = new WritableStream(
        {
          start: () => transformer.start?.(controller),
          write: async (chunk) => {
            if (output.desiredSize <= 0 && this.readable._requests.length === 0) {
              wake = deferred();
              await wake.promise;
            }
            try {
              await (transformer.transform ? transformer.transform(chunk, controller) : controller.enqueue(chunk));
            } catch (error) {
              output.error(error);
              throw error;
            }
          },
          close: async () => {
            await transformer.flush?.(controller);
            if (this.readable._state === "readable" && !this.readable._isClosing) output.close();
          },
          abort: (reason) => output.error(reason),
        },
        writableStrategy,
      );
    }
    get [Symbol.toStringTag]() {
      return "TransformStream";
    }
  }
  class TextDecoderStream extends TransformStream {
    constructor(label, options) {
      const decoder = new globals.TextDecoder(label, options);
      super({
        transform(chunk, to) {
          const text = decoder.decode(chunk, { stream: true });
          if (text) to.enqueue(text);
        },
        flush(to) {
          const text = decoder.decode();
          if (text) to.enqueue(text);
        },
      });
      this.encoding = decoder.encoding;
    }
  }
  class TextEncoderStream extends TransformStream {
    constructor() {
      super({
        transform(chunk, to) {
          to.enqueue(shared.utf8(`${chunk}`));
        },
      });
    }
    get encoding() {
      return "utf-8";
    }
  }
  class CountQueuingStrategy {
    constructor({ highWaterMark }) {
      this.highWaterMark = highWaterMark;
    }
    size() {
      return 1;
    }
  }
  class ByteLengthQueuingStrategy {
    constructor({ highWaterMark }) {
      this.highWaterMark = highWaterMark;
    }
    size(chunk) {
      return chunk.byteLength;
    }
  }

  shared.streamOf = (bytes) =>
    new ReadableStream({
      start(controller) {
        if (bytes.length) controller.enqueue(bytes);
        controller.close();
      },
    });
  shared.readWhole = async (stream) => {
    const pieces = [];
    let size = 0;
    for await (const chunk of stream) {
      const bytes = typeof chunk === "string" ? shared.utf8(chunk) : shared.bytesOf(chunk);
      pieces.push(bytes);
      size += bytes.length;
    }
    const whole = new Uint8Array(size);
    let at = 0;
    for (const piece of pieces) {
      whole.set(piece, at);
      at += piece.length;
    }
    return whole;
  };
  Object.assign(globals, {
    ReadableStream,
    ReadableStreamDefaultReader,
    WritableStream,
    WritableStreamDefaultWriter,
    TransformStream,
    TextDecoderStream,
    TextEncoderStream,
    CountQueuingStrategy,
    ByteLengthQueuingStrategy,
  });
})();
