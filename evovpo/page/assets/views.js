// The views: each loads answers of the read API and draws them. `evovpo/page/records.py` says what is in them.
"use strict";

const isRunning = (run) => run.status === "running";
const isRead = (run) => run.read[0] >= run.read[1];
const when = (iso) => String(iso).replace("T", " ").replace(/(:\d\d)(\.\d+)?(Z|\+00:00)$/, "$1");
const spent = (seconds) => seconds < 100 ? `${number(seconds)} s` : seconds < 6000 ? `${number(seconds / 60)} min` : `${number(seconds / 3600)} h`;
const share = (pair) => (pair ? `${pair[0]} of ${pair[1]}` : "–");
const lasted = (run) => ((isRunning(run) ? Date.now() : Date.parse(run.changed_at)) - Date.parse(run.created_at)) / 1000;
const rate = (run) => (lasted(run) > 0 && (!isRunning(run) || Date.now() - Date.parse(run.changed_at) < 864e5) ? run.evaluations / lasted(run) : null);
// By combined_score where an evaluator returns one, else by mean reward: whatever ranks programs there.
const merit = (score, meanReward) => (score === null || score === undefined ? reward(meanReward) : number(score, 6));
const programLink = (id, run, text) => (id ? el("a", { href: address(["program", id], { run }) }, text || id.slice(0, 8)) : "–");
const action = (isAllowed, name, path, question) => (isAllowed ? el("button", { type: "button", "data-key": path, onclick: () => act(path, question) }, name) : null);
const counted = (evaluations) => `${number(evaluations)} evaluation${evaluations === 1 ? "" : "s"}`;
// Words of the field, for whoever points at one.
const MEANINGS = new Map(Object.entries({
  component: "one number of a reward vector: an example, or what a scorer names",
  "components at 1": "how many numbers of its reward vector are full", "at 1": "how many components have full reward", mean: "mean reward over all components",
  seed: "a starting program of the problem; for a run, what its random numbers begin with", root: "written from the problem alone, without a parent", mutate: "a parent program, improved", crossover: "two parent programs, combined",
  repair: "a parent program that failed, mended", join: "two programs joined as `a if condition else b`, without a model",
  duplicate: "a program that this run had already proposed", unparsed: "no program could be read from the answer", rejected: "refused before it was run, for example as not novel", parsed: "a program that this run had not seen",
  island: "a population of its own", "migrations to it": "how often the best of its neighbour were copied to it", "asked for since its best": "proposed on this island since its best program last changed",
  "held-out": "right on how many of the examples that the search never sees", "held-out right": "on how many of the examples that the search never sees the best program is right",
  evaluations: "all answers proposed count: repeats and answers without a program too", after: "answers that had been proposed when it came", "found after": "answers proposed up to it; a curve has one point for all answers of a reply", "different programs": "judged ones, each counted once",
  "in the sandbox": "programs run; a repeat has the judgement of its twin and is not run again", trust: "high: the program's process never held the expected answers; low: it ran together with its evaluator",
  isolation: "what this machine's sandbox offers", policy: "the version of the model that wrote it; 0 is the start model", memorised: "right on all examples of the search, wrong on some held-out one",
  "best@1 of the parent": "expected mean reward of one answer by the version before, on the problems of the probe", "its own": "expected mean reward of one answer by this version, on the same problems",
}));
const explained = (word) => el("span", { title: MEANINGS.get(word) }, word);
const section = (title, ...content) => el("section", {}, el("h2", {}, title), ...content);
const empty = (text, command) => el("p", { class: "empty" }, text, command ? el("code", {}, command) : null);

// Columns are { key, name, cell, value, numeric }; `sort` names one of them, "-" before it turns the order round.
function table({ columns, rows, sort, onSort, meaning }) {
  const falls = (sort || "").startsWith("-"), by = columns.find((one) => one.key === (sort || "").replace("-", ""));
  const head = columns.map((one) => el("th", { scope: "col", title: MEANINGS.get(one.name), class: one.numeric ? "figures" : null, "aria-sort": by === one ? (falls ? "descending" : "ascending") : null },
    one.value && onSort ? el("button", { type: "button", class: "sort", "data-key": `sort-${one.key}`,
      onclick: () => onSort(by === one && falls === Boolean(one.numeric) ? (falls ? one.key : `-${one.key}`) : one.numeric ? `-${one.key}` : one.key) },
      one.name, by === one ? (falls ? " ▾" : " ▴") : "") : one.name));
  return el("div", { class: "wide", tabindex: 0, role: "region", "aria-label": meaning },
    el("table", {}, el("thead", {}, el("tr", {}, head)),
      el("tbody", {}, rows.map((row) => el("tr", {}, columns.map((one) => el("td", { class: one.numeric ? "figures" : null }, one.cell(row))))))));
}

function sorted(rows, columns, sort) {
  const by = columns.find((one) => one.key === (sort || "").replace("-", "") && one.value);
  if (!by) return rows;
  const sign = sort.startsWith("-") ? -1 : 1;
  const order = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a ?? "").localeCompare(String(b ?? "")));
  return [...rows].sort((a, b) => sign * order(by.value(a) ?? -Infinity, by.value(b) ?? -Infinity));
}

const column = (key, name, value, shown, numeric = true) => ({ key, name, value, numeric, cell: (row) => (shown ? shown(row) : number(value(row))) });

function choice(name, options, chosen, onchange) {
  return el("label", {}, `${name} `, el("select", { "data-key": `choice-${name}`, onchange: (event) => onchange(event.target.value) },
    options.map(([value, text]) => el("option", { value, selected: String(value) === String(chosen) }, shorten(text, 40)))));
}

