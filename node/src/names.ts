// Names that programs cannot have for something else.

// Without these JavaScript is none: programs, and what runs them, are made of them.
const ofJavaScript: ReadonlySet<string> = new Set([
  ...['globalThis', 'undefined', 'eval', 'Infinity', 'NaN', 'AggregateError', 'Array', 'ArrayBuffer', 'Atomics', 'BigInt', 'BigInt64Array', 'BigUint64Array'],
  ...['Boolean', 'DataView', 'Date', 'Error', 'EvalError', 'FinalizationRegistry', 'Float32Array', 'Float64Array', 'Function', 'Int16Array', 'Int32Array'],
  ...['Int8Array', 'Intl', 'Iterator', 'JSON', 'Map', 'Math', 'Number', 'Object', 'Promise', 'Proxy', 'RangeError', 'ReferenceError', 'Reflect', 'RegExp', 'Set'],
  ...['SharedArrayBuffer', 'String', 'Symbol', 'SyntaxError', 'TypeError', 'URIError', 'Uint16Array', 'Uint32Array', 'Uint8Array', 'Uint8ClampedArray'],
  ...['WeakMap', 'WeakRef', 'WeakSet', 'membrane'],
])

/** TypeError for a name of a session's own that is the language's. */
export function checkNames(language: string, what: 'input' | 'function', names: Iterable<string>): void {
  if (language !== 'js') return
  for (const name of names)
    if (ofJavaScript.has(name)) throw new TypeError(`the ${what} ${name} has the name of a global of JavaScript's own: give it another one, as ${name}_`)
}
