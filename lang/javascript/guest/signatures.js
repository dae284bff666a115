// Signatures of the embedder's functions, as Python has them: "(item: str, count: int = 1, *, unit: str = 'EUR')", and calls that fit them.
// node/src/signatures.ts reads the same.
((globalThis) => {
  "use strict";
  const { Object, Set, TypeError } = globalThis;
  const shared = globalThis.__membrane;

  const kCloses = { __proto__: null, "(": ")", "[": "]", "{": "}" };
  // Where one of the characters stands outside of brackets and texts; undefined where these do not match.
  function placesOf(wanted, text) {
    const found = [], expected = [];
    for (let i = 0; i < text.length; ++i) {
      const c = text[i];
      if (c === '"' || c === "'") {
        i = endOfText(text, i);
        if (i < 0) return undefined;
        continue;
      }
      if ("#\\;`".includes(c) || (")]}".includes(c) && expected.pop() !== c)) return undefined;
      if (expected.length === 0 && wanted.includes(c)) found.push(i);
      if (kCloses[c]) expected.push(kCloses[c]);
    }
    return expected.length ? undefined : found;
  }
  function endOfText(text, begin) {
    const quote = text[begin];
    const mark = text.startsWith(quote.repeat(3), begin) ? quote.repeat(3) : quote;
    for (let i = begin + mark.length; i < text.length; ++i) {
      if (text[i] === "\\") ++i;
      else if (text.startsWith(mark, i)) return i + mark.length - 1;
    }
    return -1;
  }
  function partsOf(signature) {
    const text = signature.replace(/\s+/g, " ").trim();
    const end = text.startsWith("(") ? placesOf(")", text)?.[0] : undefined;
    const inner = text.slice(1, end), commas = end === undefined ? undefined : placesOf(",", inner);
    if (!commas || !/^ ?(?:->.*)?$/.test(text.slice(end + 1))) return undefined;
    const parts = [-1, ...commas].map((begin, i) => inner.slice(begin + 1, commas[i] ?? inner.length).trim());
    if (parts.at(-1) === "") parts.pop();
    return parts;
  }

  const isName = (text) => /^[\p{ID_Start}_]\p{ID_Continue}*$/u.test(text);
  // undefined where the text is no signature, or not known to be read as Python reads it.
  function signatureOf(text) {
    const made = { positional: [], positionalOnly: 0, hasMore: false, byName: [], hasRest: false };
    let place = made.positional;
    for (const part of partsOf(text) ?? ["?"]) {
      if (made.hasRest || /\blambda\b/.test(part)) return undefined;
      const [, stars, said] = /^(\*{0,2})(.*?)(?:$|[:= ])/.exec(part);
      if (part === "/") made.positionalOnly = made.positional.length;
      else if (part === "*") place = made.byName;
      else if (!isName(said)) return undefined;
      else if (stars === "**") made.hasRest = true;
      else if (stars === "*") [made.hasMore, place] = [true, made.byName];
      else place.push({ name: said.normalize("NFKC"), isNeeded: placesOf("=", part)?.length === 0 });
    }
    return made;
  }

  const isPlain = (value) => {
    if (value === null || typeof value !== "object") return false;
    const of = Object.getPrototypeOf(value);
    return of === null || of === Object.prototype;
  };
  // An object whose names are those of keyword-only parameters, or of **kwargs, gives these as the last argument.
  function keywordsOf({ positional, byName, hasRest, hasMore }, values) {
    const last = values.at(-1);
    if (!isPlain(last)) return undefined;
    const names = Object.keys(last), count = values.length - 1;
    const areByName = names.every((name) => byName.some((each) => each.name === name));
    if (byName.length && names.length && areByName && count >= positional.filter((each) => each.isNeeded).length) return last;
    return (byName.length || hasRest) && count >= positional.length && (hasRest || !hasMore) ? last : undefined;
  }

  function boundBy(signature, shown, values) {
    const { positional, positionalOnly, hasMore, byName, hasRest } = signature;
    const refuse = (why) => { throw new TypeError(`${why}: it is ${shown}`); };
    const given = keywordsOf(signature, values);
    const places = given ? values.slice(0, -1) : [...values];
    while (places.length && places.at(-1) === undefined) places.pop();  // its default holds
    if (places.length > positional.length && !hasMore) {
      const most = positional.length;
      refuse(`it takes ${most} ${most === 1 ? "argument" : "arguments"}${byName.length ? " by position" : ""}, and ${places.length} were given`);
    }
    const keywords = { __proto__: null };
    for (const [name, value] of Object.entries(given ?? {})) {
      if (!byName.some((each) => each.name === name) && !hasRest) refuse(`it has no argument "${name}" that an object could give`);
      if (value !== undefined) keywords[name] = value;
    }
    for (const [i, { name, isNeeded }] of positional.entries())
      if (isNeeded && places[i] === undefined && !(i >= positionalOnly && name in keywords)) refuse(`the argument "${name}" is missing`);
    for (const { name, isNeeded } of byName)
      if (isNeeded && !(name in keywords)) refuse(`the argument "${name}" is missing; an object gives it, as the last argument: { ${name}: … }`);
    return { values: withoutGaps(places, signature, keywords), keywords: Object.keys(keywords).length ? keywords : undefined };
  }
  // What stands after one that is left to its default is given by name.
  function withoutGaps(places, { positional, positionalOnly }, keywords) {
    const gap = places.indexOf(undefined);
    if (gap < positionalOnly || places.length > positional.length) return places;
    for (let i = gap; i < places.length; ++i)
      if (places[i] !== undefined) keywords[positional[i].name] = places[i];
    return places.slice(0, gap);
  }

  // Gives the values and keywords of a call; TypeError for one that does not fit. Where there is no signature, all fit.
  shared.binderOf = (text, name) => {
    const signature = text ? signatureOf(text) : undefined;
    const shown = `${name}${text}`;
    return signature ? (values) => boundBy(signature, shown, values) : (values) => ({ values });
  };
})(globalThis);
