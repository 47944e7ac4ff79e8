#include "swap/trace_iteration.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/base/check.h"

namespace ferry::swap {
namespace {

class Converter {
 public:
  Converter(const trace::Trace& trace, Device device)
      : trace_(trace), device_(device), current_(trace.tensors.size(), kNone), last_use_(trace.tensors.size(), -1) {}

  Iteration convert() {
    for (const trace::WorkRecord& work : trace_.work)
      if (work.device == device_ && work.correlation != 0) kernel_time_[work.correlation] += work.end - work.begin;
    for (std::size_t i = 0; i < trace_.ops.size(); ++i)
      if (is_taken(trace_.ops[i]))
        for (const trace::Argument& input : trace_.ops[i].inputs)
          if (is_there(input)) last_use_[at(input)] = static_cast<std::ptrdiff_t>(i);
    // What was there before the first op takes memory from the start.
    std::vector<bool> made(trace_.tensors.size());
    for (const trace::OpRecord& op : trace_.ops) {
      if (!is_taken(op)) continue;
      for (const trace::Argument& input : op.inputs)
        if (is_there(input) && !made[at(input)] && current_[at(input)] == kNone) add_input(at(input));
      for (const trace::Argument& output : op.outputs)
        if (is_there(output)) made[at(output)] = true;
    }
    for (std::size_t i = 0; i < trace_.ops.size(); ++i)
      if (is_taken(trace_.ops[i])) run(trace_.ops[i], static_cast<std::ptrdiff_t>(i));
    return std::move(builder_).build();
  }

 private:
  static std::size_t at(const trace::Argument& argument) { return static_cast<std::size_t>(argument.tensor); }
  static bool is_there(const trace::Argument& argument) { return argument.tensor >= 0 && !argument.host; }
  bool is_taken(const trace::OpRecord& op) const { return op.device == device_; }

  void add_input(std::size_t tensor) {
    const trace::TensorInfo& info = trace_.tensors[tensor];
    current_[tensor] = builder_.add_input(info.name, info.size, IterationBuilder::Residency::pinned);
  }

  Nanoseconds time_of(const trace::OpRecord& op) const {
    const auto found = kernel_time_.find(op.correlation);
    return std::max(found != kernel_time_.end() ? found->second : op.end - op.begin, Nanoseconds{0});
  }

  void run(const trace::OpRecord& op, std::ptrdiff_t position) {
    std::vector<swap::TensorIndex> inputs;
    for (const trace::Argument& input : op.inputs)
      if (is_there(input)) inputs.push_back(current_[at(input)]);
    std::vector<IterationBuilder::Output> outputs;
    std::vector<std::size_t> made;
    for (const trace::Argument& output : op.outputs) {
      if (!is_there(output) || std::ranges::find(made, at(output)) != made.end()) continue;
      const bool in_place = current_[at(output)] != kNone;
      // Parameters and optimizer state are updated where they are.
      if (in_place && builder_.is_pinned(current_[at(output)])) continue;
      const trace::TensorInfo& info = trace_.tensors[at(output)];
      outputs.push_back({.name = info.name,
                         .size = info.size,
                         .recompute = in_place ? IterationBuilder::Recompute::no : IterationBuilder::Recompute::yes});
      made.push_back(at(output));
    }
    swap::TensorIndex next = builder_.run(trace_.string(op.name), time_of(op), inputs, std::move(outputs));
    for (const std::size_t tensor : made) {
      const swap::TensorIndex old = std::exchange(current_[tensor], next++);
      if (old != kNone) builder_.release(old);
    }
    for (const trace::Argument& input : op.inputs) {
      if (!is_there(input) || last_use_[at(input)] != position || builder_.is_pinned(current_[at(input)])) continue;
      if (builder_.references(current_[at(input)]) > 0) builder_.release(current_[at(input)]);
    }
  }

  const trace::Trace& trace_;
  Device device_;
  IterationBuilder builder_;
  std::vector<swap::TensorIndex> current_;  // by tensor of the trace; kNone: not made yet
  std::vector<std::ptrdiff_t> last_use_;    // op of the trace; -1: never
  std::unordered_map<std::uint64_t, Nanoseconds> kernel_time_;
};

}  // namespace

Iteration iteration_of(const trace::Trace& trace, std::string_view name) {
  const auto gpu = std::ranges::find_if(trace.ops, [](const trace::OpRecord& op) { return !op.device.is_cpu(); });
  const auto any = gpu != trace.ops.end() ? gpu : trace.ops.begin();
  FERRY_CHECK(any != trace.ops.end(), ParseError, "{}: the trace has no ops", name);
  return Converter(trace, any->device).convert();
}

}  // namespace ferry::swap
