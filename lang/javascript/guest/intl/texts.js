// What else Intl has of texts for en-US: their order, plurals, lists, relative times and segments.
(() => {
  "use strict";
  const shared = globalThis.__membrane;
  const { NumberFormat, localeOf, oneOf, onlyUsual } = shared.intl;

  // --- the order of texts ---

  // The rank of a character: blanks, marks, digits, letters; ordered within a rank.
  const kMarks = "_-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$";
  function rankOf(character) {
    if (/\s/.test(character)) return [0, character];
    const mark = kMarks.indexOf(character);
    if (mark >= 0) return [1, mark];
    if (/\p{N}/u.test(character)) return [3, character];
    return [/\p{L}/u.test(character) ? 4 : 2, character];
  }
  const kLigatures = { ß: "ss", æ: "ae", œ: "oe", ø: "o", ł: "l", đ: "d" };
  const folded = (text) =>
    text
      .normalize("NFD")
      .replace(/\p{M}/gu, "")
      .toLowerCase()
      .replace(/[ßæœøłđ]/g, (c) => kLigatures[c]);
  function compareBase(a, b, isNumeric) {
    const pattern = isNumeric ? /\d+|[^]/gu : /[^]/gu;
    const x = a.match(pattern) ?? [],
      y = b.match(pattern) ?? [];
    for (let i = 0; i < Math.min(x.length, y.length); ++i) {
      if (x[i] === y[i]) continue;
      if (isNumeric && /^\d/.test(x[i]) && /^\d/.test(y[i])) {
        const difference = BigInt(x[i]) - BigInt(y[i]);
        if (difference !== 0n) return difference < 0n ? -1 : 1;
        continue;
      }
      const [p, q] = rankOf(x[i]),
        [r, s] = rankOf(y[i]);
      if (p !== r) return p < r ? -1 : 1;
      if (q !== s) return q < s ? -1 : 1;
    }
    return Math.sign(x.length - y.length);
  }
  const order = (a, b) => (a === b ? 0 : a < b ? -1 : 1);
  const isPlain = /^[a-z0-9]*$/;
  function compare(a, b, { numeric = false, sensitivity = "variant", caseFirst = "false" } = {}) {
    if (a === b) return 0;
    if (!numeric && isPlain.test(a) && isPlain.test(b)) return order(a, b);
    const base = compareBase(folded(a), folded(b), numeric);
    if (base !== 0 || sensitivity === "base") return base;
    const accents = order(a.normalize("NFD").toLowerCase(), b.normalize("NFD").toLowerCase());
    if (sensitivity !== "case" && accents !== 0) return accents;
    if (sensitivity === "accent") return 0;
    for (let i = 0; i < Math.min(a.length, b.length); ++i)
      if (a[i] !== b[i] && a[i].toLowerCase() === b[i].toLowerCase())
        return (a[i] === a[i].toLowerCase()) === (caseFirst !== "upper") ? -1 : 1;
    return 0;
  }
  class Collator {
    #options;
    constructor(locales, options = {}) {
      this.#options = {
        locale: localeOf(locales),
        usage: "sort",
        sensitivity: "variant",
        ignorePunctuation: false,
        collation: "default",
        numeric: false,
        caseFirst: "false",
        ...options,
      };
      this.compare = (a, b) => compare(`${a}`, `${b}`, this.#options);
    }
    static supportedLocalesOf(locales) {
      return NumberFormat.supportedLocalesOf(locales);
    }
    resolvedOptions() {
      return { ...this.#options };
    }
  }

  // --- words ---

  class PluralRules {
    #options;
    constructor(locales, options = {}) {
      this.#options = { locale: localeOf(locales), type: options?.type ?? "cardinal" };
    }
    select(value) {
      const number = Number(value);
      if (this.#options.type !== "ordinal") return number === 1 ? "one" : "other";
      const tens = number % 100;
      return tens >= 11 && tens <= 13 ? "other" : ({ 1: "one", 2: "two", 3: "few" }[number % 10] ?? "other");
    }
    resolvedOptions() {
      return {
        ...this.#options,
        pluralCategories: this.#options.type === "ordinal" ? ["few", "one", "two", "other"] : ["one", "other"],
      };
    }
  }
  class ListFormat {
    #options;
    constructor(locales, options = {}) {
      this.#options = {
        locale: localeOf(locales),
        type: options?.type ?? "conjunction",
        style: options?.style ?? "long",
      };
    }
    format(list) {
      const items = [...list],
        { type, style } = this.#options;
      const word =
        type === "disjunction"
          ? "or "
          : type === "conjunction"
            ? style === "long"
              ? "and "
              : style === "short"
                ? "& "
                : ""
            : "";
      if (items.length < 2) return items.join("");
      const comma = type === "unit" && style === "narrow" ? " " : ", ";
      if (items.length === 2) return word ? `${items[0]} ${word}${items[1]}` : items.join(comma);
      return `${items.slice(0, -1).join(comma)}${comma}${word}${items.at(-1)}`;
    }
    resolvedOptions() {
      return { ...this.#options };
    }
  }
  const kRelativeUnits = ["second", "minute", "hour", "day", "week", "month", "quarter", "year"];
  // As `[one, other]` where these differ.
  const kShortUnits = {
    second: "sec.", minute: "min.", hour: "hr.", day: ["day", "days"], week: "wk.", month: "mo.", quarter: ["qtr.", "qtrs."], year: "yr.",
  };
  const kNarrowUnits = { second: "s", minute: "m", hour: "h", day: "d", week: "w", month: "mo", quarter: "q", year: "y" };
  class RelativeTimeFormat {
    #options;
    constructor(locales, given = {}) {
      const options = Object(given);
      onlyUsual(options, "numberingSystem", "latn");
      this.#options = {
        locale: localeOf(locales),
        style: oneOf(options, "style", ["long", "short", "narrow"], "long"),
        numeric: oneOf(options, "numeric", ["always", "auto"], "always"),
        numberingSystem: "latn",
      };
    }
    static supportedLocalesOf(locales) {
      return NumberFormat.supportedLocalesOf(locales);
    }
    format(value, unit) {
      return this.formatToParts(value, unit)
        .map((part) => part.value)
        .join("");
    }
    formatToParts(value, given) {
      const unit = `${given}`.replace(/s$/, ""),
        number = Number(value);
      if (!kRelativeUnits.includes(unit)) throw new RangeError(`Invalid unit argument for format() '${given}'`);
      if (!Number.isFinite(number))
        throw new RangeError("Value need to be finite number for Intl.RelativeTimeFormat.prototype.format()");
      const word = this.#options.numeric === "auto" ? this.#wordFor(number, unit) : undefined;
      if (word !== undefined) return [{ type: "literal", value: word }];
      const count = new NumberFormat().formatToParts(Math.abs(number)).map((part) => ({ ...part, unit }));
      const name = this.#nameOf(unit, Math.abs(number) === 1);
      return number < 0 || Object.is(number, -0)
        ? [...count, { type: "literal", value: `${name} ago` }]
        : [{ type: "literal", value: "in " }, ...count, { type: "literal", value: name }];
    }
    #wordFor(number, unit) {
      if (unit === "day") return { "-1": "yesterday", 0: "today", 1: "tomorrow" }[number];
      if (unit === "second") return number === 0 ? "now" : undefined;
      if (unit === "minute" || unit === "hour") return number === 0 ? `this ${unit}` : undefined;
      const [name] = this.#options.style === "long" ? [unit] : [kShortUnits[unit]].flat();
      return { "-1": `last ${name}`, 0: `this ${name}`, 1: `next ${name}` }[number];
    }
    #nameOf(unit, isOne) {
      if (this.#options.style === "narrow") return kNarrowUnits[unit];
      if (this.#options.style === "long") return ` ${unit}${isOne ? "" : "s"}`;
      const names = [kShortUnits[unit]].flat();
      return ` ${isOne ? names[0] : names.at(-1)}`;
    }
    resolvedOptions() {
      return { ...this.#options };
    }
  }

  // --- segments ---

  // A visible character as a unit: marks, joiners and flags belong to what is before them.
  const kCluster = /\r\n|\p{RI}\p{RI}|[^](?:[\p{M}\u200d\ufe0f\u{1f3fb}-\u{1f3ff}]|(?<=\u200d)[^])*/gu;
  class Segmenter {
    #options;
    constructor(locales, options = {}) {
      this.#options = {
        locale: localeOf(locales),
        granularity: oneOf(options ?? {}, "granularity", ["grapheme", "word", "sentence"], "grapheme"),
      };
    }
    segment(given) {
      const input = `${given}`,
        { granularity } = this.#options;
      const pattern =
        granularity === "grapheme"
          ? kCluster
          : granularity === "word"
            ? /[\p{L}\p{N}_]+(?:['.’][\p{L}\p{N}_]+)*|\r\n|[^]/gu
            : /[^.!?\n]*(?:[.!?]+["')\]]*\s*|\n|$)/gu;
      return {
        *[Symbol.iterator]() {
          for (const { 0: segment, index } of input.matchAll(pattern))
            if (segment !== "")
              yield {
                segment,
                index,
                input,
                ...(granularity === "word" ? { isWordLike: /[\p{L}\p{N}]/u.test(segment) } : {}),
              };
        },
      };
    }
    resolvedOptions() {
      return { ...this.#options };
    }
  }

  Object.assign(shared.intl, { Collator, ListFormat, PluralRules, RelativeTimeFormat, Segmenter, compare });
})();
