// Routing, data sources and updates of the page. The URL holds the whole state.
"use strict";

const EVERY = 2000;
const SLOW = 4000;
const PATIENCE = 30000;
const storedElement = document.getElementById("stored");
const page = { about: null, answers: null, home: null, drawn: "", token: 0, timer: 0 };

const here = () => {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  return { path: path.split("/").filter(Boolean).map(decodeURIComponent), query: new URLSearchParams(query || "") };
};

const asked = (query) => {
  const given = new URLSearchParams(Object.entries(query).filter(([, value]) => !isNone(value) && value !== ""));
  return given.size ? `?${given}` : "";
};

const address = (path, query = {}) => `#/${path.map(encodeURIComponent).join("/")}${asked(query)}`;

// Change the state of this view and go to the first page of its list; `quietly` adds no history entry.
function change(changes, { quietly = false } = {}) {
  const { path, query } = here();
  const to = address(path, { ...Object.fromEntries(query), offset: "", ...changes });
  history[quietly ? "replaceState" : "pushState"](null, "", to);
  show();
}

async function unpack(part) {
  const bytes = Uint8Array.from(atob(part), (character) => character.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
}

// Return an API answer from the server or, in an exported file, from its embedded answers.
async function read(path, query = {}) {
  if (page.answers) return readStored(path, query);
  const slow = setTimeout(() => say("the store answers slowly; still waiting"), SLOW);
  try {
    const answer = await fetch(`${path}${asked(query)}`, { signal: AbortSignal.timeout(PATIENCE) });
    const body = await answer.json();
    if (!answer.ok) throw new Error(body.error || `the server answered ${answer.status}`);
    return body;
  } catch (error) {
    if (error.name === "TimeoutError") throw new Error(`no answer in ${PATIENCE / 1000} seconds: the store is slow or locked`);
    if (error instanceof TypeError) throw new Error("the server cannot be reached: start `evovpo serve` again");
    throw error;
  } finally {
    clearTimeout(slow);
  }
}

function readStored(path, query) {
  const found = page.answers[path];
  if (!found) throw new Error("this is not in the exported file; evovpo serve shows all of a store");
  if (query.program && query.program !== found.programs[0].program_id) throw new Error("only the lineage of the best program is in the exported file");
  if (!path.endsWith("/programs")) return found;
  const fits = (one) => ["status", "island", "policy_version"].every((name) => !query[name] || query[name] === String(one[name]));
  const programs = sorted(found.programs.filter(fits), PROGRAM_COLUMNS, turned(query.sort || "order")), offset = Number(query.offset || 0);
  return { ...found, total: programs.length, offset, programs: programs.slice(offset, offset + Number(query.limit || 100)) };
}

const say = (text) => { document.getElementById("state").textContent = visible(text); };

const fault = (text) => { document.getElementById("fault").textContent = visible(text && `${text}. This page tries again by itself.`); };

function menu(path) {
  const views = [["Runs", ["runs"]], ["Training", ["policies"]], ...(page.about.report ? [["Report", ["report"]]] : [])];
  const entries = page.home ? [[page.home[0] === "run" ? "Run" : "Report", page.home]] : views;
  document.getElementById("menu").replaceChildren(...entries.map(([name, to]) =>
    el("a", { href: address(to), "aria-current": to[0] === path[0] && "page" }, name)));
}

// Redraw only changes, and keep focus, selection and scroll position.
function draw(content, text) {
  if (text === page.drawn) return;
  const main = document.getElementById("main"), active = document.activeElement;
  const key = active?.dataset.key, from = key && active.selectionStart, to = key && active.selectionEnd;
  const opened = [...main.querySelectorAll("details[open]")].map((one) => one.dataset.key);
  if (!page.drawn) window.scrollTo(0, 0);
  page.drawn = text;
  main.replaceChildren();
  fill(main, {}, content());
  main.querySelectorAll("details").forEach((one) => { one.open = opened.includes(one.dataset.key); });
  const again = key && [...main.querySelectorAll("[data-key]")].find((one) => one.dataset.key === key);
  again?.focus({ preventScroll: true });
  if (typeof from === "number") again?.setSelectionRange(from, to);
}

async function show() {
  clearTimeout(page.timer);
  const token = ++page.token, { path, query } = here();
  if (!path.length) path.push(...(page.home || ["runs"]));
  const view = VIEWS[path[0]] || VIEWS.runs, place = path.join("/");
  if (page.place !== place) page.drawn = "";
  page.place = place;
  let again = EVERY;
  try {
    page.about ??= await read(api("page"));
    menu(path);
    const data = await view.load(path.slice(1), query);
    if (token !== page.token) return;
    fault("");
    const title = view.title(data);
    document.title = visible(`${shorten(title, 60)} · evovpo`);
    draw(() => [el("h1", {}, shorten(title, 80)), view.draw(data, query, path.slice(1))], JSON.stringify([data, [...query], path]));
    const live = view.isLive(data);
    say(page.answers ? "exported file" : live || "");
    if (live === "reading") again = 50;
    if (live === null) return;
  } catch (error) {
    if (token !== page.token) return;
    fault(error.message);
    say("");
    if (!page.drawn) document.getElementById("main").replaceChildren();
  }
  const look = () => (document.hidden ? document.addEventListener("visibilitychange", show, { once: true }) : show());
  if (!page.answers) page.timer = setTimeout(look, again);
}

async function begin() {
  if (storedElement) {
    const stored = JSON.parse(storedElement.textContent);
    page.home = stored.home;
    page.answers = Object.assign({}, ...(await Promise.all(stored.parts.map(unpack))));
    page.about = {};
  }
  addEventListener("hashchange", show);
  addEventListener("popstate", show);
  show();
}

begin();
