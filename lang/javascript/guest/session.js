// Console, timers, and the code interpreter: the last of the prelude's files. Its value is what the host calls: begin,
// settle, fail, rejected and step; a turn begins with {"session":"next"} and ends with {"session":"result",…}, as in Python.
((globalThis) => {
  "use strict";
  // Of the language's own, also where a program has put something else under their names.
  const { Error, JSON, Map, Math, Number, Object, Reflect, Set, Symbol, SyntaxError, TypeError, Uint8Array, Uint32Array, parseInt } = globalThis;
  const shared = globalThis.__membrane;
  const { ask, format, globals, inspect, isAlwaysModule, isModule, membrane, rewrite, scriptHead, stackOf, table } = shared;
  const { toBase64 } = shared;
  const write = globalThis.__membrane_write, sleep = globalThis.__membrane_sleep, tellPlace = globalThis.__membrane_place;
  for (const name of ["__membrane", "__membrane_write", "__membrane_sleep", "__membrane_place"]) delete globalThis[name];
  const hide = (name, value) =>
    Object.defineProperty(globalThis, name, { __proto__: null, value, writable: true, configurable: true, enumerable: false });

  const kMostPlaces = 64;
  const kMaxNames = 200, kMaxPrototypes = 100;  // for completion
  const isName = (text) => /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u.test(text);
  const kMaxText = 20_000;
  const kMaxRich = 8 << 20;
  const cut = (text, limit = kMaxText) => {
    if (text.length <= limit) return text;
    const half = Math.floor(limit / 2);
    return `${text.slice(0, half)}\n… ${text.length - 2 * half} characters left out …\n${text.slice(-half)}`;
  };

  // --- console ---

  const counts = new Map(), starts = new Map();
  let groupIndent = "";
  const print = (fd, text) =>
    write(fd, groupIndent === "" ? `${text}\n` : `${groupIndent}${text.replaceAll("\n", `\n${groupIndent}`)}\n`);
  const elapsed = (label) => {
    const ms = performance.now() - starts.get(label);
    return ms >= 1000 ? `${(ms / 1000).toFixed(3)}s` : `${Number(ms.toFixed(3))}ms`;
  };
  const console = {
    log: (...values) => print(1, format(...values)),
    error: (...values) => print(2, format(...values)),
    dir: (value, options) => print(1, inspect(value, options)),
    table: (data, columns) => print(1, table(data, columns)),
    assert: (holds, ...values) => {
      if (holds) return;
      if (typeof values[0] === "string") values[0] = `Assertion failed: ${values[0]}`;
      else values.unshift(values.length ? "Assertion failed:" : "Assertion failed");
      console.error(...values);
    },
    count: (label = "default") => {
      counts.set(`${label}`, (counts.get(`${label}`) ?? 0) + 1);
      print(1, `${label}: ${counts.get(`${label}`)}`);
    },
    countReset: (label = "default") => void counts.delete(`${label}`),
    time: (label = "default") => void starts.set(`${label}`, performance.now()),
    timeLog: (label = "default", ...values) => {
      if (starts.has(`${label}`)) print(1, format(`${label}: ${elapsed(`${label}`)}`, ...values));
    },
    timeEnd: (label = "default") => {
      console.timeLog(label);
      starts.delete(`${label}`);
    },
    group: (...values) => {
      if (values.length) console.log(...values);
      groupIndent += "  ";
    },
    groupEnd: () => { groupIndent = groupIndent.slice(2); },
    trace: (...values) => print(2, `Trace${values.length ? `: ${format(...values)}` : ""}\n${new Error().stack.split("\n")
      .filter((line) => /^\s*at /.test(line) && !/membrane:/.test(line)).join("\n")}`.trimEnd()),
    clear() {},
  };
  Object.assign(console, { info: console.log, debug: console.log, warn: console.error, groupCollapsed: console.group, dirxml: console.log });

  // --- timers: time advances to the next one when there is nothing else to do ---

  // A binary heap by the time that each is due, then by age. A timer's place is its index there; -1 when it is in it no more.
  let timers = [], nextTimer = 1, now = 0;
  let timersById = { __proto__: null };  // the engine's Map is slow with numbers in sequence
  class Timeout {
    constructor(call, values, ms, isInterval) {
      if (typeof call !== "function") throw new TypeError('The "callback" argument must be of type function. Received ' + inspect(call));
      const delay = Number(ms);
      this.call = shared.withContext(call);
      this.values = values;
      this.ms = delay >= 1 && delay <= 0x7fffffff ? delay : 1;
      this.isInterval = isInterval;
      this.id = nextTimer++;
      this.isRef = true;
      this.at = now + (isInterval === null ? 0 : this.ms);
      this.place = timers.push(this) - 1;
      timersById[this.id] = this;
      rise(this);
    }
    ref() { this.isRef = true; return this; }
    unref() { this.isRef = false; return this; }
    hasRef() { return this.isRef; }
    refresh() {
      this.at = now + this.ms;
      if (this.place >= 0) move(this);
      return this;
    }
    close() { clear(this); return this; }
    [Symbol.toPrimitive]() { return this.id; }
    [Symbol.for("nodejs.util.inspect.custom")]() { return `Timeout { id: ${this.id} }`; }
  }
  const isEarlier = (a, b) => a.at < b.at || (a.at === b.at && a.id < b.id);
  function place(timer, index) {
    timers[index] = timer;
    timer.place = index;
  }
  function rise(timer) {
    while (timer.place > 0) {
      const above = timers[(timer.place - 1) >> 1], index = above.place;
      if (!isEarlier(timer, above)) return;
      place(above, timer.place);
      place(timer, index);
    }
  }
  function sink(timer) {
    for (;;) {
      const left = timers[2 * timer.place + 1], right = timers[2 * timer.place + 2];
      const below = right !== undefined && isEarlier(right, left) ? right : left, index = below?.place;
      if (below === undefined || !isEarlier(below, timer)) return;
      place(below, timer.place);
      place(timer, index);
    }
  }
  function move(timer) {
    rise(timer);
    sink(timer);
  }
  function clear(given) {
    const timer = given !== null && typeof given === "object" ? given : timersById[Number(given)];
    if (!(timer instanceof Timeout) || timer.place < 0) return;
    const last = timers.pop();
    if (last !== timer) {
      place(last, timer.place);
      move(last);
    }
    timer.place = -1;
    delete timersById[timer.id];
  }
  function clearAll() {
    for (const timer of timers) timer.place = -1;
    timers = [];
    timersById = { __proto__: null };
  }

  // Runs the timer that is due next; false if there is none.
  function runTimer() {
    if (timers.length === 0) return false;
    const [next] = timers;
    if (next.at > now) {
      sleep(next.at - now);
      now = next.at;
    }
    if (next.isInterval) {
      next.at = now + next.ms;
      move(next);
    } else {
      clear(next);
    }
    next.call(...next.values);
    return true;
  }

  const bareMicrotask = globalThis.queueMicrotask;
  Object.assign(globals, {
    console,
    setTimeout: (call, ms, ...values) => new Timeout(call, values, ms, false),
    setInterval: (call, ms, ...values) => new Timeout(call, values, ms, true),
    setImmediate: (call, ...values) => new Timeout(call, values, 1, null),
    clearTimeout: clear, clearInterval: clear, clearImmediate: clear,
    // Exceptions thrown there would be lost: they are reported like a timer's.
    queueMicrotask: (given) => {
      const call = shared.withContext(given);
      bareMicrotask(() => {
        try {
          call();
        } catch (error) {
          turn?.fail(error);
        }
      });
    },
  });

  // util.promisify() of these returns the functions of node:timers/promises.
  for (const name of ["setTimeout", "setImmediate"])
    Object.defineProperty(globals[name], Symbol.for("nodejs.util.promisify.custom"), {
      get: () => shared.builtin("timers/promises")[name], configurable: true, enumerable: false });

  // --- randomness: Math.random from a generator that a fork can seed again (xoshiro128**, David Blackman, Sebastiano Vigna) ---

  const state = new Uint32Array(4);
  const rotate = (word, by) => word << by | word >>> 32 - by;
  function randomWord() {
    const word = Math.imul(rotate(Math.imul(state[1], 5), 7), 9) >>> 0;
    const shifted = state[1] << 9;
    state[2] ^= state[0];
    state[3] ^= state[1];
    state[1] ^= state[2];
    state[0] ^= state[3];
    state[2] ^= shifted;
    state[3] = rotate(state[3], 11);
    return word;
  }
  function reseed(bytes) {
    state.set(new Uint32Array(bytes.slice(0, 16).buffer));
    if (state.every((word) => word === 0)) state[0] = 1;
  }
  Math.random = () => (randomWord() * 0x200000 + (randomWord() >>> 11)) / 0x20000000000000;
  const hexBytes = (text) => Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));

  // --- weak references: a target stays until the jobs are done, though the engine frees what nothing else refers to at once ---

  const inUse = new Set();
  const { WeakRef } = globalThis, { deref } = WeakRef.prototype;
  const inUseNow = (target) => {
    if (target !== undefined) inUse.add(target);
    return target;
  };
  const OfProgram = new Proxy(WeakRef, {
    construct(bare, values, of) {
      const made = Reflect.construct(bare, values, of);
      inUseNow(values[0]);
      return made;
    },
  });
  const ofPrototype = { deref() { return inUseNow(Reflect.apply(deref, this, [])); }, constructor: OfProgram };
  for (const [name, value] of Object.entries(ofPrototype))
    Object.defineProperty(WeakRef.prototype, name, { __proto__: null, value, writable: true, configurable: true, enumerable: false });
  hide("WeakRef", OfProgram);

  // --- displays ---

  let displays = [];
  const kMethods = { _repr_html_: "text/html", _repr_markdown_: "text/markdown", _repr_svg_: "image/svg+xml", _repr_png_: "image/png",
                     _repr_latex_: "text/latex", _repr_json_: "application/json" };

  function bundleOf(value) {
    const shown = {};
    try {
      shown["text/plain"] = cut(inspect(value));
      if (value === null || typeof value !== "object") return shown;
      const forms = { ...(value[Symbol.for("Jupyter.display")]?.() ?? value._repr_mimebundle_?.() ?? {}) };
      for (const [method, mime] of Object.entries(kMethods))
        if (typeof value[method] === "function") forms[mime] = value[method]();
      for (const [mime, form] of Object.entries(forms)) {
        if (form === undefined || form === null || mime === "text/plain") continue;
        const text = JSON.stringify(form instanceof Uint8Array ? { base64: toBase64(form) } : form);
        const size = text.length;
        if (size > kMaxRich) shown["text/plain"] += `\n<its ${mime} has ${size} bytes, and is left out>`;
        else shown[mime] = JSON.parse(text);
      }
    } catch (error) {
      shown["text/plain"] = `${shown["text/plain"] ?? ""}\n<showing it threw ${headOf(error)}>`.trimStart();
    }
    return shown;
  }
  const headOf = (error) => {
    try {
      return error instanceof Error ? `${error.name}: ${error.message}` : inspect(error);
    } catch {
      return "what cannot be shown";
    }
  };
  globals.display = (...values) => { displays.push(...values.map(bundleOf)); };

  // --- process, and the global names of modules ---

  const ofProcess = shared.makeProcess({
    write, end: (code) => turn.end(code), fail: (error) => turn?.fail(error), defer: bareMicrotask });
  const { process, Exit, readLine, runTicks } = ofProcess;
  globals.process = process;
  globals.global = globalThis;

  const { hosts, importLater, importNow, keepSource, load, moduleOf, requireOf, resolve, sourceOf, whyOf } = shared;
  const { withoutTypes } = shared;
  hosts.set("membrane", { ...membrane, display: globals.display, default: membrane });
  for (const [name, functions] of Object.entries(membrane))
    hosts.set(`membrane/${name}`, { ...functions, default: functions });
  const isTypeScript = (name) => /\.[cm]?ts$/.test(name);

  hide("__membrane_import", importNow);
  hide("__membrane_import_later", (name, ...needed) => importLater(turn?.request.name ?? "", name, needed));
  // Runs a script, whose names are local to a function; callbacks that it deferred to the end of its first part run then.
  hide("__membrane_main", (run) => {
    const module = moduleOf(turn?.request.name ?? "", true);
    const promise = run.call(module.exports, module.exports, requireOf(module), module, module.filename, module.path);
    runTicks();
    return promise;
  });
  globals.require = requireOf(moduleOf("<cell>", false));
  for (const [name, value] of Object.entries(globals)) hide(name, value);
  // Node's own classes are loaded on first use.
  Object.defineProperty(globalThis, "Buffer", {
    get: () => shared.builtin("buffer").Buffer, set: (value) => hide("Buffer", value), configurable: true, enumerable: false });

  globals.prompt = (question = "") => {
    if (question) write(1, `${question} `);
    return readLine();
  };
  hide("prompt", globals.prompt);

  // --- turns ---

  let turn = null;

  // The last value is `_` until the program assigns its own, as in Node's REPL.
  let last;
  const { get: getLast, set: setLast } = Object.getOwnPropertyDescriptor({
    get _() { return last; },
    set _(value) { Object.defineProperty(globalThis, "_", { __proto__: null, value, writable: true, configurable: true, enumerable: true }); },
  }, "_");
  function keepLast(value) {
    last = value;
    if (Object.hasOwn(globalThis, "_")) return;
    Reflect.defineProperty(globalThis, "_", { __proto__: null, get: getLast, set: setLast, configurable: true, enumerable: false });
  }

  // Works even if the program has frozen the global object.
  function giveRequire() {
    Reflect.defineProperty(globalThis, "require",
                           { __proto__: null, value: globals.require, writable: true, configurable: true, enumerable: false });
  }

  class Turn {
    constructor(request) {
      this.request = request;
      this.isScript = request.mode === "script";
      this.isWrapped = false;  // its text is the body of a function
      this.settled = false;
      this.result = { outcome: "ok", value: null, displays: [], error: null, exit_code: 0 };
      this.exit = undefined;
      this.lost = new Map();  // unhandled rejections
    }

    // The code has finished. What timers do later still belongs to it.
    finish(value) {
      if (this.settled) return;
      this.settled = true;
      if (value === undefined || this.isScript) return;
      this.result.value = bundleOf(value);
      keepLast(value);
    }
    // The program exits: its listeners are notified once.
    end(code) {
      if (this.exit !== undefined) return;
      this.exit = code;
      this.tellOfExit(code);
    }
    tellOfExit(code) {
      if (this.hasToldOfExit || !ofProcess.emitter) return;
      this.hasToldOfExit = true;
      try {
        ofProcess.emitter.emit("exit", code);
      } catch (error) {
        if (!(error instanceof Exit)) {
          this.exit = undefined;
          this.fail(error);
        }
      }
    }
    // Whether the program has handled it.
    isTaken(name, ...values) {
      if (this.exit !== undefined || !ofProcess.emitter?.listenerCount(name)) return false;
      try {
        ofProcess.emitter.emit(name, ...values);
        return true;
      } catch (error) {
        this.fail(error, true);
        return true;
      }
    }
    fail(error, isFinal = false) {
      this.settled = true;
      if (!isFinal && this.isTaken("uncaughtException", error, "uncaughtException")) return;
      if (this.exit !== undefined) {
        clearAll();
        Object.assign(this.result, { outcome: "exit", value: null, error: null, exit_code: this.exit });
      } else if (this.result.outcome === "ok") {
        clearAll();
        Object.assign(this.result, { outcome: "error", value: null, error: errorOf(error), exit_code: 1 });
      }
    }
    get isOver() {
      return this.settled && !timers.some((timer) => timer.isRef && (this.isScript || !timer.isInterval));
    }
    tell() {
      const [lost] = this.lost.values();
      if (this.lost.size) this.fail(lost);
      if (this.isScript && this.exit === undefined)
        this.tellOfExit(this.result.outcome === "ok" ? Number(process.exitCode ?? 0) & 0xff : 1);
      if (this.result.outcome === "ok" && this.isScript && process.exitCode !== undefined)
        Object.assign(this.result, { outcome: "exit", exit_code: Number(process.exitCode) & 0xff });
      if (this.isScript) clearAll();
      this.result.displays = displays;
      try {
        ask({ session: "result", ...this.result });
      } catch (error) {  // too large, for example: the outcome must get through
        Object.assign(this.result, { displays: [], value: { "text/plain": `<the result could not be given: ${headOf(error)}>` } });
        ask({ session: "result", ...this.result });
      }
    }
  }

  const isCell = (name) => /^<.*>$/.test(name);
  // What the engine's "not a function" leaves out. A place in a cell is one of its rewritten text.
  function namedCall(error, code, place) {
    if (error.message !== "not a function" || typeof code !== "string" || !shared.isOfProgram(error)) return undefined;
    const ran = isCell(place[1]) ? rewrite(code, false) : code;
    const before = ran.split("\n").slice(0, place[2] - 1);
    return shared.notAFunction(ran, before.join("\n").length + (before.length ? 1 : 0) + Number(place[3] ?? 1) - 1, isCell(place[1]));
  }

  // The line of the error, if it is in a cell, followed by the stack.
  function errorOf(error) {
    let type = "Error", message = "", text = "";
    try {
      if (error instanceof Error) {
        type = `${error.name}`;
        text = inspect(error);
        const place = /(?:\(|at )([^()\n]+?):(\d+)(?::(\d+))?\)?$/m.exec(stackOf(error).split("\n").slice(1).join("\n"));
        const code = place && sourceOf(place[1]), line = code?.split("\n")[place[2] - 1];
        message = `${namedCall(error, code, place) ?? error.message}${shared.hintOf(`${error.message}`, code, line)}`;
        if (message !== error.message) text = text.replace(error.message, () => message);
        if (line !== undefined && line.trim() !== "") text = `${place[1]}:${place[2]}\n${line}\n\n${text}`;
      } else {
        type = error === null ? "null" : typeof error;
        message = typeof error === "string" ? error : inspect(error);
        text = `Uncaught ${inspect(error)}`;
      }
    } catch {
      text ||= `${type}: ${message}`;
    }
    return { type, message: cut(message), traceback: cut(`${text}\n`, 100_000) };
  }

  function guard(call) {
    try {
      call();
    } catch (error) {
      turn.fail(error);
    }
  }

  reseed(shared.randomBytes(16));

  return {
    resolve, load,
    begin() {
      const request = ask({ session: "next" });
      turn = new Turn(request);
      inUse.clear();
      shared.context = undefined;  // a turn that was stopped has left its own
      shared.filesChanged();  // changes by others between two turns
      displays = [];
      groupIndent = "";
      if (request.fresh) reseed(hexBytes(request.fresh.entropy_hex));
      if (request.functions) shared.defineFunctions(request.functions);
      if ("zone" in request) shared.useZone(request.zone);
      const name = request.name || "<cell>";
      if (request.mode === "check") {
        const found = { outcome: "ok", value: null, displays: [], error: null, exit_code: 0, ...check(request, name) };
        ask({ session: "result", ...found });
        turn = null;
        return undefined;
      }
      if (request.mode === "complete") {
        const value = { "text/plain": namesFor(request.code).join("\n") };
        ask({ session: "result", outcome: "ok", value, displays: [], error: null, exit_code: 0 });
        turn = null;
        return undefined;
      }
      process.argv = ["node", turn.isScript ? name : "", ...(request.arguments ?? [])];
      process.exitCode = undefined;
      ofProcess.begin(request.input ?? "", turn.isScript, request.input_waits);
      try {
        if (request.inputs) shared.assign(request.inputs);
        let code = request.code;
        if (isTypeScript(name) || request.language === "typescript") code = withoutTypes(code);
        if (turn.isScript && !/\.c[jt]s$/.test(name) && (isModuleFile(name) || isModule(code))) {
          const whole = shared.withMeta(name, shared.withoutMark(code));
          if (whole === code) keepSource(name, code);
          Reflect.deleteProperty(globalThis, "require");  // Node's modules do not have it
          return { code: whole, name, isModule: true };
        }
        keepSource(name, code, turn.isScript ? scriptHead.length : 0);
        turn.isWrapped = turn.isScript;
        giveRequire();
        return { code: rewrite(code, turn.isScript), name, isModule: false };
      } catch (error) {
        turn.fail(error);
        turn.tell();
        turn = null;
        return undefined;
      }
    },
    settle(promise) {
      promise.then((done) => turn.finish(done?.value), (error) => turn.fail(whyOf(error)));
    },
    fail(error) { turn.fail(turn.isWrapped && error instanceof SyntaxError ? inText(error) : whyOf(error)); },
    // For a turn that was stopped and has ended: where the engine interrupted it, or where it makes a host request.
    where(error) {
      if (error !== undefined && !(error instanceof InternalError && error.message === "interrupted")) return;
      Error.stackTraceLimit = kMostPlaces;
      tellPlace(stackOf(error ?? new Error()));
    },
    rejected(promise, reason, isHandled) {
      if (isHandled) turn?.lost.delete(promise);
      else turn?.lost.set(promise, reason);
    },
    // 1: there is more to do; 0: the turn has ended, and its result has been sent.
    step() {
      if (turn === null) return 0;
      runTicks();
      if (inUse.size) {
        inUse.clear();
        return 1;  // callbacks of a FinalizationRegistry may have become jobs
      }
      if (turn.result.outcome === "ok" && turn.lost.size) tellOfLost();
      if (!turn.isOver) {
        if (timers.length) {
          guard(runTimer);
          runTicks();
          return 1;
        }
        turn.fail(new Error("the program awaits a promise that nothing can settle any more"));
        return 1;
      }
      turn.tell();
      turn = null;
      return 0;
    },
  };

  // The completions of the name at the end of the text.
  function namesFor(code) {
    try {
      const [word] = /[\p{ID_Continue}$.]*$/u.exec(code);
      const owners = word.split("."), begun = owners.pop();
      if (word === "" || owners.some((owner) => !isName(owner))) return [];
      let value = globalThis;
      for (const owner of owners) value = value[owner];
      if (value === undefined || value === null) return [];
      const names = new Set();
      for (let from = Object(value), depth = 0; from !== null && depth < kMaxPrototypes; ++depth) {
        for (const name of Object.getOwnPropertyNames(from))
          if (name.startsWith(begun) && isName(name) && (begun.startsWith("_") || !name.startsWith("_"))) names.add(name);
        from = Object.getPrototypeOf(from);
      }
      return [...names].sort().slice(0, kMaxNames);
    } catch {
      return [];  // a getter threw, for example
    }
  }

  // Whether the text is valid JavaScript or TypeScript; none of it runs.
  function check(request, name) {
    try {
      compileOnly(request, name);
      return {};
    } catch (error) {
      const described = errorOf(error);
      const places = stackOf(error).split("\n").slice(1).join("\n");
      const [, line, column] = /:(\d+):(\d+)\)?$/m.exec(places) ?? /\((\d+):(\d+)\)/.exec(described.message) ?? [];
      const place = { line: Number(line ?? 0), column: Number(column ?? 0) };
      return { outcome: "error", exit_code: 1, error: { ...described, ...place } };
    }
  }
  function compileOnly({ code: given, language }, name) {
    const code = isTypeScript(name) || language === "typescript" ? withoutTypes(given) : given;
    const isWhole = /\.m[jt]s$/.test(name) || (!/\.c[jt]s$/.test(name) && (isModuleFile(name) || isModule(code)));
    keepSource(name, code, isWhole ? 0 : shared.checkHead.length);
    shared.compileOnly(isWhole ? shared.withoutMark(code) : shared.rewriteBody(code, !isCell(name)), name, isWhole);
  }

  // The error of a script as `check` has it, without what is around its text.
  function inText(error) {
    const { code, language, name = "<cell>" } = turn.request;
    try {
      compileOnly({ code, language }, name);
    } catch (found) {
      return found;
    }
    return whyOf(error);
  }

  function tellOfLost() {
    const [[promise, reason]] = turn.lost;
    turn.lost.delete(promise);
    if (!turn.isTaken("unhandledRejection", reason, promise)) turn.fail(reason);
  }
  // By its name, or by its package.
  function isModuleFile(name) {
    try {
      return /\.m[jt]s$/.test(name) || isAlwaysModule(`/${name.replace(/^\/+/, "")}`);
    } catch {
      return false;  // an unreadable package.json is ignored
    }
  }
})(globalThis);
