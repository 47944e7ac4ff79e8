#include "src/memory/staging_ring.h"

#include <utility>

#include "src/base/check.h"

namespace ferry {
namespace {

constexpr Bytes kAlignment{64};

Bytes aligned(Bytes size) { return {(size.count + kAlignment.count - 1) / kAlignment.count * kAlignment.count}; }

}  // namespace

StagingRing::Block::Block(Block&& other) noexcept
    : ring_(std::exchange(other.ring_, nullptr)),
      slab_(other.slab_),
      own_(other.own_),
      data_(other.data_),
      size_(other.size_) {}

StagingRing::Block& StagingRing::Block::operator=(Block&& other) noexcept {
  std::swap(ring_, other.ring_);
  std::swap(slab_, other.slab_);
  std::swap(own_, other.own_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

StagingRing::Block::~Block() {
  if (ring_ != nullptr) ring_->release(*this);
}

void StagingRing::Block::used_by(StreamId stream) {
  if (slab_ == nullptr) return ring_->pool_.record_use(own_, stream);
  const std::lock_guard lock(ring_->mutex_);
  ring_->uses_.record_use(*slab_, stream);
}

StagingRing::StagingRing(Driver& driver, PinnedPool& pool, StagingRingOptions options)
    : pool_(pool), options_(options), uses_(driver) {
  FERRY_CHECK(options.slab > Bytes{} && options.slabs > 0, InvalidArgument, "a staging ring of {} slabs of {} bytes",
              options.slabs, options.slab.count);
}

StagingRing::~StagingRing() {
  leave_current();
  while (!uses_.idle()) {
    try {
      uses_.wait();
    } catch (...) {
      break;  // the device failed: no copy runs any more
    }
  }
  for (const auto& slab : slabs_) pool_.deallocate(slab->memory);
}

Bytes StagingRing::held() {
  const std::lock_guard lock(mutex_);
  return options_.slab * static_cast<std::int64_t>(slabs_.size());
}

StagingRing::Block StagingRing::acquire(Bytes size) {
  FERRY_CHECK(size >= Bytes{}, InvalidArgument, "cannot stage {} bytes", size.count);
  if (size <= options_.slab) {
    const std::lock_guard lock(mutex_);
    if (current_ == nullptr || current_->used + size > current_->memory.size) {
      Slab* next = next_slab();
      if (next != nullptr) current_ = next;
    }
    if (current_ != nullptr && current_->used + size <= current_->memory.size) {
      std::byte* data = current_->data + current_->used.count;
      current_->used += aligned(size);
      ++current_->open;
      return {*this, current_, {}, data, size};
    }
  }
  const Allocation own = pool_.allocate(size);
  return {*this, nullptr, own, static_cast<std::byte*>(own.data), size};
}

StagingRing::Slab* StagingRing::next_slab() {
  leave_current();
  collect(uses_.poll());
  if (Slab* slab = take_ready()) return slab;
  if (static_cast<int>(slabs_.size()) < options_.slabs) {
    try {
      return add_slab();
    } catch (const OutOfMemory&) {
      if (uses_.idle()) throw;  // a smaller ring still works
    }
  }
  collect(uses_.wait_one());
  return take_ready();
}

StagingRing::Slab* StagingRing::add_slab() {
  auto slab = std::make_unique<Slab>();
  slabs_.reserve(slabs_.size() + 1);
  slab->memory = pool_.allocate(options_.slab);
  slab->data = static_cast<std::byte*>(slab->memory.data);
  slab->stream = memory::kHostStream;
  return slabs_.emplace_back(std::move(slab)).get();
}

void StagingRing::leave_current() noexcept {
  Slab* slab = std::exchange(current_, nullptr);
  if (slab != nullptr && slab->open == 0) retire(*slab);
}

void StagingRing::retire(Slab& slab) noexcept {
  if (!uses_.retire(slab)) return;
  slab.next = std::exchange(ready_, &slab);
}

void StagingRing::collect(memory::Block* ready) noexcept {
  while (ready != nullptr) {
    memory::Block* slab = std::exchange(ready, ready->next);
    slab->next = std::exchange(ready_, slab);
  }
}

StagingRing::Slab* StagingRing::take_ready() noexcept {
  if (ready_ == nullptr) return nullptr;
  auto* slab = static_cast<Slab*>(std::exchange(ready_, ready_->next));
  slab->used = {};
  return slab;
}

void StagingRing::release(Block& block) noexcept {
  if (block.slab_ == nullptr) return pool_.deallocate(block.own_);
  const std::lock_guard lock(mutex_);
  if (--block.slab_->open == 0 && block.slab_ != current_) retire(*block.slab_);
}

}  // namespace ferry
