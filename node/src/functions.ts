// Functions and objects of this program, as programs in a session call them.

import { types as kinds } from 'node:util'
import { MembraneError } from './errors.js'
import { checkKind, checkOptions, classOf, isThenable, kindOf, kindsOfMembers, kindsOfSession, namesAndValues } from './given.js'
import { bound, isNoSignature, signatureOf, type Bound, type Signature } from './signatures.js'
import { callBegins, NamedError, type CallSpan } from './telemetry.js'
import { NoForm, ofWire, toWire, type Reference } from './values.js'

/** An answer that comes later: what a function returns, or stands in the place of one. Programs wait until Call.resume() has it. */
export const LATER: unique symbol = Symbol.for('membrane.LATER')
export type Later = typeof LATER

// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type Callable = (...args: any[]) => unknown

/** A function with what programs see of it. */
export interface FunctionOptions {
  readonly call: Callable | Later
  /**
   * As Python has it, for help() and for checking calls before they are made: "(item: str, count: int = 1) -> int". Arguments that a
   * program gives by name have their positions by it; those behind * and of **kwargs are an object, the last argument.
   */
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
  /** By position, also those that a program gave by name, where the function has a signature; undefined where one is missing between others. */
  readonly args: readonly unknown[]
  /**
   * Arguments that a program in Python gave by name and that have no position: of a function without a signature all of these. The
   * function has them as its last argument, where there are any.
   */
  readonly kwargs: Readonly<Record<string, unknown>>
  /**
   * Where the function has a signature, all arguments that were given, by the names of its parameters: those of *args as an array, those
   * of **kwargs as an object. undefined without one.
   */
  readonly named?: Readonly<Record<string, unknown>>
}

/** What a gate gives, or a promise of it: true lets the call pass, LATER makes it wait, and the others refuse it. */
export type Allowed = boolean | Later | undefined | null
/**
 * Sees each call before it happens. The program gets what it throws as an error, which is how to give a reason. LATER makes the call wait
 * as one of a function that is answered later: Call.resume() and fail() answer it in the place of the function, which is not called.
 */
export type Gate = (call: FunctionCall) => Allowed | PromiseLike<Allowed>

/** What programs see of a method: as of a function. */
export interface MethodWords {
  /** Without the object itself: "(amount: int) -> int". */
  readonly signature?: string
  readonly doc?: string
}

export interface Members {
  /** Names; or by names what programs see of them: { deposit: { signature: '(amount: int) -> int' } }. */
  readonly methods?: readonly string[] | Readonly<Record<string, MethodWords>>
  /** Names; or by names their types, as Python has them: { balance: 'int' }. */
  readonly attributes?: readonly string[] | Readonly<Record<string, string>>
}

const namesOf = (members: readonly string[] | Readonly<Record<string, unknown>>): readonly string[] =>
  Array.isArray(members) ? (members as readonly string[]) : Object.keys(members)
const wordsIn = <T>(members: readonly string[] | Readonly<Record<string, T>> | undefined, name: string): T | undefined =>
  members === undefined || Array.isArray(members) ? undefined : (members as Readonly<Record<string, T>>)[name]

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
  /** @internal */
  readonly members: Members

  constructor(value: object, members: Members) {
    if (typeof value !== 'object' || value === null) throw new TypeError(`a HostObject is of an object, not of ${kindOf(value)}: new HostObject(account, { methods: ['deposit'] })`)
    checkOptions('new HostObject()', members, ['methods', 'attributes'], kindsOfMembers)
    const methods = namesOf(members.methods ?? [])
    const attributes = namesOf(members.attributes ?? [])
    for (const name of [...methods, ...attributes])
      if (name.startsWith('_') || !(name in value))
        throw new TypeError(`${classOf(value)} has no attribute "${name}" that a program could be given`)
    this.value = value
    this.methods = methods
    this.attributes = attributes
    this.members = members
  }
}

