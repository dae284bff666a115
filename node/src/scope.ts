// Helpers that sessions and pools share.

import { AsyncLocalStorage, AsyncResource } from 'node:async_hooks'

interface Turn {
  isOver: boolean
}
// The scopes that wait for the function that is running, or that started what is running.
const waitingFor = new AsyncLocalStorage<readonly Turn[]>()

/** The async context for calls of functions and listeners: that of the caller who asked for the session's turn. */
export class Scope {
  #resource: AsyncResource | undefined
  #turn: Turn | undefined
  readonly #atLeave = new Set<() => void>()

  /** From here to leave(), it is the caller's context. */
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

  /** Whether the running turn can await promises; one of runSync() cannot. */
  get isEntered(): boolean {
    return this.#turn !== undefined
  }

  /** Calls the act at the turn's end, unless the returned function is called before. */
  atLeave(act: () => void): () => void {
    this.#atLeave.add(act)
    return () => void this.#atLeave.delete(act)
  }

  /** Whether the session's turn waits for the caller, so that another turn could never begin. */
  get waitsForCaller(): boolean {
    return this.#turn !== undefined && (waitingFor.getStore() ?? []).includes(this.#turn)
  }

  /** Wraps functions that are called in this context and that the turn does not wait for. */
  within<T extends object>(functions: T): T {
    return wrapped(functions, (act, args) => this.#call(act, args))
  }

  /** Wraps functions that are called in this context and that the turn waits for. */
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

/** Returns the promise, which is rejected with the signal's reason if that comes first. */
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

/** Acts that run once, when an object is closed or becomes garbage. They must not refer to the object. */
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
