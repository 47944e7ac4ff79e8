#include "tools/ferry/compare_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "tools/ferry/compare_page_text.h"

namespace ferry::cli {
namespace {

using Json = nlohmann::ordered_json;

// As the page's script numbers them.
enum Lane { kCompute, kOut, kIn };
enum Kind { kForward, kBackward, kUpdate, kRecompute, kSwap, kOtherCopy };

Kind kind_of(trace::Phase phase) {
  switch (phase) {
    case trace::Phase::backward:
      return kBackward;
    case trace::Phase::optimizer:
      return kUpdate;
    case trace::Phase::recompute:
      return kRecompute;
    default:
      return kForward;
  }
}

// The device's work of a trace, and its memory in the order of that work.
class TimelineJson {
 public:
  explicit TimelineJson(const trace::Trace& trace) : trace_(trace) {
    for (const trace::OpRecord& op : trace.ops)
      if (op.correlation != 0) ops_.emplace(op.correlation, &op);
    for (const trace::CopyRecord& copy : trace.copies)
      if (copy.correlation != 0) copies_.emplace(copy.correlation, &copy);
  }

  Json make() {
    Json spans = Json::array();
    Nanoseconds end = trace_.end;
    for (const trace::WorkRecord& work : trace_.work) {
      if (work.device.is_cpu()) continue;
      end = std::max(end, work.end);
      spans.push_back(span(work));
    }
    Json memory = memory_json();
    return {{"length", (end - trace_.begin).count()},
            {"names", names_},
            {"spans", std::move(spans)},
            {"memory", std::move(memory)}};
  }

 private:
  // [lane, kind, begin, length, name, bytes], times from the trace's begin.
  Json span(const trace::WorkRecord& work) {
    const std::int64_t begin = (work.begin - trace_.begin).count(), length = (work.end - work.begin).count();
    if (work.kind == trace::WorkKind::kernel) {
      const auto op = ops_.find(work.correlation);
      const bool is_known = op != ops_.end();
      const std::string name = is_known ? trace_.string(op->second->name) : "kernel";
      return {kCompute, is_known ? kind_of(op->second->phase) : kForward, begin, length, number_of(name), 0};
    }
    const auto copy = copies_.find(work.correlation);
    const bool is_swap = copy != copies_.end() && copy->second->cause == trace::CopyCause::swap;
    const std::int64_t bytes = copy == copies_.end() ? 0 : copy->second->size.count;
    const int lane = work.engine == trace::Engine::device_to_host ? kOut : kIn;
    return {lane, is_swap ? kSwap : kOtherCopy, begin, length, number_of(is_swap ? "swap" : "copy"), bytes};
  }

  // The host runs ahead of the device: what an op allocated is drawn when its kernel begins.
  Json memory_json() const {
    std::unordered_map<std::uint64_t, Nanoseconds> begins;
    for (const trace::WorkRecord& work : trace_.work)
      if (work.kind == trace::WorkKind::kernel) begins.emplace(work.correlation, work.begin);
    std::unordered_map<Nanoseconds::rep, Nanoseconds> by_host_time;
    for (const trace::OpRecord& op : trace_.ops) {
      const auto begin = begins.find(op.correlation);
      if (begin != begins.end()) by_host_time[op.end.count()] = begin->second;
    }
    Json samples = Json::array();
    Nanoseconds last = trace_.begin;
    for (const trace::MemorySample& sample : trace_.memory) {
      if (sample.device.is_cpu()) continue;
      const auto at = by_host_time.find(sample.at.count());
      if (at == by_host_time.end()) continue;
      last = std::max(last, at->second);
      samples.push_back({(last - trace_.begin).count(), sample.allocated.count, sample.reserved.count});
    }
    return samples;
  }

  std::size_t number_of(const std::string& name) {
    const auto [entry, is_new] = numbers_.try_emplace(name, names_.size());
    if (is_new) names_.push_back(name);
    return entry->second;
  }

  const trace::Trace& trace_;
  std::unordered_map<std::uint64_t, const trace::OpRecord*> ops_;
  std::unordered_map<std::uint64_t, const trace::CopyRecord*> copies_;
  std::unordered_map<std::string, std::size_t> numbers_;
  std::vector<std::string> names_;
};

Json cost_json(Nanoseconds cost) { return cost == Nanoseconds::max() ? Json(nullptr) : Json(cost.count()); }

}  // namespace

Json decisions_json(const swap::Plan& plan, const swap::Iteration& iteration) {
  constexpr const char* kChoices[] = {"keep", "swap", "recompute"};
  const auto op_name = [&](swap::OpIndex op) {
    if (op == swap::kNone) return std::string("start");
    if (op >= std::ssize(iteration.ops)) return std::string("end");
    return fmt::format("{} {}", iteration.ops[static_cast<std::size_t>(op)].name, op);
  };
  Json result = Json::array();
  for (const swap::StoragePlan& it : swap::decisions(plan, iteration)) {
    Json away = Json::array();
    for (const swap::Window& window : it.windows) {
      away.push_back(fmt::format("{} after {}, {} before {}", window.choice == swap::Choice::swap ? "out" : "dropped",
                                 op_name(window.leaves_after),
                                 window.choice == swap::Choice::swap ? "in" : "recomputed",
                                 op_name(window.back_before)));
    }
    result.push_back({{"tensor", swap::storage_name(iteration, it.storage)},
                      {"bytes", iteration.storages[static_cast<std::size_t>(it.storage)].size.count},
                      {"choice", kChoices[static_cast<std::size_t>(it.choice)]},
                      {"away", std::move(away)},
                      {"idle_from", op_name(it.idle_from)},
                      {"idle_to", op_name(it.idle_to)},
                      {"idle_ns", it.idle.count()},
                      {"recompute_ns", cost_json(it.recompute_cost)},
                      {"swap_ns", cost_json(it.swap_cost)},
                      {"why", swap::reason(it, plan, iteration)}});
  }
  return result;
}

std::string compare_page(const Json& figures, std::span<const MeasuredRow> rows) {
  Json data = figures;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const MeasuredRow& row = rows[i];
    Json& entry = data["rows"][i];
    entry["text"] = row.method->text;
    entry["note"] = row.note;
    if (!row.measured) continue;
    entry["timeline"] = TimelineJson(row.measured->trace).make();
    if (row.measured->plan) entry["decisions"] = decisions_json(*row.measured->plan, row.measured->iteration);
  }
  return profiler::page(kComparePage, data.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace ferry::cli
