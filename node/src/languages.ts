#!/usr/bin/env node
// membrane-languages add python js: installs languages for sessions with the project's tools/get-languages, which the build has copied.

import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { MembraneError } from './errors.js'
import { openLanguage } from './session.js'

const usage = `Usage: membrane-languages add [LANGUAGE…] [--directory DIRECTORY] [--warm MODULE,…]

Brings languages for sessions: python by pip's registry, js by npm's, both where none is named. Each file is held to its SHA-256; what is there
already, whole, is left alone. Then it makes their warm images, which takes a minute or two the first time.

  --directory DIRECTORY  where to, in the place of MEMBRANE_LANGUAGES or your data directory
  --warm MODULE,…        modules that a warm image of Python has imported; may be repeated, for other images; none for none

It needs python3 (3.8 or later) with pip; js needs npm, too.
`
const script = fileURLToPath(new URL('./tools/get-languages', import.meta.url))

function fail(why: string, hint: string, status = 1): never {
  process.stderr.write(`membrane-languages: ${why}\n${hint}\n`)
  process.exit(status)
}

function fetched(words: readonly string[]): void {
  if (!existsSync(script)) fail('this package was built without the tools that install languages', 'Build it in the project: npm run build.')
  const { error, status, signal } = spawnSync('python3', [script, ...words], { stdio: 'inherit' })
  if ((error as NodeJS.ErrnoException | undefined)?.code === 'ENOENT')
    fail('python3, which installs the languages, is missing', 'Install Python 3.8 or later with pip, so that python3 is in PATH.')
  if (error) fail(`python3 could not be started: ${error.message}`, 'Is it a program that you may run?')
  if (status !== 0) process.exit(status ?? (signal ? 1 : 0))
}

/** Splits words into the values of an option and the rest. */
function split(words: readonly string[]): { languages: string[]; directory: string | undefined } {
  const languages: string[] = []
  let directory: string | undefined
  for (let i = 0; i < words.length; ++i) {
    const [name, value] = words[i]!.split(/=(.*)/s)
    if (name === '--directory') directory = value ?? words[++i]
    else if (name === '--warm') i += value === undefined ? 1 : 0
    else languages.push(words[i]!)
  }
  return { languages, directory }
}

async function warmed(languages: readonly string[], directory: string | undefined): Promise<void> {
  if (directory !== undefined) process.env['MEMBRANE_LANGUAGES'] = directory
  for (const name of languages.length ? languages : ['python', 'js']) {
    try {
      await openLanguage(name, { onProgress: (step) => process.stderr.write(`${step}\n`) })
    } catch (error) {
      if (!(error instanceof MembraneError)) throw error
      if (error.code === 'no_engine') return // sessions of another build will use them
      fail(error.message, error.hint)
    }
  }
}

const [command, ...words] = process.argv.slice(2)
if (command === undefined || ['-h', '--help', 'help'].includes(command) || words.some((each) => each === '-h' || each === '--help')) {
  ;(command === undefined ? process.stderr : process.stdout).write(usage)
  process.exitCode = command === undefined ? 2 : 0
} else if (command === 'add') {
  const { languages, directory } = split(words)
  const odd = languages.find((each) => !['python', 'js'].includes(each))
  if (odd !== undefined) fail(`there is no ${odd} to add: there are python and js`, 'membrane-languages --help says more.', 2)
  fetched(words)
  await warmed(languages, directory)
} else {
  fail(`there is no command ${command}: there is add`, 'Write: membrane-languages add python js', 2)
}
