// The views: each loads and draws answers of the read API, which `evovpo/page/read_api.py` documents.
"use strict";

const api = (...parts) => `/api/${parts.map(encodeURIComponent).join("/")}`;
const isRunning = (run) => run.status === "running";
const isRead = (run) => run.read[0] >= run.read[1];
const progress = (runs) => (runs.every(isRead) ? (runs.some(isRunning) ? "live" : "") : "reading");
const when = (iso) => String(iso).replace("T", " ").replace(/(:\d\d)(\.\d+)?(Z|\+00:00)$/, "$1");
const spent = (seconds) => {
  const [unit, name] = seconds < 100 ? [1, "s"] : seconds < 6000 ? [60, "min"] : [3600, "h"];
  return `${number(seconds / unit)} ${name}`;
};
const share = (pair) => pair && `${pair[0]} of ${pair[1]}`;
const sinceChanged = (run) => Date.now() - Date.parse(run.changed_at);
const lasted = (run) => (Date.parse(run.changed_at) - Date.parse(run.created_at) + (isRunning(run) ? sinceChanged(run) : 0)) / 1000;
// The rate is unknown for a run that still counts as running after more than a day without changes.
const rate = (run) => (lasted(run) > 0 && !(isRunning(run) && sinceChanged(run) > 864e5) ? run.evaluations / lasted(run) : null);
// The number that ranks programs: combined_score if the evaluator returns one, else mean reward.
const merit = (score, meanReward) => (isNone(score) ? reward(meanReward) : number(score, 6));
const link = (path, text, query) => el("a", { href: address(path, query) }, text);
const programLink = (id, run, text) => id && link(["program", id], text || id.slice(0, 8), { run });
const counted = (evaluations) => `${number(evaluations)} evaluation${evaluations === 1 ? "" : "s"}`;
const quiet = (...content) => el("p", { class: "quiet" }, content);
const filters = (...content) => el("div", { class: "filters" }, content);
const fold = (title, ...content) => el("details", { "data-key": title }, el("summary", {}, title), content);
const section = (title, ...content) => el("section", {}, el("h2", {}, title), content);
const empty = (text, command) => el("p", { class: "empty" }, text, command && el("code", {}, command));

// Tooltips of terms.
const MEANINGS = new Map(Object.entries({
  component: "one number of a reward vector: one per example, or one named by the scorer",
  passed: "number of components with full reward", mean: "mean reward over all components",
  seed: "a starting program of the problem; for a run, its random seed",
  root: "written from the problem alone, without a parent", mutate: "a parent program, improved", crossover: "two parent programs, combined",
  repair: "a failed parent program, repaired", join: "two programs joined as `a if condition else b`, without a model",
  climb: "the best program of the run, improved", specialist: "the best program under weights that grow on the components it fails, improved",
  explore: "a program from the least explored cell, or one drawn by rank, improved", combine: "the best program and a complementary one, combined",
  shorten: "the solution, shortened while it stays right, without a model",
  fresh: "a program written from the problem alone",
  duplicate: "a program that the run had proposed before", unparsed: "no program could be read from the answer",
  rejected: "rejected before it was run, in runs of earlier versions", parsed: "a new program",
  island: "one of the separate populations of the search",
  "answers since": "answers on this island since its best program changed",
  "held-out": "held-out examples on which the program is right; the search never sees them", "different programs": "judged programs, without repeats",
  evaluations: "all proposed answers, including repeats and answers without a program", after: "answers proposed before it",
  "found after": "answers proposed up to this one; all answers of a reply share one point of the curve",
  "in the sandbox": "programs that were run; a repeated program is not run again",
  trust: "high: the expected answers were never in the program's process; low: program and evaluator shared a process",
  isolation: "isolation level of the sandbox on this machine", policy: "version of the model that wrote it; 0 is the start model",
  memorised: "right on all training examples, wrong on a held-out one",
  "best@1 of the parent": "expected mean reward of one answer of the previous version, on the probe problems",
  "its own": "expected mean reward of one answer of this version, on the same problems",
}));
const explained = (word) => el("span", { title: MEANINGS.get(word) }, word);

// A column shows a field of each row, or the result of `of`; with `value`, it sorts rows if the URL has its `key`.
const getter = (of) => (typeof of === "string" ? (row) => row[of] : of);
const words = (name, of = name, value = null, key = name) => ({ name, cell: getter(of), value: getter(value), key });
const figures = (...given) => ({ ...words(...given), isFigures: true });

const shown = (value) => (isNone(value) || typeof value === "number" ? number(value) : value);

function sorted(rows, columns, sort) {
  const by = columns.find((one) => one.value && one.key === sort.replace("-", ""));
  if (!by) return rows;
  const sign = sort.startsWith("-") ? -1 : 1;
  const order = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));
  return [...rows].sort((a, b) => sign * order(by.value(a) ?? -Infinity, by.value(b) ?? -Infinity));
}

function table(meaning, rows, columns, none, kind = "") {
  if (!rows.length && none) return empty(none);
  const sort = here().query.get("sort") || "", falls = sort.startsWith("-");
  const head = columns.map((one) => {
    const isBy = one.value && one.key === sort.replace("-", ""), name = [one.name, isBy && (falls ? " ▾" : " ▴")];
    const next = (isBy ? !falls : one.isFigures) ? `-${one.key}` : one.key;
    const order = isBy && (falls ? "descending" : "ascending");
    return el("th", { scope: "col", title: MEANINGS.get(one.name), class: one.isFigures && "figures", "aria-sort": order },
      one.value ? el("button", { type: "button", class: "sort", "data-key": `sort-${one.key}`, onclick: () => change({ sort: next }) }, name) : name);
  });
  const body = sorted(rows, columns, sort).flatMap((row) => [row, ...(row.unfolded || [])]).map((row) => el("tr", {}, columns.map((one) =>
    el("td", { class: one.isFigures && "figures", "data-name": typeof one.name === "string" && one.name }, shown(one.cell(row))))));
  return el("div", { class: `wide ${kind}`, tabindex: 0, role: "region", "aria-label": meaning },
    el("table", {}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, body)));
}

