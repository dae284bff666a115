// Helpers for tests of sessions. These use dist/, and are skipped if it has no engine or the language is not installed.

import { existsSync, readFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { openLanguage, Session } from 'membrane'

async function whyNot(language) {
  try {
    await openLanguage(language)
    return false
  } catch (error) {
    return `${error.message}: ${error.hint}`
  }
}

export const noPython = await whyNot('python')
export const noJavaScript = await whyNot('js')

export function residentKib() {
  globalThis.gc?.()
  return Number(/VmRSS:\s*(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))[1])
}

/** A promise, and the functions that settle it. */
export function later() {
  const made = {}
  made.promise = new Promise((resolve, reject) => Object.assign(made, { resolve, reject }))
  return made
}

/** Whether ty is missing, which type checks need. */
export const noTy =
  !process.env.PATH.split(delimiter).some((folder) => folder && existsSync(join(folder, 'ty'))) && 'there is no ty in PATH'

/** A turn of a session with a short wall limit. A busy machine may use up the limit before the turn begins; then it is repeated. */
export async function inTime(session, code) {
  for (let tries = 100; ; --tries) {
    const result = await session.run(code)
    if (result.outcome !== 'timed_out' || tries === 0) return result
  }
}

/** A session for `act`, which is closed after it. */
export async function withSession(options, act, language = 'python') {
  const session = await Session.create(language, options)
  try {
    return await act(session)
  } finally {
    session.close()
  }
}
