// How values are shown: the console's formats, as JavaScript programs know them from servers.
// First of the files that make the prelude; each adds to one object, which session.js takes away.
globalThis.__membrane = ((globalThis) => {
  "use strict";
  // Of the language's own, also where a program has put something else under their names.
  const { Array, ArrayBuffer, BigInt, Boolean, Date, Error, Function, JSON, Map, Math, Number, Object, Promise } = globalThis;
  const { RangeError, RegExp, Set, String, Symbol, Uint8Array } = globalThis;

  const kWidth = 80;
  const kMaxItems = 100;
  const kMaxString = 10_000;
  const kMaxDepthAtOnce = 3;  // how many levels may share a line
  const tag = (value) => Object.prototype.toString.call(value).slice(8, -1);
  const TypedArray = Object.getPrototypeOf(Uint8Array);
  const tagOfTyped = Object.getOwnPropertyDescriptor(TypedArray.prototype, Symbol.toStringTag).get;

  // Whether a value is a built-in object of that kind, whatever its prototype says.
  const has = (probe) => (value) => {
    try {
      probe(value);
      return true;
    } catch {
      return false;
    }
  };
  const getter = (object, name) => Object.getOwnPropertyDescriptor(object, name).get;
  const sizeOfMap = getter(Map.prototype, "size"), sizeOfSet = getter(Set.prototype, "size");
  const lengthOfBuffer = getter(ArrayBuffer.prototype, "byteLength");
  const isMap = has((v) => sizeOfMap.call(v));
  const isSet = has((v) => sizeOfSet.call(v));
  const isDate = has((v) => Date.prototype.getTime.call(v));
  const isBuffer = has((v) => lengthOfBuffer.call(v));
  const isRegExp = (v) => tag(v) === "RegExp" && v instanceof RegExp;
  const isTyped = (v) => tagOfTyped.call(v) !== undefined;
  const isError = (v) => v instanceof Error || tag(v) === "Error";
  const boxes = [[Number, "Number"], [String, "String"], [Boolean, "Boolean"], [Symbol, "Symbol"], [BigInt, "BigInt"]];

  const kEscapes = { "\n": "\\n", "\t": "\\t", "\r": "\\r", "\b": "\\b", "\f": "\\f", "\v": "\\v", "\\": "\\\\" };

  function quote(text) {
    const mark = !text.includes("'") ? "'" : !text.includes('"') ? '"' : !text.includes("`") && !text.includes("${") ? "`" : "'";
    let shown = mark;
    for (const character of text) {
      const code = character.codePointAt(0);
      if (character === mark) shown += "\\" + mark;
      else if (kEscapes[character]) shown += kEscapes[character];
      else if (code < 0x20 || (code >= 0x7f && code < 0xa0)) shown += "\\x" + code.toString(16).padStart(2, "0").toUpperCase();
      else if (code >= 0xd800 && code <= 0xdfff) shown += "\\u" + code.toString(16).toUpperCase();
      else shown += character;
    }
    return shown + mark;
  }

  const more = (count, thing = "item") => `... ${count} more ${thing}${count > 1 ? "s" : ""}`;

  function primitive(value, most = kMaxString) {
    switch (typeof value) {
      case "string":
        if (value.length <= most) return quote(value);
        return `${quote(value.slice(0, most))}${more(value.length - most, "character")}`;
      case "number": return Object.is(value, -0) ? "-0" : String(value);
      case "bigint": return `${value}n`;
      case "symbol": return symbolText(value);
      default: return String(value);
    }
  }
  const symbolText = (symbol) => Symbol.prototype.toString.call(symbol);

  const isPlainName = (key) => /^[a-zA-Z_][a-zA-Z_0-9]*$/.test(key);

  // The name of the value's class; null for an object without a prototype.
  function classOf(value) {
    for (let object = value; object !== null && object !== undefined; object = Object.getPrototypeOf(object)) {
      const made = Object.getOwnPropertyDescriptor(object, "constructor");
      if (made && typeof made.value === "function" && made.value.name !== "" && object !== Object(made.value))
        return made.value.name;
    }
    return null;
  }

  function functionText(value) {
    const source = Function.prototype.toString.call(value);
    const name = typeof value.name === "string" && value.name !== "" ? value.name : null;
    if (/^class\b/.test(source)) {
      const above = Object.getPrototypeOf(value);
      return `[class ${name ?? "(anonymous)"}${above && above.name ? ` extends ${above.name}` : ""}]`;
    }
    const kind = tag(value);
    return `[${kind === "Function" ? "Function" : kind}${name === null ? " (anonymous)" : `: ${name}`}]`;
  }

  // (promise): "pending", "fulfilled" or "rejected", undefined for what is none; (promise, true): what it is settled with.
  const ofPromise = globalThis.__membrane_promise;
  delete globalThis.__membrane_promise;

  // --- sources of programs, for errors that show the line ---

  const sources = new Map();  // by name: the code, and the text before it on its first line
  function keepSource(name, code, head = 0) {
    sources.delete(name);
    sources.set(name, { code, head });
    if (sources.size > 1000) sources.delete(sources.keys().next().value);
  }
  const sourceOf = (name) => sources.get(name)?.code;
  const sourcesOf = (text) =>
    Array.from(sources, ([name, { code, head }]) => [name, code, head]).filter(([, code]) => code.includes(text)).reverse();
  const placed = (line) => line.replace(/(\(|at )([^()\n]+):1:(\d+)(?=\)?$)/, (whole, before, name, column) => {
    const head = sources.get(name)?.head ?? 0;
    return column >= head ? `${before}${name}:1:${Math.max(column - head, 1)}` : whole;
  });
  const isAroundCode = (line) => {
    const [, name, column] = /(?:\(|at )([^()\n]+):1:(\d+)\)?$/.exec(line) ?? [];
    return name !== undefined && column < (sources.get(name)?.head ?? 0);
  };

  // The engine's own stack has places alone, and is read through a getter, or stands in what captureStackTrace() was
  // given. Programs get what Node gives them: "Name: message" before the places, and none of ours.
  const engineStack = Object.getOwnPropertyDescriptor(Error.prototype, "stack");
  const capture = Error.captureStackTrace;
  const isPlaces = (stack) => typeof stack === "string" && /^(?:\s*at [^\n]*\n?)*$/.test(stack);
  const givenStack = (error) => engineStack?.get && !Object.hasOwn(error, "stack") ? engineStack.get.call(error) : error.stack;
  // Whether it was thrown by the program's own code, and not by a function of the engine or of ours that the program called.
  const isOfProgram = (error) => {
    const [, place] = /^\s*at ([^\n]*)/m.exec(`${givenStack(error)}`) ?? [];
    return place !== undefined && !/\(?(?:membrane:|native\b)/.test(place);
  };
  function wholeStack(error, stack) {
    try {
      return isPlaces(stack) ? stackOf(error) : stack;
    } catch {
      return stack;  // its name or message throws
    }
  }
  if (engineStack?.get) {
    const { stack } = Object.getOwnPropertyDescriptors({ get stack() { return wholeStack(this, engineStack.get.call(this)); } });
    Object.defineProperty(Error.prototype, "stack", { __proto__: null, ...engineStack, get: stack.get });
    const { captureStackTrace } = {
      captureStackTrace(error, above) {
        capture.call(Error, error, above);
        const made = Object.getOwnPropertyDescriptor(error, "stack");
        if (made && isPlaces(made.value)) Object.defineProperty(error, "stack", { __proto__: null, ...made, value: wholeStack(error, made.value) });
      },
    };
    Object.defineProperty(Error, "captureStackTrace", { __proto__: null, value: captureStackTrace, writable: true, configurable: true });
    completeCallSites();
  }

  // What Error.prepareStackTrace gets has all of V8's methods, which packages call. The engine's own know names and
  // places; the others give what V8 gives of a plain function.
  function completeCallSites() {
    const given = Error.prepareStackTrace;
    Error.prepareStackTrace = (error, sites) => sites;
    const [site] = new Error().stack;
    Error.prepareStackTrace = given;
    const prototype = Object.getPrototypeOf(site);
    const methods = {
      getEnclosingColumnNumber() { return null; },
      getEnclosingLineNumber() { return null; },
      getEvalOrigin() { return undefined; },
      getMethodName() { return null; },
      getPosition() { return 0; },
      getPromiseIndex() { return null; },
      getScriptHash() { return ""; },
      getScriptNameOrSourceURL() { return this.getFileName(); },
      getThis() { return undefined; },
      getTypeName() { return "Object"; },
      isAsync() { return false; },
      isEval() { return false; },
      isPromiseAll() { return false; },
      isToplevel() { return !this.isConstructor(); },
      toString() {
        const name = this.getFunctionName(), file = this.getFileName() ?? "<anonymous>";
        const place = this.isNative() ? "native" : `${file}:${this.getLineNumber()}:${this.getColumnNumber()}`;
        return name === null || name === "<eval>" ? place : `${this.isConstructor() ? "new " : ""}${name} (${place})`;
      },
    };
    for (const [name, value] of Object.entries(methods))
      if (!Object.hasOwn(prototype, name))
        Object.defineProperty(prototype, name, { __proto__: null, value, writable: true, configurable: true });
  }

  // "Name: message" and the places, without our own.
  function stackOf(error) {
    const name = String(error.name ?? "Error");
    const bare = error.message === undefined || error.message === "" ? name : `${name}: ${error.message}`;
    const isNodes = typeof error.code === "string" && /^ERR_/.test(error.code);
    const head = isNodes ? `${name} [${error.code}]${bare.slice(name.length)}` : bare;
    const given = givenStack(error);
    let stack = typeof given === "string" ? given : "";
    const isPlaced = !isPlaces(stack);  // by captureStackTrace(), for example
    if (stack.startsWith(bare)) stack = stack.slice(bare.length);
    const places = stack.split("\n")
      .filter((line) => /^\s*at /.test(line) && !/\(?(membrane:|native\b)/.test(line) && (isPlaced || !isAroundCode(line)))
      .map((line) => line.replace(/at <eval> \((.*)\)$/, "at $1"))
      .map((line) => isPlaced ? line : placed(line));
    return [head, ...places].join("\n");
  }

  class Inspector {
    constructor(given = {}) {
      const options = given ?? {};
      this.options = options;
      this.depth = options.depth === null ? Infinity : options.depth ?? inspect.defaultOptions.depth;
      this.width = options.breakLength ?? inspect.defaultOptions.breakLength;
      this.atOnce = options.compact === undefined ? inspect.defaultOptions.compact : options.compact;
      this.mostItems = options.maxArrayLength === null ? Infinity : options.maxArrayLength ?? kMaxItems;
      this.mostString = options.maxStringLength === null ? Infinity : options.maxStringLength ?? kMaxString;
      this.style = options.colors ? (text, kind) => colored(text, kind) : (text) => text;
      this.seen = [];
      this.circular = new Map();
      this.deepest = 0;
      this.indent = 0;
    }

    show(value, level = 0) {
      if (value === null || (typeof value !== "object" && typeof value !== "function")) return this.primitive(value);
      if (this.seen.includes(value)) {
        if (!this.circular.has(value)) this.circular.set(value, this.circular.size + 1);
        return this.style(`[Circular *${this.circular.get(value)}]`, "special");
      }
      const own = value[Symbol.for("nodejs.util.inspect.custom")];
      const isAsked = this.options.customInspect !== false && value.constructor?.prototype !== value;
      if (typeof own === "function" && own !== inspect && isAsked) {
        const depth = this.depth - level;
        const options = { ...inspect.defaultOptions, ...this.options, depth, stylize: this.style };
        const shown = own.call(value, depth, options, inspect);
        if (typeof shown === "string") return shown.replaceAll("\n", `\n${" ".repeat(this.indent)}`);
        if (shown !== value) return this.show(shown, level);
      }
      return this.object(value, level);
    }

    // Strings longer than a line are broken at their own line breaks.
    primitive(value) {
      if (typeof value !== "string") return this.style(primitive(value), value === null ? "null" : typeof value);
      const rest = value.length > this.mostString ? more(value.length - this.mostString, "character") : "";
      const text = rest ? value.slice(0, this.mostString) : value;
      const isLong = this.atOnce !== true && text.length > 16 && text.length > this.width - this.indent - 4;
      const lines = isLong ? text.split(/(?<=\n)/) : [text];
      return lines.map((line) => this.style(quote(line), "string")).join(` +\n${" ".repeat(this.indent + 2)}`) + rest;
    }

    object(value, level) {
      const name = classOf(value);
      const parts = this.parts(value, name, level);
      const keys = this.keys(value, parts.skip);
      if (parts.whole && keys.length === 0) return parts.whole;
      if (keys.length === 0 && (parts.isEmpty || parts.entries === undefined)) return this.join([], parts, level, value);
      if (level > this.depth) return this.style(/^\[/.test(parts.short) ? parts.short : `[${parts.short}]`, "special");
      this.seen.push(value);
      this.deepest = level;
      let shown;
      try {
        const entries = parts.entries ? parts.entries() : [];
        for (const key of keys) entries.push(this.property(value, key, level));
        shown = this.join(entries, parts, level, value);
      } catch (error) {
        if (!(error instanceof RangeError)) throw error;
        shown = `[${parts.short}: too deep to be shown]`;
      }
      this.seen.pop();
      const number = this.circular.get(value);
      return number === undefined ? shown : `<ref *${number}> ${shown}`;
    }

    // The text around the entries, and entries that are not properties.
    parts(value, name, level) {
      const shownName = name ?? "[Object: null prototype]";
      const extra = typeof value[Symbol.toStringTag] === "string" && value[Symbol.toStringTag] !== name
        && value[Symbol.toStringTag] !== "" ? ` [${value[Symbol.toStringTag]}]` : "";
      const prefix = (fallback, size) => {
        const base = name === null ? `[${fallback}${size === undefined ? "" : `(${size})`}: null prototype]`
          : `${name}${size === undefined ? "" : `(${size})`}`;
        return `${base}${name === fallback ? "" : extra} `;
      };
      if (Array.isArray(value)) {
        return { open: `${name === "Array" ? "" : prefix("Array", value.length)}[`, close: "]", isArray: true, isEmpty: value.length === 0,
                 short: name ?? "Array", entries: () => this.items(value, level), skip: "index" };
      }
      if (typeof value === "function") {
        const text = functionText(value);
        return { whole: this.style(text, "special"), open: "{", close: "}", base: text, short: name ?? "Function", skip: "function" };
      }
      if (isTyped(value)) {
        return { open: `${prefix(tagOfTyped.call(value), value.length)}[`, close: "]", isArray: true, isEmpty: value.length === 0, short: name,
                 entries: () => this.items(value, level), skip: "index" };
      }
      if (isMap(value)) {
        return { open: `${prefix("Map", value.size)}{`, close: "}", isEmpty: value.size === 0, short: name ?? "Map",
                 entries: () => [...Map.prototype.entries.call(value)]
                   .map(([k, v]) => `${this.inner(k, level)} => ${this.inner(v, level)}`) };
      }
      if (isSet(value)) {
        return { open: `${prefix("Set", value.size)}{`, close: "}", isEmpty: value.size === 0, short: name ?? "Set",
                 entries: () => [...Set.prototype.values.call(value)].map((v) => this.inner(v, level)) };
      }
      if (isRegExp(value)) return this.wholeOf(RegExp.prototype.toString.call(value), "RegExp", "regexp");
      if (isDate(value)) {
        const time = Date.prototype.getTime.call(value);
        return this.wholeOf(Number.isNaN(time) ? "Invalid Date" : Date.prototype.toISOString.call(value), "Date", "date");
      }
      if (isError(value)) return this.error(value, level);
      if (isBuffer(value)) {
        const bytes = new Uint8Array(value), shown = [...bytes.subarray(0, 50)].map((b) => b.toString(16).padStart(2, "0"));
        const rest = bytes.length > 50 ? ` ${more(bytes.length - 50, "byte")}` : "";
        return { open: `${prefix("ArrayBuffer")}{`, close: "}", short: name ?? "ArrayBuffer",
                 entries: () => [`[Uint8Contents]: <${shown.join(" ")}${rest}>`, `byteLength: ${bytes.length}`] };
      }
      for (const [Box, boxName] of boxes) {
        if (has((v) => Box.prototype.valueOf.call(v))(value)) {
          const inner = primitive(Box.prototype.valueOf.call(value), this.mostString);
          return { ...this.wholeOf(`[${boxName}: ${inner}]`, boxName), skip: boxName === "String" ? "index" : undefined };
        }
      }
      const state = value instanceof Promise ? ofPromise(value) : undefined;
      if (state !== undefined) {
        return { open: `${prefix("Promise")}{`, close: "}", short: name ?? "Promise", entries: () => {
          if (state === "pending") return [this.style("<pending>", "special")];
          const result = this.inner(ofPromise(value, true), level);
          return [state === "rejected" ? `${this.style("<rejected>", "special")} ${result}` : result];
        } };
      }
      const kind = tag(value);
      if (kind === "WeakSet" || kind === "WeakMap") {
        return { open: `${shownName} {`, close: "}", short: shownName, entries: () => ["<items unknown>"] };
      }
      if (kind === "Arguments") {
        return { open: "[Arguments] {", close: "}", short: "Object" };
      }
      if (kind === "Module" && name === null) return { open: "[Module: null prototype] {", close: "}", short: "Module" };
      const plain = name === "Object" && extra === "";
      return { open: plain ? "{" : `${shownName}${extra} {`, close: "}", short: shownName };
    }

    wholeOf(text, kind, style) {
      return { whole: style ? this.style(text, style) : text, base: text, open: "{", close: "}", short: kind };
    }

    error(value, level) {
      let text = stackOf(value);
      const isNested = level > 0;
      if (!/\n\s*at /.test(text)) text = `[${text}]`;
      if (isNested || this.indent > 0) text = text.replaceAll("\n", `\n${" ".repeat(this.indent)}`);
      const hidden = ["cause", "errors"].filter((key) => Object.hasOwn(value, key));
      return { whole: hidden.length === 0 && text, base: text, open: "{", close: "}", short: classOf(value) ?? "Error",
               skip: "error", entries: () => hidden.map((key) => `[${key}]: ${this.inner(value[key], level)}`) };
    }

    keys(value, skip) {
      let keys = Object.keys(value);
      if (skip === "index") keys = keys.filter((key) => !/^(0|[1-9]\d*)$/.test(key));
      if (this.options.showHidden)
        keys = Object.getOwnPropertyNames(value).filter((key) => skip !== "index" || !/^(0|[1-9]\d*)$/.test(key));
      if (this.options.sorted) keys.sort(this.options.sorted === true ? undefined : this.options.sorted);
      if (skip === "error") {
        const hidden = ["stack", "message", "name", "cause", "errors"];
        keys = keys.filter((key) => !hidden.includes(key));
      }
      for (const symbol of Object.getOwnPropertySymbols(value))
        if (Object.prototype.propertyIsEnumerable.call(value, symbol)) keys.push(symbol);
      return keys;
    }

    items(value, level) {
      const shown = [];
      const length = Math.min(this.mostItems, value.length);
      let at = 0;
      while (at < value.length && shown.length < length) {
        if (Object.hasOwn(value, at) || isTyped(value)) {
          shown.push(this.inner(value[at++], level));
          continue;
        }
        let next = at;
        while (next < value.length && !Object.hasOwn(value, next)) ++next;
        shown.push(`<${next - at} empty item${next - at > 1 ? "s" : ""}>`);
        at = next;
      }
      if (at < value.length) shown.push(more(value.length - at));
      return shown;
    }

    inner(value, level) {
      this.indent += 2;
      const shown = this.show(value, level + 1);
      this.indent -= 2;
      return shown;
    }

    property(object, key, level) {
      const found = { __proto__: null, ...(Object.getOwnPropertyDescriptor(object, key) ?? { value: object[key] }) };
      let shown;
      if (found.get) shown = this.getter(object, key, found, level);
      else if (found.set) shown = this.style("[Setter]", "special");
      else {
        shown = this.inner(found.value, level);
      }
      let name;
      if (found.enumerable === false) name = `[${typeof key === "symbol" ? symbolText(key) : key}]`;
      else if (typeof key === "symbol") name = `[${this.style(symbolText(key), "symbol")}]`;
      else name = isPlainName(key) ? key : this.style(quote(key), "string");
      return `${name}: ${shown}`;
    }
    getter(object, key, found, level) {
      const kind = found.set ? "Getter/Setter" : "Getter";
      const wants = this.options.getters;
      const isWanted = wants === true || (wants === "get" && !found.set) || (wants === "set" && found.set);
      if (!isWanted) return this.style(`[${kind}]`, "special");
      try {
        const value = object[key];
        const shown = this.inner(value, level);
        return value !== null && typeof value === "object" ? `[${kind}] ${shown}` : `[${kind}: ${shown}]`;
      } catch (error) {
        return `[${kind}: <Inspection threw (${error?.message})>]`;
      }
    }

    // On one line if it fits, and is not too deep; else one line each, numbers in columns.
    join(entries, { open, close, base, isArray }, level, value) {
      const head = base === undefined ? "" : `${base} `;
      if (entries.length === 0) return `${head}${open}${close}`;
      if (this.atOnce === true) return this.joinCompactly(entries, head, open, close, base);
      const lines = this.atOnce && isArray && entries.length > 6 ? this.columns(entries, value) : entries;
      if (this.atOnce && this.deepest - level < this.atOnce && lines === entries) {
        const start = entries.length + this.indent + open.length + head.length + 10;
        const length = entries.reduce((sum, entry) => sum + bare(entry).length, entries.length + start);
        if (length <= this.width && !entries.some((entry) => entry.includes("\n")) && !head.includes("\n"))
          return `${head}${open} ${entries.join(", ")} ${close}`;
      }
      const line = `\n${" ".repeat(this.indent)}`;
      return `${head}${open}${line}  ${lines.join(`,${line}  `)}${line}${close}`;
    }

    // Node's "compact" mode in full: as much on a line as fits.
    joinCompactly(entries, head, open, close, base) {
      const length = entries.reduce((sum, entry) => sum + bare(entry).length, entries.length + open.length + head.length);
      if (length + entries.length <= this.width && !entries.some((entry) => entry.includes("\n")))
        return `${head}${open} ${entries.join(", ")} ${close}`;
      const line = `\n${" ".repeat(this.indent)}`;
      const start = base === undefined && open.length === 1 ? `${open} ` : `${open}${line}  `;
      return `${head}${start}${entries.join(`,${line}  `)} ${close}`;
    }

    columns(entries, value) {
      const hasRest = value.length > this.mostItems && entries.some((e) => e.startsWith("... "));
      const count = hasRest ? entries.length - 1 : entries.length;
      const widths = entries.slice(0, count).map((entry) => bare(entry).length);
      const widest = Math.max(...widths) + 2;
      const total = widths.reduce((sum, width) => sum + width + 2, 0);
      if (widest * 3 + this.indent >= this.width || !(total / widest > 5 || widest <= 8)) return entries;
      if (entries.some((entry) => entry.includes("\n"))) return entries;
      // Chosen so that the block looks about as wide as it is high: a character is 2.5 times as high as it is wide.
      const width = Math.max(widest - 3 - Math.sqrt(widest - total / entries.length), 1);
      const columns = Math.min(Math.round(Math.sqrt(2.5 * width * count) / width),
                               Math.floor((this.width - this.indent) / widest), this.atOnce * 4, 15);
      if (columns <= 1) return entries;
      const columnWidths = [];
      for (let column = 0; column < columns; ++column) {
        let most = 0;
        for (let at = column; at < count; at += columns) most = Math.max(most, widths[at]);
        columnWidths.push(most + 2);
      }
      const areNumbers = Array.prototype.every.call(value, (v) => typeof v === "number" || typeof v === "bigint");
      const lines = [];
      for (let from = 0; from < count; from += columns) {
        const to = Math.min(from + columns, count);
        let line = "";
        for (let at = from; at < to; ++at) {
          const isLast = at === to - 1, width = columnWidths[at - from];
          const hidden = entries[at].length - widths[at];  // color codes
          if (areNumbers) line += isLast ? entries[at].padStart(width - 2 + hidden) : `${entries[at]}, `.padStart(width + hidden);
          else line += isLast ? entries[at] : `${entries[at]}, `.padEnd(width + hidden);
        }
        lines.push(line);
      }
      if (hasRest) lines.push(entries[count]);
      return lines;
    }
  }

  function inspect(value, options, ...rest) {
    const [depth, colors] = rest;
    return new Inspector(typeof options === "boolean" ? { showHidden: options, depth, colors } : options).show(value);
  }
  inspect.custom = Symbol.for("nodejs.util.inspect.custom");
  inspect.defaultOptions = {
    showHidden: false, depth: 2, colors: false, customInspect: true, showProxy: false, maxArrayLength: kMaxItems,
    maxStringLength: kMaxString, breakLength: kWidth, compact: kMaxDepthAtOnce, sorted: false, getters: false, numericSeparator: false,
  };
  inspect.colors = { bold: [1, 22], red: [31, 39], green: [32, 39], yellow: [33, 39], magenta: [35, 39], cyan: [36, 39],
                     grey: [90, 39], gray: [90, 39] };
  inspect.styles = { special: "cyan", number: "yellow", bigint: "yellow", boolean: "yellow", undefined: "grey", null: "bold",
                     string: "green", symbol: "green", date: "magenta", regexp: "red", module: "underline" };
  function colored(text, kind) {
    const [on, off] = inspect.colors[inspect.styles[kind]] ?? [];
    return on === undefined ? text : `\u001b[${on}m${text}\u001b[${off}m`;
  }
  const bare = (text) => text.includes("\u001b") ? text.replace(/\u001b\[\d+m/g, "") : text;

  const plain = (value, options) => typeof value === "string" ? value : inspect(value, options);

  // Whether one of the program's classes defines its own text.
  function hasOwnText(value) {
    let object = value;
    while (object !== null && !Object.hasOwn(object, "toString")) object = Object.getPrototypeOf(object);
    if (object === null) return false;
    const made = object.constructor;
    return object === value || typeof made !== "function" || globalThis[made.name] !== made;
  }

  // console.log's arguments as one text, with %s and the like.
  // Text and numbers, which most programs print, take a short way to the same text.
  const format = (...values) => {
    if (values.length > 1 && typeof values[0] === "string" && values[0].includes("%")) return formatWithOptions({}, ...values);
    let text = "";
    for (let i = 0; i < values.length; ++i) {
      const value = values[i];
      if (i !== 0) text += " ";
      if (typeof value === "string" || (typeof value === "number" && value !== 0)) text += value;
      else text += inspect(value);
    }
    return text;
  };
  function formatWithOptions(options, ...values) {
    let text = "";
    let next = 0;
    if (typeof values[0] === "string") {
      next = 1;
      text = values[0].replace(/%[sdifjoOc%]/g, (mark) => {
        if (mark === "%%") return values.length > 1 ? "%" : "%%";
        if (next >= values.length) return mark;
        const value = values[next++];
        switch (mark) {
          case "%s":
            if (typeof value === "bigint" || typeof value === "number") return primitive(value);
            if (value === null || typeof value !== "object") return String(value);
            return isError(value) || !hasOwnText(value)
              ? inspect(value, { ...options, depth: 0, colors: false, compact: 3 }) : String(value);
          case "%d": return typeof value === "bigint" ? `${value}n` : typeof value === "symbol" ? "NaN" : primitive(Number(value));
          case "%i": return typeof value === "bigint" ? `${value}n` : typeof value === "symbol" ? "NaN" : primitive(Number.parseInt(value));
          case "%f": return typeof value === "symbol" ? "NaN" : primitive(Number.parseFloat(value));
          case "%j":
            try {
              return JSON.stringify(value);
            } catch {
              return "[Circular]";
            }
          case "%o": return inspect(value, { ...options, depth: 4 });
          case "%O": return inspect(value, options);
          default: return "";  // %c: styles are not supported
        }
      });
      if (next < values.length) text += " ";
    }
    return text + values.slice(next).map((value) => plain(value, options)).join(" ");
  }

  // Rows and columns in a box.
  function table(data, columns) {
    if (data === null || typeof data !== "object") return plain(data);
    const isMapLike = isMap(data);
    const rows = isMapLike ? [...data].map(([k, v], i) => [String(i), v, k])
      : isSet(data) ? [...data].map((v, i) => [String(i), v]) : Object.keys(data).map((key) => [key, data[key]]);
    const names = [];
    let hasValues = false;
    for (const [, row] of rows) {
      if (row !== null && typeof row === "object") {
        for (const key of Object.keys(row)) if (!names.includes(key)) names.push(key);
      } else hasValues = true;
    }
    const shownNames = columns ? [...columns] : names;
    const head = [isMapLike || isSet(data) ? "(iteration index)" : "(index)", ...(isMapLike ? ["Key"] : []), ...shownNames,
                  ...(hasValues ? ["Values"] : [])];
    const isLarge = (value) => value !== null && typeof value === "object" && !Array.isArray(value) && Object.keys(value).length > 2;
    const cell = (value) => inspect(value, { depth: isLarge(value) ? -1 : 0 });
    const body = rows.map(([index, row, key]) => {
      const isObject = row !== null && typeof row === "object";
      return [index, ...(isMapLike ? [cell(key)] : []),
              ...shownNames.map((name) => isObject && Object.hasOwn(row, name) ? cell(row[name]) : ""),
              ...(hasValues ? [isObject ? "" : cell(row)] : [])];
    });
    const widths = head.map((name, i) => Math.max(name.length, ...body.map((row) => row[i].length)) + 2);
    const line = (left, middle, right) => left + widths.map((width) => "─".repeat(width)).join(middle) + right;
    const show = (row) => `│${row.map((text, i) => ` ${text}`.padEnd(widths[i])).join("│")}│`;
    return [line("┌", "┬", "┐"), show(head), line("├", "┼", "┤"), ...body.map(show), line("└", "┴", "┘")].join("\n");
  }

  const kinds = { isBuffer, isDate, isMap, isSet };
  return { factories: new Map(), format, formatWithOptions, inspect, isOfProgram, keepSource, kinds, ofPromise, sourceOf, sourcesOf, stackOf, table };
})(globalThis);
