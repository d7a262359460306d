"""An agent on the Python SDK 1.x for tests/tools/everyday: makes the calls of standard input, one after the other.

The input is `{"places": {SERVER: JOB, …}, "calls": [[SERVER, TOOL, ARGUMENTS], …]}`; a JOB says where to connect, as in
operations.py, and all servers may be behind one place, whose name is empty. Each answer is a line.
"""

import asyncio
import contextlib
import json
import sys

import anyio
from operations import STEP_DEADLINE, describe, plain
from py1 import connect


async def main():
    asked = json.load(sys.stdin)
    async with contextlib.AsyncExitStack() as exits:
        agents = {}
        for name, job in asked["places"].items():
            agents[name] = await exits.enter_async_context(connect(job | {"prefix": "", "root": ""}))
        for server, tool, arguments in asked["calls"]:
            agent, name = (agents[""], f"{server}__{tool}") if "" in agents else (agents[server], tool)
            try:
                with anyio.fail_after(STEP_DEADLINE):
                    answer = plain(await agent.session.call_tool(name, arguments))
            except Exception as error:
                answer = {"error": describe(error)}
            print(json.dumps(answer), flush=True)


asyncio.run(main())
