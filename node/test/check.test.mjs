// Types of cells, checked before they run; stubs. What needs ty is skipped where it is not in PATH.

import assert from 'node:assert/strict'
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, watch, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { test } from 'node:test'
import { Call, HostObject, LATER, load, MembraneError, ProgramError, Session, stubs } from 'membrane'
import { noJavaScript, noPython, noTy, withSession } from './common.mjs'

const skip = noPython || noTy

class Account {
  owner = 'Ada'
  balance = 100
  secret = 'key'
  deposit(amount) {
    return this.balance + amount
  }
  async close() {}
}

const price = {
  call: (item, count = 1) => 350 * count,
  signature: '(item: str, count: int = 1, *, unit: Optional[str] = None) -> int',
  doc: 'What an item costs: "one" \\ many.',
}
const rate = { call: async () => 1.5, signature: '(currency: str) -> float' }
const given = () => ({
  functions: { price },
  modules: { bank: { rate, approve: LATER }, ab: { price } },
  inputs: {
    account: new HostObject(new Account(), {
      methods: { deposit: { signature: '(amount: int) -> int', doc: 'Adds to the balance.' }, close: {} },
      attributes: { balance: 'int', owner: 'str' },
    }),
    rows: [{ n: 1 }, { n: 2 }],
    opened: new Date(0),
  },
})

const checked = (act) => withSession({ ...given(), typeCheck: true }, act)

async function finds(session, code, line, column, words, hint = '') {
  for (const result of [await session.run(code), session.runSync(code), await session.check(code)]) {
    assert.deepEqual([result.outcome, result.error?.code, result.fuelUsed], ['invalid', 'type_check', 0], `${code}: ${result.text}`)
    assert.equal(result.findings.length, 1, result.error.traceback)
    const [found] = result.findings
    assert.deepEqual([found.line, found.column], [line, column], found.message)
    assert.ok(found.message.includes(words), found.message)
    assert.ok(found.hint.includes(hint), found.hint)
    assert.ok(result.error.traceback.includes(found.message))
  }
}

async function runs(session, code, text) {
  const result = (await session.run(code)).check()
  if (text !== undefined) assert.equal(result.text, text)
}

test('what the host gives', { skip }, () =>
  checked(async (session) => {
    await finds(session, 'price(3)', 1, 7, '`str`', 'price(item: str, count: int = 1, *, unit: Optional[str] = None) -> int')
    await finds(session, "x = 1\naccount.deposit('5')", 2, 17, '`int`', 'deposit(amount: int) -> int')
    await finds(session, 'account.secret', 1, 1, 'secret', 'Account has balance, owner, deposit, close.')
    await finds(session, 'account.balance.upper()', 1, 1, 'upper')
    await finds(session, "from bank import rates", 1, 18, 'rates', 'bank has rate, approve.')
    await finds(session, "from bank import rate\nrate('EUR') * 2", 2, 1, 'Coroutine')
    await finds(session, 'from ab import price as p\np()', 2, 1, 'item', 'price(item')
    await finds(session, "rows[0]['n'].upper()", 1, 1, 'upper')
    await finds(session, 'opened + 1', 1, 1, '+')
  }))

test('what is right runs', { skip }, () =>
  checked(async (session) => {
    await runs(session, "from bank import rate\nawait rate('EUR') * 2", '3.0')
    await runs(session, "price('tea', 2) + rows[0]['n'] + account.deposit(1)", '802')
    await runs(session, 'import numpy as np\nint(np.arange(3).sum())', '3')
    await runs(session, "price = 4\nrows = 'reused'\nprice, rows", "(4, 'reused')")
  }))

test('one that is right as it stands', { skip }, () => checked((session) => runs(session, 'price(3)  # ty: ignore', '350')))

test('a finding stops the cell', { skip }, () =>
  checked(async (session) => {
    await finds(session, 'made = 1\nmade.nosuch', 2, 1, 'nosuch')
    assert.equal((await session.run("'made' in globals()")).text, 'False')
    const result = await session.run('price(3)')
    assert.throws(() => result.check(), ProgramError)
  }))

