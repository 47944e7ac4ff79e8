#include "profiler/analysis_report/page.h"

namespace ferry::profiler::analysis_report {

const char* const kPageHead = R"html(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Trace Analysis</title>
<style>
:root { color-scheme: light dark; --bg: #fbfbfc; --card: #fff; --text: #1c1e21; --soft: #626a73; --line: #e2e5e9;
  --bad: #c2410c; --good: #15803d; --op: #93c5fd; --annotation: #cbd5e1; --frame: #e2e8f0; --call: #fcd34d;
  --kernel: #6ee7b7; --copy: #fdba74; --memset: #d8b4fe; --hot: #ef4444; --ink: #10141a; }
@media (prefers-color-scheme: dark) { :root { --bg: #14171b; --card: #1c2026; --text: #e6e8eb; --soft: #9aa3ad;
  --line: #30363d; --bad: #fb923c; --good: #4ade80; --annotation: #94a3b8; --frame: #64748b; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--bg); color: var(--text); font: 14px/1.5 system-ui, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1100px; margin: 0 auto; padding: 24px 16px 64px; }
h1 { font-size: 21px; margin: 0 0 2px; }
h2 { font-size: 15px; margin: 30px 0 10px; }
p { margin: 4px 0 0; overflow-wrap: anywhere; }
.soft { color: var(--soft); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 10px; margin-top: 16px; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 11px 14px; }
.tile b { display: block; font-size: 19px; font-weight: 600; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.hotspot { margin-bottom: 12px; border-left: 3px solid var(--bad); }
.hotspot.allowed { border-left-color: var(--line); }
.hotspot h3 { margin: 0; font-size: 14px; overflow-wrap: anywhere; }
.change { color: var(--good); font-weight: 500; }
.split { display: flex; height: 6px; margin: 8px 0 2px; border-radius: 3px; overflow: hidden; background: var(--line); }
.split i { display: block; }
.wide { overflow-x: auto; padding: 0; }
table { border-collapse: collapse; width: 100%; }
th, td { padding: 5px 12px; text-align: right; border-bottom: 1px solid var(--line); vertical-align: top;
  font-variant-numeric: tabular-nums; white-space: nowrap; }
th { font-weight: 500; color: var(--soft); font-size: 12px; }
tr:last-child td { border-bottom: 0; }
th.text, td.text { text-align: left; white-space: normal; min-width: 132px; overflow-wrap: anywhere; }
svg { display: block; width: 100%; margin-top: 8px; touch-action: pan-y; }
svg text { font: 10.5px system-ui, sans-serif; fill: var(--ink); pointer-events: none; }
svg text.track { fill: var(--soft); }
details { margin-top: 6px; }
summary { color: var(--soft); cursor: pointer; }
.note { min-height: 21px; color: var(--soft); font-size: 12.5px; }
.legend span { margin-right: 14px; white-space: nowrap; display: inline-block; }
.legend i { display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin-right: 5px; }
</style>
</head>
<body>
<main></main>
<script type="application/json" id="data">
)html";

const char* const kPageTail = R"html(
</script>
<script>
"use strict";
const data = JSON.parse(document.getElementById("data").textContent), report = data.report;
const main = document.querySelector("main");
function node(tag, attributes, ...children) {
  const result = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) result.setAttribute(key, value);
  result.append(...children);
  return result;
}
function drawn(tag, attributes, ...children) {
  const result = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) result.setAttribute(key, value);
  result.append(...children);
  return result;
}
const ms = ns => (ns / 1e6).toLocaleString("en", { maximumSignificantDigits: 6 }) + " ms";
const share = part => (100 * part).toLocaleString("en", { maximumFractionDigits: 2 }) + " %";
function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; count >= 1024 && unit < 4; ++unit) count /= 1024;
  return (unit ? count.toFixed(2) : count) + " " + units[unit];
}
const ways = { h2d: "CPU → GPU", d2h: "GPU → CPU", d2d: "GPU → GPU", h2h: "CPU → CPU", unknown: "" };
const place = item => [item.op, item.frame].filter(Boolean).join(" at ") || item.thread || "unknown place";
const section = (title, ...children) => main.append(node("h2", {}, title), ...children);
// Columns whose header begins with "<" hold text.
function table(headers, rows) {
  const cell = (tag, text, i) => node(tag, headers[i].startsWith("<") ? { class: "text" } : {}, text);
  const head = node("tr", {}, ...headers.map((text, i) => cell("th", text.replace("<", ""), i)));
  const body = rows.map(row => node("tr", {}, ...row.map((text, i) => cell("td", String(text), i))));
  return node("div", { class: "card wide" }, node("table", {}, node("thead", {}, head), node("tbody", {}, ...body)));
}
const tile = (name, value, note) => node("div", { class: "card tile" }, node("span", { class: "soft" }, name),
  node("b", {}, value), node("span", { class: "soft" }, note || ""));

main.append(node("h1", {}, "Trace Analysis"), node("p", { class: "soft" }, `${report.trace} · ${report.format}` +
  (report.rank >= 0 ? ` · rank ${report.rank}` : "") + (report.virtual_time ? " · virtual time" : "")));
main.append(node("div", { class: "tiles" },
  tile("Host blocked", ms(report.blocked_ns.h2d + report.blocked_ns.d2h), share(report.blocked_share) + " of the span"),
  tile("Synchronous copies", `${report.sync_copies.h2d} / ${report.sync_copies.d2h}`, "to / from the GPU"),
  tile("Span", ms(report.span_ns), report.steps ? `${report.steps} steps` : ""),
  ...report.gpus.slice(0, 4).map(g => tile(`gpu:${g.device} busy`, share(g.busy_share), g.name))));

