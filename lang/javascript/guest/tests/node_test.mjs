// Compares our modules with Node's own on many inputs: ours run in this Node, so that only they differ.
import assert from "node:assert";
import nodeBuffer from "node:buffer";
import nodeCrypto from "node:crypto";
import NodeEvents from "node:events";
import { mkdtempSync } from "node:fs";
import nodeFs from "node:fs";
import { tmpdir } from "node:os";
import nodePath from "node:path";
import nodeQuerystring from "node:querystring";
import nodeStream from "node:stream";
import { StringDecoder as NodeDecoder } from "node:string_decoder";
import { test } from "node:test";
import nodeUrl from "node:url";
import nodeUtil from "node:util";
import vm from "node:vm";
import { compress } from "./compress.mjs";
import { Files, kFiles, kNewerThanNode, kTimeZones, ofPromise, source } from "./prelude.mjs";

// A context of Node's own, which nothing of ours has changed.
const untouched = vm.createContext({});
const files = new Files(mkdtempSync(nodePath.join(tmpdir(), "membrane-node-")));
const kRandom = {
  capabilities: [
    {
      name: "random",
      functions: [{ name: "random.bytes", params: [{ name: "count", type: "i32" }], result: { type: "bytes" } }],
    },
  ],
};
Object.assign(globalThis, {
  __membrane_door(text) {
    const request = JSON.parse(text);
    if (request.registry) return JSON.stringify(kRandom);
    if (request.files) return JSON.stringify(files.answer(request));
    return JSON.stringify({ value: { base64: nodeCrypto.randomBytes(request.arguments[0]).toString("base64") } });
  },
  __membrane_utf8: (text) => new Uint8Array(new TextEncoder().encode(text)),
  __membrane_text(bytes) {
    try {
      return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    } catch {
      return undefined;
    }
  },
  __membrane_compress: compress,
  __membrane_promise: ofPromise,
  __membrane_evaluate: (code, name) => vm.runInThisContext(code, name),
});
vm.runInThisContext(kNewerThanNode);
if (kTimeZones) vm.runInThisContext(nodeFs.readFileSync(kTimeZones, "utf8"));
for (const name of kFiles) if (!["process.js", "session.js"].includes(name)) vm.runInThisContext(source(name), `membrane:${name}`);
const shared = globalThis.__membrane;
shared.nextTick = process.nextTick;  // as process.js has it
const ours = (name) => shared.builtin(name);

// The result of a call, or its exception.
function outcome(call) {
  try {
    return call();
  } catch (error) {
    return { threw: error.name, code: error.code, message: error.message };
  }
}
const plain = (value) =>
  value instanceof Uint8Array ? `bytes ${nodeBuffer.Buffer.from(value).toString("hex")}` : value;
const same = (mine, nodes, what) => assert.deepEqual(plain(outcome(mine)), plain(outcome(nodes)), what);

test("path", () => {
  const path = ours("path");
  const paths = [
    "",
    "/",
    ".",
    "..",
    "a",
    "/a",
    "a/",
    "/a/",
    "//a",
    "a//b",
    "./a",
    "../a",
    "a/..",
    "a/../..",
    "/../a",
    "a/./b",
    "a/b/../c",
    ".a",
    "a.b",
    "a.b.c",
    ".a.b",
    "a.",
    "..a",
    "/a/b.c/d.e",
    "a/.b",
    "///",
    "a\\b",
    "é/漢.x",
    "a/b/",
    "a/b//",
    "./",
    "../",
    "a.js/",
    "...",
    "/.",
    "a/..",
  ];
  for (const a of paths) {
    for (const name of ["normalize", "dirname", "basename", "extname", "isAbsolute", "parse", "resolve"])
      same(
        () => path[name](a),
        () => nodePath.posix[name](a),
        `${name} ${a}`,
      );
    same(
      () => path.format(path.parse(a)),
      () => nodePath.posix.format(nodePath.posix.parse(a)),
      `format ${a}`,
    );
    for (const b of paths) {
      for (const name of ["join", "resolve", "relative"])
        same(
          () => path[name](a, b),
          () => nodePath.posix[name](a, b),
          `${name} ${a} ${b}`,
        );
    }
    for (const ending of ["", ".c", "c", "a", "b.c", ".b", "/"])
      if (!a.endsWith("/"))
        same(
          () => path.basename(a, ending),
          () => nodePath.posix.basename(a, ending),
          `basename ${a} ${ending}`,
        );
  }
  for (const wrong of [5, null, undefined, {}, []])
    for (const name of ["join", "dirname", "basename", "normalize"])
      same(
        () => path[name](wrong),
        () => nodePath.posix[name](wrong),
        name,
      );
  same(
    () => path.format({ dir: "/a", name: "b", ext: "c" }),
    () => nodePath.posix.format({ dir: "/a", name: "b", ext: "c" }),
  );
});

test("path for Windows", () => {
  const { win32 } = ours("path");
  assert.equal(win32, ours("path/win32"));
  assert.equal(win32.posix, ours("path"));
  assert.deepEqual([win32.sep, win32.delimiter, win32.win32 === win32], ["\\", ";", true]);
  const starts = ["", "/", "\\", "C:", "c:\\", "D:/", "\\\\server\\share", "//server/share/", "\\\\server", "\\\\.\\dev\\", "\\\\?\\C:\\", "///"];
  const ends = ["", ".", "..", "x", "x\\", "x\\y.z", "x/y/", "..\\x", "x\\..\\..", ".a", "a.", "x\\..", "..x", "x//y", "É.b\\c", "x:y", "x\\..\\C:\\y", "a:"];
  const paths = starts.flatMap((start) => ends.map((end) => `${start}${end}`));
  const hasDevice = (path) => /^(?:[a-z]:|\\\\)/i.test(nodePath.win32.resolve(path)); // without one, Node's relative() cuts parts of names off
  const both = (name, ...given) =>
    same(
      () => win32[name](...given),
      () => nodePath.win32[name](...given),
      `${name} ${given}`,
    );
  for (const a of paths) {
    for (const name of ["normalize", "dirname", "basename", "extname", "isAbsolute", "parse", "resolve", "toNamespacedPath"]) both(name, a);
    both("format", nodePath.win32.parse(a));
    for (const ending of [".z", "z", "y.z", "x"]) if (!/[\\/]$/.test(a)) both("basename", a, ending);
    for (const b of paths) {
      both("join", a, b);
      both("resolve", a, b);
      if (hasDevice(a) && hasDevice(b)) both("relative", a, b);
    }
  }
  for (const wrong of [5, null, undefined, {}]) for (const name of ["join", "dirname", "normalize", "relative", "parse"]) both(name, wrong);
});

const kTexts = [
  "",
  "a",
  "abc",
  "héllo",
  "漢字",
  "😀 x",
  "a\u0000b",
  "\ud800",
  "ÿþ",
  "YWJj",
  "YWJjZA",
  "YWJjZA==",
  "_-8=",
  "deadBEEF",
  "abcx12",
  "0",
  "a b\nc",
  "Zg=\n=",
  "==",
];
const kEncodings = [
  "utf8",
  "UTF-8",
  "hex",
  "base64",
  "base64url",
  "latin1",
  "binary",
  "ascii",
  "ucs2",
  "utf16le",
  "UCS-2",
];

