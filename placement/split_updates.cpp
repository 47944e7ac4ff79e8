#include "placement/split_updates.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

namespace ferry::placement {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

// The line that made a tensor, as the advisor groups ops; what existed before the trace has none.
using Line = std::tuple<trace::StringIndex, trace::SiteIndex, trace::StringIndex, trace::Phase>;
constexpr Line kNoLine{-1, -1, -1, trace::Phase::forward};

// What an update does for the tensors of one line.
struct Part {
  std::vector<trace::Argument> inputs{}, outputs{};
  double size = 0;
};

class Splitter {
 public:
  explicit Splitter(trace::Trace& trace) : trace_(trace), makers_(trace.tensors.size(), -1) {
    for (const trace::CopyRecord& copy : trace.copies) {
      next_correlation_ = std::max(next_correlation_, copy.correlation + 1);
      if (copy.op >= 0) has_copies_[copy.op] = true;
    }
    for (const trace::OpRecord& op : trace.ops) next_correlation_ = std::max(next_correlation_, op.correlation + 1);
  }

  void run() {
    std::vector<trace::OpRecord> ops;
    std::vector<trace::OpIndex> now_at;  // by op
    for (std::size_t i = 0; i < trace_.ops.size(); ++i) {
      const auto index = static_cast<trace::OpIndex>(i);
      now_at.push_back(static_cast<trace::OpIndex>(ops.size()));
      const trace::OpRecord& op = trace_.ops[i];
      const bool is_update = op.phase == trace::Phase::optimizer && !has_copies_.contains(index);
      const std::vector<Part> parts = is_update ? parts_of(op) : std::vector<Part>{};
      if (parts.size() > 1) {
        add_parts(op, parts, ops);
      } else {
        ops.push_back(op);
      }
      for (const trace::Argument& output : op.outputs) {
        if (output.tensor >= 0 && makers_[at(output.tensor)] < 0) makers_[at(output.tensor)] = index;
      }
    }
    for (trace::CopyRecord& copy : trace_.copies) {
      if (copy.op >= 0) copy.op = now_at[at(copy.op)];
    }
    split_work();
    trace_.ops = std::move(ops);
  }

 private:
  const trace::OpRecord* maker_of(trace::TensorIndex tensor) const {
    const trace::OpIndex maker = tensor < 0 ? -1 : makers_[at(tensor)];
    return maker < 0 ? nullptr : &trace_.ops[at(maker)];
  }

  // Arguments come in groups: a tensor that the program made and the update writes, then what belongs to it.
  std::vector<Part> parts_of(const trace::OpRecord& op) const {
    std::map<Line, Part> parts;
    Part* part = nullptr;
    for (const trace::Argument& input : op.inputs) {
      const auto written = std::ranges::find(op.outputs, input.tensor, &trace::Argument::tensor);
      const trace::OpRecord* const maker = maker_of(input.tensor);
      const bool is_own = maker != nullptr && maker->phase == trace::Phase::optimizer;  // state
      if (written != op.outputs.end() && !is_own)
        part = &parts[maker == nullptr ? kNoLine : Line(maker->name, maker->site, maker->scope, maker->phase)];
      if (part == nullptr) return {};
      part->inputs.push_back(input);
      if (written != op.outputs.end()) part->outputs.push_back(*written);
      if (input.tensor >= 0) part->size += static_cast<double>(trace_.tensors[at(input.tensor)].size.count);
    }
    std::vector<Part> list;
    for (auto& [_, each] : parts) list.push_back(std::move(each));
    return list;
  }

  void add_parts(const trace::OpRecord& op, const std::vector<Part>& parts, std::vector<trace::OpRecord>& ops) {
    double whole = 0, done = 0;
    for (const Part& part : parts) whole += part.size;
    const auto share_of = [&](double size) { return whole > 0 ? size / whole : 1 / static_cast<double>(parts.size()); };
    std::vector<Share>& shares = shares_[op.correlation];
    for (const Part& part : parts) {
      trace::OpRecord& added = ops.emplace_back(op);
      const double begin = done, share = share_of(part.size);
      done = &part == &parts.back() ? 1 : done + share;
      added.inputs = part.inputs;
      added.outputs = part.outputs;
      added.begin = between(op.begin, op.end, begin);
      added.end = between(op.begin, op.end, done);
      added.flops *= share;
      added.bytes *= share;
      if (op.correlation != 0) added.correlation = next_correlation_++;
      shares.push_back({added.correlation, begin, done});
    }
  }

  static Nanoseconds between(Nanoseconds begin, Nanoseconds end, double share) {
    return begin + Nanoseconds(static_cast<std::int64_t>(static_cast<double>((end - begin).count()) * share));
  }

  void split_work() {
    std::vector<trace::WorkRecord> work;
    for (const trace::WorkRecord& each : trace_.work) {
      const auto shares = each.correlation == 0 ? shares_.end() : shares_.find(each.correlation);
      if (shares == shares_.end()) {
        work.push_back(each);
        continue;
      }
      for (const Share& share : shares->second) {
        trace::WorkRecord& part = work.emplace_back(each);
        part.correlation = share.correlation;
        part.begin = between(each.begin, each.end, share.begin);
        part.end = between(each.begin, each.end, share.end);
      }
    }
    trace_.work = std::move(work);
  }

  struct Share {
    std::uint64_t correlation = 0;
    double begin = 0, end = 1;
  };

  trace::Trace& trace_;
  std::vector<trace::OpIndex> makers_;  // the first writer of each tensor so far; -1: none
  std::unordered_map<trace::OpIndex, bool> has_copies_;
  std::unordered_map<std::uint64_t, std::vector<Share>> shares_;  // by the whole call's correlation
  std::uint64_t next_correlation_ = 1;
};

}  // namespace

trace::Trace split_updates(trace::Trace trace) {
  Splitter(trace).run();
  return trace;
}

}  // namespace ferry::placement
