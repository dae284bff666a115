// What is known of files without their content: Stats and Dirent, and the functions that ask for them.
(() => {
  "use strict";
  const shared = globalThis.__membrane;

  shared.factories.set("internal/fs/stats", (exports, module, load) => {
    const { fileError } = load("internal/errno");
    const { ask, checkDescriptor, constants, pathOf, whole } = load("internal/fs/request");

    const kModes = {
      file: constants.S_IFREG | 0o644,
      directory: constants.S_IFDIR | 0o755,
      link: constants.S_IFLNK | 0o777,
    };
    class Stats {
      constructor(found, isBig) {
        const number = isBig ? BigInt : Number,
          ms = (ns) => (isBig ? BigInt(ns) / 1_000_000n : Number(ns) / 1e6);
        const kind = { value: found.type, enumerable: false };
        Object.defineProperty(this, "_kind", kind);
        Object.assign(this, {
          dev: number(found.device),
          mode: number(kModes[found.type] ?? constants.S_IFCHR | 0o666),
          nlink: number(found.links),
          uid: number(0),
          gid: number(0),
          rdev: number(0),
          blksize: number(4096),
          ino: number(found.inode),
          size: number(found.size),
          blocks: number(Math.ceil(found.size / 512)),
          atimeMs: ms(found.accessed_ns),
          mtimeMs: ms(found.modified_ns),
          ctimeMs: ms(found.changed_ns),
          birthtimeMs: ms(found.changed_ns),
        });
        if (isBig)
          Object.assign(this, {
            atimeNs: BigInt(found.accessed_ns),
            mtimeNs: BigInt(found.modified_ns),
            ctimeNs: BigInt(found.changed_ns),
            birthtimeNs: BigInt(found.changed_ns),
          });
        for (const name of ["atime", "mtime", "ctime", "birthtime"]) this[name] = new Date(Number(this[`${name}Ms`]));
      }
      isFile() {
        return this._kind === "file";
      }
      isDirectory() {
        return this._kind === "directory";
      }
      isSymbolicLink() {
        return this._kind === "link";
      }
      isCharacterDevice() {
        return this._kind === "device";
      }
      isBlockDevice() {
        return false;
      }
      isFIFO() {
        return this._kind === "stream";
      }
      isSocket() {
        return false;
      }
    }
    class Dirent {
      constructor(name, parentPath, kind) {
        Object.assign(this, { name, parentPath, path: parentPath });
        Object.defineProperty(this, "_kind", { value: kind, enumerable: false });
      }
    }
    for (const name of [
      "isFile",
      "isDirectory",
      "isSymbolicLink",
      "isCharacterDevice",
      "isBlockDevice",
      "isFIFO",
      "isSocket",
    ])
      Object.defineProperty(Dirent.prototype, name, {
        value: Stats.prototype[name],
        writable: true,
        configurable: true,
      });

    function statOf(given, follow, syscall, { bigint = false, throwIfNoEntry = true } = {}) {
      const from = pathOf(given);
      const answer = shared.request({ files: "stat", path: whole(from), follow });
      if (!answer.error) return new Stats(answer.value, bigint);
      if (!throwIfNoEntry && ["ENOENT", "ENOTDIR"].includes(answer.error.errno)) return undefined;
      throw fileError(answer.error, syscall, from);
    }
    const statSync = (given, options) => statOf(given, true, "stat", options ?? {});
    const lstatSync = (given, options) => statOf(given, false, "lstat", options ?? {});
    function fstatSync(fd, { bigint = false } = {}) {
      checkDescriptor(fd);
      return new Stats(ask({ files: "stat", descriptor: fd }, "fstat"), bigint);
    }
    function existsSync(given) {
      try {
        return !shared.request({ files: "stat", path: whole(pathOf(given)), follow: true }).error;
      } catch {
        return false;
      }
    }
    // Whether it can be written is only known from an attempt.
    function accessSync(given, mode = 0) {
      void mode;
      const from = pathOf(given);
      ask({ files: "stat", path: whole(from), follow: true }, "access", from);
    }

    module.exports = { Dirent, Stats, accessSync, existsSync, fstatSync, lstatSync, statSync };
  });
})();
