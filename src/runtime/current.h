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

// A Runtime whose drivers are wrapped and whose host memory can be refused: tests inject faults with it.
std::unique_ptr<Runtime> make_runtime(RuntimeOptions options, const DriverDecorator& decorate,
                                      HostAllocatorOptions host_memory = {});

}  // namespace ferry
