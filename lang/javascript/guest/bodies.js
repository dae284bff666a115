// Blob, File and FormData; a form as an HTTP body, and read from one.
(() => {
  "use strict";
  const shared = globalThis.__membrane;
  const { globals, utf8 } = shared;

  function joined(pieces) {
    const whole = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
    let at = 0;
    for (const piece of pieces) {
      whole.set(piece, at);
      at += piece.length;
    }
    return whole;
  }
  const partOf = (part, endings) => {
    if (part instanceof Blob) return Blob._bytes(part);
    if (part instanceof ArrayBuffer || ArrayBuffer.isView(part)) return shared.bytesOf(part).slice();
    const text = `${part}`;
    return utf8(endings === "native" ? text.replace(/\r\n?/g, "\n") : text);
  };

  class Blob {
    #bytes;
    #type;
    constructor(parts = [], { type = "", endings = "transparent" } = {}) {
      if (parts === null || typeof parts !== "object" || typeof parts[Symbol.iterator] !== "function")
        throw new TypeError("the parts of a Blob are a list: [text, bytes, …]");
      this.#bytes = joined([...parts].map((part) => partOf(part, endings)));
      this.#type = /[^\u0020-\u007e]/.test(type) ? "" : `${type}`.toLowerCase();
    }
    static _bytes(blob) {
      return blob.#bytes;
    }
    get size() {
      return this.#bytes.length;
    }
    get type() {
      return this.#type;
    }
    slice(start, end, type = "") {
      return new Blob([this.#bytes.slice(start, end)], { type });
    }
    async arrayBuffer() {
      return this.#bytes.slice().buffer;
    }
    async bytes() {
      return this.#bytes.slice();
    }
    async text() {
      return new globals.TextDecoder().decode(this.#bytes);
    }
    stream() {
      return shared.streamOf(this.#bytes.slice());
    }
    get [Symbol.toStringTag]() {
      return "Blob";
    }
    [Symbol.for("nodejs.util.inspect.custom")](depth, options, inspect) {
      return `Blob ${inspect({ size: this.size, type: this.type })}`;
    }
  }
  class File extends Blob {
    constructor(parts, name, { lastModified = Date.now(), ...options } = {}) {
      if (name === undefined) throw new TypeError("a File has parts and a name");
      super(parts, options);
      Object.defineProperties(this, {
        name: { value: `${name}`, enumerable: true },
        lastModified: { value: Number(lastModified), enumerable: true },
      });
    }
    get webkitRelativePath() {
      return "";
    }
    get [Symbol.toStringTag]() {
      return "File";
    }
    [Symbol.for("nodejs.util.inspect.custom")](depth, options, inspect) {
      return `File ${inspect({ size: this.size, type: this.type, name: this.name, lastModified: this.lastModified })}`;
    }
  }

  class FormData {
    #items = [];
    static #entry(name, value, filename) {
      if (!(value instanceof Blob)) return [`${name}`.toWellFormed(), `${value}`.toWellFormed()];
      const isNamed = value instanceof File && filename === undefined;
      return [`${name}`, isNamed ? value : new File([value], filename ?? value.name ?? "blob", { type: value.type })];
    }
    append(name, value, filename) {
      this.#items.push(FormData.#entry(name, value, filename));
    }
    set(name, value, filename) {
      const entry = FormData.#entry(name, value, filename),
        at = this.#items.findIndex(([key]) => key === entry[0]);
      if (at < 0) this.#items.push(entry);
      else
        this.#items = this.#items
          .filter(([key], i) => key !== entry[0] || i === at)
          .map((item) => (item[0] === entry[0] ? entry : item));
    }
    get(name) {
      return this.#items.find(([key]) => key === `${name}`)?.[1] ?? null;
    }
    getAll(name) {
      return this.#items.filter(([key]) => key === `${name}`).map(([, value]) => value);
    }
    has(name) {
      return this.#items.some(([key]) => key === `${name}`);
    }
    delete(name) {
      this.#items = this.#items.filter(([key]) => key !== `${name}`);
    }
    forEach(call, self) {
      for (const [name, value] of this) call.call(self, value, name, this);
    }
    *entries() {
      for (const [name, value] of this.#items) yield [name, value];
    }
    *keys() {
      for (const [name] of this.#items) yield name;
    }
    *values() {
      for (const [, value] of this.#items) yield value;
    }
    [Symbol.iterator]() {
      return this.entries();
    }
    get [Symbol.toStringTag]() {
      return "FormData";
    }
    [Symbol.for("nodejs.util.inspect.custom")](depth, options, inspect) {
      return `FormData ${inspect(Object.fromEntries(this.#items))}`;
    }
  }

  // As multipart/form-data (RFC 7578), with the boundary in its type.
  shared.encodeForm = (form) => {
    const boundary = `----membrane${[...shared.randomBytes(12)].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
    const escape = (text) => text.replace(/\r\n|\r|\n/g, "%0D%0A").replaceAll('"', "%22");
    const pieces = [];
    for (const [name, value] of form) {
      const head = `--${boundary}\r\nContent-Disposition: form-data; name="${escape(name)}"`;
      if (typeof value === "string") pieces.push(utf8(`${head}\r\n\r\n${value.replace(/\r\n|\r|\n/g, "\r\n")}\r\n`));
      else
        pieces.push(
          utf8(
            `${head}; filename="${escape(value.name)}"\r\nContent-Type: ${value.type || "application/octet-stream"}\r\n\r\n`,
          ),
          Blob._bytes(value),
          utf8("\r\n"),
        );
    }
    pieces.push(utf8(`--${boundary}--\r\n`));
    return [joined(pieces), `multipart/form-data; boundary=${boundary}`];
  };

  function find(bytes, wanted, from) {
    for (let at = bytes.indexOf(wanted[0], from); at >= 0; at = bytes.indexOf(wanted[0], at + 1))
      if (wanted.every((byte, i) => bytes[at + i] === byte)) return at;
    return -1;
  }
  shared.decodeForm = (bytes, type) => {
    const form = new FormData();
    if (/^application\/x-www-form-urlencoded/i.test(type)) {
      for (const [name, value] of new globals.URLSearchParams(shared.textOf(bytes))) form.append(name, value);
      return form;
    }
    const boundary = /^multipart\/form-data\s*;.*?boundary=(?:"([^"]+)"|([^\s;]+))/i.exec(type);
    if (!boundary)
      throw new TypeError(
        "the body is no form: its content-type is neither multipart/form-data nor application/x-www-form-urlencoded",
      );
    const mark = utf8(`--${boundary[1] ?? boundary[2]}`),
      blank = utf8("\r\n\r\n");
    for (let at = find(bytes, mark, 0); at >= 0;) {
      const start = at + mark.length + 2,
        next = find(bytes, mark, start);
      if (next < 0) break;
      const body = find(bytes, blank, start);
      if (body < 0 || body > next) throw new TypeError("the form has a part without an end of its head");
      const head = shared.textOf(bytes.slice(start, body));
      const name = /\bname="([^"]*)"/i.exec(head)?.[1],
        filename = /\bfilename="([^"]*)"/i.exec(head)?.[1];
      const content = bytes.slice(body + 4, next - 2);
      if (name !== undefined)
        form.append(
          name,
          filename === undefined
            ? shared.textOf(content)
            : new File([content], filename, { type: /^content-type:\s*(.*)$/im.exec(head)?.[1]?.trim() ?? "" }),
        );
      at = next;
    }
    return form;
  };
  Object.assign(globals, { Blob, File, FormData });
})();
