// The operators' pages in a real browser: $TOOLGATE_BIN, an agent, a tool server that counts, and three operators. Beside it stands
// the same with fail points, whose clocks can be stopped.
//
//     node tests/tools/browser/desk.mjs [--pictures FOLDER]
//
// The last line is "N passed, N failed".

import assert from "node:assert/strict";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { executions, startBank } from "./bank.mjs";
import { gateWithClocks, isOverByTheClock } from "./clock.mjs";
import { Gate, TOKENS, freePort, until } from "./gate.mjs";

const require = createRequire(new URL("../../../.tools/node/", import.meta.url));
const { chromium } = require("playwright-core");

const BROWSERS = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const PHONE = { width: 360, height: 640 };
const DESK = { width: 1440, height: 900 };
// How soon a page shows what happened elsewhere.
const LIVE_SECONDS = 5;
// The bar of a call that the next "a" allows.
const ARMED = "details.allow[data-armed=ready]";
// Bytes, as JSON, of the longest arguments that are shown to a person.
const MAX_ARGUMENTS_BYTES = 16 << 10;
// How long one scenario may take on a machine that does much else.
const SCENARIO_SECONDS = 120;

const pictures = process.argv[2] === "--pictures" ? process.argv[3] : null;
const folder = mkdtempSync(join(tmpdir(), "toolgate-desk-"));
const ran = join(folder, "executions");
const bank = await startBank(ran);
// What is released takes no orders about clocks.
const noOrders = join(folder, "no-clock");
const settings = { agents: await freePort(), admin: await freePort(), bank: bank.url, environment: { TOOLGATE_CLOCK: noOrders } };
const gate = await new Gate(join(folder, "gate"), settings).start();

// A browser of its own, which `kill` ends whatever it is doing: one that is asked to close may never do so.
async function startBrowser() {
  const server = await chromium.launchServer({
    executablePath: process.env.BROWSER_BIN ?? BROWSERS.find((path) => existsSync(path)),
    args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
    timeout: 60_000,
  });
  return { browser: await chromium.connect(server.wsEndpoint()), kill: () => server.kill() };
}

