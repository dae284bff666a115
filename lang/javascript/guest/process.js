// process, as programs expect it. session.js decides what ends a turn, and when a new one begins.
((globalThis) => {
  "use strict";
  // Of the language's own, also where a program has put something else under their names.
  const { ArrayBuffer, BigInt, Error, Math, Number, Object, Proxy, Reflect, Set, Symbol, TypeError, Uint8Array } = globalThis;
  const shared = globalThis.__membrane;
  const { ask, globals } = shared;

  // `write` takes a descriptor and a string or bytes, `end` an exit code, `fail` an error thrown by a callback, `defer` a job.
  shared.makeProcess = ({ write, end, fail, defer }) => {
    class Exit {}
    // For "exit" and others; created when a program first listens.
    let emitter = null;
    const emitterOf = () => (emitter ??= new (shared.builtin("events"))());
    const kListening = [
      "on",
      "once",
      "off",
      "addListener",
      "prependListener",
      "removeListener",
      "removeAllListeners",
      "emit",
      "listeners",
      "listenerCount",
      "eventNames",
      "setMaxListeners",
      "getMaxListeners",
    ];
    const listens = (object, emitterOf) => {
      for (const name of kListening)
        Object.defineProperty(object, name, {
          value(...values) {
            const result = emitterOf()[name](...values);
            return result === emitterOf() ? object : result;
          },
          writable: true,
          configurable: true,
          enumerable: false,
        });
      return object;
    };

    // Calls that run before promise jobs: drained after a piece of the program has run, else as promise jobs. Each is
    // followed by its arguments; those before `ticked` have run.
    const kMostTicked = 2048;
    let ticks = [],
      ticked = 0,
      areTicksDue = false;
    function runTicks() {
      while (ticked < ticks.length) {
        const call = ticks[ticked],
          values = ticks[ticked + 1];
        ticked += 2;
        if (ticked === kMostTicked) dropTicked();
        try {
          if (values.length === 0) call();
          else call(...values);
        } catch (error) {
          fail(error);
        }
      }
      forgetTicks();
    }
    function dropTicked() {
      ticks = ticks.slice(ticked);
      ticked = 0;
    }
    function forgetTicks() {
      ticks = [];
      ticked = 0;
      areTicksDue = false;
    }
    function nextTick(call, ...values) {
      if (typeof call !== "function")
        shared.builtin("internal/check").wrongType("callback", "of type function", call);
      ticks.push(shared.context === undefined ? call : shared.withContext(call), values);
      if (areTicksDue) return;
      areTicksDue = true;
      defer(runTicks);
    }
    shared.nextTick = nextTick;

    // The unread input of the turn. If it waits, the host has more.
    let input = new Uint8Array(),
      inputWaits = false;
    // Until there are more than `count` bytes, or all have arrived.
    function fetchInput(count) {
      const pieces = [input];
      let length = input.length;
      while (inputWaits && length <= count) {
        const { bytes, value, error } = shared.requestBytes({ session: "input" });
        if (error) throw new Error(error.message);
        const piece = bytes ?? shared.utf8(value);
        inputWaits = piece.length > 0;
        pieces.push(piece);
        length += piece.length;
      }
      if (pieces.length === 1) return;
      input = new Uint8Array(length);
      let at = 0;
      for (const piece of pieces) {
        input.set(piece, at);
        at += piece.length;
      }
    }
    function readLine() {
      let end = input.indexOf(10);
      while (end < 0 && inputWaits) {
        const from = input.length;
        fetchInput(from);
        end = input.indexOf(10, from);
      }
      if (input.length === 0) return null;
      const line = shared.textOf(end < 0 ? input : input.subarray(0, end));
      input = end < 0 ? new Uint8Array() : input.subarray(end + 1);
      return line.replace(/\r$/, "");
    }
    // Up to this many bytes, without splitting a character; empty at the end.
    shared.readInput = (count) => {
      fetchInput(count);
      let end = Math.min(count, input.length);
      if (end < input.length) {
        while (end > 0 && (input[end] & 0xc0) === 0x80) --end;
        if (end === 0) end = count;
      }
      const bytes = shared.builtin("buffer").Buffer.from(input.subarray(0, end));
      input = input.subarray(end);
      return bytes;
    };

    // What the host writes: a string, as UTF-8, or bytes.
    function outputOfChunk(data, encoding) {
      if (typeof data === "string") {
        const isUtf8 = typeof encoding !== "string" || /^(?:utf-?8)?$/i.test(encoding);
        return isUtf8 ? data : shared.builtin("buffer").Buffer.from(data, encoding);
      }
      const { coded, wrongType } = shared.builtin("internal/check");
      if (data === null) throw coded(TypeError, "ERR_STREAM_NULL_VALUES", "May not write null values to stream");
      if (!ArrayBuffer.isView(data))
        wrongType("chunk", "of type string or an instance of Buffer, TypedArray, or DataView", data);
      return shared.bytesOf(data);
    }
    function outputOf(fd) {
      let own = null;
      return listens(
        {
          fd,
          isTTY: false,
          writable: true,
          columns: 80,
          write(data, encoding, call) {
            write(fd, outputOfChunk(data, encoding));
            const done = typeof encoding === "function" ? encoding : call;
            if (done) process.nextTick(done);
            return true;
          },
          end(data, ...rest) {
            const done = [data, ...rest].find((each) => typeof each === "function");
            if (data !== undefined && data !== null && data !== done)
              this.write(data, rest[0] === done ? undefined : rest[0]);
            if (done) process.nextTick(done);
            return this;
          },
          cork() {},
          uncork() {},
          destroy() {
            return this;
          },
          getColorDepth: () => 1,
          hasColors: () => false,
        },
        () => (own ??= new (shared.builtin("events"))()),
      );
    }
    function inputStream() {
      const { Readable } = shared.builtin("stream");
      const stream = new Readable({
        read(size) {
          const bytes = shared.readInput(size);
          stream.push(bytes.length ? bytes : null);
        },
      });
      return Object.assign(stream, {
        fd: 0,
        isTTY: false,
        setRawMode: () => stream,
        unref: () => stream,
        ref: () => stream,
      });
    }

    // process.env: its values are texts, and TZ is the zone of local time.
    function environment() {
      const set = (variables, name, value) => {
        if (typeof name === "symbol") throw new TypeError("Cannot convert a Symbol value to a string");
        variables[name] = `${value}`;
        if (name === "TZ") shared.useVariable(variables.TZ);
        return true;
      };
      const refuse = (words) => {
        const { coded } = shared.builtin("internal/check");
        throw coded(TypeError, "ERR_INVALID_OBJECT_DEFINE_PROPERTY", `'process.env' ${words}`);
      };
      const variables = new Proxy({}, {
        // What inherits from process.env has variables of its own.
        set: (own, name, value, of) => (of === variables ? set(own, name, value) : Reflect.set(own, name, value, of)),
        defineProperty(own, name, given) {
          if ("get" in given || "set" in given) refuse("does not accept an accessor(getter/setter) descriptor");
          if (!("value" in given && given.configurable && given.writable && given.enumerable))
            refuse("only accepts a configurable, writable, and enumerable data descriptor");
          return set(own, name, given.value);
        },
        deleteProperty(own, name) {
          delete own[name];
          if (name === "TZ") shared.useVariable(undefined);
          return true;
        },
        preventExtensions: () => false,
      });
      return variables;
    }
    let directory = "/",
      stdin = null;
    const shown = new Set();
    const memoryBytes = () => ask({ session: "memory" }).value;
    const process = listens(
      {
        argv: [],
        argv0: "node",
        execArgv: [],
        execPath: "/usr/local/bin/node",
        title: "node",
        env: environment(),
        platform: "linux",
        arch: "wasm32",
        version: "v20.0.0",
        versions: { node: "20.0.0", quickjs: "ng" },
        release: { name: "node" },
        config: { variables: {} },
        features: {},
        pid: 1,
        ppid: 0,
        exitCode: undefined,
        cwd: () => directory,
        chdir(given) {
          const path = shared.builtin("path").resolve(`${given}`);
          if (!shared.builtin("fs").statSync(path).isDirectory())
            throw shared.builtin("internal/errno").fileError({ errno: "ENOTDIR" }, "chdir", path);
          directory = path;
        },
        exit(code = process.exitCode ?? 0) {
          end(Number(code) & 0xff);
          throw new Exit();
        },
        abort() {
          process.exit(134);
        },
        kill() {
          throw new Error("there are no other processes and no signals: end the program with process.exit()");
        },
        umask: () => 0o22,
        getuid: () => 0,
        geteuid: () => 0,
        getgid: () => 0,
        getegid: () => 0,
        nextTick,
        hrtime: Object.assign(
          ([s, ns] = [0, 0]) => {
            const whole = BigInt(Math.round(performance.now() * 1e6)) - BigInt(s) * 1_000_000_000n - BigInt(ns);
            return [Number(whole / 1_000_000_000n), Number(whole % 1_000_000_000n)];
          },
          { bigint: () => BigInt(Math.round(performance.now() * 1e6)) },
        ),
        uptime: () => performance.now() / 1000,
        memoryUsage: Object.assign(
          () => {
            const bytes = memoryBytes();
            return { rss: bytes, heapTotal: bytes, heapUsed: bytes, external: 0, arrayBuffers: 0 };
          },
          { rss: memoryBytes },
        ),
        cpuUsage: () => ({ user: Math.round(performance.now() * 1000), system: 0 }),
        resourceUsage: () => ({
          userCPUTime: Math.round(performance.now() * 1000),
          systemCPUTime: 0,
          maxRSS: memoryBytes() >> 10,
        }),
        emitWarning(warning, given, givenCode) {
          const options = given !== null && typeof given === "object" ? given : { type: given, code: givenCode };
          const type = warning instanceof Error ? warning.name : (options.type ?? "Warning"),
            text = warning instanceof Error ? warning.message : warning;
          const line = `(node:1) ${options.code ? `[${options.code}] ` : ""}${type}: ${text}`;
          if (emitter?.listenerCount("warning"))
            emitter.emit(
              "warning",
              warning instanceof Error ? warning : Object.assign(new Error(text), { name: type, code: options.code }),
            );
          else if (!shown.has(line)) write(2, `${line}\n`);
          shown.add(line);
        },
        stdout: outputOf(1),
        stderr: outputOf(2),
        get stdin() {
          return (stdin ??= inputStream());
        },
        binding() {
          throw new Error(
            'there are no bindings: use the modules of Node (require("module").builtinModules)',
          );
        },
      },
      emitterOf,
    );
    Object.defineProperty(process, Symbol.toStringTag, { value: "process", configurable: true });

    return {
      process,
      Exit,
      readLine,
      runTicks,
      // Null without listeners.
      get emitter() {
        return emitter;
      },
      begin(text, isScript, waits = false) {
        input = text === "" ? new Uint8Array() : shared.utf8(text);
        inputWaits = waits;
        stdin = null;
        forgetTicks();
        if (isScript) emitter = null;
      },
    };
  };
})(globalThis);
