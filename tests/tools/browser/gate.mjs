// A toolgate for the browser's test, and agents that call through it.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";

export const TOKENS = {
  ann: "token-of-the-operator-ann",
  bob: "token-of-the-operator-bob",
  eve: "token-of-the-operator-eve",
};
// The token of the nth agent: bot, bot1, bot2, …
const agentToken = (nth) => `token-of-the-agent-bot${nth || ""}`;

const contract = (tool, actions, more) =>
  `  bank__${tool}: { purpose: ${more.purpose}, actions: [${actions}], permission: { roles: [teller] }, secrets: [], ${more.effect}, approval: ${more.approval} }\n`;
const undone = "side_effect: { writes: ledger, rollback: { manual: book it back } }";

export function policy({ twice = "note" } = {}) {
  return `contracts:
${contract("pay", "write, pay", { purpose: "Pays an invoice of the tenant.", effect: undone, approval: "{ ask: always, execute_by: 5m, show: [{ pointer: /amount, unit: cents, currency: EUR }, /to] }" })}\
${contract("wipe", "delete", { purpose: "Empties a table for good.", effect: "side_effect: { writes: tables }, irreversible: true", approval: "{ required: 2, execute_by: 5m }" })}\
${contract("note", "write", { purpose: twice, effect: undone, approval: "{ ask: on-miss, execute_by: 5m }" })}\
${contract("soon", "write", { purpose: "Waits ten minutes for a person.", effect: undone, approval: "{ ask: always, approve_by: 10m }" })}\
${contract("lose", "write", { purpose: "Loses its answer.", effect: undone, approval: "{ ask: never }" })}`;
}

const operator = (name, roles) => `    - { name: ${name}, token: ${TOKENS[name]}, roles: [${roles}] }\n`;

const caller = (nth) => `{ agent: bot${nth || ""}, token: ${agentToken(nth)}, tenant: t_1, roles: [teller] }`;

export function configuration({ agents, admin, bank, bots = 1, operators = ["ann", "bob", "eve"] }) {
  const roles = { ann: "approver, resolver, switch, auditor", bob: "approver", eve: "clerk" };
  return `mode: enforce
listen: 127.0.0.1:${agents}
data: data
servers: { bank: { url: "${bank}" } }
callers: [ ${Array.from({ length: bots }, (_, nth) => caller(nth)).join(", ")} ]
policies: [policy.yaml]
admin:
  listen: 127.0.0.1:${admin}
  tokens:
${operators.map((name) => operator(name, roles[name])).join("")}`;
}

export async function freePort() {
  const probe = createServer();
  await new Promise((ready) => probe.listen(0, "127.0.0.1", ready));
  const { port } = probe.address();
  await new Promise((closed) => probe.close(closed));
  return port;
}

export async function until(what, look, seconds = 20) {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (Date.now() > end) throw new Error(`this did not happen within ${seconds} s: ${what}`);
    await new Promise((again) => setTimeout(again, 20));
  }
}

export class Gate {
  constructor(folder, settings) {
    Object.assign(this, { folder, settings });
    mkdirSync(folder, { recursive: true });
    this.write();
  }

  write(more = {}) {
    Object.assign(this.settings, more);
    writeFileSync(join(this.folder, "toolgate.yaml"), configuration(this.settings), { mode: 0o600 });
    writeFileSync(join(this.folder, "policy.yaml"), policy(this.settings));
  }

  get door() {
    return `http://127.0.0.1:${this.settings.admin}`;
  }

  async start() {
    const { program = process.env.TOOLGATE_BIN, environment = {} } = this.settings;
    const env = { ...process.env, ...environment };
    this.process = spawn(program, ["serve", "--config", "toolgate.yaml"], { cwd: this.folder, env, stdio: ["ignore", "pipe", "pipe"] });
    const started = this.process;
    process.once("exit", () => started.kill("SIGKILL"));
    this.log = "";
    for (const stream of [this.process.stdout, this.process.stderr]) stream.on("data", (part) => (this.log += part));
    const ready = async () => {
      if (this.process.exitCode !== null) throw new Error("toolgate has ended");
      return (await fetch(`${this.door}/readyz`).catch(() => null))?.ok;
    };
    await until("toolgate is ready", ready, 60).catch((error) => {
      throw new Error(`${error.message}\n${this.log}`);
    });
    return this;
  }

  async stop(signal = "SIGTERM") {
    const ended = once(this.process, "exit");
    this.process.kill(signal);
    await ended;
  }

  // A call of the legacy era by the nth agent; its answer comes when it comes.
  async call(tool, args, nth = 0, more = {}) {
    const headers = {
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      authorization: `Bearer ${agentToken(nth)}`,
    };
    const post = async (message) => {
      const address = `http://127.0.0.1:${this.settings.agents}/mcp`;
      const answer = await fetch(address, { method: "POST", headers, body: JSON.stringify({ jsonrpc: "2.0", ...message }) });
      const session = answer.headers.get("mcp-session-id");
      if (session) headers["mcp-session-id"] = session;
      const body = await answer.text();
      const line = body.split("\n").filter((line) => line.startsWith("data: {")).at(-1);
      return body.startsWith("{") ? JSON.parse(body) : line ? JSON.parse(line.slice(6)) : null;
    };
    const clientInfo = { name: "browser-test", version: "1" };
    await post({ id: 0, method: "initialize", params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo } });
    await post({ method: "notifications/initialized" });
    const answer = await post({ id: 1, method: "tools/call", params: { name: `bank__${tool}`, arguments: args, ...more } });
    return answer?.result?.content?.map((part) => part.text ?? "").join(" ") ?? JSON.stringify(answer);
  }

  // What the API says of held calls, as `who`.
  async held(who = "ann") {
    const answer = await fetch(`${this.door}/api/approvals`, { headers: { authorization: `Bearer ${TOKENS[who]}` } });
    return (await answer.json()).approvals;
  }
}