// Menu of values, or of pairs of value and label; the URL stores the choice under `key`.
function choice(name, key, options, chosen = here().query.get(key) || "") {
  return el("label", {}, `${name} `, el("select", { "data-key": `choice-${key}`, onchange: (event) => change({ [key]: event.target.value }) },
    options.map((one) => [].concat(one)).map(([value, text = value]) =>
      el("option", { value, selected: String(value) === String(chosen) }, shorten(text, 40)))));
}
const filter = (name, key, values) => choice(name, key, [["", "any"], ...values]);

const facts = (pairs) => el("dl", { class: "facts" }, pairs.filter(([, value]) => !isNone(value))
  .map(([name, value]) => el("div", {}, el("dt", { title: MEANINGS.get(name) }, name), el("dd", {}, shown(value)))));

// `to` returns the URL of a list of the items counted.
const bars = (title, counts, total, to) => el("div", {}, el("h3", {}, title), table(title, counts, [
  words("what", (one) => (to ? el("a", { href: to(one.name) }, one.name) : explained(one.name))), figures("count"),
  words("share", (one) => el("meter", { value: one.count, max: Math.max(1, total), "aria-label": one.name }))]));

const status = (run) => el("span", { class: `status ${/^[a-z]+$/.test(run.status) ? run.status : ""}`, title: MEANINGS.get(run.status) }, run.status);

// The beginning of an id or a seed.
const short = (text, most = 8) => (String(text).length > most ? el("span", { title: text }, String(text).slice(0, most)) : text);

// Small curve of the best so far against evaluations.
function smallCurve({ small_curve: points, best_score: score, budget, members }) {
  if (points.length < 2) return null;
  const ys = points.map((one) => one[1] ?? points.at(-1)[1]), low = score === null ? 0 : Math.min(...ys), high = score === null ? 1 : Math.max(...ys);
  const x = (value) => (96 * value) / Math.max(members ? 0 : budget, points.at(-1)[0]), y = (value) => 22 - (20 * (value - low)) / (high - low || 1);
  const path = stairs([[0, ys[0]], ...points.map(([at], i) => [at, ys[i]])]).map(([a, b]) => `${x(a)},${y(b)}`).join("L");
  return svg("svg", { viewBox: "0 0 96 24", preserveAspectRatio: "none", class: "small", "aria-hidden": "true" }, svg("path", { d: `M${path}`, class: "line", stroke: COLOURS[0] }));
}

// Runs of a loop, or runs that differ only in their seed, share one expandable row.
function grouped(runs, opened) {
  return [...Map.groupBy(runs, (run) => run.group)].map(([group, members]) => {
    if (members.length === 1) return members[0];
    const sum = (key) => members.reduce((all, one) => all + (one[key] || 0), 0), worth = (one) => one.best_score ?? one.best_mean_reward ?? -1;
    const problems = new Set(members.map((one) => one.problem)), best = members.reduce((a, b) => (worth(b) > worth(a) ? b : a));
    return { ...best, id: group, members, seed: null, heldout: null, tokens: sum("tokens"), evaluations: sum("evaluations"), budget: sum("budget"),
      cost: members.some((one) => one.cost !== null) ? sum("cost") : null, policy_versions: [...new Set(members.flatMap((one) => one.policy_versions))],
      problem: problems.size === 1 ? best.problem : `${group}, ${problems.size} problems`, unfolded: opened.has(group) ? members : [] };
  });
}

// A placeholder for figures of a run that has not been read yet.
const once = (cell) => (run) => (run.read[0] || isRead(run) ? getter(cell)(run) : "…");

const counts = (names) => [...Map.groupBy(names, (name) => name)].map(([name, all]) => `${all.length} ${name}`).join(", ");
const opened = () => new Set((here().query.get("open") || "").split(",").filter(Boolean));
function toggle(run) {
  const now = opened(), isOpen = now.has(run.id), text = `${isOpen ? "▾" : "▸"} ${shorten(run.problem, 40)}`;
  isOpen ? now.delete(run.id) : now.add(run.id);
  return el("button", { type: "button", class: "fold", "data-key": `open-${run.id}`, "aria-expanded": String(isOpen),
    onclick: () => change({ open: [...now].join(","), offset: here().query.get("offset") || "" }) }, text);
}

