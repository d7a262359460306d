// summarize-conformance.mjs OUTDIR RUN...: writes OUTDIR/summary.json from the checks.json files that the suite left in each run's folder.

import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const [out, ...runs] = process.argv.slice(2);
const summary = {};
for (const run of runs) {
  summary[run] = {};
  for (const folder of readdirSync(join(out, run)).sort()) {
    const scenario = /^server-(.+)-\d{4}-\d{2}-\d{2}T[\d-]+Z$/.exec(folder)?.[1];
    if (scenario !== undefined) summary[run][scenario] = outcomes(join(out, run, folder, "checks.json"));
  }
  const scenarios = Object.values(summary[run]);
  const count = (status) => scenarios.reduce((sum, scenario) => sum + scenario[status].length, 0);
  if (count("passed") === 0) {
    console.error(`${run}: no check passed, is the server there? See ${join(out, run, "log.txt")}`);
    process.exit(1);
  }
  console.log(`${run}: ${scenarios.length} scenarios, ${count("passed")} checks passed, ${count("failed")} failed`);
}
writeFileSync(join(out, "summary.json"), `${JSON.stringify(summary, null, 2)}\n`);

// Warnings, notes and skipped checks are neither passed nor failed.
function outcomes(file) {
  const scenario = { passed: [], failed: [] };
  // A scenario that broke off leaves no file.
  if (!existsSync(file)) return { passed: [], failed: ["scenario-broke-off"] };
  const used = new Set();
  for (const { id, name, status } of JSON.parse(readFileSync(file, "utf8"))) {
    const key = unused(used, id, name);
    if (status === "SUCCESS") scenario.passed.push(key);
    if (status === "FAILURE") scenario.failed.push(key);
  }
  return scenario;
}

// Some scenarios use one check id several times, some even with one name: the order then tells them apart, it is fixed in the suite.
function unused(used, id, name) {
  let key = id;
  if (used.has(key)) key = `${id}@${name.replaceAll(/\s+/g, "-")}`;
  for (let number = 2; used.has(key); number += 1) key = `${id}@${name.replaceAll(/\s+/g, "-")}#${number}`;
  used.add(key);
  return key;
}
