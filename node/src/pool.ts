// Sessions that are made ahead, and a bound on how many there are at once.

import { BusyError, MembraneError } from './errors.js'
import { checkLanguage, checkOptions, kindsOfSession, kindsOfTurn } from './given.js'
import { internals, Session, sessionOptions, type Place, type SessionOptions } from './session.js'
import { poolOpened, took } from './telemetry.js'
import { milliseconds, type Duration } from './types.js'

export interface PoolOptions extends SessionOptions {
  /** How many stand ready; 4, or maxSessions where that is less. */
  size?: number
  /** How many may be in use at once, with their forks; undefined: any number. */
  maxSessions?: number
}

export interface TakeOptions {
  /** How long to wait where maxSessions are in use; 30 s. Infinity: as long as it takes. */
  timeout?: Duration
  /** Ends the waiting; the promise is rejected with the signal's reason. */
  signal?: AbortSignal
}

const usualSize = 4
const usualTimeoutMs = 30_000
const fillsAfterMs = 5 // the first turn of a session that was just taken is not to wait for the making of another
const longestTimerMs = 2 ** 31 - 1
const asyncDispose: typeof Symbol.asyncDispose = Symbol.asyncDispose ?? (Symbol.for('Symbol.asyncDispose') as never) // Node 18 has none

interface Waiter {
  readonly resolve: (place: Place) => void
  readonly reject: (error: unknown) => void
}

/**
 * Sessions of one kind, made ahead.
 *
 * A session begins as any new one, to its fuel: nothing has run in it, inputs are as they were when the pool was made, and idleTimeout
 * and lifetime begin when it is taken. No two share anything but the functions and objects that options name. When it is closed, or ends
 * otherwise, it is gone, and another may be taken. A fork of one counts as one, and fork() throws a BusyError where all are in use.
 */
export class Pool {
  readonly language: string
  readonly size: number
  readonly maxSessions: number | undefined
  readonly #options: SessionOptions
  readonly #times: SessionOptions
  readonly #ready: Session[] = []
  readonly #waiting = new Set<Waiter>() // in their order
  #used = 0
  #isClosed = false
  #timer: NodeJS.Timeout | undefined
  #filling: Promise<void> | undefined

  private constructor(language: string, { size, maxSessions, idleTimeout, lifetime, ...options }: PoolOptions) {
    this.language = language
    this.size = size ?? Math.min(usualSize, maxSessions ?? usualSize)
    this.maxSessions = maxSessions
    this.#options = options
    this.#times = { ...(idleTimeout !== undefined && { idleTimeout }), ...(lifetime !== undefined && { lifetime }) }
    checkSizes(this.size, maxSessions)
  }

