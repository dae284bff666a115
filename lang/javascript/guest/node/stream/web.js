// Conversion from and to Web streams.
globalThis.__membrane.factories.set("internal/stream/web", (exports, module, load) => {
  "use strict";
  const { finished } = load("internal/stream/finished");
  const { Readable } = load("internal/stream/readable");
  const { Writable } = load("internal/stream/writable");

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
});