test("Buffer: texts and bytes", () => {
  const { Buffer } = ours("buffer"),
    NodeBuffer = nodeBuffer.Buffer;
  for (const text of kTexts)
    for (const encoding of kEncodings) {
      same(
        () => Buffer.from(text, encoding),
        () => NodeBuffer.from(text, encoding),
        `from ${JSON.stringify(text)} ${encoding}`,
      );
      same(
        () => Buffer.byteLength(text, encoding),
        () => NodeBuffer.byteLength(text, encoding),
        `byteLength ${JSON.stringify(text)} ${encoding}`,
      );
      for (const other of kEncodings)
        same(
          () => Buffer.from(text, encoding).toString(other),
          () => NodeBuffer.from(text, encoding).toString(other),
          `${text} ${encoding} ${other}`,
        );
    }
  for (let seed = 1; seed < 200; ++seed) {
    const bytes = Array.from({ length: seed % 17 }, (_, i) => Math.imul(seed, 2654435761 + i * 40503) >>> 24);
    for (const encoding of kEncodings)
      same(
        () => Buffer.from(bytes).toString(encoding, 1, 9),
        () => NodeBuffer.from(bytes).toString(encoding, 1, 9),
        `${bytes} ${encoding}`,
      );
  }
  for (const wrong of [5, null, undefined, {}, true, () => {}, Symbol("x")])
    same(
      () => Buffer.from(wrong),
      () => NodeBuffer.from(wrong),
      "from what is none",
    );
  for (const size of [-1, NaN, "5", 2 ** 53])
    assert.equal(outcome(() => Buffer.alloc(size)).code, outcome(() => NodeBuffer.alloc(size)).code, `alloc ${size}`);
  same(
    () => Buffer.from("x", "none"),
    () => NodeBuffer.from("x", "none"),
  );
});

test("Buffer: methods", () => {
  const { Buffer } = ours("buffer"),
    NodeBuffer = nodeBuffer.Buffer;
  const calls = [
    (B) => B.concat([B.from("ab"), new Uint8Array([1]), B.from("c")]),
    (B) => B.concat([B.from("abc")], 2),
    (B) => B.concat([B.from("abc")], 5),
    (B) => B.concat("x"),
    (B) => B.concat([5]),
    (B) => B.compare(B.from("a"), B.from("b")),
    (B) => B.from("abc").compare(B.from("xabcx"), 1, 4),
    (B) => B.from("abc").equals(new Uint8Array([97, 98, 99])),
    (B) => B.alloc(5, "ab"),
    (B) => B.alloc(4, 0x101),
    (B) => B.alloc(5, "é"),
    (B) => B.alloc(3, "ff", "hex"),
    (B) => B.alloc(4).fill("abc", 1, 3),
    (B) => B.from("abc").fill(0).toString("hex"),
    (B) => B.alloc(2).fill("", 0),
    (B) => B.from("hello").slice(1, -1).toString(),
    (B) => B.from("hello").subarray(-3).toString(),
    (B) => B.from("abcabc").indexOf("bc"),
    (B) => B.from("abcabc").indexOf("bc", 2),
    (B) => B.from("abcabc").lastIndexOf("bc"),
    (B) => B.from("abcabc").lastIndexOf("bc", -3),
    (B) => B.from("abcabc").includes("cab"),
    (B) => B.from("abc").indexOf(98),
    (B) => B.from("abc").indexOf(""),
    (B) => B.from("abc").indexOf("", 9),
    (B) => B.from("abc").indexOf({}),
    (B) => B.from("abcdef").swap16().toString(),
    (B) => B.from("abcd").swap32().toString(),
    (B) => B.from("abc").swap16(),
    (B) => B.from("abcdefgh").swap64().toString(),
    (B) => JSON.stringify(B.from("ab")),
    (B) => B.from({ type: "Buffer", data: [1, 2] }),
    (B) => B.from({ length: 2, 0: 300, 1: -1 }),
    (B) => B.from(new String("x")),
    (B) => B.from(new Uint16Array([1, 256, 257])),
    (B) => {
      const b = B.alloc(6);
      return [b.write("héé", 1), b.write("x", 5), b.write("ff0", 0, "hex"), b.toString("hex")];
    },
    (B) => B.alloc(3).write("abc", 4),
    (B) => {
      const b = B.alloc(4);
      return [B.from("abcdef").copy(b, 1, 2), b.toString("latin1")];
    },
    (B) => B.from("ab").copy(B.alloc(2), 5),
    (B) => B.isBuffer(new Uint8Array(1)),
    (B) => B.isEncoding("utf-8") && !B.isEncoding("x"),
    (B) => B.from("abc").at(-1),
    (B) => [...B.from("ab").entries()],
    (B) => B.from("ab").map((x) => x + 1).constructor.name,
    (B) => B.from(new ArrayBuffer(8), 2, 3).length,
    (B) => B.from("test").toString("none"),
    (B) => new B("ab", "latin1").length,
    (B) => B.from("ab").readUIntBE(0, 2),
    (B) => B.from([1, 2, 3, 4, 5, 6]).readUIntLE(0, 6),
    (B) => B.from([255, 2, 3]).readIntBE(0, 3),
    (B) => B.from([1]).readUIntBE(0, 7),
    (B) => B.alloc(6).writeUIntBE(0x123456789abc, 0, 6),
    (B) => {
      const b = B.alloc(6);
      b.writeIntLE(-12345678, 0, 6);
      return b;
    },
    (B) => B.alloc(2).writeUIntBE(70000, 0, 2),
  ];
  calls.forEach((call, i) =>
    same(
      () => call(Buffer),
      () => call(NodeBuffer),
      `${i}: ${call}`,
    ),
  );
  const numbers = [
    0,
    1,
    -1,
    127,
    128,
    255,
    256,
    -129,
    65535,
    65536,
    2 ** 31,
    -(2 ** 31),
    2 ** 32,
    1.5,
    NaN,
    Infinity,
    1n,
    -1n,
    2n ** 63n,
    2n ** 64n,
    "5",
    undefined,
  ];
  for (const size of [
    "UInt8",
    "Int8",
    "UInt16LE",
    "UInt16BE",
    "Int16LE",
    "Int16BE",
    "UInt32LE",
    "UInt32BE",
    "Int32LE",
    "Int32BE",
    "FloatLE",
    "FloatBE",
    "DoubleLE",
    "DoubleBE",
    "BigInt64LE",
    "BigUInt64BE",
  ]) {
    const act = (B, value, offset) => {
      const b = B.alloc(10);
      return [b[`write${size}`](value, offset), b.toString("hex"), b[`read${size}`](offset)];
    };
    for (const value of numbers)
      same(
        () => act(Buffer, value, 1),
        () => act(NodeBuffer, value, 1),
        `${size} ${String(value)}`,
      );
    for (const offset of [-1, 10, 1.5, "1", 9])
      same(
        () => Buffer.alloc(10)[`read${size}`](offset),
        () => NodeBuffer.alloc(10)[`read${size}`](offset),
        `${size} at ${offset}`,
      );
  }
  for (const bytes of [[], [1, 2], Array.from({ length: 60 }, (_, i) => i)])
    assert.equal(shared.inspect(Buffer.from(bytes)), nodeUtil.inspect(NodeBuffer.from(bytes)));
});

test("StringDecoder", () => {
  const { StringDecoder } = ours("string_decoder");
  const bytes = nodeBuffer.Buffer.from("aé漢😀x\ud800", "utf8");
  for (const encoding of ["utf8", "utf16le", "base64", "hex", "latin1"])
    for (let size = 1; size < 6; ++size) {
      const read = (Decoder) => {
        const decoder = new Decoder(encoding),
          pieces = [];
        for (let at = 0; at < bytes.length; at += size) pieces.push(decoder.write(bytes.subarray(at, at + size)));
        return [...pieces, decoder.end()].join("|").replaceAll("||", "|");
      };
      assert.equal(
        read(StringDecoder).replaceAll("|", ""),
        read(NodeDecoder).replaceAll("|", ""),
        `${encoding} ${size}`,
      );
    }
});

