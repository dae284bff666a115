// The numbers and messages of system errors, as in Node on Linux.
globalThis.__membrane.factories.set("internal/errno", (exports) => {
  "use strict";
  const kErrors = {
    EPERM: [1, "operation not permitted"],
    ENOENT: [2, "no such file or directory"],
    EIO: [5, "i/o error"],
    ENXIO: [6, "no such device or address"],
    E2BIG: [7, "argument list too long"],
    EBADF: [9, "bad file descriptor"],
    EAGAIN: [11, "resource temporarily unavailable"],
    ENOMEM: [12, "not enough memory"],
    EACCES: [13, "permission denied"],
    EFAULT: [14, "bad address in system call argument"],
    EBUSY: [16, "resource busy or locked"],
    EEXIST: [17, "file already exists"],
    EXDEV: [18, "cross-device link not permitted"],
    ENOTDIR: [20, "not a directory"],
    EISDIR: [21, "illegal operation on a directory"],
    EINVAL: [22, "invalid argument"],
    ENFILE: [23, "file table overflow"],
    EMFILE: [24, "too many open files"],
    EFBIG: [27, "file too large"],
    ENOSPC: [28, "no space left on device"],
    ESPIPE: [29, "invalid seek"],
    EROFS: [30, "read-only file system"],
    EMLINK: [31, "too many links"],
    ENAMETOOLONG: [36, "name too long"],
    ENOTEMPTY: [39, "directory not empty"],
    ELOOP: [40, "too many symbolic links encountered"],
    EPROTO: [71, "protocol error"],
    EILSEQ: [84, "illegal byte sequence"],
    ENOTSUP: [95, "operation not supported on socket"],
    ETIMEDOUT: [110, "connection timed out"],
    EDQUOT: [122, "disk quota exceeded"],
    ECANCELED: [125, "operation canceled"],
  };

  // With room in its stack for our own frames, which are left out when it is shown.
  const kOwnFrames = 20;
  function deepError(message) {
    const limit = Error.stackTraceLimit;
    if (typeof limit === "number" && limit > 0) Error.stackTraceLimit = limit + kOwnFrames;
    const error = new Error(message);
    Error.stackTraceLimit = limit;
    return error;
  }

  // What the door said of a request about files, as the error that Node throws. The host's reason follows, where it
  // has one: it names the grant.
  function fileError({ errno, message, grant }, syscall, path, dest) {
    const code = errno === "ENOTCAPABLE" ? "EACCES" : errno;
    const [number, words] = kErrors[code] ?? [5, "i/o error"];
    const places = (path === undefined ? "" : ` '${path}'`) + (dest === undefined ? "" : ` -> '${dest}'`);
    const why = message && errno !== "ENOENT" ? ` (${message}${grant ? ` ${grant} would allow it.` : ""})` : "";
    const error = deepError(`${code}: ${words}, ${syscall}${places}${why}`);
    Object.assign(error, { errno: -number, code, syscall });
    if (path !== undefined) error.path = path;
    if (dest !== undefined) error.dest = dest;
    if (grant) Object.defineProperty(error, "grant", { value: grant, enumerable: false });
    return error;
  }
  Object.assign(exports, {
    fileError,
    constants: Object.fromEntries(Object.entries(kErrors).map(([name, [number]]) => [name, number])),
    nameOf: (number) => Object.keys(kErrors).find((name) => kErrors[name][0] === -number),
  });
});
