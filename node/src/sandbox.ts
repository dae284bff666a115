/// <reference lib="esnext.disposable" preserve="true" />
// A sandbox: made, used, ended.

import { Attempts, Connection, type Request } from './connection.js'
import { errorOfStatus, MembraneError, NotFoundError, notOurs, UnreachableError } from './errors.js'
import { type ServerEvent } from './events.js'
import { checkOptions } from './given.js'
import { connectionOptions, settingsOf, type ConnectionOptions } from './settings.js'
import {
  approvalOf,
  bytesOf,
  contextOf,
  fileOf,
  formsOf,
  idOf,
  idOrNone,
  infoOf,
  listOf,
  milliseconds,
  Result,
  seconds,
  snapshotOf,
  type Approval,
  type ApprovalJson,
  type Context,
  type ContextJson,
  type Duration,
  type Event,
  type FileEvent,
  type FileInfo,
  type FileJson,
  type Policy,
  type Receipt,
  type SandboxInfo,
  type SandboxJson,
  type Snapshot,
  type SnapshotJson,
} from './types.js'

export interface CallOptions {
  /** Ends the call. */
  signal?: AbortSignal
}

export interface CreateOptions extends ConnectionOptions {
  /** "python", "javascript", "wat" or another template; "python". */
  template?: string
  /** One that it goes on from, instead of a template. */
  snapshot?: Snapshot | string
  /** What it may do: as a policy file, in JSON. Nothing without one. */
  policy?: Policy
  /** After which it is ended. */
  ttl?: Duration
  /** Ended after so long without anything to do. */
  idleTimeout?: Duration
  metadata?: Readonly<Record<string, string>>
  labels?: readonly string[]
  env?: Readonly<Record<string, string>>
  packages?: readonly string[]
  /** Make a receipt of every exec. */
  seal?: boolean
}

export interface ChangeOptions extends CallOptions {
  /** Counted from now. */
  ttl?: Duration
  /** 0: none. */
  idleTimeout?: Duration
  metadata?: Readonly<Record<string, string>>
  labels?: readonly string[]
  /**
   * Of its policy, as { fuel: 1e10, memory: '1 GiB' }; its other limits and its grants stay. What runs is stopped, and more
   * than it has needs a token with the scope policy:widen.
   */
  limits?: Readonly<Record<string, number | string>>
}

/** Of a terminal. */
export interface TerminalSize {
  columns: number
  rows: number
}

/** What code and commands have alike. */
export interface TurnOptions {
  /** Text, or bytes that are UTF-8. */
  stdin?: string | Uint8Array
  /** writeStdin() of its stream, or of the Exec in the background, gives it more. */
  openStdin?: boolean
  /** How long the program may run; the policy's limit counts when it is less. */
  timeout?: Duration
  /** For this program alone, over the sandbox's. */
  env?: Readonly<Record<string, string>>
  context?: Context | string
  /** Make a receipt of it. */
  seal?: boolean
  /** Of a Linux sandbox: where it begins. */
  directory?: string
  /** Of a Linux sandbox: its standard streams are a terminal of this size, and all that it prints is output. */
  terminal?: TerminalSize
  /** Ends the call, and the program. */
  signal?: AbortSignal
}

export interface ExecOptions extends TurnOptions {
  arguments?: readonly string[]
}

export interface CommandOptions extends TurnOptions {
  /** Of a Linux sandbox: a program, by name or path, and its arguments, as ['git', 'status']. */
  command: readonly string[]
}

export interface DiffOptions extends CallOptions {
  /** Only what is below it, by paths from there. */
  directory?: string
  /** What has changed since this snapshot; since the image without one. */
  since?: Snapshot | string
}

export interface PatchOptions extends CallOptions {
  /** Where the paths of the patch begin. */
  directory?: string
}

export interface FileOptions extends CallOptions {
  /** Whose files are meant, in the place of those that are there from the start. */
  context?: Context | string
}

export interface ListOptions extends ConnectionOptions {
  state?: string
  label?: string
  /** Only those with all of this. */
  metadata?: Readonly<Record<string, string>>
}

// `await using` of a Node that does not have the symbol yet uses this one, as TypeScript's own helper does.
const asyncDispose: typeof Symbol.asyncDispose = Symbol.asyncDispose ?? (Symbol.for('Symbol.asyncDispose') as never)

// What console.log() shows.
const inspected: unique symbol = Symbol.for('nodejs.util.inspect.custom')