const RUN_COLUMNS = [
  words("problem", (run) => (run.members ? toggle(run) : el("a", { href: address(["run", run.id]), title: run.id }, shorten(run.problem, 48))), "problem"),
  words("run", (run) => (run.members ? `${run.members.length} runs` : short(run.id)), "id"),
  words("status", (run) => (run.members ? counts(run.members.map((one) => one.status)) : status(run)), "status"),
  words("curve", smallCurve),
  figures("best", once((run) => merit(run.best_score, run.best_mean_reward)), (run) => run.best_score ?? run.best_mean_reward),
  figures("passed", once((run) => `${run.passed} of ${run.objectives}`), (run) => run.passed / run.objectives),
  figures("held-out", (run) => share(run.heldout), (run) => (run.heldout?.[1] ? run.heldout[0] / run.heldout[1] : null), "heldout"),
  figures("evaluations", once((run) => `${number(run.evaluations)} of ${number(run.budget)}`), "evaluations"),
  figures("per second", once((run) => !run.members && rate(run)), rate),
  figures("tokens", once("tokens"), "tokens"),
  figures("cost", "cost", "cost"),
  words("model", (run) => (run.models.length ? shorten(run.models.join(", "), 24)
    : run.policy_versions.length ? `built-in${run.policy_versions.some(Boolean) ? `, policy ${run.policy_versions.join(", ")}` : ""}` : null),
    (run) => run.models.join() || run.policy_versions.join()),
  words("strategy", "strategy", "strategy"),
  figures("seed", (run) => run.seed && short(run.seed), (run) => Number(run.seed)),
  words("started (UTC)", (run) => when(run.created_at).slice(0, 16), "created_at", "created"),
];
const FACTS = RUN_COLUMNS.filter(({ name }) => !["problem", "run", "status", "curve", "strategy", "seed", "started (UTC)"].includes(name));
// Leave out columns that are empty for all runs.
const saysSomething = (runs) => ({ key }) => key !== "per second" && (key === "strategy" ? runs.some((run) => run.strategy !== "islands")
  : !["cost", "heldout"].includes(key) || runs.some((run) => run[key] !== null));
const runsTable = (meaning, runs, none, ...first) =>
  table(meaning, runs, [...first, ...RUN_COLUMNS.filter(saysSomething(runs))], none, "cards");

const runsView = {
  title: () => "Runs",
  load: (_, query) => read(api("runs"), Object.fromEntries(["offset", "problem", "status"].map((name) => [name, query.get(name)]))),
  isLive: (data) => progress(data.runs),
  draw(data, query) {
    const picked = new Set((query.get("runs") || "").split(",").filter(Boolean)), runs = () => [...picked].join(",");
    const ids = (run) => (run.members || [run]).map((one) => one.id);
    const pick = words(el("span", { class: "hidden" }, "compare"), (run) => el("input", { type: "checkbox", checked: ids(run).every((id) => picked.has(id)),
      "aria-label": `compare ${run.members ? "runs" : "run"} ${run.id} of ${run.problem}`, "data-key": `pick-${run.id}`, onchange: (event) => {
        ids(run).forEach((id) => (event.target.checked ? picked.add(id) : picked.delete(id)));
        change({ runs: runs(), offset: data.offset || "" }, { quietly: true });
      } }));
    const isFiltered = query.get("problem") || query.get("status");
    return [
      el("form", { class: "filters", onsubmit: (event) => event.preventDefault() },
        el("label", {}, "problem ", el("input", { type: "search", value: query.get("problem"), "data-key": "problem",
          oninput: (event) => change({ problem: event.target.value }, { quietly: true }) })),
        filter("status", "status", ["running", "solved", "memorised", "exhausted", "stopped", "interrupted", "failed"]),
        picked.size > 1 && el("a", { class: "button", href: address(["compare"], { runs: runs() }) }, `Compare ${picked.size}`)),
      isFiltered || data.runs.length ? runsTable("Runs", grouped(data.runs, opened()), "No run fits these filters.", pick)
        : empty("No run yet. Start one: ", "evovpo evolve strings/phone-with-hyphens"),
      paging(data, data.runs)];
  },
};

// A page of a list has either the total length, or `more` if further items follow.
function paging({ offset, total, more }, shown) {
  const end = offset + shown.length, isLast = total === undefined ? !more : end >= total;
  const to = (start, name) => el("button", { type: "button", "data-key": name, onclick: () => change({ offset: start || "" }) }, name);
  return (offset > 0 || !isLast) && el("p", { class: "paging" }, offset > 0 && to(Math.max(0, offset - 100), "before"),
    ` ${number(offset + 1)} to ${number(end)} ${total === undefined ? "" : `of ${number(total)} `}`, !isLast && to(end, "next"));
}

const AXES = [["evaluations", "evaluations"], ["tokens", "tokens"], ["seconds", "seconds of sampling and sandbox"]];
const axisOf = (query, axes = AXES) => axes.find(([key]) => key === query.get("by")) || axes[0];

// The best program beside the starting program that it descends from; `family` is nearest first.
function bestView(family, query, run) {
  const [best] = family, start = family.findLast((one) => !one.parents.length), hasStart = start && start !== best;
  if (!best) return empty("Nothing was judged yet.");
  return [filters(programLink(best.program_id, run.id, "Open it"), hasStart && choice("shown", "code", [["", "beside its start"], ["alone", "alone"]])),
    best.idea && el("p", {}, el("em", {}, best.idea)),
    hasStart && query.get("code") !== "alone" ? diffView(start.source.text, best.source.text) : codeView(best.source)];
}

