// A cell's text made ready to run: what it declares stays for later cells, and may be declared again; imports
// become calls. Only words are replaced, lines stay where they were.
((globalThis) => {
  "use strict";
  // Of the language's own, also where a program has put something else under their names.
  const { Math, Object, Set } = globalThis;
  const shared = globalThis.__membrane;

  // After these a slash begins a regular expression, and a class or function is a value.
  const kOperatorWords = new Set(["return", "typeof", "instanceof", "in", "of", "new", "delete", "void", "throw", "case", "do", "else",
                                  "yield", "await", "default", "extends"]);
  const kOpening = new Set(["(", "[", "{"]), kClosing = new Set([")", "]", "}"]);
  const kLongMarks = new Set(["=>", "?.", "++", "--"]);
  const kNoValueBehind = new Set(["=>", ";", "{", "}", "else", "do"]);
  const kSpace = /(?:\s+|\/\/[^\n]*|\/\*[^]*?\*\/)+/y;
  const kPlainWord = /[#$\w]+/y;
  const kWord = /(?:[#$_\p{ID_Start}]|\\u[0-9a-fA-F]{4})(?:[$\u200c\u200d\p{ID_Continue}]|\\u[0-9a-fA-F]{4})*/uy;
  const kNumber = /\.?\d(?:[\w.]|(?<=[eE])[+-])*/y;
  const kString = /'(?:[^'\\\n]|\\[^])*'|"(?:[^"\\\n]|\\[^])*"/y;
  const kRegExp = /\/(?:[^/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[a-z]*/y;
  const kTemplate = /(?:[^`\\$]|\\[^]|\$(?!\{))*/y;

  // The match of the sticky expression there; "" if there is none.
  function found(expression, code, at) {
    expression.lastIndex = at;
    return expression.exec(code)?.[0] ?? "";
  }

  // The token at a position, by its character: [kind, text]. Slashes and backquotes are handled by the caller.
  function tokenAt(code, at) {
    const character = code.charCodeAt(at);
    if (character >= 0x80 || character === 0x5c) {
      const word = found(kWord, code, at);
      return word === "" ? ["mark", code[at]] : ["word", word];
    }
    const isDigit = character >= 0x30 && character <= 0x39;
    if (isDigit || (character === 0x2e && /\d/.test(code[at + 1]))) return ["number", found(kNumber, code, at)];
    const plain = found(kPlainWord, code, at);
    if (plain !== "") {
      const next = code.charCodeAt(at + plain.length);
      return ["word", next >= 0x80 || next === 0x5c ? found(kWord, code, at) || plain : plain];
    }
    if (character === 0x27 || character === 0x22) {
      const string = found(kString, code, at);
      if (string !== "") return ["string", string];
    }
    const pair = code.slice(at, at + 2);
    return ["mark", kLongMarks.has(pair) ? pair : code.startsWith("...", at) ? "..." : code[at]];
  }

  // The significant tokens: {text, kind, at, depth, line}. `line`: a line ends before it; `isStray`: nothing is open that it closes.
  function tokensOf(code) {
    const tokens = [];
    const open = [];  // for each open bracket: the bracket, and whether it contains an expression
    let at = 0, line = true;
    const push = (kind, text) => {
      tokens.push({ kind, text, at, depth: open.length, line });
      line = false;
    };
    const endsValue = () => {
      const last = tokens.at(-1);
      if (!last) return false;
      if (last.kind === "word") return !kOperatorWords.has(last.text) || tokens.at(-2)?.text === ".";
      if (last.kind === "mark") return last.text === ")" || last.text === "]" || last.text === "++" || last.text === "--"
        || (last.text === "}" && last.isValue);
      return true;
    };
    const template = () => {
      at += found(kTemplate, code, at).length;
      if (code[at] === "`") {
        ++at;
        tokens.push({ kind: "string", text: "`", at, depth: open.length, line: false });
      } else if (at < code.length) {
        at += 2;
        open.push({ text: "${", isValue: true });
        tokens.push({ kind: "mark", text: "${", at, depth: open.length, line: false });
      }
    };
    while (at < code.length) {
      const space = found(kSpace, code, at);
      if (space !== "") {
        line ||= space.includes("\n");
        at += space.length;
        continue;
      }
      const character = code[at];
      if (character === "/" && !endsValue()) {
        const expression = found(kRegExp, code, at) || "/";
        push("regexp", expression);
        at += expression.length;
        continue;
      }
      if (character === "`") {
        ++at;
        template();
        continue;
      }
      const [kind, text] = tokenAt(code, at);
      if (kOpening.has(text)) {
        const isValue = text !== "{" || (tokens.length > 0 && !endsValue() && !kNoValueBehind.has(tokens.at(-1).text));
        push(kind, text);
        open.push({ text, isValue });
      } else if (kClosing.has(text)) {
        const opened = open.pop();
        if (opened?.text === "${" && text === "}") {
          ++at;
          template();
          continue;
        }
        push(kind, text);
        Object.assign(tokens.at(-1), { isValue: opened?.isValue, isStray: opened === undefined });
      } else {
        push(kind, text);
      }
      at += text.length;
    }
    return tokens;
  }

  // Whether a statement can begin at the token.
  function beginsStatement(tokens, i) {
    const last = tokens[i - 1];
    if (!last || last.text === ";" || (last.text === "}" && !last.isValue)) return true;
    if (!tokens[i].line) return false;
    if (last.kind === "mark") return [")", "]", "}", "++", "--"].includes(last.text);
    return last.kind !== "word" || !kOperatorWords.has(last.text);
  }

  // `import {a as b}, * as c from "d"` as a declaration, and where it ends.
  function importOf(code, tokens, i) {
    const names = [], needed = [];
    let star = null, k = i + 1;
    while (k < tokens.length && tokens[k].kind !== "string") {
      const { text, kind } = tokens[k];
      if (text === "*") {
        star = tokens[k + 2]?.text;
        k += 3;
      } else if (text === "{") {
        for (++k; k < tokens.length && tokens[k].text !== "}"; ++k) {
          if (tokens[k].text === ",") continue;
          const name = tokens[k].kind === "string" || tokens[k].kind === "word" ? tokens[k].text : null;
          if (name === null) return null;
          needed.push(tokens[k].kind === "string" ? name : `"${name}"`);
          if (tokens[k + 1]?.text === "as") {
            names.push(`${name}: ${tokens[k + 2].text}`);
            k += 2;
          } else {
            names.push(name);
          }
        }
        ++k;
      } else if (text === "," || text === "from") {
        ++k;
      } else if (kind === "word") {
        names.push(`default: ${text}`);
        ++k;
      } else {
        return null;
      }
    }
    if (k >= tokens.length) return null;
    const from = tokens[k];
    let end = from.at + from.text.length;
    if (tokens[k + 1]?.text === "with" && tokens[k + 2]?.text === "{") {
      while (k < tokens.length && tokens[k].text !== "}") ++k;
      end = tokens[k] ? tokens[k].at + 1 : code.length;
    }
    if (tokens[k + 1]?.text === ";") end = tokens[k + 1].at + 1;
    // A file must be read, and may have to wait for others; built-in modules are available.
    const name = from.text.slice(1, -1);
    const isThere = shared.isBuiltin ? shared.isBuiltin(name) : !/^\.{0,2}\//.test(name);
    const importing = (...wanted) =>
      isThere ? `__membrane_import(${[from.text, ...wanted].join(", ")})`
        : `await __membrane_import_later(${[from.text, ...wanted].join(", ")})`;
    const parts = [];
    if (star) parts.push(`var ${star} = ${importing()};`);
    if (names.length) parts.push(`var {${names.join(", ")}} = ${importing(...needed)};`);
    if (parts.length === 0) parts.push(`${importing()};`);
    return { end, text: parts.join(" ") };
  }

  // The text to run. A cell's own names become global; a script's stay local.
  function rewrite(source, isScript) {
    const made = rewriteBody(source, isScript);
    return isScript ? `${kScriptHead}${made}${kBodyEnd}); undefined` : made;
  }
  // The same without a function around it.
  function rewriteBody(source, isScript) {
    const code = source.replace(/^#!/, "//");
    const kConcerned = isScript ? /\b(?:export|import)\b/ : /\b(?:class|const|export|import|let)\b/;
    const tokens = kConcerned.test(code) ? tokensOf(code) : [];
    const changes = [];  // {at, end, text}, in order
    const replace = (at, end, text) => {
      const lines = code.slice(at, end).split("\n").length - text.split("\n").length;
      changes.push({ at, end, text: text + "\n".repeat(Math.max(lines, 0)) });
    };
    for (let i = 0; i < tokens.length; ++i) {
      if (tokens[i].kind !== "word") continue;
      const { text, at, depth } = tokens[i];
      if (tokens[i - 1]?.text === "." || tokens[i - 1]?.text === "?.") continue;
      const next = tokens[i + 1];
      if (text === "import" && next?.text === "(") replace(at, at + 6, "__membrane_import_later");
      if (depth !== 0 || next?.text === ":") continue;
      if (text === "import" && next && next.text !== "(" && next.text !== "." && beginsStatement(tokens, i)) {
        const made = importOf(code, tokens, i);
        if (made) {
          replace(at, made.end, made.text);
          while (i + 1 < tokens.length && tokens[i + 1].at < made.end) ++i;
        }
      } else if (text === "export" && next && beginsStatement(tokens, i)) {
        i = leaveOutExport(code, tokens, i, replace);
      } else if (!isScript && (text === "const" || (text === "let" && next && (next.kind === "word" || "[{".includes(next.text))))
                 && beginsStatement(tokens, i)) {
        replace(at, at + text.length, "var");
      } else if (!isScript && text === "class" && next?.kind === "word" && next.text !== "extends" && beginsStatement(tokens, i)) {
        replace(at, at + 5, `var ${next.text} = class`);
        const end = endOfClass(tokens, i);
        if (end !== undefined) replace(end, end, ";");
      }
    }
    changes.sort((a, b) => a.at - b.at);
    const pieces = [];
    let from = 0;
    for (const change of changes) {
      pieces.push(code.slice(from, change.at), change.text);
      from = change.end;
    }
    return pieces.join("") + code.slice(from);
  }

  // A text as the body of a function. One that ends this function and begins another is an error: only a method
  // has `super`. After an operator the engine reads an object once, elsewhere twice.
  const kBodyEnd = '\nconst __membrane_end = () => super.end; } }[""]';
  const kScriptHead = 'await __membrane_main(null ?? { async ""(exports, require, module, __filename, __dirname) {';

  // Whether a script is a module: it has an import or an export that only modules may have.
  function isModule(source) {
    const code = source.replace(/^#!/, "//");
    if (!/\b(?:export|import)\b/.test(code)) return false;
    const tokens = tokensOf(code);
    return tokens.some(({ kind, text, depth }, i) => {
      const next = tokens[i + 1]?.text;
      if (kind !== "word" || depth !== 0 || next === undefined || !beginsStatement(tokens, i)) return false;
      return text === "export" || (text === "import" && next !== "(" && next !== ".");
    });
  }

  // After the brace that closes its body: `class A extends {}.b {…}` has another one before it.
  function endOfClass(tokens, i) {
    for (let k = i; k < tokens.length; ++k) {
      if (tokens[k].depth === 0 && tokens[k].text === "}" && !["{", ")", "."].includes(tokens[k + 1]?.text)) return tokens[k].at + 1;
    }
    return undefined;
  }

  function leaveOutExport(code, tokens, i, replace) {
    const next = tokens[i + 1];
    if (next.text === "default") {
      const value = tokens[i + 2];
      const name = tokens[i + 3];
      const isNamed = ["function", "class"].includes(value?.text) && name?.kind === "word" && name.text !== "extends";
      const end = value ? value.at : code.length;
      replace(tokens[i].at, end, isNamed ? "" : "var __membrane_default = ");
      tokens[i + 1].text = ";";  // the following token begins a statement
      return i + 1;
    }
    if (next.text === "{") {
      let k = i + 1;
      while (k < tokens.length && tokens[k].text !== "}") ++k;
      replace(tokens[i].at, tokens[k] ? tokens[k].at + 1 : code.length, ";");
      return k;
    }
    replace(tokens[i].at, next.at, "");
    tokens[i].text = ";";
    return i;
  }

  Object.assign(shared, { bodyEnd: kBodyEnd, isModule, rewrite, rewriteBody, scriptHead: kScriptHead, tokensOf });
})(globalThis);
