// Sessions in this process: Python, JavaScript and other languages, turn by turn, behind the engine's wall.

import { MembraneError } from './errors.js'
import {
  Registry,
  type FunctionCall,
  type Functions,
  type Gate,
  type HostType,
  type Modules,
  type Answer,
} from './functions.js'
import { asOurs, engine, translated, type NativeHost, type NativeLanguage, type NativeOptions, type NativeSession } from './native.js'
import { checkOptions } from './settings.js'
import { nativeSourcesOf, sourceHostOf, sourceOptions, type Sources } from './sources.js'
import { milliseconds, Result, type Duration, type FileInfo, type Policy } from './types.js'

/** What a session may do, and what its programs may call. */
export interface LoadOptions extends Sources {
  /** Grants, as docs/policy.md says: 'fs:read:./data'. Nothing without. */
  allow?: string | readonly string[]
  limits?: Readonly<Record<string, string | number>>
  /** A whole policy, to which `allow` and `limits` are added; as text, it is TOML. */
  policy?: Policy | string
  /** By their names among the session's own. Async functions are awaited by programs. */
  functions?: Functions
  /** Of functions, which programs import. */
  modules?: Modules
  /** Classes of objects that functions return. */
  types?: readonly HostType[]
  /** Sees each call before it happens; where it gives false or throws, the program gets that as an error. */
  gate?: Gate
  /** Hear text as it is printed. */
  onStdout?: (text: string) => void
  onStderr?: (text: string) => void
  /** In a process of its own, behind walls (docs/walls.md). Functions and listeners are called in this one, as without. */
  isolated?: boolean
  /** Names of walls ('user_namespace') that it may do without where the machine lacks them; else it is refused. */
  acceptedMissingWalls?: readonly string[]
}

export interface SessionOptions extends LoadOptions {
  /** Names of the session's own, and their values. */
  inputs?: Readonly<Record<string, unknown>>
  /** When nobody has used it for so long, it ends. */
  idleTimeout?: Duration
  /** It ends then. */
  lifetime?: Duration
}

export interface RunOptions {
  /** For tracebacks. */
  name?: string
  /** A whole program, which leaves no names but files. */
  script?: boolean
  /** sys.argv, process.argv */
  arguments?: readonly string[]
  stdin?: string
}

export interface StartOptions {
  name?: string
  /** Stops the turn; the promise is rejected with the signal's reason then. */
  signal?: AbortSignal
}

/** The session was closed, or its lifetime or idle time has passed. */
export class SessionOverError extends MembraneError {}

const loadOptions = ['allow', 'limits', 'policy', 'functions', 'modules', 'types', 'gate', 'onStdout', 'onStderr', 'isolated', 'acceptedMissingWalls', ...sourceOptions] as const
const sessionOptions = [...loadOptions, 'inputs', 'idleTimeout', 'lifetime'] as const
const runOptions = ['name', 'script', 'arguments', 'stdin'] as const
const startOptions = ['name', 'signal'] as const

// -- languages --------------------------------------------------------------------------------------------------------

const languages = new Map<string, NativeLanguage | Promise<NativeLanguage>>()

async function opened(name: string, onProgress?: (step: string) => void): Promise<NativeLanguage> {
  const known = languages.get(name)
  if (known) return known
  const opening = engine().openLanguage(name, onProgress)
  languages.set(name, opening)
  try {
    const made = await opening
    languages.set(name, made)
    return made
  } catch (error) {
    languages.delete(name)
    throw asOurs(error)
  }
}

function openedSync(name: string): NativeLanguage {
  const known = languages.get(name)
  if (known && !(known instanceof Promise)) return known
  const made = translated(() => engine().openLanguageSync(name))
  languages.set(name, made)
  return made
}

/**
 * Opens a language for sessions, which the first Session of it does else. The first time this takes seconds, while its warm image is
 * made; later it is a matter of milliseconds.
 */
export async function openLanguage(name = 'python', options: { onProgress?: (step: string) => void } = {}): Promise<void> {
  checkOptions('openLanguage', options, ['onProgress'])
  await opened(name, options.onProgress)
}

// -- options ----------------------------------------------------------------------------------------------------------

function heard(listener: ((text: string) => void) | undefined): ((text: string) => void) | undefined {
  return (
    listener &&
    ((text) => {
      try {
        listener(text)
      } catch (error) {
        process.emitWarning(`a listener of a session's output has thrown: ${String(error)}`)
      }
    })
  )
}

function hostOf(registry: Registry, options: LoadOptions): NativeHost {
  return {
    answer: (calls, waits, reply) => void registry.answer(calls, waits).then(reply),
    answerSync: (calls, waits) => registry.answerSync(calls, waits),
    onStdout: heard(options.onStdout),
    onStderr: heard(options.onStderr),
    ...sourceHostOf(options),
  }
}

