// Console, timers, and the code interpreter: the last of the prelude's files. Its value is what the host calls: begin,
// settle, fail, rejected and step; a turn is told of by {"session":"next"} and {"session":"result",…}, as in Python.
(() => {
  "use strict";
  const shared = globalThis.__membrane;
  const { ask, format, globals, inspect, isModule, membrane, rewrite, stackOf, table, toBase64 } = shared;
  const write = globalThis.__membrane_write, sleep = globalThis.__membrane_sleep;
  const evaluate = globalThis.__membrane_evaluate;
  const typescript = globalThis.__membrane_typescript;
  for (const name of ["__membrane", "__membrane_write", "__membrane_sleep", "__membrane_evaluate", "__membrane_typescript"]) delete globalThis[name];
  const hide = (name, value) =>
    Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false });

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
  const print = (fd, text) => write(fd, `${groupIndent}${text.replaceAll("\n", `\n${groupIndent}`)}\n`);
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

  // --- timers: time moves on to the next one when nothing else is to do ---

  let timers = [], nextTimer = 1, now = 0;
  class Timeout {
    constructor(call, values, ms, isInterval) {
      if (typeof call !== "function") throw new TypeError('The "callback" argument must be of type function. Received ' + inspect(call));
      const delay = Number(ms);
      Object.assign(this, { call, values, ms: delay >= 1 && delay <= 0x7fffffff ? delay : 1, isInterval, id: nextTimer++, isRef: true });
      this.at = now + (isInterval === null ? 0 : this.ms);
      timers.push(this);
    }
    ref() { this.isRef = true; return this; }
    unref() { this.isRef = false; return this; }
    hasRef() { return this.isRef; }
    refresh() { this.at = now + this.ms; return this; }
    close() { clear(this); return this; }
    [Symbol.toPrimitive]() { return this.id; }
    [Symbol.for("nodejs.util.inspect.custom")]() { return `Timeout { id: ${this.id} }`; }
  }
  const clear = (timer) => {
    timers = timers.filter((t) => t !== timer && t.id !== (typeof timer === "object" ? undefined : Number(timer)));
  };

  // Runs the timer that is due next; false when there is none.
  function runTimer() {
    if (timers.length === 0) return false;
    const next = timers.reduce((a, b) => b.at < a.at || (b.at === a.at && b.id < a.id) ? b : a);
    if (next.at > now) {
      sleep(next.at - now);
      now = next.at;
    }
    if (next.isInterval) next.at = now + next.ms;
    else clear(next);
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
    // What is thrown there would be lost: it is told of as a timer's is.
    queueMicrotask: (call) => bareMicrotask(() => {
      try {
        call();
      } catch (error) {
        turn?.fail(error);
      }
    }),
  });

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

  // --- what is shown ---

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
        const made = form instanceof Uint8Array ? { base64: toBase64(form) } : form;
        const size = JSON.stringify(made).length;
        if (size > kMaxRich) shown["text/plain"] += `\n<its ${mime} has ${size} bytes, and is left out>`;
        else shown[mime] = made;
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

  // --- modules: of the host, made of objects; and files, which are read when they are first imported ---

  const modules = new Map([["membrane", { ...membrane, display: globals.display, default: membrane }]]);
  for (const [name, functions] of Object.entries(membrane)) modules.set(`membrane/${name}`, { ...functions, default: functions });
  modules.set("node:util", { inspect, format, default: { inspect, format } });
  const kMostScripts = 16;  // one inside of another: the host bounds them, too, and ends the turn
  let scripts = 0;
  function runInThisContext(code, options) {
    if (scripts >= kMostScripts) throw new RangeError("Maximum call stack size exceeded");
    const name = typeof options === "string" ? options : options?.filename ?? "evalmachine.<anonymous>";
    ++scripts;
    try {
      return evaluate(`${code}`, `${name}`);
    } finally {
      --scripts;
    }
  }
  modules.set("node:vm", { runInThisContext, default: { runInThisContext } });

  const isPath = (name) => /^\.{0,2}\//.test(name);
  const isTypeScript = (name) => /\.[cm]?ts$/.test(name);
  const missing = (name) => new Error(`Cannot find module '${name}': there are ${[...modules.keys()].slice(0, 4).join(", ")}, …; ` +
    "packages are not there, and a file begins with ./, ../ or /");

  // A name as it stands in `base`, by which the module is known.
  function resolve(base, name) {
    if (!isPath(name)) return !modules.has(name) && modules.has(`node:${name}`) ? `node:${name}` : name;
    const parts = [];
    for (const part of (name.startsWith("/") ? name : `${base.replace(/[^/]*$/, "")}${name}`).split("/")) {
      if (part === "..") parts.pop();
      else if (part !== "" && part !== ".") parts.push(part);
    }
    return `/${parts.join("/")}`;
  }

  // Why the last module could not be loaded; the engine has an error of its own, which says only that.
  let notLoaded = null;
  function load(name) {
    notLoaded = null;
    try {
      const found = modules.get(name);
      if (found) return sourceOf(name, found);
      if (!name.startsWith("/")) throw missing(name);
      const text = ask({ session: "file", path: name }, `import ${name}`).value;
      if (typeof text !== "string") throw new SyntaxError(`${name} is not UTF-8`);
      if (name.endsWith(".json")) return `export default JSON.parse(${JSON.stringify(text)});`;
      const code = isTypeScript(name) ? withoutTypes(text) : text;
      keepSource(name, code);
      return code || " ";
    } catch (error) {
      notLoaded = { name, error };
      return "";
    }
  }
  const whyOf = (error) => notLoaded && error instanceof ReferenceError && error.message.includes(notLoaded.name) ? notLoaded.error : error;
  function sourceOf(name, found) {
    const names = Object.keys(found).filter((key) => key !== "default" && /^[A-Za-z_$][\w$]*$/.test(key));
    return `const { ${names.map((key) => `${key}: $${key}`).join(", ")} } = __membrane_import(${JSON.stringify(name)});\n` +
      `export { ${names.map((key) => `$${key} as ${key}`).join(", ")} };\nexport default __membrane_import(${JSON.stringify(name)}).default;`;
  }

  const importNow = (name) => {
    const found = modules.get(name) ?? modules.get(`node:${name}`);
    if (found) return found;
    throw missing(name);
  };
  hide("__membrane_import", importNow);
  hide("__membrane_import_later", async (given) => {
    const name = `${given}`;
    if (!isPath(name)) return importNow(name);
    try {
      return await import(resolve(turn?.request.name ?? "", name));
    } catch (error) {
      throw whyOf(error);
    }
  });

  // --- process: what programs look for there ---

  class Exit {}
  const process = {
    argv: [], env: {}, platform: "wasi", version: "v20.0.0", versions: {}, pid: 1, exitCode: undefined,
    cwd: () => "/",
    exit(code = process.exitCode ?? 0) {
      turn.exit = Number(code) & 0xff;
      throw new Exit();
    },
    nextTick: (call, ...values) => globals.queueMicrotask(() => call(...values)),
    hrtime: Object.assign(([s, ns] = [0, 0]) => {
      const whole = BigInt(Math.round(performance.now() * 1e6)) - BigInt(s) * 1_000_000_000n - BigInt(ns);
      return [Number(whole / 1_000_000_000n), Number(whole % 1_000_000_000n)];
    }, { bigint: () => BigInt(Math.round(performance.now() * 1e6)) }),
    uptime: () => performance.now() / 1000,
    stdout: { write: (text) => (write(1, `${text}`), true), isTTY: false },
    stderr: { write: (text) => (write(2, `${text}`), true), isTTY: false },
    on() { return process; },
    once() { return process; },
  };
  globals.process = process;
  globals.global = globalThis;
  globals.require = importNow;
  for (const [name, value] of Object.entries(globals)) hide(name, value);

  // --- turns ---

  const sources = new Map();  // of cells and modules, so that an error can show the line
  function keepSource(name, code) {
    sources.delete(name);
    sources.set(name, code);
    if (sources.size > 1000) sources.delete(sources.keys().next().value);
  }
  let turn = null;

  class Turn {
    constructor(request) {
      this.request = request;
      this.isScript = request.mode === "script";
      this.settled = false;
      this.result = { outcome: "ok", value: null, displays: [], error: null, exit_code: 0 };
      this.exit = undefined;
      this.lost = new Map();  // rejections that nobody has handled
    }

    // Its code has come to its end. What timers do later still belongs to it.
    finish(value) {
      if (this.settled) return;
      this.settled = true;
      if (value === undefined || this.isScript) return;
      this.result.value = bundleOf(value);
      hide("_", value);
    }
    fail(error) {
      this.settled = true;
      if (this.exit !== undefined) {
        timers = [];
        Object.assign(this.result, { outcome: "exit", value: null, error: null, exit_code: this.exit });
      } else if (this.result.outcome === "ok") {
        timers = [];
        Object.assign(this.result, { outcome: "error", value: null, error: errorOf(error), exit_code: 1 });
      }
    }
    get isOver() {
      return this.settled && !timers.some((timer) => timer.isRef && (this.isScript || !timer.isInterval));
    }
    tell() {
      const [lost] = this.lost.values();
      if (this.lost.size) this.fail(lost);
      if (this.result.outcome === "ok" && this.isScript && process.exitCode !== undefined)
        Object.assign(this.result, { outcome: "exit", exit_code: Number(process.exitCode) & 0xff });
      if (this.isScript) timers = [];
      this.result.displays = displays;
      try {
        ask({ session: "result", ...this.result });
      } catch (error) {  // it was too large, say: the outcome must come through
        Object.assign(this.result, { displays: [], value: { "text/plain": `<the result could not be given: ${headOf(error)}>` } });
        ask({ session: "result", ...this.result });
      }
    }
  }

  // The line that it happened at, as far as it is a cell's, then what the stack says.
  function errorOf(error) {
    let type = "Error", message = "", text = "";
    try {
      if (error instanceof Error) {
        type = `${error.name}`;
        message = `${error.message}`;
        text = inspect(error);
        const place = /(?:\(|at )([^()\n]+?):(\d+)(?::\d+)?\)?$/m.exec(stackOf(error).split("\n").slice(1).join("\n"));
        const line = place && sources.get(place[1])?.split("\n")[place[2] - 1];
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

  // What `input()` of Python is here: lines of the text that the turn was given.
  let input = [];
  globals.prompt = (question = "") => {
    if (question) write(1, `${question} `);
    return input.length ? input.shift() : null;
  };
  hide("prompt", globals.prompt);

  reseed(shared.randomBytes(16));

  return {
    resolve, load,
    begin() {
      const request = ask({ session: "next" });
      turn = new Turn(request);
      displays = [];
      groupIndent = "";
      if (request.fresh) reseed(hexBytes(request.fresh.entropy_hex));
      const name = request.name || "<cell>";
      process.argv = ["node", turn.isScript ? name : "", ...(request.arguments ?? [])];
      process.exitCode = undefined;
      input = request.input ? request.input.replace(/\n$/, "").split("\n") : [];
      try {
        let code = request.code;
        if (isTypeScript(name) || request.language === "typescript") code = withoutTypes(code);
        keepSource(name, code);
        if (turn.isScript && (/\.m[jt]s$/.test(name) || isModule(code))) return { code, name, isModule: true };
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
    fail(error) { turn.fail(whyOf(error)); },
    rejected(promise, reason, isHandled) {
      if (isHandled) turn?.lost.delete(promise);
      else turn?.lost.set(promise, reason);
    },
    // 1: there is more to do; 0: the turn is over, and its result told.
    step() {
      if (turn === null) return 0;
      if (turn.result.outcome === "ok" && turn.lost.size) turn.fail(turn.lost.values().next().value);
      if (!turn.isOver) {
        if (timers.length) {
          guard(runTimer);
          return 1;
        }
        turn.fail(new Error("what the code awaits never happens: nothing is left that could make it"));
        return 1;
      }
      turn.tell();
      turn = null;
      return 0;
    },
  };

  function withoutTypes(code) {
    if (!typescript) throw new Error("TypeScript is not there: this build has no library that takes the types away");
    return typescript(code);
  }
})();
