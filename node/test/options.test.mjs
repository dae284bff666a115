// Options of wrong kinds: each is a TypeError that says what is right, before anything is made.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { HostObject, openLanguage, Pool, Receipts, Session } from 'membrane'
import { noJavaScript, withSession } from './common.mjs'

const saysOf = (...words) => (error) => {
  assert.ok(error instanceof TypeError, `${error.name}: ${error.message}`)
  for (const each of words) assert.ok(error.message.includes(each), error.message)
  return true
}

test('the language comes first', async () => {
  await assert.rejects(Session.create({ functions: {} }), saysOf("the language comes first: Session.create('python', {…})", 'an Object'))
  await assert.rejects(Session.create(5), saysOf('the language comes first', 'a number'))
  await assert.rejects(Pool.create({ size: 1 }), saysOf("Pool.create('python', {…})"))
  await assert.rejects(openLanguage(5), saysOf("openLanguage('python', {…})"))
  assert.throws(() => new Receipts({}), saysOf('the directory comes first'))
})

test('a process ends after creations that fail', { skip: noJavaScript }, () => {
  const code = `
    import { engine } from './dist/native.js'
    import { openLanguage, Pool, Session } from 'membrane'
    const wrong = [
      () => Session.create({ functions: {} }), () => Session.create(5), () => Pool.create({ size: 1 }), () => openLanguage(5), () => engine().openLanguage(5),
      () => Session.create('nobody'), () => Session.create('js', { lifetime: 'soon' }), () => Session.create('js', { limits: { fule: 1 } }), () => Pool.create('js', { size: -1 }),
      () => Session.create('js', { inputs: { f: Promise.resolve(1) } }),
    ]
    let failed = 0
    for (const each of wrong) try { await each() } catch { ++failed }
    console.log(failed === wrong.length)`
  const ran = spawnSync(process.execPath, ['--input-type=module', '-e', code], { encoding: 'utf8', timeout: 60_000, cwd: new URL('..', import.meta.url) })
  assert.deepEqual([ran.status, ran.stdout.trim()], [0, 'true'], ran.stderr)
})

test('options of a session', { skip: noJavaScript }, async () => {
  const f = () => 1
  const wrong = {
    limits: [5, [1], { fuel: {} }], policy: [5, [1]], allow: [5, [5]], functions: [5, new Map([['f', f]])], modules: [5, { m: 5 }], types: [5, [5]], gate: [5],
    onStdout: [5], onStderr: ['x'], isolated: ['yes'], acceptedMissingWalls: [['x'], 'user_namespace'], inputs: [5, [1], new Map([['a', 1]]), new Date()],
    model: [5, {}, { complet: f }, { complete: 5 }], approve: [5], ask: ['x'], flows: [5],
  }
  for (const [name, values] of Object.entries(wrong))
    for (const value of values) await assert.rejects(Session.create('js', { [name]: value }), saysOf(name === 'modules' ? 'module' : name === 'model' && value.complete ? 'complete' : name))
  for (const options of [5, 'x', null, [], new Map()]) await assert.rejects(Session.create('js', options), saysOf('Session.create takes its options as an object'))
  await assert.rejects(Session.create('js', { functions: { f: 5 } }), saysOf('f is no function: a number'))
  await assert.rejects(Session.create('js', { functions: { f: { signature: '(a)' } } }), saysOf('f is no function: its call is undefined'))
  await assert.rejects(Session.create('js', { functions: { 'a-b': f } }), saysOf('"a-b" is no name'))
  await assert.rejects(Session.create('js', { functions: [() => 1] }), saysOf('"" is no name'))
  for (const signature of ['(a', 'nonsense', '(a, c=b"""', 5]) await assert.rejects(Session.create('js', { functions: { f: { call: f, signature } } }), saysOf('the signature of f'))
  for (const [value, members] of [[5, {}], [undefined, undefined], [{ x: 1 }, undefined], [{ x: 1 }, { method: ['x'] }], [{ x: 1 }, { methods: 'x' }]])
    assert.throws(() => new HostObject(value, members), saysOf('HostObject'))
  assert.throws(() => new Receipts('/nowhere', { keyfile: 'x' }), saysOf('keyfile'))
  ;(await Session.create('js', { limits: undefined, gate: undefined, functions: [f], allow: [] })).close()
})

test('options of a turn', { skip: noJavaScript }, () =>
  withSession({}, async (session) => {
    for (const options of [null, 'x', 5, []]) await assert.rejects(session.run('1', options), saysOf('run takes its options as an object'))
    for (const [name, value] of Object.entries({ signal: 5, stdin: 5, arguments: 'abc', script: 1, name: 5, inputs: new Map() }))
      await assert.rejects(session.run('1', { [name]: value }), saysOf(name))
    assert.throws(() => session.runSync('1', { arguments: [1] }), saysOf('arguments'))
    await assert.rejects(session.start('1', { signal: {} }), saysOf('signal'))
    assert.equal((await session.run('1', { signal: AbortSignal.timeout(60_000), stdin: undefined })).text, '1')
  }, 'js'))

test('a value that cannot pass names its input or function', { skip: noJavaScript }, () => {
  const gives = { late: async () => [Promise.resolve(1)], when: () => new Date(NaN), big: () => 2 ** 60 }
  return withSession({ functions: gives }, async (session) => {
    await assert.rejects(session.run('1', { inputs: { rows: [Promise.resolve(1)] } }), saysOf('the input rows', 'await it'))
    await assert.rejects(Session.create('js', { inputs: { when: new Date(NaN) } }), saysOf('the input when'))
    const late = (await session.run('await late()')).error
    assert.ok(late.code === 'TypeError' && late.message.includes('what late returned'), late.message)
    assert.match((await session.run('when()')).error.message, /what when returned/)
    assert.equal((await session.run('[big() === 2 ** 60, n === 2 ** 60]', { inputs: { n: 2 ** 60 } })).text, '[ true, true ]')
  }, 'js')
})
