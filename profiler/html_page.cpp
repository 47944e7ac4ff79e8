#include "profiler/html_page.h"

namespace ferry::profiler {

const char* const kHtmlHead = R"html(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Profiling Report</title>
<style>
:root { color-scheme: light dark; --bg: #fbfbfc; --card: #fff; --text: #1c1e21; --soft: #626a73; --line: #e2e5e9;
  --accent: #2563eb; --bad: #c2410c; --good: #15803d;
  --scope: #cbd5e1; --op: #60a5fa; --copy: #fdba74; --sync: #ef4444; --kernel: #34d399; --device_copy: #fb923c; }
@media (prefers-color-scheme: dark) { :root { --bg: #14171b; --card: #1c2026; --text: #e6e8eb; --soft: #9aa3ad;
  --line: #30363d; --accent: #79a8ff; --bad: #fb923c; --good: #4ade80; --scope: #475569; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--bg); color: var(--text); font: 14px/1.5 system-ui, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 28px 24px 64px; }
h1 { font-size: 22px; margin: 0 0 2px; }
h2 { font-size: 15px; margin: 32px 0 10px; }
.soft { color: var(--soft); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(180px, 1fr)); gap: 12px; margin-top: 18px; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 12px 16px; }
.tile b { display: block; font-size: 20px; font-weight: 600; font-variant-numeric: tabular-nums; }
.finding { margin-bottom: 12px; border-left: 3px solid var(--bad); }
.finding h3 { margin: 0; font-size: 14px; }
.finding p { margin: 4px 0 0; }
.change { color: var(--good); font-weight: 500; }
.split { display: flex; height: 6px; margin: 8px 0 2px; border-radius: 3px; overflow: hidden; background: var(--line); }
.split i { display: block; }
code { font: 12.5px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
.wide { overflow-x: auto; padding: 0; }
table { border-collapse: collapse; width: 100%; }
th, td { padding: 5px 14px; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line);
  font-variant-numeric: tabular-nums; }
th { font-weight: 500; color: var(--soft); font-size: 12px; }
tr:last-child td { border-bottom: 0; }
th.text, td.text { text-align: left; }
tr.nested td { color: var(--soft); }
#timeline { position: relative; padding: 8px 0; }
#timeline canvas { display: block; width: 100%; cursor: grab; }
#tip { position: fixed; display: none; pointer-events: none; max-width: 420px; padding: 8px 12px; font-size: 12.5px;
  background: var(--card); border: 1px solid var(--line); border-radius: 6px; box-shadow: 0 4px 16px #0004; z-index: 1; }
.legend span { margin-right: 16px; white-space: nowrap; }
.legend i { display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin-right: 6px; }
</style>
</head>
<body>
<main></main>
<div id="tip"></div>
<script type="application/json" id="data">
)html";

const char* const kHtmlTail = R"html(
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
const ms = ns => (ns / 1e6).toLocaleString("en", { maximumSignificantDigits: 6 });
const share = part => (100 * part).toLocaleString("en", { maximumFractionDigits: 2 }) + " %";
const ratio = ns => report.total_ns ? ns / report.total_ns : 0;
function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; count >= 1024 && unit < 4; ++unit) count /= 1024;
  return (unit ? count.toFixed(2) : count) + " " + units[unit];
}
const place = item => item.file ? `${item.file}:${item.line}` : "unknown line";
const gpus = report.memory.filter(m => m.device !== "cpu").length;
const device = name => name === "cpu" ? "CPU" : gpus > 1 ? name.toUpperCase() : "GPU";
function section(title, ...children) { main.append(node("h2", {}, title), ...children); }
// Columns whose header begins with "<" hold text.
function table(headers, rows) {
  const cell = (tag, text, i) => node(tag, headers[i].startsWith("<") ? { class: "text" } : {}, text);
  const body = node("tbody");
  for (const row of rows) {
    const line = node("tr", row.nested ? { class: "nested" } : {}, ...row.cells.map((text, i) => cell("td", String(text), i)));
    if (row.indent) line.firstChild.style.paddingLeft = 14 + 18 * row.indent + "px";
    body.append(line);
  }
  const head = node("tr", {}, ...headers.map((text, i) => cell("th", text.replace("<", ""), i)));
  return node("div", { class: "card wide" }, node("table", {}, node("thead", {}, head), body));
}
function tile(label, value, note) {
  return node("div", { class: "card tile" }, node("span", { class: "soft" }, label), node("b", {}, value),
              node("span", { class: "soft" }, note));
}
main.append(node("h1", {}, "Profiling Report"),
  node("div", { class: "soft" }, "Place: " + report.place + (report.virtual_time ? ", virtual time" : "") +
       (report.copy_mode ? ". Implicit copies: " + report.copy_mode : "") + ". Times in milliseconds."),
  node("div", { class: "tiles" },
    tile("Total time", ms(report.total_ns) + " ms", report.virtual_time ? "virtual" : "elapsed"),
    tile("Computation", ms(report.computation_ns) + " ms", share(ratio(report.computation_ns))),
    tile("Framework overhead", ms(report.overhead_ns) + " ms", share(ratio(report.overhead_ns))),
    tile("GPU memory copies", report.memcpy.calls,
         `${report.memcpy.async.calls} asynchronous, ${report.memcpy.sync.calls} synchronous`)));
