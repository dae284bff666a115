// Small things that sessions and pools share.

import { AsyncResource } from 'node:async_hooks'

/** What functions and listeners are called in: the async context in which their session's turn was asked for. */
export class Scope {
  #resource: AsyncResource | undefined

  /** From here to leave(), that of the caller. */
  enter(): void {
    this.#resource = new AsyncResource('membrane.turn')
  }
  leave(): void {
    this.#resource?.emitDestroy()
    this.#resource = undefined
  }

  /** The same functions, called in it. */
  within<T extends object>(functions: T): T {
    const wrapped = Object.entries(functions).map(([name, act]) => [
      name,
      typeof act === 'function' ? (...args: unknown[]): unknown => this.#call(act as (...args: unknown[]) => unknown, args) : act,
    ])
    return Object.fromEntries(wrapped) as T
  }

  #call(act: (...args: unknown[]) => unknown, args: unknown[]): unknown {
    return this.#resource ? this.#resource.runInAsyncScope(act, undefined, ...args) : act(...args)
  }
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
