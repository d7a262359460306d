// bench/approvals.mjs [--holds 256] [--pages 100] [--seconds 60] [--decisions 40]: what waiting costs, and how soon a
// decision is with its agent.
//
// So many calls wait for a person, each on a connection of its own that is sent progress, and so many signed-in pages
// listen to what happens. CPU time is toolgate's own, from /proc/PID/stat, while nothing is decided. Then calls are allowed
// one after the other with the form of their page: the time is from sending the form until the agent has its answer, the
// tool server's part included. What misses its goal says so, and is the exit code 1.
// TOOLGATE_BIN names the program.

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { Agent, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { executions, startBank } from "../tests/tools/browser/bank.mjs";
import { Gate, TOKENS, freePort, until } from "../tests/tools/browser/gate.mjs";

const CLOCK_TICKS_PER_SECOND = 100;
// What may be: the share of a core where nothing is decided, and the longest way from the form to the agent.
const GOALS = { "% of a core": 1, ms: 100 };
// Calls of one agent that may wait at once.
const HOLDS_OF_ONE = 20;
// An agent that asks for progress has its call kept open for half an hour.
const TOLD = { _meta: { progressToken: "told" } };
const text = (name, otherwise) => [name, { type: "string", default: otherwise }];
const { values } = parseArgs({
  options: Object.fromEntries([text("holds", "256"), text("pages", "100"), text("seconds", "60"), text("decisions", "40")]),
});
const [holds, pages, seconds, decisions] = ["holds", "pages", "seconds", "decisions"].map((name) => Number(values[name]));

const folder = mkdtempSync(join(tmpdir(), "toolgate-approvals-"));
const ran = join(folder, "ran");
const bank = await startBank(ran);
const doors = { agents: await freePort(), admin: await freePort() };
const bots = Math.ceil(holds / HOLDS_OF_ONE);
const gate = await new Gate(join(folder, "gate"), { ...doors, bank: bank.url, bots }).start();
const connections = new Agent({ keepAlive: true });

// One request at the operators' door; a stream is given once its head is there.
function ask(method, path, { headers = {}, body, streams } = {}) {
  return new Promise((resolve, reject) => {
    const sent = request(`${gate.door}${path}`, { method, headers, agent: streams ? false : connections }, (answer) => {
      answer.setEncoding("utf8");
      let content = "";
      answer.on("data", (part) => (content += part));
      if (streams) return resolve(answer);
      answer.on("end", () => resolve({ status: answer.statusCode, headers: answer.headers, content }));
    });
    sent.on("error", reject);
    sent.end(body);
  });
}

const form = (fields) => ({ "content-type": "application/x-www-form-urlencoded", origin: gate.door, ...fields });
const encoded = (fields) => new URLSearchParams(fields).toString();

async function signedIn() {
  const answer = await ask("POST", "/login", { headers: form({}), body: encoded({ token: TOKENS.ann, next: "/approvals" }) });
  return answer.headers["set-cookie"][0].split(";")[0];
}

// Seconds of CPU time so far.
function cpu() {
  const fields = readFileSync(`/proc/${gate.process.pid}/stat`, "utf8").split(") ")[1].split(" ");
  return (Number(fields[11]) + Number(fields[12])) / CLOCK_TICKS_PER_SECOND;
}

// What there is to say of a goal that is missed.
let missed = 0;
function judged(found, unit) {
  if (found < GOALS[unit]) return "";
  missed += 1;
  return ` MISSED: under ${GOALS[unit]} ${unit}`;
}

async function idle(what) {
  const before = cpu();
  await new Promise((over) => setTimeout(over, seconds * 1000));
  const share = (100 * (cpu() - before)) / seconds;
  console.log(`${what}: ${share.toFixed(2)} % of a core over ${seconds} s${judged(share, "% of a core")}`);
}

// Allows a call on its page; milliseconds from the form until its agent has the answer.
async function decided(cookie, hold, answered) {
  const page = await ask("GET", `/approvals/${hold}`, { headers: { cookie } });
  const hidden = (name) => page.content.match(new RegExp(`name="${name}" value="([^"]*)"`))[1];
  const body = encoded({ form_secret: hidden("form_secret"), shown: hidden("shown"), decision: "allow" });
  const start = performance.now();
  const [said, told] = await Promise.all([
    ask("POST", `/approvals/${hold}`, { headers: form({ cookie }), body }),
    answered.then((told) => ({ told, at: performance.now() })),
  ]);
  if (!/did pay/.test(told.told)) throw new Error(`${said.status}: ${told.told}`);
  return told.at - start;
}

try {
  await idle("nothing waits and nobody looks on");
  const calls = Array.from({ length: holds }, (_, nth) => gate.call("pay", { amount: nth + 1 }, Math.floor(nth / HOLDS_OF_ONE), TOLD));
  calls.forEach((call) => call.catch(() => {}));
  const waiting = await until("all calls are held", async () => {
    const held = await gate.held();
    return held.length === holds && held;
  }, 60);
  const cookie = await signedIn();
  const listening = await Promise.all(Array.from({ length: pages }, () => ask("GET", "/approvals/events", { headers: { cookie }, streams: true })));
  if (!listening.every((stream) => stream.statusCode === 200)) throw new Error("a page may not listen");
  await idle(`${holds} calls wait and ${pages} pages are open`);
  if (!listening.every((stream) => !stream.closed)) throw new Error("a page was cut off");
  const times = [];
  for (const hold of waiting.slice(0, decisions)) times.push(await decided(cookie, hold.id, calls[hold.arguments.amount - 1]));
  times.sort((one, other) => one - other);
  const [p50, last] = [times[Math.floor(times.length / 2)], times.at(-1)];
  console.log(`from the decision on the page to the agent, ${times.length} decisions: p50 ${p50.toFixed(1)} ms, at most ${last.toFixed(1)} ms${judged(last, "ms")}`);
  const done = executions(ran).length;
  if (done !== decisions) throw new Error(`${done} executions of ${decisions} allowed calls`);
} finally {
  await gate.stop();
  rmSync(folder, { recursive: true });
}
process.exit(missed > 0 ? 1 : 0);
