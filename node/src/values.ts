// Values between programs and the embedder: JSON, and for what JSON lacks an object whose only member's name begins with "$".
// lang/python/guest/membrane/_values.py and lang/javascript/guest/functions.js are the other side.

import { types as kinds } from 'node:util'
import { isThenable, kindOf } from './given.js'

export interface Reference {
  readonly id: number
  readonly type: string
}

/** Returns the reference of an object of the host, which stays here; undefined for any other value. */
export type ReferenceTo = (value: object) => Reference | undefined
export type ObjectOf = (reference: Reference) => unknown

const base64Of = (bytes: Uint8Array): string => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')

/** The error of a value that cannot pass: a TypeError, or a RangeError for one that is nested too deep. */
export class NoForm extends TypeError {
  readonly #why: string

  constructor(why: string, name: 'TypeError' | 'RangeError' = 'TypeError') {
    super(why)
    this.#why = why
    this.name = name
  }

  /** The error with the function or input that the value belongs to. */
  of(what: string): Error {
    const Kind = this.name === 'RangeError' ? RangeError : TypeError
    return new Kind(`${what} cannot pass: ${this.#why}`, { cause: this })
  }
}

// The form that the engine reads.
const mostDeep = 190

/** Converts one value, and keeps the objects that contain the current part, from the outside in. */
class Writing {
  readonly #within: object[] = []
  readonly #referenceTo: ReferenceTo | undefined

  constructor(referenceTo: ReferenceTo | undefined) {
    this.#referenceTo = referenceTo
  }

  readonly wire = (value: unknown): unknown => {
    switch (typeof value) {
      case 'undefined':
        return null
      case 'string':
        if (!isWhole(value)) throw new NoForm('a text with half of a surrogate pair is not UTF-8: give its bytes, or cut it between characters')
        return value
      case 'boolean':
        return value
      case 'number':
        return numberToWire(value)
      case 'bigint':
        return { $integer: `${value}` }
      case 'object':
        return value === null ? null : this.#deeper(value)
      case 'function':
        throw new NoForm(`a function${value.name ? ` (${value.name})` : ''} cannot pass: give it among the functions of the session, and call it there`)
      default:
        throw new NoForm(`a ${typeof value} cannot pass: give its description as text`)
    }
  }

  #deeper(value: object): unknown {
    if (this.#within.length >= mostDeep) {
      if (new Set(this.#within).size < this.#within.length) throw new NoForm('it contains itself: refer to its parts by names or numbers')
      throw new NoForm(`it is nested more than ${mostDeep} deep: give it in flat parts, or as JSON text`, 'RangeError')
    }
    this.#within.push(value)
    const made = this.#object(value)
    this.#within.pop()
    return made
  }

  #object(value: object): unknown {
    const inner = this.wire
    if (Array.isArray(value)) return Array.from(value, inner)
    const reference = this.#referenceTo?.(value)
    if (reference) return { $object: reference }
    if (kinds.isUint8Array(value)) return { $bytes: base64Of(value) }
    if (kinds.isAnyArrayBuffer(value)) return { $bytes: base64Of(new Uint8Array(value)) }
    if (kinds.isTypedArray(value)) return Array.from(value as Iterable<number | bigint>, inner)
    if (kinds.isDate(value)) return { $time: timeToWire(value) }
    if (kinds.isMap(value)) return mapToWire(Array.from(value, ([key, each]) => [inner(key), inner(each)]))
    if (kinds.isSet(value)) return { $set: Array.from(value, inner) }
    if (kinds.isBoxedPrimitive(value)) return inner((value as { valueOf(): unknown }).valueOf())
    refuse(value)
    if ('toJSON' in value && typeof value.toJSON === 'function') return inner(value.toJSON())
    if (!isPlain(value)) throw new NoForm(`${kindOf(value)} is an object of a class: give a HostObject, which programs call, or a plain object, as { ...it }`)
    const entries = Object.entries(value).filter(([, each]) => each !== undefined)
    // A program would read such an object as one of the special forms.
    if (entries.length === 1 && entries[0]![0].startsWith('$')) return { $map: entries.map(([key, each]) => [key, inner(each)]) }
    return plain(entries.map(([key, each]) => [key, inner(each)]))
  }
}

/** Returns the value as JSON. Throws NoForm for one that cannot pass. */
export const toWire = (value: unknown, referenceTo?: ReferenceTo): unknown => new Writing(referenceTo).wire(value)

// Node 18 has no isWellFormed().
const isWhole = (text: string & { isWellFormed?(): boolean }): boolean => (text.isWellFormed ? text.isWellFormed() : !/\p{Surrogate}/u.test(text))

// A whole number past 2^53 is marked as a float. Otherwise a program would read its digits as an integer.
function numberToWire(value: number): unknown {
  if (Number.isNaN(value)) return { $number: 'nan' }
  if (!Number.isFinite(value)) return { $number: value > 0 ? 'inf' : '-inf' }
  return Number.isInteger(value) && Math.abs(value) > 2 ** 53 ? { $number: `${value}` } : value
}

