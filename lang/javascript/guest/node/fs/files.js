// The content of files: descriptors and whole files.
(() => {
  "use strict";
  const shared = globalThis.__membrane;

  shared.factories.set("internal/fs/files", (exports, module, load) => {
    const { Buffer } = load("buffer");
    const { checkInteger, wrongType } = load("internal/check");
    const { fileError } = load("internal/errno");
    const { ask, bytesOf, change, checkDescriptor, encodingOf, flagsOf, kPiece, optionsOf, pathOf, whole } =
      load("internal/fs/request");

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

    module.exports = {
      appendFileSync,
      closeSync,
      kInput,
      openSync,
      readBytes,
      readFileSync,
      readSync,
      withFile,
      writeBytes,
      writeFileSync,
      writeSync,
    };
  });
})();
