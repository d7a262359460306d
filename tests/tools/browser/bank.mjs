// A tool server for the browser's test: it counts what it executes in a file, with fsync, before it answers.

import { closeSync, fsyncSync, openSync, readFileSync, writeSync } from "node:fs";
import { createServer } from "node:http";

const text = { type: "string" };
const TOOLS = {
  pay: { type: "object", properties: { amount: { type: "integer" }, to: text, note: text }, required: ["amount"] },
  wipe: { type: "object", properties: { table: text }, required: ["table"] },
  note: { type: "object", additionalProperties: true },
  soon: { type: "object", properties: { what: text } },
  lose: { type: "object", properties: { what: text } },
};

export function executions(file) {
  try {
    return readFileSync(file, "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line));
  } catch {
    return [];
  }
}

// Serves, and gives the address.
export async function startBank(file) {
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (part) => (body += part));
    request.on("end", () => answer(JSON.parse(body || "{}"), response, file));
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  return { url: `http://127.0.0.1:${server.address().port}/mcp`, stop: () => server.close() };
}

function answer({ id, method, params }, response, file) {
  const json = (result) => {
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ jsonrpc: "2.0", id, ...result }));
  };
  if (id === undefined) return response.writeHead(202).end();
  if (method === "initialize") {
    const serverInfo = { name: "bank", version: "1" };
    return json({ result: { protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo } });
  }
  if (method === "tools/list") {
    const tools = Object.entries(TOOLS).map(([name, inputSchema]) => ({ name, description: `Does ${name}.`, inputSchema }));
    return json({ result: { tools } });
  }
  if (method === "tools/call") {
    const log = openSync(file, "a");
    writeSync(log, JSON.stringify({ tool: params.name, arguments: params.arguments }) + "\n");
    fsyncSync(log);
    closeSync(log);
    // Executed, and nobody is told.
    if (params.name === "lose") return response.destroy();
    return json({ result: { content: [{ type: "text", text: `did ${params.name}` }] } });
  }
  return json({ error: { code: -32601, message: "no such method" } });
}
