// What node:fs asks of the door, and how it reads its arguments.
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

  shared.factories.set("internal/fs/request", (exports, module, load) => {
    const { Buffer } = load("buffer");
    const { checkInteger, wrongType, wrongValue } = load("internal/check");
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

    // --- arguments ---

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

    module.exports = {
      ask,
      bytesOf,
      change,
      checkDescriptor,
      constants: kConstants,
      encodingOf,
      flagsOf,
      kPiece,
      nameIn,
      optionsOf,
      pathOf,
      whole,
    };
  });
})();
