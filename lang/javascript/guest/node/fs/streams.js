// Streams that read and write files.
globalThis.__membrane.factories.set("internal/fs/streams", (exports, module, load) => {
  "use strict";
  const { closeSync, kInput, openSync, readBytes, writeBytes } = load("internal/fs/files");
  const { optionsOf, pathOf } = load("internal/fs/request");
  const { Readable, Writable } = load("stream");

  // What streams of either kind do with their file: a descriptor, or one that is opened when the stream is made.
  function ofFile(fd, open, autoClose) {
    const file = { fd: fd ?? null };
    function construct(done) {
      if (file.fd !== null) return done();
      try {
        file.fd = open();
      } catch (error) {
        return done(error);
      }
      Object.assign(this, { fd: file.fd, pending: false });
      this.emit("open", file.fd);
      this.emit("ready");
      done();
    }
    function destroy(error, done) {
      if (file.fd !== null && autoClose) closeSync(file.fd);
      done(error);
    }
    return { file, construct, destroy };
  }

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
    let at = start;
    const { file, construct, destroy } = ofFile(fd, () => openSync(from, flags), autoClose);
    const stream = new Readable({
      highWaterMark,
      encoding,
      construct,
      destroy,
      read(size) {
        const bytes = readBytes(
          file.fd,
          Math.min(size, end - at + 1),
          file.fd === kInput || (fd !== undefined && start === 0) ? null : at,
        );
        at += bytes.length;
        stream.bytesRead += bytes.length;
        stream.push(bytes.length ? bytes : null);
      },
    });
    Object.assign(stream, { path: from, fd: file.fd, bytesRead: 0, pending: file.fd === null });
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
    let at = start ?? null;
    const open = () => openSync(to, start === undefined ? flags : flags === "w" ? "r+" : flags);
    const { file, construct, destroy } = ofFile(fd, open, autoClose);
    const stream = new Writable({
      highWaterMark,
      defaultEncoding: encoding,
      construct,
      destroy,
      write(chunk, _, done) {
        try {
          stream.bytesWritten += writeBytes(file.fd, chunk, at);
        } catch (error) {
          return done(error);
        }
        if (at !== null) at += chunk.length;
        done();
      },
    });
    Object.assign(stream, { path: to, fd: file.fd, bytesWritten: 0, pending: file.fd === null });
    stream.close = (call) => {
      if (call) stream.once("close", call);
      stream.end();
    };
    return stream;
  };

  module.exports = { createReadStream, createWriteStream };
});
