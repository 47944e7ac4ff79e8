#include "profiler/analysis_report/page.h"

namespace ferry::profiler::analysis_report {

const PageParts kAnalysisPage = {
    "Trace Analysis",
    R"css(:root { --op: #93c5fd; --annotation: #cbd5e1; --frame: #e2e8f0; --call: #fcd34d; --kernel: #6ee7b7; --copy: #fdba74;
  --memset: #d8b4fe; --hot: #ef4444; }
@media (prefers-color-scheme: dark) { :root { --annotation: #94a3b8; --frame: #64748b; } }
.finding.allowed { border-left-color: var(--line); }
td { vertical-align: top; }
th.text, td.text { white-space: normal; min-width: 158px; overflow-wrap: anywhere; }
svg { display: block; width: 100%; margin-top: 8px; touch-action: pan-y; }
svg text { font: 10.5px system-ui, sans-serif; fill: var(--ink); pointer-events: none; }
svg text.track { fill: var(--soft); }
details { margin-top: 6px; }
summary { color: var(--soft); cursor: pointer; }
.note { min-height: 21px; color: var(--soft); font-size: 12.5px; }
)css",
    R"js(const report = data.report;
const drawn = (tag, attributes, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
const ms = ns => (ns / 1e6).toLocaleString("en", { maximumSignificantDigits: 6 }) + " ms";
const ways = { h2d: "CPU → GPU", d2h: "GPU → CPU", d2d: "GPU → GPU", h2h: "CPU → CPU", unknown: "" };
const place = item => [item.op, item.frame].filter(Boolean).join(" at ") || item.thread || "unknown place";
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
  return node("div", { class: "card finding" + (item.allowed ? " allowed" : "") }, ...lines);
}
const colors = [["frame", "function"], ["annotation", "region"], ["op", "op"], ["call", "call"],
  ["hot", "synchronous copy"], ["kernel", "kernel"], ["copy", "copy"], ["memset", "memset"]];
section("Hotspots", report.hotspots.length ? legend(colors) :
  node("p", {}, "No synchronous copy between host and device."), ...report.hotspots.map(hotspot));
if (report.memcpy.length) section("GpuMemCpy Summary", tableCard(
  ["<Copies", "<Direction", "<Host memory", "Calls", "Bytes", "GPU time", "Host blocked"],
  report.memcpy.map(m => ({ cells: [m.synchronous ? "GpuMemcpySync" : "GpuMemcpyAsync", ways[m.direction], m.memory, m.calls,
    bytes(m.bytes), ms(m.gpu_ns), ms(m.blocked_ns)] }))));
if (report.explicit.length) section("Explicit reads", tableCard(["<Op", "<Copies", "Calls", "Bytes", "Blocked"],
  report.explicit.map(r => ({ cells: [place(r), ways[r.direction], r.calls, bytes(r.bytes), ms(r.blocked_ns)] }))));
if (report.findings.length) section("Other findings", tableCard(["<Rule", "<Where", "<What", "Time", "<Change"],
  report.findings.map(f => ({ cells: [f.rule, f.op || f.frame ? place(f) : "", f.text, ms(f.blocked_ns), f.fix] }))));
if (report.files) section("Files", tableCard(["<File", "Rank", "Span", "To GPU", "From GPU", "Host blocked"],
  report.files.map(f => ({ cells: [f.trace, f.rank ?? "", ms(f.span_ns), f.sync_copies.h2d, f.sync_copies.d2h,
    ms(f.blocked_ns.h2d + f.blocked_ns.d2h)] }))));
if (report.warnings.length) section("Warnings", ...report.warnings.map(text => node("p", {}, text)));
)js"};

const PageParts kComparisonPage = {"Trace Comparison",
                                   R"css(th.text, td.text { white-space: normal; overflow-wrap: anywhere; }
td { vertical-align: top; }
td small { display: block; color: var(--soft); }
.went { color: var(--good); font-weight: 500; }
.appeared { color: var(--bad); font-weight: 500; }
tr.same td { color: var(--soft); }
)css",
                                   R"js(const { before, after, hotspots } = data;
const number = ns => (ns / 1e6).toLocaleString("en", { maximumSignificantDigits: 6 });
const ms = ns => number(ns) + " ms";
const ways = { h2d: "CPU → GPU", d2h: "GPU → CPU" };
const blocked = report => report.blocked_ns.h2d + report.blocked_ns.d2h;
const part = report => report.span_ns ? blocked(report) / report.span_ns : 0;
const place = item => [item.op, item.frame].filter(Boolean).join(" at ") || "unknown place";
const both = (a, b, text) => a === b ? text(a) : `${text(a)} → ${text(b)}`;

main.append(node("h1", {}, "Trace Comparison"), node("p", { class: "soft" }, "Before: " + before.trace),
  node("p", { class: "soft" }, "After: " + after.trace));
main.append(node("div", { class: "tiles" },
  tile("Host blocked", both(blocked(before), blocked(after), number) + " ms",
    both(part(before), part(after), share) + " of the span"),
  tile("Synchronous CPU → GPU", both(before.sync_copies.h2d, after.sync_copies.h2d, String)),
  tile("Synchronous GPU → CPU", both(before.sync_copies.d2h, after.sync_copies.d2h, String)),
  tile("Span", both(before.span_ns, after.span_ns, number) + " ms")));
const figure = (row, name, text) => both(row.before ? row.before[name] : 0, row.after ? row.after[name] : 0, text);
section("Hotspots", hotspots.length ? tableCard(["<Change", "<Where", "<Copies", "Calls", "Bytes", "Host blocked, ms"],
  hotspots.map(row => {
    const shown = row.after || row.before;
    const where = row.change === "moved" ? [node("small", {}, "was at " + row.before.frame)] : [];
    return { attributes: row.change === "same" ? { class: "same" } : {}, cells: [node("span", { class: row.change }, row.change),
      node("span", {}, place(shown), ...where), `${shown.rule}, ${ways[shown.direction] || ""}`,
      figure(row, "calls", String), figure(row, "bytes", bytes), figure(row, "blocked_ns", number)] };
  })) : node("p", {}, "No synchronous copy between host and device in either trace."));
)js"};

}  // namespace ferry::profiler::analysis_report
