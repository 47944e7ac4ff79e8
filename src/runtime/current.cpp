// The runtime of a thread.
#include <mutex>

#include <ferry/runtime.h>
#include "src/base/check.h"
#include "src/device/device_set.h"
#include "src/ops/creation.h"
#include "src/runtime/current.h"
#include "src/runtime/runtime_core.h"

namespace ferry {
namespace {

thread_local std::shared_ptr<RuntimeCore> thread_core;

const std::shared_ptr<RuntimeCore>& default_core() {
  static const auto core = std::make_shared<RuntimeCore>(RuntimeOptions{}, DriverDecorator{});
  return core;
}

}  // namespace

const std::shared_ptr<RuntimeCore>& current_core() { return thread_core != nullptr ? thread_core : default_core(); }

std::shared_ptr<RuntimeCore> exchange_current_core(std::shared_ptr<RuntimeCore> core) {
  return std::exchange(thread_core, std::move(core));
}

DeviceSet current_devices() {
  const auto& core = current_core();
  DeviceSet set{static_cast<int>(core->devices().size()) - 1, "the runtime has"};
  for (const auto& context : core->devices()) {
    set.description += fmt::format("{} {}", context->device.is_cpu() ? "" : ",", context->driver->info().name);
  }
  return set;
}

ops::RandomStream ops::draw_random(std::int64_t count) {
  const auto [seed, offset] = current_core()->draw_random(static_cast<std::uint64_t>(count));
  return {seed, offset};
}

}  // namespace ferry
