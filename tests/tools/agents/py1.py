"""An agent on the Python SDK 1.x. Also the one behind mcp-remote: it is pointed there by its command."""

import contextlib
import os

import anyio
import mcp.types as types
from mcp import ClientSession, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from operations import PERSON, WORD, Heard, all_pages, cancel_in_session, plain, run
from pydantic import AnyUrl


@contextlib.asynccontextmanager
async def connect(job):
    connected = False
    try:
        async with contextlib.AsyncExitStack() as exits:
            if job.get("url", "").endswith("/sse"):
                transport = sse_client(job["url"])
            elif job.get("url"):
                headers = {"Authorization": f"Bearer {job['token']}"} if "token" in job else None
                http = await exits.enter_async_context(create_mcp_http_client(headers=headers))
                transport = streamable_http_client(job["url"], http_client=http)
            else:
                command, *words = job["command"]
                transport = stdio_client(StdioServerParameters(command=command, args=words, env=dict(os.environ) | job["env"]))
            read, write, *_ = await exits.enter_async_context(transport)
            agent = Agent(job)
            session = ClientSession(
                read,
                write,
                elicitation_callback=agent.elicited,
                sampling_callback=agent.sampled,
                list_roots_callback=agent.rooted,
                logging_callback=agent.logged,
                message_handler=agent.told,
            )
            agent.session = await exits.enter_async_context(session)
            agent.hello = await agent.session.initialize()
            connected = True
            yield agent
    except* anyio.BrokenResourceError:
        # This SDK stumbles over a message that a stdio server sends while it is being closed.
        if not connected:
            raise


class Agent:
    def __init__(self, job):
        self.prefix = job["prefix"]
        self.root = job["root"]
        self.heard = Heard()

    async def elicited(self, _context, params):
        self.heard.asked.append(plain(params))
        return types.ElicitResult(action="accept", content=PERSON)

    async def sampled(self, _context, params):
        self.heard.asked.append(plain(params))
        return types.CreateMessageResult(role="assistant", content=types.TextContent(type="text", text=WORD), model="none")

    async def rooted(self, _context):
        return types.ListRootsResult(roots=[types.Root(uri=self.root, name="project")])

    async def logged(self, params):
        self.heard.logs.append(plain(params))

    async def told(self, message):
        if isinstance(message, types.ServerNotification) and isinstance(message.root, types.ResourceUpdatedNotification):
            self.heard.updates.append(str(message.root.params.uri))

    async def server(self, _step):
        return self.hello

    async def tools(self, _step):
        return await all_pages(lambda cursor: self.session.list_tools(params=_page(cursor)), "tools")

    async def call(self, step, progress=None):
        return await self.session.call_tool(self.prefix + step["tool"], step["arguments"], progress_callback=progress)

    error = call

    async def progress(self, step):
        self.heard.progress.clear()
        result = await self.call(step, self.heard.progressed)
        return {"result": result, "progress": list(self.heard.progress)}

    async def cancel(self, step):
        async def observe():
            seen = await self.session.call_tool(self.prefix + step["observer"], {"label": step["arguments"]["label"]})
            return seen.content[0].text

        return await cancel_in_session(self.session, lambda progress: self.call(step, progress), observe)

    async def elicit(self, step):
        self.heard.asked.clear()
        return {"result": await self.call(step), "asked": list(self.heard.asked)}

    sample = elicit

    roots = call

    async def log(self, step):
        self.heard.logs.clear()
        await self.session.set_logging_level(step["level"])
        result = await self.call(step)
        return {"result": result, "logs": await self.heard.until(self.heard.logs, step["lines"])}

    async def subscribe(self, step):
        self.heard.updates.clear()
        await self.session.subscribe_resource(AnyUrl(step["uri"]))
        result = await self.call(step)
        updates = await self.heard.until(self.heard.updates, 1)
        await self.session.unsubscribe_resource(AnyUrl(step["uri"]))
        return {"result": result, "updates": updates, "afterwards": await self.call(step)}

    async def prompts(self, _step):
        return await all_pages(lambda cursor: self.session.list_prompts(params=_page(cursor)), "prompts")

    async def prompt(self, step):
        return await self.session.get_prompt(step["prefix"] + step["name"], step["arguments"])

    async def resources(self, _step):
        return await all_pages(lambda cursor: self.session.list_resources(params=_page(cursor)), "resources")

    async def templates(self, _step):
        return await all_pages(lambda cursor: self.session.list_resource_templates(params=_page(cursor)), "resourceTemplates")

    async def resource(self, step):
        return await self.session.read_resource(AnyUrl(step["uri"]))

    resource_error = resource

    async def complete(self, step):
        reference = types.PromptReference(type="ref/prompt", name=step["prefix"] + step["name"])
        return await self.session.complete(reference, step["argument"])


def _page(cursor):
    return None if cursor is None else types.PaginatedRequestParams(cursor=cursor)


if __name__ == "__main__":
    run(connect)
