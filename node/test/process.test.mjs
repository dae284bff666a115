// Tests sessions and the process: one that ends while a turn runs, worker threads, and a package without the engine.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { noPython } from './common.mjs'

const skip = noPython
const node = fileURLToPath(new URL('..', import.meta.url))

function ran(program, cwd = node) {
  const { status, signal, stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', program], { cwd, encoding: 'utf8' })
  return { status, signal, stdout, stderr }
}

test('a process ends while a turn runs', { skip }, () => {
  const program = (end) => `
    import { Session } from 'membrane'
    const session = await Session.create('python', { limits: { wall: '10min', fuel: '1e15' }, functions: { f: () => new Promise(() => {}) },
      onStdout: () => { console.log('begun'); ${end} } })
    session.run("print('begun', flush=True)\\nwhile True: pass")
  `
  assert.deepEqual(ran(program('process.exit(3)')), { status: 3, signal: null, stdout: 'begun\n', stderr: '' })
  assert.match(ran(program("throw new Error('heard')").replace('while True: pass', '1')).stderr, /heard/)
})

test('a process ends while a turn waits for a function', { skip }, () => {
  const program = `
    import { Session } from 'membrane'
    const session = await Session.create('python', { functions: { f: () => { process.exit(4) } } })
    await session.run('f()')
  `
  assert.deepEqual(ran(program), { status: 4, signal: null, stdout: '', stderr: '' })
})

test('an open session does not keep the process alive, and a turn does', { skip }, () => {
  const program = `
    import { Session } from 'membrane'
    const session = await Session.create('python', { idleTimeout: '10m' })
    session.run('sum(range(1000000))').then((result) => console.log(result.text))
  `
  assert.deepEqual(ran(program), { status: 0, signal: null, stdout: '499999500000\n', stderr: '' })
})

test('worker threads have sessions of their own, and end while one runs', { skip }, () => {
  const program = `
    import { Worker } from 'node:worker_threads'
    import { Session } from 'membrane'
    const source = \`
      import { parentPort } from 'node:worker_threads'
      import { Session } from 'membrane'
      const session = await Session.create('python', { limits: { wall: '10min', fuel: '1e15' }, functions: { f: async (n) => n + 1 } })
      parentPort.postMessage((await session.run('await f(41)')).text)
      session.run('while True: pass')
    \`
    const worker = new Worker(source, { eval: true, execArgv: ['--input-type=module'] })
    worker.on('message', async (text) => {
      console.log(text)
      await worker.terminate()
      const session = await Session.create('python')
      console.log((await session.run('6 * 7')).text)
      session.close()
    })
    worker.on('error', (error) => console.log(error))
  `
  assert.deepEqual(ran(program), { status: 0, signal: null, stdout: '42\n42\n', stderr: '' })
})

test('worker threads come and go where the main thread has no session', { skip }, () => {
  const program = `
    import { Worker } from 'node:worker_threads'
    const source = \`
      import { parentPort } from 'node:worker_threads'
      import { Session } from 'membrane'
      const make = () => Session.create('python', { limits: { wall: '10min', fuel: '1e15' }, functions: { f: async (n) => n + 1 } })
      const sessions = await Promise.all([make(), make(), make(), make()])
      for (const session of sessions.slice(1)) session.run('while True: pass')
      parentPort.postMessage('begun')
      for (;;) await sessions[0].run('await f(1)')
    \`
    for (let i = 0; i < 8; ++i) {
      const worker = new Worker(source, { eval: true, execArgv: ['--input-type=module'] })
      await new Promise((resolve) => worker.on('message', resolve))
      await worker.terminate()
    }
    console.log('over')
  `
  assert.deepEqual(ran(program), { status: 0, signal: null, stdout: 'over\n', stderr: '' })
})

test('without the engine, the package is a client of services', () => {
  const package_ = mkdtempSync(join(tmpdir(), 'membrane-'))
  try {
    cpSync(join(node, 'package.json'), join(package_, 'package.json'))
    cpSync(join(node, 'dist'), join(package_, 'dist'), { recursive: true, filter: (path) => !path.endsWith('.node') })
    const program = `
      import { load, MembraneError, Sandbox, Session } from 'membrane'
      const errors = [await Session.create('python').catch((error) => error)]
      try { load(new Uint8Array()) } catch (error) { errors.push(error) }
      for (const error of errors) console.log(error instanceof MembraneError, error.code, error.hint !== '')
      console.log(typeof Sandbox.create)
    `
    const expected = 'true no_engine true\ntrue no_engine true\nfunction\n'
    assert.deepEqual(ran(program, package_), { status: 0, signal: null, stdout: expected, stderr: '' })
  } finally {
    rmSync(package_, { recursive: true })
  }
})
