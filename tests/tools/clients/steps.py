"""The scenario that each Python agent runs, and the arguments it is started with. The SDK in use comes in as an adapter.

`connect(options)` is an asynchronous context manager which gives the connected agent. That has `version`, `list_tools()`,
`list_resources()`, `list_prompts()` (all entries), `call(name, arguments, progress)` and `cancel_call(name, arguments)`,
`read_resource(uri)` and `get_prompt(name, arguments)`; tool results, resources and prompts come as plain JSON values.
"""

import argparse
import json
import os
import pathlib
import sys
import time
import uuid

import anyio

PROTOCOL_VERSIONS = {"legacy": "2025-11-25", "modern": "2026-07-28"}
# How soon an agent has to be told that its cancelled call is over, and the tool server has to know of it, in seconds.
CANCEL_DEADLINE = 3.0
OBSERVED_DEADLINE = 3.0


class StepFailed(Exception):
    """An answer is not the expected one."""


def parse_arguments(words):
    parser = argparse.ArgumentParser()
    parser.add_argument("url", nargs="?", help="Streamable HTTP endpoint")
    parser.add_argument("--stdio", action="store_true", help="followed by a command: takes the rest of the line")
    parser.add_argument("--server", required=True, help="everything, filesystem, billing or python")
    parser.add_argument("--era", choices=PROTOCOL_VERSIONS, default="legacy", help="where the SDK has both")
    parser.add_argument("--prefix", default="", help="what the tool names start with")
    parser.add_argument("--dir", default="", help="folder of the filesystem server")
    parser.add_argument("--skip", default="", metavar="STEP,STEP", help="steps to leave out")
    parser.add_argument("--header", action="append", default=[], metavar="'Name: value'", help="for every HTTP request")
    parser.add_argument("--timeout", type=float, default=60, help="bound for the whole run, in seconds")
    # The command may contain anything, `--` included, so it is kept from the parser.
    end = words.index("--stdio") if "--stdio" in words else len(words)
    options = parser.parse_args(words[:end])
    options.stdio = words[end + 1 :]
    if bool(options.url) == bool(options.stdio):
        parser.error("give either a URL or --stdio CMD ARGS...")
    profiles = pathlib.Path(__file__).with_name("profiles.json").read_text().replace("{dir}", options.dir)
    options.profile = json.loads(profiles).get(options.server) or parser.error(f"unknown server {options.server}")
    options.skip = options.skip.split(",")
    options.headers = dict(header.split(": ", 1) for header in options.header)
    options.env = dict(os.environ)
    return options


def run(connect, options):
    """Runs the scenario and ends the process: 0 when every step went well, 1 otherwise."""
    sys.exit(anyio.run(_Scenario(options).run, connect))


