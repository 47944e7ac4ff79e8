#include "src/runtime/residency.h"

#include <algorithm>

#include "src/device/peer_copies.h"
#include "src/memory/caching_allocator.h"
#include "src/runtime/budget.h"
#include "src/runtime/copy_report.h"

namespace ferry {
namespace {

// Makes the replica safe to use: a GPU's compute stream waits for the copy in flight, on the CPU the calling thread
// does.
void wait_for_copy(RuntimeCore& core, const Replica& replica) {
  if (replica.pending.value < 0) return;
  DeviceContext& context = core.context(replica.event_device);
  if (replica.device.is_cpu()) {
    context.driver->synchronize_event(replica.pending);
  } else {
    context.driver->wait_event(context.compute, replica.pending);
    // Later copies on that stream are none of this block's.
    if (core.budget() != nullptr) context.device_memory->end_use(replica.allocation, context.host_to_device);
  }
  context.give_back(replica.pending);
}

void settle(RuntimeCore& core, Storage& storage, Replica& replica) {
  wait_for_copy(core, replica);
  storage.mark_settled(replica);
}

// Later work on `stream` starts after what is on the compute stream now.
void order_after_compute(DeviceContext& context, StreamId stream) {
  const EventId event = context.take_event();
  context.driver->record_event(event, context.compute);
  context.driver->wait_event(stream, event);
  context.give_back(event);
}

// Returns an allocation to its allocator unless the replica took it over.
class AllocationGuard {
 public:
  AllocationGuard(Allocator& allocator, Bytes size, StreamId stream)
      : allocator_(allocator), allocation_(allocator.allocate(size, stream)) {}
  AllocationGuard(CachingAllocator& allocator, void* place, Bytes size, StreamId stream)
      : allocator_(allocator), allocation_(allocator.allocate_at(place, size, stream)) {}
  AllocationGuard(CachingAllocator& allocator, const Allocation& allocation)
      : allocator_(allocator), allocation_(allocation) {}
  ~AllocationGuard() {
    if (owned_) allocator_.deallocate(allocation_);
  }
  AllocationGuard(const AllocationGuard&) = delete;
  AllocationGuard& operator=(const AllocationGuard&) = delete;
  const Allocation& get() const { return allocation_; }
  Allocation release() {
    owned_ = false;
    return allocation_;
  }

 private:
  Allocator& allocator_;
  Allocation allocation_;
  bool owned_ = true;
};

// One move of a storage between the host and a GPU.
class Mover {
 public:
  // The new replica is added to `target`.
  Mover(RuntimeCore& core, const TensorImpl& tensor, Storage& target, DeviceContext& gpu, const CopyReason& reason)
      : core_(core), from_(*tensor.storage), storage_(target), gpu_(gpu), report_(core, tensor, reason) {}

  // Through pinned memory; `waits` tells whether the caller needs the bytes now.
  Replica& to_host_async(Replica& source, bool waits, bool counts_as_synchronous) {
    AllocationGuard memory(*gpu_.pinned, storage_.size(), {});
    Replica result{cpu::device, true, true, memory.get(), gpu_.take_event(), gpu_.device};
    try {
      order_after_compute(gpu_, gpu_.device_to_host);
      gpu_.pinned->record_use(memory.get(), gpu_.device_to_host);
      gpu_.allocator->record_use(source.allocation, gpu_.device_to_host);
      enqueue(memory.get().data, source.allocation.data, CopyDirection::device_to_host, HostMemory::pinned,
              gpu_.device_to_host);
      gpu_.driver->record_event(result.pending, gpu_.device_to_host);
      if (core_.budget() != nullptr) gpu_.device_memory->close_use(source.allocation, gpu_.device_to_host);
      if (waits) {
        wait_for_copy(core_, result);
        result.pending = {};
      } else {
        from_.set_being_copied(true);
      }
    } catch (...) {
      if (result.pending.value >= 0) gpu_.give_back(result.pending);
      throw;
    }
    report_.finish({gpu_.device, trace::Memory::device}, {cpu::device, trace::Memory::pinned}, counts_as_synchronous);
    memory.release();
    return storage_.add(result);
  }

