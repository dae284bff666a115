// Builds dist/membrane.node, the engine in Node's process. Without cmake and a compiler, the package is only a client of services.
// It uses the library in MEMBRANE_DIR, in the project's build/release, or an installed one; otherwise it compiles the library.

import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const here = dirname(fileURLToPath(import.meta.url))
const project = join(here, '..', '..')
const compiler = process.env.CXX || 'c++'
const missing = ['cmake', compiler].filter((tool) => spawnSync(tool, ['--version']).status !== 0)

function run(...command) {
  const { status } = spawnSync('cmake', command, { stdio: 'inherit' })
  if (status !== 0) process.exit(status ?? 1)
}

if (missing.length) {
  console.error(`There is no ${missing.join(', no ')} here: the package is built without the engine, for use with a service.`)
} else {
  const ofProject = join(project, 'build', 'release')
  const directory = process.env.MEMBRANE_DIR || (existsSync(join(ofProject, 'membrane-config.cmake')) ? ofProject : '')
  const build = join(project, 'build', 'node')
  run('-S', here, '-B', build, ...(directory ? [`-Dmembrane_DIR=${directory}`] : []))
  run('--build', build, '--target', 'addon', '--parallel', String(availableParallelism?.() ?? 2))
}