test("url and querystring", () => {
  const url = ours("url"),
    querystring = ours("querystring");
  for (const path of ["/a b", "/é?x#y", "/a%b", "/a\\b", "/", "/tmp/"])
    same(
      () => url.pathToFileURL(path).href,
      () => nodeUrl.pathToFileURL(path).href,
      path,
    );
  for (const href of ["file:///a%20b", "file:///%C3%A9", "http://x/", "file://host/x", "file:///a%2Fb"])
    same(
      () => url.fileURLToPath(href),
      () => nodeUrl.fileURLToPath(href),
      href,
    );
  const urls = [
    "http://user:pa%20ss@Host.com:8080/p/a/t/h?query=string#hash",
    "/a?b=c#d",
    "//host/path",
    "mailto:a@b.c",
    "http://x",
    "http://x?y",
    "x/y",
    "?a=b",
    "#h",
    "https://a.b/c d?e f",
    "javascript:alert(1)",
    "http://[::1]:80/x",
    "",
  ];
  for (const href of urls) {
    const fields = (parsed) => Object.fromEntries(Object.entries(parsed));
    same(
      () => fields(url.parse(href)),
      () => fields(nodeUrl.parse(href)),
      `parse ${href}`,
    );
    same(
      () => fields(url.parse(href, true)),
      () => fields(nodeUrl.parse(href, true)),
      `parse with query ${href}`,
    );
    same(
      () => url.format(nodeUrl.parse(href)),
      () => nodeUrl.format(nodeUrl.parse(href)),
      `format ${href}`,
    );
  }
  for (const [from, to] of [
    ["/one/two/three", "four"],
    ["http://example.com/", "/one"],
    ["http://example.com/one", "/two"],
    ["http://a/b/c", "../d?e"],
    ["/a/b", "//c/d"],
  ])
    same(
      () => url.resolve(from, to),
      () => nodeUrl.resolve(from, to),
      `${from} ${to}`,
    );
  for (const object of [
    { protocol: "http", host: "x:1", pathname: "y", query: { a: [1, 2] } },
    { hostname: "h", port: 5, search: "q" },
    { protocol: "file:", pathname: "/x" },
  ])
    same(
      () => url.format(object),
      () => nodeUrl.format(object),
    );
  for (const text of ["a=1&b=2&a=3", "a", "=b", "a=%20+%zz", "&&", "a=b=c", "é=%C3%A9", "__proto__=1"])
    same(
      () => ({ ...querystring.parse(text) }),
      () => ({ ...nodeQuerystring.parse(text) }),
      text,
    );
  for (const object of [{ a: 1, b: [2, "x y"], c: true, d: null, e: undefined, f: NaN, g: "é&=" }, {}, null, "x"])
    same(
      () => querystring.stringify(object),
      () => nodeQuerystring.stringify(object),
    );
  same(
    () => querystring.stringify({ a: "b", c: "d" }, ";", ":"),
    () => nodeQuerystring.stringify({ a: "b", c: "d" }, ";", ":"),
  );
});

test("util", () => {
  const util = ours("util");
  class A {
    #p = 1;
    get x() {
      return 1;
    }
    static s = 2;
  }
  const values = [
    { a: { b: { c: { d: 1 } } } },
    [1, [2, [3, [4]]]],
    new Map([[{ a: 1 }, new Set([1])]]),
    "x".repeat(200),
    "line\n".repeat(30),
    new A(),
    A,
    Object.assign(() => {}, { a: 1 }),
    { "a-b": 1, [Symbol("s")]: 2 },
    Array.from({ length: 120 }, (_, i) => i),
    ["a".repeat(40), "b".repeat(40)],
    { a: "line\n".repeat(20) },
    new Error("x").message,
    {
      get a() {
        return 1;
      },
    },
    [undefined, null, -0, 1n, true],
    { f: class extends A {} },
  ];
  const options = [
    {},
    { depth: 0 },
    { depth: 5 },
    { depth: null },
    { compact: false },
    { breakLength: 40 },
    { breakLength: Infinity },
    { sorted: true },
    { maxArrayLength: 3 },
    { maxStringLength: 10 },
    { colors: true },
    { compact: 1 },
    { getters: true },
  ];
  values.forEach((value, i) => {
    for (const option of options)
      assert.equal(util.inspect(value, option), nodeUtil.inspect(value, option), `${i} ${JSON.stringify(option)}`);
  });
  for (const values of [
    ["%s %d", "a", 5],
    ["%o", { a: 1 }.a],
    ["%j", { a: 1 }],
    ["%%", 1],
    ["%i %f", "5.5", "5.5"],
    [1, "a", { b: 2 }],
    ["a%", 1],
    ["%s", () => {}],
    ["%s", Symbol("x")],
    ["%d", 5n],
    ["%s", new Date(0)],
    ["%s", class X {}],
  ])
    assert.equal(util.format(...values), nodeUtil.format(...values), String(values[0]));
  const pairs = [
    [1, 1],
    [0, -0],
    [NaN, NaN],
    [
      [1, 2],
      [1, 2],
    ],
    [{ a: 1 }, { a: 1 }],
    [
      { a: 1, b: 2 },
      { b: 2, a: 1 },
    ],
    [{ a: undefined }, {}],
    [new Map([[1, { a: 1 }]]), new Map([[1, { a: 1 }]])],
    [new Set([{ a: 1 }]), new Set([{ a: 1 }])],
    [new Date(0), new Date(0)],
    [/a/g, /a/g],
    [/a/g, /a/i],
    [
      [1, , 2],
      [1, undefined, 2],
    ],
    [new Uint8Array([1]), new Uint8Array([1])],
    [new A(), new A()],
    [Object.create(null), {}],
    ["a", new String("a")],
    [1, "1"],
    [null, undefined],
    [new Error("a"), new Error("a")],
    [new Error("a"), new Error("b")],
    [[1], { 0: 1, length: 1 }],
    [new Set([1, 2]), new Set([2, 1])],
    [Symbol.iterator, Symbol.iterator],
  ];
  for (const [a, b] of pairs) {
    assert.equal(util.isDeepStrictEqual(a, b), nodeUtil.isDeepStrictEqual(a, b), nodeUtil.inspect([a, b]));
    assert.equal(
      ours("internal/equal").isDeepEqual(a, b),
      !outcome(() => assert.deepEqual(a, b))?.threw,
      `loosely ${nodeUtil.inspect([a, b])}`,
    );
  }
  const kArguments = [
    ["-a", "--b=c", "d"],
    ["-abc"],
    ["--b"],
    ["--unknown"],
    ["--", "-a"],
    ["-b", "x"],
    ["--a=1"],
    ["--b", "-x"],
  ];
  for (const args of kArguments)
    for (const config of [
      { options: { a: { type: "boolean", short: "a" }, b: { type: "string", short: "b" } }, allowPositionals: true },
      { options: { a: { type: "boolean", short: "a" }, b: { type: "string", multiple: true } }, strict: false },
    ])
      same(
        () => ({ ...util.parseArgs({ args, ...config }), values: { ...util.parseArgs({ args, ...config }).values } }),
        () => ({
          ...nodeUtil.parseArgs({ args, ...config }),
          values: { ...nodeUtil.parseArgs({ args, ...config }).values },
        }),
        String(args),
      );
  assert.equal(util.styleText(["red", "bold"], "x", { validateStream: false }), "\u001b[31m\u001b[1mx\u001b[22m\u001b[39m");
  assert.equal(util.styleText(["red", "bold"], "x", { stream: { isTTY: false, write() {}, on() {} } }), "x");
  const terminal = { isTTY: true, write() {}, on() {} };
  for (const name of Object.getOwnPropertyNames(nodeUtil.inspect.colors))
    assert.equal(util.styleText(name, "x", { stream: terminal }), nodeUtil.styleText(name, "x", { stream: terminal }), name);
  const kStreams = [{ validateStream: false }, { stream: terminal }, { stream: { ...terminal, getColorDepth: () => 1 } }, { stream: {} }, { stream: null },
                    { validateStream: 1 }, { stream: new nodeStream.PassThrough() }, { stream: 5, validateStream: false }];
  for (const options of kStreams)
    for (const given of [["red", "x"], ["red", 5], ["rd", "x"]])
      same(
        () => util.styleText(...given, options),
        () => nodeUtil.styleText(...given, options),
        `styleText ${given} ${nodeUtil.inspect(options)}`,
      );
  assert.equal(util.stripVTControlCharacters("\u001b[31mx\u001b[39m"), "x");
  for (const name of [
    "isDate",
    "isMap",
    "isRegExp",
    "isPromise",
    "isTypedArray",
    "isNativeError",
    "isGeneratorFunction",
    "isAsyncFunction",
    "isBoxedPrimitive",
    "isArrayBuffer",
    "isUint8Array",
  ])
    for (const value of [
      new Date(),
      new Map(),
      /x/,
      Promise.resolve(),
      new Uint8Array(1),
      new Error("x"),
      function* () {},
      async () => {},
      Object(1),
      new ArrayBuffer(1),
      5,
      null,
      {},
    ])
      assert.equal(util.types[name](value), nodeUtil.types[name](value), name);
});

