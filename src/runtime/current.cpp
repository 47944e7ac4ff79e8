// The runtime of a thread.
#include <utility>
#include <vector>

#include <ferry/random.h>
#include <ferry/runtime.h>
#include "src/base/check.h"
#include "src/device/device_set.h"
#include "src/ops/creation.h"
#include "src/ops/invoke.h"
#include "src/runtime/budget.h"
#include "src/runtime/current.h"
#include "src/runtime/runtime_core.h"
#include "src/tensor/tensor_impl.h"

namespace ferry {
namespace {

thread_local std::shared_ptr<RuntimeCore> thread_core;

// Of the Runtimes that the thread has begun and that have not ended.
thread_local std::vector<std::shared_ptr<RuntimeCore>> thread_runtimes;

const std::shared_ptr<RuntimeCore>& default_core() {
  static const auto core = [] {
    auto made = std::make_shared<RuntimeCore>(RuntimeOptions{}, DriverDecorator{});
    begin_budget_of_environment(*made);
    return made;
  }();
  return core;
}

}  // namespace

const std::shared_ptr<RuntimeCore>& current_core() { return thread_core != nullptr ? thread_core : default_core(); }

std::shared_ptr<RuntimeCore> exchange_current_core(std::shared_ptr<RuntimeCore> core) {
  return std::exchange(thread_core, std::move(core));
}

void begin_runtime(std::shared_ptr<RuntimeCore> core) {
  thread_runtimes.push_back(core);
  thread_core = std::move(core);
}

void end_runtime(const std::shared_ptr<RuntimeCore>& core) noexcept {
  std::erase(thread_runtimes, core);
  if (thread_core == core) thread_core = thread_runtimes.empty() ? nullptr : thread_runtimes.back();
}

ops::RuntimeOf::RuntimeOf(const Tensor& x)
    : previous_(exchange_current_core(std::static_pointer_cast<RuntimeCore>(x.impl()->storage->owner()))) {}
ops::RuntimeOf::~RuntimeOf() { exchange_current_core(std::move(previous_)); }

RandomState random_state() { return current_core()->random_state(); }
void set_random_state(RandomState state) { current_core()->set_random_state(state); }

DeviceSet current_devices() {
  const auto& core = current_core();
  return {core->gpu_count(), core->device_names()};
}

ops::RandomStream ops::draw_random(std::int64_t count) {
  const auto [seed, offset] = current_core()->draw_random(static_cast<std::uint64_t>(count));
  return {seed, offset};
}

}  // namespace ferry
