// The engine in this process: native/, where the package was built with it.

import { createRequire } from 'node:module'
import { MembraneError, NotFoundError } from './errors.js'
import { inWordsOfSession } from './hints.js'
import type { NativeAgentHost, NativeAgents, FlowReads } from './agents.js'
import type { Answer, FunctionWords, Inputs, TypeWords, WireCall } from './functions.js'
import type { NativeSourceHost, NativeSources } from './sources.js'

export interface NativeCell {
  readonly code: string
  readonly name: string
  readonly isScript: boolean
  readonly onlyChecks: boolean
  readonly declaresCalls: boolean
  readonly arguments: readonly string[]
  readonly input: string
  readonly inputs: Inputs
}

/** Called by the turns of a session. */
export interface NativeHost extends NativeSourceHost, NativeAgentHost {
  readonly answer: (calls: WireCall[], waits: boolean, reply: (answers: readonly Answer[]) => void) => void
  readonly answerSync: (calls: WireCall[], waits: boolean) => readonly Answer[]
  readonly onStdout: ((text: string) => void) | undefined
  readonly onStderr: ((text: string) => void) | undefined
}

export interface NativeOptions {
  readonly policy: {
    readonly text: string | undefined
    readonly name: string
    readonly allow: readonly string[]
    readonly limits: readonly (readonly [string, string])[]
  }
  readonly functions: readonly FunctionWords[]
  readonly types: readonly TypeWords[]
  readonly modules: readonly (readonly [string, string])[]
  readonly inputs: Inputs
  readonly isolated: boolean
  readonly acceptedMissingWalls: readonly string[]
  readonly sources: NativeSources
  readonly agents: NativeAgents
  readonly host: NativeHost
}

export interface NativeReport {
  readonly json: string
  readonly receipt?: string
  readonly unsealed?: Error
}

export interface NativeSession {
  run(cell: NativeCell, waits: boolean): Promise<NativeReport>
  runSync(cell: NativeCell, waits: boolean): NativeReport
  resume(answers: readonly Answer[]): Promise<NativeReport>
  abandon(): void
  waitsFor(): WireCall[]
  fork(host: NativeHost): NativeSession
  dump(head: Uint8Array): Uint8Array
  readFile(path: string): Uint8Array
  writeFile(path: string, content: Uint8Array): void
  files(): [string, number][]
  complete(code: string): string[]
  cancel(): void
  close(): void
}

export interface NativeLanguage {
  readonly _language: never
}

export interface NativeFlows {
  readonly _flows: never
}
export interface NativeReceipts {
  readonly _receipts: never
}

export interface Native {
  readonly version: string
  openLanguage(name: string, onProgress: ((step: string) => void) | undefined): Promise<NativeLanguage>
  openLanguageSync(name: string): NativeLanguage
  nameOf(language: NativeLanguage): string
  create(language: NativeLanguage, options: NativeOptions): NativeSession
  load(language: NativeLanguage, options: NativeOptions, bytes: Uint8Array): NativeSession
  newFlows(): NativeFlows
  stateOfFlows(flows: NativeFlows): { readonly privateReads: FlowReads; readonly untrustedReads: FlowReads; readonly isClosed: boolean }
  openReceipts(directory: string, keyFile: string, makesKey: boolean): NativeReceipts
  problemOf(receipts: NativeReceipts): Error | undefined
}

let loaded: Native | undefined

/** Throws where there is none. */
export function engine(): Native {
  if (loaded) return loaded
  const require = createRequire(import.meta.url)
  let cause: unknown
  for (const path of ['./membrane.node', `../prebuilt/${process.platform}-${process.arch}/membrane.node`]) {
    try {
      return (loaded = require(path) as Native)
    } catch (error) {
      // One that is there and does not load says why.
      if (cause === undefined || (error as { code?: unknown }).code !== 'MODULE_NOT_FOUND') cause = error
    }
  }
  throw new MembraneError('this installation of membrane has no engine', {
    code: 'no_engine',
    hint: 'Build it where cmake and a compiler of C++23 are: npm run build in the package. Sandbox uses a service, and needs none.',
    cause,
  })
}

interface FailureError extends Error {
  readonly isFailure?: true
  readonly code: string
  readonly hint: string
}

/** Errors of the engine as MembraneError; others stay. */
export function asOurs(error: unknown): unknown {
  if (!(error instanceof Error) || !(error as FailureError).isFailure) return error
  const { message, code, hint } = error as FailureError
  const Kind = code === 'not_found' || code === 'ENOENT' ? NotFoundError : MembraneError
  return new Kind(inWordsOfSession(message), { code, hint: inWordsOfSession(hint) })
}

export function translated<T>(act: () => T): T {
  try {
    return act()
  } catch (error) {
    throw asOurs(error)
  }
}
