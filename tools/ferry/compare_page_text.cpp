#include "tools/ferry/compare_page_text.h"

namespace ferry::cli {

const profiler::PageParts kComparePage = {
    "ferry compare",
    R"css(:root { --area: #2563eb2e; --forward: #34d399; --backward: #0d9488; --update: #94a3b8; --recompute: #f59e0b;
  --swap: #6366f1; --copy: #cbd5e1; }
@media (prefers-color-scheme: dark) { :root { --area: #79a8ff38; --copy: #475569; --swap: #818cf8; } }
main { max-width: 1280px; }
.tall { max-height: 540px; overflow: auto; }
th, td { padding: 5px 9px; }
th { background: var(--card); position: sticky; top: 0; }
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
.choice { display: inline-block; padding: 0 8px; border-radius: 9px; font-size: 12px; }
)css",
    R"js(const number = (value, digits) => value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
const ms = value => value === null || value === undefined ? "–" : number(value, value >= 100 ? 1 : value >= 1 ? 2 : 3);
const time = ns => ns === null ? "–" : ns >= 1e6 ? number(ns / 1e6, 2) + " ms" : number(ns / 1e3, 1) + " µs";
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
section("Methods", overview,
  legend([["forward", "compute"], ["recompute", "recomputation"], ["bad", "stall: the device computes nothing"]]),
  node("p", { class: "soft" }, "Stall and recompute in ms; largest: the largest batch that trains within the budget."));

const kinds = ["forward", "backward", "update", "recompute", "swap", "copy"];
const lanes = ["Compute", "Copies out", "Copies in"];
const left = 104, right = 16, above = 28, chart = 210, lane = 26, gap = 22;
const height = above + chart + gap + lanes.length * (lane + 6) + 6;
const buttons = node("div", { class: "buttons" });
const laneTop = i => above + chart + gap + i * (lane + 6);
const most = () => Math.max(data.budget, ...chosen.timeline.memory.map(m => m[1])) * 1.06;
const y = (count, scale) => above + chart - count / scale * chart;

function drawMemory(g, { x, width }, scale) {
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
  clipped(g, left, width(), above + chart, () => {
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
  });
  g.fillStyle = style("bad");
  g.fillText(`budget ${bytes(data.budget)}`, left + 8, y(data.budget, scale) - 9);
}
function drawSpans(g, shown) {
  const { spans, names } = chosen.timeline, colors = kinds.map(style), ink = style("ink"), { x, width } = shown;
  lanes.forEach((name, i) => {
    g.fillStyle = style("soft");
    g.textAlign = "right";
    g.fillText(name, left - 8, laneTop(i) + lane / 2);
    g.textAlign = "left";
    g.fillStyle = style("line");
    g.fillRect(left, laneTop(i) + lane, width(), 1);
  });
  clipped(g, left, width(), height, () => {
    for (const [row, kind, begin, length, name] of spans)
      box(g, shown, x(begin), x(begin + length), laneTop(row), lane, colors[kind], names[name], ink);
  });
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
function hover(event, { x, time: timeAt }) {
  const px = event.offsetX, py = event.offsetY, at = timeAt(px);
  const row = lanes.findIndex((_, i) => py >= laneTop(i) && py < laneTop(i) + lane);
  const span = row >= 0 && chosen.timeline.spans.find(s => s[0] === row && px >= x(s[2]) - 1 && px <= x(s[2] + s[3]) + 1);
  if (span) {
    const lines = [`${time(span[3])}, from ${time(span[2])}`, ...(span[5] ? [bytes(span[5])] : [])];
    return showTip(event, `${chosen.timeline.names[span[4]]} (${kinds[span[1]]})`, lines);
  }
  if (px < left || py < above || py > above + chart) return showTip();
  showTip(event, time(Math.round(at)), [bytes(allocatedAt(at)) + " allocated"]);
}
function draw(g, shown) {
  ticks(g, shown, 0, above);
  drawMemory(g, shown, most());
  drawSpans(g, shown);
}
const streams = timeCanvas({ left, right, height, least: 1000, whole: () => [0, chosen.timeline.length], draw, hover });
section("Memory and streams of two steps", buttons,
  node("div", { class: "card", style: "padding: 8px 0" }, streams.canvas),
  legend([["forward", "forward"], ["backward", "backward"], ["update", "optimizer"], ["recompute", "computed again"],
    ["swap", "swapped"], ["copy", "other copies"]]),
  node("p", { class: "soft" }, "What an op allocates is drawn when its kernel begins. " + howToMove));

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
section("Decisions", decisions);

function choose(row) {
  chosen = row;
  buttons.replaceChildren(...drawn.map(each => {
    const button = node("button", each === chosen ? { class: "on" } : {}, each.method);
    button.addEventListener("click", () => choose(each));
    return button;
  }));
  drawOverview();
  drawDecisions();
  streams.all();
}
if (data.ladder.length) {
  const worst = Math.max(...data.ladder.map(step => step.ratio || 0));
  section("Planned time of a step under other budgets", tableCard(["Part of the peak", "Budget", "ms", "Ratio", "<"], data.ladder.map(step => ({
      attributes: step.step_ms === null ? { class: "off" } : {},
      cells: [number(step.part, 2), bytes(step.budget), ms(step.step_ms), step.ratio === null ? "no plan keeps it" : number(step.ratio, 3),
        step.ratio === null ? "" : node("span", { class: "bar" }, node("i", { style: `width:${100 * step.ratio / worst}%;background:var(--accent)` }))] }))));
}
choose(chosen);
)js"};

}  // namespace ferry::cli
