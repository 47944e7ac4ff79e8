// Sets which runtime a thread uses.
#pragma once

#include <memory>

#include <ferry/runtime.h>
#include "src/memory/host_allocator.h"
#include "src/runtime/builtin_backends.h"

namespace ferry {

// Makes `core` (null: the process's default) the calling thread's runtime; returns the one before, null for the
// default.
std::shared_ptr<RuntimeCore> exchange_current_core(std::shared_ptr<RuntimeCore> core);

// A Runtime begins and ends: `core` is current on the calling thread until then, or until a later one begins. They may
// end in any order.
void begin_runtime(std::shared_ptr<RuntimeCore> core);
void end_runtime(const std::shared_ptr<RuntimeCore>& core) noexcept;

// A Runtime whose drivers are wrapped and whose host memory can be refused: tests inject faults with it.
std::unique_ptr<Runtime> make_runtime(RuntimeOptions options, const DriverDecorator& decorate,
                                      HostAllocatorOptions host_memory = {});

}  // namespace ferry
