// Sets which runtime a thread uses.
#pragma once

#include <memory>
#include <utility>

#include <ferry/runtime.h>
#include "src/memory/host_allocator.h"
#include "src/runtime/builtin_backends.h"

namespace ferry {

// Makes `core` (null: the process's default) the calling thread's runtime; returns the one before, null for the
// default.
std::shared_ptr<RuntimeCore> exchange_current_core(std::shared_ptr<RuntimeCore> core);

// `core` is current on the calling thread while it lives.
class [[nodiscard]] CurrentCore {
 public:
  explicit CurrentCore(std::shared_ptr<RuntimeCore> core) : previous_(exchange_current_core(std::move(core))) {}
  ~CurrentCore() { exchange_current_core(std::move(previous_)); }
  CurrentCore(const CurrentCore&) = delete;
  CurrentCore& operator=(const CurrentCore&) = delete;

 private:
  std::shared_ptr<RuntimeCore> previous_;
};

// A Runtime begins and ends: `core` is current on the calling thread until then, or until a later one begins. They may
// end in any order.
void begin_runtime(std::shared_ptr<RuntimeCore> core);
void end_runtime(const std::shared_ptr<RuntimeCore>& core) noexcept;

// A Runtime whose drivers are wrapped and whose host memory can be refused: tests inject faults with it.
std::unique_ptr<Runtime> make_runtime(RuntimeOptions options, const DriverDecorator& decorate,
                                      HostAllocatorOptions host_memory = {});

}  // namespace ferry
