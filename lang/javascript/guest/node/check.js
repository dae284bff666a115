// Errors of Node's functions for invalid arguments: the same classes, codes and words.
(() => {
  "use strict";
  const shared = globalThis.__membrane;

  // An error of a class, whose stack and text include its code as in Node.
  function coded(Kind, code, message, more) {
    const error = new Kind(message);
    Object.assign(error, { code }, more);
    Object.defineProperty(error, "toString", {
      value() {
        return `${this.name} [${code}]: ${this.message}`;
      },
      enumerable: false,
      configurable: true,
      writable: true,
    });
    return error;
  }
  function received(value) {
    if (value === null || value === undefined) return ` Received ${value}`;
    if (typeof value === "function") return value.name ? ` Received function ${value.name}` : " Received function ";
    if (typeof value === "object") {
      const name = value.constructor?.name;
      return name ? ` Received an instance of ${name}` : ` Received ${shared.inspect(value, { depth: -1 })}`;
    }
    let text = shared.inspect(value);
    if (text.length > 28) text = `${text.slice(0, 25)}...`;
    return ` Received type ${typeof value} (${text})`;
  }
  function wrongType(name, needed, value) {
    const kind = name.endsWith(" argument") ? name : `"${name}" ${name.includes(".") ? "property" : "argument"}`;
    throw coded(TypeError, "ERR_INVALID_ARG_TYPE", `The ${kind} must be ${needed}.${received(value)}`);
  }
  function wrongValue(name, value, reason = "is invalid") {
    let text = shared.inspect(value);
    if (text.length > 128) text = `${text.slice(0, 128)}...`;
    throw coded(
      TypeError,
      "ERR_INVALID_ARG_VALUE",
      `The ${name.includes(".") ? "property" : "argument"} '${name}' ${reason}. Received ${text}`,
    );
  }
  const grouped = (value) => {
    const text = String(value),
      digits = /^(-?)(\d+)$/.exec(text);
    return digits ? digits[1] + digits[2].replace(/\B(?=(?:\d{3})+$)/g, "_") : text;
  };
  function outOfRange(name, range, value) {
    const shown =
      Number.isInteger(value) && Math.abs(value) > 2 ** 32
        ? grouped(value)
        : typeof value === "bigint"
          ? `${value > 2n ** 32n || value < -(2n ** 32n) ? grouped(value) : value}n`
          : shared.inspect(value);
    throw coded(
      RangeError,
      "ERR_OUT_OF_RANGE",
      `The value of "${name}" is out of range. It must be ${range}. Received ${shown}`,
    );
  }

  shared.factories.set("internal/check", (exports) => {
    Object.assign(exports, {
      coded,
      wrongType,
      wrongValue,
      outOfRange,
      received,
      checkString(value, name) {
        if (typeof value !== "string") wrongType(name, "of type string", value);
      },
      checkFunction(value, name) {
        if (typeof value !== "function") wrongType(name, "of type function", value);
      },
      checkObject(value, name) {
        if (value === null || typeof value !== "object") wrongType(name, "of type object", value);
      },
      checkNumber(value, name) {
        if (typeof value !== "number") wrongType(name, "of type number", value);
      },
      checkInteger(value, name, least = Number.MIN_SAFE_INTEGER, most = Number.MAX_SAFE_INTEGER) {
        if (typeof value !== "number") wrongType(name, "of type number", value);
        if (!Number.isInteger(value)) outOfRange(name, "an integer", value);
        if (value < least || value > most) outOfRange(name, `>= ${least} && <= ${most}`, value);
      },
      // For functions that take a callback last, and functions that return a promise.
      abortError: (signal) =>
        Object.assign(new Error("The operation was aborted", { cause: signal?.reason }), {
          name: "AbortError",
          code: "ABORT_ERR",
        }),
    });
  });
})();