/** A class of objects that functions return: its objects are references, as a HostObject is. */
export interface HostType extends Members {
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  readonly type: abstract new (...args: any[]) => object
  readonly doc?: string
}

const membersOf = ({ methods = [], attributes = [] }: HostType): Members => ({ methods, attributes })

/** names, and values as JSON */
export type Inputs = readonly (readonly [string, string])[]
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
  readonly attributeTypes: Readonly<Record<string, string>>
}

const memberOf = (name: string): string => name.slice(name.lastIndexOf('.') + 1)

function wordsOf(module: string, name: string, { call, signature = '', doc = '', async }: FunctionOptions): FunctionWords {
  for (const [what, text] of Object.entries({ signature, doc }))
    if (typeof text !== 'string') throw new TypeError(`the ${what} of ${name} is a text, not ${kindOf(text)}`)
  if (isNoSignature(signature))
    throw new TypeError(`the signature of ${name} cannot be read: ${signature}; write it as Python has it: "(item: str, count: int = 1) -> int"`)
  return { module, name, signature, doc, isAsync: async ?? kinds.isAsyncFunction(call) }
}

/** As Python has it, where the property's value tells. Runs no code of the object's. */
function typeOfProperty(of: object, name: string): string {
  const value: unknown = Object.getOwnPropertyDescriptor(of, name)?.value
  return typeof value === 'string' ? 'str' : typeof value === 'boolean' ? 'bool' : 'Any'
}

function namedOf(functions: Functions): readonly (readonly [string, FunctionOptions])[] {
  const all: Iterable<readonly [string, HostFunction]> =
    Symbol.iterator in functions
      ? Array.from(functions as Iterable<Callable>, (each) => [each.name, each] as const)
      : Object.entries(functions)
  return Array.from(all, ([name, given]) => {
    const options: FunctionOptions = typeof given === 'object' && given !== null ? given : { call: given as Callable }
    if (options.call !== LATER && typeof options.call !== 'function')
      throw new TypeError(`${name} is no function: ${typeof given === 'object' ? `its call is ${kindOf(options.call)}` : kindOf(given)}`)
    if (!/^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u.test(name))
      throw new TypeError(`${JSON.stringify(name)} is no name that a program could call: give the function one by { price: (item) => … }`)
    return [name, options]
  })
}

/** Programs see a LookupError. */
export class UnknownObject extends NamedError {
  readonly what: string
  readonly hint: string

  constructor({ id, type }: Reference) {
    const what = `object ${id}, of ${type}`
    const hint =
      'load(bytes, { inputs: { … } }) gives the objects among the inputs again, in the order that Session.create() and, after it, run() had them; ' +
      'ask a function again for one that a function gave.'
    super('LookupError', `${what}, belongs to another process: ${hint}`)
    this.what = what
    this.hint = hint
  }
}

// Of bytes that do not say how many objects there were: more than there would be.
const usualLastId = 2 ** 20
const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= 2 ** 50

// From bytes that anybody may have written: each once.
const areIds = (value: unknown, last: unknown): value is number[] =>
  isCount(last) && Array.isArray(value) && value.every((each) => isCount(each) && each > 0 && each <= last) && new Set(value).size === value.length

export interface ObjectCounts {
  readonly inputs: number
  readonly last: number
  readonly ids: readonly number[]
}