test("assert says what Node's says", () => {
  const mine = ours("assert");
  const checks = [
    (a) => a.strictEqual(1, 2),
    (a) => a.strictEqual("a".repeat(10), "b".repeat(10)),
    (a) => a.deepStrictEqual({ a: 1 }, { a: 2 }),
    (a) => a.deepStrictEqual([1, 2, 3], [1, 2, 4]),
    (a) => a.notStrictEqual(1, 1),
    (a) => a.equal(1, 2),
    (a) => a.notEqual(1, 1),
    (a) => a.deepEqual({ a: 1 }, { a: 2 }),
    (a) => a.notDeepStrictEqual({ a: 1 }, { a: 1 }),
    (a) => a.fail(),
    (a) => a.fail("why"),
    (a) => a.throws(() => {}),
    (a) => a.throws(() => {}, TypeError),
    (a) =>
      a.throws(() => {
        throw new Error("x");
      }, /y/),
    (a) =>
      a.throws(
        () => {
          throw new Error("x");
        },
        { message: "x" },
      ),
    (a) =>
      a.doesNotThrow(() => {
        throw new Error("x");
      }),
    (a) => a.match("abc", /x/),
    (a) => a.doesNotMatch("abc", /b/),
    (a) => a.ifError(new Error("e")),
    (a) => a.ifError(null),
    (a) => a.strictEqual(NaN, NaN),
    (a) => a.strictEqual(),
    (a) => a.match(5, /x/),
    (a) => a.strictEqual("a\nb", "a\nc"),
    (a) => a.strictEqual({}, {}),
    (a) => a.strictEqual([1], [1]),
    (a) => a.deepStrictEqual(new Map([[1, 2]]), new Map([[1, 3]])),
    (a) => a.deepStrictEqual(1, 2),
    (a) => a.deepStrictEqual("a", 1),
    (a) => a.throws("x"),
    (a) => a.deepStrictEqual({ a: { b: [1, 2] } }, { a: { b: [1, 3] }, c: 1 }),
    (a) =>
      a.throws(() => {
        throw new TypeError("bad");
      }, RangeError),
    (a) =>
      a.throws(
        () => {
          throw new TypeError("bad");
        },
        (e) => e.message === "good",
      ),
    (a) => a.deepStrictEqual(-0, 0),
    (a) => a.notDeepEqual([1], [1]),
    (a) => a.ok(true),
  ];
  // Versions of Node differ in how they show differences: only the differing lines, and the words before them, are compared.
  const shape = (result) =>
    result === undefined
      ? result
      : {
          ...result,
          message: result.message
            .split("\n")
            .filter((line) => !/^\s*\^?$|\.\.\. /.test(line))
            .map((line) => line.replace(/,$/, ""))
            .join("\n")
            .replace(" ... Lines skipped", ""),
        };
  for (const check of checks)
    assert.deepEqual(shape(outcome(() => check(mine))), shape(outcome(() => check(assert))), String(check));
  assert.throws(() => mine.ok(0), { code: "ERR_ASSERTION", name: "AssertionError", generatedMessage: true });
  assert.equal(mine.strict.equal, mine.strictEqual);
});

test("events", async () => {
  const run = (Emitter) => {
    const log = [],
      emitter = new Emitter();
    emitter.on("newListener", (name) => log.push(`new ${String(name)}`));
    emitter.on("a", (...values) => log.push(["a", ...values]));
    emitter.once("a", () => log.push("once"));
    emitter.prependListener("a", function () {
      log.push(this === emitter);
    });
    const gone = () => log.push("gone");
    emitter.on("a", gone).off("a", gone);
    log.push(
      emitter.emit("a", 1, 2),
      emitter.emit("a"),
      emitter.emit("none"),
      emitter.listenerCount("a"),
      emitter.eventNames(),
      emitter.rawListeners("a").length,
      emitter.getMaxListeners(),
    );
    log.push(
      outcome(() => emitter.emit("error", new Error("e"))),
      outcome(() => emitter.emit("error", "text")),
      outcome(() => emitter.on("x", 5)),
    );
    emitter.removeAllListeners();
    return [...log, emitter.eventNames()];
  };
  const Emitter = ours("events");
  assert.deepEqual(run(Emitter), run(NodeEvents));
  const emitter = new Emitter();
  setTimeout(() => emitter.emit("x", 1, 2));
  assert.deepEqual(await Emitter.once(emitter, "x"), [1, 2]);
  setTimeout(() => emitter.emit("error", new Error("no")));
  await assert.rejects(Emitter.once(emitter, "x"), /no/);
});

test("methods of crypto.subtle that are not available say what to use", async () => {
  const { subtle } = ours("crypto");
  for (const name of Object.getOwnPropertyNames(Object.getPrototypeOf(nodeCrypto.subtle))) {
    if (name === "constructor" || ["digest", "importKey", "sign", "verify"].includes(name)) continue;
    await assert.rejects(() => subtle[name]("HMAC"), { name: "NotSupportedError", message: new RegExp(`^crypto\\.subtle\\.${name}\\(\\) is not available: `) });
  }
});

test("crypto", () => {
  const crypto = ours("crypto");
  for (const name of ["md5", "sha1", "sha224", "sha256", "sha384", "sha512"])
    for (const length of [0, 1, 3, 55, 56, 57, 63, 64, 65, 111, 112, 113, 127, 128, 129, 1000]) {
      const text = "é".repeat(length).slice(0, length);
      assert.equal(
        crypto.createHash(name).update(text).digest("hex"),
        nodeCrypto.createHash(name).update(text).digest("hex"),
        `${name} ${length}`,
      );
      assert.equal(
        crypto.createHmac(name, text).update("x").update(text).digest("base64"),
        nodeCrypto.createHmac(name, text).update("x").update(text).digest("base64"),
        `hmac ${name} ${length}`,
      );
    }
  for (const [name, count, length] of [
    ["sha256", 3, 40],
    ["sha512", 10, 64],
    ["sha1", 1, 5],
  ])
    assert.equal(
      crypto.pbkdf2Sync("pass", "salt", count, length, name).toString("hex"),
      nodeCrypto.pbkdf2Sync("pass", "salt", count, length, name).toString("hex"),
    );
  assert.deepEqual(
    new Uint8Array(crypto.hkdfSync("sha256", "key", "salt", "info", 50)),
    new Uint8Array(nodeCrypto.hkdfSync("sha256", "key", "salt", "info", 50)),
  );
  assert.equal(crypto.randomBytes(70000).length, 70000);
  for (let i = 0; i < 100; ++i) assert.ok([3, 4, 5].includes(crypto.randomInt(3, 6)));
  for (const call of [
    (c) => c.randomInt(5, 5),
    (c) => c.randomInt(0.5),
    (c) => c.timingSafeEqual(nodeBuffer.Buffer.from("a"), nodeBuffer.Buffer.from("ab")),
    (c) => c.timingSafeEqual(nodeBuffer.Buffer.from("a"), nodeBuffer.Buffer.from("a")),
    (c) => c.createHash("md5").update(5),
    (c) => c.randomBytes(-1),
  ])
    same(
      () => call(crypto),
      () => call(nodeCrypto),
      String(call),
    );
  assert.throws(() => crypto.createHash("none"), /not supported: none; there are md5/);
});

