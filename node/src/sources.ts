// Where a session's time and randomness come from: the options clock, timezone, sleep and entropy.

export interface Sources {
  /**
   * In the place of the policy's clock: 'real'; 'virtual', from 2000 on; when a virtual one begins (a Date, or milliseconds since 1970);
   * or a function that gives the time so.
   */
  clock?: 'real' | 'virtual' | Date | number | (() => Date | number)
  /** Of local time: a name of the IANA database ('Europe/Berlin'), or an offset ('+02:00'). UTC without. */
  timezone?: string
  /**
   * How a program's sleep passes: 'virtual', so that the clock moves on at once; 'real'; or a function of milliseconds, whose promise
   * is awaited. Without, 'real' on a real clock, else 'virtual'.
   */
  sleep?: 'real' | 'virtual' | ((ms: number) => unknown)
  /** In the place of the policy's: 'real', a seed, or a function that gives so many bytes. */
  entropy?: 'real' | number | bigint | Uint8Array | ((count: number) => Uint8Array)
}

export const sourceOptions = ['clock', 'timezone', 'sleep', 'entropy'] as const

const byDefault = 0
const virtual = 1
const real = 2
const asked = 3

/** As the addon is told of them. */
export interface NativeSources {
  readonly clock: number
  readonly startMs: number
  readonly timezone: string
  readonly sleep: number
  readonly entropy: number
  readonly seed: bigint
  readonly seedBytes: Uint8Array
}

/** What the addon asks; undefined: it failed. */
export type Reply = (answer: number | Uint8Array | undefined) => void
export interface NativeSourceHost {
  readonly now: (argument: number, reply: Reply) => void
  readonly sleep: (argument: number, reply: Reply) => void
  readonly fill: (argument: number, reply: Reply) => void
}

export function nativeSourcesOf({ clock, timezone, sleep, entropy }: Sources): NativeSources {
  if (timezone !== undefined && (typeof timezone !== 'string' || timezone === '')) throw new TypeError(`timezone is a name as 'Europe/Berlin', or an offset as '+02:00'`)
  return {
    ...clockOf(clock),
    timezone: timezone ?? '',
    sleep: sleepOf(sleep),
    ...entropyOf(entropy),
  }
}

const virtualStartMs = 946_684_800_000 // where a policy's virtual clock begins: 2000-01-01

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
  throw new TypeError("a clock is 'real', 'virtual', a Date, milliseconds since 1970, or a function that gives one of them")
}

function sleepOf(sleep: Sources['sleep']): number {
  if (sleep === undefined) return byDefault
  if (sleep === 'virtual') return virtual
  if (sleep === 'real') return real
  if (typeof sleep === 'function') return asked
  throw new TypeError("sleep is 'virtual', 'real', or a function of milliseconds")
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
  throw new TypeError("entropy is 'real', a seed (a whole number from 0 to 2^64 - 1, or bytes), or a function of a number of bytes")
}

// -- what is asked ----------------------------------------------------------------------------------------------------

type Given = number | Uint8Array | PromiseLike<number>

/** What they throw fails the program's call, and is told of as a warning. */
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
      throw new TypeError(`it was asked for ${count} bytes, and gave something else`)
    }),
  }
}