  // Drains the compute stream, copies to pageable memory and waits.
  Replica& to_host_synchronous(Replica& source) {
    AllocationGuard memory(*core_.cpu().allocator, storage_.size(), {});
    gpu_.driver->synchronize_stream(gpu_.compute);
    enqueue(memory.get().data, source.allocation.data, CopyDirection::device_to_host, HostMemory::pageable,
            gpu_.compute);
    gpu_.driver->synchronize_stream(gpu_.compute);
    report_.finish({gpu_.device, trace::Memory::device}, {cpu::device, trace::Memory::pageable}, true);
    return storage_.add({cpu::device, true, false, memory.release(), {}, {}});
  }

  // Through the staging ring on the copy stream; the compute stream waits for it when the replica is first used.
  Replica& to_device_staged(Replica& source) {
    settle(core_, from_, source);
    AllocationGuard memory(*gpu_.device_memory, arrival());
    gpu_.allocator->record_use(memory.get(), gpu_.compute);
    Replica result{gpu_.device, true, false, memory.get(), gpu_.take_event(), gpu_.device};
    try {
      copy_from_pinned(source, memory.get().data);
      gpu_.driver->record_event(result.pending, gpu_.host_to_device);
    } catch (...) {
      gpu_.give_back(result.pending);
      throw;
    }
    report_.finish({cpu::device, source.pinned ? trace::Memory::pinned : trace::Memory::pageable},
                   {gpu_.device, trace::Memory::device}, false);
    memory.release();
    return storage_.add(result);
  }

  // From pinned memory that may still be filled, which the device waits for and not the host, into memory of the
  // compute stream.
  Replica& to_device_after_compute(Replica& source) {
    AllocationGuard memory(*gpu_.device_memory, planned_place(), storage_.size(), gpu_.compute);
    Replica result{gpu_.device, true, false, memory.get(), gpu_.take_event(), gpu_.device};
    try {
      gpu_.allocator->record_use(memory.get(), gpu_.host_to_device);
      order_after_compute(gpu_, gpu_.host_to_device);
      if (source.pending.value >= 0) gpu_.driver->wait_event(gpu_.host_to_device, source.pending);
      copy_from_pinned(source, memory.get().data);
      gpu_.driver->record_event(result.pending, gpu_.host_to_device);
    } catch (...) {
      gpu_.give_back(result.pending);
      throw;
    }
    report_.finish({cpu::device, trace::Memory::pinned}, {gpu_.device, trace::Memory::device}, false);
    memory.release();
    return storage_.add(result);
  }

  // From another GPU that this one reaches. Neither the host nor the other GPU's compute stream waits.
  Replica& to_device_from_peer(Replica& source, DeviceContext& other, PeerCopies& here, PeerCopies& there) {
    settle(core_, from_, source);
    AllocationGuard memory(*gpu_.allocator, storage_.size(), gpu_.host_to_device);
    gpu_.allocator->record_use(memory.get(), gpu_.compute);
    Replica result{gpu_.device, true, false, memory.get(), gpu_.take_event(), gpu_.device};
    try {
      here.wait_for(gpu_.host_to_device, *other.driver, other.compute);
      other.allocator->record_use(source.allocation, other.device_to_host);
      enqueue(memory.get().data, source.allocation.data, CopyDirection::device_to_device, HostMemory::pinned,
              gpu_.host_to_device);
      gpu_.driver->record_event(result.pending, gpu_.host_to_device);
      // What waits for the other's copies out, as writes to the source and its reuse do, waits for this one.
      there.wait_for(other.device_to_host, *gpu_.driver, gpu_.host_to_device);
      from_.set_being_copied(true);
    } catch (...) {
      gpu_.give_back(result.pending);
      throw;
    }
    report_.finish({other.device, trace::Memory::device}, {gpu_.device, trace::Memory::device}, false);
    memory.release();
    return storage_.add(result);
  }

