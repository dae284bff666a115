// node:url: the Web's classes, file paths, and the legacy parse() and format().
globalThis.__membrane.factories.set("url", (exports, module, load) => {
  "use strict";
  const { coded, wrongType } = load("internal/check");
  const { globals } = load("internal/shared");
  const { URL, URLSearchParams } = globals;

  function fileURLToPath(given) {
    const url = typeof given === "string" ? new URL(given) : given;
    if (!(url instanceof URL)) wrongType("path", "of type string or an instance of URL", given);
    if (url.protocol !== "file:") throw coded(TypeError, "ERR_INVALID_URL_SCHEME", "The URL must be of scheme file");
    if (url.hostname !== "")
      throw coded(TypeError, "ERR_INVALID_FILE_URL_HOST", 'File URL host must be "localhost" or empty on linux');
    if (/%2f/i.test(url.pathname))
      throw coded(TypeError, "ERR_INVALID_FILE_URL_PATH", "File URL path must not include encoded / characters");
    return decodeURIComponent(url.pathname);
  }
  function pathToFileURL(path) {
    if (typeof path !== "string") wrongType("path", "of type string", path);
    const whole = load("path").resolve(path) + (path.endsWith("/") && path !== "/" ? "/" : "");
    const escapes = { "%": "%25", "\\": "%5C", "\n": "%0A", "\r": "%0D", "\t": "%09", "?": "%3F", "#": "%23" };
    return new URL(`file://${whole.replace(/[%\\\n\r\t?#]/g, (c) => escapes[c])}`);
  }

  // --- legacy functions ---

  const kSlashed = new Set([
    "http",
    "http:",
    "https",
    "https:",
    "ftp",
    "ftp:",
    "gopher",
    "gopher:",
    "file",
    "file:",
    "ws",
    "ws:",
    "wss",
    "wss:",
  ]);
  const kHostless = new Set(["javascript", "javascript:"]);
  function Url() {
    for (const name of [
      "protocol",
      "slashes",
      "auth",
      "host",
      "port",
      "hostname",
      "hash",
      "search",
      "query",
      "pathname",
      "path",
      "href",
    ])
      this[name] = null;
  }
  const kEscaped = /[\t\n\r "'<>\\^`{|}]/g;
  const escapeRest = (text) =>
    text.replace(kEscaped, (c) =>
      c === "\\" ? "%5C" : `%${c.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`,
    );

  function parse(given, parseQuery = false, slashesDenoteHost = false) {
    if (given instanceof Url) return given;
    if (typeof given !== "string") wrongType("url", "of type string", given);
    const url = new Url();
    let rest = given.trim();
    const queryAt = rest.indexOf("?"),
      hashAt = rest.indexOf("#");
    const slashEnd = queryAt >= 0 && (hashAt < 0 || queryAt < hashAt) ? queryAt : hashAt >= 0 ? hashAt : rest.length;
    rest = rest.slice(0, slashEnd).replaceAll("\\", "/") + rest.slice(slashEnd);
    const scheme = /^[a-z0-9.+-]+:/i.exec(rest)?.[0];
    const lower = scheme?.toLowerCase();
    if (scheme) {
      url.protocol = lower;
      rest = rest.slice(scheme.length);
    }
    if (
      (slashesDenoteHost || scheme || /^\/\/[^@/]+@[^@/]+/.test(rest)) &&
      rest.startsWith("//") &&
      !kHostless.has(lower)
    ) {
      rest = rest.slice(2);
      url.slashes = true;
    }
    if (!kHostless.has(lower) && (url.slashes || (scheme && !kSlashed.has(lower)))) rest = hostInto(url, rest, given);
    if (!kHostless.has(lower)) rest = escapeRest(rest);
    const hash = rest.indexOf("#");
    if (hash >= 0) {
      url.hash = rest.slice(hash);
      rest = rest.slice(0, hash);
    }
    const question = rest.indexOf("?");
    if (question >= 0) {
      url.search = rest.slice(question);
      url.query = parseQuery ? load("querystring").parse(url.search.slice(1)) : url.search.slice(1);
      rest = rest.slice(0, question);
    } else if (parseQuery) {
      url.search = null;
      url.query = Object.create(null);
    }
    if (rest !== "") url.pathname = rest;
    if (kSlashed.has(lower) && url.hostname && !url.pathname) url.pathname = "/";
    if (url.pathname || url.search) url.path = (url.pathname ?? "") + (url.search ?? "");
    url.href = url.format();
    return url;
  }
  function hostInto(url, rest, given) {
    const end = /[/?#]/.exec(rest)?.index ?? rest.length;
    let host = rest.slice(0, end);
    const at = host.lastIndexOf("@");
    if (at >= 0) {
      url.auth = decodeURIComponent(host.slice(0, at));
      host = host.slice(at + 1);
    }
    const port = /:(\d*)$/.exec(host);
    if (port && !(host.startsWith("[") && !host.includes("]:"))) {
      if (port[1] !== "") url.port = port[1];
      host = host.slice(0, -port[0].length);
    }
    if (/[\s<>"`{}|^%\\]/.test(host)) throw coded(TypeError, "ERR_INVALID_URL", "Invalid URL", { input: given });
    url.hostname = host.toLowerCase();
    url.host = url.hostname + (url.port ? `:${url.port}` : "");
    if (url.hostname.startsWith("[") && url.hostname.endsWith("]")) url.hostname = url.hostname.slice(1, -1);
    return rest.slice(end);
  }

  Url.prototype.parse = function (...values) {
    return Object.assign(this, parse(...values));
  };
  Url.prototype.format = function () {
    let auth = this.auth ? `${encodeURIComponent(this.auth).replace(/%3A/gi, ":")}@` : "";
    let protocol = this.protocol || "",
      pathname = this.pathname || "",
      hash = this.hash || "",
      host = "";
    if (this.host) host = auth + this.host;
    else if (this.hostname)
      host =
        auth +
        (this.hostname.includes(":") && !this.hostname.startsWith("[") ? `[${this.hostname}]` : this.hostname) +
        (this.port ? `:${this.port}` : "");
    const query =
      this.query !== null && typeof this.query === "object" ? load("querystring").stringify(this.query) : "";
    let search = this.search || (query && `?${query}`) || "";
    if (protocol && !protocol.endsWith(":")) protocol += ":";
    pathname = pathname.replace(/[?#]/g, (c) => (c === "?" ? "%3F" : "%23"));
    if (this.slashes || kSlashed.has(protocol)) {
      if (this.slashes || host) {
        if (pathname && !pathname.startsWith("/")) pathname = `/${pathname}`;
        host = `//${host}`;
      } else if (protocol.startsWith("file")) {
        host = "//";
      }
    }
    search = search.replaceAll("#", "%23");
    if (hash && !hash.startsWith("#")) hash = `#${hash}`;
    if (search && !search.startsWith("?")) search = `?${search}`;
    auth = "";
    return protocol + host + pathname + search + hash;
  };
  Url.prototype.resolve = function (relative) {
    return resolve(this.format(), relative);
  };

  function format(given, options) {
    if (typeof given === "string") return parse(given).format();
    if (given instanceof URL) {
      const { auth = true, fragment = true, search = true } = options ?? {};
      const copy = new URL(given.href);
      if (!auth) copy.username = copy.password = "";
      if (!fragment) copy.hash = "";
      if (!search) copy.search = "";
      return copy.href;
    }
    if (given === null || typeof given !== "object") wrongType("urlObject", "one of type object or string", given);
    return Url.prototype.format.call(given);
  }
  // By the rules of the Web, with a base that is removed again if it was relative itself.
  function resolve(from, to) {
    const hasScheme = /^[a-z][a-z0-9+.-]*:/i.test(from);
    if (/^[a-z][a-z0-9+.-]*:/i.test(to)) return parse(to).href;
    if (hasScheme) return new URL(to, from).href;
    const base = new URL(from, "resolve://host/");
    const url = new URL(to, base);
    if (url.protocol !== "resolve:") return url.href;
    if (url.host !== "host") return url.href.slice("resolve:".length);
    const whole = url.pathname + url.search + url.hash;
    return from.startsWith("/") || to.startsWith("/") ? whole : whole.slice(1);
  }
  const urlToHttpOptions = (url) => ({
    protocol: url.protocol,
    hostname: url.hostname.replace(/^\[|\]$/g, ""),
    hash: url.hash,
    search: url.search,
    pathname: url.pathname,
    path: `${url.pathname}${url.search}`,
    href: url.href,
    ...(url.port ? { port: Number(url.port) } : {}),
    ...(url.username || url.password
      ? { auth: `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}` }
      : {}),
  });
  module.exports = {
    URL,
    URLSearchParams,
    Url,
    parse,
    format,
    resolve,
    resolveObject: (from, to) => parse(resolve(from, to)),
    fileURLToPath,
    pathToFileURL,
    urlToHttpOptions,
    domainToASCII: (name) => {
      try {
        return new URL(`http://${name}`).hostname;
      } catch {
        return "";
      }
    },
    domainToUnicode: (name) => name,
  };
});
