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

// Compute work after this may write the storage's replica on `device`: copies of it to the host come first.
void order_write_after_copies(RuntimeCore& core, Storage& storage, Device device);
// The same for a move of the replica on the GPU, also after the copy that fills it; it waits for no later copies of
// other storages if it need not.
void order_move_after_copies(RuntimeCore& core, Storage& storage, DeviceContext& gpu);

// Starts the copy of a storage from a device to pinned host memory, after all that its compute stream has now. False:
// there is no such memory left; nothing has changed. Requires: a replica there, none in host memory. Throws:
// DeviceError.
bool start_copy_out(RuntimeCore& core, Storage& storage, DeviceContext& gpu);
// Starts the copy back, which the compute stream waits for at the replica's first use. Memory that compute work used
// before is written after that work. Requires: a replica in pinned memory of the device, none on it.
// Throws: OutOfMemory, DeviceError.
void start_copy_in(RuntimeCore& core, Storage& storage, DeviceContext& gpu);

// A storage with one valid, uninitialised replica; `place`: as CachingAllocator::allocate_at. Throws: OutOfMemory.
std::shared_ptr<Storage> allocate_storage(RuntimeCore& core, Bytes size, DeviceContext& context, void* place = nullptr);

}  // namespace ferry
