// A held call whose time is over while clocks stand: toolgate's are in the scenario's hand (tests/faults/clock_hand.rs), and so is the
// page's. Nothing here waits for time to pass.

import assert from "node:assert/strict";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Gate, freePort, until } from "./gate.mjs";

// What `approve_by` of the tool `soon` says.
const WAITS_MS = 600_000;

// The program beside $TOOLGATE_BIN that has fail points, its clocks going until the hand's first order.
export async function gateWithClocks(folder, bank) {
  const program = `${process.env.TOOLGATE_BIN}-failpoints`;
  assert.ok(existsSync(program), `${program} is missing: cargo build --features failpoints --bin toolgate-failpoints`);
  const orders = join(folder, "clock");
  const settings = { agents: await freePort(), admin: await freePort(), bank, program, environment: { TOOLGATE_CLOCK: orders } };
  const gate = await new Gate(join(folder, "stopped"), settings).start();
  const hand = connect(orders);
  await once(hand, "connect");
  const answers = createInterface({ input: hand })[Symbol.asyncIterator]();
  // Stops toolgate's clocks, if they go, and moves them on.
  const pass = async (ms) => {
    hand.write(`${ms}\n`);
    const { value } = await answers.next();
    assert.ok(Date.parse(value) > 0, `toolgate's clocks are not moved: ${value}`);
  };
  const stop = async () => {
    hand.destroy();
    await gate.stop("SIGKILL");
  };
  return { gate, pass, stop };
}

// What the page says of the time that is left, once it says `words`.
const says = (page, words) =>
  until(`the page says "${words}"`, async () => (await page.locator(".time .left").allInnerTexts())[0] === words);

// `desk`, `asked`, `state` and `count` are those of desk.mjs.
export async function isOverByTheClock({ gate, pass }, { desk, asked, state, count }) {
  await pass(0);
  const { id, told } = await asked("soon", { what: "it" }, { at: gate, more: { _meta: { progressToken: "p" } } });
  let answer = null;
  // Where the scenario fails before, nobody is answered.
  told.then((words) => (answer = words), () => {});
  const card = `${gate.door}/approvals/${id}`;
  const old = await desk("ann", { door: gate.door, javaScriptEnabled: false });
  await old.goto(card);
  const page = await desk("ann", { door: gate.door });
  // The clock of this browser is years behind, and stands.
  await page.clock.install({ time: "2020-02-02T01:00:00Z" });
  await page.clock.pauseAt("2020-02-02T02:00:00Z");
  await Promise.all([page.waitForResponse("**/approvals/events"), page.goto(card)]);
  await page.evaluate(() => (window.isSamePage = true));
  await says(page, "10:00 left");

  // The browser's clock alone ends nothing: the page looks, and is told what toolgate's says.
  const moves = page.clock.fastForward(WAITS_MS).then(() => page.clock.runFor(100));
  await Promise.all([page.waitForResponse(/refresh=1/), moves]);
  await says(page, "10:00 left");

  await pass(WAITS_MS - 1000);
  await page.clock.fastForward(WAITS_MS - 1000);
  await says(page, "0:01 left");
  assert.equal(await state(id, gate), "pending");
  assert.equal(await page.locator(".decide").count(), 1);
  assert.equal(answer, null, "its agent waits");

  // To the millisecond at which it is over, and the page learns it by itself.
  await pass(1000);
  await page.clock.runFor(1100);
  await page.waitForSelector(".state.expired");
  assert.equal(await page.evaluate(() => window.isSamePage), true, "it was not loaded again");
  assert.equal(await page.innerText("#live"), "this call is expired");
  assert.equal(await page.locator("main form, main button").count(), 0, "nothing can be said of it");
  assert.match(await told, /approval_timeout/);

  // A page that stood open without a script still has its forms.
  await old.click("details.allow summary");
  const isPosted = (response) => response.request().method() === "POST";
  const [refused] = await Promise.all([old.waitForResponse(isPosted), old.click(".yes")]);
  assert.equal(refused.status(), 409);
  await old.waitForSelector(".state.expired");
  assert.match(await old.innerText(".note.bad"), /Nothing was done/);
  assert.equal(await old.locator("main form").count(), 0);
  assert.equal(await state(id, gate), "expired");
  assert.equal(count("soon"), 0, "nothing was sent");
}
