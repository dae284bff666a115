// Tests sessions that wait, and sessions as bytes.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { Call, LATER, load, MembraneError, Session } from 'membrane'
import { noJavaScript, noPython } from './common.mjs'

const skip = noPython

test('a call that waits', { skip }, async () => {
  const session = await Session.create()
  let call = await session.start('approve(transfer(120))')
  assert.ok(call instanceof Call)
  assert.deepEqual([call.name, call.args, call.kwargs], ['transfer', [120], {}])
  assert.equal(call.soFar.outcome, 'waiting')
  call = await call.resume({ id: 7 })
  assert.deepEqual([call.name, call.args], ['approve', [{ id: 7 }]])
  assert.equal((await call.resume(true)).text, 'True')
  assert.equal((await session.run('1')).text, '1')
  session.close()
})

test('in another process', { skip }, async () => {
  const session = await Session.create('python', { functions: { approve: LATER, double: (n) => 2 * n } })
  ;(await session.run('total = double(21)')).check()
  const call = await session.start("double(total) if approve(total) else 'refused'")
  const blob = call.dump()
  assert.ok(blob.length < 256 << 10)
  session.close()
  const program = `
    import { readFileSync } from 'node:fs'
    import { load } from 'membrane'
    const call = load(readFileSync(0), { functions: { double: (n) => 2 * n } })
    const end = await call.resume(true)
    console.log(call.name, JSON.stringify(call.args), end.text)
  `
  const options = { input: blob, cwd: new URL('..', import.meta.url), encoding: 'utf8' }
  const ran = spawnSync(process.execPath, ['--input-type=module', '-e', program], options)
  assert.deepEqual([ran.stdout, ran.stderr], ['approve [42] 84\n', ''])
})

test('a waiting call may fail', { skip }, async () => {
  const session = await Session.create()
  const call = await session.start('try:\n  approve()\nexcept PermissionError as error:\n  said = str(error)\nsaid')
  const end = await call.fail(Object.assign(new Error('not today'), { name: 'PermissionError' }))
  assert.equal(end.text, "'not today'")
  session.close()
})

test('several wait together', { skip }, async () => {
  const session = await Session.create('python', { functions: { f: { call: LATER, async: true } } })
  let call = await session.start('import asyncio\nawait asyncio.gather(f(1), f(2))')
  assert.deepEqual(call.calls.map((each) => each.args), [[1], [2]])
  call = await call.resume('a')
  assert.deepEqual(call.calls.map((each) => each.args), [[2]])
  assert.equal((await call.resume('b')).text, "['a', 'b']")
  session.close()
})

test('functions may answer later', { skip }, async () => {
  const approve = (amount) => (amount > 100 ? LATER : true)
  const rate = async () => LATER
  const session = await Session.create('python', { functions: { approve, rate } })
  assert.equal((await session.run('approve(5)')).text, 'True')
  assert.equal((await session.run('approve(500)')).error.code, 'RuntimeError')
  let call = await session.start('[approve(n) for n in (1, 200)]')
  assert.deepEqual([call.name, call.args], ['approve', [200]])
  assert.equal((await call.resume(false)).text, '[True, False]')
  call = await session.start("import asyncio\nawait asyncio.gather(rate('EUR'), rate('CHF'))")
  assert.deepEqual(call.calls.map((each) => each.args), [['EUR'], ['CHF']])
  assert.equal((await call.resume(1, 2)).text, '[1, 2]')
  session.close()
})

test('a call is given up', { skip }, async () => {
  const session = await Session.create()
  session.runSync('x = 1')
  assert.throws(() => session.abandon(), MembraneError)
  const call = await session.start('x = 2\napprove(x)')
  const busy = await session.run('x')
  assert.match(busy.error.hint, /resume\(\).*abandon\(\)/)
  call.abandon()
  assert.equal((await session.run('x')).text, '1')
  session.close()
})

test('a waiting session is forked, and run() does not wait', { skip }, async () => {
  const session = await Session.create('python', { functions: { f: LATER } })
  assert.equal((await session.run('f()')).error.code, 'RuntimeError')
  const call = await session.start('f() + 1')
  assert.equal((await session.run('1')).outcome, 'invalid')
  const blob = call.dump()
  const again = [load(blob, { functions: { f: LATER } }), load(blob, { functions: { f: LATER } })]
  assert.equal((await again[0].resume(1)).text, '2')
  assert.equal((await again[1].resume(41)).text, '42')
  const branch = session.fork()
  assert.equal((await branch.run('1')).outcome, 'invalid')
  assert.equal((await call.resume(2)).text, '3')
  for (const each of [session, branch, again[0].session, again[1].session]) each.close()
})

test('a turn that was loaded is stopped, too', { skip }, async () => {
  const session = await Session.create()
  const blob = (await session.start('f()\nprint("begun", flush=True)\nwhile True: pass')).dump()
  session.close()
  const call = load(blob, { limits: { wall: '10min', fuel: '1e15' }, onStdout: () => call.session.cancel() })
  assert.ok((await call.resume()) instanceof Call) // without an answer it keeps waiting
  assert.equal((await call.resume(null)).outcome, 'cancelled')
  call.session.close()
})

test('an idle session is dumped, too', { skip }, async () => {
  const session = await Session.create()
  session.runSync('x = 41')
  const again = load(session.dump())
  assert.ok(again instanceof Session)
  assert.equal((await again.run('x + 1')).text, '42')
  assert.equal((await session.run('x')).text, '41')
  again.close()
  session.close()
})

test('JavaScript waits, too', { skip: noJavaScript }, async () => {
  const session = await Session.create('js', { functions: { approve: LATER } })
  session.runSync('let x = 1')
  const call = load((await session.start('approve(x) + 1')).dump())
  assert.deepEqual(call.args, [1])
  assert.equal((await call.resume(41)).text, '42')
  call.session.close()
  session.close()
})

test('damaged bytes', { skip }, async () => {
  const session = await Session.create()
  const blob = session.dump()
  const text = (bytes) => new Uint8Array(Buffer.from(bytes, 'latin1'))
  const changed = Uint8Array.from(blob)
  changed[200] ^= 1
  const damaged = [text(''), blob.slice(0, 10), blob.slice(0, -1), changed, text('MEMBPY1\n\xff\xff\xff\xff'), text('MEMBPY1\n\x02\0\0\0[]')]
  for (const bytes of [...damaged, 'no bytes', null]) assert.throws(() => load(bytes), MembraneError)
  session.close()
})
