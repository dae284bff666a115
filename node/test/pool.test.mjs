// Tests pools of sessions.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { BusyError, MembraneError, Pool, Session, SessionOverError } from 'membrane'
import { later, noJavaScript, noPython } from './common.mjs'

const skip = noPython

async function withPool(options, act) {
  const pool = await Pool.create('python', options)
  try {
    await act(pool)
  } finally {
    await pool.close()
  }
}

async function until(holds) {
  while (!holds()) await new Promise(setImmediate)
}

const isBusy = (error) => error instanceof BusyError && error.code === 'pool_busy' && error.retryable && /maxSessions/.test(error.hint)

test('sessions share nothing', { skip }, () =>
  withPool({ size: 2, functions: { price: () => 350 } }, async (pool) => {
    for (let i = 0; i < 5; ++i) {
      const session = await pool.session()
      assert.equal((await session.run("'secret' in globals(), price('tea')")).text, '(False, 350)')
      ;(await session.run("secret = 1\nopen('/tmp/secret', 'w').close()")).check()
      assert.deepEqual(session.files.list().map((each) => each.path), ['/tmp/secret'])
      session.close()
      await assert.rejects(session.run('1'), SessionOverError)
    }
  }))

test('a session is like any new one', { skip }, async () => {
  const code = 'import random\nprint(random.random())\n1 / 0'
  const session = await Session.create('python')
  const alone = await session.run(code)
  session.close()
  await withPool({ size: 1 }, async (pool) => {
    const pooled = await (await pool.session()).run(code)
    assert.deepEqual([pooled.fuelUsed, pooled.stdout, pooled.error.traceback], [alone.fuelUsed, alone.stdout, alone.error.traceback])
  })
})

test('unused sessions call nothing', { skip }, async () => {
  const asked = []
  const entropy = (count) => {
    asked.push(count)
    return new Uint8Array(count)
  }
  const clock = () => {
    asked.push('clock')
    return 0
  }
  await withPool({ size: 2, clock, timezone: '+02:00', entropy }, async (pool) => {
    await until(() => pool.counts().ready === 2)
    assert.deepEqual(asked, [])
    const session = await pool.session()
    assert.equal((await session.run('import time; time.localtime().tm_hour')).text, '2')
    assert.ok(asked.includes('clock'))
  })
})

test('a pool is refilled', { skip }, () =>
  withPool({ size: 3 }, async (pool) => {
    const taken = await Promise.all(Array.from({ length: 7 }, () => pool.session()))
    assert.equal(new Set(taken).size, 7)
    await until(() => pool.counts().ready === 3)
    assert.deepEqual(pool.counts(), { ready: 3, used: 7, waiting: 0 })
    for (const each of taken) each.close()
    assert.equal(pool.counts().used, 0)
  }))

test('none made ahead, and another language', { skip: noPython || noJavaScript }, async () => {
  await withPool({ size: 0 }, async (pool) => {
    assert.deepEqual(pool.counts(), { ready: 0, used: 0, waiting: 0 })
    assert.equal((await (await pool.session()).run('1')).text, '1')
  })
  const pool = await Pool.create('js', { size: 1 })
  assert.equal((await (await pool.session()).run('1 + 1')).text, '2')
  await pool.close()
})

test('a bound, and a time limit', { skip }, () =>
  withPool({ maxSessions: 1 }, async (pool) => {
    assert.equal(pool.size, 1)
    const session = await pool.session()
    await assert.rejects(pool.session({ timeout: 0 }), isBusy)
    session.close()
    session.close()
    const other = await pool.session({ timeout: 0 })
    await assert.rejects(pool.session({ timeout: '10ms' }), isBusy)
    other.close()
    ;(await pool.session({ timeout: Infinity })).close()
    assert.deepEqual([pool.counts().used, pool.counts().waiting], [0, 0])
  }))

