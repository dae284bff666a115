// Approval, a model, a person and receipts of a session: in this process, and in one of the session's own where the machine has the walls.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { Flows, LATER, load, MembraneError, Pool, Receipts, Session } from 'membrane'
import { later, noJavaScript, noPython } from './common.mjs'

// What is read of the store is private and of untrusted origin, and the model is the way out.
const policy = {
  ask: true,
  kv: { private: true, untrusted: true },
  ai: { embed: true },
  trifecta: { egress: 'ask' },
  limits: { fuel: '4e9', wall: '10 min' },
}
const read = "membrane.kv.set('k', 'secret'); membrane.kv.get('k')"
const send = "membrane.ai.complete('hello')"
const askIt = "membrane.agent.ask('Which year?')"
const caught = (code) => `try { ${code} } catch (e) { \`\${e.name}: \${e.message}\` }`
const echo = ({ prompt }) => `said ${prompt}`

async function whyNotIsolated() {
  if (noJavaScript) return noJavaScript
  try {
    ;(await Session.create('js', { isolated: true })).close()
    return false
  } catch (error) {
    if (error.code === 'not_found') throw error
    return error.message
  }
}
const places = [
  { isolated: false, skip: noJavaScript },
  { isolated: true, skip: await whyNotIsolated() },
]

async function warningsOf(act) {
  const heard = []
  const hear = (warning) => heard.push(warning.message)
  process.on('warning', hear)
  await act()
  await new Promise(setImmediate)
  process.off('warning', hear)
  return heard
}

function withFolder(act) {
  const folder = mkdtempSync(join(tmpdir(), 'membrane-'))
  const receipts = () => new Receipts(join(folder, 'receipts'), { keyFile: join(folder, 'keys.json'), makesKey: true })
  return Promise.resolve(act(folder, receipts)).finally(() => rmSync(folder, { recursive: true }))
}

