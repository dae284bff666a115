// Values between a program and this one: JSON, and for what JSON lacks an object whose only member's name begins with "$".
// lang/python/guest/membrane/_values.py and lang/javascript/guest/functions.js are the other side.

import { types as kinds } from 'node:util'

export interface Reference {
  readonly id: number
  readonly type: string
}

/** Gives the reference of an object of the host's, which stays here; undefined for what is none. */
export type ReferenceTo = (value: object) => Reference | undefined
export type ObjectOf = (reference: Reference) => unknown

const base64Of = (bytes: Uint8Array): string => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')

/** The value as JSON has it. TypeError for what has no form. */
export function toWire(value: unknown, referenceTo?: ReferenceTo): unknown {
  switch (typeof value) {
    case 'undefined':
      return null
    case 'string':
    case 'boolean':
      return value
    case 'number':
      return Number.isFinite(value) ? value : { $number: Number.isNaN(value) ? 'nan' : value > 0 ? 'inf' : '-inf' }
    case 'bigint':
      return { $integer: `${value}` }
    case 'object':
      return value === null ? null : objectToWire(value, referenceTo)
    default:
      throw new TypeError(
        `a ${typeof value} cannot pass: give text, numbers, bytes, times, arrays, objects, maps and sets of these`,
      )
  }
}

function objectToWire(value: object, referenceTo?: ReferenceTo): unknown {
  const inner = (each: unknown): unknown => toWire(each, referenceTo)
  if (Array.isArray(value)) return Array.from(value, inner)
  const reference = referenceTo?.(value)
  if (reference) return { $object: reference }
  if (kinds.isUint8Array(value)) return { $bytes: base64Of(value) }
  if (kinds.isAnyArrayBuffer(value)) return { $bytes: base64Of(new Uint8Array(value)) }
  if (ArrayBuffer.isView(value) && Symbol.iterator in value) return Array.from(value as Iterable<number | bigint>, inner)
  if (kinds.isDate(value)) return { $time: value.toISOString() }
  if (kinds.isMap(value)) return { $map: Array.from(value, ([key, each]) => [inner(key), inner(each)]) }
  if (kinds.isSet(value)) return { $set: Array.from(value, inner) }
  if ('toJSON' in value && typeof value.toJSON === 'function') return inner(value.toJSON())
  const entries = Object.entries(value).filter(([, each]) => each !== undefined && typeof each !== 'function')
  if (entries.length === 1 && entries[0]![0].startsWith('$')) return { $map: entries.map(([key, each]) => [key, inner(each)]) }
  return plain(entries.map(([key, each]) => [key, inner(each)]))
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
  $number: ['text', (text: string) => (text === 'nan' ? NaN : text === 'inf' ? Infinity : -Infinity)],
  $tuple: ['array', (values: unknown[], inner) => values.map(inner)],
  $map: ['array', (entries: unknown[], inner) => new Map(entries.map((each) => pairOf(each).map(inner) as [unknown, unknown]))],
  $set: ['array', (values: unknown[], inner) => new Set(values.map(inner))],
  $bytes: ['text', (text: string) => new Uint8Array(Buffer.from(text, 'base64'))],
  $time: ['text', timeOf],
  $seconds: ['number', (seconds: number) => seconds],
  $decimal: ['text', (text: string) => text],
  $uuid: ['text', (text: string) => text],
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

const kindOf = (content: unknown): string =>
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
      if (kindOf(content) !== kind) throw new TypeError(`${name} stands for ${kind === 'array' ? 'an array' : `a ${kind}`}`)
      return made(content as never, inner)
    }
  }
  return plain(entries.map(([key, each]) => [key, inner(each)]))
}
