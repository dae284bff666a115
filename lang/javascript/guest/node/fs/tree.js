// The tree of files: directories, links and names, and what is copied or removed in it.
(() => {
  "use strict";
  const shared = globalThis.__membrane;

  shared.factories.set("internal/fs/tree", (exports, module, load) => {
    const { coded } = load("internal/check");
    const { fileError } = load("internal/errno");
    const { ask, change, checkDescriptor, constants, kPiece, nameIn, optionsOf, pathOf, whole } =
      load("internal/fs/request");
    const { readBytes, withFile, writeBytes } = load("internal/fs/files");
    const { Dirent, existsSync, lstatSync } = load("internal/fs/stats");
    const path = load("path");

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

    // --- names and copies ---

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
          withFile(to, mode & constants.COPYFILE_EXCL ? "wx" : "w", (copy) => {
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

    // --- links ---

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

    // --- sizes and times ---

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

    module.exports = {
      copyFileSync,
      cpSync,
      ftruncateSync,
      linkSync,
      mkdirSync,
      mkdtempSync,
      readdirSync,
      readlinkSync,
      realpathSync,
      renameSync,
      rmSync,
      rmdirSync,
      symlinkSync,
      truncateSync,
      unlinkSync,
      utimesSync,
    };
  });
})();
