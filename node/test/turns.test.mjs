// Tests turns of a session: results, errors, limits, files, output, stops, and the session's end.

import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { MembraneError, NotFoundError, ProgramError, Session, SessionOverError } from 'membrane'
import { inTime, later, noJavaScript, noPython, withSession } from './common.mjs'

const skip = noPython
const endless = { limits: { wall: '10min', fuel: '1e15' } }

test('state stays', { skip }, () =>
  withSession({}, async (session) => {
    ;(await session.run('x = 20')).check()
    const result = await session.run("print('said'); x + 22")
    assert.deepEqual([result.text, result.stdout, result.ok], ['42', 'said\n', true])
    assert.ok(result.fuelUsed > 0)
    assert.equal(session.runSync('x + 1').text, '21')
  }))

test('hints name options of this package', { skip }, () =>
  withSession({ limits: { fuel: '1e8' } }, async (session) => {
    assert.match((await session.run('while True: pass')).error.hint, /limits: \{ fuel: "400000000" \}/)
    const denied = await session.run("from membrane import http\nhttp.get('https://example.org/x')")
    assert.match(denied.error.hint, /allow: \["http:GET:https:\/\/example\.org\//)
  }))

test('granted files must exist, and a language has several names', { skip }, async () => {
  await assert.rejects(Session.create('python', { allow: 'fs:read:./no-such-directory' }), NotFoundError)
  const session = await Session.create('py')
  assert.equal((await session.run('6 * 7')).text, '42')
  session.close()
})

test('the wall limit ends a turn that waits for a promise', { skip }, () =>
  withSession({ limits: { wall: '300ms' }, functions: { never: { call: () => new Promise(() => {}), async: true } } }, async (session) => {
    assert.equal((await session.run('await never()')).outcome, 'timed_out')
    assert.equal((await inTime(session, '1')).text, '1')
  }))

test('a value has its forms', { skip }, () =>
  withSession({}, async (session) => {
    const result = await session.run("class T:\n  def _repr_html_(self): return '<b>t</b>'\nT()")
    assert.equal(result.value['text/html'], '<b>t</b>')
  }))

test('an error of the program is a result', { skip }, () =>
  withSession({}, async (session) => {
    for (const result of [await session.run('1 / 0'), session.runSync('1 / 0')]) {
      assert.deepEqual([result.ok, result.outcome, result.error.code], [false, 'raised', 'ZeroDivisionError'])
      assert.match(result.error.traceback, /<cell \d>/)
      assert.throws(() => result.check(), ProgramError)
    }
  }))

test('limits and grants', { skip }, async () => {
  await withSession({ limits: { fuel: '2e9' } }, async (session) => {
    await session.run('x = 1')
    assert.equal((await session.run('while True: pass')).outcome, 'out_of_fuel')
    assert.equal((await session.run('x')).text, '1')
  })
  const hasHint = (error) => error instanceof MembraneError && error.hint !== '' && error.code !== ''
  await assert.rejects(Session.create('python', { limits: { patience: 1 } }), hasHint)
  await assert.rejects(Session.create('python', { allow: 'nothing' }), hasHint)
  await assert.rejects(Session.create('python', { policy: 'nonsense' }), hasHint)
  await assert.rejects(Session.create('python', { fuel: 1 }), TypeError)
  await assert.rejects(Session.create('no-such-language'), hasHint)
  await withSession({}, async (session) => {
    const code = "from membrane import http\nhttp.get('http://127.0.0.1:1/')"
    assert.equal((await session.run(code)).outcome, 'denied')
  })
})

test('a granted directory is the host’s', { skip }, async () => {
  const directory = mkdtempSync(join(tmpdir(), 'membrane-'))
  writeFileSync(join(directory, 'a.txt'), 'granted')
  try {
    const code = "open('/data/a.txt').read()"
    const policy = `[[fs]]\nhost = "${directory}"\nguest = "/data"\nmode = "read"\n`
    for (const options of [{ allow: [`fs:read:${directory}:/data`] }, { policy, limits: { memory: '512 MiB', fuel: '2e9' } }])
      await withSession(options, async (session) => assert.equal((await session.run(code)).text, "'granted'"))
    await withSession({}, async (session) => assert.equal((await session.run(code)).ok, false))
  } finally {
    rmSync(directory, { recursive: true })
  }
})

test('files', { skip }, () =>
  withSession({}, async (session) => {
    session.files.write('/tmp/in.txt', 'hello')
    ;(await session.run("open('/tmp/out.txt', 'w').write(open('/tmp/in.txt').read().upper())")).check()
    assert.equal(session.files.readText('/tmp/out.txt'), 'HELLO')
    assert.ok(session.files.list().some((each) => each.path === '/tmp/out.txt' && each.sizeBytes === 5))
    assert.throws(() => session.files.read('/tmp/none'), NotFoundError)
    session.files.write('/tmp/bytes', new Uint8Array([0, 255]))
    assert.deepEqual([...session.files.read('/tmp/bytes')], [0, 255])
  }))

test('output is heard as it comes, before the turn is over', { skip }, async () => {
  const heard = []
  const options = { onStdout: (text) => heard.push(text), onStderr: (text) => heard.push(`!${text}`) }
  await withSession(options, async (session) => {
    await session.run("import sys\nprint('one', flush=True)\nprint('bad', file=sys.stderr, flush=True)")
    assert.equal(heard.join(''), 'one\n!bad\n')
    session.runSync("print('two', flush=True)")
    assert.equal(heard.join(''), 'one\n!bad\ntwo\n')
  })
})

test('scripts have arguments and input', { skip }, () =>
  withSession({}, async (session) => {
    const options = { script: true, name: 's.py', arguments: ['a'], stdin: 'b\n' }
    assert.equal((await session.run('import sys; print(sys.argv[1], input())', options)).stdout, 'a b\n')
  }))

test('checked text does not run', { skip }, () =>
  withSession({}, async (session) => {
    assert.equal((await session.check('x = = 1')).error.code, 'SyntaxError')
    assert.ok((await session.check('x = 1')).ok)
    assert.equal((await session.run('x')).error.code, 'NameError')
    session.runSync("text = 'a'")
    assert.deepEqual(session.complete('text.upp'), ['upper'])
  }))

test('turns wait for each other, and the event loop for none', { skip }, () =>
  withSession({}, async (session) => {
    session.runSync('said = []')
    let ticks = 0
    const timer = setInterval(() => ++ticks, 1)
    const turns = ['a', 'b', 'c'].map((name) => session.run(`sum(range(300000)); said.append('${name}'); ''.join(said)`))
    assert.throws(() => session.dump(), { code: 'busy' })
    assert.throws(() => session.runSync('1'), { code: 'busy' })
    assert.deepEqual((await Promise.all(turns)).map((each) => each.text), ["'a'", "'ab'", "'abc'"])
    clearInterval(timer)
    assert.ok(ticks > 0)
  }))

test('a turn is cancelled', { skip }, async () => {
  const begun = later()
  await withSession({ ...endless, onStdout: begun.resolve }, async (session) => {
    const turn = session.run("print('begun', flush=True)\nwhile True: pass")
    await begun.promise
    session.cancel()
    assert.equal((await turn).outcome, 'cancelled')
    assert.equal((await session.run('1')).text, '1')
  })
})

test('a signal stops its turn', { skip }, async () => {
  const begun = later()
  await withSession({ ...endless, onStdout: begun.resolve }, async (session) => {
    const controller = new AbortController()
    const turn = session.run("print('begun', flush=True)\nwhile True: pass", { signal: controller.signal })
    await begun.promise
    controller.abort()
    await assert.rejects(turn, { name: 'AbortError' })
    await assert.rejects(session.run('x = 1', { signal: AbortSignal.abort() }), { name: 'AbortError' })
    const both = [session.run('while True: pass', { signal: AbortSignal.timeout(20) }), session.run('2')]
    await assert.rejects(both[0], { name: 'TimeoutError' })
    assert.equal((await both[1]).text, '2')
    assert.equal((await session.run('x')).error.code, 'NameError')
  })
})

test('a signal that comes at once is not lost', { skip }, () =>
  withSession(endless, async (session) => {
    for (let i = 0; i < 50; ++i) {
      const controller = new AbortController()
      const turn = session.run('while True: pass', { signal: controller.signal })
      if (i % 2) queueMicrotask(() => controller.abort())
      else controller.abort()
      await assert.rejects(turn, { name: 'AbortError' })
    }
  }))

test('closed sessions', { skip }, async () => {
  const session = await Session.create('python')
  session.close()
  session.close()
  for (const act of [() => session.runSync('1'), () => session.dump(), () => session.fork(), () => session.files.list()])
    assert.throws(act, (error) => error instanceof SessionOverError && error.code === 'session_over')
  await assert.rejects(session.run('1'), SessionOverError)
})

test('a close stops the turn that runs', { skip }, async () => {
  const begun = later()
  const session = await Session.create('python', { ...endless, onStdout: begun.resolve })
  const turns = [session.run("print('begun', flush=True)\nwhile True: pass"), session.run('1')]
  await begun.promise
  session.close()
  assert.equal((await turns[0]).outcome, 'cancelled')
  await assert.rejects(turns[1], SessionOverError)
})

test('a session ends by its lifetime and its idle time', { skip }, async () => {
  const ended = async (options, why) => {
    const session = await Session.create('python', options)
    const keepsAlive = setInterval(() => {}, 1000)
    const seen = async () => {
      try {
        session.files.list()
        return false
      } catch (error) {
        assert.match(error.message, why)
        return true
      }
    }
    // Reading its files would count as a use, so they are not read before the time can be up.
    do await new Promise((resolve) => setTimeout(resolve, 60))
    while (!(await seen()))
    clearInterval(keepsAlive)
  }
  await ended({ lifetime: '20ms' }, /lifetime is over/)
  await ended({ idleTimeout: '20ms' }, /idle time/)
  await withSession({ idleTimeout: '10m', lifetime: '1h' }, async (session) => assert.ok((await session.run('1')).ok))
})

test('it is disposed of at the end of a block', { skip }, async () => {
  const session = await Session.create('python')
  session[Symbol.dispose ?? Symbol.for('Symbol.dispose')]()
  assert.throws(() => session.dump(), SessionOverError)
})

test('JavaScript', { skip: noJavaScript }, async () => {
  const session = await Session.create('js', { functions: { price: () => 350, slow: async (n) => n + 1 } })
  assert.equal((await session.run("price('tea') * 2")).text, '700')
  assert.equal((await session.run('await slow(41)')).text, '42')
  session.close()
})