  Replica& to_device_synchronous(Replica& source) {
    settle(core_, from_, source);
    AllocationGuard memory(*gpu_.allocator, storage_.size(), gpu_.compute);
    gpu_.driver->synchronize_stream(gpu_.compute);
    enqueue(memory.get().data, source.allocation.data, CopyDirection::host_to_device, HostMemory::pageable,
            gpu_.compute);
    gpu_.driver->synchronize_stream(gpu_.compute);
    report_.finish({cpu::device, source.pinned ? trace::Memory::pinned : trace::Memory::pageable},
                   {gpu_.device, trace::Memory::device}, true);
    return storage_.add({gpu_.device, true, false, memory.release(), {}, {}});
  }

 private:
  // Memory for a copy in: a plan moves what arrives to its place before it is used, and it may arrive early elsewhere.
  Allocation arrival() {
    void* const place = planned_place();
    Budget* const budget = core_.budget();
    const bool moves = budget != nullptr && budget->device() == gpu_.device && budget->engine().places_arrivals();
    return moves ? gpu_.device_memory->allocate_early(place, storage_.size(), gpu_.host_to_device)
                 : gpu_.device_memory->allocate_at(place, storage_.size(), gpu_.host_to_device);
  }

  // Null: anywhere.
  void* planned_place() {
    Budget* const budget = core_.budget();
    return budget != nullptr && budget->device() == gpu_.device ? budget->engine().copy_place(storage_) : nullptr;
  }

  void enqueue(void* destination, const void* source, CopyDirection direction, HostMemory host, StreamId stream) {
    gpu_.driver->copy({destination, source, storage_.size(), direction, host, report_.label(), report_.correlation()},
                      stream);
  }

  void copy_from_pinned(const Replica& source, void* destination) {
    if (source.pinned && source.event_device == gpu_.device) {
      gpu_.pinned->record_use(source.allocation, gpu_.host_to_device);
      enqueue(destination, source.allocation.data, CopyDirection::host_to_device, HostMemory::pinned,
              gpu_.host_to_device);
      return;
    }
    // In pieces, so that the link works while the next piece is staged and the ring's memory is enough for any size.
    auto* to = static_cast<std::byte*>(destination);
    auto* from = static_cast<const std::byte*>(source.allocation.data);
    for (Bytes done; done < storage_.size();) {
      const Bytes piece = std::min(storage_.size() - done, gpu_.staging->slab_size());
      stage(to + done.count, from + done.count, piece);
      done += piece;
    }
  }

  void stage(std::byte* destination, const std::byte* source, Bytes size) {
    StagingRing::Block block = gpu_.staging->acquire(size);
    core_.cpu().driver->copy(
        {block.data(), source, size, CopyDirection::host_to_host, HostMemory::pageable, report_.label()}, {});
    block.used_by(gpu_.host_to_device);
    gpu_.driver->copy({destination, block.data(), size, CopyDirection::host_to_device, HostMemory::pinned,
                       report_.label(), report_.correlation()},
                      gpu_.host_to_device);
  }

