// How a session is used where it cannot be: too many answers, its own turn, another language; and objects that it knows from elsewhere.

import assert from 'node:assert/strict'
import { AsyncLocalStorage } from 'node:async_hooks'
import { test } from 'node:test'
import { Call, HostObject, LATER, load, MembraneError, Session } from 'membrane'
import { later, noJavaScript, noPython } from './common.mjs'

const skip = noPython

test('too many answers are refused, and the call stays', { skip }, async () => {
  const session = await Session.create('python', { functions: { f: LATER } })
  const call = await session.start('f() + 1')
  await assert.rejects(call.resume(1, 2, 3), { name: 'RangeError', message: /1 call waits, and there are 3 answers/ })
  assert.equal((await call.resume(41)).text, '42')
  session.close()
})

test('a fork that waits has its call', { skip }, async () => {
  const session = await Session.create('python', { functions: { f: LATER } })
  assert.equal(session.waiting, undefined)
  const call = await session.start("print('begun')\nf(1) + 1")
  const branch = session.fork()
  const other = branch.waiting
  assert.ok(other instanceof Call)
  assert.equal(other.session, branch)
  assert.deepEqual([other.name, other.args, other.soFar.stdout], ['f', [1], 'begun\n'])
  assert.equal((await other.resume(1)).text, '2')
  assert.equal(branch.waiting, undefined)
  assert.equal((await session.waiting.resume(41)).text, '42')
  const again = load((await session.start('f(2)')).dump(), { functions: { f: LATER } })
  assert.deepEqual(again.session.waiting.args, [2])
  for (const each of [session, branch, again.session]) each.close()
  assert.ok(call instanceof Call)
  assert.throws(() => session.waiting, { code: 'session_over' })
})

test('stubs are for Python', { skip: noJavaScript }, async () => {
  const session = await Session.create('js', { functions: { f: { call: () => 1, signature: '(a: int) -> int' } } })
  assert.throws(() => session.stubs(), (error) => error instanceof MembraneError && error.code === 'unsupported' && error.hint !== '')
  session.close()
})

// -- a function that uses the session that calls it -------------------------------------------------------------------

test('a function cannot await a turn of the session that calls it', { skip }, async () => {
  const codes = []
  let session
  const uses = [
    () => session.run('1'),
    () => session.start('1'),
    () => session.check('1'),
    async () => (await new Promise(setImmediate), session.run('1')),
    () => new Promise((resolve) => setTimeout(resolve)).then(() => session.run('1')),
  ]
  const use = async () => {
    for (const each of uses) await each().catch((error) => codes.push([error instanceof MembraneError, error.code, error.hint !== '']))
    return 1
  }
  session = await Session.create('python', { functions: { use } })
  const result = await session.run('await use()')
  assert.equal(result.text, '1', result.error?.message)
  assert.deepEqual(codes, Array(uses.length).fill([true, 'busy', true]))
  assert.equal((await session.run('2')).text, '2')
  session.close()
})

test('nor by another session, a gate, or an answer', { skip }, async () => {
  let outer
  let call
  const codes = []
  const refused = (act) => act().then(() => codes.push('none'), (error) => codes.push(error.code))
  const waiting = await Session.create('python', { functions: { g: LATER } })
  const inner = await Session.create('python', { functions: { back: () => refused(() => outer.run('1')) } })
  const functions = { f: async () => (await inner.run('back()')).outcome, resumes: () => refused(() => call.resume(1)) }
  const gate = async ({ name }) => (name === 'f' && (await refused(() => outer.run('1'))), true)
  outer = await Session.create('python', { functions, gate })
  assert.equal((await outer.run('await f()')).text, "'ok'")
  call = await waiting.start('g()')
  assert.equal((await outer.run('resumes()')).outcome, 'ok')
  assert.deepEqual(codes, ['busy', 'busy', 'none'])
  for (const each of [outer, inner, waiting]) each.close()
})

test('after the turn what it began may use the session', { skip }, async () => {
  let session
  const over = later()
  const done = later()
  const functions = { begin: () => void over.promise.then(() => session.run('6 * 7')).then(done.resolve, done.reject) }
  session = await Session.create('python', { functions })
  ;(await session.run('begin()')).check()
  over.resolve()
  assert.equal((await done.promise).text, '42')
  session.close()
})

