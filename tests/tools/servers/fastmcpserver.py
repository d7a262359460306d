"""A tool server on FastMCP (2 or 3, whichever is installed): over stdio, or over HTTP with `--http PORT`.

Its URIs begin with `--name`, so that several of it can stand behind one address. With `--stateless` there are no sessions.
"""

import argparse
import socket
from dataclasses import dataclass

import anyio
import uvicorn
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError

arguments = argparse.ArgumentParser(description=__doc__)
arguments.add_argument("--name", default="fastmcp")
arguments.add_argument("--http", type=int, metavar="PORT", help="listen on 127.0.0.1; 0 = any free port")
arguments.add_argument("--stateless", action="store_true")
options = arguments.parse_args()

server = FastMCP("toolgate-test-fastmcp", instructions="Add numbers, and wait.", version="1.0.0")
slow_calls: dict[str, str] = {}


@dataclass
class Person:
    name: str
    age: int


@server.tool(tags={"math"}, annotations={"readOnlyHint": True}, meta={"unit": "none"})
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool
def fail() -> str:
    """Fail."""
    raise ToolError("this tool always fails")


@server.tool
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


@server.tool
def slow_state(label: str) -> str:
    """What became of the call of slow with that label: running, finished, cancelled or unknown."""
    return slow_calls.get(label, "unknown")


@server.tool
async def ask(context: Context) -> str:
    """Ask the person for a name and an age."""
    answer = await context.elicit("Who are you?", response_type=Person)
    return f"{answer.action}: {answer.data.name}, {answer.data.age}" if answer.action == "accept" else answer.action


@server.tool
async def ask_model(context: Context) -> str:
    """Ask the agent's model for a word."""
    return (await context.sample("Say a word.", max_tokens=9)).text


@server.tool
async def roots(context: Context) -> str:
    """List the agent's roots."""
    return ", ".join(str(root.uri) for root in await context.list_roots())


@server.tool
async def say(context: Context) -> str:
    """Log some lines."""
    await context.debug("said debug", logger_name="say")
    await context.warning("said warning", logger_name="say", extra={"number": 1})
    await context.error("said error", logger_name="say")
    return "said"


@server.resource(f"{options.name}://greeting", mime_type="text/plain")
def greeting() -> str:
    """A note that never changes."""
    return "hello from a resource"


@server.resource(options.name + "://notes/{number}", mime_type="text/plain")
def note(number: str) -> str:
    """A note by its number."""
    return f"note {number}"


@server.prompt
def greet(name: str) -> str:
    """Ask for a greeting."""
    return f"Say hello to {name}."


def serve_http(port: int) -> None:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen()
    print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    # A connection that the server closes just when it is used again breaks a request: not what is compared here.
    app = server.http_app(stateless_http=options.stateless)
    uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_keep_alive=300, timeout_graceful_shutdown=1)).run(sockets=[listener])


if options.http is None:
    server.run("stdio", show_banner=False)
else:
    serve_http(options.http)
