// What a gate may give, and how the arguments of a call reach a function of JavaScript.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { Call, HostObject, LATER, load, Session } from 'membrane'
import { noJavaScript, noPython, withSession } from './common.mjs'

const skip = noPython

// -- gates ------------------------------------------------------------------------------------------------------------

test('only true lets a call pass', { skip }, async () => {
  const paid = []
  const functions = { pay: (amount) => void paid.push(amount) }
  const odd = [1, 'yes', 'no', {}, [], 0, NaN, '', 1n, () => true, Symbol('yes'), Object.create(null), new Proxy({}, {})]
  for (const said of [false, undefined, null, ...odd])
    for (const gate of [() => said, async () => said])
      await withSession({ functions, gate }, async (session) => {
        const { error } = await session.run('pay(5)')
        const isRefusal = said === false || said === undefined || said === null
        assert.equal(error.code, isRefusal ? 'PermissionError' : 'HostError', String(error))
        assert.match(error.message, isRefusal ? /the call of pay was refused/ : /a gate gives true, false \(or nothing\) or LATER/)
      })
  assert.deepEqual(paid, [])
  for (const gate of [() => true, async () => true])
    await withSession({ functions, gate }, async (session) => (await session.run('pay(5)')).check())
  assert.deepEqual(paid, [5, 5])
})

