// "Did you mean …?", for errors of misspelt names.
((globalThis) => {
  "use strict";
  // Of the language's own, also where a program has put something else under their names.
  const { Array, Math, Object } = globalThis;
  const shared = globalThis.__membrane;
  const kLongestName = 64;

  // The letters to change, add, leave out or swap with their neighbour.
  function distanceOf(a, b) {
    let above = [],
      row = Array.from({ length: b.length + 1 }, (_, j) => j);
    for (let i = 1; i <= a.length; ++i) {
      const next = [i];
      for (let j = 1; j <= b.length; ++j) {
        next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1));
        if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) next[j] = Math.min(next[j], above[j - 2] + 1);
      }
      [above, row] = [row, next];
    }
    return row[b.length];
  }

  // The known name with the most similar spelling; undefined if none is similar.
  function nearest(name, known) {
    if (name.length < 3 || name.length > kLongestName) return undefined;
    const most = name.length < 6 ? 1 : 2;
    let best,
      least = most + 1;
    for (const each of known) {
      if (each === name || Math.abs(each.length - name.length) > most) continue;
      const distance = each.toLowerCase() === name.toLowerCase() ? 0 : distanceOf(name, each);
      if (distance < least) [best, least] = [each, distance];
    }
    return best;
  }

  const globalNames = () => Object.getOwnPropertyNames(globalThis).filter((name) => !name.startsWith("__membrane"));
  const declaredIn = (code) =>
    Array.from(code.matchAll(/\b(?:const|let|var|function\*?|class)\s+([\p{ID_Start}$_][\p{ID_Continue}$]*)/gu), ([, name]) => name);
  const asked = (name) => (name === undefined ? "" : `. Did you mean ${name}?`);

  // What to add to an error's message, from the code that threw it and its line there.
  function hintOf(message, code = "", line = "") {
    const [, unknown] = /^(\S+) is not defined$/.exec(message) ?? [];
    if (unknown !== undefined) return asked(nearest(unknown, [...declaredIn(code), ...globalNames()]));
    const { membrane } = shared;
    if (globalThis.membrane !== membrane || !/ of undefined\b|\bnot a function$/.test(message)) return "";
    for (const [, first, second] of line.matchAll(/\bmembrane\.([\w$]+)(?:\.([\w$]+))?/g)) {
      const name = nearest(first, Object.keys(membrane));
      if (!Object.hasOwn(membrane, first)) return asked(name && `membrane.${name}`);
      if (second === undefined || Object.hasOwn(membrane[first], second)) continue;
      const member = nearest(second, Object.keys(membrane[first]));
      return asked(member && `membrane.${first}.${member}`);
    }
    return "";
  }

  Object.assign(shared, { asked, hintOf, nearest });
})(globalThis);