test('cells before', { skip }, () =>
  checked(async (session) => {
    await runs(session, "total: int = 1\ndef double(n: int) -> int:\n    return 2 * n\nclass Item:\n    name = 'tea'\n")
    await finds(session, "double('a')", 1, 8, '`int`')
    await finds(session, '\nItem().nam', 2, 1, 'nam')
    await finds(session, 'totl + 1', 1, 1, 'totl', 'Did you mean total?')
    await runs(session, 'double(total)', '2')
    await runs(session, "globals()['made'] = 5")
    await runs(session, 'made + 1', '6')
  }))

test('a cell that failed has defined what it came to', { skip }, () =>
  checked(async (session) => {
    assert.equal((await session.run("begun = '''a\nb'''\n1 / 0\nnever = 1")).outcome, 'raised')
    await finds(session, 'begun + 1', 1, 1, '+')
    await session.run('import sys\nsys.exit(0)')
    await finds(session, 'begun + 1', 1, 1, '+')
  }))

test('syntax is the language’s own', { skip }, () =>
  checked(async (session) => {
    const result = await session.run('x = = 1')
    assert.deepEqual([result.outcome, result.error.code], ['raised', 'SyntaxError'])
    assert.equal((await session.check('x = = 1')).findings[0].column, 5)
    await runs(session, 'match 1:\n    case int(n):\n        pass\nn', '1')
  }))

test('several findings', { skip }, () =>
  checked(async (session) => {
    const result = await session.check("price(1)\nprice(2)\naccount.deposit('a')")
    assert.deepEqual(result.findings.map((each) => each.line), [1, 2, 3])
    for (const words of ['line 2: ', '    price(2)\n          ^', 'deposit']) assert.ok(result.error.traceback.includes(words))
    assert.equal((await session.check('nosuch\n'.repeat(500))).findings.length, 20)
    assert.ok((await session.check(Array.from({ length: 500 }, (_, i) => `made_${i}`).join('\n'))).findings.length > 0)
  }))

test('scripts stand for themselves', { skip }, () =>
  checked(async (session) => {
    await runs(session, 'total = 1')
    for (const code of ['from ab import price\nprice(1)', 'print(total)', "price('a')", 'account'])
      assert.equal((await session.run(code, { script: true })).error.code, 'type_check', code)
    assert.equal((await session.run("from ab import price\nprint(price('a'))", { script: true })).stdout, '350\n')
  }))

test('texts that are strange', { skip }, () =>
  checked(async (session) => {
    for (const code of ['', '\n\n', '# €\u2028x', 'x = 1\n\n\n', 'y\0', '# \ud800', `x = ${'('.repeat(3000)}${')'.repeat(3000)}`])
      assert.notEqual((await session.run(code)).outcome, 'invalid', code.slice(0, 20))
    for (const code of [`x = 1${'\n'.repeat(300_000)}x`, `${'nosuch_ '.repeat(2000)}`, `[${'y, '.repeat(20_000)}]`]) await session.check(code)
    await finds(session, "\r\n'a' + 1\r\n", 2, 1, '+')
    await finds(session, "'€😀'; price(3)", 1, 18, '`str`')
  }))

test('what is installed here is not seen, and what is named is', { skip }, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'stubs-'))
  writeFileSync(join(folder, 'tables.pyi'), 'def rows() -> list[int]: ...\n')
  const typeCheck = { stubs: { 'greetings.en': 'def hello(name: str) -> str: ...\n', greetings: '' }, paths: [folder], timeout: '1min' }
  await withSession({ typeCheck }, async (session) => {
    const found = await session.check('import greetings.en, tables\ngreetings.en.hello(1)\ntables.rows().foo\nimport httpx\nhttpx.nosuch')
    assert.deepEqual(found.findings.map((each) => each.line), [2, 3])
  })
  rmSync(folder, { recursive: true })
})

