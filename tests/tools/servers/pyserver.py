"""A tool server on the Python SDK 2.x, for agents of both eras: over stdio, or over HTTP with `--http PORT`.

`slow_state` tells what became of the calls of `slow`, so that a test can see whether a cancellation arrived.
"""

import argparse
import json
import socket
import sys

import anyio
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("toolgate-test-python", version="1.0.0", log_level="WARNING")
slow_calls = {"running": 0, "finished": 0, "cancelled": 0}


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool(structured_output=False)
async def slow(steps: int, ms: int, context: Context) -> str:
    """Take that many steps of that many milliseconds each, reporting each."""
    slow_calls["running"] += 1
    outcome = "cancelled"
    try:
        for done in range(1, steps + 1):
            await anyio.sleep(ms / 1000)
            await context.report_progress(done, steps, f"step {done} of {steps}")
        outcome = "finished"
        return f"{steps} steps done"
    finally:
        slow_calls["running"] -= 1
        slow_calls[outcome] += 1


@server.tool(structured_output=False)
def slow_state() -> str:
    """Count the calls of slow: running, finished, cancelled."""
    return json.dumps(slow_calls)


@server.tool()
def fail() -> str:
    """Fail."""
    raise ToolError("this tool always fails")


@server.resource("note://greeting", mime_type="text/plain")
def greeting() -> str:
    """A note that never changes."""
    return "hello from a resource"


@server.prompt()
def greet(name: str) -> str:
    """Ask for a greeting."""
    return f"Say hello to {name}."


def serve_http(port: int) -> None:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen()
    print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    settings = uvicorn.Config(server.streamable_http_app(), log_level="warning", timeout_graceful_shutdown=1)
    uvicorn.Server(settings).run(sockets=[listener])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--http", type=int, metavar="PORT", help="listen on 127.0.0.1; 0 = any free port")
    port = parser.parse_args().http
    if port is None:
        server.run("stdio")
    else:
        serve_http(port)


if __name__ == "__main__":
    sys.exit(main())
