// Sessions in this process: Python, JavaScript and other languages, turn by turn, behind the engine's wall.

import { agentHostOf, agentOptions, nativeAgentsOf, type Agents, type Receipts } from './agents.js'
import { Cells, Checker, type Text, type TypeCheck } from './check.js'
import { MembraneError } from './errors.js'
import {
  Registry,
  UnknownObject,
  type FunctionCall,
  type Functions,
  type Gate,
  type HostType,
  type Inputs,
  type Modules,
  type Answer,
} from './functions.js'
import { checkLanguage, checkOptions, kindsOfSession, kindsOfTurn, progress } from './given.js'
import { hintOfSession, inWordsOfSession } from './hints.js'
import { asOurs, engine, translated, type NativeCell, type NativeHost, type NativeLanguage, type NativeOptions, type NativeReport, type NativeSession } from './native.js'
import { checkNames } from './names.js'
import { AtEnd, Scope, unlessAborted } from './scope.js'
import { nativeSourcesOf, sourceHostOf, sourceOptions, type Sources } from './sources.js'
import { Stubs } from './stubs.js'
import { opened as countOpened, turnBegins, type Operation, type TurnSpan } from './telemetry.js'
import { milliseconds, Result, type Duration, type FileInfo, type Policy } from './types.js'

/** What a session may do, and what its programs may call. */
interface CommonOptions extends Sources, Agents {
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
  /** Sees each call before it happens: only where it gives true it happens. LATER makes it wait; else, or what it throws, is an error of the program. */
  gate?: Gate
  /** In Python: a cell whose types are wrong does not run, and its result says where (findings). It needs ty. */
  typeCheck?: boolean | TypeCheck
  /** Hear text as it is printed. */
  onStdout?: (text: string) => void
  onStderr?: (text: string) => void
  /** In a process of its own, behind walls (docs/walls.md). Functions and listeners are called in this one, as without. */
  isolated?: boolean
  /** Names of walls ('user_namespace') that it may do without where the machine lacks them; else it is refused. */
  acceptedMissingWalls?: readonly string[]
}

export interface LoadOptions extends CommonOptions {
  /**
   * Objects among them take the places of those that Session.create() had, in the same order: programs' references are to these then. The
   * other values are not given to programs, which have theirs.
   */
  inputs?: Readonly<Record<string, unknown>>
}

export interface SessionOptions extends CommonOptions {
  /** Names of the session's own, and their values. */
  inputs?: Readonly<Record<string, unknown>>
  /**
   * Where each turn is sealed (Result.receipt). Such a session has no functions, modules, types, inputs, clock, timezone, sleep or entropy
   * of this program's, no forks, and no calls that wait.
   */
  receipts?: Receipts
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
  /**
   * Variables by their names, which are set before the code runs, as by an assignment: they take the places of what the program has under
   * these names, and stay. A name that is no variable's is an error of the result. A script has none.
   */
  inputs?: Readonly<Record<string, unknown>>
}

export interface StartOptions {
  name?: string
  /** As of RunOptions; check() sets none of them. */
  inputs?: Readonly<Record<string, unknown>>
  /** Stops the turn; the promise is rejected with the signal's reason then. */
  signal?: AbortSignal
}

/** The session was closed, or its lifetime or idle time has passed. */
export class SessionOverError extends MembraneError {}

const commonOptions = [
  ...['allow', 'limits', 'policy', 'functions', 'modules', 'types', 'gate', 'typeCheck'],
  ...['onStdout', 'onStderr', 'isolated', 'acceptedMissingWalls', ...sourceOptions, ...agentOptions],
] as const
const loadOptions = [...commonOptions, 'inputs'] as const
/** @internal */
export const sessionOptions = [...commonOptions, 'inputs', 'receipts', 'idleTimeout', 'lifetime'] as const
const runOptions = ['name', 'script', 'arguments', 'stdin', 'inputs'] as const
const startOptions = ['name', 'inputs', 'signal'] as const

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
  checkLanguage('openLanguage', name)
  checkOptions('openLanguage', options, ['onProgress'], { onProgress: progress })
  await opened(name, options.onProgress)
}

// -- options ----------------------------------------------------------------------------------------------------------

// Before anything is made that would have to be closed.
function checkTimes({ idleTimeout, lifetime }: SessionOptions): void {
  for (const each of [idleTimeout, lifetime]) if (each !== undefined) milliseconds(each)
}

