// Values on the wire, without the engine.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ofWire, toWire } from '../dist/values.js'

const both = [
  [null, null],
  [true, true],
  ['text €', 'text €'],
  [1.5, 1.5],
  [2n ** 70n, { $integer: '1180591620717411303424' }],
  [Infinity, { $number: 'inf' }],
  [-Infinity, { $number: '-inf' }],
  [NaN, { $number: 'nan' }],
  [new Uint8Array([0, 255]), { $bytes: 'AP8=' }],
  [new Date(Date.UTC(2026, 0, 2, 3, 4)), { $time: '2026-01-02T03:04:00.000Z' }],
  [[1, [2]], [1, [2]]],
  [{ a: 1, b: { c: null } }, { a: 1, b: { c: null } }],
  [new Map([[1, 'b']]), { $map: [[1, 'b']] }],
  [new Set([1, 2]), { $set: [1, 2] }],
]

test('values go both ways', () => {
  for (const [value, wire] of both) {
    assert.deepEqual(toWire(value), wire)
    assert.deepEqual(ofWire(JSON.parse(JSON.stringify(wire))), value)
  }
})

test('what has no form of its own takes the nearest', () => {
  assert.equal(toWire(undefined), null)
  assert.deepEqual(toWire({ a: undefined, c: 1 }), { c: 1 })
  assert.deepEqual(toWire([new Number(3), new String('x'), Object(5n)]), [3, 'x', { $integer: '5' }])
  assert.deepEqual(toWire(Buffer.from('ab').subarray(1)), { $bytes: 'Yg==' })
  assert.deepEqual(toWire(new Uint8Array([1]).buffer), { $bytes: 'AQ==' })
  assert.deepEqual(toWire(new Float64Array([1, NaN])), [1, { $number: 'nan' }])
  assert.deepEqual(toWire(new URL('https://example.org/')), 'https://example.org/')
  assert.deepEqual(ofWire({ $tuple: [1, { $uuid: 'u' }] }), [1, 'u'])
  assert.deepEqual(ofWire({ $decimal: '1.10' }), '1.10')
  assert.equal(ofWire({ $integer: '5' }), 5)
  assert.equal(ofWire({ $seconds: 90 }), 90)
})

test('times without a zone are in UTC, and times of day stay text', () => {
  assert.deepEqual(ofWire({ $time: '2026-01-02T03:04:05' }), new Date(Date.UTC(2026, 0, 2, 3, 4, 5)))
  assert.deepEqual(ofWire({ $time: '2026-01-02' }), new Date(Date.UTC(2026, 0, 2)))
  assert.deepEqual(ofWire({ $time: '2026-01-02T03:04:05+01:00' }), new Date(Date.UTC(2026, 0, 2, 2, 4, 5)))
  assert.equal(ofWire({ $time: '03:04:05' }), '03:04:05')
})

test('an object whose only name begins with $ is one again, and a Map with such a key a Map', () => {
  const passed = (value) => ofWire(JSON.parse(JSON.stringify(toWire(value))))
  for (const value of [
    { $gt: 5 }, { $ref: '#/x' }, { $map: [] }, { $tuple: [1] }, { $object: { id: 1, type: 'x' } }, { age: { $gt: { $add: [1, { $x: 2 }] } } },
    new Map([['$gt', 5]]), new Map([['$a', new Map([['$b', { $c: 1 }]])]]), new Map([['a', 1]]), new Map([['$a', 1], ['$b', 2]]), new Map(),
  ])
    assert.deepEqual(passed(value), value)
  assert.deepEqual(toWire({ $x: 1 }), { $map: [['$x', 1]] }, 'as Python has it')
})

test('whole numbers past 2^53 keep their values', () => {
  for (const value of [2 ** 53, 2 ** 60, -(2 ** 60), 1e21, 1.5e300, Number.MAX_SAFE_INTEGER]) assert.equal(ofWire(JSON.parse(JSON.stringify(toWire(value)))), value)
  assert.deepEqual(toWire(2 ** 60), { $number: '1152921504606847000' }, 'a float, which is 2^60')
})

test('what cannot pass is a TypeError that says why', () => {
  class Point {
    x = 1
  }
  const loop = { list: [] }
  loop.list.push(loop)
  const deep = Array.from({ length: 5000 }).reduce((each) => [each], 1)
  const none = [
    [() => 1, /function/], [{ a: [{ b() {} }] }, /function \(b\)/], [[Symbol('a')], /symbol/], ['a\udc80', /surrogate/], [Promise.resolve(1), /await it/], [[Promise.resolve(1)], /await it/],
    [new Error('x'), /Error/], [/a/, /RegExp/], [new WeakMap(), /weak/], [new DataView(new ArrayBuffer(1)), /Uint8Array/], [(function* () {})(), /\[\.\.\.it\]/],
    [new Map().keys(), /iterator/], [new Date(NaN), /Date/], [{ at: new Point() }, /a Point .* HostObject/], [loop, /contains itself/], [Object(Symbol('a')), /symbol/],
  ]
  for (const [value, why] of none) assert.throws(() => toWire(value), (error) => error instanceof TypeError && why.test(error.message))
  assert.throws(() => toWire(deep), { name: 'RangeError', message: /nested more than/ })
})

test('names of a program reach no prototype', () => {
  const made = ofWire(JSON.parse('{"__proto__": {"polluted": 1}, "b": 2}'))
  assert.deepEqual(Object.keys(made), ['__proto__', 'b'])
  assert.equal(Object.getPrototypeOf(made), Object.prototype)
  assert.equal(made.polluted, undefined)
  for (const name of ['constructor', 'toString', '__proto__'])
    assert.deepEqual(Object.keys(ofWire(JSON.parse(`{"${name}": 1}`))), [name])
})

test('references are for who knows the objects', () => {
  const account = {}
  assert.deepEqual(
    toWire([account], (each) => (each === account ? { id: 1, type: 'Account' } : undefined)),
    [{ $object: { id: 1, type: 'Account' } }],
  )
  assert.deepEqual(
    ofWire([{ $object: { id: 1, type: 'Account' } }], ({ id }) => `object ${id}`),
    ['object 1'],
  )
})
