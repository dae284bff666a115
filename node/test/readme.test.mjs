// Tests that the programs in README.md's section "In this process" run as printed, and print what their comments say: `// → 42`.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { noPython, noTy } from './common.mjs'

const readme = readFileSync(new URL('../README.md', import.meta.url), 'utf8')
const section = /^## In this process\n(.*?)(?=^## |$(?![^]))/ms.exec(readme)?.[1] ?? ''
const programs = [...section.matchAll(/^```js\n(.*?)^```$/gms)].map((found) => found[1])

test('there are programs', () => assert.ok(programs.length >= 5, `${programs.length}`))

for (const [i, program] of programs.entries()) {
  test(`program ${i + 1}`, { skip: noPython || (program.includes('typeCheck') && noTy) }, () => {
    const options = { cwd: new URL('..', import.meta.url), encoding: 'utf8' }
    const ran = spawnSync(process.execPath, ['--input-type=module', '-e', program], options)
    assert.deepEqual([ran.status, ran.stderr], [0, ''])
    const expected = [...program.matchAll(/\/\/ → (.*)$/gm)].map((found) => found[1])
    assert.ok(expected.length > 0)
    assert.deepEqual(ran.stdout.trimEnd().split('\n'), expected)
  })
}
