// What callers give: whether it is of the right kind, and the error that says so where it is not.

/** As messages name it: "an array", "a Map", "a number", "null". */
export function kindOf(value: unknown): string {
  if (value === null || value === undefined) return String(value)
  if (Array.isArray(value)) return 'an array'
  if (typeof value !== 'object') return `a ${typeof value}`
  const name = classOf(value)
  return `${/^[AEIOU]/.test(name) ? 'an' : 'a'} ${name}`
}

export const classOf = (value: object): string => (value.constructor as { name?: string } | undefined)?.name || 'Object'

export const isThenable = (value: unknown): value is PromiseLike<unknown> =>
  typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function'

/** An object of names and values: no array, Map, Date or the like. */
export const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && Object.prototype.toString.call(value) === '[object Object]'

/** Whether the value is of the kind, and the kind in words, as they follow "is". */
export type Kind = readonly [(value: unknown) => boolean, string]
export type Kinds = Readonly<Record<string, Kind>>

const isText = (value: unknown): boolean => typeof value === 'string'
const areTexts = (value: unknown): boolean => Array.isArray(value) && value.every(isText)
const isFunction = (value: unknown): boolean => typeof value === 'function'
const isFlag: Kind = [(value) => typeof value === 'boolean', 'true or false']
const isLimit = (value: unknown): boolean => ['string', 'number', 'bigint'].includes(typeof value)
const isSignal = (value: unknown): boolean => typeof value === 'object' && value !== null && 'aborted' in value && 'addEventListener' in value
const isHostType = (value: unknown): boolean => isRecord(value) && typeof value['type'] === 'function'
const listener: Kind = [isFunction, 'a function of a text']
export const namesAndValues: Kind = [isRecord, 'an object of names and their values: { rows: [1, 2] }']
export const progress: Kind = [isFunction, 'a function of a step']

// Those of docs/walls.md.
const walls: readonly string[] = [
  ...['user_namespace', 'pid_namespace', 'mount_namespace', 'net_namespace', 'ipc_namespace', 'uts_namespace', 'cgroup_namespace', 'capabilities'],
  ...['no_new_privileges', 'system_calls', 'resource_limits', 'descriptors', 'control_group', 'parent_death'],
]

export const kindsOfSession: Kinds = {
  allow: [(value) => isText(value) || areTexts(value), "a grant, or an array of grants: ['fs:read:./data']"],
  limits: [(value) => isRecord(value) && Object.values(value).every(isLimit), "an object of numbers and texts: { fuel: '2e9' }"],
  policy: [(value) => isText(value) || isRecord(value), 'an object, or a text of TOML, as docs/policy.md has it'],
  functions: [
    (value) => isRecord(value) || (typeof value === 'object' && value !== null && Symbol.iterator in value && !(value instanceof Map)),
    'an object of names and functions: { price: (item) => 350 }; or an array of functions that have names',
  ],
  modules: [isRecord, 'an object of names and their functions: { shop: { price } }'],
  types: [(value) => Array.isArray(value) && value.every(isHostType), "an array of classes and what they allow: [{ type: Account, methods: ['deposit'] }]"],
  gate: [isFunction, 'a function of a call, which gives true, false or LATER'],
  typeCheck: [(value) => typeof value === 'boolean' || isRecord(value), 'true, false, or an object'],
  onStdout: listener,
  onStderr: listener,
  isolated: isFlag,
  acceptedMissingWalls: [
    (value) => areTexts(value) && (value as string[]).every((each) => walls.includes(each)),
    `an array of names of walls, which are ${walls.join(', ')}`,
  ],
  inputs: namesAndValues,
}

const members: Kind = [(value) => areTexts(value) || isRecord(value), "an array of names: ['deposit']; or an object of names and what programs see of them"]
export const kindsOfMembers: Kinds = { methods: members, attributes: members }

export const kindsOfTurn: Kinds = {
  name: [isText, 'a text, which tracebacks show'],
  script: isFlag,
  arguments: [areTexts, "an array of texts: ['--verbose']"],
  stdin: [isText, 'a text'],
  inputs: namesAndValues,
  signal: [isSignal, 'the signal of an AbortController'],
}

/** Options of another name or kind are a mistake of who wrote them. */
export function checkOptions(call: string, options: unknown, known: readonly string[], kinds: Kinds = {}): void {
  if (!isRecord(options)) throw new TypeError(`${call} takes its options as an object, and was given ${kindOf(options)}; it has ${known.join(', ')}`)
  for (const [name, value] of Object.entries(options)) {
    if (!known.includes(name)) throw new TypeError(`${call} has no option "${name}"; it has ${known.join(', ')}`)
    const kind = Object.hasOwn(kinds, name) ? kinds[name] : undefined
    if (kind && value !== undefined) checkKind(`the option ${name} of ${call}`, value, kind)
  }
}

export function checkKind(what: string, value: unknown, [isOfKind, words]: Kind): void {
  if (!isOfKind(value)) throw new TypeError(`${what} is ${words}; ${kindOf(value)} was given${isOfKind === isRecord ? '' : inPart(value)}`)
}

// Where the whole is of the right kind, what is in it is not.
const inPart = (value: unknown): string => (Array.isArray(value) || isRecord(value) ? ' with something else in it' : '')

export function checkLanguage(call: string, language: unknown): void {
  if (typeof language === 'string') return
  throw new TypeError(`the language comes first: ${call}('python', {…}); ${kindOf(language)} was given in its place`)
}
