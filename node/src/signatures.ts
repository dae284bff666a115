// Signatures as Python has them, "(item: str, *, count: int = 1) -> int", and the arguments of a call by them.

import { NamedError } from './telemetry.js'

const closes: Readonly<Record<string, string>> = { '(': ')', '[': ']', '{': '}' }

/** Where one of the characters stands outside of brackets and texts; undefined where these do not match. */
export function placesOf(wanted: string, text: string): number[] | undefined {
  const found: number[] = []
  const expected: string[] = []
  for (let i = 0; i < text.length; ++i) {
    const c = text[i]!
    if (c === '"' || c === "'") {
      i = endOfText(text, i)
      if (i < 0) return undefined
      continue
    }
    if ('#\\;`'.includes(c)) return undefined
    if (')]}'.includes(c) && expected.pop() !== c) return undefined
    if (expected.length === 0 && wanted.includes(c)) found.push(i)
    if (closes[c]) expected.push(closes[c])
  }
  return expected.length ? undefined : found
}

function endOfText(text: string, begin: number): number {
  const quote = text[begin]!
  const mark = text.startsWith(quote.repeat(3), begin) ? quote.repeat(3) : quote
  for (let i = begin + mark.length; i < text.length; ++i) {
    if (text[i] === '\\') ++i
    else if (text.startsWith(mark, i)) return i + mark.length - 1
  }
  return -1
}

/** The text of each parameter, and what follows them; undefined where it is no signature. */
export function partsOf(signature: string): { parameters: string[]; rest: string } | undefined {
  const text = signature.replace(/\s+/g, ' ').trim()
  const end = text.startsWith('(') ? placesOf(')', text)?.[0] : undefined
  if (end === undefined) return undefined
  const inner = text.slice(1, end)
  const commas = placesOf(',', inner)
  if (!commas) return undefined
  const parameters = [-1, ...commas].map((begin, i) => inner.slice(begin + 1, commas[i] ?? inner.length).trim())
  if (parameters.at(-1) === '') parameters.pop()
  return { parameters, rest: text.slice(end + 1).trim() }
}

/** What calls are bound by. */
export interface Signature {
  readonly positional: readonly string[]
  /** How many of them programs cannot give by name. */
  readonly positionalOnly: number
  /** The name of *args. */
  readonly more: string | undefined
  readonly byName: ReadonlySet<string>
  /** The name of **kwargs. */
  readonly rest: string | undefined
}

const isName = (text: string): boolean => /^[\p{ID_Start}_]\p{ID_Continue}*$/u.test(text)

/** undefined where the text is no signature, or one that is not known to be read as Python reads it. */
export function signatureOf(text: string): Signature | undefined {
  const parts = partsOf(text)
  if (!parts || !(parts.rest === '' || parts.rest.startsWith('->'))) return undefined
  const made = { positional: [] as string[], positionalOnly: 0, more: undefined, byName: new Set<string>(), rest: undefined }
  const seen = new Set<string>()
  let place: 'positional' | 'byName' | 'end' = 'positional'
  for (const part of parts.parameters) {
    if (place === 'end' || /\blambda\b/.test(part)) return undefined // its commas are no parameters'
    const [, stars = '', said = ''] = /^(\*{0,2})(.*?)(?:$|[:= ])/.exec(part)!
    const name = said.normalize('NFKC')
    if (part === '/') {
      if (place !== 'positional' || made.positionalOnly || !made.positional.length) return undefined
      made.positionalOnly = made.positional.length
      continue
    }
    if (part === '*') {
      if (place !== 'positional') return undefined
      place = 'byName'
      continue
    }
    if (!isName(name) || seen.has(name)) return undefined
    seen.add(name)
    if (stars === '**') {
      Object.assign(made, { rest: name })
      place = 'end'
    } else if (stars === '*') {
      if (place !== 'positional') return undefined
      Object.assign(made, { more: name })
      place = 'byName'
    } else if (place === 'positional') made.positional.push(name)
    else made.byName.add(name)
  }
  return made
}

/** Whether Python, too, would not read it. */
export const isNoSignature = (text: string): boolean => text !== '' && !/\blambda\b|[#\\]/.test(text) && !signatureOf(text)

/** Arguments of a call, as its signature binds them. */
export interface Bound {
  /** By position; undefined where one in the middle is missing. */
  readonly args: readonly unknown[]
  /** Those that have no position. */
  readonly kwargs: Readonly<Record<string, unknown>>
  /** All that were given, by their names: those of *args as an array, those of **kwargs as an object. */
  readonly named: Readonly<Record<string, unknown>>
  /** What a function of JavaScript is called with: kwargs, where there are any, stand behind all positions. */
  readonly given: readonly unknown[]
}

/** TypeError, by name, for what the signature does not take; Python's guests have refused such calls before. */
export function bound(of: Signature, call: string, args: readonly unknown[], kwargs: Readonly<Record<string, unknown>>): Bound {
  const refuse = (why: string): never => {
    throw new NamedError('TypeError', `${call}() ${why}`)
  }
  const { positional, positionalOnly, more, byName, rest } = of
  if (args.length > positional.length && more === undefined)
    refuse(`takes ${positional.length} arguments by position, and was given ${args.length}`)
  const places: unknown[] = [...args]
  const named = new Map<string, unknown>(positional.slice(0, args.length).map((name, i) => [name, args[i]]))
  const others: [string, unknown][] = []
  const unnamed: [string, unknown][] = []
  for (const [name, value] of Object.entries(kwargs)) {
    const place = positional.indexOf(name, positionalOnly)
    if (place >= 0) {
      if (place < args.length) refuse(`got more than one value for "${name}"`)
      while (places.length < place) places.push(undefined)
      places[place] = value
      named.set(name, value)
    } else if (byName.has(name)) {
      others.push([name, value])
      named.set(name, value)
    } else if (rest !== undefined) {
      others.push([name, value])
      unnamed.push([name, value])
    } else refuse(`takes no argument "${name}"`)
  }
  if (more !== undefined && args.length > positional.length) named.set(more, args.slice(positional.length))
  if (unnamed.length) named.set(rest!, Object.fromEntries(unnamed))
  const ofKwargs = Object.fromEntries(others)
  const given = [...places]
  if (others.length) {
    while (given.length < positional.length) given.push(undefined)
    given.push(ofKwargs)
  }
  return { args: places, kwargs: ofKwargs, named: Object.fromEntries(named), given }
}