// What a promise gives, or an error when that takes too long.
async function within(seconds, promise) {
  let timer;
  const late = new Promise((_, fail) => {
    timer = setTimeout(() => fail(new Error(`it did not end within ${seconds} s`)), seconds * 1000);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

let passed = 0;
const failures = [];

async function scenario(name, body) {
  const errors = [];
  const { browser, kill } = await startBrowser();
  // A browser of one operator; without a name, of nobody.
  const desk = async (who, { door = gate.door, ...more } = {}) => {
    const context = await browser.newContext({ viewport: DESK, ...more });
    const page = await context.newPage();
    page.setDefaultTimeout(15_000);
    page.on("pageerror", (error) => errors.push(error.message));
    page.on("console", (message) => message.text().includes("Content Security Policy") && errors.push(message.text()));
    if (who) {
      await page.goto(`${door}/approvals`);
      await page.fill("#token", TOKENS[who]);
      await page.click("button.main");
      await page.waitForSelector("h1:has-text('Calls that wait')");
    }
    return page;
  };
  try {
    await within(SCENARIO_SECONDS, body(desk));
    assert.deepEqual(errors, [], "the page broke");
    passed += 1;
    console.log(`ok      ${name}`);
  } catch (error) {
    failures.push(name);
    console.log(`FAILED  ${name}\n${error.stack}\n${gate.log.slice(-2000)}`);
  }
  await kill();
}

// Calls, and gives the held call once operators can see it, with what the agent is told in the end.
async function asked(tool, args, { at = gate, more = {} } = {}) {
  const before = new Set((await at.held()).map((hold) => hold.id));
  const told = at.call(tool, args, 0, more);
  const hold = await until(`${tool} is held`, async () => (await at.held()).find((hold) => !before.has(hold.id)));
  return { id: hold.id, told };
}

const count = (tool) => executions(ran).filter((one) => one.tool === tool).length;
const state = async (id, at = gate) => {
  const answer = await fetch(`${at.door}/api/approvals/${id}`, { headers: { authorization: `Bearer ${TOKENS.ann}` } });
  return (await answer.json()).state;
};
const picture = async (page, name) => pictures && page.screenshot({ path: join(pictures, `${name}.png`) });

await scenario("a person signs in, looks at a call, and allows it with keys", async (desk) => {
  const page = await desk("ann");
  const { id, told } = await asked("pay", { amount: 12500, to: "ACME", note: "invoice 7" });
  await page.waitForSelector(`[data-id="${id}"]`, { timeout: LIVE_SECONDS * 1000 });
  await page.keyboard.press("j");
  await page.keyboard.press("o");
  await page.waitForSelector(".card");
  const card = await page.innerText(".card");
  for (const words of ["pay", "bank", "Pays an invoice of the tenant.", "12500", "ACME", "invoice 7", "bot", "t_1", "moves money", "125.00 EUR", "its contract asks for each call (contract bank__pay, ", "policy.yaml:2"]) {
    assert.ok(card.includes(words), words);
  }
  assert.equal(await page.evaluate(() => document.activeElement.id), "why", "the reason has the focus, never Allow");
  await page.keyboard.press("Enter");
  assert.equal(await state(id), "pending", "Enter never allows");
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press("a");
  assert.equal(await state(id), "pending", "one key alone never allows");
  await page.waitForSelector(ARMED);
  await page.keyboard.press("a");
  await page.waitForSelector(".note.good");
  assert.match(await told, /did pay/);
  assert.equal(count("pay"), 1);
});

await scenario("a key that is held down allows nothing, and neither do two quick ones", async (desk) => {
  const page = await desk("ann");
  const { id, told } = await asked("pay", { amount: 8, to: "nobody" });
  await page.waitForSelector(`[data-id="${id}"]`, { timeout: LIVE_SECONDS * 1000 });
  const held = async (times) => {
    for (let time = 0; time < times; time += 1) await page.keyboard.down("a");
  };
  await page.keyboard.press("j");
  await held(5);
  await page.waitForSelector(".card");
  await held(5);
  assert.equal(await page.locator("details.allow[open]").count(), 1, "the bar stands open");
  assert.equal(await page.locator("[data-armed]").count(), 0, "and no key of the list arms it");
  await page.keyboard.up("a");
  await held(5);
  await page.waitForSelector(ARMED);
  await held(5);
  assert.equal(await state(id), "pending", "the key was not let go");
  await page.keyboard.up("a");
  await page.keyboard.press("Escape");
  await page.evaluate(() => {
    const press = (type) => document.body.dispatchEvent(new KeyboardEvent(type, { key: "a", bubbles: true }));
    for (let time = 0; time < 6; time += 1) for (const type of ["keydown", "keyup"]) press(type);
  });
  assert.equal(await page.locator("details.allow[open]").count(), 1);
  assert.equal(await state(id), "pending", "quick ones are one");
  await page.keyboard.press("Escape");
  assert.equal(await page.locator("[data-armed]").count(), 0);
  await page.fill("#why", "no");
  await page.click(".decide .deny button.no");
  assert.match(await told, /approval_denied/);
});

await scenario("a page that finds no place for its stream looks by itself", async (desk) => {
  const page = await desk("ann");
  await page.route("**/approvals/events", (route) => route.fulfill({ status: 503, headers: { "retry-after": "5" } }));
  await page.reload();
  const { id, told } = await asked("pay", { amount: 9, to: "nobody" });
  await page.waitForSelector(`[data-id="${id}"]`, { timeout: 4 * LIVE_SECONDS * 1000 });
  await page.goto(`${gate.door}/approvals/${id}`);
  await page.fill("#why", "no");
  await page.click(".decide .deny button.no");
  assert.match(await told, /approval_denied/);
});

await scenario("a call is denied with a reason that the agent reads", async (desk) => {
  const page = await desk("bob");
  const { id, told } = await asked("pay", { amount: 1, to: "nobody" });
  await page.goto(`${gate.door}/approvals/${id}`);
  await page.fill("#why", "ask the owner of the budget first");
  await page.click("button.no");
  await page.waitForSelector(".state.denied");
  const words = await told;
  assert.match(words, /approval_denied/);
  assert.match(words, /ask the owner of the budget first/);
  assert.equal(count("pay"), 1, "it did not run");
});

await scenario("two people are needed, and one is not two", async (desk) => {
  const [ann, bob] = [await desk("ann"), await desk("bob")];
  const { id, told } = await asked("wipe", { table: "drafts" });
  await ann.goto(`${gate.door}/approvals/${id}`);
  assert.match(await ann.innerText(".card"), /cannot be undone/i);
  await ann.click("details.allow summary");
  await ann.click(".yes");
  await ann.waitForSelector(".note.good");
  assert.match(await ann.innerText(".time"), /1 of 2/);
  assert.equal(await ann.locator("details.allow").count(), 0, "nobody allows twice");
  assert.equal(count("wipe"), 0);
  await bob.goto(`${gate.door}/approvals/${id}`);
  await bob.click("details.allow summary");
  await bob.click(".yes");
  await bob.waitForSelector(".note.good");
  assert.match(await told, /did wipe/);
  assert.equal(count("wipe"), 1);
});

await scenario("who has no role for a call is not told that it is there", async (desk) => {
  const page = await desk("eve");
  const { id, told } = await asked("pay", { amount: 2 });
  await page.reload();
  assert.equal(await page.locator(".call").count(), 0);
  const answer = await page.goto(`${gate.door}/approvals/${id}`);
  assert.equal(answer.status(), 404);
  assert.ok(!(await page.content()).includes("bank__pay"));
  const ann = await desk("ann");
  await ann.goto(`${gate.door}/approvals/${id}`);
  await ann.fill("#why", "no");
  await ann.click("button.no");
  await told;
});

await scenario("a call whose time is over says so on an open page, by clocks that stand", async (desk) => {
  assert.ok(!existsSync(noOrders), "no release has clocks that can be moved");
  const clocks = await gateWithClocks(folder, bank.url);
  try {
    await isOverByTheClock(clocks, { desk, asked, state, count });
  } catch (error) {
    error.stack += `\n${clocks.gate.log.slice(-2000)}`;
    throw error;
  } finally {
    await clocks.stop();
  }
});

await scenario("like calls are decided together, and nothing else", async (desk) => {
  const page = await desk("ann");
  const calls = [];
  const note = (amount) => "n".repeat(400) + ` THE END ${amount}`;
  for (const amount of [5, 900, 70]) calls.push(await asked("pay", { amount, to: "ACME", note: note(amount) }));
  const other = await asked("wipe", { table: "logs" });
  await page.reload();
  for (const { id } of calls) await page.check(`[data-id="${id}"] input`);
  await page.click("#batch-bar button");
  await page.waitForSelector(".differences");
  assert.deepEqual(await page.locator(".differences thead th").allInnerTexts(), ["Call", "amount", "note"], "only what differs");
  const amounts = await page.locator(".differences tbody td:nth-of-type(1)").allInnerTexts();
  assert.deepEqual(amounts, ["900", "70", "5"], "the highest first");
  assert.match(await page.innerText(".arguments"), /to[^]*ACME/, "what is the same in all of them is shown once");
  await page.click(".differences tbody tr:nth-of-type(1) details summary");
  assert.match(await page.innerText(".differences tbody"), /THE END 900/, "all of a long value can be read");
  await picture(page, "batch");
  await page.goto(`${gate.door}/approvals/batch?id=${calls[0].id}&id=${other.id}`);
  assert.equal(await page.locator("details.allow").count(), 0, "unlike calls, and what cannot be undone");
  await page.goto(`${gate.door}/approvals/batch?${calls.map(({ id }) => `id=${id}`).join("&")}`);
  await page.fill("#why", "all three are ACME's");
  await page.click("details.allow summary");
  await page.click(".yes");
  await page.waitForSelector("h1:has-text('What came of it')");
  for (const { told } of calls) assert.match(await told, /did pay/);
  await page.goto(`${gate.door}/approvals/${other.id}`);
  await page.fill("#why", "no");
  await page.click("button.no");
  await other.told;
});

await scenario("a grant is minted on the page, covers the next call, and is taken back", async (desk) => {
  const page = await desk("ann");
  const deny = async ({ id, told }) => {
    await page.goto(`${gate.door}/approvals/${id}`);
    await page.fill("#why", "not this one");
    await page.click(".decide .deny button.no");
    assert.match(await told, /approval_denied/);
  };
  const { id, told } = await asked("note", { text: "hi", n: 5 });
  await page.goto(`${gate.door}/approvals/${id}`);
  await page.click("details.like summary");
  await page.fill("[name='at_most:n']", "10");
  await page.fill("#uses", "3");
  await page.fill("#grant-why", "small notes of this kind");
  await page.press("#grant-why", "Enter");
  assert.equal(await state(id), "pending", "Enter never allows");
  await page.click("details.like summary");
  await page.fill("[name='at_most:n']", "10");
  await page.fill("#uses", "3");
  await page.fill("#grant-why", "small notes of this kind");
  await page.click("details.like .yes");
  assert.match(await page.innerText(".note.good"), /up to 3 calls like it/);
  assert.match(await told, /did note/);
  assert.match(await gate.call("note", { text: "hi", n: 7 }), /did note/, "nobody is asked");
  await deny(await asked("note", { text: "hi", n: 11 }));
  await deny(await asked("note", { text: "something else", n: 7 }));
  await page.goto(`${gate.door}/grants`);
  assert.match(await page.innerText(".call"), /1 of 3 used/);
  await picture(page, "grants");
  await page.fill("input[placeholder=why]", "enough");
  await page.click("button.no");
  assert.match(await page.innerText(".note.good"), /taken back/);
  await deny(await asked("note", { text: "hi", n: 8 }));
  assert.equal(count("note"), 2);
});

await scenario("what changed between look and word counts for nothing", async (desk) => {
  const page = await desk("ann");
  const before = count("note");
  const { id, told } = await asked("note", { text: "hello" });
  // Without a script: the page stays as it was shown.
  const [plain, denying] = [await desk("ann", { javaScriptEnabled: false }), await desk("bob", { javaScriptEnabled: false })];
  for (const shown of [plain, denying, page]) await shown.goto(`${gate.door}/approvals/${id}`);
  gate.write({ twice: "Says something quite different." });
  await until("the open page says that it is void", async () => (await page.innerText("main")).includes("Void"));
  assert.match(await told, /approval_timeout|has changed/);
  await plain.click("details.allow summary");
  await denying.fill("#why", "no");
  for (const [shown, button] of [[plain, ".yes"], [denying, ".deny button.no"]]) {
    const [answer] = await Promise.all([shown.waitForNavigation(), shown.click(button)]);
    assert.equal(answer.status(), 409);
    assert.match(await shown.innerText("main"), /Nothing was done: it is void, nothing runs as things stand/);
  }
  assert.equal(await state(id), "void", "nobody has denied it");
  assert.equal(count("note"), before, "nothing ran");
});

await scenario("nothing of a call is markup, and nothing hides", async (desk) => {
  const page = await desk("ann");
  const hostile = {
    "</td><script>alert(1)</script>": "<img src=x onerror=alert(1)>",
    direction: "\u202e0001 :yap\u202c",
    "zero\u200bwidth": "pass\u200bword",
    ansi: "\u001b[2J\u001b[31mred",
    "p\u0430ypal": "p\u0430ypal",
    long: "THE END",
    lines: "one\ntwo",
  };
  for (let index = 0; index < 200; index += 1) hostile[`key${index}`] = index;
  // As long as can be shown, and not a letter longer.
  const room = MAX_ARGUMENTS_BYTES - Buffer.byteLength(JSON.stringify(hostile));
  hostile.long = "x".repeat(room) + hostile.long;
  const longer = await gate.call("note", { ...hostile, long: `x${hostile.long}` });
  assert.match(longer, /longer than a person can be shown/);
  const { id, told } = await asked("note", hostile);
  await page.goto(`${gate.door}/approvals/${id}`);
  const card = await page.innerText(".arguments");
  for (const words of ["<img src=x onerror=alert(1)>", "\\u{202e}0001 :yap", "\\u{200b}", "\\u{1b}[2J", `${hostile.long.length} characters`, "key199"]) {
    assert.ok(card.includes(words), words);
  }
  assert.equal(await page.locator("main script, main img").count(), 0);
  assert.ok(!/[\u202a-\u202e\u200b\u001b]/.test(await page.content()), "nothing of it stands there as it is");
  assert.ok((await page.locator("mark.look-alike").count()) > 0);
  await page.click(".arguments details summary");
  assert.ok((await page.innerText(".arguments")).includes("THE END"), "all of a long value can be read");
  await picture(page, "hostile");
  await page.fill("#why", "no");
  await page.click("button.no");
  await told;
});

await scenario("it works with plain forms alone", async (desk) => {
  const page = await desk("ann", { javaScriptEnabled: false, viewport: PHONE });
  const { id, told } = await asked("pay", { amount: 3, to: "B" });
  await page.reload();
  await page.click(`[data-id="${id}"] .open`);
  await page.waitForSelector(".card");
  await page.click(".extend button");
  assert.match(await page.innerText(".note.good"), /until/);
  assert.equal(await page.locator(".extend").count(), 0, "once");
  await page.click("details.allow summary");
  await page.click(".yes");
  await page.waitForSelector(".note.good");
  assert.match(await told, /did pay/);
  await page.goto(`${gate.door}/approvals/history`);
  assert.match(await page.innerText("main"), /ann allowed it/);
});

await scenario("an operator's desk: unknown outcomes and tools", async (desk) => {
  const page = await desk("ann");
  await gate.call("lose", { what: "a" });
  await page.goto(`${gate.door}/calls`);
  assert.equal(count("lose"), 1);
  await page.click("summary:has-text('Say what became of it')");
  await page.fill("input[name=why]", "seen in the books");
  await page.click("button[value=applied]");
  assert.match(await page.innerText(".note.good"), /completed/);
  await page.goto(`${gate.door}/tools`);
  await page.fill("#tool", "bank__soon");
  await page.fill("#away-why", "not needed");
  await page.click("button[value=disable]");
  assert.match(await page.innerText("main"), /bank__soon/);
  assert.match(await gate.call("soon", { what: "b" }), /disabled|not/i);
  await page.fill("input[placeholder=why]", "needed again");
  await page.click("button[value=enable]");
  assert.match(await page.innerText(".note.good"), /given back/);
});

await scenario("forms of other pages, old forms and other tokens change nothing", async (desk) => {
  const page = await desk("ann");
  const { id, told } = await asked("pay", { amount: 4 });
  await page.goto(`${gate.door}/approvals/${id}`);
  const cookies = await page.context().cookies();
  const cookie = cookies.map(({ name, value }) => `${name}=${value}`).join("; ");
  assert.ok(cookies.every((one) => one.httpOnly && one.sameSite === "Strict"));
  const secret = await page.inputValue(".deny [name=form_secret]");
  const shown = await page.inputValue(".deny [name=shown]");
  const send = (fields, headers = {}) =>
    fetch(`${gate.door}/approvals/${id}`, {
      method: "POST",
      redirect: "manual",
      headers: { "content-type": "application/x-www-form-urlencoded", cookie, origin: gate.door, ...headers },
      body: new URLSearchParams({ decision: "allow", why: "x", form_secret: secret, shown, ...fields }),
    }).then((answer) => answer.status);
  assert.equal(await send({}, { origin: "http://evil.example" }), 403);
  assert.equal(await send({}, { "sec-fetch-site": "same-site" }), 403);
  assert.equal(await send({ form_secret: "0".repeat(64) }), 403);
  assert.equal(await send({ shown: "sha256:0" }), 409);
  assert.equal(await send({}, { cookie: "toolgate_operator=0" }), 401);
  assert.equal(await send({}, { cookie: "", authorization: `Bearer ${TOKENS.ann}` }), 401, "a token is no cookie");
  const api = await fetch(`${gate.door}/api/approvals`, { headers: { cookie } });
  assert.equal(api.status, 401, "a cookie is no token");
  assert.equal(await state(id), "pending");
  await page.fill("#why", "no");
  await page.click("button.no");
  await told;
});

await scenario("a link from elsewhere opens the page, and decides nothing", async (desk) => {
  const page = await desk("ann");
  const { id, told } = await asked("pay", { amount: 6 });
  for (const path of [`/approvals/${id}`, `/approvals/${id}?decision=allow`]) {
    const answer = await fetch(`${gate.door}${path}`, { headers: { accept: "text/html" } });
    assert.match(answer.url, /\/login\?next=/, "who is nobody is asked to sign in");
  }
  // A page of nobody's origin.
  await page.goto(`data:text/html,<a id="link" href="${gate.door}/approvals/${id}">look</a>`);
  await page.click("#link");
  await page.waitForSelector(".card");
  assert.equal(await state(id), "pending");
  await page.fill("#why", "no");
  await page.click("button.no");
  await told;
});

await scenario("names, focus and contrast: what a screen reader and a keyboard need", async (desk) => {
  const { id, told } = await asked("pay", { amount: 7, to: "C" });
  for (const colorScheme of ["light", "dark"]) {
    const page = await desk("ann", { colorScheme, viewport: PHONE });
    for (const path of ["/approvals", `/approvals/${id}`, "/approvals/history", "/grants", "/calls", "/tools"]) {
      await page.goto(`${gate.door}${path}`);
      assert.deepEqual(await page.evaluate(unnamed), [], `${path}: elements without a name`);
      assert.deepEqual(await page.evaluate(pale), [], `${path}, ${colorScheme}: text that is hard to see`);
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth), `${path}: scrolls sideways`);
      assert.equal(await page.locator("h1").count(), 1, path);
    }
    const small = page.locator(".decide button:visible");
    await page.goto(`${gate.door}/approvals/${id}`);
    for (const box of await small.all()) assert.ok((await box.boundingBox()).height >= 44, "a thumb's size");
    const decide = await page.locator(".decide").boundingBox();
    assert.ok(decide.y < PHONE.height, "deciding needs no scrolling");
  }
  const page = await desk("ann");
  await page.goto(`${gate.door}/approvals/${id}`);
  await page.fill("#why", "no");
  await page.click("button.no");
  await told;
});

if (pictures) {
  const { browser, kill } = await startBrowser();
  const calls = [];
  calls.push(await asked("pay", { amount: 12500, to: "ACME Ltd", note: "invoice 2026-117" }));
  calls.push(await asked("wipe", { table: "drafts" }));
  for (const [size, viewport] of [["phone", PHONE], ["desk", DESK]]) {
    for (const colorScheme of ["light", "dark"]) {
      const context = await browser.newContext({ viewport, colorScheme });
      const page = await context.newPage();
      await page.goto(`${gate.door}/login`);
      await page.fill("#token", TOKENS.ann);
      await page.click("button.main");
      await page.waitForSelector(".call");
      await picture(page, `approvals-list-${size}-${colorScheme}`);
      await page.goto(`${gate.door}/approvals/${calls[0].id}`);
      await page.waitForSelector(".card");
      await picture(page, `approvals-card-${size}-${colorScheme}`);
    }
  }
  await kill();
}

await scenario("a token that is taken away ends its pages", async (desk) => {
  const page = await desk("bob");
  await gate.stop();
  gate.write({ operators: ["ann", "eve"] });
  await gate.start();
  await page.waitForURL(/\/login/, { timeout: LIVE_SECONDS * 1000 });
  await page.fill("#token", TOKENS.bob);
  await page.click("button.main");
  assert.match(await page.innerText(".note.bad"), /token of no operator/);
});

// Elements that one can act on and that have no name.
function unnamed() {
  const named = (element) =>
    element.getAttribute("aria-label") || element.labels?.length || element.textContent?.trim() || element.title;
  const all = [...document.querySelectorAll("a, button, summary, input:not([type=hidden]), textarea, select")];
  return all.filter((element) => !named(element)).map((element) => element.outerHTML);
}

// Texts whose contrast to what is behind them is under 4.5 to 1 (WCAG 2.2 AA).
function pale() {
  const channels = (color) => color.match(/[\d.]+/g).map(Number);
  const light = ([r, g, b]) => {
    const linear = [r, g, b].map((one) => (one / 255 <= 0.03928 ? one / 255 / 12.92 : ((one / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = channels(getComputedStyle(at).backgroundColor);
      if (color.length < 4 || color[3] > 0.99) return color;
    }
    return [255, 255, 255];
  };
  const texts = [...document.querySelectorAll("body *")].filter(
    (element) => element.checkVisibility() && [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim()),
  );
  const contrast = (element) => {
    const pair = [light(channels(getComputedStyle(element).color)), light(behind(element))].sort((a, b) => b - a);
    return (pair[0] + 0.05) / (pair[1] + 0.05);
  };
  return texts.filter((element) => contrast(element) < 4.5).map((element) => `${element.tagName} ${element.className}: ${element.innerText.slice(0, 40)}`);
}

await gate.stop();
bank.stop();
rmSync(folder, { recursive: true, force: true });
console.log(`${passed} passed, ${failures.length} failed`);
process.exit(failures.length === 0 ? 0 : 1);
