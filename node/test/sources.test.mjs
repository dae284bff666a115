// Tests a session's clock, time zone, sleep and entropy.

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { load, MembraneError, Session } from 'membrane'
import { later, noJavaScript } from './common.mjs'

const skip = noJavaScript
const start = Date.UTC(2026, 0, 1, 9, 30)

async function withSession(options, act) {
  const session = await Session.create('js', options)
  try {
    return await act(session)
  } finally {
    session.close()
  }
}
const textOf = (code, options) => withSession(options, async (session) => (await session.run(code)).check().text)

test('a virtual clock starts at the given time', { skip }, async () => {
  for (const clock of [start, new Date(start)])
    assert.equal(await textOf('new Date().toISOString().slice(0, 16)', { clock }), "'2026-01-01T09:30'")
  const before = Date.now()
  assert.ok(Number(await textOf('Date.now()', { clock: 'real' })) >= before)
})

test('a function is the clock', { skip }, () => {
  let now = start
  return withSession({ clock: () => now }, async (session) => {
    assert.equal((await session.run('var m = performance.now(); Date.now()')).text, `${start}`)
    now += 5000
    assert.equal((await session.run('[Date.now(), performance.now() - m]')).text, `[ ${start + 5000}, 5000 ]`)
    now = new Date(start + 6000)
    assert.equal(session.runSync('Date.now() - performance.now() + m').text, `${start}`)
    assert.equal(session.fork().runSync('Date.now()').text, `${start + 6000}`)
    assert.deepEqual(session.complete('Math.rand'), ['random'])
    const again = load(session.dump(), { clock: start, timezone: '+01:00' })
    assert.equal((await again.run('new Date().getHours()')).text, '10')
    again.close()
  })
})

test('a time zone', { skip }, async () => {
  const code = "[new Date(0).getHours(), String(new Date(2026, 6, 1)), Intl.DateTimeFormat().resolvedOptions().timeZone]"
  assert.equal(
    await textOf(code, { timezone: '+02:00' }),
    "[ 2, 'Wed Jul 01 2026 00:00:00 GMT+0200 (GMT+02:00)', '+02:00' ]",
  )
})

test('a function sleeps', { skip }, async () => {
  const slept = []
  const code = 'var t = Date.now(); setTimeout(() => { t = Date.now() - t }, 250); 0'
  for (const sleep of [(ms) => void slept.push(ms), async (ms) => void slept.push(ms)])
    await withSession({ sleep }, async (session) => {
      ;(await session.run(code)).check()
      assert.equal((await session.run('t >= 250')).text, 'true')
    })
  assert.deepEqual(slept, [250, 250])
  await withSession({ sleep: (ms) => void slept.push(ms) }, (session) => session.runSync(code).check())
  assert.equal(slept.length, 3)
})

test('the end of a turn ends the wait for a sleep', { skip }, async () => {
  const { promise, resolve } = later()
  await withSession({ sleep: () => (resolve(), new Promise(() => {})) }, async (session) => {
    const turn = session.run('setTimeout(() => {}, 100)')
    await promise
    session.cancel()
    assert.equal((await turn).outcome, 'cancelled')
  })
  await withSession({ sleep: () => new Promise(() => {}), limits: { wall: '100ms' } }, async (session) =>
    assert.equal((await session.run('setTimeout(() => {}, 100)')).outcome, 'timed_out'),
  )
})

test('entropy comes from a seed or a function', { skip }, async () => {
  const draw = 'crypto.getRandomValues(new Uint8Array(4)).join() + Math.random()'
  const drawn = (entropy) => textOf(draw, { entropy })
  for (const seed of [7, 7n, Uint8Array.of(1, 2)]) assert.equal(await drawn(seed), await drawn(seed))
  assert.equal(await drawn(7), await drawn(7n))
  assert.equal(await drawn((count) => new Uint8Array(count)), await drawn((count) => new Uint8Array(count)))
  const nines = (count) => new Uint8Array(count).fill(9)
  const all = await Promise.all([7, 8, Uint8Array.of(7), 'real', (count) => randomBytes(count), nines].map(drawn))
  assert.equal(new Set(all).size, 6)
})

test('a failing function is an error in the program', { skip }, async () => {
  const warned = []
  const hear = (warning) => warned.push(warning.message)
  process.on('warning', hear)
  await withSession({ clock: () => nothing.there, sleep: () => Promise.reject(new Error('tired')) }, async (session) => {
    assert.equal((await session.run('setTimeout(() => {}, 10)')).ok, false)
  })
  let fails = false
  await withSession({ entropy: (count) => new Uint8Array(fails ? 0 : count) }, async (session) => {
    ;(await session.run('0')).check()
    fails = true
    assert.equal((await session.run('crypto.getRandomValues(new Uint8Array(4))')).ok, false)
  })
  await new Promise(setImmediate)
  process.off('warning', hear)
  assert.ok(warned.some((each) => /sleep.*tired/.test(each)), warned.join())
  assert.ok(warned.some((each) => /entropy/.test(each)), warned.join())
})

test('invalid values are refused', { skip }, async () => {
  for (const options of [{ clock: 'noon' }, { clock: NaN }, { timezone: 2 }, { sleep: 'short' }, { entropy: -1 }, { entropy: 1n << 64n }])
    await assert.rejects(Session.create('js', options), TypeError, JSON.stringify(options, (_, value) => `${value}`))
  await assert.rejects(Session.create('js', { clock: -1 }), MembraneError)
  await assert.rejects(Session.create('js', { timezone: 'Nowhere/Atlantis' }), MembraneError)
})
