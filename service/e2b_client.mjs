// Tests every row of docs/e2b.md with E2B's own JavaScript clients, for e2b_test.py, which runs it in a
// directory that has their packages.
//
// Prints one JSON object: for each row, by its name in Python, what went wrong, or null.
import assert from 'node:assert/strict'
import { CommandExitError, FileNotFoundError, NotFoundError, SandboxError, TimeoutError, AuthenticationError } from 'e2b'
import { Sandbox } from '@e2b/code-interpreter'

const options = { timeoutMs: 60_000 }

async function refused(call, text, kind = Error) {
  await assert.rejects(call, (error) => {
    assert.ok(error instanceof kind, `${error}`)
    assert.ok(String(error.message).includes(text), `${error.message}`)
    return true
  })
}

async function withSandbox(template, more, use) {
  const made = await Sandbox.create(template, { ...options, ...more })
  try {
    await use(made)
  } finally {
    await made.kill()
  }
}

const rows = {
  'Sandbox.create': async () => {
    for (const template of ['base', 'code-interpreter-v1', 'python'])
      await withSandbox(template, { metadata: { a: 'b' } }, async (made) => {
        assert.equal((await made.runCode('1 + 1')).text, '2')
        assert.deepEqual((await made.getInfo()).metadata, { a: 'b' })
      })
    await withSandbox('javascript', {}, async (made) => {
      assert.equal((await made.runCode('[1, 2].map(x => x * 2).join()')).text, '2,4')
      assert.equal((await made.commands.run("node -e 'console.log(1 + 1)'")).stdout, '2\n')
      assert.equal((await made.runCode("process.cwd()")).text, '/home/user')
    })
    await refused(() => Sandbox.create('no-such-template', options), 'not found')
    await refused(() => Sandbox.create({ ...options, apiKey: 'e2b_0' }), '', AuthenticationError)
  },
  'Sandbox.create envs': () =>
    withSandbox('base', { envs: { A: 'one' } }, async (made) => {
      assert.equal((await made.runCode("import os; os.environ['A']")).text, 'one')
      assert.equal((await made.runCode("os.environ['A']", { envs: { A: '2' } })).text, '2')
      assert.equal((await made.runCode("os.environ['A']")).text, 'one')
    }),
  'Sandbox.connect': async (sandbox) => {
    await sandbox.runCode('connected = 5')
    assert.equal((await (await Sandbox.connect(sandbox.sandboxId)).runCode('connected')).text, '5')
    await refused(() => Sandbox.connect('sbx0'), 'not found')
  },
  'Sandbox.list': (sandbox) =>
    withSandbox('base', { metadata: { of: 'a list & more' } }, async (other) => {
      const found = await Sandbox.list({ query: { metadata: { of: 'a list & more' } } }).nextItems()
      assert.deepEqual(found.map((each) => each.sandboxId), [other.sandboxId])
      const pages = Sandbox.list({ limit: 1 })
      const all = []
      while (pages.hasNext) all.push(...(await pages.nextItems()).map((each) => each.sandboxId))
      assert.ok(all.includes(sandbox.sandboxId) && all.includes(other.sandboxId))
    }),
  get_info: async (sandbox) => {
    const info = await sandbox.getInfo()
    assert.deepEqual([info.sandboxId, info.templateId, info.state], [sandbox.sandboxId, 'python', 'running'])
  },
  set_timeout: async (sandbox) => {
    const before = (await sandbox.getInfo()).endAt
    await sandbox.setTimeout(1_000_000)
    assert.ok((await sandbox.getInfo()).endAt > before)
  },
  is_running: async (sandbox) => assert.ok(await sandbox.isRunning()),
  kill: async () => {
    const made = await Sandbox.create(options)
    assert.ok(await made.kill())
    assert.ok(!(await made.isRunning()))
    assert.ok(!(await made.kill()))
    await refused(() => made.commands.run('true'), 'not running')
    await refused(() => made.runCode('1'), 'not found', TimeoutError)
  },
  pause: () =>
    withSandbox('base', {}, async (made) => {
      await made.runCode('kept = 41')
      assert.ok(await made.pause())
      assert.equal((await made.getInfo()).state, 'paused')
      assert.equal((await (await Sandbox.connect(made.sandboxId)).runCode('kept + 1')).text, '42')
    }),
  fork: () =>
    withSandbox('base', {}, async (made) => {
      await made.runCode('x = 1')
      const forks = await made.fork({ count: 2 })
      await Promise.all(forks.map((each, number) => each.runCode(`x += ${number + 1}`)))
      assert.deepEqual(await Promise.all([made, ...forks].map(async (each) => (await each.runCode('x')).text)), ['1', '2', '3'])
      await Promise.all(forks.map((each) => each.kill()))
    }),
  create_snapshot: () =>
    withSandbox('base', {}, async (made) => {
      await made.runCode('x = 7')
      const { snapshotId } = await made.createSnapshot()
      await withSandbox(snapshotId, {}, async (other) => assert.equal((await other.runCode('x')).text, '7'))
      assert.ok(await Sandbox.deleteSnapshot(snapshotId))
    }),
  list_snapshots: async (sandbox) => {
    const { snapshotId } = await sandbox.createSnapshot({ name: 'listed-in-js' })
    const listed = async (query) => (await Sandbox.listSnapshots(query).nextItems()).map((each) => each.snapshotId)
    assert.ok((await listed()).includes(snapshotId))
    assert.deepEqual(await listed({ name: 'listed-in-js' }), [snapshotId])
    assert.deepEqual(await listed({ name: 'no-such' }), [])
    await Sandbox.deleteSnapshot(snapshotId)
  },
  delete_snapshot: async () => assert.ok(!(await Sandbox.deleteSnapshot('snp0'))),
  get_metrics: (sandbox) => refused(() => sandbox.getMetrics(), 'docs/e2b.md'),
  update_network: (sandbox) => refused(() => sandbox.updateNetwork({ denyOut: ['0.0.0.0/0'] }), 'docs/e2b.md'),
  download_url: async (sandbox) => {
    const answer = await fetch(await sandbox.downloadUrl('/home/user/a.txt'))
    assert.equal(answer.status, 400)
    assert.ok((await answer.text()).includes('names no sandbox'))
  },
  upload_url: async (sandbox) => assert.ok(await sandbox.uploadUrl('/home/user/a.txt')),
  run_code: async (sandbox) => {
    const run = await sandbox.runCode("import sys\nprint('é')\nprint('b', file=sys.stderr)\n'r' + 'esult'")
    assert.deepEqual([run.text, run.logs.stdout, run.logs.stderr, run.error], ['result', ['é\n'], ['b\n'], undefined])
    const { results } = await sandbox.runCode(
      "class Both:\n def _repr_png_(self): return b'png'\n def _repr_html_(self): return '<b>'\ndisplay(Both())\nBoth()")
    assert.deepEqual(results.map((each) => [each.png, each.html, each.isMainResult]),
      [['cG5n', '<b>', false], ['cG5n', '<b>', true]])
    const { error } = await sandbox.runCode("def f():\n  raise ValueError('no')\nf()")
    assert.deepEqual([error.name, error.value], ['ValueError', 'no'])
    assert.ok(error.traceback.includes('line 2, in f'))
  },
  'run_code json and data': async (sandbox) => {
    const of = async (code) => (await sandbox.runCode(code)).results[0]
    assert.deepEqual((await of("{'a': [1, None]}")).json, { a: [1, null] })
    const table = await of("import pandas\npandas.DataFrame({'n': [1, 2], 'x': [0.5, float('nan')]})")
    assert.deepEqual(table.data, { n: [1, 2], x: [0.5, null] })
    assert.ok(table.formats().includes('data'))
  },
  'run_code of a figure': async (sandbox) => {
    const { results } = await sandbox.runCode('import matplotlib.pyplot as plt\nfig = plt.figure()\nplt.close(fig)\nfig')
    assert.deepEqual(results.map((each) => [each.png.startsWith('iVBOR'), each.isMainResult]), [[true, true]])
  },
  'run_code on_stdout, on_stderr, on_result, on_error': async (sandbox) => {
    const heard = []
    await sandbox.runCode('import sys\nprint(1)\nprint(2, file=sys.stderr)\n3', {
      onStdout: (message) => heard.push(message.line),
      onStderr: (message) => heard.push(message.line),
      onResult: (result) => heard.push(result.text),
    })
    await sandbox.runCode('1/0', { onError: (error) => heard.push(error.name) })
    assert.deepEqual(heard, ['1\n', '2\n', '3', 'ZeroDivisionError'])
  },
  'run_code timeout': async (sandbox) => {
    await sandbox.runCode('before = 1')
    await refused(() => sandbox.runCode('while True: pass', { timeoutMs: 1000 }), 'timed out', TimeoutError)
    assert.equal((await sandbox.runCode('before')).text, '1')
  },
  'run_code text of a str': async (sandbox) => {
    assert.equal((await sandbox.runCode("'a'")).text, 'a')
    assert.equal((await sandbox.runCode("'a'", { language: 'js' })).text, 'a')
  },
  'run_code of a cell that is indented': async (sandbox) =>
    assert.equal((await sandbox.runCode('\n    x=1\n    x')).text, '1'),
  'run_code !pip install, %pip install': async (sandbox) => {
    const run = await sandbox.runCode('!pip install numpy\n5')
    assert.equal(run.text, '5')
    assert.ok(run.logs.stdout.join('').startsWith('Requirement already satisfied: numpy'))
    const { error } = await sandbox.runCode('%pip install no-such-package-of-mine')
    assert.ok(error.value.includes('packages'))
  },
  'run_code !command, %command': async (sandbox) => {
    for (const line of ['!ls', '%timeit 1'])
      assert.ok((await sandbox.runCode(line)).error.value.includes('linux kind'))
  },
  'the clock': async (sandbox) => {
    const begun = Date.now()
    const { text } = await sandbox.runCode('import time; time.sleep(1); time.time()')
    assert.ok(Math.abs(Number(text) * 1000 - Date.now()) < 3_600_000, text)
    assert.ok(Date.now() - begun > 900)
  },
  'run_code language': async (sandbox) => {
    assert.equal((await sandbox.runCode('[1, 2].map(x => x * 2).join()', { language: 'javascript' })).text, '2,4')
    assert.equal((await sandbox.runCode("const a: string = 'b'; a", { language: 'ts' })).text, 'b')
    await refused(() => sandbox.runCode('1', { language: 'r' }), 'linux kind', NotFoundError)
  },
  create_code_context: async (sandbox) => {
    await sandbox.runCode('shared = 1')
    const context = await sandbox.createCodeContext({ cwd: '/tmp' })
    assert.equal((await sandbox.runCode('import os; os.getcwd()', { context })).text, '/tmp')
    assert.equal((await sandbox.runCode('shared', { context })).error.name, 'NameError')
    await sandbox.removeCodeContext(context)
  },
  list_code_contexts: async (sandbox) => {
    const context = await sandbox.createCodeContext({ language: 'javascript' })
    assert.ok((await sandbox.listCodeContexts()).some((each) => each.id === context.id && each.language === 'javascript'))
    await sandbox.removeCodeContext(context)
  },
  remove_code_context: async (sandbox) => {
    const context = await sandbox.createCodeContext()
    await sandbox.removeCodeContext(context)
    await refused(() => sandbox.removeCodeContext(context), '', NotFoundError)
  },
  restart_code_context: async (sandbox) => {
    const context = await sandbox.createCodeContext()
    await sandbox.runCode('y = 1', { context })
    await sandbox.restartCodeContext(context)
    assert.equal((await sandbox.runCode('y', { context })).error.name, 'NameError')
    await sandbox.removeCodeContext(context)
  },
  'files.write': async (sandbox) => {
    const info = await sandbox.files.write('one/text.txt', 'text é')
    assert.deepEqual([info.name, info.path], ['text.txt', '/home/user/one/text.txt'])
    await sandbox.files.write('/tmp/bytes', new Uint8Array([0, 255]).buffer)
    await sandbox.files.write('/tmp/octets', new Blob([new Uint8Array([0, 255, 1])]), { useOctetStream: true })
    assert.equal((await sandbox.runCode("[len(open(f'/tmp/{name}', 'rb').read()) for name in ('bytes', 'octets')]")).text,
      '[2, 3]')
    await refused(() => sandbox.files.write('/tmp/m', '', { metadata: { a: 'b' } }), '', SandboxError)
    await refused(() => sandbox.files.write('/tmp/z', 'z', { gzip: true }), 'gzip')
  },
  'files.write_files': async (sandbox) => {
    const written = await sandbox.files.write([{ path: 'first', data: '1' }, { path: '/tmp/second', data: '2' }])
    assert.deepEqual(written.map((each) => each.path), ['/home/user/first', '/tmp/second'])
    assert.equal(await sandbox.files.read('/tmp/second'), '2')
  },
  'files.read': async (sandbox) => {
    await sandbox.files.write('r', 'é')
    assert.equal(await sandbox.files.read('r'), 'é')
    assert.deepEqual([...(await sandbox.files.read('r', { format: 'bytes' }))], [0xc3, 0xa9])
    assert.equal(await new Response(await sandbox.files.read('r', { format: 'stream' })).text(), 'é')
    await refused(() => sandbox.files.read('no/such'), 'no/such', FileNotFoundError)
  },
  'the home directory': async (sandbox) => {
    assert.deepEqual((await sandbox.runCode("import os\n[os.path.expanduser('~'), os.getcwd()]")).results[0].json, ['/home/user', '/home/user'])
    assert.equal((await sandbox.runCode('process.env.HOME', { language: 'js' })).text, '/home/user')
  },
  'files.list': async (sandbox) => {
    await sandbox.files.write('./here/../at_home', '1')
    for (const path of ['.', '~', 'here/..'])
      assert.ok((await sandbox.files.list(path)).some((each) => each.path === '/home/user/at_home'), path)
    await sandbox.files.write([{ path: 'l/b/c', data: '12' }, { path: 'l/a', data: '1' }])
    assert.deepEqual((await sandbox.files.list('l')).map((each) => [each.name, each.type, each.path, each.size]),
      [['a', 'file', '/home/user/l/a', 1], ['b', 'dir', '/home/user/l/b', 0]])
    assert.equal((await sandbox.files.list('l', { depth: 2 })).length, 3)
  },
  'files.exists': async (sandbox) => {
    await sandbox.files.write('e', 'x')
    assert.deepEqual([await sandbox.files.exists('e'), await sandbox.files.exists('/no')], [true, false])
  },
  'files.get_info': async (sandbox) => {
    await sandbox.files.write('i', '123')
    const info = await sandbox.files.getInfo('i')
    assert.deepEqual([info.name, info.type, info.path, info.size], ['i', 'file', '/home/user/i', 3])
    await refused(() => sandbox.files.getInfo('no-such'), 'no-such', FileNotFoundError)
  },
  'files.make_dir': async (sandbox) => {
    assert.deepEqual([await sandbox.files.makeDir('m/n'), await sandbox.files.makeDir('m/n')], [true, false])
  },
  'files.remove': async (sandbox) => {
    await sandbox.files.write('d/e/f', 'x')
    await sandbox.files.remove('d')
    assert.ok(!(await sandbox.files.exists('d')))
    await sandbox.files.remove('d')
  },
  'files.rename': async (sandbox) => {
    await sandbox.files.write('old', 'x')
    assert.equal((await sandbox.files.rename('old', 'new')).path, '/home/user/new')
    assert.ok(!(await sandbox.files.exists('old')))
  },
  'files.watch_dir': async (sandbox) => {
    await sandbox.files.makeDir('w')
    let heard
    const first = new Promise((resolve) => (heard = resolve))
    const handle = await sandbox.files.watchDir('w', heard)
    await sandbox.files.write('w/new', '1')
    const event = await first
    assert.deepEqual([event.name, event.type], ['new', 'create'])
    await handle.stop()
  },
  'commands.run': async (sandbox) => {
    assert.equal((await sandbox.commands.run(`echo 'a  b' "c"`)).stdout, 'a  b c\n')
    assert.equal((await sandbox.commands.run("python3 -c 'print(5)'")).stdout, '5\n')
    await refused(() => sandbox.commands.run("python -c 'import sys; sys.exit(4)'"), '4', CommandExitError)
    for (const line of ['git status', 'ls | wc', 'echo $HOME'])
      await refused(() => sandbox.commands.run(line), 'linux kind', SandboxError)
    await refused(() => sandbox.commands.run("python -c 'while True: pass'", { timeoutMs: 1000 }), '', TimeoutError)
  },
  'commands.run ls': async (sandbox) => {
    await sandbox.files.write('ls/a', 'x')
    assert.equal((await sandbox.commands.run('ls ls')).stdout, 'a\n')
  },
  'commands.run on_stdout, on_stderr': async (sandbox) => {
    const heard = []
    await sandbox.commands.run("python -c 'import sys; print(1); print(2, file=sys.stderr)'",
      { onStdout: (text) => heard.push(text), onStderr: (text) => heard.push(text) })
    assert.deepEqual(heard, ['1\n', '2\n'])
  },
  'commands.run background': async (sandbox) => {
    const handle = await sandbox.commands.run("python -c 'print(5)'", { background: true })
    assert.equal((await handle.wait()).stdout, '5\n')
  },
  'commands.run stdin': async (sandbox) => {
    const handle = await sandbox.commands.run("python -c 'print(input() + input())'", { stdin: true, background: true })
    await sandbox.commands.sendStdin(handle.pid, 'a\nb\n')
    assert.equal((await handle.wait()).stdout, 'ab\n')
  },
  'commands.list': async (sandbox) => {
    const handle = await sandbox.commands.run("python -c 'while True: pass'", { background: true })
    assert.deepEqual((await sandbox.commands.list()).map((each) => each.pid), [handle.pid])
    await handle.kill()
  },
  'commands.kill': async (sandbox) => {
    const handle = await sandbox.commands.run("python -c 'while True: pass'", { background: true })
    assert.ok(await sandbox.commands.kill(handle.pid))
    await refused(() => handle.wait(), '', CommandExitError)
    assert.ok(!(await sandbox.commands.kill(handle.pid)))
  },
  'commands.connect': async (sandbox) => {
    const handle = await sandbox.commands.run("python -c 'print(6)'", { background: true })
    assert.equal((await (await sandbox.commands.connect(handle.pid)).wait()).stdout, '6\n')
  },
  'commands.send_stdin': async (sandbox) => {
    const handle = await sandbox.commands.run('cat', { stdin: true, background: true })
    await sandbox.commands.sendStdin(handle.pid, 'one\n')
    await sandbox.commands.closeStdin(handle.pid)
    assert.equal((await handle.wait()).stdout, 'one\n')
    const over = await sandbox.commands.run('true', { background: true })
    await refused(() => sandbox.commands.sendStdin(over.pid, 'x'), 'takes no input')
  },
  'commands.close_stdin': async (sandbox) => {
    const handle = await sandbox.commands.run("python -c 'import sys; print(len(sys.stdin.read()))'", { stdin: true, background: true })
    await sandbox.commands.closeStdin(handle.pid)
    assert.equal((await handle.wait()).stdout, '0\n')
  },
  'pty.create': (sandbox) => refused(() => sandbox.pty.create({ cols: 1, rows: 1, onData() {} }), 'linux kind'),
  git: (sandbox) => refused(() => sandbox.git.status('/home/user'), 'linux kind'),
}

const sandbox = await Sandbox.create({ timeoutMs: 600_000 })
const wanted = process.argv.slice(2)
const results = {}
for (const [name, check] of Object.entries(rows)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue
  try {
    await check(sandbox)
    results[name] = null
  } catch (error) {
    results[name] = String(error.stack ?? error)
  }
}
await sandbox.kill()
console.log(JSON.stringify(results))
process.exit(0)
