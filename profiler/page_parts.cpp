#include "profiler/page.h"

namespace ferry::profiler {

const std::string_view kSharedStyle =
    R"css(:root { color-scheme: light dark; --bg: #fbfbfc; --card: #fff; --text: #1c1e21; --soft: #626a73; --line: #e2e5e9;
  --accent: #2563eb; --bad: #c2410c; --good: #15803d; --ink: #10141a; }
@media (prefers-color-scheme: dark) { :root { --bg: #14171b; --card: #1c2026; --text: #e6e8eb; --soft: #9aa3ad;
  --line: #30363d; --accent: #79a8ff; --bad: #fb923c; --good: #4ade80; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--bg); color: var(--text); font: 14px/1.5 system-ui, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 26px 18px 64px; }
h1 { font-size: 22px; margin: 0 0 2px; overflow-wrap: anywhere; }
h2 { font-size: 15px; margin: 32px 0 10px; }
p { margin: 4px 0 0; overflow-wrap: anywhere; }
.soft { color: var(--soft); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin-top: 18px; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 12px 16px; }
.tile b { display: block; font-size: 20px; font-weight: 600; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.finding { margin-bottom: 12px; border-left: 3px solid var(--bad); }
.finding h3 { margin: 0; font-size: 14px; overflow-wrap: anywhere; }
.change { color: var(--good); font-weight: 500; }
.split { display: flex; height: 6px; margin: 8px 0 2px; border-radius: 3px; overflow: hidden; background: var(--line); }
.split i { display: block; }
code { font: 12.5px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
.wide { overflow-x: auto; padding: 0; }
table { border-collapse: collapse; width: 100%; }
th, td { padding: 5px 12px; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line);
  font-variant-numeric: tabular-nums; }
th { font-weight: 500; color: var(--soft); font-size: 12px; }
tr:last-child td { border-bottom: 0; }
th.text, td.text { text-align: left; }
canvas { display: block; width: 100%; cursor: grab; touch-action: pan-y; }
#tip { position: fixed; display: none; pointer-events: none; max-width: min(420px, 92vw); padding: 8px 12px;
  font-size: 12.5px; background: var(--card); border: 1px solid var(--line); border-radius: 6px;
  box-shadow: 0 4px 16px #0004; z-index: 1; overflow-wrap: anywhere; }
.legend { margin-bottom: 8px; }
.legend span { display: inline-block; margin-right: 16px; white-space: nowrap; }
.legend i { display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin-right: 6px; }
)css";

const std::string_view kSharedScript = R"js("use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const main = document.querySelector("main"), tip = document.getElementById("tip");

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {})) element.setAttribute(key, value);
  element.append(...children);
  return element;
}
const node = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const style = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
const share = part => (100 * part).toLocaleString("en", { maximumFractionDigits: 2 }) + " %";
function bytes(count) {
  if (count === null || count === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; count >= 1024 && unit < 4; ++unit) count /= 1024;
  return (unit ? count.toFixed(2) : count) + " " + units[unit];
}
const section = (title, ...children) => main.append(node("h2", {}, title), ...children);
const tile = (name, value, note) => node("div", { class: "card tile" }, node("span", { class: "soft" }, name),
  node("b", {}, value), node("span", { class: "soft" }, note || ""));
const legend = (list, ...text) => node("p", { class: "soft legend" }, ...list.map(([color, name]) =>
  node("span", {}, node("i", { style: `background:var(--${color})` }), name)), ...text);
// Columns whose header begins with "<" hold text. Rows are { cells, attributes, indent, click }.
function table(headers, rows) {
  const cell = (tag, content, i) => node(tag, headers[i].startsWith("<") ? { class: "text" } : {}, content ?? "");
  const head = node("tr", {}, ...headers.map((text, i) => cell("th", text.replace("<", ""), i)));
  const body = rows.map(row => {
    const line = node("tr", row.attributes, ...row.cells.map((content, i) => cell("td", content, i)));
    if (row.indent) line.firstChild.style.paddingLeft = 12 + 18 * row.indent + "px";
    if (row.click) line.addEventListener("click", row.click);
    return line;
  });
  return node("table", {}, node("thead", {}, head), node("tbody", {}, ...body));
}
const tableCard = (headers, rows) => node("div", { class: "card wide" }, table(headers, rows));

// The box beside the pointer; without a title it goes.
function showTip(event, title, lines) {
  tip.style.display = title ? "block" : "none";
  if (!title) return;
  tip.replaceChildren(node("b", {}, title), ...lines.map(text => node("div", {}, text)));
  tip.style.left = Math.max(Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8), 0) + "px";
  tip.style.top = Math.min(event.clientY + 16, innerHeight - tip.offsetHeight - 8) + "px";
}

