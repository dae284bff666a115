// node:path for Windows: drives, shares (UNC), and both separators.
globalThis.__membrane.factories.set("internal/path_win32", (exports, module, load) => {
  "use strict";
  const { checkString, wrongType } = load("internal/check");
  const kSeparator = /[\\/]/;
  const kAbsolute = /^(?:[A-Za-z]:)?[\\/]/;
  const kDrive = /^[A-Za-z]:/;
  const kShare = /^[\\/]{2}([^\\/]+)[\\/]+([^\\/]+)/;
  const kReserved = /^(?:con|prn|aux|nul|(?:com|lpt)[1-9¹²³])$/i;
  const isReserved = (path) => path.includes(":") && kReserved.test(path.slice(0, path.indexOf(":")));

  // The device ("C:", "\\server\share" or ""), where its path begins, and whether that is absolute.
  function rootOf(path) {
    const [share, server, name] = kShare.exec(path) ?? [];
    if (server === "." || server === "?") return { device: `\\\\${server}`, end: 4, isAbsolute: true };
    if (share !== undefined) return { device: `\\\\${server}\\${name}`, end: share.length, isAbsolute: true };
    const device = kDrive.test(path) ? path.slice(0, 2) : "";
    const isAbsolute = kAbsolute.test(path);
    return { device, end: device.length + (isAbsolute ? 1 : 0), isAbsolute };
  }
  // How much of a path its directories never lose.
  function rootLengthOf(path) {
    const [share] = kShare.exec(path) ?? [];
    return share === undefined ? rootOf(path).end : Math.min(share.length + 1, path.length);
  }
  function tailOf(path, isAbsolute) {
    const parts = [];
    for (const part of path.split(kSeparator)) {
      if (part === "" || part === ".") continue;
      if (part !== "..") parts.push(part);
      else if (parts.length > 0 && parts.at(-1) !== "..") parts.pop();
      else if (!isAbsolute) parts.push("..");
    }
    return parts.join("\\");
  }
  // Where the last part begins and ends, separators at the end left out.
  function lastPart(path, least) {
    let end = path.length;
    while (end > least && kSeparator.test(path[end - 1])) --end;
    let start = end;
    while (start > least && !kSeparator.test(path[start - 1])) --start;
    return { start, end };
  }

  // What follows must not become a drive by the loss of what is before it: "a/../C:".
  const looksAbsolute = (path, tail) => kDrive.test(tail) || /:(?:[\\/]|$)/.test(path);
  function normalize(path) {
    checkString(path, "path");
    if (path === "") return ".";
    const root = rootOf(path);
    if (root.device === "" && !root.isAbsolute && isReserved(path)) {
      root.end = path.indexOf(":") + 1;
      root.device = path.slice(0, root.end);
    }
    const { device, end, isAbsolute } = root;
    let tail = tailOf(path.slice(end), isAbsolute);
    if (tail === "" && !isAbsolute) tail = path.length === 1 ? path : ".";
    if (tail !== "" && path.length > 1 && kSeparator.test(path.at(-1))) tail += "\\";
    if (device === "" && !isAbsolute && path.includes(":") && looksAbsolute(path, tail)) return `.\\${tail}`;
    if (isReserved(path)) return `.\\${device}${tail}`;
    return `${device}${isAbsolute ? "\\" : ""}${tail}`;
  }

  function resolve(...paths) {
    let device = "";
    let tail = "";
    let isAbsolute = false;
    for (let i = paths.length - 1; i >= -1 && !(isAbsolute && device !== ""); --i) {
      if (i >= 0) checkString(paths[i], `paths[${i}]`);
      const path = i >= 0 ? paths[i] : globalThis.process.cwd();
      const root = rootOf(path);
      if (path === "" || (device !== "" && root.device !== "" && root.device.toLowerCase() !== device.toLowerCase())) continue;
      device ||= root.device;
      if (isAbsolute) continue;
      tail = `${path.slice(root.end)}\\${tail}`;
      isAbsolute = root.isAbsolute;
    }
    return `${device}${isAbsolute ? "\\" : ""}${tailOf(tail, isAbsolute)}` || ".";
  }

  function relative(from, to) {
    checkString(from, "from");
    checkString(to, "to");
    const target = resolve(to);
    const partsOf = (path) => path.split("\\").filter((part) => part !== "");
    const start = partsOf(resolve(from));
    const end = partsOf(target);
    let common = 0;
    while (common < Math.min(start.length, end.length) && start[common].toLowerCase() === end[common].toLowerCase()) ++common;
    if (common === 0 && start.length > 0 && end.length > 0) return target;
    return [...start.slice(common).fill(".."), ...end.slice(common)].join("\\");
  }

  function basename(path, suffix) {
    if (suffix !== undefined) checkString(suffix, "suffix");
    checkString(path, "path");
    const { start, end } = lastPart(path, kDrive.test(path) ? 2 : 0);
    const name = path.slice(start, end);
    if (suffix === path) return "";
    return suffix && name.endsWith(suffix) && name !== suffix ? name.slice(0, -suffix.length) : name;
  }
  function extensionOf(name) {
    const at = name.lastIndexOf(".");
    return at <= 0 || name === ".." ? "" : name.slice(at);
  }

  const path = {
    sep: "\\",
    delimiter: ";",
    resolve,
    normalize,
    isAbsolute(path) {
      checkString(path, "path");
      return kAbsolute.test(path);
    },
    join(...paths) {
      for (const each of paths) checkString(each, "path");
      const given = paths.filter((each) => each !== "");
      if (given.length === 0) return ".";
      const joined = given.join("\\");
      // Only a first path that has begun a share makes one.
      return normalize(/^[\\/]{2}[^\\/]/.test(given[0]) ? joined : joined.replace(/^[\\/]{2,}/, "\\"));
    },
    relative,
    toNamespacedPath(path) {
      if (typeof path !== "string" || path === "") return path;
      const whole = resolve(path);
      if (whole.length <= 2) return path;
      if (/^\\\\[^?.]/.test(whole)) return `\\\\?\\UNC\\${whole.slice(2)}`;
      return /^[A-Za-z]:\\/.test(whole) ? `\\\\?\\${whole}` : whole;
    },
    dirname(path) {
      checkString(path, "path");
      const root = rootLengthOf(path);
      const { start } = lastPart(path, root);
      return start > root ? path.slice(0, start - 1) : path.slice(0, root) || ".";
    },
    basename,
    extname(path) {
      checkString(path, "path");
      return extensionOf(basename(path));
    },
    parse(path) {
      checkString(path, "path");
      const length = rootLengthOf(path);
      const { start, end } = lastPart(path, length);
      const root = path.slice(0, length);
      const base = path.slice(start, end);
      const ext = extensionOf(base);
      return { root, dir: start > length ? path.slice(0, start - 1) : root, base, ext, name: base.slice(0, base.length - ext.length) };
    },
    format(parts) {
      if (parts === null || typeof parts !== "object") wrongType("pathObject", "of type object", parts);
      const { root } = parts;
      const dir = parts.dir || root;
      const ext = parts.ext ? `${parts.ext.startsWith(".") ? "" : "."}${parts.ext}` : "";
      const base = parts.base || `${parts.name || ""}${ext}`;
      if (!dir) return base;
      return dir === root ? `${dir}${base}` : `${dir}\\${base}`;
    },
    matchesGlob: (path, pattern) => load("internal/glob").matcher(pattern.replaceAll("\\", "/"))(path.replaceAll("\\", "/")),
  };
  module.exports = path;
});
globalThis.__membrane.factories.set("path/win32", (exports, module, load) => {
  module.exports = load("path").win32;
});
