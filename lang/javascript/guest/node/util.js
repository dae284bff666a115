// node:util.
(() => {
  "use strict";
  const shared = globalThis.__membrane;
  const { globals } = shared;

  const tag = (value) => Object.prototype.toString.call(value).slice(8, -1);
  const isObject = (value) => value !== null && typeof value === "object";
  const byTag =
    (...names) =>
    (value) =>
      isObject(value) && names.includes(tag(value));
  const { kinds } = shared;
  const types = {
    isAnyArrayBuffer: (v) =>
      v instanceof ArrayBuffer || (typeof SharedArrayBuffer === "function" && v instanceof SharedArrayBuffer),
    isArgumentsObject: byTag("Arguments"),
    isArrayBuffer: (v) => isObject(v) && kinds.isBuffer(v),
    isArrayBufferView: (v) => ArrayBuffer.isView(v),
    isAsyncFunction: (v) => typeof v === "function" && /^Async/.test(tag(v)),
    isBigInt64Array: (v) => v instanceof BigInt64Array,
    isBigIntObject: byTag("BigInt"),
    isBigUint64Array: (v) => v instanceof BigUint64Array,
    isBooleanObject: byTag("Boolean"),
    isBoxedPrimitive: byTag("Number", "String", "Boolean", "BigInt", "Symbol"),
    isDataView: (v) => v instanceof DataView,
    isDate: (v) => isObject(v) && kinds.isDate(v),
    isExternal: () => false,
    isFloat32Array: (v) => v instanceof Float32Array,
    isFloat64Array: (v) => v instanceof Float64Array,
    isGeneratorFunction: (v) => typeof v === "function" && /GeneratorFunction$/.test(tag(v)),
    isGeneratorObject: byTag("Generator", "AsyncGenerator"),
    isInt16Array: (v) => v instanceof Int16Array,
    isInt32Array: (v) => v instanceof Int32Array,
    isInt8Array: (v) => v instanceof Int8Array,
    isMap: (v) => isObject(v) && kinds.isMap(v),
    isMapIterator: byTag("Map Iterator"),
    isModuleNamespaceObject: byTag("Module"),
    isNativeError: (v) => isObject(v) && (typeof Error.isError === "function" ? Error.isError(v) : v instanceof Error),
    isNumberObject: byTag("Number"),
    isPromise: (v) => v instanceof Promise,
    isProxy: () => false,
    isRegExp: byTag("RegExp"),
    isSet: (v) => isObject(v) && kinds.isSet(v),
    isSetIterator: byTag("Set Iterator"),
    isSharedArrayBuffer: byTag("SharedArrayBuffer"),
    isStringObject: byTag("String"),
    isSymbolObject: byTag("Symbol"),
    isTypedArray: (v) => ArrayBuffer.isView(v) && !(v instanceof DataView),
    isUint16Array: (v) => v instanceof Uint16Array,
    isUint32Array: (v) => v instanceof Uint32Array,
    isUint8Array: (v) => v instanceof Uint8Array,
    isUint8ClampedArray: (v) => v instanceof Uint8ClampedArray,
    isWeakMap: byTag("WeakMap"),
    isWeakSet: byTag("WeakSet"),
  };

  const kCustom = Symbol.for("nodejs.util.promisify.custom");
  const kStyles = {
    reset: [0, 0],
    bold: [1, 22],
    dim: [2, 22],
    italic: [3, 23],
    underline: [4, 24],
    blink: [5, 25],
    inverse: [7, 27],
    hidden: [8, 28],
    strikethrough: [9, 29],
    doubleunderline: [21, 24],
    black: [30, 39],
    red: [31, 39],
    green: [32, 39],
    yellow: [33, 39],
    blue: [34, 39],
    magenta: [35, 39],
    cyan: [36, 39],
    white: [37, 39],
    bgBlack: [40, 49],
    bgRed: [41, 49],
    bgGreen: [42, 49],
    bgYellow: [43, 49],
    bgBlue: [44, 49],
    bgMagenta: [45, 49],
    bgCyan: [46, 49],
    bgWhite: [47, 49],
    framed: [51, 54],
    overlined: [53, 55],
    gray: [90, 39],
    redBright: [91, 39],
    greenBright: [92, 39],
    yellowBright: [93, 39],
    blueBright: [94, 39],
    magentaBright: [95, 39],
    cyanBright: [96, 39],
    whiteBright: [97, 39],
    bgGray: [100, 49],
    bgRedBright: [101, 49],
    bgGreenBright: [102, 49],
    bgYellowBright: [103, 49],
    bgBlueBright: [104, 49],
    bgMagentaBright: [105, 49],
    bgCyanBright: [106, 49],
    bgWhiteBright: [107, 49],
  };
  const kOtherNames = {
    __proto__: null,
    grey: "gray",
    blackBright: "gray",
    bgGrey: "bgGray",
    bgBlackBright: "bgGray",
    faint: "dim",
    crossedout: "strikethrough",
    crossedOut: "strikethrough",
    strikeThrough: "strikethrough",
    conceal: "hidden",
    swapcolors: "inverse",
    swapColors: "inverse",
    doubleUnderline: "doubleunderline",
  };

  // --- parseArgs ---

  function parseArgs(
    load,
    {
      args = globalThis.process.argv.slice(2),
      options = {},
      strict = true,
      allowPositionals = !strict,
      allowNegative = false,
      tokens: wantsTokens = false,
    } = {},
  ) {
    const { coded } = load("internal/check");
    const refuse = (code, message) => {
      throw coded(TypeError, code, message);
    };
    const values = Object.create(null),
      positionals = [],
      tokens = [];
    const byShort = new Map(
      Object.entries(options)
        .filter(([, o]) => o.short)
        .map(([name, o]) => [o.short, name]),
    );
    const put = (name, raw, value, index, inline) => {
      const option = options[name];
      tokens.push({ kind: "option", name, rawName: raw, index, value, inlineValue: inline });
      if (strict && option === undefined) {
        refuse(
          "ERR_PARSE_ARGS_UNKNOWN_OPTION",
          `Unknown option '${raw}'` +
            (allowPositionals
              ? ". To specify a positional argument starting with a '-', place it at the end of the command after '--', " +
                `as in '-- "${raw}"`
              : ""),
        );
      }
      const shown = option?.short ? `-${option.short}, --${name}` : `--${name}`;
      if (strict && option.type === "string" && typeof value !== "string")
        refuse("ERR_PARSE_ARGS_INVALID_OPTION_VALUE", `Option '${shown} <value>' argument missing`);
      if (strict && option.type === "boolean" && value !== undefined && typeof value === "string")
        refuse("ERR_PARSE_ARGS_INVALID_OPTION_VALUE", `Option '${shown}' does not take an argument`);
      if (strict && option.type === "string" && inline === false && value.startsWith("-") && value.length > 1)
        refuse(
          "ERR_PARSE_ARGS_INVALID_OPTION_VALUE",
          `Option '${raw}' argument is ambiguous.\nDid you forget to specify the option argument for '${raw}'?\n` +
            "To specify an option argument starting with a dash use " +
            `'${raw.startsWith("--") ? `${raw}=-XYZ` : `--${name}=-XYZ' or '${raw}-XYZ`}'.`,
        );
      const kept = value ?? true;
      if (option?.multiple) (values[name] ??= []).push(kept);
      else values[name] = kept;
    };
    for (let i = 0; i < args.length; ++i) {
      const arg = args[i];
      if (arg === "--") {
        tokens.push({ kind: "option-terminator", index: i });
        for (let k = i + 1; k < args.length; ++k) positionals.push([args[k], k]);
        break;
      }
      if (arg.startsWith("--")) {
        const at = arg.indexOf("="),
          name = at < 0 ? arg.slice(2) : arg.slice(2, at),
          raw = `--${name}`;
        if (at >= 0) put(name, raw, arg.slice(at + 1), i, true);
        else if (options[name]?.type === "string" && args[i + 1] !== undefined) put(name, raw, args[i + 1], i++, false);
        else if (allowNegative && name.startsWith("no-") && options[name.slice(3)]?.type === "boolean") {
          tokens.push({
            kind: "option",
            name: name.slice(3),
            rawName: raw,
            index: i,
            value: undefined,
            inlineValue: undefined,
          });
          values[name.slice(3)] = false;
        } else put(name, raw, undefined, i, undefined);
      } else if (arg.startsWith("-") && arg.length > 1) {
        for (let k = 1; k < arg.length; ++k) {
          const name = byShort.get(arg[k]) ?? arg[k],
            raw = `-${arg[k]}`;
          if (options[name]?.type !== "string") put(name, raw, undefined, i, undefined);
          else {
            if (k + 1 < arg.length) put(name, raw, arg.slice(k + 1), i, true);
            else if (args[i + 1] !== undefined) put(name, raw, args[i + 1], i++, false);
            else put(name, raw, undefined, i, undefined);
            break;
          }
        }
      } else {
        positionals.push([arg, i]);
      }
    }
    for (const [value, index] of positionals) {
      if (!allowPositionals)
        refuse(
          "ERR_PARSE_ARGS_UNEXPECTED_POSITIONAL",
          `Unexpected argument '${value}'. This command does not take positional arguments`,
        );
      tokens.push({ kind: "positional", index, value });
    }
    for (const [name, option] of Object.entries(options))
      if (option.default !== undefined && values[name] === undefined) values[name] = option.default;
    tokens.sort((a, b) => a.index - b.index);
    return { values, positionals: positionals.map(([value]) => value), ...(wantsTokens ? { tokens } : {}) };
  }

  shared.factories.set("util", (exports, module, load) => {
    const { checkFunction, checkString, wrongType, wrongValue } = load("internal/check");

    function promisify(original) {
      checkFunction(original, "original");
      if (original[kCustom])
        return Object.defineProperty(original[kCustom], kCustom, { value: original[kCustom], configurable: true });
      const made = function (...values) {
        return new Promise((resolve, reject) => {
          Reflect.apply(original, this, [
            ...values,
            (error, ...results) => (error ? reject(error) : resolve(results[0])),
          ]);
        });
      };
      Object.setPrototypeOf(made, Object.getPrototypeOf(original));
      Object.defineProperty(made, kCustom, { value: made, configurable: true });
      return Object.defineProperties(made, Object.getOwnPropertyDescriptors(original));
    }
    promisify.custom = kCustom;

    function callbackify(original) {
      checkFunction(original, "original");
      const made = function (...values) {
        const call = values.pop();
        checkFunction(call, "last argument");
        Reflect.apply(original, this, values).then(
          (value) => globalThis.process.nextTick(call, null, value),
          (error) =>
            globalThis.process.nextTick(
              call,
              error ??
                Object.assign(new Error("Promise was rejected with a falsy value"), {
                  code: "ERR_FALSY_VALUE_REJECTION",
                  reason: error,
                }),
            ),
        );
      };
      return Object.defineProperty(made, "name", { value: `${original.name}Callbackified` });
    }
    const reported = new Set();
    function deprecate(call, message, code) {
      let hasWarned = false;
      const made = function (...values) {
        if (!hasWarned && !(code !== undefined && reported.has(code)))
          globalThis.process.emitWarning(message, "DeprecationWarning", code);
        hasWarned = true;
        if (code !== undefined) reported.add(code);
        return new.target ? Reflect.construct(call, values, new.target) : Reflect.apply(call, this, values);
      };
      Object.setPrototypeOf(made, call);
      if (call.prototype) made.prototype = call.prototype;
      return made;
    }
    function inherits(Class, Above) {
      checkFunction(Class, "ctor");
      checkFunction(Above, "superCtor");
      if (Above.prototype === undefined) wrongType("superCtor.prototype", "of type object", Above.prototype);
      Object.defineProperty(Class, "super_", { value: Above, writable: true, configurable: true });
      Object.setPrototypeOf(Class.prototype, Above.prototype);
    }
    const isStream = (value) =>
      value instanceof globals.ReadableStream ||
      value instanceof globals.WritableStream ||
      Boolean(value?._readableState ?? value?._writableState) ||
      (typeof value?.on === "function" && (typeof value.write === "function" || typeof value.pipe === "function"));
    function hasColours(stream) {
      const forced = globalThis.process.env.FORCE_COLOR;
      if (forced !== undefined) return ["", "true", "1", "2", "3"].includes(forced);
      return Boolean(stream.isTTY) && (typeof stream.getColorDepth !== "function" || stream.getColorDepth() > 2);
    }
    function styleText(format, text, { validateStream = true, stream = globalThis.process.stdout } = {}) {
      checkString(text, "text");
      if (typeof validateStream !== "boolean") wrongType("options.validateStream", "of type boolean", validateStream);
      if (validateStream && !isStream(stream))
        wrongType("stream", "an instance of ReadableStream, WritableStream, or Stream", stream);
      let [head, tail] = ["", ""];
      for (const given of [format].flat()) {
        const name = kOtherNames[given] ?? given;
        if (!Object.hasOwn(kStyles, name))
          wrongValue(
            "format",
            name,
            `must be one of: ${Object.keys(kStyles)
              .map((style) => `'${style}'`)
              .join(", ")}`,
          );
        head += `\u001b[${kStyles[name][0]}m`;
        tail = `\u001b[${kStyles[name][1]}m${tail}`;
      }
      return validateStream && !hasColours(stream) ? text : `${head}${text}${tail}`;
    }
    const debuglog = () => Object.assign(() => {}, { enabled: false });

    module.exports = {
      inspect: shared.inspect,
      format: shared.format,
      formatWithOptions: (options, ...values) => shared.formatWithOptions(options, ...values),
      promisify,
      callbackify,
      deprecate,
      inherits,
      types,
      styleText,
      debuglog,
      debug: debuglog,
      isDeepStrictEqual: load("internal/equal").isDeepStrictEqual,
      parseArgs: (config) => parseArgs(load, config),
      stripVTControlCharacters: (text) =>
        text.replace(
          /[\u001B\u009B][[\]()#;?]*(?:(?:(?:(?:;[-a-zA-Z\d/#&.:=?%@~_]+)*|[a-zA-Z\d]+(?:;[-a-zA-Z\d/#&.:=?%@~_]*)*)?\u0007)|(?:(?:\d{1,4}(?:;\d{0,4})*)?[\dA-PR-TZcf-ntqry=><~]))/g,
          "",
        ),
      toUSVString: (text) => `${text}`.toWellFormed(),
      getSystemErrorName: (number) => load("internal/errno").nameOf(number),
      TextEncoder: globals.TextEncoder,
      TextDecoder: globals.TextDecoder,
      aborted: (signal) =>
        new Promise((resolve) => {
          if (signal.aborted) resolve();
          else signal.addEventListener("abort", () => resolve(), { once: true });
        }),
      isArray: Array.isArray,
      isBoolean: (v) => typeof v === "boolean",
      isNull: (v) => v === null,
      isNullOrUndefined: (v) => v === null || v === undefined,
      isNumber: (v) => typeof v === "number",
      isString: (v) => typeof v === "string",
      isSymbol: (v) => typeof v === "symbol",
      isUndefined: (v) => v === undefined,
      isRegExp: types.isRegExp,
      isObject,
      isDate: types.isDate,
      isError: (v) => v instanceof Error,
      isFunction: (v) => typeof v === "function",
      isPrimitive: (v) => v === null || (typeof v !== "object" && typeof v !== "function"),
    };
  });
  shared.factories.set("util/types", (exports, module) => {
    module.exports = types;
  });
  shared.factories.set("sys", (exports, module, load) => {
    module.exports = load("util");
  });
})();
