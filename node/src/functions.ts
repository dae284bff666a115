// Functions and objects of this program, as programs in a session call them.

import { types as kinds } from 'node:util'
import { ofWire, toWire, type Reference } from './values.js'

/** An answer that comes later: what a function returns, or stands in the place of one. Programs wait until Call.resume() has it. */
export const LATER: unique symbol = Symbol.for('membrane.LATER')
export type Later = typeof LATER

// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type Callable = (...args: any[]) => unknown

/** A function with what programs see of it. */
export interface FunctionOptions {
  readonly call: Callable | Later
  /** As Python has it, for help() and for checking calls before they are made: "(item: str, count: int = 1) -> int". */
  readonly signature?: string
  readonly doc?: string
  /** Programs await it, and calls that are awaited together are made at once; of an async function: true. */
  readonly async?: boolean
}

export type HostFunction = Callable | Later | FunctionOptions
/** By the names that programs use; or functions that have their names. */
export type Functions = Readonly<Record<string, HostFunction>> | Iterable<Callable>
export type Modules = Readonly<Record<string, Functions>>

/** A call that a program makes: what a gate sees before it happens, and what a waiting session waits for. */
export interface FunctionCall {
  readonly name: string
  readonly args: readonly unknown[]
  /** Arguments that a program in Python gave by name. The function has them as its last argument, where there are any. */
  readonly kwargs: Readonly<Record<string, unknown>>
}

export type Gate = (call: FunctionCall) => unknown

export interface Members {
  readonly methods?: readonly string[]
  readonly attributes?: readonly string[]
}

/**
 * An object of this program that a session's programs hold a reference to. They can call the methods and read the attributes that are
 * listed here, and nothing else. Where a program gives it back, the object itself arrives.
 *
 * Put it among the inputs, or return it from a function; of a class that no input has, name the class in Session's option `types`.
 */
export class HostObject {
  readonly value: object
  readonly methods: readonly string[]
  readonly attributes: readonly string[]

  constructor(value: object, { methods = [], attributes = [] }: Members) {
    for (const name of [...methods, ...attributes])
      if (name.startsWith('_') || !(name in value))
        throw new TypeError(`${classOf(value)} has no attribute "${name}" that a program could be given`)
    this.value = value
    this.methods = methods
    this.attributes = attributes
  }
}

/** A class of objects that functions return: its objects are references, as a HostObject is. */
export interface HostType extends Members {
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  readonly type: abstract new (...args: any[]) => object
  readonly doc?: string
}

/** name, arguments and keywords as JSON, id of the object or "" */
export type WireCall = [string, string, string, string]
/** kind, value as JSON, type and message of an error */
export type Answer = readonly [number, string, string, string]
const [valueKind, errorKind, laterKind] = [0, 1, 2]

export interface FunctionWords {
  readonly module: string
  readonly name: string
  readonly signature: string
  readonly doc: string
  readonly isAsync: boolean
}
export interface TypeWords {
  readonly name: string
  readonly doc: string
  readonly methods: readonly FunctionWords[]
  readonly attributes: readonly string[]
}

const classOf = (value: object): string => (value.constructor as { name?: string } | undefined)?.name || 'Object'
const isThenable = (value: unknown): value is PromiseLike<unknown> =>
  typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function'

// Programs see errors by a name, which is a class that their language may have.
class NamedError extends Error {
  constructor(name: string, message: string) {
    super(message)
    this.name = name
  }
}

function wordsOf(module: string, name: string, { call, signature = '', doc = '', async }: FunctionOptions): FunctionWords {
  return { module, name, signature, doc, isAsync: async ?? kinds.isAsyncFunction(call) }
}

function namedOf(functions: Functions): readonly (readonly [string, FunctionOptions])[] {
  const all: Iterable<readonly [string, HostFunction]> =
    Symbol.iterator in functions
      ? Array.from(functions as Iterable<Callable>, (each) => [each.name, each] as const)
      : Object.entries(functions)
  return Array.from(all, ([name, given]) => {
    const options: FunctionOptions = typeof given === 'object' && given !== null ? given : { call: given as Callable }
    if (options.call !== LATER && typeof options.call !== 'function')
      throw new TypeError(`${name} is no function: ${String(options.call)}`)
    return [name, options]
  })
}

/** All that a session's programs may call, by the names that they use. */
export class Registry {
  readonly words: FunctionWords[] = []
  readonly modules: (readonly [string, string])[] = []
  readonly inputs: readonly (readonly [string, string])[]
  readonly #gate: Gate | undefined
  readonly #functions = new Map<string, Callable | Later>()
  readonly #objects: HostObject[] = [] // by their ids, from 1
  readonly #ids = new Map<object, number>()
  readonly #types = new Map<string, TypeWords>()
  readonly #classes = new Map<unknown, HostType>()

  constructor(options: {
    functions?: Functions | undefined
    modules?: Modules | undefined
    types?: readonly HostType[] | undefined
    inputs?: Readonly<Record<string, unknown>> | undefined
    gate?: Gate | undefined
  }) {
    this.#gate = options.gate
    this.#add('', options.functions ?? {})
    for (const [module, functions] of Object.entries(options.modules ?? {})) {
      this.modules.push([module, ''])
      this.#add(module, functions)
    }
    for (const each of options.types ?? []) {
      this.#classes.set(each.type, each)
      this.#describe(each.type.name, each, each.type.prototype as object, each.doc)
    }
    this.inputs = Object.entries(options.inputs ?? {}).map(([name, value]) => [name, this.toJson(value)])
  }

