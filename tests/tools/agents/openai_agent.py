"""An agent on the MCP servers of the OpenAI Agents SDK."""

import contextlib
import os

import mcp.types as types
from agents.mcp import MCPServerStdio, MCPServerStreamableHttp
from operations import Heard, all_pages, plain, run


@contextlib.asynccontextmanager
async def connect(job):
    agent = Agent(job)
    settings = {"client_session_timeout_seconds": 60, "message_handler": agent.told}
    if job.get("url"):
        server = MCPServerStreamableHttp({"url": job["url"]}, **settings)
    else:
        command, *words = job["command"]
        server = MCPServerStdio({"command": command, "args": words, "env": dict(os.environ) | job["env"]}, **settings)
    async with server as agent.mcp:
        yield agent


class Agent:
    def __init__(self, job):
        self.prefix = job["prefix"]
        self.heard = Heard()

    async def told(self, message):
        if isinstance(message, types.ServerNotification) and isinstance(message.root, types.LoggingMessageNotification):
            self.heard.logs.append(plain(message.root.params))

    async def tools(self, _step):
        return await self.mcp.list_tools()

    async def call(self, step):
        return await self.mcp.call_tool(self.prefix + step["tool"], step["arguments"])

    error = call

    async def log(self, step):
        """This library sets no level, so the server's own holds."""
        self.heard.logs.clear()
        result = await self.call(step)
        return {"result": result, "logs": await self.heard.until(self.heard.logs, step["lines"])}

    async def prompts(self, _step):
        return (await self.mcp.list_prompts()).prompts

    async def prompt(self, step):
        return await self.mcp.get_prompt(step["prefix"] + step["name"], step["arguments"])

    async def resources(self, _step):
        return await all_pages(self.mcp.list_resources, "resources")

    async def templates(self, _step):
        return await all_pages(self.mcp.list_resource_templates, "resourceTemplates")

    async def resource(self, step):
        return await self.mcp.read_resource(step["uri"])

    resource_error = resource


if __name__ == "__main__":
    run(connect)