function overview(data, query, run) {
  const isScored = run.best_score !== null, isOne = isScored && run.components.length === 1, score = [["score", `best ${run.score_name}`]];
  const shown = [...(isScored ? score : []), ...(isOne ? [] : [["best", "best and mean"], ["components", "best of each component"]])];
  const axes = AXES.filter(([key]) => key !== "tokens" || run.curve.tokens.at(-1) > 0);  // replies of servers have none
  const [by, xLabel] = axisOf(query, axes), what = query.get("show") || shown[0][0];
  const xs = run.curve[by], end = xs.at(-1) ?? 0;
  const line = (name, ys, stepped) => ({ name, stepped, points: xs.map((x, i) => [x, ys[i]]).filter((pair) => pair[1] !== null) });
  const rises = (one) => [[0, 0], ...one.rises.map((rise) => [rise[by], rise.value]), [end, one.rises.at(-1)?.value ?? 0]];
  const series = what === "components" ? run.components.slice(0, 24).map((one) => ({ name: one.name, stepped: true, points: rises(one) }))
    : what === "score" ? [line(`best ${run.score_name}`, run.curve.score, true)]
    : [line("best mean reward", run.curve.best, true), line("mean of the latest 100 programs", run.curve.mean)];
  const isFull = (rise) => rise.value >= 1, first = ({ rises }) => rises.find(isFull) || rises.at(-1);
  const reached = (rise) => (rise.evaluations ? counted(rise.evaluations) : "the start");
  const { calls } = run;
  return [
    el("p", { class: "statement" }, run.statement.text, cutNote(run.statement)),
    facts([...FACTS.filter((one) => !isOne || !["passed", "held-out"].includes(one.name)).map((one) => [one.name, one.cell(run)]),
      ["best mean reward", isScored && !isOne && reward(run.best_mean_reward)],
      ["different programs", run.programs], ["took", spent(lasted(run))], ["in the sandbox", spent(run.sandbox_seconds)],
      ["requests failed", calls.calls > 0 && `${calls.failed} of ${calls.calls}`],
      ["found after", run.best_at !== null && counted(run.best_at)],
      ["written by policy", run.best_policy_version || null]]),
    el("div", { class: "columns" },
      section("Curve", filters(choice("show", "show", shown, what), choice("against", "by", axes, by)),
        lineChart({ series, xLabel, most: 560, ...(what === "score" ? { yLabel: run.score_name } : { yLabel: "reward", low: 0, high: 1 }) }),
        what === "components" && run.components.length > 24 && el("p", {}, "The first 24 components are drawn.")),
      section("Best program", bestView(data.programs, query, run))),
    !isOne && section("Components", table("Components", run.components, [words("component", (one) => shorten(one.name, 60), "name", "name"),
      figures("best", (one) => reward(one.rises.at(-1)?.value ?? 0), (one) => one.rises.at(-1)?.value),
      figures("first passed after", ({ rises }) => (rises.some(isFull) ? reached(rises.find(isFull)) : "never")),
      words("by program", (one) => programLink(first(one)?.program_id, run.id))])),
    section("Islands", table("Islands", run.islands, [figures("island"), figures("proposed"), figures("judged"),
      figures(isScored ? `best ${run.score_name}` : "best", (one) => merit(isScored ? one.best : null, one.best)),
      figures("answers since", "since_rise"),
      words("best program", (one) => programLink(one.best_program_id, run.id))], "Nothing was proposed yet.")),
    section("What became of the answers", el("div", { class: "columns" },
      bars("Judgements of proposed programs, repeats too", run.by_status, run.evaluations,
        (name) => address(["run", run.id, "programs"], { status: name })),
      run.by_way.length > 0 && el("div", {}, el("h3", {}, "Ways to ask"), table("Ways to ask", run.by_way, [
        words("way", (one) => explained(one.name)), figures("programs", "count"), figures("new bests", "rises")])),
      bars("Answers", run.by_parse_status, run.evaluations, !page.answers && ((name) => address(["run", run.id, "answers"], { parse_status: name }))),
      calls.faults.length > 0 && bars("Requests that brought nothing", calls.faults, calls.calls))),
    section(isRunning(run) ? "In flight" : "Left open when it ended", table("Asks that wait", run.open_asks, [figures("ask", "sequence"),
      words("kind"), figures("island"), figures("replies", (one) => `${one.replies} of ${one.wanted}`)], "No ask waits for a reply.")),
  ];
}

function lineageView(data, query, run) {
  if (!data.programs.length) return empty("Nothing was judged yet.");
  const known = new Map(data.programs.map((one) => [one.program_id, one])), short = (one) => one.program_id.slice(0, 8);
  const child = known.get(query.get("child")) || data.programs[0], parents = child.parents.filter((one) => known.has(one.program_id));
  const parent = known.get(query.get("parent")) || known.get(parents[0]?.program_id);
  const nodes = data.programs.map((one) => ({ id: one.program_id, name: `${one.kind} ${short(one)}`,
    note: `${merit(one.score, one.mean_reward)}${one.evaluations === null ? "" : `, after ${one.evaluations}`}`,
    parents: one.parents.map((made) => ({ id: made.program_id, role: made.role })) }));
  return [
    el("p", {}, `From the starting programs on the left to ${query.get("program") ? "this one" : "the best one"}: an arrow leads from a parent `,
      "to what was made from it, a dotted one from a program that was only shown beside. Choose a program to see what its parents became."),
    graph({ nodes, chosen: { child: child.program_id, parent: parent?.program_id }, choose: (id) => change({ child: id, parent: "" }) }),
    section(parent ? `What ${short(child)} changed` : `Program ${short(child)}, made from no other`,
      el("p", {}, programLink(child.program_id, run.id, "Open this program"), ` · ${child.kind}, `,
        child.score !== null && `score ${number(child.score, 6)}, `,
        `mean reward ${reward(child.mean_reward)}, ${child.passed} of ${run.objectives} passed`,
        child.policy_version !== null && `, written by policy ${child.policy_version}`),
      child.idea && el("p", {}, el("em", {}, child.idea)),
      parents.length > 1 && filters(choice("compared with", "parent",
        parents.map((one) => [one.program_id, `${one.role} ${short(one)}`]), parent.program_id)),
      parent ? diffView(parent.source.text, child.source.text) : codeView(child.source)),
  ];
}

