"""An agent on the Python SDK 1.x: legacy protocol only. `py1.py --help` lists the arguments."""

import contextlib
import sys
import time

import anyio
import httpx
import mcp.types
from mcp import ClientSession, McpError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from steps import StepFailed, all_pages, as_json, describe, parse_arguments, run

# How long a tool server may take to answer a cancelled request, which it need not do at all, in seconds.
ANSWER_TO_CANCEL = 1.0


@contextlib.asynccontextmanager
async def connect(options):
    connected = False
    try:
        async with contextlib.AsyncExitStack() as exits:
            if options.url:
                settings = httpx.AsyncClient(headers=options.headers, timeout=httpx.Timeout(30, read=300))
                http = await exits.enter_async_context(settings)
                transport = streamable_http_client(options.url, http_client=http)
            else:
                command, *args = options.stdio
                transport = stdio_client(StdioServerParameters(command=command, args=args, env=options.env))
            read, write, *_ = await exits.enter_async_context(transport)
            session = await exits.enter_async_context(ClientSession(read, write))
            version = (await session.initialize()).protocolVersion
            connected = True
            yield Agent(session, version)
    except* anyio.BrokenResourceError:
        # This SDK stumbles over a message that a stdio server sends while it is being closed.
        if not connected:
            raise


class Agent:
    def __init__(self, session, version):
        self.session = session
        self.version = version

    async def list_tools(self):
        return await all_pages(lambda cursor: self.session.list_tools(params=_page(cursor)), "tools")

    async def list_resources(self):
        return await all_pages(lambda cursor: self.session.list_resources(params=_page(cursor)), "resources")

    async def list_prompts(self):
        return await all_pages(lambda cursor: self.session.list_prompts(params=_page(cursor)), "prompts")

    async def call(self, name, arguments, progress):
        return as_json(await self.session.call_tool(name, arguments, progress_callback=progress))

    async def read_resource(self, uri):
        return as_json(await self.session.read_resource(uri))["contents"]

    async def get_prompt(self, name, arguments):
        return as_json(await self.session.get_prompt(name, arguments))["messages"]

    async def cancel_call(self, name, arguments):
        """This SDK tells nobody when a call is given up, so the notification is sent by hand."""
        under_way = anyio.Event()
        # The SDK does not hand out the id of a request; it is the next number.
        request_id = self.session._request_id
        outcome = "no answer, given up by the agent"

        async def progress(_done, _total, _message):
            under_way.set()

        async def call():
            nonlocal outcome
            try:
                result = await self.call(name, arguments, progress)
            except McpError as error:
                outcome = describe(error)
            else:
                raise StepFailed(f"the call was not cancelled: {result}")
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await under_way.wait()
            moment = time.monotonic()
            params = mcp.types.CancelledNotificationParams(requestId=request_id, reason="the scenario cancelled the call")
            notification = mcp.types.CancelledNotification(params=params)
            await self.session.send_notification(mcp.types.ClientNotification(notification))
            await anyio.sleep(ANSWER_TO_CANCEL)
            tasks.cancel_scope.cancel()
        return moment, outcome


def _page(cursor):
    return None if cursor is None else mcp.types.PaginatedRequestParams(cursor=cursor)


if __name__ == "__main__":
    run(connect, parse_arguments(sys.argv[1:]))
