// Options of Intl: the locale, names out of a list, whole numbers, and what is not available.
(() => {
  "use strict";
  const shared = globalThis.__membrane;

  // What a Unicode extension may ask for, as it is so anyway.
  const kUsual = /^u(?:-ca-gregory|-nu-latn|-hc-h12|-co-standard|-kf-false|-kn-false)+$/i;

  // The first of the locales that is available; `others` are so beside en-US.
  function localeOf(locales, others = []) {
    const names = namesOf(locales);
    for (const name of names) {
      const [, plain, extension] = /^(.*?)(?:-(u-.*))?$/i.exec(name);
      if (extension !== undefined && !kUsual.test(extension)) continue;
      if (/^(?:en|en-US|default|und|C)$/i.test(plain)) return "en-US";
      const other = others.find((other) => other.toLowerCase() === plain.toLowerCase());
      if (other !== undefined) return other;
    }
    if (names.length > 0) refuseLocale(names[0]);
    return "en-US";
  }
  function namesOf(locales) {
    if (locales === undefined) return [];
    if (locales === null) throw new TypeError("Cannot convert undefined or null to object");
    const names = typeof locales === "string" ? [locales] : Array.from(locales);
    for (const name of names) {
      if (typeof name !== "string" && (typeof name !== "object" || name === null))
        throw new TypeError("Language ID should be string or object.");
      if (!/^[a-z]+(?:-[a-z\d]{1,8})*$/i.test(`${name}`))
        throw new RangeError(`Incorrect locale information provided: ${name}`);
    }
    return names.map(String);
  }
  function refuseLocale(name, why = "Intl has en-US alone") {
    throw new RangeError(
      `The locale ${name} is not available: ${why}. Use "en-US", or arrange what its formatToParts() returns`,
    );
  }
  // An option whose other values are not available.
  function onlyUsual(options, name, usual) {
    const given = options[name];
    if (given !== undefined && `${given}` !== `${usual}`)
      throw new RangeError(`${name} ${given} is not available: Intl has ${usual} alone. Leave the option out`);
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

  shared.intl = { localeOf, oneOf, onlyUsual, refuseLocale, whole };
})();
