// Adds to the operators' pages what plain forms cannot: countdowns, keys, and what happens meanwhile.
// Everything that is shown comes rendered from the server; nothing here makes markup of text.
"use strict";
(() => {
  const CONFIRM_MS = 5000; // a second "a" has to come within
  const PAUSE_MS = 400; // and not before: two quick ones are one hand's slip
  const POLL_MS = 5000; // where no stream can be had
  const SETTLE_MS = 60; // several events at once are one look
  const KEYS_OFF = "toolgate.keys"; // "off" where an operator wants none
  const page = document.body.dataset.page;
  const $ = (what, within = document) => within.querySelector(what);
  const $$ = (what, within = document) => [...within.querySelectorAll(what)];
  const say = (words) => { const live = $("#live"); if (live && live.textContent !== words) live.textContent = words; };

  // --- time
  const left = (ms) => {
    const seconds = Math.max(0, Math.ceil(ms / 1000));
    const two = (number) => String(number).padStart(2, "0");
    const hours = Math.floor(seconds / 3600), minutes = Math.floor(seconds / 60) % 60;
    return (hours ? `${hours}:${two(minutes)}` : `${minutes}`) + `:${two(seconds % 60)} left`;
  };
  let skew = 0; // the clock of toolgate, which decides, less this one's
  const compare = (told) => {
    const now = Date.parse($("[data-now]", told)?.dataset.now);
    if (!Number.isNaN(now)) skew = now - Date.now();
  };
  const tick = () => {
    let over = false;
    for (const time of $$("[data-until]")) {
      const rest = Date.parse(time.dataset.until) - (Date.now() + skew);
      if (Number.isNaN(rest)) continue;
      time.textContent = rest > 0 ? left(rest) : "its time is over";
      time.title = `until ${time.dataset.until}`;
      time.classList.toggle("short", rest < 60000);
      if (rest > 0) delete time.dataset.over;
      else if (!time.dataset.over) { time.dataset.over = "1"; over = true; }
    }
    if (over) look("the time of a call is over");
  };

  // --- what happens meanwhile
  let asking = 0, again = null, source = null, polling = null;
  const isBusy = () => {
    const at = document.activeElement;
    const writes = at && /^(INPUT|TEXTAREA)$/.test(at.tagName) && at.type !== "checkbox" && at.value !== "";
    return writes || $("details.allow[open]") || $("dialog[open]");
  };
  // What is being decided about together stays as it was shown.
  const isRenewed = () => $("#calls") || $(".card");
  const look = (why) => {
    if (!isRenewed()) return;
    clearTimeout(again);
    again = setTimeout(() => refresh(why), SETTLE_MS);
  };
  const refresh = (why) => {
    const turn = ++asking;
    const request = new XMLHttpRequest();
    const where = new URL(location.href);
    where.searchParams.set("refresh", "1"); // no look of a person, who need not be there
    request.open("GET", where.pathname + where.search);
    request.setRequestHeader("Accept", "text/html");
    request.responseType = "document";
    request.onload = () => {
      if (turn !== asking) return;
      const fresh = request.response && $("main", request.response);
      if (fresh) compare(fresh);
      if (!fresh || request.responseURL.includes("/login")) { location.reload(); return; }
      if (page === "approvals" && $(".card")) renew(fresh, why); else replace(fresh, why);
    };
    request.onerror = () => say("toolgate does not answer");
    request.send();
  };
  const replace = (fresh, why) => {
    const picked = new Set($$("#calls input:checked").map((box) => box.value));
    const at = $(".call.at")?.dataset.id;
    const list = $("#calls"), next = $("#calls", fresh);
    if (!list || !next) { $("#main").replaceChildren(...document.adoptNode(fresh).childNodes); }
    else {
      const before = new Set($$(".call", list).map((row) => row.dataset.id));
      const come = $$(".call", next).filter((row) => !before.has(row.dataset.id)).length;
      list.replaceWith(document.adoptNode(next));
      const empty = $(".empty"), none = $(".empty", fresh);
      if (empty) empty.remove();
      if (none) $("#calls").after(document.adoptNode(none));
      for (const box of $$("#calls input")) box.checked = picked.has(box.value);
      if (at) $$(".call").find((row) => row.dataset.id === at)?.classList.add("at");
      const count = $$("#calls .call").length;
      document.title = (count ? `(${count}) ` : "") + "Calls that wait · toolgate";
      say(come ? `${come} more ${come === 1 ? "call waits" : "calls wait"}` : why || "");
    }
    selected(); tick();
  };
  const renew = (fresh, why) => {
    const card = $(".card"), next = $(".card", fresh);
    if (!next) { if (!isBusy()) $("#main").replaceChildren(...document.adoptNode(fresh).childNodes); say("this call is over"); return; }
    const same = next.dataset.state === card.dataset.state
      && $("[name=shown]", next)?.value === $("[name=shown]", card)?.value
      && $(".time", next)?.textContent === $(".time", card)?.dataset.said;
    if (same) { tick(); return; }
    const about = $(".time", next)?.textContent;
    if (isBusy() && next.dataset.state === card.dataset.state) { say(why || "something changed"); return; }
    card.replaceWith(document.adoptNode(next));
    if ($(".time")) $(".time").dataset.said = about;
    say(`this call is ${next.dataset.state}`);
    tick();
  };
  const listen = () => {
    clearTimeout(polling);
    if (source || !$("header nav") || document.hidden || page !== "approvals" || !isRenewed()) return;
    source = new EventSource("/approvals/events");
    for (const name of ["requested", "changed", "resolved", "used", "policy", "missed"]) {
      source.addEventListener(name, (event) => {
        const about = JSON.parse(event.data);
        look(about.id ? `${about.tool}: ${name === "requested" ? "waits" : about.state}` : "the policy has changed");
      });
    }
    source.onopen = () => look("");
    source.onerror = () => {
      say("the connection broke; asking again");
      if (!source || source.readyState !== EventSource.CLOSED) return;
      // There is no place for one more stream, or nobody is signed in any more: a look says which.
      source = null;
      refresh("");
      polling = setTimeout(listen, POLL_MS);
    };
  };
  // A browser has few connections to one address: pages that nobody sees leave theirs to others.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { source?.close(); source = null; } else listen();
  });

  // --- keys
  const keysOn = () => { try { return localStorage.getItem(KEYS_OFF) !== "off"; } catch { return true; } };
  const rows = () => $$("#calls .call");
  const at = () => $(".call.at");
  const go = (by) => {
    const all = rows(); if (!all.length) return;
    const here = all.indexOf(at());
    const next = all[Math.min(all.length - 1, Math.max(0, here < 0 ? 0 : here + by))];
    at()?.classList.remove("at"); next.classList.add("at");
    $(".open", next).focus(); next.scrollIntoView({ block: "nearest" });
  };
  // The first "a" arms the bar, and once that key was let go and a moment has passed, a second one allows.
  let closing = null, pausing = null, released = false;
  const allowBar = () => $("details.allow:not(.like)");
  const allow = () => {
    const row = at();
    if (row) { location.assign(`${$(".open", row).getAttribute("href")}?confirm=1`); return; }
    const bar = allowBar(); if (!bar) return;
    if (bar.open && bar.dataset.armed === "ready" && released) { $(".yes", bar).click(); return; }
    arm(bar);
  };
  const arm = (bar) => {
    disarm(bar); bar.open = true; bar.dataset.armed = "pause"; released = false;
    say("press a again within five seconds, and not at once, to allow it once");
    pausing = setTimeout(() => { bar.dataset.armed = "ready"; }, PAUSE_MS);
    closing = setTimeout(() => { disarm(bar); bar.open = false; say("not allowed"); }, CONFIRM_MS);
  };
  const disarm = (bar) => { clearTimeout(closing); clearTimeout(pausing); delete bar.dataset.armed; };
  const help = () => { const box = $("#help"); if (box.open) box.close(); else box.showModal(); };
  document.addEventListener("keydown", (event) => {
    const inText = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) && event.target.type !== "checkbox";
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    // A key that is held down says one thing once, whatever lies on it.
    if (event.repeat && !inText && !/^[jk]$/.test(event.key)) return;
    if (event.key === "Escape") {
      const bar = $("details.allow[open]");
      if (bar) { disarm(bar); bar.open = false; say("not allowed"); }
      if (inText) event.target.blur();
      return;
    }
    if (inText || !keysOn() || !$("header nav")) return;
    const acts = {
      j: () => go(1), k: () => go(-1), a: allow, "?": help,
      o: () => at() && $(".open", at()).click(),
      d: () => { const row = at(); if (row) location.assign($(".open", row).getAttribute("href") + "#why"); else $("#why")?.focus(); },
      x: () => { const box = at() && $("input[type=checkbox]", at()); if (box) { box.checked = !box.checked; selected(); } },
      "/": () => $("#filter")?.focus(),
      g: () => $("#grant summary")?.click(),
    };
    const act = acts[event.key];
    if (act) { event.preventDefault(); act(); }
  });
  document.addEventListener("keyup", (event) => { if (event.key === "a") released = true; });

  // --- several at once
  const selected = () => {
    const bar = $("#batch-bar"); if (!bar) return;
    const count = $$("#calls input:checked").length;
    bar.hidden = count === 0;
    const button = $("button", bar); if (count) button.textContent = `Decide about ${count} together…`;
  };
  document.addEventListener("change", (event) => {
    if (event.target.matches("#calls input")) selected();
    if (event.target.id === "keys-on") { try { localStorage.setItem(KEYS_OFF, event.target.checked ? "on" : "off"); } catch { /* kept for this page only */ } }
  });
  document.addEventListener("submit", (event) => {
    // Nothing is sent twice by an impatient hand.
    if (event.target.dataset.sent) { event.preventDefault(); return; }
    if (event.target.method === "post") event.target.dataset.sent = "1";
  });

  for (const button of $$("[data-help]")) { button.hidden = false; button.addEventListener("click", help); }
  const box = $("#keys-on"); if (box) box.checked = keysOn();
  if ($(".card .time")) $(".card .time").dataset.said = $(".card .time").textContent;
  // A link may open the bar, and arms nothing: both keys are pressed before the card.
  if (location.search.includes("confirm=1") && allowBar()) { allowBar().open = true; say("press a twice, not at once, to allow it once"); }
  else if (location.hash === "#why" || $(".card #why")) $("#why")?.focus({ preventScroll: true });
  compare(document); selected(); tick(); setInterval(tick, 1000);
  listen();
})();
