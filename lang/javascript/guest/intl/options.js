// Options of Intl: the locale, names out of a list, and whole numbers.
(() => {
  "use strict";
  const shared = globalThis.__membrane;

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

  shared.intl = { checkLocale, oneOf, whole };
})();