const reads = report.memcpy.fetches, readsText = reads.calls ? `Explicit reads: ${reads.calls} ` +
  `${reads.calls === 1 ? "call" : "calls"}, host blocked for ${ms(reads.blocked_ns)} ms (draining ${ms(reads.drain_ns)} ` +
  `ms, copying ${ms(reads.transfer_ns)} ms). ` : "";
if (reads.calls) main.lastChild.append(tile("Explicit reads", reads.calls, `host blocked for ${ms(reads.blocked_ns)} ms`));

function finding(item, index) {
  const longest = Math.max(...report.findings.map(f => f.blocked_ns), 1);
  const part = (ns, color) => node("i", { style: `width:${100 * ns / longest}%;background:var(${color})` });
  const card = node("div", { class: "card finding" },
    node("h3", {}, `${index + 1}. ${item.op} at `, node("code", { title: item.function }, place(item))),
    node("div", { class: "split" }, part(item.drain_ns, "--sync"), part(item.transfer_ns, "--copy")),
    node("p", {}, `${item.calls} synchronous ${item.calls === 1 ? "copy" : "copies"} ${device(item.from)} → ` +
      `${device(item.to)} of ${item.variable || "a tensor"}, ${bytes(item.bytes)} in all. Host blocked for ` +
      `${ms(item.blocked_ns)} ms (${share(ratio(item.blocked_ns))} of the total time): draining ` +
      `${ms(item.drain_ns)} ms, copying ${ms(item.transfer_ns)} ms.`),
    node("p", { class: "soft" }, item.placement + "." + (item.scope ? ` Scope: ${item.scope}.` : "")));
  if (!item.advice.length) card.append(node("p", { class: "soft" }, "Moving no recorded op would save time; tensors made before recording stay where they are."));
  const text = a => a.same_as === undefined ? a.text : `same change as ${a.same_as + 1}: ${a.text.split(": ")[0]}`;
  item.advice.forEach((a, i) => card.append(node("p", { class: "change" }, (i ? "Or: " : "Change: ") + text(a) + ".")));
  return card;
}
section("Findings", ...(report.findings.length ? report.findings.map(finding)
  : [node("div", { class: "card" }, "No implicit copy blocked the host.")]));

const kinds = ["scope", "op", "copy", "kernel", "device_copy"];
function timeline() {
  const { tracks, spans } = data.timeline;
  const canvas = node("canvas"), holder = node("div", { id: "timeline", class: "card" }, canvas);
  const tip = document.getElementById("tip"), left = 190, row = 20, axis = 26;
  const style = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  // Spans of one host thread nest: each level has a row of its own.
  let y = axis;
  for (const track of tracks) {
    track.spans = spans.filter(s => tracks[s.t] === track);
    const ends = [];
    for (const span of track.spans) {
      while (ends.length && ends[ends.length - 1] <= span.b) ends.pop();
      span.level = ends.length;
      ends.push(Math.max(span.e, span.b + 1));
    }
    track.rows = 1 + track.spans.reduce((most, s) => Math.max(most, s.level), 0);
    track.top = y;
    y += track.rows * row + 10;
  }
  const height = y, first = data.begin, last = Math.max(data.end, first + 1);
  let from = first, to = last;
  const width = () => canvas.clientWidth - left - 12;
  const x = time => left + (time - from) / (to - from) * width();
  function ticks(g) {
    const step = [1, 2, 5].map(f => f * 10 ** Math.floor(Math.log10((to - from) / 8)))
      .concat(10 ** Math.ceil(Math.log10((to - from) / 8))).find(s => (to - from) / s <= 9) || (to - from);
    for (let k = Math.ceil((from - first) / step); first + k * step <= to; ++k) {
      const time = first + k * step;
      g.fillStyle = style("line");
      g.fillRect(x(time), axis - 6, 1, height);
      g.fillStyle = style("soft");
      g.fillText(ms(k * step) + " ms", x(time) + 4, 12);
    }
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
    const colors = Object.fromEntries(kinds.concat("sync").map(k => [k, style(k)]));
    for (const track of tracks) {
      g.fillStyle = style("text");
      g.fillText(track.name, 14, track.top + row / 2, left - 22);
      g.save();
      g.beginPath();
      g.rect(left, 0, width(), height);
      g.clip();
      for (const span of track.spans) {
        const a = x(span.b), w = Math.max(x(span.e) - a, 1);
        if (a + w < left || a > left + width()) continue;
        g.fillStyle = span.s ? colors.sync : colors[kinds[span.k]];
        g.fillRect(a, track.top + span.level * row, w > 3 ? w - 0.5 : w, row - 2);
        if (w > 28 && g.measureText(span.n).width + 10 < Math.max(w, 90)) {
          g.fillStyle = kinds[span.k] === "scope" ? style("text") : "#10141a";
          g.save();
          g.beginPath();
          g.rect(a, 0, w - 4, height);
          g.clip();
          g.fillText(span.n, Math.max(a, left) + 5, track.top + span.level * row + row / 2 - 1);
          g.restore();
        }
      }
      g.restore();
    }
  }
  function under(event) {
    const box = canvas.getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top;
    const track = tracks.find(t => py >= t.top && py < t.top + t.rows * row);
    return track && px >= left && track.spans.find(s => s.level === Math.floor((py - track.top) / row) &&
      px >= x(s.b) - 1 && px <= Math.max(x(s.e), x(s.b) + 1) + 1);
  }
  function hover(event) {
    const span = under(event);
    tip.style.display = span ? "block" : "none";
    if (!span) return;
    const lines = [`${ms(span.e - span.b)} ms, from ${ms(span.b - first)} ms`];
    if (span.l) lines.push(span.l);
    if (span.c) lines.push("Scope: " + span.c);
    if (span.z) lines.push(bytes(span.z));
    tip.replaceChildren(node("b", {}, span.n), ...lines.map(text => node("div", {}, text)));
    tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8) + "px";
    tip.style.top = Math.min(event.clientY + 16, innerHeight - tip.offsetHeight - 8) + "px";
  }
  function view(a, b) {
    const length = Math.min(Math.max(b - a, 100), last - first);
    from = Math.min(Math.max(a, first), last - length);
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
  canvas.addEventListener("dblclick", () => view(first, last));
  const legend = [["scope", "scope"], ["op", "op on the host"], ["copy", "copy, host side"], ["sync", "synchronous copy"],
    ["kernel", "kernel"], ["device_copy", "copy engine"]];
  section("Timeline", holder, node("p", { class: "soft legend" },
    ...legend.map(([color, text]) => node("span", {}, node("i", { style: `background:var(--${color})` }), text)),
    "Wheel zooms, dragging moves, a double click shows all." +
    (data.left_out ? ` The ${data.left_out} shortest spans are left out.` : "")));
  new ResizeObserver(draw).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
}
if (data.timeline.spans.length) timeline();

