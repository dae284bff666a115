// Small things that sessions and pools share.

import { AsyncLocalStorage, AsyncResource } from 'node:async_hooks'

interface Turn {
  isOver: boolean
}
// Those that wait for the function which runs here, or which began what runs here.
const waitingFor = new AsyncLocalStorage<readonly Turn[]>()

/** What functions and listeners are called in: the async context in which their session's turn was asked for. */
export class Scope {
  #resource: AsyncResource | undefined
  #turn: Turn | undefined
  readonly #atLeave = new Set<() => void>()

  /** From here to leave(), that of the caller. */
  enter(): void {
    this.#turn = { isOver: false }
    this.#resource = new AsyncResource('membrane.turn')
  }
  leave(): void {
    if (this.#turn) this.#turn.isOver = true
    this.#turn = undefined
    this.#resource?.emitDestroy()
    this.#resource = undefined
    for (const act of this.#atLeave) act()
    this.#atLeave.clear()
  }

  /** Whether a turn runs that can await promises: one of runSync() cannot. */
  get isEntered(): boolean {
    return this.#turn !== undefined
  }

  /** Is done at the turn's end, unless what is returned is called before. */
  atLeave(act: () => void): () => void {
    this.#atLeave.add(act)
    return () => void this.#atLeave.delete(act)
  }

  /** Whether the session's turn waits for who asks: another turn of it would never begin. */
  get waitsForCaller(): boolean {
    return this.#turn !== undefined && (waitingFor.getStore() ?? []).includes(this.#turn)
  }

  /** The same functions, called in it; the turn does not wait for them. */
  within<T extends object>(functions: T): T {
    return wrapped(functions, (act, args) => this.#call(act, args))
  }

  /** The same of functions that the turn waits for. */
  awaited<T extends object>(functions: T): T {
    return wrapped(functions, (act, args) => this.#call(() => this.#waiting(act, args), []))
  }

  #call(act: Act, args: unknown[]): unknown {
    return this.#resource ? this.#resource.runInAsyncScope(act, undefined, ...args) : act(...args)
  }

  #waiting(act: Act, args: unknown[]): unknown {
    if (!this.#turn) return act(...args)
    const others = (waitingFor.getStore() ?? []).filter((each) => !each.isOver)
    return waitingFor.run([...others, this.#turn], act, ...args)
  }
}

type Act = (...args: unknown[]) => unknown

function wrapped<T extends object>(functions: T, call: (act: Act, args: unknown[]) => unknown): T {
  const all = Object.entries(functions).map(([name, act]) => [
    name,
    typeof act === 'function' ? (...args: unknown[]): unknown => call(act as Act, args) : act,
  ])
  return Object.fromEntries(all) as T
}

/** The promise; rejected with the signal's reason when that comes first. */
export async function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return promise
  signal.throwIfAborted()
  let stop: (() => void) | undefined
  const aborted = new Promise<never>((_, reject) => {
    stop = () => reject(signal.reason as Error)
    signal.addEventListener('abort', stop, { once: true })
  })
  try {
    return await Promise.race([promise, aborted])
  } finally {
    signal.removeEventListener('abort', stop!)
  }
}

/** Acts that are done once, when an object ends: by its end, or, without one, when it is garbage. They must not refer to the object. */
export class AtEnd {
  static readonly #garbage = new FinalizationRegistry<AtEnd>((acts) => acts.end())
  #acts: (() => void)[] = []

  constructor(of: object) {
    AtEnd.#garbage.register(of, this, this)
  }

  add(act: () => void): void {
    this.#acts.push(act)
  }

  end(): void {
    AtEnd.#garbage.unregister(this)
    const acts = this.#acts
    this.#acts = []
    for (const act of acts) act()
  }
}
