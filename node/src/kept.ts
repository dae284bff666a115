// What a token has besides sandboxes: snapshots and secrets.

import { Connection } from './connection.js'
import { checkOptions } from './given.js'
import { connectionOptions, settingsOf, type CallOptions, type ConnectionOptions } from './settings.js'
import {
  idOf,
  listOf,
  secretOf,
  snapshotOf,
  type Secret,
  type SecretJson,
  type Snapshot,
  type SnapshotJson,
} from './types.js'

const settingsOptions = connectionOptions.filter((name) => name !== 'signal')
const pathOf = (...parts: string[]): string => '/v1/' + parts.map(encodeURIComponent).join('/')

/** The snapshots of a token. Sandbox.snapshot() makes them. */
export class Snapshots {
  readonly #connection: Connection
  constructor(options: Omit<ConnectionOptions, 'signal'> = {}) {
    checkOptions('new Snapshots()', options, settingsOptions)
    this.#connection = new Connection(settingsOf(options))
  }

  /** Oldest first. */
  async list(options: CallOptions = {}): Promise<Snapshot[]> {
    const request = { method: 'GET', path: pathOf('snapshots'), signal: options.signal }
    return listOf(await this.#connection.json<Record<string, SnapshotJson[]>>(request), 'snapshots').map(snapshotOf)
  }

  /** Removes a snapshot. Sandboxes made from it stay. If it has a name, removeTemplate() must come first. */
  async remove(snapshot: Snapshot | string, options: CallOptions = {}): Promise<void> {
    const path = pathOf('snapshots', idOf(snapshot))
    await this.#connection.nothing({ method: 'DELETE', path, isGoneFine: true, signal: options.signal })
  }

  /** Names the snapshot, so that Sandbox.create({ template: name }) makes sandboxes from it. */
  async promote(snapshot: Snapshot | string, name: string, options: CallOptions = {}): Promise<Snapshot> {
    const path = pathOf('snapshots', idOf(snapshot), 'promote')
    const request = { method: 'POST', path, json: { name }, signal: options.signal }
    return snapshotOf(await this.#connection.json<SnapshotJson>(request))
  }

  /** Removes the name. The snapshot stays. */
  async removeTemplate(name: string, options: CallOptions = {}): Promise<void> {
    const path = pathOf('templates', name)
    await this.#connection.nothing({ method: 'DELETE', path, isGoneFine: true, signal: options.signal })
  }
}

/** The secrets of a token, for headers that policies name. Values can be written, and never read. */
export class Secrets {
  readonly #connection: Connection
  constructor(options: Omit<ConnectionOptions, 'signal'> = {}) {
    checkOptions('new Secrets()', options, settingsOptions)
    this.#connection = new Connection(settingsOf(options))
  }

  /** Stores or replaces a secret. hosts: where it may be sent, such as "api.example.com" or "*.example.com". */
  async put(name: string, value: string, options: CallOptions & { hosts: readonly string[] }): Promise<Secret> {
    checkOptions('put()', options, ['hosts', 'signal'])
    const json = { value, hosts: options.hosts }
    const request = { method: 'PUT', path: pathOf('secrets', name), json, signal: options.signal }
    return secretOf(await this.#connection.json<SecretJson>(request))
  }

  async list(options: CallOptions = {}): Promise<Secret[]> {
    const request = { method: 'GET', path: pathOf('secrets'), signal: options.signal }
    return listOf(await this.#connection.json<Record<string, SecretJson[]>>(request), 'secrets').map(secretOf)
  }

  /** Removes a secret. From then on no sandbox can send it. */
  async remove(secret: Secret | string, options: CallOptions = {}): Promise<void> {
    const path = pathOf('secrets', typeof secret === 'string' ? secret : secret.name)
    await this.#connection.nothing({ method: 'DELETE', path, isGoneFine: true, signal: options.signal })
  }
}
