// Reads server-sent events as they arrive (WHATWG HTML, section 9.2). Every split of the same bytes gives the same events.

import { notOurs } from './errors.js'

export interface ServerEvent {
  readonly kind: string
  readonly data: string
  readonly id: string
}

/** The event's data as JSON. */
export function jsonOf(event: ServerEvent): any {
  try {
    return JSON.parse(event.data)
  } catch (error) {
    throw notOurs('an event that is no JSON', error)
  }
}

const mostCharacters = 256 * 1024 * 1024 // of an incomplete event

export class EventParser {
  readonly #decoder = new TextDecoder() // it removes a byte order mark
  #linePieces: string[] = []
  #afterCr = false // if an LF is next, it belongs to this CR
  #kind = ''
  #data: string[] = []
  #size = 0
  #id = ''

  feed(bytes: Uint8Array): ServerEvent[] {
    let text = this.#decoder.decode(bytes, { stream: true })
    if (text === '') return []
    if (this.#afterCr && text.startsWith('\n')) text = text.slice(1)
    this.#afterCr = text.endsWith('\r')
    this.#size += text.length
    if (this.#size > mostCharacters) throw notOurs('an event without an end')
    const lines = text.split(/\r\n|\r|\n/)
    const rest = lines.pop()!
    const events: ServerEvent[] = []
    for (const end of lines) {
      const event = this.#line(this.#linePieces.join('') + end)
      this.#linePieces = []
      if (event) events.push(event)
    }
    if (rest !== '') this.#linePieces.push(rest)
    return events
  }

  #line(line: string): ServerEvent | undefined {
    if (line === '') return this.#dispatch()
    const colon = line.indexOf(':')
    const name = colon < 0 ? line : line.slice(0, colon)
    const value = colon < 0 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1)
    if (name === 'event') this.#kind = value
    else if (name === 'data') this.#data.push(value)
    else if (name === 'id' && !value.includes('\0')) this.#id = value
    return undefined
  }

  #dispatch(): ServerEvent | undefined {
    const event = { kind: this.#kind || 'message', data: this.#data.join('\n'), id: this.#id }
    const hasData = this.#data.length > 0
    this.#kind = ''
    this.#data = []
    this.#size = 0
    return hasData ? event : undefined
  }
}
