#include "profiler/analysis_report/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <tuple>

#include "profiler/format.h"

namespace ferry::profiler::analysis_report {
namespace {

using nlohmann::json;

// "net.py(31): forward" → "net.py: forward", "net.py:31" → "net.py:": the line number goes.
std::string without_line(std::string_view frame) {
  std::string text(frame);
  const std::size_t open = text.find('('), close = text.find(')');
  if (open != std::string::npos && close != std::string::npos && close > open &&
      std::all_of(text.begin() + open + 1, text.begin() + close, [](char c) { return c >= '0' && c <= '9'; })) {
    return text.erase(open, close + 1 - open);
  }
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) return text;
  const std::size_t end = std::min(text.find_first_not_of("0123456789", colon + 1), text.size());
  return text.erase(colon, end - colon);
}

bool is_same_kind(const Finding& a, const Finding& b) {
  return std::tie(a.rule, a.op, a.direction, a.memory, a.chain) ==
         std::tie(b.rule, b.op, b.direction, b.memory, b.chain);
}

std::int64_t growth(const Difference& difference) {
  const std::int64_t before = difference.before == nullptr ? 0 : difference.before->blocked.count();
  const std::int64_t after = difference.after == nullptr ? 0 : difference.after->blocked.count();
  return after - before;
}

Change change_of(const Finding& before, const Finding& after) {
  if (before.frame != after.frame) return Change::moved;
  const bool same_calls = before.calls == after.calls && before.size == after.size;
  // Times of two runs differ always; a tenth is more than their noise.
  const std::int64_t step = std::abs(after.blocked.count() - before.blocked.count());
  return same_calls && step * 10 <= before.blocked.count() ? Change::same : Change::changed;
}

std::string_view word(Change change) {
  switch (change) {
    case Change::appeared:
      return "appeared";
    case Change::went:
      return "went";
    case Change::moved:
      return "moved";
    case Change::changed:
      return "changed";
    case Change::same:
      break;
  }
  return "same";
}

std::string arrow(const std::string& before, const std::string& after) {
  return before == after ? before : before + " -> " + after;
}

std::vector<std::array<std::string, 3>> total_rows(const AnalysisReport& before, const AnalysisReport& after) {
  const auto count = [](std::int64_t value) { return std::to_string(value); };
  return {
      {"", "Before", "After"},
      {"Synchronous CPU->GPU", count(before.sync_h2d.calls), count(after.sync_h2d.calls)},
      {"Synchronous GPU->CPU", count(before.sync_d2h.calls), count(after.sync_d2h.calls)},
      {"Host blocked, ms", milliseconds(before.blocked()), milliseconds(after.blocked())},
      {"Share of the span", short_percent(before.share(before.blocked())), short_percent(after.share(after.blocked()))},
      {"Span, ms", milliseconds(before.span), milliseconds(after.span)}};
}

struct ChangedRow {
  std::string change, place, rule, calls, blocked;
};
struct ChangedRows {
  std::vector<ChangedRow> rows;
  std::string rest;  // what the rows leave out
};

ChangedRows changed_rows(const AnalysisReport& before, const AnalysisReport& after, std::size_t top) {
  ChangedRows all;
  std::int64_t same = 0, more = 0;
  const Finding none;
  for (const Difference& each : compare_hotspots(before, after)) {
    if (each.change == Change::same) {
      ++same;
      continue;
    }
    if (all.rows.size() == top) {
      ++more;
      continue;
    }
    const Finding& a = each.before != nullptr ? *each.before : none;
    const Finding& b = each.after != nullptr ? *each.after : none;
    const Finding& shown = each.after != nullptr ? b : a;
    std::string place = place_text(shown);
    if (each.change == Change::moved) place += " (was " + a.frame + ")";
    all.rows.push_back({std::string(word(each.change)), std::move(place),
                        fmt::format("{} {}", shown.rule, direction_text(shown.direction)),
                        arrow(std::to_string(a.calls), std::to_string(b.calls)),
                        arrow(milliseconds(a.blocked), milliseconds(b.blocked))});
  }
  all.rest = counted(same, "hotspot", "hotspots") + " unchanged";
  if (more > 0) all.rest = fmt::format("… {} more changed (--top), {}", more, all.rest);
  return all;
}

}  // namespace

