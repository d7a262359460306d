"""An agent on the Python SDK 2.x: `--era legacy` opens with initialize, `--era modern` probes with server/discover."""

import contextlib
import sys

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from steps import all_pages, as_json, cancel_by_scope, parse_arguments, run


class Agent:
    def __init__(self, options):
        self.options = options
        self.exits = contextlib.AsyncExitStack()

    async def __aenter__(self):
        if self.options.url:
            settings = httpx2.AsyncClient(headers=self.options.headers, timeout=httpx2.Timeout(30, read=300))
            http = await self.exits.enter_async_context(settings)
            server = streamable_http_client(self.options.url, http_client=http)
        else:
            command, *args = self.options.stdio
            server = StdioServerParameters(command=command, args=args, env=self.options.env)
        mode = "auto" if self.options.era == "modern" else "legacy"
        self.client = await self.exits.enter_async_context(Client(server, mode=mode))
        self.version = self.client.protocol_version
        return self

    async def __aexit__(self, *error):
        await self.exits.aclose()

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
    run(Agent, parse_arguments(sys.argv[1:]))
