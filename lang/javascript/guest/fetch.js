// The capabilities as `membrane`, built from the host's description; and fetch() over http.
(() => {
  "use strict";
  const shared = globalThis.__membrane;
  const { globals } = shared;
  const door = globalThis.__membrane_door;
  delete globalThis.__membrane_door;

  // --- requests to the door, which work even if a program modifies the built-in objects ---

  const parseJson = JSON.parse, stringify = JSON.stringify;
  const { getPrototypeOf, hasOwn, keys, prototype: objects, setPrototypeOf } = Object;
  const { isArray, prototype: arrays } = Array;

  // The engine's own writer is faster, but asks the prototypes for toJSON.
  const isAsItWas = () => !hasOwn(objects, "toJSON") && !hasOwn(arrays, "toJSON") && getPrototypeOf(arrays) === objects;
  const toJson = (value) => isAsItWas() ? stringify(value) : written(value);
  // For values that JSON itself has.
  function written(value) {
    if (value === null || typeof value !== "object") return stringify(value) ?? "null";
    let text = "";
    if (isArray(value)) {
      for (let i = 0; i < value.length; ++i) text += `${i === 0 ? "" : ","}${written(value[i])}`;
      return `[${text}]`;
    }
    const names = keys(value);
    for (let i = 0; i < names.length; ++i)
      if (value[names[i]] !== undefined) text += `${text === "" ? "" : ","}${stringify(names[i])}:${written(value[names[i]])}`;
    return `{${text}}`;
  }
  // An answer has only what the host put there, and nothing from a prototype.
  const bare = (value) =>
    value !== null && typeof value === "object" && !isArray(value) ? setPrototypeOf(value, null) : value;
  function parseAnswer(text) {
    const answer = bare(parseJson(text));
    bare(answer.error);
    bare(answer.value);
    return answer;
  }

  const kNames = { EACCES: "PermissionError", ENOENT: "NotFoundError", EINVAL: "ArgumentError", ETIMEDOUT: "TimeoutError",
                   ECONNECT: "ConnectionError" };

  // A call that no grant allows, or that failed: `errno` says how ("EBUDGET"), `grant` what would allow it.
  class MembraneError extends Error {
    constructor({ errno = "EHOST", message = "", grant = "" }, what = "") {
      const why = grant ? `${errno}; ${grant} would allow it` : errno;
      super(`${what ? `${what}: ` : ""}${message || errno} (${why})`);
      Object.defineProperty(this, "name", { __proto__: null, value: kNames[errno] ?? "MembraneError", writable: true, configurable: true });
      Object.assign(this, { errno, grant });
    }
  }

  shared.request = (request) => parseAnswer(door(toJson(request)));
  // The same with bytes in the request, or alone in its answer: base64 needs no JSON escaping.
  shared.requestWith = (request, name, bytes) =>
    parseAnswer(door(`${toJson(request).slice(0, -1)},"${name}":{"base64":"${toBase64(bytes)}"}}`));
  shared.requestBytes = (request) => {
    const answer = door(toJson(request)), head = '{"value":{"base64":"';
    return answer.startsWith(head) ? { bytes: ofBase64(answer.slice(head.length, -3)) } : parseAnswer(answer);
  };
  function ask(request, what) {
    const answer = shared.request(request);
    if (answer.error && answer.error.errno) throw new MembraneError(answer.error, what);
    return answer;
  }
  shared.ask = ask;

  // --- bytes and strings ---

  const encodeBase64 = Uint8Array.prototype.toBase64;
  const toBase64 = (bytes) => encodeBase64.call(bytes);
  const ofBase64 = (text) => Uint8Array.fromBase64(text);
  Object.assign(shared, { toBase64, ofBase64 });

  function toParameter({ name, type }, value, what) {
    const refuse = (needed) => { throw new TypeError(`${what}: ${name} is ${needed}, and not ${shared.inspect(value, { depth: 0 })}`); };
    switch (type) {
      case "text": return typeof value === "string" ? value : refuse("a string");
      case "bytes":
        if (typeof value === "string") return value;
        if (value instanceof ArrayBuffer || ArrayBuffer.isView(value)) return { base64: toBase64(shared.bytesOf(value)) };
        return refuse("a string or bytes");
      case "f64":
        if (typeof value !== "number") return refuse("a number");
        return Number.isFinite(value) ? value : { number: Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf" };
      default:
        if (typeof value === "bigint") return { integer: String(value) };
        return Number.isSafeInteger(value) ? value : refuse("an integer");
    }
  }

  function ofResult(result, value) {
    if (!result) return undefined;
    if (value === null || typeof value !== "object") return value;
    if (value.base64 !== undefined) return ofBase64(value.base64);
    if (value.integer !== undefined) return BigInt(value.integer);
    return { nan: NaN, inf: Infinity, "-inf": -Infinity }[value.number];
  }

  function functionOf({ name, params, result, summary }) {
    const made = (...values) => {
      if (values.length !== params.length)
        throw new TypeError(`${name}(${params.map((p) => p.name).join(", ")}) takes ${params.length} arguments, and not ${values.length}`);
      const given = params.map((param, i) => toParameter(param, values[i], name));
      return ofResult(result, ask({ call: name, arguments: given }, name).value);
    };
    Object.defineProperty(made, "name", { value: name });
    Object.defineProperty(made, "length", { value: params.length });
    made.summary = summary;
    return made;
  }

  const membrane = {};
  for (const { name, functions } of ask({ registry: true }).capabilities)
    membrane[name] = Object.fromEntries(functions.map((f) => [f.name.slice(name.length + 1), functionOf(f)]));
  shared.membrane = membrane;
  shared.randomBytes = (count) => {
    if (count === 0) return new Uint8Array(0);
    const bytes = membrane.random.bytes(count);
    return typeof bytes === "string" ? new TextEncoder().encode(bytes) : bytes;
  };

  // --- fetch ---

  const isToken = (text) => /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/.test(text);

  class Headers {
    #items = new Map();
    constructor(init) {
      if (init === undefined || init === null) return;
      const pairs = typeof init[Symbol.iterator] === "function" ? init : Object.entries(init);
      for (const [name, value] of pairs) this.append(name, value);
    }
    #name(name) {
      const text = String(name);
      if (!isToken(text)) throw new TypeError(`Headers: ${text} is not a legal name of a header`);
      return text.toLowerCase();
    }
    #value(value) {
      const text = String(value).trim();
      if (/[\r\n\0]/.test(text)) throw new TypeError("Headers: a value has a line break in it");
      return text;
    }
    append(name, value) {
      const key = this.#name(name);
      this.#items.set(key, this.#items.has(key) ? `${this.#items.get(key)}, ${this.#value(value)}` : this.#value(value));
    }
    set(name, value) { this.#items.set(this.#name(name), this.#value(value)); }
    get(name) { return this.#items.get(this.#name(name)) ?? null; }
    has(name) { return this.#items.has(this.#name(name)); }
    delete(name) { this.#items.delete(this.#name(name)); }
    getSetCookie() { return []; }
    forEach(call, self) { for (const [name, value] of this) call.call(self, value, name, this); }
    *entries() { for (const name of [...this.#items.keys()].sort()) yield [name, this.#items.get(name)]; }
    *keys() { for (const [name] of this.entries()) yield name; }
    *values() { for (const [, value] of this.entries()) yield value; }
    [Symbol.iterator]() { return this.entries(); }
    get [Symbol.toStringTag]() { return "Headers"; }
    [Symbol.for("nodejs.util.inspect.custom")](depth, options, inspect) {
      return `Headers ${inspect(Object.fromEntries(this.entries()))}`;
    }
  }

  // The bytes of a body (or a stream of them), and its content type.
  function bodyOf(body) {
    if (body === undefined || body === null) return [null, null];
    if (body instanceof globals.URLSearchParams)
      return [shared.utf8(String(body)), "application/x-www-form-urlencoded;charset=UTF-8"];
    if (body instanceof globals.FormData) return shared.encodeForm(body);
    if (body instanceof globals.Blob) return [globals.Blob._bytes(body), body.type || null];
    if (body instanceof ArrayBuffer || ArrayBuffer.isView(body)) return [shared.bytesOf(body).slice(), null];
    if (typeof body[Symbol.asyncIterator] === "function")
      return [body instanceof globals.ReadableStream ? body : globals.ReadableStream.from(body), null];
    if (typeof body === "object" && String(body) === "[object Object]")
      throw new TypeError("a body is a string, bytes, a Blob, FormData, URLSearchParams or a stream; " +
        "an object is sent by JSON.stringify()");
    return [shared.utf8(String(body)), "text/plain;charset=UTF-8"];
  }

  class Body {
    #bytes = null;
    #stream = null;  // created on demand, or given
    #isUsed = false;
    _take(body, headers) {
      const [given, type] = bodyOf(body);
      if (given instanceof globals.ReadableStream) this.#stream = given;
      else this.#bytes = given;
      if (type && !headers.has("content-type")) headers.set("content-type", type);
    }
    get _bytes() { return this.#bytes; }
    get _content() { return this.#bytes ?? this.#stream; }
    get _bytes() { return this.#bytes; }
    get bodyUsed() { return this.#isUsed || Boolean(this.#stream?._disturbed); }
    async _whole() {
      if (this.bodyUsed || this.#stream?.locked) throw new TypeError("Body is unusable: Body has already been read");
      this.#isUsed = this._content !== null;
      return this.#bytes ?? (this.#stream ? shared.readWhole(this.#stream) : new Uint8Array(0));
    }
    async bytes() { return this._whole(); }
    async arrayBuffer() { return (await this._whole()).slice().buffer; }
    async text() { return new globals.TextDecoder().decode(await this._whole()); }
    async json() { return parseJson(await this.text()); }
    async blob() { return new globals.Blob([await this._whole()], { type: this.headers.get("content-type") ?? "" }); }
    async formData() { return shared.decodeForm(await this._whole(), this.headers.get("content-type") ?? ""); }
    get body() {
      if (this.#stream === null && this.#bytes !== null) this.#stream = shared.streamOf(this.#bytes);
      return this.#stream;
    }
  }

  class Request extends Body {
    constructor(input, init = {}) {
      super();
      const from = input instanceof Request ? input : {};
      this.url = input instanceof Request ? input.url : new globals.URL(input).href;
      this.method = String(init.method ?? from.method ?? "GET");
      if (/^(get|head|post|put|delete|options)$/i.test(this.method)) this.method = this.method.toUpperCase();
      this.headers = new Headers(init.headers ?? from.headers);
      this.signal = init.signal ?? from.signal ?? new globals.AbortController().signal;
      this.redirect = init.redirect ?? from.redirect ?? "follow";
      const body = init.body ?? from._content;
      if (body !== undefined && body !== null && (this.method === "GET" || this.method === "HEAD"))
        throw new TypeError("Request with GET/HEAD method cannot have body.");
      this._take(body, this.headers);
    }
    clone() { return new Request(this); }
    get [Symbol.toStringTag]() { return "Request"; }
  }

  class Response extends Body {
    constructor(body = null, { status = 200, statusText = "", headers } = {}) {
      super();
      if (status < 200 || status > 599) throw new RangeError(`${status} is not the status of a response`);
      this._set({ status, statusText: String(statusText), headers: new Headers(headers), url: "", type: "default", redirected: false });
      this._take(body, this.headers);
    }
    _set(fields) { Object.assign(this, fields, { ok: fields.status >= 200 && fields.status <= 299 }); }
    static json(value, init = {}) {
      const headers = new Headers(init.headers);
      if (!headers.has("content-type")) headers.set("content-type", "application/json");
      return new Response(JSON.stringify(value), { ...init, headers });
    }
    static error() {
      const made = new Response();
      made._set({ status: 0, statusText: "", headers: new Headers(), url: "", type: "error", redirected: false });
      return made;
    }
    clone() {
      if (this.bodyUsed) throw new TypeError("Response.clone: Body has already been consumed.");
      const [mine, copy] = this._bytes === null && this.body ? this.body.tee() : [null, this._bytes];
      if (mine) this._take(mine, this.headers);
      const made = new Response(copy);
      const { status, statusText, headers, url, type, redirected } = this;
      made._set({ status, statusText, headers: new Headers(headers), url, type, redirected });
      return made;
    }
    get [Symbol.toStringTag]() { return "Response"; }
  }

  const kReasons = { 200: "OK", 201: "Created", 202: "Accepted", 204: "No Content", 301: "Moved Permanently", 302: "Found",
                     303: "See Other", 304: "Not Modified", 307: "Temporary Redirect", 308: "Permanent Redirect", 400: "Bad Request",
                     401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed", 409: "Conflict",
                     410: "Gone", 422: "Unprocessable Entity", 429: "Too Many Requests", 500: "Internal Server Error",
                     502: "Bad Gateway", 503: "Service Unavailable", 504: "Gateway Timeout" };
  const kOfTheConnection = ["host", "content-length", "connection", "transfer-encoding", "accept-encoding", "keep-alive", "te",
                            "trailer", "upgrade", "expect"];

  // Requests made before the program awaits, as in Promise.all(urls.map(fetch)), are sent together.
  const kMostTogether = 64;
  let waiting = [];
  function exchange(sent, what, place) {
    return new Promise((resolve, reject) => {
      const fail = (error) => reject(placedAt(error, place));
      if (waiting.push({ sent, what, resolve, reject: fail }) === 1) Promise.resolve().then(sendWaiting);
    });
  }
  // The error of a request that is sent later has the place of the call that asked for it.
  function placedAt(error, place) {
    const stack = [`${error.name}: ${error.message}`, ...place.stack.split("\n").slice(1)].join("\n");
    return Object.defineProperty(error, "stack", { __proto__: null, value: stack, writable: true, configurable: true });
  }
  function sendWaiting() {
    const all = waiting;
    waiting = [];
    for (let at = 0; at < all.length; at += kMostTogether) sendTogether(all.slice(at, at + kMostTogether));
  }
  function sendTogether(some) {
    let answers;
    try {
      answers = some.length === 1 ? [bare(parseJson(ask({ call: "http.exchange", arguments: some[0].sent }, some[0].what).value))]
        : parseJson(ask({ call: "http.get_many", arguments: [toJson(some.map(asObject))] }, "fetch").value).map(bare);
    } catch (error) {
      for (const { reject } of some) reject(error);
      return;
    }
    some.forEach(({ what, resolve, reject }, i) => {
      if (answers[i].errno) reject(new MembraneError(answers[i], what));
      else resolve(answers[i]);
    });
  }
  function asObject({ sent: [method, url, headers, body] }) {
    return { method, url, ...(headers && { headers: parseJson(headers) }), ...(body && { body_base64: body.base64 }) };
  }

  // The response to a data: URL, which has its body in itself.
  function responseOfData(url) {
    const comma = url.indexOf(","), fail = (why) => { throw new TypeError(`fetch failed: the data: URL ${why}`); };
    if (comma < 0) fail("has no comma, which its data follows");
    const [, kind, isBase64] = /^(.*?)( *; *base64)?$/is.exec(url.slice(5, comma).trim());
    const text = url.slice(comma + 1).replace(/%([0-9a-f]{2})/gi, (_, digits) => String.fromCharCode(parseInt(digits, 16)));
    let body;
    try {
      body = isBase64 ? ofBase64(text) : Uint8Array.from(text, (letter) => letter.charCodeAt(0));
    } catch {
      fail("is not base64 after its comma");
    }
    const response = new Response(body, { statusText: "OK", headers: { "content-type": mediaType(kind) } });
    response._set({ status: 200, url, type: "basic", redirected: false });
    return response;
  }
  function mediaType(text) {
    const [type, ...parameters] = (text.startsWith(";") ? `text/plain${text}` : text).split(";").map((part) => part.trim());
    const names = type.toLowerCase().split("/");
    if (names.length !== 2 || !names.every(isToken)) return "text/plain;charset=US-ASCII";
    const kept = parameters.map((each) => /^([^=]+)=(.+)$/.exec(each)).filter((found) => found && isToken(found[1]));
    return [names.join("/"), ...kept.map(([, name, value]) => `${name.toLowerCase()}=${value}`)].join(";");
  }

  async function fetch(input, init) {
    const place = new Error();
    const request = new Request(input, init);
    request.signal.throwIfAborted();
    if (request.url.startsWith("data:")) return responseOfData(request.url.split("#")[0]);
    // Available content is not awaited: so requests that are made together stay together.
    const content = request._content === null ? null : request._bytes ?? await request._whole();
    const headers = Object.fromEntries([...request.headers].filter(([name]) => !kOfTheConnection.includes(name)));
    const sent = [request.method, request.url.split("#")[0], Object.keys(headers).length ? toJson(headers) : "",
                  content ? { base64: toBase64(content) } : ""];
    const answer = await exchange(sent, `fetch ${request.url}`, place);
    const redirected = new globals.URL(answer.url).href !== new globals.URL(sent[1]).href;
    if (redirected && request.redirect === "error") throw new TypeError(`fetch failed: ${request.url} redirects to ${answer.url}`);
    const response = new Response();
    response._set({ status: answer.status, statusText: kReasons[answer.status] ?? "", headers: new Headers(answer.headers),
                    url: answer.url, type: "basic", redirected });
    const body = answer.body_base64 === undefined ? new TextEncoder().encode(answer.body) : ofBase64(answer.body_base64);
    response._take(body, response.headers);
    return response;
  }

  Object.assign(globals, { Headers, Request, Response, fetch, membrane });
})();