const tabs = (run, chosen) => el("nav", { class: "tabs", "aria-label": "Of this run" },
  [["", "Overview"], ["lineage", "Lineage"], ["programs", "Programs"], ["answers", "Answers"], ["population", "Population"], ["settings", "Settings"]].filter(([to]) => to !== "answers" || !page.answers).map(([to, name]) =>
    el("a", { href: address(to ? ["run", run, to] : ["run", run]), "aria-current": to === chosen ? "page" : null }, name)));

const facts = (pairs) => el("dl", { class: "facts" }, pairs.filter(([, value]) => value !== null && value !== undefined)
  .map(([name, value]) => el("div", {}, el("dt", { title: MEANINGS.get(name) }, name), el("dd", {}, value))));

// `to` gives the address of a list of what was counted.
const bars = (counts, total, to) => el("table", { class: "bars" }, el("tbody", {}, counts.map((one) => {
  const bar = el("div", { class: "bar" });
  bar.style.width = `${(100 * one.count) / Math.max(1, total)}%`;
  return el("tr", {}, el("th", { scope: "row" }, to ? el("a", { href: to(one.name) }, one.name) : explained(one.name)), el("td", { class: "figures" }, number(one.count)), el("td", { class: "drawn" }, bar));
})));

const status = (run) => el("span", { class: `status ${/^[a-z]+$/.test(run.status) ? run.status : ""}`, title: MEANINGS.get(run.status) }, run.status);

// Of a run that was not read yet only what is stored with it is known.
const once = (cell) => (run) => (run.read[0] || isRead(run) ? cell(run) : "…");

const RUN_COLUMNS = [
  column("problem", "problem", (run) => run.problem, (run) => el("a", { href: address(["run", run.id]), title: visible(run.id) }, shorten(run.problem, 48)), false),
  column("id", "run", (run) => run.id, (run) => shorten(run.id, 16), false),
  column("status", "status", (run) => run.status, status, false),
  column("best", "best", (run) => run.best_score ?? run.best_mean_reward, once((run) => merit(run.best_score, run.best_mean_reward))),
  column("passed", "passed", (run) => run.passed / run.objectives, once((run) => `${run.passed} of ${run.objectives}`)),
  column("heldout", "held-out", (run) => (run.heldout && run.heldout[1] ? run.heldout[0] / run.heldout[1] : null), (run) => share(run.heldout)),
  column("evaluations", "evaluations", (run) => run.evaluations, once((run) => `${number(run.evaluations)}${isRead(run) ? "" : " …"}`)),
  column("rate", "per second", rate, once((run) => number(rate(run)))),
  column("tokens", "tokens", (run) => run.tokens, once((run) => number(run.tokens))),
  column("cost", "cost", (run) => run.cost),
  column("policies", "policy", (run) => run.policy_versions.join(", "), once((run) => run.policy_versions.join(", ") || "–"), false),
  column("strategy", "strategy", (run) => run.strategy, (run) => run.strategy || "–", false),
  column("seed", "seed", (run) => Number(run.seed), (run) => run.seed),
  column("created", "started (UTC)", (run) => run.created_at, (run) => when(run.created_at), false),
];
const runColumns = (runs) => RUN_COLUMNS.filter((one) => one.key !== "cost" || runs.some((run) => run.cost !== null));

const runsView = {
  title: () => "Runs",
  load: (_, query) => read("/api/runs", { offset: query.get("offset") || 0, limit: 100, problem: query.get("problem"), status: query.get("status") }),
  isLive: (data) => (data.runs.every(isRead) ? (data.runs.some(isRunning) ? "live" : "") : "reading"),
  draw(data, query) {
    const picked = new Set((query.get("runs") || "").split(",").filter(Boolean));
    const pick = { key: "pick", name: el("span", { class: "hidden" }, "compare"), cell: (run) => el("input", { type: "checkbox", checked: picked.has(run.id),
      "aria-label": visible(`compare run ${run.id} of ${run.problem}`), "data-key": `pick-${run.id}`, onchange: (event) => {
        event.target.checked ? picked.add(run.id) : picked.delete(run.id);
        change({ runs: [...picked].join(",") }, { quietly: true });
      } }) };
    const columns = [pick, ...runColumns(data.runs)];
    const words = ["", "running", "solved", "memorised", "exhausted", "stopped", "interrupted", "failed"].map((word) => [word, word || "any"]);
    const filtered = query.get("problem") || query.get("status");
    return [el("h1", {}, "Runs"),
      el("form", { class: "filters", onsubmit: (event) => event.preventDefault() },
        el("label", {}, "problem ", el("input", { type: "search", value: query.get("problem") || "", "data-key": "problem",
          oninput: (event) => change({ problem: event.target.value, offset: "" }, { quietly: true }) })),
        choice("status", words, query.get("status") || "", (value) => change({ status: value, offset: "" })),
        picked.size > 1 ? el("a", { class: "button", href: address(["compare"], { runs: [...picked].join(",") }) }, `Compare ${picked.size}`) : null),
      data.runs.length ? table({ columns, rows: sorted(data.runs, columns, query.get("sort")), sort: query.get("sort"), onSort: (sort) => change({ sort }), meaning: "Runs" })
        : filtered ? empty("No run fits these filters.") : empty("No run yet. Start one: ", "evovpo evolve strings/phone-with-hyphens"),
      paging(data, data.runs)];
  },
};

