// Values, calls and names in sessions of JavaScript.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HostObject, LATER, Session } from 'membrane'
import { noJavaScript as skip, withSession } from './common.mjs'

const within = (options, act) => withSession(options, act, 'js')

test('objects whose only name begins with $ stay objects, and Maps stay Maps', { skip }, () => {
  const seen = []
  return within({ functions: { echo: (value) => (seen.push(value), value) }, inputs: { query: { age: { $gt: { $add: [1] } } } } }, async (session) => {
    assert.equal((await session.run('JSON.stringify(query)')).text, `'{"age":{"$gt":{"$add":[1]}}}'`)
    assert.equal((await session.run("[echo({ $ref: '#/x' }).$ref, echo(query).age.$gt.$add[0], echo(new Map([['$a', { $b: 1 }]])).get('$a').$b, echo({ $tuple: [1] }).$tuple]")).text, "[ '#/x', 1, 1, [ 1 ] ]")
    assert.deepEqual(seen, [{ $ref: '#/x' }, { age: { $gt: { $add: [1] } } }, new Map([['$a', { $b: 1 }]]), { $tuple: [1] }])
    assert.equal((await session.run('n === 2 ** 60 && echo(2 ** 60) === n', { inputs: { n: 2 ** 60 } })).text, 'true')
    assert.equal(seen.at(-1), 2 ** 60)
    assert.match((await session.run('echo(Promise.resolve(1))')).error.message, /await it/)
  })
})

const shown = (...args) => JSON.stringify(args)
const cases = [
  ['(to: str, amount: int)', "f('Ada')", /the argument "amount" is missing: it is f\(to: str, amount: int\)/],
  ['(to: str, amount: int)', 'f()', /the argument "to" is missing/],
  ['(to: str, amount: int)', "f('Ada', 1, 2)", /it takes 2 arguments, and 3 were given/],
  ['(to: str, amount: int)', "f('Ada', undefined)", /"amount" is missing/],
  ['(to: str, amount: int)', "f('Ada', null)", '["Ada",null]'],
  ['()', 'f(1)', /it takes 0 arguments/],
  ['(to, amount=1, unit="a, b)")', "f('Ada')", '["Ada"]'],
  ['(to, amount=1, unit="x")', "f('Ada', undefined, 'y')", '["Ada",null,"y"]'], // undefined, as JSON has it
  ['(to, amount=1, /)', "f('Ada', undefined)", '["Ada"]'],
  ['(first, *more)', 'f(1, 2, 3)', '[1,2,3]'],
  ['(item, count=1, *, unit="EUR")', "f('tea', 2, { unit: 'CHF' })", '["tea",2,{"unit":"CHF"}]'],
  ['(item, count=1, *, unit="EUR")', "f('tea', { unit: 'CHF' })", '["tea",null,{"unit":"CHF"}]'],
  ['(item, *, unit)', "f('tea')", /the argument "unit" is missing; an object gives it/],
  ['(item, *, unit="EUR")', "f('tea', { size: 1 })", /it has no argument "size"/],
  ['(item, *, unit="EUR")', "f({ unit: 'CHF' })", '[{"unit":"CHF"}]'],
  ['(*items, unit="EUR")', "f(1, 2, { unit: 'CHF' })", '[1,2,{"unit":"CHF"}]'],
  ['(a, **rest)', 'f(1, { b: { $c: 2 } })', '[1,{"b":{"$c":2}}]'],
  ['(a, **rest)', 'f({ b: 2 })', '[{"b":2}]'],
  ['(key=lambda a, b: 1)', 'f(1, 2, 3)', '[1,2,3]'],
  ['', 'f(1, undefined)', '[1,null]'],
]

for (const isAsync of [false, true])
  test(`a call that does not fit its signature never leaves the session${isAsync ? ', also of an async function' : ''}`, { skip }, async () => {
    for (const [signature, code, expected] of cases) {
      let calls = 0
      const call = (...args) => (++calls, shown(...args))
      await within({ functions: { f: { call: isAsync ? async (...args) => call(...args) : call, signature } } }, async (session) => {
        const ran = await session.run(isAsync ? `await ${code}` : code)
        if (typeof expected === 'string') assert.equal(ran.text, `'${expected}'`, `${signature} ${code} ${ran.error?.message}`)
        else assert.ok(ran.error?.code === 'TypeError' && expected.test(ran.error.message) && calls === 0, `${signature} ${code} ${ran.error?.message ?? ran.text}`)
      })
    }
  })

test('so of methods, of modules, and where calls wait', { skip }, async () => {
  const account = new HostObject({ n: 1, pay: (...args) => shown(...args), me() { return this } }, { methods: { pay: { signature: '(amount, *, note="")' }, me: {} }, attributes: ['n'] })
  const modules = { shop: { price: { call: shown, signature: '(item)' } } }
  await within({ inputs: { account }, modules, functions: { approve: { call: LATER, signature: '(amount)' } } }, async (session) => {
    assert.match((await session.run('account.pay()')).error.message, /"amount" is missing: it is pay\(amount/)
    assert.equal((await session.run("account.pay(1, { note: 'x' })")).text, `'[1,{"note":"x"}]'`)
    assert.equal((await session.run('account.me().n')).text, '1', 'an object that is given back is the reference')
    assert.match((await session.run("(await import('shop')).price()")).error.message, /"item" is missing/)
    assert.match((await session.start('approve()')).error.message, /"amount" is missing/)
  })
})

test("names of the language's own are refused", { skip }, async () => {
  const names = ['globalThis', 'Object', 'Map', 'Reflect', 'Promise', 'Symbol', 'JSON']
  for (const name of names) {
    await assert.rejects(Session.create('js', { inputs: { [name]: 5 } }), { name: 'TypeError', message: `the input ${name} has the name of a global of JavaScript's own: give it another one, as ${name}_` })
    await assert.rejects(Session.create('js', { functions: { [name]: () => 1 } }), /the function .* global of JavaScript's own/)
  }
  await within({}, async (session) => {
    for (const name of names) {
      const refused = await session.run('1', { inputs: { n: 1, [name]: 5 } })
      assert.match(refused.error.message, /global of JavaScript's own/, name)
      assert.equal((await session.run('typeof n')).text, "'undefined'")
    }
    assert.equal((await session.run('prompt', { inputs: { prompt: 'text' } })).text, "'text'")
  })
})

test('a program that takes the place of a global has its next turn', { skip }, async () => {
  for (const name of ['Object', 'Map', 'Reflect', 'Set', 'Error', 'JSON', 'Symbol', 'Array', 'globalThis', 'Number', 'TypeError'])
    await within({ functions: { f: (x) => x } }, async (session) => {
      await session.run(`${name} = 5; 0`)
      const ran = await session.run('f(n) + 1', { inputs: { n: 1 } })
      assert.equal(ran.text, '2', `${name}: ${ran.error?.message}`)
    })
})