test('only when asked', { skip }, async () => {
  await withSession({}, async (session) => assert.equal((await session.run("1 + 'a'")).error.code, 'TypeError'))
  await withSession({ typeCheck: { beforeRuns: false } }, async (session) => {
    await runs(session, 'total = 1')
    assert.equal((await session.run("total + 'a'")).error.code, 'TypeError')
    assert.equal((await session.check("total + 'a'")).error.code, 'type_check')
  })
})

test('forks and bytes know the cells', { skip }, () =>
  withSession({ typeCheck: true }, async (session) => {
    await runs(session, 'def double(n: int) -> int:\n    return 2 * n')
    const branch = session.fork()
    await runs(branch, 'own = 1')
    assert.equal((await branch.run("double('a')")).error.code, 'type_check')
    const blob = session.dump()
    assert.equal((await session.check('own')).error.code, 'type_check')
    const again = load(blob, { typeCheck: true })
    assert.equal((await again.run("double('a')")).error.code, 'type_check')
    const free = load(blob)
    assert.equal((await free.run("double('a')")).text, "'aa'")
    const later = load(free.dump(), { typeCheck: true }) // of one that kept no cells
    assert.equal((await later.run('double(2)')).text, '4')
    for (const each of [branch, again, free, later]) each.close()
  }))

test('calls that wait', { skip }, () =>
  withSession({ typeCheck: true }, async (session) => {
    const call = await session.start('said = approve(1)')
    assert.ok(call instanceof Call)
    await call.resume('yes')
    assert.equal((await session.run('said')).text, "'yes'")
    assert.equal((await session.start('nosuch + 1')).error.code, 'type_check')
    assert.equal((await session.run('refuse(1)')).error.code, 'type_check')
  }))

test('cells before are bounded', { skip }, () =>
  withSession({ typeCheck: true }, async (session) => {
    await runs(session, 'first = 1')
    for (let i = 0; i < 4; ++i) await runs(session, `# ${'x'.repeat(100_000)}`)
    const blob = session.dump()
    assert.ok(new DataView(blob.buffer, blob.byteOffset).getUint32(8, true) < 300_000)
    await runs(session, 'first + 1', '2')
  }))

test('heads of bytes that others wrote', { skip }, () =>
  withSession({ typeCheck: true }, async (session) => {
    const blob = session.dump()
    const end = 12 + new DataView(blob.buffer, blob.byteOffset).getUint32(8, true)
    for (const cells of ['[1]', '"a"', '{"a": 1}', '[["a"]]', 'null']) {
      const head = Buffer.from(`{"language": "python", "cells": ${cells}}`)
      const size = Buffer.alloc(4)
      size.writeUInt32LE(head.length)
      const again = load(new Uint8Array(Buffer.concat([blob.slice(0, 8), size, head, blob.slice(end)])), { typeCheck: true })
      await runs(again, '1', '1')
      again.close()
    }
  }))

test('a session is busy while its cell is checked', { skip }, () =>
  withSession({ typeCheck: true }, async (session) => {
    const turn = session.run('x = 1')
    await Promise.resolve()
    for (const act of [() => session.runSync('1'), () => session.fork(), () => session.dump(), () => session.complete('x')])
      assert.throws(act, { code: 'busy' })
    ;(await turn).check()
    assert.equal(session.runSync('x').text, '1')
  }))

// -- without ty -------------------------------------------------------------------------------------------------------

/** A session whose checker is a script of the shell. */
async function withScript(script, how, act) {
  const folder = mkdtempSync(join(tmpdir(), 'checker-'))
  const checker = join(folder, 'ty')
  writeFileSync(checker, `#!/bin/sh\n${script.replaceAll('FOLDER', folder)}\n`)
  chmodSync(checker, 0o755)
  try {
    await withSession({ typeCheck: { checker, ...how } }, (session) => act(session, folder))
  } finally {
    rmSync(folder, { recursive: true })
  }
}

test('JavaScript is not checked', { skip: noJavaScript }, () =>
  assert.rejects(Session.create('js', { typeCheck: true }), (error) => {
    assert.ok(error instanceof MembraneError)
    assert.deepEqual([error.code, error.hint], ['invalid_argument', 'Leave typeCheck out.'])
    return true
  }))

