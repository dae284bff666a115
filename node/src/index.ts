// Sandboxes for programs that a language model writes.

export {
  BusyError,
  DeniedError,
  InvalidRequestError,
  MembraneError,
  NotFoundError,
  ProgramError,
  UnreachableError,
} from './errors.js'
export {
  Exec,
  Files,
  Sandbox,
  Stream,
  type CallOptions,
  type ChangeOptions,
  type CreateOptions,
  type ExecOptions,
  type ListOptions,
} from './sandbox.js'
export { type ConnectionOptions } from './settings.js'
export {
  Result,
  type Duration,
  type Event,
  type FileEvent,
  type FileInfo,
  type Forms,
  type Json,
  type Receipt,
  type SandboxInfo,
  type Snapshot,
} from './types.js'