test("streams", async () => {
  const run = async (stream) => {
    const { Readable, Writable, Transform, PassThrough, pipeline, finished, promises } = stream;
    const log = [];
    log.push(
      await Readable.from([1, 2, 3])
        .map((x) => x * 2)
        .toArray(),
    );
    const upper = new Transform({
      transform(chunk, encoding, done) {
        done(null, String(chunk).toUpperCase());
      },
      flush(done) {
        this.push("!");
        done();
      },
    });
    const pieces = [];
    const sink = new Writable({
      write(chunk, encoding, done) {
        pieces.push(String(chunk));
        setImmediate(done);
      },
      final(done) {
        pieces.push("final");
        done();
      },
    });
    await promises.pipeline(Readable.from(["a", "b", "c"]), upper, sink);
    log.push(pieces.join(""));
    log.push(
      await promises.pipeline(
        Readable.from(["a"]),
        async function* (source) {
          for await (const chunk of source) yield `${chunk}${chunk}`;
        },
        async (source) => {
          let text = "";
          for await (const chunk of source) text += chunk;
          return text;
        },
      ),
    );
    await new Promise((resolve) =>
      pipeline(
        new Readable({
          read() {
            this.destroy(new Error("broken"));
          },
        }),
        new PassThrough(),
        (error) => {
          log.push(error.message);
          resolve();
        },
      ),
    );
    const slow = new Writable({
      highWaterMark: 3,
      write(chunk, encoding, done) {
        setTimeout(done, 1);
      },
    });
    log.push(slow.write("abcd"), slow.writableLength, slow.writableNeedDrain);
    await new Promise((resolve) => slow.once("drain", resolve));
    slow.end("z");
    await promises.finished(slow);
    log.push(slow.writableFinished, slow.destroyed);
    const reader = new Readable({ encoding: "utf8", read() {} });
    reader.push("hel");
    reader.push("lo");
    reader.push(null);
    let text = "";
    for await (const chunk of reader) text += chunk;
    log.push(text, reader.readableEnded);
    const events = [],
      both = new PassThrough();
    for (const name of ["end", "finish", "close", "pause", "resume"]) both.on(name, () => events.push(name));
    both.on("data", (chunk) => events.push(String(chunk)));
    both.write("x");
    both.end("y");
    await promises.finished(both);
    await new Promise(setImmediate);
    log.push(
      events
        .filter((name) => name !== "resume")
        .sort()
        .join(),
    );
    const ended = new Writable({
      write(chunk, encoding, done) {
        done();
      },
    });
    ended.end();
    const error = new Promise((resolve) => ended.on("error", (e) => resolve(e.code)));
    ended.write("late");
    log.push(await error);
    const half = new Readable({ read() {} });
    half.push(nodeBuffer.Buffer.from("abcdef"));
    half.push(null);
    await new Promise((resolve) => half.once("readable", resolve));
    log.push(String(half.read(2)), String(half.read(9)), String(half.read()));
    await new Promise((resolve) =>
      finished(Readable.from([]).resume(), (e) => {
        log.push(e === undefined);
        resolve();
      }),
    );
    return log;
  };
  assert.deepEqual(await run(ours("stream")), await run(nodeStream));
});

// What happens in a stream, one after the other: the log of each scenario.
const kStreamScenarios = {
  async "writes to a sink that is done at once"({ Writable }, log) {
    const sink = new Writable({
      highWaterMark: 2,
      objectMode: true,
      write: (chunk, encoding, done) => (log("write", chunk), done()),
      final: (done) => (log("final"), done()),
    });
    for (const name of ["drain", "finish", "close"]) sink.on(name, () => log(name));
    for (const n of [1, 2, 3, 4]) log("room", sink.write(n, () => log("written", n)), sink.writableLength);
    process.nextTick(() => log("tick"));
    await null;
    log("room", sink.write(5, () => log("written", 5)));
    sink.end(6, () => log("ended"));
  },
  async "writes to a sink that takes its time"({ Writable }, log) {
    const sink = new Writable({
      highWaterMark: 2,
      objectMode: true,
      write: (chunk, encoding, done) => (log("write", chunk), setTimeout(done, 1)),
    });
    for (const name of ["drain", "finish", "close"]) sink.on(name, () => log(name));
    for (const n of [1, 2, 3]) log("room", sink.write(n, () => log("written", n)), sink.writableLength);
    await new Promise((resolve) => sink.once("drain", resolve));
    log("room", sink.write(4), sink.writableLength);
    sink.end();
  },
  async "many writes at once, and corked ones"({ Writable }, log) {
    const sink = new Writable({
      writev: (items, done) => (log("writev", items.map(({ chunk }) => String(chunk))), setTimeout(done, 1)),
    });
    for (const text of ["a", "b"]) sink.write(text, () => log("written", text));
    await new Promise((resolve) => sink.write("c", resolve));
    sink.cork();
    for (const text of ["d", "e"]) sink.write(text, () => log("written", text));
    log("length", sink.writableLength, sink.writableCorked);
    sink.uncork();
    sink.end();
    await new Promise((resolve) => sink.on("finish", resolve));
  },
  async "a write that fails"({ Writable }, log) {
    for (const isLater of [false, true]) {
      const sink = new Writable({
        write: (chunk, encoding, done) => (isLater ? setTimeout(done, 1, new Error("no")) : done(new Error("no"))),
      });
      for (const name of ["error", "close"]) sink.on(name, (error) => log(name, error?.message));
      log("room", sink.write("a", (error) => log("written", error.message)));
      await new Promise((resolve) => setTimeout(resolve, 10));
      log(sink.destroyed, sink.errored.message);
    }
  },
  async "a callback that is called twice"({ Writable }, log) {
    const sink = new Writable({ write: (chunk, encoding, done) => (done(), done()) });
    sink.on("error", (error) => log(error.code));
    sink.write("a");
    await new Promise((resolve) => setTimeout(resolve, 10));
  },
  async "an iterable into a sink, with and without a transform"({ Readable, Transform, Writable, pipeline }, log) {
    for (const source of [[1, 2, 3], (async function* () { yield* [1, 2, 3]; })(), [Promise.resolve(1), 2]])
      for (const isLater of [false, true])
        for (const middle of [[], [new Transform({ objectMode: true, transform: (chunk, encoding, done) => done(null, chunk * 2) })]])
          await new Promise((resolve) => {
            const sink = new Writable({
              objectMode: true,
              highWaterMark: 2,
              write: (chunk, encoding, done) => (log("write", chunk), isLater ? setTimeout(done, 1) : done()),
            });
            pipeline(Readable.from(source), ...middle, sink, (error) => (log("end", error), resolve()));
          });
  },
  async "chunks of a source that gives them when they come"({ Readable }, log) {
    const source = new Readable({ objectMode: true, read() {} });
    source.on("data", (chunk) => log("data", chunk));
    source.on("end", () => log("end"));
    await new Promise((resolve) => setTimeout(resolve, 1));
    log("before");
    log("push", source.push(1));
    log("after", source.readableLength);
    source.pause();
    log("push", source.push(2), source.readableLength);
    source.unshift(0);
    source.resume();
    log("resumed");
    await new Promise((resolve) => setTimeout(resolve, 1));
    source.push(null);
  },
  async "a source that pauses within its data"({ Readable }, log) {
    const source = Readable.from([1, 2, 3, 4]);
    source.on("data", (chunk) => {
      log("data", chunk);
      if (chunk === 2) {
        source.pause();
        setTimeout(() => (log("resume"), source.resume()), 1);
      }
    });
    source.on("end", () => log("end"));
  },
  async "a transform that gives many, read in a loop"({ Readable, Transform }, log) {
    const many = new Transform({
      objectMode: true,
      transform(chunk, encoding, done) {
        for (let i = 0; i < 40; ++i) this.push(chunk * 100 + i);
        done();
      },
      flush(done) {
        done(null, "last");
      },
    });
    for await (const chunk of Readable.from([1, 2, 3]).pipe(many)) log(chunk);
  },
  async "a loop that ends early"({ Readable }, log) {
    const source = Readable.from((function* () { try { yield* [1, 2, 3]; } finally { log("returned"); } })());
    for await (const chunk of source) if (chunk === 2) break;
    log(source.destroyed);
    const failing = Readable.from((async function* () { yield 1; throw new Error("no"); })());
    try {
      for await (const chunk of failing) log(chunk);
    } catch (error) {
      log(error.message, failing.destroyed);
    }
    const taken = Readable.from([1, 2])[Symbol.asyncIterator]();
    log(await Promise.all([taken.next(), taken.next(), taken.next(), taken.next()]));
  },
};
for (const [name, scenario] of Object.entries(kStreamScenarios))
  test(`streams: ${name}`, async () => {
    const run = async (stream) => {
      const entries = [];
      await scenario(stream, (...values) => entries.push(values));
      await new Promise((resolve) => setTimeout(resolve, 20));
      return entries.map((values) => nodeUtil.inspect(values));
    };
    assert.deepEqual(await run(ours("stream")), await run(nodeStream));
  });

