// Types of a cell, checked before it runs: by ty, which knows the cells before, the inputs, and stubs of what the host gives.
// The same as python/membrane/_check.py, whose report and bytes it shares.
//
// ty runs as a process of its own with limits, in an empty folder and an empty environment, so that a cell cannot read what is installed
// here. It helps programs to be right, and keeps nobody from anything: a cell can silence it.

import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { accessSync, constants, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join, resolve } from 'node:path'
import { MembraneError } from './errors.js'
import type { Inputs, Registry } from './functions.js'
import { checkOptions } from './given.js'
import { sessionStub, Stubs, typesOfInputs } from './stubs.js'
import { milliseconds, type Duration, type Result } from './types.js'

/** How the types of a cell are checked, for Session's option `typeCheck`; true is this with nothing said. */
export interface TypeCheck {
  /** false: in Session.check() alone. */
  beforeRuns?: boolean
  /** A cell whose types take longer does not run; 10 s. */
  timeout?: Duration
  /** More modules that programs import, as the texts of their .pyi files. */
  stubs?: Readonly<Record<string, string>>
  /** Folders with stubs or packages, as a site-packages with numpy: cells can learn all that stands there. */
  paths?: readonly string[]
  /** The path of ty; else it is looked for in PATH. */
  checker?: string
}

const pythonVersion = '3.15' // of the language, which ty need not know better
const usualTimeoutMs = 10_000
const mostHistory = 256 << 10 // characters of the cells before
const mostOutput = 4 << 20 // bytes that ty says
const mostFindings = 20
const mostNames = 100 // that the session is asked for
const mostAskingMs = 1000 // for them, while the event loop stands still
const mostMessage = 400
const mostShown = 200 // characters of a line
const memoryKib = 2 << 20
const missing = 'unresolved-reference' // what ty calls a name that nobody has defined

type Report = ConstructorParameters<typeof Result>[0]

interface Found {
  readonly line: number
  /** In characters, from 1. */
  readonly column: number
  readonly end: number
  readonly rule: string
  readonly message: string
}

// -- cells before -----------------------------------------------------------------------------------------------------

const syntaxErrors = ['SyntaxError', 'IndentationError', 'TabError']

/** The text of a session's cells until now, as far as it says which names there are. Not changed: more cells make another. */
export class Cells {
  readonly texts: readonly string[]

  constructor(texts: readonly string[] = []) {
    this.texts = texts
  }

  /** Of the head of a session's bytes; those who wrote it may have written anything. */
  static ofJson(value: unknown): Cells {
    const isTexts = Array.isArray(value) && value.every((each) => typeof each === 'string')
    return new Cells(isTexts && lengthOf(value) <= mostHistory ? value : [])
  }

  /** Of the inputs of a turn: they are as what a cell has set, which a later one may set to something else. */
  withInputs(inputs: Inputs): Cells {
    const types = typesOfInputs(inputs)
    if (!types.length) return this
    const lines = ['class _MembraneInputs:', '    import datetime, decimal, uuid', '    from typing import Any']
    lines.push(...types.map(([, kind], number) => `    _${number}: ${kind}`))
    lines.push(...types.map(([name], number) => `${name} = _MembraneInputs._${number}`), 'del _MembraneInputs')
    return this.#withText(lines.join('\n'))
  }

  /** Of a cell that did not run to its end, names that it defined may be there. inputs: of its turn. */
  with(code: string, { outcome, error, exitCode }: Result, inputs: Inputs = []): Cells {
    if (!['ok', 'raised', 'waiting'].includes(outcome)) return this
    const before = this.withInputs(inputs)
    if (syntaxErrors.includes(error?.code ?? '')) return before
    const ended = outcome === 'ok' && exitCode === undefined
    const indented = linesOf(code)
      .split('\n')
      .map((line) => `    ${line}\n`)
    const text = ended ? linesOf(code) : `try:\n    pass\n${indented.join('')}except BaseException:\n    pass`
    return before.#withText(text)
  }

  #withText(text: string): Cells {
    const texts = [...this.texts, text]
    while (lengthOf(texts) > mostHistory) texts.shift()
    return new Cells(texts)
  }
}

