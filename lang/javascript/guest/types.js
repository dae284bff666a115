// TypeScript, whose types are removed: the library of the language does it.
((globalThis) => {
  "use strict";
  // Of the language's own, also where a program has put something else under their names.
  const { Error, Set, SyntaxError } = globalThis;
  const shared = globalThis.__membrane;
  const typescript = globalThis.__membrane_typescript;
  delete globalThis.__membrane_typescript;

  function withoutTypes(code) {
    if (!typescript) throw new Error("TypeScript is not available: the installed language lacks the library that removes types");
    refuseNamespaces(code);
    return typescript(code);
  }
  // These would be dropped silently. A namespace that contains only types is allowed.
  const kOfValues = new Set(["const", "let", "var", "function", "class", "enum", "async", "abstract"]);
  function refuseNamespaces(code) {
    if (!/\b(?:namespace|module)\s+[\w$]/.test(code)) return;
    const tokens = shared.tokensOf(code);
    for (let i = 0; i + 2 < tokens.length; ++i) {
      const { text, depth, at } = tokens[i];
      if ((text !== "namespace" && text !== "module") || tokens[i + 1].kind !== "word" || tokens[i + 1].line) continue;
      let begin = i + 2;
      while (tokens[begin]?.text === ".") begin += 2;
      let end = begin + 1;
      while (end < tokens.length && tokens[end].depth > depth) ++end;
      if (tokens[begin]?.text !== "{") continue;
      if (tokens[i - 1]?.text === "declare") {
        i = end;
        continue;
      }
      const hasValues = tokens.slice(begin, end).some((token, k, inside) => kOfValues.has(token.text) &&
        token.kind === "word" && token.depth === depth + 1 && inside[k - 1]?.text !== "declare");
      if (!hasValues) continue;
      const name = tokens.slice(i + 1, begin).map((token) => token.text).join("");
      const before = code.slice(0, at).split("\n");
      throw new SyntaxError(`the namespace ${name} has values, but only types are removed: make it an object (const ` +
        `${name.replaceAll(".", "_")} = { … }) or a module of its own (${before.length}:${before.at(-1).length + 1})`);
    }
  }

  shared.withoutTypes = withoutTypes;
})(globalThis);