std::vector<Difference> compare_hotspots(const AnalysisReport& before, const AnalysisReport& after) {
  std::vector<Difference> differences;
  std::vector<const Finding*> left;
  for (const Finding& finding : after.hotspots) left.push_back(&finding);
  std::vector<const Finding*> unmatched;
  const auto match = [&](const Finding& old, auto same_place) {
    const auto found = std::ranges::find_if(
        left, [&](const Finding* each) { return is_same_kind(old, *each) && same_place(each->frame); });
    if (found == left.end()) return false;
    differences.push_back({change_of(old, **found), &old, *found});
    left.erase(found);
    return true;
  };
  // Places that stayed are matched before those that moved, lest a line take its neighbour's.
  for (const Finding& old : before.hotspots) {
    if (!match(old, [&](const std::string& frame) { return frame == old.frame; })) unmatched.push_back(&old);
  }
  for (const Finding* old : unmatched) {
    const std::string place = without_line(old->frame);
    if (!match(*old, [&](const std::string& frame) { return without_line(frame) == place; }))
      differences.push_back({Change::went, old, nullptr});
  }
  for (const Finding* fresh : left) differences.push_back({Change::appeared, nullptr, fresh});
  std::ranges::stable_sort(
      differences, [](const Difference& a, const Difference& b) { return std::abs(growth(a)) > std::abs(growth(b)); });
  return differences;
}

std::string comparison_text(const AnalysisReport& before, const AnalysisReport& after, const PrintOptions& options) {
  using Align = TextTable::Align;
  std::string text = fmt::format("\nBefore: {}\nAfter:  {}\n\n", before.source, after.source);
  TextTable totals({Align::left, Align::right, Align::right});
  for (const auto& [name, a, b] : total_rows(before, after)) totals.add({name, a, b});
  text += totals.render() + '\n';
  const ChangedRows changes = changed_rows(before, after, options.top);
  if (!changes.rows.empty()) {
    TextTable table({Align::left, Align::left, Align::left, Align::right, Align::right});
    table.add({"Change", "Hotspot", "Rule", "Calls", "Blocked, ms"});
    for (const ChangedRow& row : changes.rows) table.add({row.change, row.place, row.rule, row.calls, row.blocked});
    text += table.render();
  }
  return text + changes.rest + '\n';
}

std::string comparison_markdown(const AnalysisReport& before, const AnalysisReport& after,
                                const PrintOptions& options) {
  std::string text = fmt::format("## {} → {}\n\n| | before | after |\n|---|--:|--:|\n", markdown_cell(before.source),
                                 markdown_cell(after.source));
  for (const auto& [name, a, b] : total_rows(before, after))
    text += name.empty() ? "" : fmt::format("| {} | {} | {} |\n", name, a, b);
  const ChangedRows changes = changed_rows(before, after, options.top);
  if (!changes.rows.empty()) text += "\n| change | hotspot | rule | calls | blocked ms |\n|---|---|---|--:|--:|\n";
  for (const ChangedRow& row : changes.rows) {
    text += fmt::format("| {} | {} | {} | {} | {} |\n", row.change, markdown_cell(row.place), markdown_cell(row.rule),
                        markdown_cell(row.calls), markdown_cell(row.blocked));
  }
  return text + '\n' + changes.rest + '\n';
}

json comparison_json(const AnalysisReport& before, const AnalysisReport& after, std::optional<std::size_t> top) {
  const auto totals = [](const AnalysisReport& report) {
    return json{{"trace", report.source},
                {"sync_copies", {{"h2d", report.sync_h2d.calls}, {"d2h", report.sync_d2h.calls}}},
                {"blocked_ns", {{"h2d", report.sync_h2d.blocked.count()}, {"d2h", report.sync_d2h.blocked.count()}}},
                {"span_ns", report.span.count()}};
  };
  const auto side = [](const Finding* finding) -> json {
    if (finding == nullptr) return nullptr;
    return {{"op", finding->op},
            {"frame", finding->frame},
            {"rule", finding->rule},
            {"direction", short_direction(finding->direction)},
            {"calls", finding->calls},
            {"bytes", finding->size.count},
            {"blocked_ns", finding->blocked.count()}};
  };
  json out = {{"before", totals(before)}, {"after", totals(after)}, {"hotspots", json::array()}};
  for (const Difference& each : compare_hotspots(before, after)) {
    if (top && out["hotspots"].size() == *top) break;
    out["hotspots"].push_back(
        {{"change", word(each.change)}, {"before", side(each.before)}, {"after", side(each.after)}});
  }
  return out;
}

}  // namespace ferry::profiler::analysis_report
