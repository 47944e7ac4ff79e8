// What a training step costs by each of the ways to live with too little memory: measured one by one on a simulated
// GPU in timing-only mode, each in a runtime of its own.
#pragma once

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

// Of one step, on the virtual clock.
struct StepFigures {
  Nanoseconds step{};
  Nanoseconds recompute{};  // device time of ops that ran again
  Nanoseconds stall{};      // the rest in which the device computes nothing: it waits for copies or for the host
  Bytes peak_allocated{}, peak_reserved{};
  Bytes bytes_out{}, bytes_in{};  // swapped
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
  // Throws: InvalidArgument for a device that is no simulated GPU, an unknown model or option, a budget that is none.
  Comparison(JobOptions job, std::int64_t batch, const std::string& budget);

  const DeviceDescription& device() const { return device_; }
  Bytes budget() const { return budget_; }
  // A step without a budget; where that does not fit, on a card with as much memory as it needs.
  const Measurement& unlimited() const { return unlimited_; }

  MeasuredRow measure(const Method& method) const;
  // The largest batch that trains at all under the budget; 0: none.
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
  std::optional<Measurement> run_if_it_fits(const Setup& setup) const;
  RuntimeOptions runtime_options(const Setup& setup) const;
  JobOptions job_options(const Method& method) const;
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
  swap::Iteration iteration_;                            // a step that nothing has to leave in
  mutable std::map<std::string, std::int64_t> largest_;  // found without plans
};

}  // namespace ferry::cli
