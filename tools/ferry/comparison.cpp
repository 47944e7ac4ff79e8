#include "tools/ferry/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <unordered_map>

#include <ferry/max_batch.h>
#include "profiler/recorder.h"
#include "src/base/check.h"
#include "src/runtime/budget.h"
#include "src/runtime/runtime_core.h"
#include "swap/engine/planning.h"

namespace ferry::cli {
namespace {

constexpr Bytes kMoreThanEnough = kGiB * 4096;
// The first step makes gradients and state, the second is the first like all others.
constexpr int kWarmUp = 3;
// So many more until the plan is in use, at the most.
constexpr int kUntilPlanned = 4;
constexpr int kRecordedSteps = 2;
// Without a recorder, on a real GPU.
constexpr int kTimedSteps = 10;
// Of a real GPU's memory, for what is not its allocator's: scratch memory of kernels and libraries.
constexpr double kUsableMemory = 0.9;
// A budget that fails is raised by this part of it.
constexpr double kBudgetStep = 0.03;

constexpr auto kMethods = std::to_array<Method>({
    {.name = "none", .text = "everything is kept"},
    {.name = "checkpoint", .text = "blocks recomputed in backward, √n segments", .checkpoints = true},
    {.name = "recompute",
     .text = "dropped by the policy dtr, recomputed on demand",
     .evicts = EvictionMethods::recompute,
     .policy = "dtr"},
    {.name = "recompute_planned",
     .text = "dropped and recomputed by plan",
     .evicts = EvictionMethods::recompute,
     .policy = "dtr",
     .plans = true},
    {.name = "swap_on_demand", .text = "swapped when memory is short", .evicts = EvictionMethods::swap},
    {.name = "swap_planned", .text = "swapped and prefetched by plan", .evicts = EvictionMethods::swap, .plans = true},
    {.name = "hybrid", .text = "swapped or recomputed by plan", .evicts = EvictionMethods::both, .plans = true},
    {.name = "amp", .text = "16-bit types where they are fast", .mixed_precision = true},
    {.name = "accumulate", .text = "micro-batches whose gradients are added", .accumulates = true},
    {.name = "amp+hybrid",
     .text = "16-bit types, and swapped or recomputed by plan",
     .evicts = EvictionMethods::both,
     .plans = true,
     .mixed_precision = true},
});

MemoryBudgetOptions budget_options(const Method& method, Bytes size, bool plans) {
  return {.size = std::to_string(size.count),
          .methods = *method.evicts,
          .policy = std::string(method.policy),
          .plans = plans};
}

std::vector<models::Batch> batches(const models::Model& model, std::int64_t batch, std::int64_t parts,
                                   std::uint64_t seed) {
  std::vector<models::Batch> result;
  for (std::int64_t i = 0; i < std::min(parts, batch); ++i)
    result.push_back(model.random_batch(batch / parts + (i < batch % parts ? 1 : 0), seed));
  return result;
}

// The part of "0.5x"; none: another text.
std::optional<double> factor_of(std::string_view text) {
  double factor = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), factor);
  if (error != std::errc{} || end + 1 != text.data() + text.size() || *end != 'x') return std::nullopt;
  FERRY_CHECK(factor > 0 && factor <= 1000, InvalidArgument, "a budget of '{}' is out of range (0x to 1000x)", text);
  return factor;
}

Bytes part_of(Bytes whole, double part) {
  return Bytes{static_cast<std::int64_t>(static_cast<double>(whole.count) * part)};
}

// Records what happens in its lifetime.
class Recording {
 public:
  explicit Recording(Runtime& runtime) : core_(*runtime.core()) {
    core_.synchronize();
    begin_ = core_.clock().now();
    core_.set_recorder(&recorder_);
  }
  ~Recording() { core_.set_recorder(nullptr); }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  trace::Trace finish() {
    core_.synchronize();
    for (const auto& context : core_.devices()) context->driver->flush_work_records();
    trace::Trace trace = recorder_.finish();
    trace.begin = begin_;
    trace.end = core_.clock().now();
    return trace;
  }

