// node:stream and its submodules, put together from the files in stream/.
(() => {
  "use strict";
  const shared = globalThis.__membrane;

  shared.factories.set("stream", (exports, module, load) => {
    const { Stream, getDefaultHighWaterMark, setDefaultHighWaterMark } = load("internal/stream/base");
    const { abortBy } = load("internal/stream/destroy");
    const { finished } = load("internal/stream/finished");
    const { Readable } = load("internal/stream/readable");
    load("internal/stream/iterable"); // completes Readable
    const { Writable } = load("internal/stream/writable");
    const { Duplex, PassThrough, Transform } = load("internal/stream/duplex");
    const { pipeline, promises } = load("internal/stream/pipeline");
    load("internal/stream/web"); // completes Readable and Writable

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
      getDefaultHighWaterMark,
      setDefaultHighWaterMark,
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
