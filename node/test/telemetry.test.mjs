// Tests spans and metrics of sessions with OpenTelemetry's SDK in memory.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { context, metrics, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { AggregationTemporality, InMemoryMetricExporter, MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics'
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base'
import { HostObject, LATER, Pool, Session } from 'membrane'
import { noPython } from './common.mjs'

const skip = noPython
const mark = 'chosen_by_the_guest'
const spans = new InMemorySpanExporter()
const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE)
const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 2 ** 31 - 1 })

// A session that is older than the providers counts, too.
const before = skip ? undefined : await Session.create()
await before?.run('1')
context.setGlobalContextManager(new AsyncLocalStorageContextManager())
trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] }))
metrics.setGlobalMeterProvider(new MeterProvider({ readers: [reader] }))

/** Returns the current values by the metric's name. */
async function points() {
  const { resourceMetrics, errors } = await reader.collect()
  assert.deepEqual(errors, [])
  const ours = resourceMetrics.scopeMetrics.filter((each) => each.scope.name === 'membrane')
  return new Map(ours.flatMap((each) => each.metrics).map((each) => [each.descriptor.name, each]))
}

async function total(name, attributes = {}) {
  const found = (await points()).get(name)?.dataPoints ?? []
  const wanted = found.filter((each) => Object.entries(attributes).every(([key, value]) => each.attributes[key] === value))
  return wanted.reduce((sum, { value }) => sum + (typeof value === 'number' ? value : value.count), 0)
}

const finished = (name) => spans.getFinishedSpans().filter((each) => each.name === name)
const only = (name) => {
  const found = finished(name)
  assert.equal(found.length, 1, `${name} among ${spans.getFinishedSpans().map((each) => each.name)}`)
  return found[0]
}
const idOf = (span) => span.spanContext().spanId
const parentOf = (span) => span.parentSpanContext?.spanId
const within = (name, act) =>
  trace.getTracer('test').startActiveSpan(name, async (span) => {
    try {
      return await act()
    } finally {
      span.end()
    }
  })

async function withSession(options, act) {
  spans.reset()
  const session = await Session.create('python', options)
  try {
    await act(session)
  } finally {
    session.close()
  }
}

test('a session that is older than the providers', { skip }, async () => {
  spans.reset()
  ;(await before.run('1')).check()
  only('run python')
  assert.equal(await total('membrane.session.count'), 1)
  before.close()
})

test('a turn', { skip }, () =>
  withSession({ functions: { price: () => 350 } }, async (session) => {
    for (const run of ['run', 'runSync']) {
      spans.reset()
      const result = await session[run]("price('tea') * 2")
      const span = only('run python')
      assert.deepEqual(span.attributes, {
        'membrane.language': 'python',
        'membrane.outcome': 'ok',
        'membrane.fuel': result.fuelUsed,
        'membrane.memory.peak': result.report.memory_peak_bytes,
        'membrane.host_calls': 1,
      })
      assert.ok(result.report.memory_peak_bytes > 0)
      assert.deepEqual([span.kind, span.status.code], [SpanKind.INTERNAL, SpanStatusCode.UNSET])
      assert.deepEqual([span.instrumentationScope.name, span.instrumentationScope.version], ['membrane', '0.1.0'])
      assert.equal(parentOf(only('call price')), idOf(span))
    }
  }))

test('calls are children and parents', { skip }, async () => {
  const price = () => within('look up', () => 350)
  const rate = () => within('ask', async () => 1.5)
  await withSession({ functions: { price }, modules: { bank: { rate: { call: rate, async: true } } } }, async (session) => {
    const code = "import asyncio\nfrom bank import rate\nprice('tea')\nawait asyncio.gather(rate(), rate())"
    const branch = session.fork()
    await Promise.all([within('agent', () => session.run(code)), within('other agent', () => branch.run('price()'))])
    branch.close()
  })
  const runs = finished('run python')
  const childOf = (name, parents) => {
    const ids = parents.map(idOf)
    for (const each of finished(name)) assert.ok(ids.includes(parentOf(each)), name)
  }
  assert.deepEqual(new Set(runs.map(parentOf)), new Set([idOf(only('agent')), idOf(only('other agent'))]))
  assert.deepEqual(new Set(finished('call price').map(parentOf)), new Set(runs.map(idOf)))
  childOf('look up', finished('call price'))
  childOf('call bank.rate', runs)
  childOf('ask', finished('call bank.rate'))
  assert.equal(finished('call bank.rate').length, 2)
  assert.deepEqual(finished('call bank.rate')[0].attributes, { 'code.function.name': 'bank.rate' })
})