test("fs", async () => {
  const fs = ours("fs"),
    root = mkdtempSync(nodePath.join(tmpdir(), "membrane-fs-"));
  // The same calls on both sides: ours below the guest's root, Node's below its own.
  const calls = [
    ["mkdirSync", "/d"],
    ["mkdirSync", "/d"],
    ["mkdirSync", "/a/b/c", { recursive: true }],
    ["writeFileSync", "/d/x", "héllo"],
    ["readFileSync", "/d/x", "utf8"],
    ["readFileSync", "/d/x"],
    ["readFileSync", "/none"],
    ["readFileSync", "/d"],
    ["appendFileSync", "/d/x", " more"],
    ["readFileSync", "/d/x", { encoding: "latin1" }],
    ["writeFileSync", "/d/x", "no", { flag: "wx" }],
    ["existsSync", "/d/x"],
    ["existsSync", "/d/y"],
    ["readdirSync", "/"],
    ["readdirSync", "/none"],
    ["readdirSync", "/d/x"],
    ["copyFileSync", "/d/x", "/d/y"],
    ["copyFileSync", "/none", "/d/y"],
    ["renameSync", "/d/y", "/d/z"],
    ["renameSync", "/none", "/d/z"],
    ["unlinkSync", "/none"],
    ["unlinkSync", "/d"],
    ["rmdirSync", "/d"],
    ["rmdirSync", "/none"],
    ["symlinkSync", "x", "/d/l"],
    ["readlinkSync", "/d/l"],
    ["readlinkSync", "/d/x"],
    ["rmSync", "/none"],
    ["rmSync", "/none", { force: true }],
    ["rmSync", "/d"],
    ["accessSync", "/d/x"],
    ["accessSync", "/none"],
    ["truncateSync", "/d/x", 3],
    ["readFileSync", "/d/x", "utf8"],
    ["readdirSync", "/", { recursive: true }],
    ["openSync", "/none", "r"],
    ["openSync", "/d/x", "bad"],
    ["readFileSync", 5.5],
    ["readFileSync", {}],
    ["readFileSync", "/a\0b"],
    ["writeFileSync", "/d/x", 5],
    ["mkdirSync", "/none/x"],
    ["rmSync", "/d", { recursive: true }],
    ["existsSync", "/d"],
    ["mkdtempSync", "/none/x"],
    ["statSync", "/none"],
    ["lstatSync", "/none", { throwIfNoEntry: false }],
    ["opendirSync", "/none"],
    ["realpathSync", "/none"],
    ["cpSync", "/a", "/b"],
  ];
  const bare = (value) =>
    typeof value === "object" &&
    value !== null &&
    !(value instanceof Uint8Array) &&
    !Array.isArray(value) &&
    value.threw === undefined
      ? "something"
      : Array.isArray(value)
        ? value.map(String).sort()
        : value;
  const tell = (result) =>
    result?.message === undefined
      ? result
      : { ...result, message: result.message.replaceAll(root, "").replace(/'\/none\/x\w{6}'/, "'/none/xXXXXXX'") };
  for (const [name, ...values] of calls) {
    const there = values.map((value, i) =>
      typeof value === "string" &&
      value.startsWith("/") &&
      (i === 0 || /copy|rename|cp/.test(name) || (name === "symlinkSync" && i === 1))
        ? root + value
        : value,
    );
    const mine = tell(bare(outcome(() => fs[name](...values)))),
      nodes = tell(bare(outcome(() => nodeFs[name](...there))));
    if (name === "mkdirSync" && values[1]) continue;
    if (mine?.code === "ERR_FS_EISDIR" || name === "opendirSync") {
      assert.equal(mine.code, nodes.code);
      continue;
    }
    assert.deepEqual(plain(mine), plain(nodes), `${name} ${values}`);
  }
  fs.writeFileSync("/s", "0123456789");
  assert.deepEqual(
    [
      fs.statSync("/s").size,
      fs.statSync("/s").isFile(),
      fs.statSync("/s").mtime instanceof Date,
      fs.statSync("/s", { bigint: true }).size,
    ],
    [10, true, true, 10n],
  );
  const fd = fs.openSync("/s", "r+"),
    buffer = ours("buffer").Buffer.alloc(4);
  assert.deepEqual(
    [
      fs.readSync(fd, buffer, 0, 4, 2),
      buffer.toString(),
      fs.readSync(fd, buffer),
      buffer.toString(),
      fs.writeSync(fd, "ab", 8),
      fs.fstatSync(fd).size,
    ],
    [4, "2345", 4, "0123", 2, 10],
  );
  fs.closeSync(fd);
  assert.throws(() => fs.readSync(fd, buffer), { code: "EBADF" });
  assert.equal(await fs.promises.readFile("/s", "utf8"), "01234567ab");
  await assert.rejects(fs.promises.readFile("/none"), {
    code: "ENOENT",
    message: "ENOENT: no such file or directory, open '/none'",
  });
  assert.equal(
    await new Promise((resolve, reject) =>
      fs.readFile("/s", "utf8", (error, text) => (error ? reject(error) : resolve(text))),
    ),
    "01234567ab",
  );
  assert.equal((await new Promise((resolve) => fs.stat("/none", resolve))).code, "ENOENT");
  let text = "";
  for await (const chunk of fs.createReadStream("/s", { encoding: "utf8", start: 2, end: 5 })) text += chunk;
  assert.equal(text, "2345");
  await ours("stream").promises.pipeline(ours("stream").Readable.from(["a", "b"]), fs.createWriteStream("/t"));
  assert.equal(fs.readFileSync("/t", "utf8"), "ab");
  await assert.rejects(
    async () => {
      for await (const chunk of fs.createReadStream("/none")) void chunk;
    },
    { code: "ENOENT" },
  );
  const handle = await fs.promises.open("/t", "r+");
  assert.equal((await handle.read(buffer, 0, 2, 0)).bytesRead, 2);
  await handle.close();
  const lines = [];
  for await (const line of ours("readline").createInterface({
    input: ours("stream").Readable.from(["one\ntw", "o\r\nthree"]),
  }))
    lines.push(line);
  assert.deepEqual(lines, ["one", "two", "three"]);
});

