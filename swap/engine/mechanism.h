// What the engine asks of the device, its allocator and the dispatcher. All work goes in the order of the device's
// compute stream, except copies.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "src/memory/caching_allocator.h"
#include "swap/engine/value.h"

namespace ferry::swap {

class Mechanism {
 public:
  virtual ~Mechanism() = default;
  // Starts a copy of the device's replica to a new one in pinned host memory, after all compute work so far. False:
  // there is no host memory for it; nothing has changed. Throws: DeviceError.
  virtual bool copy_out(ferry::Storage& storage) = 0;
  // Host memory for copies that will be made (a positive size) and given up (its negative) in this order, so that
  // copy_out has it at once. Best effort: where memory is short, some is missing.
  virtual void prepare_host(std::span<const std::int64_t> copies) noexcept = 0;
  // Gives the device's replica back; its memory is reused after the copy out that is under way, if any, and not after
  // those that were started later. Throws: DeviceError, and then nothing has changed.
  virtual void give_back(ferry::Storage& storage) = 0;
  // Moves the host's replica to a file, which returns where; kNowhere: there is no file, nothing has changed. Waits for
  // the copy that fills the replica. Throws: InvalidArgument, DeviceError.
  virtual SpillFile::Offset spill(ferry::Storage& storage) = 0;
  // Makes a host replica of what is there. Throws: OutOfMemory, InvalidArgument.
  virtual void unspill(ferry::Storage& storage, SpillFile::Offset from) = 0;
  virtual void discard(SpillFile::Offset from, Bytes size) noexcept = 0;
  // Starts a copy of the host's replica to a new one on the device, which compute work after it waits for.
  // Throws: OutOfMemory, DeviceError.
  virtual void bring_in(ferry::Storage& storage) = 0;
  // Runs the call on these inputs (null: only shape and type are read). Results are new storages, null where the call
  // has none. Throws: what the call throws.
  virtual std::vector<std::shared_ptr<ferry::Storage>> run_again(const Producer& producer,
                                                                 std::span<ferry::Storage* const> inputs) = 0;
  // As CachingAllocator::cheapest_room.
  virtual std::optional<std::vector<void*>> cheapest_room(Bytes size,
                                                          const std::function<double(void*)>& cost) const = 0;
  // As CachingAllocator::compact. owner(address): whose bytes lie there and may move, null for those that stay. The
  // storage's replica on the device has the new address after it.
  virtual std::optional<Bytes> compact(Bytes size, const std::function<ferry::Storage*(void*)>& owner,
                                       bool is_last_resort) = 0;
  // As CachingAllocator::raise_small_segments, with owners as in compact.
  virtual Bytes raise_small_segments(const std::function<ferry::Storage*(void*)>& owner) = 0;
  // Copies the device's replica to that address of the arena; null: to wherever the allocator has room for it, without
  // asking for more. False: it is not free, or there is none, and nothing has changed. Requires: a
  // replica whose address nobody uses. Throws: DeviceError, and then nothing has changed.
  virtual bool move(ferry::Storage& storage, void* address) = 0;
  // As CachingAllocator::arena.
  virtual CachingAllocator::Arena arena() const = 0;
  // Memory of the budget that no block takes, and that blocks take.
  virtual Bytes free_bytes() const = 0;
  virtual Bytes allocated() const = 0;
};

}  // namespace ferry::swap
