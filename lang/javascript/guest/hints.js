// "Did you mean …?", for errors of misspelt names; and the name of what a program calls that is no function.
((globalThis) => {
  "use strict";
  // Of the language's own, also where a program has put something else under their names.
  const { Array, Math, Object, Set } = globalThis;
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
  const kFetch = "fetch() makes HTTP requests (with --allow http:example.org)", kNoSockets = `programs have no sockets; ${kFetch}`;
  const kNoBrowser = "there is no browser: parse a page with a package such as cheerio";
  const kAbsent = {
    __proto__: null,
    WebAssembly: "JavaScript programs cannot run WebAssembly: use a package without it, or run the module itself with membrane run",
    WebSocket: kNoSockets,
    EventSource: kNoSockets,
    XMLHttpRequest: kFetch,
    Worker: "there is one process with one thread: call the function directly, or fork the session",
    document: kNoBrowser,
    window: kNoBrowser,
  };
  const asked = (name) => (name === undefined ? "" : `. Did you mean ${name}?`);

  // What to add to an error's message, from the code that threw it and its line there.
  function hintOf(message, code = "", line = "") {
    const [, unknown] = /^(\S+) is not defined$/.exec(message) ?? [];
    const [, absent] = /(?:^|: )(\w+) is not defined$/.exec(message) ?? []; // also where a library has wrapped the error
    if (kAbsent[absent] !== undefined) return `: ${kAbsent[absent]}`;
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

  // --- the engine says "not a function", and where: the last name or operator that it read before the call ---

  const kLongestSource = 50_000, kLongestCallee = 80, kLongestGroup = 30;
  const kNoCallees = new Set(["if", "for", "while", "switch", "catch", "with", "function", "return", "await", "typeof", "in", "of", "new", "delete", "void",
                              "throw", "case", "do", "else", "yield", "super", "import", "async", "instanceof"]);
  const isMember = (token) => token?.text === "." || token?.text === "?.";
  const endsValue = (token) =>
    token !== undefined && (token.kind === "word" ? !kNoCallees.has(token.text) : token.kind !== "mark" || token.text === ")" || token.text === "]");

  const kDeferring = new Set(["=>", "function", "class"]);

  // Where the value begins whose last token is given: "a.b", "a[0](1).c".
  function beginOf(tokens, last) {
    for (let i = last; i >= 0; ) {
      const { kind, text, depth } = tokens[i];
      if (text === "}" || (kind === "mark" && text !== ")" && text !== "]")) return -1;
      if (kind === "mark") {
        do --i; while (i >= 0 && tokens[i].depth > depth);
        if (!endsValue(tokens[i - 1])) return i;
        --i;
      } else if (isMember(tokens[i - 1])) {
        i -= 2;
      } else {
        return i;
      }
    }
    return -1;
  }

  // The calls around a place, the innermost first.
  function callsAround(tokens, offset) {
    const calls = [];
    for (let open = 1; open < tokens.length && tokens[open].at <= offset + kLongestCallee; ++open) {
      if (tokens[open].text !== "(") continue;
      const last = isMember(tokens[open - 1]) ? open - 2 : open - 1;
      if (!endsValue(tokens[last]) || (tokens[last].kind === "word" && tokens[last - 1]?.text === "function")) continue;
      const begin = beginOf(tokens, last);
      const isNew = tokens[begin - 1]?.text === "new";
      // Where the engine is when it has read the callee: at the last point, or before the first name.
      const read = !isNew && isMember(tokens[last - 1]) && !tokens[last].text.startsWith("#") ? last - 1 : begin;
      if (begin < 0 || tokens[read].at - 1 > offset) continue;
      let close = open + 1;
      while (close < tokens.length && tokens[close].depth > tokens[open].depth) ++close;
      if (close < tokens.length && tokens[close].at >= offset) calls.push({ begin, last, close, isNew });
    }
    return calls.sort((a, b) => b.begin - a.begin || b.last - a.last);
  }
  // Whether the place is in a function that the call's own text defines.
  function isDeferred(tokens, { begin }, offset) {
    const next = tokens.findIndex(({ at }) => at > offset);
    let lowest = Infinity, isPast = false; // the outermost depth so far, and whether a comma there ends what is before it
    for (let i = (next < 0 ? tokens.length : next) - 1; i >= begin; --i) {
      const { text, depth } = tokens[i];
      if (depth > lowest) continue;
      if (depth < lowest) [lowest, isPast] = [depth, false];
      if (text === ",") isPast = true;
      if (kDeferring.has(text) && !isPast) return true;
    }
    return false;
  }
  function textOf(code, tokens, { begin, last }) {
    let text = "";
    for (let i = begin; i <= last; ++i) {
      const { depth } = tokens[begin];
      if (tokens[i].depth > depth) continue;
      const next = tokens.findIndex((each, k) => k > i && each.depth <= depth);
      const group = code.slice(tokens[i].at, tokens[next].at);
      if (tokens[i].text === "(" && (i > begin || group.length > kLongestGroup)) text += next > i + 1 ? "(..." : "(";
      else if (tokens[i].text === "(" || tokens[i].text === "[") text += group;
      else text += tokens[i].text;
    }
    return text.length > kLongestCallee ? `…${text.slice(-kLongestCallee)}` : text;
  }
  // Without calling a getter.
  function isGlobalFunction(path) {
    let value = globalThis;
    for (const name of path.split(".")) {
      let owner = Object(value), found;
      while (owner !== null && (found = Object.getOwnPropertyDescriptor(owner, name)) === undefined) owner = Object.getPrototypeOf(owner);
      value = found?.value;
      if (value === undefined || value === null) return false;
    }
    return typeof value === "function";
  }

  // "a.b is not a function", of the call at an offset in the code; undefined where that is not certain. What a cell declares is global.
  function notAFunction(code, offset, isCell) {
    if (code.length > kLongestSource) return undefined;
    const tokens = shared.tokensOf(code), possible = [];
    for (const call of callsAround(tokens, offset)) {
      if (isDeferred(tokens, call, offset)) break;
      const inner = possible.at(-1);
      // Names after the inner call would have been read before the outer one is made.
      if (inner !== undefined && tokens.slice(inner.close, call.close).some(({ kind }) => kind === "word")) break;
      possible.push(call);
    }
    const own = new Set(isCell ? [] : declaredIn(code));
    const named = possible.map((call) => [textOf(code, tokens, call), call.isNew ? "constructor" : "function"])
      .filter(([path]) => own.has(path.split(".")[0]) || !isGlobalFunction(path));
    if (named.length === 0 || named.length > 2) return undefined;
    return `${named.map(([path]) => path).join(" or ")} is not a ${named[0][1]}`;
  }

  Object.assign(shared, { asked, hintOf, nearest, notAFunction });
})(globalThis);