test('a checker that is not there', { skip: noPython }, async () => {
  const isMissing = (error) => error.code === 'not_installed' && /pip install ty/.test(error.hint)
  for (const checker of ['/no/such/ty', tmpdir()]) await assert.rejects(Session.create('python', { typeCheck: { checker } }), isMissing)
  const path = process.env.PATH
  process.env.PATH = ['', '/no/such'].join(delimiter)
  try {
    await assert.rejects(Session.create('python', { typeCheck: true }), isMissing)
  } finally {
    process.env.PATH = path
  }
})

test('options that are wrong', { skip: noPython }, async () => {
  for (const name of ['../x', '/x', 'a..b', ''])
    await assert.rejects(Session.create('python', { typeCheck: { checker: '/bin/sh', stubs: { [name]: '' } } }), { code: 'invalid_argument' })
  await assert.rejects(Session.create('python', { typeCheck: { patience: 1 } }), TypeError)
})

test('a checker that takes too long', { skip: noPython }, () =>
  withScript('tail -f /dev/null', { timeout: '50ms' }, async (session) => {
    for (const result of [await session.run('x = 1'), session.runSync('x = 1')]) {
      assert.deepEqual([result.outcome, result.error.code], ['invalid', 'type_check_timed_out'])
      assert.match(result.error.hint, /timeout/)
    }
  }))

test('a checker that fails', { skip: noPython }, async () => {
  for (const script of ['exit 1', 'echo no', "echo '{}'", 'kill -9 $$', "exec yes '[1,'"])
    await withScript(script, {}, async (session) => {
      assert.equal((await session.run('x = 1')).error.code, 'type_check_failed', script)
      assert.equal(session.runSync('x = 1').error.code, 'type_check_failed', script)
    })
})

test('a checker has limits, and nothing of this environment', { skip: noPython }, () => {
  const nothingFound = '{"runs":[{"results":[]}]}'
  const script = `[ "$(ulimit -f) $(ulimit -c) $(ulimit -t) $(ulimit -v)" = "0 0 5 2097152" ] || exit 1
[ "$(env | cut -d= -f1 | grep -v '^PWD$' | sort | tr '\\n' ' ')" = "HOME NO_COLOR PATH TY_MAX_PARALLELISM XDG_CONFIG_HOME " ] || exit 1
[ "$HOME" = "$PWD" ] && echo '${nothingFound}'
( echo more > FOLDER/file ) 2> /dev/null`
  return withScript(script, { timeout: 4.5 }, async (session, folder) => {
    for (const result of [await session.run('7'), session.runSync('7')]) assert.equal(result.check().text, '7')
    assert.equal(readFileSync(join(folder, 'file'), 'utf8'), '')
  })
})

test('a check is stopped', { skip: noPython }, async () => {
  for (const stop of ['cancel', 'close', 'abort'])
    await withScript('mkdir FOLDER/begun; exec tail -f /dev/null', { timeout: '1h' }, async (session, folder) => {
      const controller = new AbortController()
      const begun = new Promise((resolve) => {
        const watcher = watch(folder, () => {
          if (!existsSync(join(folder, 'begun'))) return
          watcher.close()
          resolve()
        })
      })
      const turn = session.run('x = 1', { signal: controller.signal })
      await begun
      if (stop === 'abort') {
        controller.abort()
        await assert.rejects(turn, { name: 'AbortError' })
      } else {
        session[stop]()
        assert.equal((await turn).outcome, 'cancelled')
      }
    })
})

test('it leaves nothing', { skip: noPython }, () =>
  withScript('echo "$PWD" >&2; exit 1', {}, async (session) => {
    const before = readdirSync(tmpdir()).filter((each) => each.startsWith('membrane-')).length
    await session.run('x = 1')
    session.runSync('x = 1')
    assert.equal(readdirSync(tmpdir()).filter((each) => each.startsWith('membrane-')).length, before)
  }))

