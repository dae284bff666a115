// URL and URLSearchParams: the URL standard (https://url.spec.whatwg.org/), without domains that are not ASCII.
(() => {
  "use strict";

  const kSpecial = { "http:": "80", "https:": "443", "ws:": "80", "wss:": "443", "ftp:": "21", "file:": "" };
  const kForbiddenHost = /[\u0000-\u0020"#%/:<>?@[\\\]^`{|}\u007f]/;
  const utf8 = (text) => unescape(encodeURIComponent(text.replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, "\ufffd")));

  // Percent-encodes control characters, non-ASCII characters, and the characters of the set.
  function encode(text, set) {
    let out = "";
    for (const character of utf8(text)) {
      const code = character.charCodeAt(0);
      out += code <= 0x1f || code >= 0x7f || set.includes(character)
        ? "%" + code.toString(16).toUpperCase().padStart(2, "0") : character;
    }
    return out;
  }
  const kFragment = " \"<>`", kQuery = " \"#<>", kSpecialQuery = kQuery + "'", kPath = kQuery + "?^`{}", kUser = kPath + "/:;=@[\\]|";

  function decodePercents(text) {
    const bytes = utf8(text).replace(/%([0-9a-fA-F]{2})/g, (_, hex) => String.fromCharCode(parseInt(hex, 16)));
    return new TextDecoder().decode(Uint8Array.from(bytes, (c) => c.charCodeAt(0)));
  }

  const fail = (text, why) => { throw Object.assign(new TypeError(`Invalid URL: ${why}`), { code: "ERR_INVALID_URL", input: text }); };

  // 127.0.0.1, in all its notations; undefined if the host is not such a number.
  function ipv4Of(host) {
    const parts = host.split(".");
    if (parts.at(-1) === "" && parts.length > 1) parts.pop();
    if (!/^(\d+|0[xX][0-9a-fA-F]*)$/.test(parts.at(-1))) return undefined;
    const numbers = parts.map((part) => {
      if (/^0[xX][0-9a-fA-F]*$/.test(part)) return part.length === 2 ? 0 : parseInt(part, 16);
      if (/^0[0-7]+$/.test(part)) return parseInt(part, 8);
      return /^(0|[1-9]\d*)$/.test(part) ? Number(part) : NaN;
    });
    if (numbers.length > 4 || numbers.some(Number.isNaN) || numbers.slice(0, -1).some((n) => n > 255)) return null;
    const last = numbers.pop();
    if (last >= 256 ** (4 - numbers.length)) return null;
    const value = numbers.reduce((sum, n, i) => sum + n * 256 ** (3 - i), last);
    return [24, 16, 8, 0].map((shift) => Math.floor(value / 2 ** shift) % 256).join(".");
  }

  function ipv6Of(text) {
    let body = text;
    const dotted = /^(.*:)(\d+\.\d+\.\d+\.\d+)$/.exec(body);
    if (dotted) {
      const bytes = dotted[2].split(".").map(Number);
      if (bytes.some((b) => b > 255)) return null;
      body = `${dotted[1]}${(bytes[0] * 256 + bytes[1]).toString(16)}:${(bytes[2] * 256 + bytes[3]).toString(16)}`;
    }
    const halves = body.split("::");
    if (halves.length > 2) return null;
    const [left, right] = halves.map((half) => half === "" ? [] : half.split(":"));
    const missing = 8 - left.length - (right?.length ?? 0);
    if (right === undefined ? missing !== 0 : missing < 1) return null;
    const pieces = [...left, ...Array(right === undefined ? 0 : missing).fill("0"), ...(right ?? [])];
    if (!pieces.every((piece) => /^[0-9a-fA-F]{1,4}$/.test(piece))) return null;
    const words = pieces.map((piece) => parseInt(piece, 16).toString(16));
    const zeros = [...words.join(":").matchAll(/(?<![0-9a-f])0(?::0)+(?![0-9a-f])/g)].sort((a, b) => b[0].length - a[0].length)[0];
    if (!zeros) return words.join(":");
    const joined = words.join(":");
    return `${joined.slice(0, zeros.index).replace(/:$/, "")}::${joined.slice(zeros.index + zeros[0].length).replace(/^:/, "")}`;
  }

  function hostOf(text, isSpecial, whole) {
    if (text.startsWith("[")) {
      const address = text.endsWith("]") ? ipv6Of(text.slice(1, -1)) : null;
      return address === null ? fail(whole, "the address in brackets is none") : `[${address}]`;
    }
    if (!isSpecial) return /[\u0000\t\n\r #/:<>?@[\\\]^|]/.test(text) ? fail(whole, "the host has a character that none has") : encode(text, "");
    const host = decodePercents(text).toLowerCase();
    if (host === "" || kForbiddenHost.test(host)) fail(whole, "the host is empty, or has a character that none has");
    if (/[^\u0000-\u007f]/.test(host)) fail(whole, "hosts that are not ASCII must be given in their xn-- form");
    const address = ipv4Of(host);
    return address === null ? fail(whole, "the host ends in a number, and is no IPv4 address") : address ?? host;
  }

  // The parts of a URL; those of `base` are used if the text is relative.
  function parse(input, base) {
    const text = String(input).replace(/^[\u0000-\u0020]+|[\u0000-\u0020]+$/g, "").replace(/[\t\n\r]/g, "");
    let rest = text;
    const url = { protocol: "", username: "", password: "", host: null, port: "", path: [], opaque: null, query: null, fragment: null };
    const hash = rest.indexOf("#");
    if (hash >= 0) [rest, url.fragment] = [rest.slice(0, hash), encode(rest.slice(hash + 1), kFragment)];
    const scheme = /^([a-zA-Z][a-zA-Z0-9+.-]*):/.exec(rest);
    const isOwn = scheme && !(base && kSpecial[scheme[0].toLowerCase()] !== undefined && scheme[0].toLowerCase() === base.protocol
      && scheme[0].toLowerCase() !== "file:" && !/^[/\\]{2}/.test(rest.slice(scheme[0].length)) && base.opaque === null);
    if (scheme) rest = rest.slice(scheme[0].length);
    if (scheme && isOwn) {
      url.protocol = scheme[0].toLowerCase();
    } else if (!base) {
      fail(text, "it is relative, and there is nothing that it could be relative to");
    } else if (base.opaque !== null) {
      if (rest !== "" || hash < 0) fail(text, `it is relative, and ${base.protocol} has no paths`);
      return { ...base, fragment: url.fragment };
    } else {
      url.protocol = base.protocol;
    }
    const isSpecial = kSpecial[url.protocol] !== undefined;
    const question = rest.indexOf("?");
    if (question >= 0) {
      url.query = encode(rest.slice(question + 1), isSpecial ? kSpecialQuery : kQuery);
      rest = rest.slice(0, question);
    }
    if (isSpecial) rest = rest.replaceAll("\\", "/");
    const hasAuthority = rest.startsWith("//") || (isOwn && isSpecial && url.protocol !== "file:");
    if (hasAuthority) {
      const [, authority, path] = (isSpecial && url.protocol !== "file:" ? /^\/*([^/]*)(.*)$/ : /^\/\/([^/]*)(.*)$/).exec(rest);
      authorityInto(url, authority, isSpecial, text);
      url.path = pathOf([], path, isSpecial, url.protocol);
    } else if (isOwn && !rest.startsWith("/") && !isSpecial) {
      url.opaque = encode(rest, "");
    } else {
      if (url.protocol === "file:") url.host = "";
      if (!isOwn) Object.assign(url, { username: base.username, password: base.password, host: base.host, port: base.port });
      if (rest === "" && !isOwn) {
        url.path = [...base.path];
        if (url.query === null) url.query = base.query;
      } else {
        url.path = pathOf(rest.startsWith("/") || isOwn ? [] : base.path.slice(0, -1), rest, isSpecial, url.protocol);
      }
    }
    return url;
  }

  function authorityInto(url, authority, isSpecial, text) {
    let host = authority;
    const at = authority.lastIndexOf("@");
    if (at >= 0) {
      const [user, ...password] = authority.slice(0, at).split(":");
      url.username = encode(user, kUser);
      url.password = encode(password.join(":"), kUser);
      host = authority.slice(at + 1);
      if (host === "") fail(text, "there is no host");
    }
    const port = /:(\d*)$/.exec(host.startsWith("[") ? host.slice(host.indexOf("]")) : host);
    if (port && url.protocol !== "file:") {
      host = host.slice(0, host.length - port[0].length);
      if (Number(port[1]) > 65535) fail(text, "the port is larger than 65535");
      url.port = port[1] === "" || String(Number(port[1])) === kSpecial[url.protocol] ? "" : String(Number(port[1]));
    }
    if (url.protocol === "file:") url.host = host === "" || host.toLowerCase() === "localhost" ? "" : hostOf(host, true, text);
    else if (host === "" && !isSpecial) url.host = port || at >= 0 ? fail(text, "there is no host") : "";
    else url.host = hostOf(host, isSpecial, text);
  }

  function pathOf(start, text, isSpecial) {
    if (text === "") return start.length === 0 && isSpecial ? [""] : start;
    const path = start;
    const segments = text.split("/");
    if (text.startsWith("/")) segments.shift();
    segments.forEach((segment, i) => {
      const isLast = i === segments.length - 1;
      const plain = segment.replace(/%2e/gi, ".");
      if (plain === "..") {
        path.pop();
        if (isLast) path.push("");
      } else if (plain === ".") {
        if (isLast) path.push("");
      } else {
        path.push(encode(segment, kPath));
      }
    });
    return path;
  }

  const pathText = (url) => url.opaque ?? (url.path.length === 0 ? "" : "/" + url.path.join("/"));
  function textOf(url) {
    const user = url.username || url.password ? `${url.username}${url.password ? `:${url.password}` : ""}@` : "";
    const authority = url.host === null ? (url.opaque === null && url.path.length > 1 && url.path[0] === "" ? "/." : "")
      : `//${user}${url.host}${url.port && `:${url.port}`}`;
    return url.protocol + authority + pathText(url) + (url.query === null ? "" : `?${url.query}`) + (url.fragment === null ? "" : `#${url.fragment}`);
  }

  const formEncode = (text) => [...utf8(text)].map((c) => /[a-zA-Z0-9*\-._]/.test(c) ? c
    : c === " " ? "+" : "%" + c.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")).join("");
  const formDecode = (text) => decodePercents(text.replaceAll("+", " "));

  class URLSearchParams {
    #pairs = [];
    #changed = null;

    constructor(init = "") {
      if (init !== null && typeof init === "object") {
        if (typeof init[Symbol.iterator] === "function") {
          for (const pair of init) {
            const [name, value, ...rest] = pair;
            if (value === undefined || rest.length) throw new TypeError("each pair has a name and a value");
            this.#pairs.push([String(name), String(value)]);
          }
        } else {
          for (const name of Object.keys(init)) this.#pairs.push([name, String(init[name])]);
        }
      } else {
        this.#parse(String(init).replace(/^\?/, ""));
      }
    }
    static _of(query, changed) {
      const made = new URLSearchParams(query);
      made.#changed = changed;
      return made;
    }
    _reset(query) {
      this.#pairs = [];
      this.#parse(query);
    }
    #parse(text) {
      for (const piece of text.split("&")) {
        if (piece === "") continue;
        const at = piece.indexOf("=");
        this.#pairs.push(at < 0 ? [formDecode(piece), ""] : [formDecode(piece.slice(0, at)), formDecode(piece.slice(at + 1))]);
      }
    }
    #tell() { this.#changed?.(this.toString()); }

    append(name, value) { this.#pairs.push([String(name), String(value)]); this.#tell(); }
    delete(name, value) {
      this.#pairs = this.#pairs.filter(([n, v]) => n !== String(name) || (value !== undefined && v !== String(value)));
      this.#tell();
    }
    get(name) { return this.#pairs.find(([n]) => n === String(name))?.[1] ?? null; }
    getAll(name) { return this.#pairs.filter(([n]) => n === String(name)).map(([, v]) => v); }
    has(name, value) { return this.#pairs.some(([n, v]) => n === String(name) && (value === undefined || v === String(value))); }
    set(name, value) {
      const at = this.#pairs.findIndex(([n]) => n === String(name));
      if (at < 0) return this.append(name, value);
      this.#pairs = this.#pairs.filter(([n], i) => n !== String(name) || i === at);
      this.#pairs[at][1] = String(value);
      this.#tell();
    }
    sort() {
      this.#pairs.sort(([a], [b]) => a < b ? -1 : a > b ? 1 : 0);
      this.#tell();
    }
    get size() { return this.#pairs.length; }
    forEach(call, self) { for (const [name, value] of this.#pairs) call.call(self, value, name, this); }
    *entries() { for (const [name, value] of this.#pairs) yield [name, value]; }
    *keys() { for (const [name] of this.#pairs) yield name; }
    *values() { for (const [, value] of this.#pairs) yield value; }
    [Symbol.iterator]() { return this.entries(); }
    toString() { return this.#pairs.map(([n, v]) => `${formEncode(n)}=${formEncode(v)}`).join("&"); }
    get [Symbol.toStringTag]() { return "URLSearchParams"; }
    [Symbol.for("nodejs.util.inspect.custom")](depth, options, inspect) {
      const shown = this.#pairs.map(([n, v]) => `${inspect(n)} => ${inspect(v)}`);
      return shown.length ? `URLSearchParams { ${shown.join(", ")} }` : "URLSearchParams {}";
    }
  }

  class URL {
    #url;
    #params;

    constructor(url, base) {
      this.#url = parse(url, base === undefined ? undefined : parse(base));
      this.#params = URLSearchParams._of(this.#url.query ?? "", (query) => { this.#url.query = query === "" ? null : query; });
    }
    static canParse(url, base) {
      try {
        return Boolean(new URL(url, base));
      } catch {
        return false;
      }
    }
    static parse(url, base) {
      try {
        return new URL(url, base);
      } catch {
        return null;
      }
    }

    get href() { return textOf(this.#url); }
    set href(value) {
      this.#url = parse(value);
      this.#params._reset(this.#url.query ?? "");
    }
    get origin() {
      const special = kSpecial[this.protocol] !== undefined && this.protocol !== "file:";
      return special ? `${this.protocol}//${this.host}` : "null";
    }
    get protocol() { return this.#url.protocol; }
    set protocol(value) {
      const name = `${String(value).replace(/:.*$/s, "").toLowerCase()}:`;
      const isSpecial = kSpecial[name] !== undefined;
      if (!/^[a-z][a-z0-9+.-]*:$/.test(name) || isSpecial !== (kSpecial[this.protocol] !== undefined)) return;
      this.#url.protocol = name;
      if (this.#url.port === kSpecial[name]) this.#url.port = "";
    }
    get username() { return this.#url.username; }
    set username(value) { if (this.#url.host) this.#url.username = encode(String(value), kUser); }
    get password() { return this.#url.password; }
    set password(value) { if (this.#url.host) this.#url.password = encode(String(value), kUser); }
    get host() { return this.hostname + (this.#url.port && `:${this.#url.port}`); }
    set host(value) { this.#tryAuthority(String(value)); }
    get hostname() { return this.#url.host ?? ""; }
    set hostname(value) { if (!/:\d*$/.test(String(value))) this.#tryAuthority(String(value), this.#url.port); }
    #tryAuthority(text, port) {
      if (this.#url.opaque !== null) return;
      const made = { ...this.#url };
      try {
        authorityInto(made, text.replace(/[/?#].*$/s, ""), kSpecial[this.protocol] !== undefined, text);
      } catch {
        return;  // an invalid host changes nothing
      }
      this.#url.host = made.host;
      this.#url.port = port ?? made.port;
    }
    get port() { return this.#url.port; }
    set port(value) {
      const digits = /^\d+/.exec(String(value))?.[0];
      if (String(value) === "") this.#url.port = "";
      else if (digits && Number(digits) <= 65535) this.#url.port = String(Number(digits)) === kSpecial[this.protocol] ? "" : String(Number(digits));
    }
    get pathname() { return pathText(this.#url); }
    set pathname(value) {
      if (this.#url.opaque !== null) return;
      const isSpecial = kSpecial[this.protocol] !== undefined;
      const text = String(value).replace(/[?#]/g, (c) => c === "?" ? "%3F" : "%23");
      this.#url.path = pathOf([], `/${(isSpecial ? text.replaceAll("\\", "/") : text).replace(/^\//, "")}`, isSpecial);
    }
    get search() { return this.#url.query ? `?${this.#url.query}` : ""; }
    set search(value) {
      const text = String(value).replace(/^\?/, "");
      this.#url.query = text === "" ? null : encode(text, kSpecial[this.protocol] !== undefined ? kSpecialQuery : kQuery);
      this.#params._reset(this.#url.query ?? "");
    }
    get searchParams() { return this.#params; }
    get hash() { return this.#url.fragment ? `#${this.#url.fragment}` : ""; }
    set hash(value) {
      const text = String(value).replace(/^#/, "");
      this.#url.fragment = text === "" ? null : encode(text, kFragment);
    }
    toString() { return this.href; }
    toJSON() { return this.href; }
    get [Symbol.toStringTag]() { return "URL"; }
    [Symbol.for("nodejs.util.inspect.custom")](depth, options, inspect) {
      const fields = ["href", "origin", "protocol", "username", "password", "host", "hostname", "port", "pathname", "search"];
      const lines = fields.map((name) => `  ${name}: ${inspect(this[name])},\n`).join("");
      return `URL {\n${lines}  searchParams: ${inspect(this.searchParams)},\n  hash: ${inspect(this.hash)}\n}`;
    }
  }

  Object.assign(globalThis.__membrane.globals ??= {}, { URL, URLSearchParams });
})();