const kinds = ["op", "annotation", "frame", "call", "kernel", "copy", "memset"];
// The thread's slices and the streams' around one call: tapping a slice says what it is.
function view(shown) {
  const width = Math.max(320, Math.min(main.clientWidth - 64, 1040)), row = 17, left = 0;
  const x = ns => left + ns / shown.length * (width - left);
  const note = node("p", { class: "note" }, "");
  let y = 0;
  const parts = [];
  for (const track of shown.tracks) {
    parts.push(drawn("text", { x: 0, y: y + 12, class: "track" }, track.name));
    y += row;
    let levels = 1;
    for (const s of track.slices) {
      levels = Math.max(levels, s.l + 1);
      const a = Math.max(x(s.b), left), b = Math.min(x(s.b + s.d), width), top = y + s.l * row;
      if (b < left || a > width) continue;
      const box = drawn("rect", { x: a, y: top, width: Math.max(b - a, 1), height: row - 2, rx: 1.5,
        fill: `var(--${s.h ? "hot" : kinds[s.k]})` }, drawn("title", {}, `${s.n}\n${ms(s.d)}`));
      box.addEventListener("click", () => { note.textContent = `${s.n}: ${ms(s.d)}`; });
      parts.push(box);
      const fits = Math.floor((b - a - 6) / 5.6);
      if (fits > 3) parts.push(drawn("text", { x: a + 3, y: top + 11.5 },
        s.n.length > fits ? s.n.slice(0, fits - 1) + "…" : s.n));
    }
    y += levels * row + 6;
  }
  const picture = drawn("svg", { viewBox: `0 0 ${width} ${y}`, role: "img" }, ...parts);
  return node("div", {}, picture, note, node("p", { class: "soft" }, `${ms(shown.length)} around the longest call` +
    (shown.left_out ? `; ${shown.left_out} short slices are left out` : "")));
}

function hotspot(item, i) {
  const memory = item.memory ? ", " + item.memory : "";
  const lines = [node("h3", {}, `${i + 1}. ${place(item)}`),
    node("p", {}, `${item.rule}: ${item.calls} × ${ways[item.direction]}${memory}, ${bytes(item.bytes)} in all`),
    node("p", {}, `Host blocked for ${ms(item.blocked_ns)}, ${share(item.share)} of the span` +
      (item.step_share === undefined ? "" : `, ${share(item.step_share)} of the steps`)),
    node("div", { class: "split" }, node("i", { style: `width:${100 * item.drain_ns / (item.blocked_ns || 1)}%;` +
      "background:var(--annotation)" }), node("i", { style: "flex:1;background:var(--hot)" })),
    node("p", { class: "soft" }, `draining earlier work ${ms(item.drain_ns)}, the copy ${ms(item.copy_ns)}`)];
  if (item.op_chain.length > 1) lines.push(node("p", { class: "soft" }, item.op_chain.join(" › ")));
  if (item.allowed) lines.push(node("p", {}, "Allowed: " + item.allowed));
  lines.push(node("p", { class: "change" }, item.fix));
  if (item.view) {
    const details = node("details", {}, node("summary", {}, "Host and streams around it"));
    const show = () => { if (details.open && details.children.length === 1) details.append(view(item.view)); };
    details.addEventListener("toggle", show);
    if (i < 3) { details.open = true; requestAnimationFrame(show); }
    lines.push(details);
  }
  return node("div", { class: "card hotspot" + (item.allowed ? " allowed" : "") }, ...lines);
}
const legend = [["frame", "function"], ["annotation", "region"], ["op", "op"], ["call", "call"], ["hot", "synchronous copy"],
  ["kernel", "kernel"], ["copy", "copy"], ["memset", "memset"]];
section("Hotspots", ...(report.hotspots.length ? [node("p", { class: "soft legend" },
  ...legend.map(([color, text]) => node("span", {}, node("i", { style: `background:var(--${color})` }), text)))] :
  [node("p", {}, "No synchronous copy between host and device.")]), ...report.hotspots.map(hotspot));
if (report.memcpy.length) section("GpuMemCpy Summary", table(
  ["<Copies", "<Direction", "<Host memory", "Calls", "Bytes", "GPU time", "Host blocked"],
  report.memcpy.map(m => [m.synchronous ? "GpuMemcpySync" : "GpuMemcpyAsync", ways[m.direction], m.memory, m.calls,
    bytes(m.bytes), ms(m.gpu_ns), ms(m.blocked_ns)])));
if (report.explicit.length) section("Explicit reads", table(["<Op", "<Copies", "Calls", "Bytes", "Blocked"],
  report.explicit.map(r => [place(r), ways[r.direction], r.calls, bytes(r.bytes), ms(r.blocked_ns)])));
if (report.findings.length) section("Other findings", table(["<Rule", "<Where", "<What", "Time", "<Change"],
  report.findings.map(f => [f.rule, f.op || f.frame ? place(f) : "", f.text, ms(f.blocked_ns), f.fix])));
if (report.files) section("Files", table(["<File", "Rank", "Span", "To GPU", "From GPU", "Host blocked"],
  report.files.map(f => [f.trace, f.rank ?? "", ms(f.span_ns), f.sync_copies.h2d, f.sync_copies.d2h,
    ms(f.blocked_ns.h2d + f.blocked_ns.d2h)])));
if (report.warnings.length) section("Warnings", ...report.warnings.map(text => node("p", {}, text)));
</script>
</body>
</html>
)html";

}  // namespace ferry::profiler::analysis_report
