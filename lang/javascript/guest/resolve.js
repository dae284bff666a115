// What a name means in a file, as in Node: a built-in module, a file, or a package's.
((globalThis) => {
  "use strict";
  // Of the language's own, also where a program has put something else under their names.
  const { Array, Error, JSON, Map, Object, Set, SyntaxError } = globalThis;
  const shared = globalThis.__membrane;
  const { ask, builtinNames, coded, hosts, isBuiltin, request } = shared;

  // --- existing files; a listing of each directory is cached until something is written ---

  let listings = new Map();
  const packages = new Map();
  shared.filesChanged = () => {
    listings = new Map();
    packages.clear();
  };
  // The kinds of a directory's entries, by name; null if it is not a directory, or may not be read.
  function listing(directory) {
    if (listings.has(directory)) return listings.get(directory);
    let found = null;
    const kind = directory === "/" ? "directory" : kindOf(directory);
    if (kind === "directory") {
      const answer = request({ files: "list", path: directory });
      if (!answer.error) found = new Map(answer.value);
    }
    listings.set(directory, found);
    return found;
  }
  function kindOf(path) {
    if (path === "/") return "directory";
    const slash = path.lastIndexOf("/");
    const name = path.slice(slash + 1);
    const entries = listing(path.slice(0, slash) || "/");
    const kind = entries?.get(name);
    if (kind !== "link" && kind !== "unknown") return kind;
    return request({ files: "stat", path, follow: true }).value?.type;
  }
  const isFile = (path) => kindOf(path) === "file";
  const isDirectory = (path) => kindOf(path) === "directory";

  function readText(path) {
    const text = ask({ session: "file", path }, `import ${path}`).value;
    if (typeof text !== "string") throw new SyntaxError(`${path} is not UTF-8`);
    return text.charCodeAt(0) === 0xfeff ? text.slice(1) : text;
  }

  // --- paths and packages ---

  const isPath = (name) => /^(?:\.{0,2}\/|\.{1,2}$)/.test(name);
  const directoryOf = (path) => path.slice(0, path.lastIndexOf("/")) || "/";
  function join(base, name) {
    const parts = [];
    for (const part of (name.startsWith("/") ? name : `${base}/${name}`).split("/")) {
      if (part === "..") parts.pop();
      else if (part !== "" && part !== ".") parts.push(part);
    }
    return `/${parts.join("/")}`;
  }

  // The package.json of a directory; null if there is none.
  function packageIn(directory) {
    if (packages.has(directory)) return packages.get(directory);
    const path = join(directory, "package.json");
    let found = null;
    if (isFile(path)) {
      try {
        found = { directory, ...JSON.parse(readText(path)) };
      } catch (error) {
        if (!(error instanceof SyntaxError)) throw error;
        throw coded(new Error(`Invalid package config ${path}: ${error.message}`), "ERR_INVALID_PACKAGE_CONFIG");
      }
    }
    packages.set(directory, found);
    return found;
  }
  // The package of a file.
  function packageOf(path) {
    for (let directory = directoryOf(path); ; directory = directoryOf(directory)) {
      if (directory.endsWith("/node_modules")) return null;
      const found = packageIn(directory);
      if (found !== null || directory === "/") return found;
    }
  }

  const kEndings = ["", ".js", ".json", ".mjs", ".cjs", ".ts", ".mts", ".cts"];
  function fileAt(path) {
    for (const ending of kEndings) if (isFile(path + ending)) return path + ending;
    const typed = /\.([cm]?)js$/.exec(path); // TypeScript imports the name of its output
    if (typed && isFile(`${path.slice(0, -typed[0].length)}.${typed[1]}ts`))
      return `${path.slice(0, -typed[0].length)}.${typed[1]}ts`;
    return undefined;
  }
  function directoryAt(path) {
    if (!isDirectory(path)) return undefined;
    const main = packageIn(path)?.main;
    if (typeof main === "string") {
      const target = join(path, main);
      const found = fileAt(target) ?? fileAt(`${target}/index`);
      if (found !== undefined) return found;
    }
    return fileAt(`${path}/index`);
  }
  const placeOf = (path) => fileAt(path) ?? directoryAt(path);

  // --- `exports` and `imports` of packages ---

  const kImport = new Set(["node", "import", "module-sync", "default"]);
  const kRequire = new Set(["node", "require", "module-sync", "default"]);

  // The target for the conditions: a path below the package, null if it is blocked, undefined if none matches.
  function targetOf(target, star, conditions, depth = 0) {
    if (typeof target === "string") return star === null ? target : target.replaceAll("*", star);
    if (target === null || typeof target !== "object" || depth > 20) return target === null ? null : undefined;
    const choices = Array.isArray(target)
      ? target
      : Object.keys(target)
          .filter((key) => conditions.has(key))
          .map((key) => target[key]);
    for (const choice of choices) {
      const found = targetOf(choice, star, conditions, depth + 1);
      if (found !== undefined) return found;
    }
    return undefined;
  }
  // The table's entry for a subpath: exact, or by the pattern with the longest prefix.
  function matchIn(table, subpath, conditions) {
    if (Object.hasOwn(table, subpath) && !subpath.includes("*")) return targetOf(table[subpath], null, conditions);
    let best = null,
      star = null;
    for (const pattern of Object.keys(table)) {
      const at = pattern.indexOf("*");
      const head = at < 0 ? pattern : pattern.slice(0, at),
        tail = at < 0 ? "" : pattern.slice(at + 1);
      if (
        (at < 0 && !pattern.endsWith("/")) ||
        !subpath.startsWith(head) ||
        !subpath.endsWith(tail) ||
        subpath.length < head.length + tail.length ||
        (best !== null && best.head.length >= head.length)
      )
        continue;
      best = { head, target: table[pattern], isFolder: at < 0 };
      star = subpath.slice(head.length, subpath.length - tail.length);
    }
    if (best === null) return undefined;
    return best.isFolder
      ? typeof best.target === "string"
        ? best.target + star
        : undefined
      : targetOf(best.target, star, conditions);
  }
  function exported(of, subpath, conditions) {
    const { exports } = of;
    const isTable =
      exports !== null &&
      typeof exports === "object" &&
      !Array.isArray(exports) &&
      Object.keys(exports).some((k) => k.startsWith("."));
    const table = isTable ? exports : { ".": exports };
    const other = conditions === kImport ? kRequire : kImport; // better than nothing
    const target = matchIn(table, subpath, conditions) ?? matchIn(table, subpath, other);
    if (typeof target !== "string" || !target.startsWith("./")) {
      const what =
        subpath === "." ? 'No "exports" main defined' : `Package subpath '${subpath}' is not defined by "exports"`;
      throw coded(new Error(`${what} in ${of.directory}/package.json`), "ERR_PACKAGE_PATH_NOT_EXPORTED");
    }
    return placeOf(join(of.directory, target)) ?? join(of.directory, target);
  }

  // Packages that make requests by node:http, and have another file that makes them by fetch().
  const kWithFetch = { axios: { import: "./dist/esm/axios.js", require: "./dist/browser/axios.cjs" } };
  function fileWithFetch(name, root, conditions) {
    if (!Object.hasOwn(kWithFetch, name)) return undefined;
    const path = join(root, kWithFetch[name][conditions === kImport ? "import" : "require"]);
    return isFile(path) ? path : undefined;
  }

  const kLibraries = ["/usr/lib/node_modules", "/usr/local/lib/node_modules"];
  function foldersFrom(directory) {
    const folders = [];
    for (let at = directory; ; at = directoryOf(at)) {
      if (!at.endsWith("/node_modules")) folders.push(at === "/" ? "/node_modules" : `${at}/node_modules`);
      if (at === "/") return [...folders, ...kLibraries];
    }
  }

  function packageNamed(name, directory, conditions) {
    const [, whole, rest] = /^(@[^/]+\/[^/]+|[^@/][^/]*)(\/.*)?$/.exec(name) ?? [];
    if (whole === undefined)
      throw coded(new Error(`'${name}' is not the name of a package`), "ERR_INVALID_MODULE_SPECIFIER");
    const subpath = `.${rest ?? ""}`;
    const own = packageOf(`${directory === "/" ? "" : directory}/x`);
    if (own?.name === whole && own.exports !== undefined && own.exports !== null)
      return exported(own, subpath, conditions);
    for (const folder of foldersFrom(directory)) {
      const root = `${folder}/${whole}`;
      if (!isDirectory(folder)) continue;
      if (!isDirectory(root)) {
        const single = rest === undefined ? fileAt(root) : undefined;
        if (single !== undefined) return single;
        continue;
      }
      const other = rest === undefined ? fileWithFetch(whole, root, conditions) : undefined;
      if (other !== undefined) return other;
      const found = packageIn(root);
      if (found?.exports !== undefined && found?.exports !== null) return exported(found, subpath, conditions);
      const place = rest === undefined ? directoryAt(root) : placeOf(join(root, subpath));
      if (place !== undefined) return place;
    }
    return undefined;
  }

  function importedName(name, directory, conditions) {
    const own = packageOf(`${directory === "/" ? "" : directory}/x`);
    const target = own?.imports && matchIn(own.imports, name, conditions);
    if (typeof target !== "string")
      throw coded(
        new Error(`Package import specifier '${name}' is not defined${own ? ` in ${own.directory}/package.json` : ""}`),
        "ERR_PACKAGE_IMPORT_NOT_DEFINED",
      );
    return target.startsWith("./") ? placeOf(join(own.directory, target)) : find(own.directory, target, conditions);
  }

  // What a name means for a file in a directory: of a built-in module its name, else a path. It throws what says where
  // was looked.
  function find(directory, given, conditions) {
    let name = given;
    if (name.startsWith("file:")) name = decodeURIComponent(new URL(name).pathname);
    if (isPath(name)) return placeOf(join(directory, name)) ?? missingFile(name, join(directory, name));
    if (isBuiltin(name)) return hosts.has(name) || name.startsWith("node:") ? name : `node:${name}`;
    if (/^[a-z][a-z0-9+.-]+:/i.test(name)) {
      const why = name.startsWith("node:")
        ? "the available modules of Node are " + builtinNames().join(", ")
        : "modules are files; fetch() reads from the network, where a grant allows it";
      throw notFound(`Cannot find module '${name}': ${why}`);
    }
    const found = name.startsWith("#")
      ? importedName(name, directory, conditions)
      : packageNamed(name, directory, conditions);
    return found ?? missingPackage(name, directory);
  }
  const notFound = (message) => coded(new Error(message), "MODULE_NOT_FOUND");
  function missingPackage(name, directory) {
    const looked = foldersFrom(directory).filter((folder) => !kLibraries.slice(1).includes(folder));
    const package_ = name
      .split("/")
      .slice(0, name.startsWith("@") ? 2 : 1)
      .join("/");
    throw notFound(
      `Cannot find module '${name}': it is not built in, and no package in ${looked.join(", ")}. ` +
        `Bring it by --with ${package_}, or install it beside the program and grant that directory: ` +
        "--allow fs:read:./node_modules:/node_modules",
    );
  }
  // For a path that no grant covers, the host says what grant would. A relative one is mistyped as often: the host says so in its hint.
  function missingFile(name, path) {
    const { error } = request({ files: "stat", path, follow: true });
    const isDenied = error?.grant && name.startsWith("/");
    const grant = isDenied ? ` ${error.message} ${error.grant} would allow it.` : "";
    const why = `there is no ${path}, nor with ${kEndings.slice(1).join(", ")}, nor an index.js in it.${grant}`;
    const made = notFound(`Cannot find module '${name}': ${why}`);
    if (isDenied) {
      Object.defineProperty(made, "name", { value: "PermissionError", writable: true, configurable: true });
      Object.assign(made, { errno: error.errno, grant: error.grant });
    }
    throw made;
  }

  Object.assign(shared, { directoryOf, find, foldersFrom, join, kImport, kRequire, packageOf, readText });
})(globalThis);
