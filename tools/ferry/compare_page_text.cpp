#include "tools/ferry/compare_page_text.h"

namespace ferry::cli {

const std::string kComparePageHead = R"html(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>ferry compare</title>
<style>
:root { color-scheme: light dark; --bg: #fbfbfc; --card: #fff; --text: #1c1e21; --soft: #626a73; --line: #e2e5e9;
  --accent: #2563eb; --bad: #c2410c; --good: #15803d; --area: #2563eb2e;
  --forward: #34d399; --backward: #0d9488; --update: #94a3b8; --recompute: #f59e0b; --swap: #6366f1; --copy: #cbd5e1; }
@media (prefers-color-scheme: dark) { :root { --bg: #14171b; --card: #1c2026; --text: #e6e8eb; --soft: #9aa3ad;
  --line: #30363d; --accent: #79a8ff; --bad: #fb923c; --good: #4ade80; --area: #79a8ff38; --copy: #475569;
  --swap: #818cf8; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--bg); color: var(--text); font: 14px/1.5 system-ui, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1280px; margin: 0 auto; padding: 28px 24px 64px; }
h1 { font-size: 22px; margin: 0 0 2px; }
h2 { font-size: 15px; margin: 32px 0 10px; }
.soft { color: var(--soft); }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 8px; }
.wide { overflow-x: auto; }
.tall { max-height: 540px; overflow: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { padding: 5px 9px; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line);
  font-variant-numeric: tabular-nums; }
th { font-weight: 500; color: var(--soft); font-size: 12px; background: var(--card); position: sticky; top: 0; }
tr:last-child td { border-bottom: 0; }
th.text, td.text { text-align: left; }
tr.off td { color: var(--soft); }
tr.pick { cursor: pointer; }
tr.on td { background: color-mix(in srgb, var(--accent) 9%, transparent); }
td small { display: block; color: var(--soft); font-size: 12px; white-space: normal; }
.wrap { display: block; white-space: normal; max-width: 300px; }
.away small { white-space: nowrap; }
.bar { display: inline-block; width: 80px; height: 8px; border-radius: 2px; background: var(--line);
  vertical-align: 1px; overflow: hidden; }
.bar i { float: left; height: 100%; }
.buttons { display: flex; flex-wrap: wrap; gap: 6px; margin-bottom: 10px; }
button { font: inherit; font-size: 13px; padding: 3px 11px; border: 1px solid var(--line); border-radius: 14px;
  background: var(--card); color: var(--text); cursor: pointer; }
button.on { background: var(--accent); border-color: var(--accent); color: var(--card); }
canvas { display: block; width: 100%; cursor: grab; }
#tip { position: fixed; display: none; pointer-events: none; max-width: 420px; padding: 8px 12px; font-size: 12.5px;
  background: var(--card); border: 1px solid var(--line); border-radius: 6px; box-shadow: 0 4px 16px #0004; z-index: 1; }
.legend span { margin-right: 16px; white-space: nowrap; }
.legend i { display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin-right: 6px; }
.choice { display: inline-block; padding: 0 8px; border-radius: 9px; font-size: 12px; }
</style>
</head>
<body>
<main></main>
<div id="tip"></div>
<script type="application/json" id="data">
)html";

const std::string kComparePageTail = R"html(
</script>
<script>
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const main = document.querySelector("main"), tip = document.getElementById("tip");
function node(tag, attributes, ...children) {
  const result = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) result.setAttribute(key, value);
  result.append(...children);
  return result;
}
const number = (value, digits) => value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
const ms = value => value === null || value === undefined ? "–" : number(value, value >= 100 ? 1 : value >= 1 ? 2 : 3);
const time = ns => ns === null ? "–" : ns >= 1e6 ? number(ns / 1e6, 2) + " ms" : number(ns / 1e3, 1) + " µs";
function bytes(count) {
  if (count === null || count === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; count >= 1024 && unit < 4; ++unit) count /= 1024;
  return (unit ? number(count, 2) : count) + " " + units[unit];
}
const style = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
// Columns whose header begins with "<" hold text.
function table(headers, rows) {
  const cell = (tag, content, i) => node(tag, headers[i].startsWith("<") ? { class: "text" } : {}, content);
  const head = node("tr", {}, ...headers.map((text, i) => cell("th", text.replace("<", ""), i)));
  const body = rows.map(row => {
    const line = node("tr", row.attributes || {}, ...row.cells.map((content, i) => cell("td", content, i)));
    if (row.click) line.addEventListener("click", row.click);
    return line;
  });
  return node("table", {}, node("thead", {}, head), node("tbody", {}, ...body));
}

main.append(node("h1", {}, `${data.model}, batch ${data.batch}, within ${bytes(data.budget)}`),
  node("div", { class: "soft" }, `Place: ${data.device}, virtual time. Without a budget a step takes ` +
    `${bytes(data.peak)} at its peak; the budget is ${number(100 * data.budget / data.peak, 0)} % of it.`));

const drawn = data.rows.filter(row => row.timeline);
let chosen = drawn.find(row => row.method === "hybrid" && row.feasible) || drawn[0];

// Of what a step is made, on the scale of the longest.
function bar(row) {
  const longest = Math.max(...data.rows.map(r => r.step_ms || 0));
  const part = (value, color) => node("i", { style: `width:${100 * value / longest}%;background:var(--${color})` });
  return node("span", { class: "bar" }, part(row.step_ms - row.stall_ms - row.recompute_ms, "forward"),
    part(row.recompute_ms, "recompute"), part(row.stall_ms, "bad"));
}
const overview = node("div", { class: "card wide" });
function drawOverview() {
  const headers = ["<Method", "ms a step", "<", "Ratio", "Allocated", "Reserved", "Out", "In", "Stall", "Recompute",
    "Largest"];
  overview.replaceChildren(table(headers, data.rows.map(row => {
    const name = node("span", { class: "wrap" }, row.method, node("small", {}, row.text + (row.note ? "; " + row.note : "")));
    const largest = row.largest_batch === null ? "–" : String(row.largest_batch);
    if (!row.timeline) return { attributes: { class: "off" }, cells: [name, "–", "", "–", "–", "–", "–", "–", "–", "–", largest] };
    return { attributes: { class: "pick" + (row === chosen ? " on" : "") }, click: () => choose(row),
      cells: [name, ms(row.step_ms), bar(row), number(row.ratio, 3), bytes(row.peak_allocated), bytes(row.peak_reserved),
        bytes(row.bytes_out), bytes(row.bytes_in), ms(row.stall_ms), ms(row.recompute_ms), largest] };
  })));
}
const legend = list => node("p", { class: "soft legend" },
  ...list.map(([color, text]) => node("span", {}, node("i", { style: `background:var(--${color})` }), text)));
main.append(node("h2", {}, "Methods"), overview,
  legend([["forward", "compute"], ["recompute", "recomputation"], ["bad", "stall: the device computes nothing"]]),
  node("p", { class: "soft" }, "Stall and recompute in ms; largest: the largest batch that trains within the budget."));

const kinds = ["forward", "backward", "update", "recompute", "swap", "copy"];
const lanes = ["Compute", "Copies out", "Copies in"];
const left = 104, right = 16, above = 28, chart = 210, lane = 26, gap = 22;
const height = above + chart + gap + lanes.length * (lane + 6) + 6;
const canvas = node("canvas"), buttons = node("div", { class: "buttons" });
let from = 0, to = 1;
const width = () => canvas.clientWidth - left - right;
const x = at => left + (at - from) / (to - from) * width();
const laneTop = i => above + chart + gap + i * (lane + 6);
const most = () => Math.max(data.budget, ...chosen.timeline.memory.map(m => m[1])) * 1.06;
const y = (count, scale) => above + chart - count / scale * chart;

function ticks(g) {
  const span = to - from;
  const step = [1, 2, 5, 10].map(f => f * 10 ** Math.floor(Math.log10(span / 8))).find(s => span / s <= 9) || span;
  for (let k = Math.ceil(from / step); k * step <= to; ++k) {
    g.fillStyle = style("line");
    g.fillRect(x(k * step), above - 6, 1, height);
    g.fillStyle = style("soft");
    if (x(k * step) < left + width() - 50) g.fillText((k * step / 1e6).toLocaleString("en", { maximumSignificantDigits: 5 }) + " ms", x(k * step) + 4, 12);
  }
}
function drawMemory(g, scale) {
  const samples = chosen.timeline.memory;
  g.fillStyle = style("soft");
  g.textAlign = "right";
  const unit = 2 ** 30 < scale ? 2 ** 30 : 2 ** 20;
  const step = [1, 2, 5, 10].map(f => f * 10 ** Math.floor(Math.log10(scale / unit / 4))).find(s => scale / unit / s <= 5) * unit;
  for (let value = 0; value <= scale; value += step) {
    g.fillStyle = style("line");
    g.fillRect(left, y(value, scale), width(), 1);
    g.fillStyle = style("soft");
    g.fillText(value ? bytes(value).replace(/\.00/, "") : "0", left - 8, y(value, scale));
  }
  g.textAlign = "left";
  g.save();
  g.beginPath();
  g.rect(left, 0, width(), above + chart);
  g.clip();
  g.beginPath();
  g.moveTo(x(0), y(0, scale));
  let last = 0;
  for (const [at, allocated] of samples) {
    g.lineTo(x(at), y(last, scale));
    g.lineTo(x(at), y(allocated, scale));
    last = allocated;
  }
  g.lineTo(x(chosen.timeline.length), y(last, scale));
  g.strokeStyle = style("accent");
  g.stroke();
  g.lineTo(x(chosen.timeline.length), y(0, scale));
  g.fillStyle = style("area");
  g.fill();
  g.setLineDash([6, 4]);
  g.strokeStyle = style("bad");
  g.beginPath();
  g.moveTo(left, y(data.budget, scale));
  g.lineTo(left + width(), y(data.budget, scale));
  g.stroke();
  g.restore();
  g.fillStyle = style("bad");
  g.fillText(`budget ${bytes(data.budget)}`, left + 8, y(data.budget, scale) - 9);
}
function drawSpans(g) {
  const { spans, names } = chosen.timeline, colors = kinds.map(style);
  lanes.forEach((name, i) => {
    g.fillStyle = style("soft");
    g.textAlign = "right";
    g.fillText(name, left - 8, laneTop(i) + lane / 2);
    g.textAlign = "left";
    g.fillStyle = style("line");
    g.fillRect(left, laneTop(i) + lane, width(), 1);
  });
  g.save();
  g.beginPath();
  g.rect(left, 0, width(), height);
  g.clip();
  for (const [row, kind, begin, length, name] of spans) {
    const a = x(begin), w = Math.max(x(begin + length) - a, 0.6);
    if (a + w < left || a > left + width()) continue;
    g.fillStyle = colors[kind];
    g.fillRect(a, laneTop(row), w > 3 ? w - 0.5 : w, lane);
    if (w < 40) continue;
    g.fillStyle = "#10141a";
    g.save();
    g.beginPath();
    g.rect(a, 0, w - 4, height);
    g.clip();
    g.fillText(names[name], Math.max(a, left) + 5, laneTop(row) + lane / 2);
    g.restore();
  }
  g.restore();
}
function draw() {
  const scale = window.devicePixelRatio || 1, g = canvas.getContext("2d");
  canvas.width = canvas.clientWidth * scale;
  canvas.height = height * scale;
  canvas.style.height = height + "px";
  g.scale(scale, scale);
  g.font = "11.5px system-ui, sans-serif";
  g.textBaseline = "middle";
  ticks(g);
  drawMemory(g, most());
  drawSpans(g);
}
function allocatedAt(at) {
  const samples = chosen.timeline.memory;
  let low = 0, high = samples.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (samples[middle][0] <= at) low = middle + 1; else high = middle;
  }
  return low ? samples[low - 1][1] : null;
}
function hover(event) {
  const box = canvas.getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top;
  const at = from + (px - left) / width() * (to - from);
  const row = lanes.findIndex((_, i) => py >= laneTop(i) && py < laneTop(i) + lane);
  const span = row >= 0 && chosen.timeline.spans.find(s => s[0] === row && px >= x(s[2]) - 1 && px <= x(s[2] + s[3]) + 1);
  const inChart = px >= left && py >= above && py <= above + chart;
  tip.style.display = span || inChart ? "block" : "none";
  if (!span && !inChart) return;
  const lines = span ? [`${time(span[3])}, from ${time(span[2])}`, ...(span[5] ? [bytes(span[5])] : [])] : [bytes(allocatedAt(at)) + " allocated"];
  const title = span ? `${chosen.timeline.names[span[4]]} (${kinds[span[1]]})` : time(Math.round(at));
  tip.replaceChildren(node("b", {}, title), ...lines.map(text => node("div", {}, text)));
  tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8) + "px";
  tip.style.top = Math.min(event.clientY + 16, innerHeight - tip.offsetHeight - 8) + "px";
}
function view(a, b) {
  const whole = chosen.timeline.length, length = Math.min(Math.max(b - a, 1000), whole);
  from = Math.min(Math.max(a, 0), whole - length);
  to = from + length;
  draw();
}
canvas.addEventListener("wheel", event => {
  event.preventDefault();
  const at = from + (event.offsetX - left) / width() * (to - from), zoom = Math.exp(event.deltaY / 400);
  view(at - (at - from) * zoom, at + (to - at) * zoom);
}, { passive: false });
let drag = null;
canvas.addEventListener("pointerdown", e => { drag = { x: e.clientX, from, to }; canvas.setPointerCapture(e.pointerId); });
canvas.addEventListener("pointerup", () => { drag = null; });
canvas.addEventListener("pointerleave", () => { tip.style.display = "none"; });
canvas.addEventListener("pointermove", event => {
  if (!drag) return hover(event);
  const moved = (drag.x - event.clientX) / width() * (drag.to - drag.from);
  view(drag.from + moved, drag.to + moved);
});
canvas.addEventListener("dblclick", () => view(0, chosen.timeline.length));
main.append(node("h2", {}, "Memory and streams of two steps"), buttons,
  node("div", { class: "card", style: "padding: 8px 0" }, canvas),
  legend([["forward", "forward"], ["backward", "backward"], ["update", "optimizer"], ["recompute", "computed again"],
    ["swap", "swapped"], ["copy", "other copies"]]),
  node("p", { class: "soft" }, "What an op allocates is drawn when its kernel begins. Wheel zooms, dragging moves, a " +
    "double click shows all."));