// An answer that is a part of a list says how many follow, or only that some do.
function paging({ offset, total, more }, shown) {
  const end = offset + shown.length, isLast = total === undefined ? !more : end >= total;
  const to = (start, name) => el("button", { type: "button", "data-key": name, onclick: () => change({ offset: start || "" }) }, name);
  return offset || !isLast ? el("p", { class: "paging" }, offset ? to(Math.max(0, offset - 100), "before") : null,
    ` ${number(offset + 1)} to ${number(end)} ${total === undefined ? "" : `of ${number(total)} `}`, isLast ? null : to(end, "next")) : null;
}

const AXES = [["evaluations", "evaluations"], ["tokens", "tokens"], ["seconds", "seconds of sampling and sandbox"]];

function overview(run, query) {
  const isScored = run.best_score !== null, shown = [...(isScored ? [["score", "best combined_score"]] : []), ["best", "best and mean"], ["components", "best of each component"]];
  const by = AXES.find(([key]) => key === query.get("by")) || AXES[0], what = query.get("show") || shown[0][0];
  const xs = run.curve[by[0]], pairs = (ys) => xs.map((x, i) => [x, ys[i]]).filter((pair) => pair[1] !== null);
  const end = xs.length ? xs[xs.length - 1] : 0;
  const series = what === "components"
    ? run.components.slice(0, 24).map((one) => ({ name: one.name, stepped: true, points: one.rises.length ? [...one.rises.map((rise) => [rise[by[0]], rise.value]), [end, one.rises[one.rises.length - 1].value]] : [[0, 0], [end, 0]] }))
    : what === "score" ? [{ name: "best combined_score", points: pairs(run.curve.score), stepped: true }]
    : [{ name: "best mean reward", points: pairs(run.curve.best), stepped: true }, { name: "mean of the latest 100 programs", points: pairs(run.curve.mean) }];
  const rows = run.components.map((one, index) => ({ ...one, index, full: one.rises.find((rise) => rise.value >= 1), best: one.rises.length ? one.rises[one.rises.length - 1] : null }));
  const failed = run.by_status.filter((one) => one.name !== "ok"), slots = run.by_parse_status.filter((one) => one.name !== "parsed");
  return [
    el("p", { class: "statement" }, run.statement.text, cutNote(run.statement)),
    facts([["best combined_score", isScored ? number(run.best_score, 6) : null], ["best mean reward", reward(run.best_mean_reward)], ["components at 1", `${run.passed} of ${run.objectives}`], ["held-out right", run.heldout ? share(run.heldout) : "not looked at"],
      ["evaluations", `${number(run.evaluations)} of ${number(run.budget)}`], ["different programs", number(run.programs)], ["tokens sampled", number(run.tokens)],
      ["cost", run.cost === null ? null : number(run.cost)], ["requests failed", run.calls.calls ? `${run.calls.failed} of ${run.calls.calls}` : null],
      ["evaluations per second", number(rate(run))], ["took", spent(lasted(run))], ["in the sandbox", spent(run.sandbox_seconds)],
      ["best program", programLink(run.best_program_id, run.id)], ["found after", run.best_at === null ? null : counted(run.best_at)],
      ["written by policy", run.best_policy_version ?? (run.best_program_id ? "no model" : null)]]),
    section("Curve", el("div", { class: "filters" },
      choice("show", shown, what, (value) => change({ show: value })),
      choice("against", AXES, by[0], (value) => change({ by: value }))),
      lineChart({ series, xLabel: by[1], ...(what === "score" ? { yLabel: "combined_score" } : { yLabel: "reward", low: 0, high: 1 }) }),
      what === "components" && run.components.length > 24 ? el("p", {}, "The first 24 components are drawn.") : null),
    section("Components", rows.length ? table({ meaning: "Components", rows, columns: [
      column("name", "component", (one) => one.name, (one) => shorten(one.name, 60), false),
      column("best", "best", (one) => one.best && one.best.value, (one) => reward(one.best ? one.best.value : 0)),
      column("full", "first at 1 after", (one) => one.full && one.full.evaluations, (one) => (one.full ? (one.full.evaluations ? counted(one.full.evaluations) : "the start") : "never")),
      column("program", "by program", null, (one) => programLink((one.full || one.best || {}).program_id, run.id), false)] }) : empty("No component.")),
    section("Islands", run.islands.length ? table({ meaning: "Islands", rows: run.islands, columns: [
      column("island", "island", (one) => one.island), column("proposed", "proposed", (one) => one.proposed), column("judged", "judged", (one) => one.judged),
      column("best", isScored ? "best combined_score" : "best", (one) => one.best, (one) => (isScored ? number(one.best, 6) : reward(one.best))), column("since", "asked for since its best", (one) => one.since_rise),
      column("migrations", "migrations to it", (one) => one.migrations),
      column("program", "best program", null, (one) => programLink(one.best_program_id, run.id), false)] }) : empty("Nothing was proposed yet.")),
    section("What became of the answers", el("div", { class: "columns" },
      el("div", {}, el("h3", {}, "Judgements of proposed programs, repeats too"), bars(run.by_status, run.evaluations, (name) => address(["run", run.id, "programs"], { status: name })), failed.length ? null : el("p", {}, "No program failed.")),
      el("div", {}, el("h3", {}, "Answers"), bars(run.by_parse_status, run.evaluations, page.answers ? null : (name) => address(["run", run.id, "answers"], { parse_status: name })), slots.length ? null : el("p", {}, "Every answer was a new program.")),
      run.calls.faults.length ? el("div", {}, el("h3", {}, "Requests that brought nothing"), bars(run.calls.faults, run.calls.calls)) : null)),
    section(isRunning(run) ? "In flight" : "Left open when it ended", run.open_asks.length ? table({ meaning: "Asks that wait", rows: run.open_asks, columns: [
      column("sequence", "ask", (one) => one.sequence), column("kind", "kind", (one) => one.kind, (one) => one.kind, false), column("island", "island", (one) => one.island),
      column("replies", "replies", (one) => one.replies, (one) => `${one.replies} of ${one.wanted}`)] }) : empty("No ask waits for a reply.")),
  ];
}

