// Modules: require(), and what import sees of CommonJS.
//
//   resolve(base, name) ─▶ "node:path" or "/app/node_modules/x/index.js" ─▶ load(): its source as an ES module
//                                                                      └─▶ require(): a Module, run once
((globalThis) => {
  "use strict";
  // Of the language's own, also where a program has put something else under their names.
  const { Error, JSON, Map, Object, ReferenceError, Set, Symbol, SyntaxError, TypeError, WeakMap } = globalThis;
  const shared = globalThis.__membrane;
  const { builtin, coded, directoryOf, find, foldersFrom, hosts, isBuiltin, isModule, join } = shared;
  const { kImport, kRequire, packageOf, readText, withoutTypes } = shared;
  const evaluate = globalThis.__membrane_evaluate;
  delete globalThis.__membrane_evaluate;
  shared.evaluate = evaluate;
  const kAsModule = 1,
    kCompiledModule = 2; // kinds of evaluation, other than a script

  // --- CommonJS ---

  const kTypeScript = /\.[cm]?ts$/;
  // The regular expressions test every position of a text: a plain search is much cheaper if it suffices.
  const withoutMark = (code) => (code.startsWith("#!") ? `//${code.slice(2)}` : code);

  // Throws the error in a text without running it: of an ES module, or of a script with top-level await.
  shared.compileOnly = (code, name, isModule) => {
    if (isModule) evaluate(code, `${name}`, kCompiledModule);
    else compileBody(kCheckHead, code, name);
  };
  const kCheckHead = 'null ?? { async ""() {';
  shared.checkHead = kCheckHead;
  function compileBody(head, code, name) {
    try {
      return evaluate(`${head}${code}${shared.bodyEnd}`, name);
    } catch (error) {
      throw error instanceof SyntaxError ? ofBody(error, code, name) : error;
    }
  }
  // An error in terms of the text alone: what closes the function around it has no opening, and its end is the text's.
  function ofBody(error, code, name) {
    const stray = shared.tokensOf(code).find(({ isStray }) => isStray);
    const places = shared.stackOf(error).split("\n").slice(1).join("\n");
    if (stray && isBody(code.slice(0, stray.at), name)) tell(`Unexpected token '${stray.text}'`, stray.at);
    else if (/:(\d+):\d+\)?$/m.exec(places)?.[1] > code.split("\n").length) tell("Unexpected end of input", code.length);
    return error;

    function tell(message, at) {
      const stack = `SyntaxError: ${message}\n    at ${placeIn(name, code, at)}`;
      error.message = message;
      Object.defineProperty(error, "stack", { value: stack, writable: true, configurable: true });
    }
  }
  function isBody(code, name) {
    try {
      evaluate(`${kCheckHead}${code}${shared.bodyEnd}`, name);
      return true;
    } catch {
      return false;
    }
  }

  const cache = Object.create(null);
  const compiled = new Map(); // functions of files that were compiled, but not run yet
  const kHead = 'null ?? { ""(exports, require, module, __filename, __dirname) {';
  const kFail = Symbol("an ES module");

  // The function that wraps a CommonJS file; kFail for what can only be an ES module.
  function compile(path) {
    if (compiled.has(path)) return compiled.get(path);
    const text = readText(path);
    const code = withoutMark(kTypeScript.test(path) ? withoutTypes(text) : text);
    shared.keepSource(path, code, kHead.length);
    let run;
    try {
      run = isAlwaysModule(path) ? kFail : compileBody(kHead, code, path);
    } catch (error) {
      if (/\.c[jt]s$/.test(path) || !(error instanceof SyntaxError) || !isModule(code)) throw error;
      run = kFail;
    }
    compiled.set(path, run);
    if (run === kFail) sourcesOfModules.set(path, code);
    return run;
  }
  const sourcesOfModules = new Map();
  const isAlwaysModule = (path) =>
    /\.m[jt]s$/.test(path) || (/\.[jt]s$/.test(path) && packageOf(path)?.type === "module");

  class Module {
    constructor(id, parent) {
      Object.assign(this, {
        id,
        path: directoryOf(id),
        exports: {},
        filename: id,
        loaded: false,
        children: [],
        paths: foldersFrom(directoryOf(id)),
      });
      parent?.children.push(this);
    }
    require(name) {
      return requireFrom(this, name);
    }
  }
  function requireFrom(module, name) {
    if (typeof name !== "string")
      throw coded(
        new TypeError(`The "id" argument must be of type string. Received ${shared.inspect(name)}`),
        "ERR_INVALID_ARG_TYPE",
      );
    return requireAt(find(module.path, name, kRequire), module);
  }
  function requireAt(path, parent) {
    if (!path.startsWith("/")) return builtin(path);
    if (cache[path] !== undefined) return cache[path].exports;
    const module = new Module(path, parent);
    cache[path] = module;
    let isWhole = false;
    try {
      fill(module, path);
      module.loaded = isWhole = true;
    } finally {
      if (!isWhole) delete cache[path];
    }
    return module.exports;
  }
  function fill(module, path) {
    if (path.endsWith(".json")) {
      module.exports = parseFile(path);
      return;
    }
    const run = compile(path);
    if (run === kFail) {
      module.exports = requireModule(path);
      return;
    }
    compiled.delete(path);
    run.call(module.exports, module.exports, requireOf(module), module, path, module.path);
  }
  function parseFile(path) {
    try {
      return JSON.parse(readText(path));
    } catch (error) {
      if (error instanceof SyntaxError) error.message = `${path}: ${error.message}`;
      throw error;
    }
  }
  // The exports of an ES module without top-level await.
  function requireModule(path) {
    let names;
    const deliver = (found) => {
      names = found;
    };
    const key = shared.lend(deliver);
    try {
      evaluate(
        `import * as names from ${JSON.stringify(path)}; ${kRaw}(${JSON.stringify(key)})(names);`,
        `membrane:require ${path}`,
        kAsModule,
      );
    } catch (error) {
      throw whyOf(error);
    }
    if (names === undefined)
      throw coded(
        new Error(
          `require() cannot load ${path}, since it awaits at its top: use await import(${JSON.stringify(path)})`,
        ),
        "ERR_REQUIRE_ASYNC_MODULE",
      );
    return Object.hasOwn(names, "module.exports") ? names["module.exports"] : names;
  }

  let main;
  function requireOf(module) {
    const require = (name) => requireFrom(module, name);
    require.resolve = (name, options) => {
      const from = options?.paths?.length ? options.paths.map((path) => join("/", path)) : [module.path];
      let failure;
      for (const directory of from) {
        try {
          const found = find(directory, `${name}`, kRequire);
          return found.startsWith("node:") && !`${name}`.startsWith("node:") ? `${name}` : found;
        } catch (error) {
          failure = error;
        }
      }
      throw failure;
    };
    require.resolve.paths = (name) => (isBuiltin(name) ? null : foldersFrom(module.path));
    require.cache = cache;
    require.extensions = Object.create(null);
    require.main = main;
    return require;
  }
  // For a program or for cells: its module, which is the main one until the next program's.
  function moduleOf(name, isProgram) {
    const module = new Module(join("/", name), null);
    if (main !== undefined && cache[main.filename] === main) delete cache[main.filename];
    if (isProgram) cache[module.filename] = module;
    main = module;
    module.id = ".";
    return module;
  }

  // --- ES modules: the engine asks to resolve a name, and for its source ---

  // A module that cannot be loaded is replaced by one that throws the reason; linking fails earlier if a name is missing.
  const kRaw = '__membrane_import("membrane:raw")';
  const kMostNotLoaded = 100;
  const notLoaded = new Map(); // by the engine's name for it: the reason
  const lent = new Map();
  let nextKey = 0;
  shared.lend = (value) => {
    const key = `membrane:lent ${++nextKey}`;
    lent.set(key, value);
    return key;
  };
  const failed = (name, error) => {
    if (notLoaded.size >= kMostNotLoaded) notLoaded.delete(notLoaded.keys().next().value);
    notLoaded.set(name, error);
    return `throw ${kRaw}(${JSON.stringify(shared.lend(error))});`;
  };
  function resolve(base, name) {
    if (lent.has(name)) return name;
    try {
      return find(directoryOf(join("/", base.startsWith("membrane:") ? "" : base)), name, kImport);
    } catch (error) {
      return shared.lend({ failure: error, name });
    }
  }
  function load(name) {
    notLoaded.delete(name);
    const known = lent.get(name);
    try {
      if (known !== undefined) return failed(name, known.failure);
      if (!name.startsWith("/")) return sourceOf(name, Object.keys(builtin(name)));
      if (name.endsWith(".json")) return `export default ${kRaw}(${JSON.stringify(name)});`;
      if (compile(name) !== kFail) return sourceOf(name, namesOf(name));
      return withMeta(name, sourcesOfModules.get(name)) || " ";
    } catch (error) {
      return failed(name, error);
    }
  }
  function whyOf(error) {
    if (!(error instanceof ReferenceError || error instanceof SyntaxError)) return error;
    const [, name] = /'([^']*)'[^']*$/.exec(`${error.message}`) ?? [];
    return notLoaded.get(name) ?? explained(error);
  }

  // An error of linking has neither a place nor a hint.
  function explained(error) {
    const [, name, module] = /^Could not find export '(.*)' in module '(.*)'$/.exec(`${error.message}`) ?? [];
    if (name === undefined) return error;
    error.message += hintOfExport(name, module, exportsOf(module));
    const place = placeOfImport(name, module);
    const stack = `${error.name}: ${error.message}\n    at ${place}`;
    if (place !== undefined) Object.defineProperty(error, "stack", { value: stack, writable: true, configurable: true });
    return error;
  }
  // The name that was meant, or what Node has and programs here have not.
  function hintOfExport(name, module, names) {
    const nearest = shared.nearest(name, names);
    if (nearest !== undefined || hosts.has(module) || !isBuiltin(module)) return shared.asked(nearest);
    const bare = module.replace(/^node:/, "");
    const why = shared.whyAbsent(bare);
    return why === undefined
      ? `: node:${bare} has no ${name} in Membrane`
      : `: the module is not available: ${why}`;
  }
  function exportsOf(path) {
    if (!sourcesOfModules.has(path)) return namesOf(path);
    const code = sourcesOfModules.get(path);
    const names = [];
    for (const [, name] of code.matchAll(/\bexport\s+(?:async\s+)?(?:const|let|var|class|function)\b[\s*]*([\w$]+)/g))
      names.push(name);
    for (const [, list] of code.matchAll(/\bexport\s*\{([^{}]*)\}/g))
      for (const entry of list.split(",")) names.push(entry.trim().split(/\s+as\s+/).at(-1));
    return names;
  }
  // "file:line:column" of the name in the statement that imports it from the module.
  function placeOfImport(name, module) {
    for (const [path, code] of shared.sourcesOf(name)) {
      const tokens = shared.tokensOf(code);
      let at;
      for (let i = 0; i < tokens.length; ++i) {
        const { kind, text } = tokens[i];
        if (text === "import" || text === "export") at = undefined;
        else if (kind === "word" && text === name) at ??= tokens[i].at;
        else if (kind === "string" && at !== undefined && tokens[i - 1]?.text === "from") {
          if (isOf(path, text.slice(1, -1), module)) return placeIn(path, code, at);
          at = undefined;
        }
      }
    }
    return undefined;
  }
  function isOf(path, name, module) {
    try {
      return find(directoryOf(join("/", path)), name, kImport) === module;
    } catch {
      return false;
    }
  }
  function placeIn(path, code, at) {
    const lines = code.slice(0, at).split("\n");
    return `${path}:${lines.length}:${lines.at(-1).length + 1}`;
  }

  const isName = (name) => /^[A-Za-z_$][\w$]*$/.test(name) && name !== "default";
  function sourceOf(name, given) {
    const names = given.filter(isName);
    return (
      `const all = ${kRaw}(${JSON.stringify(name)});\n` +
      `const { ${names.map((key) => `${key}: $${key}`).join(", ")} } = all ?? {};\n` +
      `export { ${names.map((key) => `$${key} as ${key}`).join(", ")} };\n` +
      `export default ${name.startsWith("/") ? "all" : "all.default ?? all"};`
    );
  }

  // import.meta is set up only if it is used; the statement is put on the first line.
  function withMeta(path, code, name = path) {
    if (!code.includes("import.meta")) return code;
    const head = `${kRaw}("membrane:meta")(import.meta, ${JSON.stringify(path)});`;
    shared.keepSource(name, code, head.length);
    return head + code;
  }
  function fillMeta(meta, path) {
    Object.assign(meta, {
      dirname: directoryOf(path),
      filename: path,
      url: builtin("url").pathToFileURL(path).href,
      resolve: (name) => {
        const found = find(directoryOf(path), `${name}`, kImport);
        return found.startsWith("/") ? builtin("url").pathToFileURL(found).href : found;
      },
    });
  }

  // The names that a CommonJS file exports, according to its text. If the text shows none, the file is run now.
  const kExports = [
    /\bexports\.([A-Za-z_$][\w$]*)\s*=(?!=)/g,
    /\bexports\[["']([A-Za-z_$][\w$]*)["']\]\s*=(?!=)/g,
    /\bdefineProperty\(\s*(?:module\.)?exports\s*,\s*["']([A-Za-z_$][\w$]*)["']/g,
  ];
  const kAgain =
    /(?:\bmodule\.exports\s*=|\.\.\.|\b__exportStar\(|\b__export\(|\b__reExport\([\w$]+,)\s*require\(["']([^"']+)["']\)/g;
  const kTable = /\bmodule\.exports\s*=\s*\{([^{}]*)[{}]/g;
  function namesOf(path, depth = 0) {
    if (path.endsWith(".json") || !path.startsWith("/")) return path.startsWith("/") ? [] : Object.keys(builtin(path));
    const text = shared.sourceOf(path) ?? readText(path);
    const names = new Set();
    for (const pattern of kExports) for (const [, name] of text.matchAll(pattern)) names.add(name);
    for (const [, table] of text.matchAll(kTable))
      for (const entry of table.replace(/\/\*[^]*?\*\/|\/\/.*/g, "").split(",")) {
        const [, name] = /^\s*(?:["']?)([A-Za-z_$][\w$]*)(?:["']?)\s*(?::|\(|$)/.exec(entry.trimEnd()) ?? [];
        if (name !== undefined) names.add(name);
      }
    if (depth < 8)
      for (const [, from] of text.matchAll(kAgain)) {
        try {
          for (const name of namesOf(find(directoryOf(path), from, kRequire), depth + 1)) names.add(name);
        } catch {
          // What it cannot find is reported when it runs.
        }
      }
    names.delete("__esModule");
    if (names.size > 0 || depth > 0) return [...names];
    const all = requireAt(path);
    return all !== null && (typeof all === "object" || typeof all === "function") ? Object.keys(all) : [];
  }

  // For the sources above: the lent value, once; else the result of require().
  function rawOf(name) {
    if (lent.has(name)) {
      const found = lent.get(name);
      lent.delete(name);
      return found;
    }
    if (name === "membrane:meta") return fillMeta;
    return name.startsWith("/") ? requireAt(name) : builtin(name);
  }
  // As import * returns it, for cells.
  const spaces = new WeakMap();
  function spaceOf(all) {
    if (all === null || (typeof all !== "object" && typeof all !== "function") || Object.hasOwn(all, "default"))
      return all;
    if (!spaces.has(all)) spaces.set(all, Object.assign(Object.create(null), all, { default: all }));
    return spaces.get(all);
  }
  function importNow(name, ...needed) {
    if (name === "membrane:raw") return rawOf;
    return withNames(spaceOf(builtin(isBuiltin(name) ? name : find("/", name, kImport))), name, needed);
  }
  // Of a cell, whose imports are no more than calls.
  function withNames(space, module, needed) {
    for (const name of needed)
      if (!(name in Object(space))) {
        const hint = hintOfExport(name, module, Object.keys(Object(space)));
        throw new SyntaxError(`Could not find export '${name}' in module '${module}'${hint}`);
      }
    return space;
  }
  async function importLater(base, given, needed = []) {
    return withNames(await importAny(base, given), given, needed);
  }
  async function importAny(base, given) {
    const name = resolve(base, `${given}`);
    const failure = lent.get(name)?.failure;
    if (failure) {
      lent.delete(name);
      throw failure;
    }
    if (!name.startsWith("/")) return spaceOf(builtin(name));
    try {
      return await import(name);
    } catch (error) {
      throw whyOf(error);
    }
  }

  Object.assign(shared, {
    Module,
    cache,
    importLater,
    importNow,
    isAlwaysModule,
    load,
    moduleOf,
    requireOf,
    resolve,
    whyOf,
    withMeta: (name, code) => withMeta(join("/", name), code, name),
    withoutMark,
  });
})(globalThis);
