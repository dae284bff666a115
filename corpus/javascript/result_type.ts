type Result<T, E = string> = { ok: true; value: T } | { ok: false; error: E };
const ok = <T>(value: T): Result<T, never> => ({ ok: true, value });
const err = <E>(error: E): Result<never, E> => ({ ok: false, error });

function then<T, U, E>(r: Result<T, E>, f: (value: T) => Result<U, E>): Result<U, E> {
  return r.ok ? f(r.value) : r;
}

const parseNumber = (text: string): Result<number> => {
  const n = Number(text);
  return text.trim() === '' || Number.isNaN(n) ? err(`"${text}" is no number`) : ok(n);
};
const squareRoot = (n: number): Result<number> => (n < 0 ? err(`${n} is negative`) : ok(Math.sqrt(n)));

for (const text of ['16', '-4', 'abc', '', '2.25']) {
  const result = then(parseNumber(text), squareRoot);
  console.log(result.ok ? `sqrt(${text}) = ${result.value}` : `error: ${result.error}`);
}

type Option<T> = T | null | undefined;
const unwrapOr = <T>(o: Option<T>, fallback: T): T => o ?? fallback;
console.log(unwrapOr<number>(null, 5), unwrapOr(0, 5));

function collect<T, E>(results: Result<T, E>[]): Result<T[], E[]> {
  const errors = results.flatMap((r) => (r.ok ? [] : [r.error]));
  return errors.length ? err(errors) : ok(results.map((r) => (r as { value: T }).value));
}
console.log(collect(['1', 'x', '3', 'y'].map(parseNumber)), collect(['1', '2'].map(parseNumber)));

function isRecord(x: unknown): x is Record<string, unknown> {
  return typeof x === 'object' && x !== null && !Array.isArray(x);
}
interface User { name: string; age: number; tags?: string[] }
function parseUser(json: string): Result<User, string[]> {
  let raw: unknown;
  try { raw = JSON.parse(json); } catch { return err(['not JSON']); }
  if (!isRecord(raw)) return err(['not an object']);
  const problems: string[] = [];
  if (typeof raw.name !== 'string') problems.push('name must be a string');
  if (typeof raw.age !== 'number' || raw.age < 0) problems.push('age must be a positive number');
  if (raw.tags !== undefined && !(Array.isArray(raw.tags) && raw.tags.every((t): t is string => typeof t === 'string'))) problems.push('tags must be strings');
  return problems.length ? err(problems) : ok(raw as unknown as User);
}
for (const json of ['{"name":"Mei","age":9,"tags":["a"]}', '{"name":1,"age":-1,"tags":[1]}', '[]', '{']) console.log(parseUser(json));
