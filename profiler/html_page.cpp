#include "profiler/html_page.h"

namespace ferry::profiler {

const PageParts kReportPage = {
    "Profiling Report",
    R"css(:root { --scope: #cbd5e1; --op: #60a5fa; --copy: #fdba74; --sync: #ef4444; --kernel: #34d399; --device_copy: #fb923c; }
@media (prefers-color-scheme: dark) { :root { --scope: #475569; } }
tr.nested td { color: var(--soft); }
)css",
    R"js(const report = data.report;
const ms = ns => (ns / 1e6).toLocaleString("en", { maximumSignificantDigits: 6 });
const ratio = ns => report.total_ns ? ns / report.total_ns : 0;
const place = item => item.file ? `${item.file}:${item.line}` : "unknown line";
const gpus = report.memory.filter(m => m.device !== "cpu").length;
const device = name => name === "cpu" ? "CPU" : gpus > 1 ? name.toUpperCase() : "GPU";
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
  const { tracks, spans } = data.timeline, row = 20, axis = 26, first = data.begin, last = Math.max(data.end, first + 1);
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
  const left = Math.min(190, main.clientWidth / 4);
  function draw(g, shown) {
    ticks(g, shown, first, axis);
    const colors = Object.fromEntries(kinds.concat("sync").map(k => [k, style(k)])), text = style("text"), ink = style("ink");
    for (const track of tracks) {
      g.fillStyle = text;
      g.fillText(track.name, 14, track.top + row / 2, left - 22);
      clipped(g, left, shown.width(), shown.height, () => {
        for (const s of track.spans)
          box(g, shown, shown.x(s.b), shown.x(s.e), track.top + s.level * row, row - 2,
            s.s ? colors.sync : colors[kinds[s.k]], s.n, kinds[s.k] === "scope" ? text : ink);
      });
    }
  }
  function hover(event, shown) {
    const px = event.offsetX, py = event.offsetY, track = tracks.find(t => py >= t.top && py < t.top + t.rows * row);
    const span = track && px >= left && track.spans.find(s => s.level === Math.floor((py - track.top) / row) &&
      px >= shown.x(s.b) - 1 && px <= Math.max(shown.x(s.e), shown.x(s.b) + 1) + 1);
    if (!span) return showTip();
    const lines = [`${ms(span.e - span.b)} ms, from ${ms(span.b - first)} ms`];
    if (span.l) lines.push(span.l);
    if (span.c) lines.push("Scope: " + span.c);
    if (span.z) lines.push(bytes(span.z));
    showTip(event, span.n, lines);
  }
  const shown = timeCanvas({ left, right: 12, height: y, least: 100, whole: () => [first, last], draw, hover });
  section("Timeline", node("div", { class: "card", style: "padding: 8px 0" }, shown.canvas), legend([["scope", "scope"],
    ["op", "op on the host"], ["copy", "copy, host side"], ["sync", "synchronous copy"], ["kernel", "kernel"],
    ["device_copy", "copy engine"]], howToMove + (data.left_out ? ` The ${data.left_out} shortest spans are left out.` : "")));
  shown.all();
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
    for (const copy of item.copies) rows.push({ indent: item.depth + 1, attributes: { class: "nested" }, cells: [copy.name, ...figures(copy)] });
  }
  return tableCard(["<Event", "Calls", "Total", "CPU Time (Ratio)", "GPU Time (Ratio)", "Min.", "Max.", "Ave.", "Ratio."], rows);
}
const copies = [["GpuMemcpy", report.memcpy], ["GpuMemcpyAsync", report.memcpy.async], ["GpuMemcpySync", report.memcpy.sync]];
section("GpuMemCpy Summary", tableCard(["<Copies", "Calls", "Total", "Ratio"], copies.filter(([, c], i) => !i || c.calls)
  .map(([name, c], i) => ({ indent: i ? 1 : 0, cells: [name, c.calls, ms(c.total_ns), share(c.ratio)] }))),
  node("p", { class: "soft" }, readsText + "Total = host time + device time of the copies. Both overlap: ratios to the " +
    "total time may sum to more than 100 %."));
const overlap = () => node("p", { class: "soft" }, "Total = CPU Time + GPU Time. Host and device overlap: ratios to the " +
  "total time may sum to more than 100 %.");
if (report.events) section("Event Summary", events(report.events), overlap());
for (const thread of report.threads || []) section(`Event Summary, thread ${thread.thread}`, events(thread.events));
if (report.memory.length) section("Memory Summary", tableCard(
  ["<Device", "Peak allocated", "Peak reserved", "Capacity", "Copied to", "Copied from"],
  report.memory.map(m => ({ cells: [m.name && m.name !== m.device ? `${m.device} (${m.name})` : m.device,
    bytes(m.peak_allocated), bytes(m.peak_reserved), bytes(m.capacity), bytes(m.bytes_to_device),
    bytes(m.bytes_from_device)] }))));
if (report.explicit_reads.length) section("Explicit reads", tableCard(
  ["<Op", "<Line", "<Variable", "<Copies", "Calls", "Bytes", "Blocked"],
  report.explicit_reads.map(r => ({ cells: [r.op, place(r), r.variable, `${device(r.from)} → ${device(r.to)}`, r.calls,
    bytes(r.bytes), ms(r.blocked_ns)] }))));
if (report.unavailable_reads) main.append(node("p", {},
  `${report.unavailable_reads} values were read in timing-only mode, where no values exist: each gave 0.`));
)js"};

}  // namespace ferry::profiler
