// What a script adds to pages that work without one: live regions, times that tick, keys, and copying.
// @ts-check

const root = document.documentElement;
// What only works with a script is shown only with one.
root.classList.add("scripted");
const base = root.dataset.base ?? "";
/** @param {string} id */
const by = (id) => document.getElementById(id);

// ── Live regions ────────────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Whether the user works with a region, so that an update would disturb. @param {Element} region */
function isBusy(region) {
  const selection = document.getSelection();
  const isSelecting = selection && !selection.isCollapsed && region.contains(selection.anchorNode);
  return Boolean(isSelecting || region.querySelector("input[type=checkbox]:checked, [popover]:popover-open"));
}

/** The key by which a node is the same node in the next version. Not `node.id`: in a form that is its field of that name. @param {Node} node */
const keyOf = (node) => (node instanceof Element ? node.getAttribute("data-key") || node.getAttribute("id") : null);

/** Makes `from` like `to`, and keeps every node that stays: its focus, its selection, what was typed. @param {Element} from @param {Element} to */
function morph(from, to) {
  for (const { name } of [...from.attributes]) {
    if (!to.hasAttribute(name) && !(name === "open" || name === "data-shown" || (name === "class" && from.classList.contains("here")))) from.removeAttribute(name);
  }
  for (const { name, value } of [...to.attributes]) {
    // Who opened or closed something keeps it so.
    if (name === "open" || (name === "class" && from.classList.contains("here"))) continue;
    if (from.getAttribute(name) !== value) {
      from.setAttribute(name, value);
      if (name === "datetime") from.removeAttribute("data-shown");
    }
  }
  // The script writes into times itself.
  if (from instanceof HTMLTimeElement && from.hasAttribute("data-shown")) return;
  // What goes is taken out first, so that what stays need not be moved: an element that is moved loses the focus.
  const wanted = new Set([...to.children].map(keyOf));
  const keyed = new Map();
  for (const child of [...from.children]) {
    const key = keyOf(child);
    if (key && wanted.has(key)) keyed.set(key, child);
    else if (key) child.remove();
  }
  let place = from.firstChild;
  for (const next of [...to.childNodes]) {
    const key = keyOf(next);
    let found = key ? keyed.get(key) : undefined;
    if (!found && place && !keyOf(place) && place.nodeName === next.nodeName && !key) found = place;
    if (found && found.nodeName === next.nodeName) {
      if (found !== place) from.insertBefore(found, place);
      else place = place.nextSibling;
      if (found instanceof Element && next instanceof Element) morph(found, next);
      else if (found.nodeValue !== next.nodeValue) found.nodeValue = next.nodeValue;
    } else {
      from.insertBefore(next, place);
    }
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

/** @type {Map<string, string>} updates that arrived while the user was at work */
const waiting = new Map();

/** @param {string} id @param {string} html */
function patch(id, html) {
  const region = by(id);
  if (!region) return;
  if (isBusy(region)) {
    waiting.set(id, html);
    say("paused");
    return;
  }
  waiting.delete(id);
  const next = document.createElement("template");
  next.innerHTML = html;
  const wrapper = document.createElement(region.tagName);
  for (const { name, value } of [...region.attributes]) wrapper.setAttribute(name, value);
  wrapper.append(next.content);
  const focused = document.activeElement;
  morph(region, wrapper);
  // Rows that changed places.
  if (focused instanceof HTMLElement && focused.isConnected && focused !== document.activeElement) focused.focus({ preventScroll: true });
  tick();
}

/** @param {"live" | "not live" | "paused"} word */
function say(word) {
  const live = by("live");
  if (!live) return;
  live.classList.toggle("on", word === "live");
  const text = live.querySelector(".word");
  if (text) text.textContent = word;
}

/** @param {string | null} why */
function trouble(why) {
  const place = by("trouble");
  if (!place) return;
  place.hidden = !why;
  place.textContent = why ? `This page is not up to date: ${why}` : "";
}

/** @type {EventSource | undefined} */
let stream;
/** @type {number | undefined} */
let polling;

function follow() {
  if (stream || !document.body.hasAttribute("data-live")) return;
  const page = document.body.dataset.page ?? "/";
  stream = new EventSource(`${base}/live?page=${encodeURIComponent(page)}`);
  stream.addEventListener("open", () => {
    say("live");
    trouble(null);
    clearInterval(polling);
    polling = undefined;
  });
  stream.addEventListener("region", (event) => {
    const { id, html } = JSON.parse(event.data);
    patch(id, html);
  });
  stream.addEventListener("title", (event) => (document.title = `${JSON.parse(event.data).title} · Lineclear`));
  stream.addEventListener("trouble", (event) => trouble(JSON.parse(event.data).why));
  stream.addEventListener("error", () => {
    say("not live");
    // The browser tries again by itself, unless the server refused: then we ask for the page now and then.
    if (stream?.readyState === EventSource.CLOSED) {
      stream = undefined;
      polling ??= window.setInterval(refresh, 5000);
    } else {
      trouble("the server does not answer; trying again");
    }
  });
}

function leave() {
  stream?.close();
  stream = undefined;
  clearInterval(polling);
  polling = undefined;
  say("not live");
}

/** Asks for the whole page, where there is no stream. */
async function refresh() {
  try {
    const answer = await fetch(location.href, { headers: { accept: "text/html" } });
    if (answer.redirected) throw new Error("your session is over; load the page again to log in");
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    const next = new DOMParser().parseFromString(await answer.text(), "text/html");
    document.title = next.title;
    for (const region of next.querySelectorAll("[data-region]")) patch(region.id, region.innerHTML);
    trouble(null);
  } catch (error) {
    trouble(error instanceof Error ? error.message : "the server does not answer");
  }
}

document.addEventListener("visibilitychange", () => (document.hidden ? leave() : follow()));
window.addEventListener("pagehide", leave);
window.addEventListener("pageshow", () => {
  if (!document.hidden) follow();
});
/** Applies delayed updates when they do not disturb. */
setInterval(() => {
  for (const [id, html] of [...waiting]) {
    const region = by(id);
    if (region && !isBusy(region)) patch(id, html);
  }
  if (stream?.readyState === EventSource.OPEN) say(waiting.size ? "paused" : "live");
}, 500);

// ── Times ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────────

/** @param {number} ms */
function length(ms) {
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min${s < 600 ? ` ${s % 60} s` : ""}`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

function tick() {
  const now = Date.now();
  for (const time of document.querySelectorAll("time[datetime]")) {
    if (!(time instanceof HTMLTimeElement)) continue;
    const at = Date.parse(time.dateTime);
    if (Number.isNaN(at)) continue;
    const ago = now - at;
    const text = time.hasAttribute("data-since") ? length(ago) : ago >= 0 ? `${length(ago)} ago` : `in ${length(-ago)}`;
    if (time.getAttribute("data-shown") !== text) {
      time.textContent = text;
      time.setAttribute("data-shown", text);
      time.title = new Date(at).toLocaleString();
    }
  }
}
setInterval(tick, 1000);
tick();

// ── Light and dark ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

function turn() {
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  document.cookie = `lineclear-theme=${root.dataset.theme}; Path=/; Max-Age=31536000; SameSite=Strict`;
}
by("theme")?.addEventListener("click", turn);

// ── Copying ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────

// A browser lends no clipboard to pages that came without TLS from another machine.
if (!navigator.clipboard) root.classList.add("no-clipboard");
document.addEventListener("click", async (event) => {
  const button = event.target instanceof Element ? event.target.closest("[data-copy]") : null;
  if (!(button instanceof HTMLElement)) return;
  await navigator.clipboard.writeText(button.dataset.copy ?? "");
  button.textContent = "Copied";
});

// ── Keys ────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────

const rows = () => [.../** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("main tbody tr[data-key]"))];

/** @param {number} step */
function move(step) {
  const all = rows();
  const at = all.findIndex((row) => row.classList.contains("here"));
  const next = all[Math.min(all.length - 1, Math.max(0, at + step))];
  if (!next) return;
  all[at]?.classList.remove("here");
  next.classList.add("here");
  next.scrollIntoView({ block: "nearest" });
  /** @type {HTMLElement | null} */ (next.querySelector("a"))?.focus({ preventScroll: true });
}

const KEYS = [
  ["Ctrl K", "go to a page, a job or a search"],
  ["/", "search"],
  ["j k", "next and previous row"],
  ["Enter", "open the row"],
  ["x", "select the row"],
  ["g then a letter", "go to: " + [...document.querySelectorAll(".rail [data-key]")].map((a) => `${a.getAttribute("data-key")} ${a.textContent}`).join(", ")],
  ["T", "light or dark"],
  ["?", "this list"],
];

/** @param {string} name @param {Node[]} content */
function dialog(name, ...content) {
  const made = document.createElement("dialog");
  made.className = name;
  made.setAttribute("aria-label", name);
  made.append(...content);
  made.addEventListener("close", () => made.remove());
  made.addEventListener("click", (event) => event.target === made && made.close());
  document.body.append(made);
  made.showModal();
  return made;
}

/** @param {string} tag @param {string} text */
function element(tag, text) {
  const made = document.createElement(tag);
  made.textContent = text;
  return made;
}

/** Whether keys without Ctrl do something: who speaks to a computer, or has a restless hand, switches them off. */
const KEYS_OFF = "lineclear-keys-off";
function areKeysOff() {
  try {
    return localStorage.getItem(KEYS_OFF) === "1";
  } catch {
    return false;
  }
}

/** @param {boolean} off */
function switchKeys(off) {
  try {
    if (off) localStorage.setItem(KEYS_OFF, "1");
    else localStorage.removeItem(KEYS_OFF);
  } catch {
    // A browser that keeps nothing for us: they stay as they are.
  }
}

function help() {
  const list = document.createElement("dl");
  for (const [keys, what] of KEYS) {
    const term = document.createElement("dt");
    term.append(element("kbd", keys));
    list.append(term, element("dd", what));
  }
  const box = document.createElement("input");
  box.type = "checkbox";
  box.checked = areKeysOff();
  box.addEventListener("change", () => switchKeys(box.checked));
  const label = element("label", " Only Ctrl K: switch single keys off in this browser");
  label.prepend(box);
  dialog("keys", element("h2", "Keyboard shortcuts"), list, label);
}
by("help")?.addEventListener("click", help);

function palette() {
  if (document.querySelector("dialog")) return;
  const input = document.createElement("input");
  input.placeholder = "A page, the id of a job, or a search such as state:dead";
  input.setAttribute("aria-label", "Go to");
  const list = document.createElement("ul");
  const pages = [...document.querySelectorAll(".rail a")].map((a) => ({ name: a.textContent ?? "", to: a.getAttribute("href") ?? "" }));
  let at = 0;
  const fill = () => {
    const text = input.value.trim();
    const found = pages.filter((page) => page.name.toLowerCase().includes(text.toLowerCase()));
    if (/^\d+$/.test(text)) found.unshift({ name: `Job ${text}`, to: `${base}/jobs/${text}` });
    if (text.includes(":")) found.unshift({ name: `Search ${text}`, to: `${base}/jobs?q=${encodeURIComponent(text)}` });
    else if (/^[a-z0-9][a-z0-9._-]*$/.test(text)) found.push({ name: `Jobs of kind ${text}`, to: `${base}/jobs?q=${encodeURIComponent(`kind:${text}*`)}` }, { name: `Jobs of manifest ${text}`, to: `${base}/jobs?q=${encodeURIComponent(`manifest:${text}*`)}` });
    at = Math.min(at, Math.max(0, found.length - 1));
    list.replaceChildren(
      ...found.map((page, place) => {
        const item = document.createElement("li");
        const link = document.createElement("a");
        link.href = page.to;
        link.textContent = page.name;
        link.classList.toggle("here", place === at);
        item.append(link);
        return item;
      }),
    );
  };
  input.addEventListener("input", fill);
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      at = Math.max(0, at + (event.key === "ArrowDown" ? 1 : -1));
      fill();
    } else if (event.key === "Enter") {
      list.querySelector("a.here")?.click();
    }
  });
  dialog("palette", input, list);
  fill();
  input.focus();
}

// When `g` was pressed; long before the page was loaded, if it was not.
let going = -Infinity;
document.addEventListener("keydown", (event) => {
  if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    palette();
    return;
  }
  const target = event.target;
  const isTyping = target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) && target.getAttribute("type") !== "checkbox";
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]") || areKeysOff()) return;
  if (event.timeStamp - going < 1500) {
    going = -Infinity;
    const link = document.querySelector(`.rail [data-key="${CSS.escape(event.key)}"]`);
    if (link instanceof HTMLElement) link.click();
    return;
  }
  const row = document.querySelector("tr.here");
  const keys = {
    "/": () => by("q")?.focus(),
    "?": help,
    T: turn,
    j: () => move(1),
    k: () => move(-1),
    g: () => (going = event.timeStamp),
    x: () => /** @type {HTMLElement | null | undefined} */ (row?.querySelector("input[type=checkbox]"))?.click(),
    ".": () => /** @type {HTMLElement | null | undefined} */ (row?.querySelector("a"))?.click(),
  };
  const act = keys[/** @type {keyof typeof keys} */ (event.key)];
  if (act) {
    event.preventDefault();
    act();
  }
});

if (!document.hidden) follow();
