// An agent on the TypeScript SDK 2.x: `--era legacy` opens with initialize, `--era modern` probes with server/discover.

import { allPages, parseArguments, require, run } from "./steps.mjs";

const { Client, StreamableHTTPClientTransport } = require("@modelcontextprotocol/client");
const { StdioClientTransport } = require("@modelcontextprotocol/client/stdio");

const options = parseArguments(process.argv.slice(2));
const client = new Client(
  { name: "toolgate-test-ts2", version: "1.0.0" },
  { versionNegotiation: { mode: options.era === "modern" ? "auto" : "legacy" } },
);

const transport = options.url
  ? new StreamableHTTPClientTransport(options.url, { requestInit: { headers: options.headers } })
  : new StdioClientTransport({ command: options.stdio[0], args: options.stdio.slice(1), env: process.env });

await run(options, {
  async connect() {
    await client.connect(transport);
    return client.getNegotiatedProtocolVersion();
  },
  listTools: () => allPages((page) => client.listTools(page), "tools"),
  listResources: () => allPages((page) => client.listResources(page), "resources"),
  listPrompts: () => allPages((page) => client.listPrompts(page), "prompts"),
  call: (name, args, request) => client.callTool({ name, arguments: args }, request),
  readResource: (uri) => client.readResource({ uri }),
  getPrompt: (name, args) => client.getPrompt({ name, arguments: args }),
  async close() {
    if (options.url && options.era === "legacy") await transport.terminateSession();
    await client.close();
  },
});
