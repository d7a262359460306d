"""An agent on mcpadapt, with which smolagents and other frameworks use MCP tools."""

import contextlib
import os

from mcp import StdioServerParameters
from mcpadapt.core import MCPAdapt, ToolAdapter
from operations import run


class Plain(ToolAdapter):
    """The least that a framework makes of a tool."""

    def adapt(self, func, mcp_tool):
        raise NotImplementedError

    def async_adapt(self, afunc, mcp_tool):
        return mcp_tool, afunc


@contextlib.asynccontextmanager
async def connect(job):
    if job.get("url"):
        target = {"url": job["url"], "transport": "streamable-http"}
    else:
        command, *words = job["command"]
        target = StdioServerParameters(command=command, args=words, env=dict(os.environ) | job["env"])
    async with MCPAdapt(target, Plain(), client_session_timeout_seconds=60.0) as found:
        yield Agent(job, found)


class Agent:
    def __init__(self, job, found):
        self.prefix = job["prefix"]
        self.found = found

    async def tools(self, _step):
        return [tool for tool, _ in self.found]

    async def call(self, step):
        by_name = {tool.name: call for tool, call in self.found}
        return await by_name[self.prefix + step["tool"]](step["arguments"])

    error = call


if __name__ == "__main__":
    run(connect)
