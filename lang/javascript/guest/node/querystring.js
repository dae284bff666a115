// node:querystring.
globalThis.__membrane.factories.set("querystring", (exports, module, load) => {
  "use strict";
  const { coded } = load("internal/check");
  const { utf8 } = load("internal/shared");

  function escape(given) {
    const text = typeof given === "string" ? given : typeof given === "object" ? String(given) : `${given}`;
    try {
      return encodeURIComponent(text);
    } catch {
      throw coded(URIError, "ERR_INVALID_URI", "URI malformed");
    }
  }
  // Decodes %-sequences; invalid ones stay.
  function unescapeBuffer(text) {
    const { Buffer } = load("buffer");
    const bytes = [];
    const source = utf8(text);
    for (let i = 0; i < source.length; ++i) {
      const code =
        source[i] === 0x25
          ? parseInt(/^[0-9a-fA-F]{2}$/.exec(String.fromCharCode(source[i + 1], source[i + 2]))?.[0], 16)
          : NaN;
      if (Number.isNaN(code)) {
        bytes.push(source[i]);
      } else {
        bytes.push(code);
        i += 2;
      }
    }
    return Buffer.from(bytes);
  }
  function unescape(text) {
    try {
      return decodeURIComponent(text);
    } catch {
      return unescapeBuffer(text).toString();
    }
  }
  function primitive(value) {
    if (typeof value === "string") return value;
    if (typeof value === "number") return Number.isFinite(value) ? String(value) : "";
    return typeof value === "bigint" || typeof value === "boolean" ? String(value) : "";
  }
  function stringify(object, separator, equals, options) {
    const sep = separator || "&",
      eq = equals || "=";
    const encode = options?.encodeURIComponent ?? querystring.escape;
    if (object === null || typeof object !== "object") return "";
    return Object.keys(object)
      .flatMap((key) => {
        const value = object[key];
        return (Array.isArray(value) ? value : [value]).map(
          (each) => `${encode(primitive(key))}${eq}${encode(primitive(each))}`,
        );
      })
      .join(sep);
  }
  function parse(text, separator, equals, options) {
    const made = Object.create(null);
    if (typeof text !== "string" || text === "") return made;
    const sep = separator ? String(separator) : "&",
      eq = equals ? String(equals) : "=";
    const most = typeof options?.maxKeys === "number" ? options.maxKeys : 1000;
    const decode = (part) => {
      const spaced = part.replaceAll("+", " ");
      try {
        return (options?.decodeURIComponent ?? querystring.unescape)(spaced);
      } catch {
        return unescape(spaced);
      }
    };
    const pieces = text.split(sep).filter((piece) => piece !== "");
    for (const piece of most > 0 ? pieces.slice(0, most) : pieces) {
      const at = piece.indexOf(eq);
      const key = decode(at < 0 ? piece : piece.slice(0, at)),
        value = at < 0 ? "" : decode(piece.slice(at + eq.length));
      if (!(key in made)) made[key] = value;
      else if (Array.isArray(made[key])) made[key].push(value);
      else made[key] = [made[key], value];
    }
    return made;
  }
  const querystring = { escape, unescape, unescapeBuffer, stringify, encode: stringify, parse, decode: parse };
  module.exports = querystring;
});
