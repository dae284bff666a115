// What goes wrong. Each error says what was found, what would mend it, and whether to try again.

import { inWordsOfClient } from './hints.js'
import type { Result } from './types.js'

export interface ErrorFields {
  /** Stable, for programs. */
  code: string
  /** What would mend it; may be "". */
  hint?: string | undefined
  /** Of the service's log; "" when no service answered. */
  requestId?: string | undefined
  /** Whether the same request can succeed later. */
  retryable?: boolean | undefined
  /** Of HTTP; undefined when no service answered. */
  status?: number | undefined
  /** After so many seconds it can succeed, as the service says. */
  retryAfterS?: number | undefined
  cause?: unknown
}

/** The base of all. */
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

/** No service answered, or the connection was cut: code "unreachable"; or it did not answer in time: "timed_out". */
export class UnreachableError extends MembraneError {}
/** 401 or 403: the token is missing, unknown, over, or does not allow this. */
export class DeniedError extends MembraneError {}
/** 404: the sandbox, file or other thing does not exist, or does not any more. */
export class NotFoundError extends MembraneError {}
/** Another 4xx: a value is refused, or what is asked does not fit the state of the thing. */
export class InvalidRequestError extends MembraneError {}
/** 429 or 503, still so after the retries: a quota is used up, or the service has as much to do as it takes. */
export class BusyError extends MembraneError {
  /**
   * After so many seconds it can succeed, as the service says; undefined where it names no time, as of a quota that only ending
   * something gives back. Such are not tried again, and not retryable.
   */
  readonly retryAfterS: number | undefined

  constructor(message: string, fields: ErrorFields) {
    super(message, fields)
    this.retryAfterS = fields.retryAfterS
  }
}

/** The program failed. */
export class ProgramError extends MembraneError {
  /** As the program's language tells it; may be "". */
  readonly traceback: string
  /** All that is known of the run. */
  declare readonly result: Result

  constructor(message: string, fields: ErrorFields & { traceback: string; result: Result }) {
    super(message, fields)
    this.traceback = fields.traceback
    Object.defineProperty(this, 'result', { value: fields.result }) // not shown with the error, whose owner it is
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