 private:
  RuntimeCore& core_;
  profiler::Recorder recorder_;
  Nanoseconds begin_{};
};

StepFigures figures_of(const trace::Trace& trace, const MemoryStats& memory) {
  std::unordered_map<std::uint64_t, trace::Phase> phases;
  for (const trace::OpRecord& op : trace.ops)
    if (op.correlation != 0) phases.emplace(op.correlation, op.phase);
  Nanoseconds compute{}, recompute{};
  for (const trace::WorkRecord& work : trace.work) {
    if (work.kind != trace::WorkKind::kernel || work.device.is_cpu()) continue;
    const auto phase = phases.find(work.correlation);
    const bool again = phase != phases.end() && phase->second == trace::Phase::recompute;
    (again ? recompute : compute) += work.end - work.begin;
  }
  StepFigures figures{.peak_allocated = memory.peak_allocated, .peak_reserved = memory.peak_reserved};
  for (const trace::CopyRecord& copy : trace.copies) {
    if (copy.cause != trace::CopyCause::swap) continue;
    (copy.from.is_gpu() ? figures.bytes_out : figures.bytes_in) += copy.size;
  }
  figures.recompute = recompute / kRecordedSteps;
  figures.compute = compute / kRecordedSteps;
  figures.take_time((trace.end - trace.begin) / kRecordedSteps);
  figures.bytes_out.count /= kRecordedSteps;
  figures.bytes_in.count /= kRecordedSteps;
  return figures;
}

}  // namespace

void StepFigures::take_time(Nanoseconds time) {
  step = time;
  stall = std::max(step - compute - recompute, Nanoseconds{0});
}

std::span<const Method> all_methods() { return kMethods; }

Comparison::Comparison(JobOptions job, std::int64_t batch, const std::string& budget)
    : job_(std::move(job)), batch_(batch) {
  ::unsetenv("FERRY_MEMORY_BUDGET");  // each row has a budget of its own, or none
  {
    const Runtime probe({.device = job_.device, .values = false});
    device_ = probe.devices().back();
    FERRY_CHECK(device_.device.is_gpu(), InvalidArgument,
                "compare: {} is no GPU; give one with --device, such as sim:rtx2080ti or cuda", device_.name);
    const DriverInfo& info = probe.core()->context(device_.device).driver->info();
    link_ = {.out_bytes_per_second = info.link.out_bytes_per_second,
             .in_bytes_per_second = info.link.in_bytes_per_second,
             .latency = info.link.latency};
    mixed_precision_ = peak_flops(probe, DType::bf16) >= peak_flops(probe, DType::f16) ? "bf16" : "f16";
  }
  measure_without_budget(budget);
}

void Comparison::measure_without_budget(const std::string& budget) {
  const Method& none = kMethods.front();
  unlimited_ = run({.method = none, .memory = kMoreThanEnough, .batch = batch_});
  if (const std::optional<double> factor = factor_of(budget)) {
    budget_ = part_of(unlimited_.figures.peak_allocated, *factor);
  } else if (budget.empty()) {
    budget_ = device_.capacity;
  } else if (budget.ends_with('%')) {
    const std::optional<double> percent = factor_of(budget.substr(0, budget.size() - 1) + "x");
    FERRY_CHECK(percent, InvalidArgument, "a budget of '{}' is no part of the card's memory; write for example 80%",
                budget);
    budget_ = part_of(device_.capacity, *percent / 100);
  } else {
    budget_ = parse_bytes(budget);
  }
  FERRY_CHECK(budget_.count > 0, InvalidArgument, "a budget of '{}' is no memory at all", budget);
  if (!device_.simulated) {
    FERRY_CHECK(budget_ <= device_.capacity, InvalidArgument, "{} has {} free, less than the budget of {}",
                device_.name, to_string(device_.capacity), to_string(budget_));
    budget_ = std::min(budget_, part_of(device_.capacity, kUsableMemory));
    fits_without_ = unlimited_.figures.peak_reserved <= budget_;
    return;
  }
  std::optional<Measurement> fitting = run_if_it_fits({.method = none, .memory = budget_, .batch = batch_});
  fits_without_ = fitting.has_value();
  if (fitting) unlimited_ = std::move(*fitting);
}

