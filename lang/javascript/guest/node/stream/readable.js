// Readable: pushed chunks are buffered, and flow to listeners, to read(), or through pipes.
(() => {
  "use strict";
  const shared = globalThis.__membrane;

  shared.factories.set("internal/stream/readable", (exports, module, load) => {
    const { Buffer } = load("buffer");
    const { StringDecoder } = load("string_decoder");
    const { coded, wrongType } = load("internal/check");
    const { Stream, isOutput, limitOf, sizeOf } = load("internal/stream/base");
    const { abortBy, construct, shareMethods } = load("internal/stream/destroy");
    const { emitOne, nextTick: tick } = shared;

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
      construct(this, [this._readableState], startReading);
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
        // What comes while nothing waits and nobody asks is passed on at once.
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
    // After _construct().
    function startReading(stream) {
      if (!stream.destroyed) flow(stream);
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
    });
    const kPiped = Symbol("piped");
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

    module.exports = { Readable, readableState, startReading };
  });
})();
