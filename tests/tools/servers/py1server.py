"""A tool server on the FastMCP of the Python SDK 1.x, with all that a server can do: over stdio, or over HTTP with `--http PORT`.

Its URIs begin with `--name`, so that several of it can stand behind one address. With `--stateless` there are no sessions, with `--sse`
it speaks HTTP+SSE of 2024-11-05.
"""

import argparse
import socket

import anyio
import mcp.types as types
import uvicorn
from mcp.server.fastmcp import Context, FastMCP, Image
from mcp.server.fastmcp.exceptions import ToolError
from pydantic import BaseModel

LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8cfc0000003010100c9fe92ef0000000049454e44ae426082"
)

arguments = argparse.ArgumentParser(description=__doc__)
arguments.add_argument("--name", default="py1")
arguments.add_argument("--http", type=int, metavar="PORT", help="listen on 127.0.0.1; 0 = any free port")
arguments.add_argument("--stateless", action="store_true")
arguments.add_argument("--sse", action="store_true")
options = arguments.parse_args()

server = FastMCP(
    "toolgate-test-py1",
    instructions="Add numbers, and wait.",
    log_level="WARNING",
    stateless_http=options.stateless,
)
slow_calls: dict[str, str] = {}
# What each session wants to hear; a session without a state has the defaults.
levels: dict[int, str] = {}
subscriptions: dict[int, set[str]] = {}


class Person(BaseModel):
    name: str
    age: int


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def fail() -> str:
    """Fail."""
    raise ToolError("this tool always fails")


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


@server.tool(structured_output=False)
def mixed() -> list[types.ContentBlock]:
    """Give one of each kind of content."""
    text = types.TextResourceContents(uri=f"{options.name}://greeting", mimeType="text/plain", text="embedded")
    return [
        types.TextContent(type="text", text="häßlich\u2028\u0000end", annotations=types.Annotations(audience=["user"], priority=0.5)),
        Image(data=PIXEL, format="png").to_image_content(),
        types.EmbeddedResource(type="resource", resource=text),
        types.ResourceLink(type="resource_link", name="greeting", uri=f"{options.name}://greeting"),
    ]


@server.tool(structured_output=False)
async def ask(context: Context) -> str:
    """Ask the person for a name and an age."""
    answer = await context.elicit("Who are you?", Person)
    return f"{answer.action}: {answer.data.name}, {answer.data.age}" if answer.action == "accept" else answer.action


@server.tool(structured_output=False)
async def ask_model(context: Context) -> str:
    """Ask the agent's model for a word."""
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="Say a word."))
    answer = await context.session.create_message([message], max_tokens=9, related_request_id=context.request_id)
    return f"{answer.model}: {answer.content.text}"


@server.tool(structured_output=False)
async def roots(context: Context) -> str:
    """List the agent's roots."""
    return ", ".join(str(root.uri) for root in (await context.session.list_roots()).roots)


@server.tool(structured_output=False)
async def say(context: Context) -> str:
    """Log a line at each level that the agent wants to hear."""
    wanted = LEVELS.index(levels.get(id(context.session), "debug"))
    for level in LEVELS[wanted:]:
        await context.session.send_log_message(level, {"said": level}, logger="say", related_request_id=context.request_id)
    return f"from {LEVELS[wanted]}"


@server.tool(structured_output=False)
async def touch(context: Context) -> str:
    """Tell the agent that the greeting changed, if it subscribed to it."""
    uri = f"{options.name}://greeting"
    if uri not in subscriptions.get(id(context.session), ()):
        return "nobody listens"
    await context.session.send_resource_updated(uri)
    return "told"


@server.resource(f"{options.name}://greeting", mime_type="text/plain")
def greeting() -> str:
    """A note that never changes."""
    return "hello from a resource"


@server.resource(options.name + "://notes/{number}", mime_type="text/plain")
def note(number: str) -> str:
    """A note by its number."""
    return f"note {number}"


@server.prompt()
def greet(name: str) -> str:
    """Ask for a greeting."""
    return f"Say hello to {name}."


@server.completion()
async def complete(_reference, argument, _context):
    names = ["Ada", "Adele", "Grace"]
    return types.Completion(values=[name for name in names if name.startswith(argument.value)], total=2, hasMore=False)


@server._mcp_server.set_logging_level()
async def set_level(level: str) -> None:
    levels[id(server._mcp_server.request_context.session)] = level


@server._mcp_server.subscribe_resource()
async def subscribe(uri) -> None:
    subscriptions.setdefault(id(server._mcp_server.request_context.session), set()).add(str(uri))


@server._mcp_server.unsubscribe_resource()
async def unsubscribe(uri) -> None:
    subscriptions.get(id(server._mcp_server.request_context.session), set()).discard(str(uri))


def serve_http(port: int) -> None:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen()
    path, app = ("/sse", server.sse_app()) if options.sse else ("/mcp", server.streamable_http_app())
    print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}{path}", flush=True)
    # A connection that the server closes just when it is used again breaks a request: not what is compared here.
    settings = uvicorn.Config(app, log_level="warning", timeout_keep_alive=300, timeout_graceful_shutdown=1)
    uvicorn.Server(settings).run(sockets=[listener])


if options.http is None:
    server.run("stdio")
else:
    serve_http(options.http)