test('callers wait in turn', { skip }, () =>
  withPool({ maxSessions: 2 }, async (pool) => {
    const order = []
    const first = await Promise.all([pool.session(), pool.session()])
    const all = Array.from({ length: 5 }, async (_, i) => {
      const session = await pool.session()
      order.push(i)
      session.close()
    })
    assert.equal(pool.counts().waiting, 5)
    first[0].close()
    await Promise.all(all)
    assert.deepEqual(order, [0, 1, 2, 3, 4])
    first[1].close()
  }))

test('a caller that stops waiting takes no place', { skip }, () =>
  withPool({ maxSessions: 1 }, async (pool) => {
    const held = await pool.session()
    const controllers = [0, 1, 2].map(() => new AbortController())
    const waiting = controllers.map(({ signal }) => pool.session({ signal }))
    const late = pool.session({ timeout: '5ms' })
    controllers[0].abort(new Error('enough'))
    await assert.rejects(waiting[0], /enough/)
    await assert.rejects(late, isBusy)
    held.close()
    controllers[1].abort() // at the moment when it gets its place, which is then passed on
    ;(await waiting[1]).close()
    ;(await waiting[2]).close()
    assert.deepEqual([pool.counts().used, pool.counts().waiting], [0, 0])
    await assert.rejects(pool.session({ signal: AbortSignal.abort() }), { name: 'AbortError' })
  }))

test('forks count', { skip }, () =>
  withPool({ size: 1, maxSessions: 2 }, async (pool) => {
    const session = await pool.session()
    await session.run('x = 1')
    const branch = session.fork()
    assert.equal(pool.counts().used, 2)
    for (const each of [session, branch]) assert.throws(() => each.fork(), isBusy)
    assert.equal((await branch.run('x')).text, '1')
    const waiting = pool.session()
    session.close()
    const next = await waiting
    assert.throws(() => branch.fork(), isBusy)
    branch.close()
    const other = next.fork()
    assert.equal(pool.counts().used, 2)
    for (const each of [next, other]) each.close()
    assert.equal(pool.counts().used, 0)
  }))

test('sessions that end otherwise', { skip }, async () => {
  await withPool({ size: 1, maxSessions: 1, lifetime: 0 }, async (pool) => {
    const session = await pool.session()
    ;(await pool.session()).close() // the lifetime of the first has passed
    await assert.rejects(session.run('1'), SessionOverError)
  })
  await withPool({ size: 1, maxSessions: 1, idleTimeout: '1ms' }, async (pool) => {
    const session = await pool.session()
    ;(await pool.session()).close()
    await assert.rejects(session.run('1'), /idle/)
  })
  await withPool({ size: 1, maxSessions: 1 }, async (pool) => {
    await (async () => void (await (await pool.session()).run('1')))() // and is forgotten
    let isTaken = false
    const next = pool.session().then((session) => {
      isTaken = true
      return session
    })
    while (!isTaken) {
      globalThis.gc()
      await new Promise(setImmediate)
    }
    ;(await next).close()
  })
})

test('a lifetime begins when a session is taken', { skip }, () =>
  withPool({ size: 1, lifetime: 0 }, async (pool) => {
    await until(() => pool.counts().ready === 1)
    await new Promise((resolve) => setTimeout(resolve)) // after the timers of ready sessions, if they had any
    const session = await pool.session()
    assert.equal(session.runSync('1').text, '1')
    await until(() => pool.counts().used === 0)
    await assert.rejects(session.run('1'), SessionOverError)
  }))

test('a fork has the lifetime and idle time of its session', { skip }, () =>
  withPool({ size: 1, lifetime: 0 }, async (pool) => {
    const branch = (await pool.session()).fork()
    assert.equal(pool.counts().used, 2)
    await until(() => pool.counts().used === 0)
    await assert.rejects(branch.run('1'), SessionOverError)
  }))

