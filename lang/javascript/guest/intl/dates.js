// Intl.DateTimeFormat for en-US, in the session's time zone (zone.js), UTC or a fixed offset.
(() => {
  "use strict";
  const shared = globalThis.__membrane;
  const { NumberFormat, checkLocale, oneOf, whole } = shared.intl;

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

  // Its name, and its offset where it has one that never changes.
  function zoneOf(zone) {
    const ours = shared.zone.name;
    if (zone === undefined || zone.toLowerCase() === ours.toLowerCase()) return { timeZone: ours };
    if (/^(?:UTC|GMT|Etc\/(?:UTC|GMT)|Z|\+00:?00)$/i.test(zone)) return { timeZone: "UTC" };
    const [, mark, hours] = /^Etc\/GMT([-+])(1?\d)$/i.exec(zone) ?? []; // positive to the west
    if (hours !== undefined && hours <= (mark === "-" ? 14 : 12))
      return { timeZone: `Etc/GMT${mark}${hours}`, offset: (mark === "-" ? 1 : -1) * hours * 3_600_000 };
    const [, sign, hour, minute = "00"] = /^([-+])([01]\d|2[0-3])(?::?([0-5]\d))?$/.exec(zone) ?? [];
    if (hour !== undefined)
      return { timeZone: `${sign}${hour}:${minute}`, offset: (sign === "-" ? -1 : 1) * (60 * hour + 1 * minute) * 60_000 };
    const message =
      `The time zone ${zone} is not available: the clock is in ${ours}. ` +
      'Leave timeZone out, or give an offset that never changes, as "-05:00"';
    // Libraries ask in this way whether a zone exists, and then go on without a word: luxon has null for such a date.
    if (/^(?!Etc\/)[a-z]+(?:\/[\w+-]+)+$/i.test(zone)) globalThis.process?.emitWarning?.(message);
    throw new RangeError(message);
  }

  class DateTimeFormat {
    #o;
    constructor(locales, given = {}, defaults = "date") {
      const options = Object(given ?? {});
      const o = { locale: checkLocale(locales), ...zoneOf(options.timeZone === undefined ? undefined : `${options.timeZone}`) };
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
      this.#o = o;
      this.format = this.format.bind(this);
    }
    static supportedLocalesOf(locales) {
      return NumberFormat.supportedLocalesOf(locales);
    }
    resolvedOptions() {
      const { locale, timeZone, offset, cycle, isStyled, fraction, ...fields } = this.#o;
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
      const { offset } = this.#o;
      const there = isUtc ? undefined : offset === undefined ? shared.zone.at(moment.getTime()) : { name: "", offset };
      const date = isUtc ? moment : new Date(moment.getTime() + there.offset); // whose UTC fields are the local ones
      const day = this.#withEra(this.#date(date), date.getUTCFullYear()),
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
    #withEra(parts, year) {
      const { era } = this.#o;
      if (era === undefined) return parts;
      const name = kEras[era][year > 0 ? 1 : 0];
      return parts.flatMap((part) => (part.type === "year" ? [part, literal(" "), { type: "era", value: name }] : [part]));
    }
    #date(date) {
      const { weekday, year, month, day } = this.#o;
      const number = (value, width) => (width === "2-digit" ? String(value % 100).padStart(2, "0") : String(value));
      const full = date.getUTCFullYear();
      const part = {
        weekday: weekday && { type: "weekday", value: named(kDays[date.getUTCDay()], weekday) },
        year: year && { type: "year", value: number(this.#o.era !== undefined && full <= 0 ? 1 - full : full, year) },
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

  shared.intl.DateTimeFormat = DateTimeFormat;
})();
