type TokenType = 'number' | 'name' | 'op' | 'paren';
interface Token { type: TokenType; text: string; at: number }
type Expr =
  | { type: 'num'; value: number }
  | { type: 'var'; name: string }
  | { type: 'bin'; op: string; left: Expr; right: Expr }
  | { type: 'call'; name: string; args: Expr[] };

class ParseError extends Error {
  constructor(message: string, public readonly at: number) {
    super(`${message} at ${at}`);
  }
}

function tokenize(source: string): Token[] {
  const rules: [TokenType, RegExp][] = [['number', /\d+(\.\d+)?/y], ['name', /[a-z_]\w*/iy], ['op', /\*\*|[-+*/,^]/y], ['paren', /[()]/y]];
  const tokens: Token[] = [];
  let at = 0;
  outer: while (at < source.length) {
    if (/\s/.test(source[at])) { at++; continue; }
    for (const [type, rule] of rules) {
      rule.lastIndex = at;
      const match = rule.exec(source);
      if (match) {
        tokens.push({ type, text: match[0], at });
        at = rule.lastIndex;
        continue outer;
      }
    }
    throw new ParseError(`unexpected "${source[at]}"`, at);
  }
  return tokens;
}

const PRECEDENCE: Readonly<Record<string, number>> = { '+': 1, '-': 1, '*': 2, '/': 2, '^': 3, '**': 3 };

function parse(source: string): Expr {
  const tokens = tokenize(source);
  let i = 0;
  const expect = (text: string) => {
    if (tokens[i]?.text !== text) throw new ParseError(`expected "${text}"`, tokens[i]?.at ?? source.length);
    i++;
  };
  function primary(): Expr {
    const token = tokens[i++];
    if (!token) throw new ParseError('unexpected end', source.length);
    if (token.type === 'number') return { type: 'num', value: parseFloat(token.text) };
    if (token.text === '-') return { type: 'bin', op: '-', left: { type: 'num', value: 0 }, right: climb(3) };
    if (token.text === '(') { const e = climb(1); expect(')'); return e; }
    if (token.type !== 'name') throw new ParseError(`unexpected "${token.text}"`, token.at);
    if (tokens[i]?.text !== '(') return { type: 'var', name: token.text };
    i++;
    const args: Expr[] = [];
    while (tokens[i]?.text !== ')') { args.push(climb(1)); if (tokens[i]?.text === ',') i++; else break; }
    expect(')');
    return { type: 'call', name: token.text, args };
  }
  function climb(min: number): Expr {
    let left = primary();
    for (let op = tokens[i]?.text; op in PRECEDENCE && PRECEDENCE[op] >= min; op = tokens[i]?.text) {
      i++;
      left = { type: 'bin', op, left, right: climb(PRECEDENCE[op] + (op === '^' || op === '**' ? 0 : 1)) };
    }
    return left;
  }
  const tree = climb(1);
  if (i < tokens.length) throw new ParseError(`unexpected "${tokens[i].text}"`, tokens[i].at);
  return tree;
}

function evaluate(e: Expr, scope: Record<string, number> = {}): number {
  switch (e.type) {
    case 'num': return e.value;
    case 'var': if (!(e.name in scope)) throw new ReferenceError(`${e.name} is not known`); return scope[e.name];
    case 'call': return (Math as unknown as Record<string, (...a: number[]) => number>)[e.name](...e.args.map((a) => evaluate(a, scope)));
    case 'bin': {
      const [a, b] = [evaluate(e.left, scope), evaluate(e.right, scope)];
      return { '+': a + b, '-': a - b, '*': a * b, '/': a / b, '^': a ** b, '**': a ** b }[e.op]!;
    }
  }
}

for (const source of ['1 + 2 * 3', '(1 + 2) * 3', '2 ^ 3 ^ 2', '-x ** 2 + 10', 'max(1, x, 2) / 4', '2 * (3 + ', '4 $ 4', 'y + 1', '1 2']) {
  try {
    console.log(`${source} = ${evaluate(parse(source), { x: 3 })}`);
  } catch (e) {
    console.log(`${source} ! ${(e as Error).name}: ${(e as Error).message}`);
  }
}
console.dir(parse('a + f(1, 2) * 3'), { depth: null });
