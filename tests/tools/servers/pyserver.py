"""A tool server on the Python SDK 2.x, for agents of both eras: over stdio, or over HTTP with `--http PORT`.

`slow_state` tells what became of a call of `slow`, so that a test can see whether a cancellation arrived.
"""

import argparse
import socket
import sys

import anyio
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("toolgate-test-python", version="1.0.0", log_level="WARNING")
slow_calls: dict[str, str] = {}


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool(structured_output=False)
async def slow(steps: int, ms: int, context: Context, label: str = "") -> str:
    """Take that many steps of that many milliseconds each, reporting each. The label names the call for slow_state."""
    slow_calls[label] = "running"
    try:
        for done in range(1, steps + 1):
            await anyio.sleep(ms / 1000)
            await context.report_progress(done, steps, f"step {done} of {steps}")
    except anyio.get_cancelled_exc_class():
        slow_calls[label] = "cancelled"
        raise
    slow_calls[label] = "finished"
    return f"{steps} steps done"


@server.tool(structured_output=False)
def slow_state(label: str) -> str:
    """What became of the call of slow with that label: running, finished, cancelled or unknown."""
    return slow_calls.get(label, "unknown")


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
