// Tests what a hostile program can ask of the embedder by requests that it forges, past the functions that it was given.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HostObject, Session } from 'membrane'
import { noPython } from './common.mjs'

const asks = `
import json
from membrane import _door
def ask(**call):
    answer = json.loads(_door.exchange(json.dumps({"functions": [call]}).encode()))["answers"][0]
    return answer["value"] if "value" in answer else answer["error"]["message"]
`

class Account {
  balance = 100
  withdraw(amount) {
    return (this.balance -= amount)
  }
}
const held = (value) => new HostObject(value, { methods: ['withdraw'] })

async function sessionOf(options) {
  const session = await Session.create('python', options)
  assert.ok((await session.run(asks)).ok)
  return session
}

test('forged names pass no gate', { skip: noPython }, async () => {
  const account = new Account()
  const session = await sessionOf({ inputs: { account: held(account) }, gate: (call) => call.name !== 'Account.withdraw' })
  for (const name of ['Account.withdraw', 'X.withdraw', 'withdraw', 'shop.price\\nX.withdraw', ''])
    await session.run(`ask(call="${name}", arguments=[10], object=1)`)
  assert.equal(account.balance, 100)
  session.close()
})

test('keywords are not read as special values', { skip: noPython }, async () => {
  const given = []
  const session = await sessionOf({
    functions: { take: (...all) => void given.push(all) },
    inputs: { account: held(new Account()) },
    limits: { wall: '20 s' },
  })
  await session.run('ask(call="take", keywords={"$object": {"id": 1, "type": "Account"}})')
  assert.deepEqual(given, [[{ $object: { id: 1, type: 'Account' } }]])
  const lies = [
    '{"$bytes": {"length": 4000000000}}',
    '{"$bytes": 7}',
    '{"$integer": "9" * 1000000}',
    '{"$integer": "0x10"}',
    '{"$uuid": {"__proto__": {"admin": True}}}',
    '{"$decimal": []}',
    '{"$seconds": "1"}',
    '{"$time": {}}',
    '{"$map": [7]}',
    '{"$map": [{"length": 2}]}',
    '{"$set": {"length": 4000000000}}',
    '{"$tuple": "abc"}',
  ]
  for (const lie of lies) await session.run(`ask(call="take", arguments=[${lie}])`)
  assert.equal(given.length, 1)
  session.close()
})

test('objects belong to their session\'s alone', { skip: noPython }, async () => {
  const vault = held(new Account())
  const session = await sessionOf({ functions: { vault: () => vault }, inputs: { own: held(new Account()) } })
  const branch = session.fork()
  assert.equal((await session.run('vault().withdraw(1)')).text, '99')
  assert.equal((await branch.run('own.withdraw(1)')).text, '99')
  assert.match((await branch.run('ask(call="Account.withdraw", arguments=[1], object=2)')).text, /belongs to another/)
  assert.equal((await branch.run('vault().withdraw(1)')).text, '98')
  session.close()
  branch.close()
})
