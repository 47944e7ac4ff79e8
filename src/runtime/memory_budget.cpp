// The public face of budgets.
#include <ferry/runtime.h>
#include <ferry/swap.h>
#include "src/runtime/budget.h"

namespace ferry {

class MemoryBudget::Impl {
 public:
  Impl(std::shared_ptr<RuntimeCore> core, const MemoryBudgetOptions& options)
      : core_(std::move(core)), budget_(begin_budget(*core_, options)) {}
  ~Impl() { end_budget(*core_, budget_); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  Budget& budget() const { return budget_; }
  swap::Engine& engine() const { return budget_.engine(); }

 private:
  std::shared_ptr<RuntimeCore> core_;
  Budget& budget_;
};

MemoryBudget::MemoryBudget(std::string_view size) : MemoryBudget(MemoryBudgetOptions{.size = std::string(size)}) {}
MemoryBudget::MemoryBudget(Bytes size) : MemoryBudget(MemoryBudgetOptions{.size = std::to_string(size.count)}) {}
MemoryBudget::MemoryBudget(MemoryBudgetOptions options) : impl_(std::make_unique<Impl>(current_core(), options)) {}
MemoryBudget::MemoryBudget(Runtime& runtime, MemoryBudgetOptions options)
    : impl_(std::make_unique<Impl>(runtime.core(), options)) {}
MemoryBudget::~MemoryBudget() = default;

void MemoryBudget::next_iteration() { impl_->engine().next_iteration(); }
std::string MemoryBudget::explain() const { return impl_->engine().explain(); }
std::string MemoryBudget::save_plan() const { return impl_->engine().save_plan(); }
void MemoryBudget::load_plan(std::string_view json) { impl_->engine().load_plan(json); }

MemoryBudgetStats MemoryBudget::stats() const {
  const swap::EngineStats stats = impl_->engine().stats();
  return {.budget = impl_->budget().size(),
          .evictions = stats.evictions,
          .recomputations = stats.recomputations,
          .recompute_time = stats.recompute_time,
          .bytes_out = stats.bytes_out,
          .bytes_in = stats.bytes_in,
          .bytes_moved = stats.bytes_moved + stats.bytes_placed,
          .iterations = stats.iterations,
          .planned_iterations = stats.planned_iterations,
          .plans = stats.plans,
          .tracked_storages = stats.tracked,
          .decisions = stats.decisions,
          .decision_time = stats.decision_time};
}

}  // namespace ferry
