// The modules of Node by name: those that are there, which are created on first use, and those that are absent.
((globalThis) => {
  "use strict";
  // Of the language's own, also where a program has put something else under their names.
  const { Boolean, Error, Map, Object, Proxy, Reflect } = globalThis;
  const shared = globalThis.__membrane;
  const { factories } = shared;

  // --- absent modules ---

  const kFetch = "programs have no sockets; fetch() makes HTTP requests (with --allow http:example.org)";
  const kOneProcess = "there is one process with one thread: call the function directly, or fork the session";
  const kAbsent = {
    child_process: "programs cannot start processes: do the work in JavaScript, or use a capability (the membrane module)",
    cluster: kOneProcess,
    worker_threads: kOneProcess,
    net: kFetch,
    tls: kFetch,
    dgram: kFetch,
    http: kFetch,
    https: kFetch,
    http2: kFetch,
    dns: `${kFetch}, and the host resolves their names`,
    "dns/promises": `${kFetch}, and the host resolves their names`,
    zlib: "programs cannot compress or decompress; the bodies of fetch() arrive decompressed",
    tty: "input and output are not terminals: use process.stdin and process.stdout",
    inspector: "there is no debugger: print with console.log()",
    repl: "a session is its own prompt: membrane repl --lang js",
    v8: "the engine is QuickJS: use structuredClone() for copies, process.memoryUsage() for memory",
    sqlite: 'use the capability sql (import { sql } from "membrane")',
    wasi: "JavaScript programs cannot run WebAssembly: run the module itself with membrane run",
    async_hooks: "a context does not follow promises here: pass the value as an argument",
    diagnostics_channel: "there is nothing to subscribe to: call the function itself",
  };

  const kOfDns =
    "Resolver getDefaultResultOrder getServers lookup lookupService resolve resolve4 resolve6 resolveAny resolveCaa " +
    "resolveCname resolveMx resolveNaptr resolveNs resolvePtr resolveSoa resolveSrv resolveTxt reverse " +
    "setDefaultResultOrder setServers";
  const kNamesOfAbsent = {
    child_process: "ChildProcess exec execFile execFileSync execSync fork spawn spawnSync",
    cluster: "Worker disconnect fork setupMaster setupPrimary",
    worker_threads:
      "Worker MessageChannel MessagePort BroadcastChannel receiveMessageOnPort getEnvironmentData setEnvironmentData " +
      "moveMessagePortToContext postMessageToThread",
    net:
      "BlockList Server Socket SocketAddress Stream connect createConnection createServer getDefaultAutoSelectFamily " +
      "setDefaultAutoSelectFamily",
    tls: "SecureContext Server TLSSocket connect createSecureContext createServer checkServerIdentity getCiphers",
    dgram: "Socket createSocket",
    http:
      "Agent ClientRequest IncomingMessage OutgoingMessage Server ServerResponse createServer get globalAgent request " +
      "setMaxIdleHTTPParsers validateHeaderName validateHeaderValue",
    https: "Agent Server createServer get globalAgent request",
    http2:
      "Http2ServerRequest Http2ServerResponse connect createServer createSecureServer getDefaultSettings " +
      "getPackedSettings getUnpackedSettings",
    dns: kOfDns,
    "dns/promises": kOfDns,
    zlib:
      "gzip gzipSync gunzip gunzipSync deflate deflateSync inflate inflateSync deflateRaw deflateRawSync inflateRaw " +
      "inflateRawSync " +
      "unzip unzipSync brotliCompress brotliCompressSync brotliDecompress brotliDecompressSync createGzip createGunzip " +
      "createDeflate createInflate createDeflateRaw createInflateRaw createUnzip createBrotliCompress " +
      "createBrotliDecompress crc32 BrotliCompress BrotliDecompress Deflate DeflateRaw Gunzip Gzip Inflate InflateRaw " +
      "Unzip",
    tty: "ReadStream WriteStream",
    repl: "REPLServer Recoverable start writer",
    v8:
      "serialize deserialize getHeapStatistics writeHeapSnapshot Serializer Deserializer DefaultSerializer " +
      "DefaultDeserializer GCProfiler getHeapSnapshot getHeapSpaceStatistics setFlagsFromString",
    sqlite: "DatabaseSync",
    wasi: "WASI",
    async_hooks: "createHook executionAsyncId executionAsyncResource triggerAsyncId",
    inspector: "Session close open url waitForDebugger",
  };
  const isIP = (text) =>
    /^\d{1,3}(?:\.\d{1,3}){3}$/.test(text) ? 4 : /^[\da-f:.]*:[\da-f:.]*$/i.test(text) ? 6 : 0;
  const kCodesOfDns = Object.fromEntries(
    (
      "NODATA FORMERR SERVFAIL NOTFOUND NOTIMP REFUSED BADQUERY BADNAME BADFAMILY BADRESP CONNREFUSED TIMEOUT FILE " +
      "NOMEM DESTRUCTION BADSTR BADFLAGS NONAME BADHINTS NOTINITIALIZED LOADIPHLPAPI ADDRGETNETWORKPARAMS CANCELLED"
    )
      .split(" ")
      .map((name) => [name, `E${name}`]),
  );
  // What packages use of these modules when they need nothing from the outside world.
  const kHarmless = {
    tty: { isatty: () => false },
    worker_threads: {
      isMainThread: true,
      parentPort: null,
      workerData: null,
      threadId: 0,
      markAsUncloneable() {},
      markAsUntransferable() {},
    },
    cluster: { isMaster: true, isPrimary: true, isWorker: false },
    net: { isIP, isIPv4: (text) => isIP(text) === 4, isIPv6: (text) => isIP(text) === 6 },
    dns: {
      ...kCodesOfDns,
      EOF: "EOF",
      ADDRCONFIG: 32,
      ALL: 16,
      V4MAPPED: 8,
      get promises() {
        return builtin("dns/promises");
      },
    },
    "dns/promises": kCodesOfDns,
    http: {
      METHODS: ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"],
      STATUS_CODES: {},
      maxHeaderSize: 16384,
    },
    zlib: { constants: {} },
    http2: { constants: {} },
    diagnostics_channel: {
      channel: (name) => ({ name, hasSubscribers: false, publish() {}, subscribe() {}, unsubscribe: () => false }),
      hasSubscribers: () => false,
      tracingChannel: () => ({
        hasSubscribers: false,
        traceSync: (call, context, self, ...values) => call.apply(self, values),
      }),
    },
    async_hooks: shared.asyncHooks,
  };

  // --- modules by name ---

  const hosts = new Map(); // "membrane" and its submodules
  const made = new Map();
  const isBuiltin = (name) => !/^(?:node:)?internal\//.test(name) && isKnown(name);
  const kOnlyWithPrefix = "test"; // without `node:` it is a package, as in Node
  const isKnown = (name) =>
    hosts.has(name) ||
    (name.startsWith("node:")
      ? factories.has(name.slice(5)) || Object.hasOwn(kAbsent, name.slice(5))
      : name !== kOnlyWithPrefix && (factories.has(name) || Object.hasOwn(kAbsent, name)));

  // A module of Node's, created on first use.
  function builtin(given) {
    const name = given.startsWith("node:") ? given.slice(5) : given;
    if (made.has(name)) return made.get(name);
    if (hosts.has(given)) return hosts.get(given);
    const factory =
      factories.get(name) ??
      ((exports, module) => {
        module.exports = absent(name);
      });
    const module = { exports: {} };
    made.set(name, module.exports);
    try {
      factory(module.exports, module, builtin);
    } catch (error) {
      made.delete(name);
      throw error;
    }
    made.set(name, module.exports);
    return module.exports;
  }
  const coded = (error, code) => Object.assign(error, { code });

  function refuse(what, why) {
    throw coded(new Error(`${what} is not available: ${why}`), "ERR_FEATURE_UNAVAILABLE_ON_PLATFORM");
  }

  // Packages ask for modules that they may never use: an absent one can be loaded, and throws when it is used.
  function absent(name) {
    const refusing = (what) =>
      function () {
        refuse(what, kAbsent[name]);
      };
    const own = {};
    for (const each of (kNamesOfAbsent[name] ?? "").split(" ").filter(Boolean))
      own[each] = refusing(`node:${name}'s ${each}`);
    Object.assign(own, kHarmless[name]);
    return Object.setPrototypeOf(
      own,
      new Proxy(Object.prototype, {
        get(above, key) {
          if (
            typeof key === "symbol" ||
            key in above ||
            ["default", "then", "__esModule", "toJSON", "module.exports"].includes(key)
          )
            return Reflect.get(above, key);
          return refusing(`node:${name}'s ${key}`);
        },
      }),
    );
  }
  const builtinNames = () => [...factories.keys()].filter((name) => !name.startsWith("internal/"));

  Object.assign(shared, {
    builtin,
    builtinNames,
    coded,
    hosts,
    isBuiltin,
    refuse,
    whyAbsent: (name) => (Object.hasOwn(kAbsent, name) ? kAbsent[name] : undefined),
  });
})(globalThis);