test('a program ends while sessions are made', { skip }, () => {
  const program = "import { Pool } from 'membrane'\nconst pool = await Pool.create('python', { size: 10 })\nconst session = await pool.session()\n"
  for (const end of ['process.exit()', ''])
    for (let i = 0; i < 3; ++i) {
      const options = { cwd: new URL('..', import.meta.url), encoding: 'utf8' }
      const { status, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', program + end], options)
      assert.deepEqual([status, stderr], [0, ''], end)
    }
})

test('many at once', { skip }, async () => {
  let now = 0
  let most = 0
  const price = async () => 350
  await withPool({ size: 2, maxSessions: 3, functions: { price } }, async (pool) => {
    const texts = Array.from({ length: 60 }, async (_, i) => {
      const session = await pool.session()
      most = Math.max(most, ++now)
      const result = await session.run(`await price() + ${i}`)
      --now
      session.close()
      return result.text
    })
    assert.deepEqual(await Promise.all(texts), Array.from({ length: 60 }, (_, i) => `${350 + i}`))
    assert.equal(most, 3)
  })
})

test('closing', { skip }, async () => {
  const pool = await Pool.create('python', { size: 2, maxSessions: 2 })
  const sessions = [await pool.session(), await pool.session()]
  const isClosed = (error) => error instanceof MembraneError && error.code === 'pool_closed' && error.hint !== ''
  const waiting = assert.rejects(pool.session(), isClosed)
  await Promise.all([pool.close(), pool.close()])
  await waiting
  await assert.rejects(pool.session(), isClosed)
  assert.equal((await sessions[0].run('1')).text, '1')
  for (const each of sessions) each.close()
  assert.deepEqual(pool.counts(), { ready: 0, used: 0, waiting: 0 })
})

test('it is closed by its symbol', { skip }, async () => {
  const pool = await Pool.create('python', { size: 1 })
  await pool[Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')]()
  await assert.rejects(pool.session(), { code: 'pool_closed' })
})

test('a forgotten pool is released', { skip }, async () => {
  const gone = await (async () => new WeakRef(await Pool.create('python', { size: 1 })))()
  while (gone.deref()) {
    await new Promise(setImmediate) // what deref() returned stays alive until then
    globalThis.gc()
    await new Promise(setImmediate)
  }
})

test('wrong options', { skip }, async () => {
  await assert.rejects(Pool.create('python', { limits: { patience: 1 } }), MembraneError)
  await assert.rejects(Pool.create('python', { patience: 1 }), TypeError)
  await assert.rejects(Pool.create('no-such-language'), MembraneError)
  await assert.rejects(Pool.create('python', { lifetime: 'long' }), { code: 'invalid_argument' })
  for (const sizes of [{ size: -1 }, { size: 1.5 }, { maxSessions: 0 }, { maxSessions: '2' }, { size: 3, maxSessions: 2 }])
    await assert.rejects(Pool.create('python', sizes), RangeError, JSON.stringify(sizes))
})

test('functions of a pool are called in the caller’s context', { skip }, async () => {
  const { AsyncLocalStorage } = await import('node:async_hooks')
  const user = new AsyncLocalStorage()
  await withPool({ functions: { me: () => user.getStore() } }, async (pool) => {
    const ask = async () => {
      const session = await pool.session()
      const said = (await session.run('me()')).text
      session.close()
      return said
    }
    assert.deepEqual(await Promise.all(['ada', 'bob'].map((name) => user.run(name, ask))), ["'ada'", "'bob'"])
  })
})

test('a running turn keeps its place until its session is closed', { skip }, async () => {
  const held = later()
  await withPool({ maxSessions: 1, functions: { f: () => held.promise } }, async (pool) => {
    const session = await pool.session()
    const turn = session.run('f()')
    await assert.rejects(pool.session({ timeout: 0 }), isBusy)
    held.resolve(1)
    assert.equal((await turn).text, '1')
    session.close()
    ;(await pool.session({ timeout: 0 })).close()
  })
})
