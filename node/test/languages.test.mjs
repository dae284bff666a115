// Tests the command membrane-languages, and hints in this package's terms.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { Session } from 'membrane'
import { noJavaScript, noPython } from './common.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const { bin } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
const command = join(root, bin?.['membrane-languages'] ?? 'none')
const skip = !existsSync(join(root, 'dist', 'tools')) && 'the package was built without the tools'

function ran(words, env = {}) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [command, ...words], { encoding: 'utf8', env: { ...process.env, ...env } })
  return { status, stdout, stderr }
}

/** A folder with a python3 that prints its arguments and exits with the given code. */
function withPython(status, act) {
  const folder = mkdtempSync(join(tmpdir(), 'membrane-python-'))
  try {
    const path = join(folder, 'python3')
    writeFileSync(path, `#!/bin/sh\necho "$@"\nexit ${status}\n`)
    chmodSync(path, 0o755)
    act({ PATH: folder, MEMBRANE_LANGUAGES: folder, XDG_DATA_HOME: folder })
  } finally {
    rmSync(folder, { recursive: true })
  }
}

test('the tools come with the package', { skip }, () => {
  for (const name of ['get-languages', 'bundle-typescript', 'bundle-time-zones']) assert.ok(existsSync(join(root, 'dist', 'tools', name)))
  assert.match(readFileSync(command, 'utf8'), /^#!\/usr\/bin\/env node\n/)
  const folder = mkdtempSync(join(tmpdir(), 'membrane-bin-'))
  try {
    symlinkSync(command, join(folder, 'membrane-languages')) // as npm does
    const { status, stdout } = spawnSync(join(folder, 'membrane-languages'), ['--help'], { encoding: 'utf8' })
    assert.equal(status, 0)
    assert.match(stdout, /add \[LANGUAGE…\]/)
  } finally {
    rmSync(folder, { recursive: true })
  }
})

test('python3 installs languages', { skip }, () => {
  withPython(1, (env) => {
    const { status, stdout } = ran(['add', 'python', 'js', '--warm', 'none'], env)
    assert.equal(status, 1)
    assert.match(stdout, /dist\/tools\/get-languages python js --warm none\n$/)
  })
  withPython(0, (env) => {
    const { status, stderr } = ran(['add', 'js', '--directory', env.PATH], env)
    assert.equal(status, 1) // nothing was installed
    assert.match(stderr, /the language js is not installed/)
  })
})

test('a missing python3 is reported', { skip }, () => {
  const { status, stderr } = ran(['add', 'js'], { PATH: '/nonexistent' })
  assert.equal(status, 1)
  assert.match(stderr, /python3, which installs the languages, is missing/)
})

test('wrong words', { skip }, () => {
  for (const [words, expected] of [[[], /Usage/], [['remove', 'js'], /there is no command remove/], [['add', 'ruby'], /there is no ruby/]]) {
    const { status, stderr } = ran(words)
    assert.equal(status, 2)
    assert.match(stderr, expected)
  }
})

test('installed languages are left alone', { skip: skip || noJavaScript }, () => {
  assert.deepEqual(ran(['add', 'js']), { status: 0, stdout: '', stderr: '' })
})

test('hints name what the package has', { skip: noPython || noJavaScript }, async () => {
  const program = `
    import { Session } from 'membrane'
    for (const language of ['python', 'js', 'pyton', 'ruby'])
      await Session.create(language).catch((error) => console.log(error.hint))
  `
  const folder = mkdtempSync(join(tmpdir(), 'membrane-none-'))
  const options = { cwd: root, encoding: 'utf8', env: { ...process.env, MEMBRANE_LANGUAGES: folder, XDG_DATA_HOME: folder } }
  const said = spawnSync(process.execPath, ['--input-type=module', '-e', program], options).stdout.trim().split('\n')
  rmSync(folder, { recursive: true })
  assert.equal(said.length, 4)
  assert.equal(said[0], 'Install it: npx membrane-languages add python.')
  assert.equal(said[1], 'Install it: npx membrane-languages add js.')
  assert.match(said[2], /Did you mean python\?.*npx membrane-languages add/)
  const hints = [...said]
  for (const options of [{ policy: { platform: 'kvm' } }, { limits: { tasks: '1' } }])
    await assert.rejects(Session.create('python', options), (error) => hints.push(error.hint) && /Sandbox\.create/.test(error.hint))
  for (const [language, code, expected] of [
    ['js', "require('lodash')", /policy: \{ packages: \{ javascript: \['lodash'\] \} \}.*allow: \['fs:read:\.\/node_modules:\/node_modules'\]/],
    ['js', "require('@a/b/c')", /javascript: \['@a\/b'\]/],
    ['python', "import urllib.request as r; r.urlopen('https://example.com')", /allow: \['http:GET:https:\/\/example\.com\/\*'\] would allow it/],
    ['python', "import membrane; membrane.agent.ask('x')", /allow: \['ask'\] would allow it/],
  ]) {
    const session = await Session.create(language)
    const { error, report } = await session.run(code)
    assert.match(error.message, expected)
    for (const { grant = '' } of report.host_calls) assert.match(grant, /^(allow: \["|$)/)
    hints.push(error.message, error.hint, error.traceback)
    session.close()
  }
  const session = await Session.create('python')
  const { error } = await session.run("raise ValueError('write it as --with x or --allow y')")
  assert.equal(error.message, 'write it as --with x or --allow y')
  session.close()
  for (const hint of hints) assert.doesNotMatch(hint, /(?<!npx )membrane (languages|run|doctor)|--with|--allow/)
})
