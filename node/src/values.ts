// Values between a program and this one: JSON, and for what JSON lacks an object whose only member's name begins with "$".
// lang/python/guest/membrane/_values.py and lang/javascript/guest/functions.js are the other side.

import { types as kinds } from 'node:util'
import { isThenable, kindOf } from './given.js'

export interface Reference {
  readonly id: number
  readonly type: string
}

/** Gives the reference of an object of the host's, which stays here; undefined for what is none. */
export type ReferenceTo = (value: object) => Reference | undefined
export type ObjectOf = (reference: Reference) => unknown

const base64Of = (bytes: Uint8Array): string => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')

/** Of a value that cannot pass: TypeError, of one that is nested too deep RangeError. */
export class NoForm extends TypeError {
  readonly #why: string

  constructor(why: string, name: 'TypeError' | 'RangeError' = 'TypeError') {
    super(why)
    this.#why = why
    this.name = name
  }

  /** The error that says what the value is of. */
  of(what: string): Error {
    const Kind = this.name === 'RangeError' ? RangeError : TypeError
    return new Kind(`${what} cannot pass: ${this.#why}`, { cause: this })
  }
}

// As the engine reads it.
const mostDeep = 190

/** Of what is within what. */
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
        if (!isWhole(value)) throw new NoForm('a text with half of a surrogate pair is no UTF-8: give its bytes, or cut it between characters')
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
        throw new NoForm(`a function${value.name ? ` (${value.name})` : ''} is no value: give it among the functions of the session, and call it there`)
      default:
        throw new NoForm(`a ${typeof value} is no value of another program: give its description as text`)
    }
  }

  #deeper(value: object): unknown {
    if (this.#within.length >= mostDeep) {
      if (new Set(this.#within).size < this.#within.length) throw new NoForm('it contains itself: give each part by a name or a number of its own')
      throw new NoForm(`it is nested more than ${mostDeep} deep: give it in flat parts, or as a text of JSON`, 'RangeError')
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
    // Such an object would be read as a form of its own.
    if (entries.length === 1 && entries[0]![0].startsWith('$')) return { $map: entries.map(([key, each]) => [key, inner(each)]) }
    return plain(entries.map(([key, each]) => [key, inner(each)]))
  }
}

/** The value as JSON has it. NoForm for what has none. */
export const toWire = (value: unknown, referenceTo?: ReferenceTo): unknown => new Writing(referenceTo).wire(value)

// Node 18 has no isWellFormed().
const isWhole = (text: string & { isWellFormed?(): boolean }): boolean => (text.isWellFormed ? text.isWellFormed() : !/\p{Surrogate}/u.test(text))

// A whole number that a program would read as another one, digit by digit, stays the float that it is.
function numberToWire(value: number): unknown {
  if (Number.isNaN(value)) return { $number: 'nan' }
  if (!Number.isFinite(value)) return { $number: value > 0 ? 'inf' : '-inf' }
  return Number.isInteger(value) && Math.abs(value) > 2 ** 53 ? { $number: `${value}` } : value
}

function timeToWire(value: Date): string {
  if (Number.isNaN(value.getTime())) throw new NoForm('a Date without a time is none: was its text a date?')
  return value.toISOString()
}

// One whose only key an object could have, too, has it twice: alone it stands for an object.
const mapToWire = (entries: readonly (readonly [unknown, unknown])[]): object => ({
  $map: isOfObject(entries) ? [[entries[0]![0], null], ...entries] : entries,
})
const isOfObject = (entries: readonly (readonly unknown[])[]): boolean => {
  const key = entries.length === 1 && entries[0]![0]
  return typeof key === 'string' && key.startsWith('$')
}

function refuse(value: object): void {
  if (isThenable(value)) throw new NoForm('a Promise is not there yet: await it')
  if (kinds.isNativeError(value) || value instanceof Error) throw new NoForm('an Error is no value: throw it, or give its message as text')
  if (kinds.isRegExp(value)) throw new NoForm('a RegExp is no value of another program: give its source as text')
  if (kinds.isDataView(value)) throw new NoForm('a DataView is no value: give a Uint8Array of its buffer')
  if (kinds.isGeneratorObject(value) || kinds.isMapIterator(value) || kinds.isSetIterator(value))
    throw new NoForm('a generator or an iterator gives its values once: give an array, as [...it]')
  if (kinds.isWeakMap(value) || kinds.isWeakSet(value)) throw new NoForm('what is weak has no entries that could be told: give a Map or a Set')
}

// Also of another realm.
function isPlain(value: object): boolean {
  const of: unknown = Object.getPrototypeOf(value)
  return of === null || Object.getPrototypeOf(of) === null
}

// Also of a member that is named __proto__.
const plain = (entries: Iterable<readonly [string, unknown]>): object => Object.fromEntries(entries)

function timeOf(text: string): Date | string {
  if (!/^\d{4}-\d\d-\d\d/.test(text)) return text // a time of day
  const hasZone = /Z$|[+-]\d\d:?\d\d(:?\d\d)?$/.test(text.slice(10))
  return new Date(text.length > 10 && !hasZone ? `${text}Z` : text) // a program's clock is in UTC
}

type Inner = (value: unknown) => unknown
type Reading = readonly ['text' | 'number' | 'array', (content: never, inner: Inner) => unknown]
const mostDigits = 4300 // of an integer, as Python has it: more take long

// What the content is, which a program writes, and what is made of it.
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
  if (!/^-?\d+$/.test(text) || text.length > mostDigits) throw new TypeError('an integer has decimal digits, and no more than 4300')
  const whole = BigInt(text)
  return Number.isSafeInteger(Number(whole)) ? Number(whole) : whole
}

function pairOf(entry: unknown): readonly unknown[] {
  if (!Array.isArray(entry) || entry.length !== 2) throw new TypeError('an entry of a map is a key and a value')
  return entry
}

const formOf = (content: unknown): string =>
  typeof content === 'string' ? 'text' : typeof content === 'number' ? 'number' : Array.isArray(content) ? 'array' : 'none'

/** What the JSON stands for. */
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
      if (formOf(content) !== kind) throw new TypeError(`${name} stands for ${kind === 'array' ? 'an array' : `a ${kind}`}`)
      return made(content as never, inner)
    }
  }
  return plain(entries.map(([key, each]) => [key, inner(each)]))
}
