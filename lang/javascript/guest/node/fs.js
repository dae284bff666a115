// node:fs over the files that the program has and its grants. Each function is a request at the door or a few; those
// with callbacks and promises do the same, and tell of it later.
(() => {
  "use strict";
  const shared = globalThis.__membrane;
  const kPiece = 192 << 10; // bytes per request
  const kConstants = {
    UV_FS_SYMLINK_DIR: 1,
    UV_FS_SYMLINK_JUNCTION: 2,
    O_RDONLY: 0,
    O_WRONLY: 1,
    O_RDWR: 2,
    O_CREAT: 64,
    O_EXCL: 128,
    O_TRUNC: 512,
    O_APPEND: 1024,
    O_DIRECTORY: 65536,
    O_NOFOLLOW: 131072,
    O_SYNC: 1052672,
    S_IFMT: 61440,
    S_IFREG: 32768,
    S_IFDIR: 16384,
    S_IFCHR: 8192,
    S_IFLNK: 40960,
    S_IRUSR: 256,
    S_IWUSR: 128,
    S_IXUSR: 64,
    F_OK: 0,
    R_OK: 4,
    W_OK: 2,
    X_OK: 1,
    COPYFILE_EXCL: 1,
    COPYFILE_FICLONE: 2,
    COPYFILE_FICLONE_FORCE: 4,
    UV_FS_COPYFILE_EXCL: 1,
  };
  const kFlags = {
    r: 0,
    rs: 0,
    sr: 0,
    "r+": 2,
    "rs+": 2,
    w: 0o1101,
    wx: 0o1301,
    xw: 0o1301,
    "w+": 0o1102,
    "wx+": 0o1302,
    "xw+": 0o1302,
    a: 0o2101,
    ax: 0o2301,
    xa: 0o2301,
    "a+": 0o2102,
    "ax+": 0o2302,
    as: 0o2101,
    "as+": 0o2102,
  };

  shared.factories.set("fs", (exports, module, load) => {
    const { Buffer } = load("buffer");
    const { abortError, checkFunction, checkInteger, coded, wrongType, wrongValue } = load("internal/check");
    const { fileError } = load("internal/errno");
    const path = load("path");

    // --- requests ---

    function ask(request, syscall, from, to) {
      if (from === "") throw fileError({ errno: "ENOENT" }, syscall, from, to);  // no grant could cover it
      const answer = shared.request(request);
      if (answer.error) throw fileError(answer.error, syscall, from, to);
      return answer.value;
    }
    function change(request, syscall, from, to) {
      shared.filesChanged();
      return ask(request, syscall, from, to);
    }

    function pathOf(given, name = "path") {
      let text = given;
      if (given instanceof Uint8Array) text = Buffer.from(given).toString();
      else if (given !== null && typeof given === "object" && given instanceof URL)
        text = load("url").fileURLToPath(given);
      if (typeof text !== "string") wrongType(name, "of type string or an instance of Buffer or URL", given);
      if (text.includes("\0")) wrongValue(name, text, "must be a string, Uint8Array, or URL without null bytes");
      return text;
    }
    // In the door's form; errors show what the program wrote.
    const whole = (text) =>
      text === "" ? "" : path.resolve(text) + (text.endsWith("/") && text.length > 1 ? "/" : "");
    const encodingOf = (options) => {
      const encoding = typeof options === "string" ? options : options?.encoding;
      if (encoding !== undefined && encoding !== null && encoding !== "buffer" && !Buffer.isEncoding(encoding))
        wrongValue("encoding", encoding, "is invalid encoding");
      return encoding === "buffer" ? null : (encoding ?? null);
    };
    const optionsOf = (options, defaults) =>
      options === null || options === undefined
        ? defaults
        : typeof options === "string"
          ? { ...defaults, encoding: options }
          : typeof options === "object"
            ? { ...defaults, ...options }
            : wrongType("options", "one of type string or object", options);
    function flagsOf(flags) {
      if (typeof flags === "number") return flags;
      if (flags === undefined || flags === null) return 0;
      if (!Object.hasOwn(kFlags, flags)) wrongValue("flags", flags);
      return kFlags[flags];
    }
    const nameIn = (name, encoding) => (encoding === "buffer" ? Buffer.from(name) : name);
    function bytesOf(data, encoding) {
      if (typeof data === "string") return Buffer.from(data, encoding ?? "utf8");
      if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
      return wrongType("data", "of type string or an instance of Buffer, TypedArray, or DataView", data);
    }
    const checkDescriptor = (fd) => checkInteger(fd, "fd", 0, 0x7fffffff);

    // --- open files ---

    const kInput = 0; // it reads the turn's input
    function openSync(given, flags = "r", mode = 0o666) {
      void mode;
      const from = pathOf(given),
        bits = flagsOf(flags);
      if (from === "/dev/stdin") return kInput;
      const isWrite = (bits & 3) !== 0;
      const request = {
        files: "open",
        path: whole(from),
        write: isWrite,
        create: (bits & 64) !== 0,
        exclusive: (bits & 128) !== 0,
        truncate: (bits & 512) !== 0,
        append: (bits & 1024) !== 0,
      };
      return isWrite ? change(request, "open", from) : ask(request, "open", from);
    }
    function closeSync(fd) {
      checkDescriptor(fd);
      if (fd > 2) ask({ files: "close", descriptor: fd }, "close");
    }
    function bytesIn(answer) {
      if (answer.error) throw fileError(answer.error, "read");
      return answer.bytes;
    }
    // Up to this many bytes, in as many requests as needed; fewer at the end.
    function readBytes(fd, count, position) {
      if (fd === kInput) return shared.readInput(count);
      const pieces = [];
      let left = count,
        at = position;
      while (left > 0) {
        const request = { files: "read", descriptor: fd, count: Math.min(left, kPiece) };
        if (at !== null) request.offset = at;
        const piece = bytesIn(shared.requestBytes(request));
        if (piece.length === 0) break;
        pieces.push(piece);
        left -= piece.length;
        if (at !== null) at += piece.length;
      }
      return pieces.length === 1
        ? Buffer.from(pieces[0].buffer, pieces[0].byteOffset, pieces[0].length)
        : Buffer.concat(pieces);
    }
    function writeBytes(fd, bytes, position) {
      shared.filesChanged();
      for (let at = 0; at < bytes.length || at === 0; at += kPiece) {
        const request = { files: "write", descriptor: fd };
        if (position !== null) request.offset = position + at;
        const answer = shared.requestWith(request, "bytes", bytes.subarray(at, at + kPiece));
        if (answer.error) throw fileError(answer.error, "write");
        if (bytes.length === 0) break;
      }
      return bytes.length;
    }
    const positionOf = (position) =>
      position === undefined || position === null || position === -1
        ? null
        : typeof position === "bigint"
          ? Number(position)
          : (checkInteger(position, "position", 0), position);

    function readSync(fd, buffer, offset, length, position) {
      checkDescriptor(fd);
      if (!ArrayBuffer.isView(buffer)) wrongType("buffer", "an instance of Buffer, TypedArray, or DataView", buffer);
      if (offset !== null && typeof offset === "object") ({ offset, length, position } = offset);
      const start = offset ?? 0,
        count = length ?? buffer.byteLength - start;
      checkInteger(start, "offset", 0, buffer.byteLength);
      checkInteger(count, "length", 0, buffer.byteLength - start);
      const bytes = readBytes(fd, count, positionOf(position));
      new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength).set(bytes, start);
      return bytes.length;
    }
    function writeSync(fd, data, offset, length, position) {
      checkDescriptor(fd);
      if (typeof data === "string")
        return writeBytes(fd, Buffer.from(data, typeof length === "string" ? length : "utf8"), positionOf(offset));
      if (offset !== null && typeof offset === "object") ({ offset, length, position } = offset);
      const bytes = bytesOf(data),
        start = offset ?? 0;
      return writeBytes(fd, bytes.subarray(start, start + (length ?? bytes.length - start)), positionOf(position));
    }

    // --- whole files ---

    function withFile(given, flags, act) {
      if (Number.isInteger(given) && given >= 0) return act(given);
      const fd = openSync(given, flags);
      try {
        return act(fd);
      } finally {
        closeSync(fd);
      }
    }
    function readFileSync(given, options) {
      const { flag } = optionsOf(options, { flag: "r" }),
        encoding = encodingOf(options);
      const bytes = withFile(given, flag, (fd) => {
        try {
          return readBytes(fd, Infinity, null);
        } catch (error) {
          if (error.code === "EISDIR") error.message = "EISDIR: illegal operation on a directory, read";
          throw error;
        }
      });
      return encoding === null ? bytes : bytes.toString(encoding);
    }
    function writeFileSync(given, data, options) {
      const { flag } = optionsOf(options, { flag: "w" }),
        encoding = encodingOf(options);
      const bytes = bytesOf(data, encoding ?? "utf8");
      withFile(given, flag, (fd) => {
        if (bytes.length) writeBytes(fd, bytes, null);
      });
    }
    const appendFileSync = (given, data, options) =>
      writeFileSync(given, data, { flag: "a", ...optionsOf(options, {}) });

    // --- file metadata ---

    const kModes = {
      file: kConstants.S_IFREG | 0o644,
      directory: kConstants.S_IFDIR | 0o755,
      link: kConstants.S_IFLNK | 0o777,
    };
    class Stats {
      constructor(found, isBig) {
        const number = isBig ? BigInt : Number,
          ms = (ns) => (isBig ? BigInt(ns) / 1_000_000n : Number(ns) / 1e6);
        const kind = { value: found.type, enumerable: false };
        Object.defineProperty(this, "_kind", kind);
        Object.assign(this, {
          dev: number(found.device),
          mode: number(kModes[found.type] ?? kConstants.S_IFCHR | 0o666),
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

    // --- directories ---

    function readdirSync(given, options) {
      const { withFileTypes = false, recursive = false, encoding } = optionsOf(options, {});
      const root = pathOf(given),
        made = [];
      const open = [""];
      while (open.length) {
        const below = open.shift();
        const from = below === "" ? root : path.join(root, below);
        for (const [name, kind] of ask({ files: "list", path: whole(from) }, "scandir", from).toSorted(([a], [b]) =>
          a < b ? -1 : a > b ? 1 : 0,
        )) {
          const inner = below === "" ? name : `${below}/${name}`;
          if (recursive && kind === "directory") open.push(inner);
          made.push(withFileTypes ? new Dirent(nameIn(name, encoding), from, kind) : nameIn(inner, encoding));
        }
      }
      return made;
    }
    function mkdirSync(given, options) {
      const from = pathOf(given),
        recursive = typeof options === "object" && Boolean(options?.recursive);
      if (!recursive) return void change({ files: "make_directory", path: whole(from) }, "mkdir", from);
      const parts = path.resolve(from).split("/").slice(1);
      let first,
        at = "";
      for (const part of parts) {
        at += `/${part}`;
        const answer = shared.request({ files: "stat", path: at, follow: true });
        if (answer.value?.type === "directory") continue;
        if (!answer.error) throw fileError({ errno: at === path.resolve(from) ? "EEXIST" : "ENOTDIR" }, "mkdir", from);
        change({ files: "make_directory", path: at }, "mkdir", from);
        first ??= at;
      }
      return first;
    }
    const rmdirSync = (given, options) => {
      if (options?.recursive) return rmSync(given, { recursive: true });
      const from = pathOf(given);
      return void change({ files: "remove_directory", path: whole(from) }, "rmdir", from);
    };
    function unlinkSync(given) {
      const from = pathOf(given);
      change({ files: "unlink", path: whole(from) }, "unlink", from);
    }
    function rmSync(given, options) {
      const from = pathOf(given),
        { recursive = false, force = false } = options ?? {};
      const answer = shared.request({ files: "stat", path: whole(from), follow: false });
      if (answer.error) {
        if (force && answer.error.errno === "ENOENT") return;
        throw fileError(answer.error, "lstat", from);
      }
      if (answer.value.type !== "directory") return void unlinkSync(from);
      if (!recursive)
        throw coded(Error, "ERR_FS_EISDIR", `Path is a directory: rm returned EISDIR (is a directory) ${from}`, {
          errno: 21,
          syscall: "rm",
          path: from,
        });
      // From the deepest to the top; each directory is listed once.
      const directories = [from];
      for (let i = 0; i < directories.length; ++i)
        for (const [name, kind] of ask({ files: "list", path: whole(directories[i]) }, "rm", from)) {
          const inner = path.join(directories[i], name);
          if (kind === "directory") directories.push(inner);
          else unlinkSync(inner);
        }
      for (const directory of directories.reverse()) rmdirSync(directory);
    }
    function renameSync(given, target) {
      const from = pathOf(given, "oldPath"),
        to = pathOf(target, "newPath");
      change({ files: "rename", path: whole(from), to: whole(to) }, "rename", from, to);
    }
    function copyFileSync(given, target, mode = 0) {
      const from = pathOf(given, "src"),
        to = pathOf(target, "dest");
      try {
        withFile(from, "r", (source) =>
          withFile(to, mode & kConstants.COPYFILE_EXCL ? "wx" : "w", (copy) => {
            for (let bytes = readBytes(source, kPiece, null); bytes.length; bytes = readBytes(source, kPiece, null))
              writeBytes(copy, bytes, null);
          }),
        );
      } catch (error) {
        if (error.syscall)
          throw fileError({ errno: error.code, message: /\((.*)\)$/.exec(error.message)?.[1] }, "copyfile", from, to);
        throw error;
      }
    }
    function cpSync(given, target, options = {}) {
      const from = pathOf(given, "src"),
        to = pathOf(target, "dest");
      const { recursive = false, force = true, errorOnExist = false, filter } = options;
      if (filter && !filter(from, to)) return;
      const stat = lstatSync(from);
      if (stat.isDirectory()) {
        if (!recursive)
          throw coded(
            Error,
            "ERR_FS_EISDIR",
            "Recursive option not enabled, cannot copy a directory: " +
              `cp returned EISDIR (${from} is a directory (not copied)) ${from}`,
          );
        mkdirSync(to, { recursive: true });
        for (const name of readdirSync(from)) cpSync(path.join(from, name), path.join(to, name), options);
        return;
      }
      if (existsSync(to) && !force) {
        if (errorOnExist)
          throw coded(
            Error,
            "ERR_FS_CP_EEXIST",
            `Target already exists: cp returned EEXIST (${to} already exists) ${to}`,
          );
        return;
      }
      mkdirSync(path.dirname(to), { recursive: true });
      copyFileSync(from, to);
    }
    const kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    function mkdtempSync(prefix, options) {
      const start = pathOf(prefix, "prefix");
      for (let attempt = 0; ; ++attempt) {
        const made = start + [...shared.randomBytes(6)].map((byte) => kLetters[byte % kLetters.length]).join("");
        try {
          mkdirSync(made);
          return nameIn(made, options?.encoding);
        } catch (error) {
          if (error.code !== "EEXIST" || attempt > 8)
            throw error.code === "ENOENT" ? fileError({ errno: "ENOENT" }, "mkdtemp", `${start}XXXXXX`) : error;
        }
      }
    }
    function realpathSync(given, options) {
      let from = whole(pathOf(given)),
        links = 0;
      const parts = from.split("/").filter(Boolean);
      let at = "";
      while (parts.length) {
        const part = parts.shift();
        if (part === "..") {
          at = at.slice(0, at.lastIndexOf("/"));
          continue;
        }
        const next = `${at}/${part}`;
        const kind = ask({ files: "stat", path: next, follow: false }, "lstat", pathOf(given)).type;
        if (kind !== "link") {
          at = next;
          continue;
        }
        if (++links > 40) throw fileError({ errno: "ELOOP" }, "realpath", pathOf(given));
        const target = ask({ files: "read_link", path: next }, "readlink", pathOf(given));
        if (target.startsWith("/")) at = "";
        parts.unshift(...target.split("/").filter((each) => each !== "" && each !== "."));
      }
      from = at || "/";
      return nameIn(from, options?.encoding ?? options);
    }
    realpathSync.native = realpathSync;
    function symlinkSync(target, given) {
      const to = pathOf(target, "target"),
        at = pathOf(given);
      change({ files: "symlink", target: to, path: whole(at) }, "symlink", to, at);
    }
    function linkSync(given, target) {
      const from = pathOf(given, "existingPath"),
        to = pathOf(target, "newPath");
      change({ files: "link", path: whole(from), to: whole(to) }, "link", from, to);
    }
    function readlinkSync(given, options) {
      const from = pathOf(given);
      return nameIn(ask({ files: "read_link", path: whole(from) }, "readlink", from), options?.encoding ?? options);
    }
    function ftruncateSync(fd, length = 0) {
      checkDescriptor(fd);
      change({ files: "resize", descriptor: fd, size: Math.max(0, length ?? 0) }, "ftruncate");
    }
    const truncateSync = (given, length = 0) => withFile(given, "r+", (fd) => ftruncateSync(fd, length));
    const nanoseconds = (time) =>
      String(BigInt(Math.round(time instanceof Date ? time.getTime() : Number(time) * 1000)) * 1_000_000n);
    function utimesSync(given, accessed, modified) {
      const from = pathOf(given);
      change(
        {
          files: "set_times",
          path: whole(from),
          accessed_ns: nanoseconds(accessed),
          modified_ns: nanoseconds(modified),
        },
        "utime",
        from,
      );
    }
    // There are no users and no modes: a file may be used as its grant says.
    const chmodSync = (given) => accessSync(given);
    const nothing = () => {};

    const sync = {
      accessSync,
      appendFileSync,
      chmodSync,
      chownSync: chmodSync,
      closeSync,
      copyFileSync,
      cpSync,
      existsSync,
      fchmodSync: nothing,
      fchownSync: nothing,
      fdatasyncSync: nothing,
      fstatSync,
      fsyncSync: nothing,
      ftruncateSync,
      lchownSync: chmodSync,
      linkSync,
      lstatSync,
      mkdirSync,
      mkdtempSync,
      openSync,
      readFileSync,
      readSync,
      readdirSync,
      readlinkSync,
      realpathSync,
      renameSync,
      rmSync,
      rmdirSync,
      statSync,
      symlinkSync,
      truncateSync,
      unlinkSync,
      utimesSync,
      lutimesSync: utimesSync,
      writeFileSync,
      writeSync,
      readvSync: (fd, views, position) =>
        views.reduce(
          (sum, view) =>
            sum +
            readSync(fd, view, 0, view.byteLength, position === undefined || position === null ? null : position + sum),
          0,
        ),
      writevSync: (fd, views, position) =>
        views.reduce(
          (sum, view) =>
            sum +
            writeSync(
              fd,
              view,
              0,
              view.byteLength,
              position === undefined || position === null ? null : position + sum,
            ),
          0,
        ),
      opendirSync: (given) => new Dir(pathOf(given)),
      futimesSync: nothing,
    };

    // --- the same with callbacks ---

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
    function withCallback(act, name) {
      const made = function (...values) {
        const call = values.pop();
        checkFunction(call, "cb");
        let results,
          failure = null;
        try {
          results = act(...values);
        } catch (error) {
          if (!error.syscall && !String(error.code).startsWith("ERR_FS")) throw error;
          failure = error;
        }
        later(() => (failure ? call(failure) : results === undefined ? call(null) : call(null, results)));
      };
      return Object.defineProperty(made, "name", { value: name });
    }
    const fs = { constants: kConstants, Stats, Dirent, ...sync, F_OK: 0, R_OK: 4, W_OK: 2, X_OK: 1 };
    for (const [name, act] of Object.entries(sync)) {
      const bare = name.slice(0, -"Sync".length);
      fs[bare] = withCallback(act, bare);
    }
    const kPromisified = load("util").promisify.custom;
    fs.exists = (given, call) => later(() => call(existsSync(given)));
    fs.exists[kPromisified] = (given) => promised(() => existsSync(given));
    for (const [name, act] of [
      ["read", readSync],
      ["write", writeSync],
    ]) {
      fs[name] = (fd, data, ...values) => {
        const call = values.pop();
        const count = act(fd, data, ...values);
        later(() => call(null, count, data));
      };
      fs[name][kPromisified] = (fd, data, ...values) =>
        promised(() => ({ [name === "read" ? "bytesRead" : "bytesWritten"]: act(fd, data, ...values), buffer: data }));
    }
    fs.realpath.native = fs.realpath;

    class Dir {
      constructor(given) {
        this.path = given;
        this._entries = readdirSync(given, { withFileTypes: true });
      }
      readSync() {
        return this._entries.shift() ?? null;
      }
      async read() {
        return this.readSync();
      }
      closeSync() {
        this._entries = [];
      }
      async close() {
        this.closeSync();
      }
      async *[Symbol.asyncIterator]() {
        for (let entry = this.readSync(); entry; entry = this.readSync()) yield entry;
      }
    }
    fs.Dir = Dir;

    // --- promises ---

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
    const promises = { constants: kConstants };
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
        return fs.createReadStream("", { ...options, fd: this.fd });
      }
      createWriteStream(options) {
        return fs.createWriteStream("", { ...options, fd: this.fd });
      }
      readLines(options) {
        return load("readline").createInterface({ input: this.createReadStream(options), crlfDelay: Infinity });
      }
    }
    promises.open = (given, flags, mode) => promised(() => new FileHandle(openSync(given, flags, mode)));
    fs.promises = promises;

    // --- streams ---

    fs.createReadStream = (given, options) => {
      const { Readable } = load("stream");
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
    fs.createWriteStream = (given, options) => {
      const { Writable } = load("stream");
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
    const noWatching = (name) => () => {
      throw coded(
        Error,
        "ERR_FEATURE_UNAVAILABLE_ON_PLATFORM",
        `fs.${name}() is not available: nothing else changes the program's files while it runs. Read the file again where it matters.`,
      );
    };
    for (const name of ["watch", "watchFile"]) fs[name] = noWatching(name);
    fs.unwatchFile = nothing;
    promises.watch = noWatching("promises.watch");
    module.exports = fs;
  });
  shared.factories.set("fs/promises", (exports, module, load) => {
    module.exports = load("fs").promises;
  });
})();