const shades = { keep: "update", swap: "swap", recompute: "recompute" };
const decisions = node("div");
function drawDecisions() {
  const list = chosen.decisions;
  if (!list) {
    decisions.replaceChildren(node("p", { class: "soft" }, chosen.text + ". There is no plan."));
    return;
  }
  const sum = choice => bytes(list.filter(d => d.choice === choice).reduce((all, d) => all + d.bytes, 0));
  const headers = ["<Tensor", "Bytes", "<Choice", "<Why", "Idle for", "Recompute", "Swap", "<Longest idle window, and where it is away"];
  decisions.replaceChildren(
    node("p", { class: "soft" }, `${chosen.method}: ${sum("swap")} swapped, ${sum("recompute")} recomputed, ` +
      `the rest kept. ${list.length} tensors, the largest first; costs are those of the longest idle window.`),
    node("div", { class: "card wide tall" }, table(headers, list.map(d => ({ cells: [d.tensor, bytes(d.bytes),
      node("span", { class: "choice", style: `background:color-mix(in srgb, var(--${shades[d.choice]}) 30%, transparent)` }, d.choice),
      node("span", { class: "wrap", style: "min-width: 190px" }, d.why), time(d.idle_ns), time(d.recompute_ns), time(d.swap_ns),
      node("span", { class: "away" }, `${d.idle_from} to ${d.idle_to}`, ...d.away.map(text => node("small", {}, text)))] })))));
}
main.append(node("h2", {}, "Decisions"), decisions);

function choose(row) {
  chosen = row;
  buttons.replaceChildren(...drawn.map(each => {
    const button = node("button", each === chosen ? { class: "on" } : {}, each.method);
    button.addEventListener("click", () => choose(each));
    return button;
  }));
  drawOverview();
  drawDecisions();
  view(0, chosen.timeline.length);
}
if (data.ladder.length) {
  const worst = Math.max(...data.ladder.map(step => step.ratio || 0));
  main.append(node("h2", {}, "Planned time of a step under other budgets"), node("div", { class: "card wide" },
    table(["Part of the peak", "Budget", "ms", "Ratio", "<"], data.ladder.map(step => ({
      attributes: step.step_ms === null ? { class: "off" } : {},
      cells: [number(step.part, 2), bytes(step.budget), ms(step.step_ms), step.ratio === null ? "no plan keeps it" : number(step.ratio, 3),
        step.ratio === null ? "" : node("span", { class: "bar" }, node("i", { style: `width:${100 * step.ratio / worst}%;background:var(--accent)` }))] })))));
}
choose(chosen);
new ResizeObserver(draw).observe(canvas);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
</script>
</body>
</html>
)html";

}  // namespace ferry::cli
