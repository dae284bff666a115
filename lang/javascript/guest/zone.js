// Time zones, by their rules (RFC 8536): those that Intl asks for by name, which are a library of the language, and the one of local
// time, where the embedder or the variable TZ chooses one. The engine knows UTC alone: what a Date says and takes as local time is
// computed here. Nothing is changed until a zone is used.
(() => {
  "use strict";
  const shared = globalThis.__membrane;
  const { atob, Map } = globalThis;
  const database = globalThis.__membrane_time_zones;
  delete globalThis.__membrane_time_zones;
  const Bare = Date;
  const bare = Object.getOwnPropertyDescriptors(Date.prototype);
  const bareParse = Bare.parse;
  const timeOf = (date) => bare.getTime.value.call(date);
  const kDayMs = 86_400_000;
  const kDays = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
  const kMonths = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

  let zone = null; // of local time; null: UTC
  let given = null; // the embedder's, which holds without TZ
  let isInstalled = false;

  // --- the calendar ---

  // A local time may lie a little beyond what a Date can have: the calendar is the same 400 years later. `date`: what has its fields,
  // but for as many years as `years`.
  const kNearEnd = 8.6e15,
    kCycleMs = 146_097 * kDayMs;
  function calendarOf(local) {
    const years = local > kNearEnd ? 400 : local < -kNearEnd ? -400 : 0;
    return { date: new Bare(local - (years / 400) * kCycleMs), years, shift: (years / 400) * kCycleMs };
  }
  // Bare.UTC(), also of such a time.
  function utcOfFields(values) {
    const [year, ...rest] = values.slice(0, 7).map((value) => +value);
    const years = year > 272_000 ? 400 : year < -268_000 ? -400 : 0;
    return Bare.UTC(year - years, ...rest) + (years / 400) * kCycleMs;
  }

  // --- the rules ---

  function bytesOf(base64) {
    const text = atob(base64);
    return new DataView(Uint8Array.from(text, (letter) => letter.charCodeAt(0)).buffer);
  }
  const textOf = (view, from, to) => {
    let text = "";
    for (let at = from; at < to; ++at) text += String.fromCharCode(view.getUint8(at));
    return text;
  };

  // The second block, with 64-bit times, and the rule for later times.
  function readZone(name, view) {
    const counts = (at) => Array.from({ length: 6 }, (_, i) => view.getUint32(at + 20 + 4 * i));
    const [ut, standard, leaps, times, types, characters] = counts(0);
    const second = 44 + times * 5 + types * 6 + characters + leaps * 8 + standard + ut;
    const [ut2, standard2, leaps2, count, kinds, letters] = counts(second);
    let at = second + 44;
    const changes = Array.from({ length: count }, (_, i) => Number(view.getBigInt64(at + 8 * i)) * 1000);
    at += 8 * count;
    const which = Array.from({ length: count }, (_, i) => view.getUint8(at + i));
    at += count;
    const names = textOf(view, at + 6 * kinds, at + 6 * kinds + letters);
    const shown = Array.from({ length: kinds }, (_, i) => {
      const from = view.getUint8(at + 6 * i + 5);
      return {
        offset: view.getInt32(at + 6 * i) * 1000,
        isSummer: view.getUint8(at + 6 * i + 4) !== 0,
        name: names.slice(from, names.indexOf("\0", from)),
      };
    });
    at += 6 * kinds + letters + leaps2 * 12 + standard2 + ut2;
    const footer = textOf(view, at + 1, view.byteLength - 1);
    return { name, changes, types: which.map((type) => shown[type]), first: shown[0], rule: readRule(footer) };
  }

  // "CET-1CEST,M3.5.0,M10.5.0/3": POSIX's TZ, with offsets positive to the west.
  function readRule(text) {
    const found =
      /^(<[^>]+>|[A-Za-z]+)([-+]?[\d:]+)(?:(<[^>]+>|[A-Za-z]+)([-+]?[\d:]+)?(?:,([^,]+),([^,]+))?)?$/.exec(text);
    if (!found || [found[2], found[4]].some((offset) => offset !== undefined && !/^[-+]?(?:[01]?\d|2[0-4])(?::[0-5]\d){0,2}$/.test(offset)))
      return null;
    const plain = (name) => name.replace(/[<>]/g, "");
    const standard = { offset: -msOf(found[2]), isSummer: false, name: plain(found[1]) };
    if (found[3] === undefined || found[5] === undefined) return { standard };
    const offset = found[4] === undefined ? standard.offset + 3_600_000 : -msOf(found[4]);
    return {
      standard,
      summer: { offset, isSummer: true, name: plain(found[3]) },
      begins: readDay(found[5]),
      ends: readDay(found[6]),
    };
  }
  function msOf(text) {
    const [hours, minutes = 0, seconds = 0] = text.replace(/^[-+]/, "").split(":").map(Number);
    return (text.startsWith("-") ? -1000 : 1000) * (hours * 3600 + minutes * 60 + seconds);
  }
  // A time of the year, in milliseconds of its local time.
  function readDay(text) {
    const [day, time = "2"] = text.split("/");
    const [, kind, rest] = /^([MJ]?)(.*)$/.exec(day);
    const [a, b, c] = rest.split(".").map(Number);
    const isLeap = (year) => new Bare(Bare.UTC(year, 1, 29)).getUTCDate() === 29;
    return (year) => {
      const january = Bare.UTC(year, 0, 1);
      if (kind === "J") return january + (a - 1 + (a >= 60 && isLeap(year) ? 1 : 0)) * kDayMs + msOf(time);
      if (kind === "") return january + a * kDayMs + msOf(time);
      const first = new Bare(Bare.UTC(year, a - 1, 1));
      let date = 1 + ((c - first.getUTCDay() + 7) % 7) + (b - 1) * 7;
      if (date > new Bare(Bare.UTC(year, a, 0)).getUTCDate()) date -= 7;
      return Bare.UTC(year, a - 1, date) + msOf(time);
    };
  }

  // The rules at a moment: { offset, isSummer, name }.
  function at({ changes, types, first, rule }, ms) {
    if (changes.length && ms < changes[0]) return first;
    const isLate = !changes.length || ms >= changes.at(-1);
    if (isLate && rule) return byRule(rule, ms);
    if (!changes.length) return first;
    let low = 0;
    let high = changes.length;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (changes[middle] <= ms) low = middle;
      else high = middle;
    }
    return types[low];
  }
  function byRule(rule, ms) {
    const { standard, summer } = rule;
    if (!summer) return standard;
    const { date, shift } = calendarOf(ms + standard.offset);
    const year = date.getUTCFullYear(),
      moment = ms - shift;
    if (rule.year !== year)
      Object.assign(rule, { year, begin: rule.begins(year) - standard.offset, end: rule.ends(year) - summer.offset });
    const { begin, end } = rule;
    const isSummer = begin < end ? moment >= begin && moment < end : moment >= begin || moment < end;
    return isSummer ? summer : standard;
  }

  const read = new Map(); // the zones that were asked for, by their names
  let names; // as the database spells them, by their names in lower case
  // undefined for a name that the database does not have.
  function find(text) {
    names ??= new Map(Object.keys(database?.names ?? {}).map((name) => [name.toLowerCase(), name]));
    const name = names.get(text.toLowerCase());
    if (name !== undefined && !read.has(name)) read.set(name, readZone(name, bytesOf(database.rules[database.names[name]])));
    return read.get(name);
  }

  // The moment of a local time, which is given as if it were UTC. What comes twice is the first; what a change leaves out is as far
  // after the change.
  function utcOf(local) {
    if (!Number.isFinite(local)) return NaN;
    const before = at(zone, local - kDayMs).offset;
    const after = at(zone, local + kDayMs).offset;
    for (const offset of [before, after]) if (at(zone, local - offset).offset === offset) return local - offset;
    return local - before;
  }
  const localOf = (ms) => ms + (Number.isNaN(ms) ? 0 : at(zone, ms).offset);

  // --- Date ---

  const pad = (number, width = 2) => String(number).padStart(width, "0");
  function offsetText(offset) {
    const minutes = Math.floor(Math.abs(offset) / 60_000);
    return `GMT${offset < 0 ? "-" : "+"}${pad(Math.floor(minutes / 60))}${pad(minutes % 60)}`;
  }
  function dateText({ date: local, years }) {
    const year = local.getUTCFullYear() + years;
    const sign = year < 0 ? "-" : "";
    return (
      `${kDays[local.getUTCDay()]} ${kMonths[local.getUTCMonth()]} ${pad(local.getUTCDate())} ` +
      `${sign}${pad(Math.abs(year), 4)}`
    );
  }
  // The year of our time that begins on the same day: V8 names a zone at other times as it is named then.
  function nearYear(year) {
    const first = new Bare(Bare.UTC(year, 0, 1)).getUTCDay(),
      isLeap = new Bare(Bare.UTC(year, 1, 29)).getUTCDate() === 29;
    return 2008 + (((isLeap ? 1956 : 1967) + ((first * 12) % 28) + 84 - 2008) % 28);
  }
  const kNamedUntilMs = (2 ** 31 - 1) * 1000;
  function nameAt(ms) {
    const { date } = calendarOf(ms);
    const near =
      ms < 0 || ms > kNamedUntilMs
        ? bare.setUTCFullYear.value.call(date, nearYear(date.getUTCFullYear()), date.getUTCMonth(), date.getUTCDate())
        : ms;
    const rules = at(zone, near);
    return shared.intl?.nameOfZone?.("long", zone.name, rules) ?? rules.name;
  }
  function timeText({ date: local }, ms) {
    const { offset } = at(zone, ms);
    return (
      `${pad(local.getUTCHours())}:${pad(local.getUTCMinutes())}:${pad(local.getUTCSeconds())} ` +
      `${offsetText(offset)} (${nameAt(ms)})`
    );
  }
  // A date string without a zone, with a time.
  const isLocal = (text) =>
    !/(?:[zZ]|[-+]\d\d:?\d\d|\bGMT\b|\bUTC\b.*|\b[ECMP][SD]T\b)(?:\s*\(.*\))?\s*$/.test(text.replace(/^[-+]?\d+-\d\d-\d\d/, "")) &&
    !/^[-+]?\d{4,6}(?:-\d\d){0,2}$/.test(text);

  const methods = {
    getTimezoneOffset() {
      const ms = timeOf(this);
      return Number.isNaN(ms) ? NaN : Math.trunc((0 - at(zone, ms).offset) / 60_000) + 0;
    },
    getYear() {
      const { date, years } = calendarOf(localOf(timeOf(this)));
      return date.getUTCFullYear() + years - 1900;
    },
    toString() {
      const ms = timeOf(this);
      const local = calendarOf(localOf(ms));
      return Number.isNaN(ms) ? "Invalid Date" : `${dateText(local)} ${timeText(local, ms)}`;
    },
    toDateString() {
      const ms = timeOf(this);
      return Number.isNaN(ms) ? "Invalid Date" : dateText(calendarOf(localOf(ms)));
    },
    toTimeString() {
      const ms = timeOf(this);
      return Number.isNaN(ms) ? "Invalid Date" : timeText(calendarOf(localOf(ms)), ms);
    },
  };
  for (const field of ["FullYear", "Month", "Date", "Day", "Hours", "Minutes", "Seconds", "Milliseconds"]) {
    const get = bare[`getUTC${field}`].value;
    methods[`get${field}`] = { [`get${field}`]() {
      const { date, years } = calendarOf(localOf(timeOf(this)));
      return get.call(date) + (field === "FullYear" ? years : 0);
    } }[`get${field}`];
    const set = bare[`setUTC${field}`]?.value;
    if (set === undefined) continue;
    methods[`set${field}`] = { [`set${field}`](...values) {
      const ms = timeOf(this);
      const { date, years, shift } = calendarOf(Number.isNaN(ms) && field === "FullYear" ? 0 : localOf(ms));
      if (field === "FullYear" && values.length > 0) values[0] -= years;
      return bare.setTime.value.call(this, utcOf(set.apply(date, values) + shift));
    } }[`set${field}`];
  }

  const put = (object, name, value) => {
    const before = Object.getOwnPropertyDescriptor(object, name);
    if (before && "value" in before) Object.defineProperty(value, "length", { value: before.value.length, configurable: true });
    Object.defineProperty(object, name, { value, writable: true, enumerable: false, configurable: true });
  };
  function install() {
    for (const [name, method] of Object.entries(methods)) {
      const before = bare[name]?.value;
      if (!before) continue;
      put(Bare.prototype, name, { [name](...values) {
        return zone === null ? before.apply(this, values) : method.apply(this, values);
      } }[name]);
    }
    put(Bare, "parse", { parse: (text) => (zone === null ? bareParse(text) : parse(text)) }.parse);
    isInstalled = true;
  }
  // A clock of the program's own under this name stays.
  function replaceDate() {
    if (globalThis.Date !== Bare) return;
    const made = new Proxy(Bare, {
      apply: (target, self, values) => (zone === null ? target(...values) : new made().toString()),
      construct: (target, values, of) => Reflect.construct(target, zone === null ? values : absolute(values), of),
    });
    put(Bare.prototype, "constructor", made);
    Object.defineProperty(globalThis, "Date", { value: made, writable: true, enumerable: false, configurable: true });
  }
  function parse(text) {
    const given = `${text}`;
    const ms = bareParse(given);
    return isLocal(given) ? utcOf(ms) : ms;
  }
  // A constructor's arguments, as a moment.
  function absolute(values) {
    if (values.length === 0) return values;
    if (values.length > 1) return [utcOf(utcOfFields(values))];
    const value = primitiveOf(values[0]);
    return [typeof value === "string" ? parse(value) : value];
  }
  function primitiveOf(value) {
    if ((typeof value !== "object" && typeof value !== "function") || value === null) return value;
    try {
      return timeOf(value);
    } catch {
      // no Date
    }
    const own = value[Symbol.toPrimitive];
    if (own === undefined || own === null) return bare[Symbol.toPrimitive].value.call(value, "number");
    const made = Reflect.apply(own, value, ["default"]);
    if ((typeof made === "object" && made !== null) || typeof made === "function")
      throw new TypeError("Cannot convert object to primitive value");
    return made;
  }

  function use(wanted) {
    if (wanted !== null) {
      if (!isInstalled) install();
      replaceDate();
    }
    zone = wanted;
  }
  // words: the zone's name, and its rules as base64; null: UTC.
  shared.useZone = (words) => use((given = words === null ? null : readZone(words.name, bytesOf(words.tzif_base64))));
  // TZ, as the C library understands it: a name, or a rule such as EST5EDT,M3.2.0,M11.1.0. What is neither is UTC.
  shared.useVariable = (text) => {
    const name = text?.replace(/^:/, "");
    if (!name || name === given?.name) return use(given);
    const rule = find(name) ? undefined : readRule(name);
    use(find(name) ?? (rule ? { name, changes: [], types: [], first: rule.standard, rule } : null));
  };
  // For Intl.
  shared.zones = {
    isInstalled: database !== undefined,
    places: database?.places ?? [],
    find,
    ofLocalTime: () => zone, // null: UTC
    at,
    calendarOf,
    offsetText,
  };
})();