// Keys are sort keys of the API, of which some are descending without a sign.
const PROGRAM_COLUMNS = [
  words("program", (one) => programLink(one.program_id, one.run)),
  figures("score", (one) => number(one.score, 6), "score", "best"),
  figures("mean", (one) => reward(one.mean_reward), "mean_reward", "mean_reward"),
  figures("passed", "passed", "passed", "passed"), figures("length", "length", "length"), figures("seconds", "seconds", "seconds"),
  figures("after", "evaluations", "position", "order"),
  words("status", (one) => el("span", { class: one.status !== "ok" && "lacking" }, one.status)), words("kind", (one) => explained(one.kind)),
  figures("island"), figures("policy", "policy_version"),
  words("begins", (one) => el("code", { class: "begins" }, shorten(one.begins.replace(/\s+/g, " "), 70))),
];
const turned = (sort) => (!/^-?(best|mean_reward|passed|seconds)$/.test(sort) ? sort : sort.startsWith("-") ? sort.slice(1) : `-${sort}`);

function programsView(data, query, run) {
  const rows = data.programs.map((one) => ({ ...one, run: run.id }));
  return [filters(filter("status", "status", run.by_status.map((one) => one.name)), filter("island", "island", run.islands.map((one) => one.island)),
      filter("policy", "policy_version", run.by_policy.map((one) => one.policy_version))),
    el("p", {}, `${number(data.total)} different programs; repeats of them are among the answers.`),
    table("Programs", rows, PROGRAM_COLUMNS.filter((one) => one.key !== "best" || run.best_score !== null),
      run.programs ? "No program fits these filters." : "Nothing was judged yet.", "cards"),
    paging(data, rows)];
}

function answersView(data, query, run) {
  return [filters(filter("what became of it", "parse_status", run.by_parse_status.map((one) => one.name))),
    table("Answers", data.answers, [figures("reply", "position"), words("what became of it", (one) => explained(one.parse_status)),
      words("kind", (one) => explained(one.kind)), figures("island"), figures("policy", "policy_version"),
      words("program", (one) => programLink(one.program_id, run.id)),
      words("the answer", (one) => [one.reason && el("div", {}, shorten(one.reason, 300)), el("code", {}, one.text.text, cutNote(one.text))])],
      "No such answer.", "cards"),
    paging(data, data.answers)];
}

// Points that no other point equals or exceeds in both components.
function paretoFront(points) {
  const front = [];
  for (const one of points.toSorted((a, b) => b.x - a.x || b.y - a.y)) if (one.y > (front.at(-1)?.y ?? -1)) front.push(one);
  return front;
}

// Greedy cover: each program adds the most to the best reward of every component.
function portfolio(programs) {
  const best = [], found = [];
  const gain = (one) => one.rewards.reduce((sum, value, j) => sum + Math.max(0, value - (best[j] || 0)), 0);
  while (found.length < 6) {
    const next = programs.reduce((most, one) => (gain(one) > gain(most) ? one : most)), gained = gain(next);
    if (gained <= 1e-9) break;
    next.rewards.forEach((value, j) => { best[j] = Math.max(best[j] || 0, value); });
    found.push({ ...next, gained, together: mean(best), full: best.filter((value) => value >= 1).length });
  }
  return found;
}

function populationView(data, query, run) {
  const programs = data.programs.filter((one) => one.rewards.length);
  if (!programs.length) return empty("Nothing was judged yet.");
  const names = data.components.map((name, j) => [j, name]), many = names.length > 1;
  const x = Number(query.get("x") || 0), y = Number(query.get("y") || (many ? 1 : 0));
  const points = programs.map(({ program_id: id, rewards }) => ({ x: rewards[x] || 0, y: rewards[y] || 0,
    href: address(["program", id], { run: run.id }), name: `${id.slice(0, 8)}: ${reward(rewards[x])}, ${reward(rewards[y])}` }));
  const most = Math.min(100, Math.ceil(20000 / names.length)), better = (a, b) => b.passed - a.passed || b.mean_reward - a.mean_reward;
  const rows = programs.toSorted(better).slice(0, most).map((one) => ({ name: programLink(one.program_id, run.id), values: one.rewards }));
  const shown = data.total > programs.length && ` Of ${number(data.total)} programs these are the ${number(programs.length)} that rank highest.`;
  return [
    section("Reward matrix", el("p", {}, `The ${rows.length} programs that pass most components; dark is 0, light is 1.`, shown),
      heatMap(`Rewards of ${rows.length} programs in ${names.length} components`, rows, data.components)),
    section("Two components", filters(choice("across", "x", names, x), choice("up", "y", names, y)),
      scatterChart({ points, front: paretoFront(points), xLabel: data.components[x] || "", yLabel: data.components[y] || "" }),
      el("p", {}, "Large and joined: no program is as good in both and better in one.", shown)),
    many && section("All components", el("p", {}, "Light lines have a high mean, dark ones a low one."),
      parallelChart({ rows, columns: data.components })),
    section("Portfolio", el("p", {}, "Which programs together have most: each adds the most to those above it."),
      table("Portfolio", portfolio(programs), [words("program", (one) => programLink(one.program_id, run.id)), figures("adds", "gained"),
        figures("mean of the best together", (one) => reward(one.together)),
        figures("passed together", (one) => `${one.full} of ${names.length}`)])),
  ];
}

