// schemas.mjs OUTDIR: writes the published JSON schemas of MCP, one file for each revision, as the conformance suite that
// tests/tools/setup installs has them. They are read out of the installed suite, so that they are as new as its pinned version.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { runInNewContext } from "node:vm";

// The suite has none of 2024-11-05.
const REVISIONS = ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

const here = dirname(fileURLToPath(import.meta.url));
const suite = join(here, "../../.tools/node/node_modules/@modelcontextprotocol/conformance/dist/index.js");
const [out, ...more] = process.argv.slice(2);
if (out === undefined || more.length > 0) fail("usage: schemas.mjs OUTDIR");

const text = readFileSync(suite, "utf8");
const table = /\{"2025-03-26":([\w$]+),"2025-06-18":([\w$]+),"2025-11-25":([\w$]+),\[[\w$]+\]:([\w$]+)\}/.exec(text);
if (table === null) fail(`${suite} has no table of schemas by revision`);
mkdirSync(out, { recursive: true });
REVISIONS.forEach((revision, index) => {
  const schema = literal(table[index + 1]);
  const definitions = schema.$defs ?? schema.definitions ?? {};
  for (const name of ["ClientRequest", "CallToolRequest", "CallToolResult", "ServerNotification"]) {
    if (definitions[name] === undefined) fail(`the schema of ${revision} does not define ${name}`);
  }
  // What only one era has tells them apart: the suite names the newest by a variable.
  const isModern = definitions.InputRequiredResult !== undefined;
  if (isModern !== (revision === "2026-07-28")) fail(`the schema of ${revision} is one of the other era`);
  writeFileSync(join(out, `${revision}.json`), `${JSON.stringify(schema)}\n`);
  console.log(`${revision}: ${Object.keys(definitions).length} definitions`);
});

// The object that this variable is set to. It is data; it is read where nothing else is.
function literal(name) {
  const begins = `${name.replaceAll("$", "\\$")}=\\{\\$schema:`;
  const at = new RegExp(`(?<![\\w$])${begins}`).exec(text);
  if (at === null) fail(`${suite} does not say what ${name} is`);
  const start = at.index + name.length + 1;
  return runInNewContext(`(${text.slice(start, end(start))})`, Object.create(null));
}

// Where the object that begins at `start` ends; braces in strings and templates do not count.
function end(start) {
  let depth = 0;
  for (let at = start; at < text.length; at += 1) {
    const char = text[at];
    if (char === "`" || char === '"' || char === "'") {
      for (at += 1; text[at] !== char; at += 1) if (text[at] === "\\") at += 1;
    } else if (char === "{") depth += 1;
    else if (char === "}" && --depth === 0) return at + 1;
  }
  fail(`${suite} ends within a schema`);
}

function fail(words) {
  console.error(`schemas: ${words}`);
  process.exit(1);
}