  /** With one session that stands ready; the others follow. Options that are wrong are an error here. */
  static async create(language = 'python', options: PoolOptions = {}): Promise<Pool> {
    checkLanguage('Pool.create', language)
    checkOptions('Pool.create', options, [...sessionOptions, 'size', 'maxSessions'], kindsOfSession)
    const pool = new Pool(language, options)
    for (const each of Object.values(pool.#times)) milliseconds(each as Duration)
    if (pool.size > 0) pool.#ready.push(await pool.#makeAhead())
    else (await pool.#make()).close()
    poolOpened(pool)
    pool.#fillSoon()
    return pool
  }

  /** A session that nobody has used, until its close(). Where maxSessions are in use, waits, in turn. */
  async session(options: TakeOptions = {}): Promise<Session> {
    checkOptions('Pool.session', options, ['timeout', 'signal'], kindsOfTurn)
    const timeoutMs = options.timeout === undefined ? usualTimeoutMs : milliseconds(options.timeout)
    options.signal?.throwIfAborted()
    const begunAtMs = performance.now()
    const place = await this.#place(timeoutMs, options.signal)
    try {
      const session = this.#ready.shift() ?? (await this.#make())
      this.#fillSoon()
      internals(session).hold(place)
      internals(session).endByTime(this.#times)
      took(this.language, begunAtMs)
      return session
    } catch (error) {
      place.leave()
      throw error
    }
  }

  /** How many stand ready, how many are in use, and how many wait for one. */
  counts(): { ready: number; used: number; waiting: number } {
    return { ready: this.#ready.length, used: this.#used, waiting: this.#waiting.size }
  }

  // -- places, of which there are maxSessions

  #hasPlace(): boolean {
    return this.maxSessions === undefined || this.#used < this.maxSessions
  }

  #newPlace(): Place {
    ++this.#used
    let isLeft = false
    return {
      another: () => {
        if (this.#waiting.size || !this.#hasPlace()) throw this.#busy('a fork needs one of its own')
        return this.#newPlace()
      },
      leave: () => {
        if (isLeft) return
        isLeft = true
        --this.#used
        this.#serve()
      },
    }
  }

  async #place(timeoutMs: number, signal: AbortSignal | undefined): Promise<Place> {
    if (this.#isClosed) throw closedError()
    if (!this.#waiting.size && this.#hasPlace()) return this.#newPlace()
    let giveUp: ((why: () => unknown) => void) | undefined
    const given = new Promise<Place>((resolve, reject) => {
      const waiter = { resolve, reject }
      this.#waiting.add(waiter)
      giveUp = (why) => {
        if (this.#waiting.delete(waiter)) reject(why())
      }
    })
    const late = (): void => giveUp!(() => this.#busy(`none ended in ${timeoutMs / 1000} s`))
    const aborted = (): void => giveUp!(() => signal!.reason)
    const timer = timeoutMs <= longestTimerMs ? setTimeout(late, timeoutMs) : undefined
    signal?.addEventListener('abort', aborted, { once: true })
    try {
      return await given
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener('abort', aborted)
    }
  }

  #serve(): void {
    for (const waiter of this.#waiting) {
      if (!this.#hasPlace()) return
      this.#waiting.delete(waiter)
      waiter.resolve(this.#newPlace())
    }
  }

  #busy(why: string): BusyError {
    return new BusyError(`${this.maxSessions} sessions of the pool are in use, and ${why}`, {
      code: 'pool_busy',
      hint: 'Close sessions that are done, or give the pool more: maxSessions: …',
      retryable: true,
    })
  }

  // -- making

  #make(): Promise<Session> {
    return Session.create(this.language, this.#options)
  }

  // One whose first turn finds its memory in place: the engine gives a new session the pages of one that just ended, as its language's
  // image has them. Nothing of the other's turn is in it, which asks no clock or entropy of this program's, and has no receipt.
  async #makeAhead(): Promise<Session> {
    const { clock, entropy, receipts: _, ...options } = this.#options
    const other = await Session.create(this.language, {
      ...options,
      ...(clock !== undefined && typeof clock !== 'function' && { clock }),
      ...(entropy !== undefined && typeof entropy !== 'function' && { entropy }),
    })
    try {
      await internals(other).warm()
    } finally {
      other.close()
    }
    return this.#make()
  }

  #fillSoon(): void {
    if (this.#timer || this.#filling || this.#isClosed) return
    const fill = (): void => {
      this.#timer = undefined
      this.#filling = this.#fillUp().finally(() => (this.#filling = undefined))
    }
    this.#timer = setTimeout(fill, fillsAfterMs).unref()
  }

  async #fillUp(): Promise<void> {
    while (!this.#isClosed && this.#ready.length < this.size) {
      try {
        const made = await this.#makeAhead()
        if (this.#isClosed || this.#ready.length >= this.size) made.close()
        else this.#ready.push(made)
      } catch {
        return // session() makes one itself, and says why not
      }
    }
  }

  // -- its end

  /** Ends the sessions that stand ready. Those in use go on until they are closed; who waits for one gets an error. */
  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#timer)
    for (const session of this.#ready.splice(0)) session.close()
    for (const waiter of this.#waiting) waiter.reject(closedError())
    this.#waiting.clear()
    await this.#filling
  }
  [asyncDispose](): Promise<void> {
    return this.close()
  }
}

const closedError = (): MembraneError =>
  new MembraneError('the pool is closed', { code: 'pool_closed', hint: 'Make another: Pool.create().' })

function checkSizes(size: number, maxSessions: number | undefined): void {
  const isCount = (value: unknown, least: number): boolean => Number.isSafeInteger(value) && (value as number) >= least
  if (!isCount(size, 0) || (maxSessions !== undefined && !isCount(maxSessions, 1)))
    throw new RangeError('a pool has a size of at least 0, and maxSessions of at least 1')
  if (maxSessions !== undefined && size > maxSessions)
    throw new RangeError(`a pool that has ${size} sessions ready, and no more than ${maxSessions} in use, would never use the others: lower size`)
}
