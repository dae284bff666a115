// Duplex, which is read and written, and what changes chunks on their way: Transform, PassThrough.
globalThis.__membrane.factories.set("internal/stream/duplex", (exports, module, load) => {
  "use strict";
  const { coded } = load("internal/check");
  const { Stream } = load("internal/stream/base");
  const { abortBy, construct } = load("internal/stream/destroy");
  const { Readable, readableState, startReading } = load("internal/stream/readable");
  const { Writable, drainQueue, takeWritable, writableGetters, writableState } = load("internal/stream/writable");

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
    construct(this, [this._readableState, this._writableState], start);
  }
  Object.setPrototypeOf(Duplex.prototype, Readable.prototype);
  Object.setPrototypeOf(Duplex, Readable);
  function start(stream) {
    startReading(stream);
    drainQueue(stream);
  }
  for (const name of ["write", "end", "cork", "uncork", "setDefaultEncoding", "_write"])
    Duplex.prototype[name] = Writable.prototype[name];
  Object.defineProperties(Duplex.prototype, writableGetters);
  // It inherits from Readable, and is a Writable, too.
  Object.defineProperty(Writable, Symbol.hasInstance, {
    value(object) {
      return (
        Function.prototype[Symbol.hasInstance].call(this, object) || (this === Writable && object instanceof Duplex)
      );
    },
  });

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

  module.exports = { Duplex, PassThrough, Transform };
});
