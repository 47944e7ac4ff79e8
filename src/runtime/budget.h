// A memory budget at work in a runtime: the engine (swap/engine/engine.h) and what it needs of the device, its
// allocator and the dispatcher.
//
// Ownership: the runtime owns its budgets to its end, since storages that outlive one may still speak of it.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <ferry/swap.h>
#include "src/memory/caching_allocator.h"
#include "src/runtime/runtime_core.h"
#include "swap/engine/engine.h"

namespace ferry {

class Budget final : public swap::Mechanism, public WorkObserver {
 public:
  // Throws: as MemoryBudget.
  Budget(RuntimeCore& core, const MemoryBudgetOptions& options);
  ~Budget() override;

  swap::Engine& engine() { return engine_; }
  const MemoryBudgetOptions& options() const { return options_; }
  Bytes size() const { return size_; }
  Device device() const { return context_.device; }
  void set_from_environment() { is_from_environment_ = true; }
  bool is_from_environment() const { return is_from_environment_; }
  // The limit and the engine's grip on the allocator end. False: some bytes could not be had; the engine goes on
  // knowing them.
  bool end() noexcept;

  // What an allocation that failed should say of the budget.
  std::string shortage() const;

  // For a launch that no recorder asked to follow. Requires: a frame of the calling thread.
  std::uint64_t next_correlation() { return ++correlation_; }
  // The device time of the kernel just launched with it. The first time for an op on such shapes may wait for the
  // device.
  Nanoseconds time_of(std::uint64_t correlation, const ops::OpSchema& schema, ops::TensorPointers inputs);

  // Mechanism.
  bool copy_out(Storage& storage) override;
  void prepare_host(std::span<const std::int64_t> copies) noexcept override;
  void give_back(Storage& storage) override;
  swap::SpillFile::Offset spill(Storage& storage) override;
  void unspill(Storage& storage, swap::SpillFile::Offset from) override;
  void discard(swap::SpillFile::Offset from, Bytes size) noexcept override;
  void bring_in(Storage& storage) override;
  std::vector<std::shared_ptr<Storage>> run_again(const swap::Producer& producer,
                                                  std::span<Storage* const> inputs) override;
  std::optional<std::vector<void*>> cheapest_room(Bytes size, const std::function<double(void*)>& cost) const override;
  std::optional<Bytes> compact(Bytes size, const std::function<Storage*(void*)>& owner, bool is_last_resort) override;
  Bytes raise_small_segments(const std::function<Storage*(void*)>& owner) override;
  bool move(Storage& storage, void* address) override;
  CachingAllocator::Arena arena() const override;
  Bytes free_bytes() const override;
  Bytes allocated() const override;

  // WorkObserver.
  void on_work(const trace::WorkRecord& record) override;

 private:
  std::string host_limit_text() const;
  // host_limit leaves room for that much.
  bool has_host_room(Bytes size) const;
  Tensor view_of(const swap::Operand& operand, Storage* storage) const;
  CachingAllocator::BlockOwners block_owners(const std::function<Storage*(void*)>& owner);

  RuntimeCore& core_;
  const MemoryBudgetOptions options_;
  DeviceContext& context_;
  CachingAllocator& allocator_;
  const Bytes size_;
  bool is_from_environment_ = false;
  std::unique_ptr<swap::SpillFile> file_;  // null: none
  // Guarded by the engine's mutex: launches happen inside frames.
  std::uint64_t correlation_ = std::uint64_t{1} << 62;
  struct Work {
    std::uint64_t correlation = 0;
    Nanoseconds time{};
  };
  Work last_;
  std::unordered_map<std::uint64_t, Nanoseconds> times_;  // by op and shapes
  swap::Engine engine_;
};

// What is brought to a device inside stays there until the end, at its address unless those may change. Without a
// budget it costs a load.
class [[nodiscard]] ResidencyScope {
 public:
  using Addresses = swap::Engine::Addresses;
  explicit ResidencyScope(RuntimeCore& core, Addresses addresses = Addresses::stay) {
    if (Budget* budget = core.budget()) frame_.emplace(budget->engine(), addresses);
  }

 private:
  std::optional<swap::Engine::Frame> frame_;
};

// The budget that FERRY_MEMORY_BUDGET asks for, if it does and there is a GPU; one that a program begins takes its
// place. Throws: InvalidArgument for a text that is no budget.
void begin_budget_of_environment(RuntimeCore& core);
// Throws: InvalidArgument when the program has begun one already.
Budget& begin_budget(RuntimeCore& core, const MemoryBudgetOptions& options);
void end_budget(RuntimeCore& core, Budget& budget) noexcept;

}  // namespace ferry