function heard(listener: ((text: string) => void) | undefined): ((text: string) => void) | undefined {
  return (
    listener &&
    ((text) => {
      try {
        listener(text)
      } catch (error) {
        process.emitWarning(`a listener of a session's output threw: ${String(error)}`)
      }
    })
  )
}

function hostOf(registry: Registry, options: CommonOptions, scope: Scope): NativeHost {
  const functions: Pick<NativeHost, 'answer' | 'answerSync'> = {
    answer: (calls, waits, reply) => void registry.answer(calls, waits).then(reply),
    answerSync: (calls, waits) => registry.answerSync(calls, waits),
  }
  return {
    ...scope.awaited({ ...functions, ...sourceHostOf(options), ...agentHostOf(options, scope) }),
    ...scope.within({ onStdout: heard(options.onStdout), onStderr: heard(options.onStderr) }),
  }
}

function nativeOptionsOf(registry: Registry, options: CommonOptions, scope: Scope): NativeOptions {
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
    agents: nativeAgentsOf(options),
    host: hostOf(registry, options, scope),
  }
}

/** What a session is made of, and its forks. */
interface Made {
  readonly language: string
  readonly of: NativeLanguage
  readonly options: CommonOptions
  readonly registry: Registry
  readonly checker: Checker | undefined
  readonly cells: Cells
  readonly scope: Scope
}

function madeOf(language: string, of: NativeLanguage, options: CommonOptions, registry: Registry, cells = new Cells()): Made {
  const { typeCheck = false } = options
  checkNames(engine().nameOf(of), 'input', registry.inputs.map(([name]) => name))
  checkNames(engine().nameOf(of), 'function', registry.words.filter((each) => !each.module).map((each) => each.name))
  const checker = typeCheck === false ? undefined : new Checker(typeCheck, engine().nameOf(of), registry)
  return { language, of, options, registry, checker, cells, scope: new Scope() }
}

// -- sessions ---------------------------------------------------------------------------------------------------------

