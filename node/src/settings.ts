// The service's URL, the caller's token, and how often a request is tried.

import { readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { MembraneError } from './errors.js'
import { milliseconds, type Duration } from './types.js'

export interface ConnectionOptions {
  /** Of the service; by default MEMBRANE_URL, or the service of this machine. */
  url?: string
  /** By default MEMBRANE_TOKEN, or, on this machine, the token that `membrane serve` left. */
  token?: string
  /** The time within which the service must send something, 60 s; a program may run longer. */
  timeout?: Duration
  /** How often to retry what failed on the way or was refused temporarily; 3. */
  retries?: number
  /** Ends the call, and the program that it runs. */
  signal?: AbortSignal
}

/** The options of one call. */
export interface CallOptions {
  /** Ends the call. */
  signal?: AbortSignal
}

export interface Settings {
  readonly url: string
  readonly token: string
  readonly timeoutMs: number
  readonly retries: number
  readonly isLocal: boolean
}

export const connectionOptions = ['url', 'token', 'timeout', 'retries', 'signal'] as const

const usualUrl = 'http://127.0.0.1:7400'
const mostWaitMs = 30_000 // if a service asks for a longer wait, the request fails

export function settingsOf(options: ConnectionOptions): Settings {
  const url = (options.url ?? (process.env['MEMBRANE_URL'] || usualUrl)).replace(/\/+$/, '')
  const parsed = urlOf(url)
  const isLocal = parsed.hostname === 'localhost' || parsed.hostname === '[::1]' || /^127\./.test(parsed.hostname)
  const token = options.token ?? (process.env['MEMBRANE_TOKEN'] || (isLocal ? tokenOfThisMachine() : ''))
  return { url, token, timeoutMs: milliseconds(options.timeout ?? 60), retries: options.retries ?? 3, isLocal }
}

function urlOf(text: string): URL {
  try {
    const url = new URL(text)
    if (url.protocol === 'http:' || url.protocol === 'https:') return url
  } catch {
    // reported below
  }
  throw new MembraneError(`${JSON.stringify(text)} is not the URL of a service`, {
    code: 'invalid_url',
    hint: `Write it as ${usualUrl}.`,
  })
}

function tokenOfThisMachine(): string {
  const state = process.env['XDG_STATE_HOME'] ?? ''
  const folder = state.startsWith('/') ? state : join(homedir(), '.local', 'state')
  try {
    return readFileSync(join(folder, 'membrane', 'service', 'owner.token'), 'utf8').trim()
  } catch {
    return ''
  }
}

/** The time to wait after so many tries; undefined if that is too long. */
export function waitBeforeRetryMs(tries: number, retryAfter: string | null): number | undefined {
  const usual = Math.min(100 * 2 ** (tries - 1), 5000) * (0.5 + Math.random() / 2)
  if (retryAfter === null) return usual
  const asked = secondsOf(retryAfter)
  if (asked === undefined) return usual
  return asked * 1000 > mostWaitMs ? undefined : Math.max(asked * 1000, 0)
}

/** The time from now that a Retry-After names; undefined if it is not valid. */
export function secondsOf(retryAfter: string): number | undefined {
  if (/^\d{1,9}$/.test(retryAfter.trim())) return Number(retryAfter)
  const ms = Date.parse(retryAfter) - Date.now()
  return Number.isNaN(ms) ? undefined : ms / 1000
}