function settingsView(data, query, { settings }) {
  const isSet = (one) => one.value !== one.default, sections = [...new Set(settings.map((one) => one.section))];
  const code = (value) => el("code", {}, value.replace(/^"(.*)"$/s, "$1") || "–");
  const value = words("value", (one) => (isSet(one) ? el("strong", {}, code(one.value)) : code(one.value)));
  return [
    section("Other than by default", table("Changed settings", settings.filter(isSet), [words("setting", (one) => `${one.section}.${one.name}`),
      value, words("default", (one) => code(one.default))], "All settings are this version's defaults.")),
    section("All settings", el("div", { class: "flow" }, sections.map((name) => el("div", {}, el("h3", {}, name),
      table(name, settings.filter((one) => one.section === name), [words("setting", "name"), value])))))];
}

const TABS = { overview, lineage: lineageView, programs: programsView, answers: answersView, population: populationView, settings: settingsView };
const tabs = (run, chosen) => el("nav", { class: "tabs", "aria-label": "Of this run" },
  Object.keys(TABS).filter((tab) => tab !== "answers" || !page.answers).map((tab) =>
    el("a", { href: address(["run", run, ...(tab === "overview" ? [] : [tab])]), "aria-current": tab === chosen && "page" }, tab)));

const runView = {
  title: ({ run }) => run.problem,
  async load([id, tab], query) {
    const run = await read(api("runs", id));
    const given = Object.fromEntries(query), isOverview = !(tab in TABS) || tab === "overview", key = `${id} ${run.best_program_id}`;
    if (isOverview && page.best?.key !== key) page.best = { ...(await read(api("runs", id, "lineage"))), key };
    const lists = {
      lineage: () => ({ program: given.program }), answers: () => ({ offset: given.offset, parse_status: given.parse_status }),
      programs: () => ({ ...given, sort: given.sort ? turned(given.sort) : "best" }), population: () => ({ sort: "best", limit: 1000 }) };
    if (isOverview) return { run, more: page.best };
    return { run, more: lists[tab] ? await read(api("runs", id, tab === "population" ? "programs" : tab), lists[tab]()) : null };
  },
  isLive: ({ run }) => progress([run]),
  draw({ run, more }, query, [, tab = "overview"]) {
    return [
      quiet(status(run), " run ", short(run.id), ", seed ", short(run.seed), ", ", run.strategy && `${run.strategy}, `, `started ${when(run.created_at)} UTC`,
        !isRead(run) && ` · reading: ${number(run.read[0])} of ${number(run.read[1])} replies`),
      isRunning(run) && el("p", {}, el("meter", { value: run.evaluations, max: run.budget, "aria-label": "evaluations of the budget" }),
        rate(run) > 0 && ` about ${spent((run.budget - run.evaluations) / rate(run))} left`),
      tabs(run.id, tab), (TABS[tab] || overview)(more, query, run)];
  },
};

function shaded(text, value, attributes) {
  const found = el("span", { ...attributes, class: `shaded ${value > 0.43 ? "light" : "dark"}` }, text);
  found.style.background = heat(value);
  return found;
}

// Rows are { name, values }; values are rewards, 0 is dark and 1 is light.
function heatMap(meaning, rows, columns) {
  const cell = (name, j) => words(el("span", { title: name }, shorten(name, 12)),
    ({ values }) => shaded("", values[j], { title: `${name}: ${reward(values[j])}` }));
  return el("div", { class: "heat" }, table(meaning, rows, [words("program", "name"), ...columns.map(cell)]));
}

function tokensView({ logprobs, token_texts: texts, token_ids: ids, span }) {
  if (!logprobs.length) return empty("The model's server gives no log-probabilities.");
  const least = `${number(logprobs.length)} tokens; the least likely had a probability of ${number(Math.exp(Math.min(...logprobs)))}.`;
  if (!texts.length) return empty(`${least} Which text each of them is, is known for the built-in models only.`);
  const [start, end] = span || [0, logprobs.length], colour = (value) => 1 + value / 5;
  const token = (value, i) => shaded(texts[i].replace(/\n/g, "⏎"), colour(value),
    { title: `token ${i}, id ${ids[i]}, probability ${number(Math.exp(value))}`, "data-own": i >= start && i < end });
  return [el("p", {}, `${least} Underlined are those of this program. A token that was the only one allowed is certain. `,
    [["rarer", -5], ["1 in 20", -3], ["1 in 5", -1.6], ["1 in 2", -0.7], ["certain", 0]].map(([name, value]) => [shaded(name, colour(value)), " "])),
    el("div", { class: "tokens" }, logprobs.slice(0, 3000).map(token))];
}

// A program's output for an example, or the reason why there is none.
function returned(one, { status, feedback }) {
  if (one.got !== "null" || one.wanted === "null") return el("code", {}, one.got);
  if (status !== "ok") return el("em", {}, status);
  return el("em", {}, feedback.text.startsWith(`${one.name}: `) ? feedback.text.slice(one.name.length + 2)
    : "nothing: it raised, returned None, or too much to keep");
}

function judgementView(evaluation) {
  const { components, feedback, metrics } = evaluation, hasExamples = components.some((one) => "wanted" in one);
  const code = (key) => words(key, (one) => el("code", {}, one[key] ?? "–"));
  return [feedback.text && section("What the judgement said", plainView(feedback)),
    section("Rewards", table("Rewards", components, [words("component", (one) => shorten(one.name, 60)),
      figures("reward", (one) => el("span", { class: one.reward >= 1 ? "full" : "lacking" }, `${one.reward >= 1 ? "✓" : "✗"} ${reward(one.reward)}`)),
      ...(hasExamples ? [code("inputs"), code("wanted"), words("got", (one) => returned(one, evaluation))] : [])]),
      metrics.length > 0 && table("Metrics", metrics, [words("metric", (one) => shorten(one.name, 60)), words("value")]))];
}