const createOptions: readonly string[] = [
  'template',
  'snapshot',
  'policy',
  'ttl',
  'idleTimeout',
  'metadata',
  'labels',
  'env',
  'packages',
  'seal',
  ...connectionOptions,
]
const changeOptions: readonly string[] = ['ttl', 'idleTimeout', 'metadata', 'labels', 'limits', 'signal']
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

const pathOf = (...parts: string[]): string => '/v1/sandboxes/' + parts.map(encodeURIComponent).join('/')
const whole = (duration: Duration | undefined): number | undefined =>
  duration === undefined ? undefined : seconds(duration)

function textOfStdin(stdin: string | Uint8Array): string {
  if (typeof stdin === 'string') return stdin
  if (!(stdin instanceof Uint8Array)) throw new TypeError(`stdin is a string or a Uint8Array, not ${typeof stdin}`)
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(stdin)
  } catch (cause) {
    const hint = 'Begin it with openStdin, and give it to writeStdin(), which takes any bytes.'
    throw new MembraneError('stdin is not UTF-8', { code: 'invalid_argument', hint, cause })
  }
}

/** Code with its options, or the options of a command. */
function splitTurn<T extends TurnOptions>(
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

function jsonOf(event: ServerEvent): any {
  try {
    return JSON.parse(event.data)
  } catch (error) {
    throw notOurs('an event that is no JSON', error)
  }
}

function outputOf(kind: 'stdout' | 'stderr', json: { text: string; base64?: string }): Event {
  return { kind, text: json.text, data: bytesOf(json.text, json.base64) }
}

/** undefined: of a kind that this version does not know. */
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
 * The events of a program that runs, as they come; the last has the result. It can be read once.
 *
 * A cut connection is made again, and goes on where it was. Who stops reading a stream of Sandbox.stream() stops the
 * program, as its signal does.
 */
export class Stream implements AsyncIterable<Event> {
  readonly #connection: Connection
  readonly #sandbox: string
  readonly #begin: Request
  #isOwner: boolean
  /** Known once it is read. */
  execId: string
  /** Known at its end. */
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

  /** Stops the program; its result has the outcome "cancelled". */
  async cancel(): Promise<void> {
    if (this.execId !== '' && !this.result) await this.#connection.nothing(cancelOf(this.#sandbox, this.execId))
  }

  /** More of its input, when it was begun with openStdin; eof: the last. Once the first event has come. */
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
    await this.cancel().catch(() => {}) // what ends the reading says more
  }
}

const cancelOf = (sandbox: string, exec: string): Request => ({
  method: 'DELETE',
  path: pathOf(sandbox, 'execs', exec),
  isGoneFine: true,
})
const inputOf = (sandbox: string, exec: string, data: string | Uint8Array, eof = false): Request => ({
  method: 'POST',
  path: pathOf(sandbox, 'execs', exec, 'stdin'),
  query: { eof: eof ? 'true' : undefined },
  bytes: data,
})
const eventsOf = (sandbox: string, exec: string, after: string, hangUp = false): Request => ({
  method: 'GET',
  path: pathOf(sandbox, 'execs', exec, 'events'),
  query: { after: after === '' ? undefined : after, hang_up: hangUp ? 'true' : undefined },
})

async function resultOf(stream: Stream): Promise<Result> {
  for await (const _ of stream);
  if (!stream.result) throw notOurs('a stream without a result')
  return stream.result
}

async function receiptOf(connection: Connection, sandbox: string, exec: string, options: CallOptions): Promise<Receipt> {
  const path = pathOf(sandbox, 'execs', exec, 'receipt')
  const request = { method: 'GET', path, accept: '*/*', signal: options.signal }
  const text = await connection.bytes(request)
  return { text, privateText: await connection.bytes({ ...request, path: path + '/private' }) }
}

