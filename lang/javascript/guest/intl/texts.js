// What else Intl has of texts for en-US: their order, plurals, lists, relative times and segments.
(() => {
  "use strict";
  const shared = globalThis.__membrane;
  const { NumberFormat, checkLocale, oneOf } = shared.intl;

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
        locale: checkLocale(locales),
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
      this.#options = { locale: checkLocale(locales), type: options?.type ?? "cardinal" };
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
        locale: checkLocale(locales),
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
  class RelativeTimeFormat {
    #options;
    constructor(locales, options = {}) {
      this.#options = {
        locale: checkLocale(locales),
        numeric: options?.numeric ?? "always",
        style: options?.style ?? "long",
        numberingSystem: "latn",
      };
    }
    format(value, given) {
      const unit = `${given}`.replace(/s$/, ""),
        number = Number(value);
      if (!["second", "minute", "hour", "day", "week", "month", "quarter", "year"].includes(unit))
        throw new RangeError(`Invalid unit argument for format() '${given}'`);
      if (this.#options.numeric === "auto") {
        const words =
          { day: { "-1": "yesterday", 0: "today", 1: "tomorrow" } }[unit] ??
          (["second", "minute", "hour"].includes(unit)
            ? { 0: unit === "second" ? "now" : `this ${unit}` }
            : { "-1": `last ${unit}`, 0: `this ${unit}`, 1: `next ${unit}` });
        if (words[number] !== undefined) return words[number];
      }
      const count = new NumberFormat().format(Math.abs(number)),
        word = `${unit}${Math.abs(number) === 1 ? "" : "s"}`;
      return number < 0 || Object.is(number, -0) ? `${count} ${word} ago` : `in ${count} ${word}`;
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
        locale: checkLocale(locales),
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
