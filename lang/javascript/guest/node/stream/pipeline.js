// pipeline() and compose(): chains of streams, which fail and end together.
globalThis.__membrane.factories.set("internal/stream/pipeline", (exports, module, load) => {
  "use strict";
  const { coded } = load("internal/check");
  const { Stream, isOutput } = load("internal/stream/base");
  const { abortBy } = load("internal/stream/destroy");
  const { Duplex } = load("internal/stream/duplex");
  const { finished } = load("internal/stream/finished");
  const { Readable } = load("internal/stream/readable");
  const { promisify } = load("util");

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

  Object.assign(Readable.prototype, {
    compose(transform) {
      return pipeline(this, Duplex.from(transform), () => {});
    },
  });

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
  pipeline[promisify.custom] = promises.pipeline;
  finished[promisify.custom] = promises.finished;

  module.exports = { pipeline, promises };
});
