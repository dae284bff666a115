// What a session's programs are given, as the text of Python stubs: for type checkers, and for a model's prompt.
// The same as python/membrane/_stubs.py makes of Python's own functions.

import { Registry, type Functions, type FunctionWords, type HostType, type Inputs, type Modules, type TypeWords } from './functions.js'
import { checkOptions } from './given.js'
import { partsOf, placesOf } from './signatures.js'

/** The stub of the names that a session has without an import. */
export const sessionStub = '__builtins__'

const head = 'import collections.abc, datetime, decimal, typing, uuid\nfrom typing import *\n'
const keywords = new Set(
  ('False None True and as assert async await break class continue def del elif else except finally for from global if import in is ' +
    'lambda nonlocal not or pass raise return try while with yield').split(' '),
)
const isName = (text: string): boolean => /^[A-Za-z_]\w*$/.test(text) && !keywords.has(text)
const mostItems = 100
const mostDepth = 4
const mostKinds = 4

/**
 * Of a registry as it stands; its object types may become more while programs run.
 *
 * files: text by the module's name. signatures: the line of each function and method, members: the names in each module and type; both
 * by the names that a type checker writes.
 */
export class Stubs {
  readonly files = new Map<string, string>()
  readonly signatures = new Map<string, string>()
  readonly members = new Map<string, readonly string[]>()
  readonly #typesAlone: string

