// Tests isolated sessions.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { LATER, load, Session } from 'membrane'
import { noPython } from './common.mjs'

const node = fileURLToPath(new URL('..', import.meta.url))
const folder = mkdtempSync(join(tmpdir(), 'membrane-'))
const program = join(folder, 'membrane-worker') // a name that only this test uses, to find its processes
symlinkSync(join(node, 'dist', 'membrane-worker'), program)
process.env.MEMBRANE_WORKER = program
after(() => rmSync(folder, { recursive: true }))
const isolated = (options = {}) => Session.create('python', { isolated: true, ...options })

/** Skipped if the machine lacks a wall; a package without its worker program is a failure. */
async function whyNot() {
  if (noPython) return noPython
  try {
    ;(await isolated()).close()
    return false
  } catch (error) {
    if (error.code === 'not_found') throw error
    return error.message
  }
}
const skip = await whyNot()

/** The processes of this test's isolated sessions, and the one that they are forked from. */
function workers() {
  return readdirSync('/proc').filter((name) => {
    try {
      return /^\d+$/.test(name) && readFileSync(`/proc/${name}/cmdline`, 'utf8') === `${program}\0`
    } catch {
      return false
    }
  })
}
const newSince = (before) => workers().filter((each) => !before.includes(each))
/** Waits until they have ended and were reaped. */
async function areGone(processes) {
  for (const endsAt = performance.now() + 60_000; performance.now() < endsAt; ) {
    if (!processes.some((each) => existsSync(`/proc/${each}`))) return true
    await new Promise(setImmediate)
  }
  return false
}

test('turns, functions, files and output', { skip }, async () => {
  const said = []
  const session = await isolated({
    functions: { price: () => 350, stock: async (item) => item.length },
    inputs: { given: 7 },
    onStdout: (text) => said.push(text),
  })
  assert.equal((await session.run("price('tea') * 2")).text, '700')
  assert.equal(session.runSync("price('tea')").text, '350')
  assert.equal((await session.run("import asyncio; await asyncio.gather(stock('ab'), stock('c'))")).text, '[2, 1]')
  assert.equal((await session.run("print('said'); given")).text, '7')
  assert.equal(said.join(''), 'said\n')
  session.files.write('/tmp/a', 'text')
  assert.equal(session.runSync("open('/tmp/a').read().upper()").text, "'TEXT'")
  assert.deepEqual(session.complete('giv'), ['given'])
  const branch = session.fork()
  branch.runSync('given = 3')
  assert.deepEqual([branch.runSync('given').text, session.runSync('given').text], ['3', '7'])
  for (const each of [session, branch]) each.close()
})

test('limits, and turns that are stopped', { skip }, async () => {
  const session = await isolated({ limits: { fuel: '2e9' } })
  await session.run('x = 1')
  assert.equal((await session.run('while True: pass')).outcome, 'out_of_fuel')
  assert.equal((await session.run('x')).text, '1')
  session.close()
  const endless = await isolated({ limits: { wall: '10min', fuel: '1e15' } })
  await assert.rejects(endless.run('while True: pass', { signal: AbortSignal.timeout(100) }), { name: 'TimeoutError' })
  assert.equal((await endless.run('2 + 3')).text, '5')
  endless.close()
})

test('sources are called here', { skip }, async () => {
  const waits = []
  const session = await isolated({
    clock: new Date('2026-07-01T09:30Z'),
    timezone: '+02:00',
    sleep: async (ms) => waits.push(Math.round(ms / 1000)),
    entropy: (count) => new Uint8Array(count),
  })
  await session.run('import os, time; from datetime import datetime; time.sleep(3600)')
  assert.deepEqual(waits, [3600])
  assert.equal((await session.run("f'{datetime.now():%H:%M}', os.urandom(2)")).text, "('12:30', b'\\x00\\x00')")
  session.close()
})

test('bytes resume in either place', { skip }, async () => {
  for (const [first, then] of [[true, false], [false, true], [true, true]]) {
    const session = await Session.create('python', { isolated: first, functions: { ask: LATER } })
    await session.run('n = 1')
    const bytes = (await session.start("n + ask('a')")).dump()
    session.close()
    const call = load(bytes, { isolated: then, functions: { ask: LATER } })
    assert.deepEqual(call.args, ['a'])
    assert.equal((await call.resume(41)).text, '42')
    call.session.close()
  }
})

test('a crash costs only its session', { skip }, async () => {
  const other = await isolated()
  await other.run('x = 41')
  const before = workers()
  const session = await isolated()
  for (const process_ of newSince(before)) process.kill(Number(process_), 'SIGKILL')
  const lost = await session.run('2')
  assert.deepEqual([lost.outcome, lost.error.code], ['failed', 'worker_lost'])
  assert.equal((await other.run('x + 1')).text, '42')
  for (const each of [session, other]) each.close()
})

test('many sessions leave nothing', { skip }, async () => {
  const first = await isolated()
  const before = workers()
  const open = readdirSync('/proc/self/fd').length
  const seen = new Set()
  for (let i = 0; i < 200; ++i) {
    const session = await isolated()
    assert.equal(session.runSync('6 * 7').text, '42')
    if (i % 20 === 0) for (const each of newSince(before)) seen.add(each)
    session.close()
  }
  assert.ok(await areGone([...seen]))
  assert.equal(readdirSync('/proc/self/fd').length, open)
  first.close()
})

test('a killed process leaves nothing', { skip }, async () => {
  const code = `
    import { Session } from 'membrane'
    const session = await Session.create('python', { isolated: true, limits: { wall: '10min', fuel: '1e15' }, onStdout: () => console.log('begun') })
    session.run('print(1, flush=True)\\nwhile True: pass')
  `
  const before = workers()
  const child = spawn(process.execPath, ['--input-type=module', '-e', code], { cwd: node, stdio: ['ignore', 'pipe', 'inherit'] })
  await once(child.stdout, 'data')
  const its = newSince(before)
  assert.ok(its.length >= 2)
  child.kill('SIGKILL')
  assert.ok(await areGone(its))
})
