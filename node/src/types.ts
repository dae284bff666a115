// What the service's answers are to a program.

import { MembraneError, notOurs, ProgramError } from './errors.js'
import { inWordsOfClient } from './hints.js'

/** Seconds; or text as "500ms", "30s", "10m", "1h", "2d". */
export type Duration = number | string

/** One value in several forms, by MIME type: "text/plain", "image/png", … */
export type Forms = Readonly<Record<string, string | Uint8Array>>

export type Json = string | number | boolean | null | readonly Json[] | { readonly [name: string]: Json }

const unitsMs: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, min: 60_000, h: 3_600_000, d: 86_400_000 }

export function milliseconds(duration: Duration): number {
  if (typeof duration === 'number') return Math.round(duration * 1000)
  const found = /^\s*(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d)\s*$/.exec(duration)
  if (!found) {
    const hint = 'Write it as "500ms", "30s", "10m", "1h" or "2d", or as a number of seconds.'
    throw new MembraneError(`${JSON.stringify(duration)} is no duration`, { code: 'invalid_argument', hint })
  }
  return Math.round(Number(found[1]) * unitsMs[found[2]!]!)
}

/** Whole ones, at least one where the duration is not 0. */
export const seconds = (duration: Duration): number => Math.ceil(milliseconds(duration) / 1000)

/** A sandbox as it stood when the service was asked. */
export interface SandboxInfo {
  readonly id: string
  readonly template: string
  readonly state: string
  readonly createdAt: Date | undefined
  readonly expiresAt: Date | undefined
  readonly metadata: Readonly<Record<string, string>>
  readonly labels: readonly string[]
}

export interface FileInfo {
  readonly path: string
  readonly sizeBytes: number
  /** "file", "directory", "link" or "other". */
  readonly kind: string
  /** Its permissions, in a Linux sandbox. */
  readonly mode: number | undefined
  /** Where a symbolic link of a Linux sandbox leads. */
  readonly target: string | undefined
}

/** A change of a file that is watched. */
export interface FileEvent {
  readonly kind: string
  readonly path: string
}

/** What a sandbox may do: as a policy file, in JSON. */
export type Policy = { readonly [name: string]: Json }

/** A sandbox as it stood at one moment, kept. */
export interface Snapshot {
  readonly id: string
  readonly template: string
  /** The id of the sandbox that it was made of. */
  readonly sandbox: string
  /** Of the template that it was promoted to. */
  readonly name: string | undefined
  readonly createdAt: Date | undefined
  readonly sizeBytes: number
}

/** State and files of their own in a sandbox, beside those that are there from the start. */
export interface Context {
  readonly id: string
  readonly template: string
  readonly createdAt: Date | undefined
}

/** What a program read before. */
export interface FlowRead {
  /** The number of the request in its session; 0: its input. */
  readonly call: number
  readonly function: string
  readonly target: string
}

/** A request of a program that waits for a person's yes, as the trifecta rule of its policy asks. */
export interface Approval {
  readonly id: string
  readonly execId: string
  /** "waiting"; in events also what was decided: "approved", "refused", or "unanswered". */
  readonly state: string
  /** As "http.request". */
  readonly function: string
  /** As "POST https://example.org/"; "" of a model. */
  readonly target: string
  /** How many it would send. */
  readonly bytes: number
  readonly askedAt: Date | undefined
  readonly privateReads: readonly FlowRead[]
  readonly untrustedReads: readonly FlowRead[]
}

/** A value that the service keeps for headers that policies name, and sends to these hosts alone. Nobody reads it again. */
export interface Secret {
  readonly name: string
  readonly hosts: readonly string[]
  readonly updatedAt: Date | undefined
}

/** A step of a program that runs. */
export type Event =
  /** `data`: the same byte for byte. */
  | { readonly kind: 'stdout' | 'stderr'; readonly text: string; readonly data: Uint8Array }
  | { readonly kind: 'display'; readonly forms: Forms }
  /** A request waits for a yes, or waits no more. */
  | { readonly kind: 'approval'; readonly approval: Approval }
  | { readonly kind: 'result'; readonly result: Result }

