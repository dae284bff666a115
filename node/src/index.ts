// Sandboxes for programs that a language model writes.

export {
  Flows,
  Receipts,
  type Agents,
  type Approve,
  type Ask,
  type Complete,
  type EgressQuestion,
  type Embed,
  type FlowReads,
  type Model,
  type ModelAnswer,
  type ModelRequest,
  type ReceiptsOptions,
  type Waiting,
} from './agents.js'
export {
  BusyError,
  DeniedError,
  InvalidRequestError,
  MembraneError,
  NotFoundError,
  ProgramError,
  UnreachableError,
} from './errors.js'
export { Exec, Stream, type CommandOptions, type ExecOptions, type TerminalSize, type TurnOptions } from './exec.js'
export { Files, type FileOptions } from './files.js'
export {
  HostObject,
  LATER,
  type Allowed,
  type Callable,
  type FunctionCall,
  type FunctionOptions,
  type Functions,
  type Gate,
  type HostFunction,
  type HostType,
  type Later,
  type Members,
  type MethodWords,
  type Modules,
} from './functions.js'
export type { TypeCheck } from './check.js'
export { Secrets, Snapshots } from './kept.js'
export { Pool, type PoolOptions, type TakeOptions } from './pool.js'
export {
  Approvals,
  Contexts,
  Sandbox,
  type ChangeOptions,
  type CreateOptions,
  type DiffOptions,
  type ListOptions,
  type PatchOptions,
} from './sandbox.js'
export {
  Call,
  load,
  openLanguage,
  Session,
  SessionFiles,
  SessionOverError,
  type LoadOptions,
  type RunOptions,
  type SessionOptions,
  type StartOptions,
} from './session.js'
export { stubs, type StubsOptions } from './stubs.js'
export type { Sources } from './sources.js'
export { type CallOptions, type ConnectionOptions } from './settings.js'
export {
  Result,
  type Approval,
  type Context,
  type Duration,
  type Event,
  type FileEvent,
  type FileInfo,
  type Finding,
  type FlowRead,
  type Forms,
  type Json,
  type Policy,
  type Receipt,
  type SandboxInfo,
  type Secret,
  type Snapshot,
} from './types.js'