/** A program that runs in the background. */
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
   * Its events from the first; leaving them does not stop it. With hangUp a command of a Linux sandbox gets SIGHUP, and the end of its
   * input, when the reader goes away before its end.
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
    const path = pathOf(this.#sandbox, 'execs', this.id)
    return (await this.#connection.json<{ state: string }>({ method: 'GET', path })).state
  }

  async cancel(): Promise<void> {
    await this.#connection.nothing(cancelOf(this.#sandbox, this.id))
  }

  /** More of its input, when it was begun with openStdin; eof: the last. The program reads it as it comes. */
  async writeStdin(data: string | Uint8Array, options: { eof?: boolean } = {}): Promise<void> {
    await this.#connection.nothing(inputOf(this.#sandbox, this.id, data, options.eof))
  }

  /** To a command of a Linux sandbox that runs, by its number. */
  async signal(number: number): Promise<void> {
    const path = pathOf(this.#sandbox, 'execs', this.id, 'signal')
    await this.#connection.nothing({ method: 'POST', path, json: { signal: number } })
  }

  /** Of one that has a terminal: its size from now on. */
  async resize(size: TerminalSize): Promise<void> {
    const path = pathOf(this.#sandbox, 'execs', this.id, 'terminal')
    await this.#connection.nothing({ method: 'POST', path, json: size })
  }

  /** Of one that was sealed, when it is over. */
  async receipt(options: CallOptions = {}): Promise<Receipt> {
    return receiptOf(this.#connection, this.#sandbox, this.id, options)
  }
}

/** The files that a sandbox sees; with a context, those that it sees. Paths are absolute. */
export class Files {
  readonly #connection: Connection
  readonly #sandbox: string

  /** @internal */
  constructor(connection: Connection, sandbox: string) {
    this.#connection = connection
    this.#sandbox = sandbox
  }

  #request(method: string, rest: readonly string[], options: FileOptions, query: Request['query'] = {}): Request {
    const path = pathOf(this.#sandbox, 'files', ...rest)
    return { method, path, query: { ...query, context: idOrNone(options.context) }, signal: options.signal }
  }

  #post(action: string, options: FileOptions, json: Record<string, string>): Request {
    const path = pathOf(this.#sandbox, 'files', action)
    return { method: 'POST', path, json: { ...json, context: idOrNone(options.context) }, signal: options.signal }
  }

  async read(path: string, options: FileOptions = {}): Promise<Uint8Array> {
    return this.#connection.bytes({ ...this.#request('GET', [], options, { path }), accept: '*/*' })
  }

  async readText(path: string, options: FileOptions = {}): Promise<string> {
    return new TextDecoder().decode(await this.read(path, options))
  }

  /** The whole file; directories above it are made. */
  async write(
    path: string,
    data: string | Uint8Array,
    options: FileOptions & { /** Its permissions in a Linux sandbox, as 0o755. */ mode?: number } = {},
  ): Promise<void> {
    const query = { path, mode: options.mode?.toString(8).padStart(4, '0') }
    await this.#connection.nothing({ ...this.#request('PUT', [], options, query), bytes: data })
  }

  /** What is in the directory; without one, the files that the sandbox has made or changed. */
  async list(path?: string, options: FileOptions = {}): Promise<FileInfo[]> {
    const request = this.#request('GET', ['list'], options, { path })
    return (await this.#connection.json<{ files: FileJson[] }>(request)).files.map(fileOf)
  }

  async stat(path: string, options: FileOptions = {}): Promise<FileInfo> {
    return fileOf(await this.#connection.json<FileJson>(this.#request('GET', ['stat'], options, { path })))
  }

  async move(source: string, target: string, options: FileOptions = {}): Promise<void> {
    await this.#connection.nothing(this.#post('move', options, { from: source, to: target }))
  }

  async makeDirectory(path: string, options: FileOptions = {}): Promise<void> {
    await this.#connection.nothing(this.#post('mkdir', options, { path }))
  }

  async remove(path: string, options: FileOptions & { recursive?: boolean } = {}): Promise<void> {
    const query = { path, recursive: options.recursive ? 'true' : undefined }
    await this.#connection.nothing({ ...this.#request('DELETE', [], options, query), isGoneFine: true })
  }

  /** What is below the directory, as a tar archive; of a Linux sandbox with permissions and symbolic links. */
  async readArchive(path: string, options: FileOptions = {}): Promise<Uint8Array> {
    return this.#connection.bytes({ ...this.#request('GET', ['archive'], options, { path }), accept: '*/*' })
  }

  /** Unpacks a tar archive, also one compressed by gzip, into the directory; files that are there are replaced. */
  async writeArchive(path: string, archive: Uint8Array, options: FileOptions = {}): Promise<void> {
    const request = this.#request('PUT', ['archive'], options, { path })
    await this.#connection.nothing({ ...request, bytes: archive, contentType: 'application/x-tar' })
  }

  /** What changes below the directory, until the reader stops. */
  async *watch(path: string, options: FileOptions = {}): AsyncGenerator<FileEvent, void, undefined> {
    const attempts = new Attempts(this.#connection.settings)
    for (;;) {
      let cut: unknown
      try {
        const events = this.#connection.events(this.#request('GET', ['watch'], options, { path }), attempts, () => {})
        for await (const event of events) {
          attempts.beginAgain()
          const json = jsonOf(event)
          if (json?.path !== undefined) yield { kind: json.kind ?? json.change ?? event.kind, path: json.path }
        }
      } catch (error) {
        cut = error
      }
      await attempts.afterError(cut, options.signal)
    }
  }
}

/** The contexts of a sandbox: exec(code, { context }) runs code in one, and files has its files. */
export class Contexts {
  readonly #connection: Connection
  readonly #sandbox: string

  /** @internal */
  constructor(connection: Connection, sandbox: string) {
    this.#connection = connection
    this.#sandbox = sandbox
  }

  /** One of the sandbox's language, or of another. */
  async open(options: CallOptions & { template?: string } = {}): Promise<Context> {
    const json = { template: options.template }
    const request = { method: 'POST', path: pathOf(this.#sandbox, 'contexts'), json, signal: options.signal }
    return contextOf(await this.#connection.json<ContextJson>(request))
  }

  /** Those that were opened. */
  async list(options: CallOptions = {}): Promise<Context[]> {
    const request = { method: 'GET', path: pathOf(this.#sandbox, 'contexts'), signal: options.signal }
    return listOf(await this.#connection.json<Record<string, ContextJson[]>>(request), 'contexts').map(contextOf)
  }

  /** Closes one; its variables and files are gone. */
  async remove(context: Context | string, options: CallOptions = {}): Promise<void> {
    const path = pathOf(this.#sandbox, 'contexts', idOf(context))
    await this.#connection.nothing({ method: 'DELETE', path, isGoneFine: true, signal: options.signal })
  }
}

/** The requests of a sandbox's programs that wait for a person's yes. Both want a token with the scope approve. */
export class Approvals {
  readonly #connection: Connection
  readonly #sandbox: string

  /** @internal */
  constructor(connection: Connection, sandbox: string) {
    this.#connection = connection
    this.#sandbox = sandbox
  }

  /** What waits now: one at most. */
  async list(options: CallOptions = {}): Promise<Approval[]> {
    const request = { method: 'GET', path: pathOf(this.#sandbox, 'approvals'), signal: options.signal }
    return listOf(await this.#connection.json<Record<string, ApprovalJson[]>>(request), 'approvals').map(approvalOf)
  }

  /** Lets it go, or refuses it. What nobody decides in the time of its program is refused. */
  async decide(approval: Approval | string, allow: boolean, options: CallOptions = {}): Promise<void> {
    const path = pathOf(this.#sandbox, 'approvals', idOf(approval))
    await this.#connection.nothing({ method: 'POST', path, json: { allow }, signal: options.signal })
  }
}

/**
 * One sandbox: variables, files and all stay from run to run, until it is killed or its time is over. With `await using` it is
 * killed at the end; a service that cannot be reached then is no error: what it has left ends when its time is over.
 */
export class Sandbox {
  readonly files: Files
  readonly contexts: Contexts
  readonly approvals: Approvals
  readonly #connection: Connection
  #info: SandboxInfo

  private constructor(connection: Connection, info: SandboxInfo) {
    this.#connection = connection
    this.#info = info
    this.files = new Files(connection, info.id)
    this.contexts = new Contexts(connection, info.id)
    this.approvals = new Approvals(connection, info.id)
  }

  /** Makes one. */
  static async create(options: CreateOptions = {}): Promise<Sandbox> {
    checkOptions('Sandbox.create()', options, createOptions)
    const connection = new Connection(settingsOf(options))
    const json = {
      template: options.template ?? (options.snapshot === undefined ? 'python' : undefined),
      snapshot: idOrNone(options.snapshot),
      policy: options.policy,
      ttl_s: whole(options.ttl),
      idle_timeout_s: whole(options.idleTimeout),
      metadata: options.metadata,
      labels: options.labels,
      env: options.env,
      packages: options.packages,
      seal: options.seal,
    }
    const request = { method: 'POST', path: '/v1/sandboxes', json, signal: options.signal }
    return new Sandbox(connection, infoOf(await connection.json<SandboxJson>(request)))
  }

  /** One that exists. */
  static async connect(sandbox: Sandbox | SandboxInfo | string, options: ConnectionOptions = {}): Promise<Sandbox> {
    checkOptions('Sandbox.connect()', options, connectionOptions)
    const connection = new Connection(settingsOf(options))
    const request = { method: 'GET', path: pathOf(idOf(sandbox)), signal: options.signal }
    return new Sandbox(connection, infoOf(await connection.json<SandboxJson>(request)))
  }

  /** The token's sandboxes, oldest first, fetched page by page. */
  static async *list(options: ListOptions = {}): AsyncGenerator<Sandbox, void, undefined> {
    checkOptions('Sandbox.list()', options, ['state', 'label', 'metadata', ...connectionOptions])
    const connection = new Connection(settingsOf(options))
    const metadata = Object.entries(options.metadata ?? {}).map(([name, value]) => [`metadata.${name}`, value])
    let cursor: string | undefined
    do {
      const query: Record<string, string | undefined> = {
        ...Object.fromEntries(metadata),
        state: options.state,
        label: options.label,
        cursor,
      }
      const page = await connection.json<{ sandboxes: SandboxJson[]; next_cursor: string | null }>({
        method: 'GET',
        path: '/v1/sandboxes',
        query,
        signal: options.signal,
      })
      for (const json of page.sandboxes) yield new Sandbox(connection, infoOf(json))
      cursor = page.next_cursor ?? undefined
    } while (cursor !== undefined)
  }

  get id(): string {
    return this.#info.id
  }

  get template(): string {
    return this.#info.template
  }

  /** As it stands now. */
  async info(options: CallOptions = {}): Promise<SandboxInfo> {
    return this.#ask('GET', [], undefined, options)
  }

  /** Changes what is given. */
  async update(options: ChangeOptions): Promise<SandboxInfo> {
    checkOptions('update()', options, changeOptions)
    const json = {
      ttl_s: whole(options.ttl),
      idle_timeout_s: whole(options.idleTimeout),
      metadata: options.metadata,
      labels: options.labels,
    }
    if (options.limits !== undefined) await this.#setLimits(options.limits, options)
    const isMore = Object.values(json).some((value) => value !== undefined)
    return isMore || options.limits === undefined ? this.#ask('PATCH', [], json, options) : this.#info
  }

  async #setLimits(limits: Readonly<Record<string, number | string>>, options: CallOptions): Promise<void> {
    const policy = await this.policy(options)
    const all = { ...(policy['limits'] as Policy | undefined), ...limits }
    await this.setPolicy({ ...policy, limits: all }, options)
  }

  /** What it may do, with every limit. */
  async policy(options: CallOptions = {}): Promise<Policy> {
    return this.#connection.json({ method: 'GET', path: pathOf(this.id, 'policy'), signal: options.signal })
  }

  /**
   * What it may do from now on, in the place of what it may do now: grants that are not named are gone, limits that are not
   * named stay. update({ limits }) keeps the grants. What runs is stopped. More than it has needs a token with the scope
   * policy:widen.
   */
  async setPolicy(policy: Policy, options: CallOptions = {}): Promise<void> {
    await this.#ask('PATCH', ['policy'], policy, options)
  }

  /** Runs code. A program that fails is a result like another: its `error` says why, check() throws it. */
  async run(code: string, options: Pick<ExecOptions, 'timeout' | 'context' | 'signal'> = {}): Promise<Result> {
    checkOptions('run()', options, ['timeout', 'context', 'signal'])
    return this.exec(code, options)
  }

  /** Runs code, or a command of a Linux sandbox, with all that can be said of how. */
  exec(code: string, options: ExecOptions & { background: true }): Promise<Exec>
  exec(code: string, options?: ExecOptions & { background?: false }): Promise<Result>
  exec(command: CommandOptions & { background: true }): Promise<Exec>
  exec(command: CommandOptions & { background?: false }): Promise<Result>
  async exec(
    what: string | (CommandOptions & { background?: boolean }),
    options?: ExecOptions & { background?: boolean },
  ): Promise<Result | Exec> {
    const [turn, given] = splitTurn<TurnOptions & { background?: boolean }>('exec()', what, options, ['background'])
    if (!given.background) return resultOf(this.#stream(turn, given.signal))
    const path = pathOf(this.id, 'exec')
    const json = { ...turn, background: true }
    const request = { method: 'POST', path, json, signal: given.signal }
    const started = await this.#connection.json<{ exec_id: string }>(request)
    return new Exec(this.#connection, this.id, started.exec_id)
  }

  /** Runs code, or a command, when it is iterated over, and gives what it prints and shows as it comes. */
  stream(code: string, options?: ExecOptions): Stream
  stream(command: CommandOptions): Stream
  stream(what: string | CommandOptions, options?: ExecOptions): Stream {
    const [turn, given] = splitTurn<TurnOptions>('stream()', what, options, [])
    return this.#stream(turn, given.signal)
  }

  #stream(turn: Record<string, unknown>, signal: AbortSignal | undefined): Stream {
    const begin = { method: 'POST', path: pathOf(this.id, 'exec'), json: { ...turn, stream: true }, signal }
    return new Stream(this.#connection, this.id, begin, '', true)
  }

  /** What a Linux sandbox has changed since its image, or since a snapshot, as a git patch. */
  async diff(options: DiffOptions = {}): Promise<Uint8Array> {
    checkOptions('diff()', options, ['directory', 'since', 'signal'])
    const query = { directory: options.directory, since: idOrNone(options.since) }
    const path = pathOf(this.id, 'patch')
    return this.#connection.bytes({ method: 'GET', path, query, accept: '*/*', signal: options.signal })
  }

  /** Applies a git patch to the files of a Linux sandbox, all of it or nothing. Gives how many files it changed. */
  async patch(patch: string | Uint8Array, options: PatchOptions = {}): Promise<number> {
    checkOptions('patch()', options, ['directory', 'signal'])
    const answer = await this.#connection.json<{ changed_files: number }>({
      method: 'POST',
      path: pathOf(this.id, 'patch'),
      query: { directory: options.directory },
      bytes: patch,
      contentType: 'text/x-patch',
      signal: options.signal,
    })
    return answer.changed_files
  }

  /** Of an exec that was sealed. */
  async receipt(exec: Result | Exec | string, options: CallOptions = {}): Promise<Receipt> {
    const id = exec instanceof Result ? exec.execId : idOf(exec)
    return receiptOf(this.#connection, this.id, id, options)
  }

  /** So many that go on from where this one stands, each for itself. */
  async fork(count = 1, options: CallOptions = {}): Promise<Sandbox[]> {
    const path = pathOf(this.id, 'fork')
    const request = { method: 'POST', path, json: { count }, signal: options.signal }
    const { sandboxes } = await this.#connection.json<{ sandboxes: SandboxJson[] }>(request)
    return sandboxes.map((json) => new Sandbox(this.#connection, infoOf(json)))
  }

  /** Puts it to disk, as it is; resume(), or the next use, has it back. */
  async pause(options: CallOptions = {}): Promise<void> {
    await this.#ask('POST', ['pause'], undefined, options)
  }

  async resume(options: CallOptions = {}): Promise<void> {
    await this.#ask('POST', ['resume'], undefined, options)
  }

  /** Goes on from a snapshot of the same template; what it was since is gone. */
  async reset(snapshot: Snapshot | string, options: CallOptions = {}): Promise<void> {
    await this.#ask('POST', ['reset'], { snapshot: typeof snapshot === 'string' ? snapshot : snapshot.id }, options)
  }

  /** Keeps it as it stands now; it goes on. */
  async snapshot(options: CallOptions = {}): Promise<Snapshot> {
    const request = { method: 'POST', path: pathOf(this.id, 'snapshot'), signal: options.signal }
    return snapshotOf(await this.#connection.json<SnapshotJson>(request))
  }

  /** Ends it; what it runs is stopped. */
  async kill(options: CallOptions = {}): Promise<void> {
    await this.#connection.nothing({
      method: 'DELETE',
      path: pathOf(this.id),
      isGoneFine: true,
      signal: options.signal,
    })
  }

  [inspected](): string {
    return `Sandbox { id: '${this.id}', template: '${this.template}' }`
  }

  async [asyncDispose](): Promise<void> {
    await this.kill().catch((error: unknown) => {
      if (!(error instanceof NotFoundError || error instanceof UnreachableError)) throw error // it ends when its time is over
    })
  }

  async #ask(method: string, rest: readonly string[], json: unknown, options: CallOptions): Promise<SandboxInfo> {
    const request = { method, path: pathOf(this.id, ...rest), json, signal: options.signal }
    this.#info = infoOf(await this.#connection.json<SandboxJson>(request))
    return this.#info
  }
}
