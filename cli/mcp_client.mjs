// One conversation with a server by a client of the TypeScript SDK, for mcp_testing.py: prints the result of
// each step as one JSON object.
//
//   node mcp_client.mjs v1|v2 legacy|REVISION URL|COMMAND [ARGUMENT…]
//
// To a URL it sends the token in MCP_TOKEN, if there is one.

const [, , generation, era, ...target] = process.argv
const token = process.env.MCP_TOKEN
const load = async (...names) => Object.assign({}, ...(await Promise.all(names.map((name) => import(name)))))
const sdk = generation === 'v1'
  ? await load('@modelcontextprotocol/sdk/client/index.js', '@modelcontextprotocol/sdk/client/stdio.js',
               '@modelcontextprotocol/sdk/client/streamableHttp.js')
  : await load('@modelcontextprotocol/client', '@modelcontextprotocol/client/stdio')
const options = era === 'legacy' ? {} : { versionNegotiation: { mode: { pin: era } } }
const client = new sdk.Client({ name: 'test', version: '1' }, options)
const transport = target[0].startsWith('http')
  ? new sdk.StreamableHTTPClientTransport(new URL(target[0]), token ? { requestInit: { headers: { Authorization: `Bearer ${token}` } } } : {})
  : new sdk.StdioClientTransport({ command: target[0], args: target.slice(1), stderr: 'inherit', env: process.env })
const call = (name, args, how) =>
  generation === 'v1' ? client.callTool({ name, arguments: args }, undefined, how)
                      : client.callTool({ name, arguments: args }, how)
const failure = async (promise) => promise.then(() => null, (error) => ({ code: error.code, message: String(error.message ?? error) }))

const found = { errors: [] }
// In this client, an answer that is read together with earlier messages can overtake them.
client.onerror = (error) => /unknown token/.test(error) || found.errors.push(String(error))
await client.connect(transport)
found.server = client.getServerVersion().name
found.revision = client.getNegotiatedProtocolVersion?.() ?? null
found.tools = (await client.listTools()).tools.map((tool) => tool.name)

found.run = (await call('run_code', { language: 'python', code: 'print("a")\n41 + 1' })).structuredContent
found.mended = (await call('run_code', { language: 'pyton', code: '1' })).content[0].text
found.failed = (await call('run_code', { language: 'python', code: '1 / 0' })).isError

const session = (await call('create_session', { language: 'python' })).structuredContent.session
await call('run_in_session', { session, code: 'x = 40\n_ = open("/tmp/a b", "w").write("hi")' })
const [fork] = (await call('fork_session', { session })).structuredContent.sessions
found.forked = (await call('run_in_session', { session: fork.session, code: 'x + 2' })).structuredContent.result
const { resources } = await client.listResources()
const file = resources.find((each) => each.uri.startsWith(`membrane://sessions/${session}/files/`))
found.file = (await client.readResource({ uri: file.uri })).contents[0].text
found.templates = (await client.listResourceTemplates()).resourceTemplates.length

const stop = new AbortController()
found.aborted = await failure(call('run_in_session', { session, code: 'print("on", flush=True)\nwhile True: pass' },
                                   { signal: stop.signal, onprogress: (p) => p.message === 'on\n' && stop.abort('enough') }))
for (;;) {  // until the session is free
  const again = await call('run_in_session', { session, code: 'x' })
  if (again.isError) continue
  found.after = again.structuredContent.result
  break
}
found.unknown = await failure(call('no_such_tool', {}))
found.closed = (await call('close_session', { session })).isError
await client.close()
console.log(JSON.stringify(found))