// Programs do not change, so they are read once.
const programView = {
  title: (data) => `Program ${data.program_id}`,
  load: ([id], query) => read(api("programs", id), { run: query.get("run") }),
  isLive: () => null,
  draw(data) {
    const { evaluation, completion, run } = data, source = data.source.text;
    const file = URL.createObjectURL(new Blob([source], { type: "text/plain" }));
    const code = section("Source", filters(el("button", { type: "button", onclick: () => navigator.clipboard.writeText(source) }, "Copy"),
      el("a", { class: "button", href: file, download: `${data.program_id}.py` }, "Download")), codeView(data.source));
    if (!run) return [empty("No run proposed this program."), code];
    const components = evaluation ? evaluation.components : [], rewards = components.map((one) => one.reward || 0);
    const hasRaised = evaluation?.status === "ok" && evaluation.feedback.text && components.some((one) => one.got === "null" && one.wanted !== "null");
    const links = (ids) => (ids.length ? ids.map((id) => [programLink(id, run), " "]) : "none");
    return [
      quiet(shorten(data.problem, 60), ", run ", link(["run", run], run), " · ", link(["run", run, "programs"], "all programs"), " · ",
        link(["run", run, "lineage"], "its lineage", { program: data.program_id })),
      facts([["status", evaluation ? `${evaluation.status}${hasRaised ? ", but it raised on some rows" : ""}` : "not judged"],
        ["mean reward", evaluation && reward(mean(rewards))],
        ["passed", evaluation && `${rewards.filter((value) => value >= 1).length} of ${rewards.length}`],
        ["found after", data.evaluations !== null && counted(data.evaluations)], ["made by", explained(data.kind)],
        ["way to ask", data.way || null], ["idea", data.idea || null],
        ["made from", links([...new Set(data.parents.map((one) => one.program_id))])], ["island", data.island],
        ["policy", completion ? completion.policy_version : "no model"], ["model", completion?.model || null],
        ["temperature", completion?.temperature], ["tokens of the completion", completion?.tokens],
        ["seconds in the sandbox", evaluation?.seconds], ["isolation", evaluation?.isolation],
        ["trust", evaluation?.trust], ["also in runs", data.runs.length > 1 && data.runs.length - 1]]),
      el("p", {}, data.children.length < 20 ? "Made from it: " : "Made from it, the first 20: ", links(data.children)),
      code,
      evaluation && judgementView(evaluation),
      data.parents.map((parent) => section(["What changed from ", parent.role, " ", programLink(parent.program_id, run)],
        diffView(parent.source.text, source))),
      data.prompt.length > 0 && fold("The prompt", data.prompt.map((message) => [el("h3", {}, message.role), plainView(message)])),
      completion && fold("The completion, and how likely its tokens were", tokensView(completion), plainView(completion)),
    ];
  },
};

const FIGURES = [["set_score", "expected best of a chain"], ["mean_reward", "mean reward"], ["entropy", "entropy"],
  ["kl", "KL to the start model"], ["diversity", "diversity"], ["zero_spread_share", "share of groups without spread"]];
// A training without groups is imitation: it has a loss and no rewards.
const imitates = ({ steps }) => steps.every((step) => !step.groups);
const signed = (value) => (value < 0 ? "−" : "+") + Math.abs(value).toFixed(3);
const metricOf = (version, name) => version.metrics.find((metric) => metric.name === name)?.value;

// A version's gain over its parent in best@1, with its interval.
function gained(version) {
  const [middle, low, high] = ["mean", "low", "high"].map((part) => metricOf(version, `probe.difference.best_at_1.${part}`));
  return middle === undefined ? null : `${signed(middle)} [${signed(low)}, ${signed(high)}]`;
}

// best@k of a version and its parent; other versions are probed on other problems, so they do not compare.
function probeChart(version) {
  const found = version.metrics.map(({ name }) => /^probe\.best_at_(\d+)$/.exec(name)).filter(Boolean);
  const ks = found.map(([, k]) => Number(k)).sort((a, b) => a - b), at = (k, whose) => metricOf(version, `${whose}.best_at_${k}`);
  const end = (k, name) => at(k, "probe.parent") + metricOf(version, `probe.difference.best_at_${k}.${name}`);
  const band = ks.map((k) => [k, end(k, "low"), end(k, "high")]).filter((one) => one.every(Number.isFinite));
  return ks.length && lineChart({ xLabel: "answers k", yLabel: "best@k", low: 0, high: 1, most: 380, series: [
    { name: `policy ${version.parent}, before`, points: ks.map((k) => [k, at(k, "probe.parent")]) },
    { name: `policy ${version.number}, after`, points: ks.map((k) => [k, at(k, "probe")]), band }] });
}

