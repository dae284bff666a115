// What a token has besides sandboxes, and what outlives them: snapshots, secrets.

import { Connection } from './connection.js'
import { type CallOptions } from './sandbox.js'
import { checkOptions } from './given.js'
import { connectionOptions, settingsOf, type ConnectionOptions } from './settings.js'
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

/** The snapshots of a token; Sandbox.snapshot() makes them. */
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

  /** Sandboxes that were made of it stay. One with a name is removed once removeTemplate() took that back. */
  async remove(snapshot: Snapshot | string, options: CallOptions = {}): Promise<void> {
    const path = pathOf('snapshots', idOf(snapshot))
    await this.#connection.nothing({ method: 'DELETE', path, isGoneFine: true, signal: options.signal })
  }

  /** Gives it a name, by which Sandbox.create({ template: name }) makes sandboxes of it. */
  async promote(snapshot: Snapshot | string, name: string, options: CallOptions = {}): Promise<Snapshot> {
    const path = pathOf('snapshots', idOf(snapshot), 'promote')
    const request = { method: 'POST', path, json: { name }, signal: options.signal }
    return snapshotOf(await this.#connection.json<SnapshotJson>(request))
  }

  /** Takes the name back; the snapshot stays. */
  async removeTemplate(name: string, options: CallOptions = {}): Promise<void> {
    const path = pathOf('templates', name)
    await this.#connection.nothing({ method: 'DELETE', path, isGoneFine: true, signal: options.signal })
  }
}

/** The secrets of a token, for headers that policies name. Their values go in and never come out. */
export class Secrets {
  readonly #connection: Connection
  constructor(options: Omit<ConnectionOptions, 'signal'> = {}) {
    checkOptions('new Secrets()', options, settingsOptions)
    this.#connection = new Connection(settingsOf(options))
  }

  /** Keeps one, or replaces it. hosts: where it may be sent, as "api.example.com" or "*.example.com". */
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

  /** No sandbox can send it from then on. */
  async remove(secret: Secret | string, options: CallOptions = {}): Promise<void> {
    const path = pathOf('secrets', typeof secret === 'string' ? secret : secret.name)
    await this.#connection.nothing({ method: 'DELETE', path, isGoneFine: true, signal: options.signal })
  }
}