// -- stubs ------------------------------------------------------------------------------------------------------------

test('stubs say what there is', { skip: noPython }, async () => {
  let text
  await withSession(given(), async (session) => {
    text = session.stubs()
    ;(await session.run(`compiled = compile(${JSON.stringify(text)}, 'stubs', 'exec')`)).check()
  })
  assert.equal(stubs(given()), text)
  const lines = [
    'def price(item: str, count: int = 1, *, unit: Optional[str] = None) -> int:',
    '    """What an item costs: "one" \\\\ many."""',
    'class Account:',
    '    def balance(self) -> int: ...',
    '    def owner(self) -> str: ...',
    '    def deposit(self, amount: int) -> int:',
    '        """Adds to the balance."""',
    '    async def close(self, *args: Any, **kwargs: Any) -> Any: ...',
    'account: Account',
    'rows: list[dict[str, int]]',
    'opened: datetime.datetime',
    '# module bank',
    'async def rate(currency: str) -> float: ...',
    'def approve(*args: Any, **kwargs: Any) -> Any: ...',
  ]
  for (const line of lines) assert.ok(`\n${text}`.includes(`\n${line}\n`), line)
  assert.ok(!text.includes('secret'))
})

test('signatures of many forms', async () => {
  const forms = [
    ['(a, /, b=[], *more: str, c: dict[str, int] = {}, **rest) -> None', '(a: Any, /, b: Any = ..., *more: str, c: dict[str, int] = ..., **rest: Any) -> None'],
    ["(a: Literal['x,)', \"y\"] = 'x', b=-1.5)", "(a: Literal['x,)', \"y\"] = 'x', b: Any = -1.5) -> Any"],
    ['()', '() -> Any'],
    ['(self_: int,)', '(self_: int) -> Any'],
    ['(a: Callable[[int], str]) -> list[int] | None', '(a: Callable[[int], str]) -> list[int] | None'],
  ]
  for (const [signature, expected] of forms) assert.equal(stubs({ functions: { f: { call: () => 1, signature } } }), `def f${expected}: ...\n`)
  for (const signature of ['(', '(a', 'a)', '(a)) -> int', "(a: 'x)", '(a): pass\nimport x', '(1)', '(a; b)', '(a,,b)'])
    assert.throws(() => stubs({ functions: { f: { call: () => 1, signature } } }), /the signature of f cannot be read/, signature)
  const none = ['(a: )', '(a) -> ', '(a) -> int: pass']
  for (const signature of none)
    assert.equal(stubs({ functions: { f: { call: () => 1, signature } } }), 'def f(*args: Any, **kwargs: Any) -> Any: ...\n', signature)
  assert.equal(stubs({ functions: { class: () => 1 } }), '')
})

test('types of inputs', () => {
  const inputs = {
    n: null, b: new Uint8Array(1), many: [1, 'a', null, 2.5, true], deep: [[[[[[1]]]]]], empty: [], keys: new Map([[1, 'a']]),
    both: [1, 'a'], set: new Set([1]), big: 2n ** 70n, huge: 1e300, nan: NaN, text: 'a', yes: true, when: new Date(0),
  }
  const lines = [
    'n: None', 'b: bytes', 'many: list[Any]', 'deep: list[list[list[list[Any]]]]', 'empty: list[Any]', 'keys: dict[int, str]',
    'both: list[int | str]', 'set: set[int]', 'big: int', 'huge: float', 'nan: float', 'text: str', 'yes: bool', 'when: datetime.datetime',
  ]
  assert.deepEqual(stubs({ inputs }).trim().split(/\n+/), lines)
})

test('attributes are not computed', () => {
  class Slow {
    name = 'a'
    count = 3
    get rows() {
      throw new Error('computed')
    }
  }
  const text = stubs({ inputs: { slow: new HostObject(new Slow(), { attributes: ['name', 'count', 'rows'] }) } })
  for (const line of ['def name(self) -> str: ...', 'def count(self) -> Any: ...', 'def rows(self) -> Any: ...']) assert.ok(text.includes(line))
})
