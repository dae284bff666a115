// Functions and objects of this program, as a session's programs call them.

import assert from 'node:assert/strict'
import { AsyncLocalStorage } from 'node:async_hooks'
import { test } from 'node:test'
import { HostObject, load, Session } from 'membrane'
import { inTime, later, noPython, withSession } from './common.mjs'

const skip = noPython

test('values go both ways', { skip }, async () => {
  const seen = []
  const echo = (value) => {
    seen.push(value)
    return value
  }
  const given = [null, true, 1, -(2n ** 80n), 1.5, Infinity, 'text €', new Uint8Array([0, 255]), [1, [2]], { a: 1 }]
  given.push(new Map([[1, 'b']]), { $x: 1 }, new Set([1, 2]), new Date(Date.UTC(2026, 0, 2, 3, 4)))
  await withSession({ functions: { echo }, inputs: { given } }, async (session) => {
    const ran = await session.run('[echo(each) == each and type(echo(each)) is type(each) for each in given]')
    assert.equal(ran.text, `[${given.map(() => 'True').join(', ')}]`)
    assert.deepEqual(seen.filter((_, i) => i % 2), given)
    const named = "type(given[3]).__name__, type(given[7]).__name__, type(given[12]).__name__, type(given[13]).__name__"
    assert.equal((await session.run(named)).text, "('int', 'bytes', 'set', 'datetime')")
    assert.equal((await session.run('echo(float("nan")) != echo(float("nan"))')).text, 'True')
    assert.equal((await session.run('echo(object())')).error.code, 'TypeError')
  })
})

test('sync and async functions, called by run() and runSync()', { skip }, async () => {
  const functions = { price: (item) => item.length, slow: async (n) => n + 1, promised: (n) => Promise.resolve(n * 2) }
  await withSession({ functions }, async (session) => {
    assert.equal((await session.run("price('tea') + await slow(1) + promised(4)")).text, '13')
    assert.equal(session.runSync("price('tea')").text, '3')
    const failed = session.runSync('promised(4)')
    assert.equal(failed.error.code, 'RuntimeError')
    assert.match(failed.error.message, /use run\(\)/)
    assert.equal((await session.run('nosuch()')).error.code, 'NameError')
  })
})

test('arguments by name are the last argument', { skip }, () =>
  withSession({ functions: { f: (...args) => args } }, async (session) => {
    assert.equal((await session.run("f(1, count=2)")).text, "[1, {'count': 2}]")
    assert.equal((await session.run("f(1)")).text, '[1]')
  }))

test('a function is as it is described', { skip }, async () => {
  const price = { call: (item, { count = 1 } = {}) => 350 * count, signature: '(item: str, *, count: int = 1) -> int', doc: 'What an item costs.' }
  await withSession({ modules: { shop: { price } }, functions: { price } }, async (session) => {
    assert.equal((await session.run("from shop import price as p\np('tea', count=2)")).text, '700')
    const shown = (await session.run('help(price)')).stdout
    assert.match(shown, /price\(item: str, \*, count: int = 1\) -> int/)
    assert.match(shown, /What an item costs/)
    const wrong = await session.run('price()')
    assert.equal(wrong.error.code, 'TypeError')
    assert.deepEqual(wrong.report.host_calls, [])
  })
  function named() {
    return 'by its own name'
  }
  await withSession({ functions: [named] }, async (session) => assert.equal((await session.run('named()')).text, "'by its own name'"))
  await assert.rejects(Session.create('python', { functions: { f: 5 } }), TypeError)
})

test('errors arrive by their names', { skip }, async () => {
  class OwnError extends Error {}
  const functions = {
    type: () => {
      throw new TypeError('no such item')
    },
    named: async () => {
      throw Object.assign(new Error('of a key'), { name: 'KeyError' })
    },
    own: () => {
      throw new OwnError('ours')
    },
    odd: () => {
      throw 'a text'
    },
    cannot: () => () => 1,
  }
  await withSession({ functions }, async (session) => {
    for (const run of [(code) => session.run(code), async (code) => session.runSync(code)]) {
      const caught = (name, call) => run(`try:\n  ${call}\nexcept ${name} as error:\n  said = str(error)\nsaid`)
      assert.equal((await caught('TypeError', 'type()')).text, "'no such item'")
      assert.match((await run('own()')).error.message, /OwnError: ours/)
      assert.match((await run('odd()')).error.message, /a text/)
      assert.equal((await run('cannot()')).error.code, 'TypeError')
    }
    assert.equal((await session.run('try:\n  await named()\nexcept KeyError: said = 1\nsaid')).text, '1')
  })
})

