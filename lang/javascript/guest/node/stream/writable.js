// Writable: written chunks go to _write() one by one, and wait in a queue until then.
(() => {
  "use strict";
  const shared = globalThis.__membrane;

  shared.factories.set("internal/stream/writable", (exports, module, load) => {
    const { Buffer } = load("buffer");
    const { coded, wrongType } = load("internal/check");
    const { Stream, limitOf, sizeOf } = load("internal/stream/base");
    const { abortBy, construct, shareMethods } = load("internal/stream/destroy");
    const { nextTick: tick } = shared;

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
      if (!(this instanceof Writable)) return new Writable(options);
      Stream.call(this, options);
      this._writableState = writableState(options, false);
      takeWritable(this, options);
      if (typeof options?.construct === "function") this._construct = options.construct;
      abortBy(options?.signal, this);
      construct(this, [this._writableState], drainQueue);
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

    module.exports = { Writable, drainQueue, takeWritable, writableGetters, writableState };
  });
})();