test('listeners and other sessions may', { skip }, async () => {
  let session
  const heard = later()
  const user = new AsyncLocalStorage()
  session = await Session.create('python', { onStdout: () => heard.resolve(session.run('6 * 7')), functions: { me: () => user.getStore() } })
  const other = await Session.create('python', { functions: { f: () => user.run('ada', () => session.run('me()')).then((each) => each.text) } })
  ;(await session.run("print('x', flush=True)\nsum(range(100000))")).check()
  assert.equal((await heard.promise).text, '42')
  assert.equal((await other.run('f()')).text, `"'ada'"`)
  for (const each of [session, other]) each.close()
})

// -- objects that a session knows from another process ---------------------------------------------------------------

class Account {
  constructor(balance) {
    this.balance = balance
  }
  deposit(amount) {
    return (this.balance += amount)
  }
  open(balance) {
    return new HostObject(new Account(balance), { methods: ['deposit'], attributes: ['balance'] })
  }
}
class Shop {
  name = 'tea'
}
const accountOf = (balance) => new HostObject(new Account(balance), { methods: ['deposit', 'open'], attributes: ['balance'] })
const shopOf = () => new HostObject(new Shop(), { attributes: ['name'] })

test('load() gives objects again', { skip }, async () => {
  const back = []
  const functions = { give: (each) => void back.push(each) }
  const session = await Session.create('python', { inputs: { x: 1, both: [accountOf(1), accountOf(10)], shop: shopOf() }, functions })
  ;(await session.run('first, second = both\nx = 2\ngiven = first.open(100)')).check()
  const bytes = session.dump()
  const inputs = { x: 5, both: [accountOf(20), accountOf(30)], shop: shopOf() }
  const again = load(bytes, { functions, inputs })
  assert.equal((await again.run('first.deposit(1), second.balance, shop.name, x')).text, "(21, 30, 'tea', 2)")
  ;(await again.run('give(second)')).check()
  assert.equal(back[0], inputs.both[1].value)
  // One that a function gave is not among them, and none that comes later is taken for it.
  const other = await again.run('other = first.open(7)\nother.balance')
  assert.equal(other.text, '7')
  const { error } = await again.run('given.balance')
  assert.equal(error.code, 'LookupError')
  assert.match(error.message, /belongs to another process.*load\(bytes, \{ inputs/)
  const third = load(again.dump(), { functions, inputs })
  ;(await third.run('newest = first.open(8)')).check()
  assert.equal((await third.run('newest.balance')).text, '8')
  assert.equal((await third.run('other.balance')).error.code, 'LookupError')
  for (const each of [session, again, third]) each.close()
})

test('objects are not taken for others', { skip }, async () => {
  const session = await Session.create('python', { inputs: { first: accountOf(1) } })
  ;(await session.run('given = first.open(100)')).check()
  const inputs = { first: accountOf(2), second: accountOf(3) }
  assert.throws(() => load(session.dump(), { inputs }), { code: 'invalid_input', message: /had 1 objects among its inputs, and load\(\) is given 2/ })
  const without = load(session.dump())
  const again = load(without.dump(), { inputs: { first: accountOf(2) } })
  assert.equal((await again.run('first.balance')).text, '2')
  assert.equal((await again.run('given.balance')).error.code, 'LookupError')
  for (const each of [session, without, again]) each.close()
})

test('load() gives objects of turns again', { skip }, async () => {
  const session = await Session.create('python', { inputs: { first: accountOf(1) } })
  ;(await session.check('seen', { inputs: { seen: accountOf(0) } })).check()
  ;(await session.run('given = first.open(100)')).check()
  ;(await session.run('late', { inputs: { late: accountOf(2) } })).check()
  const bytes = session.dump()
  const again = load(bytes, { inputs: { first: accountOf(3), late: accountOf(4) } })
  assert.equal((await again.run('[first.balance, late.balance]')).text, '[3, 4]')
  assert.equal((await again.run('given.balance')).error.code, 'LookupError')
  ;(await again.run('later', { inputs: { later: accountOf(5) } })).check()
  const inputs = { first: accountOf(6), late: accountOf(7), later: accountOf(8) }
  const third = load(again.dump(), { inputs })
  assert.equal((await third.run('[first.balance, late.balance, later.balance]')).text, '[6, 7, 8]')
  assert.throws(() => load(bytes, { inputs }), { code: 'invalid_input', message: /had 2 objects among its inputs, and load\(\) is given 3/ })
  const fewer = load(bytes, { inputs: { first: accountOf(3) } })
  assert.equal((await fewer.run('late.balance')).error.code, 'LookupError')
  for (const each of [session, again, third, fewer]) each.close()
})

test('damaged counts of objects do no harm', { skip }, async () => {
  const session = await Session.create('python', { inputs: { first: accountOf(1) } })
  ;(await session.run('given = first.open(100)')).check()
  const blob = Buffer.from(session.dump())
  const end = 12 + blob.readUInt32LE(8)
  const head = JSON.parse(blob.subarray(12, end))
  for (const objects of [null, 7, 'x', { last: -1 }, { last: 1e300, inputs: 'x' }, { last: 0.5 }, { last: 3, ids: [9] }, { last: 3, ids: 7 }, { last: 3, ids: [{}] }, [], undefined]) {
    const words = Buffer.from(JSON.stringify({ ...head, objects }))
    const size = Buffer.alloc(4)
    size.writeUInt32LE(words.length)
    const again = load(Buffer.concat([blob.subarray(0, 8), size, words, blob.subarray(end)]), { inputs: { first: accountOf(5) } })
    assert.equal((await again.run('other = first.open(7)\nother.balance')).text, '7')
    assert.equal((await again.run('given.balance')).error.code, 'LookupError')
    again.close()
  }
  session.close()
})

test('load() tells values to programs that have never had them', { skip }, async () => {
  const session = await Session.create('python', { limits: { fuel: '1e8' }, inputs: { account: accountOf(1), list: [1] } })
  const options = { inputs: { account: accountOf(2), list: [1] } }
  const unused = load(session.dump(), options)
  assert.equal((await unused.run('account.balance, list')).text, '(2, [1])')
  assert.equal((await session.run('while True: pass')).outcome, 'out_of_fuel')
  const stopped = load(session.dump(), options)
  assert.equal((await stopped.run('account.balance, list')).text, '(2, [1])')
  ;(await stopped.run('list.append(2)')).check()
  const used = load(stopped.dump(), options)
  assert.equal((await used.run('account.balance, list')).text, '(2, [1, 2])')
  for (const each of [session, unused, stopped, used]) each.close()
})

test('without inputs, or others, the message says how', { skip }, async () => {
  const session = await Session.create('python', { inputs: { account: accountOf(1) }, functions: { f: LATER } })
  ;(await session.run('1')).check()
  const bytes = session.dump()
  const waiting = (await session.start('f(account)')).dump()
  for (const options of [{}, { inputs: {} }, { inputs: { account: shopOf() } }]) {
    const again = load(bytes, { functions: { f: (x) => x }, ...options })
    for (const code of ['account.balance', 'f(account)']) assert.match((await again.run(code)).error.message, /inputs/, code)
    again.close()
    assert.throws(() => load(waiting, { functions: { f: LATER }, ...options }), (error) => error instanceof MembraneError && /inputs/.test(error.hint))
  }
  const call = load(waiting, { functions: { f: LATER }, inputs: { account: accountOf(3) } })
  assert.equal(call.args[0].balance, 3)
  assert.equal((await call.resume(call.args[0])).ok, true)
  assert.equal((await call.session.run('account.balance')).text, '3')
  for (const each of [session, call.session]) each.close()
})

test('objects of isolated sessions and of JavaScript are given again', { skip: noPython || noJavaScript }, async () => {
  const session = await Session.create('js', { inputs: { account: accountOf(1) } })
  ;(await session.run('1')).check()
  for (const isolated of [false, true]) {
    const again = load(session.dump(), { inputs: { account: accountOf(20) }, isolated, acceptedMissingWalls: ['user_namespace'] })
    assert.equal((await again.run('account.deposit(1)')).text, '21')
    again.close()
  }
  const failed = load(session.dump())
  assert.match((await failed.run('account.deposit(1)')).error.message, /inputs/)
  for (const each of [session, failed]) each.close()
})

test('hints of grants and calls name what the package has', { skip }, async () => {
  await assert.rejects(Session.create('python', { allow: ['fs:reed:.'] }), { hint: /write allow: \["fs:read:\."\]$/ })
  const session = await Session.create('python', { functions: { late: LATER } })
  const call = await session.start('late()')
  await call.resume(1)
  const again = await call.resume(1)
  assert.match(again.error.hint, /start\(\) begins one/)
  session.close()
})
