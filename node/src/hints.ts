// Rewrites messages for users of this package: the service names parts of its REST interface, and the engine those of C++.

const phrases: readonly (readonly [string | RegExp, string])[] = [
  [
    'The list of files says what there is: files.list() of the clients, GET …/files/list.',
    'sandbox.files.list() says what there is.',
  ],
  ['GET /v1/templates lists them.', 'membrane templates lists them.'],
  ['GET /v1/snapshots lists them.', 'new Snapshots().list() lists them.'],
  ['GET /v1/secrets lists their names.', 'new Secrets().list() lists their names.'],
  [/Resume it: membrane resume \S+, or POST \S+\/resume\./g, 'Resume it: sandbox.resume().'],
  [/DELETE \/v1\/templates\/(\S+?)\.?$/g, "new Snapshots().removeTemplate('$1')."],
  [/PUT \/v1\/secrets\/(\w+)/g, "new Secrets().put('$1', …)"],
  ['GET …/contexts lists them.', 'sandbox.contexts.list() lists them.'],
  ['GET …/policy says', 'sandbox.policy() says'],
  [/membrane approvals \S+, or GET …\/approvals, lists/g, 'sandbox.approvals.list() lists'],
  ['(membrane cp, PUT …/files)', '(sandbox.files.write())'],
  ['(PUT …/files)', '(sandbox.files.write())'],
  ['timeout_ms; timeout of the clients; --timeout of membrane exec.', '{ timeout }.'],
  ['with "context" left out', 'without { context }'],
  ['"open_stdin": true', '{ openStdin: true }'],
  ['"background": true', '{ background: true }'],
  ['"seal": true', '{ seal: true }'],
  [/GET \/openapi\.json describes [^.]*\./g, ''],
]

// Members of requests, and the options that set them.
const options: Readonly<Record<string, string>> = {
  ttl_s: 'ttl',
  idle_timeout_s: 'idleTimeout',
  timeout_ms: 'timeout',
  ...Object.fromEntries(
    [
      'command',
      'context',
      'count',
      'directory',
      'env',
      'labels',
      'metadata',
      'packages',
      'seal',
      'since',
      'snapshot',
      'stdin',
      'template',
      'terminal',
    ].map((name) => [name, name]),
  ),
}
const names = Object.keys(options).join('|')
const value = new RegExp(`"(${names})": ("[^"]*"|\\[[^\\]]*\\])`, 'g')
const member = new RegExp(`"(${names})((?:\\.\\w+|\\[\\d+\\])*)"`, 'g')
const limit = /limits\.(\w+) of the sandbox's policy(?: \("limits": (\{[^{}]*\})(?:, beside what it grants)?\))?/g
// The engine's messages for C++ embedders, rewritten for options of Session.create().
const granted = /Policy::allow\(("(?:[^"\\]|\\.)*)"\)(:\.{1,2})?/g // group 2: the end of a grant whose path is a dot
const limited = /Policy::limit\("(\w+)", ("[^"]*")\)/g
const asked = /It would be allowed by allow: \["(ai|ask)"\]/g
const bound = /"(ttl_s|idle_timeout_s|timeout_ms)" must be (at most|at least) (\d{1,15})\b/g
const unitsMs: readonly (readonly [string, number])[] = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1000],
  ['ms', 1],
]

function timeOf(name: string, amount: string): string {
  const amountMs = Number(amount) * (name.endsWith('_ms') ? 1 : 1000)
  const [unit, size] = unitsMs.find(([, size]) => amountMs % size === 0)!
  return `${amountMs / size}${unit}`
}

export function inWordsOfClient(text: string): string {
  for (const [rest, ours] of phrases) text = text.replaceAll(rest, ours)
  return text
    .replace(limit, (_, name, limits) => `limits.${name}: sandbox.update({ limits: ${limits ?? `{ ${name}: … }`} })`)
    .replace(granted, (_, grant: string, path = '') => `allow: [${grant}${path}"]`)
    .replace(limited, (_, name: string, amount: string) => `limits: { ${name}: ${amount} }`)
    .replace(bound, (_, name, which, amount) => `${options[name]} must be ${which} ${timeOf(name, amount)}`)
    .replace(value, (_, name, given) => `{ ${options[name]}: ${given} }`)
    .replace(member, (_, name, rest) => options[name] + rest)
}

// The engine's messages for users of the command, rewritten for sessions.
const ofSession: readonly (readonly [RegExp, string])[] = [
  [/membrane languages add (python|js)\b(?! module\.wasm)(?: \(docs\/languages\.md says what that brings\))?/g, 'npx membrane-languages add $1'],
  [
    /\b(Add|add) it: membrane languages add \S+ module\.wasm/g,
    '$1 its folder to the directory that MEMBRANE_LANGUAGES names (docs/languages.md); Python and JavaScript: npx membrane-languages add python js',
  ],
  [/Bring it by --with (\S+?),/g, "Give it to the session by policy: { packages: { javascript: ['$1'] } },"],
  [/, or run a command: membrane run --kind linux\b/g, ", or use a Linux sandbox of a service: Sandbox.create({ template: 'linux' })"],
  [/membrane doctor says more\. /g, ''],
  [/Run code that calls one first\./g, 'session.start() begins a turn that waits when it calls a function that is answered later.'],
  [/Give the bytes that keep\(\) made\./g, 'Give what dump() returned.'],
  [/\(accepted_missing_walls\)/g, '(acceptedMissingWalls)'],
  [/: membrane repl --lang js\b/g, ': session.run()'],
  [/membrane languages add --file\b/g, 'its language.json (docs/languages.md)'],
  [/; a program is run by: membrane run \S+/g, ''],
  [/--allow '([^']+)' would allow it/g, "allow: ['$1'] would allow it"],
  [/--allow ([^\s']+) would allow it/g, "allow: ['$1'] would allow it"],
  [/grant that directory: --allow (\S*[^\s.])/g, "grant that directory: allow: ['$1']"],
]

// Messages of the engine that have no hint, and the hint for this package.
const mended: readonly (readonly [string, string])[] = [
  ['No model is configured.', 'Give the session one: model, a function of a ModelRequest that returns a string.'],
  ['The model embeds no text.', 'Give the session one that does: model: { complete, embed }.'],
  ['No one is there to answer.', 'Give the session someone to ask: ask, a function of the question that returns a string.'],
  [
    "without a person's yes, and nobody answered:",
    'Give the session an approver: approve, a function of an EgressQuestion that returns true or false.',
  ],
]

/** Returns a hint for an error of the engine that has none. */
export const hintOfSession = (message: string): string | undefined => mended.find(([said]) => message.includes(said))?.[1]

/** The hint for receipts without a key. file: where the key was looked for. */
export const hintOfKeys = (file: string): string =>
  `There is none in ${file}: new Receipts(…, { makesKey: true }) or the command membrane keys generate makes one there, and keyFile names another file.`

/** Rewrites a message of the engine about a session, to name options of Session.create() and functions of this package. */
export function inWordsOfSession(text: string): string {
  for (const [engines, ours] of ofSession) text = text.replaceAll(engines, ours)
  return inWordsOfClient(text).replace(asked, (said, which: string) => `${said}, with ${which === 'ai' ? 'model' : 'ask'}, a function that answers`)
}