function lineageView(data, query, run) {
  if (!data.programs.length) return empty("Nothing was judged yet.");
  const known = new Map(data.programs.map((one) => [one.program_id, one]));
  const child = known.get(query.get("child")) || data.programs[0];
  const parent = known.get(query.get("parent")) || known.get((child.parents.find((one) => known.has(one.program_id)) || {}).program_id);
  const nodes = data.programs.map((one) => ({ id: one.program_id, name: `${one.kind} ${one.program_id.slice(0, 8)}`,
    note: `${merit(one.score, one.mean_reward)}${one.evaluations === null ? "" : `, after ${one.evaluations}`}`,
    parents: one.parents.map((made) => ({ id: made.program_id, role: made.role })) }));
  return [
    el("p", {}, `From the starting programs on the left to ${query.get("program") ? "this one" : "the best one"}. Choose a program to see what its parents became.`),
    graph({ nodes, chosen: { child: child.program_id, parent: parent && parent.program_id }, choose: (id) => change({ child: id, parent: "" }) }),
    section(parent ? `What ${child.program_id.slice(0, 8)} changed` : `Program ${child.program_id.slice(0, 8)}, made from no other`,
      el("p", {}, programLink(child.program_id, run.id, "Open this program"), ` · ${child.kind}, ${child.score === null ? "" : `combined_score ${number(child.score, 6)}, `}mean reward ${reward(child.mean_reward)}, ${child.passed} of ${run.objectives} components at 1`,
        child.policy_version === null ? "" : `, written by policy ${child.policy_version}`),
      child.parents.length > 1 ? el("div", { class: "filters" }, choice("compared with", child.parents.filter((one) => known.has(one.program_id)).map((one) => [one.program_id, `${one.role} ${one.program_id.slice(0, 8)}`]), parent && parent.program_id, (value) => change({ child: child.program_id, parent: value }))) : null,
      parent ? diffView(parent.source.text, child.source.text) : codeView(child.source)),
  ];
}

const PROGRAM_COLUMNS = [
  column("program", "program", null, (one) => programLink(one.program_id, one.run), false),
  column("best", "combined_score", (one) => one.score, (one) => number(one.score, 6)),
  column("mean_reward", "mean", (one) => one.mean_reward, (one) => reward(one.mean_reward)),
  column("passed", "at 1", (one) => one.passed), column("length", "length", (one) => one.length),
  column("seconds", "seconds", (one) => one.seconds), column("order", "after", (one) => one.position, (one) => number(one.evaluations)),
  column("status", "status", null, (one) => el("span", { class: one.status === "ok" ? null : "lacking" }, one.status), false), column("kind", "kind", null, (one) => explained(one.kind), false),
  column("island", "island", null, (one) => one.island), column("policy", "policy", null, (one) => one.policy_version ?? "–"),
  { key: "begins", name: "begins", cell: (one) => el("code", { class: "begins" }, shorten(one.begins.replace(/\s+/g, " "), 70)) },
];
// The API sorts these falling by themselves; the table says so with its sign.
const FALLING = ["best", "mean_reward", "passed", "seconds"];
const turned = (sort) => (FALLING.includes(sort.replace("-", "")) ? (sort.startsWith("-") ? sort.slice(1) : `-${sort}`) : sort);

const any = (values) => [["", "any"], ...values.map((value) => [value, value])];

function programsView(data, query, run) {
  const rows = data.programs.map((one) => ({ ...one, run: run.id }));
  const filters = { status: run.by_status.map((one) => one.name), island: run.islands.map((one) => one.island), policy_version: run.by_policy.map((one) => one.policy_version) };
  return [el("div", { class: "filters" }, Object.entries(filters).map(([name, values]) => choice(name.replace("_version", ""), any(values), query.get(name) || "", (value) => change({ [name]: value, offset: "" })))),
    el("p", {}, `${number(data.total)} different programs; repeats of them are among the answers.`),
    !data.total ? empty(run.programs ? "No program fits these filters." : "Nothing was judged yet.") : table({ columns: PROGRAM_COLUMNS.filter((one) => one.key !== "best" || run.best_score !== null), rows, sort: turned(query.get("sort") || "order"), onSort: (sort) => change({ sort: turned(sort), offset: "" }), meaning: "Programs" }),
    paging(data, rows)];
}

function answersView(data, query, run) {
  return [el("div", { class: "filters" }, choice("what became of it", any(run.by_parse_status.map((one) => one.name)), query.get("parse_status") || "", (value) => change({ parse_status: value, offset: "" }))),
    !data.answers.length ? empty("No such answer.") : table({ meaning: "Answers", rows: data.answers, columns: [
      column("position", "reply", null, (one) => number(one.position)), column("parse_status", "what became of it", null, (one) => explained(one.parse_status), false),
      column("kind", "kind", null, (one) => explained(one.kind), false), column("island", "island", null, (one) => one.island), column("policy", "policy", null, (one) => one.policy_version ?? "–"),
      column("program", "program", null, (one) => programLink(one.program_id, run.id), false),
      column("text", "the answer", null, (one) => [one.reason ? el("div", {}, shorten(one.reason, 300)) : null, el("code", {}, one.text.text, cutNote(one.text))], false)] }),
    paging(data, data.answers)];
}