const swap::Iteration& Comparison::iteration() const {
  if (iteration_) return *iteration_;
  constexpr Method kRecord{.name = "record", .evicts = EvictionMethods::both, .plans = true};
  const Bytes memory = device_.simulated ? kMoreThanEnough : part_of(device_.capacity, kUsableMemory);
  iteration_ = run({.method = kRecord, .memory = memory, .batch = batch_}).iteration;
  return *iteration_;
}

RuntimeOptions Comparison::runtime_options(const Setup& setup) const {
  return {.device = job_.device,
          .device_memory = setup.method.evicts ? std::max(setup.memory, device_.capacity) : setup.memory,
          .values = !device_.simulated,
          .seed = job_.seed};
}

JobOptions Comparison::job_options(const Method& method) const {
  JobOptions options = job_;
  if (method.checkpoints) options.shape.checkpoint_segments = models::kSquareRootSegments;
  if (method.mixed_precision && options.precision == "f32") options.precision = mixed_precision_;
  return options;
}

Measurement Comparison::run(const Setup& setup) const {
  Runtime runtime(runtime_options(setup));
  std::optional<MemoryBudget> budget;
  if (setup.method.evicts) budget.emplace(runtime, budget_options(setup.method, setup.memory, setup.method.plans));
  TrainingJob job(job_options(setup.method));
  const auto step = [&] { job.step(batches(job.model(), setup.batch, setup.micro_batches, job_.seed)); };
  for (int i = 0; i < kWarmUp; ++i) step();
  for (int i = 0; i < kUntilPlanned && setup.method.plans && budget->stats().planned_iterations < 1; ++i) step();
  Measurement result;
  const Nanoseconds time = device_.simulated ? Nanoseconds{} : step_time(runtime, step);
  {
    Recording recording(runtime);
    runtime.reset_peak_memory(device_.device);
    for (int i = 0; i < kRecordedSteps; ++i) step();
    result.trace = recording.finish();
  }
  result.figures = figures_of(result.trace, runtime.memory_stats(device_.device));
  if (!device_.simulated) result.figures.take_time(time);
  if (!budget) return result;
  result.iteration = runtime.core()->budget()->engine().last_iteration();
  if (const std::string plan = budget->save_plan(); !plan.empty())
    result.plan = swap::plan_from_json(plan, "the plan in use", result.iteration);
  return result;
}

// What recording costs is not part of it.
Nanoseconds Comparison::step_time(Runtime& runtime, const std::function<void()>& step) const {
  RuntimeCore& core = *runtime.core();
  core.synchronize();
  const Nanoseconds begin = core.clock().now();
  for (int i = 0; i < kTimedSteps; ++i) step();
  core.synchronize();
  return (core.clock().now() - begin) / kTimedSteps;
}

std::optional<Measurement> Comparison::run_if_it_fits(const Setup& setup) const {
  try {
    return run(setup);
  } catch (const OutOfMemory&) {
    return std::nullopt;
  }
}

MeasuredRow Comparison::measure(const Method& method) const {
  if (method.accumulates) return accumulate(method);
  MeasuredRow row{.method = &method};
  if (&method == kMethods.data()) {
    row.feasible = fits_without_;
    row.measured = unlimited_;
    if (!row.feasible)
      row.note = fmt::format("does not fit; measured with {} more",
                             to_string(std::max(unlimited_.figures.peak_reserved - budget_, Bytes{0})));
    return row;
  }
  if (method.mixed_precision) row.note = job_options(method).precision;
  try {
    row.measured = run({.method = method, .memory = budget_, .batch = batch_});
    row.feasible = keeps_budget(*row.measured);
    if (!row.feasible) {
      row.measured.reset();
      row.note = "does not fit";
    }
  } catch (const OutOfMemory&) {
    row.note = "does not fit";
  } catch (const InvalidArgument& error) {
    if (!method.checkpoints) throw;
    row.exists = false;  // the model has no blocks
    row.note = error.what();
  }
  return row;
}

