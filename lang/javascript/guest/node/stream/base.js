// What all streams are: emitters of events, whose buffers have a limit.
globalThis.__membrane.factories.set("internal/stream/base", (exports, module, load) => {
  "use strict";
  const EventEmitter = load("events");

  function Stream(options) {
    EventEmitter.call(this, options);
  }
  Object.setPrototypeOf(Stream.prototype, EventEmitter.prototype);
  Object.setPrototypeOf(Stream, EventEmitter);

  let defaultBytes = 65536,
    defaultObjects = 16;
  const limitOf = (options, isObjects, name) =>
    options?.[name] ?? options?.highWaterMark ?? (isObjects ? defaultObjects : defaultBytes);
  const getDefaultHighWaterMark = (isObjects) => (isObjects ? defaultObjects : defaultBytes);
  const setDefaultHighWaterMark = (isObjects, value) => {
    if (isObjects) defaultObjects = value;
    else defaultBytes = value;
  };

  const sizeOf = (state, chunk) => (state.objectMode ? 1 : chunk.length);

  // Neither is ended by what is piped to it.
  const isOutput = (to) => to === globalThis.process.stdout || to === globalThis.process.stderr;

  module.exports = { Stream, getDefaultHighWaterMark, isOutput, limitOf, setDefaultHighWaterMark, sizeOf };
});
