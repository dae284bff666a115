// node:fs with promises, and the handles of open files.
globalThis.__membrane.factories.set("internal/fs/promises", (exports, module, load) => {
  "use strict";
  const { Buffer } = load("buffer");
  const { abortError } = load("internal/check");
  const { closeSync, openSync, readFileSync, readSync, writeFileSync, writeSync } = load("internal/fs/files");
  const { bytesOf, constants, encodingOf, optionsOf } = load("internal/fs/request");
  const { fstatSync } = load("internal/fs/stats");
  const { sync } = load("internal/fs/sync");
  const { ftruncateSync } = load("internal/fs/tree");

  const later = (call) => globalThis.setImmediate(call);
  const promised = (act) =>
    new Promise((resolve, reject) => {
      let value,
        failure,
        hasFailed = false;
      try {
        value = act();
      } catch (error) {
        if (error instanceof TypeError || error instanceof RangeError) return reject(error);
        [failure, hasFailed] = [error, true];
      }
      later(() => (hasFailed ? reject(failure) : resolve(value)));
    });

  const kNames = [
    "access",
    "appendFile",
    "chmod",
    "chown",
    "copyFile",
    "cp",
    "lchown",
    "link",
    "lstat",
    "lutimes",
    "mkdir",
    "mkdtemp",
    "opendir",
    "readFile",
    "readdir",
    "readlink",
    "realpath",
    "rename",
    "rm",
    "rmdir",
    "stat",
    "symlink",
    "truncate",
    "unlink",
    "utimes",
    "writeFile",
  ];
  const promises = { constants: constants };
  const isAborted = (values) => values.at(-1)?.signal?.aborted;
  for (const name of kNames)
    promises[name] = Object.defineProperty(
      (...values) =>
        isAborted(values)
          ? Promise.reject(abortError(values.at(-1).signal))
          : promised(() =>
              sync[`${name}Sync`](...values.map((value) => (value instanceof FileHandle ? value.fd : value))),
            ),
      "name",
      { value: name },
    );
  // Data may be written piece by piece.
  for (const [name, flag] of [
    ["writeFile", "w"],
    ["appendFile", "a"],
  ]) {
    const plain = promises[name];
    promises[name] = async (given, data, options) => {
      if (typeof data === "string" || ArrayBuffer.isView(data)) return plain(given, data, options);
      if (typeof data?.[Symbol.asyncIterator] !== "function" && typeof data?.[Symbol.iterator] !== "function")
        bytesOf(data);
      const pieces = [];
      for await (const piece of data) pieces.push(bytesOf(piece, encodingOf(options) ?? "utf8"));
      return plain(given, Buffer.concat(pieces), { flag, ...optionsOf(options, {}) });
    };
  }
  class FileHandle {
    constructor(fd) {
      this.fd = fd;
    }
    close() {
      return promised(() => {
        if (this.fd >= 0) closeSync(this.fd);
        this.fd = -1;
      });
    }
    [Symbol.asyncDispose ?? Symbol("asyncDispose")]() {
      return this.close();
    }
    stat(options) {
      return promised(() => fstatSync(this.fd, options));
    }
    readFile(options) {
      return promised(() => readFileSync(this.fd, options));
    }
    writeFile(data, options) {
      return promised(() => writeFileSync(this.fd, data, options));
    }
    appendFile(data, options) {
      return promised(() => writeFileSync(this.fd, data, options));
    }
    read(buffer = Buffer.alloc(16384), ...rest) {
      if (!ArrayBuffer.isView(buffer))
        return this.read(buffer.buffer ?? Buffer.alloc(16384), buffer.offset, buffer.length, buffer.position);
      return promised(() => ({ bytesRead: readSync(this.fd, buffer, ...rest), buffer }));
    }
    write(data, ...rest) {
      return promised(() => ({ bytesWritten: writeSync(this.fd, data, ...rest), buffer: data }));
    }
    truncate(length) {
      return promised(() => ftruncateSync(this.fd, length));
    }
    sync() {
      return Promise.resolve();
    }
    datasync() {
      return Promise.resolve();
    }
    createReadStream(options) {
      return load("fs").createReadStream("", { ...options, fd: this.fd });
    }
    createWriteStream(options) {
      return load("fs").createWriteStream("", { ...options, fd: this.fd });
    }
    readLines(options) {
      return load("readline").createInterface({ input: this.createReadStream(options), crlfDelay: Infinity });
    }
  }
  promises.open = (given, flags, mode) => promised(() => new FileHandle(openSync(given, flags, mode)));

  module.exports = { later, promised, promises };
});
