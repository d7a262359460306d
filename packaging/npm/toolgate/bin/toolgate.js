#!/usr/bin/env node
// Runs the program that npm installed for this machine. Nothing is downloaded here, and no script runs at installation.
"use strict";
const { spawn } = require("node:child_process");
const { constants } = require("node:os");

const name = `@toolgate/${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`${name}/bin/toolgate`);
} catch {
  console.error(
    `toolgate: ${name} is not installed: there is no program for this machine, or optional dependencies were left out (npm install --include=optional)`,
  );
  process.exit(2);
}

// The same standard streams, so that an agent that wraps a server with `npx --no toolgate stdio` speaks with the program itself.
const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
const ends = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"];
for (const signal of ends) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {
  console.error(`toolgate: ${program} cannot be started: ${error.message}`);
  process.exit(2);
});
child.on("exit", (code, signal) => {
  if (signal === null) process.exit(code);
  for (const one of ends) process.removeAllListeners(one);
  process.kill(process.pid, signal);
  // Where the signal does not end this process, the code says what a shell would.
  process.exitCode = 128 + constants.signals[signal];
});
