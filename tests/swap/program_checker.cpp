#include "tests/swap/program_checker.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

namespace ferry::testing {
namespace {

using swap::Iteration;
using swap::Op;
using swap::Step;
using swap::StorageIndex;
using swap::TensorIndex;

struct Block {
  StorageIndex storage;
  Nanoseconds until;  // max(): stays
  bool may_return = true;
};

class Checker {
 public:
  Checker(const Iteration& iteration, Bytes budget, const swap::Link& link)
      : iteration_(iteration), budget_(budget), link_(link) {}

  Checked check(const swap::Program& program) {
    std::size_t position = 0;
    for (const Step& step : program) {
      if (result_.problem.empty()) take(step);
      if (!result_.problem.empty()) {
        result_.problem += fmt::format(" (step {})", position);
        return result_;
      }
      ++position;
    }
    if (next_op_ != std::ssize(iteration_.ops)) problem("ops are missing");
    for (const TensorIndex t : iteration_.kept) {
      if (!holds(t)) problem(fmt::format("{} is missing at the end", tensor(t).name));
      now_ = std::max(now_, arrival_[tensor(t).storage]);
    }
    result_.time = std::max(now_, out_tail_);
    return result_;
  }

 private:
  const swap::Tensor& tensor(TensorIndex t) const { return iteration_.tensors.at(static_cast<std::size_t>(t)); }
  Bytes size(StorageIndex s) const { return iteration_.storages.at(static_cast<std::size_t>(s)).size; }
  bool resident(StorageIndex s) const {
    return std::ranges::any_of(blocks_,
                               [&](const Block& b) { return b.storage == s && b.until == Nanoseconds::max(); });
  }
  bool holds(TensorIndex t) const { return named_.contains(t) && resident(tensor(t).storage); }
  void problem(const std::string& text) {
    if (result_.problem.empty()) result_.problem = text;
  }

  Bytes used() const {
    Bytes sum{};
    for (const Block& block : blocks_)
      if (block.until > now_) sum += size(block.storage);
    return sum;
  }

  // Waits for blocks that leave until `bytes` fit.
  void make_fit(Bytes bytes) {
    while (used() + bytes > budget_) {
      Nanoseconds first = Nanoseconds::max();
      for (const Block& block : blocks_)
        if (block.until > now_) first = std::min(first, block.until);
      if (first == Nanoseconds::max()) return problem("the budget is exceeded");
      now_ = first;
    }
    result_.peak = std::max(result_.peak, used() + bytes);
  }

  // Copies from and to the block have passed at `end`.
  void remove_block(StorageIndex s, Nanoseconds end, bool may_return) {
    const auto removed =
        std::erase_if(blocks_, [&](const Block& b) { return b.storage == s && b.until == Nanoseconds::max(); });
    if (removed > 0 && end > now_) blocks_.push_back({s, end, may_return});
  }

  void run(swap::OpIndex o) {
    const Op& op = iteration_.ops.at(static_cast<std::size_t>(o));
    if (o > next_op_) return problem("an op runs too early");
    const bool again = o < next_op_;
    if (o == next_op_) ++next_op_;
    Bytes made{};
    for (const TensorIndex t : op.outputs)
      if (iteration_.storages[static_cast<std::size_t>(tensor(t).storage)].root == t) made += size(tensor(t).storage);
    make_fit(made);
    for (const TensorIndex t : again && !op.inputs_again.empty() ? op.inputs_again : op.inputs) {
      if (!holds(t)) return problem(fmt::format("{} lacks {}", op.name, tensor(t).name));
      now_ = std::max(now_, arrival_[tensor(t).storage]);
    }
    now_ += op.time;
    for (const TensorIndex t : op.outputs) {
      named_.insert(t);
      if (!resident(tensor(t).storage)) blocks_.push_back({tensor(t).storage, Nanoseconds::max()});
    }
  }

  void copy_out(StorageIndex s) {
    if (on_host_.contains(s)) return;
    out_tail_ = std::max({out_tail_, now_, arrival_[s]}) + link_.out_time(size(s));
    on_host_[s] = out_tail_;
  }

  void bring_in(StorageIndex s) {
    if (resident(s) || !on_host_.contains(s)) return problem("nothing to bring in");
    for (Block& block : blocks_)
      if (block.storage == s && block.until > now_ && block.may_return) return void(block.until = Nanoseconds::max());
    make_fit(size(s));
    in_tail_ = std::max({in_tail_, now_, on_host_[s]}) + link_.in_time(size(s));
    arrival_[s] = in_tail_;
    blocks_.push_back({s, Nanoseconds::max()});
  }

  void take(const Step& step) {
    const std::int32_t i = step.index;
    switch (step.kind) {
      case Step::Kind::create:
        make_fit(size(tensor(i).storage));
        named_.insert(i);
        return blocks_.push_back({tensor(i).storage, Nanoseconds::max()});
      case Step::Kind::run:
        return run(i);
      case Step::Kind::drop:
        if (iteration_.storages.at(static_cast<std::size_t>(i)).pinned) return problem("a pinned storage is dropped");
        remove_block(i, arrival_[i], false);
        for (Block& block : blocks_)
          if (block.storage == i && block.until != Nanoseconds::max()) block.may_return = false;
        on_host_.erase(i);
        arrival_.erase(i);
        for (std::size_t t = 0; t < iteration_.tensors.size(); ++t)
          if (iteration_.tensors[t].storage == i) named_.erase(static_cast<TensorIndex>(t));
        return;
      case Step::Kind::copy_out:
        if (!resident(i)) return problem("a copy of nothing");
        return copy_out(i);
      case Step::Kind::leave:
        if (!resident(i)) return problem("something leaves that is not there");
        copy_out(i);
        return remove_block(i, std::max(on_host_[i], arrival_[i]), true);
      case Step::Kind::bring_in:
        return bring_in(i);
    }
  }

  const Iteration& iteration_;
  Bytes budget_;
  swap::Link link_;
  Checked result_;
  std::vector<Block> blocks_;
  std::set<TensorIndex> named_;
  std::map<StorageIndex, Nanoseconds> on_host_, arrival_;
  Nanoseconds now_{}, out_tail_{}, in_tail_{};
  swap::OpIndex next_op_ = 0;
};

}  // namespace

Checked check_program(const Iteration& iteration, const swap::Program& program, Bytes budget, const swap::Link& link) {
  return Checker(iteration, budget, link).check(program);
}

}  // namespace ferry::testing
