// The life of either side of a stream: _construct(), destroy(), errors and close.
(() => {
  "use strict";
  const shared = globalThis.__membrane;

  shared.factories.set("internal/stream/destroy", (exports, module, load) => {
    const { abortError } = load("internal/check");
    const { finished } = load("internal/stream/finished");
    const { nextTick: tick } = shared;

    const kConstructed = Symbol("constructed");
    // Calls _construct(), if there is one; the stream starts after it.
    function construct(stream, states, start) {
      if (typeof stream._construct !== "function") return;
      for (const state of states) state.constructing = true;
      tick(() => {
        stream._construct((error) => {
          for (const state of states) state.constructing = false;
          stream.emit(kConstructed);
          if (error) stream.destroy(error);
          else start(stream);
        });
      });
    }

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
    function abortBy(signal, stream) {
      if (!signal) return;
      const abort = () => stream.destroy(abortError(signal));
      if (signal.aborted) abort();
      else signal.addEventListener("abort", abort, { once: true });
    }

    const statesOf = (stream) => [stream._readableState, stream._writableState].filter(Boolean);
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

    module.exports = { abortBy, construct, shareMethods };
  });
})();