function nativeOptionsOf(registry: Registry, options: LoadOptions): NativeOptions {
  const { policy, allow = [], limits = {} } = options
  return {
    policy: {
      text: typeof policy === 'object' ? JSON.stringify(policy) : policy,
      name: typeof policy === 'object' ? 'policy.json' : 'policy.toml',
      allow: typeof allow === 'string' ? [allow] : allow,
      limits: Object.entries(limits).map(([name, value]) => [name, String(value)]),
    },
    functions: registry.words,
    types: registry.types,
    modules: registry.modules,
    inputs: registry.inputs,
    isolated: options.isolated ?? false,
    acceptedMissingWalls: options.acceptedMissingWalls ?? [],
    sources: nativeSourcesOf(options),
    host: hostOf(registry, options),
  }
}

// -- sessions ---------------------------------------------------------------------------------------------------------

/**
 * A session that waits for functions of the host: which ones, and how to go on.
 *
 * name, args, kwargs: of the first call that waits; calls: of all, where several were made at once.
 */
export class Call {
  readonly session: Session
  readonly calls: readonly FunctionCall[]
  /** What the turn did until here. */
  readonly soFar: Result

  /** @internal */
  constructor(session: Session, calls: readonly FunctionCall[], soFar: Result) {
    this.session = session
    this.calls = calls
    this.soFar = soFar
  }

  get name(): string {
    return this.calls[0]!.name
  }
  get args(): readonly unknown[] {
    return this.calls[0]!.args
  }
  get kwargs(): Readonly<Record<string, unknown>> {
    return this.calls[0]!.kwargs
  }

  /** Gives the calls their values, in their order; the rest of the program runs, to its end or to the next call that waits. */
  async resume(...values: unknown[]): Promise<Result | Call> {
    const registry = internals(this.session).registry
    return internals(this.session).resume(values.map((value) => registry.value(value)))
  }

  /** The first call raises the error in the program instead. */
  async fail(error: unknown): Promise<Result | Call> {
    return internals(this.session).resume([Registry.error(error)])
  }

  /** As bytes, for load() in this or another process. */
  dump(): Uint8Array {
    return this.session.dump()
  }
}

/** Files of the session's own tree, by absolute paths. */
export class SessionFiles {
  readonly #use: () => NativeSession

  /** @internal */
  constructor(use: () => NativeSession) {
    this.#use = use
  }