function figures(item) {
  const part = ns => `${ms(ns)} (${share(item.total_ns ? ns / item.total_ns : 0)})`;
  return [item.calls, ms(item.total_ns), part(item.cpu_ns), part(item.gpu_ns), ms(item.min_ns), ms(item.max_ns),
          ms(item.ave_ns), share(item.ratio)];
}
function events(list) {
  const rows = [];
  for (const item of list) {
    rows.push({ indent: item.depth, cells: [(item.kind === "scope" ? "scope " : "") + item.name, ...figures(item)] });
    for (const copy of item.copies) rows.push({ indent: item.depth + 1, nested: true, cells: [copy.name, ...figures(copy)] });
  }
  return table(["<Event", "Calls", "Total", "CPU Time (Ratio)", "GPU Time (Ratio)", "Min.", "Max.", "Ave.", "Ratio."], rows);
}
const copies = [["GpuMemcpy", report.memcpy], ["GpuMemcpyAsync", report.memcpy.async], ["GpuMemcpySync", report.memcpy.sync]];
section("GpuMemCpy Summary", table(["<Copies", "Calls", "Total", "Ratio"], copies.filter(([, c], i) => !i || c.calls)
  .map(([name, c], i) => ({ indent: i ? 1 : 0, cells: [name, c.calls, ms(c.total_ns), share(c.ratio)] }))),
  node("p", { class: "soft" }, readsText + "Total = host time + device time of the copies. Both overlap: ratios to the " +
    "total time may sum to more than 100 %."));
const overlap = () => node("p", { class: "soft" }, "Total = CPU Time + GPU Time. Host and device overlap: ratios to the " +
  "total time may sum to more than 100 %.");
if (report.events) section("Event Summary", events(report.events), overlap());
for (const thread of report.threads || []) section(`Event Summary, thread ${thread.thread}`, events(thread.events));
if (report.memory.length) section("Memory Summary", table(
  ["<Device", "Peak allocated", "Peak reserved", "Capacity", "Copied to", "Copied from"],
  report.memory.map(m => ({ cells: [m.name && m.name !== m.device ? `${m.device} (${m.name})` : m.device,
    bytes(m.peak_allocated), bytes(m.peak_reserved), bytes(m.capacity), bytes(m.bytes_to_device),
    bytes(m.bytes_from_device)] }))));
if (report.explicit_reads.length) section("Explicit reads", table(
  ["<Op", "<Line", "<Variable", "<Copies", "Calls", "Bytes", "Blocked"],
  report.explicit_reads.map(r => ({ cells: [r.op, place(r), r.variable, `${device(r.from)} → ${device(r.to)}`, r.calls,
    bytes(r.bytes), ms(r.blocked_ns)] }))));
if (report.unavailable_reads) main.append(node("p", {},
  `${report.unavailable_reads} values were read in timing-only mode, where no values exist: each gave 0.`));
</script>
</body>
</html>
)html";

}  // namespace ferry::profiler
