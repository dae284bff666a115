// Requests to one service, as one caller: which failures are retried, after how long, and which are thrown.

import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { errorOfStatus, MembraneError, NotFoundError, notOurs, retriedStatuses, UnreachableError } from './errors.js'
import { EventParser, type ServerEvent } from './events.js'
import { secondsOf, waitBeforeRetryMs, type Settings } from './settings.js'

export const version = '0.1.0'

export interface Request {
  readonly method: string
  readonly path: string
  readonly query?: Readonly<Record<string, string | undefined>>
  readonly json?: unknown
  readonly bytes?: Uint8Array | string
  /** The content type of the bytes. */
  readonly contentType?: string
  readonly accept?: string
  /** A 404 after a retry means that the first attempt succeeded. */
  readonly isGoneFine?: boolean
  readonly signal?: AbortSignal | undefined
}

interface Sent {
  readonly url: string
  readonly init: RequestInit
}

/** The path of a sandbox's part. */
export const sandboxPath = (...parts: string[]): string => '/v1/sandboxes/' + parts.map(encodeURIComponent).join('/')

/** The attempts of one request. */
export class Attempts {
  #tries = 0
  readonly #settings: Settings
  constructor(settings: Settings) {
    this.#settings = settings
  }

  /** Resets the count of attempts, since part of the answer has arrived. */
  beginAgain(): void {
    this.#tries = 0
  }