test('calls that are awaited together are made at once, and fail for themselves', { skip }, async () => {
  const names = []
  const all = later()
  const meet = async (name) => {
    names.push(name)
    if (names.length === 3) all.resolve()
    await all.promise
    if (name === 'b') throw new RangeError('not b')
    return name
  }
  await withSession({ functions: { meet } }, async (session) => {
    const code = "import asyncio\n[str(each) for each in await asyncio.gather(meet('a'), meet('b'), meet('c'), return_exceptions=True)]"
    assert.equal((await session.run(code)).text, "['a', 'RangeError: not b', 'c']")
  })
})

test('more turns wait for functions than Node has threads', { skip }, async () => {
  const many = 12
  let waiting = 0
  const all = later()
  const meet = async () => {
    if (++waiting === many) all.resolve()
    await all.promise
    return 1
  }
  const sessions = await Promise.all(Array.from({ length: many }, () => Session.create('python', { functions: { meet } })))
  const results = await Promise.all(sessions.map((session) => session.run('await meet()')))
  assert.deepEqual(results.map((each) => each.text), Array(many).fill('1'))
  for (const session of sessions) session.close()
})

test('a turn that waits for a function is stopped', { skip }, async () => {
  const called = later()
  const functions = {
    never: () => {
      called.resolve()
      return new Promise(() => {})
    },
  }
  await withSession({ functions }, async (session) => {
    const controller = new AbortController()
    const turn = session.run('never()', { signal: controller.signal })
    await called.promise
    controller.abort()
    await assert.rejects(turn, { name: 'AbortError' })
    assert.equal((await session.run('1')).text, '1')
  })
  const session = await Session.create('python', { functions })
  const turn = session.run('never()')
  await new Promise(setImmediate)
  session.close()
  assert.equal((await turn).outcome, 'cancelled')
})

test('a turn whose time is up does not wait for a function', { skip }, async () => {
  const functions = { never: () => new Promise(() => {}), price: () => 350 }
  await withSession({ functions, limits: { wall: '200ms' } }, async (session) => {
    for (const code of ['never()', 'try:\n  never()\nexcept BaseException: pass\n1', 'while True:\n  try: never()\n  except Exception: pass'])
      assert.equal((await session.run(code)).outcome, 'timed_out', code)
    assert.equal((await inTime(session, 'price()')).text, '350')
    const branch = session.fork()
    assert.equal((await branch.run('never()')).outcome, 'timed_out')
    const again = load(session.dump(), { functions, limits: { wall: '200ms' } })
    assert.equal((await again.run('never()')).outcome, 'timed_out')
    for (const each of [branch, again]) each.close()
  })
})

test('a turn that is aborted while it waits for another ends at once', { skip }, async () => {
  const held = later()
  await withSession({ functions: { f: () => held.promise } }, async (session) => {
    const first = session.run('f()')
    const controller = new AbortController()
    const second = session.run('1', { signal: controller.signal })
    const third = session.run('2')
    controller.abort()
    await assert.rejects(second, { name: 'AbortError' })
    held.resolve(7)
    assert.deepEqual([(await first).text, (await third).text], ['7', '2'])
  })
})

test('functions are called in the context of who asked for the turn', { skip }, async () => {
  const user = new AsyncLocalStorage()
  const functions = { me: () => user.getStore() ?? 'nobody', later: async () => user.getStore() ?? 'nobody' }
  await withSession({ functions }, async (session) => {
    const ask = (on) => on.run('me(), await later()')
    const branch = session.fork()
    const results = await Promise.all([user.run('ada', () => ask(session)), user.run('bob', () => ask(branch)), user.run('eve', () => ask(session))])
    assert.deepEqual(results.map((each) => each.text), ["('ada', 'ada')", "('bob', 'bob')", "('eve', 'eve')"])
    assert.equal((await ask(session)).text, "('nobody', 'nobody')")
    branch.close()
  })
})

test('a function cannot use the session that calls it', { skip }, async () => {
  let session
  const codes = []
  const functions = {
    f: () => {
      for (const act of [() => session.runSync('1'), () => session.dump(), () => session.fork()]) {
        try {
          act()
        } catch (error) {
          codes.push(error.code)
        }
      }
    },
  }
  session = await Session.create('python', { functions })
  ;(await session.run('f()')).check()
  session.runSync('f()').check()
  assert.deepEqual(codes, Array(6).fill('busy'))
  session.close()
})