// The best program of each cell; of a grid with more than two axes, of all cells that agree in the first two.
function gridView(axes, programs, run) {
  const [across, up] = axes, best = new Map();
  for (const one of programs.filter((each) => each.cell)) if (!best.has(one.cell.slice(0, 2).join())) best.set(one.cell.slice(0, 2).join(), one);
  const bins = (axis) => (axis ? [null, ...axis.edges] : [null]);
  const from = (edge, axis) => (edge !== null ? `≥ ${number(edge)}` : axis && axis.edges.length ? `< ${number(axis.edges[0])}` : "");
  const cell = (one) => el("td", { class: "figures" }, one ? shaded(programLink(one.program_id, run.id, merit(one.score, one.mean_reward)), one.mean_reward) : "·");
  return [el("p", {}, `Across: ${shorten(across.name, 60)}${up ? `; down: ${shorten(up.name, 60)}` : ""}. A cell has its best program's ${run.best_score === null ? "mean reward" : "combined_score"}.`),
    el("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "MAP-Elites grid" }, el("table", {},
      el("thead", {}, el("tr", {}, el("td", {}), bins(across).map((edge) => el("th", { scope: "col", class: "figures" }, from(edge, across))))),
      el("tbody", {}, bins(up).map((edge, j) => el("tr", {}, el("th", { scope: "row" }, from(edge, up)), bins(across).map((_, i) => cell(best.get(up ? `${i},${j}` : `${i}`))))))))];
}

// Programs that none of the others equals or exceeds in both components.
function paretoFront(points) {
  let best = -1;
  const found = new Set();
  for (const one of [...points].sort((a, b) => b.x - a.x || b.y - a.y)) if (one.y > best) { best = one.y; found.add(one); }
  return found;
}

// Greedy cover: each program adds the most to the best reward of every component.
function portfolio(programs) {
  const best = [], found = [];
  for (let k = 0; k < 6; k++) {
    const gain = (one) => one.rewards.reduce((sum, value, j) => sum + Math.max(0, value - (best[j] || 0)), 0);
    const next = programs.reduce((most, one) => (gain(one) > gain(most) ? one : most), programs[0]);
    if (!next || gain(next) <= 1e-9) break;
    const gained = gain(next);
    next.rewards.forEach((value, j) => { best[j] = Math.max(best[j] || 0, value); });
    found.push({ ...next, gained, together: mean(best), full: best.filter((value) => value >= 1).length });
  }
  return found;
}

function populationView(data, query, run) {
  const programs = data.programs.filter((one) => one.rewards.length);
  if (!programs.length) return empty("Nothing was judged yet.");
  const names = data.components.map((name, j) => [j, name]), many = data.components.length > 1;
  const x = Number(query.get("x") || 0), y = Number(query.get("y") || (many ? 1 : 0));
  const points = programs.map((one) => ({ x: one.rewards[x] || 0, y: one.rewards[y] || 0, href: address(["program", one.program_id], { run: run.id }),
    name: `${one.program_id.slice(0, 8)}: ${reward(one.rewards[x])}, ${reward(one.rewards[y])}` }));
  const front = paretoFront(points);
  points.forEach((one) => { one.front = front.has(one); });
  const rows = [...programs].sort((a, b) => b.passed - a.passed || b.mean_reward - a.mean_reward).slice(0, 100)
    .map((one) => ({ name: one.program_id.slice(0, 8), id: one.program_id, values: one.rewards }));
  const shown = data.total > programs.length ? ` Of ${number(data.total)} programs these are the ${number(programs.length)} that rank highest.` : "";
  return [
    section("Reward matrix", el("p", {}, `The ${rows.length} programs that pass most components.`, shown),
      heatMap({ rows, columns: data.components, meaning: `Rewards of ${rows.length} programs in ${data.components.length} components; the table of programs has the same figures`,
        open: (i) => { location.hash = address(["program", rows[i].id], { run: run.id }); } })),
    section("Two components", el("div", { class: "filters" }, choice("across", names, x, (value) => change({ x: value })), choice("up", names, y, (value) => change({ y: value }))),
      scatterChart({ points, xLabel: data.components[x] || "", yLabel: data.components[y] || "" }),
      el("p", {}, "Large and joined: no program is as good in both and better in one.", shown)),
    many ? section("All components", el("p", {}, "Light lines have a high mean, dark ones a low one."), parallelChart({ rows: rows.slice(0, 100), columns: data.components })) : null,
    data.axes.length ? section("MAP-Elites grid", gridView(data.axes, programs, run)) : null,
    section("Portfolio", el("p", {}, "Which programs together have most: each adds the most to those above it."),
      table({ meaning: "Portfolio", rows: portfolio(programs), columns: [
        { key: "program", name: "program", cell: (one) => programLink(one.program_id, run.id) },
        column("gained", "adds", (one) => one.gained), column("together", "mean of the best together", null, (one) => reward(one.together)),
        column("full", "components at 1 together", (one) => one.full, (one) => `${one.full} of ${data.components.length}`)] })),
  ];
}