test('objects', { skip }, async () => {
  class Account {
    balance = 1
    deposit(amount) {
      return amount
    }
  }
  const account = new HostObject(new Account(), { methods: ['deposit'], attributes: ['balance'] })
  await withSession({ inputs: { account } }, async (session) => void (await session.run('account.deposit(1), account.balance')).check())
  only('call Account.deposit')
  only('call Account.balance')
})

test('failures', { skip }, async () => {
  class OwnError extends Error {}
  const functions = {
    fail: () => {
      throw new OwnError('the text of an error')
    },
    failLater: async () => {
      throw new TypeError('the text of an error')
    },
    len: () => 0,
  }
  await withSession({ functions, gate: (call) => call.name !== 'len', limits: { fuel: '2e9' } }, async (session) => {
    await session.run('fail()')
    await session.run('await failLater()')
    await session.run('len([])')
    await session.run('while True: pass')
    const error = await session.run('1', { signal: AbortSignal.abort() }).catch((error) => error)
    assert.equal(error.name, 'AbortError')
  })
  for (const [name, kind] of [['fail', 'OwnError'], ['failLater', 'TypeError'], ['len', 'PermissionError']])
    assert.equal(only(`call ${name}`).attributes['error.type'], kind)
  const runs = finished('run python').map((each) => each.attributes['error.type'])
  assert.deepEqual(runs, ['raised', 'raised', 'raised', 'out_of_fuel'])
  for (const each of spans.getFinishedSpans()) assert.deepEqual([each.status, each.events], [{ code: SpanStatusCode.ERROR }, []])
})

test('a turn that is aborted', { skip }, async () => {
  const functions = { never: () => new Promise(() => {}) }
  await withSession({ functions }, (session) => assert.rejects(session.run('never()', { signal: AbortSignal.timeout(20) })))
  assert.equal(only('run python').attributes['membrane.outcome'], 'cancelled')
})

test('calls that wait', { skip }, async () => {
  await withSession({ functions: { approve: LATER } }, async (session) => void (await (await session.start('approve(1)')).resume(true)))
  assert.equal(only('start python').attributes['membrane.outcome'], 'waiting')
  assert.equal(only('start python').status.code, SpanStatusCode.UNSET)
  assert.equal(only('resume python').attributes['membrane.outcome'], 'ok')
  assert.equal(only('call approve').attributes['membrane.outcome'], 'waiting')
})

test('no guest chooses a value', { skip }, async () => {
  class Box {
    open(name) {
      throw Object.assign(new Error(name), { name })
    }
  }
  const forged = `from membrane import _door\n_door.ask({'functions': [{'call': '${mark}', 'object': 1}, {'call': '${mark}'}]})`
  const inputs = { box: new HostObject(new Box(), { methods: ['open'] }) }
  await withSession({ functions: { echo: (each) => each }, inputs }, async (session) => {
    const codes = [
      `${mark} = '${mark}'\nprint(${mark})\necho(${mark})`,
      `raise type('${mark}', (Exception,), {})('${mark}')`,
      `box.open('${mark}')`,
      `echo(**{'${mark}': 1})`,
      forged,
      `open('/tmp/${mark}', 'w').close()`,
      `class ${mark}(Exception): pass\nraise ${mark}`,
    ]
    for (const code of codes) await session.run(code)
    await (await session.start(`${mark}2()`)).fail(new Error(mark))
  })
  const shown = spans.getFinishedSpans().map(({ name, attributes, events, status }) => ({ name, attributes, events, status }))
  const said = JSON.stringify([shown, [...(await points()).values()]])
  assert.match(said, /call echo/)
  assert.ok(!said.includes(mark))
})

test('turns by outcome', { skip }, async () => {
  const outcomes = ['ok', 'raised']
  const runs = () => Promise.all(outcomes.map((each) => total('membrane.session.runs', { 'membrane.outcome': each })))
  const was = await runs()
  const [fuel, took] = [await total('membrane.session.run.fuel'), await total('membrane.session.run.duration')]
  await withSession({}, async (session) => {
    for (const code of ['1', '1 / 0', '2']) await session.run(code)
  })
  assert.deepEqual(await runs(), [was[0] + 2, was[1] + 1])
  assert.deepEqual([await total('membrane.session.run.fuel'), await total('membrane.session.run.duration')], [fuel + 3, took + 3])
  const found = await points()
  const units = ['membrane.session.runs', 'membrane.session.run.duration', 'membrane.session.run.fuel']
  assert.deepEqual(units.map((each) => found.get(each).descriptor.unit), ['{run}', 's', '{fuel}'])
  assert.equal(found.get('membrane.session.run.duration').dataPoints[0].value.buckets.boundaries[0], 0.001)
  assert.equal(found.get('membrane.session.run.fuel').dataPoints[0].value.buckets.boundaries[1], 300_000)
})

