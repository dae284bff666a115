// The files of a sandbox of the service.

import { Attempts, Connection, sandboxPath, type Request } from './connection.js'
import { jsonOf } from './events.js'
import { type CallOptions } from './settings.js'
import { fileOf, idOrNone, type Context, type FileEvent, type FileInfo, type FileJson } from './types.js'

export interface FileOptions extends CallOptions {
  /** The context whose files are used, instead of the sandbox's first session. */
  context?: Context | string
}

/** The files that a sandbox sees, or that a context of it sees. Paths are absolute. */
export class Files {
  readonly #connection: Connection
  readonly #sandbox: string

  /** @internal */
  constructor(connection: Connection, sandbox: string) {
    this.#connection = connection
    this.#sandbox = sandbox
  }

  #request(method: string, rest: readonly string[], options: FileOptions, query: Request['query'] = {}): Request {
    const path = sandboxPath(this.#sandbox, 'files', ...rest)
    return { method, path, query: { ...query, context: idOrNone(options.context) }, signal: options.signal }
  }

  #post(action: string, options: FileOptions, json: Record<string, string>): Request {
    const path = sandboxPath(this.#sandbox, 'files', action)
    return { method: 'POST', path, json: { ...json, context: idOrNone(options.context) }, signal: options.signal }
  }

  async read(path: string, options: FileOptions = {}): Promise<Uint8Array> {
    return this.#connection.bytes({ ...this.#request('GET', [], options, { path }), accept: '*/*' })
  }

  async readText(path: string, options: FileOptions = {}): Promise<string> {
    return new TextDecoder().decode(await this.read(path, options))
  }

  /** Writes the whole file, and makes missing parent directories. */
  async write(
    path: string,
    data: string | Uint8Array,
    options: FileOptions & { /** Its permissions in a Linux sandbox, as 0o755. */ mode?: number } = {},
  ): Promise<void> {
    const query = { path, mode: options.mode?.toString(8).padStart(4, '0') }
    await this.#connection.nothing({ ...this.#request('PUT', [], options, query), bytes: data })
  }

  /** Lists the directory, or without one the files that the sandbox has made or changed. */
  async list(path?: string, options: FileOptions = {}): Promise<FileInfo[]> {
    const request = this.#request('GET', ['list'], options, { path })
    return (await this.#connection.json<{ files: FileJson[] }>(request)).files.map(fileOf)
  }

  async stat(path: string, options: FileOptions = {}): Promise<FileInfo> {
    return fileOf(await this.#connection.json<FileJson>(this.#request('GET', ['stat'], options, { path })))
  }

  async move(source: string, target: string, options: FileOptions = {}): Promise<void> {
    await this.#connection.nothing(this.#post('move', options, { from: source, to: target }))
  }

  async makeDirectory(path: string, options: FileOptions = {}): Promise<void> {
    await this.#connection.nothing(this.#post('mkdir', options, { path }))
  }

  async remove(path: string, options: FileOptions & { recursive?: boolean } = {}): Promise<void> {
    const query = { path, recursive: options.recursive ? 'true' : undefined }
    await this.#connection.nothing({ ...this.#request('DELETE', [], options, query), isGoneFine: true })
  }

  /** Returns the directory's contents as a tar archive; in a Linux sandbox with permissions and symbolic links. */
  async readArchive(path: string, options: FileOptions = {}): Promise<Uint8Array> {
    return this.#connection.bytes({ ...this.#request('GET', ['archive'], options, { path }), accept: '*/*' })
  }

  /** Unpacks a tar archive, which may be compressed by gzip, into the directory. Existing files are replaced. */
  async writeArchive(path: string, archive: Uint8Array, options: FileOptions = {}): Promise<void> {
    const request = this.#request('PUT', ['archive'], options, { path })
    await this.#connection.nothing({ ...request, bytes: archive, contentType: 'application/x-tar' })
  }

  /** Yields the changes below the directory, until the reader stops. */
  async *watch(path: string, options: FileOptions = {}): AsyncGenerator<FileEvent, void, undefined> {
    const attempts = new Attempts(this.#connection.settings)
    for (;;) {
      let cut: unknown
      try {
        const events = this.#connection.events(this.#request('GET', ['watch'], options, { path }), attempts, () => {})
        for await (const event of events) {
          attempts.beginAgain()
          const json = jsonOf(event)
          if (json?.path !== undefined) yield { kind: json.kind ?? json.change ?? event.kind, path: json.path }
        }
      } catch (error) {
        cut = error
      }
      await attempts.afterError(cut, options.signal)
    }
  }
}