// A canvas with time from left to right, between `left` and `right` of its edges. The wheel and two fingers zoom,
// dragging moves, a double click shows all. whole() gives the first and last time, draw(g, shown) paints, hover(event,
// shown) is called where nothing is dragged.
function timeCanvas({ left, right, height, least, whole, draw, hover }) {
  const canvas = node("canvas"), fingers = new Map();
  const shown = { canvas, left, height, from: 0, to: 1 };
  shown.width = () => canvas.clientWidth - left - right;
  shown.x = time => left + (time - shown.from) / (shown.to - shown.from) * shown.width();
  shown.time = x => shown.from + (x - left) / shown.width() * (shown.to - shown.from);
  shown.draw = () => {
    const scale = window.devicePixelRatio || 1, g = canvas.getContext("2d");
    canvas.width = canvas.clientWidth * scale;
    canvas.height = height * scale;
    canvas.style.height = height + "px";
    g.scale(scale, scale);
    g.font = "11.5px system-ui, sans-serif";
    g.textBaseline = "middle";
    draw(g, shown);
  };
  shown.view = (a, b) => {
    const [first, last] = whole(), length = Math.min(Math.max(b - a, least), last - first);
    shown.from = Math.min(Math.max(a, first), last - length);
    shown.to = shown.from + length;
    shown.draw();
  };
  shown.all = () => shown.view(...whole());
  const zoom = (at, factor) => shown.view(at - (at - shown.from) * factor, at + (shown.to - at) * factor);
  canvas.addEventListener("wheel", event => {
    event.preventDefault();
    zoom(shown.time(event.offsetX), Math.exp(event.deltaY / 400));
  }, { passive: false });
  canvas.addEventListener("pointerdown", event => {
    fingers.set(event.pointerId, event.offsetX);
    canvas.setPointerCapture(event.pointerId);
  });
  for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, e => fingers.delete(e.pointerId));
  canvas.addEventListener("pointerleave", () => showTip());
  canvas.addEventListener("pointermove", event => {
    if (!fingers.has(event.pointerId)) return hover(event, shown);
    const before = [...fingers.values()], span = shown.to - shown.from;
    const moved = (fingers.get(event.pointerId) - event.offsetX) / shown.width() * span;
    fingers.set(event.pointerId, event.offsetX);
    const after = [...fingers.values()];
    if (after.length === 1) return shown.view(shown.from + moved, shown.to + moved);
    const apart = list => Math.max(Math.abs(list[0] - list[1]), 1);
    zoom(shown.time((after[0] + after[1]) / 2), apart(before) / apart(after));
  });
  canvas.addEventListener("dblclick", shown.all);
  new ResizeObserver(shown.draw).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", shown.draw);
  return shown;
}
const howToMove = "Wheel and two fingers zoom, dragging moves, a double click shows all.";
// Lines at round times since `origin`, and their labels above.
function ticks(g, shown, origin, above) {
  const span = shown.to - shown.from, edge = shown.left + shown.width();
  const step = [1, 2, 5, 10].map(f => f * 10 ** Math.floor(Math.log10(span / 8))).find(s => span / s <= 9) || span;
  for (let k = Math.ceil((shown.from - origin) / step); origin + k * step <= shown.to; ++k) {
    const x = shown.x(origin + k * step);
    g.fillStyle = style("line");
    g.fillRect(x, above - 6, 1, shown.height);
    g.fillStyle = style("soft");
    if (x < edge - 50) g.fillText((k * step / 1e6).toLocaleString("en", { maximumSignificantDigits: 6 }) + " ms", x + 4, 12);
  }
}
// Paints within the drawing's own part only.
function clipped(g, x, width, height, paint) {
  g.save();
  g.beginPath();
  g.rect(x, 0, width, height);
  g.clip();
  paint();
  g.restore();
}
// A span from a to b as a box, with its name where there is room.
function box(g, shown, a, b, y, height, color, name, ink) {
  const w = Math.max(b - a, 0.6);
  if (a + w < shown.left || a > shown.left + shown.width()) return;
  g.fillStyle = color;
  g.fillRect(a, y, w > 3 ? w - 0.5 : w, height);
  if (w < 30 || (w < 90 && g.measureText(name).width + 10 > w)) return;
  g.fillStyle = ink;
  clipped(g, a, w - 4, shown.height, () => g.fillText(name, Math.max(a, shown.left) + 5, y + height / 2));
}
)js";

}  // namespace ferry::profiler
