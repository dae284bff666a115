// What a session can have besides its policy: an approver of egress, a model, a person to ask, and receipts of its turns.

import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { MembraneError, NotFoundError } from './errors.js'
import { checkOptions, isThenable, kindOf } from './given.js'
import { hintOfKeys } from './hints.js'
import { asOurs, engine, translated, type NativeFlows, type NativeReceipts } from './native.js'
import type { Scope } from './scope.js'
import type { FlowRead } from './types.js'

// -- egress -----------------------------------------------------------------------------------------------------------

/** What was read, of one kind. */
export interface FlowReads {
  /** The first reads. */
  readonly first: readonly FlowRead[]
  /** How many more there were. */
  readonly more: number
}

const isText = (value: unknown): boolean => typeof value === 'string'
const isFlag = (value: unknown): boolean => typeof value === 'boolean'

let nativeFlowsOf: (flows: Flows) => NativeFlows
let nativeReceiptsOf: (receipts: Receipts) => NativeReceipts

/**
 * What was read, shared by the sessions that are given it. The model of a conversation carries text from each program to the next, so what
 * one session has read counts for all. Reads are never forgotten.
 */
export class Flows {
  readonly #native = engine().newFlows()

  static {
    nativeFlowsOf = (flows) => flows.#native
  }

