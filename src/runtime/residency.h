// Brings the bytes of tensors to the device that needs them. Nothing is moved twice: a copy stays valid until the
// tensor is written elsewhere.
#pragma once

#include <source_location>
#include <string_view>

#include "src/runtime/runtime_core.h"
#include "src/tensor/tensor_impl.h"

namespace ferry {

// Why bytes move, for the report and the log.
struct CopyReason {
  std::string_view op;  // static storage; "fetch" and "to" for the program's own requests
  std::source_location where;
  trace::CopyCause cause = trace::CopyCause::implicit;
  trace::PlacementCause placement = trace::PlacementCause::default_device;
};

// The tensor's bytes on `target`, ready for work on its compute stream (a GPU) or for the calling thread (the CPU).
// Throws: OutOfMemory, DeviceError, and what queued work raised.
Replica& bring(RuntimeCore& core, const TensorImpl& tensor, Device target, const CopyReason& reason);

// New memory on `target`, another device than the tensor's, with a copy of the whole storage. Does not wait.
std::shared_ptr<Storage> transfer(RuntimeCore& core, const TensorImpl& tensor, Device target, const CopyReason& reason);

// A storage with one valid, uninitialised replica. Throws: OutOfMemory.
std::shared_ptr<Storage> allocate_storage(RuntimeCore& core, Bytes size, DeviceContext& context);

}  // namespace ferry
