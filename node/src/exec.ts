// Programs that run in a sandbox of the service: what begins one, its events, and one in the background.

import { Attempts, Connection, sandboxPath, type Request } from './connection.js'
import { errorOfStatus, MembraneError, notOurs } from './errors.js'
import { jsonOf, type ServerEvent } from './events.js'
import { checkOptions } from './given.js'
import { type CallOptions } from './settings.js'
import {
  approvalOf,
  bytesOf,
  formsOf,
  idOrNone,
  milliseconds,
  Result,
  type Context,
  type Duration,
  type Event,
  type Receipt,
} from './types.js'

/** The size of a terminal. */
export interface TerminalSize {
  columns: number
  rows: number
}

/** The options of code and of commands. */
export interface TurnOptions {
  /** Text, or bytes of UTF-8. */
  stdin?: string | Uint8Array
  /** More input comes by writeStdin() of its stream, or of the Exec in the background. */
  openStdin?: boolean
  /** How long the program may run; the policy's limit applies if it is lower. */
  timeout?: Duration
  /** For this program only; they override the sandbox's. */
  env?: Readonly<Record<string, string>>
  context?: Context | string
  /** Makes a receipt. */
  seal?: boolean
  /** In a Linux sandbox: where the program starts. */
  directory?: string
  /** In a Linux sandbox: the standard streams are a terminal of this size, and everything that it prints is output. */
  terminal?: TerminalSize
  /** Ends the call, and the program. */
  signal?: AbortSignal
}

export interface ExecOptions extends TurnOptions {
  arguments?: readonly string[]
}

export interface CommandOptions extends TurnOptions {
  /** In a Linux sandbox: a program, by name or path, with its arguments, such as ['git', 'status']. */
  command: readonly string[]
}

const turnOptions: readonly string[] = [
  'stdin',
  'openStdin',
  'timeout',
  'env',
  'context',
  'seal',
  'directory',
  'terminal',
  'signal',
]

function textOfStdin(stdin: string | Uint8Array): string {
  if (typeof stdin === 'string') return stdin
  if (!(stdin instanceof Uint8Array)) throw new TypeError(`stdin must be a string or a Uint8Array, not ${typeof stdin}`)
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(stdin)
  } catch (cause) {
    const hint = 'Begin it with openStdin, and give it to writeStdin(), which takes any bytes.'
    throw new MembraneError('stdin is not UTF-8', { code: 'invalid_argument', hint, cause })
  }
}

/** Code with its options, or the options of a command. */
export function splitTurn<T extends TurnOptions>(
  call: string,
  what: string | (CommandOptions & T),
  options: (ExecOptions & T) | undefined,
  more: readonly string[],
): [Record<string, unknown>, T] {
  const isCode = typeof what === 'string'
  const given = isCode ? (options ?? ({} as ExecOptions & T)) : what
  checkOptions(call, given, [isCode ? 'arguments' : 'command', ...turnOptions, ...more])
  const it = isCode
    ? { code: what, arguments: (given as ExecOptions).arguments }
    : { command: (given as CommandOptions).command }
  return [{ ...it, ...turnOf(given) }, given]
}

function turnOf(options: TurnOptions): Record<string, unknown> {
  return {
    env: options.env,
    context: idOrNone(options.context),
    stdin: options.stdin === undefined ? undefined : textOfStdin(options.stdin),
    open_stdin: options.openStdin,
    directory: options.directory,
    terminal: options.terminal,
    seal: options.seal,
    timeout_ms: options.timeout === undefined ? undefined : milliseconds(options.timeout),
  }
}

// What console.log() shows.
export const inspected: unique symbol = Symbol.for('nodejs.util.inspect.custom')

function outputOf(kind: 'stdout' | 'stderr', json: { text: string; base64?: string }): Event {
  return { kind, text: json.text, data: bytesOf(json.text, json.base64) }
}

/** Returns undefined for a kind of event that this version does not know. */
function eventOf(event: ServerEvent): Event | undefined {
  switch (event.kind) {
    case 'stdout':
    case 'stderr':
      return outputOf(event.kind, jsonOf(event))
    case 'display':
      return { kind: 'display', forms: formsOf(jsonOf(event)) }
    case 'approval':
      return { kind: 'approval', approval: approvalOf(jsonOf(event)) }
    case 'report':
      return { kind: 'result', result: new Result(jsonOf(event)) }
    case 'error': {
      const json = jsonOf(event)
      const error = json.error ?? json
      throw errorOfStatus(500, error.message, { ...error, requestId: error.request_id })
    }
    default:
      return undefined
  }
}

/**
 * The events of a running program, as they come. The last one has the result. A stream can be read once.
 *
 * If the connection is cut, the stream reconnects and continues where it was. To stop reading a stream of Sandbox.stream() stops the
 * program, and so does its signal.
 */
export class Stream implements AsyncIterable<Event> {
  readonly #connection: Connection
  readonly #sandbox: string
  readonly #begin: Request
  #isOwner: boolean
  /** Known after the first event. */
  execId: string
  /** Known at the end. */
  result: Result | undefined

