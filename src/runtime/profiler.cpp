// The public Profiler: a recorder attached to the runtime, and the report of its trace.
#include <ferry/profiler.h>

#include <ostream>

#include <nlohmann/json.hpp>

#include "placement/advisor.h"
#include "placement/cost_model.h"
#include "placement/placement_plan.h"
#include "placement/split_updates.h"
#include "profiler/exporters.h"
#include "profiler/report.h"
#include "src/device/activity_source.h"
#include "src/runtime/runtime_core.h"
#include "src/trace/trace_json.h"

namespace ferry {

struct Profiler::State {
  std::shared_ptr<RuntimeCore> core = current_core();
  profiler::Recorder recorder;
  Nanoseconds begin{}, end{};
  bool recording = true;
  std::optional<trace::Trace> trace;
  std::vector<trace::Hotspot> findings;
  std::vector<CopyActivity> activities;

  const trace::Trace& finished();
};

Profiler::Profiler() : state_(std::make_unique<State>()) {
  state_->core->set_recorder(&state_->recorder);
  state_->begin = state_->core->clock().now();
}

Profiler::~Profiler() {
  if (state_->recording) state_->core->set_recorder(nullptr);
}

void Profiler::stop() {
  if (!state_->recording) return;
  state_->core->synchronize();
  for (const auto& context : state_->core->devices()) {
    context->driver->flush_work_records();
    auto* const source = dynamic_cast<ActivitySource*>(context->driver.get());
    if (source == nullptr) continue;
    if (auto activity = source->copy_activity()) state_->activities.push_back(std::move(*activity));
  }
  state_->end = state_->core->clock().now();
  state_->core->set_recorder(nullptr);
  state_->recording = false;
}

namespace {

trace::DeviceInfo describe_device(const DeviceContext& context, RuntimeCore& core) {
  const DriverInfo& info = context.driver->info();
  const AllocatorStats stats = context.allocator->stats();
  trace::DeviceInfo result{
      context.device,      info.name, info.description, core.clock().is_virtual(), info.capacity, stats.peak_allocated,
      stats.peak_reserved, {}};
  if (context.device.is_gpu()) result.streams = {"compute", "h2d", "d2h"};
  return result;
}

}  // namespace

const trace::Trace& Profiler::State::finished() {
  if (trace) return *trace;
  trace = recorder.finish();
  trace->begin = begin;
  trace->end = end;
  trace->copy_mode = core->options().copy_mode == CopyMode::staged ? "staged" : "synchronous";
  for (const auto& context : core->devices()) trace->devices.push_back(describe_device(*context, *core));
  findings = profiler::find_hotspots(*trace);
  placement::advise(*trace, findings);
  return *trace;
}

std::string Profiler::report(ProfileReportOptions options) {
  const profiler::SortKey sort = profiler::parse_sort_key(options.sort);
  stop();
  const trace::Trace& trace = state_->finished();
  return profiler::report_text(trace, {sort, options.per_thread, state_->findings, state_->activities});
}

std::string Profiler::report_json() {
  stop();
  const trace::Trace& trace = state_->finished();
  return profiler::report_json(trace, {.findings = state_->findings, .activities = state_->activities})
      .dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

PlacementAdvice Profiler::advise_placement(Bytes device_memory) {
  stop();
  const trace::Trace trace = placement::split_updates(state_->finished());
  const std::optional<placement::CostModel> model = placement::model_of_specs(trace);
  const placement::Replay replay(trace, model ? &*model : nullptr);
  const placement::PlacementPlan plan = placement::plan_placement(replay, {.capacity = device_memory});
  return {.text = placement::plan_text(replay, plan),
          .file = placement::plan_file(replay, plan),
          .changes = !plan.scopes.empty(),
          .works = plan.reason.empty(),
          .recorded = plan.recorded,
          .predicted = plan.predicted};
}

void Profiler::write_trace(std::ostream& out) {
  stop();
  trace::write_json(state_->finished(), out);
}

void Profiler::write_chrome_trace(std::ostream& out) {
  stop();
  profiler::write_chrome_trace(state_->finished(), out);
}

void Profiler::write_html(std::ostream& out) {
  stop();
  const trace::Trace& trace = state_->finished();
  profiler::write_html(trace, {.findings = state_->findings, .activities = state_->activities}, out);
}

}  // namespace ferry