// As few micro-batches as memory allows.
MeasuredRow Comparison::accumulate(const Method& method) const {
  MeasuredRow row{.method = &method};
  for (std::int64_t parts = 2; !row.feasible && parts < batch_ * 2; parts *= 2) {
    row.micro_batches = std::min(parts, batch_);
    row.measured =
        run_if_it_fits({.method = method, .memory = budget_, .batch = batch_, .micro_batches = row.micro_batches});
    if (row.measured && !keeps_budget(*row.measured)) row.measured.reset();
    row.feasible = row.measured.has_value();
  }
  row.note = row.feasible ? fmt::format("{} micro-batches", row.micro_batches)
             : batch_ > 1 ? "does not fit, not even one sample at a time"
                          : "one sample cannot be divided";
  return row;
}

std::int64_t Comparison::largest_batch(const Method& method, std::int64_t micro_batches) const {
  const std::int64_t batch = search(method, micro_batches);
  const auto trains = [&](std::int64_t size) {
    return run_if_it_fits({.method = method, .memory = budget_, .batch = size, .micro_batches = micro_batches})
        .has_value();
  };
  // At the edge later steps, and those by a plan, may leave the blocks elsewhere than the first ones did.
  if (!method.evicts || batch == 0 || trains(batch)) return batch;
  std::int64_t good = 0;
  for (std::int64_t bad = batch; bad - good > std::max<std::int64_t>(batch / 64, 1);) {
    const std::int64_t middle = good + (bad - good) / 2;
    (trains(middle) ? good : bad) = middle;
  }
  return good;
}

std::int64_t Comparison::search(const Method& method, std::int64_t micro_batches) const {
  const JobOptions options = job_options(method);
  const std::string key = fmt::format("{} {} {} {} {}", method.evicts ? static_cast<int>(*method.evicts) : -1,
                                      method.policy, options.precision, method.checkpoints, micro_batches);
  if (const auto known = largest_.find(key); known != largest_.end()) return known->second;
  Runtime runtime(runtime_options({.method = method, .memory = budget_}));
  std::optional<MemoryBudget> budget;
  if (method.evicts) budget.emplace(runtime, budget_options(method, budget_, false));
  TrainingJob job(options);
  const MaxBatch found =
      find_max_batch(runtime, [&](std::int64_t batch) { job.step(batches(job.model(), batch, micro_batches, 0)); },
                     {.restore = [&] { job.optimizer().zero_grad(); }});
  return largest_[key] = found.batch;
}

Ladder Comparison::ladder(std::span<const double> parts) const {
  const swap::Unconstrained base = swap::unconstrained(iteration());
  Ladder result{.peak = base.peak, .base_time = base.time};
  std::vector<Bytes> budgets;
  for (const double part : parts) budgets.push_back(part_of(base.peak, part));
  const swap::PlannerOptions options{
      .methods = swap::Methods::both, .link = link_, .reserve = swap::Planning::kReserve, .find_smallest = false};
  const std::vector<swap::PlanResult> plans = swap::plan_ladder(iteration(), options, budgets);
  for (std::size_t i = 0; i < budgets.size(); ++i) {
    LadderStep step{.part = parts[i], .budget = budgets[i]};
    if (plans[i].plan) step.step = plans[i].plan->cost.time;
    result.steps.push_back(step);
  }
  return result;
}

std::optional<Bytes> Comparison::smallest_budget(const Method& method) const {
  const swap::PlannerOptions options{
      .methods = swap::Methods::both, .link = link_, .reserve = swap::Planning::kReserve};
  const Bytes most = part_of(swap::unconstrained(iteration()).peak, 1 + 2 * kBudgetStep);
  Bytes size = std::max(swap::smallest_budget(iteration(), options), budget_);
  for (; size <= most; size = part_of(size, 1 + kBudgetStep))
    if (run_if_it_fits({.method = method, .memory = size, .batch = batch_})) return size;
  return std::nullopt;
}

}  // namespace ferry::cli