const policiesView = {
  title: () => "Training",
  load: () => read(api("policies")),
  isLive: () => "live",
  draw({ versions, trainings, events, served }) {
    const nodes = versions.map(({ number, parent }) => ({ id: String(number), name: `policy ${number}`, note: number === served ? "served" : "",
      parents: parent === null ? [] : [{ id: String(parent), role: "parent" }] }));
    const panel = (ones) => ([key, name]) => ones.length > 0 && el("div", {}, el("h3", {}, name), lineChart({ xLabel: "step", yLabel: name, most: 380,
      series: ones.slice(-6).map((one) => ({ name: one.id.slice(0, 8), points: one.steps.map((step) => [step.step, step[key]]) })) }));
    const probes = versions.map(probeChart).filter(Boolean).slice(-4);
    return [
      versions.length > 0 && graph({ nodes, chosen: { child: String(served) }, choose: () => {} }),
      section("Versions", table("Policy versions", versions, [
        figures("policy", (one) => `${one.number}${one.number === served ? " (served)" : ""}`), figures("from", "parent"),
        figures("steps", (one) => metricOf(one, "steps")),
        figures("best@1 of the parent", (one) => metricOf(one, "probe.parent.best_at_1")), figures("its own", (one) => metricOf(one, "probe.best_at_1")),
        figures("difference [95 % interval]", gained), words("folder", (one) => (one.number ? el("span", { title: one.path }, one.path.split("/").slice(-2).join("/")) : "start model"))],
        "No policy version yet. The command evovpo retrain trains one from what is stored.")),
      probes.length > 0 && section("Before and after", el("p", {}, "Best mean reward of k answers, on problems outside the training: ",
        "a version beside its parent. The band is the 95 % interval of what it gained."), el("div", { class: "columns" }, probes)),
      section("What happened", table("Events", events.toReversed().slice(0, 100), [words("when (UTC)", (one) => when(one.at)),
        figures("policy", "number"), words("what", "kind"), words("why", (one) => shorten(one.detail, 200))], "Nothing was served or refused yet.")),
      section("Trainings", table("Trainings", trainings.toReversed(), [words("training", (one) => one.id.slice(0, 8)), words("objective"),
        figures("from policy", "start_version"), figures("steps shown", (one) => one.steps.length),
        words("trained on", ({ runs }) => [runs.slice(0, 5).map((run) => [link(["run", run], run.slice(0, 8)), " "]),
          runs.length > 5 && `and ${runs.length - 5} more`]), words("begun (UTC)", (one) => when(one.created_at))], "No training yet."),
        trainings.length > 0 && el("div", { class: "columns" }, [["loss", "loss of imitation"]].map(panel(trainings.filter(imitates))),
          FIGURES.map(panel(trainings.filter((one) => !imitates(one)))))),
    ];
  },
};

const WAYS = { strategy: (run) => run.strategy, policy: (run) => `policy ${run.policy_versions.join(", ")}`, problem: (run) => run.problem,
  run: (run) => `${run.id.slice(0, 8)}, seed ${run.seed.slice(0, 8)}` };

const compareView = {
  title: () => "Comparison",
  load: (_, query) => Promise.all((query.get("runs") || "").split(",").filter(Boolean).slice(0, 40).map((id) => read(api("runs", id)))),
  isLive: progress,
  draw(runs, query) {
    if (!runs.length) return empty("Choose runs in the list of runs.");
    const by = query.get("group") in WAYS ? query.get("group") : "run", [axis, xLabel] = axisOf(query);
    const isScored = runs.every((run) => run.best_score !== null), what = isScored ? "score" : "best";
    const line = (name) => {
      const members = runs.filter((run) => WAYS[by](run) === name).map(({ curve }) => ({ xs: curve[axis], ys: curve[what] }));
      const end = Math.min(...members.map(({ xs }) => xs.at(-1) ?? 0)), all = new Set(members.flatMap(({ xs }) => xs));
      const points = [...all].filter((x) => x <= end).sort((a, b) => a - b)
        .map((x) => [x, members.map(({ xs, ys }) => ys[xs.findLastIndex((one) => one <= x)] ?? 0)]);
      return { name: members.length === 1 ? name : `${name} (${members.length} runs)`, stepped: true, points: points.map(([x, ys]) => [x, mean(ys)]),
        band: members.length > 1 && points.map(([x, ys]) => [x, Math.min(...ys), Math.max(...ys)]) };
    };
    const series = [...new Set(runs.map(WAYS[by]))].map(line);
    return [filters(choice("one line for each", "group", Object.keys(WAYS), by), choice("against", "by", AXES, axis)),
      lineChart({ series, xLabel, ...(isScored ? { yLabel: `best ${runs[0].score_name}` } : { yLabel: "best mean reward", low: 0, high: 1 }) }),
      el("p", {}, "A line is the mean over its runs, as far as all of them have come; its band goes from the lowest to the highest."),
      runsTable("Compared runs", runs)];
  },
};

const bold = (text) => text.split("**").map((part, i) => (i % 2 ? el("strong", {}, part) : part));
const PARTS = {
  table: (part) => [table(part.title, part.rows, part.columns.map((name, i) => words(name, (row) => bold(row[i])))), part.note && quiet(part.note)],
  chart: (part) => lineChart({ series: part.series, xLabel: part.against, yLabel: part.title }),
  map: ({ title, components, rows, note, best }) => [
    heatMap(title, rows.map((row) => ({ ...row, name: `${number(row.alike)} programs` })), components), quiet(note),
    fold("The best program", codeView({ text: best, characters: best.length }))],
};

const reportView = {
  title: ({ report }) => (report ? report.name : "Report"),
  load: () => read(api("report")),
  isLive: ({ report }) => (report && report.ended[0] < report.ended[1] ? "live" : ""),
  draw: ({ report }) => (!report
    ? empty("No batch or study is shown here. Show one while it runs, or afterwards: ", "evovpo serve --report comparison.toml")
    : [quiet(`${number(report.ended[0])} of ${number(report.ended[1])} runs have ended.`), el("ul", {}, report.sentences.map((one) => el("li", {}, one))),
      report.parts.map((part) => section(part.title, PARTS[part.kind](part)))]),
};

const VIEWS = { runs: runsView, run: runView, program: programView, policies: policiesView, compare: compareView, report: reportView };
