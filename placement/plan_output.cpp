// A placement plan as text and as a placement file.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "placement/placement_plan.h"

namespace ferry::placement {
namespace {

using nlohmann::ordered_json;

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

// The end of the site's path that no other file of the trace has, from a '/' on.
std::string short_file(const trace::Trace& trace, const std::string& path) {
  for (std::size_t slash = path.size(); (slash = path.rfind('/', slash - 1)) != std::string::npos && slash > 0;) {
    const std::string tail = path.substr(slash);
    const bool unique = std::ranges::all_of(
        trace.sites, [&](const trace::Site& site) { return site.file == path || !site.file.ends_with(tail); });
    if (unique) return tail.substr(1);
  }
  return path;
}

std::string site_text(const trace::Trace& trace, trace::SiteIndex index) {
  const trace::Site& site = trace.sites[at(index)];
  return fmt::format("{}:{}", short_file(trace, site.file), site.line);
}

std::string milliseconds(Nanoseconds time) { return fmt::format("{:.4g} ms", static_cast<double>(time.count()) / 1e6); }

std::string guard_text(Device device) {
  if (device.is_cpu()) return "DeviceGuard<cpu>";
  return device.index == 0 ? "DeviceGuard<gpu>" : fmt::format("DeviceGuard<> for \"{}\"", to_string(device));
}

ordered_json rule(const Replay& replay, const Group& group, bool with_scope, Device device) {
  const trace::Trace& trace = replay.trace();
  ordered_json rule = {{"site", site_text(trace, group.site)}, {"op", trace.string(group.op)}};
  if (with_scope && group.scope >= 0) rule["scope"] = trace.string(group.scope);
  rule["device"] = to_string(device);
  return rule;
}

// A rule for each module path of the line, also of those that stay: a shorter pattern holds in longer paths, so those
// come first, and last the calls outside of modules.
void add_scoped_rules(const Replay& replay, const PlacementPlan& plan, const PlacedScope& scope, ordered_json& rules) {
  const trace::Trace& trace = replay.trace();
  std::vector<std::size_t> groups;
  for (std::size_t i = 0; i < replay.groups().size(); ++i) {
    const Group& group = replay.groups()[i];
    const trace::OpRecord& first = trace.ops[at(group.ops.front())];
    if (group.site == scope.site && group.op == scope.op && first.cause != trace::PlacementCause::inherited)
      groups.push_back(i);
  }
  std::ranges::stable_sort(groups, std::ranges::greater{}, [&](std::size_t i) {
    const trace::StringIndex path = replay.groups()[i].scope;
    return path < 0 ? 0 : trace.string(path).size();
  });
  for (const std::size_t i : groups) rules.push_back(rule(replay, replay.groups()[i], true, plan.places[i]));
}

}  // namespace

std::string plan_text(const Replay& replay, const PlacementPlan& plan) {
  const trace::Trace& trace = replay.trace();
  if (!plan.reason.empty()) return fmt::format("Placement: {}\n", plan.reason);
  if (plan.scopes.empty()) {
    return fmt::format("Placement: everything stays; no other one is predicted to take less than {}\n",
                       milliseconds(plan.recorded));
  }
  std::string text = fmt::format(
      "Placement: {} predicted, {} as recorded; device memory {} predicted, {} as recorded\n",
      milliseconds(plan.predicted), milliseconds(plan.recorded), to_string(plan.peak), to_string(plan.recorded_peak));
  if (plan.must_move) text += "As recorded it does not fit into the device's memory.\n";
  text +=
      plan.must_move ? "Scopes to add:\n" : "Scopes to add, with the time once each and those above it are there:\n";
  for (const PlacedScope& scope : plan.scopes) {
    text += fmt::format("  {:<18} around {} ({}), {} {}", guard_text(scope.device), site_text(trace, scope.site),
                        trace.string(scope.op), scope.calls, scope.calls == 1 ? "call" : "calls");
    if (!plan.must_move) text += fmt::format(": {}", milliseconds(scope.predicted));
    for (std::size_t i = 0; i < scope.scopes.size(); ++i) {
      text += fmt::format("{}{}", i == 0 ? ", in " : ", ",
                          scope.scopes[i] < 0 ? "no module" : trace.string(scope.scopes[i]));
    }
    text += '\n';
  }
  return text;
}

std::string plan_file(const Replay& replay, const PlacementPlan& plan) {
  ordered_json rules = ordered_json::array();
  for (const PlacedScope& scope : plan.scopes) {
    if (!scope.scopes.empty()) {
      add_scoped_rules(replay, plan, scope, rules);
      continue;
    }
    const auto any = std::ranges::find_if(
        replay.groups(), [&](const Group& group) { return group.site == scope.site && group.op == scope.op; });
    rules.push_back(rule(replay, *any, false, scope.device));
  }
  return ordered_json{{"rules", std::move(rules)}}.dump(2) + "\n";
}

}  // namespace ferry::placement
