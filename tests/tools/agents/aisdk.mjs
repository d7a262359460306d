// An agent on the MCP client of the AI SDK.

import { PERSON, require, run } from "./operations.mjs";

const { createMCPClient, ElicitationRequestSchema } = await import(require.resolve("@ai-sdk/mcp"));
const { Experimental_StdioMCPTransport } = await import(require.resolve("@ai-sdk/mcp/mcp-stdio"));

await run(async (job) => {
  const [command, ...args] = job.command ?? [];
  const transport = job.url
    ? { type: "http", url: job.url }
    : new Experimental_StdioMCPTransport({ command, args, env: { ...process.env, ...job.env } });
  // Over stdio it waits a second for the answer to server/discover, and which era it speaks then depends on the machine's load.
  const protocolVersionDiscovery = Boolean(job.url);
  const client = await createMCPClient({ transport, capabilities: { elicitation: {} }, protocolVersionDiscovery });
  const asked = [];
  client.onElicitationRequest(ElicitationRequestSchema, (request) => {
    asked.push(request.params);
    return { action: "accept", content: PERSON };
  });
  // Each page of a listing is the program's own to ask for.
  const pages = async (fetch, key) => {
    const entries = [];
    let cursor;
    do {
      const page = await fetch(cursor === undefined ? {} : { params: { cursor } });
      entries.push(...page[key]);
      cursor = page.nextCursor;
    } while (cursor !== undefined);
    return entries;
  };
  const call = (step) => client.callTool({ name: job.prefix + step.tool, arguments: step.arguments });
  return {
    tools: () => pages((page) => client.listTools(page), "tools"),
    // As the AI SDK's own loop would call it: the tool made from its definition.
    async call(step) {
      const made = await client.tools();
      return made[job.prefix + step.tool].execute(step.arguments, { toolCallId: "1", messages: [] });
    },
    error: call,
    async elicit(step) {
      asked.length = 0;
      return { result: await call(step), asked: [...asked] };
    },
    prompts: () => pages((page) => client.listPrompts(page), "prompts"),
    prompt: (step) => client.getPrompt({ name: step.prefix + step.name, arguments: step.arguments }),
    resources: () => pages((page) => client.listResources(page), "resources"),
    templates: async () => (await client.listResourceTemplates()).resourceTemplates,
    resource: (step) => client.readResource({ uri: step.uri }),
    resource_error: (step) => client.readResource({ uri: step.uri }),
    complete: (step) =>
      client.complete({ ref: { type: "ref/prompt", name: step.prefix + step.name }, argument: step.argument }),
    close: () => client.close(),
  };
});