test('a gate that gives something else is told of to the embedder', { skip }, () => {
  const program = `
    import { Session } from 'membrane'
    const session = await Session.create('python', { functions: { f: () => 1 }, gate: () => 'yes' })
    await session.run('for i in range(3):\\n  try: f()\\n  except Exception: pass')
    session.close()
  `
  const { stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', program], { cwd: new URL('..', import.meta.url), encoding: 'utf8' })
  assert.match(stderr, /the gate gave yes for a call of f: a gate gives true/)
  assert.equal(stderr.match(/the gate gave/g).length, 1)
})

test('a gate that gives LATER makes a call wait, and the function is not called', { skip }, async () => {
  const paid = []
  const functions = { pay: (amount) => void paid.push(amount), free: () => 1 }
  for (const gate of [(call) => (call.name === 'pay' ? LATER : true), async (call) => (call.name === 'pay' ? LATER : true)])
    await withSession({ functions, gate }, async (session) => {
      const ran = await session.run('pay(5)')
      assert.equal(ran.error.code, 'RuntimeError')
      assert.match(ran.error.message, /use start\(\)/)
      const call = await session.start('free() + pay(5)')
      assert.ok(call instanceof Call)
      assert.deepEqual([call.name, call.args], ['pay', [5]])
      const again = load(call.dump(), { functions, gate })
      assert.equal((await call.resume(41)).text, '42')
      assert.equal((await again.fail(Object.assign(new Error('no'), { name: 'PermissionError' }))).error.code, 'PermissionError')
      again.session.close()
    })
  assert.deepEqual(paid, [])
})

test('a gate sees calls that are answered later, too', { skip }, () =>
  withSession({ functions: { ask: LATER }, gate: (call) => call.args[0] !== 2 }, async (session) => {
    assert.equal((await session.start('ask(2)')).error.code, 'PermissionError')
    assert.equal((await session.start('nobody_has_it(2)')).error.code, 'PermissionError')
    assert.ok((await session.start('ask(1)')) instanceof Call)
  }))

test('what a gate throws is its reason', { skip }, async () => {
  const gate = () => {
    throw Object.assign(new Error('over the limit of 50'), { name: 'PermissionError' })
  }
  await withSession({ functions: { pay: () => 1 }, gate }, async (session) => {
    const { error } = await session.run('pay(51)')
    assert.deepEqual([error.code, error.message], ['PermissionError', 'over the limit of 50'])
  })
})

test('runSync says that it is the gate that gives a promise', { skip }, async () => {
  let calls = 0
  const functions = { f: () => ++calls }
  for (const gate of [async () => true, async () => Promise.reject(new Error('no'))])
    await withSession({ functions, gate }, async (session) => {
      const { error } = session.runSync('f()')
      assert.match(error.message, /the gate .* use run\(\), and not runSync\(\)/)
      await new Promise(setImmediate)
    })
  assert.equal(calls, 0)
})

// -- arguments --------------------------------------------------------------------------------------------------------

const anything = (...args) => args.map((each) => (each === undefined ? 'undefined' : each))

test('arguments by name have their positions by the signature', { skip }, async () => {
  const cases = [
    ['(item: str, count: int = 1) -> int', "f('tea', count=2)", "['tea', 2]"],
    ['(item: str, count: int = 1) -> int', "f(count=2, item='tea')", "['tea', 2]"],
    ['(item: str, count: int = 1) -> int', "f('tea')", "['tea']"],
    ['(a, b=1, c=2)', 'f(1, c=3)', "[1, 'undefined', 3]"],
    ['(a, b=1, *, unit=None)', "f(1, unit='kg')", "[1, 'undefined', {'unit': 'kg'}]"],
    ['(a, b=1, *, unit=None)', 'f(1)', '[1]'],
    ['(a, /, b=1, **rest)', 'f(1, a=5, b=2, z=3)', "[1, 2, {'a': 5, 'z': 3}]"],
    ['(*items, unit=None)', "f(1, 2, unit='kg')", "[1, 2, {'unit': 'kg'}]"],
    ['(a, *items, **rest)', 'f(1, 2, 3)', '[1, 2, 3]'],
    ['(a, *items, **rest)', 'f(a=1, z=2)', "[1, {'z': 2}]"],
    ['(a="x, y=z", b={"k": (1, 2)}, c: "Dict[str, int]" = [1, 2], d=4)', 'f(d=1, c=2)', "['undefined', 'undefined', 2, 1]"],
    ["(a='it\\'s, b=', b='''x, 'y', z''', c=1)", 'f(c=1)', "['undefined', 'undefined', 1]"],
    ['(größe, constructor=1, __proto__=2)', 'f(1, __proto__=3)', "[1, 'undefined', 3]"],
    ['()', 'f()', '[]'],
    ['', 'f(1, b=2)', "[1, {'b': 2}]"],
  ]
  for (const [signature, code, expected] of cases)
    await withSession({ functions: { f: { call: anything, signature } } }, async (session) => {
      const ran = await session.run(code)
      assert.equal(ran.text, expected, `${signature}: ${code}: ${ran.error?.message}`)
    })
})

test('defaults of JavaScript hold', { skip }, () =>
  withSession({ functions: { price: { call: (item, count = 1, size = 2) => count * size, signature: '(item, count=1, size=2)' } } }, async (session) => {
    assert.equal((await session.run("price('tea', size=5)")).text, '5')
    assert.equal((await session.run("price('tea', count=2)")).text, '4')
  }))

test('by a signature that cannot be read nothing is bound', { skip }, async () => {
  for (const signature of ['(key=lambda a, b: 1, c=2)'])
    await withSession({ functions: { f: { call: anything, signature } } }, async (session) => {
      assert.equal((await session.run('f(1)')).text, '[1]')
      const { error } = await session.run('f(1, c=3)')
      assert.equal(error.code, 'TypeError')
      assert.match(error.message, /signature of f cannot be read/)
    })
})

test('a guest that forges arguments is refused', { skip }, () =>
  withSession({ functions: { f: { call: anything, signature: '(a, /, b=1)' } } }, async (session) => {
    const forged = `
from membrane import _door
def ask(arguments, keywords):
    return _door.ask({'functions': [{'call': 'f', 'arguments': arguments, 'keywords': keywords}]})['answers'][0]
[('error' in ask(*each)) for each in [([1, 2, 3], {}), ([1, 2], {'b': 3}), ([1], {'a': 2}), ([1], {'z': 2}), ([1], {'b': 2})]]`
    const ran = await session.run(forged)
    assert.equal(ran.text, '[True, True, True, True, False]', ran.error?.message)
  }))

test('methods bind, too; gates and calls see all by name', { skip }, async () => {
  class Account {
    transfer(amount, to = 'nobody', { note = '' } = {}) {
      return `${amount} to ${to}: ${note}`
    }
  }
  const seen = []
  const gate = (call) => {
    seen.push([call.args, call.kwargs, call.named])
    return call.name !== 'wait' || LATER
  }
  const account = new HostObject(new Account(), { methods: { transfer: { signature: '(amount, to=None, *, note="")' } } })
  const functions = { wait: { call: () => 1, signature: '(a, *more, b=1, **rest)' }, bare: () => 1 }
  await withSession({ inputs: { account }, functions, gate }, async (session) => {
    assert.equal((await session.run("account.transfer(to='Ada', amount=5)")).text, "'5 to Ada: '")
    assert.equal((await session.run("account.transfer(5, note='x')")).text, "'5 to nobody: x'")
    assert.equal((await session.run('bare(a=1)')).text, '1')
    const call = await session.start('wait(1, 2, 3, b=4, c=5)')
    assert.deepEqual([call.args, call.kwargs], [[1, 2, 3], { b: 4, c: 5 }])
    assert.deepEqual(call.named, { a: 1, more: [2, 3], b: 4, rest: { c: 5 } })
  })
  assert.deepEqual(seen.slice(0, 3), [
    [[5, 'Ada'], {}, { amount: 5, to: 'Ada' }],
    [[5], { note: 'x' }, { amount: 5, note: 'x' }],
    [[], { a: 1 }, undefined],
  ])
})

test('in JavaScript arguments have positions already', { skip: noJavaScript }, () =>
  withSession({ functions: { f: { call: anything, signature: '(a, b=1, *, c=2)' } } }, async (session) => {
    assert.equal((await session.run('JSON.stringify(f(1, 2))')).text.replace(/^'|'$/g, ''), '[1,2]')
  }, 'js'))
