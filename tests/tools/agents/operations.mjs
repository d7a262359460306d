// What each JavaScript agent of tests/tools/pairs is asked, and how it answers: as operations.py says for those in Python.
// `connect(job)` gives the connected agent, which has a method for each operation it can do, and `close()`.

import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

export const PACKAGES = fileURLToPath(new URL("../../../.tools/node/node_modules/", import.meta.url));
export const require = createRequire(PACKAGES);
export const PERSON = { name: "Ada", age: 36 };

const STEP_DEADLINE_MS = 60_000;

export async function run(connect) {
  let input = "";
  for await (const chunk of process.stdin) input += chunk;
  for (const job of JSON.parse(input)) {
    try {
      const agent = await within(connect(job));
      for (const step of job.steps) {
        if (!agent[step.op] || (agent.once && step.id !== step.op)) continue;
        try {
          answer(job, step.id, { value: (await within(agent[step.op](step))) ?? null });
        } catch (error) {
          answer(job, step.id, { error: describe(error) });
        }
      }
      await within(agent.close());
      answer(job, "session", { value: "closed" });
    } catch (error) {
      answer(job, "session", { error: describe(error) });
    }
  }
  // A connection that does not end by itself keeps nobody waiting.
  process.exit(0);
}

function answer(job, step, outcome) {
  process.stdout.write(`${JSON.stringify({ job: job.job, step, ...outcome })}\n`);
}

async function within(promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no end within ${STEP_DEADLINE_MS} ms`)), STEP_DEADLINE_MS);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

function describe(error) {
  const code = error?.code === undefined ? "" : ` ${error.code}`;
  return `${error?.constructor?.name ?? typeof error}${code}: ${error?.message ?? error}`;
}
