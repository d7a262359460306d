"""An agent on the Python SDK 2.x: `--era legacy` opens with initialize, `--era modern` probes with server/discover."""

import contextlib
import sys

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from steps import all_pages, as_json, cancel_by_scope, parse_arguments, run


@contextlib.asynccontextmanager
async def connect(options):
    async with contextlib.AsyncExitStack() as exits:
        if options.url:
            settings = httpx2.AsyncClient(headers=options.headers, timeout=httpx2.Timeout(30, read=300))
            http = await exits.enter_async_context(settings)
            server = streamable_http_client(options.url, http_client=http)
        else:
            command, *args = options.stdio
            server = StdioServerParameters(command=command, args=args, env=options.env)
        mode = "auto" if options.era == "modern" else "legacy"
        yield Agent(await exits.enter_async_context(Client(server, mode=mode)))


class Agent:
    def __init__(self, client):
        self.client = client
        self.version = client.protocol_version

    async def list_tools(self):
        return await all_pages(lambda cursor: self.client.list_tools(cursor=cursor), "tools")

    async def list_resources(self):
        return await all_pages(lambda cursor: self.client.list_resources(cursor=cursor), "resources")

    async def list_prompts(self):
        return await all_pages(lambda cursor: self.client.list_prompts(cursor=cursor), "prompts")

    async def call(self, name, arguments, progress):
        return as_json(await self.client.call_tool(name, arguments, progress_callback=progress))

    async def read_resource(self, uri):
        return as_json(await self.client.read_resource(uri))["contents"]

    async def get_prompt(self, name, arguments):
        return as_json(await self.client.get_prompt(name, arguments))["messages"]

    async def cancel_call(self, name, arguments):
        return await cancel_by_scope(lambda progress: self.call(name, arguments, progress))


if __name__ == "__main__":
    run(connect, parse_arguments(sys.argv[1:]))
