// An agent on the TypeScript SDK 1.x for tests/tools/everyday: as everyday.py, over HTTP to one place.

import { readFileSync } from "node:fs";
import { require } from "../clients/steps.mjs";

const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");

const asked = JSON.parse(readFileSync(0, "utf8"));
const { url, token } = asked.places[""];
const headers = { Authorization: `Bearer ${token}` };
const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
const client = new Client({ name: "toolgate-test-everyday", version: "1.0.0" });
await client.connect(transport);
for (const [server, tool, args] of asked.calls) {
  const answer = await client.callTool({ name: `${server}__${tool}`, arguments: args }).catch((error) => ({ error: String(error) }));
  console.log(JSON.stringify(answer));
}
await transport.terminateSession();
await client.close();
