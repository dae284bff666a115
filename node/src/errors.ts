// The package's errors. Each says what was found, how to fix it, and whether a retry can help.

import { inWordsOfClient } from './hints.js'
import type { Result } from './types.js'

export interface ErrorFields {
  /** Stable, for programs. */
  code: string
  /** How to fix it; may be "". */
  hint?: string | undefined
  /** The service's, for its log; "" when no service answered. */
  requestId?: string | undefined
  /** Whether the same request can succeed later. */
  retryable?: boolean | undefined
  /** Of HTTP; undefined when no service answered. */
  status?: number | undefined
  /** The seconds after which it can succeed, according to the service. */
  retryAfterS?: number | undefined
  cause?: unknown
}

/** The base class of all errors. */
export class MembraneError extends Error {
  readonly code: string
  readonly hint: string
  readonly requestId: string
  readonly retryable: boolean
  readonly status: number | undefined

  constructor(message: string, fields: ErrorFields) {
    super(message, fields.cause === undefined ? undefined : { cause: fields.cause })
    this.name = new.target.name
    this.code = fields.code
    this.hint = fields.hint ?? ''
    this.requestId = fields.requestId ?? ''
    this.retryable = fields.retryable ?? false
    this.status = fields.status
  }
}

/** No service answered or the connection was cut (code "unreachable"), or it did not answer in time ("timed_out"). */
export class UnreachableError extends MembraneError {}
/** 401 or 403: the token is missing, unknown or expired, or does not allow this. */
export class DeniedError extends MembraneError {}
/** 404: the sandbox, file or other resource does not exist, or no longer exists. */
export class NotFoundError extends MembraneError {}
/** Another 4xx: a value is refused, or the request does not fit the state of the resource. */
export class InvalidRequestError extends MembraneError {}
/** 429 or 503, even after the retries: a quota is used up, or the service is fully loaded. */
export class BusyError extends MembraneError {
  /**
   * The seconds after which it can succeed, according to the service. undefined if the service names no time, as for a quota that is only
   * freed by ending something; such errors are not retried, and not retryable.
   */
  readonly retryAfterS: number | undefined

  constructor(message: string, fields: ErrorFields) {
    super(message, fields)
    this.retryAfterS = fields.retryAfterS
  }
}

/** The program failed. */
export class ProgramError extends MembraneError {
  /** In the form of the program's language; may be "". */
  readonly traceback: string
  /** The details of the run. */
  declare readonly result: Result

  constructor(message: string, fields: ErrorFields & { traceback: string; result: Result }) {
    super(message, fields)
    this.traceback = fields.traceback
    Object.defineProperty(this, 'result', { value: fields.result }) // not enumerable: the result already shows its error
  }
}

export const retriedStatuses: readonly number[] = [429, 503]

export function errorOfStatus(status: number, message: string, fields: ErrorFields): MembraneError {
  const all = { ...fields, hint: inWordsOfClient(fields.hint ?? ''), status }
  message = inWordsOfClient(message)
  if (status === 401 || status === 403) return new DeniedError(message, all)
  if (status === 404) return new NotFoundError(message, all)
  if (retriedStatuses.includes(status)) return new BusyError(message, all)
  if (status >= 400 && status < 500) return new InvalidRequestError(message, all)
  return new MembraneError(message, all)
}

export function notOurs(what: string, cause?: unknown): MembraneError {
  const hint = 'Is it a Membrane service that answers at this URL?'
  return new MembraneError(`the answer is ${what}`, { code: 'bad_answer', hint, cause })
}
