// run.mjs: agents on published SDKs sign in by themselves: toolgate refuses the first request, and what it answers then is all that
// they go by. TOOLGATE_BIN is the program. Prints a line for each that held, and ends with 1 if one did not.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { executions, startBank } from "../browser/bank.mjs";
import { Gate, freePort } from "../browser/gate.mjs";
import { PACKAGES } from "../agents/operations.mjs";
import { Issuer } from "./issuer.mjs";

const require = createRequire(join(PACKAGES, "x.cjs"));
const CLIENT = { id: "support-bot", secret: "secret-of-the-support-bot" };
const SCOPE = "mcp:call";

const SDKS = {
  "TypeScript SDK 1.x": () => ({
    ...require("@modelcontextprotocol/sdk/client/index.js"),
    ...require("@modelcontextprotocol/sdk/client/streamableHttp.js"),
    ...require("@modelcontextprotocol/sdk/client/auth-extensions.js"),
    options: {},
  }),
  "TypeScript SDK 2.x": () => ({
    ...require("@modelcontextprotocol/client"),
    options: { versionNegotiation: { mode: "auto" } },
  }),
};

class SigningGate extends Gate {
  write() {
    const { agents, admin, bank, issuer } = this.settings;
    const settings = {
      mode: "enforce",
      listen: `127.0.0.1:${agents}`,
      data: "data",
      servers: { bank: { url: bank } },
      auth: {
        public_url: this.url,
        jwt: [{ issuer, audience: `${this.url}/mcp`, jwks_url: `${issuer}/keys`, claims: { agent: "azp" }, scopes: [SCOPE] }],
      },
      policies: ["policy.yaml"],
      admin: { listen: `127.0.0.1:${admin}` },
    };
    const note = {
      purpose: "Notes something.",
      actions: ["write"],
      permission: "anyone",
      secrets: [],
      side_effect: { writes: "notes", rollback: { manual: "strike it out" } },
      approval: { ask: "never" },
    };
    // JSON is YAML.
    writeFileSync(join(this.folder, "toolgate.yaml"), JSON.stringify(settings), { mode: 0o600 });
    writeFileSync(join(this.folder, "policy.yaml"), JSON.stringify({ contracts: { bank__note: note } }));
  }

  get url() {
    return `http://127.0.0.1:${this.settings.agents}`;
  }
}

// What one agent does that knows nothing but toolgate's address and its own credentials.
async function signsIn(sdk, { gate, issuer }, secret = CLIENT.secret) {
  const { Client, StreamableHTTPClientTransport, ClientCredentialsProvider, options } = SDKS[sdk]();
  const credentials = { clientId: CLIENT.id, clientSecret: secret, scope: SCOPE, expectedIssuer: issuer.url };
  const authProvider = new ClientCredentialsProvider(credentials);
  const client = new Client({ name: "signing-in", version: "1.0.0" }, options);
  const transport = new StreamableHTTPClientTransport(new URL(`${gate.url}/mcp`), { authProvider });
  await client.connect(transport);
  return { client, authProvider, note: (what) => client.callTool({ name: "bank__note", arguments: { what } }) };
}

// A gate, its issuer and its tool server, in a folder of their own.
async function staged(work) {
  const folder = mkdtempSync(join(tmpdir(), "toolgate-signing-in-"));
  const file = join(folder, "executions");
  writeFileSync(file, "");
  const [issuer, bank] = [await new Issuer(CLIENT).start(), await startBank(file)];
  const settings = { agents: await freePort(), admin: await freePort(), bank: bank.url, issuer: issuer.url };
  const gate = new SigningGate(join(folder, "gate"), settings);
  try {
    await gate.start();
    await work({ gate, issuer, ran: () => executions(file).length });
  } finally {
    if (gate.process?.exitCode === null) await gate.stop();
    bank.stop();
    issuer.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

const problems = [];
let held = 0;
async function shows(what, scenario) {
  try {
    await scenario();
    held += 1;
    console.log(`ok: ${what}`);
  } catch (error) {
    problems.push(what);
    console.error(`FAILED: ${what}\n${error.stack}`);
  }
}

async function signs(sdk, stage) {
  const { gate, issuer, ran } = stage;

  await shows(`${sdk}: signs in by what the refusal says, and calls`, async () => {
    const { client, note } = await signsIn(sdk, stage);
    const { tools } = await client.listTools();
    assert.deepEqual(tools.map((tool) => tool.name), ["bank__note"]);
    const answer = await note("once");
    assert.ok(!answer.isError, JSON.stringify(answer));
    assert.equal(ran(), 1);
    // One token is enough. It is for this door (RFC 8707), as the metadata of RFC 9728 name it.
    const form = { grant_type: "client_credentials", scope: SCOPE, resource: `${gate.url}/mcp`, known: true };
    assert.deepEqual(issuer.asked, [form]);
    await client.close();
  });

  await shows(`${sdk}: asks for another token when its own is over`, async () => {
    const { client, authProvider, note } = await signsIn(sdk, stage);
    const before = issuer.asked.length;
    const over = issuer.issue({ ...issuer.asked.at(-1) }, { exp: Math.floor(Date.now() / 1000) - 3600 });
    authProvider.saveTokens({ ...authProvider.tokens(), access_token: over });
    const answer = await note("anew");
    assert.ok(!answer.isError, JSON.stringify(answer));
    assert.deepEqual([ran(), issuer.asked.length], [2, before + 1], "once, and by one more token");
    await client.close();
  });

  await shows(`${sdk}: goes on when the issuer signs with another key`, async () => {
    issuer.rotate();
    const { client, note } = await signsIn(sdk, stage);
    assert.ok(!(await note("rotated")).isError);
    assert.equal(ran(), 3);
    await client.close();
  });

  for (const [why, otherwise] of Object.entries({
    "a token for another door": { aud: "https://elsewhere.example/mcp" },
    "a token of another issuer": { iss: "https://elsewhere.example" },
    "a token without the scope": { scope: "mcp:other" },
  })) {
    await shows(`${sdk}: ${why} opens nothing, and its agent is told so`, async () => {
      // However often it asks, it gets the same.
      issuer.otherwise = otherwise;
      const isTold = (error) => /unauthorized|authoriz|scope|40[13]/i.test(`${error.name} ${error.message}`);
      await assert.rejects(signsIn(sdk, stage), isTold);
      issuer.otherwise = {};
      assert.equal(ran(), 3);
    });
  }

  await shows(`${sdk}: without its secret it gets nowhere`, async () => {
    await assert.rejects(signsIn(sdk, stage, "another secret"));
    assert.equal(issuer.asked.at(-1).known, false);
    assert.equal(ran(), 3);
  });

  await shows(`${sdk}: no token and no secret stands in the log or in the ledger`, async () => {
    const isClean = (text) => !text.includes("eyJ") && !text.includes(CLIENT.secret);
    assert.ok(isClean(gate.log), gate.log);
    const words = ["ledger", "list", "--json", "--data", join(gate.folder, "data")];
    const entries = execFileSync(process.env.TOOLGATE_BIN, words).toString();
    assert.ok(isClean(entries), entries);
    const calls = entries.split("\n").filter((line) => line.includes("bank__note"));
    assert.equal(calls.length, 3, entries);
    assert.ok(calls.every((line) => line.includes(`"${CLIENT.id}"`) && line.includes(issuer.url)), entries);
  });
}

for (const sdk of Object.keys(SDKS)) await staged((stage) => signs(sdk, stage));
console.log(`${held} of ${held + problems.length} held`);
process.exit(problems.length ? 1 : 0);