const runView = {
  title: (data) => data.run.problem,
  async load([id, tab], query) {
    const path = `/api/runs/${encodeURIComponent(id)}`;
    const run = await read(path);
    const given = (...names) => Object.fromEntries(names.map((name) => [name, query.get(name)]));
    const queries = { lineage: given("program"), programs: given("sort", "offset", "status", "island", "policy_version"), answers: given("offset", "parse_status"), population: { sort: "best", limit: 1000 } };
    return { run, more: queries[tab] ? await read(`${path}/${tab === "population" ? "programs" : tab}`, queries[tab]) : null };
  },
  isLive: ({ run }) => (isRead(run) ? (isRunning(run) ? "live" : "") : "reading"),
  draw({ run, more }, query, [, tab]) {
    const views = { lineage: lineageView, programs: programsView, answers: answersView, population: populationView };
    const settings = () => [el("h2", {}, "Settings"), codeView({ text: pretty(run.config.text), characters: run.config.characters })];
    return [el("h1", {}, shorten(run.problem, 80), " ", status(run)),
      el("p", { class: "quiet" }, `run ${run.id}, seed ${run.seed}, ${run.strategy}, started ${when(run.created_at)} UTC`,
        isRead(run) ? "" : ` · reading: ${number(run.read[0])} of ${number(run.read[1])} replies`),
      action(run.actions && isRunning(run), "Stop", `/api/runs/${encodeURIComponent(run.id)}/stop`, "Stop this run? What is under way is finished; it can be resumed."),
      action(run.actions && ["interrupted", "failed"].includes(run.status), "Resume", `/api/runs/${encodeURIComponent(run.id)}/resume`, "Resume this run on this machine?"),
      tabs(run.id, tab || ""),
      ...[(views[tab] ? views[tab](more, query, run) : tab === "settings" ? settings() : overview(run, query))].flat()];
  },
};

function pretty(text) {
  try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return text; }
}

function shaded(text, value, attributes) {
  const found = el("span", { ...attributes, class: `shaded ${value > 0.43 ? "light" : "dark"}` }, text);
  found.style.background = heat(value);
  return found;
}

function tokensView({ logprobs, token_texts: texts, token_ids: ids, span }) {
  if (!logprobs.length) return empty("The model's server gives no log-probabilities.");
  const least = `${number(logprobs.length)} tokens; the least likely had a probability of ${number(Math.exp(Math.min(...logprobs)))}.`;
  if (!texts.length) return empty(`${least} Which text each of them is, is known for the built-in models only.`);
  const [start, end] = span || [0, logprobs.length];
  const token = (value, i) => shaded(texts[i].replace(/\n/g, "⏎"), 1 + value / 5, { title: `token ${i}, id ${ids[i]}, probability ${number(Math.exp(value))}`, "data-own": i >= start && i < end });
  return [el("p", {}, `${least} Underlined are those of this program. A token that was the only one allowed is certain. `,
    [["rarer", -5], ["1 in 20", -3], ["1 in 5", -1.6], ["1 in 2", -0.7], ["certain", 0]].map(([words, value]) => [shaded(words, 1 + value / 5), " "]).flat()),
    el("div", { class: "tokens" }, logprobs.slice(0, 3000).map(token))];
}

// What a program gave for an example; what it did where nothing of it is kept.
function returned(one, { status, feedback }) {
  if (one.got !== "null" || one.wanted === "null") return el("code", {}, one.got);
  if (status !== "ok") return el("em", {}, status);
  return el("em", {}, feedback.text.startsWith(`${one.name}: `) ? feedback.text.slice(one.name.length + 2) : "nothing: it raised, returned None, or too much to keep");
}

// A program stays what it is: it is read once.
const programView = {
  title: (data) => `Program ${data.program_id.slice(0, 8)}`,
  load: ([id], query) => read(`/api/programs/${encodeURIComponent(id)}`, { run: query.get("run") }),
  isLive: () => null,
  draw(data) {
    const { evaluation, completion } = data, source = data.source.text;
    const head = [el("h1", {}, `Program ${data.program_id}`), data.run ? el("p", { class: "quiet" }, shorten(data.problem, 60), ", run ", el("a", { href: address(["run", data.run]) }, data.run), " · ", el("a", { href: address(["run", data.run, "programs"]) }, "all programs"),
      " · ", el("a", { href: address(["run", data.run, "lineage"], { program: data.program_id }) }, "its lineage")) : null];
    const code = section("Source", el("p", { class: "filters" }, el("button", { type: "button", onclick: () => navigator.clipboard.writeText(source) }, "Copy"),
      el("a", { class: "button", href: URL.createObjectURL(new Blob([source], { type: "text/plain" })), download: `${data.program_id}.py` }, "Download")), codeView(data.source));
    if (!data.run) return [...head, empty("No run proposed this program."), code];
    const components = evaluation ? evaluation.components : [], rewards = components.map((one) => one.reward || 0);
    const hasRaised = evaluation && evaluation.status === "ok" && components.some((one) => one.got === "null" && one.wanted !== "null") && evaluation.feedback.text;
    const links = (ids) => (ids.length ? ids.map((id) => [programLink(id, data.run), " "]).flat() : "none");
    return [...head,
      facts([["status", evaluation ? `${evaluation.status}${hasRaised ? ", but it raised on some rows" : ""}` : "not judged"], ["mean reward", evaluation ? reward(mean(rewards)) : null],
        ["components at 1", evaluation ? `${rewards.filter((value) => value >= 1).length} of ${rewards.length}` : null], ["found after", data.evaluations === null ? null : counted(data.evaluations)], ["made by", explained(data.kind)],
        ["made from", links([...new Set(data.parents.map((one) => one.program_id))])], ["island", data.island],
        ["policy", completion ? completion.policy_version : "no model"], ["model", completion && completion.model ? completion.model : null], ["temperature", completion && completion.temperature],
        ["tokens of the completion", completion && number(completion.tokens)], ["seconds in the sandbox", evaluation && number(evaluation.seconds)], ["isolation", evaluation && evaluation.isolation],
        ["trust", evaluation && evaluation.trust], ["also in runs", data.runs.length > 1 ? data.runs.length - 1 : null]]),
      el("p", {}, data.children.length < 20 ? "Made from it: " : "Made from it, the first 20: ", links(data.children)),
      code,
      evaluation && evaluation.feedback.text ? section("What the judgement said", plainView(evaluation.feedback)) : null,
      evaluation ? section("Rewards", table({ meaning: "Rewards", rows: components, columns: [
        column("name", "component", null, (one) => shorten(one.name, 60), false), column("reward", "reward", null, (one) => el("span", { class: one.reward >= 1 ? "full" : "lacking" }, `${one.reward >= 1 ? "✓" : "✗"} ${reward(one.reward)}`)),
        ...(components.some((one) => one.wanted !== undefined) ? ["inputs", "wanted", "got"].map((key) => column(key, key, null, (one) => (key === "got" ? returned(one, evaluation) : el("code", {}, one[key] ?? "–")), false)) : [])] }),
        evaluation.metrics.length ? table({ meaning: "Metrics", rows: evaluation.metrics, columns: [column("name", "metric", null, (one) => shorten(one.name, 60), false), column("value", "value", null, (one) => one.value, false)] }) : null) : null,
      ...data.parents.map((parent) => section(["What changed from ", parent.role, " ", programLink(parent.program_id, data.run)], diffView(parent.source.text, source))),
      data.prompt.length ? el("details", { "data-key": "prompt" }, el("summary", {}, "The prompt"), data.prompt.map((message) => [el("h3", {}, message.role), plainView(message)]).flat()) : null,
      completion ? el("details", { "data-key": "completion" }, el("summary", {}, "The completion, and how likely its tokens were"),
        tokensView(completion), plainView(completion)) : null,
    ];
  },
};

