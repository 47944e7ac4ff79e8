// Storage: where the bytes of tensors live. A set of replicas, each in one device's memory, each valid or not; writing
// one makes the others invalid. Views share a Storage.
//
// Thread-safety: several threads may read tensors of one storage, which may add replicas: take mutex() unless
// settled_on() answers. Writing needs outside synchronisation. References to replicas stay valid until a write.
#pragma once

#include <atomic>
#include <forward_list>
#include <memory>
#include <mutex>

#include <ferry/device.h>
#include <ferry/units.h>
#include "src/memory/allocator.h"

namespace ferry {

// Keeps the allocators and drivers that replicas came from alive, and takes replicas back.
class StorageOwner {
 public:
  virtual ~StorageOwner() = default;
  virtual void retire(struct Replica& replica) noexcept = 0;
};

// What a memory budget keeps beside a storage (swap/).
class StorageWatch {
 public:
  virtual ~StorageWatch() = default;
  // The storage dies after this; its replicas may be taken (Storage::exchange_replicas).
  virtual void released(class Storage& dying) noexcept = 0;
};

// One copy of a storage's bytes.
struct Replica {
  Device device;
  bool valid = false;
  bool pinned = false;  // host memory from the pinned pool of `event_device`
  Allocation allocation;
  // The copy that fills the replica, while nothing has waited for it: an event of `event_device`'s driver.
  EventId pending;
  Device event_device;
};

class Storage {
 public:
  Storage(Bytes size, std::shared_ptr<StorageOwner> owner) : size_(size), owner_(std::move(owner)) {}
  ~Storage() {
    if (watch_ != nullptr) watch_->released(*this);
    for_each([&](Replica& replica) { owner_->retire(replica); });
  }
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  Bytes size() const { return size_; }
  const std::shared_ptr<StorageOwner>& owner() const { return owner_; }

  // The replica on a device; null when there is none.
  Replica* find(Device device) {
    if (first_.allocation.data != nullptr && first_.device == device) return &first_;
    for (Replica& replica : others_) {
      if (replica.device == device) return &replica;
    }
    return nullptr;
  }
  // Any valid replica, the one made first if there is a choice; null when the storage is empty.
  Replica* find_valid() {
    if (first_.valid) return &first_;
    for (Replica& replica : others_) {
      if (replica.valid) return &replica;
    }
    return nullptr;
  }
  Replica& add(const Replica& replica) {
    if (first_.allocation.data == nullptr) {
      first_ = replica;
      settled_.store(replica.pending.value < 0, std::memory_order_release);
      return first_;
    }
    others_.push_front(replica);
    return others_.front();
  }
  // The replica made first, when it is on `device` and nothing has to wait for it; else null. Needs no lock.
  Replica* settled_on(Device device) {
    return first_.device == device && settled_.load(std::memory_order_acquire) ? &first_ : nullptr;
  }
  // Nothing has to wait for `replica` any more. Requires: mutex() held.
  void mark_settled(Replica& replica) {
    replica.pending = {};
    if (&replica == &first_) settled_.store(true, std::memory_order_release);
  }
  // A copy that reads the device's replica may still be under way: a write has to come after it.
  bool is_being_copied() const { return is_being_copied_; }
  void set_being_copied(bool value) { is_being_copied_ = value; }
  std::mutex& mutex() { return mutex_; }
  // Called after a write to `written`: every other replica holds old bytes and is returned.
  void invalidate_others(const Replica& written);
  // Returns the replica on `device`, if there is one. References to replicas are invalid after it.
  void remove(Device device) noexcept;
  // Requires: equal sizes; nobody else uses either.
  void exchange_replicas(Storage& other) noexcept;

  StorageWatch* watch() const { return watch_.get(); }
  const std::shared_ptr<StorageWatch>& shared_watch() const { return watch_; }
  void set_watch(std::shared_ptr<StorageWatch> watch) { watch_ = std::move(watch); }
  std::shared_ptr<StorageWatch> take_watch() { return std::move(watch_); }

  // Raised by every in-place write; a saved tensor compares it.
  std::uint32_t version() const { return version_; }
  void bump_version() { ++version_; }

 private:
  template <class F>
  void for_each(F&& f) {
    if (first_.allocation.data != nullptr) f(first_);
    for (Replica& replica : others_) f(replica);
  }

  Bytes size_;
  std::uint32_t version_ = 0;
  bool is_being_copied_ = false;
  std::shared_ptr<StorageOwner> owner_;
  std::mutex mutex_;
  std::atomic<bool> settled_{false};
  Replica first_;
  std::forward_list<Replica> others_;
  std::shared_ptr<StorageWatch> watch_;
};

}  // namespace ferry
