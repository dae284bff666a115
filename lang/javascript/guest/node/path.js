// node:path for POSIX, which is that of programs here.
globalThis.__membrane.factories.set("path", (exports, module, load) => {
  "use strict";
  const { checkString } = load("internal/check");

  // Resolves ".", ".." and empty parts as far as possible.
  function partsOf(path, isAbsolute) {
    const parts = [];
    for (const part of path.split("/")) {
      if (part === "" || part === ".") continue;
      if (part !== "..") parts.push(part);
      else if (parts.length > 0 && parts.at(-1) !== "..") parts.pop();
      else if (!isAbsolute) parts.push("..");
    }
    return parts;
  }
  const withoutSlashes = (path) => {
    let end = path.length;
    while (end > 1 && path[end - 1] === "/") --end;
    return path.slice(0, end);
  };

  const path = {
    sep: "/",
    delimiter: ":",
    resolve(...paths) {
      let whole = "";
      for (let i = paths.length - 1; i >= 0 && !whole.startsWith("/"); --i) {
        checkString(paths[i], `paths[${i}]`);
        if (paths[i] !== "") whole = `${paths[i]}/${whole}`;
      }
      if (!whole.startsWith("/")) whole = `${globalThis.process.cwd()}/${whole}`;
      return `/${partsOf(whole, true).join("/")}`;
    },
    normalize(path) {
      checkString(path, "path");
      if (path === "") return ".";
      const isAbsolute = path.startsWith("/");
      const body = partsOf(path, isAbsolute).join("/");
      if (body === "") return isAbsolute ? "/" : path.endsWith("/") ? "./" : ".";
      return `${isAbsolute ? "/" : ""}${body}${path.endsWith("/") ? "/" : ""}`;
    },
    isAbsolute(path) {
      checkString(path, "path");
      return path.startsWith("/");
    },
    join(...paths) {
      for (const each of paths) checkString(each, "path");
      const joined = paths.filter((each) => each !== "").join("/");
      return joined === "" ? "." : path.normalize(joined);
    },
    relative(from, to) {
      checkString(from, "from");
      checkString(to, "to");
      if (from === to) return "";
      const start = path.resolve(from).split("/").filter(Boolean),
        end = path.resolve(to).split("/").filter(Boolean);
      let same = 0;
      while (same < start.length && same < end.length && start[same] === end[same]) ++same;
      return [...start.slice(same).map(() => ".."), ...end.slice(same)].join("/");
    },
    toNamespacedPath: (path) => path,
    dirname(path) {
      checkString(path, "path");
      const bare = withoutSlashes(path),
        end = bare.lastIndexOf("/");
      if (end < 0) return ".";
      if (end === 0) return "/";
      return end === 1 && path.startsWith("/") ? "//" : bare.slice(0, end);
    },
    basename(path, suffix) {
      if (suffix !== undefined) checkString(suffix, "suffix");
      checkString(path, "path");
      let end = path.length;
      while (end > 0 && path[end - 1] === "/") --end;
      const name = path.slice(path.lastIndexOf("/", end - 1) + 1, end);
      if (end === 0) return "";
      return suffix !== undefined && suffix !== name && name.endsWith(suffix)
        ? name.slice(0, name.length - suffix.length)
        : suffix === name && path !== suffix
          ? name
          : suffix === path
            ? ""
            : name;
    },
    extname(path_) {
      checkString(path_, "path");
      const name = path.basename(path_),
        at = name.lastIndexOf(".");
      return at <= 0 || name === ".." ? "" : name.slice(at);
    },
    parse(path_) {
      checkString(path_, "path");
      const root = path_.startsWith("/") ? "/" : "";
      const base = path.basename(path_),
        ext = path.extname(path_);
      const bare = withoutSlashes(path_),
        at = bare.lastIndexOf("/");
      const dir = base === "" ? root : at > 0 ? bare.slice(0, at) : root;
      return { root, dir, base, ext, name: base.slice(0, base.length - ext.length) };
    },
    format(parts) {
      if (parts === null || typeof parts !== "object")
        load("internal/check").wrongType("pathObject", "of type object", parts);
      const dir = parts.dir || parts.root;
      const ext = parts.ext ? `${parts.ext.startsWith(".") ? "" : "."}${parts.ext}` : "";
      const base = parts.base || `${parts.name || ""}${ext}`;
      if (!dir) return base;
      return dir === parts.root ? `${dir}${base}` : `${dir}/${base}`;
    },
    matchesGlob: (path, pattern) => load("internal/glob").matcher(pattern)(path),
  };
  const win32 = load("internal/path_win32");
  for (const each of [path, win32]) Object.assign(each, { posix: path, win32 });
  module.exports = path;
});
globalThis.__membrane.factories.set("path/posix", (exports, module, load) => {
  module.exports = load("path");
});