/**
 * A session that waits for functions of the host: which ones, and how to go on.
 *
 * name, args, kwargs, named: of the first call that waits; calls: of all, where several were made at once.
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
  get named(): Readonly<Record<string, unknown>> | undefined {
    return this.calls[0]!.named
  }

  /** Gives the calls their values, in their order, or the first of them; RangeError where there are more. The rest of the program runs, to its end or to the next call that waits. */
  async resume(...values: unknown[]): Promise<Result | Call> {
    const waiting = this.calls.length
    if (values.length > waiting)
      throw new RangeError(`${waiting} ${waiting === 1 ? 'call waits' : 'calls wait'}, and there are ${values.length} answers: give one for each`)
    const registry = internals(this.session).registry
    return internals(this.session).resume(values.map((value) => registry.value(value)))
  }

  /** The first call raises the error in the program instead. */
  async fail(error: unknown): Promise<Result | Call> {
    return internals(this.session).resume([Registry.error(error)])
  }

  /** Gives the calls up: the session stands as it did before the turn. */
  abandon(): void {
    this.session.abandon()
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

/** One of the sessions that a pool may have at once. */
export interface Place {
  /** For a fork; throws where there is none. */
  another(): Place
  leave(): void
}

/** @internal */
export interface Internals {
  readonly registry: Registry
  resume(answers: readonly Answer[]): Promise<Result | Call>
  /** Its idle time and its lifetime begin now. */
  endByTime(options: SessionOptions): void
  hold(place: Place): void
  /** Runs a turn that does nothing, and that nobody hears of. */
  warm(): Promise<void>
  callOrThis(): Call | Session
}
/** @internal */
export let internals: (session: Session) => Internals
let madeSession: (made: Made, native: NativeSession, hasBegun: boolean) => Session

const dispose: typeof Symbol.dispose = Symbol.dispose ?? (Symbol.for('Symbol.dispose') as never) // Node 18 has none
const longestTimerMs = 2 ** 31 - 1
const stopsAgainMs = 5 // a turn that has not begun yet does not see that it is stopped

/**
 * A program in a language that goes on from turn to turn: names and files stay.
 *
 * Turns wait for each other. A function that asks for one of the session whose turn calls it gets an error with the code "busy", and so does
 * what is no promise while a turn runs.
 */
export class Session {
  readonly language: string
  readonly files: SessionFiles
  readonly #made: Made
  #native: NativeSession | undefined
  #cells: Cells
  #place: Place | undefined
  readonly #atEnd: AtEnd
  #whyOver = 'the session is closed'
  #last: Promise<unknown> | undefined // the turn that was asked for last
  #hasBegun = false // a turn has told the inputs to programs
  #waitsAtFirst = false
  #soFar: Result | undefined // of the turn that waits
  #usedAtMs = performance.now()
  #idleMs: number | undefined
  #endsAtMs: number | undefined
  #timer: NodeJS.Timeout | undefined

  static {
    internals = (session) => ({
      registry: session.#made.registry,
      resume: (answers) =>
        session.#turn({ operation: 'resume', begin: (native) => native.resume(answers) }).then((result) => session.#endOf(result)),
      endByTime: (options) => session.#endByTime(options),
      hold: (place) => session.#hold(place),
      warm: async () => void (await session.#use().run(cellOf('', {}, []), false)),
      callOrThis: () => session.waiting ?? session,
    })
    madeSession = (made, native, hasBegun) => {
      const session = new Session(made, native)
      session.#hasBegun = hasBegun
      return session
    }
  }

  private constructor(made: Made, native: NativeSession) {
    this.language = made.language
    this.#native = native
    this.#made = made
    this.#cells = made.cells
    this.files = new SessionFiles(() => this.#use())
    this.#atEnd = new AtEnd(this)
    this.#atEnd.add(countOpened(made.language))
  }

  static async create(language = 'python', options: SessionOptions = {}): Promise<Session> {
    checkLanguage('Session.create', language)
    checkOptions('Session.create', options, sessionOptions, kindsOfSession)
    checkTimes(options)
    const registry = new Registry(options)
    const of = await opened(language)
    const made = madeOf(language, of, options, registry)
    const how = nativeOptionsOf(registry, options, made.scope)
    const session = new Session(made, translated(() => engine().create(of, how)))
    session.#endByTime(options)
    return session
  }

  #use(): NativeSession {
    if (this.#made.checker?.isChecking)
      throw new MembraneError("the types of this session's cell are checked", { code: 'busy', hint: 'Await its turn first.' })
    return this.#useInTurn()
  }

  #useInTurn(): NativeSession {
    if (!this.#native) throw new SessionOverError(this.#whyOver, { code: 'session_over', hint: 'Make another Session.' })
    this.#usedAtMs = performance.now()
    return this.#native
  }

  // -- turns

  /** Runs a turn to its end. */
  async run(code: string, options: RunOptions & { signal?: AbortSignal } = {}): Promise<Result> {
    checkOptions('run', options, [...runOptions, 'signal'], kindsOfTurn)
    const cell = this.#cellOf(code, options)
    return this.#turn({ operation: 'run', begin: (native) => native.run(cell, false), text: cell }, options.signal)
  }

  /**
   * The same on this thread, which is quicker: the event loop stands still, functions are called at once, and what they give must not
   * be a promise.
   */
  runSync(code: string, options: RunOptions = {}): Result {
    checkOptions('runSync', options, runOptions, kindsOfTurn)
    const cell = this.#cellOf(code, options)
    const native = this.#use()
    const span = turnBegins('run', this.language)
    return endedBy(span, () => {
      const text = this.#checkedBefore(cell)
      const report = text && this.#made.checker!.checkSync(text)
      const result = report ? new Result(report) : resultOf(translated(() => native.runSync(cell, false)))
      if (!report) {
        this.#begun(result)
        this.#keep(cell, result)
      }
      this.#usedAtMs = performance.now()
      return result
    })
  }

  /**
   * Runs a turn to its end, or to a call that waits: of a function that is LATER, or, in Python, that the code calls and nobody has
   * defined. Call.resume() goes on with its value, here or, after dump() and load(), in another process.
   */
  async start(code: string, options: StartOptions = {}): Promise<Result | Call> {
    checkOptions('start', options, startOptions, kindsOfTurn)
    const cell = { ...this.#cellOf(code, options), declaresCalls: true }
    return this.#endOf(await this.#turn({ operation: 'start', begin: (native) => native.run(cell, true), text: cell }, options.signal))
  }

  #endOf(result: Result): Result | Call {
    if (result.outcome !== 'waiting') return result
    this.#soFar = result
    return this.waiting!
  }

  /** What the session waits for, also where it is a fork of one that does. Throws while a turn runs. */
  get waiting(): Call | undefined {
    const waiting = translated(() => this.#use().waitsFor())
    if (!waiting.length) return undefined
    const soFar = this.#soFar ?? resultOf({ json: '{"outcome":"waiting"}' })
    return new Call(this, waiting.map((each) => this.#made.registry.callOf(each)), soFar)
  }

  /**
   * What is wrong with the text, as an error with its places (Result.findings); nothing of it runs. The types are checked in a session
   * with typeCheck.
   */
  async check(code: string, options: StartOptions = {}): Promise<Result> {
    checkOptions('check', options, startOptions, kindsOfTurn)
    const cell = { ...this.#cellOf(code, options, false), onlyChecks: true }
    const { checker } = this.#made
    const types = async (result: Result): Promise<Result> => {
      const report = result.ok && checker ? await checker.check(this.#textOf(cell)) : undefined
      return report ? new Result(report) : result
    }
    return this.#turn({ begin: (native) => native.run(cell, false), then: types }, options.signal)
  }

  /** What its programs are given, as the text of Python stubs with docstrings: good in a model's prompt. Throws in other languages. */
  stubs(): string {
    const language = engine().nameOf(this.#made.of)
    if (language !== 'python')
      throw new MembraneError(`stubs are texts of Python, and this session is of ${language}`, {
        code: 'unsupported',
        hint: 'Tell a model the names, signatures and docs of your functions as you gave them; stubs({ functions }) gives them as Python has them.',
      })
    return new Stubs(this.#made.registry).text()
  }

  /** The names that the one at the end of the code could become. */
  complete(code: string): string[] {
    return translated(() => this.#use().complete(code))
  }

  /** Stops the turn that runs: its outcome is "cancelled". */
  cancel(): void {
    this.#made.checker?.cancel()
    this.#native?.cancel()
  }

  /** Gives up the turn that waits for a Call: the session stands as it did before it. Throws where none waits. */
  abandon(): void {
    translated(() => this.#use().abandon())
    this.#waitsAtFirst = false
  }

  async #turn(turn: Turn, signal?: AbortSignal): Promise<Result> {
    signal?.throwIfAborted()
    if (this.#made.scope.waitsForCaller)
      throw new MembraneError('a turn of this session waits for the function that asks for another one', {
        code: 'busy',
        hint: "Return from the function first; or use another session in it, as a fork() that was made before the turn.",
      })
    const before = this.#last
    const ended = this.#turnAfter(before, turn, signal)
    // One that is aborted while it waits ends before the one that it waits for.
    const last = Promise.allSettled([before, ended])
    this.#last = last
    void last.then(() => {
      if (this.#last === last) this.#last = undefined
    })
    return ended
  }

  async #turnAfter(before: Promise<unknown> | undefined, turn: Turn, signal: AbortSignal | undefined): Promise<Result> {
    if (before) await unlessAborted(before, signal)
    signal?.throwIfAborted()
    this.#use()
    const stop = stopperOf(() => this.cancel(), signal)
    try {
      const span = turn.operation && turnBegins(turn.operation, this.language)
      const result = await (span ? endedBy(span, () => this.#ran(turn)) : this.#ran(turn))
      if (signal?.aborted && !result.ok && result.outcome !== 'waiting') throw signal.reason
      return result
    } finally {
      stop.end()
      this.#usedAtMs = performance.now()
    }
  }

  // A turn that is stopped leaves all as it was before.
  #begun({ outcome }: Result): void {
    this.#waitsAtFirst = outcome === 'waiting' && !this.#hasBegun
    if (outcome === 'ok' || outcome === 'raised') this.#hasBegun = true
  }

  // Unless its types are wrong.
  async #ran({ operation, begin, text, then }: Turn): Promise<Result> {
    const { scope, checker } = this.#made
    scope.enter()
    try {
      const checked = text && this.#checkedBefore(text)
      const report = checked && (await checker!.check(checked))
      if (report) return new Result(report)
      const result = resultOf(await translated(() => begin(this.#useInTurn())))
      if (operation) this.#begun(result)
      if (text) this.#keep(text, result)
      return then ? await then(result) : result
    } finally {
      scope.leave()
    }
  }

  // -- types

  #checkedBefore(cell: NativeCell): Text | undefined {
    return this.#made.checker?.beforeRuns ? this.#textOf(cell) : undefined
  }

  #textOf({ code, isScript, declaresCalls, inputs }: NativeCell): Text {
    const namesLike = (start: string): string[] => this.#useInTurn().complete(start)
    return { code, cells: isScript ? undefined : this.#cells.withInputs(inputs), namesLike: isScript ? () => [] : namesLike, callsMayWait: declaresCalls }
  }

  #cellOf(code: string, options: RunOptions, isGiven = true): NativeCell {
    return cellOf(code, options, this.#made.registry.inputsOf(options.inputs, isGiven))
  }

  // Later cells are checked with it.
  #keep({ code, isScript, inputs }: NativeCell, result: Result): void {
    if (this.#made.checker && !isScript) this.#cells = this.#cells.with(code, result, inputs)
  }

  // -- branches and bytes

  /** A session that goes on from here, for itself; with the same functions and objects. One of a pool counts there, too. */
  fork(): Session {
    const native = this.#use()
    const place = this.#place?.another()
    try {
      const { options, checker } = this.#made
      const registry = this.#made.registry.forked()
      const made = { ...this.#made, registry, checker: checker?.forAnother(registry), cells: this.#cells, scope: new Scope() }
      const branch = new Session(made, translated(() => native.fork(hostOf(registry, options, made.scope))))
      branch.#soFar = this.#soFar
      branch.#hasBegun = this.#hasBegun
      branch.#waitsAtFirst = this.#waitsAtFirst
      if (place) branch.#endAs(this, place)
      return branch
    } catch (error) {
      place?.leave()
      throw error
    }
  }

  // One that is forgotten would have its place for ever.
  #endAs(other: Session, place: Place): void {
    this.#hold(place)
    this.#idleMs = other.#idleMs
    this.#endsAtMs = other.#endsAtMs
    this.#setTimer()
  }

  #hold(place: Place): void {
    this.#place = place
    this.#atEnd.add(() => place.leave())
  }

  /** All that the session is besides its language, as bytes; also where it waits. Neither the policy nor functions are in it. */
  dump(): Uint8Array {
    const cells = this.#made.checker && this.#cells.texts
    return translated(() => this.#use().dump(headOf({ language: this.language, objects: this.#made.registry.objects, begun: this.#hasBegun || this.#waitsAtFirst, ...(cells && { cells }) })))
  }

  // -- its end

  #endByTime({ idleTimeout, lifetime }: SessionOptions): void {
    this.#usedAtMs = performance.now()
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
    this.#atEnd.end()
  }

  /** Ends it, and gives its memory back. A turn that runs is stopped first. */
  close(): void {
    this.cancel()
    const native = this.#native
    if (native && this.#last) {
      const stop = stopperOf(() => native.cancel(), AbortSignal.abort())
      void this.#last.then(() => stop.end())
    }
    this.#end('the session is closed')
  }
  [dispose](): void {
    this.close()
  }
}

interface Turn {
  /** In traces and metrics; undefined: it is in none. */
  readonly operation?: Operation
  readonly begin: (native: NativeSession) => Promise<NativeReport>
  /** Whose types are checked before, and which later ones are checked with. */
  readonly text?: NativeCell
  readonly then?: (result: Result) => Promise<Result>
}

function endedBy<T extends Result | Promise<Result>>(span: TurnSpan, act: () => T): T {
  const fail = (error: unknown): never => {
    span.fail(error)
    throw error
  }
  const end = (result: Result): Result => {
    span.end(result)
    return result
  }
  try {
    const result = span.within(act)
    return (result instanceof Promise ? result.then(end, fail) : end(result)) as T
  } catch (error) {
    return fail(error)
  }
}

/** Stops the turn when the signal says so. */
function stopperOf(cancel: () => void, signal: AbortSignal | undefined): { end(): void } {
  let timer: NodeJS.Timeout | undefined
  const stop = (): void => {
    cancel()
    timer = setInterval(cancel, stopsAgainMs)
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

function cellOf(code: string, options: RunOptions, inputs: Inputs): NativeCell {
  if (typeof code !== 'string') throw new TypeError(`code is a string, not ${typeof code}`)
  return {
    code,
    name: options.name ?? '',
    isScript: options.script ?? false,
    onlyChecks: false,
    declaresCalls: false,
    arguments: options.arguments ?? [],
    input: options.stdin ?? '',
    inputs,
  }
}

type Report = ConstructorParameters<typeof Result>[0]

// In words of this package.
function resultOf({ json, receipt, unsealed }: NativeReport): Result {
  const report = JSON.parse(json) as Report
  const sealed = { receipt, unsealed: asOurs(unsealed) as MembraneError | undefined }
  return new Result({ ...report, ...(report.error && { error: errorOf(report.error) }), ...grantsOf(report['host_calls']) }, sealed)
}

function errorOf(error: NonNullable<Report['error']>): NonNullable<Report['error']> {
  const { message, hint, traceback } = error
  const ours = inWordsOfSession(message)
  const mend = hint ? inWordsOfSession(hint) : hintOfSession(message)
  return {
    ...error,
    message: ours,
    ...(mend && { hint: mend }),
    ...(traceback && message && { traceback: traceback.replaceAll(message, () => ours) }),
  }
}

function grantsOf(calls: unknown): { host_calls: unknown } | undefined {
  if (!Array.isArray(calls)) return undefined
  const ofCall = (call: { grant?: string }): object => (call.grant ? { ...call, grant: inWordsOfSession(call.grant) } : call)
  return { host_calls: calls.map(ofCall) }
}

// -- bytes ------------------------------------------------------------------------------------------------------------

// Those of the Python package's sessions: either loads what the other has dumped.
const magic = new TextEncoder().encode('MEMBPY1\n')

interface Head {
  readonly language: string
  /** How many its programs may have references to (ObjectCounts). */
  readonly objects?: unknown
  /** false: no turn has run, and programs do not have the inputs yet. */
  readonly begun?: unknown
  readonly cells?: unknown
}

function headOf(said: Head): Uint8Array {
  const words = new TextEncoder().encode(JSON.stringify(said))
  const head = new Uint8Array(magic.length + 4 + words.length)
  head.set(magic)
  new DataView(head.buffer).setUint32(magic.length, words.length, true)
  head.set(words, magic.length + 4)
  return head
}

function readHead(blob: Uint8Array): { head: Head; content: Uint8Array } {
  const start = magic.length + 4
  if (blob instanceof Uint8Array && blob.length >= start && magic.every((byte, i) => blob[i] === byte)) {
    const end = start + new DataView(blob.buffer, blob.byteOffset).getUint32(magic.length, true)
    try {
      const words = JSON.parse(new TextDecoder().decode(blob.subarray(start, end))) as Partial<Head> | null
      if (typeof words?.language === 'string') return { head: words as Head, content: blob.subarray(end) }
    } catch {
      // said below
    }
  }
  throw new MembraneError('these are no bytes of a session', { code: 'invalid_input', hint: 'Give what dump() returned.' })
}

/**
 * The session that Session.dump() or Call.dump() gave: a Call where it waits, else a Session. Loaded twice, it is forked.
 *
 * Functions that its programs call are given anew, and so are objects that were among the inputs, and what it may do. A reference to an
 * object that is not given, as of one that a function gave, is an error of the program that uses it; of a call that waits, it is one of
 * load(), with the code "unknown_object". Keep the bytes where nobody else writes: they can do what a program could under this policy. A
 * language that is not open yet is opened at once, while the event loop stands still; see openLanguage().
 */
export function load(blob: Uint8Array, options: LoadOptions = {}): Call | Session {
  checkOptions('load', options, loadOptions, kindsOfSession)
  const native = engine()
  const { head, content } = readHead(blob)
  const registry = new Registry(options)
  if (head.begun !== false) registry.goOnFrom(head.objects)
  const of = openedSync(head.language)
  const made = madeOf(head.language, of, options, registry, Cells.ofJson(head.cells))
  const hasInputs = head.begun !== false
  const how = nativeOptionsOf(registry, options, made.scope)
  const session = madeSession(made, translated(() => native.load(of, how, content)), hasInputs)
  try {
    return internals(session).callOrThis()
  } catch (error) {
    session.close()
    if (!(error instanceof UnknownObject)) throw error
    throw new MembraneError(`a call that waits has an object of another process: ${error.what}`, { code: 'unknown_object', hint: error.hint, cause: error })
  }
}