  /** Waits before the next attempt, or throws the failure. An `error` of undefined is an answer that was cut off. */
  async afterError(error: unknown, signal: AbortSignal | undefined): Promise<void> {
    signal?.throwIfAborted()
    if (error instanceof MembraneError) throw error
    this.#tries += 1
    const failure = errorOfTransport(error, this.#settings)
    const wait = waitBeforeRetryMs(this.#tries, null)
    if (failure.code === 'timed_out' || this.#tries > this.#settings.retries || wait === undefined) throw failure
    await pause(wait, signal)
  }

  /** Waits before the next attempt, or throws an error that is not retried. Returns true if the resource is gone, as wanted. */
  async afterAnswer(response: Response, request: Request): Promise<boolean> {
    this.#tries += 1
    const error = await errorOfAnswer(response)
    if (error instanceof NotFoundError && request.isGoneFine && this.#tries > 1) return true
    const wait = waitBeforeRetryMs(this.#tries, response.headers.get('retry-after'))
    const isRetried =
      retriedStatuses.includes(response.status) && error.retryable && this.#tries <= this.#settings.retries
    if (!isRetried || wait === undefined) throw error
    await pause(wait, request.signal)
    return false
  }
}

async function pause(wait: number, signal: AbortSignal | undefined): Promise<void> {
  try {
    await sleep(wait, undefined, signal ? { signal } : {})
  } catch (error) {
    signal?.throwIfAborted() // with its own reason
    throw error
  }
}

function errorOfTransport(error: unknown, settings: Settings): UnreachableError {
  const name = error instanceof Error ? error.name : ''
  const inner = error instanceof Error && error.cause instanceof Error ? error.cause : error
  const fields = { code: 'unreachable', retryable: true, cause: error }
  if (name === 'TimeoutError')
    return new UnreachableError(`the service at ${settings.url} did not answer in time`, {
      ...fields,
      code: 'timed_out',
      hint: 'Raise timeout.',
    })
  const why = inner instanceof Error ? inner.message || (inner as NodeJS.ErrnoException).code : 'the answer was cut off'
  if (inner instanceof Error && ['ECONNREFUSED', 'ENOTFOUND'].includes((inner as NodeJS.ErrnoException).code ?? ''))
    return new UnreachableError(`no service answers at ${settings.url}: ${why}`, {
      ...fields,
      hint: settings.isLocal ? 'Start one: membrane serve' : 'Is MEMBRANE_URL right, and the service running?',
    })
  return new UnreachableError(`the connection to the service at ${settings.url} was cut: ${why}`, fields)
}

async function errorOfAnswer(response: Response): Promise<MembraneError> {
  const requestId = response.headers.get('x-request-id') ?? ''
  const asked = response.headers.get('retry-after')
  const retryAfterS = asked === null ? undefined : secondsOf(asked)
  try {
    const { error } = JSON.parse(await response.text())
    const fields = {
      code: String(error.code),
      hint: String(error.hint ?? ''),
      requestId: String(error.request_id ?? requestId),
      retryable: Boolean(error.retryable),
      retryAfterS,
    }
    return errorOfStatus(response.status, String(error.message), fields)
  } catch {
    return errorOfStatus(response.status, `the service answered with the status ${response.status}`, {
      code: 'bad_answer',
      hint: 'Is it a Membrane service that answers at this URL?',
      requestId,
      retryable: retriedStatuses.includes(response.status),
      retryAfterS,
    })
  }
}

/** A signal that is aborted after a silence of so long, counted from touch() until rest(). */
class Watch {
  readonly #controller = new AbortController()
  readonly #outer: AbortSignal | undefined
  readonly #onAbort = (): void => this.#controller.abort(this.#outer?.reason)
  readonly #timeoutMs: number
  #timer: NodeJS.Timeout | undefined

  constructor(timeoutMs: number, outer: AbortSignal | undefined) {
    this.#timeoutMs = timeoutMs
    this.#outer = outer
    if (outer?.aborted) this.#onAbort()
    outer?.addEventListener('abort', this.#onAbort)
    this.touch()
  }
  get signal(): AbortSignal {
    return this.#controller.signal
  }
  touch(): void {
    this.rest()
    this.#timer = setTimeout(
      () => this.#controller.abort(new DOMException('no answer in time', 'TimeoutError')),
      this.#timeoutMs,
    )
  }
  rest(): void {
    clearTimeout(this.#timer)
  }
  end(): void {
    this.rest()
    this.#outer?.removeEventListener('abort', this.#onAbort)
  }
}

export class Connection {
  readonly settings: Settings
  constructor(settings: Settings) {
    this.settings = settings
  }

  async json<T>(request: Request): Promise<T> {
    const body = await this.bytes(request)
    try {
      return JSON.parse(new TextDecoder().decode(body)) as T
    } catch (error) {
      throw notOurs('no JSON', error)
    }
  }

  async nothing(request: Request): Promise<void> {
    await this.bytes(request)
  }

  async bytes(request: Request): Promise<Uint8Array> {
    const attempts = new Attempts(this.settings)
    const sent = this.#sent(request)
    for (;;) {
      const watch = new Watch(this.settings.timeoutMs, request.signal)
      let response: Response
      try {
        response = await fetch(sent.url, { ...sent.init, signal: watch.signal })
        if (response.ok) return new Uint8Array(await response.arrayBuffer())
        if (await attempts.afterAnswer(response, request)) return new Uint8Array()
      } catch (error) {
        await attempts.afterError(error, request.signal)
      } finally {
        watch.end()
      }
    }
  }

  /** Yields events, until the answer ends or is cut off. `onOpen` gets the answer's head. Failures before the head are retried. */
  async *events(request: Request, attempts: Attempts, onOpen: (response: Response) => void): AsyncGenerator<ServerEvent> {
    const sent = this.#sent({ ...request, accept: 'text/event-stream' })
    for (;;) {
      const watch = new Watch(this.settings.timeoutMs, request.signal)
      try {
        const response = await this.#open(sent, request, attempts, watch)
        if (!response) continue
        watch.rest()
        onOpen(response)
        yield* this.#eventsOf(response, watch)
        return
      } finally {
        watch.end()
      }
    }
  }

  async *#eventsOf(response: Response, watch: Watch): AsyncGenerator<ServerEvent> {
    const reader = response.body!.getReader()
    const parser = new EventParser()
    try {
      for (;;) {
        watch.touch()
        const { done, value } = await reader.read()
        watch.rest() // the reader of the events may be slow
        if (done) return
        yield* parser.feed(value)
      }
    } finally {
      reader.cancel().catch(() => {}) // it may be closed already
    }
  }

  async #open(sent: Sent, request: Request, attempts: Attempts, watch: Watch): Promise<Response | undefined> {
    try {
      const response = await fetch(sent.url, { ...sent.init, signal: watch.signal })
      if (response.ok && response.headers.get('content-type')?.startsWith('text/event-stream')) return response
      if (response.ok) throw notOurs('not a stream of events')
      await attempts.afterAnswer(response, request)
    } catch (error) {
      await attempts.afterError(error, request.signal)
    }
    return undefined
  }

  #sent(request: Request): Sent {
    const url = new URL(this.settings.url + request.path)
    for (const [name, value] of Object.entries(request.query ?? {}))
      if (value !== undefined) url.searchParams.set(name, value)
    const headers: Record<string, string> = {
      Accept: request.accept ?? 'application/json',
      'User-Agent': `membrane-node/${version}`,
    }
    if (this.settings.token !== '') headers['Authorization'] = `Bearer ${this.settings.token}`
    if (request.method === 'POST') headers['Idempotency-Key'] = randomUUID()
    const init: RequestInit = { method: request.method, headers, redirect: 'error' }
    if (request.json !== undefined) {
      headers['Content-Type'] = 'application/json'
      init.body = JSON.stringify(request.json)
    } else if (request.bytes !== undefined) {
      headers['Content-Type'] = request.contentType ?? 'application/octet-stream'
      init.body = request.bytes as NonNullable<RequestInit['body']>
    }
    return { url: url.href, init }
  }
}
