#include "swap/program.h"

#include <fmt/format.h>

#include <utility>

#include "swap/executor.h"
#include "swap/residency.h"

namespace ferry::swap {
namespace {

class NoStrategy final : public Strategy {
 public:
  bool make_room(Bytes) override { return false; }
};

}  // namespace

// Drives an Executor by given steps instead of by the iteration's events.
class ProgramRunner {
 public:
  ProgramRunner(const Iteration& iteration, const StorageTensors& tensors, Bytes budget, const Link& link,
                ResidencyLog* log = nullptr, std::vector<Nanoseconds>* starts = nullptr)
      : iteration_(iteration),
        executor_(iteration, tensors, {.budget = budget, .link = link, .residencies = log, .starts = starts}, nothing_),
        log_(log) {
    if (log != nullptr) collect_pinned_releases();
  }

  Cost run(const Program& program) {
    for (const Step& step : program) {
      if (log_ != nullptr) begin_step(step);
      if (!take(step)) return executor_.cost_;
    }
    if (static_cast<std::size_t>(next_op_) != iteration_.ops.size())
      return executor_.fail("not all ops ran"), executor_.cost_;
    for (const TensorIndex t : iteration_.kept) {
      if (executor_.available(t)) continue;
      return executor_.fail(fmt::format("'{}' is not resident at the end", executor_.tensor(t).name)), executor_.cost_;
    }
    return executor_.run_end(), executor_.cost_;
  }

 private:
  // Ops that ran before, and the storage.
  using Release = std::pair<OpIndex, StorageIndex>;

  void collect_pinned_releases() {
    OpIndex ops = 0;
    for (const Event& event : iteration_.events) {
      if (event.kind == Event::Kind::run) ++ops;
      if (event.kind == Event::Kind::release && iteration_.storages[static_cast<std::size_t>(event.index)].pinned)
        pinned_releases_.emplace_back(ops, event.index);
    }
  }

  void begin_step(const Step& step) {
    const bool goes_on = step.kind == Step::Kind::create || (step.kind == Step::Kind::run && step.index >= next_op_);
    for (; goes_on && next_release_ < pinned_releases_.size(); ++next_release_) {
      const auto [ops, storage] = pinned_releases_[next_release_];
      const std::int32_t residency = executor_.state(storage).residency;
      if (ops > next_op_ || residency == kNone) break;
      executor_.end_residency(residency);
    }
    log_->step();
  }

  bool take(const Step& step) {
    const auto is_index = [&](const auto& table) { return step.index >= 0 && step.index < std::ssize(table); };
    switch (step.kind) {
      case Step::Kind::create:
        return is_index(iteration_.tensors) ? create(step.index) : bad(step);
      case Step::Kind::run:
        return is_index(iteration_.ops) ? run_op(step.index) : bad(step);
      default:
        return is_index(iteration_.storages) ? move(step) : bad(step);
    }
  }

  bool create(TensorIndex t) {
    const Tensor& tensor = executor_.tensor(t);
    if (tensor.producer != kNone || executor_.defined(t)) return bad({Step::Kind::create, t});
    return executor_.create(t);
  }

  bool run_op(OpIndex o) {
    const bool again = o < next_op_;
    if (o > next_op_) return executor_.fail(fmt::format("op {} runs before op {}", o, next_op_));
    for (const TensorIndex t : iteration_.ops[static_cast<std::size_t>(o)].reads(again)) {
      if (!executor_.available(t))
        return executor_.fail(fmt::format("op {} runs without its input '{}'", o, executor_.tensor(t).name));
      executor_.lock(executor_.tensor(t).storage);
    }
    if (!again) ++next_op_;
    return executor_.finish({.op = o, .wanted = kNone, .first_flag = 0, .again = again});
  }

  bool move(const Step& step) {
    const StorageIndex s = step.index;
    const bool resident = executor_.resident(s), on_host = executor_.has_host_copy(s);
    if (executor_.locked(s)) return bad(step);
    switch (step.kind) {
      case Step::Kind::drop:
        return resident || on_host ? executor_.drop(s), true : bad(step);
      case Step::Kind::copy_out:
        return has_link() && resident ? executor_.copy_out(s), true : bad(step);
      case Step::Kind::leave:
        return has_link() && resident ? executor_.leave(s), true : bad(step);
      case Step::Kind::bring_in:
        return !resident && on_host ? executor_.bring_in(s) : bad(step);
      default:
        return bad(step);
    }
  }

  bool has_link() const { return executor_.link().exists(); }
  bool bad(const Step& step) {
    return executor_.fail(fmt::format("step {} {} is not possible there", static_cast<int>(step.kind), step.index));
  }

  const Iteration& iteration_;
  NoStrategy nothing_;
  Executor executor_;
  ResidencyLog* log_;  // null: not kept
  OpIndex next_op_ = 0;
  std::vector<Release> pinned_releases_;
  std::size_t next_release_ = 0;
};

Cost evaluate(const Iteration& iteration, const Program& program, Bytes budget, const Link& link,
              std::vector<Nanoseconds>* starts) {
  const StorageTensors tensors(iteration);
  if (starts != nullptr) starts->clear();
  Cost cost = ProgramRunner(iteration, tensors, budget, link, nullptr, starts).run(program);
  if (starts != nullptr && cost.feasible) starts->push_back(cost.time);
  return cost;
}

std::optional<Residencies> residencies(const Iteration& iteration, const Program& program, Bytes budget,
                                       const Link& link) {
  const StorageTensors tensors(iteration);
  ResidencyLog log;
  if (!ProgramRunner(iteration, tensors, budget, link, &log).run(program).feasible) return std::nullopt;
  return log.take();
}

}  // namespace ferry::swap
