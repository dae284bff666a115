// node:readline over streams: the turn's input, or any other.
(() => {
  "use strict";
  const shared = globalThis.__membrane;

  shared.factories.set("readline", (exports, module, load) => {
    const EventEmitter = load("events");
    const { StringDecoder } = load("string_decoder");
    const { abortError, coded } = load("internal/check");

    class Interface extends EventEmitter {
      constructor(input, output) {
        super();
        const options =
          input?.input === undefined && typeof input?.on === "function" ? { input, output } : (input ?? {});
        Object.assign(this, {
          input: options.input,
          output: options.output,
          terminal: false,
          line: "",
          cursor: 0,
          closed: false,
          history: [],
        });
        Object.defineProperties(this, {
          _prompt: { value: options.prompt ?? "> ", writable: true },
          _questions: { value: [] },
          _lines: { value: [] },
          _isPaused: { value: false, writable: true },
          _left: { value: "", writable: true },
          _isOver: { value: false, writable: true },
        });
        const decoder = new StringDecoder("utf8");
        this.input.on("data", (chunk) => this._take(typeof chunk === "string" ? chunk : decoder.write(chunk)));
        this.input.on("end", () => {
          this._isOver = true;
          if (this._left !== "") this._lines.push(this._left.replace(/\r$/, ""));
          this._left = "";
          this._tell();
        });
        this.input.on("error", (error) => this.emit("error", error));
        options.signal?.addEventListener("abort", () => this.close(), { once: true });
        this.input.resume?.();
      }
      _take(text) {
        const lines = (this._left + text).split(/\r\n|\n|\r(?!$)/);
        this._left = lines.pop();
        this._lines.push(...lines);
        this._tell();
      }
      // A question gets the next line; other lines are emitted.
      _tell() {
        while (this._lines.length && !this._isPaused && !this.closed) {
          const line = this._lines.shift();
          const question = this._questions.shift();
          if (question) question(line);
          else this.emit("line", line);
        }
        if (this._isOver && this._lines.length === 0 && !this.closed && !this._isPaused) this.close();
      }
      question(text, options, call) {
        if (typeof options === "function") [options, call] = [{}, options];
        if (this.closed) throw coded(Error, "ERR_USE_AFTER_CLOSE", "readline was closed");
        this.output?.write(text);
        this._questions.push(call);
        options?.signal?.addEventListener("abort", () => this._questions.splice(this._questions.indexOf(call), 1), {
          once: true,
        });
        globalThis.setImmediate(() => this._tell());
      }
      setPrompt(prompt) {
        this._prompt = prompt;
      }
      getPrompt() {
        return this._prompt;
      }
      prompt() {
        this.output?.write(this._prompt);
        this.resume();
      }
      write(data) {
        if (data !== undefined && data !== null) this._take(`${data}`);
      }
      pause() {
        if (this._isPaused) return this;
        this._isPaused = true;
        this.input.pause?.();
        this.emit("pause");
        return this;
      }
      resume() {
        if (!this._isPaused) return this;
        this._isPaused = false;
        this.input.resume?.();
        this.emit("resume");
        globalThis.setImmediate(() => this._tell());
        return this;
      }
      close() {
        if (this.closed) return;
        this.closed = true;
        this.input.pause?.();
        this.emit("close");
      }
      [Symbol.dispose ?? Symbol("dispose")]() {
        this.close();
      }
      async *[Symbol.asyncIterator]() {
        const lines = [];
        let wake = null;
        const call = () => {
          const to = wake;
          wake = null;
          to?.();
        };
        const onLine = (line) => {
          lines.push(line);
          call();
        };
        this.on("line", onLine);
        this.once("close", call);
        try {
          for (;;) {
            if (lines.length) yield lines.shift();
            else if (this.closed) return;
            else
              await new Promise((resolve) => {
                wake = resolve;
              });
          }
        } finally {
          this.removeListener("line", onLine);
          this.close();
        }
      }
    }
    Interface.prototype.question[load("util").promisify.custom] = function (text, options) {
      return new Promise((resolve) => this.question(text, options ?? {}, resolve));
    };

    class PromisedInterface extends Interface {
      question(text, options) {
        return new Promise((resolve, reject) => {
          if (options?.signal?.aborted) return reject(abortError(options.signal));
          options?.signal?.addEventListener("abort", () => reject(abortError(options.signal)), { once: true });
          this.once("close", () =>
            reject(coded(Error, "ABORT_ERR", "readline was closed, and the input had no line for the question")),
          );
          super.question(text, options ?? {}, resolve);
        });
      }
    }
    Object.defineProperty(PromisedInterface, "name", { value: "Interface" });
    const nothing = (stream, ...values) => {
      const call = values.at(-1);
      if (typeof call === "function") call();
      return true;
    };
    module.exports = {
      Interface,
      createInterface: (...values) => new Interface(...values),
      clearLine: nothing,
      clearScreenDown: nothing,
      cursorTo: nothing,
      moveCursor: nothing,
      emitKeypressEvents() {},
      promises: { Interface: PromisedInterface, createInterface: (...values) => new PromisedInterface(...values) },
    };
  });
  shared.factories.set("readline/promises", (exports, module, load) => {
    module.exports = load("readline").promises;
  });
})();
