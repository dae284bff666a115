// Intl for en-US, in all time zones (zone.js). Other languages are refused by name: printing their numbers as American ones would be
// wrong. The parts are in intl/.
(() => {
  "use strict";
  const shared = globalThis.__membrane;
  const { globals } = shared;
  const { Collator, DateTimeFormat, ListFormat, NumberFormat, PluralRules, RelativeTimeFormat, Segmenter } = shared.intl;
  const { localeOf, compare } = shared.intl;

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
    supportedValuesOf: (key) => (key === "timeZone" ? [...shared.zones.places, "UTC"] : []),
  };
  Object.defineProperty(Intl, Symbol.toStringTag, { value: "Intl", configurable: true });
  globals.Intl = Intl;

  // --- methods of numbers, dates and strings ---

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
    localeOf(locales);
    return compare(`${this}`, `${other}`, options);
  });
  const { replace, toLowerCase, toUpperCase } = String.prototype;
  // The case of letters is the same in all languages but these.
  function languageOf(locales) {
    if (locales === null) throw new TypeError("null is no locale");
    const [locale] = typeof locales === "string" ? [locales] : Array.from(locales ?? []);
    if (locale === undefined) return "";
    const [, language] = /^([a-z]{2,3}|[a-z]{5,8})(?:-[a-z\d]{1,8})*$/i.exec(`${locale}`) ?? [];
    if (language === undefined) throw new RangeError(`Incorrect locale information provided: ${locale}`);
    return { tur: "tr", aze: "az", lit: "lt", ell: "el" }[language.toLowerCase()] ?? language.toLowerCase();
  }
  const isTurkic = (language) => language === "tr" || language === "az";
  function refuseCase(language, method) {
    throw new RangeError(`The case of letters in the language ${language} is not available: use ${method}(), which has that of most languages`);
  }
  put(String.prototype, "toLocaleLowerCase", function toLocaleLowerCase() {
    const language = languageOf(arguments[0]);
    if (language === "lt") refuseCase(language, "toLowerCase");
    if (!isTurkic(language)) return toLowerCase.call(this);
    // A dot above that follows is part of the letter, also after marks below it.
    const dotted = replace.call(this, /I([\u0316-\u0319\u031c-\u0320\u0323-\u0326\u0329-\u0333]*)\u0307/g, "i$1");
    return toLowerCase.call(dotted.replace(/İ/g, "i").replace(/I/g, "ı"));
  });
  put(String.prototype, "toLocaleUpperCase", function toLocaleUpperCase() {
    const language = languageOf(arguments[0]);
    if (language === "lt" || language === "el") refuseCase(language, "toUpperCase");
    return toUpperCase.call(isTurkic(language) ? replace.call(this, /i/g, "İ") : this);
  });
})();