  RuntimeCore& core_;
  Storage& from_;
  Storage& storage_;
  DeviceContext& gpu_;
  CopyReport report_;
};

bool copies_synchronously(const RuntimeCore& core, const CopyReason& reason) {
  return core.options().copy_mode == CopyMode::synchronous && reason.cause == trace::CopyCause::implicit;
}

Replica& copy_to_host(RuntimeCore& core, const TensorImpl& tensor, Replica& source, const CopyReason& reason) {
  DeviceContext& gpu = core.context(source.device);
  settle(core, *tensor.storage, source);
  Mover mover(core, tensor, *tensor.storage, gpu, reason);
  if (copies_synchronously(core, reason)) return mover.to_host_synchronous(source);
  return mover.to_host_async(source, true, reason.cause == trace::CopyCause::implicit);
}

Replica& copy_to_device(RuntimeCore& core, const TensorImpl& tensor, Replica& source, Device target,
                        const CopyReason& reason) {
  Mover mover(core, tensor, *tensor.storage, core.context(target), reason);
  return copies_synchronously(core, reason) ? mover.to_device_synchronous(source) : mover.to_device_staged(source);
}

// A copy between two GPUs without a stop in host memory; null where their drivers cannot do that, and where copies are
// synchronous as those to the host are.
Replica* copy_from_peer(RuntimeCore& core, const TensorImpl& tensor, Storage& target_storage, Replica& source,
                        Device target, const CopyReason& reason) {
  if (!source.device.is_gpu() || !target.is_gpu() || copies_synchronously(core, reason)) return nullptr;
  DeviceContext &gpu = core.context(target), &other = core.context(source.device);
  auto* const here = dynamic_cast<PeerCopies*>(gpu.driver.get());
  auto* const there = dynamic_cast<PeerCopies*>(other.driver.get());
  if (here == nullptr || there == nullptr || !here->reaches(*other.driver) || !there->reaches(*gpu.driver)) {
    return nullptr;
  }
  return &Mover(core, tensor, target_storage, gpu, reason).to_device_from_peer(source, other, *here, *there);
}

// An empty storage has no bytes to move; any device may use it.
Replica& empty_replica(Storage& storage, Device target) {
  static thread_local Replica empty;
  empty = {target, true, false, {nullptr, storage.size(), nullptr}, {}, {}};
  return empty;
}

// What the copies of swapping tell the recorder and the log: a storage has no name of its own.
TensorImpl bytes_of(Storage& storage) {
  TensorImpl bytes(Shape{storage.size().count}, Strides{1}, DType::u8, storage.find_valid()->device);
  bytes.producer = "storage";
  bytes.storage = std::shared_ptr<Storage>(std::shared_ptr<void>(), &storage);
  return bytes;
}

}  // namespace

void order_write_after_copies(RuntimeCore& core, Storage& storage, Device device) {
  if (!storage.is_being_copied()) return;
  DeviceContext& gpu = core.context(device);
  const EventId event = gpu.take_event();
  gpu.driver->record_event(event, gpu.device_to_host);
  gpu.driver->wait_event(gpu.compute, event);
  gpu.give_back(event);
  storage.set_being_copied(false);
}

void order_move_after_copies(RuntimeCore& core, Storage& storage, DeviceContext& gpu) {
  // It stays pending, for the allocator, which ends the copy's use of the memory, may be in the midst of a compaction.
  if (const Replica& here = *storage.find(gpu.device); here.pending.value >= 0)
    gpu.driver->wait_event(gpu.compute, here.pending);
  if (!storage.is_being_copied()) return;
  const Replica* const host = storage.find(cpu::device);
  // The host's replica was filled by the last of the copies; those of others came before.
  if (host == nullptr || host->event_device != gpu.device) return order_write_after_copies(core, storage, gpu.device);
  if (host->pending.value >= 0) gpu.driver->wait_event(gpu.compute, host->pending);
  storage.set_being_copied(false);
}

bool start_copy_out(RuntimeCore& core, Storage& storage, DeviceContext& gpu) {
  const std::lock_guard lock(storage.mutex());
  const TensorImpl bytes = bytes_of(storage);
  const CopyReason reason{"swap_out", {}, trace::CopyCause::swap};
  Replica& source = *storage.find(gpu.device);
  settle(core, storage, source);
  try {
    Mover(core, bytes, storage, gpu, reason).to_host_async(source, false, false);
  } catch (const OutOfMemory&) {
    return false;
  }
  return true;
}

void start_copy_in(RuntimeCore& core, Storage& storage, DeviceContext& gpu) {
  const std::lock_guard lock(storage.mutex());
  const TensorImpl bytes = bytes_of(storage);
  const CopyReason reason{"swap_in", {}, trace::CopyCause::swap};
  Replica& source = *storage.find(cpu::device);
  Mover mover(core, bytes, storage, gpu, reason);
  if (source.pinned && source.event_device == gpu.device) {
    mover.to_device_after_compute(source);
  } else {
    mover.to_device_staged(source);
  }
}

Replica& bring(RuntimeCore& core, const TensorImpl& tensor, Device target, const CopyReason& reason) {
  Storage& storage = *tensor.storage;
  if (Budget* const budget = core.budget()) [[unlikely]] {
    target == budget->device() ? budget->engine().use(storage) : budget->engine().use_anywhere(storage);
  }
  if (Replica* settled = storage.settled_on(target)) return *settled;
  const std::lock_guard lock(storage.mutex());
  if (Replica* present = storage.find(target)) {
    settle(core, storage, *present);
    return *present;
  }
  if (storage.size().count == 0) return empty_replica(storage, target);
  // The host's replica where there is one: that of another GPU may be given back by a budget once the copy to the host
  // has read it, whatever else still does.
  Replica* const host = storage.find(cpu::device);
  Replica* source = host != nullptr ? host : storage.find_valid();
  if (Replica* const copied = copy_from_peer(core, tensor, storage, *source, target, reason)) {
    settle(core, storage, *copied);
    return *copied;
  }
  if (source->device.is_gpu()) {
    source = &copy_to_host(core, tensor, *source, reason);
    if (target.is_cpu()) return *source;
  }
  Replica& copied = copy_to_device(core, tensor, *source, target, reason);
  settle(core, storage, copied);
  if (Budget* const budget = core.budget(); budget != nullptr && budget->device() == target)
    budget->engine().arrived(storage);
  return copied;
}

std::shared_ptr<Storage> transfer(RuntimeCore& core, const TensorImpl& tensor, Device target,
                                  const CopyReason& reason) {
  Storage& from = *tensor.storage;
  auto result = make_cell<Storage>(from.size(), core.shared_from_this());
  if (from.size().count == 0) return result;
  const ResidencyScope scope(core);
  Budget* const budget = core.budget();
  if (budget != nullptr) budget->engine().use_anywhere(from);
  const std::lock_guard lock(from.mutex());
  if (target.is_gpu()) {
    Replica* host = from.find(cpu::device);
    if (host == nullptr && copy_from_peer(core, tensor, *result, *from.find_valid(), target, reason) != nullptr) {
      if (budget != nullptr && target == budget->device()) budget->engine().made(*result);
      return result;
    }
    if (host == nullptr) host = &copy_to_host(core, tensor, *from.find_valid(), reason);
    Mover(core, tensor, *result, core.context(target), reason).to_device_staged(*host);
    if (budget != nullptr && target == budget->device()) budget->engine().made(*result);
    return result;
  }
  Replica* host = from.find(cpu::device);
  Replica& source = host != nullptr ? *host : *from.find_valid();
  if (source.device.is_gpu()) {
    settle(core, from, source);
    Mover(core, tensor, *result, core.context(source.device), reason).to_host_async(source, false, false);
    return result;
  }
  const Allocation memory = core.cpu().allocator->allocate(from.size(), {});
  result->add({cpu::device, true, false, memory, {}, {}});
  settle(core, from, source);
  core.cpu().driver->copy(
      {memory.data, source.allocation.data, from.size(), CopyDirection::host_to_host, HostMemory::pageable, reason.op},
      {});
  return result;
}

std::shared_ptr<Storage> allocate_storage(RuntimeCore& core, Bytes size, DeviceContext& context, void* place) {
  auto storage = make_cell<Storage>(size, core.shared_from_this());
  if (size.count > 0) {
    const Allocation memory = place == nullptr ? context.allocator->allocate(size, context.compute)
                                               : context.device_memory->allocate_at(place, size, context.compute);
    storage->add({context.device, true, false, memory, {}, {}});
  }
  return storage;
}

}  // namespace ferry
