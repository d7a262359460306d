// The command line of the MCP Inspector: one process, and so one connection, for each operation.

import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { PACKAGES, run } from "./operations.mjs";

const execute = promisify(execFile);
const LAUNCHER = join(PACKAGES, "@modelcontextprotocol/inspector/clients/launcher/build/index.js");

await run(async (job) => {
  const folder = mkdtempSync(join(tmpdir(), "toolgate-inspector-"));
  const [command, ...args] = job.command ?? [];
  const entry = job.url ? { type: "streamable-http", url: job.url } : { type: "stdio", command, args, env: { ...process.env, ...job.env } };
  const config = join(folder, "mcp.json");
  writeFileSync(config, JSON.stringify({ mcpServers: { it: entry } }));

  async function ask(method, ...words) {
    const line = [LAUNCHER, "--cli", "--config", config, "--server", "it", "--method", method, "--quiet", "--format", "json", ...words];
    try {
      const env = { ...process.env, HOME: folder, MCP_STORAGE_DIR: folder };
      return JSON.parse((await execute(process.execPath, line, { env, timeout: 60_000, maxBuffer: 1 << 24 })).stdout);
    } catch (error) {
      // Exit code 5 says that the tool answered with an error; standard output has it all the same.
      if (error.code === undefined || typeof error.code !== "number") throw error;
      return { "exit code": error.code, output: json(error.stdout), errors: json(error.stderr) };
    }
  }

  const call = (step) => ask("tools/call", "--tool-name", job.prefix + step.tool, "--tool-args-json", JSON.stringify(step.arguments));
  const pairs = (object) => Object.entries(object).map(([key, value]) => `${key}=${value}`);
  return {
    // A process for each is long: one call is enough.
    once: true,
    tools: async () => (await ask("tools/list")).result.tools,
    call,
    error: call,
    prompt: (step) => ask("prompts/get", "--prompt-name", step.prefix + step.name, "--prompt-args", ...pairs(step.arguments)),
    resource: (step) => ask("resources/read", "--uri", step.uri),
    close: async () => rmSync(folder, { recursive: true }),
  };
});

function json(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
