// Tests that sessions free what they had. Needs --expose-gc.

import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { test } from 'node:test'
import { load, Session } from 'membrane'
import { noPython, residentKib } from './common.mjs'

const skip = noPython || (!existsSync('/proc/self/status') && 'there is no /proc here') || (!globalThis.gc && 'runs with --expose-gc')
const many = Number(process.env.MEMBRANE_MANY_SESSIONS ?? 2000)

test(`${many} sessions are made, dumped, loaded and closed`, { skip }, async () => {
  const functions = { f: () => 1, g: async () => 2 }
  const cycle = async () => {
    const session = await Session.create('python', { functions })
    await session.run('x = f() + await g()')
    const again = load(session.dump(), { functions })
    session.close()
    assert.equal(again.runSync('x').text, '3')
    again.close()
  }
  // Without V8's own heap, which grows for short-lived objects and stays large.
  const usedKib = () => {
    globalThis.gc()
    return residentKib() - (process.memoryUsage().heapTotal >> 10)
  }
  for (let i = 0; i < 500; ++i) await cycle()
  // What a session leaves is left by each thousand of them. What the allocators keep once is not.
  let before = usedKib()
  const grown = []
  for (let window = 0; window < 4; ++window) {
    for (let i = 0; i < many / 2; ++i) await cycle()
    grown.push(usedKib() - before)
    before += grown.at(-1)
    if (grown.at(-1) < 8 << 10) return
  }
  assert.fail(`${grown.join(', ')} KiB more after each ${many / 2} sessions`)
})

test('a forgotten session is released, also one that its functions refer to', { skip }, async () => {
  const make = async () => {
    const session = await Session.create('python', { functions: { f: () => session.language } })
    session.runSync('f()').check()
    return new WeakRef(session)
  }
  const gone = await make()
  for (let i = 0; i < 20 && gone.deref(); ++i) {
    await new Promise(setImmediate)
    globalThis.gc()
  }
  assert.equal(gone.deref(), undefined)
})
