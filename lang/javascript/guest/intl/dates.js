// Intl.DateTimeFormat for en-US, in any time zone (zone.js) or at a fixed offset.
(() => {
  "use strict";
  const shared = globalThis.__membrane;
  const { NumberFormat, localeOf, oneOf, onlyUsual, refuseLocale, whole, nameOfUtc, nameOfZone } = shared.intl;
  const { zones } = shared;

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
  const kEras = { narrow: ["B", "A"], short: ["BC", "AD"], long: ["Before Christ", "Anno Domini"] };
  const kDateFields = ["weekday", "year", "month", "day"],
    kTimeFields = ["hour", "minute", "second", "fractionalSecondDigits", "dayPeriod"];

  // Locales whose dates and times are available in numbers alone. Their hours are of 24, but for en-CA.
  const kNumeric = {
    "en-CA": { order: ["year", "month", "day"], mark: "-" },
    "en-GB": { order: ["day", "month", "year"], mark: "/", between: ", " },
    sv: { order: ["year", "month", "day"], mark: "-", between: " " },
    "sv-SE": { order: ["year", "month", "day"], mark: "-", between: " " },
  };
  function useNumbers(o, options) {
    const { order, between } = kNumeric[o.locale];
    const isNumeric = (field) => o[field] === "numeric" || o[field] === "2-digit";
    const hasDate = kDateFields.some((field) => o[field] !== undefined),
      hasTime = kTimeFields.some((field) => o[field] !== undefined) || o.fraction !== undefined;
    const isDate = o.weekday === undefined && order.every(isNumeric);
    const isTime = between !== undefined && isNumeric("hour") && (isNumeric("minute") || o.second === undefined) && o.fraction === undefined;
    const isTwelve = options.hour12 ?? /^h1[12]$/.test(options.hourCycle);
    if ((hasDate && !isDate) || (hasTime && (!isTime || isTwelve)) || o.isStyled || o.era !== undefined || o.timeZoneName !== undefined)
      refuseLocale(o.locale, `with these options: its dates are available with year, month and day in numbers${between ? ", its times of 24 hours" : ""}`);
    if (o.month === "numeric" && o.day === "numeric") Object.assign(o, { month: "2-digit", day: "2-digit" });
    if (hasTime) Object.assign(o, { hour: "2-digit", cycle: options.hour12 === undefined ? options.hourCycle ?? "h23" : "h23" });
  }

  // Its name, and its rules at a moment; no rules for UTC.
  const kUtc = { timeZone: "UTC" };
  const byRules = (zone) => ({ timeZone: zone.name, rulesAt: (ms) => zones.at(zone, ms) });
  function zoneOf(text) {
    const local = zones.ofLocalTime();
    if (text === undefined) return local ? byRules(local) : kUtc;
    if (text.toLowerCase() === local?.name.toLowerCase()) return byRules(local);
    if (/^(?:UTC|GMT|Etc\/(?:UTC|GMT)|Z|\+00:?00)$/i.test(text)) return kUtc;
    const zone = zones.find(text);
    if (zone) return zone.changes.length === 0 && zone.first.offset === 0 ? kUtc : byRules(zone);
    const [, sign, hour, minute = "00"] = /^([-+])([01]\d|2[0-3])(?::?([0-5]\d))?$/.exec(text) ?? [];
    if (hour === undefined) throw unknownZone(text);
    const rules = { name: "", offset: (sign === "-" ? -1 : 1) * (60 * hour + 1 * minute) * 60_000 };
    return { timeZone: `${sign}${hour}:${minute}`, rulesAt: () => rules };
  }
  function unknownZone(text) {
    if (zones.isInstalled) {
      const town = text.replace(/^.*\//, "").replaceAll(" ", "_").toLowerCase();
      const near = zones.places.find((place) => place.toLowerCase().endsWith(`/${town}`));
      return new RangeError(`Invalid time zone specified: ${text}${near ? `. Did you mean ${near}?` : ""}`);
    }
    const message =
      `The time zone ${text} is not available: the installed language lacks the time zones. ` +
      'Install it again (membrane languages add js), or give an offset, as "-05:00"';
    // Libraries ask in this way whether a zone exists, and then continue silently: luxon has null for such a date.
    if (/^[a-z]+(?:\/[\w+-]+)+$/i.test(text)) globalThis.process?.emitWarning?.(message);
    return new RangeError(message);
  }

  class DateTimeFormat {
    #o;
    constructor(locales, given = {}, defaults = "date") {
      const options = Object(given ?? {});
      const o = { locale: localeOf(locales, Object.keys(kNumeric)), ...zoneOf(options.timeZone === undefined ? undefined : `${options.timeZone}`) };
      onlyUsual(options, "calendar", "gregory");
      onlyUsual(options, "numberingSystem", "latn");
      if (options.dayPeriod !== undefined)
        throw new RangeError("The option dayPeriod is not available: leave it out, and hour has AM or PM");
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
          ["era", ["narrow", "short", "long"]],
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
        if (options.fractionalSecondDigits !== undefined) o.fraction = whole(options, "fractionalSecondDigits", 1, 3);
        const hasDate = kDateFields.some((field) => o[field] !== undefined),
          hasTime = ["hour", "minute", "second", "fraction"].some((field) => o[field] !== undefined);
        const isBare = !hasDate && !hasTime;
        if (defaults === "onlyDate" ? !hasDate : defaults !== "onlyTime" && isBare)
          Object.assign(o, { year: "numeric", month: "numeric", day: "numeric" });
        if (defaults === "onlyTime" ? !hasTime : defaults === "all" && isBare)
          Object.assign(o, { hour: "numeric", minute: "2-digit", second: "2-digit" });
        if (o.era !== undefined && o.year === undefined)
          throw new RangeError("an era is shown beside a year: add the option year, or leave era out");
      }
      o.cycle = options.hour12 === undefined ? (options.hourCycle ?? "h12") : options.hour12 ? "h12" : "h24";
      if (o.locale in kNumeric) useNumbers(o, options);
      this.#o = o;
      this.format = this.format.bind(this);
    }
    static supportedLocalesOf(locales) {
      return NumberFormat.supportedLocalesOf(locales);
    }
    resolvedOptions() {
      const { locale, timeZone, rulesAt, cycle, isStyled, fraction, ...fields } = this.#o;
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
      const { timeZone, rulesAt } = this.#o;
      const rules = rulesAt?.(moment.getTime());
      const { date, years } = zones.calendarOf(moment.getTime() + (rules?.offset ?? 0)); // whose UTC fields are the local ones
      const year = date.getUTCFullYear() + years;
      const day = this.#withEra(this.#date(date, year), year),
        time = this.#time(date);
      const isLong = this.#o.month === "long";
      const width = this.#o.timeZoneName;
      const isBare =
        this.#o.weekday !== undefined &&
        ["year", "month", "day"].every((field) => this.#o[field] === undefined) &&
        width === undefined;
      const parts = [
        ...day,
        ...(day.length && time.length ? [literal(kNumeric[this.#o.locale]?.between ?? (isBare ? " " : isLong ? " at " : ", "))] : []),
        ...time,
      ];
      if (width !== undefined)
        parts.push(literal(time.length ? " " : ", "), {
          type: "timeZoneName",
          value: rules ? nameOfZone(width, timeZone, rules) : nameOfUtc(width),
        });
      return parts;
    }
    #withEra(parts, year) {
      const { era } = this.#o;
      if (era === undefined) return parts;
      const name = kEras[era][year > 0 ? 1 : 0];
      return parts.flatMap((part) => (part.type === "year" ? [part, literal(" "), { type: "era", value: name }] : [part]));
    }
    #date(date, full) {
      const { weekday, year, month, day } = this.#o;
      const number = (value, width) => (width === "2-digit" ? String(value % 100).padStart(2, "0") : String(value));
      const part = {
        weekday: weekday && { type: "weekday", value: named(kDays[date.getUTCDay()], weekday) },
        year: year && { type: "year", value: number(full <= 0 ? 1 - full : full, year) },
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
      const numeric = kNumeric[this.#o.locale];
      if (numeric) return between(numeric.mark, ...numeric.order.map((field) => part[field]));
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

  shared.intl.DateTimeFormat = DateTimeFormat;
})();