  constructor(registry: Registry) {
    const types = registry.types.map((each) => this.#type(each))
    const inputs = typesOfInputs(registry.inputs).map(([name, kind]) => `${name}: ${kind}\n`)
    this.#typesAlone = types.join('\n')
    this.files.set(sessionStub, [...types, ...this.#functions('', registry), ...inputs].join('\n'))
    for (const [module, doc] of registry.modules) {
      const said = doc ? [`${docOf(doc, '')}\n`] : []
      this.files.set(module, [...said, ...this.#functions(module, registry)].join('\n'))
    }
  }

  /** A whole .pyi file; ofScript: as a script sees it, which has none of the session's names. */
  file(module: string, ofScript: boolean): string {
    return head + (ofScript && module === sessionStub ? this.#typesAlone : this.files.get(module)!)
  }

  /** All of them, one after another. */
  text(): string {
    return [...this.files]
      .filter(([module, text]) => module !== sessionStub || text)
      .map(([module, text]) => (module === sessionStub ? text : `# module ${module}\n\n${text}`))
      .join('\n')
  }

  #functions(module: string, registry: Registry): string[] {
    const words = registry.words.filter((each) => each.module === module && isName(each.name))
    if (module) this.members.set(module, words.map((each) => each.name))
    return words.map((each) => this.#function(each.name, each, ''))
  }

  #function(knownAs: string, words: FunctionWords, indent: string): string {
    const line = `${words.isAsync ? 'async def' : 'def'} ${words.name}${signatureOf(words.signature, indent !== '')}:`
    this.signatures.set(knownAs, line.slice(0, -1).replace('(self, ', '(').replace('(self)', '()'))
    return words.doc ? `${indent}${line}\n${docOf(words.doc, `${indent}    `)}\n` : `${indent}${line} ...\n`
  }

  #type(of: TypeWords): string {
    this.members.set(of.name, [...of.attributes, ...of.methods.map((each) => each.name)])
    const body = of.doc ? [`${docOf(of.doc, '    ')}\n`] : []
    for (const name of of.attributes.filter(isName)) {
      const kind = of.attributeTypes[name] ?? 'Any'
      body.push(`    @property\n    def ${name}(self) -> ${isExpression(kind) ? kind : 'Any'}: ...\n`)
    }
    for (const each of of.methods.filter(({ name }) => isName(name))) body.push(this.#function(`${of.name}.${each.name}`, each, '    '))
    return `class ${of.name}:\n${body.join('') || '    ...\n'}`
  }
}

/** Other quotes and backslashes stay what they are in the text. */
function docOf(text: string, indent: string): string {
  const said = text.replaceAll('\\', '\\\\').replaceAll('"""', '\\"\\"\\"')
  const lines = `"""${said}${said.endsWith('"') ? ' ' : ''}"""`.split('\n')
  return lines.map((line) => line && indent + line).join('\n')
}

// -- signatures -------------------------------------------------------------------------------------------------------

const isExpression = (text: string): boolean => text !== '' && placesOf(',:=', text)?.length === 0

/** Of what an embedder wrote: each parameter with a type, and what is no literal as "..."; anything at all where it is no signature. */
function signatureOf(given: string, inClass: boolean): string {
  const own = inClass ? ['self'] : []
  const parts = partsOf(given)
  const all = parts?.parameters.map(parameterOf)
  const parameters = all?.every((each) => each !== undefined) ? all : undefined
  const rest = parts?.rest ?? ''
  const result = rest === '' ? 'Any' : rest.startsWith('->') ? rest.slice(2).trim() : ''
  if (!parameters || !isExpression(result)) return `(${[...own, '*args: Any', '**kwargs: Any'].join(', ')}) -> Any`
  return `(${[...own, ...parameters].join(', ')}) -> ${result}`
}

const isLiteral = (text: string): boolean => /^(None|True|False|-?[\d_]+(\.\d*)?(e[+-]?\d+)?|b?'[^']*'|b?"[^"]*")$/i.test(text)

function parameterOf(text: string): string | undefined {
  if (text === '/' || text === '*') return text
  const equals = placesOf('=', text)?.[0]
  const declared = text.slice(0, equals).trim()
  const colon = placesOf(':', declared)?.[0]
  const name = declared.slice(0, colon).trim()
  const kind = colon === undefined ? 'Any' : declared.slice(colon + 1).trim()
  if (!isName(name.replace(/^\*{1,2}/, '')) || !isExpression(kind)) return undefined
  if (equals === undefined) return `${name}: ${kind}`
  const value = text.slice(equals + 1).trim()
  return `${name}: ${kind} = ${isLiteral(value) ? value : '...'}`
}

// -- inputs -----------------------------------------------------------------------------------------------------------

/** The type of each input, as source; of those that have names of variables. */
export function typesOfInputs(inputs: Inputs): readonly (readonly [string, string])[] {
  return inputs.filter(([name]) => isName(name)).map(([name, json]) => [name, typeOfWire(JSON.parse(json), 0)])
}

function typeOfWire(value: unknown, depth: number): string {
  if (value === null) return 'None'
  if (typeof value === 'boolean') return 'bool'
  if (typeof value === 'string') return 'str'
  if (typeof value === 'number') return /[.e]/.test(JSON.stringify(value)) ? 'float' : 'int'
  if (depth === mostDepth) return 'Any'
  if (Array.isArray(value)) return `list[${unionOf(value, depth)}]`
  const entries = Object.entries(value as object)
  if (entries.length === 1 && entries[0]![0].startsWith('$')) return typeOfForm(entries[0]![0], entries[0]![1], depth)
  return `dict[str, ${unionOf(entries.map(([, each]) => each as unknown), depth)}]`
}

const kindsOfForms: Readonly<Record<string, string>> = {
  $bytes: 'bytes',
  $integer: 'int',
  $number: 'float',
}

function typeOfForm(form: string, content: unknown, depth: number): string {
  if (form === '$set') return `set[${unionOf(content as unknown[], depth)}]`
  if (form === '$map') {
    const entries = content as [unknown, unknown][]
    const [keys, values] = [0, 1].map((i) => unionOf(entries.map((each) => each[i]), depth))
    return `dict[${keys}, ${values}]`
  }
  if (form === '$time') return 'datetime.datetime'
  if (form === '$object') return (content as { type: string }).type
  return kindsOfForms[form] ?? 'Any'
}

function unionOf(values: readonly unknown[], depth: number): string {
  const kinds = new Set(values.slice(0, mostItems).map((each) => typeOfWire(each, depth + 1)))
  return kinds.size > 0 && kinds.size <= mostKinds && !kinds.has('Any') ? [...kinds].join(' | ') : 'Any'
}

/** What a Session of these gives its programs. */
export interface StubsOptions {
  functions?: Functions
  modules?: Modules
  types?: readonly HostType[]
  inputs?: Readonly<Record<string, unknown>>
}

/**
 * What a Session of these gives its programs, as the text of Python stubs with docstrings: good in a model's prompt. The same as
 * Session.stubs(), before there is one.
 */
export function stubs(options: StubsOptions): string {
  checkOptions('stubs', options, ['functions', 'modules', 'types', 'inputs'])
  return new Stubs(new Registry(options)).text()
}
