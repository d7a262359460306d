"""An agent on the client of FastMCP, 2 or 3."""

import contextlib
import os

import mcp.types as types
from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from operations import PERSON, WORD, Heard, cancel_in_session, plain, run


@contextlib.asynccontextmanager
async def connect(job):
    if job.get("url"):
        transport = StreamableHttpTransport(job["url"])
    else:
        command, *words = job["command"]
        transport = StdioTransport(command, words, env=dict(os.environ) | job["env"], keep_alive=False)
    agent = Agent(job)
    client = Client(
        transport,
        roots=[job["root"]],
        elicitation_handler=agent.elicited,
        sampling_handler=agent.sampled,
        log_handler=agent.logged,
        message_handler=agent.told,
    )
    async with client as agent.client:
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

    async def told(self, message):
        if isinstance(message, types.ServerNotification) and isinstance(message.root, types.ResourceUpdatedNotification):
            self.heard.updates.append(str(message.root.params.uri))

    async def server(self, _step):
        return self.client.initialize_result

    async def tools(self, _step):
        return await self.client.list_tools()

    async def call(self, step):
        return await self.client.call_tool(self.prefix + step["tool"], step["arguments"])

    error = call

    async def progress(self, step):
        self.heard.progress.clear()
        name = self.prefix + step["tool"]
        result = await self.client.call_tool(name, step["arguments"], progress_handler=self.heard.progressed)
        return {"result": result, "progress": list(self.heard.progress)}

    async def cancel(self, step):
        async def observe():
            seen = await self.client.call_tool_mcp(self.prefix + step["observer"], {"label": step["arguments"]["label"]})
            return seen.content[0].text

        async def call(progress):
            return await self.client.call_tool_mcp(self.prefix + step["tool"], step["arguments"], progress_handler=progress)

        return await cancel_in_session(self.client.session, call, observe)

    async def elicit(self, step):
        self.heard.asked.clear()
        return {"result": await self.call(step), "asked": list(self.heard.asked)}

    sample = elicit

    roots = call

    async def log(self, step):
        self.heard.logs.clear()
        await self.client.set_logging_level(step["level"])
        result = await self.call(step)
        return {"result": result, "logs": await self.heard.until(self.heard.logs, step["lines"])}

    async def subscribe(self, step):
        self.heard.updates.clear()
        await self.client.session.subscribe_resource(step["uri"])
        result = await self.call(step)
        updates = await self.heard.until(self.heard.updates, 1)
        await self.client.session.unsubscribe_resource(step["uri"])
        return {"result": result, "updates": updates, "afterwards": await self.call(step)}

    async def prompts(self, _step):
        return await self.client.list_prompts()

    async def prompt(self, step):
        return await self.client.get_prompt(step["prefix"] + step["name"], step["arguments"])

    async def resources(self, _step):
        return await self.client.list_resources()

    async def templates(self, _step):
        return await self.client.list_resource_templates()

    async def resource(self, step):
        return await self.client.read_resource(step["uri"])

    resource_error = resource

    async def complete(self, step):
        reference = types.PromptReference(type="ref/prompt", name=step["prefix"] + step["name"])
        return await self.client.complete(reference, step["argument"])


if __name__ == "__main__":
    run(connect)