for (const { isolated, skip } of places) {
  const here = (name) => `${name}${isolated ? ', isolated' : ''}`
  const withSession = async (options, act, language = 'js') => {
    const session = await Session.create(language, { policy, isolated, ...options })
    try {
      return await act(session)
    } finally {
      session.close()
    }
  }

  test(here('a yes is asked for before something leaves'), { skip }, async () => {
    const asked = []
    for (const approve of [(question) => !!asked.push(question), async (question) => !!asked.push(question)])
      await withSession({ approve, model: echo }, async (session) => {
        asked.length = 0
        assert.equal((await session.run(send)).text, "'said hello'")
        ;(await session.run(read)).check()
        assert.equal(asked.length, 0)
        assert.equal((await session.run(send)).text, "'said hello'")
        const [{ function: name, bytes, privateReads, untrustedReads, timeoutMs, signal }] = asked
        assert.deepEqual([name, bytes, privateReads.first[0].function, untrustedReads.more], ['ai.complete', 6, 'kv.get', 0])
        assert.ok(timeoutMs > 0 && timeoutMs <= 600_000 && signal instanceof AbortSignal && !signal.aborted)
      })
  })

  test(here('nothing leaves without a yes'), { skip }, async () => {
    const broken = () => {
      throw new Error('/home/of/mine')
    }
    const ways = [undefined, () => false, () => undefined, () => null, () => 1, () => 'yes', broken, async () => false, async () => broken()]
    for (const approve of ways) {
      const heard = []
      const warned = await warningsOf(() =>
        withSession({ ...(approve && { approve }), model: (request) => void heard.push(request) }, async (session) => {
          await session.run(read)
          const result = await session.run(send)
          assert.match(result.error.message, /trifecta rule/)
          assert.doesNotMatch(JSON.stringify(result.report), /of\/mine/)
        }),
      )
      assert.equal(heard.length, 0)
      if (approve === broken) assert.match(warned.join(), /approve.*of\/mine/)
    }
  })

  test(here('flows are shared'), { skip }, async () => {
    const flows = new Flows()
    await withSession({ flows }, (reads) =>
      withSession({ flows, model: echo }, (sends) =>
        withSession({ model: echo }, async (apart) => {
          assert.equal(flows.isClosed, false)
          assert.ok((await sends.run(send)).ok)
          ;(await reads.run(read)).check()
          assert.equal(flows.isClosed, true)
          assert.deepEqual([flows.privateReads.first[0].function, flows.untrustedReads.first.length], ['kv.get', 1])
          assert.match((await sends.run(send)).error.message, /trifecta rule/)
          assert.ok((await apart.run(send)).ok)
        }),
      ),
    )
  })

  test(here('a model answers'), { skip }, async () => {
    const heard = []
    const complete = async (request) => (heard.push(request), { text: echo(request), tokensIn: 3, tokensOut: 2 })
    const model = { complete, embed: (text) => [text.length, 0.5] }
    await withSession({ model, limits: { tokens: 9 } }, async (session) => {
      assert.equal((await session.run(send)).text, "'said hello'")
      assert.equal((await session.run("JSON.parse(membrane.ai.embed('four'))")).text, '[ 4, 0.5 ]')
      const branch = session.fork()
      assert.equal((await branch.run(send)).text, "'said hello'")
      branch.close()
      assert.equal((await session.run(`${send}; ${send}; ${send}`)).outcome, 'raised')
    })
    const [{ prompt, system, maxTokens, timeoutMs }] = heard
    assert.deepEqual([prompt, system, maxTokens > 0, timeoutMs > 0], ['hello', '', true, true])
  })

  test(here('how a model failed is told'), { skip }, async () => {
    const throws = (error) => () => {
      throw error
    }
    const ways = [
      [throws(new MembraneError('asleep', { code: 'ETIMEDOUT' })), /TimeoutError/],
      [async () => throws(new DOMException('asleep', 'TimeoutError'))(), /TimeoutError/],
      [throws(new RangeError('too many requests')), /too many requests/],
      [throws('a text'), /a text/],
      [throws(null), /null/],
      [() => readFile('/home/of/mine/key'), /ENOENT of open/],
      [() => readFileSync('/home/of/mine/key'), /ENOENT of open/],
      [() => fetch('http://127.0.0.1:4'), /ECONNREFUSED of connect \(ECONNECT\)/],
      [() => fetch('http://127.0.0.1:1'), /fetch failed: .*ECONNECT/],
      [() => Promise.reject(Object.assign(new TypeError('fetch failed'), { cause: Object.assign(new Error('late'), { code: 'UND_ERR_HEADERS_TIMEOUT' }) })), /TimeoutError/],
      [{ embed: () => [] }, /completes no text/],
    ]
    for (const [model, said] of ways)
      await withSession({ model }, async (session) => {
        const result = await session.run(caught(send))
        assert.match(result.text, said)
        assert.doesNotMatch(JSON.stringify(result.report), /of\/mine|agents\.test/)
      })
    await withSession({}, async (session) => assert.equal((await session.run(send)).outcome, 'raised'))
  })

  test(here('what a model may not give is told to both'), { skip }, async () => {
    const embed = (embed) => ({ embed })
    const ways = [() => 7, () => undefined, () => ({ text: 7 }), () => ({ text: 'a', tokensIn: -1 }), embed(() => 'ab'), embed(() => [NaN]), embed(() => new DataView(new ArrayBuffer(8)))]
    for (const model of ways) {
      const warned = await warningsOf(() =>
        withSession({ model }, async (session) =>
          assert.equal((await session.run(typeof model === 'function' ? send : "membrane.ai.embed('a')")).outcome, 'raised'),
        ),
      )
      assert.match(warned.join(), /gave something else/)
    }
  })

  test(here('the end of a turn ends the wait'), { skip }, async () => {
    const begun = later()
    const ended = later()
    const model = ({ signal }) => {
      signal.addEventListener('abort', () => ended.resolve())
      begun.resolve()
      return new Promise(() => {})
    }
    await withSession({ model }, async (session) => {
      const turn = session.run(send)
      await begun.promise
      session.cancel()
      assert.equal((await turn).outcome, 'cancelled')
      await ended.promise
      assert.equal((await session.run('1 + 1')).text, '2')
    })
    await withSession({ model: () => new Promise(() => {}), limits: { wall: '300ms' } }, async (session) =>
      assert.ok(['timed_out', 'raised'].includes((await session.run(send)).outcome)),
    )
    const aborted = later()
    const slow = ({ signal }) => (signal.addEventListener('abort', () => aborted.resolve(true)), new Promise(() => {}))
    await withSession({ model: slow, policy: { ai: { timeout: '100ms' } } }, async (session) => {
      assert.match((await session.run(caught(send))).text, /TimeoutError/)
      assert.ok(await aborted.promise)
    })
  })

  test(here('a model cannot use the session that asks'), { skip }, async () => {
    let session
    const codes = []
    const refused = (error) => void codes.push(error.code)
    const model = async () => {
      await session.run('1').catch(refused)
      try {
        session.dump()
      } catch (error) {
        refused(error)
      }
      return 'done'
    }
    await withSession({ model }, async (made) => {
      session = made
      assert.equal((await session.run(send)).text, "'done'")
    })
    assert.deepEqual(codes, ['busy', 'busy'])
  })

  test(here('an approve that gives a promise is for run()'), { skip }, () =>
    withSession({ approve: async () => true, model: echo }, async (session) => {
      const warned = await warningsOf(async () => {
        session.runSync(read)
        assert.match(session.runSync(send).error.message, /trifecta rule/)
      })
      assert.match(warned.join(), /which runSync\(\) cannot await: use run\(\)/)
      assert.equal((await session.run(send)).text, "'said hello'")
    }))

  test(here('runSync asks for answers at once'), { skip }, () =>
    withSession({ approve: () => true, model: { complete: echo, embed: async () => [1] }, ask: () => '1984' }, async (session) => {
      session.runSync(read)
      assert.equal(session.runSync(send).text, "'said hello'")
      assert.equal(session.runSync(askIt).text, "'1984'")
      assert.match(session.runSync(caught("membrane.ai.embed('a')")).text, /not runSync/)
    }),
  )

  test(here('a person answers, also through load() and pools'), { skip: skip || noPython }, async () => {
    const heard = []
    const ask = async (question, { timeoutMs }) => (heard.push([question, timeoutMs > 0]), '1984')
    const plain = { policy: { ask: true, ai: {} }, isolated }
    await withSession({ ...plain, ask }, async (session) => assert.equal((await session.run(askIt)).text, "'1984'"))
    assert.deepEqual(heard, [['Which year?', true]])
    const bytes = await withSession(plain, async (session) => {
      assert.equal((await session.run(askIt)).outcome, 'raised')
      return session.dump()
    })
    const again = load(bytes, { ...plain, ask, model: echo })
    assert.equal((await again.run(`${askIt} + ${send}`)).text, "'1984said hello'")
    again.close()
    const waits = await withSession(plain, async (session) => (await session.start("from membrane import agent\nf() + agent.ask('x')")).dump(), 'python')
    const call = load(waits, { ...plain, ask, functions: { f: LATER } })
    assert.equal((await call.resume('a')).text, "'a1984'")
    call.session.close()
    const pool = await Pool.create('js', { size: 1, ...plain, ask })
    const session = await pool.session()
    assert.equal((await session.run(askIt)).text, "'1984'")
    session.close()
    await pool.close()
  })

  // By a program that has nothing of Membrane; it is beside the package where that is in the project.
  const verified = (folder, receipt) => {
    const keys = JSON.parse(readFileSync(join(folder, 'keys.json'), 'utf8')).keys.map(({ private_key: _, ...key }) => key)
    const published = join(folder, 'published.json')
    writeFileSync(published, JSON.stringify({ membrane_public_keys: 1, keys }))
    const program = fileURLToPath(new URL('../../tools/verify-receipt', import.meta.url))
    return spawnSync('python3', ['-B', program, '--keys', published, receipt], { encoding: 'utf8' })
  }

  test(here('each turn is sealed'), { skip }, () =>
    withFolder((folder, receipts) =>
      withSession({ receipts: receipts(), model: echo }, async (session) => {
        const first = await session.run('var x = 20; membrane.ai.complete("hello")')
        session.files.write('/given.txt', '22')
        const second = session.runSync("x + Number(require('fs').readFileSync('/given.txt', 'utf8'))")
        assert.equal(second.text, '42')
        const failed = await session.run("throw new RangeError('no')")
        for (const { receipt, unsealed } of [first, second, failed]) {
          assert.deepEqual([dirname(receipt), unsealed], [join(folder, 'receipts'), undefined])
          const { status, stderr } = verified(folder, receipt)
          assert.deepEqual([status, stderr], [0, ''])
          assert.equal(statSync(`${receipt}.private`).mode & 0o077, 0)
        }
        writeFileSync(first.receipt, readFileSync(first.receipt, 'utf8').replace('"ok"', '"no"'))
        assert.match(verified(folder, first.receipt).stdout, /has been changed/)
      }),
    ),
  )

  test(here('pools seal only turns of their users'), { skip }, () =>
    withFolder(async (folder, receipts) => {
      const pool = await Pool.create('js', { size: 1, isolated, receipts: receipts() })
      const session = await pool.session()
      const { receipt } = await session.run('1')
      session.close()
      await pool.close()
      assert.deepEqual(readdirSync(join(folder, 'receipts')).filter((each) => !each.endsWith('.private')), [basename(receipt)])
    }),
  )

  test(here('what receipts do not lead to is refused'), { skip }, () =>
    withFolder(async (_, receipts) => {
      for (const more of [{ functions: { f: () => 1 } }, { inputs: { n: 1 } }, { clock: 'real' }, { timezone: '+02:00' }, { entropy: 7 }])
        await assert.rejects(Session.create('js', { receipts: receipts(), isolated, ...more }), { code: 'unsupported' })
      await withSession({ receipts: receipts() }, async (session) => {
        await session.run('var x = 1')
        assert.throws(() => session.fork(), /sealed/)
        assert.equal((await session.check('x')).ok, false)
        assert.equal((await session.run('x')).text, '1')
        assert.throws(() => load(session.dump(), { receipts: receipts() }), TypeError)
      })
    }),
  )

  test(here('why a turn is not sealed'), { skip }, () =>
    withFolder(async (folder, receipts) => {
      const book = receipts()
      await withSession({ receipts: book }, async (session) => {
        await session.run('var x = 40')
        assert.equal(book.problem, undefined)
        renameSync(join(folder, 'receipts'), join(folder, 'elsewhere'))
        writeFileSync(join(folder, 'receipts'), 'no directory')
        const result = await session.run('x + 2')
        assert.deepEqual([result.text, result.receipt], ['42', undefined])
        assert.ok(result.unsealed instanceof MembraneError)
        assert.equal(book.problem.message, result.unsealed.message)
      })
    }),
  )
}

