// node:fs over the files that the program has and its grants. Each function is a request at the door or a few; those
// with callbacks and promises do the same, and report the result later. The parts are in fs/.
(() => {
  "use strict";
  const shared = globalThis.__membrane;

  shared.factories.set("fs", (exports, module, load) => {
    const { checkFunction, coded } = load("internal/check");
    const { readSync, writeSync } = load("internal/fs/files");
    const { later, promised, promises } = load("internal/fs/promises");
    const { constants } = load("internal/fs/request");
    const { Dirent, Stats, existsSync } = load("internal/fs/stats");
    const { Dir, sync } = load("internal/fs/sync");

    // --- with callbacks ---

    function withCallback(act, name) {
      const made = function (...values) {
        const call = values.pop();
        checkFunction(call, "cb");
        let results,
          failure = null;
        try {
          results = act(...values);
        } catch (error) {
          if (!error.syscall && !String(error.code).startsWith("ERR_FS")) throw error;
          failure = error;
        }
        later(() => (failure ? call(failure) : results === undefined ? call(null) : call(null, results)));
      };
      return Object.defineProperty(made, "name", { value: name });
    }
    const fs = { constants, Stats, Dirent, ...sync, F_OK: 0, R_OK: 4, W_OK: 2, X_OK: 1 };
    for (const [name, act] of Object.entries(sync)) {
      const bare = name.slice(0, -"Sync".length);
      fs[bare] = withCallback(act, bare);
    }
    const kPromisified = load("util").promisify.custom;
    fs.exists = (given, call) => later(() => call(existsSync(given)));
    fs.exists[kPromisified] = (given) => promised(() => existsSync(given));
    for (const [name, act] of [
      ["read", readSync],
      ["write", writeSync],
    ]) {
      fs[name] = (fd, data, ...values) => {
        const call = values.pop();
        const count = act(fd, data, ...values);
        later(() => call(null, count, data));
      };
      fs[name][kPromisified] = (fd, data, ...values) =>
        promised(() => ({ [name === "read" ? "bytesRead" : "bytesWritten"]: act(fd, data, ...values), buffer: data }));
    }
    fs.realpath.native = fs.realpath;
    Object.assign(fs, { Dir, promises });

    for (const name of ["createReadStream", "createWriteStream"])
      fs[name] = (given, options) => load("internal/fs/streams")[name](given, options);

    // --- watching ---

    const noWatching = (name) => () => {
      throw coded(
        Error,
        "ERR_FEATURE_UNAVAILABLE_ON_PLATFORM",
        `fs.${name}() is not available: nothing else changes the program's files while it runs. Read the file again where it matters.`,
      );
    };
    for (const name of ["watch", "watchFile"]) fs[name] = noWatching(name);
    fs.unwatchFile = () => {};
    fs.promises.watch = noWatching("promises.watch");
    module.exports = fs;
  });
  shared.factories.set("fs/promises", (exports, module, load) => {
    module.exports = load("fs").promises;
  });
})();