test('functions by name', { skip }, async () => {
  const was = await total('membrane.function.duration', { 'code.function.name': 'cost' })
  await withSession({ functions: { cost: () => 350 } }, async (session) => void (await session.run("cost('a'), cost('b')")).check())
  assert.equal(await total('membrane.function.duration', { 'code.function.name': 'cost' }), was + 2)
})

test('open sessions', { skip }, async () => {
  const was = await total('membrane.session.count')
  const session = await Session.create()
  const branch = session.fork()
  assert.equal(await total('membrane.session.count', { 'membrane.language': 'python' }), was + 2)
  for (const each of [session, session, branch]) each.close()
  assert.equal(await total('membrane.session.count'), was)
  await (async () => void (await Session.create()))() // and is forgotten
  while ((await total('membrane.session.count')) > was) {
    globalThis.gc()
    await new Promise(setImmediate)
  }
})

test('pools', { skip }, async () => {
  const pool = await Pool.create('python', { size: 1, maxSessions: 1 })
  const session = await pool.session()
  assert.equal(await total('membrane.pool.session.count', { 'membrane.pool.session.state': 'used' }), 1)
  assert.equal(await total('membrane.pool.session.wait_time'), 1)
  session.close()
  await pool.close()
  assert.equal(await total('membrane.pool.session.count'), 0)
})

// -- without ----------------------------------------------------------------------------------------------------------

function ran(program) {
  const options = { cwd: new URL('..', import.meta.url), encoding: 'utf8' }
  const { status, stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', program], options)
  assert.deepEqual([status, stderr], [0, ''])
  return stdout
}
const use = "import { Session } from 'membrane'\nconst session = await Session.create('python', { functions: { f: () => 1 } })\n"
const end = "console.log((await session.run('f()')).check().text)\nsession.close()\n"

test('nothing is loaded', { skip }, () => {
  const loaded = "import { createRequire } from 'node:module'\nconst cache = () => Object.keys(createRequire(import.meta.url).cache)\n"
  assert.equal(ran(`${loaded}${use}${end}console.log(cache().filter((path) => path.includes('opentelemetry')).length)`), '1\n0\n')
})

test('no provider', { skip }, () => assert.equal(ran(`import '@opentelemetry/api'\n${use}${end}`), '1\n'))

test('a provider that another copy of the API has set, where there is no package', { skip }, () => {
  const hidden = "import Module from 'node:module'\nconst load = Module._load\nglobalThis[Symbol.for('opentelemetry.js.api.1')] = { version: '1.9.0' }\n" +
    "Module._load = (name, ...rest) => { if (name.startsWith('@opentelemetry')) throw new Error('not found'); return load(name, ...rest) }\n"
  assert.equal(ran(`${hidden}${use}${end}`), '1\n')
})

test('the package is a link to a folder without the API', { skip }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'app-'))
  const root = fileURLToPath(new URL('..', import.meta.url))
  for (const each of ['dist', 'package.json']) cpSync(join(root, each), join(folder, 'package', each), { recursive: true })
  mkdirSync(join(folder, 'app', 'node_modules'), { recursive: true })
  symlinkSync(join(folder, 'package'), join(folder, 'app', 'node_modules', 'membrane'))
  symlinkSync(join(root, 'node_modules', '@opentelemetry'), join(folder, 'app', 'node_modules', '@opentelemetry'))
  const providers = "import { trace } from '@opentelemetry/api'\nimport { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base'\n" +
    'const spans = new InMemorySpanExporter()\ntrace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] }))\n'
  writeFileSync(join(folder, 'app', 'main.mjs'), `${use}${providers}${end}console.log(spans.getFinishedSpans().map((each) => each.name).join())\n`)
  try {
    const { status, stdout, stderr } = spawnSync(process.execPath, [join(folder, 'app', 'main.mjs')], { encoding: 'utf8' })
    assert.deepEqual([status, stdout, stderr], [0, '1\ncall f,run python\n', ''])
  } finally {
    rmSync(folder, { recursive: true })
  }
})
