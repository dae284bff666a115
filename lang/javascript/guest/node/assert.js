// node:assert, with node:assert/strict.
(() => {
  "use strict";
  const shared = globalThis.__membrane;

  // The difference, line by line: the longest common subsequence, if both are short enough.
  const kMostLines = 400;
  function linesOfDifference(actual, expected) {
    const a = actual.split("\n"),
      b = expected.split("\n");
    const lines = [],
      bare = (line) => (line.endsWith(",") ? line.slice(0, -1) : line);
    const isSame = (i, j) => a[i] === b[j] || bare(a[i]) === bare(b[j]);
    if (a.length > kMostLines || b.length > kMostLines)
      return [...a.map((line) => `+ ${line}`), ...b.map((line) => `- ${line}`)];
    const length = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
    for (let i = a.length - 1; i >= 0; --i)
      for (let j = b.length - 1; j >= 0; --j)
        length[i][j] = isSame(i, j) ? length[i + 1][j + 1] + 1 : Math.max(length[i + 1][j], length[i][j + 1]);
    let i = 0,
      j = 0;
    while (i < a.length || j < b.length) {
      if (i < a.length && j < b.length && isSame(i, j)) {
        lines.push(`  ${a[i++]}`);
        ++j;
      } else if (i < a.length && (j === b.length || length[i + 1][j] >= length[i][j + 1])) {
        lines.push(`+ ${a[i++]}`);
      } else {
        lines.push(`- ${b[j++]}`);
      }
    }
    return lines;
  }

  const kHeads = {
    deepStrictEqual: "Expected values to be strictly deep-equal:",
    strictEqual: "Expected values to be strictly equal:",
    deepEqual: "Expected values to be loosely deep-equal:",
    notDeepStrictEqual: 'Expected "actual" not to be strictly deep-equal to:',
    notStrictEqual: 'Expected "actual" to be strictly unequal to:',
    notDeepEqual: 'Expected "actual" not to be loosely deep-equal to:',
    notIdentical: "Values have same structure but are not reference-equal:",
    notDeepEqualUnequal: "Expected values not to be loosely deep-equal:",
    strictEqualObject: 'Expected "actual" to be reference-equal to "expected":',
    notStrictEqualObject: 'Expected "actual" not to be reference-equal to "expected":',
    partialDeepStrictEqual: "Expected values to be partially and strictly deep-equal:",
  };
  const shown = (value) =>
    shared.inspect(value, {
      compact: false,
      depth: 1000,
      maxArrayLength: Infinity,
      maxStringLength: null,
      sorted: true,
      getters: true,
      showHidden: false,
      breakLength: Infinity,
    });

  function messageOf(operator, actual, expected) {
    if (operator === "deepStrictEqual" || operator === "strictEqual" || operator === "partialDeepStrictEqual")
      return differenceOf(operator, actual, expected);
    if (operator === "notDeepStrictEqual" || operator === "notStrictEqual") {
      const isObject =
        operator === "notStrictEqual" &&
        actual !== null &&
        (typeof actual === "object" || typeof actual === "function");
      const lines = shown(actual).split("\n");
      const base = kHeads[isObject ? "notStrictEqualObject" : operator];
      return lines.length === 1
        ? `${base}${lines[0].length > 5 ? "\n\n" : " "}${lines[0]}`
        : `${base}\n\n${cutLines(lines, 50, 47)}\n`;
    }
    if (operator === "deepEqual" || operator === "notDeepEqual") {
      const both = [shown(actual), shown(expected)].map((text) =>
        text.length > 512 ? `${text.slice(0, 509)}...` : text,
      );
      if (operator === "deepEqual")
        return `${kHeads.deepEqual}\n\n${both[0]}\n\nshould loosely deep-equal\n\n${both[1]}`;
      return both[0] === both[1]
        ? `${kHeads.notDeepEqual}\n\n${cutLines(both[0].split("\n"), 50, 47)}`.replace(/$/, lineEnd(both[0]))
        : `${kHeads.notDeepEqualUnequal}\n\n${both[0]}\n\nshould not loosely deep-equal\n\n${both[1]}`;
    }
    const sides = [shared.inspect(actual), shared.inspect(expected)].map((text) =>
      text.length > 128 ? `${text.slice(0, 125)}...` : text,
    );
    return `${sides[0]} ${operator} ${sides[1]}`;
  }
  const lineEnd = () => "";
  const cutLines = (lines, most, kept) => (lines.length > most ? [...lines.slice(0, kept), "..."] : lines).join("\n");

  function differenceOf(operator, actual, expected) {
    let a = shown(actual),
      b = shown(expected);
    const isObject = (value) => value !== null && (typeof value === "object" || typeof value === "function");
    let name = operator;
    if (
      operator === "strictEqual" &&
      ((isObject(actual) && isObject(expected) && typeof actual === "object" && typeof expected === "object") ||
        (typeof actual === "function" && typeof expected === "function"))
    )
      name = "strictEqualObject";
    if (!a.includes("\n") && !b.includes("\n") && a !== b) {
      const isShort =
        a.length + b.length <= 12 && (!isObject(actual) || !isObject(expected)) && (actual !== 0 || expected !== 0);
      if (isShort) return `${kHeads[name]}\n\n${a} !== ${b}\n`;
      let same = 0;
      while (a[same] === b[same]) ++same;
      const marker = name !== "strictEqualObject" && same > 2 && a.length < 80 ? `\n${" ".repeat(same + 2)}^` : "";
      return `${kHeads[name]}\n+ actual - expected\n\n+ ${a}\n- ${b}${marker}`;
    }
    if (a === b) {
      const lines = a.split("\n");
      return `${kHeads.notIdentical}\n\n${cutLines(lines, 50, 47)}\n`;
    }
    const lines = linesOfDifference(a, b);
    return `${kHeads[name]}\n+ actual - expected\n\n${aroundChanges(lines).join("\n")}`;
  }
  // Unchanged lines are left out, except for a few around changes.
  function aroundChanges(lines) {
    if (lines.length <= 50) return lines;
    const keep = new Set();
    lines.forEach((line, i) => {
      if (line[0] !== " ") for (let k = i - 3; k <= i + 3; ++k) keep.add(k);
    });
    const made = [];
    lines.forEach((line, i) => {
      if (keep.has(i)) made.push(line);
      else if (made.at(-1) !== "...") made.push("...");
    });
    return made;
  }

  shared.factories.set("assert", (exports, module, load) => {
    const { wrongType, wrongValue, coded } = load("internal/check");
    const { isDeepEqual, isDeepStrictEqual, isPart } = load("internal/equal");

    class AssertionError extends Error {
      constructor(options) {
        if (options === null || typeof options !== "object") wrongType("options", "of type object", options);
        const { message, actual, expected, operator } = options;
        super(message === undefined || message === null ? messageOf(operator, actual, expected) : String(message));
        Object.defineProperty(this, "name", {
          value: "AssertionError",
          writable: true,
          configurable: true,
          enumerable: false,
        });
        Object.assign(this, {
          generatedMessage: message === undefined || message === null,
          code: "ERR_ASSERTION",
          actual,
          expected,
          operator,
        });
        if (typeof Error.captureStackTrace === "function") Error.captureStackTrace(this, options.stackStartFn);
      }
      toString() {
        return `${this.name} [${this.code}]: ${this.message}`;
      }
    }

    function fail(message, actual, expected, operator, from) {
      if (message instanceof Error) throw message;
      const error = new AssertionError({
        message: typeof message === "function" ? undefined : message,
        actual,
        expected,
        operator,
        stackStartFn: from,
      });
      throw error;
    }
    function ok(value, ...rest) {
      if (!value) failOk(ok, rest.length, value, rest[0], arguments.length === 0);
    }
    // With the line of the call, if all of it is there.
    function falsyText() {
      const head = "The expression evaluated to a falsy value";
      const frame = shared.stackOf(new Error()).split("\n")[1] ?? "";
      const [, name, line] = /(?:\(|at )([^()\n]+):(\d+):\d+\)?$/.exec(frame) ?? [];
      const text = name && shared.sourceOf(name)?.split("\n")[line - 1]?.trim().replace(/;$/, "");
      const isWhole = text?.startsWith("assert") && text.endsWith(")") && text.split("(").length === text.split(")").length;
      return isWhole ? `${head}:\n\n  ${text}\n` : head;
    }
    function failOk(from, count, value, message, isEmpty) {
      if (isEmpty) message = "No value argument passed to `assert.ok()`";
      const isMade = count === 0 || message === undefined;
      const text = isMade && !isEmpty ? falsyText() : message;
      if (text instanceof Error) throw text;
      const error = new AssertionError({
        message: text,
        actual: value,
        expected: true,
        operator: "==",
        stackStartFn: from,
      });
      error.generatedMessage = isMade;
      throw error;
    }
    const comparison = (operator, holds) => {
      const check = function (actual, expected, message) {
        if (arguments.length < 2)
          throw coded(TypeError, "ERR_MISSING_ARGS", 'The "actual" and "expected" arguments must be specified');
        if (!holds(actual, expected)) fail(message, actual, expected, operator, check);
      };
      return check;
    };
    // eslint-disable-next-line eqeqeq
    const isLooselyEqual = (a, b) => a == b || (Number.isNaN(a) && Number.isNaN(b));

    // Whether the thrown value is the expected one; throws the reason if not.
    function checkThrown(thrown, expected, message, from) {
      if (typeof expected === "function") {
        if (expected.prototype !== undefined && thrown instanceof expected) return;
        if (Object.prototype.isPrototypeOf.call(Error, expected)) {
          const told =
            message ??
            `The error is expected to be an instance of "${expected.name}". Received ` +
            `"${thrown?.constructor?.name ?? shared.inspect(thrown, { depth: -1 })}"` +
            (thrown?.message ? `\n\nError message:\n\n${thrown.message}` : "");
          failThrown(told, thrown, expected, from, message === undefined);
        }
        const answer = expected.call({}, thrown);
        if (answer !== true)
          failThrown(
            message ??
              `The ${expected.name ? `"${expected.name}" ` : ""}validation function is expected to return "true". ` +
                `Received ${shared.inspect(answer)}${thrown instanceof Error ? `\n\nCaught error:\n\n${thrown}` : ""}`,
            thrown,
            expected,
            from,
            message === undefined,
          );
        return;
      }
      if (expected instanceof RegExp) {
        if (expected.test(String(thrown))) return;
        failThrown(
          message ??
            `The input did not match the regular expression ${shared.inspect(expected)}. ` +
              `Input:\n\n${shared.inspect(String(thrown))}\n`,
          thrown,
          expected,
          from,
          message === undefined,
        );
      }
      if (thrown === null || typeof thrown !== "object") fail(message, thrown, expected, "deepStrictEqual", from);
      const names = Object.keys(expected);
      if (expected instanceof Error) names.push("name", "message");
      else if (names.length === 0) wrongValue("error", expected, "may not be an empty object");
      for (const name of names) {
        if (typeof thrown[name] === "string" && expected[name] instanceof RegExp && expected[name].test(thrown[name]))
          continue;
        if (name in thrown && isDeepStrictEqual(thrown[name], expected[name])) continue;
        if (message !== undefined) fail(message, thrown, expected, "throws", from);
        const a = Object.fromEntries(
          names
            .filter((n) => n in thrown)
            .map((n) => [
              n,
              typeof thrown[n] === "string" && expected[n] instanceof RegExp && expected[n].test(thrown[n])
                ? expected[n]
                : thrown[n],
            ]),
        );
        const b = Object.fromEntries(names.map((n) => [n, expected[n]]));
        const told = new AssertionError({ actual: a, expected: b, operator: "deepStrictEqual", stackStartFn: from });
        Object.assign(told, { actual: thrown, expected, operator: from.name });
        throw told;
      }
    }
    function failThrown(message, actual, expected, from, isMade) {
      if (message instanceof Error) throw message;
      const error = new AssertionError({ message, actual, expected, operator: from.name, stackStartFn: from });
      error.generatedMessage = isMade;
      throw error;
    }
    const kNothing = Symbol("nothing");
    function thrownBy(call) {
      if (typeof call !== "function") wrongType("fn", "of type function", call);
      try {
        call();
      } catch (error) {
        return error;
      }
      return kNothing;
    }
    async function rejectionOf(given) {
      let promise = given;
      if (typeof given === "function") {
        promise = given();
        if (typeof promise?.then !== "function")
          throw coded(
            TypeError,
            "ERR_INVALID_RETURN_VALUE",
            'Expected instance of Promise to be returned from the "promiseFn" function but got ' + `${typeof promise}.`,
          );
      } else if (typeof promise?.then !== "function") {
        wrongType("promiseFn", "of type function or an instance of Promise", given);
      }
      try {
        await promise;
      } catch (error) {
        return error;
      }
      return kNothing;
    }
    function judge(thrown, expected, message, from) {
      if (typeof expected === "string") [expected, message] = [undefined, expected];
      if (thrown === kNothing) {
        const what = from.name === "rejects" ? "rejection" : "exception";
        const kind = expected?.name ? ` (${expected.name})` : "";
        fail(
          message instanceof Error ? message : `Missing expected ${what}${kind}${message ? `: ${message}` : "."}`,
          undefined,
          expected,
          from.name,
          from,
        );
      }
      if (expected !== undefined) checkThrown(thrown, expected, message, from);
    }
    function judgeNot(thrown, expected, message, from) {
      if (thrown === kNothing) return;
      if (typeof expected === "string") [expected, message] = [undefined, expected];
      const fits =
        expected === undefined ||
        (expected instanceof RegExp
          ? expected.test(String(thrown))
          : typeof expected === "function" && thrown instanceof expected);
      if (!fits) throw thrown;
      const what = from.name === "doesNotReject" ? "rejection" : "exception";
      fail(
        `Got unwanted ${what}${message ? `: ${message}` : "."}\nActual message: "${thrown?.message}"`,
        thrown,
        expected,
        from.name,
        from,
      );
    }
    function matching(operator, isWanted) {
      const check = function (text, pattern, message) {
        if (!(pattern instanceof RegExp)) wrongType("regexp", "an instance of RegExp", pattern);
        if (typeof text === "string" && pattern.test(text) === isWanted) return;
        if (message instanceof Error) throw message;
        const told =
          message ??
          (typeof text !== "string"
            ? `The "string" argument must be of type string.${load("internal/check").received(text)}`
            : `The input ${isWanted ? "did not" : "was expected to not"} match the regular expression ` +
              `${shared.inspect(pattern)}. Input:\n\n${shared.inspect(text)}\n`);
        const error = new AssertionError({
          message: told,
          actual: text,
          expected: pattern,
          operator,
          stackStartFn: check,
        });
        error.generatedMessage = message === undefined;
        throw error;
      };
      return check;
    }

    const assert = function (value, ...rest) {
      if (!value) failOk(assert, rest.length, value, rest[0], arguments.length === 0);
    };
    Object.defineProperty(assert, "name", { value: "ok" });
    Object.assign(assert, {
      AssertionError,
      ok,
      equal: comparison("==", isLooselyEqual),
      notEqual: comparison("!=", (a, b) => !isLooselyEqual(a, b)),
      strictEqual: comparison("strictEqual", Object.is),
      notStrictEqual: comparison("notStrictEqual", (a, b) => !Object.is(a, b)),
      deepEqual: comparison("deepEqual", isDeepEqual),
      notDeepEqual: comparison("notDeepEqual", (a, b) => !isDeepEqual(a, b)),
      deepStrictEqual: comparison("deepStrictEqual", isDeepStrictEqual),
      notDeepStrictEqual: comparison("notDeepStrictEqual", (a, b) => !isDeepStrictEqual(a, b)),
      partialDeepStrictEqual: comparison("partialDeepStrictEqual", isPart),
      fail(message = "Failed") {
        if (message instanceof Error) throw message;
        const error = new AssertionError({ message, operator: "fail", stackStartFn: assert.fail });
        error.generatedMessage = arguments.length === 0;
        throw error;
      },
      throws(call, expected, message) {
        judge(thrownBy(call), expected, message, assert.throws);
      },
      doesNotThrow(call, expected, message) {
        judgeNot(thrownBy(call), expected, message, assert.doesNotThrow);
      },
      async rejects(given, expected, message) {
        judge(await rejectionOf(given), expected, message, assert.rejects);
      },
      async doesNotReject(given, expected, message) {
        judgeNot(await rejectionOf(given), expected, message, assert.doesNotReject);
      },
      ifError(value) {
        if (value === null || value === undefined) return;
        const shown = value instanceof Error ? value.message || value.constructor.name : shared.inspect(value);
        throw new AssertionError({
          message: `ifError got unwanted exception: ${shown}`,
          actual: value,
          expected: null,
          operator: "ifError",
          stackStartFn: assert.ifError,
        });
      },
      match: matching("match", true),
      doesNotMatch: matching("doesNotMatch", false),
    });
    const strict = function (value, ...rest) {
      if (!value) failOk(strict, rest.length, value, rest[0], arguments.length === 0);
    };
    Object.assign(strict, assert, {
      equal: assert.strictEqual,
      notEqual: assert.notStrictEqual,
      deepEqual: assert.deepStrictEqual,
      notDeepEqual: assert.notDeepStrictEqual,
    });
    assert.strict = strict.strict = strict;
    module.exports = assert;
  });
  shared.factories.set("assert/strict", (exports, module, load) => {
    module.exports = load("assert").strict;
  });
})();
