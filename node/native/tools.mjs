// Copies the project's tools that install languages to dist/tools, for the command membrane-languages.

import { chmodSync, copyFileSync, existsSync, mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const tools = join(root, '..', 'tools')
const into = join(root, 'dist', 'tools')

if (existsSync(join(tools, 'get-languages'))) {
  mkdirSync(into, { recursive: true })
  for (const name of ['get-languages', 'bundle-typescript', 'bundle-time-zones']) copyFileSync(join(tools, name), join(into, name))
} else {
  console.error('The project was not found: the package is built without the tools that membrane-languages needs.')
}
chmodSync(join(root, 'dist', 'languages.js'), 0o755)