function timeToWire(value: Date): string {
  if (Number.isNaN(value.getTime())) throw new NoForm('the Date is invalid: was its text a date?')
  return value.toISOString()
}

// A map whose only key begins with "$" has that key twice: with the key once, it would mean an object.
const mapToWire = (entries: readonly (readonly [unknown, unknown])[]): object => ({
  $map: isOfObject(entries) ? [[entries[0]![0], null], ...entries] : entries,
})
const isOfObject = (entries: readonly (readonly unknown[])[]): boolean => {
  const key = entries.length === 1 && entries[0]![0]
  return typeof key === 'string' && key.startsWith('$')
}

function refuse(value: object): void {
  if (isThenable(value)) throw new NoForm('a Promise cannot pass: await it')
  if (kinds.isNativeError(value) || value instanceof Error) throw new NoForm('an Error cannot pass: throw it, or give its message as text')
  if (kinds.isRegExp(value)) throw new NoForm('a RegExp cannot pass: give its source as text')
  if (kinds.isDataView(value)) throw new NoForm('a DataView cannot pass: give a Uint8Array of its buffer')
  if (kinds.isGeneratorObject(value) || kinds.isMapIterator(value) || kinds.isSetIterator(value))
    throw new NoForm('a generator or iterator gives its values only once: give an array, such as [...it]')
  if (kinds.isWeakMap(value) || kinds.isWeakSet(value)) throw new NoForm('a weak collection does not list its entries: give a Map or a Set')
}

// Also from another realm.
function isPlain(value: object): boolean {
  const of: unknown = Object.getPrototypeOf(value)
  return of === null || Object.getPrototypeOf(of) === null
}

// Also for a member that is named __proto__.
const plain = (entries: Iterable<readonly [string, unknown]>): object => Object.fromEntries(entries)

function timeOf(text: string): Date | string {
  if (!/^\d{4}-\d\d-\d\d/.test(text)) return text // a time of day
  const hasZone = /Z$|[+-]\d\d:?\d\d(:?\d\d)?$/.test(text.slice(10))
  return new Date(text.length > 10 && !hasZone ? `${text}Z` : text) // a program's clock is in UTC
}

type Inner = (value: unknown) => unknown
type Reading = readonly ['text' | 'number' | 'array', (content: never, inner: Inner) => unknown]
const mostDigits = 4300 // digits of an integer; Python has the same limit, since more take long

// Readers of the special forms. A program writes the content.
const ofWireBy: Readonly<Record<string, Reading>> = {
  __proto__: null as never,
  $integer: ['text', integerOf],
  $number: ['text', numberOf],
  $tuple: ['array', (values: unknown[], inner) => values.map(inner)],
  $map: ['array', mapOf],
  $set: ['array', (values: unknown[], inner) => new Set(values.map(inner))],
  $bytes: ['text', (text: string) => new Uint8Array(Buffer.from(text, 'base64'))],
  $time: ['text', timeOf],
  $seconds: ['number', (seconds: number) => seconds],
  $decimal: ['text', (text: string) => text],
  $uuid: ['text', (text: string) => text],
}

const notFinite = new Map([['nan', NaN], ['inf', Infinity], ['-inf', -Infinity]])
function numberOf(text: string): number {
  return notFinite.get(text) ?? Number(text)
}

function mapOf(entries: unknown[], inner: Inner): object {
  const pairs = entries.map(pairOf)
  const made = pairs.map((each) => each.map(inner) as [string, unknown])
  return isOfObject(pairs) ? plain(made) : new Map<unknown, unknown>(made)
}

function integerOf(text: string): number | bigint {
  if (!/^-?\d+$/.test(text) || text.length > mostDigits) throw new TypeError('an integer has at most 4300 decimal digits')
  const whole = BigInt(text)
  return Number.isSafeInteger(Number(whole)) ? Number(whole) : whole
}

function pairOf(entry: unknown): readonly unknown[] {
  if (!Array.isArray(entry) || entry.length !== 2) throw new TypeError('an entry of a map is a key and a value')
  return entry
}

const formOf = (content: unknown): string =>
  typeof content === 'string' ? 'text' : typeof content === 'number' ? 'number' : Array.isArray(content) ? 'array' : 'none'

/** Reads a value from JSON. */
export function ofWire(value: unknown, objectOf?: ObjectOf): unknown {
  const inner: Inner = (each) => ofWire(each, objectOf)
  if (Array.isArray(value)) return value.map(inner)
  if (value === null || typeof value !== 'object') return value
  const entries = Object.entries(value)
  if (entries.length === 1) {
    const [name, content] = entries[0]!
    if (name === '$object' && objectOf) return objectOf(content)
    const reading = ofWireBy[name]
    if (reading) {
      const [kind, made] = reading
      if (formOf(content) !== kind) throw new TypeError(`${name} must hold ${kind === 'array' ? 'an array' : `a ${kind}`}`)
      return made(content as never, inner)
    }
  }
  return plain(entries.map(([key, each]) => [key, inner(each)]))
}
