// The package's types, as a program in TypeScript meets them.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc')

const program = `
import { Call, Flows, HostObject, LATER, load, Pool, Receipts, Session, stubs } from 'membrane'
import type { Approve, Ask, Finding, Model, ModelRequest, Gate, PoolOptions, Result, SessionOptions, TakeOptions, TypeCheck } from 'membrane'

const typeCheck: TypeCheck = { checker: '/usr/bin/ty', timeout: '5s', beforeRuns: false, paths: [], stubs: { a: '' } }
const options: PoolOptions = { size: 1, maxSessions: 2, typeCheck, idleTimeout: '1m', functions: { price: (item: string) => item.length } }
await using pool = await Pool.create('python', options)
const take: TakeOptions = { timeout: 1, signal: AbortSignal.timeout(5) }
using session = await pool.session(take)
const found: readonly Finding[] = (await session.check('1')).findings
const end: Result | Call = await session.start('f()')
const name: string = end instanceof Call ? end.name : end.outcome
const account = new HostObject({ b: 1, c() {} }, { methods: { c: { signature: '() -> None' } }, attributes: { b: 'int' } })
const text: string = stubs({ inputs: { account } }) + session.stubs() + new HostObject({ b: 1 }, { attributes: ['b'] }).attributes.join()
const gate: Gate = async ({ args, named }) => (named?.['to'] === 'Ada' || args.length > 0 ? LATER : false)
const loaded: Call | Session = load(session.dump(), { gate, inputs: { account } })
const waits: Call | undefined = loaded instanceof Session ? loaded.waiting : loaded
const approve: Approve = async ({ privateReads, signal }) => privateReads.first.length < 3 && !signal.aborted
const model: Model = { complete: async ({ prompt, maxTokens }: ModelRequest) => ({ text: prompt, tokensOut: maxTokens }), embed: (text) => [text.length] }
const ask: Ask = (question, { timeoutMs }) => question + timeoutMs.toFixed()
const flows = new Flows()
const sealed: SessionOptions = { approve, flows, model, ask, receipts: new Receipts('/tmp/receipts', { makesKey: true }) }
const receipt: string | undefined = (await (await Session.create('js', sealed)).run('1')).receipt
console.log(receipt, flows.isClosed, flows.untrustedReads.more.toFixed())
console.log(waits?.named, found[0]?.line.toFixed(), name, text, pool.counts().waiting.toFixed())
// @ts-expect-error: no such option
await Pool.create('python', { patience: 1 })
// @ts-expect-error: a gate gives no text
await Session.create('python', { gate: () => 'yes' })
// @ts-expect-error: approve gives no text
await Session.create('python', { approve: () => 'yes' })
// @ts-expect-error: what is sealed is not loaded
load(new Uint8Array(), { receipts: new Receipts('/tmp/receipts') })
// @ts-expect-error: no function
await Session.create('python', { functions: { f: 5 } })
`

test('a program is typed', { skip: !existsSync(tsc) && 'there is no tsc' }, () => {
  const folder = mkdtempSync(join(root, 'typed-'))
  try {
    const path = join(folder, 'program.mts')
    writeFileSync(path, program)
    const options = ['--noEmit', '--strict', '--target', 'es2022', '--module', 'nodenext', '--lib', 'es2022,esnext.disposable', '--types', 'node']
    const { status, stdout } = spawnSync(process.execPath, [tsc, ...options, path], { encoding: 'utf8', cwd: root })
    assert.equal(status, 0, stdout)
  } finally {
    rmSync(folder, { recursive: true })
  }
})
