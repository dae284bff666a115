// Modules: resolution of names in a file, as in Node; require(), and what import sees of CommonJS.
//
//   resolve(base, name) ─▶ "node:path" or "/app/node_modules/x/index.js" ─▶ load(): its source as an ES module
//                                                                      └─▶ require(): a Module, run once
((globalThis) => {
  "use strict";
  // Of the language's own, also where a program has put something else under their names.
  const { Array, Boolean, Error, JSON, Map, Object, Proxy, ReferenceError, Reflect, Set, Symbol, SyntaxError, TypeError } = globalThis;
  const { WeakMap } = globalThis;
  const shared = globalThis.__membrane;
  const { ask, factories, isModule, request } = shared;
  const evaluate = globalThis.__membrane_evaluate;
  const typescript = globalThis.__membrane_typescript;
  for (const name of ["__membrane_evaluate", "__membrane_typescript"]) delete globalThis[name];
  shared.evaluate = evaluate;
  const kAsModule = 1,
    kCompiledModule = 2; // kinds of evaluation, other than a script

  // --- built-in modules ---

  const kFetch = "programs have no sockets; fetch() makes HTTP requests (with --allow http:example.org)";
  const kOneProcess = "there is one process with one thread: call the function directly, or fork the session";
  const kAbsent = {
    child_process: "programs cannot start processes: do the work in JavaScript, or use a capability (the membrane module)",
    cluster: kOneProcess,
    worker_threads: kOneProcess,
    net: kFetch,
    tls: kFetch,
    dgram: kFetch,
    http: kFetch,
    https: kFetch,
    http2: kFetch,
    dns: `${kFetch}, and the host resolves their names`,
    "dns/promises": `${kFetch}, and the host resolves their names`,
    zlib: "programs cannot compress or decompress; the bodies of fetch() arrive decompressed",
    tty: "input and output are not terminals: use process.stdin and process.stdout",
    inspector: "there is no debugger: print with console.log()",
    repl: "a session is its own prompt: membrane repl --lang js",
    v8: "the engine is QuickJS: use structuredClone() for copies, process.memoryUsage() for memory",
    sqlite: 'use the capability sql (import { sql } from "membrane")',
    wasi: "JavaScript programs cannot run WebAssembly: run the module itself with membrane run",
    async_hooks: "a context does not follow promises here: pass the value as an argument",
    diagnostics_channel: "there is nothing to subscribe to: call the function itself",
  };

  const kOfDns =
    "Resolver getDefaultResultOrder getServers lookup lookupService resolve resolve4 resolve6 resolveAny resolveCaa " +
    "resolveCname resolveMx resolveNaptr resolveNs resolvePtr resolveSoa resolveSrv resolveTxt reverse " +
    "setDefaultResultOrder setServers";
  const kNamesOfAbsent = {
    child_process: "ChildProcess exec execFile execFileSync execSync fork spawn spawnSync",
    cluster: "Worker disconnect fork setupMaster setupPrimary",
    worker_threads:
      "Worker MessageChannel MessagePort BroadcastChannel receiveMessageOnPort getEnvironmentData setEnvironmentData " +
      "moveMessagePortToContext postMessageToThread",
    net:
      "BlockList Server Socket SocketAddress Stream connect createConnection createServer getDefaultAutoSelectFamily " +
      "setDefaultAutoSelectFamily",
    tls: "SecureContext Server TLSSocket connect createSecureContext createServer checkServerIdentity getCiphers",
    dgram: "Socket createSocket",
    http:
      "Agent ClientRequest IncomingMessage OutgoingMessage Server ServerResponse createServer get globalAgent request " +
      "setMaxIdleHTTPParsers validateHeaderName validateHeaderValue",
    https: "Agent Server createServer get globalAgent request",
    http2:
      "Http2ServerRequest Http2ServerResponse connect createServer createSecureServer getDefaultSettings " +
      "getPackedSettings getUnpackedSettings",
    dns: kOfDns,
    "dns/promises": kOfDns,
    zlib:
      "gzip gzipSync gunzip gunzipSync deflate deflateSync inflate inflateSync deflateRaw deflateRawSync inflateRaw " +
      "inflateRawSync " +
      "unzip unzipSync brotliCompress brotliCompressSync brotliDecompress brotliDecompressSync createGzip createGunzip " +
      "createDeflate createInflate createDeflateRaw createInflateRaw createUnzip createBrotliCompress " +
      "createBrotliDecompress crc32 BrotliCompress BrotliDecompress Deflate DeflateRaw Gunzip Gzip Inflate InflateRaw " +
      "Unzip",
    tty: "ReadStream WriteStream",
    repl: "REPLServer Recoverable start writer",
    v8:
      "serialize deserialize getHeapStatistics writeHeapSnapshot Serializer Deserializer DefaultSerializer " +
      "DefaultDeserializer GCProfiler getHeapSnapshot getHeapSpaceStatistics setFlagsFromString",
    sqlite: "DatabaseSync",
    wasi: "WASI",
    async_hooks: "createHook executionAsyncId executionAsyncResource triggerAsyncId",
    inspector: "Session close open url waitForDebugger",
  };
  const isIP = (text) =>
    /^\d{1,3}(?:\.\d{1,3}){3}$/.test(text) ? 4 : /^[\da-f:.]*:[\da-f:.]*$/i.test(text) ? 6 : 0;
  const kCodesOfDns = Object.fromEntries(
    (
      "NODATA FORMERR SERVFAIL NOTFOUND NOTIMP REFUSED BADQUERY BADNAME BADFAMILY BADRESP CONNREFUSED TIMEOUT FILE " +
      "NOMEM DESTRUCTION BADSTR BADFLAGS NONAME BADHINTS NOTINITIALIZED LOADIPHLPAPI ADDRGETNETWORKPARAMS CANCELLED"
    )
      .split(" ")
      .map((name) => [name, `E${name}`]),
  );
  // What packages use of these modules when they need nothing from the outside world.
  const kHarmless = {
    tty: { isatty: () => false },
    worker_threads: {
      isMainThread: true,
      parentPort: null,
      workerData: null,
      threadId: 0,
      markAsUncloneable() {},
      markAsUntransferable() {},
    },
    cluster: { isMaster: true, isPrimary: true, isWorker: false },
    net: { isIP, isIPv4: (text) => isIP(text) === 4, isIPv6: (text) => isIP(text) === 6 },
    dns: {
      ...kCodesOfDns,
      EOF: "EOF",
      ADDRCONFIG: 32,
      ALL: 16,
      V4MAPPED: 8,
      get promises() {
        return builtin("dns/promises");
      },
    },
    "dns/promises": kCodesOfDns,
    http: {
      METHODS: ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"],
      STATUS_CODES: {},
      maxHeaderSize: 16384,
    },
    zlib: { constants: {} },
    http2: { constants: {} },
    diagnostics_channel: {
      channel: (name) => ({ name, hasSubscribers: false, publish() {}, subscribe() {}, unsubscribe: () => false }),
      hasSubscribers: () => false,
      tracingChannel: () => ({
        hasSubscribers: false,
        traceSync: (call, context, self, ...values) => call.apply(self, values),
      }),
    },
    async_hooks: shared.asyncHooks,
  };

  const hosts = new Map(); // "membrane" and its submodules
  const made = new Map();
  const isBuiltin = (name) => !/^(?:node:)?internal\//.test(name) && isKnown(name);
  const isKnown = (name) =>
    hosts.has(name) ||
    (name.startsWith("node:")
      ? factories.has(name.slice(5)) || Object.hasOwn(kAbsent, name.slice(5))
      : factories.has(name) || Object.hasOwn(kAbsent, name));

  // A module of Node's, created on first use.
  function builtin(given) {
    if (hosts.has(given)) return hosts.get(given);
    const name = given.replace(/^node:/, "");
    if (made.has(name)) return made.get(name);
    const factory =
      factories.get(name) ??
      ((exports, module) => {
        module.exports = absent(name);
      });
    const module = { exports: {} };
    made.set(name, module.exports);
    try {
      factory(module.exports, module, builtin);
    } catch (error) {
      made.delete(name);
      throw error;
    }
    made.set(name, module.exports);
    return module.exports;
  }
  const coded = (error, code) => Object.assign(error, { code });

  function refuse(what, why) {
    throw coded(new Error(`${what} is not available: ${why}`), "ERR_FEATURE_UNAVAILABLE_ON_PLATFORM");
  }

  // Packages ask for modules that they may never use: an absent one can be loaded, and throws when it is used.
  function absent(name) {
    const refusing = (what) =>
      function () {
        refuse(what, kAbsent[name]);
      };
    const own = {};
    for (const each of (kNamesOfAbsent[name] ?? "").split(" ").filter(Boolean))
      own[each] = refusing(`node:${name}'s ${each}`);
    Object.assign(own, kHarmless[name]);
    return Object.setPrototypeOf(
      own,
      new Proxy(Object.prototype, {
        get(above, key) {
          if (
            typeof key === "symbol" ||
            key in above ||
            ["default", "then", "__esModule", "toJSON", "module.exports"].includes(key)
          )
            return Reflect.get(above, key);
          return refusing(`node:${name}'s ${key}`);
        },
      }),
    );
  }
  const builtinNames = () => [...factories.keys()].filter((name) => !name.startsWith("internal/"));

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

  // Throws the error in a text without running it: of an ES module, or of a script with top-level await.
  shared.compileOnly = (code, name, isModule) => {
    if (isModule) evaluate(code, `${name}`, kCompiledModule);
    else evaluate(`${kCheckHead}${code}\n})`, name);
  };
  const kCheckHead = "(async function () {";
  shared.checkHead = kCheckHead;

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
  // For a path that no grant covers, the host says what grant would.
  function missingFile(name, path) {
    const { error } = request({ files: "stat", path, follow: true });
    const grant = error?.grant ? ` ${error.message} ${error.grant} would allow it.` : "";
    const why = `there is no ${path}, nor with ${kEndings.slice(1).join(", ")}, nor an index.js in it.${grant}`;
    const made = notFound(`Cannot find module '${name}': ${why}`);
    if (error?.grant) {
      Object.defineProperty(made, "name", { value: "PermissionError", writable: true, configurable: true });
      Object.assign(made, { errno: error.errno, grant: error.grant });
    }
    throw made;
  }

  // --- CommonJS ---

  const kTypeScript = /\.[cm]?ts$/;
  function withoutTypes(code) {
    if (!typescript) throw new Error("TypeScript is not available: the installed language lacks the library that removes types");
    refuseNamespaces(code);
    return typescript(code);
  }
  // These would be dropped silently. A namespace that contains only types is allowed.
  const kOfValues = new Set(["const", "let", "var", "function", "class", "enum", "async", "abstract"]);
  function refuseNamespaces(code) {
    if (!/\b(?:namespace|module)\s+[\w$]/.test(code)) return;
    const tokens = shared.tokensOf(code);
    for (let i = 0; i + 2 < tokens.length; ++i) {
      const { text, depth, at } = tokens[i];
      if ((text !== "namespace" && text !== "module") || tokens[i + 1].kind !== "word" || tokens[i + 1].line) continue;
      let begin = i + 2;
      while (tokens[begin]?.text === ".") begin += 2;
      let end = begin + 1;
      while (end < tokens.length && tokens[end].depth > depth) ++end;
      if (tokens[begin]?.text !== "{") continue;
      if (tokens[i - 1]?.text === "declare") {
        i = end;
        continue;
      }
      const hasValues = tokens.slice(begin, end).some((token, k, inside) => kOfValues.has(token.text) &&
        token.kind === "word" && token.depth === depth + 1 && inside[k - 1]?.text !== "declare");
      if (!hasValues) continue;
      const name = tokens.slice(i + 1, begin).map((token) => token.text).join("");
      const before = code.slice(0, at).split("\n");
      throw new SyntaxError(`the namespace ${name} has values, but only types are removed: make it an object (const ` +
        `${name.replaceAll(".", "_")} = { … }) or a module of its own (${before.length}:${before.at(-1).length + 1})`);
    }
  }

  // The regular expressions test every position of a text: a plain search is much cheaper if it suffices.
  const withoutMark = (code) => (code.startsWith("#!") ? `//${code.slice(2)}` : code);

  const cache = Object.create(null);
  const compiled = new Map(); // functions of files that were compiled, but not run yet
  const kHead = "(function (exports, require, module, __filename, __dirname) {";
  const kFail = Symbol("an ES module");

  // The function that wraps a CommonJS file; kFail for what can only be an ES module.
  function compile(path) {
    if (compiled.has(path)) return compiled.get(path);
    const text = readText(path);
    const code = withoutMark(kTypeScript.test(path) ? withoutTypes(text) : text);
    shared.keepSource(path, code, kHead.length);
    let run;
    try {
      run = isAlwaysModule(path) ? kFail : evaluate(`${kHead}${code}\n})`, path);
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
    return Object.hasOwn(kAbsent, bare)
      ? `: the module is not available: ${kAbsent[bare]}`
      : `: node:${bare} has no ${name} in Membrane`;
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
    for (const [path, code, head] of shared.sourcesOf(name)) {
      const tokens = shared.tokensOf(code);
      let at;
      for (let i = 0; i < tokens.length; ++i) {
        const { kind, text } = tokens[i];
        if (text === "import" || text === "export") at = undefined;
        else if (kind === "word" && text === name) at ??= tokens[i].at;
        else if (kind === "string" && at !== undefined && tokens[i - 1]?.text === "from") {
          if (isOf(path, text.slice(1, -1), module)) return placeIn(path, code, at, head);
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
  function placeIn(path, code, at, head) {
    const lines = code.slice(0, at).split("\n");
    return `${path}:${lines.length}:${lines.at(-1).length + 1 + (lines.length === 1 ? head : 0)}`;
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
    builtin,
    builtinNames,
    find,
    hosts,
    importLater,
    importNow,
    isBuiltin,
    kImport,
    kRequire,
    load,
    moduleOf,
    refuse,
    requireOf,
    resolve,
    whyOf,
    withoutMark,
    withMeta: (name, code) => withMeta(join("/", name), code, name),
    withoutTypes,
    isAlwaysModule,
    Module,
    cache,
    foldersFrom,
  });
})(globalThis);
