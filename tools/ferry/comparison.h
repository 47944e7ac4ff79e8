// What a training step costs by each of the ways to live with too little memory: measured one by one, each in a runtime
// of its own. A simulated GPU is used in timing-only mode; on a real one the steps compute, and are timed by the host's
// clock around several of them without a recorder, and by the driver's events within recorded ones.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <ferry/swap.h>
#include "src/trace/trace.h"
#include "swap/planner.h"
#include "tools/ferry/training_job.h"

namespace ferry::cli {

// One way. Without `evicts` no memory budget is used: the device has that much memory.
struct Method {
  std::string_view name;
  std::string_view text{};  // for a reader
  std::optional<EvictionMethods> evicts{};
  std::string_view policy = "hybrid";
  bool plans = false;
  bool checkpoints = false;
  bool mixed_precision = false;
  bool accumulates = false;
};

// "none" first.
std::span<const Method> all_methods();

// Of one step, on the runtime's clock.
struct StepFigures {
  Nanoseconds step{};
  Nanoseconds compute{};    // device time of ops
  Nanoseconds recompute{};  // and of those that ran again
  Nanoseconds stall{};      // the rest in which the device computes nothing: it waits for copies or for the host
  Bytes peak_allocated{}, peak_reserved{};
  Bytes bytes_out{}, bytes_in{};  // swapped

  // Sets the step's time, and the stall by it.
  void take_time(Nanoseconds time);
};

// The trace is that of the last steps; the figures are their mean.
struct Measurement {
  StepFigures figures;
  trace::Trace trace{};
  swap::Iteration iteration{};       // the last one that a budget recorded
  std::optional<swap::Plan> plan{};  // for it; none: there is no plan
};

struct MeasuredRow {
  const Method* method = nullptr;
  bool feasible = false;
  bool exists = true;                     // false: the model cannot be trained that way
  std::optional<Measurement> measured{};  // none: always; the others where they are feasible
  std::string note{};                     // why not, or what was chosen
  std::int64_t micro_batches = 1;
  std::optional<std::int64_t> largest_batch{};
};

// A budget that was planned, not run.
struct LadderStep {
  double part = 0;  // of the iteration's peak
  Bytes budget{};
  std::optional<Nanoseconds> step{};  // planned time of the device; none: there is no plan
};

struct Ladder {
  Bytes peak{};             // of the iteration
  Nanoseconds base_time{};  // of its ops without a budget
  std::vector<LadderStep> steps{};
};

class Comparison {
 public:
  // budget: "5GiB", "80%" of the card's memory, "0.5x" of the peak without a budget; empty: the card's memory.
  // Throws: InvalidArgument for a device that is no GPU, an unknown model or option, a budget that is none or that a
  // real GPU does not have; OutOfMemory for a step that does not fit in a real GPU without a budget.
  Comparison(JobOptions job, std::int64_t batch, const std::string& budget);

  const DeviceDescription& device() const { return device_; }
  Bytes budget() const { return budget_; }
  // A step without a budget; where that does not fit, on a simulated card with as much memory as it needs.
  const Measurement& unlimited() const { return unlimited_; }

  MeasuredRow measure(const Method& method) const;
  // Whether largest_batch() can be asked: a real GPU's memory cannot be limited to a budget for the ways without one.
  bool finds_largest_batches() const { return device_.simulated; }
  // The largest batch that trains at all under the budget; 0: none. Requires: finds_largest_batches().
  std::int64_t largest_batch(const Method& method, std::int64_t micro_batches) const;
  Ladder ladder(std::span<const double> parts) const;
  // The smallest budget under which `method` trains, within 3 %: the planner's, tried. None: not even the peak without
  // a budget is enough.
  std::optional<Bytes> smallest_budget(const Method& method) const;

 private:
  struct Setup {
    const Method& method;
    Bytes memory{};  // the budget, or the device's memory without one
    std::int64_t batch = 0, micro_batches = 1;
  };
  Measurement run(const Setup& setup) const;
  Nanoseconds step_time(Runtime& runtime, const std::function<void()>& step) const;
  // A step that nothing has to leave in, recorded when it is first asked for.
  const swap::Iteration& iteration() const;
  std::optional<Measurement> run_if_it_fits(const Setup& setup) const;
  RuntimeOptions runtime_options(const Setup& setup) const;
  JobOptions job_options(const Method& method) const;
  // A real GPU's memory is not limited for the ways without a MemoryBudget.
  bool keeps_budget(const Measurement& measured) const { return measured.figures.peak_reserved <= budget_; }
  void measure_without_budget(const std::string& budget);
  MeasuredRow accumulate(const Method& method) const;
  std::int64_t search(const Method& method, std::int64_t micro_batches) const;

  const JobOptions job_;
  const std::int64_t batch_;
  DeviceDescription device_;
  std::string mixed_precision_;
  swap::Link link_;
  Bytes budget_{};
  bool fits_without_ = false;
  Measurement unlimited_;
  mutable std::optional<swap::Iteration> iteration_;
  mutable std::map<std::string, std::int64_t> largest_;  // found without plans
};

}  // namespace ferry::cli