  #add(module: string, functions: Functions): void {
    for (const [name, options] of namedOf(functions)) {
      this.#functions.set(module ? `${module}.${name}` : name, options.call)
      this.words.push(wordsOf(module, name, options))
    }
  }

  get types(): readonly TypeWords[] {
    return [...this.#types.values()]
  }

  #describe(name: string, members: Members, of: object, doc = ''): void {
    if (this.#types.has(name)) return
    const methods = (members.methods ?? []).map((each) =>
      wordsOf('', each, { call: (of as Record<string, Callable>)[each]! }),
    )
    this.#types.set(name, { name, doc, methods, attributes: members.attributes ?? [] })
  }

  // -- values

  toJson(value: unknown): string {
    return JSON.stringify(toWire(value, (each) => this.#referenceTo(each)))
  }

  #ofJson(text: string): unknown {
    return ofWire(JSON.parse(text || 'null'), (reference) => this.#held(reference.id).value)
  }

  #referenceTo(given: object): Reference | undefined {
    const value = given instanceof HostObject ? given.value : given
    const type = this.#classes.get(value.constructor)
    if (!(given instanceof HostObject) && !type) return undefined
    let id = this.#ids.get(given)
    if (id === undefined) {
      const held = given instanceof HostObject ? given : new HostObject(value, type!)
      this.#describe(classOf(value), held, value)
      this.#ids.set(given, (id = this.#objects.push(held)))
    }
    return { id, type: classOf(value) }
  }

  #held(id: number): HostObject {
    const found = this.#objects[id - 1]
    if (!found) throw new NamedError('LookupError', `there is no object ${id} in this session`)
    return found
  }

  callOf([name, args, kwargs]: WireCall): FunctionCall {
    return {
      name,
      args: this.#ofJson(args || '[]') as unknown[],
      kwargs: this.#ofJson(kwargs || '{}') as Record<string, unknown>,
    }
  }

  // -- answers

  value(value: unknown): Answer {
    return [valueKind, this.toJson(value), '', '']
  }

  /** By the name that the error has, or else its class. */
  static error(error: unknown): Answer {
    if (!(error instanceof Error || kinds.isNativeError(error))) return [errorKind, '', '', String(error)]
    return [errorKind, '', error.name !== 'Error' ? error.name : classOf(error), error.message]
  }

  /** Of calls that were made at once. `waits`: functions without a callable are answered later. */
  answer(calls: readonly WireCall[], waits: boolean): Promise<readonly Answer[]> {
    return Promise.all(calls.map((call) => this.#begin(call, waits)))
  }

  /** The same at once: a function that is not done by then has failed. */
  answerSync(calls: readonly WireCall[], waits: boolean): readonly Answer[] {
    return calls.map((call) => {
      const answer = this.#begin(call, waits)
      if (!(answer instanceof Promise)) return answer
      return Registry.error(new NamedError('RuntimeError', `${call[0]} is not done at once: use run(), and not runSync()`))
    })
  }

  #begin(wire: WireCall, waits: boolean): Answer | Promise<Answer> {
    try {
      const call = this.callOf(wire)
      const called = this.#functionOf(wire, waits)
      if (called === LATER) return this.#answerOf(call, LATER, waits)
      const named = Object.keys(call.kwargs).length ? [call.kwargs] : []
      return this.#settled(this.#gate ? this.#gate(call) : true, (isAllowed) => {
        if (!isAllowed) throw new NamedError('PermissionError', `the call of ${call.name} was refused`)
        return this.#settled(called(...call.args, ...named), (value) => this.#answerOf(call, value, waits))
      })
    } catch (error) {
      return Registry.error(error)
    }
  }

  #answerOf(call: FunctionCall, value: unknown, waits: boolean): Answer {
    if (value !== LATER) return this.value(value)
    if (waits) return [laterKind, '', '', '']
    throw new NamedError('RuntimeError', `${call.name} is answered later: use start(), and not run()`)
  }

  // Of what is there now, or comes.
  #settled(given: unknown, then: (value: unknown) => Answer | Promise<Answer>): Answer | Promise<Answer> {
    return isThenable(given) ? Promise.resolve(given).then(then).catch(Registry.error) : then(given)
  }

  #functionOf([name, , , id]: WireCall, waits: boolean): Callable | Later {
    if (!id) {
      const found = this.#functions.get(name)
      if (found) return found
      if (waits) return LATER
      throw new NamedError('NameError', `there is no function ${name}`)
    }
    const { value, methods, attributes } = this.#held(Number(id))
    const member = name.slice(name.lastIndexOf('.') + 1)
    const members = value as Record<string, unknown>
    if (attributes.includes(member)) return () => members[member]
    if (!methods.includes(member)) throw new NamedError('AttributeError', `${classOf(value)} has no method ${member}`)
    return (...args) => (members[member] as Callable).apply(value, args)
  }
}
