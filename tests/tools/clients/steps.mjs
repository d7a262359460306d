// The scenario that each JavaScript agent runs, and the arguments it is started with. The SDK in use comes in as an adapter.

import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { isDeepStrictEqual } from "node:util";

// How soon an agent has to be told that its cancelled call is over.
const CANCEL_DEADLINE_MS = 3_000;
// How soon the tool server has to know of it.
const OBSERVED_DEADLINE_MS = 3_000;

// Gives the packages that tests/tools/setup installed.
export const require = createRequire(new URL("../../../.tools/node/", import.meta.url));

export const PROTOCOL_VERSIONS = { legacy: "2025-11-25", modern: "2026-07-28" };

const USAGE = `usage: CLIENT (URL | --stdio CMD ARGS...) --server everything|filesystem|billing|python
  --era legacy|modern     which protocol to speak (where the SDK has both)
  --prefix P              what the tool names start with
  --dir DIR               folder of the filesystem server
  --skip STEP,STEP        steps to leave out
  --header 'Name: value'  sent with every HTTP request, may be repeated
  --timeout SECONDS       bound for the whole run (60)
Options come before --stdio, which takes the rest of the line. The environment is handed to CMD.`;

export function parseArguments(words) {
  const options = { era: "legacy", prefix: "", dir: "", skip: [], headers: {}, timeout: 60, url: null, stdio: null, server: null };
  const rest = [...words];
  const value = (name) => rest.shift() ?? usage(`${name} needs a value`);
  while (rest.length > 0) {
    const word = rest.shift();
    if (word === "--stdio") {
      options.stdio = rest.splice(0);
      if (options.stdio.length === 0) usage("--stdio needs a command");
    } else if (["--server", "--era", "--prefix", "--dir"].includes(word)) {
      options[word.slice(2)] = value(word);
    } else if (word === "--skip") {
      options.skip = value(word).split(",");
    } else if (word === "--timeout") {
      options.timeout = Number(value(word));
    } else if (word === "--header") {
      const [, name, text] = /^([^:]+):\s*(.*)$/.exec(value(word)) ?? usage("--header needs 'Name: value'");
      options.headers[name] = text;
    } else if (word.startsWith("-") || options.url !== null) {
      usage(`unexpected argument ${word}`);
    } else {
      options.url = new URL(word);
    }
  }
  if ((options.url === null) === (options.stdio === null)) usage("give either a URL or --stdio");
  if (!(options.era in PROTOCOL_VERSIONS)) usage(`unknown era ${options.era}`);
  const profiles = readFileSync(new URL("profiles.json", import.meta.url), "utf8").replaceAll("{dir}", options.dir);
  options.profile = JSON.parse(profiles)[options.server] ?? usage(`unknown server ${options.server}`);
  return options;
}

function usage(problem) {
  console.error(`${problem}\n${USAGE}`);
  process.exit(2);
}

/**
 * Runs the scenario and ends the process: 0 when every step went well, 1 otherwise.
 *
 * The adapter has connect() → protocol version, listTools/listResources/listPrompts() → all entries,
 * call(name, arguments, {onprogress?, signal?}) → result, readResource(uri), getPrompt(name, arguments), close().
 */
export async function run(options, adapter) {
  const { profile, prefix } = options;
  let failures = 0;
  const step = async (name, body) => {
    if (options.skip.includes(name)) return true;
    const began = performance.now();
    const report = { step: name, ok: true, detail: "" };
    try {
      report.detail = await body();
    } catch (error) {
      failures += 1;
      report.ok = false;
      report.detail = describe(error);
    }
    console.log(JSON.stringify({ ...report, ms: Math.round(performance.now() - began) }));
    return report.ok;
  };
  const bound = setTimeout(() => {
    console.log(JSON.stringify({ step: "timeout", ok: false, detail: `not done after ${options.timeout} s` }));
    process.exit(1);
  }, options.timeout * 1000);

  if (await step("connect", () => connect(options, adapter))) {
    await step("list_tools", async () => namesPresent(await adapter.listTools(), profile.tools.map((name) => prefix + name)));
    await step("call", () => call(adapter, prefix, profile.call));
    if (profile.tool_error) await step("tool_error", () => toolError(adapter, prefix, profile.tool_error));
    if (profile.progress) await step("progress", () => progress(adapter, prefix, profile.progress));
    if (profile.cancel) {
      await step("cancel", () => cancel(adapter, prefix, profile.cancel));
      await step("call_after_cancel", () => call(adapter, prefix, profile.call));
    }
    if (profile.resource) {
      await step("list_resources", async () => namesPresent(await adapter.listResources(), [profile.resource.uri], "uri"));
      await step("read_resource", () => readResource(adapter, profile.resource));
    }
    if (profile.prompt) {
      await step("list_prompts", async () => namesPresent(await adapter.listPrompts(), [profile.prompt.name]));
      await step("get_prompt", () => getPrompt(adapter, profile.prompt));
    }
    await step("close", async () => { await adapter.close(); return "closed"; });
  }
  clearTimeout(bound);
  process.exit(failures === 0 ? 0 : 1);
}

