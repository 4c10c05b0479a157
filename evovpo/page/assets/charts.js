// Elements and charts. All text of a store becomes text nodes, never markup; nothing is fetched or cached here.
"use strict";

// Okabe and Ito (2008), as in evovpo/reports/pictures.py; a test checks that both are equal.
const COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#5B5B5B"];
const VIRIDIS = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
const MOST_SHOWN = 20000;

// Show control characters and characters that change the text direction as codes.
function visible(value) {
  const text = String(value);
  const shown = text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN)}… (${text.length} characters)` : text;
  return shown.replace(
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]/gu,
    (character) => `\\u${character.codePointAt(0).toString(16).padStart(4, "0")}`);
}

const isNone = (value) => value === null || value === undefined || value === false;

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (!isNone(value)) element.setAttribute(name, value === true ? "" : name === "d" ? value : visible(value));
  }
  for (const child of children.flat(Infinity)) if (!isNone(child)) element.append(child instanceof Node ? child : visible(child));
  return element;
}

const el = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
const svg = (name, attributes, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);

const shorten = (text, most) => (String(text).length > most ? `${String(text).slice(0, most - 1)}…` : String(text));
const number = (value, digits = 3) => {
  if (isNone(value)) return "–";
  if (Number.isInteger(value)) return value.toLocaleString("en");
  return Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(digits)));
};
// Only a full reward is written as 1.
const reward = (value) => (isNone(value) ? "–" : (value >= 1 ? 1 : Math.min(value, 0.999)).toFixed(3));
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

// As wide as the window, so that text in charts has the size of other text.
const BOX = { get width() { return Math.max(300, Math.min(720, innerWidth - 26)); }, height: 300, left: 52, right: 14, top: 10, bottom: 42 };

// Common frame of charts with two axes: grid, labels and scales. `names` label the x axis.
function frame([xLow, xHigh], [yLow, yHigh], xLabel, yLabel, meaning, width = BOX.width, names = null) {
  const { height, left, right, top, bottom } = BOX, middle = (height - bottom) / 2;
  const x = (value) => left + ((value - xLow) / (xHigh - xLow || 1)) * (width - left - right);
  const y = (value) => height - bottom - ((value - yLow) / (yHigh - yLow || 1)) * (height - top - bottom);
  const text = (x, y, anchor, text, more) => svg("text", { x, y, "text-anchor": anchor, ...more }, text);
  const canvas = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": meaning, class: "chart" },
    ticks(yLow, yHigh).map((at) => [
      svg("line", { x1: left, x2: width - right, y1: y(at), y2: y(at), class: "grid" }), text(left - 6, y(at) + 4, "end", number(at))]),
    names && names.map((_, at) => svg("line", { x1: x(at), x2: x(at), y1: y(yLow), y2: y(yHigh), class: "grid" })),
    ticks(xLow, xHigh, width / 100).filter((at) => !names || at in names).map((at) =>
      text(x(at), height - bottom + 16, names && at === xHigh ? "end" : "middle", names ? shorten(names[at], 12) : number(at))),
    text((left + width) / 2, height - 6, "middle", shorten(xLabel, 60), { class: "label" }),
    text(12, middle, "middle", shorten(yLabel, 40), { class: "label", transform: `rotate(-90 12 ${middle})` }));
  canvas.style.maxWidth = `${1.3 * width}px`;
  return { canvas, x, y };
}

const DASHES = ["", "7 3", "2 3", "9 3 2 3"];

// Insert the corners of steps between points.
const stairs = (points) => points.flatMap((point, i) => (i ? [[point[0], points[i - 1][1]], point] : [point]));

// Line chart. A series has a name, points [x, y], and optionally a band [x, low, high] and steps.
function lineChart({ series, xLabel, yLabel, low = null, high = null, most = Infinity }) {
  const width = Math.min(most, BOX.width), drawn = series.filter((one) => one.points.length);
  const values = drawn.flatMap((one) => [...one.points.map((point) => point[1]), ...(one.band || []).flatMap((b) => b.slice(1))]);
  if (!values.length) return el("p", { class: "empty" }, "Nothing to draw yet.");
  const xs = drawn.flatMap((one) => one.points.map((point) => point[0]));
  const span = [Math.min(...xs), Math.max(...xs)];
  const ys = [low ?? Math.min(...values), high ?? Math.max(...values)];
  if (ys[0] === ys[1]) ys[1] = ys[0] + 1;
  const ends = drawn.map(({ name, points }) => `${name}: ${number(points.at(-1)[1])} at ${number(points.at(-1)[0])}`);
  const meaning = `${yLabel} against ${xLabel}. ${ends.join("; ")}`;
  const { canvas, x, y } = frame(span, ys, xLabel, yLabel, meaning, width);
  const path = (points) => `M${points.map(([a, b]) => `${x(a)},${y(b)}`).join("L")}`;
  const style = (i) => ({ stroke: COLOURS[i % COLOURS.length], "stroke-dasharray": DASHES[Math.floor(i / COLOURS.length) % 4] });
  drawn.forEach((one, i) => {
    const shape = one.stepped ? stairs : (same) => same, fill = COLOURS[i % COLOURS.length], [[x0, y0]] = one.points;
    if (one.band && one.band.length) {
      const [lowest, highest] = [1, 2].map((which) => shape(one.band.map((b) => [b[0], b[which]])));
      canvas.append(svg("path", { d: `${path([...highest, ...lowest.reverse()])}Z`, fill, class: "band" }));
    }
    canvas.append(svg("path", { d: path(shape(one.points)), class: "line", ...style(i) }));
    if (one.points.length === 1) canvas.append(svg("circle", { cx: x(x0), cy: y(y0), r: 4, fill }));
  });
  const note = el("output", { class: "note" });
  const cross = svg("line", { x1: -9, x2: -9, y1: BOX.top, y2: BOX.height - BOX.bottom, class: "cross" });
  canvas.append(cross);
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    const at = ((event.clientX - box.left) * width) / box.width;
    const wanted = span[0] + ((at - BOX.left) / (width - BOX.left - BOX.right)) * (span[1] - span[0]);
    const said = drawn.map((one) => {
      const behind = one.points.findLast((point) => point[0] <= wanted);
      return behind ? `${shorten(one.name, 24)} ${number(behind[1])}` : "";
    });
    cross.setAttribute("x1", at);
    cross.setAttribute("x2", at);
    const at0 = number(Math.max(span[0], Math.min(span[1], wanted)));
    note.textContent = visible(`at ${at0}: ${said.filter(Boolean).slice(0, 8).join(", ")}`);
  });
  const names = drawn.map((one, i) => el("li", {},
    svg("svg", { viewBox: "0 0 26 8", class: "key", "aria-hidden": "true" },
      svg("line", { x1: 0, x2: 26, y1: 4, y2: 4, class: "line", ...style(i) })), shorten(one.name, 60)));
  return el("figure", {}, canvas, note, el("ul", { class: "legend" }, names));
}

// Points are { x, y, name, href }; points of the front are connected and larger.
function scatterChart({ points, front, xLabel, yLabel }) {
  const meaning = `${points.length} programs by ${xLabel} and ${yLabel}, ${front.length} of them on the Pareto front`;
  const { canvas, x, y } = frame([0, 1], [0, 1], xLabel, yLabel, meaning);
  const dot = (isFront) => (one) => svg("a", { href: one.href, tabindex: isFront ? 0 : -1, "aria-label": one.name },
    svg("circle", { cx: x(one.x), cy: y(one.y), r: isFront ? 6 : 3.5, class: isFront ? "dot front" : "dot" }), svg("title", {}, one.name));
  const way = front.map((one, i) => (i ? `H${x(one.x)}V${y(one.y)}` : `M${x(one.x)},${y(one.y)}`)).join("");
  canvas.setAttribute("role", "group");
  canvas.append(svg("path", { d: way, class: "line front" }), ...points.map(dot(false)), ...front.map(dot(true)));
  return el("figure", {}, canvas);
}

// Parallel axes with one line per row, coloured by its mean.
function parallelChart({ rows, columns }) {
  const meaning = `${rows.length} programs over ${columns.length} components`;
  const { canvas, x, y } = frame([0, Math.max(1, columns.length - 1)], [0, 1], "component", "reward", meaning, BOX.width, columns);
  const way = (values) => values.map((value, j) => `${j ? "L" : "M"}${x(j)},${y(value)}`).join("");
  canvas.append(...rows.map(({ values }) => svg("path", { class: "line thin", stroke: heat(mean(values)), d: way(values) })));
  return el("figure", {}, canvas);
}

// Nodes { id, name, note, parents: [{ id, role }] }, nearest generation first: seeds on the left.
function graph({ nodes, chosen, choose }) {
  const known = new Map(nodes.map((node) => [node.id, node])), depths = new Map(), layers = [];
  const depth = (id) => {
    if (!depths.has(id)) {
      depths.set(id, 0); // for a program that is its own ancestor
      depths.set(id, Math.max(0, ...known.get(id).parents.filter((one) => known.has(one.id)).map((one) => 1 + depth(one.id))));
    }
    return depths.get(id);
  };
  for (const node of nodes) (layers[depth(node.id)] ||= []).push(node);
  const at = new Map(layers.flatMap((layer, i) => layer.map((node, j) => [node.id, [90 + i * 190, 64 + j * 74]])));
  const wide = layers.length * 190, high = 30 + Math.max(...layers.map((layer) => layer.length)) * 74;
  const box = (node) => {
    const [x, y] = at.get(node.id), isChosen = chosen.child === node.id, pick = () => choose(node.id);
    return svg("g", { role: "button", tabindex: 0, "data-key": `node-${node.id}`, class: `node ${isChosen ? "chosen" : ""}`,
      "aria-label": `${node.name}, ${node.note}`, "aria-pressed": String(isChosen), onclick: pick,
      onkeydown: (event) => ["Enter", " "].includes(event.key) && (event.preventDefault(), pick()) },
      svg("rect", { x: x - 78, y: y - 24, width: 156, height: 48, rx: 6 }),
      svg("text", { x, y: y - 4, "text-anchor": "middle" }, shorten(node.name, 22)),
      svg("text", { x, y: y + 14, "text-anchor": "middle", class: "label" }, shorten(node.note, 26)));
  };
  const edge = (node) => node.parents.filter((one) => at.has(one.id)).map((parent, i, all) => {
    const [x1, y1] = at.get(parent.id), [x2, middle] = at.get(node.id), isChosen = chosen.child === node.id && chosen.parent === parent.id;
    const y2 = middle + (40 * (i + 0.5)) / all.length - 20;
    return svg("path", { class: `edge ${parent.role === "inspiration" ? "weak" : ""} ${isChosen ? "chosen" : ""}`, "marker-end": "url(#arrow)",
      d: x2 - x1 < 200 ? `M${x1 + 78},${y1}C${x1 + 95},${y1} ${x2 - 110},${y2} ${x2 - 79},${y2}`
        : `M${x1 + 60},${y1 - 24}C${x1 + 120},${y1 - 62} ${x2 - 120},${middle - 62} ${x2 - 60 + 8 * i},${middle - 25}` });
  });
  // Draw edges above boxes, so that edges across a box stay visible.
  const canvas = svg("svg", { viewBox: `0 0 ${wide} ${high}`, class: "graph", role: "group", "aria-label": "Lineage" },
    svg("marker", { id: "arrow", refX: 11, refY: 5.5, markerWidth: 11, markerHeight: 11, markerUnits: "userSpaceOnUse", orient: "auto" },
      svg("path", { d: "M0,0L11,5.5L0,11z" })), nodes.map(box), nodes.map(edge));
  // A wide graph shrinks to the window while readable, then scrolls.
  canvas.style.maxWidth = `${wide}px`;
  canvas.style.minWidth = `${0.75 * wide}px`;
  const scrolled = el("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Lineage graph" }, canvas), shown = at.get(chosen.child);
  if (shown) requestAnimationFrame(() => { scrolled.scrollLeft = (shown[0] * scrolled.scrollWidth) / wide - scrolled.clientWidth / 2; });
  return scrolled;
}

// Diff of two lists as [mark, item]; very long lists are not compared item by item.
function differences(a, b) {
  if (a.length * b.length > 4e6) return [...a.map((one) => ["-", one]), ...b.map((one) => ["+", one])];
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

// Mark the words that differ between a line and its replacement, if the two are similar enough.
function pairView(removed, added) {
  const parts = differences(...[removed, added].map((line) => line.split(/(\w+|\s+)/).filter(Boolean)));
  const size = (mark) => parts.filter((one) => one[0] === mark).reduce((sum, one) => sum + one[1].trim().length, 0);
  const isAlike = 3 * size(" ") > Math.max(size("-"), size("+"));
  return [["-", removed], ["+", added]].map(([own, line]) => [own, !isAlike ? line
    : parts.filter(([mark]) => mark === own || mark === " ").map(([mark, text]) => (mark === own ? el("mark", {}, text) : text))]);
}

function diffView(...texts) {
  const lines = differences(...texts.map((text) => text.replace(/\n$/, "").split("\n")));
  const kinds = { "-": "removed", "+": "added", " ": "same" }, shown = [];
  for (let start = 0, end; start < lines.length; start = end) {
    const isSame = (at) => lines[at][0] === " ", of = (mark) => lines.slice(start, end).filter((one) => one[0] === mark);
    for (end = start + 1; end < lines.length && isSame(end) === isSame(start);) end++;
    const removed = of("-"), added = of("+");
    const pairs = removed.slice(0, added.length).map((line, i) => pairView(line[1], added[i][1]));
    shown.push(...of(" "), ...removed.map((line, i) => pairs[i]?.[0] ?? line), ...added.map((line, i) => pairs[i]?.[1] ?? line));
  }
  return codeBox("diff", shown.map(([mark, line]) => el("span", { class: kinds[mark] }, mark, " ", line, "\n")));
}

const codeBox = (kind, ...content) => el("pre", { class: `code ${kind}`, tabindex: 0 }, content);
const WORDS = new Set(("False None True and as assert async await break class continue def del elif else except finally for from " +
  "global if import in is lambda nonlocal not or pass raise return try while with yield match case").split(" "));
const TOKENS = /(#[^\n]*|"""[^]*?"""|'''[^]*?'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|\b\d[\w.]*|\b[A-Za-z_]\w*)/;

function codeView(source) {
  const kind = (part) => part[0] === "#" ? "comment" : /^["']/.test(part) ? "string" : /^\d/.test(part) ? "figure" : WORDS.has(part) && "word";
  return codeBox("", source.text.slice(0, MOST_SHOWN).split(TOKENS).filter(Boolean).map((part) =>
    (kind(part) ? el("span", { class: kind(part) }, part) : part)), cutNote(source));
}

const cutNote = (text) => {
  const shown = Math.min(text.text.length, MOST_SHOWN);
  return text.characters > shown && el("em", {}, `\n… cut: the first ${number(shown)} of ${number(text.characters)} characters are shown`);
};
const plainView = (text) => codeBox("", text.text.slice(0, MOST_SHOWN), cutNote(text));