interface ReportJson {
  readonly outcome: string
  readonly exec_id?: string
  readonly result?: string
  readonly stdout?: string
  readonly stderr?: string
  readonly stdout_base64?: string
  readonly stderr_base64?: string
  readonly value?: FormsJson
  readonly displays?: readonly FormsJson[]
  readonly error?: { code: string; message: string; hint?: string; traceback?: string }
  readonly exit_code?: number
  readonly files?: readonly FileJson[]
  readonly fuel_used?: number
  readonly [name: string]: unknown
}
export type FormsJson = Readonly<Record<string, string | { base64: string }>>
export interface FileJson {
  readonly path: string
  readonly size_bytes?: number
  readonly kind?: string
  readonly type?: string
  readonly mode?: string
  readonly target?: string
}
export interface SandboxJson {
  readonly id: string
  readonly template: string
  readonly state: string
  readonly created_at?: string
  readonly expires_at?: string
  readonly metadata?: Record<string, string>
  readonly labels?: string[]
}

export interface SnapshotJson {
  readonly id: string
  readonly template?: string
  readonly sandbox?: string
  readonly name?: string | null
  readonly created_at?: string
  readonly size_bytes?: number
}
export interface ContextJson {
  readonly id: string
  readonly template: string
  readonly created_at?: string
}
export interface ApprovalJson {
  readonly id: string
  readonly exec_id: string
  readonly state?: string
  readonly function: string
  readonly target?: string
  readonly bytes?: number
  readonly asked_at?: string
  readonly private_reads?: readonly FlowRead[]
  readonly untrusted_reads?: readonly FlowRead[]
}
export interface SecretJson {
  readonly name: string
  readonly hosts?: readonly string[]
  readonly updated_at?: string
}

/** What an exec did, sealed by the service: what `membrane verify` and `membrane replay` read, as NAME and NAME.private. */
export interface Receipt {
  /** Can be shown to anybody. */
  text: Uint8Array
  /** Has the code, what it was given, what the world answered, what it put out. */
  privateText: Uint8Array
}

/** Of text that stands for bytes, which are given as base64 where they are no UTF-8. */
export function bytesOf(text: string, base64: unknown): Uint8Array {
  return new Uint8Array(typeof base64 === 'string' ? Buffer.from(base64, 'base64') : Buffer.from(text))
}

/** What is wrong with the text of a program, before it runs. */
export interface Finding {
  /** From 1. */
  readonly line: number
  /** From 1, in bytes of UTF-8. */
  readonly column: number
  readonly message: string
  /** Of the type checker; or the error of the language's own parser. */
  readonly rule: string
  /** What would mend it; may be "". */
  readonly hint: string
}

interface FindingJson {
  readonly code?: string
  readonly message?: string
  readonly hint?: string
  readonly rule?: string
  readonly place?: { readonly line?: number; readonly column?: number }
}

/** What came of a program. */
export class Result {
  /** "ok", or how it ended otherwise: "raised", "out_of_fuel", "timed_out", "cancelled", "denied", … */
  readonly outcome: string
  /** The value of the last expression as text; "" without one. */
  readonly text: string
  readonly stdout: string
  readonly stderr: string
  /** The value of the last expression in all its forms. */
  readonly value: Forms | undefined
  readonly displays: readonly Forms[]
  /** Why it is not ok. */
  readonly error: ProgramError | undefined
  readonly exitCode: number | undefined
  /** That the sandbox has made or changed by now. */
  readonly files: readonly FileInfo[]
  /** Exact, and the same on every machine. */
  readonly fuelUsed: number
  readonly execId: string
  /** Everything, as the service gives it (docs/report.schema.json). */
  readonly report: Readonly<Record<string, unknown>>
  /** Of a session with receipts: the file of this turn's. */
  readonly receipt: string | undefined
  /** The same: why it ran and has none. */
  readonly unsealed: MembraneError | undefined

  constructor(report: ReportJson, sealed: { receipt?: string | undefined; unsealed?: MembraneError | undefined } = {}) {
    this.outcome = report.outcome
    this.text = report.result ?? ''
    this.stdout = report.stdout ?? ''
    this.stderr = report.stderr ?? ''
    this.value = report.value && formsOf(report.value)
    this.displays = (report.displays ?? []).map(formsOf)
    this.exitCode = report.exit_code
    this.files = (report.files ?? []).map(fileOf)
    this.fuelUsed = report.fuel_used ?? 0
    this.execId = report.exec_id ?? ''
    this.report = report
    this.receipt = sealed.receipt
    this.unsealed = sealed.unsealed
    const why =
      report.error ??
      (report.exit_code ? { code: 'exit', message: `the program ended itself with exit code ${report.exit_code}` } : undefined)
    this.error =
      why &&
      new ProgramError(why.message, {
        traceback: '',
        ...why,
        hint: inWordsOfClient(('hint' in why && why.hint) || ''),
        result: this,
      })
  }