async function connect(options, adapter) {
  const version = await adapter.connect();
  equal("protocol version", version, PROTOCOL_VERSIONS[options.era]);
  return version;
}

function namesPresent(entries, wanted, key = "name") {
  const names = entries.map((entry) => entry[key]);
  const missing = wanted.filter((name) => !names.includes(name));
  if (missing.length > 0) throw new Error(`missing ${missing.join(", ")} among ${names.join(", ")}`);
  if (new Set(names).size !== names.length) throw new Error(`a name is listed twice among ${names.join(", ")}`);
  return `${names.length} listed`;
}

async function call(adapter, prefix, wanted) {
  return exactly(await adapter.call(prefix + wanted.tool, wanted.arguments, {}), wanted);
}

function exactly(result, wanted) {
  if (result.isError) throw new Error(`the tool answered with an error: ${JSON.stringify(result.content)}`);
  if (wanted.text !== undefined) {
    equal("content", result.content.map(({ type, text }) => ({ type, text })), [{ type: "text", text: wanted.text }]);
  }
  if (wanted.structured !== undefined) equal("structured content", result.structuredContent, wanted.structured);
  return wanted.text ?? JSON.stringify(wanted.structured);
}

async function toolError(adapter, prefix, wanted) {
  const result = await adapter.call(prefix + wanted.tool, wanted.arguments, {});
  equal("isError", result.isError, true);
  const text = result.content[0]?.text ?? "";
  if (!text.includes(wanted.contains)) throw new Error(`${JSON.stringify(text)} lacks ${JSON.stringify(wanted.contains)}`);
  return text.slice(0, 120);
}

async function progress(adapter, prefix, wanted) {
  const seen = [];
  const onprogress = ({ progress }) => seen.push(progress);
  exactly(await adapter.call(prefix + wanted.tool, wanted.arguments, { onprogress }), wanted);
  if (seen.length === 0) throw new Error("no progress notification");
  if (seen.some((value, index) => index > 0 && value <= seen[index - 1])) throw new Error(`progress goes backwards: ${seen}`);
  return `${seen.length} notifications: ${seen.join(", ")}`;
}

async function cancel(adapter, prefix, wanted) {
  const label = randomUUID();
  const args = wanted.observed_by ? { ...wanted.arguments, label } : wanted.arguments;
  const abort = new AbortController();
  let cancelledAt;
  const onprogress = () => {
    cancelledAt ??= performance.now();
    abort.abort(new Error("the scenario cancelled the call"));
  };
  let outcome;
  try {
    const result = await adapter.call(prefix + wanted.tool, args, { onprogress, signal: abort.signal });
    throw new Error(`the call was not cancelled: ${JSON.stringify(result)}`);
  } catch (error) {
    if (cancelledAt === undefined) throw error;
    outcome = error;
  }
  const took = performance.now() - cancelledAt;
  if (!describe(outcome).includes("the scenario cancelled the call")) throw outcome;
  if (took > CANCEL_DEADLINE_MS) throw new Error(`the cancelled call ended after ${took} ms`);
  const observed = wanted.observed_by ? await cancelObserved(adapter, prefix + wanted.observed_by, label) : "not observable";
  return `${describe(outcome)} after ${Math.round(took)} ms; at the tool server: ${observed}`;
}

// Only the tool server can say that the cancellation arrived: the agent's SDK ends the call by itself.
async function cancelObserved(adapter, tool, label) {
  const deadline = performance.now() + OBSERVED_DEADLINE_MS;
  for (;;) {
    const state = (await adapter.call(tool, { label }, {})).content[0].text;
    if (state === "cancelled") return state;
    if (performance.now() > deadline) throw new Error(`the cancelled call is still ${state} at the tool server`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

async function readResource(adapter, wanted) {
  const { contents } = await adapter.readResource(wanted.uri);
  equal("resource", contents.map((entry) => entry.uri), [wanted.uri]);
  if (!contents[0].text.includes(wanted.contains)) throw new Error(`the resource lacks ${JSON.stringify(wanted.contains)}`);
  return `${contents[0].text.length} characters`;
}

async function getPrompt(adapter, wanted) {
  const { messages } = await adapter.getPrompt(wanted.name, wanted.arguments);
  equal("prompt", messages.map(({ content }) => content.text), [wanted.text]);
  return wanted.text;
}

function equal(what, found, wanted) {
  if (!isDeepStrictEqual(found, wanted)) {
    throw new Error(`${what} is ${JSON.stringify(found)} instead of ${JSON.stringify(wanted)}`);
  }
}

function describe(error) {
  const code = error?.code === undefined ? "" : ` ${error.code}`;
  const cause = error?.cause === undefined ? "" : ` (${describe(error.cause)})`;
  return `${error?.constructor?.name ?? typeof error}${code}: ${error?.message ?? error}${cause}`;
}

// All pages of a listing.
export async function allPages(fetchPage, key) {
  const entries = [];
  let cursor;
  do {
    const page = await fetchPage(cursor === undefined ? undefined : { cursor });
    entries.push(...page[key]);
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  return entries;
}
