"""An agent on the MCP toolset of Pydantic AI."""

import contextlib
import os

from fastmcp.client.transports import StdioTransport
from operations import PERSON, WORD, Heard, plain, run
from pydantic_ai.mcp import MCPToolset


@contextlib.asynccontextmanager
async def connect(job):
    if job.get("url"):
        target = job["url"]
    else:
        command, *words = job["command"]
        target = StdioTransport(command, words, env=dict(os.environ) | job["env"], keep_alive=False)
    agent = Agent(job)
    toolset = MCPToolset(
        target,
        tool_error_behavior="error",
        # The library's five seconds are too few for a server that starts on a busy machine.
        init_timeout=60,
        elicitation_handler=agent.elicited,
        sampling_handler=agent.sampled,
        log_handler=agent.logged,
        # It connects to no server that has no log, if a level is to be set.
        log_level="debug" if any(step["op"] == "log" for step in job["steps"]) else None,
        progress_handler=agent.heard.progressed,
        roots=[job["root"]],
    )
    async with toolset as agent.toolset:
        yield agent


class Agent:
    def __init__(self, job):
        self.prefix = job["prefix"]
        self.heard = Heard()

    async def elicited(self, message, _type, params, _context):
        self.heard.asked.append({"message": message, "params": plain(params)})
        return PERSON

    async def sampled(self, messages, params, _context):
        self.heard.asked.append({"messages": plain(messages), "params": plain(params)})
        return WORD

    async def logged(self, message):
        self.heard.logs.append(plain(message))

    async def server(self, _step):
        return {"info": self.toolset.server_info, "capabilities": self.toolset.capabilities, "instructions": self.toolset.instructions}

    async def tools(self, _step):
        return await self.toolset.list_tools()

    async def call(self, step):
        return await self.toolset.direct_call_tool(self.prefix + step["tool"], step["arguments"])

    error = call

    async def progress(self, step):
        self.heard.progress.clear()
        return {"result": plain(await self.call(step)), "progress": list(self.heard.progress)}

    async def elicit(self, step):
        self.heard.asked.clear()
        return {"result": plain(await self.call(step)), "asked": list(self.heard.asked)}

    sample = elicit

    roots = call

    async def log(self, step):
        """This library sets the level once, when it connects."""
        self.heard.logs.clear()
        result = plain(await self.call(step))
        return {"result": result, "logs": await self.heard.until(self.heard.logs, step["lines"])}

    async def prompts(self, _step):
        return await self.toolset.list_prompts()

    async def prompt(self, step):
        return await self.toolset.get_prompt(step["prefix"] + step["name"], step["arguments"])

    async def resources(self, _step):
        return await self.toolset.list_resources()

    async def templates(self, _step):
        return await self.toolset.list_resource_templates()

    async def resource(self, step):
        return await self.toolset.read_resource(step["uri"])

    resource_error = resource


if __name__ == "__main__":
    run(connect)
