"""An agent on langchain-mcp-adapters: tools as LangChain has them."""

import contextlib
import os

import mcp.types as types
from langchain_mcp_adapters.callbacks import Callbacks
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.prompts import load_mcp_prompt
from langchain_mcp_adapters.resources import load_mcp_resources
from langchain_mcp_adapters.tools import load_mcp_tools
from operations import PERSON, Heard, plain, run


@contextlib.asynccontextmanager
async def connect(job):
    if job.get("url"):
        connection = {"transport": "streamable_http", "url": job["url"]}
    else:
        command, *words = job["command"]
        connection = {"transport": "stdio", "command": command, "args": words, "env": dict(os.environ) | job["env"]}
    agent = Agent(job)
    agent.callbacks = Callbacks(on_logging_message=agent.logged, on_progress=agent.progressed, on_elicitation=agent.elicited)
    client = MultiServerMCPClient({"it": connection}, callbacks=agent.callbacks)
    async with client.session("it") as agent.session:
        yield agent


class Agent:
    def __init__(self, job):
        self.prefix = job["prefix"]
        self.heard = Heard()
        self.loaded = {}

    async def elicited(self, _request, params, _context):
        self.heard.asked.append(plain(params))
        return types.ElicitResult(action="accept", content=PERSON)

    async def logged(self, params, _context):
        self.heard.logs.append(plain(params))

    async def progressed(self, done, total, message, _context):
        await self.heard.progressed(done, total, message)

    async def tools(self, _step):
        found = await load_mcp_tools(self.session, callbacks=self.callbacks, server_name="it")
        self.loaded = {tool.name: tool for tool in found}
        return [
            {"name": tool.name, "description": tool.description, "schema": tool.args_schema, "metadata": tool.metadata}
            for tool in found
        ]

    async def call(self, step):
        name = self.prefix + step["tool"]
        call = {"type": "tool_call", "id": "1", "name": name, "args": step["arguments"]}
        message = await self.loaded[name].ainvoke(call)
        # Blocks get a random id in LangChain.
        content = [_without_id(block) for block in message.content] if isinstance(message.content, list) else message.content
        return {"content": content, "artifact": message.artifact, "status": message.status}

    error = call

    async def progress(self, step):
        self.heard.progress.clear()
        return {"result": await self.call(step), "progress": list(self.heard.progress)}

    async def elicit(self, step):
        self.heard.asked.clear()
        return {"result": await self.call(step), "asked": list(self.heard.asked)}

    async def log(self, step):
        self.heard.logs.clear()
        await self.session.set_logging_level(step["level"])
        result = await self.call(step)
        return {"result": result, "logs": await self.heard.until(self.heard.logs, step["lines"])}

    async def prompt(self, step):
        messages = await load_mcp_prompt(self.session, step["prefix"] + step["name"], arguments=step["arguments"])
        return [{"type": message.type, "content": message.content} for message in messages]

    async def resource(self, step):
        blobs = await load_mcp_resources(self.session, uris=[step["uri"]])
        return [{"type": blob.mimetype, "text": blob.as_string(), "metadata": blob.metadata} for blob in blobs]

    resource_error = resource


def _without_id(block):
    return {key: value for key, value in block.items() if key != "id"} if isinstance(block, dict) else block


if __name__ == "__main__":
    run(connect)
