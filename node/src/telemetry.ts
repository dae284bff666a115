// Spans and metrics of sessions, through OpenTelemetry's API and the providers that the application has set.
//
// Without the package @opentelemetry/api, or before the application sets a provider, nothing is loaded or done. Values of attributes are
// outcomes, numbers, and names that the embedder chose (functions, object types, errors), never anything that a program chose.

import type * as Api from '@opentelemetry/api'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { version } from './connection.js'
import type { Result } from './types.js'

const secondsBounds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300]
const fuelBounds = Array.from({ length: 8 }, (_, i) => [10 ** (i + 5), 3 * 10 ** (i + 5)]).flat()
const notErrors = ['ok', 'waiting', 'frozen']
const apiInUse = Symbol.for('opentelemetry.js.api.1') // a member of globalThis once a provider is set

const open = new Map<string, number>() // the number of sessions by language
const pools = new Set<WeakRef<CountedPool>>()

/** What the metrics read from a pool. */
export interface CountedPool {
  readonly language: string
  counts(): { readonly ready: number; readonly used: number }
}

interface Instruments {
  readonly provider: Api.MeterProvider
  readonly runs: Api.Counter
  readonly duration: Api.Histogram
  readonly fuel: Api.Histogram
  readonly calls: Api.Histogram
  readonly waits: Api.Histogram
}

let api: typeof Api | null | undefined // null: not installed
let made: Instruments | undefined

/** Loads the API beside this package, as a peer, or from the application if this package is a link to another folder. */
function loaded(): typeof Api | null {
  for (const from of [import.meta.url, process.argv[1], join(process.cwd(), 'main.js')]) {
    try {
      if (from) return createRequire(from)('@opentelemetry/api') as typeof Api
    } catch {
      // try the next one
    }
  }
  return null
}

/** Returns undefined if the application does not use OpenTelemetry. */
function used(): { api: typeof Api; instruments: Instruments } | undefined {
  if (!(apiInUse in globalThis) || api === null) return undefined
  if (!api && !(api = loaded())) return undefined
  const provider = api.metrics.getMeterProvider()
  if (made?.provider !== provider) made = instrumentsOf(api, provider)
  return { api, instruments: made }
}

function instrumentsOf(of: typeof Api, provider: Api.MeterProvider): Instruments {
  const meter = of.metrics.getMeter('membrane', version)
  const histogram = (name: string, unit: string, description: string, explicitBucketBoundaries: number[]): Api.Histogram =>
    meter.createHistogram(name, { unit, description, advice: { explicitBucketBoundaries } })
  const counted = (name: string, description: string, observe: (to: Api.ObservableResult) => void): void =>
    meter.createObservableUpDownCounter(name, { unit: '{session}', description }).addCallback(observe)
  counted('membrane.session.count', 'Open sessions', (to) => {
    for (const [language, count] of open) to.observe(count, { 'membrane.language': language })
  })
  counted('membrane.pool.session.count', 'Sessions of pools', observePools)
  return {
    provider,
    runs: meter.createCounter('membrane.session.runs', { unit: '{run}', description: 'Turns of sessions that ended, by outcome' }),
    duration: histogram('membrane.session.run.duration', 's', 'Duration of turns', secondsBounds),
    fuel: histogram('membrane.session.run.fuel', '{fuel}', 'Fuel that turns used', fuelBounds),
    calls: histogram('membrane.function.duration', 's', 'Duration of the host\'s functions', secondsBounds),
    waits: histogram('membrane.pool.session.wait_time', 's', 'Time that callers waited for a session', secondsBounds),
  }
}

function observePools(to: Api.ObservableResult): void {
  const sums = new Map<string, { idle: number; used: number }>()
  for (const reference of pools) {
    const pool = reference.deref()
    if (!pool) {
      pools.delete(reference)
      continue
    }
    const sum = sums.get(pool.language) ?? { idle: 0, used: 0 }
    const counts = pool.counts()
    sums.set(pool.language, { idle: sum.idle + counts.ready, used: sum.used + counts.used })
  }
  for (const [language, sum] of sums)
    for (const state of ['idle', 'used'] as const)
      to.observe(sum[state], { 'membrane.language': language, 'membrane.pool.session.state': state })
}

const secondsSince = (ms: number): number => (performance.now() - ms) / 1000