const lengthOf = (texts: readonly string[]): number => texts.reduce((sum, each) => sum + each.length, 0)

/** With ends of lines as ty counts them, none at the end, and nothing that UTF-8 does not carry. */
function linesOf(text: string): string {
  const lines = text.replace(/\r\n?/g, '\n')
  let end = lines.length
  while (lines[end - 1] === '\n') --end
  return Buffer.from(lines.slice(0, end)).toString()
}

const countOf = (text: string): number => text.split('\n').length

// -- the checker ------------------------------------------------------------------------------------------------------

/** What is checked. */
export interface Text {
  readonly code: string
  /** Those before; undefined for a script, which sees nothing of them. */
  readonly cells: Cells | undefined
  /** Names of the session that begin with a text. */
  readonly namesLike: (start: string) => readonly string[]
  /** Functions that nobody has defined are no mistake. */
  readonly callsMayWait: boolean
}

const typeCheckOptions = ['beforeRuns', 'timeout', 'stubs', 'paths', 'checker'] as const

/** Checks cells for sessions of one registry, one at a time. */
export class Checker {
  readonly #how: TypeCheck
  readonly #timeoutMs: number
  readonly #ty: string
  readonly #registry: Registry
  #process: ChildProcess | undefined
  #isCancelled = false

  constructor(how: true | TypeCheck, language: string, registry: Registry) {
    if (language !== 'python')
      throw invalid(`types are checked in Python, and not in ${language}`, 'Leave typeCheck out.')
    this.#how = how === true ? {} : how
    checkOptions('typeCheck', this.#how, typeCheckOptions)
    for (const module of Object.keys(this.#how.stubs ?? {}))
      if (!/^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$/.test(module))
        throw invalid(`${JSON.stringify(module)} is no name of a module`, 'Write it as pkg.module.')
    this.#timeoutMs = this.#how.timeout === undefined ? usualTimeoutMs : milliseconds(this.#how.timeout)
    this.#ty = findTy(this.#how.checker)
    this.#registry = registry
  }

  get beforeRuns(): boolean {
    return this.#how.beforeRuns ?? true
  }

  /** Whether a check has begun that is not over. */
  get isChecking(): boolean {
    return this.#process !== undefined
  }

  /** The same for a fork of its session, which has a registry of its own. */
  forAnother(registry: Registry): Checker {
    return new Checker({ ...this.#how, checker: this.#ty }, 'python', registry)
  }

  /** Ends a check that runs. */
  cancel(): void {
    if (!this.#process) return
    this.#isCancelled = true
    this.#process.kill('SIGKILL')
  }

  /** A report that says why the code should not run; undefined where nothing is wrong. */
  async check(text: Text): Promise<Report | undefined> {
    const asked = this.#asked(text)
    try {
      this.#isCancelled = false
      const said = await this.#run(asked.folder)
      if (this.#isCancelled) return reportOf({ code: 'cancelled', message: 'the turn was cancelled', hint: '' }, 'cancelled')
      return this.#judged(said, asked, text)
    } finally {
      asked.remove()
    }
  }

  /** The same at once: this thread waits for ty. */
  checkSync(text: Text): Report | undefined {
    const asked = this.#asked(text)
    try {
      const [file, words, options] = this.#commandIn(asked.folder)
      const limits = { timeout: Math.max(this.#timeoutMs, 1), killSignal: 'SIGKILL', maxBuffer: mostOutput } as const
      const ran = spawnSync(file, words, { ...options, ...limits, stdio: ['ignore', 'pipe', 'ignore'] })
      const isLate = (ran.error as NodeJS.ErrnoException | undefined)?.code === 'ETIMEDOUT'
      return this.#judged(isLate ? undefined : ran.stdout, asked, text)
    } finally {
      asked.remove()
    }
  }

  // -- what ty is given

  #asked({ code, cells }: Text): Asked {
    const stubs = new Stubs(this.#registry)
    const before = cells ? linesOf(cells.texts.join('\n')) : ''
    const modules = [...stubs.files.keys()].map((module) => [module, stubs.file(module, !cells)] as const)
    const lines = linesOf(code)
    const folder = mkdtempSync(join(tmpdir(), 'membrane-'))
    const asked = {
      folder,
      stubs,
      lines: lines.split('\n'),
      first: before ? countOf(before) : 0,
      remove: () => rmSync(folder, { recursive: true, force: true }),
    }
    try {
      this.#write(folder, new Map([...modules, ...Object.entries(this.#how.stubs ?? {})]))
      const texts = before ? [before, lines] : [lines]
      writeFileSync(join(folder, 'cells.ipynb'), notebookOf(texts))
      return asked
    } catch (error) {
      asked.remove()
      throw error
    }
  }

  #write(folder: string, modules: ReadonlyMap<string, string>): void {
    const names = [...modules.keys()]
    for (const [module, text] of modules) {
      const isPackage = names.some((other) => other.startsWith(`${module}.`))
      const path = join(folder, ...module.split('.')) + (isPackage ? '/__init__.pyi' : '.pyi')
      mkdirSync(dirname(path), { recursive: true })
      writeFileSync(path, text)
    }
    const environment = join(folder, '.empty')
    mkdirSync(join(environment, 'lib', `python${pythonVersion}`, 'site-packages'), { recursive: true })
    writeFileSync(join(environment, 'pyvenv.cfg'), `home = ${environment}\nversion = ${pythonVersion}\n`)
    const ours = new Set(names.map((each) => each.split('.')[0]!).filter((each) => each !== sessionStub))
    const patterns = ['**', ...[...ours].flatMap((each) => [`!${each}`, `!${each}.**`])]
    const paths = (this.#how.paths ?? []).map((each) => resolve(each))
    writeFileSync(
      join(folder, 'ty.toml'),
      `[environment]\npython-version = "${pythonVersion}"\npython-platform = "wasi"\npython = ".empty"\n` +
        `extra-paths = ${JSON.stringify(paths)}\n[analysis]\nallowed-unresolved-imports = ${JSON.stringify(patterns)}\n`,
    )
  }

  // -- its process

  #commandIn(folder: string): [string, string[], { cwd: string; env: NodeJS.ProcessEnv }] {
    const secondsOfCpu = Math.floor(this.#timeoutMs / 1000) + 1
    // A shell sets the limits, of files that are written and of processes' memory and time, and becomes ty. One that this process has less of stays.
    const limited = ['-c 0', '-f 0', `-t ${secondsOfCpu}`, `-v ${memoryKib}`].map((each) => `command ulimit ${each} || :`)
    const script = `{ ${limited.join('; ')}; } 2> /dev/null; exec "$0" "$@"`
    const words = ['check', '--output-format', 'sarif', '--exit-zero', 'cells.ipynb']
    const env = { HOME: folder, XDG_CONFIG_HOME: folder, PATH: '/bin:/usr/bin', TY_MAX_PARALLELISM: '1', NO_COLOR: '1' }
    return ['/bin/sh', ['-c', script, this.#ty, ...words], { cwd: folder, env }]
  }

  /** What ty says; undefined: it was not done in time. */
  #run(folder: string): Promise<Buffer | undefined> {
    const [file, words, options] = this.#commandIn(folder)
    return new Promise((settle) => {
      const child = (this.#process = spawn(file, words, { ...options, stdio: ['ignore', 'pipe', 'ignore'] }))
      const pieces: Buffer[] = []
      let sizeBytes = 0
      const end = (said: Buffer | undefined): void => {
        clearTimeout(timer)
        child.kill('SIGKILL')
        child.stdout.destroy()
        this.#process = undefined
        settle(said)
      }
      const timer = setTimeout(() => end(undefined), this.#timeoutMs)
      child.stdout.on('data', (piece: Buffer) => {
        pieces.push(piece)
        sizeBytes += piece.length
        if (sizeBytes > mostOutput) end(Buffer.alloc(0))
      })
      child.on('error', () => end(Buffer.alloc(0)))
      child.on('exit', (_, signal) => signal && end(Buffer.alloc(0)))
      child.on('close', () => end(Buffer.concat(pieces)))
    })
  }

  // -- what comes of it

  #judged(said: Buffer | undefined, { stubs, lines, first }: Asked, text: Text): Report | undefined {
    if (said === undefined)
      return reportOf({
        code: 'type_check_timed_out',
        message: `the types of the cell were not checked in ${this.#timeoutMs / 1000} s`,
        hint: 'Write the cell in a simpler way, or give more time: typeCheck: { timeout: … }',
      })
    const found = findingsOf(said, first, lines.length)
    if (!found)
      return reportOf({
        code: 'type_check_failed',
        message: 'the type checker did not end as it should',
        hint: `Write the cell in a simpler way, or look which ty this is: ${this.#ty} --version`,
      })
    if (found.some((each) => each.rule === 'invalid-syntax')) return undefined // which the language itself says best
    return reportOfFindings(found, lines, stubs, text)
  }
}

interface Asked {
  readonly folder: string
  readonly stubs: Stubs
  readonly lines: readonly string[]
  /** How many lines stand before. */
  readonly first: number
  remove(): void
}

const invalid = (message: string, hint: string): MembraneError => new MembraneError(message, { code: 'invalid_argument', hint })

function findTy(given: string | undefined): string {
  const paths = given === undefined ? (process.env['PATH'] ?? '').split(delimiter).filter(Boolean).map((each) => join(each, 'ty')) : [resolve(given)]
  const found = paths.find(isProgram)
  if (found) return resolve(found)
  const what = given === undefined ? 'typeCheck needs ty, which is not in PATH' : `there is no program ${given} for typeCheck`
  const hint = "Install it (pip install ty, or uv tool install ty), or say where it is: typeCheck: { checker: '/path/to/ty' }"
  throw new MembraneError(what, { code: 'not_installed', hint })
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return statSync(path).isFile()
  } catch {
    return false
  }
}

/** In which ty takes `await` outside of functions. */
function notebookOf(texts: readonly string[]): string {
  const cells = texts.map((source) => ({ cell_type: 'code', metadata: {}, outputs: [], execution_count: null, source }))
  return JSON.stringify({ cells, metadata: { language_info: { name: 'python' } }, nbformat: 4, nbformat_minor: 5 })
}

interface Sarif {
  runs: [{ results: SarifResult[] }]
}
interface SarifResult {
  ruleId: string
  level: string
  message: { text: string }
  locations: { physicalLocation: { artifactLocation: { uri: string }; region: Region } }[]
}
interface Region {
  startLine: number
  startColumn: number
  endLine: number
  endColumn: number
}

/** Errors in so many lines past the first ones, counted from there; undefined where this is not what ty says. */
function findingsOf(said: Buffer, first: number, lines: number): Found[] | undefined {
  const found: Found[] = []
  try {
    const sarif = JSON.parse(said.toString()) as Sarif
    for (const { ruleId, level, message, locations } of sarif.runs[0].results) {
      if (ruleId === 'panic' || ruleId === 'io') return undefined
      if (level !== 'error') continue
      const { artifactLocation, region } = locations[0]!.physicalLocation
      if (!artifactLocation.uri.endsWith('/cells.ipynb')) continue
      const line = region.startLine - first
      if (line < 1 || line > lines || !Number.isSafeInteger(line + region.startColumn)) continue
      const end = region.endLine === region.startLine ? region.endColumn : region.startColumn
      found.push({ line, column: region.startColumn, end, rule: ruleId, message: message.text.slice(0, mostMessage) })
    }
    return found
  } catch {
    return undefined
  }
}

interface ErrorOfReport {
  readonly code: string
  readonly message: string
  readonly hint: string
}

const reportOf = (error: ErrorOfReport, outcome = 'invalid'): Report => ({ outcome, error, fuel_used: 0, host_calls: [] })

function reportOfFindings(found: readonly Found[], lines: readonly string[], stubs: Stubs, text: Text): Report | undefined {
  const errors: (ErrorOfReport & { rule: string; place: { line: number; column: number } })[] = []
  const shown: string[] = []
  const names = new Names(text.namesLike)
  let line: readonly string[] = [] // its characters, as ty counts them
  let number = 0
  for (const each of found) {
    if (each.line !== number) line = Array.from(lines[(number = each.line) - 1]!)
    const unknown = each.rule === missing ? /`(\w+)`/.exec(each.message)?.[1] : undefined
    if (unknown !== undefined && ((text.callsMayWait && isCalled(line, each.end - 1)) || names.has(unknown))) continue
    const hint = unknown === undefined ? hintOf(each, stubs) : names.hint(unknown)
    const column = 1 + Buffer.byteLength(line.slice(0, each.column - 1).join(''))
    errors.push({ code: 'type_check', message: each.message, hint, rule: each.rule, place: { line: each.line, column } })
    shown.push(shownOf(each, line, hint))
    if (errors.length === mostFindings) break
  }
  const [error, ...more] = errors
  if (!error) return undefined
  const report = reportOf({ ...error, traceback: shown.join('\n') } as ErrorOfReport)
  return more.length ? { ...report, more_errors: more } : report
}

function isCalled(line: readonly string[], at: number): boolean {
  while (line[at] === ' ' || line[at] === '\t') ++at
  return line[at] === '('
}

function hintOf(found: Found, stubs: Stubs): string {
  const words = Array.from(found.message.matchAll(/`([\w.]+)`/g), (each) => each[1]!)
  const known = words.find((each) => stubs.signatures.has(each))
  if (known !== undefined) return `It is ${stubs.signatures.get(known)}`
  const owner = words.find((each) => stubs.members.has(each))
  if (owner !== undefined) return `${owner} has ${stubs.members.get(owner)!.join(', ') || 'nothing'}.`
  return `Where this is right as it stands, end the line with  # ty: ignore[${found.rule}]`
}

function shownOf(found: Found, line: readonly string[], hint: string): string {
  const isShort = found.column <= line.length && line.length <= mostShown
  const place = isShort ? `\n    ${line.join('')}\n    ${' '.repeat(found.column - 1)}^` : ''
  return `line ${found.line}: ${found.message} [${found.rule}]${place}\n  hint: ${hint}`
}

/** Those that the session has, as far as they are asked for. */
class Names {
  readonly #like: (start: string) => readonly string[]
  readonly #known = new Map<string, boolean>()
  #askedMs = 0

  constructor(like: (start: string) => readonly string[]) {
    this.#like = like
  }

  /** A cell that asks for too many is believed. */
  has(name: string): boolean {
    if (!this.#known.has(name)) this.#known.set(name, this.#isEnough || this.#ask(name).includes(name))
    return this.#known.get(name)!
  }

  get #isEnough(): boolean {
    return this.#known.size >= mostNames || this.#askedMs >= mostAskingMs
  }

  #ask(start: string): readonly string[] {
    const begunAtMs = performance.now()
    const names = this.#like(start)
    this.#askedMs += performance.now() - begunAtMs
    return names
  }

  hint(name: string): string {
    const near = this.#isEnough ? [] : nearestOf(name, this.#ask(name.slice(0, 1)))
    return near.length ? `Did you mean ${near.join(' or ')}?` : 'Define it first, or import it.'
  }
}

const longestName = 64
const mostCompared = 200

/** At most three, the nearest first. */
function nearestOf(name: string, others: readonly string[]): string[] {
  const likeness = (other: string): number => 1 - distanceOf(name, other) / Math.max(name.length, other.length)
  return others
    .filter((each) => Math.max(each.length, name.length) <= longestName)
    .slice(0, mostCompared)
    .map((each) => [likeness(each), each] as const)
    .filter(([how]) => how >= 0.6)
    .sort(([a], [b]) => b - a)
    .slice(0, 3)
    .map(([, each]) => each)
}

/** How many characters are added, left out or changed. */
function distanceOf(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (let i = 1; i <= a.length; ++i) {
    const next = [i]
    for (let j = 1; j <= b.length; ++j)
      next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)))
    row = next
  }
  return row[b.length]!
}