  /** Reads of private data. */
  get privateReads(): FlowReads {
    return engine().stateOfFlows(this.#native).privateReads
  }
  /** Reads of text of untrusted origin. */
  get untrustedReads(): FlowReads {
    return engine().stateOfFlows(this.#native).untrustedReads
  }
  /** Whether both kinds were read, so that nothing leaves without approval. */
  get isClosed(): boolean {
    return engine().stateOfFlows(this.#native).isClosed
  }
}

/** How long the program waits for an answer. */
export interface Waiting {
  readonly timeoutMs: number
  /** Aborted when the answer is no longer needed: its time is up, or the turn has ended. */
  readonly signal: AbortSignal
}

/** A request that would leave after a program has read both private data and text of untrusted origin. */
export interface EgressQuestion extends Waiting {
  /** Such as "http.request" or "ai.complete". */
  readonly function: string
  /** Such as "POST https://example.org/upload". */
  readonly target: string
  /** How many the request would send. */
  readonly bytes: number
  readonly privateReads: FlowReads
  readonly untrustedReads: FlowReads
}

type Maybe<T> = T | PromiseLike<T>

/** true approves, and anything else refuses. undefined or null means that nobody is there to ask. */
export type Approve = (question: EgressQuestion) => Maybe<boolean | undefined | null>

// -- a model and a person ---------------------------------------------------------------------------------------------

export interface ModelRequest extends Waiting {
  /** May be "". */
  readonly system: string
  readonly prompt: string
  /** How many the answer may have. */
  readonly maxTokens: number
}

export interface ModelAnswer {
  readonly text: string
  /** How many were used; they count against the turn's limit of tokens. */
  readonly tokensIn?: number
  readonly tokensOut?: number
}

export type Complete = (request: ModelRequest) => Maybe<string | ModelAnswer>
export type Embed = (text: string, waiting: Waiting) => Maybe<ArrayLike<number>>

/** Answers ai.complete and ai.embed. Without a function, programs get ENOTSUP. */
export interface Model {
  readonly complete?: Complete
  readonly embed?: Embed
}

export type Ask = (question: string, waiting: Waiting) => Maybe<string>

export interface Agents {
  /** Is called before a request that needs approval, if the policy's [trifecta] has egress = "ask". Without it, such requests are refused. */
  approve?: Approve
  /** What was read, shared with other sessions. */
  flows?: Flows
  /** Answers ai.complete, and with { embed } also ai.embed. The policy grants and bounds both. */
  model?: Complete | Model
  /** Answers agent.ask, by asking a person. The policy grants it. */
  ask?: Ask
}

export const agentOptions = ['approve', 'flows', 'model', 'ask'] as const

// -- receipts ---------------------------------------------------------------------------------------------------------

export interface ReceiptsOptions {
  /** A file of `membrane keys generate`; by default the user's own. */
  keyFile?: string
  /** Makes a key that only this user can read, if the file does not exist. */
  makesKey?: boolean
}

/**
 * A directory of receipts: signed files that state what ran, what it did and with what result (docs/receipts.md). Result.receipt is the
 * file of a turn; the file beside it, with `.private` appended, is for the owner alone.
 */
export class Receipts {
  readonly directory: string
  readonly #native: NativeReceipts

  static {
    nativeReceiptsOf = (receipts) => receipts.#native
  }

  /** Makes the directory if it does not exist. Throws if there is no key, or if the directory cannot be used. */
  constructor(directory: string, options: ReceiptsOptions = {}) {
    if (typeof directory !== 'string') throw new TypeError(`the directory comes first: new Receipts('receipts', {…}); ${kindOf(directory)} was given instead`)
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

  /** Why the first turn that could not be sealed was not. Result.unsealed has the reason of each. */
  get problem(): MembraneError | undefined {
    return asOurs(engine().problemOf(this.#native)) as MembraneError | undefined
  }
}

// The file in which the engine looks for the user's own key.
function ownKeyFile(): string {
  const folder = process.env['XDG_CONFIG_HOME'] ?? ''
  return join(folder.startsWith('/') ? folder : join(homedir(), '.config'), 'membrane', 'receipt-keys.json')
}

// -- what is passed to the addon --------------------------------------------------------------------------------------

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
  if (!complete && !embed) throw new TypeError('model must be a function, or an object with complete or embed: { complete: async ({ prompt }) => … }; this one has neither')
}

export function nativeAgentsOf(options: Agents & { receipts?: Receipts }): NativeAgents {
  const { approve, flows, ask, receipts } = options
  checkModel(options.model)
  const { complete, embed } = modelOf(options.model)
  for (const [name, given] of Object.entries({ approve, complete, embed, ask }))
    if (given !== undefined && typeof given !== 'function') throw new TypeError(`${name} must be a function, not ${kindOf(given)}`)
  if (flows !== undefined && !(flows instanceof Flows)) throw new TypeError('flows must be a Flows: new Flows()')
  if (receipts !== undefined && !(receipts instanceof Receipts)) throw new TypeError('receipts must be a Receipts: new Receipts(directory)')
  return {
    ...{ approve: !!approve, complete: !!complete, embed: !!embed, ask: !!ask },
    flows: flows && nativeFlowsOf(flows),
    receipts: receipts && nativeReceiptsOf(receipts),
  }
}

// -- the addon's calls ------------------------------------------------------------------------------------------------

/** An answer, or the code and text of an error in the program. */
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

/** An error of approve is a no, and is reported as a warning; an error of the others is an error in the program. */
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

// runSync() cannot wait for a promise.
function atOnceOf<T>(scope: Scope, answer: Maybe<T>): Maybe<T> {
  if (scope.isEntered || !isThenable(answer)) return answer
  Promise.resolve(answer).catch(() => {})
  throw new TypeError('it returned a promise, which runSync() cannot await: use run()')
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

/** A function returned something that it may not. The program gets an error, and the embedder, who has to fix it, also a warning. */
function wrong(what: string, choices: string): never {
  const why = `${what} must return ${choices}, but returned something else`
  process.emitWarning(why, { type: 'MembraneWarning' })
  throw new TypeError(why)
}

function approvalOf(answer: unknown): number {
  if (answer === undefined || answer === null) return nobody
  if (typeof answer === 'boolean') return answer ? yes : no
  throw new TypeError('approve must return true, false or nothing')
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

// The TypeError of fetch() does not say why it failed, but its cause does.
function ofSystem(error: SystemError): SystemError {
  const { message, cause } = error
  if (message !== 'fetch failed' || typeof cause !== 'object' || cause === null) return error
  const { code, ...of } = { ...cause, message: (cause as SystemError).message } as SystemError
  const isTimeout = typeof code === 'string' && /TIMEOUT|TIMEDOUT/.test(code)
  const known = typeof code === 'string' && typeof of.syscall === 'string'
  return { ...of, message: `${message}: ${of.message || String(code)}`, code: isTimeout ? 'ETIMEDOUT' : known ? code : 'ECONNECT' }
}

// The engine takes an unknown code for EHOST. Of a system error only the code is passed on: the program must not learn names of this
// machine's files.
function failureOf(error: unknown): Said {
  if (error instanceof MembraneError) return { code: error.code || 'EHOST', text: error.message }
  if (typeof error !== 'object' || error === null) return { code: 'EHOST', text: String(error) }
  const { name, message, code, syscall, path } = ofSystem(error)
  const isOfSystem = typeof code === 'string' && (typeof syscall === 'string' || path !== undefined)
  const text = (isOfSystem ? `${code}${typeof syscall === 'string' ? ` of ${syscall}` : ''}` : message) || name || 'it failed'
  if (name === 'TimeoutError' || code === 'ETIMEDOUT') return { code: 'ETIMEDOUT', text }
  return { code: typeof code === 'string' && /^(ECONN|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|EPIPE)/.test(code) ? 'ECONNECT' : 'EHOST', text }
}
