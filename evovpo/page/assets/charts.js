// Elements and charts. All text of a store becomes text nodes here, never markup; nothing is fetched or kept.
"use strict";

// Okabe and Ito (2008), as in evovpo/reports/pictures.py; a test holds the two together.
const COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#5B5B5B"];
const VIRIDIS = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
const MOST_SHOWN = 20000;

// Control characters and those that turn the direction of writing are shown as their code.
function visible(value) {
  const text = String(value);
  const shown = text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN)}… (${text.length} characters)` : text;
  return shown.replace(
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]/gu,
    (character) => `\\u${character.codePointAt(0).toString(16).padStart(4, "0")}`);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, String(value));
  }
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : visible(child));
  }
  return element;
}

const el = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
const svg = (name, attributes, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);

const shorten = (text, most) => (String(text).length > most ? `${String(text).slice(0, most - 1)}…` : String(text));
const number = (value, digits = 3) => {
  if (value === null || value === undefined) return "–";
  if (Number.isInteger(value)) return value.toLocaleString("en");
  return Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(digits)));
};
// Only full reward is written as 1.
const reward = (value) =>
  value === null || value === undefined ? "–" : (value >= 1 ? 1 : Math.min(value, 0.999)).toFixed(3);
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);

function heat(value) {
  const place = Math.min(Math.max(value, 0), 1) * (VIRIDIS.length - 1);
  const low = Math.min(Math.floor(place), VIRIDIS.length - 2);
  const mix = VIRIDIS[low].map((from, i) => Math.round(from + (VIRIDIS[low + 1][i] - from) * (place - low)));
  return `rgb(${mix.join(",")})`;
}

function ticks(low, high, count = 5) {
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough);
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step / 1e6; at += step) found.push(Number(at.toPrecision(12)));
  return found;
}

// As wide as the window, so that text in a chart is as large as beside it.
const BOX = { get width() { return Math.max(300, Math.min(720, innerWidth - 26)); }, height: 300, left: 52, right: 14, top: 10, bottom: 42 };

// The frame that charts with two axes share: grid, labels, and from values to places. With names those are across.
function frame(xs, ys, labels, meaning, width = BOX.width, names = null) {
  const { height, left, right, top, bottom } = BOX;
  const [xLow, xHigh] = xs, [yLow, yHigh] = ys;
  const x = (value) => left + ((value - xLow) / (xHigh - xLow || 1)) * (width - left - right);
  const y = (value) => height - bottom - ((value - yLow) / (yHigh - yLow || 1)) * (height - top - bottom);
  const canvas = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": visible(meaning), class: "chart" },
    ticks(yLow, yHigh).map((at) => [
      svg("line", { x1: left, x2: width - right, y1: y(at), y2: y(at), class: "grid" }),
      svg("text", { x: left - 6, y: y(at) + 4, "text-anchor": "end" }, number(at))]).flat(),
    names ? names.map((_, at) => svg("line", { x1: x(at), x2: x(at), y1: y(yLow), y2: y(yHigh), class: "grid" })) : null,
    ticks(xLow, xHigh, width / 100).filter((at) => !names || at in names).map((at) =>
      svg("text", { x: x(at), y: height - bottom + 16, "text-anchor": names && at === xHigh ? "end" : "middle" }, names ? shorten(names[at], 12) : number(at))),
    svg("text", { x: (left + width) / 2, y: height - 6, "text-anchor": "middle", class: "label" }, shorten(labels[0], 60)),
    svg("text", { x: 12, y: (height - bottom) / 2, "text-anchor": "middle", class: "label",
      transform: `rotate(-90 12 ${(height - bottom) / 2})` }, shorten(labels[1], 40)));
  canvas.style.maxWidth = `${1.3 * width}px`;
  return { canvas, x, y };
}

const DASHES = ["", "7 3", "2 3", "9 3 2 3"];

// With the corners of steps between points.
const stairs = (points) => points.flatMap((point, i) => (i ? [[point[0], points[i - 1][1]], point] : [point]));

// Lines against one axis. A series has a name, points [x, y], perhaps a band [x, low, high], perhaps steps.
function lineChart({ series, xLabel, yLabel, low = null, high = null, most = Infinity }) {
  const width = Math.min(most, BOX.width);
  const drawn = series.filter((one) => one.points.length);
  const values = drawn.flatMap((one) => [...one.points.map((point) => point[1]), ...(one.band || []).flatMap((b) => b.slice(1))]);
  if (!values.length) return el("p", { class: "empty" }, "Nothing to draw yet.");
  const xs = drawn.flatMap((one) => one.points.map((point) => point[0]));
  const span = [Math.min(...xs), Math.max(...xs)];
  const ys = [low ?? Math.min(...values), high ?? Math.max(...values)];
  if (ys[0] === ys[1]) ys[1] = ys[0] + 1;
  const last = (one) => one.points[one.points.length - 1];
  const meaning = `${yLabel} against ${xLabel}. ` + drawn.map((one) => `${one.name}: ${number(last(one)[1])} at ${number(last(one)[0])}`).join("; ");
  const { canvas, x, y } = frame(span, ys, [xLabel, yLabel], meaning, width);
  const path = (points) => `M${points.map(([a, b]) => `${x(a)},${y(b)}`).join("L")}`;
  const style = (i) => ({ stroke: COLOURS[i % COLOURS.length], "stroke-dasharray": DASHES[Math.floor(i / COLOURS.length) % 4] });
  drawn.forEach((one, i) => {
    if (one.band && one.band.length) {
      const [lowest, highest] = [1, 2].map((which) => (one.stepped ? stairs : (same) => same)(one.band.map((b) => [b[0], b[which]])));
      canvas.append(svg("path", { d: `${path([...highest, ...lowest.reverse()])}Z`, fill: COLOURS[i % COLOURS.length], class: "band" }));
    }
    canvas.append(svg("path", { d: path(one.stepped ? stairs(one.points) : one.points), class: "line", ...style(i) }));
    if (one.points.length === 1) canvas.append(svg("circle", { cx: x(one.points[0][0]), cy: y(one.points[0][1]), r: 4, fill: COLOURS[i % COLOURS.length] }));
  });
  const note = el("output", { class: "note" });
  const cross = svg("line", { x1: -9, x2: -9, y1: BOX.top, y2: BOX.height - BOX.bottom, class: "cross" });
  canvas.append(cross);
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    const at = ((event.clientX - box.left) * width) / box.width;
    const wanted = span[0] + ((at - BOX.left) / (width - BOX.left - BOX.right)) * (span[1] - span[0]);
    const said = drawn.map((one) => {
      const behind = one.points.filter((point) => point[0] <= wanted);
      return behind.length ? `${shorten(one.name, 24)} ${number(last({ points: behind })[1])}` : "";
    });
    cross.setAttribute("x1", at);
    cross.setAttribute("x2", at);
    note.textContent = visible(`at ${number(Math.max(span[0], Math.min(span[1], wanted)))}: ${said.filter(Boolean).slice(0, 8).join(", ")}`);
  });
  const names = drawn.map((one, i) => el("li", {},
    svg("svg", { viewBox: "0 0 26 8", class: "key", "aria-hidden": "true" },
      svg("line", { x1: 0, x2: 26, y1: 4, y2: 4, class: "line", ...style(i) })), shorten(one.name, 60)));
  return el("figure", {}, canvas, note, el("ul", { class: "legend" }, names));
}

// Points are { x, y, name, href, front }: those of the front are joined and larger.
function scatterChart({ points, xLabel, yLabel }) {
  const { canvas, x, y } = frame([0, 1], [0, 1], [xLabel, yLabel],
    `${points.length} programs by ${xLabel} and ${yLabel}, ${points.filter((one) => one.front).length} of them on the Pareto front`);
  const front = points.filter((one) => one.front).sort((a, b) => a.x - b.x || b.y - a.y);
  if (front.length > 1) {
    const way = front.map((one, i) => (i ? `V${y(one.y)}H${x(one.x)}` : `M${x(one.x)},${y(one.y)}`)).join("");
    canvas.append(svg("path", { d: way, class: "line front" }));
  }
  canvas.setAttribute("role", "group");
  for (const one of [...points].sort((a, b) => a.front - b.front)) {
    canvas.append(svg("a", { href: one.href, tabindex: one.front ? 0 : -1, "aria-label": visible(one.name) },
      svg("circle", { cx: x(one.x), cy: y(one.y), r: one.front ? 6 : 3.5, class: one.front ? "dot front" : "dot" }),
      svg("title", {}, one.name)));
  }
  return el("figure", {}, canvas);
}

// Rows of rewards in [0, 1]; a click on a row calls `open` with its number.
function heatMap({ rows, columns, open, meaning }) {
  const [left, top] = [72, 64];
  const wide = Math.max(1, columns.length), cell = Math.max(3, Math.min(40, Math.floor((BOX.width - left) / wide)));
  const tall = Math.max(4, Math.min(16, Math.floor(520 / Math.max(1, rows.length))));
  const canvas = el("canvas", { width: left + cell * wide, height: top + tall * rows.length + 4, role: "img", "aria-label": visible(meaning), class: "heat" });
  const pen = canvas.getContext("2d");
  rows.forEach((row, i) => row.values.forEach((value, j) => {
    pen.fillStyle = heat(value);
    pen.fillRect(left + j * cell, top + i * tall, cell - (cell > 5 ? 1 : 0), tall - (tall > 5 ? 1 : 0));
  }));
  pen.fillStyle = getComputedStyle(document.body).color;
  pen.font = "11px system-ui, sans-serif";
  const everyRow = Math.ceil(12 / tall), everyColumn = Math.ceil(14 / cell);
  rows.forEach((row, i) => i % everyRow || pen.fillText(visible(shorten(row.name, 11)), 0, top + i * tall + 10, left - 6));
  columns.forEach((name, j) => {
    if (j % everyColumn) return;
    pen.save();
    pen.translate(left + (j + 0.5) * cell + 4, top - 4);
    pen.rotate(-Math.PI / 2);
    pen.fillText(visible(shorten(name, 12)), 0, 0, top - 6);
    pen.restore();
  });
  const note = el("output", { class: "note" }, "Rows are programs, columns components; dark is 0, light is 1.");
  const place = (event) => {
    const box = canvas.getBoundingClientRect(), scale = canvas.width / box.width;
    return [Math.floor(((event.clientY - box.top) * scale - top) / tall), Math.floor(((event.clientX - box.left) * scale - left) / cell)];
  };
  canvas.addEventListener("pointermove", (event) => {
    const [i, j] = place(event);
    if (rows[i] && columns[j] !== undefined) note.textContent = visible(`${rows[i].name}, ${shorten(columns[j], 60)}: ${reward(rows[i].values[j])}`);
  });
  canvas.addEventListener("click", (event) => rows[place(event)[0]] && open(place(event)[0]));
  return el("figure", {}, canvas, note);
}

// One line a row over parallel axes; the colour is that of its mean.
function parallelChart({ rows, columns }) {
  const { canvas, x, y } = frame([0, Math.max(1, columns.length - 1)], [0, 1], ["component", "reward"],
    `${rows.length} programs over ${columns.length} components`, BOX.width, columns);
  for (const row of rows) {
    canvas.append(svg("path", { class: "line thin", stroke: heat(mean(row.values)),
      d: row.values.map((value, j) => `${j ? "L" : "M"}${x(j)},${y(value)}`).join("") }));
  }
  return el("figure", {}, canvas);
}

// Nodes { id, name, note, parents: [{ id, role }] }, nearest generation first: seeds on the left.
function graph({ nodes, chosen, choose }) {
  const known = new Map(nodes.map((node) => [node.id, node]));
  const depths = new Map();
  const depth = (id) => {
    if (!depths.has(id)) {
      depths.set(id, 0); // where a program is among its own ancestors
      depths.set(id, Math.max(0, ...known.get(id).parents.filter((one) => known.has(one.id)).map((one) => 1 + depth(one.id))));
    }
    return depths.get(id);
  };
  const layers = [];
  for (const node of nodes) (layers[depth(node.id)] ||= []).push(node);
  const at = new Map();
  layers.forEach((layer, i) => layer.forEach((node, j) => at.set(node.id, [90 + i * 190, 64 + j * 74])));
  const size = [layers.length * 190, 30 + Math.max(...layers.map((layer) => layer.length)) * 74];
  const canvas = svg("svg", { viewBox: `0 0 ${size[0]} ${size[1]}`, class: "graph", role: "group", "aria-label": "Lineage" });
  // A wide graph shrinks to the window as long as it can be read, and scrolls beyond that.
  canvas.style.maxWidth = `${size[0]}px`;
  canvas.style.minWidth = `${0.75 * size[0]}px`;
  for (const node of nodes) {
    const [x, y] = at.get(node.id);
    const pick = () => choose(node.id);
    canvas.append(svg("g", { role: "button", tabindex: 0, "data-key": `node-${node.id}`, class: `node ${chosen && chosen.child === node.id ? "chosen" : ""}`,
      "aria-label": visible(`${node.name}, ${node.note}`), "aria-pressed": Boolean(chosen && chosen.child === node.id), onclick: pick,
      onkeydown: (event) => ["Enter", " "].includes(event.key) && (event.preventDefault(), pick()) },
      svg("rect", { x: x - 78, y: y - 24, width: 156, height: 48, rx: 6 }),
      svg("text", { x, y: y - 4, "text-anchor": "middle" }, shorten(node.name, 22)),
      svg("text", { x, y: y + 14, "text-anchor": "middle", class: "label" }, shorten(node.note, 26))));
  }
  // Over the boxes, so that a line which passes one can be followed.
  for (const node of nodes) for (const parent of node.parents.filter((one) => at.has(one.id))) {
    const [x1, y1] = at.get(parent.id), [x2, y2] = at.get(node.id);
    const is = chosen && chosen.child === node.id && chosen.parent === parent.id;
    canvas.append(svg("path", { class: `edge ${parent.role === "inspiration" ? "weak" : ""} ${is ? "chosen" : ""}`,
      d: x2 - x1 < 200 ? `M${x1 + 78},${y1}C${x1 + 110},${y1} ${x2 - 110},${y2} ${x2 - 78},${y2}`
        : `M${x1 + 60},${y1 - 24}C${x1 + 120},${y1 - 62} ${x2 - 120},${y2 - 62} ${x2 - 60},${y2 - 24}` }));
  }
  const box = el("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Lineage graph" }, canvas);
  const shown = chosen && at.get(chosen.child);
  if (shown) requestAnimationFrame(() => { box.scrollLeft = (shown[0] * box.scrollWidth) / size[0] - box.clientWidth / 2; });
  return box;
}

// Lines of two texts as [mark, line]; long texts are compared by their ends only.
function differences(before, after) {
  const [a, b] = [before, after].map((text) => text.replace(/\n$/, "").split("\n"));
  if (a.length * b.length > 4e6) return [...a.map((line) => ["-", line]), ...b.map((line) => ["+", line])];
  const common = Array.from({ length: a.length + 1 }, () => new Uint32Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) for (let j = b.length - 1; j >= 0; j--) {
    common[i][j] = a[i] === b[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
  }
  const found = [];
  for (let i = 0, j = 0; i < a.length || j < b.length;) {
    if (i < a.length && j < b.length && a[i] === b[j]) { found.push([" ", a[i]]); i++; j++; }
    else if (j >= b.length || (i < a.length && common[i + 1][j] >= common[i][j + 1])) found.push(["-", a[i++]]);
    else found.push(["+", b[j++]]);
  }
  return found;
}

function diffView(before, after) {
  const kinds = { "-": "removed", "+": "added", " ": "same" };
  return el("pre", { class: "code diff", tabindex: 0 },
    differences(before, after).map(([mark, line]) => el("span", { class: kinds[mark] }, `${mark} ${line}\n`)));
}

const WORDS = new Set(("False None True and as assert async await break class continue def del elif else except finally for from " +
  "global if import in is lambda nonlocal not or pass raise return try while with yield match case").split(" "));

function codeView(source) {
  const parts = source.text.slice(0, MOST_SHOWN).split(/(#[^\n]*|"""[^]*?"""|'''[^]*?'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|\b\d[\w.]*|\b[A-Za-z_]\w*)/);
  const kind = (part) => part[0] === "#" ? "comment" : /^["']/.test(part) ? "string" : /^\d/.test(part) ? "figure" : WORDS.has(part) ? "word" : "";
  return el("pre", { class: "code", tabindex: 0 },
    parts.filter(Boolean).map((part) => (kind(part) ? el("span", { class: kind(part) }, part) : part)), cutNote(source));
}

const cutNote = (text) => {
  const shown = Math.min(text.text.length, MOST_SHOWN);
  return text.characters > shown ? el("em", {}, `\n… cut: the first ${number(shown)} of ${number(text.characters)} characters are shown`) : null;
};
const plainView = (text) => el("pre", { class: "code", tabindex: 0 }, text.text.slice(0, MOST_SHOWN), cutNote(text));
