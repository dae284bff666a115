// Input variables of one turn, here and in processes of their own.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Call, HostObject, LATER, load, Pool, Session } from 'membrane'
import { noJavaScript, noPython, noTy, withSession } from './common.mjs'

/** Skipped where the machine lacks a wall; a package without its program is a failure. */
async function whyNotIsolated() {
  if (noPython) return noPython
  try {
    ;(await Session.create('python', { isolated: true })).close()
    return false
  } catch (error) {
    if (error.code === 'not_found') throw error
    return error.message
  }
}

class Account {
  balance = 7
}

for (const [place, skip, isolated] of [['in this process', noPython, false], ['isolated', await whyNotIsolated(), true]]) {
  const within = (options, act) => withSession({ isolated, ...options }, act)

  test(`${place}: they are variables that stay`, { skip }, () =>
    within({ inputs: { given: 1 } }, async (session) => {
      assert.equal((await session.run('n + m', { inputs: { n: 20, m: 22 } })).text, '42')
      assert.equal((await session.run('n = n + 1; n')).text, '21')
      assert.equal((await session.run('n, given', { inputs: { n: 'again', given: 2 } })).text, "('again', 2)")
      assert.equal(session.runSync('n, given', { inputs: { n: 1n << 70n } }).text, `(${1n << 70n}, 2)`)
      const values = { b: new Map([[1, new Set([2])]]), a: new Uint8Array([3]), when: new Date(0) }
      assert.equal((await session.run("' '.join(d), d['b'], d['a'], d['when'].year", { inputs: { d: values } })).text, "('b a when', {1: {2}}, b'\\x03', 1970)")
      const account = new HostObject(new Account(), { attributes: ['balance'] })
      assert.match((await session.run('1', { inputs: { account } })).error.message, /Account, which was not described/)
    }))

  test(`${place}: they may be objects`, { skip }, () =>
    within({ types: [{ type: Account, attributes: ['balance'] }] }, async (session) => {
      assert.equal((await session.run('account.balance', { inputs: { account: new Account() } })).text, '7')
    }))

  test(`${place}: those of a turn that fails are undone`, { skip }, () =>
    within({ limits: { fuel: '1e8' } }, async (session) => {
      ;(await session.run('t = 0', { inputs: { n: 1 } })).check()
      for (const n of [10, 11, 12]) (await session.run('t += n', { inputs: { n } })).check()
      assert.equal((await session.run('while True: pass', { inputs: { n: 2, m: 3 } })).outcome, 'out_of_fuel')
      assert.equal((await session.run("t, n, 'm' in globals()")).text, '(33, 12, False)')
      assert.equal((await session.run('1 / 0', { inputs: { n: 5 } })).outcome, 'raised')
      assert.equal((await session.run('n')).text, '5')
    }))

  test(`${place}: they are in the bytes, and in forks`, { skip }, () =>
    within({ functions: { approve: LATER } }, async (session) => {
      const call = await session.start('m = approve(n) + n; m', { inputs: { n: 5 } })
      assert.ok(call instanceof Call)
      assert.deepEqual(call.args, [5])
      const again = load(session.dump(), { functions: { approve: LATER }, isolated })
      assert.equal((await again.resume(1)).text, '6')
      again.session.close()
      call.abandon()
      assert.equal((await session.run("'n' in globals()")).text, 'False')
      ;(await session.run('', { inputs: { n: 1 } })).check()
      for (const each of [session.fork(), load(session.dump(), { isolated })]) {
        assert.equal((await each.run('n')).text, '1')
        assert.equal((await each.run('n', { inputs: { n: 3 } })).text, '3')
        each.close()
      }
      assert.equal((await session.run('n')).text, '1')
    }))

  test(`${place}: names and values that are none`, { skip }, () =>
    within({}, async (session) => {
      for (const name of ['', 'two words', '1st', 'naïve', 'class']) {
        const result = await session.run('n', { inputs: { n: 1, [name]: 1 } })
        assert.equal(result.outcome, 'invalid')
        assert.ok(result.error.message.includes(name) && result.error.hint, result.error.message)
      }
      await assert.rejects(session.run('n', { inputs: { n: () => 0 } }), TypeError)
      for (const inputs of [[1], null, 7]) await assert.rejects(session.run('n', { inputs }), /the option inputs of run is an object/)
      const large = await session.run('1', { inputs: { x: 'x'.repeat(9 << 20), y: 'y'.repeat(9 << 20) } })
      assert.match(large.error.message, /bytes, and may have/)
      assert.match((await session.run('1', { script: true, inputs: { n: 1 } })).error.message, /a script is a whole program/)
      assert.ok((await session.check('n', { inputs: { n: 1 } })).ok)
      assert.equal((await session.run("'n' in globals()")).text, 'False')
    }))
}

test('in JavaScript', { skip: noJavaScript }, () =>
  withSession(
    {},
    async (session) => {
      assert.equal((await session.run("n.a + Object.keys(n).join('')", { inputs: { n: { b: 1, a: 2 } } })).text, "'2ba'")
      assert.equal((await session.run('n = 5; const c = 1; n', { inputs: { c: 3 } })).text, '5')
      assert.equal((await session.run('c', { inputs: { c: 3 } })).text, '3')
      assert.match((await session.run('1', { inputs: { const: 1 } })).error.message, /keyword/)
      ;(await session.run("Object.defineProperty(globalThis, 'fixed', { value: 1 }); 0")).check()
      assert.match((await session.run('1', { inputs: { fixed: 2 } })).error.message, /the input fixed cannot be set/)
    },
    'js',
  ))

test('in a pool', { skip: noPython }, async () => {
  const pool = await Pool.create('python', { size: 1 })
  const session = await pool.session()
  assert.equal((await session.run('n', { inputs: { n: 1 } })).text, '1')
  session.close()
  await pool.close()
})

test('their types are known to checks', { skip: noPython || noTy }, () =>
  withSession({ typeCheck: true }, async (session) => {
    const inputs = { count: 3, when: new Date(0), named: { a: [1] }, datetime: 5 }
    const found = await session.run('count.upper()', { inputs })
    assert.equal(found.error.code, 'type_check')
    assert.equal(found.findings[0].line, 1)
    assert.ok((await session.check("count + when.year + named['a'][0] + datetime", { inputs })).ok)
    assert.equal((await session.run('print(count)')).error?.code, 'type_check', 'nothing of it has run')
    assert.equal((await session.run('count + when.year', { inputs })).text, '1973')
    assert.equal((await session.run("named['a'] + 1")).error?.code, 'type_check')
    assert.equal(session.runSync("count = 'text'; count.upper()").text, "'TEXT'")
    ;(await session.run('', { inputs: { late: 7 } })).check()
    assert.equal((await session.run('late + 1')).text, '8')
    const again = load(session.dump(), { typeCheck: true })
    assert.equal((await again.run('late.upper()')).error?.code, 'type_check')
    again.close()
  }))
