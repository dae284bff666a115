// The sources of a session's time and randomness: the options clock, timezone, sleep and entropy.

export interface Sources {
  /**
   * Replaces the policy's clock: 'real', 'virtual', which starts in 2000, the moment at which a virtual clock starts (a Date, or
   * milliseconds since 1970), or a function that returns the time as one of those.
   */
  clock?: 'real' | 'virtual' | Date | number | (() => Date | number)
  /** The time zone of local time: a name of the IANA database ('Europe/Berlin') or an offset ('+02:00'). UTC by default. */
  timezone?: string
  /**
   * How programs sleep: 'virtual', which moves the clock on at once, 'real', or a function of milliseconds whose promise is awaited. By
   * default 'real' with a real clock, otherwise 'virtual'.
   */
  sleep?: 'real' | 'virtual' | ((ms: number) => unknown)
  /** Replaces the policy's entropy: 'real', a seed, or a function that returns so many bytes. */
  entropy?: 'real' | number | bigint | Uint8Array | ((count: number) => Uint8Array)
}

export const sourceOptions = ['clock', 'timezone', 'sleep', 'entropy'] as const

const byDefault = 0
const virtual = 1
const real = 2
const asked = 3

/** The sources in the form that the addon takes. */
export interface NativeSources {
  readonly clock: number
  readonly startMs: number
  readonly timezone: string
  readonly sleep: number
  readonly entropy: number
  readonly seed: bigint
  readonly seedBytes: Uint8Array
}

/** What the addon calls; undefined means that it failed. */
export type Reply = (answer: number | Uint8Array | undefined) => void
export interface NativeSourceHost {
  readonly now: (argument: number, reply: Reply) => void
  readonly sleep: (argument: number, reply: Reply) => void
  readonly fill: (argument: number, reply: Reply) => void
}

export function nativeSourcesOf({ clock, timezone, sleep, entropy }: Sources): NativeSources {
  if (timezone !== undefined && (typeof timezone !== 'string' || timezone === '')) throw new TypeError(`timezone must be a name such as 'Europe/Berlin' or an offset such as '+02:00'`)
  return {
    ...clockOf(clock),
    timezone: timezone ?? '',
    sleep: sleepOf(sleep),
    ...entropyOf(entropy),
  }
}

const virtualStartMs = 946_684_800_000 // the start of a policy's virtual clock: 2000-01-01

function clockOf(clock: Sources['clock']): { clock: number; startMs: number } {
  if (clock === undefined) return { clock: byDefault, startMs: 0 }
  if (clock === 'real') return { clock: real, startMs: 0 }
  if (clock === 'virtual') return { clock: virtual, startMs: virtualStartMs }
  if (typeof clock === 'function') return { clock: asked, startMs: 0 }
  return { clock: virtual, startMs: Math.floor(millisecondsOf(clock)) }
}

function millisecondsOf(moment: unknown): number {
  const ms = moment instanceof Date ? moment.getTime() : moment
  if (typeof ms === 'number' && Number.isFinite(ms)) return ms
  throw new TypeError("clock must be 'real', 'virtual', a Date, milliseconds since 1970, or a function that returns one of them")
}

function sleepOf(sleep: Sources['sleep']): number {
  if (sleep === undefined) return byDefault
  if (sleep === 'virtual') return virtual
  if (sleep === 'real') return real
  if (typeof sleep === 'function') return asked
  throw new TypeError("sleep must be 'virtual', 'real', or a function of milliseconds")
}

function entropyOf(entropy: Sources['entropy']): { entropy: number; seed: bigint; seedBytes: Uint8Array } {
  const none = { seed: 0n, seedBytes: new Uint8Array(0) }
  if (entropy === undefined) return { entropy: byDefault, ...none }
  if (entropy === 'real') return { entropy: real, ...none }
  if (typeof entropy === 'function') return { entropy: asked, ...none }
  if (entropy instanceof Uint8Array && entropy.length > 0) return { ...none, entropy: virtual, seedBytes: entropy }
  const isSeed = typeof entropy === 'bigint' || (typeof entropy === 'number' && Number.isSafeInteger(entropy))
  const seed = isSeed ? BigInt(entropy) : -1n
  if (seed >= 0n && seed < 1n << 64n) return { ...none, entropy: virtual, seed }
  throw new TypeError("entropy must be 'real', a seed (a whole number from 0 to 2^64 - 1, or bytes), or a function of a number of bytes")
}

// -- the addon's calls ------------------------------------------------------------------------------------------------

type Given = number | Uint8Array | PromiseLike<number>

/** Reports an error as a warning; the program's call fails. */
export function sourceHostOf({ clock, sleep, entropy }: Sources): NativeSourceHost {
  const failed = (what: string, reply: Reply) => (error: unknown) => {
    process.emitWarning(`the ${what} of a session failed: ${String(error)}`)
    reply(undefined)
  }
  const answering = (what: string, ask: (argument: number) => Given) => (argument: number, reply: Reply) => {
    const fail = failed(what, reply)
    try {
      const answer = ask(argument)
      if (typeof answer === 'number' || answer instanceof Uint8Array) reply(answer)
      else answer.then(reply, fail)
    } catch (error) {
      fail(error)
    }
  }
  return {
    now: answering('clock', () => millisecondsOf((clock as () => Date | number)())),
    sleep: answering('sleep', (ms) => {
      const passing = (sleep as (ms: number) => unknown)(ms)
      return passing !== null && typeof (passing as PromiseLike<unknown>)?.then === 'function'
        ? (passing as PromiseLike<unknown>).then(() => 0)
        : 0
    }),
    fill: answering('entropy', (count) => {
      const bytes = (entropy as (count: number) => Uint8Array)(count)
      if (bytes instanceof Uint8Array && bytes.length === count) return bytes
      throw new TypeError(`it was asked for ${count} bytes, but returned something else`)
    }),
  }
}