const FIGURES = [["set_score", "expected best of a chain"], ["mean_reward", "mean reward"], ["entropy", "entropy"], ["kl", "KL to the start model"], ["diversity", "diversity"], ["zero_spread_share", "share of groups without spread"]];

const signed = (value) => (value < 0 ? "−" : "+") + Math.abs(value).toFixed(3);
const interval = ([middle, low, high]) => (middle === undefined ? "–" : `${signed(middle)} [${signed(low)}, ${signed(high)}]`);

const policiesView = {
  title: () => "Training",
  load: () => read("/api/policies"),
  isLive: () => "live",
  draw(data) {
    if (!data.versions.length && !data.trainings.length && !data.events.length) return [el("h1", {}, "Training"), empty("No policy version yet. Train one from what is stored: ", "evovpo retrain")];
    // Versions are probed on problems that differ from training to training: only a version and its parent compare.
    const figure = (one, name) => (one.metrics.find((metric) => metric.name === name) || {}).value;
    const ks = (one) => one.metrics.map((metric) => /^probe\.best_at_(\d+)$/.exec(metric.name)).filter(Boolean).map((found) => Number(found[1])).sort((a, b) => a - b);
    const probed = data.versions.filter((one) => ks(one).length);
    const nodes = data.versions.map((one) => ({ id: String(one.number), name: `policy ${one.number}`, note: one.number === data.served ? "served" : "", parents: one.parent === null ? [] : [{ id: String(one.parent), role: "parent" }] }));
    const panels = FIGURES.map(([key, name]) => [name, data.trainings.slice(-6).map((one) => ({ name: one.id.slice(0, 8), points: one.steps.map((step) => [step.step, step[key]]) }))]);
    return [el("h1", {}, "Training"),
      data.versions.length ? graph({ nodes, chosen: { child: String(data.served) }, choose: () => {} }) : null,
      section("Versions", table({ meaning: "Policy versions", rows: data.versions, columns: [
        column("number", "policy", (one) => one.number, (one) => `${one.number}${one.number === data.served ? " (served)" : ""}`), column("parent", "from", (one) => one.parent),
        column("steps", "steps", (one) => figure(one, "steps")), column("parents", "best@1 of the parent", (one) => figure(one, "probe.parent.best_at_1")), column("own", "its own", (one) => figure(one, "probe.best_at_1")),
        column("change", "difference [95 % interval]", null, (one) => interval(["mean", "low", "high"].map((part) => figure(one, `probe.difference.best_at_1.${part}`)))),
        column("path", "folder", null, (one) => shorten(one.path, 60), false),
        ...(data.actions ? [column("serve", "", null, (one) => action(one.number !== data.served, "Serve", `/api/policies/${one.number}/serve`, `Let searches follow policy ${one.number}?`), false)] : [])] })),
      probed.length ? section("Before and after", el("p", {}, "Best mean reward of k answers, on problems outside the training: a version beside its parent. The band is the 95 % interval of what it gained."),
        el("div", { class: "columns" }, probed.slice(-4).map((one) => lineChart({ xLabel: "answers k", yLabel: "best@k", low: 0, high: 1, most: 380, series: [["probe.parent", `policy ${one.parent}, before`], ["probe", `policy ${one.number}, after`]]
          .map(([whose, name]) => ({ name, points: ks(one).map((k) => [k, figure(one, `${whose}.best_at_${k}`)]),
            band: whose === "probe" ? ks(one).map((k) => [k, ...["low", "high"].map((end) => figure(one, `probe.parent.best_at_${k}`) + figure(one, `probe.difference.best_at_${k}.${end}`))]).filter((one) => one.every(Number.isFinite)) : [] })) })))) : null,
      section("What happened", data.events.length ? table({ meaning: "Events", rows: [...data.events].reverse().slice(0, 100), columns: [
        column("at", "when (UTC)", null, (one) => when(one.at), false), column("number", "policy", null, (one) => one.number ?? "–"),
        column("kind", "what", null, (one) => one.kind, false), column("detail", "why", null, (one) => shorten(one.detail, 200), false)] }) : empty("Nothing was served or refused yet.")),
      section("Trainings", data.trainings.length ? [table({ meaning: "Trainings", rows: [...data.trainings].reverse(), columns: [
        column("id", "training", null, (one) => one.id.slice(0, 8), false), column("objective", "objective", null, (one) => one.objective, false), column("start", "from policy", null, (one) => one.start_version),
        column("steps", "steps shown", null, (one) => one.steps.length), column("runs", "trained on", null, (one) => [...one.runs.slice(0, 5).map((run) => [el("a", { href: address(["run", run]) }, run.slice(0, 8)), " "]).flat(), one.runs.length > 5 ? `and ${one.runs.length - 5} more` : null].flat(), false),
        column("at", "begun (UTC)", null, (one) => when(one.created_at), false)] }),
        el("div", { class: "columns" }, panels.map(([name, series]) => el("div", {}, el("h3", {}, name), lineChart({ series, xLabel: "step", yLabel: name, most: 380 }))))] : empty("No training yet.")),
    ].flat();
  },
};