test("numbers, dates and texts are those of en-US and UTC", () => {
  const numbers = [
    0,
    -0,
    1,
    -1,
    1234.5678,
    1e21,
    0.00001,
    1e-10,
    NaN,
    Infinity,
    -Infinity,
    999.9995,
    1.005,
    12345678,
    0.5,
    1.5,
    2.5,
    999999,
    1e15,
    123456789012345680000,
  ];
  const options = [
    undefined,
    { maximumFractionDigits: 0 },
    { minimumFractionDigits: 2, maximumFractionDigits: 2 },
    { style: "percent" },
    { style: "currency", currency: "USD" },
    { style: "currency", currency: "JPY" },
    { useGrouping: false },
    { maximumSignificantDigits: 3 },
    { notation: "compact" },
    { notation: "compact", compactDisplay: "long" },
    { signDisplay: "always" },
    { minimumIntegerDigits: 3 },
    { style: "unit", unit: "kilometer" },
    { notation: "scientific" },
    { style: "percent", maximumFractionDigits: 1 },
    { style: "currency", currency: "USD", currencySign: "accounting" },
    { style: "currency", currency: "EUR", minimumFractionDigits: 0 },
    { minimumSignificantDigits: 5 },
    { style: "currency", currency: "USD", trailingZeroDisplay: "stripIfInteger" },
    ...["ceil", "floor", "expand", "trunc", "halfCeil", "halfFloor", "halfExpand", "halfTrunc", "halfEven"].flatMap((roundingMode) => [
      { roundingMode, maximumFractionDigits: 0 },
      { roundingMode, maximumFractionDigits: 2 },
      { roundingMode, maximumSignificantDigits: 2 },
      { roundingMode, notation: "compact" },
      { roundingMode, notation: "scientific", maximumFractionDigits: 1 },
    ]),
  ];
  const inNode = (code) => vm.runInContext(code, untouched);
  for (const number of numbers)
    for (const option of options)
      assert.equal(
        number.toLocaleString("en-US", option),
        inNode(`(${Object.is(number, -0) ? "-0" : number}).toLocaleString("en-US", ${JSON.stringify(option)})`),
        `${number} ${JSON.stringify(option)}`,
      );
  const kInZones = [
    { timeZone: "Etc/GMT-5", timeZoneName: "short" },
    { timeZone: "etc/gmt+12", timeZoneName: "longOffset", hour: "numeric", minute: "numeric" },
    { timeZone: "America/Los_Angeles", dateStyle: "full", timeStyle: "full" },
  ];
  const fields = [
    undefined,
    { dateStyle: "full" },
    { dateStyle: "long", timeStyle: "short" },
    { dateStyle: "medium", timeStyle: "medium" },
    { dateStyle: "short", timeStyle: "long" },
    { timeStyle: "full" },
    { weekday: "long" },
    { month: "short", day: "numeric" },
    { year: "numeric", month: "long" },
    { year: "numeric", month: "2-digit", day: "2-digit" },
    { hour: "2-digit", minute: "2-digit" },
    { hour: "numeric" },
    { hour12: false },
    { hourCycle: "h23" },
    { timeZoneName: "short" },
    { weekday: "short", month: "long", day: "numeric", year: "numeric" },
    { hour: "numeric", minute: "numeric", second: "numeric", fractionalSecondDigits: 3 },
    { minute: "2-digit", second: "2-digit" },
    { weekday: "short", hour: "numeric" },
    { weekday: "short", hour: "numeric", minute: "2-digit", timeZoneName: "short" },
    { month: "long", day: "numeric", hour: "numeric", minute: "2-digit" },
    { year: "2-digit", month: "numeric", day: "numeric" },
    { month: "narrow" },
    { era: "short", year: "numeric", month: "numeric", day: "numeric" },
    { era: "narrow", year: "numeric" },
    { era: "long", year: "numeric", month: "long", day: "numeric" },
    ...(kTimeZones ? kInZones : []),
  ];
  for (const time of [
    0,
    Date.UTC(2024, 1, 29, 0, 5, 9, 45),
    Date.UTC(1999, 11, 31, 23, 59, 59),
    Date.UTC(2024, 6, 4, 12),
  ])
    for (const field of fields)
      for (const name of ["toLocaleString", "toLocaleDateString", "toLocaleTimeString"]) {
        const option = JSON.stringify({ timeZone: "UTC", ...field });
        same(
          () => new Date(time)[name]("en-US", { timeZone: "UTC", ...field }),
          () => inNode(`new Date(${time}).${name}("en-US", ${option})`),
          `${name} ${time} ${option}`,
        );
      }
  // The usual ways to an ISO date, and to a British one.
  for (const locale of ["default", "en-CA", "en-GB", "sv-SE", "sv"])
    for (const time of [0, Date.UTC(2024, 11, 5, 0, 5, 9), Date.UTC(1999, 2, 31, 15, 4)])
      for (const field of [
        ...["toLocaleDateString", ...(locale === "en-CA" ? [] : ["toLocaleString", "toLocaleTimeString"])].map((name) => ({ name })),
        ...["numeric", "2-digit"].flatMap((year) =>
          ["numeric", "2-digit"].flatMap((month) => ["numeric", "2-digit"].map((day) => ({ name: "toLocaleDateString", year, month, day })))),
        ...(locale === "en-CA" ? [] : [{ hour: "2-digit" }, { hour: "2-digit", minute: "2-digit" }, { hour: "numeric", minute: "numeric" }, { hour12: false }]
          .map((field) => ({ name: "toLocaleTimeString", ...field }))),
      ]) {
        const { name, ...options } = { ...field, timeZone: "UTC" };
        same(
          () => new Date(time)[name](locale, options),
          () => inNode(`new Date(${time}).${name}(${JSON.stringify(locale)}, ${JSON.stringify(options)})`),
          `${name} ${time} ${locale} ${JSON.stringify(options)}`,
        );
      }
  for (const locale of ["en-CA", "en-GB", "sv-SE"])
    for (const call of [`new Date(0).toLocaleDateString("${locale}", { month: "long" })`, `new Date(0).toLocaleString("${locale}", { hour12: true })`,
                        `(5).toLocaleString("${locale}")`, `new Date(0).toLocaleDateString("${locale}", { dateStyle: "full" })`])
      assert.throws(() => vm.runInThisContext(call), new RegExp(`The locale ${locale} is not available`), call);
  assert.throws(() => new Date(0).toLocaleTimeString("en-CA"), /The locale en-CA is not available/);
  const words = [
    "a",
    "B",
    "A",
    "b",
    "ä",
    "z",
    "Z",
    "_",
    "-",
    " ",
    "1",
    "10",
    "9",
    "é",
    "e",
    "f",
    "ab",
    "a b",
    "a-b",
    "zebra",
    "Äpfel",
    "résumé",
    "resume",
    "Résumé",
    "item 10",
    "item 2",
    "co-op",
    "coop",
  ];
  for (const option of ["{}", "{ numeric: true }", '{ sensitivity: "base" }'])
    for (const a of words)
      for (const b of words)
        assert.equal(
          Math.sign(a.localeCompare(b, "en", vm.runInThisContext(`(${option})`))),
          Math.sign(inNode(`${JSON.stringify(a)}.localeCompare(${JSON.stringify(b)}, "en", ${option})`)),
          `${a} ${b} ${option}`,
        );
  const calls = [
    "(5).toLocaleString('default')",
    "(5).toLocaleString(['xx-YY', 'en-US'])",
    "(5).toLocaleString([])",
    "new Intl.DateTimeFormat(['xx-YY', 'en-CA'], { timeZone: 'UTC' }).format(0)",
    "new Intl.DateTimeFormat('en-US-u-ca-gregory-nu-latn', { timeZone: 'UTC' }).format(0)",
    ...["long", "short", "narrow"].flatMap((style) => ["always", "auto"].flatMap((numeric) =>
      ["second", "minute", "hour", "day", "week", "month", "quarter", "years"].map((unit) =>
        `[-1000, -2, -1, -0, 0, 1, 1.5, 2].map((n) => new Intl.RelativeTimeFormat('en', { style: '${style}', numeric: '${numeric}' }).format(n, '${unit}')).join()`))),
    "JSON.stringify(new Intl.RelativeTimeFormat('en').formatToParts(-1000, 'day'))",
    "new Intl.PluralRules('en', { type: 'ordinal' }).select(22)",
    "new Intl.ListFormat('en').format(['a', 'b', 'c'])",
    "new Intl.RelativeTimeFormat('en', { numeric: 'auto' }).format(-1, 'day')",
    "new Intl.RelativeTimeFormat('en').format(3, 'months')",
    "[...new Intl.Segmenter().segment('e\\u0301👨‍👩‍👧🇩🇪x')].map((s) => s.segment).join('|')",
    "(12345678901234567890n).toLocaleString()",
    "new Intl.NumberFormat('en-US').formatToParts(1234.5).map((p) => p.type).join()",
    "Intl.NumberFormat('en', { style: 'percent' }).format(0.5)",
    "Intl.DateTimeFormat('en', { timeZone: 'UTC' }).format(new Date(0))",
    "['b', 'a'].sort(Intl.Collator('en').compare).join()",
    "[Intl.NumberFormat() instanceof Intl.NumberFormat, Intl.Collator().constructor === Intl.Collator].join()",
    "[Intl.NumberFormat, Intl.DateTimeFormat, Intl.Collator].map((f) => [f.name, f.length, f.supportedLocalesOf('en')]).join()",
    "new (class Mine extends Intl.NumberFormat { twice(n) { return this.format(2 * n); } })('en').twice(700)",
    "['PluralRules', 'ListFormat', 'RelativeTimeFormat', 'Segmenter'].map((name) => { try { return Intl[name]('en'); } catch (error) { return error.name; } }).join()",
  ];
  for (const call of calls)
    assert.equal(new Function("Intl", `return ${call}`)(shared.globals.Intl), inNode(call), call);
  const early = new Date(Date.UTC(-5, 1, 1)); // parts as luxon finds an offset by
  const luxons = { hour12: false, year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", era: "short" };
  for (const timeZone of ["UTC", ...(kTimeZones ? ["Etc/GMT+3", "America/New_York"] : [])])
    assert.equal(early.toLocaleString("en-US", { ...luxons, timeZone }), inNode(`new Date(${+early}).toLocaleString("en-US", ${JSON.stringify({ ...luxons, timeZone })})`));
  const inZone = (timeZone) => {
    const format = new shared.globals.Intl.DateTimeFormat("en-US", { timeZone, timeStyle: "long" });
    return [format.resolvedOptions().timeZone, format.format(new Date(0))];
  };
  assert.deepEqual(inZone("-0830"), ["-08:30", "3:30:00 PM GMT-8:30"]);
  assert.deepEqual(inZone("+05"), ["+05:00", "5:00:00 AM GMT+5"]);
  for (const wrong of ["Etc/GMT-15", "Etc/GMT+13", "+24:00", "+5", "GMT+5", ""])
    assert.throws(() => inZone(wrong), kTimeZones ? /^RangeError: Invalid time zone specified: / : /^RangeError: The time zone .*is not available/, wrong);
  const kCased = ["Iİı̇I\u0307I\u0323\u0307iIx", "ISPARTA", "istanbul", "ΆΣ", ""];
  for (const locale of ["'tr'", "'az-Latn'", "'TUR'", "'de'", "['tr', 'de']", "['de', 'tr']", "[]", "undefined", "5"])
    for (const text of kCased)
      for (const method of ["toLocaleLowerCase", "toLocaleUpperCase"]) {
        const call = `${JSON.stringify(text)}.${method}(${locale})`;
        assert.equal(vm.runInThisContext(call), inNode(call), call);
      }
  for (const [locale, kind] of [["'x'", RangeError], ["'tr_TR'", RangeError], ["''", RangeError], ["null", TypeError], ["'lt'", RangeError], ["'el'", RangeError]])
    assert.throws(() => vm.runInThisContext(`"I".toLocaleUpperCase(${locale})`), kind, locale);
  assert.throws(() => "I".toLocaleLowerCase("lt"), /^RangeError: The case of letters in the language lt is not available/);
  assert.equal("Ί".toLocaleLowerCase("el"), "ί");
  for (const call of [
    "new Intl.NumberFormat('en-US-u-nu-arab')", "new Intl.DateTimeFormat('en-u-ca-buddhist')", "new Intl.DateTimeFormat('en-u-hc-h23')",
    "new Intl.NumberFormat('en', { numberingSystem: 'arab' })", "new Intl.NumberFormat('en', { roundingIncrement: 5 })",
    "new Intl.DateTimeFormat('en', { calendar: 'buddhist' })", "new Intl.DateTimeFormat('en', { dayPeriod: 'short' })",
  ])
    assert.throws(() => new Function("Intl", call)(shared.globals.Intl), /^RangeError: .* is not available: /, call);
  assert.throws(() => (5).toLocaleString("de-DE"), /The locale de-DE is not available: .* Use "en-US"/);
});

// Of the years for which the databases of both agree.
test("dates in each time zone are as Node has them", { skip: !kTimeZones && "the language is not installed" }, () => {
  const { DateTimeFormat, supportedValuesOf } = shared.globals.Intl;
  const moments = [];
  for (let at = Date.UTC(1972, 0, 3); at < Date.UTC(2025, 0, 1); at += 86_400_000 * 37 + 3_600_000 * 7 + 61_234) moments.push(at);
  const options = { dateStyle: "short", timeStyle: "medium" };
  const places = supportedValuesOf("timeZone");
  assert.ok(places.length > 400);
  for (const timeZone of places) {
    const formats = [new DateTimeFormat("en-US", { ...options, timeZone }), new Intl.DateTimeFormat("en-US", { ...options, timeZone })];
    const [mine, nodes] = formats.map((format) => moments.map((at) => format.format(at).replaceAll("\u202f", " ")));
    assert.deepEqual(mine, nodes, timeZone);
  }
});

test("names of time zones are as Node has them", { skip: !kTimeZones && "the language is not installed" }, () => {
  const { DateTimeFormat } = shared.globals.Intl;
  const nameIn = (Format, timeZone, timeZoneName, at) =>
    new Format("en-US", { timeZone, timeZoneName }).formatToParts(at).find((part) => part.type === "timeZoneName").value;
  const zones = ["America/New_York", "America/Chicago", "America/Phoenix", "America/Los_Angeles", "America/Anchorage", "Pacific/Honolulu",
                 "America/Halifax", "America/St_Johns", "America/Mexico_City", "America/Hermosillo", "America/Havana", "America/Sao_Paulo",
                 "America/Santiago", "Europe/London", "Europe/Dublin", "Europe/Lisbon", "Europe/Berlin", "Europe/Kyiv", "Europe/Moscow",
                 "Africa/Abidjan", "Africa/Cairo", "Africa/Johannesburg", "Africa/Nairobi", "Asia/Jerusalem", "Asia/Dubai", "Asia/Karachi",
                 "Asia/Kolkata", "Asia/Kathmandu", "Asia/Jakarta", "Asia/Shanghai", "Asia/Taipei", "Asia/Hong_Kong", "Asia/Manila",
                 "Asia/Singapore", "Asia/Tokyo", "Asia/Seoul", "Australia/Perth", "Australia/Adelaide", "Australia/Sydney", "Pacific/Auckland"];
  for (const zone of zones)
    for (const width of ["short", "long", "shortOffset", "longOffset"])
      for (const at of [Date.UTC(2024, 0, 1), Date.UTC(2024, 6, 1)]) {
        const expected = nameIn(Intl.DateTimeFormat, zone, width, at).replace(/^GMT[+]0(?:0:00)?$/, "GMT"); // as CLDR 48 writes it
        assert.equal(nameIn(DateTimeFormat, zone, width, at), expected, `${zone} ${width} ${at}`);
      }
  for (const [zone, width, name] of [["America/Denver", "shortGeneric", "MT"], ["Europe/Paris", "longGeneric", "Central European Time"],
                                     ["Asia/Yerevan", "short", "GMT+4"], ["Pacific/Marquesas", "long", "GMT-09:30"]])
    assert.equal(nameIn(DateTimeFormat, zone, width, Date.UTC(2024, 6, 1)), name);
});

test("a time zone's name is spelled as the database has it", { skip: !kTimeZones && "the language is not installed" }, () => {
  const { DateTimeFormat } = shared.globals.Intl;
  const zoneOf = (timeZone) => new DateTimeFormat("en-US", { timeZone }).resolvedOptions().timeZone;
  for (const [given, name] of [["europe/berlin", "Europe/Berlin"], ["US/Eastern", "US/Eastern"], ["Asia/Calcutta", "Asia/Calcutta"],
                               ["etc/gmt+12", "Etc/GMT+12"], ["Zulu", "UTC"], ["GMT", "UTC"]])
    assert.equal(zoneOf(given), name);
  assert.throws(() => zoneOf("New York"), /^RangeError: Invalid time zone specified: New York\. Did you mean America\/New_York\?$/);
  assert.throws(() => zoneOf("Mars/Olympus"), /^RangeError: Invalid time zone specified: Mars\/Olympus$/);
  for (const name of ["__proto__", "constructor", "Factory"]) assert.throws(() => zoneOf(name), /Invalid time zone/, name);
});