  /** What it printed, byte for byte, also where that is no UTF-8. */
  get stdoutBytes(): Uint8Array {
    return bytesOf(this.stdout, this.report.stdout_base64)
  }
  get stderrBytes(): Uint8Array {
    return bytesOf(this.stderr, this.report.stderr_base64)
  }

  /** Where the text is wrong: of Session.check(), and of a cell that did not run since its types are wrong. */
  get findings(): readonly Finding[] {
    const errors = [this.report['error'], ...((this.report['more_errors'] ?? []) as unknown[])] as (FindingJson | undefined)[]
    return errors.flatMap((each) =>
      each?.place?.line === undefined
        ? []
        : {
            line: each.place.line,
            column: each.place.column ?? 1,
            message: each.message ?? '',
            rule: each.rule ?? each.code ?? '',
            hint: each.hint ?? '',
          },
    )
  }

  /** Whether it ran to its end, and did not end itself with an exit code other than 0. */
  get ok(): boolean {
    return this.outcome === 'ok' && !this.exitCode
  }

  /** Itself when it is ok; else throws its error. One that ended itself by sys.exit(3) has an error with the code "exit". */
  check(): this {
    if (this.ok) return this
    throw (
      this.error ??
      new ProgramError(`the program ended as ${this.outcome}`, { code: this.outcome, traceback: '', result: this })
    )
  }
}

export function formsOf(json: FormsJson): Forms {
  const entries = Object.entries(json)
  return Object.fromEntries(
    entries.map(([kind, part]) => [
      kind,
      typeof part === 'string' ? part : new Uint8Array(Buffer.from(part.base64, 'base64')),
    ]),
  )
}

export function fileOf(json: FileJson): FileInfo {
  return {
    path: json.path,
    sizeBytes: json.size_bytes ?? 0,
    kind: json.kind ?? json.type ?? 'file',
    mode: json.mode === undefined ? undefined : parseInt(json.mode, 8),
    target: json.target,
  }
}

const timeOf = (text: string | undefined): Date | undefined => (text === undefined ? undefined : new Date(text))

export function snapshotOf(json: SnapshotJson): Snapshot {
  if (typeof json?.id !== 'string') throw notOurs('not of the form that was expected')
  return {
    id: json.id,
    template: json.template ?? '',
    sandbox: json.sandbox ?? '',
    name: json.name ?? undefined,
    createdAt: timeOf(json.created_at),
    sizeBytes: json.size_bytes ?? 0,
  }
}

export function approvalOf(json: ApprovalJson): Approval {
  if (typeof json?.id !== 'string') throw notOurs('not of the form that was expected')
  return {
    id: json.id,
    execId: json.exec_id,
    state: json.state ?? 'waiting',
    function: json.function,
    target: json.target ?? '',
    bytes: json.bytes ?? 0,
    askedAt: timeOf(json.asked_at),
    privateReads: json.private_reads ?? [],
    untrustedReads: json.untrusted_reads ?? [],
  }
}

export function contextOf(json: ContextJson): Context {
  if (typeof json?.id !== 'string') throw notOurs('not of the form that was expected')
  return { id: json.id, template: json.template, createdAt: timeOf(json.created_at) }
}

export function secretOf(json: SecretJson): Secret {
  if (typeof json?.name !== 'string') throw notOurs('not of the form that was expected')
  return { name: json.name, hosts: json.hosts ?? [], updatedAt: timeOf(json.updated_at) }
}

/** Of a thing of the service, or its id. */
export const idOf = (thing: { readonly id: string } | string): string => (typeof thing === 'string' ? thing : thing.id)
export const idOrNone = (thing: { readonly id: string } | string | undefined): string | undefined =>
  thing === undefined ? undefined : idOf(thing)

/** The list that an answer has under a name. */
export function listOf<T>(json: Readonly<Record<string, readonly T[]>>, name: string): readonly T[] {
  const list = json?.[name]
  if (!Array.isArray(list)) throw notOurs('not of the form that was expected')
  return list
}

export function infoOf(json: SandboxJson): SandboxInfo {
  if (typeof json?.id !== 'string') throw notOurs('not of the form that was expected')
  return {
    id: json.id,
    template: json.template,
    state: json.state,
    createdAt: timeOf(json.created_at),
    expiresAt: timeOf(json.expires_at),
    metadata: json.metadata ?? {},
    labels: json.labels ?? [],
  }
}
