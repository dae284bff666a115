// What a session's programs have beside the policy: who decides what leaves, a model, a person, and receipts of each turn.

import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { MembraneError, NotFoundError } from './errors.js'
import { checkOptions, isThenable, kindOf } from './given.js'
import { hintOfKeys } from './hints.js'
import { asOurs, engine, translated, type NativeFlows, type NativeReceipts } from './native.js'
import type { Scope } from './scope.js'
import type { FlowRead } from './types.js'

// -- what leaves ------------------------------------------------------------------------------------------------------

/** What was read, of one kind. */
export interface FlowReads {
  /** The first of it. */
  readonly first: readonly FlowRead[]
  /** That are not among them. */
  readonly more: number
}

const isText = (value: unknown): boolean => typeof value === 'string'
const isFlag = (value: unknown): boolean => typeof value === 'boolean'

let nativeFlowsOf: (flows: Flows) => NativeFlows
let nativeReceiptsOf: (receipts: Receipts) => NativeReceipts

/**
 * What was read, shared by all sessions that are given it: the model of one conversation carries text from each program to the next, so
 * what one has read counts for all. Nothing is ever unread.
 */
export class Flows {
  readonly #native = engine().newFlows()

  static {
    nativeFlowsOf = (flows) => flows.#native
  }