test('a function may close the session that calls it', { skip }, async () => {
  for (const run of ['run', 'runSync']) {
    const session = await Session.create('python', { functions: { f: () => session.close() } })
    const result = await session[run]('f()\nwhile True: pass')
    assert.equal(result.outcome, 'cancelled')
  }
})

test('a gate sees each call', { skip }, async () => {
  const seen = []
  const gate = (call) => {
    seen.push([call.name, call.args, call.kwargs])
    if (call.args[0] === 3) throw new Error('never 3')
    return call.args[0] !== 2
  }
  await withSession({ functions: { f: (x) => x }, gate }, async (session) => {
    assert.equal((await session.run('f(1)')).text, '1')
    assert.equal((await session.run('f(2, b=1)')).error.code, 'PermissionError')
    assert.match((await session.run('f(3)')).error.message, /never 3/)
  })
  assert.deepEqual(seen, [['f', [1], {}], ['f', [2], { b: 1 }], ['f', [3], {}]])
  await withSession({ functions: { f: (x) => x }, gate: async (call) => call.args[0] === 1 }, async (session) => {
    assert.equal((await session.run('f(1)')).text, '1')
    assert.equal((await session.run('f(2)')).error.code, 'PermissionError')
  })
})

class Account {
  secret = 'key'
  constructor(balance) {
    this.balance = balance
  }
  deposit(amount) {
    return (this.balance += amount)
  }
  async close() {
    return 'closed'
  }
}

test('objects show what they are allowed to', { skip }, async () => {
  const account = new Account(100)
  const back = []
  const inputs = { account: new HostObject(account, { methods: ['deposit', 'close'], attributes: ['balance'] }) }
  await withSession({ inputs, functions: { give: (each) => void back.push(each) } }, async (session) => {
    assert.equal((await session.run('account.deposit(5), account.balance, await account.close()')).text, "(105, 105, 'closed')")
    assert.equal((await session.run('account.secret')).error.code, 'AttributeError')
    ;(await session.run('give(account)')).check()
    ;(await session.run('give([account])')).check()
    const branch = session.fork()
    assert.equal(branch.runSync('account.deposit(1)').text, '106')
    branch.close()
  })
  assert.equal(back[0], account)
  assert.equal(back[1][0], account)
  assert.throws(() => new HostObject(account, { methods: ['nosuch'] }), TypeError)
  assert.throws(() => new HostObject(account, { methods: ['__proto__'] }), TypeError)
})

test('objects of a class that is named are references', { skip }, async () => {
  const open = (balance) => new Account(balance)
  const types = [{ type: Account, methods: ['deposit'], attributes: ['balance'], doc: 'Money.' }]
  await withSession({ types, functions: { open } }, async (session) => {
    assert.equal((await session.run('one, two = open(1), open(2)\none.deposit(5), two.balance')).text, '(6, 2)')
    assert.equal((await session.run('one.close()')).error.code, 'AttributeError')
  })
})

test('a guest that forges gets nothing', { skip }, async () => {
  class Box {
    open() {
      return 'opened'
    }
    hidden() {
      return 'was hidden'
    }
  }
  await withSession({ inputs: { box: new HostObject(new Box(), { methods: ['open'] }) }, functions: { f: (x) => x } }, async (session) => {
    const forged = `
from membrane import _door
def ask(**call):
    try:
        return 'error' in _door.ask({'functions': [call]})['answers'][0]
    except OSError as error:
        return error.errno_name == 'EINVAL'
box.open()
[ask(call='Box.hidden', object=1), ask(call='Box.open', object=99), ask(call='Box.open', object='x'), ask(call='Box.constructor', object=1),
 ask(call='nosuch'), ask(call='toString'), ask(call='f', arguments=[{'$object': {'id': 7, 'type': 'Box'}}])]`
    const result = await session.run(forged)
    assert.equal(result.text, '[True, True, True, True, True, True, True]', result.error?.message)
  })
})

test('forks have the functions too', { skip }, async () => {
  const calls = []
  await withSession({ functions: { f: (x) => void calls.push(x) } }, async (session) => {
    const branch = session.fork()
    await Promise.all([branch.run("f('b')"), session.run("f('a')")])
    branch.close()
    ;(await session.run("f('c')")).check()
  })
  assert.deepEqual(calls.sort(), ['a', 'b', 'c'])
})