const compareView = {
  title: () => "Comparison",
  async load(_, query) {
    const ids = (query.get("runs") || "").split(",").filter(Boolean).slice(0, 40);
    return Promise.all(ids.map((id) => read(`/api/runs/${encodeURIComponent(id)}`)));
  },
  isLive: (runs) => (runs.every(isRead) ? (runs.some(isRunning) ? "live" : "") : "reading"),
  draw(runs, query) {
    if (!runs.length) return [el("h1", {}, "Comparison"), empty("Choose runs in the list of runs.")];
    const ways = { strategy: (run) => run.strategy, policy: (run) => `policy ${run.policy_versions.join(", ")}`, problem: (run) => run.problem, run: (run) => `${shorten(run.id, 16)}, seed ${run.seed}` };
    const by = query.get("group") in ways ? query.get("group") : "run", axis = AXES.find(([key]) => key === query.get("by")) || AXES[0];
    const isScored = runs.every((run) => run.best_score !== null), what = isScored ? "score" : "best";
    const groups = Map.groupBy ? Map.groupBy(runs, ways[by]) : runs.reduce((map, run) => map.set(ways[by](run), [...(map.get(ways[by](run)) || []), run]), new Map());
    const series = [...groups].map(([name, members]) => {
      const xs = [...new Set(members.flatMap((run) => run.curve[axis[0]]))].sort((a, b) => a - b);
      const end = Math.min(...members.map((run) => run.curve[axis[0]].at(-1) ?? 0));
      const at = (run, x) => run.curve[what][run.curve[axis[0]].findLastIndex((one) => one <= x)] ?? 0;
      const values = xs.filter((x) => x <= end || members.length === 1).map((x) => [x, members.map((run) => at(run, x))]);
      return { name: members.length === 1 ? name : `${name} (${members.length} runs)`, stepped: true, points: values.map(([x, all]) => [x, mean(all)]),
        band: members.length > 1 ? values.map(([x, all]) => [x, Math.min(...all), Math.max(...all)]) : [] };
    });
    return [el("h1", {}, "Comparison"),
      el("div", { class: "filters" }, choice("one line for each", Object.keys(ways).map((name) => [name, name]), by, (value) => change({ group: value })), choice("against", AXES, axis[0], (value) => change({ by: value }))),
      lineChart({ series, xLabel: axis[1], ...(isScored ? { yLabel: "best combined_score" } : { yLabel: "best mean reward", low: 0, high: 1 }) }),
      el("p", {}, "A line is the mean over its runs, as far as all of them have come; its band goes from the lowest to the highest."),
      table({ columns: runColumns(runs), rows: sorted(runs, RUN_COLUMNS, query.get("sort")), sort: query.get("sort"), onSort: (sort) => change({ sort }), meaning: "Compared runs" })];
  },
};

const bold = (text) => text.split("**").map((part, i) => (i % 2 ? el("strong", {}, part) : part));

const PARTS = {
  table: (part) => [table({ meaning: part.title, rows: part.rows, columns: part.columns.map((name, i) => column(String(i), name, null, (row) => bold(row[i]), false)) }),
    part.note ? el("p", { class: "quiet" }, part.note) : null],
  chart: (part) => lineChart({ series: part.series, xLabel: part.against, yLabel: part.title }),
  map: (part) => [heatMap({ columns: part.components, open: () => {}, meaning: part.title, rows: part.rows.map((row) => ({ ...row, name: `${number(row.alike)} programs` })) }),
    el("p", { class: "quiet" }, part.note), el("details", { "data-key": part.title }, el("summary", {}, "The best program"), codeView({ text: part.best, characters: part.best.length }))],
};

const reportView = {
  title: ({ report }) => (report ? report.name : "Report"),
  load: () => read("/api/report"),
  isLive: ({ report }) => (report && report.ended[0] < report.ended[1] ? "live" : ""),
  draw({ report }) {
    if (!report) return [el("h1", {}, "Report"), empty("No batch or study is shown here. Show one while it runs, or afterwards: ", "evovpo serve --report comparison.toml")];
    return [el("h1", {}, shorten(report.name, 80)), el("p", { class: "quiet" }, `${number(report.ended[0])} of ${number(report.ended[1])} runs have ended.`),
      el("ul", {}, report.sentences.map((sentence) => el("li", {}, sentence))), ...report.parts.map((part) => section(part.title, ...[PARTS[part.kind](part)].flat()))];
  },
};

const VIEWS = { runs: runsView, run: runView, program: programView, policies: policiesView, compare: compareView, report: reportView };
