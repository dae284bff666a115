// Intl.NumberFormat for en-US.
(() => {
  "use strict";
  const shared = globalThis.__membrane;
  const { localeOf, oneOf, onlyUsual, whole } = shared.intl;

  // --- decimal digits ---

  // Of a non-negative number: its shortest digits, and how many of them are before the point.
  function digitsOf(value) {
    if (typeof value === "bigint") return { digits: String(value), point: String(value).length };
    const [mantissa, exponent] = value.toExponential().split("e");
    return { digits: mantissa.replace(".", ""), point: Number(exponent) + 1 };
  }
  const kRoundingModes = ["ceil", "floor", "expand", "trunc", "halfCeil", "halfFloor", "halfExpand", "halfTrunc", "halfEven"];
  // Whether the size goes up: `rest` are the digits that are left out, `last` is the one before them.
  function goesUp(mode, isNegative, rest, last) {
    if (!/[1-9]/.test(rest)) return false;
    const half = rest[0] < "5" ? -1 : /^50*$/.test(rest) ? 0 : 1;
    const way = mode.replace("half", "").toLowerCase();
    if (mode.startsWith("half") && half !== 0) return half > 0;
    if (way === "ceil" || way === "floor") return (way === "floor") === isNegative;
    return way === "even" ? last % 2 === 1 : way === "expand";
  }
  // To this many digits. how: { mode, isNegative }.
  function rounded(decimal, given, { mode, isNegative }) {
    if (given >= decimal.digits.length) return decimal;
    const digits = "0".repeat(Math.max(-given, 0)) + decimal.digits,
      point = decimal.point + Math.max(-given, 0),
      count = Math.max(given, 0);
    const kept = `0${digits.slice(0, count)}`.split("").map(Number);
    const isUp = goesUp(mode, isNegative, digits.slice(count), kept.at(-1));
    for (let i = kept.length - 1; isUp && i >= 0; --i) {
      if (++kept[i] < 10) break;
      kept[i] = 0;
    }
    return kept[0] === 0
      ? { digits: kept.slice(1).join("") || "0", point: count === 0 ? 1 : point }
      : { digits: kept.join(""), point: point + 1 };
  }
  function plain({ digits, point }, leastFraction, leastInteger = 1) {
    const isZero = /^0*$/.test(digits);
    const integer = isZero ? "0" : point > 0 ? digits.slice(0, point).padEnd(point, "0") : "0";
    let fraction = isZero ? "" : point > 0 ? digits.slice(point) : "0".repeat(-point) + digits;
    fraction = fraction.replace(/0+$/, "").padEnd(leastFraction, "0");
    return [integer.padStart(leastInteger, "0"), fraction];
  }

  // --- names of currencies, units and scales ---

  const kSymbols = {
    USD: "$",
    EUR: "€",
    GBP: "£",
    JPY: "¥",
    INR: "₹",
    CNY: "CN¥",
    KRW: "₩",
    BRL: "R$",
    CAD: "CA$",
    AUD: "A$",
    MXN: "MX$",
    NZD: "NZ$",
    ILS: "₪",
    VND: "₫",
    HKD: "HK$",
    TWD: "NT$",
    PHP: "₱",
  };
  const kNoCents = ["JPY", "KRW", "VND", "CLP", "ISK", "XAF", "XOF", "PYG", "UGX"];
  const kCurrencies = {
    USD: ["US dollar", "US dollars"],
    EUR: ["euro", "euros"],
    GBP: ["British pound", "British pounds"],
    JPY: ["Japanese yen", "Japanese yen"],
    INR: ["Indian rupee", "Indian rupees"],
    CNY: ["Chinese yuan", "Chinese yuan"],
  };
  const kUnits = {
    kilometer: "km",
    meter: "m",
    centimeter: "cm",
    millimeter: "mm",
    mile: "mi",
    foot: "ft",
    inch: "in",
    yard: "yd",
    kilogram: "kg",
    gram: "g",
    pound: "lb",
    ounce: "oz",
    liter: "L",
    milliliter: "mL",
    celsius: "°C",
    fahrenheit: "°F",
    percent: "%",
    second: "sec",
    minute: "min",
    hour: "hr",
    day: "day",
    week: "wk",
    month: "mth",
    year: "yr",
    millisecond: "ms",
    bit: "bit",
    byte: "byte",
    kilobyte: "kB",
    megabyte: "MB",
    gigabyte: "GB",
    terabyte: "TB",
    degree: "deg",
  };
  const kPerUnits = { "kilometer-per-hour": "km/h", "mile-per-hour": "mph", "meter-per-second": "m/s" };
  const kScales = [
    [1e12, "T", "trillion"],
    [1e9, "B", "billion"],
    [1e6, "M", "million"],
    [1e3, "K", "thousand"],
  ];

  class NumberFormat {
    #o;
    constructor(locales, given = {}) {
      const options = Object(given ?? {});
      const o = {
        locale: localeOf(locales),
        style: oneOf(options, "style", ["decimal", "percent", "currency", "unit"], "decimal"),
        notation: oneOf(options, "notation", ["standard", "scientific", "engineering", "compact"], "standard"),
        compactDisplay: oneOf(options, "compactDisplay", ["short", "long"], "short"),
        signDisplay: oneOf(options, "signDisplay", ["auto", "always", "never", "exceptZero", "negative"], "auto"),
        currency: options.currency === undefined ? undefined : `${options.currency}`.toUpperCase(),
        currencyDisplay: options.currencyDisplay ?? "symbol",
        currencySign: options.currencySign ?? "standard",
        unit: options.unit,
        unitDisplay: options.unitDisplay ?? "short",
        grouping: options.useGrouping ?? "auto",
        minimumIntegerDigits: whole(options, "minimumIntegerDigits", 1, 21, 1),
        roundingMode: oneOf(options, "roundingMode", kRoundingModes, "halfExpand"),
        trailingZeroDisplay: oneOf(options, "trailingZeroDisplay", ["auto", "stripIfInteger"], "auto"),
      };
      onlyUsual(options, "numberingSystem", "latn");
      onlyUsual(options, "roundingIncrement", 1);
      onlyUsual(options, "roundingPriority", "auto");
      if (o.style === "currency" && o.currency === undefined)
        throw new TypeError("Currency code is required with currency style.");
      if (o.currency !== undefined && !/^[A-Z]{3}$/.test(o.currency))
        throw new RangeError(`Invalid currency code : ${options.currency}`);
      if (o.style === "unit" && kUnits[o.unit] === undefined && kPerUnits[o.unit] === undefined)
        throw new RangeError(`Invalid unit argument for Intl.NumberFormat() '${o.unit}'`);
      const cents = o.style === "currency" ? (kNoCents.includes(o.currency) ? 0 : 2) : 0,
        usual = o.style === "currency" ? cents : o.style === "percent" || o.notation === "compact" ? 0 : 3;
      o.hasFraction = options.minimumFractionDigits !== undefined || options.maximumFractionDigits !== undefined;
      const least = whole(options, "minimumFractionDigits", 0, 100, undefined),
        most = whole(options, "maximumFractionDigits", 0, 100, undefined);
      o.minimumFractionDigits = least ?? Math.min(cents, most ?? cents);
      o.maximumFractionDigits = most ?? Math.max(usual, o.minimumFractionDigits);
      if (o.minimumFractionDigits > o.maximumFractionDigits)
        throw new RangeError("maximumFractionDigits value is out of range.");
      if (options.minimumSignificantDigits !== undefined || options.maximumSignificantDigits !== undefined) {
        o.minimumSignificantDigits = whole(options, "minimumSignificantDigits", 1, 21, 1);
        o.maximumSignificantDigits = whole(options, "maximumSignificantDigits", o.minimumSignificantDigits, 21, 21);
      }
      this.#o = o;
      this.format = this.format.bind(this);
    }
    static supportedLocalesOf(locales) {
      return [locales ?? []].flat().filter((locale) => /^en(?:-US)?$/i.test(locale));
    }
    resolvedOptions() {
      const {
        locale,
        style,
        notation,
        signDisplay,
        minimumIntegerDigits,
        minimumFractionDigits,
        maximumFractionDigits,
        currency,
        roundingMode,
        trailingZeroDisplay,
      } = this.#o;
      return {
        locale,
        numberingSystem: "latn",
        style,
        ...(currency ? { currency, currencyDisplay: this.#o.currencyDisplay, currencySign: this.#o.currencySign } : {}),
        minimumIntegerDigits,
        minimumFractionDigits,
        maximumFractionDigits,
        useGrouping: "auto",
        notation,
        signDisplay,
        roundingIncrement: 1,
        roundingMode,
        roundingPriority: "auto",
        trailingZeroDisplay,
      };
    }
    format(value) {
      return this.formatToParts(value)
        .map((part) => part.value)
        .join("");
    }
    formatRange(from, to) {
      return `${this.format(from)}–${this.format(to)}`;
    }
    formatToParts(given) {
      const o = this.#o;
      let value = typeof given === "bigint" ? given : Number(given);
      if (typeof given === "string" && /^-?\d{16,}$/.test(given.trim())) value = BigInt(given);
      const isNegative = value < 0 || Object.is(value, -0);
      let size = value < 0 ? -value : Object.is(value, -0) ? 0 : value;
      let parts,
        isZero = false;
      if (typeof size === "number" && !Number.isFinite(size))
        parts = [{ type: Number.isNaN(size) ? "nan" : "infinity", value: Number.isNaN(size) ? "NaN" : "∞" }];
      else [parts, isZero] = this.#number(size, isNegative);
      parts = this.#dressed(parts);
      return this.#signed(parts, Number.isNaN(size) ? false : isNegative, isZero || Number.isNaN(size));
    }
    // The digits with separators, and whether they are all zeros.
    #number(size, isNegative) {
      const o = this.#o;
      const how = { mode: o.roundingMode, isNegative };
      const isLarge = (value) => rounded(digitsOf(value), digitsOf(value).point, how).point >= 4; // a thousand, when rounded
      let scale = null,
        exponent = null,
        decimal = digitsOf(size);
      if (o.style === "percent") decimal = { ...decimal, point: decimal.point + 2 };
      if (o.notation === "compact") {
        scale = kScales.find(([limit]) => Number(size) >= limit) ?? null;
        if (scale === null && isLarge(Number(size))) scale = kScales.at(-1);
        if (scale && scale[0] < 1e12 && isLarge(Number(size) / scale[0]))
          scale = kScales[kScales.indexOf(scale) - 1];
        if (scale) decimal = { ...decimal, point: decimal.point - Math.log10(scale[0]) };
      } else if (o.notation !== "standard" && Number(size) !== 0) {
        const step = o.notation === "engineering" ? 3 : 1;
        exponent = Math.floor((decimal.point - 1) / step) * step;
        const { point } = rounded(decimal, decimal.point - exponent + o.maximumFractionDigits, how);
        if (point > decimal.point) exponent = Math.floor((point - 1) / step) * step;
        decimal = { ...decimal, point: decimal.point - exponent };
      } else if (o.notation !== "standard") {
        exponent = 0;
      }
      const [integer, exact] = this.#rounded(decimal, how);
      const fraction = o.trailingZeroDisplay === "stripIfInteger" && /^0*$/.test(exact) ? "" : exact;
      const isZero = /^0*$/.test(integer + fraction);
      const isGrouped =
        o.grouping !== false &&
        o.grouping !== "false" &&
        !(o.notation === "compact" && integer.length < 5) &&
        !(o.grouping === "min2" && integer.length < 5);
      const groups = isGrouped ? integer.replace(/\B(?=(?:\d{3})+$)/g, ",").split(",") : [integer];
      const parts = groups.flatMap((group, i) => [
        ...(i > 0 ? [{ type: "group", value: "," }] : []),
        { type: "integer", value: group },
      ]);
      if (fraction !== "") parts.push({ type: "decimal", value: "." }, { type: "fraction", value: fraction });
      if (exponent !== null) {
        parts.push({ type: "exponentSeparator", value: "E" });
        if (exponent < 0) parts.push({ type: "exponentMinusSign", value: "-" });
        parts.push({ type: "exponentInteger", value: String(Math.abs(exponent)) });
      }
      if (scale)
        parts.push(...(o.compactDisplay === "long" ? [{ type: "literal", value: " " }] : []), {
          type: "compact",
          value: o.compactDisplay === "long" ? scale[2] : scale[1],
        });
      return [parts, isZero];
    }
    #rounded(decimal, how) {
      const o = this.#o;
      if (o.maximumSignificantDigits !== undefined) {
        const made = rounded(decimal, o.maximumSignificantDigits, how);
        const significant = /^0*$/.test(made.digits) ? 1 : made.digits.replace(/0+$/, "").length || 1;
        const fraction = Math.max(0, Math.max(significant, o.minimumSignificantDigits) - made.point);
        return plain(
          made,
          fraction > Math.max(0, made.digits.replace(/0+$/, "").length - made.point) ? fraction : 0,
          o.minimumIntegerDigits,
        );
      }
      if (o.notation === "compact" && !o.hasFraction) {
        // two digits if there are no more before the point
        const isShort = decimal.point < 2;
        return plain(rounded(decimal, isShort ? 2 : decimal.point, how), 0, o.minimumIntegerDigits);
      }
      return plain(
        rounded(decimal, decimal.point + o.maximumFractionDigits, how),
        o.minimumFractionDigits,
        o.minimumIntegerDigits,
      );
    }
    #dressed(parts) {
      const o = this.#o;
      if (o.style === "percent") return [...parts, { type: "percentSign", value: "%" }];
      if (o.style === "unit") {
        const short = kPerUnits[o.unit] ?? kUnits[o.unit],
          isOne = parts.length === 1 && parts[0].value === "1";
        const word =
          o.unitDisplay === "long"
            ? `${o.unit.replace(/-per-/, isOne ? " per " : "s per ")}${isOne || o.unit.includes("-per-") ? "" : "s"}`
            : ["day", "bit", "byte", "wk", "mth", "yr"].includes(short) && !isOne
              ? `${short}${short === "bit" || short === "byte" ? "" : "s"}`
              : short;
        const isTight = (["°C", "°F", "%"].includes(short) && o.unitDisplay !== "long") || o.unitDisplay === "narrow";
        return [...parts, ...(isTight ? [] : [{ type: "literal", value: " " }]), { type: "unit", value: word }];
      }
      if (o.style !== "currency") return parts;
      if (o.currencyDisplay === "name") {
        const isOne = parts.map((part) => part.value).join("") === "1";
        return [
          ...parts,
          { type: "literal", value: " " },
          { type: "currency", value: kCurrencies[o.currency]?.[isOne ? 0 : 1] ?? o.currency },
        ];
      }
      const symbol =
        o.currencyDisplay === "code"
          ? o.currency
          : o.currencyDisplay === "narrowSymbol"
            ? (kSymbols[o.currency] ?? o.currency).replace(/^[A-Z]+(?=[$¥])/, "")
            : (kSymbols[o.currency] ?? o.currency);
      return [
        { type: "currency", value: symbol },
        ...(/^[A-Z]+$/.test(symbol) ? [{ type: "literal", value: "\u00a0" }] : []),
        ...parts,
      ];
    }
    #signed(parts, isNegative, isZero) {
      const { signDisplay, currencySign, style } = this.#o;
      const showsMinus =
        isNegative &&
        signDisplay !== "never" &&
        !((signDisplay === "exceptZero" || signDisplay === "negative") && isZero);
      const showsPlus = !isNegative && (signDisplay === "always" || (signDisplay === "exceptZero" && !isZero));
      if (showsMinus && style === "currency" && currencySign === "accounting")
        return [{ type: "literal", value: "(" }, ...parts, { type: "literal", value: ")" }];
      return showsMinus
        ? [{ type: "minusSign", value: "-" }, ...parts]
        : showsPlus
          ? [{ type: "plusSign", value: "+" }, ...parts]
          : parts;
    }
    get [Symbol.toStringTag]() {
      return "Intl.NumberFormat";
    }
  }

  shared.intl.NumberFormat = NumberFormat;
})();