test('hints say what to give the session', { skip: noJavaScript }, async () => {
  const granted = { ai: { embed: true }, ask: true }
  for (const [code, options, said] of [
    [send, {}, 'allow: ["ai"], with model'],
    [askIt, { ask: () => '' }, 'allow: ["ask"], with ask'],
    [send, { policy: granted }, 'model, a function'],
    ["membrane.ai.embed('x')", { policy: granted, model: echo }, 'model: { complete, embed }'],
    [askIt, { policy: granted }, 'ask, a function'],
    [`${read}; ${send}`, { policy, model: echo }, 'approve, a function'],
  ]) {
    const session = await Session.create('js', options)
    const { error } = await session.run(code)
    assert.ok(error.hint.includes(said), `${said}: ${error.message} ${error.hint}`)
    session.close()
  }
})

test('options that are none are refused', { skip: noJavaScript }, async () => {
  for (const wrong of [{ approve: true }, { model: 'gpt' }, { model: { complete: 7 } }, { ask: 'me' }, { flows: [] }, { receipts: '/tmp' }])
    await assert.rejects(Session.create('js', wrong), TypeError, JSON.stringify(wrong))
  await withFolder((folder) =>
    assert.throws(() => new Receipts(join(folder, 'receipts'), { keyFile: join(folder, 'none.json') }), { code: 'not_found', hint: /none\.json has none: .*makesKey: true/ }),
  )
})

test('a program that writes its own request is asked for as well', { skip: noPython }, async () => {
  const asked = []
  const session = await Session.create('python', { policy, approve: (question) => void asked.push(question), model: echo })
  ;(await session.run("from membrane import ai, kv, _door\nkv.set('k', 's'); kv.get('k')\nimport json")).check()
  for (const call of ['{"call": "ai.complete", "args": ["x"]}', '{"approve": 1}', '[]', '7'])
    assert.doesNotMatch((await session.run(`try: said = _door.exchange(json.dumps(${call}).encode())\nexcept Exception as e: said = ''\nsaid`)).text, /said/)
  assert.match((await session.run("ai.complete('x' * 100_000)")).error.message, /trifecta/)
  assert.ok(asked.length > 0 && asked.every((each) => each.function === 'ai.complete'))
  session.close()
})