/** All that a session's programs may call, by the names that they use. */
export class Registry {
  readonly words: FunctionWords[] = []
  readonly modules: (readonly [string, string])[] = []
  inputs: Inputs
  #gate: Gate | undefined
  #hasWarned = false
  readonly #signatures = new Map<string, Signature | undefined>() // by their texts
  #texts = new Map<string, string>() // of functions' signatures
  #functions = new Map<string, Callable | Later>()
  #objects = new Map<number, HostObject>() // by their ids
  #lastId = 0
  #ofInputs = new Set<number>() // the ids of objects among inputs, in the order in which they were given
  readonly #givenInputs: Readonly<Record<string, unknown>> | undefined
  #referred: number[] = [] // ids of the objects in the values that became JSON
  #ids = new Map<object, number>()
  #types = new Map<string, TypeWords>()
  #classes = new Map<unknown, HostType>()

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
      checkKind(`the module ${module}`, functions, kindsOfSession['functions']!)
      this.modules.push([module, ''])
      this.#add(module, functions)
    }
    for (const each of options.types ?? []) {
      this.#classes.set(each.type, each)
      this.#describe(each.type.name, each, each.type.prototype as object, each.doc)
    }
    this.#givenInputs = options.inputs
    this.inputs = this.inputsOf(options.inputs)
  }

  /** That of a fork: what either is given from now on is its own. */
  forked(): Registry {
    const made = new Registry({ gate: this.#gate })
    made.words.push(...this.words)
    made.modules.push(...this.modules)
    made.inputs = this.inputs
    made.#texts = this.#texts
    made.#functions = this.#functions
    made.#classes = this.#classes
    made.#objects = new Map(this.#objects)
    made.#ids = new Map(this.#ids)
    made.#types = new Map(this.#types)
    made.#lastId = this.#lastId
    made.#ofInputs = new Set(this.#ofInputs)
    return made
  }

  #add(module: string, functions: Functions): void {
    for (const [name, options] of namedOf(functions)) {
      const knownAs = module ? `${module}.${name}` : name
      this.#functions.set(knownAs, options.call)
      this.#texts.set(knownAs, options.signature ?? '')
      this.words.push(wordsOf(module, name, options))
    }
  }

  get types(): readonly TypeWords[] {
    return [...this.#types.values()]
  }

  #describe(name: string, members: Members, of: object, doc = ''): void {
    if (this.#types.has(name)) return
    const methods = namesOf(members.methods ?? []).map((each) =>
      wordsOf('', each, { ...wordsIn(members.methods, each), call: (of as Record<string, Callable>)[each]! }),
    )
    const attributes = namesOf(members.attributes ?? [])
    const attributeTypes = Object.fromEntries(
      attributes.map((each) => [each, wordsIn(members.attributes, each) ?? typeOfProperty(of, each)]),
    )
    this.#types.set(name, { name, doc, methods, attributes, attributeTypes })
  }

  // -- values

  toJson(value: unknown): string {
    return JSON.stringify(toWire(value, (each) => this.#referenceTo(each)))
  }

  /** areGiven: to programs, and not only looked at. */
  inputsOf(inputs: Readonly<Record<string, unknown>> | undefined, areGiven = true): Inputs {
    if (inputs !== undefined) checkKind('inputs', inputs, namesAndValues)
    this.#referred = []
    const made = Object.entries(inputs ?? {}).map(([name, value]) => [name, this.#toJsonOf(`the input ${name}`, value)] as const)
    if (areGiven) for (const id of this.#referred) this.#ofInputs.add(id)
    return made
  }

  // An error says what the value is of.
  #toJsonOf(what: string, value: unknown): string {
    try {
      return this.toJson(value)
    } catch (error) {
      throw error instanceof NoForm ? error.of(what) : error
    }
  }

  #ofJson(text: string): unknown {
    return this.#ofWire(JSON.parse(text || 'null'))
  }

  #ofWire(value: unknown): unknown {
    return ofWire(value, (reference) => this.#held(reference).value)
  }

  #referenceTo(given: object): Reference | undefined {
    const value = given instanceof HostObject ? given.value : given
    const type = this.#classes.get(value.constructor)
    let id = this.#ids.get(given) // also of the object itself, which a program gave back
    if (id === undefined && !(given instanceof HostObject) && !type) return undefined
    if (id === undefined) {
      const held = given instanceof HostObject ? given : new HostObject(value, membersOf(type!))
      this.#describe(classOf(value), held.members, value)
      this.#ids.set(given, (id = ++this.#lastId))
      if (!this.#ids.has(value)) this.#ids.set(value, id)
      this.#objects.set(id, held)
    }
    this.#referred.push(id)
    return { id, type: classOf(value) }
  }

  // Also of the same id, one of another type is not the one that was referred to.
  #held(reference: Reference): HostObject {
    const found = this.#objects.get(reference.id)
    if (!found || classOf(found.value) !== reference.type) throw new UnknownObject(reference)
    return found
  }

  /** Of objects: how many were among inputs, and their ids in the order in which they were given; the last id that programs may know. */
  get objects(): ObjectCounts {
    return { inputs: this.#ofInputs.size, last: this.#lastId, ids: [...this.#ofInputs] }
  }
  /**
   * Objects from now on have ids past those that the session has had. Those among the inputs take the ids of the session's, and there are
   * not to be more of them.
   */
  goOnFrom(before: unknown): void {
    const { inputs, last, ids } = (before ?? {}) as Partial<Record<keyof ObjectCounts, unknown>>
    const [had, given] = [areIds(ids, last) ? ids : undefined, [...this.#objects.values()]]
    const most = had?.length ?? (isCount(inputs) ? inputs : given.length)
    if (given.length > most)
      throw new MembraneError(`the session had ${most} objects among its inputs, and load() is given ${given.length}`, {
        code: 'invalid_input',
        hint: 'Give the objects that Session.create() and, after it, run() had among their inputs, in their order.',
      })
    if (had) {
      const idOf = new Map([...this.#objects.keys()].map((id, i) => [id, had[i]!]))
      this.#objects = new Map(given.map((held, i) => [had[i]!, held]))
      for (const [object, id] of this.#ids) this.#ids.set(object, idOf.get(id)!)
      this.#ofInputs = new Set(had)
    }
    this.#lastId = Math.max(this.#lastId, isCount(last) ? last : usualLastId)
    this.inputs = this.inputsOf(this.#givenInputs, false) // with those numbers
  }

  callOf(wire: WireCall): FunctionCall {
    return this.#madeOf(wire).call
  }

  // And what its function is called with.
  #madeOf(wire: WireCall): { call: FunctionCall; given: readonly unknown[] } {
    const name = wire[0]
    const args = this.#ofJson(wire[1] || '[]') as unknown[]
    // Member by member: a name is no sign of a value that JSON lacks.
    const byName = Object.entries(JSON.parse(wire[2] || '{}') as Record<string, unknown>)
    const kwargs = Object.fromEntries(byName.map(([key, value]) => [key, this.#ofWire(value)]))
    const by = this.#bound(wire, args, kwargs)
    if (by) return { call: { name, args: by.args, kwargs: by.kwargs, named: by.named }, given: by.given }
    return { call: { name, args, kwargs }, given: Object.keys(kwargs).length ? [...args, kwargs] : args }
  }

  #bound(wire: WireCall, args: unknown[], kwargs: Record<string, unknown>): Bound | undefined {
    const text = this.#signatureTextOf(wire)
    if (!text) return undefined
    if (!this.#signatures.has(text)) this.#signatures.set(text, signatureOf(text))
    const signature = this.#signatures.get(text)
    if (signature) return bound(signature, wire[0], args, kwargs)
    if (!Object.keys(kwargs).length) return undefined
    throw new NamedError('TypeError', `arguments by name have no position: the signature of ${wire[0]} cannot be read: ${text}`)
  }

  #signatureTextOf([name, , , id]: WireCall): string | undefined {
    if (!id) return this.#texts.get(name)
    const held = this.#objects.get(Number(id))
    return held && wordsIn(held.members.methods, memberOf(name))?.signature
  }

  // -- answers

  value(value: unknown): Answer {
    return [valueKind, this.#toJsonOf('the answer', value), '', '']
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

  /** The same at once: a gate or a function that is not done by then has failed. */
  answerSync(calls: readonly WireCall[], waits: boolean): readonly Answer[] {
    return calls.map((call) => {
      const answer = this.#begin(call, waits, true)
      if (!(answer instanceof Promise)) return answer
      return Registry.error(new NamedError('RuntimeError', `${call[0]} is not done at once: use run(), and not runSync()`))
    })
  }

  #begin(wire: WireCall, waits: boolean, isSync = false): Answer | Promise<Answer> {
    const span = callBegins(this.#knownName(wire))
    try {
      const { call, given } = this.#madeOf(wire)
      const called = this.#functionOf(wire, waits)
      const make = (): unknown => (called === LATER ? LATER : called(...given))
      const made = span.within(() => this.#gated(call, make, isSync))
      if (isThenable(made)) return this.#settled(call, made, waits, span)
      return this.#answerOf(call, made, waits, span)
    } catch (error) {
      span.fail(error)
      return Registry.error(error)
    }
  }

  // What the function gives, where the gate lets the call pass; LATER where the gate says so; a promise where the gate gives one.
  #gated(call: FunctionCall, make: () => unknown, isSync: boolean): unknown {
    const allowed = this.#gate ? this.#gate(call) : true
    if (!isThenable(allowed)) return this.#passes(call, allowed) ? make() : LATER
    const made = Promise.resolve(allowed).then((said) => (isSync ? undefined : this.#passes(call, said) ? make() : LATER))
    if (!isSync) return made
    made.catch(() => {})
    throw new NamedError(
      'RuntimeError',
      `the gate does not say at once whether ${call.name} may be called: use run(), and not runSync(), or a gate that gives no promise`,
    )
  }

  // Throws where the gate refuses; false: the call waits.
  #passes(call: FunctionCall, allowed: unknown): boolean {
    if (allowed === true) return true
    if (allowed === LATER) return false
    if (allowed === false || allowed === undefined || allowed === null)
      throw new NamedError('PermissionError', `the call of ${call.name} was refused`)
    const why =
      `the gate gave ${typeof allowed === 'object' ? classOf(allowed) : String(allowed)} for a call of ${call.name}: ` +
      'a gate gives true, false (or nothing) or LATER, or throws why not'
    if (!this.#hasWarned) process.emitWarning(why, { type: 'MembraneWarning', detail: 'The call was refused, as all like it are.' })
    this.#hasWarned = true
    throw new NamedError('GateError', why)
  }

  #answerOf(call: FunctionCall, value: unknown, waits: boolean, span: CallSpan): Answer {
    if (value === LATER) {
      if (!waits) throw new NamedError('RuntimeError', `${call.name} is answered later: use start(), and not run()`)
      span.wait()
      return [laterKind, '', '', '']
    }
    const answer: Answer = [valueKind, this.#toJsonOf(`what ${call.name} returned`, value), '', '']
    span.end()
    return answer
  }

  async #settled(call: FunctionCall, given: PromiseLike<unknown>, waits: boolean, span: CallSpan): Promise<Answer> {
    try {
      return this.#answerOf(call, await given, waits, span)
    } catch (error) {
      span.fail(error)
      return Registry.error(error)
    }
  }

  /** The function's name; undefined where it is no name of the embedder's. */
  #knownName([name, , , id]: WireCall): string | undefined {
    if (!id) return this.#functions.has(name) ? name : undefined
    const held = this.#objects.get(Number(id))
    const member = memberOf(name)
    if (!held || !(held.methods.includes(member) || held.attributes.includes(member))) return undefined
    return `${classOf(held.value)}.${member}`
  }

  #functionOf([name, , , id]: WireCall, waits: boolean): Callable | Later {
    if (!id) {
      const found = this.#functions.get(name)
      if (found) return found
      if (waits) return LATER
      throw new NamedError('NameError', `there is no function ${name}`)
    }
    const { value, methods, attributes } = this.#held({ id: Number(id), type: name.slice(0, name.lastIndexOf('.')) })
    const member = memberOf(name)
    const members = value as Record<string, unknown>
    if (attributes.includes(member)) return () => members[member]
    if (!methods.includes(member)) throw new NamedError('AttributeError', `${classOf(value)} has no method ${member}`)
    return (...args) => (members[member] as Callable).apply(value, args)
  }
}
