// finished(): the call when a stream has ended, failed or closed.
(() => {
  "use strict";
  const shared = globalThis.__membrane;

  shared.factories.set("internal/stream/finished", (exports, module, load) => {
    const { abortError, coded } = load("internal/check");
    const { nextTick: tick } = shared;

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

    module.exports = { finished };
  });
})();
