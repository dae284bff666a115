/// <reference lib="esnext.disposable" preserve="true" />
// Sandboxes of the service.

import { Connection, sandboxPath } from './connection.js'
import { NotFoundError, UnreachableError } from './errors.js'
import {
  Exec,
  inspected,
  receiptOf,
  resultOf,
  splitTurn,
  Stream,
  type CommandOptions,
  type ExecOptions,
  type TurnOptions,
} from './exec.js'
import { Files } from './files.js'
import { checkOptions } from './given.js'
import { connectionOptions, settingsOf, type CallOptions, type ConnectionOptions } from './settings.js'
import {
  approvalOf,
  contextOf,
  idOf,
  idOrNone,
  infoOf,
  listOf,
  Result,
  seconds,
  snapshotOf,
  type Approval,
  type ApprovalJson,
  type Context,
  type ContextJson,
  type Duration,
  type Policy,
  type Receipt,
  type SandboxInfo,
  type SandboxJson,
  type Snapshot,
  type SnapshotJson,
} from './types.js'

export interface CreateOptions extends ConnectionOptions {
  /** "python" (the default), "javascript", "wat", "linux" or another template. */
  template?: string
  /** The snapshot to start from, instead of a template. */
  snapshot?: Snapshot | string
  /** What it may do, as a policy file in JSON. Nothing by default. */
  policy?: Policy
  /** The sandbox ends after this time. */
  ttl?: Duration
  /** The sandbox ends after it was idle for so long. */
  idleTimeout?: Duration
  metadata?: Readonly<Record<string, string>>
  labels?: readonly string[]
  env?: Readonly<Record<string, string>>
  packages?: readonly string[]
  /** Makes a receipt of every exec. */
  seal?: boolean
}

export interface ChangeOptions extends CallOptions {
  /** Counted from now. */
  ttl?: Duration
  /** 0 means none. */
  idleTimeout?: Duration
  metadata?: Readonly<Record<string, string>>
  labels?: readonly string[]
  /**
   * Limits of its policy, such as { fuel: 1e10, memory: '1 GiB' }. Other limits and grants stay. Running programs are stopped. To raise a
   * limit, the token needs the scope policy:widen.
   */
  limits?: Readonly<Record<string, number | string>>
}

export interface DiffOptions extends CallOptions {
  /** Only what is below it, with paths relative to it. */
  directory?: string
  /** Changes since this snapshot; by default since the image. */
  since?: Snapshot | string
}

export interface PatchOptions extends CallOptions {
  /** What the paths of the patch are relative to. */
  directory?: string
}

export interface ListOptions extends ConnectionOptions {
  state?: string
  label?: string
  /** Only sandboxes that have all of it. */
  metadata?: Readonly<Record<string, string>>
}

// `await using` uses this where Node does not have the symbol yet, as TypeScript's own helper does.
const asyncDispose: typeof Symbol.asyncDispose = Symbol.asyncDispose ?? (Symbol.for('Symbol.asyncDispose') as never)

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
const whole = (duration: Duration | undefined): number | undefined =>
  duration === undefined ? undefined : seconds(duration)

/** The contexts of a sandbox: exec(code, { context }) runs code in one, and files takes one, too. */
export class Contexts {
  readonly #connection: Connection
  readonly #sandbox: string

  /** @internal */
  constructor(connection: Connection, sandbox: string) {
    this.#connection = connection
    this.#sandbox = sandbox
  }