/** Counts a session as open until the returned function is called. */
export function opened(language: string): () => void {
  open.set(language, (open.get(language) ?? 0) + 1)
  used()
  return () => open.set(language, open.get(language)! - 1)
}

/** Counts the sessions of a pool while it exists. */
export function poolOpened(pool: CountedPool): void {
  pools.add(new WeakRef(pool))
  used()
}

/** A session of a pool was taken that was asked for at a moment of performance.now(). */
export function took(language: string, begunAtMs: number): void {
  used()?.instruments.waits.record(secondsSince(begunAtMs), { 'membrane.language': language })
}

/** The class of an error; for what the package itself throws in a program, the name that the program sees. */
function kindOf(error: unknown): string {
  if (typeof error !== 'object' || error === null) return typeof error
  if (error instanceof NamedError) return error.name
  return (error.constructor as { name?: string } | undefined)?.name || 'Error'
}

/** An error that programs see by a name, which may be a class in their language. */
export class NamedError extends Error {
  constructor(name: string, message: string) {
    super(message)
    this.name = name
  }
}

// -- turns ------------------------------------------------------------------------------------------------------------

export type Operation = 'run' | 'start' | 'resume'

/** A turn's span, from here to end() or fail(); within() makes it the current one. */
export interface TurnSpan {
  within<T>(act: () => T): T
  end(result: Result): void
  fail(error: unknown): void
}

const noTurn: TurnSpan = { within: (act) => act(), end: () => undefined, fail: () => undefined }

export function turnBegins(operation: Operation, language: string): TurnSpan {
  const now = used()
  if (!now) return noTurn
  const { api, instruments } = now
  const begunAtMs = performance.now()
  const attributes = { 'membrane.language': language }
  const span = api.trace.getTracer('membrane', version).startSpan(`${operation} ${language}`, { attributes })
  return {
    within: (act) => api.context.with(api.trace.setSpan(api.context.active(), span), act),
    end(result) {
      describe(api, span, result)
      span.end()
      const counted = { ...attributes, 'membrane.outcome': result.outcome }
      instruments.runs.add(1, counted)
      instruments.duration.record(secondsSince(begunAtMs), counted)
      instruments.fuel.record(result.fuelUsed, counted)
    },
    fail(error) {
      failed(api, span, kindOf(error))
      span.end()
    },
  }
}

function describe(api: typeof Api, span: Api.Span, { outcome, fuelUsed, report }: Result): void {
  if (!span.isRecording()) return
  const calls = Array.isArray(report['host_calls']) ? report['host_calls'].length : 0
  span.setAttributes({
    'membrane.outcome': outcome,
    'membrane.fuel': fuelUsed,
    'membrane.memory.peak': Number(report['memory_peak_bytes'] ?? 0),
    'membrane.host_calls': calls + Number(report['host_calls_dropped'] ?? 0),
  })
  if (!notErrors.includes(outcome)) failed(api, span, outcome)
}

function failed(api: typeof Api, span: Api.Span, kind: string): void {
  span.setAttribute('error.type', kind)
  span.setStatus({ code: api.SpanStatusCode.ERROR })
}

// -- calls of functions -----------------------------------------------------------------------------------------------

/** The span of one call of a function, from here to end(); within() makes it the current one. */
export interface CallSpan {
  within<T>(act: () => T): T
  end(): void
  /** The call is answered later. */
  wait(): void
  fail(error: unknown): void
}

const noCall: CallSpan = { within: (act) => act(), end: () => undefined, wait: () => undefined, fail: () => undefined }

/** Starts the span of a call. name: in the embedder's registry; undefined if the program called a name that is not in it. */
export function callBegins(name: string | undefined): CallSpan {
  const now = used()
  if (!now) return noCall
  const { api, instruments } = now
  const begunAtMs = performance.now()
  const attributes: Record<string, string> = name === undefined ? {} : { 'code.function.name': name }
  const span = api.trace.getTracer('membrane', version).startSpan(name === undefined ? 'call' : `call ${name}`, { attributes })
  const end = (): void => {
    span.end()
    instruments.calls.record(secondsSince(begunAtMs), attributes)
  }
  return {
    within: (act) => api.context.with(api.trace.setSpan(api.context.active(), span), act),
    end,
    wait() {
      span.setAttribute('membrane.outcome', 'waiting')
      span.end()
    },
    fail(error) {
      failed(api, span, (attributes['error.type'] = kindOf(error)))
      end()
    },
  }
}
