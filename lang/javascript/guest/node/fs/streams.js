// Streams that read and write files.
globalThis.__membrane.factories.set("internal/fs/streams", (exports, module, load) => {
  "use strict";
  const { closeSync, kInput, openSync, readBytes, writeBytes } = load("internal/fs/files");
  const { optionsOf, pathOf } = load("internal/fs/request");
  const { Readable, Writable } = load("stream");

  const createReadStream = (given, options) => {
    const {
      fd,
      flags = "r",
      start = 0,
      end = Infinity,
      highWaterMark = 65536,
      encoding = null,
      autoClose = true,
    } = optionsOf(options, {});
    const from = fd === undefined ? pathOf(given) : undefined;
    let at = start,
      file = fd ?? null;
    const stream = new Readable({
      highWaterMark,
      encoding,
      construct(done) {
        if (file !== null) return done();
        try {
          file = openSync(from, flags);
        } catch (error) {
          return done(error);
        }
        Object.assign(stream, { fd: file, pending: false });
        stream.emit("open", file);
        stream.emit("ready");
        done();
      },
      read(size) {
        const bytes = readBytes(
          file,
          Math.min(size, end - at + 1),
          file === kInput || (fd !== undefined && start === 0) ? null : at,
        );
        at += bytes.length;
        stream.bytesRead += bytes.length;
        stream.push(bytes.length ? bytes : null);
      },
      destroy(error, done) {
        if (file !== null && autoClose) closeSync(file);
        done(error);
      },
    });
    Object.assign(stream, { path: from, fd: file, bytesRead: 0, pending: file === null });
    stream.close = (call) => {
      if (call) stream.once("close", call);
      stream.destroy();
    };
    return stream;
  };

  const createWriteStream = (given, options) => {
    const {
      fd,
      flags = "w",
      start,
      encoding = "utf8",
      highWaterMark = 16384,
      autoClose = true,
    } = optionsOf(options, {});
    const to = fd === undefined ? pathOf(given) : undefined;
    let file = fd ?? null,
      at = start ?? null;
    const stream = new Writable({
      highWaterMark,
      defaultEncoding: encoding,
      construct(done) {
        if (file !== null) return done();
        try {
          file = openSync(to, start === undefined ? flags : flags === "w" ? "r+" : flags);
        } catch (error) {
          return done(error);
        }
        Object.assign(stream, { fd: file, pending: false });
        stream.emit("open", file);
        stream.emit("ready");
        done();
      },
      write(chunk, _, done) {
        try {
          stream.bytesWritten += writeBytes(file, chunk, at);
        } catch (error) {
          return done(error);
        }
        if (at !== null) at += chunk.length;
        done();
      },
      destroy(error, done) {
        if (file !== null && autoClose) closeSync(file);
        done(error);
      },
    });
    Object.assign(stream, { path: to, fd: file, bytesWritten: 0, pending: file === null });
    stream.close = (call) => {
      if (call) stream.once("close", call);
      stream.end();
    };
    return stream;
  };

  module.exports = { createReadStream, createWriteStream };
});