  /** Of private data. */
  get privateReads(): FlowReads {
    return engine().stateOfFlows(this.#native).privateReads
  }
  /** Of text of untrusted origin. */
  get untrustedReads(): FlowReads {
    return engine().stateOfFlows(this.#native).untrustedReads
  }
  /** Both kinds were read: nothing leaves without a yes. */
  get isClosed(): boolean {
    return engine().stateOfFlows(this.#native).isClosed
  }
}

/** How long an answer is waited for. */
export interface Waiting {
  readonly timeoutMs: number
  /** Aborted when the answer is of no use any more: its time is up, or the turn is over. */
  readonly signal: AbortSignal
}

/** A request that would leave after a program has read both private data and text of untrusted origin. */
export interface EgressQuestion extends Waiting {
  /** As "http.request", "ai.complete". */
  readonly function: string
  /** As "POST https://example.org/upload". */
  readonly target: string
  /** That the request would send. */
  readonly bytes: number
  readonly privateReads: FlowReads
  readonly untrustedReads: FlowReads
}

type Maybe<T> = T | PromiseLike<T>

/** true is a yes, and all else is a no: undefined or null where nobody is there to ask. */
export type Approve = (question: EgressQuestion) => Maybe<boolean | undefined | null>

// -- a model and a person ---------------------------------------------------------------------------------------------

export interface ModelRequest extends Waiting {
  /** May be "". */
  readonly system: string
  readonly prompt: string
  /** That the answer may have. */
  readonly maxTokens: number
}

export interface ModelAnswer {
  readonly text: string
  /** That were used, which the turn's limit of tokens pays. */
  readonly tokensIn?: number
  readonly tokensOut?: number
}

export type Complete = (request: ModelRequest) => Maybe<string | ModelAnswer>
export type Embed = (text: string, waiting: Waiting) => Maybe<ArrayLike<number>>

/** Answers ai.complete and ai.embed; a program gets an error (ENOTSUP) where there is no function. */
export interface Model {
  readonly complete?: Complete
  readonly embed?: Embed
}

export type Ask = (question: string, waiting: Waiting) => Maybe<string>

export interface Agents {
  /** Is asked before something leaves that needs a yes, where the policy's [trifecta] has egress = "ask". Without, nothing does. */
  approve?: Approve
  /** What was read, shared with other sessions. */
  flows?: Flows
  /** Answers ai.complete, and with { embed } ai.embed, which the policy grants and bounds. */
  model?: Complete | Model
  /** Answers agent.ask, which the policy grants: what a person says. */
  ask?: Ask
}

export const agentOptions = ['approve', 'flows', 'model', 'ask'] as const

// -- receipts ---------------------------------------------------------------------------------------------------------

export interface ReceiptsOptions {
  /** That `membrane keys generate` made; else the user's own. */
  keyFile?: string
  /** A new key for this user alone, where the file is not there. */
  makesKey?: boolean
}

/**
 * A directory of receipts: files that say what ran, what it did and what came of it, under a signature (docs/receipts.md). Result.receipt
 * is the file of a turn; beside it is one with `.private` at its end, which is for the owner alone.
 */
export class Receipts {
  readonly directory: string
  readonly #native: NativeReceipts

  static {
    nativeReceiptsOf = (receipts) => receipts.#native
  }

  /** Makes the directory where it is not there. Throws without a key, and where the directory cannot be used. */
  constructor(directory: string, options: ReceiptsOptions = {}) {
    if (typeof directory !== 'string') throw new TypeError(`the directory comes first: new Receipts('receipts', {…}); ${kindOf(directory)} was given in its place`)
    checkOptions('new Receipts()', options, ['keyFile', 'makesKey'], { keyFile: [isText, 'the path of a file'], makesKey: [isFlag, 'true or false'] })
    const { keyFile = '', makesKey = false } = options
    this.directory = resolve(directory)
    try {
      this.#native = translated(() => engine().openReceipts(this.directory, keyFile, makesKey))
    } catch (error) {
      if (!(error instanceof NotFoundError) || error.hint !== 'membrane keys generate') throw error
      const { message, code } = error
      throw new NotFoundError(message, { code, hint: hintOfKeys(keyFile ? resolve(keyFile) : ownKeyFile()), cause: error })
    }
  }

  /** Why a turn that ran was not sealed: the first of all. Result.unsealed says it of each. */
  get problem(): MembraneError | undefined {
    return asOurs(engine().problemOf(this.#native)) as MembraneError | undefined
  }
}

// Where the engine looks for the user's own key.
function ownKeyFile(): string {
  const folder = process.env['XDG_CONFIG_HOME'] ?? ''
  return join(folder.startsWith('/') ? folder : join(homedir(), '.config'), 'membrane', 'receipt-keys.json')
}

// -- as the addon is told of them -------------------------------------------------------------------------------------

export interface NativeAgents {
  readonly approve: boolean
  readonly complete: boolean
  readonly embed: boolean
  readonly ask: boolean
  readonly flows: NativeFlows | undefined
  readonly receipts: NativeReceipts | undefined
}

const modelOf = (model: Agents['model']): Model => (typeof model === 'function' ? { complete: model } : model ?? {})

function checkModel(model: unknown): void {
  if (model === undefined || typeof model === 'function') return
  checkOptions('model', model, ['complete', 'embed'])
  const { complete, embed } = model as Model
  if (!complete && !embed) throw new TypeError('model is a function, or an object with complete or embed: { complete: async ({ prompt }) => … }; this one has neither')
}

export function nativeAgentsOf(options: Agents & { receipts?: Receipts }): NativeAgents {
  const { approve, flows, ask, receipts } = options
  checkModel(options.model)
  const { complete, embed } = modelOf(options.model)
  for (const [name, given] of Object.entries({ approve, complete, embed, ask }))
    if (given !== undefined && typeof given !== 'function') throw new TypeError(`${name} is a function, not ${kindOf(given)}`)
  if (flows !== undefined && !(flows instanceof Flows)) throw new TypeError('flows is what new Flows() made')
  if (receipts !== undefined && !(receipts instanceof Receipts)) throw new TypeError('receipts is what new Receipts() made')
  return {
    ...{ approve: !!approve, complete: !!complete, embed: !!embed, ask: !!ask },
    flows: flows && nativeFlowsOf(flows),
    receipts: receipts && nativeReceiptsOf(receipts),
  }
}

// -- what is asked ----------------------------------------------------------------------------------------------------

/** What was answered; or an error's number in the program, and its text. */
export interface Said {
  readonly text?: string
  readonly numbers?: Float32Array
  readonly tokensIn?: number
  readonly tokensOut?: number
  readonly code?: string
}
type Reply = (said: Said | number | undefined) => void
type Given<T> = Omit<T, 'signal'>
interface TextGiven {
  readonly text: string
  readonly timeoutMs: number
}

export interface NativeAgentHost {
  readonly approve: (question: Given<EgressQuestion>, reply: Reply) => void
  readonly complete: (request: Given<ModelRequest>, reply: Reply) => void
  readonly embed: (given: TextGiven, reply: Reply) => void
  readonly ask: (given: TextGiven, reply: Reply) => void
}

const [yes, no, nobody] = [0, 1, 2]

/** What an approve throws is a no, and told of as a warning; of the others it is an error of the program. */
export function agentHostOf(options: Agents, scope: Scope): NativeAgentHost {
  const { complete, embed } = modelOf(options.model)
  return {
    approve: (question, reply) =>
      asked(scope, question, (whole) => atOnceOf(scope, options.approve!(whole)), approvalOf, reply, (error) => {
        process.emitWarning(`the approve of a session failed: ${String(error)}`)
        return nobody
      }),
    complete: (request, reply) => asked(scope, request, (whole) => complete!(whole), answerOf, reply, failureOf),
    embed: (given, reply) => asked(scope, given, ({ text, ...waiting }) => embed!(text, waiting), vectorOf, reply, failureOf),
    ask: (given, reply) => asked(scope, given, ({ text, ...waiting }) => options.ask!(text, waiting), textOf, reply, failureOf),
  }
}

// In runSync() a promise comes too late.
function atOnceOf<T>(scope: Scope, answer: Maybe<T>): Maybe<T> {
  if (scope.isEntered || !isThenable(answer)) return answer
  Promise.resolve(answer).catch(() => {})
  throw new TypeError('it gave a promise, which runSync() cannot await: use run()')
}

const longestTimerMs = 2 ** 31 - 1

function asked<Question extends { readonly timeoutMs: number }, Answer>(
  scope: Scope,
  question: Question,
  ask: (whole: Question & Waiting) => Maybe<Answer>,
  check: (answer: unknown) => Said | number,
  reply: Reply,
  fail: (error: unknown) => Said | number,
): void {
  const stop = new AbortController()
  const leave = scope.atLeave(() => stop.abort())
  const late = (): void => stop.abort(new DOMException('there was no answer in time', 'TimeoutError'))
  const timer = question.timeoutMs <= longestTimerMs ? setTimeout(late, question.timeoutMs) : undefined
  const end = (said: () => Said | number): void => {
    clearTimeout(timer)
    leave()
    try {
      reply(said())
    } catch (error) {
      reply(fail(error))
    }
  }
  const failed = (error: unknown): void => end(() => fail(error))
  try {
    const answer = ask({ ...question, signal: stop.signal })
    if (isThenable(answer)) answer.then((given) => end(() => check(given)), failed)
    else end(() => check(answer))
  } catch (error) {
    failed(error)
  }
}

/** Of a function that gave what it may not: the program gets an error, and the embedder, who has to mend it, a warning, too. */
function wrong(what: string, choices: string): never {
  const why = `${what} gives ${choices}, and gave something else`
  process.emitWarning(why, { type: 'MembraneWarning' })
  throw new TypeError(why)
}

function approvalOf(answer: unknown): number {
  if (answer === undefined || answer === null) return nobody
  if (typeof answer === 'boolean') return answer ? yes : no
  throw new TypeError('approve gives true, false or nothing')
}

function answerOf(answer: unknown): Said {
  if (typeof answer === 'string') return { text: answer }
  const { text, tokensIn = 0, tokensOut = 0 } = (answer ?? {}) as Partial<ModelAnswer>
  const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0
  if (typeof text !== 'string' || !isCount(tokensIn) || !isCount(tokensOut))
    return wrong('the model', 'a text, or { text, tokensIn, tokensOut } with whole numbers of tokens')
  return { text, tokensIn, tokensOut }
}

function vectorOf(answer: unknown): Said {
  const isVector = (Array.isArray(answer) || ArrayBuffer.isView(answer)) && !(answer instanceof DataView)
  const numbers = isVector ? Float32Array.from(answer as ArrayLike<number>) : undefined
  return numbers?.every(Number.isFinite) ? { numbers } : wrong('embed', 'an array of finite numbers')
}

const textOf = (answer: unknown): Said => (typeof answer === 'string' ? { text: answer } : wrong('ask', 'a text'))

interface SystemError {
  readonly name?: string
  readonly message?: string
  readonly code?: unknown
  readonly syscall?: unknown
  readonly path?: unknown
  readonly cause?: unknown
}

// fetch() fails with a TypeError that does not say why: its cause does.
function ofSystem(error: SystemError): SystemError {
  const { message, cause } = error
  if (message !== 'fetch failed' || typeof cause !== 'object' || cause === null) return error
  const { code, ...of } = { ...cause, message: (cause as SystemError).message } as SystemError
  const isTimeout = typeof code === 'string' && /TIMEOUT|TIMEDOUT/.test(code)
  const known = typeof code === 'string' && typeof of.syscall === 'string'
  return { ...of, message: `${message}: ${of.message || String(code)}`, code: isTimeout ? 'ETIMEDOUT' : known ? code : 'ECONNECT' }
}

// The engine takes a number that it does not know for EHOST. Of an error of the system its code alone is told: names of this machine's files
// are no business of the program's.
function failureOf(error: unknown): Said {
  if (error instanceof MembraneError) return { code: error.code || 'EHOST', text: error.message }
  if (typeof error !== 'object' || error === null) return { code: 'EHOST', text: String(error) }
  const { name, message, code, syscall, path } = ofSystem(error)
  const isOfSystem = typeof code === 'string' && (typeof syscall === 'string' || path !== undefined)
  const text = (isOfSystem ? `${code}${typeof syscall === 'string' ? ` of ${syscall}` : ''}` : message) || name || 'it failed'
  if (name === 'TimeoutError' || code === 'ETIMEDOUT') return { code: 'ETIMEDOUT', text }
  return { code: typeof code === 'string' && /^(ECONN|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|EPIPE)/.test(code) ? 'ECONNECT' : 'EHOST', text }
}
