"""What each Python agent of tests/tools/pairs is asked, and how it answers.

Standard input holds a JSON array of jobs. A job names where to connect (`url`, or `command` for a stdio server), what tool
names start with (`prefix`), and the steps: what to do there, one after the other. Each answer is a line
`{"job": …, "step": …, "value": …}`, or `"error"` in place of `value`; a step that the library cannot do is left out.

An agent has a method for each operation it can do, named as the step's `op`, which gives a JSON value. `connect(job)` is an
asynchronous context manager which gives the connected agent.
"""

import asyncio
import dataclasses
import json
import sys
import time

import anyio
import pydantic

# Bounds on one step and on one job, in seconds; what is waited for has come within milliseconds, or does not come.
STEP_DEADLINE = 60.0
JOB_DEADLINE = 180.0
HEARD_DEADLINE = 10.0
PERSON = {"name": "Ada", "age": 36}
WORD = "banana"


def run(connect):
    """Does all jobs and ends the process."""
    asyncio.run(_jobs(connect))


async def _jobs(connect):
    for job in json.load(sys.stdin):
        try:
            with anyio.fail_after(JOB_DEADLINE):
                async with connect(job) as agent:
                    await _steps(job, agent)
        except BaseException as error:
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            answer(job, "session", error=describe(error))
        else:
            answer(job, "session", value="closed")


async def _steps(job, agent):
    for step in job["steps"]:
        body = getattr(agent, step["op"], None)
        if body is None:
            continue
        try:
            with anyio.fail_after(STEP_DEADLINE):
                value = plain(await body(step))
        except Exception as error:
            answer(job, step["id"], error=describe(error))
        else:
            answer(job, step["id"], value=value)


def answer(job, step, **outcome):
    print(json.dumps({"job": job["job"], "step": step, **outcome}), flush=True)


class Heard:
    """What a server told or asked of its own accord, and what the agent answered."""

    def __init__(self):
        self.asked = []
        self.logs = []
        self.updates = []
        self.progress = []

    async def progressed(self, done, total=None, message=None):
        self.progress.append([done, total, message])

    async def until(self, seen, number):
        """Notifications may come on another stream than the answer, so a little later."""
        deadline = time.monotonic() + HEARD_DEADLINE
        while len(seen) < number:
            if time.monotonic() > deadline:
                break
            await anyio.sleep(0.01)
        return list(seen)


async def cancel_in_session(session, call, observe, reason="the agent cancelled the call"):
    """Cancels `call(progress)` on its first progress, as an agent on the Python SDK 1.x has to: by the notification.

    Gives how the call ended, and what `observe()` says of it at the server in the end.
    """
    import mcp.types as types

    under_way = anyio.Event()
    # The SDK does not hand out the id of a request; it is the next number.
    request_id = session._request_id
    ended = {}

    async def progress(_done, _total=None, _message=None):
        under_way.set()

    async def calling():
        try:
            ended["value"] = plain(await call(progress))
        except Exception as error:
            ended["error"] = describe(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(calling)
        await under_way.wait()
        params = types.CancelledNotificationParams(requestId=request_id, reason=reason)
        await session.send_notification(types.ClientNotification(types.CancelledNotification(params=params)))
        deadline = time.monotonic() + HEARD_DEADLINE
        while not ended or await observe() != "cancelled":
            if time.monotonic() > deadline:
                tasks.cancel_scope.cancel()
                break
            await anyio.sleep(0.01)
    return {"call": ended or "no answer", "at the server": await observe()}


def plain(value):
    """The value as JSON."""
    if isinstance(value, pydantic.BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    return str(value)


def describe(error):
    """The kind and words of an error, those of the inner ones for a group."""
    if isinstance(error, BaseExceptionGroup):
        return f"{type(error).__name__}[{'; '.join(describe(inner) for inner in error.exceptions)}]"
    wire = getattr(error, "error", None)
    code, data = getattr(wire, "code", None), getattr(wire, "data", None)
    return f"{type(error).__name__}{'' if code is None else f' {code}'}: {error}{'' if data is None else f' {data}'}"


async def all_pages(fetch, key):
    """All entries of a listing, as JSON."""
    entries, cursor = [], None
    while True:
        page = plain(await fetch(cursor))
        entries += page[key]
        cursor = page.get("nextCursor")
        if cursor is None:
            return entries