  /** @internal */
  constructor(connection: Connection, sandbox: string, begin: Request, execId: string, isOwner: boolean) {
    this.#connection = connection
    this.#sandbox = sandbox
    this.#begin = begin
    this.#isOwner = isOwner
    this.execId = execId
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Event, void, undefined> {
    try {
      for await (const serverEvent of this.#serverEvents()) {
        const event = eventOf(serverEvent)
        if (!event) continue
        if (event.kind === 'result') this.result = event.result
        yield event
        if (event.kind === 'result') return
      }
    } finally {
      await this.#close()
    }
  }

  /** Stops the program. Its result has the outcome "cancelled". */
  async cancel(): Promise<void> {
    if (this.execId !== '' && !this.result) await this.#connection.nothing(cancelOf(this.#sandbox, this.execId))
  }

  /** Sends input to a program that was started with openStdin, after the first event. eof: there is no more input. */
  async writeStdin(data: string | Uint8Array, options: { eof?: boolean } = {}): Promise<void> {
    await this.#connection.nothing(inputOf(this.#sandbox, this.execId, data, options.eof))
  }

  async *#serverEvents(): AsyncGenerator<ServerEvent> {
    const attempts = new Attempts(this.#connection.settings)
    let request = this.#begin
    let lastId = ''
    for (;;) {
      let cut: unknown
      try {
        const events = this.#connection.events(request, attempts, (response) => {
          this.execId = response.headers.get('x-exec-id') ?? this.execId
        })
        for await (const event of events) {
          attempts.beginAgain()
          lastId = event.id
          yield event
        }
      } catch (error) {
        cut = error
      }
      await attempts.afterError(cut, this.#begin.signal)
      if (this.execId === '') throw notOurs('cut, and names no exec')
      request = { ...eventsOf(this.#sandbox, this.execId, lastId), signal: this.#begin.signal }
    }
  }

  async #close(): Promise<void> {
    if (!this.#isOwner || this.result) return
    this.#isOwner = false
    await this.cancel().catch(() => {}) // the error that ended the reading is more helpful
  }
}

const cancelOf = (sandbox: string, exec: string): Request => ({
  method: 'DELETE',
  path: sandboxPath(sandbox, 'execs', exec),
  isGoneFine: true,
})
const inputOf = (sandbox: string, exec: string, data: string | Uint8Array, eof = false): Request => ({
  method: 'POST',
  path: sandboxPath(sandbox, 'execs', exec, 'stdin'),
  query: { eof: eof ? 'true' : undefined },
  bytes: data,
})
const eventsOf = (sandbox: string, exec: string, after: string, hangUp = false): Request => ({
  method: 'GET',
  path: sandboxPath(sandbox, 'execs', exec, 'events'),
  query: { after: after === '' ? undefined : after, hang_up: hangUp ? 'true' : undefined },
})

export async function resultOf(stream: Stream): Promise<Result> {
  for await (const _ of stream);
  if (!stream.result) throw notOurs('a stream without a result')
  return stream.result
}

export async function receiptOf(connection: Connection, sandbox: string, exec: string, options: CallOptions): Promise<Receipt> {
  const path = sandboxPath(sandbox, 'execs', exec, 'receipt')
  const request = { method: 'GET', path, accept: '*/*', signal: options.signal }
  const text = await connection.bytes(request)
  return { text, privateText: await connection.bytes({ ...request, path: path + '/private' }) }
}

/** A program in the background. */
export class Exec {
  readonly #connection: Connection
  readonly #sandbox: string
  readonly id: string

  /** @internal */
  constructor(connection: Connection, sandbox: string, id: string) {
    this.#connection = connection
    this.#sandbox = sandbox
    this.id = id
  }

  [inspected](): string {
    return `Exec { id: '${this.id}', sandbox: '${this.#sandbox}' }`
  }

  /**
   * Returns its events from the first on. To stop reading does not stop the program. hangUp: a command of a Linux sandbox gets SIGHUP and
   * the end of its input if the reader leaves before the command ends.
   */
  stream(options: CallOptions & { hangUp?: boolean } = {}): Stream {
    const request = { ...eventsOf(this.#sandbox, this.id, '', options.hangUp), signal: options.signal }
    return new Stream(this.#connection, this.#sandbox, request, this.id, false)
  }

  async wait(options: CallOptions = {}): Promise<Result> {
    return resultOf(this.stream(options))
  }

  /** "queued", "running" or "done". */
  async state(): Promise<string> {
    const path = sandboxPath(this.#sandbox, 'execs', this.id)
    return (await this.#connection.json<{ state: string }>({ method: 'GET', path })).state
  }

  async cancel(): Promise<void> {
    await this.#connection.nothing(cancelOf(this.#sandbox, this.id))
  }

  /** Sends input to a program that was started with openStdin. eof: there is no more input. */
  async writeStdin(data: string | Uint8Array, options: { eof?: boolean } = {}): Promise<void> {
    await this.#connection.nothing(inputOf(this.#sandbox, this.id, data, options.eof))
  }

  /** Sends a signal, by number, to a running command of a Linux sandbox. */
  async signal(number: number): Promise<void> {
    const path = sandboxPath(this.#sandbox, 'execs', this.id, 'signal')
    await this.#connection.nothing({ method: 'POST', path, json: { signal: number } })
  }

  /** Changes the size of its terminal, if it has one. */
  async resize(size: TerminalSize): Promise<void> {
    const path = sandboxPath(this.#sandbox, 'execs', this.id, 'terminal')
    await this.#connection.nothing({ method: 'POST', path, json: size })
  }

  /** Returns the receipt of a sealed program that has ended. */
  async receipt(options: CallOptions = {}): Promise<Receipt> {
    return receiptOf(this.#connection, this.#sandbox, this.id, options)
  }
}