class _Scenario:
    def __init__(self, options):
        self.options = options
        self.profile = options.profile
        self.agent = None
        self.failures = 0

    async def run(self, connect):
        phase, began = "connect", time.monotonic()
        with anyio.move_on_after(self.options.timeout) as bound:
            try:
                async with connect(self.options) as self.agent:
                    # A connection that breaks may end the step under way without saying why; that comes out here.
                    phase = "connection"
                    await self._one("connect", self._connected, began)
                    if self.failures == 0:
                        await self._steps()
                    phase, began = "close", time.monotonic()
                self._report("close", began, "closed")
            except Exception as error:
                self._report(phase, began, error)
        if bound.cancelled_caught:
            self._report("timeout", began, StepFailed(f"not done after {self.options.timeout:g} s"))
        return 1 if self.failures else 0

    async def _one(self, name, body, began=None):
        if name in self.options.skip:
            return
        began = began or time.monotonic()
        try:
            outcome = await body()
        except Exception as error:
            outcome = error
        self._report(name, began, outcome)

    def _report(self, name, began, outcome):
        failed = isinstance(outcome, Exception)
        self.failures += failed
        detail = describe(outcome) if failed else outcome
        took = round((time.monotonic() - began) * 1000)
        print(json.dumps({"step": name, "ok": not failed, "detail": detail, "ms": took}), flush=True)

    async def _connected(self):
        _equal("protocol version", self.agent.version, PROTOCOL_VERSIONS[self.options.era])
        return self.agent.version

    async def _steps(self):
        profile = self.profile
        await self._one("list_tools", self._list_tools)
        await self._one("call", self._call)
        if "tool_error" in profile:
            await self._one("tool_error", self._tool_error)
        if "progress" in profile:
            await self._one("progress", self._progress)
        if "cancel" in profile:
            await self._one("cancel", self._cancel)
            await self._one("call_after_cancel", self._call)
        if "resource" in profile:
            await self._one("list_resources", self._list_resources)
            await self._one("read_resource", self._read_resource)
        if "prompt" in profile:
            await self._one("list_prompts", self._list_prompts)
            await self._one("get_prompt", self._get_prompt)

    async def _list_tools(self):
        wanted = [self.options.prefix + name for name in self.profile["tools"]]
        return _names_present(await self.agent.list_tools(), wanted)

    async def _list_resources(self):
        return _names_present(await self.agent.list_resources(), [self.profile["resource"]["uri"]], "uri")

    async def _list_prompts(self):
        return _names_present(await self.agent.list_prompts(), [self.profile["prompt"]["name"]])

    async def _call_tool(self, wanted, progress=None):
        return await self.agent.call(self.options.prefix + wanted["tool"], wanted["arguments"], progress)

    async def _call(self):
        return _exactly(await self._call_tool(self.profile["call"]), self.profile["call"])

    async def _tool_error(self):
        wanted = self.profile["tool_error"]
        result = await self._call_tool(wanted)
        _equal("isError", result.get("isError"), True)
        text = result["content"][0].get("text", "")
        if wanted["contains"] not in text:
            raise StepFailed(f"{text!r} lacks {wanted['contains']!r}")
        return text[:120]

    async def _progress(self):
        seen = []

        async def progress(done, _total, _message):
            seen.append(done)

        wanted = self.profile["progress"]
        _exactly(await self._call_tool(wanted, progress), wanted)
        if not seen:
            raise StepFailed("no progress notification")
        if sorted(set(seen)) != seen:
            raise StepFailed(f"progress goes backwards: {seen}")
        return f"{len(seen)} notifications: {', '.join(f'{done:g}' for done in seen)}"

    async def _cancel(self):
        wanted = self.profile["cancel"]
        observer = wanted.get("observed_by")
        label = str(uuid.uuid4())
        arguments = wanted["arguments"] | ({"label": label} if observer else {})
        began_to_cancel, outcome = await self.agent.cancel_call(self.options.prefix + wanted["tool"], arguments)
        took = time.monotonic() - began_to_cancel
        if took > CANCEL_DEADLINE:
            raise StepFailed(f"the cancelled call ended after {took:.1f} s")
        observed = await self._cancel_observed(observer, label) if observer else "not observable"
        return f"{outcome} after {took * 1000:.0f} ms; at the tool server: {observed}"

    async def _cancel_observed(self, observer, label):
        """Only the tool server can say that the cancellation arrived: the agent's SDK may end the call by itself."""
        deadline = time.monotonic() + OBSERVED_DEADLINE
        while (state := await self._observe(observer, label)) != "cancelled":
            if time.monotonic() > deadline:
                raise StepFailed(f"the cancelled call is still {state} at the tool server")
            await anyio.sleep(0.02)
        return state

    async def _observe(self, tool, label):
        result = await self.agent.call(self.options.prefix + tool, {"label": label}, None)
        return result["content"][0]["text"]

    async def _read_resource(self):
        wanted = self.profile["resource"]
        contents = await self.agent.read_resource(wanted["uri"])
        _equal("resource", [entry["uri"] for entry in contents], [wanted["uri"]])
        if wanted["contains"] not in contents[0]["text"]:
            raise StepFailed(f"the resource lacks {wanted['contains']!r}")
        return f"{len(contents[0]['text'])} characters"

    async def _get_prompt(self):
        wanted = self.profile["prompt"]
        messages = await self.agent.get_prompt(wanted["name"], wanted["arguments"])
        _equal("prompt", [message["content"]["text"] for message in messages], [wanted["text"]])
        return wanted["text"]


async def cancel_by_scope(call):
    """Cancels `call(progress)` on its first progress, by ending its scope: the moment of that, and how the call ended."""
    moment = None
    with anyio.CancelScope() as scope:

        async def progress(_done, _total, _message):
            nonlocal moment
            moment = moment or time.monotonic()
            scope.cancel()

        result = await call(progress)
        raise StepFailed(f"the call was not cancelled: {result}")
    return moment, "the scope of the call was cancelled"


def describe(error):
    """The kind and words of an error, those of the inner ones for a group."""
    if isinstance(error, BaseExceptionGroup):
        return f"{type(error).__name__}[{'; '.join(describe(inner) for inner in error.exceptions)}]"
    code = getattr(getattr(error, "error", None), "code", None)
    return f"{type(error).__name__}{'' if code is None else f' {code}'}: {error}"


def as_json(value):
    """A value of the SDK as it is on the wire."""
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


async def all_pages(fetch_page, key):
    """All entries of a listing."""
    entries, cursor = [], None
    while True:
        page = as_json(await fetch_page(cursor))
        entries += page[key]
        cursor = page.get("nextCursor")
        if cursor is None:
            return entries


def _exactly(result, wanted):
    if result.get("isError"):
        raise StepFailed(f"the tool answered with an error: {result['content']}")
    if "text" in wanted:
        found = [{key: entry.get(key) for key in ("type", "text")} for entry in result["content"]]
        _equal("content", found, [{"type": "text", "text": wanted["text"]}])
    if "structured" in wanted:
        _equal("structured content", result.get("structuredContent"), wanted["structured"])
    return wanted.get("text") or json.dumps(wanted["structured"])


def _names_present(entries, wanted, key="name"):
    names = [entry[key] for entry in entries]
    missing = [name for name in wanted if name not in names]
    if missing:
        raise StepFailed(f"missing {', '.join(missing)} among {', '.join(names)}")
    if len(set(names)) != len(names):
        raise StepFailed(f"a name is listed twice among {', '.join(names)}")
    return f"{len(names)} listed"


def _equal(what, found, wanted):
    if found != wanted:
        raise StepFailed(f"{what} is {found!r} instead of {wanted!r}")
