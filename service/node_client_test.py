#!/usr/bin/env python3
"""The client for Node as users have it, packed and installed into a fresh directory, with a real service and with a server
that misbehaves in every way.

    MEMBRANE_COMMAND=build/release/membrane service/node_client_test.py
"""

import json
import shutil
import textwrap
import unittest

from clients_testing import ROOT, Scripted, asking, begin, blocks, environment, install_or_skip, run


def setUpModule():
    global folder, service
    folder, service = begin()


class NodeClient(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.app = folder / "app"
        if cls.app.exists():
            return
        if not shutil.which("npm"):
            raise unittest.SkipTest("npm is not installed")
        source = folder / "node"
        shutil.copytree(ROOT / "node", source, ignore=shutil.ignore_patterns("node_modules", "dist"))
        cls.app.mkdir()
        (cls.app / "package.json").write_text('{"type": "module", "private": true}')
        install_or_skip(cls, "the package", ["npm", "install", "--silent", "--no-audit", "--no-fund", source], cwd=cls.app)

    @classmethod
    def skipTest(cls, why):
        raise unittest.SkipTest(why)

    def ran(self, code, **where):
        path = self.app / "program.mjs"
        path.write_text(textwrap.dedent(code))
        return run(["node", path], env=environment(**where), cwd=self.app)


class Node(NodeClient):
    def test_the_examples_of_the_readme_run(self):
        if not service.has_template("python"):
            self.skipTest("there is no template python")
        examples = blocks("node/README.md", "javascript")
        starts = ["2\n 3\n", "0\n1\n2\n2 ", "hello\n\ndiff --git a/hello.py b/hello.py\n"]
        all_printed = ""
        for example, printed in zip(examples, starts, strict=True):
            if "'linux'" in example and not service.has_template("linux"):
                continue
            done = self.ran(example)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(done.stdout.startswith(printed), done.stdout)
            all_printed += done.stdout
        self.assertIn("ZeroDivisionError division by zero\nTimeoutError\n", all_printed)

    def test_it_is_typed_and_alone(self):
        self.assertEqual([path.name for path in (self.app / "node_modules").glob("[!.]*")], ["membrane"])
        text = "\n".join(example for example in blocks("node/README.md", "javascript")[:1])
        (self.app / "typed.ts").write_text(text + "\nexport const id: string = sandbox.id\nawait using other = await Sandbox.create()\n")
        done = run([folder / "node/node_modules/.bin/tsc", "--strict", "--noEmit", "--target", "es2022", "--module", "nodenext",
                    "--lib", "es2022,dom,esnext.disposable", "--typeRoots", folder / "node/node_modules/@types",
                    "--exactOptionalPropertyTypes", "typed.ts"], cwd=self.app)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_a_sandbox(self):
        if not service.has_template("python"):
            self.skipTest("there is no template python")
        done = self.ran(r"""
            import assert from 'node:assert/strict'
            import { Sandbox, NotFoundError } from 'membrane'
            const sandbox = await Sandbox.create({ labels: ['n'], ttl: '10m', metadata: { n: 'v' } })
            const result = await sandbox.exec('print(input()); 7', { stdin: 'hi\n', arguments: ['b'] })
            assert.deepEqual([result.ok, result.text, result.stdout, result.value], [true, '7', 'hi\n', { 'text/plain': '7' }])
            await sandbox.files.write('/tmp/a b', new Uint8Array([0, 255]))
            assert.deepEqual(await sandbox.files.read('/tmp/a b'), new Uint8Array([0, 255]))
            const ids = []
            for await (const each of Sandbox.list({ label: 'n' })) ids.push(each.id)
            assert.deepEqual(ids, [sandbox.id])
            for await (const each of Sandbox.list({ label: 'n', metadata: { n: 'w' } })) assert.fail(each.id)
            for await (const each of Sandbox.list({ label: 'n', metadata: { n: 'v' } })) assert.equal(each.id, sandbox.id)
            assert.deepEqual((await (await Sandbox.connect(sandbox.id)).info()).metadata, { n: 'v' })
            const controller = new AbortController()
            const why = new Error('enough')
            await assert.rejects(async () => {
              for await (const event of sandbox.stream('print(1, flush=True)\nwhile True: pass', { signal: controller.signal }))
                controller.abort(why)
            }, why)
            assert.equal((await sandbox.run('8')).text, '8')
            const endless = await sandbox.exec('while True: pass', { background: true })
            await endless.cancel()
            assert.equal((await endless.wait()).outcome, 'cancelled')
            const reads = await sandbox.exec('print(input() + input())', { background: true, openStdin: true })
            await reads.writeStdin('a\nb\n', { eof: true })
            assert.equal((await reads.wait()).stdout, 'ab\n')
            const sealed = await Sandbox.create({ seal: true })
            const receipt = await sealed.receipt(await sealed.run('6 * 7'))
            assert.match(new TextDecoder().decode(receipt.text), /"kind":"turn"/)
            assert.match(new TextDecoder().decode(receipt.privateText), /6 \* 7/)
            const background = await sealed.exec('1', { background: true })
            await background.wait()
            assert.match(new TextDecoder().decode((await background.receipt()).text), /"turn":2/)
            await sealed.kill()
            await sandbox.kill()
            await assert.rejects(sandbox.run('1'), (error) => error instanceof NotFoundError && error.requestId !== '' && error.hint !== '')
            """)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_linux_sandbox(self):
        if not service.has_template("linux"):
            self.skipTest("there is no template linux")
        done = self.ran(r"""
            import assert from 'node:assert/strict'
            import { InvalidRequestError, Sandbox, Snapshots } from 'membrane'
            const sandbox = await Sandbox.create({ template: 'linux' })
            assert.equal((await sandbox.exec({ command: ['printf', '%s-', 'a b', '$HOME'] })).stdout, 'a b-$HOME-')
            assert.equal((await sandbox.exec('pwd', { directory: '/tmp' })).stdout, '/tmp\n')
            assert.equal((await sandbox.exec({ command: ['exit'] }).catch((error) => error)).ok, false)
            await assert.rejects(sandbox.exec({ command: ['a'], arguments: ['b'] }), TypeError)
            await assert.rejects(sandbox.exec('a', { command: ['a'] }), TypeError)
            let text = ''
            for await (const event of sandbox.stream({ command: ['stty', 'size'], terminal: { columns: 91, rows: 20 } }))
              text += event.text ?? ''
            assert.equal(text, '20 91\r\n')
            const waits = await sandbox.exec("trap 'exit 5' USR1; echo ready; while :; do sleep 0.05; done", {
              background: true,
              terminal: { columns: 80, rows: 24 },
            })
            let result
            for await (const event of waits.stream({ hangUp: true })) {
              if (event.kind === 'result') result = event.result
              if (!event.text?.includes('ready')) continue
              await waits.resize({ columns: 100, rows: 30 })
              await waits.signal(10)
            }
            assert.equal(result.exitCode, 5)
            await sandbox.files.write('/root/repo/text', 'one\n')
            const since = await sandbox.snapshot()
            await sandbox.exec({ command: ['sh', '-c', 'echo two >> text'], directory: '/root/repo' })
            const patch = await sandbox.diff({ directory: '/root/repo', since })
            assert.match(new TextDecoder().decode(patch), /^diff --git a\/text b\/text\n/)
            const other = await Sandbox.create({ snapshot: since })
            assert.equal(await other.patch(patch, { directory: '/root/repo' }), 1)
            assert.equal(await other.files.readText('/root/repo/text'), 'one\ntwo\n')
            await assert.rejects(other.patch('no patch'), InvalidRequestError)
            await other.kill()
            await sandbox.pause()
            await assert.rejects(sandbox.exec('1'), (error) => error.hint === 'Resume it: sandbox.resume().')
            await new Snapshots().remove(since)
            await sandbox.kill()
            """)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_contexts_policies_archives_snapshots_and_secrets(self):
        if not service.has_template("python"):
            self.skipTest("there is no template python")
        done = self.ran(r"""
            import assert from 'node:assert/strict'
            import { Sandbox, Secrets, Snapshots, DeniedError } from 'membrane'
            const sandbox = await Sandbox.create({ policy: { kv: {} } })
            const context = await sandbox.contexts.open()
            assert.deepEqual(await sandbox.contexts.list(), [context])
            assert.equal(context.template, 'python')
            await sandbox.exec('x = 1', { context: context.id })
            assert.equal((await sandbox.exec('x', { context: context.id })).text, '1')
            assert.equal((await sandbox.run('x')).ok, false)
            await sandbox.contexts.remove(context)
            assert.deepEqual(await sandbox.contexts.list(), [])
            const policy = await sandbox.policy()
            await sandbox.setPolicy(policy)
            assert.deepEqual(await sandbox.policy(), policy)
            await sandbox.update({ limits: { fuel: 12345678 } })
            const raised = await sandbox.policy()
            assert.deepEqual([raised.kv, raised.limits.fuel], [policy.kv, 12345678])
            assert.deepEqual({ ...raised.limits, fuel: policy.limits.fuel }, policy.limits)
            const ran = await sandbox.run('while True: pass')
            assert.match(ran.error.hint, /raise limits\.fuel: sandbox\.update\(\{ limits: \{"fuel": 49382712\} \}\)/)
            await sandbox.update({ limits: { fuel: policy.limits.fuel }, labels: ['l'] })
            assert.deepEqual([await sandbox.policy(), (await sandbox.info()).labels], [policy, ['l']])
            await assert.rejects(sandbox.exec('1', { context: 'ctx0' }), { hint: 'sandbox.contexts.list() lists them.' })
            await assert.rejects(sandbox.update({ ttl: '90d' }), { message: /^ttl must be at most 30d/ })
            await sandbox.setPolicy({})
            assert.deepEqual((await sandbox.policy()).limits, policy.limits)
            assert.notDeepEqual(await sandbox.policy(), policy)
            await sandbox.files.write('/tmp/d/a', 'one')
            await sandbox.files.writeArchive('/tmp/e', await sandbox.files.readArchive('/tmp/d'))
            assert.equal(await sandbox.files.readText('/tmp/e/a'), 'one')
            const made = await sandbox.snapshot()
            assert.deepEqual([made.sandbox, made.name, made.sizeBytes > 0], [sandbox.id, undefined, true])
            const snapshots = new Snapshots()
            assert.deepEqual((await snapshots.list()).filter((each) => each.id === made.id), [made])
            assert.equal((await snapshots.promote(made.id, 'of-node')).name, 'of-node')
            await snapshots.removeTemplate('of-node')
            await snapshots.remove(made.id)
            assert.ok(!(await snapshots.list()).some((each) => each.id === made.id))
            const secrets = new Secrets()
            const put = await secrets.put('OF_NODE', '0123456789', { hosts: ['api.example.com'] })
            assert.deepEqual((await secrets.list()).filter((each) => each.name === 'OF_NODE'), [put])
            await secrets.remove('OF_NODE')
            assert.ok(!(await secrets.list()).some((each) => each.name === 'OF_NODE'))
            await assert.rejects(new Secrets({ token: 'mbr_wrong' }).list(), DeniedError)
            await sandbox.kill()
            """)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_unknown_options_are_refused_and_a_sandbox_shows_its_id(self):
        self.node(r"""
            const unknown = (name) => ({ name: 'TypeError', message: new RegExp(`has no option "${name}"; it has `) })
            await assert.rejects(Sandbox.create({ templat: 'python' }), unknown('templat'))
            await assert.rejects(Sandbox.connect('sbx1', { tokn: '' }), unknown('tokn'))
            assert.throws(() => new Snapshots({ signal: AbortSignal.timeout(1) }), unknown('signal'))
            const sandbox = await Sandbox.create()
            await assert.rejects(sandbox.run('1', { stdin: '' }), unknown('stdin'))
            await assert.rejects(sandbox.exec('1', { contxt: '' }), unknown('contxt'))
            await assert.rejects(sandbox.update({ idle_timeout: 3 }), unknown('idle_timeout'))
            assert.throws(() => sandbox.stream('1', { background: true }), unknown('background'))
            const { inspect } = await import('node:util')
            assert.equal(inspect(sandbox), `Sandbox { id: '${sandbox.id}', template: 'python' }`)
            const exec = await sandbox.exec('1', { background: true })
            assert.equal(inspect(exec), `Exec { id: '${exec.id}', sandbox: '${sandbox.id}' }`)
            await sandbox.kill()
            """)

    def node(self, code):
        if not service.has_template("python"):
            self.skipTest("there is no template python")
        done = self.ran("import assert from 'node:assert/strict'\nimport * as membrane from 'membrane'\n"
                        "const { Sandbox, Snapshots, Secrets, ProgramError } = membrane\n" + textwrap.dedent(code))
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_its_own_objects_serve_as_their_ids(self):
        self.node(r"""
            const sandbox = await Sandbox.create({ seal: true })
            const context = await sandbox.contexts.open()
            assert.equal((await sandbox.exec('x = 1; x', { context })).text, '1')
            assert.equal((await sandbox.run('x', { context })).text, '1')
            assert.equal((await sandbox.run('x')).ok, false)
            const started = await sandbox.exec('2', { background: true })
            await started.wait()
            assert.deepEqual(await sandbox.receipt(started), await started.receipt())
            const made = await sandbox.snapshot()
            assert.equal((await Sandbox.connect(sandbox)).id, sandbox.id)
            await sandbox.kill()
            const snapshots = new Snapshots()
            assert.equal((await snapshots.promote(made, 'of-node-objects')).name, 'of-node-objects')
            const again = await Sandbox.create({ snapshot: made })
            assert.equal((await again.run('1')).text, '1')
            await again.kill()
            await snapshots.removeTemplate('of-node-objects')
            await snapshots.remove(made)
            assert.ok(!(await snapshots.list()).some((each) => each.id === made.id))
            const secrets = new Secrets()
            await secrets.remove(await secrets.put('OF_NODE_OBJECTS', '0123456789', { hosts: ['api.example.com'] }))
            assert.ok(!(await secrets.list()).some((each) => each.name === 'OF_NODE_OBJECTS'))
            """)

    def test_files_of_a_context(self):
        self.node(r"""
            const sandbox = await Sandbox.create()
            const { files } = sandbox
            const context = await sandbox.contexts.open()
            await files.write('/tmp/a', 'one', { context })
            assert.equal(await files.readText('/tmp/a', { context: context.id }), 'one')
            await assert.rejects(files.read('/tmp/a'), (error) => error.hint.includes(context.id))
            await files.makeDirectory('/tmp/d', { context })
            await files.move('/tmp/a', '/tmp/d/b', { context })
            assert.equal((await files.stat('/tmp/d/b', { context })).sizeBytes, 3)
            assert.deepEqual((await files.list('/tmp/d', { context })).map((file) => file.path), ['/tmp/d/b'])
            await files.writeArchive('/tmp/e', await files.readArchive('/tmp/d', { context }), { context })
            await files.remove('/tmp/d', { recursive: true, context })
            assert.equal(await files.readText('/tmp/e/b', { context }), 'one')
            assert.deepEqual(await files.list(), [])
            await sandbox.kill()
            """)

    def test_approvals(self):
        with asking() as (url, policy):
            self.node(f"const [url, policy] = [{json.dumps(url)}, {json.dumps(policy)}]" + r"""
            const code = `from membrane import http; print(input()); http.request('POST', '${url}', '', '12345')`
            const sandbox = await Sandbox.create({ policy })
            assert.deepEqual(await sandbox.approvals.list(), [])
            const reported = []
            let result
            for await (const event of sandbox.stream(code, { stdin: 'given' })) {
              if (event.kind === 'result') result = event.result
              if (event.kind !== 'approval') continue
              reported.push(event.approval)
              if (event.approval.state !== 'waiting') continue
              assert.deepEqual(await sandbox.approvals.list(), [event.approval])
              await sandbox.approvals.decide(event.approval, true)
            }
            assert.equal(result.check().text, "b'taken'")
            assert.deepEqual(reported.map((each) => each.state), ['waiting', 'approved'])
            assert.deepEqual([reported[0].target, reported[0].bytes], [`POST ${url}`, url.length + 5])
            assert.equal(reported[0].privateReads[0].function, 'input')
            await sandbox.kill()
            """)

    def test_an_exit_code_is_a_failure_and_bytes_are_input(self):
        self.node(r"""
            const sandbox = await Sandbox.create()
            assert.equal((await sandbox.run('import sys; sys.exit()')).check().exitCode, 0)
            const ended = await sandbox.run('sys.exit(3)')
            assert.deepEqual([ended.outcome, ended.exitCode, ended.ok], ['ok', 3, false])
            assert.throws(() => ended.check(), (error) => error instanceof ProgramError && error.code === 'exit' && error.result === ended)
            assert.equal((await sandbox.exec('input()', { stdin: Buffer.from('né') })).text, "'né'")
            await assert.rejects(sandbox.exec('', { stdin: new Uint8Array([97, 255]) }), /not UTF-8/)
            await assert.rejects(sandbox.exec('', { stdin: 7 }), TypeError)
            await sandbox.kill()
            """)


NODE_FAILS = """
    try {{
      await Sandbox.create({options})
    }} catch (error) {{
      console.log(error.name, error.code, error.requestId, String(error.status))
    }}
"""


NODE_BLOCK = """
const dispose = Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')
try {{
  const sandbox = await Sandbox.create()
  try {{ {body} }} finally {{ await sandbox[dispose]() }}
}} catch (error) {{ {caught} }}
"""


class NodeOnHostileServer(Scripted, NodeClient):
    PROGRAMS = {
        "create": "console.log((await Sandbox.create()).id)",
        "fails": NODE_FAILS.format(options=""),
        "slow": NODE_FAILS.format(options="{ timeout: 3 }"),
        "stream": "for await (const e of (await Sandbox.create()).stream('')) console.log(e.text ?? e.result.text)",
        "bytes": "const hex = (bytes) => Buffer.from(bytes).toString('hex')\n"
                 "for await (const e of (await Sandbox.create()).stream(''))\n"
                 "  console.log(e.result ? `${hex(e.result.stdoutBytes)} ${hex(e.result.stderrBytes)}` : hex(e.data))",
        "kill": "await (await Sandbox.create()).kill()",
        "busy": "try { await Sandbox.create() } catch (error) { console.log(error.retryAfterS) }",
        "ends": NODE_BLOCK.format(body="", caught="") + "console.log('ended')",
        "fails_itself": NODE_BLOCK.format(body="throw new Error('own')", caught="console.log(error.message)"),
        "is_not_ended": NODE_BLOCK.format(body="", caught="console.log(error.name)"),
    }

    def ask(self, server, code):
        return self.ran("import { Sandbox } from 'membrane'\n" + code, url=server.url)


if __name__ == "__main__":
    unittest.main()
