// Node modules of a few lines each.
(() => {
  "use strict";
  const shared = globalThis.__membrane;
  const define = (name, make) =>
    shared.factories.set(name, (exports, module, load) => {
      module.exports = make(load);
    });

  define("internal/shared", () => shared);
  define("process", () => globalThis.process);
  define("console", () => Object.assign(globalThis.console, { Console: globalThis.console.Console }));
  define("punycode", () => ({
    toASCII: (name) => name,
    toUnicode: (name) => name,
    ucs2: {
      decode: (text) => Array.from(text, (c) => c.codePointAt(0)),
      encode: (codes) => String.fromCodePoint(...codes),
    },
  }));
  define("constants", (load) => ({ ...load("fs").constants, ...load("internal/errno").constants }));

  const home = () => globalThis.process.env.HOME ?? "/home";
  define("os", (load) => ({
    EOL: "\n",
    devNull: "/dev/null",
    platform: () => globalThis.process.platform,
    type: () => "Linux",
    release: () => "0",
    version: () => "membrane",
    machine: () => "wasm32",
    arch: () => globalThis.process.arch,
    tmpdir: () => "/tmp",
    homedir: home,
    hostname: () => "membrane",
    endianness: () => "LE",
    uptime: () => globalThis.process.uptime(),
    loadavg: () => [0, 0, 0],
    totalmem: () => 4 * 2 ** 30,
    freemem: () => 2 ** 30,
    availableParallelism: () => 1,
    networkInterfaces: () => ({}),
    getPriority: () => 0,
    setPriority() {},
    cpus: () => [{ model: "wasm32", speed: 0, times: { user: 0, nice: 0, sys: 0, idle: 0, irq: 0 } }],
    userInfo: () => ({ uid: 0, gid: 0, username: "user", homedir: home(), shell: null }),
    constants: {
      errno: load("internal/errno").constants,
      signals: { SIGHUP: 1, SIGINT: 2, SIGQUIT: 3, SIGKILL: 9, SIGTERM: 15 },
    },
  }));

  // --- timers ---

  const wait =
    (load, begin, end) =>
    (ms, value, { signal, ref = true } = {}) =>
      new Promise((resolve, reject) => {
        const { abortError } = load("internal/check");
        if (signal?.aborted) return reject(abortError(signal));
        const timer = begin(() => {
          signal?.removeEventListener("abort", abort);
          resolve(value);
        }, ms);
        const abort = () => {
          end(timer);
          reject(abortError(signal));
        };
        if (!ref) timer.unref?.();
        signal?.addEventListener("abort", abort, { once: true });
      });
  define("timers/promises", (load) => {
    const setTimeout = wait(load, globalThis.setTimeout, globalThis.clearTimeout);
    const now = wait(load, (call) => globalThis.setImmediate(call), globalThis.clearImmediate);
    async function* setInterval(ms, value, options) {
      for (;;) yield await setTimeout(ms, value, options);
    }
    return {
      setTimeout,
      setImmediate: (value, options) => now(0, value, options),
      setInterval,
      scheduler: { wait: (ms, options) => setTimeout(ms, undefined, options), yield: () => now(0) },
    };
  });
  define("timers", (load) => {
    const { setTimeout, setInterval, setImmediate, clearTimeout, clearInterval, clearImmediate } = globalThis;
    return {
      setTimeout,
      setInterval,
      setImmediate,
      clearTimeout,
      clearInterval,
      clearImmediate,
      promises: load("timers/promises"),
    };
  });

  define("perf_hooks", () => {
    const { performance } = globalThis;
    performance.timeOrigin ??= 0;
    const marks = new Map();
    class PerformanceEntry {
      constructor(name, entryType, startTime, duration, detail = null) {
        Object.assign(this, { name, entryType, startTime, duration, detail });
      }
    }
    const timeOf = (mark, otherwise) =>
      mark === undefined
        ? otherwise
        : typeof mark === "number"
          ? mark
          : (marks.get(mark)?.startTime ??
            (() => {
              throw new SyntaxError(`The "${mark}" performance mark has not been set`);
            })());
    Object.assign(performance, {
      mark(name, { startTime = performance.now(), detail } = {}) {
        const entry = new PerformanceEntry(name, "mark", startTime, 0, detail);
        marks.set(name, entry);
        return entry;
      },
      measure(name, start, end) {
        if (start !== null && typeof start === "object") ({ start, end } = start);
        const from = timeOf(start, 0),
          entry = new PerformanceEntry(name, "measure", from, timeOf(end, performance.now()) - from);
        marks.set(`measure ${name}`, entry);
        return entry;
      },
      clearMarks: (name) => (name === undefined ? marks.clear() : marks.delete(name)),
      clearMeasures() {},
      getEntries: () => [...marks.values()],
      getEntriesByName: (name) => [...marks.values()].filter((entry) => entry.name === name),
      getEntriesByType: (type) => [...marks.values()].filter((entry) => entry.entryType === type),
      timerify: (call) => call,
      toJSON: () => ({ timeOrigin: performance.timeOrigin }),
    });
    class PerformanceObserver {
      observe() {}
      disconnect() {}
      takeRecords() {
        return [];
      }
    }
    return { performance, PerformanceEntry, PerformanceObserver, constants: {} };
  });

  define("vm", (load) => {
    const kMostScripts = 16; // nested; the host bounds them, too, and ends the turn
    let scripts = 0;
    function runInThisContext(code, options) {
      if (scripts >= kMostScripts) throw new RangeError("Maximum call stack size exceeded");
      const name = typeof options === "string" ? options : (options?.filename ?? "evalmachine.<anonymous>");
      ++scripts;
      try {
        return shared.evaluate(`${code}`, `${name}`);
      } finally {
        --scripts;
      }
    }
    class Script {
      constructor(code, options) {
        Object.defineProperties(this, { _code: { value: `${code}` }, _options: { value: options } });
      }
      runInThisContext() {
        return runInThisContext(this._code, this._options);
      }
      runInNewContext() {
        return oneContext();
      }
      runInContext() {
        return oneContext();
      }
    }
    const oneContext = () => {
      throw load("internal/check").coded(
        Error,
        "ERR_FEATURE_UNAVAILABLE_ON_PLATFORM",
        "there is one context: run code with vm.runInThisContext(), or hand values to new Function()",
      );
    };
    return {
      runInThisContext,
      Script,
      createContext: oneContext,
      runInContext: oneContext,
      runInNewContext: oneContext,
      isContext: () => false,
      constants: {
        __proto__: null,
        USE_MAIN_CONTEXT_DEFAULT_LOADER: Symbol("vm_dynamic_import_main_context_default"),
        DONT_CONTEXTIFY: Symbol("vm_context_no_contextify"),
      },
    };
  });

  define("module", (load) => {
    const { Module } = shared;
    const createRequire = (from) => {
      const name = from instanceof URL || `${from}`.startsWith("file:") ? load("url").fileURLToPath(from) : `${from}`;
      if (!name.startsWith("/"))
        load("internal/check").wrongValue(
          "filename",
          from,
          "must be a file URL object, file URL string, or absolute path string",
        );
      return shared.requireOf(new Module(name.endsWith("/") ? `${name}noop.js` : name, null));
    };
    return Object.assign(Module, {
      Module,
      createRequire,
      builtinModules: shared.builtinNames(),
      isBuiltin: (name) => shared.isBuiltin(`${name}`) && !`${name}`.startsWith("membrane"),
      _cache: shared.cache,
      _nodeModulePaths: (from) => shared.foldersFrom(from),
      _resolveFilename: (name, parent) => shared.find(parent?.path ?? "/", name, shared.kRequire),
      _extensions: Object.create(null),
      globalPaths: [],
      findPackageJSON: () => undefined,
    });
  });
})();
