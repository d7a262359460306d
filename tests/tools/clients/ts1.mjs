// An agent on the TypeScript SDK 1.x: legacy protocol only. `ts1.mjs --help` lists the arguments.

import { allPages, parseArguments, require, run } from "./steps.mjs";

const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");

const options = parseArguments(process.argv.slice(2));
const client = new Client({ name: "toolgate-test-ts1", version: "1.0.0" });
let negotiated;

const transport = options.url
  ? new StreamableHTTPClientTransport(options.url, { requestInit: { headers: options.headers } })
  : new StdioClientTransport({ command: options.stdio[0], args: options.stdio.slice(1), env: process.env });

await run(options, {
  async connect() {
    // This SDK tells the negotiated version to its transport only, and its stdio transport does not ask for it.
    const tell = transport.setProtocolVersion?.bind(transport);
    transport.setProtocolVersion = (version) => {
      negotiated = version;
      tell?.(version);
    };
    await client.connect(transport);
    return negotiated;
  },
  listTools: () => allPages((page) => client.listTools(page), "tools"),
  listResources: () => allPages((page) => client.listResources(page), "resources"),
  listPrompts: () => allPages((page) => client.listPrompts(page), "prompts"),
  call: (name, args, request) => client.callTool({ name, arguments: args }, undefined, request),
  readResource: (uri) => client.readResource({ uri }),
  getPrompt: (name, args) => client.getPrompt({ name, arguments: args }),
  async close() {
    if (options.url) await transport.terminateSession();
    await client.close();
  },
});