  read(path: string): Uint8Array {
    return translated(() => this.#use().readFile(path))
  }
  readText(path: string): string {
    return new TextDecoder().decode(this.read(path))
  }
  write(path: string, content: string | Uint8Array): void {
    const bytes = typeof content === 'string' ? new TextEncoder().encode(content) : content
    translated(() => this.#use().writeFile(path, bytes))
  }
  /** Those that programs have made or changed. */
  list(): FileInfo[] {
    const files = translated(() => this.#use().files())
    return files.map(([path, sizeBytes]) => ({ path, sizeBytes, kind: 'file', mode: undefined, target: undefined }))
  }
}

interface Internals {
  readonly registry: Registry
  resume(answers: readonly Answer[]): Promise<Result | Call>
  endByTime(options: SessionOptions): void
  callOrThis(): Call | Session
}
let internals: (session: Session) => Internals
let made: (language: string, native: NativeSession, registry: Registry) => Session

const dispose: typeof Symbol.dispose = Symbol.dispose ?? (Symbol.for('Symbol.dispose') as never) // Node 18 has none
const longestTimerMs = 2 ** 31 - 1
const stopsAgainMs = 5 // a turn that has not begun yet does not see that it is stopped

/**
 * A program in a language that goes on from turn to turn: names and files stay.
 *
 * Turns wait for each other, so a function must not await a turn of the session that calls it. What is no promise needs a session whose
 * turn is over, and throws the code "busy" else.
 */
export class Session {
  readonly language: string
  readonly files: SessionFiles
  readonly #registry: Registry
  #native: NativeSession | undefined
  #whyOver = 'the session is closed'
  #last: Promise<unknown> | undefined // the turn that was asked for last
  #usedAtMs = performance.now()
  #idleMs: number | undefined
  #endsAtMs: number | undefined
  #timer: NodeJS.Timeout | undefined

  static {
    internals = (session) => ({
      registry: session.#registry,
      resume: (answers) => session.#turn((native) => native.resume(answers)).then((result) => session.#endOf(result)),
      endByTime: (options) => session.#endByTime(options),
      callOrThis: () => session.#callOrThis(),
    })
    made = (language, native, registry) => new Session(language, native, registry)
  }

  private constructor(language: string, native: NativeSession, registry: Registry) {
    this.language = language
    this.#native = native
    this.#registry = registry
    this.files = new SessionFiles(() => this.#use())
  }

  static async create(language = 'python', options: SessionOptions = {}): Promise<Session> {
    checkOptions('Session.create', options, sessionOptions)
    const registry = new Registry(options)
    const how = nativeOptionsOf(registry, options)
    const of = await opened(language)
    const session = new Session(language, translated(() => engine().create(of, how)), registry)
    session.#endByTime(options)
    return session
  }

  #use(): NativeSession {
    if (!this.#native) throw new SessionOverError(this.#whyOver, { code: 'session_over', hint: 'Make another Session.' })
    this.#usedAtMs = performance.now()
    return this.#native
  }

  // -- turns

  /** Runs a turn to its end. */
  async run(code: string, options: RunOptions & { signal?: AbortSignal } = {}): Promise<Result> {
    checkOptions('run', options, [...runOptions, 'signal'])
    return this.#turn((native) => native.run(cellOf(code, options), false), options.signal)
  }

  /**
   * The same on this thread, which is quicker: the event loop stands still, functions are called at once, and what they give must not
   * be a promise.
   */
  runSync(code: string, options: RunOptions = {}): Result {
    checkOptions('runSync', options, runOptions)
    const json = translated(() => this.#use().runSync(cellOf(code, options), false))
    this.#usedAtMs = performance.now()
    return resultOf(json)
  }

  /**
   * Runs a turn to its end, or to a call that waits: of a function that is LATER, or, in Python, that the code calls and nobody has
   * defined. Call.resume() goes on with its value, here or, after dump() and load(), in another process.
   */
  async start(code: string, options: StartOptions = {}): Promise<Result | Call> {
    checkOptions('start', options, startOptions)
    const cell = { ...cellOf(code, { name: options.name ?? '' }), declaresCalls: true }
    return this.#endOf(await this.#turn((native) => native.run(cell, true), options.signal))
  }

  #endOf(result: Result): Result | Call {
    return result.outcome === 'waiting' ? this.#callOf(result)! : result
  }

  #callOf(soFar: Result): Call | undefined {
    const waiting = this.#use().waitsFor()
    return waiting.length ? new Call(this, waiting.map((each) => this.#registry.callOf(each)), soFar) : undefined
  }

  #callOrThis(): Call | Session {
    return this.#callOf(resultOf('{"outcome":"waiting"}')) ?? this
  }

  /** What is wrong with the text, as an error with its place; nothing of it runs. */
  async check(code: string, options: StartOptions = {}): Promise<Result> {
    checkOptions('check', options, startOptions)
    const cell = { ...cellOf(code, { name: options.name ?? '' }), onlyChecks: true }
    return this.#turn((native) => native.run(cell, false), options.signal)
  }

  /** The names that the one at the end of the code could become. */
  complete(code: string): string[] {
    return translated(() => this.#use().complete(code))
  }

  /** Stops the turn that runs: its outcome is "cancelled". */
  cancel(): void {
    this.#native?.cancel()
  }

  async #turn(begin: (native: NativeSession) => Promise<string>, signal?: AbortSignal): Promise<Result> {
    signal?.throwIfAborted()
    const before = this.#last
    const turn = this.#turnAfter(before, begin, signal)
    const last = turn.then(
      () => undefined,
      () => undefined,
    )
    this.#last = last
    try {
      return await turn
    } finally {
      if (this.#last === last) this.#last = undefined
    }
  }

  async #turnAfter(
    before: Promise<unknown> | undefined,
    begin: (native: NativeSession) => Promise<string>,
    signal: AbortSignal | undefined,
  ): Promise<Result> {
    if (before) await before
    signal?.throwIfAborted()
    const native = this.#use()
    const stop = stopperOf(native, signal)
    try {
      const result = resultOf(await translated(() => begin(native)))
      if (signal?.aborted && !result.ok && result.outcome !== 'waiting') throw signal.reason
      return result
    } finally {
      stop.end()
      this.#usedAtMs = performance.now()
    }
  }

  // -- branches and bytes

  /** A session that goes on from here, for itself; with the same functions and objects. */
  fork(): Session {
    return new Session(this.language, translated(() => this.#use().fork()), this.#registry)
  }

  /** All that the session is besides its language, as bytes; also where it waits. Neither the policy nor functions are in it. */
  dump(): Uint8Array {
    return translated(() => this.#use().dump(headOf(this.language)))
  }

  // -- its end

  #endByTime({ idleTimeout, lifetime }: SessionOptions): void {
    this.#idleMs = idleTimeout === undefined ? undefined : milliseconds(idleTimeout)
    this.#endsAtMs = lifetime === undefined ? undefined : performance.now() + milliseconds(lifetime)
    this.#setTimer()
  }

  #setTimer(): void {
    const atMs = Math.min(this.#endsAtMs ?? Infinity, this.#usedAtMs + (this.#idleMs ?? Infinity))
    if (atMs === Infinity || !this.#native) return
    const session = new WeakRef(this)
    const waitMs = Math.min(Math.max(Math.ceil(atMs - performance.now()), 0), longestTimerMs)
    this.#timer = setTimeout(() => {
      const there = session.deref()
      if (there) there.#endIfDue()
    }, waitMs)
    this.#timer.unref()
  }

  #endIfDue(): void {
    const nowMs = performance.now()
    if (this.#last) void this.#last.then(() => this.#endIfDue())
    else if (this.#endsAtMs !== undefined && nowMs >= this.#endsAtMs) this.#end("the session's lifetime is over")
    else if (this.#idleMs !== undefined && nowMs >= this.#usedAtMs + this.#idleMs)
      this.#end('nobody has used the session for its idle time')
    else this.#setTimer()
  }

  #end(why: string): void {
    if (!this.#native) return
    this.#native.close()
    this.#native = undefined
    this.#whyOver = why
    clearTimeout(this.#timer)
  }

  /** Ends it, and gives its memory back. A turn that runs is stopped first. */
  close(): void {
    this.cancel()
    const native = this.#native
    if (native && this.#last) {
      const stop = stopperOf(native, AbortSignal.abort())
      void this.#last.then(() => stop.end())
    }
    this.#end('the session is closed')
  }
  [dispose](): void {
    this.close()
  }
}

/** Stops the turn when the signal says so. */
function stopperOf(native: NativeSession, signal: AbortSignal | undefined): { end(): void } {
  let timer: NodeJS.Timeout | undefined
  const stop = (): void => {
    native.cancel()
    timer = setInterval(() => native.cancel(), stopsAgainMs)
  }
  if (signal?.aborted) stop()
  else signal?.addEventListener('abort', stop, { once: true })
  return {
    end() {
      signal?.removeEventListener('abort', stop)
      clearInterval(timer)
    },
  }
}

function cellOf(code: string, options: RunOptions) {
  if (typeof code !== 'string') throw new TypeError(`code is a string, not ${typeof code}`)
  return {
    code,
    name: options.name ?? '',
    isScript: options.script ?? false,
    onlyChecks: false,
    declaresCalls: false,
    arguments: options.arguments ?? [],
    input: options.stdin ?? '',
  }
}

const resultOf = (json: string): Result => new Result(JSON.parse(json) as ConstructorParameters<typeof Result>[0])

// -- bytes ------------------------------------------------------------------------------------------------------------

// Those of the Python package's sessions: either loads what the other has dumped.
const magic = new TextEncoder().encode('MEMBPY1\n')

function headOf(language: string): Uint8Array {
  const words = new TextEncoder().encode(JSON.stringify({ language }))
  const head = new Uint8Array(magic.length + 4 + words.length)
  head.set(magic)
  new DataView(head.buffer).setUint32(magic.length, words.length, true)
  head.set(words, magic.length + 4)
  return head
}

function readHead(blob: Uint8Array): { language: string; content: Uint8Array } {
  const start = magic.length + 4
  if (blob instanceof Uint8Array && blob.length >= start && magic.every((byte, i) => blob[i] === byte)) {
    const end = start + new DataView(blob.buffer, blob.byteOffset).getUint32(magic.length, true)
    try {
      const words = JSON.parse(new TextDecoder().decode(blob.subarray(start, end))) as { language?: unknown } | null
      if (typeof words?.language === 'string') return { language: words.language, content: blob.subarray(end) }
    } catch {
      // said below
    }
  }
  throw new MembraneError('these are no bytes of a session', { code: 'invalid_input', hint: 'Give what dump() returned.' })
}

/**
 * The session that Session.dump() or Call.dump() gave: a Call where it waits, else a Session. Loaded twice, it is forked.
 *
 * Functions that its programs call are given anew, and so is what it may do. Keep the bytes where nobody else writes: they can do what
 * a program could under this policy. A language that is not open yet is opened at once, while the event loop stands still; see
 * openLanguage().
 */
export function load(blob: Uint8Array, options: LoadOptions = {}): Call | Session {
  checkOptions('load', options, loadOptions)
  const native = engine()
  const { language, content } = readHead(blob)
  const registry = new Registry(options)
  const how = nativeOptionsOf(registry, options)
  const of = openedSync(language)
  const session = made(language, translated(() => native.load(of, how, content)), registry)
  return internals(session).callOrThis()
}