  /** Opens a context in the sandbox's language, or in another. */
  async open(options: CallOptions & { template?: string } = {}): Promise<Context> {
    const json = { template: options.template }
    const request = { method: 'POST', path: sandboxPath(this.#sandbox, 'contexts'), json, signal: options.signal }
    return contextOf(await this.#connection.json<ContextJson>(request))
  }

  /** Lists the contexts that were opened. */
  async list(options: CallOptions = {}): Promise<Context[]> {
    const request = { method: 'GET', path: sandboxPath(this.#sandbox, 'contexts'), signal: options.signal }
    return listOf(await this.#connection.json<Record<string, ContextJson[]>>(request), 'contexts').map(contextOf)
  }

  /** Closes a context. Its variables and files are lost. */
  async remove(context: Context | string, options: CallOptions = {}): Promise<void> {
    const path = sandboxPath(this.#sandbox, 'contexts', idOf(context))
    await this.#connection.nothing({ method: 'DELETE', path, isGoneFine: true, signal: options.signal })
  }
}

/** The requests of a sandbox's programs that wait for a person's approval. Both methods need a token with the scope approve. */
export class Approvals {
  readonly #connection: Connection
  readonly #sandbox: string

  /** @internal */
  constructor(connection: Connection, sandbox: string) {
    this.#connection = connection
    this.#sandbox = sandbox
  }

  /** Lists the requests that wait now, at most one. */
  async list(options: CallOptions = {}): Promise<Approval[]> {
    const request = { method: 'GET', path: sandboxPath(this.#sandbox, 'approvals'), signal: options.signal }
    return listOf(await this.#connection.json<Record<string, ApprovalJson[]>>(request), 'approvals').map(approvalOf)
  }

  /** Approves or refuses a request. One without a decision before its program's time is up is refused. */
  async decide(approval: Approval | string, allow: boolean, options: CallOptions = {}): Promise<void> {
    const path = sandboxPath(this.#sandbox, 'approvals', idOf(approval))
    await this.#connection.nothing({ method: 'POST', path, json: { allow }, signal: options.signal })
  }
}

/**
 * A sandbox of the service. Its variables and files stay from run to run, until it is killed or its time is up. `await using` kills it at
 * the end. If the service cannot be reached then, that is not an error: the sandbox ends when its time is up.
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

  /** Makes a sandbox. */
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

  /** Connects to an existing sandbox. */
  static async connect(sandbox: Sandbox | SandboxInfo | string, options: ConnectionOptions = {}): Promise<Sandbox> {
    checkOptions('Sandbox.connect()', options, connectionOptions)
    const connection = new Connection(settingsOf(options))
    const request = { method: 'GET', path: sandboxPath(idOf(sandbox)), signal: options.signal }
    return new Sandbox(connection, infoOf(await connection.json<SandboxJson>(request)))
  }

  /** Yields the token's sandboxes, oldest first, page by page. */
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

  /** Returns the sandbox's current state. */
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

  /** Returns what the sandbox may do, with every limit. */
  async policy(options: CallOptions = {}): Promise<Policy> {
    return this.#connection.json({ method: 'GET', path: sandboxPath(this.id, 'policy'), signal: options.signal })
  }

  /**
   * Replaces what the sandbox may do: grants that are not named are removed, and limits that are not named stay. update({ limits }) keeps
   * the grants. Running programs are stopped. To allow more than before, the token needs the scope policy:widen.
   */
  async setPolicy(policy: Policy, options: CallOptions = {}): Promise<void> {
    await this.#ask('PATCH', ['policy'], policy, options)
  }

  /** Runs code. A program that fails is a result, too: its `error` says why, and check() throws that. */
  async run(code: string, options: Pick<ExecOptions, 'timeout' | 'context' | 'signal'> = {}): Promise<Result> {
    checkOptions('run()', options, ['timeout', 'context', 'signal'])
    return this.exec(code, options)
  }

  /** Runs code, or a command of a Linux sandbox, with all options. */
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
    const path = sandboxPath(this.id, 'exec')
    const json = { ...turn, background: true }
    const request = { method: 'POST', path, json, signal: given.signal }
    const started = await this.#connection.json<{ exec_id: string }>(request)
    return new Exec(this.#connection, this.id, started.exec_id)
  }

  /** Runs code or a command when it is iterated over, and yields what it prints and shows as it comes. */
  stream(code: string, options?: ExecOptions): Stream
  stream(command: CommandOptions): Stream
  stream(what: string | CommandOptions, options?: ExecOptions): Stream {
    const [turn, given] = splitTurn<TurnOptions>('stream()', what, options, [])
    return this.#stream(turn, given.signal)
  }

  #stream(turn: Record<string, unknown>, signal: AbortSignal | undefined): Stream {
    const begin = { method: 'POST', path: sandboxPath(this.id, 'exec'), json: { ...turn, stream: true }, signal }
    return new Stream(this.#connection, this.id, begin, '', true)
  }

  /** Returns the changes of a Linux sandbox since its image, or since a snapshot, as a git patch. */
  async diff(options: DiffOptions = {}): Promise<Uint8Array> {
    checkOptions('diff()', options, ['directory', 'since', 'signal'])
    const query = { directory: options.directory, since: idOrNone(options.since) }
    const path = sandboxPath(this.id, 'patch')
    return this.#connection.bytes({ method: 'GET', path, query, accept: '*/*', signal: options.signal })
  }

  /** Applies a git patch to the files of a Linux sandbox, either all of it or nothing, and returns how many files it changed. */
  async patch(patch: string | Uint8Array, options: PatchOptions = {}): Promise<number> {
    checkOptions('patch()', options, ['directory', 'signal'])
    const answer = await this.#connection.json<{ changed_files: number }>({
      method: 'POST',
      path: sandboxPath(this.id, 'patch'),
      query: { directory: options.directory },
      bytes: patch,
      contentType: 'text/x-patch',
      signal: options.signal,
    })
    return answer.changed_files
  }

  /** Returns the receipt of a sealed exec. */
  async receipt(exec: Result | Exec | string, options: CallOptions = {}): Promise<Receipt> {
    const id = exec instanceof Result ? exec.execId : idOf(exec)
    return receiptOf(this.#connection, this.id, id, options)
  }

  /** Returns so many independent copies of the sandbox. */
  async fork(count = 1, options: CallOptions = {}): Promise<Sandbox[]> {
    const path = sandboxPath(this.id, 'fork')
    const request = { method: 'POST', path, json: { count }, signal: options.signal }
    const { sandboxes } = await this.#connection.json<{ sandboxes: SandboxJson[] }>(request)
    return sandboxes.map((json) => new Sandbox(this.#connection, infoOf(json)))
  }

  /** Moves the sandbox to disk. resume(), or the next use, brings it back. */
  async pause(options: CallOptions = {}): Promise<void> {
    await this.#ask('POST', ['pause'], undefined, options)
  }

  async resume(options: CallOptions = {}): Promise<void> {
    await this.#ask('POST', ['resume'], undefined, options)
  }

  /** Returns to a snapshot of the same template. The current state is lost. */
  async reset(snapshot: Snapshot | string, options: CallOptions = {}): Promise<void> {
    await this.#ask('POST', ['reset'], { snapshot: typeof snapshot === 'string' ? snapshot : snapshot.id }, options)
  }

  /** Keeps the current state. The sandbox continues. */
  async snapshot(options: CallOptions = {}): Promise<Snapshot> {
    const request = { method: 'POST', path: sandboxPath(this.id, 'snapshot'), signal: options.signal }
    return snapshotOf(await this.#connection.json<SnapshotJson>(request))
  }

  /** Ends the sandbox, and stops what runs in it. */
  async kill(options: CallOptions = {}): Promise<void> {
    await this.#connection.nothing({
      method: 'DELETE',
      path: sandboxPath(this.id),
      isGoneFine: true,
      signal: options.signal,
    })
  }

  [inspected](): string {
    return `Sandbox { id: '${this.id}', template: '${this.template}' }`
  }

  async [asyncDispose](): Promise<void> {
    await this.kill().catch((error: unknown) => {
      if (!(error instanceof NotFoundError || error instanceof UnreachableError)) throw error // it ends when its time is up
    })
  }

  async #ask(method: string, rest: readonly string[], json: unknown, options: CallOptions): Promise<SandboxInfo> {
    const request = { method, path: sandboxPath(this.id, ...rest), json, signal: options.signal }
    this.#info = infoOf(await this.#connection.json<SandboxJson>(request))
    return this.#info
  }
}
