// Intl for en-US and the session's time zone (zone.js), which is UTC where nobody says otherwise. Other languages and time
// zones are refused by name: printing their numbers as American ones would be wrong.
(() => {
  "use strict";
  const shared = globalThis.__membrane;
  const { globals } = shared;

  function checkLocale(locales) {
    for (const locale of locales === undefined ? [] : [locales].flat()) {
      const name = `${locale}`;
      if (/^(?:en|en-US|en-u-|en-US-u-|C|und)/i.test(name) && !/^en-(?!US|u-)/i.test(name)) continue;
      throw new RangeError(
        `The locale ${name} is not available: Intl has en-US alone. Use "en-US", or arrange what its formatToParts() returns`,
      );
    }
    return "en-US";
  }
  function oneOf(options, name, values, otherwise) {
    const given = options[name];
    if (given === undefined) return otherwise;
    if (!values.includes(`${given}`))
      throw new RangeError(`Value ${given} out of range for Intl options property ${name}`);
    return `${given}`;
  }
  function whole(options, name, least, most, otherwise) {
    const given = options[name];
    if (given === undefined) return otherwise;
    const number = Number(given);
    if (!(number >= least && number <= most)) throw new RangeError(`${name} value is out of range.`);
    return Math.floor(number);
  }

  // --- decimal digits ---

  // Of a non-negative number: its shortest digits, and how many of them are before the point.
  function digitsOf(value) {
    if (typeof value === "bigint") return { digits: String(value), point: String(value).length };
    const [mantissa, exponent] = value.toExponential().split("e");
    return { digits: mantissa.replace(".", ""), point: Number(exponent) + 1 };
  }
  // To this many digits; halves round up.
  function rounded({ digits, point }, count) {
    if (count >= digits.length) return { digits, point };
    if (count < 0) return { digits: "0", point: 1 };
    const isUp = digits[count] >= "5";
    const kept = `0${digits.slice(0, count)}`.split("").map(Number);
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
        locale: checkLocale(locales),
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
      };
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
        roundingMode: "halfExpand",
        roundingPriority: "auto",
        trailingZeroDisplay: "auto",
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
      else [parts, isZero] = this.#number(size);
      parts = this.#dressed(parts);
      return this.#signed(parts, Number.isNaN(size) ? false : isNegative, isZero || Number.isNaN(size));
    }
    // The digits with separators, and whether they are all zeros.
    #number(size) {
      const o = this.#o;
      let scale = null,
        exponent = null,
        decimal = digitsOf(size);
      if (o.style === "percent") decimal = { ...decimal, point: decimal.point + 2 };
      if (o.notation === "compact") {
        scale = kScales.find(([limit]) => Number(size) >= limit) ?? null;
        if (scale === null && Math.round(Number(size)) >= 1000) scale = kScales.at(-1);
        if (scale && scale[0] < 1e12 && Math.round(Number(size) / scale[0]) >= 1000)
          scale = kScales[kScales.indexOf(scale) - 1];
        if (scale) decimal = { ...decimal, point: decimal.point - Math.log10(scale[0]) };
      } else if (o.notation !== "standard" && Number(size) !== 0) {
        const step = o.notation === "engineering" ? 3 : 1;
        exponent = Math.floor((decimal.point - 1) / step) * step;
        const { point } = rounded(decimal, decimal.point - exponent + o.maximumFractionDigits);
        if (point > decimal.point) exponent = Math.floor((point - 1) / step) * step;
        decimal = { ...decimal, point: decimal.point - exponent };
      } else if (o.notation !== "standard") {
        exponent = 0;
      }
      const [integer, fraction] = this.#rounded(decimal);
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
    #rounded(decimal) {
      const o = this.#o;
      if (o.maximumSignificantDigits !== undefined) {
        const made = rounded(decimal, o.maximumSignificantDigits);
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
        return plain(rounded(decimal, isShort ? Math.max(2, 0) : decimal.point), 0, o.minimumIntegerDigits);
      }
      return plain(
        rounded(decimal, decimal.point + o.maximumFractionDigits),
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

  // --- dates ---

  const kMonths = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
  ];
  const kDays = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
  const named = (name, width) => (width === "long" ? name : width === "narrow" ? name[0] : name.slice(0, 3));
  const kDateStyles = {
    full: { weekday: "long", month: "long", day: "numeric", year: "numeric" },
    long: { month: "long", day: "numeric", year: "numeric" },
    medium: { month: "short", day: "numeric", year: "numeric" },
    short: { month: "numeric", day: "numeric", year: "2-digit" },
  };
  const kTimeStyles = {
    full: { hour: "numeric", minute: "2-digit", second: "2-digit", timeZoneName: "long" },
    long: { hour: "numeric", minute: "2-digit", second: "2-digit", timeZoneName: "short" },
    medium: { hour: "numeric", minute: "2-digit", second: "2-digit" },
    short: { hour: "numeric", minute: "2-digit" },
  };
  const kDateFields = ["weekday", "year", "month", "day"],
    kTimeFields = ["hour", "minute", "second", "fractionalSecondDigits", "dayPeriod"];

  class DateTimeFormat {
    #o;
    constructor(locales, given = {}, defaults = "date") {
      const options = Object(given ?? {});
      const ours = shared.zone.name;
      const zone = options.timeZone === undefined ? ours : `${options.timeZone}`;
      const isOurs = zone.toLowerCase() === ours.toLowerCase();
      if (!isOurs && !/^(?:UTC|GMT|Etc\/(?:UTC|GMT)|Z|\+00:?00)$/i.test(zone))
        throw new RangeError(
          `The time zone ${zone} is not available: the clock is in ${ours}. Leave timeZone out, and add the offset to the date`,
        );
      const o = { locale: checkLocale(locales), timeZone: isOurs ? ours : "UTC" };
      if (
        (defaults === "onlyDate" && options.timeStyle !== undefined) ||
        (defaults === "onlyTime" && options.dateStyle !== undefined)
      )
        throw new TypeError(`Invalid option : ${defaults === "onlyDate" ? "timeStyle" : "dateStyle"}`);
      if (options.dateStyle !== undefined || options.timeStyle !== undefined) {
        for (const field of [...kDateFields, ...kTimeFields])
          if (options[field] !== undefined)
            throw new TypeError(
              `Can't set option ${field} when ${options.dateStyle ? "dateStyle" : "timeStyle"} is used`,
            );
        Object.assign(
          o,
          options.dateStyle && kDateStyles[oneOf(options, "dateStyle", Object.keys(kDateStyles))],
          options.timeStyle && kTimeStyles[oneOf(options, "timeStyle", Object.keys(kTimeStyles))],
        );
        o.isStyled = true;
      } else {
        for (const [field, values] of [
          ["weekday", ["narrow", "short", "long"]],
          ["year", ["2-digit", "numeric"]],
          ["month", ["2-digit", "numeric", "narrow", "short", "long"]],
          ["day", ["2-digit", "numeric"]],
          ["hour", ["2-digit", "numeric"]],
          ["minute", ["2-digit", "numeric"]],
          ["second", ["2-digit", "numeric"]],
          ["timeZoneName", ["short", "long", "shortOffset", "longOffset", "shortGeneric", "longGeneric"]],
        ]) {
          const value = oneOf(options, field, values);
          if (value !== undefined) o[field] = value;
        }
        if (options.era !== undefined) throw new RangeError("eras are not there: leave the option era out");
        if (options.fractionalSecondDigits !== undefined) o.fraction = whole(options, "fractionalSecondDigits", 1, 3);
        const hasDate = kDateFields.some((field) => o[field] !== undefined),
          hasTime = ["hour", "minute", "second", "fraction"].some((field) => o[field] !== undefined);
        const isBare = !hasDate && !hasTime;
        if (defaults === "onlyDate" ? !hasDate : defaults !== "onlyTime" && isBare)
          Object.assign(o, { year: "numeric", month: "numeric", day: "numeric" });
        if (defaults === "onlyTime" ? !hasTime : defaults === "all" && isBare)
          Object.assign(o, { hour: "numeric", minute: "2-digit", second: "2-digit" });
      }
      o.cycle = options.hour12 === undefined ? (options.hourCycle ?? "h12") : options.hour12 ? "h12" : "h24";
      this.#o = o;
      this.format = this.format.bind(this);
    }
    static supportedLocalesOf(locales) {
      return NumberFormat.supportedLocalesOf(locales);
    }
    resolvedOptions() {
      const { locale, timeZone, cycle, isStyled, fraction, ...fields } = this.#o;
      return {
        locale,
        calendar: "gregory",
        numberingSystem: "latn",
        timeZone,
        ...(fields.hour ? { hourCycle: cycle, hour12: cycle === "h12" || cycle === "h11" } : {}),
        ...(isStyled ? {} : fields),
        ...(fraction ? { fractionalSecondDigits: fraction } : {}),
      };
    }
    format(date) {
      return this.formatToParts(date)
        .map((part) => part.value)
        .join("");
    }
    formatRange(from, to) {
      return this.format(from) === this.format(to) ? this.format(from) : `${this.format(from)} – ${this.format(to)}`;
    }
    formatToParts(given) {
      const moment = given === undefined ? new Date() : new Date(given);
      if (Number.isNaN(moment.getTime())) throw new RangeError("Invalid time value");
      const isUtc = this.#o.timeZone === "UTC";
      const there = isUtc ? undefined : shared.zone.at(moment.getTime());
      const date = isUtc ? moment : new Date(moment.getTime() + there.offset); // whose UTC fields are the local ones
      const day = this.#date(date),
        time = this.#time(date);
      const isLong = this.#o.month === "long";
      const isBare =
        this.#o.weekday !== undefined && ["year", "month", "day"].every((field) => this.#o[field] === undefined);
      const parts = [
        ...day,
        ...(day.length && time.length ? [literal(isBare ? " " : isLong ? " at " : ", ")] : []),
        ...time,
      ];
      const zone = this.#o.timeZoneName;
      if (zone !== undefined)
        parts.push(literal(time.length ? " " : ", "), {
          type: "timeZoneName",
          value: there
            ? nameIn(zone, there)
            : /^long(?!O)/.test(zone)
              ? "Coordinated Universal Time"
              : /Offset|Generic/.test(zone)
                ? "GMT"
                : "UTC",
        });
      return parts;
    }
    #date(date) {
      const { weekday, year, month, day } = this.#o;
      const number = (value, width) => (width === "2-digit" ? String(value % 100).padStart(2, "0") : String(value));
      const part = {
        weekday: weekday && { type: "weekday", value: named(kDays[date.getUTCDay()], weekday) },
        year: year && { type: "year", value: number(date.getUTCFullYear(), year) },
        month: month && {
          type: "month",
          value: /digit|numeric/.test(month)
            ? number(date.getUTCMonth() + 1, month)
            : named(kMonths[date.getUTCMonth()], month),
        },
        day: day && { type: "day", value: number(date.getUTCDate(), day) },
      };
      const between = (mark, ...parts) =>
        parts.filter(Boolean).flatMap((each, i) => (i > 0 ? [literal(mark), each] : [each]));
      if (!month) {
        if (year && day)
          return [
            part.year,
            literal(" (day: "),
            part.day,
            literal(")"),
            ...(weekday ? [literal(" "), part.weekday] : []),
          ];
        return between(" ", part.year ?? part.day, part.weekday);
      }
      const isNumeric = /digit|numeric/.test(month);
      const middle = isNumeric
        ? between("/", part.month, part.day, part.year)
        : [...between(" ", part.month, part.day), ...(part.year ? [literal(part.day ? ", " : " "), part.year] : [])];
      return part.weekday ? [part.weekday, literal(", "), ...middle] : middle;
    }
    #time(date) {
      const { hour, minute, second, fraction, cycle } = this.#o;
      const parts = [],
        isTwelve = cycle === "h12" || cycle === "h11";
      const push = (type, value, isPadded) => {
        if (parts.length) parts.push(literal(":"));
        parts.push({ type, value: isPadded ? String(value).padStart(2, "0") : String(value) });
      };
      if (hour) {
        const hours = date.getUTCHours();
        push(
          "hour",
          isTwelve ? (cycle === "h11" ? hours % 12 : hours % 12 || 12) : cycle === "h24" && hours === 0 ? 24 : hours,
          hour === "2-digit" || !isTwelve,
        );
      }
      if (minute) push("minute", date.getUTCMinutes(), hour || second || (minute === "2-digit" && false));
      if (second) push("second", date.getUTCSeconds(), minute || hour);
      if (fraction)
        parts.push(...(second ? [literal(".")] : []), {
          type: "fractionalSecond",
          value: String(date.getUTCMilliseconds()).padStart(3, "0").slice(0, fraction),
        });
      if (hour && isTwelve)
        parts.push(literal(" "), { type: "dayPeriod", value: date.getUTCHours() < 12 ? "AM" : "PM" });
      return parts;
    }
    get [Symbol.toStringTag]() {
      return "Intl.DateTimeFormat";
    }
  }
  const literal = (value) => ({ type: "literal", value });
  // The zone's own abbreviation, or its offset: "CET", "GMT+1", "GMT+01:00". Other names are not available here.
  function nameIn(width, { name, offset }) {
    if (!/^long|Offset/.test(width) && /^[A-Z]+$/.test(name)) return name;
    if (offset === 0) return "GMT";
    const [, sign, hours, minutes] = /([-+])(\d\d)(\d\d)$/.exec(shared.zone.offsetText(offset));
    const isLong = width.startsWith("long");
    return `GMT${sign}${isLong ? hours : Number(hours)}${isLong || minutes !== "00" ? `:${minutes}` : ""}`;
  }

  // --- strings ---

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

  // As specified, these three can also be called as functions: a call without `new` creates one, too.
  function callable(kind) {
    function made(locales, options) {
      return Reflect.construct(kind, [locales, options], new.target ?? made);
    }
    const own = { ...Object.getOwnPropertyDescriptors(kind), length: { value: 0, configurable: true } };
    Object.defineProperties(made, own);
    Object.defineProperty(kind.prototype, "constructor", { value: made, writable: true, configurable: true });
    return made;
  }

  // Features that would need tables of names and languages.
  function refused(name) {
    const kind = {
      [name]: class {
        constructor() {
          throw new Error(`Intl.${name} is not available: Intl has numbers, dates, lists, plurals and the order of texts, all for en-US`);
        }
        static supportedLocalesOf() {
          return [];
        }
      },
    };
    return kind[name];
  }

  const Intl = {
    NumberFormat: callable(NumberFormat),
    DateTimeFormat: callable(DateTimeFormat),
    Collator: callable(Collator),
    PluralRules,
    ListFormat,
    RelativeTimeFormat,
    Segmenter,
    DisplayNames: refused("DisplayNames"),
    DurationFormat: refused("DurationFormat"),
    Locale: refused("Locale"),
    getCanonicalLocales: (locales) => [locales ?? []].flat(),
    supportedValuesOf: (key) => (key === "timeZone" ? ["UTC"] : []),
  };
  Object.defineProperty(Intl, Symbol.toStringTag, { value: "Intl", configurable: true });
  globals.Intl = Intl;

  const put = (prototype, name, value) =>
    Object.defineProperty(prototype, name, { value, writable: true, configurable: true, enumerable: false });
  const isValid = (date) => !Number.isNaN(date.getTime());
  put(Number.prototype, "toLocaleString", function toLocaleString(locales, options) {
    return new NumberFormat(locales, options).format(Number.prototype.valueOf.call(this));
  });
  put(BigInt.prototype, "toLocaleString", function toLocaleString(locales, options) {
    return new NumberFormat(locales, options).format(BigInt.prototype.valueOf.call(this));
  });
  put(Date.prototype, "toLocaleString", function toLocaleString(locales, options) {
    return isValid(this) ? new DateTimeFormat(locales, options, "all").format(this) : "Invalid Date";
  });
  put(Date.prototype, "toLocaleDateString", function toLocaleDateString(locales, options) {
    return isValid(this) ? new DateTimeFormat(locales, options, "onlyDate").format(this) : "Invalid Date";
  });
  put(Date.prototype, "toLocaleTimeString", function toLocaleTimeString(locales, options) {
    return isValid(this) ? new DateTimeFormat(locales, options, "onlyTime").format(this) : "Invalid Date";
  });
  put(String.prototype, "localeCompare", function localeCompare(other, locales, options) {
    checkLocale(locales);
    return compare(`${this}`, `${other}`, options);
  });
  const { toLowerCase, toUpperCase } = String.prototype;
  put(String.prototype, "toLocaleLowerCase", function toLocaleLowerCase() {
    return toLowerCase.call(this);
  });
  put(String.prototype, "toLocaleUpperCase", function toLocaleUpperCase() {
    return toUpperCase.call(this);
  });
})();
