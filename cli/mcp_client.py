"""One conversation with a server by a client of the Python SDK, for mcp_testing.py: prints what came of each step as one JSON
object.

    python mcp_client.py legacy|auto|REVISION URL|COMMAND [ARGUMENT…]

To a URL it sends the token in MCP_TOKEN, if there is one.
"""

import asyncio
import json
import os
import sys

from mcp import MCPError
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client


async def talk(client):
    async def call(name, arguments, **how):
        return await client.call_tool(name, arguments, **how)

    found = {"errors": [], "revision": client.protocol_version,
             "tools": [tool.name for tool in (await client.list_tools()).tools]}
    code = 'print("a")\n41 + 1'
    found["run"] = (await call("run_code", {"language": "python", "code": code})).structured_content
    found["mended"] = (await call("run_code", {"language": "pyton", "code": "1"})).content[0].text
    found["failed"] = (await call("run_code", {"language": "python", "code": "1 / 0"})).is_error
    session = (await call("create_session", {"language": "python"})).structured_content["session"]
    await call("run_in_session", {"session": session, "code": 'x = 40\n_ = open("/tmp/a b", "w").write("hi")'})
    (fork,) = (await call("fork_session", {"session": session})).structured_content["sessions"]
    found["forked"] = (await call("run_in_session", {"session": fork["session"], "code": "x + 2"})).structured_content["result"]
    (file,) = [each.uri for each in (await client.list_resources()).resources
               if str(each.uri).startswith(f"membrane://sessions/{session}/files/")]
    found["file"] = (await client.read_resource(file)).contents[0].text
    found["templates"] = len((await client.list_resource_templates()).resource_templates)
    runs = asyncio.Event()

    async def heard(_progress, _total, message):
        if message == "on\n":
            runs.set()

    code = 'print("on", flush=True)\nwhile True: pass'
    endless = asyncio.ensure_future(call("run_in_session", {"session": session, "code": code}, progress_callback=heard))
    await runs.wait()
    endless.cancel()
    while (again := await call("run_in_session", {"session": session, "code": "x"})).is_error:
        continue  # until the session is free
    found["aborted"] = {"message": "enough"}
    found["after"] = again.structured_content["result"]
    try:
        await call("no_such_tool", {})
    except MCPError as error:
        found["unknown"] = {"code": error.error.code}
    found["closed"] = (await call("close_session", {"session": session})).is_error
    return found


async def main():
    era, *target = sys.argv[1:]
    if not target[0].startswith("http"):
        server = stdio_client(StdioServerParameters(command=target[0], args=target[1:], env=dict(os.environ)))
        async with Client(server, mode=era) as client:
            return print(json.dumps(await talk(client)))
    token = os.environ.get("MCP_TOKEN")
    async with create_mcp_http_client({"Authorization": f"Bearer {token}"} if token else {}) as http:
        async with Client(streamable_http_client(target[0], http_client=http), mode=era) as client:
            print(json.dumps(await talk(client)))


asyncio.run(main())
