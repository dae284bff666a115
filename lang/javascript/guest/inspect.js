// How values are shown: the console's formats, as JavaScript programs know them from servers.
// First of the files that make the prelude; each adds to one object, which session.js takes away.
globalThis.__membrane = (() => {
  "use strict";

  const kWidth = 80;
  const kMaxItems = 100;
  const kMaxString = 10_000;
  const kMaxColumns = 12;
  const kMaxDepthAtOnce = 3;  // how many levels may share a line
  const tag = (value) => Object.prototype.toString.call(value).slice(8, -1);
  const TypedArray = Object.getPrototypeOf(Uint8Array);
  const tagOfTyped = Object.getOwnPropertyDescriptor(TypedArray.prototype, Symbol.toStringTag).get;

  // Whether it is a built-in thing of that kind, whatever its prototype says.
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

  function primitive(value) {
    switch (typeof value) {
      case "string":
        return value.length > kMaxString
          ? `${quote(value.slice(0, kMaxString))}${more(value.length - kMaxString, "character")}` : quote(value);
      case "number": return Object.is(value, -0) ? "-0" : String(value);
      case "bigint": return `${value}n`;
      case "symbol": return symbolText(value);
      default: return String(value);
    }
  }
  const symbolText = (symbol) => Symbol.prototype.toString.call(symbol);

  const nameOfKey = (key) =>
    typeof key === "symbol" ? `[${symbolText(key)}]` : /^[a-zA-Z_][a-zA-Z_0-9]*$/.test(key) ? key : quote(key);

  // The name of the class that made it; null for an object without a prototype.
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

  // "Name: message" and the places, of which ours are left out.
  function stackOf(error) {
    const name = String(error.name ?? "Error");
    const head = error.message === undefined || error.message === "" ? name : `${name}: ${error.message}`;
    let stack = typeof error.stack === "string" ? error.stack : "";
    if (stack.startsWith(head)) stack = stack.slice(head.length);
    const places = stack.split("\n").filter((line) => /^\s*at /.test(line) && !/\(?(membrane:|native\b)/.test(line))
      .map((line) => line.replace(/at <eval> \((.*)\)$/, "at $1"));
    return [head, ...places].join("\n");
  }

  class Inspector {
    constructor(options = {}) {
      this.depth = options.depth === null ? Infinity : options.depth ?? 2;
      this.seen = [];
      this.circular = new Map();
      this.deepest = 0;
      this.indent = 0;
    }

    show(value, level = 0) {
      if (value === null || (typeof value !== "object" && typeof value !== "function")) return primitive(value);
      if (this.seen.includes(value)) {
        if (!this.circular.has(value)) this.circular.set(value, this.circular.size + 1);
        return `[Circular *${this.circular.get(value)}]`;
      }
      const own = value[Symbol.for("nodejs.util.inspect.custom")];
      if (typeof own === "function" && own !== this.show) {
        const shown = own.call(value, this.depth - level, { depth: this.depth }, inspect);
        if (shown !== value) return typeof shown === "string" ? shown : this.show(shown, level);
      }
      return this.object(value, level);
    }

    object(value, level) {
      const name = classOf(value);
      const parts = this.parts(value, name, level);
      const keys = this.keys(value, parts.skip);
      if (parts.whole && keys.length === 0) return parts.whole;
      if (level > this.depth) return `[${parts.short}]`;
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

    // What stands around the entries, and those that are not properties.
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
        return { open: `${name === "Array" ? "" : prefix("Array", value.length)}[`, close: "]", isArray: true,
                 short: name ?? "Array", entries: () => this.items(value, level), skip: "index" };
      }
      if (typeof value === "function") return { whole: functionText(value), open: "{", close: "}", base: functionText(value),
                                                short: functionText(value).slice(1, -1), skip: "function" };
      if (isTyped(value)) {
        return { open: `${prefix(tagOfTyped.call(value), value.length)}[`, close: "]", isArray: true, short: name,
                 entries: () => this.items(value, level), skip: "index" };
      }
      if (isMap(value)) {
        return { open: `${prefix("Map", value.size)}{`, close: "}", short: name ?? "Map",
                 entries: () => [...Map.prototype.entries.call(value)]
                   .map(([k, v]) => `${this.inner(k, level)} => ${this.inner(v, level)}`) };
      }
      if (isSet(value)) {
        return { open: `${prefix("Set", value.size)}{`, close: "}", short: name ?? "Set",
                 entries: () => [...Set.prototype.values.call(value)].map((v) => this.inner(v, level)) };
      }
      if (isRegExp(value)) return this.wholeOf(RegExp.prototype.toString.call(value), "RegExp");
      if (isDate(value)) {
        const time = Date.prototype.getTime.call(value);
        return this.wholeOf(Number.isNaN(time) ? "Invalid Date" : Date.prototype.toISOString.call(value), "Date");
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
          const inner = primitive(Box.prototype.valueOf.call(value));
          return { ...this.wholeOf(`[${boxName}: ${inner}]`, boxName), skip: boxName === "String" ? "index" : undefined };
        }
      }
      const kind = tag(value);
      if (kind === "WeakSet" || kind === "WeakMap") {
        return { open: `${shownName} {`, close: "}", short: shownName, entries: () => ["<items unknown>"] };
      }
      if (kind === "Arguments") {
        return { open: "[Arguments] {", close: "}", short: "Arguments" };
      }
      const plain = name === "Object" && extra === "";
      return { open: plain ? "{" : `${shownName}${extra} {`, close: "}", short: `${shownName}${extra}`, empty: true };
    }

    wholeOf(text, kind) { return { whole: text, base: text, open: "{", close: "}", short: kind }; }

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
      const length = Math.min(kMaxItems, value.length);
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
      const found = Object.getOwnPropertyDescriptor(object, key) ?? { value: object[key] };
      let shown;
      if (found.get) shown = found.set ? "[Getter/Setter]" : "[Getter]";
      else if (found.set) shown = "[Setter]";
      else {
        shown = this.inner(found.value, level);
      }
      return `${nameOfKey(key)}: ${shown}`;
    }

    // On one line where it fits, and is not too deep; else one line each, numbers in columns.
    join(entries, { open, close, base, isArray }, level, value) {
      const head = base === undefined ? "" : `${base} `;
      if (entries.length === 0) return `${head}${open}${close}`;
      const lines = isArray && entries.length > 6 ? this.columns(entries, value) : entries;
      if (this.deepest - level < kMaxDepthAtOnce && lines === entries) {
        const start = entries.length + this.indent + open.length + head.length + 10;
        const length = entries.reduce((sum, entry) => sum + entry.length, entries.length + start);
        if (length <= kWidth && !entries.some((entry) => entry.includes("\n")) && !head.includes("\n"))
          return `${head}${open} ${entries.join(", ")} ${close}`;
      }
      const line = `\n${" ".repeat(this.indent)}`;
      return `${head}${open}${line}  ${lines.join(`,${line}  `)}${line}${close}`;
    }

    columns(entries, value) {
      const hasRest = value.length > kMaxItems && entries.some((e) => e.startsWith("... "));
      const count = hasRest ? entries.length - 1 : entries.length;
      const widths = entries.slice(0, count).map((entry) => entry.length);
      const widest = Math.max(...widths) + 2;
      const total = widths.reduce((sum, width) => sum + width + 2, 0);
      if (widest * 3 + this.indent >= kWidth || !(total / widest > 5 || widest <= 8)) return entries;
      if (entries.some((entry) => entry.includes("\n"))) return entries;
      // As many as make the block look about as wide as high: a character is 2.5 times as high as it is wide.
      const width = Math.max(widest - 3 - Math.sqrt(widest - total / entries.length), 1);
      const columns = Math.min(Math.round(Math.sqrt(2.5 * width * count) / width),
                               Math.floor((kWidth - this.indent) / widest), kMaxColumns);
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
          if (areNumbers) line += isLast ? entries[at].padStart(width - 2) : `${entries[at]}, `.padStart(width);
          else line += isLast ? entries[at] : `${entries[at]}, `.padEnd(width);
        }
        lines.push(line);
      }
      if (hasRest) lines.push(entries[count]);
      return lines;
    }
  }

  function inspect(value, options) { return new Inspector(options).show(value); }

  const plain = (value, options) => typeof value === "string" ? value : inspect(value, options);

  // console.log's arguments as one text, with %s and the like.
  function format(...values) {
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
            return isError(value) || value.toString === Object.prototype.toString || Array.isArray(value)
              ? inspect(value, { depth: 0 }) : String(value);
          case "%d": return typeof value === "bigint" ? `${value}n` : typeof value === "symbol" ? "NaN" : primitive(Number(value));
          case "%i": return typeof value === "bigint" ? `${value}n` : typeof value === "symbol" ? "NaN" : primitive(Number.parseInt(value));
          case "%f": return typeof value === "symbol" ? "NaN" : primitive(Number.parseFloat(value));
          case "%j":
            try {
              return JSON.stringify(value);
            } catch {
              return "[Circular]";
            }
          case "%o": return inspect(value, { depth: 4 });
          case "%O": return inspect(value);
          default: return "";  // %c: there are no styles
        }
      });
      if (next < values.length) text += " ";
    }
    return text + values.slice(next).map((value) => plain(value)).join(" ");
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

  return { format, inspect, stackOf, table };
})();
